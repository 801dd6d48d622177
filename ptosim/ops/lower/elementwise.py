"""Element-wise operations: one instruction for each register of elements.

Each table names the instruction and the element types for which both levels give the same bytes.
Left out are, for instance, maxima and minima of floats (a NaN wins in a register, not in a tile)
and functions of f16 (rounded once in a tile, twice in a register)."""

from __future__ import annotations

from collections.abc import Callable

from ptosim.ground.ir.core import Operand, Operation
from ptosim.ops.lower.expansions import expansion
from ptosim.ops.lower.operands import NotExpandable, TileUse, row_major, tile, valid
from ptosim.ops.lower.writer import Writer, bits, vreg

Table = dict[str, tuple[str, str]]
Body = Callable[[Writer, list[str], str, str], str]
"""From loaded registers, mask and element type to the register that is stored."""

_INTEGERS = "i8 i16 i32"
_WIDE = "i16 i32 f16 f32"

PAIRS: Table = {
    "pto.tadd": ("vadd", "i8 i16 i32 f16 bf16 f32"), "pto.tsub": ("vsub", "i8 i16 i32 f16 f32"),
    "pto.tmul": ("vmul", _WIDE), "pto.tdiv": ("vdiv", "f16 f32"),
    "pto.tmax": ("vmax", _INTEGERS), "pto.tmin": ("vmin", _INTEGERS),
    "pto.tand": ("vand", _INTEGERS), "pto.tor": ("vor", _INTEGERS), "pto.txor": ("vxor", _INTEGERS),
}  # fmt: skip
SCALARS: Table = {
    "pto.tadds": ("vadds", "i8 i16 i32 f16 bf16 f32"),
    "pto.tsubs": ("vsubs", "i8 i16 i32 f16 bf16 f32"),
    "pto.tmuls": ("vmuls", "i16 i32 f16 bf16 f32"),
    "pto.tmaxs": ("vmaxs", _INTEGERS), "pto.tmins": ("vmins", _INTEGERS),
    "pto.tands": ("vands", _INTEGERS), "pto.tors": ("vors", _INTEGERS),
    "pto.txors": ("vxors", _INTEGERS),
}  # fmt: skip
SINGLES: Table = {
    "pto.tabs": ("vabs", "f16 f32"), "pto.tneg": ("vneg", "i8 i16 i32 f16 bf16 f32"),
    "pto.tnot": ("vnot", _INTEGERS), "pto.texp": ("vexp", "f32"), "pto.tlog": ("vln", "f32"),
    "pto.tsqrt": ("vsqrt", "f16 f32"), "pto.trecip": ("vrec", "f16 f32"),
    "pto.trelu": ("vrelu", "i32"),
}  # fmt: skip
FILLS: Table = {"pto.texpands": ("vdup", _WIDE + " i8")}


def _instruction(op: Operation, table: Table, elem: str) -> str:
    name, elements = table[op.name]
    if elem.lstrip("s") not in elements.split():
        raise NotExpandable(f"{name} gives other bytes, or none, for {elem}")
    return name


@expansion(*PAIRS)
def pairs(op: Operation, out: Writer) -> None:
    """dst = function of two tiles."""
    sources, target = [tile(op, "src0"), tile(op, "src1")], tile(op, "dst")
    name = _instruction(op, PAIRS, target.elem)
    _each(out, sources, target, lambda w, r, mask, e: w.binary(name, r[0], r[1], mask, e))


@expansion(*SINGLES)
def singles(op: Operation, out: Writer) -> None:
    """dst = function of a tile."""
    source, target = tile(op, "src"), tile(op, "dst")
    name = _instruction(op, SINGLES, target.elem)
    _each(out, [source], target, lambda w, r, mask, e: w.unary(name, r[0], mask, e))


@expansion(*SCALARS)
def scalars(op: Operation, out: Writer) -> None:
    """dst = function of a tile and a scalar."""
    source, target = tile(op, "src"), tile(op, "dst")
    name = _instruction(op, SCALARS, target.elem)
    value, type_ = _scalar(op, target.elem)
    _each(out, [source], target, lambda w, r, mask, e: w.scalar(name, r[0], value, type_, mask, e))


@expansion(*FILLS)
def fills(op: Operation, out: Writer) -> None:
    """dst = a scalar everywhere."""
    target = tile(op, "dst")
    name = _instruction(op, FILLS, target.elem)
    value, type_ = _scalar(op, target.elem)

    def body(w: Writer, _: list[str], mask: str, elem: str) -> str:
        return w.op(name, [value, mask], [type_, f"!pto.mask<b{bits(elem)}>"], vreg(elem))

    _each(out, [], target, body)


def _scalar(op: Operation, elem: str) -> tuple[str, str]:
    """The name and type of the scalar operand."""
    scalar = op.bound["scalar"]
    if not isinstance(scalar, Operand) or scalar.value is None:
        raise NotExpandable("the scalar has no name")
    type_ = str(scalar.type)
    if type_.lstrip("s") != elem.lstrip("s"):
        raise NotExpandable(f"the scalar is {type_}, the lanes are {elem}")
    return f"%{scalar.value.name}", type_


def _each(out: Writer, sources: list[TileUse], target: TileUse, body: Body) -> None:
    """Loops over rows and registers of a row, one loop where all tiles are runs of memory (as in
    the library); the mask cuts the last register."""
    row_major(*sources, target)
    rows, cols = valid(target)
    if any(valid(use) != (rows, cols) for use in sources):
        raise NotExpandable("the valid shapes of the tiles differ")
    if rows == 0 or cols == 0:
        return
    if all(use.type.cols == cols for use in (*sources, target)):
        rows, cols = 1, rows * cols
    elem = target.elem
    width = bits(elem)
    pointers = [use.pointer(out) for use in sources]
    result = target.pointer(out)
    with out.rows(rows) as row:
        for column, count in out.columns(cols, 2048 // width):
            mask = out.first(count, width)
            registers = [
                out.load(p, elem, out.place((row, use.type.cols), (column, 1)))
                for p, use in zip(pointers, sources, strict=True)
            ]
            value = body(out, registers, mask, elem)
            at = out.place((row, target.type.cols), (column, 1))
            types = [vreg(elem), f"!pto.ptr<{elem}, ub>", f"!pto.mask<b{width}>"]
            out.op("vsts", [value, out.at(result, at), mask], types)
