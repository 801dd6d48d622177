"""Messages of the protocol: JSON after a header with its length."""

from __future__ import annotations

import json
import threading
from typing import Any, BinaryIO

from ptosim.views import json_text

Message = dict[str, Any]

MAX_BYTES = 64 * 2**20
"""Bytes of a message that are read; no editor sends one of a megabyte."""
MAX_DIGITS = 20


class BrokenMessage(Exception):
    """Bytes that are no message; the stream goes on after them."""


def read_message(stream: BinaryIO) -> Message | None:
    """Return the next message, None at the end of the stream. Raises BrokenMessage for a body that
    is not a JSON object, or too long a one."""
    length = _length(stream)
    if length is None:
        return None
    if length > MAX_BYTES:
        raise BrokenMessage(f"a message has more than {MAX_BYTES:,} bytes")
    body = stream.read(length)
    if len(body) < length:
        return None
    try:
        message = json.loads(body.decode("utf-8"))
    except ValueError as problem:
        raise BrokenMessage(f"a message is no JSON: {problem}") from None
    except RecursionError:
        raise BrokenMessage("a message has brackets nested too deeply") from None
    if not isinstance(message, dict):
        raise BrokenMessage("a message is no JSON object")
    return message


def _length(stream: BinaryIO) -> int | None:
    """Read a header; return the length that it gives, None at the end of the stream."""
    length = None
    while line := stream.readline():
        text = line.strip()
        if not text and length is not None:
            return length
        name, _, value = text.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            length = int(value) if len(value) < MAX_DIGITS else MAX_BYTES + 1
    return None


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
            body = json_text.line(numbered).encode("utf-8")
            self._stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            self._stream.flush()

    def event(self, name: str, **body: Any) -> None:
        """Send an event."""
        self.send({"type": "event", "event": name, "body": body})
