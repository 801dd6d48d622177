"""What an editor sends, as pygls reads it: only messages that are some.

pygls believes every header; a length beyond all memory would end the server, and so would one of
more digits than Python reads."""

from __future__ import annotations

import logging
import os
import sys
from typing import BinaryIO

from ptosim.debug.dap.wire import BrokenMessage, Pieces, parsed, read_body

_LONGEST = 400
"""Characters of a line of the log."""


class Messages:
    """A stream of messages; those that are broken are left out, with a line on standard error."""

    def __init__(self, raw: BinaryIO) -> None:
        self._from_editor = Pieces(raw)
        self._held = b""

    def readline(self) -> bytes:
        """Return the next line of a header, nothing at the end of the stream."""
        self._held = self._held or self._next()
        return self.read(self._held.find(b"\n") + 1)

    def read(self, count: int) -> bytes:
        """Return bytes of the message."""
        data, self._held = self._held[:count], self._held[count:]
        return data

    def _next(self) -> bytes:
        while True:
            try:
                body = read_body(self._from_editor)
                if body is None:
                    return b""
                parsed(body)
            except BrokenMessage as problem:
                told(str(problem))
                continue
            return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def told(text: str) -> None:
    """Tell whoever reads the server's log, in a line: what follows may be a whole traceback."""
    line = text.strip().partition("\n")[0]
    sys.stderr.write(f"ptosim lsp: {line:.{_LONGEST}}\n")


class _Lines(logging.Handler):
    """The log of pygls in lines: what an editor asks wrongly has an answer, and needs no traceback
    beside it."""

    def emit(self, record: logging.LogRecord) -> None:
        problem = record.exc_info[1] if record.exc_info else None
        told(": ".join(map(str, filter(None, (record.getMessage(), problem)))))


def log_in_lines() -> None:
    """Let pygls log in lines, unless somebody wants tracebacks."""
    if os.environ.get("PTOSIM_TRACEBACK"):
        return
    log = logging.getLogger("pygls")
    log.addHandler(_Lines(logging.WARNING))
    log.propagate = False
