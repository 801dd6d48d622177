"""The bodies of the types of the `quant` dialect, and the rules that a type obeys by itself.

Errors use the words of MLIR, whose tests and users know them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from ptosim.ground.records import replace
from ptosim.machine.quant.mlir.types import (
    AnyType,
    Builtin,
    CalibratedType,
    Container,
    Cursor,
    Dim,
    MlirFault,
    QuantileType,
    QuantType,
    StorageSpec,
    UniformType,
    data,
    float_array,
    float_text,
    width,
)

INTEGER = re.compile(r"(si|ui|i)(\d+)$")
WIDEST = (1 << 24) - 1
_UNSIGNED = re.compile(r"u(\d*)$")

ReadType = Callable[[Cursor], Container]


def read_body(cursor: Cursor, version: str, read_type: ReadType) -> QuantType:
    """Return the type whose name and body come next (without `!quant.`)."""
    start = cursor.here()
    word = cursor.keyword()
    reader = _READERS.get(word)
    if reader is None or (word == "quantile" and not _known(version, "quantile")):
        raise cursor.fail(f"unknown quantized type {word}", start)
    return reader(cursor, version, read_type)


def _known(version: str, feature: str) -> bool:
    return data()["version"][version][feature]


def _storage(cursor: Cursor, version: str, *, ranged: bool = True) -> StorageSpec:
    start = cursor.here()
    word = cursor.keyword()
    spec = _storage_word(cursor, word, start, version)
    return _storage_range(cursor, spec) if ranged else spec


def _storage_word(cursor: Cursor, word: str, start: int, version: str) -> StorageSpec:
    integer = INTEGER.match(word)
    unsigned = _UNSIGNED.match(word)
    if integer:
        bits = width(integer.group(2))
        if bits is None or bits > WIDEST:
            raise cursor.fail("invalid integer width", start)
        return _integer(cursor, word, bits, integer.group(1) != "ui", start, version)
    if unsigned:
        bits = width(unsigned.group(1))
        if bits is None:
            raise cursor.fail("expected storage type width", start)
        return _integer(cursor, word, bits, False, start, version)
    if word in data()["float"] and not _known(version, "float_storage"):
        # mlir-opt 22.1 reports a width that was never set.
        raise cursor.fail(f"illegal storage type size: 0 (of the float type {word})", start)
    if word in data()["float_storage"]:
        limits = data()["float_storage"][word]["low"], data()["float_storage"][word]["high"]
        bits = int(word[1])
        return StorageSpec(word, bits, True, True, *limits, limits)
    raise cursor.fail("illegal storage type prefix", start)


def _integer(
    cursor: Cursor, word: str, bits: int, signed: bool, start: int, version: str
) -> StorageSpec:
    if not 1 <= bits <= 32:
        raise cursor.fail(f"illegal storage type size: {bits}", start)
    low = -(1 << (bits - 1)) if signed else 0
    full = (low, low + (1 << bits) - 1)
    if not _known(version, "keeps_sign_words"):
        word = f"{'i' if signed else 'u'}{bits}"
    return StorageSpec(word, bits, signed, False, *full, full)


def _storage_range(cursor: Cursor, spec: StorageSpec) -> StorageSpec:
    start = cursor.here()
    if not cursor.peek("<"):
        return spec
    low, high = _limits(cursor)
    if low < spec.full[0]:
        raise cursor.fail(f"illegal storage type minimum: {low}", start)
    if high > spec.full[1]:
        raise cursor.fail(f"illegal storage type maximum: {high}", start)
    if low >= high:
        raise cursor.fail(f"illegal storage min and storage max: ({low}:{high})", start)
    return replace(spec, low=low, high=high)


def _limits(cursor: Cursor) -> tuple[int, int]:
    cursor.expect("<")
    low = cursor.integer()
    cursor.expect(":")
    high = cursor.integer()
    cursor.expect(">")
    return low, high


def _expressed(cursor: Cursor, read_type: ReadType) -> str:
    start = cursor.here()
    found = read_type(cursor)
    if not (found.is_scalar and isinstance(found.element, Builtin) and found.element.is_float):
        raise cursor.fail("invalid kind of type specified", start)
    return found.element.name


def _uniform(cursor: Cursor, version: str, read_type: ReadType) -> UniformType:
    cursor.expect("<")
    storage = _storage(cursor, version)
    cursor.expect(":")
    expressed = _expressed(cursor, read_type)
    axis, blocks = _axes(cursor)
    cursor.expect(",")
    if blocks is not None:
        pairs, shape = _nest(cursor, expressed)
    elif axis is not None:
        cursor.expect("{")
        pairs, shape = _listed(cursor, lambda: _pair(cursor, expressed)), ()
        cursor.expect("}")
    else:
        pairs, shape = [_pair(cursor, expressed)], ()
    cursor.expect(">")
    scales, zeros = zip(*pairs, strict=True)
    if blocks is not None:
        scales = _in_type(scales, expressed)
    return UniformType(storage, expressed, scales, zeros, axis, blocks, shape)


def _in_type(scales: tuple[float, ...], expressed: str) -> tuple[float, ...]:
    """Scales of blocks are rounded to the expressed type, those per layer and axis are kept."""
    array = float_array(expressed)
    if array is None:
        return scales
    import numpy as np

    return tuple(np.array(scales, np.float64).astype(array).astype(np.float64).tolist())


def _axes(cursor: Cursor) -> tuple[int | None, tuple[tuple[int, int], ...] | None]:
    if not cursor.take(":"):
        return None, None
    if not cursor.peek("{"):
        return _axis(cursor), None
    cursor.expect("{")
    if cursor.take("}"):
        return None, ()
    blocks = _listed(cursor, lambda: _block(cursor))
    cursor.expect("}")
    return None, tuple(blocks)


def _block(cursor: Cursor) -> tuple[int, int]:
    axis = _axis(cursor)
    cursor.expect(":")
    start = cursor.here()
    size = cursor.integer()
    if size <= 0:
        raise cursor.fail(f"illegal block size: {size}", start)
    return axis, size


def _axis(cursor: Cursor) -> int:
    start = cursor.here()
    axis = cursor.integer()
    if axis < 0:
        raise cursor.fail(f"illegal quantized dimension: {axis}", start)
    return axis


Pair = tuple[float, int]


def _pair(cursor: Cursor, expressed: str) -> Pair:
    start = cursor.here()
    scale = cursor.floating()
    zero = cursor.integer() if cursor.take(":") else 0
    low, high = data()["float"][expressed]["low"], data()["float"][expressed]["high"]
    if not low <= scale <= high or scale == 0:
        raise cursor.fail(
            f"scale {scale:.6e} out of expressed type range [{low:.6e}, {high:.6e}]", start
        )
    return scale, zero


Item = TypeVar("Item")


def _listed(cursor: Cursor, read: Callable[[], Item]) -> list[Item]:
    """Items separated by commas, at least one."""
    items = [read()]
    while cursor.take(","):
        items.append(read())
    return items


def _nest(cursor: Cursor, expressed: str) -> tuple[list[Pair], tuple[int, ...]]:
    """Return nested braces as a flat list and the shape of the nest."""
    start = cursor.here()
    cursor.expect("{")
    if cursor.peek("}"):
        raise cursor.fail("expected floating point literal")

    def part() -> tuple[list[Pair], tuple[int, ...]]:
        inner = cursor.peek("{")
        return _nest(cursor, expressed) if inner else ([_pair(cursor, expressed)], ())

    parts, shapes = zip(*_listed(cursor, part), strict=True)
    cursor.expect("}")
    if any(s != shapes[0] for s in shapes):
        raise cursor.fail(
            "tensor literal is invalid; ranks are not consistent between elements", start
        )
    return [pair for inner in parts for pair in inner], (len(shapes), *shapes[0])


def _any(cursor: Cursor, version: str, read_type: ReadType) -> AnyType:
    cursor.expect("<")
    storage = _storage(cursor, version)
    expressed = _expressed(cursor, read_type) if cursor.take(":") else None
    cursor.expect(">")
    return AnyType(storage, expressed)


def _calibrated(cursor: Cursor, version: str, read_type: ReadType) -> CalibratedType:
    cursor.expect("<")
    try:
        expressed = _expressed(cursor, read_type)
    except MlirFault as problem:
        raise cursor.fail([*problem.messages, "expecting float expressed type"]) from problem
    start = cursor.here()
    try:
        cursor.expect("<")
        low = cursor.floating()
        cursor.expect(":")
        high = cursor.floating()
        cursor.expect(">")
    except MlirFault as problem:
        raise cursor.fail([*problem.messages, "calibrated values must be present"]) from problem
    cursor.expect(">")
    if low >= high:
        raise cursor.fail(f"illegal min and max: ({float_text(low)}:{float_text(high)})", start)
    return CalibratedType(expressed, low, high)


def _quantile(cursor: Cursor, version: str, read_type: ReadType) -> QuantileType:
    cursor.expect("<")
    storage = _storage(cursor, version, ranged=False)
    cursor.expect(":")
    start = cursor.here()
    found = read_type(cursor)
    element = found.element
    numeric = isinstance(element, Builtin) and (
        element.is_float or bool(INTEGER.match(element.name))
    )
    if not (found.is_scalar and numeric):
        raise cursor.fail("quantile type must be a float or integer type", start)
    cursor.expect(",")
    values = _table(cursor)
    storage = _quantile_range(cursor, storage)
    cursor.expect(">")
    needed = storage.high - storage.low + 1
    if len(values) != needed:
        raise cursor.fail(
            f"quantile LUT size ({len(values)}) must equal the number of representable storage "
            f"values ({needed})",
            start,
        )
    return QuantileType(storage, str(element), tuple(values))


def _table(cursor: Cursor) -> list[float]:
    cursor.expect("{")
    if cursor.peek("}"):
        raise cursor.fail("quantile values must not be empty")
    values = _listed(cursor, cursor.floating)
    cursor.expect("}")
    return values


def _quantile_range(cursor: Cursor, storage: StorageSpec) -> StorageSpec:
    if not cursor.take(","):
        return storage
    start = cursor.here()
    low, high = _limits(cursor)
    if low >= high:
        raise cursor.fail("storage min must be less than storage max", start)
    if low < storage.full[0]:
        raise cursor.fail(f"illegal storage type minimum: {low}", start)
    if high > storage.full[1]:
        raise cursor.fail(f"illegal storage type maximum: {high}", start)
    return replace(storage, low=low, high=high)


_READERS = {
    "uniform": _uniform,
    "any": _any,
    "calibrated": _calibrated,
    "quantile": _quantile,
}


# Texts to types: builtin scalars, containers, and the types of the `quant` dialect.
#
# Raised faults use the words of MLIR, whose tests and users know them.

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
