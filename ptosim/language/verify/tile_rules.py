"""Predicates of rules about the cube at the micro level: loads of L0 and the fixpipe. Each returns
True, or a `Fault` whose words are the message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from ptosim.ground.ir.types import TileType, Type
from ptosim.ground.records import replace
from ptosim.language.verify.rules import Fault, predicate


@predicate("PTO2012", "expects {names} to be in range")
def within(low: int, high: int | None, *views: Any) -> bool | Fault:
    """Constant operands are in a range that begins at 0 or 1."""
    for view in views:
        if view is None or not isinstance(view.const, int):
            continue
        const = view.const
        if const < low:
            return Fault(f"{view.name} must be {'greater than zero' if low else 'non-negative'}")
        if high is not None and const > high:
            return Fault(f"{view.name} must be <= {high} to fit the hardware control field")
    return True


@predicate("PTO2001", "expects either four shape-derived or six full positional operands")
def one_form(
    controls: Any, shape: str, shape_names: str, sizes: Any, full: str, full_names: str, steps: Any
) -> bool | Fault:
    """The named controls of a load are those of one of two groups, and no other control has a place
    without a name."""
    if controls is None:
        return True
    given = [
        [n for n, v in zip(names.split(), values, strict=True) if v is not None]
        for names, values in ((shape_names, sizes), (full_names, steps))
    ]
    if controls and not any(given):
        return Fault("expects either four shape-derived or six full positional operands")
    if controls or all(given):
        return Fault(f"cannot mix {shape} operands with {full} operands")
    if not any(given):
        return Fault(f"requires either all {shape} operands or all {full} operands")
    form, names = (shape, shape_names) if given[0] else (full, full_names)
    missing = next((n for n in names.split() if n not in (*given[0], *given[1])), None)
    return True if missing is None else Fault(f"{form} form requires {missing}")


@predicate("PTO2014", "expects packed FP4 elements")
def is_fp4(view: Any) -> bool:
    """The elements are numbers of 4 bits."""
    return view is not None and view.family is not None and view.family.startswith("f4")


@predicate("PTO2014", "requires packed FP4 elements at both ends")
def both_fp4(src: Any, dst: Any) -> bool | Fault:
    """Numbers of 4 bits go to numbers of 4 bits."""
    if is_fp4(src) == is_fp4(dst):
        return True
    side = "destination" if is_fp4(src) else "source"
    return Fault(f"requires packed FP4 {side} element type f4e1m2x2 or f4e2m1x2")


@predicate("PTO2190", "expects {names} to be aligned")
def aligned_address(pointer: Any, unit: int, side: str) -> bool | Fault:
    """The address of a pointer is a multiple where the text fixes it."""
    address = static_address(pointer.value)
    if address is None or address % unit == 0:
        return True
    return Fault(
        f"statically known LOAD.MX {side} address must be aligned to {unit} bytes, got {address}"
    )


def static_address(value: Any) -> int | None:
    """The address of a pointer that is made of constants, None for another."""
    steps: list[tuple[int, Any]] = []  # offsets with the types of what they lead to
    while (owner := getattr(value, "owner", None)) is not None:
        if "offset" in owner.bound and "ptr" in owner.bound:
            offset = owner.bound["offset"].const
            if not isinstance(offset, int):
                return None
            steps.append((offset, value.type))
            value = owner.bound["ptr"].value
            continue
        source = owner.bound.get("src")
        if "points_into" not in owner.traits or source is None:
            return None
        if isinstance(source.const, int):
            return source.const + sum(n * type_.elem.bits // 8 for n, type_ in steps)
        value = source.value
    return None


# -- copies and fills ----------------------------------------------------------------------------


@predicate("PTO2135", "requires source and destination element byte widths to match")
def same_bytes(src: Any, dst: Any) -> bool:
    """Elements of both ends of a copy have as many bytes."""
    widths = [-(-v.bits // 8) for v in (src, dst) if v is not None and v.bits is not None]
    return len(set(widths)) < 2


_PADS = ("i8", "i16", "i32", "f16", "bf16", "f32")


@predicate("PTO2013", "expects i8/i16/i32 or f16/bf16/f32 scalar operand")
def pads(value: Any) -> bool:
    """A value of padding is a number of up to 32 bits; a literal has any type."""
    return value is None or value.type is None or value.family in _PADS


@predicate("PTO2136", "requires dst in the mat/l1 address space")
def fill_place(dst: Any) -> bool | Fault:
    """What is filled is in L1."""
    return dst.loc == "mat" or Fault(f"requires dst in the mat/l1 address space, got {dst.loc}")


@predicate("PTO2136", "requires a ui16 or ui32 destination view")
def fill_view(dst: Any, bits: Any) -> bool | Fault:
    """What is filled has unsigned elements as wide as the word."""
    if dst.dtype not in ("ui16", "ui32"):
        return Fault(f"requires a ui16 or ui32 destination view, got element type {dst.dtype}")
    return (
        bits not in (16, 32)
        or dst.bits == bits
        or Fault(f"fill_word_bits {bits} does not match the {dst.bits}-bit destination view")
    )


# -- the fixpipe ---------------------------------------------------------------------------------

_FLOATS = ("f16", "bf16", "f32")
_FP8 = ("f8E4M3FN", "f8E5M2", "hif8")
_INT8 = ("i8",)
_QUANT: dict[str, tuple[str, tuple[str, ...]]] = {
    "f32_f16": ("f32", ("f16",)), "f32_bf16": ("f32", ("bf16",)),
    "qf322f16_pre": ("f32", ("f16",)), "qf322bf16_pre": ("f32", ("bf16",)),
    "qf322f32_pre": ("f32", ("f32",)), "qf322fp8_pre": ("f32", _FP8),
    "qf322hif8_pre": ("f32", _FP8), "qf322hif8_pre_hybrid": ("f32", _FP8),
    "qf322b8_pre": ("f32", _INT8), "qf162b8_pre": ("f32", _INT8),
    "qf322s4_pre": ("f32", ("i4",)), "qf162s4_pre": ("f32", ("i4",)), "req4": ("", ("i4",)),
    "deqs32_int": ("i32", ("i32",)), "req8": ("i32", _INT8), "deqf16": ("i32", ("f16",)),
    "deqs16": ("i32", ("i16",)), "qf162s16_pre": ("i32", ("i16",)),
    "qs322bf16_pre": ("i32", ("bf16",)),
}  # fmt: skip
"""The type of the accumulator and those of the destination of a mode, without `_vec` and `_scalar`;
no accumulator goes with req4."""


@predicate("PTO2191", "expects element types that go with the mode")
def quant_types(src: Any, dst: Any, mode: Any) -> bool | Fault:
    """The mode of conversion is one from the accumulator's elements to the destination's."""
    known = _QUANT.get(str(mode.const).removesuffix("_scalar").removesuffix("_vec"))
    unsigned = dst.dtype.startswith("ui") and dst.family == "i16"
    if known is None or (src.family == known[0] and dst.family in known[1] and not unsigned):
        return True
    return Fault(
        f"pre_quant mode {mode.const} is incompatible with source element type '{src.dtype}' and "
        f"destination element type '{dst.dtype}'"
    )


@predicate("PTO2033", "expects a value with a scalar mode and a table with a vector mode")
def quant_payload(payload: Any, mode: Any) -> bool | Fault:
    """A vector mode has a pointer to the fixpipe buffer, every other one that scales a float."""
    word = str(mode.const)
    if payload is None:
        return Fault("pre_quant requires payload")
    if word.endswith("_vec"):
        return _table_of_floats(payload, "vector pre_quant mode")
    if word == "no_convert" or (payload.kind != "ptr" and payload.family in _FLOATS):
        return True
    return Fault("scalar pre_quant mode requires f16/bf16/f32 payload")


@predicate("PTO2033", "expects a value with scalar_relu and a table with vector_relu")
def relu_payload(payload: Any, mode: Any) -> bool | Fault:
    """A slope is a float, slopes are a table in the fixpipe buffer, other modes have neither."""
    word = str(mode.const)
    if not word.endswith(("scalar_relu", "vector_relu")):
        return payload is None or Fault(f"{word} does not take payload")
    if payload is None:
        return Fault(f"{word} requires payload")
    if word == "vector_relu":
        return _table_of_floats(payload, word)
    if payload.kind != "ptr" and payload.family in _FLOATS:
        return True
    return Fault("scalar_relu requires f16/bf16/f32 payload")


def _table_of_floats(payload: Any, what: str) -> bool | Fault:
    if payload.kind != "ptr" or payload.loc != "scaling":
        return Fault(f"{what} requires scaling pointer payload")
    if payload.family in _FLOATS:
        return True
    return Fault(f"{what} requires scaling pointer element type to be f16, bf16, or f32")


@predicate("PTO2191", "atomic type must be one of f32, f16, bf16, s32, s16, s8")
def atomic_type(view: Any) -> bool:
    """The type that an atomic store combines in: a float by its type, an integer by a word."""
    if isinstance(view.const, str):
        name = view.const
    else:
        name = str(getattr(getattr(view.value, "tok", None), "value", ""))
    return name in (*_FLOATS, "s32", "s16", "s8")


@predicate("PTO2191", "expects clip to have the type that the destination asks for")
def clip_fits(dst: Any, clip: Any) -> bool | Fault:
    """What values are clipped at goes with the destination's elements."""
    if dst.family == "f16":
        return clip.family == "f16" or Fault("clip for f16 destination requires f16 payload")
    if dst.dtype == "ui8":
        is_half = clip.dtype in ("ui16", "i16")
        return is_half or Fault("clip for ui8 destination requires ui16/signless i16 payload")
    if dst.family not in ("i4", "i8", "i16") or dst.dtype.startswith("ui"):
        return Fault(
            "clip requires destination element type to be f16, ui8, or signed 4/8/16-bit integer, "
            f"got {dst.dtype}"
        )
    fits = clip.family in ("i4", "i8", "i16") and not clip.dtype.startswith("ui")
    return fits or Fault("clip for signed integer destination requires i4/i8/i16 payload")


# -- predicates of rules about views of global memory, lists of them, and the tiles that data pass -


def _each(operands: tuple[Any, ...]) -> Iterator[Any]:
    for operand in operands:
        if isinstance(operand, tuple):
            yield from operand
        elif operand is not None:
            yield operand


def _views(operands: tuple[Any, ...]) -> Iterator[Any]:
    return (v for v in _each(operands) if v.kind == "view")


@predicate("PTO2015", "expects {names} to be a tensor_view or partition_view")
def gm_views(*operands: Any) -> bool:
    """All are views of global memory of one dimension or more."""
    return all(v.kind == "error" or (v.kind == "view" and v.rank >= 1) for v in _each(operands))


@predicate("PTO2048", "expects every static dimension of {names} to be positive")
def positive_dims(*operands: Any) -> bool:
    """No extent that the type fixes is 0."""
    return all(dim is None or dim > 0 for v in _views(operands) for dim in v.dims)


@predicate("PTO2048", "does not support dynamic dimensions on {names}")
def static_dims(*operands: Any) -> bool:
    """The types fix all extents."""
    return all(v.static for v in _views(operands))


@predicate("PTO2048", "expects {names} to have a static shape")
def static_shape(*operands: Any) -> bool:
    """The same, in the words of asynchronous transfers."""
    return all(v.static for v in _views(operands))


@predicate("PTO2048", "allows dynamic dimensions on {names} only for partition_tensor_view")
def dynamic_parts(*operands: Any) -> bool:
    """Whole views are static; parts of them need not be."""
    return all(v.static or v.is_part for v in _views(operands))


@predicate("PTO2016", "expects {names} to be a static flat contiguous logical 1D GM view")
def flat_view(*operands: Any) -> bool:
    """All dimensions but the last are 1."""
    return all(all(dim == 1 for dim in v.dims[:-1]) for v in _views(operands) if v.static)


@predicate("PTO2015", "expects {names} to be in vec address space")
def staging(*operands: Any) -> bool:
    """Data pass through tiles of the vector core."""
    return all(v.kind == "error" or (v.kind == "tile" and v.loc == "vec") for v in _each(operands))


@predicate("PTO2014", "expects {names} to have the same element type")
def elements_of(tiles: Any, views: Any) -> bool:
    """Operands of both lists hold the same elements (integers by width)."""
    families = [v.family for v in _each((tiles, views)) if v.family is not None]
    return all(a == b for a, b in pairwise(families))


@predicate("PTO2029", "expects {names} to have the same type")
def one_type(*operands: Any) -> bool:
    """All have one type, however it is spelled."""
    types = [_spelled_alike(v.type) for v in _each(operands) if v.type is not None]
    return all(a == b for a, b in pairwise(types))


@predicate("PTO2029", "expects {names} to be the tile and its multi buffer")
def is_slot(tile: Any, buffer: Any) -> bool:
    """A tile has the type of the slots, however it is spelled."""
    slot = getattr(buffer.type, "slot", None)
    return slot is None or _spelled_alike(tile.type) == _spelled_alike(slot)


def _spelled_alike(type_: Type) -> Type:
    return replace(type_, ssa=False) if isinstance(type_, TileType) else type_


# -- how much scratch the library of A2/A3 takes, for rules and planner. Arguments are views of ----


_REPEAT = 256  # bytes
_BLOCK = 32  # bytes
_MOST_REPEATS = 255


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def arg_stride(count: Any, bits: int) -> Any:
    """Columns of scratch for the positions of the largest of `count` elements: of each repeat a
    value and a position, then the same of those."""
    if not isinstance(count, int):
        return count
    per_block = _BLOCK * 8 // bits
    repeats = -(-count * bits // (8 * _REPEAT))
    return _up(2 * repeats, per_block) + _up(repeats, per_block)


def known_cols(view: Any) -> int:
    """Valid columns where the type says them, else all that the tile has."""
    return view.v_col if isinstance(view.v_col, int) else view.cols


def columns(tiles: Sequence[Any]) -> int:
    """Columns of all tiles together; what is no tile, in a snippet, has none."""
    return sum(tile.cols or 0 for tile in tiles)


def transposes_in_blocks(src: Any, dst: Any) -> bool:
    """True for shapes that the library transposes block by block, by way of a tile."""
    if src.cols is None or dst.cols is None:
        return False  # no tiles
    per_block = _BLOCK * 8 // src.bits
    return (
        dst.cols % (32 if src.bits == 8 else 16) == 0
        and src.cols % per_block == 0
        and src.cols // per_block <= _MOST_REPEATS
    )


_WRAPPED = {("f32", "i16"), ("f16", "i16"), ("f16", "i8")}


def wraps_by_scratch(src: Any, dst: Any, sat_mode: str | None) -> bool:
    """True for a conversion into fewer bits that wraps, by way of a tile."""
    return sat_mode != "ON" and (src.dtype, dst.dtype) in _WRAPPED


def wrap_scratch(src: Any, dst: Any) -> Any:
    """Bytes of scratch of such a conversion."""
    rows, cols = src.v_row, src.v_col
    if not isinstance(rows, int) or not isinstance(cols, int):
        return cols if isinstance(rows, int) else rows
    if src.bits == 32:
        size = _REPEAT * min(cols // 64, _MOST_REPEATS)
        if cols % 64:
            last = -(-(cols % 64) // 8)
            size = max(size, _BLOCK * ((min(rows, _MOST_REPEATS) - 1) * (src.cols // 8) + last))
    else:
        width = min(cols, 64)
        size = _BLOCK * -(-width // 8)
        if dst.bits == 8:
            size = max(size, 128 + _BLOCK * -(-width // 16))
    return _up(max(size, _BLOCK), _BLOCK)


SIZES: dict[str, Callable[..., Any]] = {
    "arg_stride": arg_stride,
    "columns": columns,
    "known_cols": known_cols,
    "transposes_in_blocks": transposes_in_blocks,
    "wrap_scratch": wrap_scratch,
    "wraps_by_scratch": wraps_by_scratch,
}
"""What an expression can call."""
