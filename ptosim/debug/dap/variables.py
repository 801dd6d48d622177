"""What an editor shows of a stopped run: scopes of a frame, and the variables in them."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from ptosim.debug.reading import Place, Reading, read_bytes, read_tile, shape_text
from ptosim.debug.session import Debugger
from ptosim.debug.sheet import Sheet, short_number
from ptosim.debug.tables import code, memory
from ptosim.debug.tables.tiles import live_tiles
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.types import MemRefType, PtrType, ScalarType, ViewType
from ptosim.views import table as json_text

# Messages of the protocol: JSON after a header with its length.

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


Filler = Callable[[int, int | None], list[Message]]
PAGE = 1000
"""Children that are sent at once where the editor asks for no page."""


class Variables:
    """References to what can be unfolded; they hold until the run goes on."""

    def __init__(self, session: Debugger) -> None:
        self.session = session
        self._fillers: list[Filler] = []
        self._names: dict[int, str] = {}  # of tiles and arguments: the name of what is unfolded
        self.hexadecimal = False

    def clear(self) -> None:
        """Forget all references."""
        self._fillers.clear()
        self._names.clear()

    def _reference(self, filler: Filler, name: str = "") -> int:
        self._fillers.append(filler)
        self._names[len(self._fillers)] = name
        return len(self._fillers)

    def children(self, reference: int, start: int, count: int | None) -> list[Message]:
        """Return what is inside a reference, from `start`, at most `count`."""
        if not 1 <= reference <= len(self._fillers):
            raise UsageError(f"there is no variables reference {reference}")
        return self._fillers[reference - 1](start, count)

    # -- scopes -----------------------------------------------------------------------------------

    def scopes(self) -> list[Message]:
        """Return the scopes of the current function of the core."""
        parts: list[tuple[str, Filler, bool]] = [
            ("Scalars", self._scalars, False),
            ("Tiles", self._tiles, False),
            ("Arguments", self._arguments, True),
            ("Flags", self._sheet(memory.events), False),
            ("Pipes", self._sheet(code.pipes), False),
            ("Memory", self._spaces, True),
        ]
        return [
            {"name": name, "variablesReference": self._reference(filler), "expensive": expensive}
            for name, filler, expensive in parts
        ]

    def _scalars(self, start: int, count: int | None) -> list[Message]:
        session = self.session
        found: list[Message] = []
        for value in session.values():
            content = session.core.slots[session.launch.program.slots[value]]
            if isinstance(value.type, ScalarType) and content is not None:
                found.append(self._plain(f"%{value.name}", self._number(content), str(value.type)))
        return _page(found, start, count)

    def _tiles(self, start: int, count: int | None) -> list[Message]:
        found = []
        for name, ref in live_tiles(self.session):
            try:
                reading = read_tile(self.session.core, ref)
            except UsageError as problem:
                found.append(self._plain(f"%{name}", str(problem), ""))
                continue
            text = f"{ref.type.dtype} {shape_text(ref)} at {reading.place}"
            found.append(self._array(f"%{name}", reading, text))
        return _page(found, start, count)

    def _arguments(self, start: int, count: int | None) -> list[Message]:
        found = []
        for value in self.session.values():
            if not isinstance(value.type, (PtrType, MemRefType, ViewType)):
                continue
            try:
                reading = self.session.read_value(value, self.session.core)
            except UsageError as problem:
                found.append(self._plain(f"%{value.name}", str(problem), str(value.type)))
                continue
            if reading.place is not None:
                shape = "x".join(map(str, reading.codes.shape))
                found.append(self._array(f"%{value.name}", reading, f"{reading.dtype} {shape}"))
        return _page(found, start, count)

    def _sheet(self, make: Callable[[Debugger], Sheet]) -> Filler:
        def fill(start: int, count: int | None) -> list[Message]:
            sheet = make(self.session)
            found = [
                self._plain(
                    str(row[0]), "  ".join(str(c) for c in row[1:] if c not in ("", None)), ""
                )
                for row in sheet.rows
            ]
            return _page(found, start, count)

        return fill

    def _spaces(self, start: int, count: int | None) -> list[Message]:
        core = self.session.core
        found = []
        for name, space in core.machine_def.spaces.items():
            used = self.session.launch.prepared.placement.used(name)
            entry = self._plain(name, f"{used} of {space.bytes} bytes in use", space.alias)
            entry["memoryReference"] = reference_of(Place(name, core.index, 0, space.bytes))
            found.append(entry)
        return _page(found, start, count)

    # -- arrays -----------------------------------------------------------------------------------

    def describe(self, name: str, reading: Reading) -> Message:
        """Return a value as a variable: a number, or something to unfold."""
        if reading.codes.ndim == 0:
            return self._plain(name, str(reading.codes), str(reading.dtype))
        shape = "x".join(map(str, reading.codes.shape))
        return self._array(name, reading, f"{reading.dtype} {shape}")

    def _array(self, name: str, reading: Reading, text: str) -> Message:
        numbers = reading.numbers.reshape(-1, reading.numbers.shape[-1])
        entry = self._plain(name, text, str(reading.dtype))
        entry["indexedVariables"] = len(numbers)
        entry["variablesReference"] = self._reference(self._rows(name, numbers), name)
        if reading.place is not None:
            entry["memoryReference"] = reference_of(reading.place)
        return entry

    def _rows(self, name: str, numbers: np.ndarray) -> Filler:
        def fill(start: int, count: int | None) -> list[Message]:
            end = min(len(numbers), start + (count or PAGE))
            return [self._row(name, row, numbers[row]) for row in range(start, end)]

        return fill

    def _row(self, name: str, row: int, numbers: np.ndarray) -> Message:
        shown = " ".join(self._number(v) for v in numbers[:8])
        more = " …" if len(numbers) > 8 else ""
        entry = self._plain(f"[{row}]", shown + more, "")
        entry["evaluateName"] = f"{name}[{row}, :]"
        entry["indexedVariables"] = len(numbers)
        entry["variablesReference"] = self._reference(
            self._elements(name, row, numbers), f"{name}[{row}]"
        )
        return entry

    def _elements(self, name: str, row: int, numbers: np.ndarray) -> Filler:
        def fill(start: int, count: int | None) -> list[Message]:
            end = min(len(numbers), start + (count or PAGE))
            found = []
            for col in range(start, end):
                entry = self._plain(f"[{col}]", self._number(numbers[col]), "")
                entry["evaluateName"] = f"{name}[{row}, {col}]"
                found.append(entry)
            return found

        return fill

    def _plain(self, name: str, value: str, type_: str) -> Message:
        entry: Message = {"name": name, "value": value, "variablesReference": 0}
        if type_:
            entry["type"] = type_
        if name.startswith("%"):
            entry["evaluateName"] = name
        return entry

    def _number(self, value: Any) -> str:
        is_integer = isinstance(value, int) or getattr(value, "dtype", np.dtype("f")).kind in "iu"
        if self.hexadecimal and is_integer:
            return hex(int(value))
        return short_number(value)

    # -- names ------------------------------------------------------------------------------------

    def expression(self, reference: int, name: str) -> str:
        """Return the expression of a child: `%x`, `%x[3, :]`, `%x[3, 5]`."""
        parent = self._names.get(reference, "")
        if not parent:
            return name
        index = name.strip("[]")
        if parent.endswith("]"):
            return f"{parent[:-1]}, {index}]"
        return f"{parent}[{index}, :]"


def reference_of(place: Place) -> str:
    """Return the memory reference of a place: `vec:0:0x100`, a space of a core, or `gm` of a
    buffer."""
    return f"{place.space}:{place.core}:{place.start:#x}"


def read_memory(session: Debugger, reference: str, offset: int, count: int) -> Message:
    """Return bytes at a memory reference. Raises UsageError for one that is none."""
    parts = reference.split(":")
    try:
        space, core, start = parts[0], int(parts[1]), int(parts[2], 0) + offset
    except (IndexError, ValueError):
        raise UsageError(f"`{reference}` is no memory reference") from None
    machine = session.launch.machine
    if space == "gm":
        known = 0 <= core < len(machine.buffers)
        size = machine.buffers[core].size if known else 0
    else:
        known = space in machine.definition.spaces and 0 <= core < len(machine.cores)
        size = machine.definition.spaces[space].bytes if known else 0
    if not known:
        raise UsageError(f"`{reference}` is no memory reference")
    first, last = min(max(start, 0), size), min(max(start + count, 0), size)
    data = read_bytes(machine, Place(space, core, first, max(first, last)))
    entry: Message = {"address": f"{first:#x}", "data": base64.b64encode(data).decode("ascii")}
    missing = count - len(data)
    return entry | ({"unreadableBytes": missing} if missing > 0 else {})


def _page(entries: list[Message], start: int, count: int | None) -> list[Message]:
    return entries[start : start + count] if count else entries[start:]
