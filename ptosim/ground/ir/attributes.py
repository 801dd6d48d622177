"""Attribute values: from tokens to plain Python values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ptosim.ground.ir.core import Attr, Node, Operation, Tok
from ptosim.ground.records import dataclass

# Elements of `dense<…>`, as MLIR writes and reads them: one literal for all, lists in lists of the
# shape, nothing where there are no elements, or a text of the bytes in memory
# (https://mlir.llvm.org/docs/Dialects/Builtin/#denseintorfpelementsattr).

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


@dataclass(frozen=True, slots=True)
class Enum:
    """A member of a PTO enum as written: `#pto.pipe<PIPE_V>`, `#pto<pipe PIPE_V>`, `<PIPE_V>`.

    `kind` is None where the text names only the member.
    """

    kind: str | None
    member: str

    def __str__(self) -> str:
        return f"#pto<{self.kind} {self.member}>" if self.kind else f"<{self.member}>"


@dataclass(frozen=True, slots=True)
class Symbol:
    """A reference to a function."""

    name: str

    def __str__(self) -> str:
        return f"@{self.name}"


@dataclass(frozen=True, slots=True)
class TypeText:
    """A type in the place of an attribute."""

    text: str


def numbers(value: Any) -> list[int | float] | None:
    """Return the numbers of an attribute in order: one, a list of any depth, `dense<…>`; None for
    anything else."""
    if isinstance(value, Dense) and value.raw is None:
        value = [token_value(tok) for tok in value.literals]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return [value]
    if not isinstance(value, (list, tuple)):
        return None
    parts = [numbers(part) for part in value]
    if any(part is None for part in parts):
        return None
    return [number for part in parts if part is not None for number in part]


def _dense(text: str) -> Dense | str:
    return dense_of(text) or text


def _array(text: str) -> list[Any] | str:
    """`array<i32: 1, 0>`: the numbers after the colon."""
    kind, _, listed = text.removesuffix(">").partition(":")
    parts = list(parts_of(listed))
    literals, commas = parts[::2], parts[1::2]
    is_list = all(tok.type in LITERALS for tok in literals) and len(literals) != len(commas)
    is_whole = kind.partition("<")[2].strip().startswith("i")
    if parts and (not is_list or any(tok.value != "," for tok in commas)):
        return text
    if is_whole and any(tok.type == "FLOAT" for tok in literals):
        return text
    return [token_value(tok) for tok in literals]


_DOTTED = re.compile(r"#(\w+)\.(\w+)<\s*(\w+)\s*>$")
_SPACED = re.compile(r"#(\w+)<\s*(\w+)\s+(\w+)\s*>$")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


def attr_value(attr: Attr | Any) -> Any:
    """Return an attribute's value: int, float, bool, str, Enum, Symbol, TypeText, Dense, list or
    dict; a key without a value is True."""
    if isinstance(attr, Attr) and attr.alias is not None:
        return attr_value(attr.alias)
    atom = attr.atom if isinstance(attr, Attr) else attr
    if atom is None:
        return True
    if isinstance(atom, dict):
        return {key: attr_value(inner) for key, inner in atom.items()}
    if isinstance(atom, list):
        return [attr_value(inner) for inner in atom]
    if isinstance(atom, Node):
        return [attr_value(inner) for inner in atom.parts]
    return token_value(atom)


def attribute_of(op: Operation, name: str) -> Any:
    """Return the value of an attribute as the operation has it written, None where it has none."""
    attr = op.attrs.get(name)
    return None if attr is None else attr_value(attr)


def number_of(op: Operation, name: str) -> int | None:
    """Return a whole number that an attribute gives; None where it has none, or anything else,
    which is reported at the attribute."""
    value = attribute_of(op, name)
    return value if isinstance(value, int) else None


def token_value(tok: Tok) -> Any:
    """Return the value that one token represents; text that has no better form stays text."""
    convert = _CONVERT.get(tok.type)
    return convert(tok.value) if convert else tok.value


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m.group(1), m.group(1)), text[1:-1])


def _enum(text: str) -> Any:
    found = _DOTTED.match(text) or None
    if found and found.group(1) == "pto":
        return Enum(found.group(2), found.group(3))
    found = _SPACED.match(text)
    if found:
        return Enum(found.group(2), found.group(3))
    return text


_CONVERT = {
    "INT": int,
    "HEX": lambda text: int(text, 16),
    "FLOAT": float,
    "TRUE": lambda text: True,
    "FALSE": lambda text: False,
    "STRING": _unquote,
    "ATTR": _enum,
    "ANGLE_ENUM": lambda text: Enum(None, text[1:-1]),
    "SYMBOL": lambda text: Symbol(text[1:].strip('"')),
    "TYPE": TypeText,
    "DENSE": _dense,
    "ARRAY": _array,
}
