"""Messages of the protocol: JSON after a header with its length."""

from __future__ import annotations

import json
import threading
from typing import Any, BinaryIO

from ptosim.views import text as json_text

Message = dict[str, Any]

MOST_BYTES = 1 << 26
"""Of one message."""
_MOST_LINE = 1 << 12
_PIECE = 1 << 16


class BrokenMessage(Exception):
    """Bytes that are no message; the stream goes on after them."""


class Pieces:
    """A stream that is read as its bytes come, without a lock: a thread that waits in it does not
    keep the process from ending, as one in `sys.stdin.buffer` does."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._held = bytearray()

    def _more(self) -> bool:
        piece = self._raw.read(_PIECE)
        self._held += piece or b""
        return bool(piece)

    def readline(self, most: int) -> bytes:
        """Return bytes up to the end of the line, at most so many; what is left at the end of the
        stream, at last nothing."""
        while (end := self._held.find(b"\n", 0, most)) < 0 and len(self._held) < most:
            if not self._more():
                break
        return self.read(min(end + 1 or most, len(self._held)))

    def read(self, count: int) -> bytes:
        """Return so many bytes, fewer at the end of the stream."""
        while len(self._held) < count and self._more():
            pass
        data = bytes(self._held[:count])
        del self._held[:count]
        return data


def read_message(stream: BinaryIO | Pieces) -> Message | None:
    """Return the next message, None at the end of the stream. Raises BrokenMessage for what is no
    message, or too long."""
    body = read_body(stream)
    return None if body is None else parsed(body)


def read_body(stream: BinaryIO | Pieces) -> bytes | None:
    """Return the bytes of the next message, None at the end of the stream. Raises BrokenMessage for
    a length that none has."""
    length = None
    while True:
        line = stream.readline(_MOST_LINE)
        if not line:
            return None
        text = line.strip()
        if not text:
            if length is None:
                continue
            break
        name, _, value = text.partition(b":")
        if name.strip().lower() == b"content-length":
            length = _length(value.strip())
    body = stream.read(length)
    return body if len(body) == length else None


def _length(text: bytes) -> int:
    if not text.isdigit() or len(text) > 18 or int(text) > MOST_BYTES:
        shown = text[:20].decode("ascii", "replace")
        raise BrokenMessage(f"the length of a message is {shown}; it is at most {MOST_BYTES}")
    return int(text)


def parsed(body: bytes) -> Message:
    """Return the message that bytes are. Raises BrokenMessage."""
    try:
        message = json.loads(body.decode("utf-8"))
    except ValueError as problem:
        raise BrokenMessage(f"a message is no JSON: {problem}") from None
    except RecursionError:
        raise BrokenMessage("a message has brackets nested too deeply") from None
    if not isinstance(message, dict):
        raise BrokenMessage("a message is no JSON object")
    return message


class MessageWriter:
    """Sends messages with rising numbers; may be used from several threads."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._next = 1

    def send(self, message: Message) -> None:
        """Send a message."""
        with self._lock:
            numbered = {"seq": self._next, **message}
            self._next += 1
            body = json_text.line(numbered).encode("utf-8", "replace")
            self._stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            self._stream.flush()

    def event(self, name: str, **body: Any) -> None:
        """Send an event."""
        self.send({"type": "event", "event": name, "body": body})
