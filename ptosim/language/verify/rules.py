"""The named predicates of the ISA rows' rules, each with its code and the words of its message.

A predicate takes operand views (see `verify.OperandView`); an absent operand is None and is passed
over. A dimension that is known only at run time agrees with every other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

from ptosim.ground.ir.types import BLOCK_BITS, DType, ScalarType, StructType, TileType
from ptosim.ground.isa.conversions import LaneConversion, conversion, lane_conversion, simt_rounding
from ptosim.ground.isa.schema import enums
from ptosim.ground.records import dataclass, replace
from ptosim.machine.layout import box_shape


class Fault(str):
    """What a predicate found wrong, in the words of the message; as a condition it is false."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate with what to say where it does not hold; `{0}` is its first string argument."""

    holds: Callable[..., bool | Fault]
    code: str
    text: str


PREDICATES: dict[str, Predicate] = {}
_Function = TypeVar("_Function", bound=Callable[..., bool | Fault])


def predicate(code: str, text: str) -> Callable[[_Function], _Function]:
    """Register a predicate by its name, with what to say where it does not hold and it does not say
    it itself."""

    def register(function: _Function) -> _Function:
        PREDICATES[function.__name__] = Predicate(function, code, text)
        return function

    return register


def _present(views: tuple[Any, ...]) -> list[Any]:
    return [v for v in views if v is not None and not isinstance(v, str)]


def _all_equal(values: list[Any]) -> bool:
    return all(a == b for a, b in pairwise(values))


@predicate("PTO2010", "expects {names} to have the same element type")
def same_elem(*views: Any) -> bool:
    """All operands have one element type (integers by width)."""
    return _all_equal([v.family for v in _present(views)])


@predicate("PTO2011", "expects {names} to have the same valid_shape")
def same_valid(*views: Any) -> bool:
    """All operands have the same valid shape where both are static."""
    tiles = _present(views)
    return _all_equal([v.v_row for v in tiles]) and _all_equal([v.v_col for v in tiles])


@predicate("PTO2011", "expects {names} to have the same valid_shape[0]")
def same_valid_rows(*views: Any) -> bool:
    """All operands have as many valid rows."""
    return _all_equal([v.v_row for v in _present(views)])


@predicate("PTO2011", "expects {names} to have the same valid_shape[1]")
def same_valid_cols(*views: Any) -> bool:
    """All operands have as many valid columns."""
    return _all_equal([v.v_col for v in _present(views)])


@predicate("PTO2016", "expects {names} to have the same shape")
def same_shape(*views: Any) -> bool:
    """All operands have the same static shape."""
    tiles = _present(views)
    return _all_equal([v.rows for v in tiles]) and _all_equal([v.cols for v in tiles])


@predicate("PTO2018", "expects {names} to use row-major layout")
def row_major(*views: Any) -> bool:
    """All operands are laid out row by row."""
    return all(v.blayout == "row_major" for v in _present(views))


@predicate("PTO2018", "expects {names} to use an ND-style tile layout")
def nd_layout(*views: Any) -> bool:
    """All operands are row-major without boxes."""
    return all(v.blayout == "row_major" and v.slayout == "none_box" for v in _present(views))


@predicate("PTO2018", "expects {names} to use an unboxed tile layout")
def unboxed(*views: Any) -> bool:
    """No operand is grouped in boxes."""
    return all(v.slayout == "none_box" for v in _present(views))


@predicate("PTO2015", "expects {names} to be in the {0} address space")
def in_space(*views: Any) -> bool:
    """All operands live in the space named last (alternatives joined by `/`); a memref may name
    none."""
    spaces = next(v for v in views if isinstance(v, str)).split("/")
    given = [v for v in _present(views) if v.kind != "memref" or v.loc is not None]
    return all(v.loc in spaces for v in given)


@predicate("PTO2017", "expects {names} to have non-zero valid dimensions")
def nonzero_valid(*views: Any) -> bool:
    """No operand has an empty valid shape."""
    return all(v.v_row != 0 and v.v_col != 0 for v in _present(views))


@predicate("PTO2021", "expects {names} to use different storage")
def distinct(*views: Any) -> bool:
    """No value occurs twice."""
    values = [v.value for v in _present(views)]
    return len({id(v) for v in values}) == len(values)


@predicate("PTO2020", "expects {names} to be a scalar of the tile's element type")
def scalar_of(*views: Any) -> bool:
    """The first operand is a scalar of the element type of the second (integers by width).

    A literal without a type takes it."""
    scalar, tile = views
    return scalar is None or scalar.family in (None, tile.family)


@predicate("PTO2020", "scalar must be a scalar type (integer or float)")
def is_scalar(scalar: Any) -> bool:
    """The operand is a number of a fixed width, not an index."""
    return scalar is None or scalar.dtype != "index"


@predicate("PTO2041", "requires the operand 'tmp' in this form")
def scratch_given(form: str, scratch: Any) -> bool:
    """Scratch is written where the assembler asks for it; other forms may leave it to ptosim."""
    return form != "dps" or scratch is not None


@predicate("PTO2018", "expects {names} to use blayout=col_major and slayout=row_major")
def nz_layout(*views: Any) -> bool:
    """All operands are columns of row-major boxes."""
    tiles = _present(views)
    return all(v.blayout == "col_major" and v.slayout == "row_major" for v in tiles)


@predicate("PTO2017", "expects {names} to have positive dimensions")
def all_positive(*views: Any) -> bool:
    """No dimension is zero or negative."""
    return all(d > 0 for v in _present(views) for d in v.shape or ())


@predicate("PTO2013", "expects {names} to have an element type of {0}")
def element_in(tiles: Any, names: str) -> bool:
    """The elements of one operand or of several are of one of the types (joined by `/`)."""
    return all(v.family in names.split("/") for v in _each(tiles))


@predicate("PTO2016", "expects {names} to have one row")
def single_row(tiles: Any) -> bool:
    """One operand or several have one row each."""
    return all(v.rows == 1 for v in _each(tiles))


def _each(views: Any) -> list[Any]:
    if views is None:
        return []
    return list(views) if isinstance(views, tuple) else [views]


@predicate("PTO2029", "expects {names} to have the same type")
def same_tile_type(*views: Any) -> bool:
    """All operands have one type, however it is spelled."""
    return _all_equal([replace(v.type, ssa=False) for v in _present(views) if v.kind == "tile"])


@predicate(
    "PTO2011",
    "expects one operand to have the valid_shape of dst and the other as many valid rows: "
    "row-major with valid_shape[1] to be 32/sizeof(dtype), or non-row-major with "
    "valid_shape[1] to be 1",
)
def row_broadcast(src0: Any, src1: Any, dst: Any) -> bool:
    """One operand is as large as dst, the other has a value or a block of copies for each row."""
    return any(
        same_valid(full, dst) and _is_row_vector(vector, dst)
        for full, vector in ((src0, src1), (src1, src0))
    )


def _is_row_vector(vector: Any, dst: Any) -> bool:
    width = 1 if vector.blayout != "row_major" else BLOCK_BITS // vector.bits
    return vector.v_row == dst.v_row and vector.v_col == width


@predicate("PTO2018", "expects the broadcast operand of the form with tmp to be non-row-major")
def not_row_major_vector(src0: Any, src1: Any, dst: Any) -> bool:
    """The operand that is broadcast is laid out column by column."""
    vector = src1 if same_valid(src0, dst) else src0
    return vector.blayout != "row_major"


_TMOV_PAIRS = frozenset(
    (
        ("mat", "left"), ("mat", "right"), ("mat", "bias"), ("mat", "scaling"), ("vec", "vec"),
        ("acc", "mat"), ("acc", "vec"),
    )
)  # fmt: skip


@predicate("PTO2015", "expects a supported tmov address-space pair for this target")
def supported_tmov(src: Any, dst: Any, target: str) -> bool:
    """The target has a path between the two memories."""
    pair = (src.loc, dst.loc)
    return pair in _TMOV_PAIRS or (target == "a5" and pair == ("vec", "mat"))


@predicate("PTO8002", "converts no {names} of these element types on this target")
def converts(src: Any, dst: Any, target: str) -> bool:
    """The target's library has an instruction, or a sequence of them, for the pair."""
    pair = [v.type.dtype for v in _present((src, dst)) if isinstance(v.type, TileType)]
    return len(pair) != 2 or conversion(pair[0], pair[1], target) is not None


@predicate("PTO2016", "expects {names} to be a static flat contiguous logical 1D GM memref")
def flat_gm(*views: Any) -> bool:
    """All operands are runs of consecutive elements in global memory, of a length known here."""
    return all(_is_flat(v) for v in _present(views))


def _is_flat(view: Any) -> bool:
    if view.kind not in ("memref", "view") or not view.static:
        return False
    if view.loc not in (None, "gm"):
        return False
    long = [axis for axis, size in enumerate(view.shape) if size != 1]
    if len(long) > 1 or not view.shape:
        return False
    strides = view.strides
    return strides is None or not long or strides[long[0]] == 1


@predicate("PTO2013", "expects {names} to have an element type of low precision")
def is_low_precision(view: Any) -> bool:
    """The elements are floats of 8 bits and fewer, block scales, or pairs of them."""
    return view is not None and low_precision_of(view.type) is not None


def low_precision_of(type_: Any) -> DType | None:
    """Return the element type of tiles or of a view if it is one of low precision."""
    dtype = getattr(type_, "dtype", None) or getattr(type_, "elem", None)
    if not isinstance(dtype, DType) or isinstance(type_, ScalarType):
        return None
    is_low = dtype.kind in ("scale", "packed") or (dtype.is_float and dtype.bits <= 8)
    return dtype if is_low else None


@predicate("PTO2016", "expects {names} to have compatible shapes")
def same_numbers(src: Any, dst: Any) -> bool:
    """Two tiles have the same shape in numbers: a pair counts as two of them, along columns in rows
    that follow each other (row_major) and along rows otherwise."""
    return _numbers(src, src.rows, src.cols) == _numbers(dst, dst.rows, dst.cols)


@predicate("PTO2011", "expects {names} to have compatible valid shapes")
def same_valid_numbers(src: Any, dst: Any) -> bool:
    """The same of the valid regions."""
    return _numbers(src, src.v_row, src.v_col) == _numbers(dst, dst.v_row, dst.v_col)


def _numbers(view: Any, rows: Any, cols: Any) -> tuple[Any, Any]:
    """A shape with each pair counted as the numbers that it is."""
    count = getattr(view.type.dtype, "count", 1)
    return (rows * count, cols) if view.blayout == "col_major" else (rows, cols * count)


@predicate("PTO2018", "expects {names} to be laid out by rows without boxes")
def is_nd(view: Any) -> bool:
    """The tile is laid out by rows without boxes."""
    return nd_layout(view)


@predicate("PTO2018", "expects {names} to be laid out by columns without boxes")
def is_dn(view: Any) -> bool:
    """The tile is laid out by columns without boxes."""
    return view.blayout == "col_major" and view.slayout == "none_box"


@predicate("PTO2012", "expects the pad of {names} to be the attribute's")
def pad_is(view: Any, word: Any) -> bool:
    """A tile has the pad value that an attribute names."""
    return enums()["pad_value"].members.get(str(word)) == view.pad


def lane_pair(src: Any, dst: Any) -> LaneConversion | None:
    """What the vector unit has for a conversion of registers, None if it has nothing."""
    return lane_conversion(src.type.elem, dst.type.elem)


def major_bytes(view: Any) -> Any:
    """Bytes of a row of a row-major tile, of a column of a col-major one."""
    elements = view.cols if view.blayout == "row_major" else view.rows
    return elements * view.bits // 8


@predicate("PTO2018", "expects {names} to have the same tile config")
def same_config(*views: Any) -> bool:
    """All tiles have one layout, box, pad value and compact form."""
    tiles = _present(views)
    return all(
        _all_equal([getattr(v, name) for v in tiles])
        for name in ("blayout", "slayout", "fractal", "pad", "compact")
    )


@predicate("PTO2026", "expects places and sizes in {names} to be multiples of inner shape")
def in_boxes(tile: Any, rows: Any, cols: Any) -> bool:
    """Rows and columns are whole boxes of a tile; those of an unboxed tile have one element."""
    box_rows, box_cols = box_shape(tile.type.dtype, tile.slayout, tile.fractal)
    return rows % box_rows == 0 and cols % box_cols == 0


@predicate("PTO2011", "expects idx to name the rows of the tile")
def names_rows(idx: Any, tile: Any) -> bool:
    """One index for each row of a tile: along a row of a row-major idx, or down a column."""
    if idx.blayout == "row_major":
        return idx.v_row <= 1 and idx.v_col == tile.v_row
    return idx.v_col <= 1 and idx.v_row == tile.v_row


@predicate("PTO2016", "expects the shape of {names} to be that of the window")
def window_shape(result: Any, sizes: Any) -> bool:
    """A tile has the shape that two positive sizes name; others are reported elsewhere."""
    wanted = [s.const for s in sizes]
    if len(wanted) != 2 or any(isinstance(s, int) and s <= 0 for s in wanted):
        return True
    return result.rows == wanted[0] and result.cols == wanted[1]


@predicate("PTO2017", "expects the valid region of {names} to be that of the window")
def window_valid(result: Any, sizes: Any, valid: Any, axis: int) -> bool:
    """A valid extent is the one that `valid` names, known where that is a constant; without `valid`
    any that is known. One outside its size is reported elsewhere."""
    is_dynamic = (result.dyn_row, result.dyn_col)[axis]
    if valid is None:
        return not is_dynamic
    if len(valid) != 2 or len(sizes) != 2:
        return True
    extent, size = valid[axis].const, sizes[axis].const
    if not isinstance(extent, int):
        return is_dynamic
    if not 0 <= extent <= size:
        return True
    return not is_dynamic and (result.v_row, result.v_col)[axis] == extent


@predicate("PTO2027", "expects a path through {names} to a field")
def is_path(struct: Any, path: Any, fault: str) -> bool:
    """A path of numbers through a record does not have a fault: a number outside it (`range`), one
    into a scalar (`field`), an end at a record (`scalar`)."""
    return _walk(struct, path)[0] != fault


@predicate("PTO2010", "expects the value to have the type of the field")
def ends_at(struct: Any, path: Any, value: Any) -> bool:
    """The path leads to a field of the type of the value."""
    found = _walk(struct, path)[1]
    return not path or found is None or value is None or value.type == found


def _walk(struct: Any, path: Any) -> tuple[str, Any]:
    """Follow a path: what is wrong with it, or the type at its end."""
    type_ = struct.type
    for step in path or ():
        if not isinstance(type_, StructType):
            return "field", None
        if not isinstance(step.const, int) or not 0 <= step.const < len(type_.fields):
            return "range", None
        type_ = type_.fields[step.const]
    return ("scalar", None) if path and isinstance(type_, StructType) else ("", type_)


# -- registers, masks and micro instructions --------------------------------------------------


@predicate("PTO2030", "expects {names} to agree: lanes of 8, 16, 32 bits have masks b8, b16, b32")
def mask_of(mask: Any, register: Any) -> bool:
    """The mask has one bit for each lane of the register; there is no granularity above b32."""
    return mask is None or register is None or mask.bits == min(register.bits, 32)


@predicate("PTO2130", "requires updated base result to match base type")
def updated_base(result: Any, base: Any) -> bool:
    """The updated pointer, where there is one, has the type of the pointer."""
    return result is None or result.type == base.type


@predicate("PTO2130", "requires {names} to be a constant")
def is_constant(view: Any) -> bool:
    """The text fixes the operand."""
    return view is None or isinstance(view.const, int)


@predicate("PTO2030", "expects {names} to be !pto.mask<{0}>")
def granule(*views: Any) -> bool:
    """All masks have the granularity named last."""
    word = next(v for v in views if isinstance(v, str))
    return all(v.dtype == word for v in _present(views))


@predicate("PTO2030", "expects {names} to have the same mask granularity")
def same_granule(*views: Any) -> bool:
    """All masks have the same granularity."""
    return _all_equal([v.bits for v in _present(views)])


@predicate("PTO2031", "expects {names} to have lanes of the same width")
def same_width(*views: Any) -> bool:
    """All registers have lanes of the same number of bits."""
    return _all_equal([v.bits for v in _present(views)])


@predicate("PTO2031", "expects the lanes of one of {names} to be twice as wide as the other's")
def twice_as_wide(wide: Any, narrow: Any) -> bool:
    """The lanes of the first register have twice the bits of the second's."""
    return wide is None or narrow is None or wide.bits == 2 * narrow.bits


@predicate("PTO2032", "expects at most one of these clauses at a time")
def at_most_one(*clauses: Any) -> bool:
    """No two of the clauses and flags are there."""
    return sum(1 for c in clauses if c is not None) <= 1


@predicate("PTO2033", "expects a value with a scalar mode and a table with a vector mode")
def payload_fits(payload: Any, mode: Any) -> bool:
    """Modes that scale have what they scale by: a scalar, or a pointer to one for each channel."""
    word = str(mode.const)
    if payload is not None and payload.kind == "error":
        return True
    if word.endswith(("_vec", "vector_relu")):
        return payload is not None and payload.kind == "ptr"
    if word.endswith(("_scalar", "scalar_relu")):
        return payload is not None and payload.kind != "ptr"
    return True


@predicate("PTO2121", "expects value type to match pointer element type")
def payload_of(value: Any, pointer: Any) -> bool:
    """The value is an element of the pointer: of its type, several numbers in one by their
    count."""
    if value is None or pointer is None:
        return True
    return _payload(value) == pointer.family


def _payload(view: Any) -> str:
    """The name of what a value holds: `f32`, `vector<2xf16>`, `hif8x2`."""
    return f"vector<{view.count}x{view.family}>" if view.kind == "vector" else view.family


def simt_kind(view: Any) -> str:
    """What a value of SIMT code is: `integer`, `float`, or `packed` with several numbers in it."""
    family = getattr(view, "family", None)
    if not family:
        return ""  # no number: its type is told elsewhere
    if view.kind == "vector" or "x" in family.partition("f4E")[2] or "hif8x2" in family:
        return "packed"
    return "integer" if family[0] == "i" else "float"


@predicate("PTO2128", "expects {names} to be a pair that converts")
def simt_pair(source: Any, target: Any) -> bool:
    """SIMT code has a conversion between two values."""
    return simt_rounding(_payload(source), _payload(target)) is not None


@predicate("PTO2128", "expects another rounding mode")
def simt_rounds(source: Any, target: Any, mode: Any) -> bool:
    """A conversion of SIMT code has a rounding mode."""
    letters = simt_rounding(_payload(source), _payload(target)) or ""
    return str(mode) in letters


@predicate("PTO2034", "expects {names} to fit the instruction's fields")
def fits_bits(bits: int, *views: Any) -> bool:
    """Every constant operand can be written with so many bits."""
    consts = [v.const for v in _present(views)]
    return all(not isinstance(c, int) or 0 <= c < 1 << bits for c in consts)
