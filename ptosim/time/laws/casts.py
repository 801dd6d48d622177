"""TCVT. A2/A3: one conversion instruction, or a chain through wider types. A5: a vector function
whose rate depends on the widths."""

from __future__ import annotations

from ptosim.ground.ir.types import MAX_REPEATS, REGISTER_BYTES
from ptosim.ground.isa.costs import CostRow
from ptosim.ground.isa.schema import DType
from ptosim.time.laws.cost import Cost, Request, Stage
from ptosim.time.laws.functions import Body, Function, Nest, frame_stage, nest_by_rows, nest_in_line
from ptosim.time.laws.repeats import chain, instruction_stage
from ptosim.time.laws.shapes import TileShape

KNEE = 9
"""Iterations after the first up to which conversions of 8 bits in one loop were published."""

PAIR_LANES = 128
"""Elements of an iteration that narrows 32-bit rows: two registers become one."""


def lanes_between(src: TileShape, dst: TileShape) -> int:
    """Elements of a repeat: those of the wider type."""
    return REGISTER_BYTES * 8 // max(src.bits, dst.bits, 8)


# -- A2/A3 -----------------------------------------------------------------------------------------


def convert_repeats(request: Request) -> Cost:
    """Head of whole repeats row by row, then a masked tail; chains where no instruction converts in
    one step."""
    src, dst = _operands(request)
    names = _chain(request, src, dst)
    if names == ("deq",):
        return dequantising(request, src, dst)
    row = request.table["instruction.vconv"]
    stages = [conversion_stage(request, name, row, src, dst) for name in names]
    return chain(request, stages)


def conversion_stage(
    request: Request, name: str, row: CostRow, src: TileShape, dst: TileShape
) -> Stage:
    """Return the stage of one conversion of a region."""
    count, repeats = conversions(src, dst)
    pieces = max(-(-(src.cols // lanes_between(src, dst)) // MAX_REPEATS), 1)
    separate = request.table["repeat.separate"]["cycles"] * (pieces - 1) * src.rows
    return instruction_stage(name, row, repeats, src, separate, count)


def conversions(src: TileShape, dst: TileShape) -> tuple[int, int]:
    """Return the instructions of a conversion and their repeats: whole repeats row by row, then one
    masked instruction for what is left over of up to 255 rows."""
    whole, rest = divmod(src.cols, lanes_between(src, dst))
    count = src.rows * -(-whole // MAX_REPEATS)
    if rest:
        count += -(-src.rows // MAX_REPEATS)
    return count, src.rows * (whole + bool(rest))


def dequantising(request: Request, src: TileShape, dst: TileShape) -> Cost:
    """s32 to f16: the scale register is set and the pipe drained for every instruction, so each row
    pays the start-up."""
    return request.cost([dequantising_stage(request, src, dst)])


def dequantising_stage(request: Request, src: TileShape, dst: TileShape) -> Stage:
    """Return the stage of the dequantising conversion."""
    row = request.table["instruction.vconv"]
    count, repeats = conversions(src, dst)
    around = request.table["machine.barrier"]["cycles"] + request.table["machine.issue"]["cycles"]
    cycles = row["slope"] * repeats + count * (row["start"] + around)
    return Stage(
        "s32 to f16", cycles, count, row.confidence, repeats=repeats,
        executes="set_deqscale, barrier, vconv",
    )  # fmt: skip


def _chain(request: Request, src: TileShape, dst: TileShape) -> tuple[str, ...]:
    """The steps of a conversion: most are one instruction."""
    pair = (src.dtype.family, dst.dtype.family)
    if pair == ("i32", "f16"):
        return ("deq",)
    unsaturated = "OFF" in (str(request.shape.attrs.get(k)) for k in ("satmode", "sat_mode"))
    if unsaturated and request.shape.args.get("tmp") is not None and dst.dtype.is_integer:
        steps = {("f32", "i16"): 2, ("f16", "i16"): 2, ("f16", "i8"): 5}.get(pair, 1)
        return tuple(f"vconv {k + 1}" for k in range(steps))
    return ("vconv",)


def _operands(request: Request) -> tuple[TileShape, TileShape]:
    shape = request.shape
    src = shape.tile("src") or shape.tiles(shape.ins)[0]
    dst = shape.tile("dst") or shape.tiles(shape.outs)[0]
    return src, dst


# -- A5 --------------------------------------------------------------------------------------------


def cast_class(src: DType, dst: DType) -> str:
    """Return the class of a conversion: what happens to the width."""
    if src.is_integer or dst.is_integer:
        if dst.bits <= 8 and src.bits > 16:
            return "narrow16"
        return "integer" if src.bits == dst.bits else _by_width(src, dst)
    return _by_width(src, dst)


def _by_width(src: DType, dst: DType) -> str:
    """16-bit floats to HiF8 keep the rate of 16-bit conversions."""
    if dst.bits == src.bits or (src.bits == 16 and dst.family == "hif8"):
        return "same"
    if dst.is_integer or src.is_integer:
        return "narrow16" if dst.bits < src.bits else "widen16"
    if dst.bits <= 8:
        return "narrow8"
    if dst.bits < src.bits:
        return "narrow16"
    return {16: "widen16", 8: "widen8", 4: "widen4"}.get(src.bits, "widen16")


def convert_function(request: Request) -> Cost:
    """One vector function: one loop, rows of one iteration, or rows of several iterations."""
    src, dst = _operands(request)
    kind = cast_class(src.dtype, dst.dtype)
    timing = Function(request.table)
    line = src.cols == src.type.cols and dst.cols == dst.type.cols
    loops = nest_in_line if line else nest_by_rows
    nest = loops(src.rows, src.cols, _lanes(src, dst, kind, line))
    total = conversion_cycles(timing, kind, nest, line=line, merges=_merges(src, kind, line))
    stage = Stage(
        f"vcvt ({kind})", total, nest.total, request.table[f"cast.{kind}"].confidence,
        repeats=nest.total, executes="vcvt",
    )  # fmt: skip
    return request.cost([frame_stage(timing, _body(timing, kind)), stage])


def _body(timing: Function, kind: str) -> Body:
    return Body(1, 1, ((kind, timing.table[f"cast.{kind}"]),), True)


def conversion_cycles(
    timing: Function, kind: str, nest: Nest, *, line: bool, merges: bool
) -> float:
    """Return the cycles of loops of conversions of a class beside the frame of their function;
    `line`: the region is one run of memory; `merges`: results of two registers are merged."""
    body = _body(timing, kind)
    chain = timing.chain(body)
    loop = _loop(timing, kind, body, nest, merges=merges)
    if line and kind.startswith("widen"):
        loop = _in_one_loop(timing, timing.table[f"cast.{kind}"], nest.inner, loop)
    return chain + loop


def _in_one_loop(timing: Function, row: CostRow, count: float, plain: float) -> float:
    """Cycles that a conversion to wider elements in one run of memory adds: an entry that later
    iterations hide, until what an iteration takes shows; of 8 bits, as far as it was published (10
    iterations), more than the same in rows."""
    further = count - 1
    entry = timing.table["cast.line"]["entry"] + row["line"] * further
    if "knee" in row.values:
        shown = min(further, KNEE)
        plain = row["knee"] * shown - row["ahead"] + row["nested"] * (further - shown)
    return max(entry, plain)


def _merges(src: TileShape, kind: str, line: bool) -> bool:
    """Rows that get narrower: the results of two registers, or of their halves, are merged."""
    return not line and (kind == "narrow8" or (kind == "narrow16" and src.bits == 32))


def _lanes(src: TileShape, dst: TileShape, kind: str, line: bool) -> int:
    """Elements of an iteration; rows of 32-bit elements that get narrower take two registers at
    once, 4-bit elements are counted in pairs."""
    lanes = lanes_between(src, dst)
    if src.bits == 4:
        return lanes * 2
    return PAIR_LANES if src.bits == 32 and _merges(src, kind, line) else lanes


def _loop(timing: Function, kind: str, body: Body, nest: Nest, *, merges: bool) -> float:
    """Cycles that a merge and all iterations but the first add."""
    row = body.instructions[0][1]
    merge = 0.0
    if merges:
        merge = timing.table["instruction.vlogic"]["latency"] - timing.figure("forward")
    if nest.total <= 1:
        return merge
    if kind == "narrow8":
        return merge + _one_by_one(timing, body, nest)
    if merges or (kind.startswith("widen") and "nested" in row.values):
        return merge + _overlapping(timing, row, nest)
    return timing.loop(body, nest)


def _one_by_one(timing: Function, body: Body, nest: Nest) -> float:
    """Each iteration of a loop waits until the one before has drained; inside of rows nothing at
    all overlaps."""
    drain = timing.figure("drain")
    if nest.rows == 1:
        return drain * (nest.inner - 1) + 2 * timing.figure("loop")
    chain = timing.chain(body)
    alone = timing.frame(body) + chain + drain
    return (alone * nest.inner + body.instructions[0][1]["row"]) * nest.rows - chain


def _overlapping(timing: Function, row: CostRow, nest: Nest) -> float:
    """Iterations of several instructions; rows start one after the other."""
    extra = 2 * timing.figure("loop")
    nested = row["nested"]
    if nest.rows == 1:
        each = row.get("flat", nested) if nest.strided else nested
        return each * (nest.inner - 1) + extra
    distance = max(timing.figure("row_gap"), row["row"] + nested * nest.inner)
    return nested * (nest.inner - 1) + extra + distance * (nest.rows - 1)
