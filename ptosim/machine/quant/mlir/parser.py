"""Texts to types: builtin scalars, containers, and the types of the `quant` dialect.

Raised faults use the words of MLIR, whose tests and users know them.
"""

from __future__ import annotations

import re

from ptosim.machine.quant.mlir.cursor import Cursor, width
from ptosim.machine.quant.mlir.readers import INTEGER, WIDEST, read_body
from ptosim.machine.quant.mlir.types import Builtin, Container, Dim, QuantType, data

VERSIONS = ("2026", "22")
_BUILTIN = re.compile(r"[A-Za-z][\w]*")
_DIM = re.compile(r"(\d+|\?)\s*x")


def parse_type(text: str, version: str = "2026") -> Container:
    """Return the type of a text: a scalar, or a container of elements.

    Raises MlirFault with MLIR's message and the offset of the fault.
    """
    cursor = Cursor(text)
    parsed = read_type(cursor, version)
    if not cursor.at_end():
        raise cursor.fail("expected end of the type")
    return parsed


def read_type(cursor: Cursor, version: str = "2026") -> Container:
    """Return the type at a cursor and move over it."""
    start = cursor.here()
    for kind in ("tensor", "vector", "memref", "!pto.tile"):
        if cursor.text.startswith(f"{kind}<", start):
            cursor.pos = start + len(kind) + 1
            return _container(cursor, kind.removeprefix("!pto."), version)
    if cursor.text.startswith("!quant", start):
        return Container("", (), read_quant(cursor, version))
    return Container("", (), _builtin(cursor))


def _container(cursor: Cursor, kind: str, version: str) -> Container:
    dims: list[Dim] | None = []
    if kind == "tensor" and cursor.match(re.compile(r"\*\s*x")):
        dims = None
    while dims is not None:
        found = cursor.match(_DIM)
        if found is None:
            break
        word = found.rstrip("x ").strip()
        dims.append(None if word == "?" else int(word))
    start = cursor.here()
    inner = read_type(cursor, version)
    if not inner.is_scalar:
        raise cursor.fail("invalid element type of a container", start)
    if isinstance(inner.element, QuantType):
        if kind == "vector":
            raise cursor.fail(
                "failed to verify 'elementType': VectorElementTypeInterface instance", start
            )
        if kind == "memref":
            raise cursor.fail("invalid memref element type", start)
    cursor.expect(">")
    return Container(kind, None if dims is None else tuple(dims), inner.element)


def _builtin(cursor: Cursor) -> Builtin:
    start = cursor.pos
    word = cursor.match(_BUILTIN)
    if word is None:
        raise cursor.fail("expected non-function type")
    integer = INTEGER.match(word)
    bits = width(integer.group(2)) if integer else 0
    if bits is None or bits > WIDEST:
        raise cursor.fail("invalid integer width", start)
    if integer or word in data()["float"] or word == "index":
        return Builtin(word)
    raise cursor.fail("expected non-function type", start)


# -- the types of the dialect ----------------------------------------------------------------------


def read_quant(cursor: Cursor, version: str = "2026") -> QuantType:
    """Return the `!quant` type at a cursor and move over it."""
    cursor.expect("!quant")
    if cursor.text.startswith("<", cursor.pos):
        cursor.check_balance()
        cursor.expect("<")
        made = read_body(cursor, version, read_type)
        cursor.expect(">")
        return made
    cursor.expect(".")
    after = re.compile(r"\w*").match(cursor.text, cursor.pos)
    assert after is not None
    if cursor.text.startswith("<", after.end()):
        Cursor(cursor.text, after.end()).check_balance()
    return read_body(cursor, version, read_type)
