"""Elements of `dense<…>`, as MLIR writes and reads them: one literal for all, lists in lists of
the shape, nothing where there are no elements, or a text of the bytes in memory
(https://mlir.llvm.org/docs/Dialects/Builtin/#denseintorfpelementsattr)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from ptosim.ground.ir.core import Tok
from ptosim.ground.records import dataclass

_PART = re.compile(
    r"\s*(?:(?P<TRUE>true\b)|(?P<FALSE>false\b)|(?P<HEX>-?0x[0-9a-fA-F]+)"
    r"|(?P<FLOAT>-?[0-9]+(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+))|(?P<INT>-?[0-9]+)"
    r'|"0x(?P<BYTES>(?:[0-9a-fA-F]{2})*)"|(?P<MARK>[\[\],])|(?P<REST>\S))'
)


@dataclass(frozen=True, slots=True)
class Dense:
    """The literals of `dense<…>` in order, row by row, and the shape in which they are written:
    None where one is for all elements. A text of bytes has `raw` and no literals."""

    literals: tuple[Tok, ...]
    dims: tuple[int, ...] | None
    raw: bytes | None = None

    def of(self, dims: Sequence[int], bits: int) -> tuple[Tok, ...] | None:
        """Return one literal for all, or the literal of each element, of a shape with elements of
        so many bits; None if it has another one."""
        count = math.prod(dims)
        if self.raw is not None:
            return _words(self.raw, count, bits)
        if self.dims is None:
            return self.literals if self.literals or not count else None
        return self.literals if self.dims == tuple(dims) else None


def _words(raw: bytes, count: int, bits: int) -> tuple[Tok, ...] | None:
    """The elements in bytes, lowest first: of one, or of each."""
    size = bits // 8
    if bits % 8 or not size or len(raw) not in (size, size * count):
        return None
    parts = (raw[at : at + size] for at in range(0, len(raw), size))
    return tuple(Tok("HEX", f"0x{int.from_bytes(part, 'little'):x}", 0) for part in parts)


def dense_of(text: str) -> Dense | None:
    """Return the elements of the text `dense<…>`, None for one that says none."""
    parts = list(parts_of(text[text.index("<") + 1 : text.rindex(">")]))
    first = parts[0].type if len(parts) == 1 else ""
    if first == "BYTES":
        return Dense((), None, bytes.fromhex(parts[0].value))
    if first in LITERALS or not parts:
        return Dense(tuple(parts), None)
    dims = _shape(parts)
    return None if dims is None else Dense(tuple(p for p in parts if p.type != "MARK"), dims)


LITERALS = frozenset(("TRUE", "FALSE", "HEX", "FLOAT", "INT"))


def parts_of(text: str, at: int = 0) -> Iterator[Tok]:
    """Yield the literals, brackets and commas of a text; what is neither is a `REST`."""
    for found in _PART.finditer(text, at):
        kind = found.lastgroup or "REST"
        yield Tok(kind, found.group(kind), found.start(kind))


def _shape(parts: list[Tok]) -> tuple[int, ...] | None:
    """The shape of lists in lists, None if they have different ones or are none."""
    import json  # only constants with lists need it

    marks = "".join("0" if part.type in LITERALS else part.value for part in parts)
    try:
        return _dims(json.loads(marks))
    except (ValueError, RecursionError):  # deeper than any shape
        return None


def _dims(value: list | int) -> tuple[int, ...]:
    if not isinstance(value, list):
        return ()
    inner = {_dims(part) for part in value}
    if len(inner) > 1:
        raise ValueError("lists of different shapes")
    return (len(value), *(inner.pop() if inner else ()))
