"""Messages of the protocol: JSON after a header with its length."""

from __future__ import annotations

import json
import threading
from typing import Any, BinaryIO

from ptosim.views import json_text

Message = dict[str, Any]


class BrokenMessage(Exception):
    """Bytes that are no message; the stream goes on after them."""


def read_message(stream: BinaryIO) -> Message | None:
    """Return the next message, None at the end of the stream. Raises BrokenMessage for a body that
    is not a JSON object."""
    length = None
    while True:
        line = stream.readline()
        if not line:
            return None
        text = line.strip()
        if not text:
            if length is None:
                continue
            break
        name, _, value = text.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            length = int(value)
    body = stream.read(length)
    if len(body) < length:
        return None
    try:
        message = json.loads(body.decode("utf-8"))
    except ValueError as problem:
        raise BrokenMessage(f"a message is no JSON: {problem}") from None
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
            body = json_text.line(numbered).encode("utf-8")
            self._stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            self._stream.flush()

    def event(self, name: str, **body: Any) -> None:
        """Send an event."""
        self.send({"type": "event", "event": name, "body": body})
