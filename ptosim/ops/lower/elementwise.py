"""Element-wise operations: one instruction for each register of elements.

Each table names the instruction and the element types for which both levels give the same bytes.
Left out are, for instance, functions of f16 (rounded once in a tile, twice in a register). Maxima
and minima of floats are a comparison and a selection: a NaN wins in `vmax`, and in a tile it does
not. Tiles that are all column-major are written column by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptosim.ground.ir.core import Operand, Operation
from ptosim.ops.lower.operands import NotExpandable, TileUse, expansion, row_major, tile, valid
from ptosim.ops.lower.writer import Writer, bits, vreg

Table = dict[str, tuple[str, str]]
Body = Callable[[Writer, list[str], str, str], str]
"""From loaded registers, mask and element type to the register that is stored."""
EXTREMES = {"vmax": "lt", "vmin": "gt", "vmaxs": "lt", "vmins": "gt"}
"""How the first operand compares with the second where the second is taken."""

_INTEGERS = "i8 i16 i32"
_WIDE = "i16 i32 f16 f32"
_ORDERED = _INTEGERS + " f16 f32"

PAIRS: Table = {
    "pto.tadd": ("vadd", "i8 i16 i32 f16 bf16 f32"), "pto.tsub": ("vsub", "i8 i16 i32 f16 f32"),
    "pto.tmul": ("vmul", _WIDE), "pto.tdiv": ("vdiv", "f16 f32"),
    "pto.tmax": ("vmax", _ORDERED), "pto.tmin": ("vmin", _ORDERED),
    "pto.tand": ("vand", _INTEGERS), "pto.tor": ("vor", _INTEGERS), "pto.txor": ("vxor", _INTEGERS),
}  # fmt: skip
SCALARS: Table = {
    "pto.tadds": ("vadds", "i8 i16 i32 f16 bf16 f32"),
    "pto.tsubs": ("vsubs", "i8 i16 i32 f16 bf16 f32"),
    "pto.tmuls": ("vmuls", "i16 i32 f16 bf16 f32"),
    "pto.tmaxs": ("vmaxs", _ORDERED), "pto.tmins": ("vmins", _ORDERED),
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
    sources, target = [tile(op, "src0", out), tile(op, "src1", out)], tile(op, "dst", out)
    name = _instruction(op, PAIRS, target.elem)
    _each(out, sources, target, lambda w, r, mask, e: of_two(w, name, r, mask, e))


def of_two(out: Writer, name: str, registers: Sequence[str], mask: str, elem: str) -> str:
    """Return the result of an instruction of PAIRS."""
    a, b = registers
    if name not in EXTREMES or elem[0] in "is":
        return out.binary(name, a, b, mask, elem)
    v, m = vreg(elem), f"!pto.mask<b{bits(elem)}>"
    taken = out.op("vcmp", [a, b, mask, f'"{EXTREMES[name]}"'], [v, v, m], m)
    return out.select(b, a, taken, elem)


@expansion(*SINGLES)
def singles(op: Operation, out: Writer) -> None:
    """dst = function of a tile."""
    source, target = tile(op, "src", out), tile(op, "dst", out)
    name = _instruction(op, SINGLES, target.elem)
    _each(out, [source], target, lambda w, r, mask, e: w.unary(name, r[0], mask, e))


@expansion(*SCALARS)
def scalars(op: Operation, out: Writer) -> None:
    """dst = function of a tile and a scalar."""
    source, target = tile(op, "src", out), tile(op, "dst", out)
    name = _instruction(op, SCALARS, target.elem)
    value, type_ = _scalar(op, target.elem)

    def body(w: Writer, registers: list[str], mask: str, elem: str) -> str:
        if name not in EXTREMES or elem[0] in "is":
            return w.scalar(name, registers[0], value, type_, mask, elem)
        m = f"!pto.mask<b{bits(elem)}>"
        every = w.op("vdup", [value, mask], [type_, m], vreg(elem))
        return of_two(w, name, [registers[0], every], mask, elem)

    _each(out, [source], target, body)


@expansion(*FILLS)
def fills(op: Operation, out: Writer) -> None:
    """dst = a scalar everywhere."""
    target = tile(op, "dst", out)
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
    tiles = [*sources, target]
    by_columns = all(use.type.blayout == "col_major" for use in tiles)
    if not by_columns:
        row_major(*tiles)
    rows, cols = valid(target)
    if any(valid(use) != (rows, cols) for use in sources):
        raise NotExpandable("the valid shapes of the tiles differ")
    if rows == 0 or cols == 0:
        return
    pitches = [use.type.rows if by_columns else use.type.cols for use in tiles]
    if by_columns:
        rows, cols = cols, rows
    if all(pitch == cols for pitch in pitches):
        rows, cols = 1, rows * cols
    elem = target.elem
    width = bits(elem)
    pointers = [use.pointer(out) for use in tiles]
    with out.rows(rows) as row:
        for column, count in out.columns(cols, 2048 // width):
            mask = out.first(count, width)
            registers = [
                out.load(p, elem, out.place((row, pitch), (column, 1)))
                for p, pitch in zip(pointers[:-1], pitches[:-1], strict=True)
            ]
            value = body(out, registers, mask, elem)
            at = out.place((row, pitches[-1]), (column, 1))
            types = [vreg(elem), f"!pto.ptr<{elem}, ub>", f"!pto.mask<b{width}>"]
            out.op("vsts", [value, out.at(pointers[-1], at), mask], types)
