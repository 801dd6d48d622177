"""TQUANT, stage by stage; instructions are those of the pto-isa headers, nobody has published a
measurement.

INT8 on A2/A3: spread the scales, multiply, f32 to s32, s32 to f16, f16 to INT8, a barrier after
each; the dequantising s32 to f16 sets a register and drains the pipe for every row, and dominates.
On A5: one vector function whose iteration does the same steps, with s32 to f32 and f32 to f16 in
place of the dequantising conversion.

Microscaling formats on A5: one vector function of three loops with memory barriers between them.
Maxima of the groups, exponents and scales, scaled conversion.

- maxima: f32 unrolled over 256 elements where the size allows; 16-bit elements in steps of 256; f16
  under the OCP rule is cast to bf16 first, with its NaN and infinities kept (18 instructions),
  under the NV rule it is reduced as it is;
- exponents: 64 groups at a time (128 of 16 bits) where all are dense; f32 with a row of exponents
  for each row goes group by group;
- conversion: f32 unrolled over 128 elements where scales are stored twice (dense exponents, more
  than 1,024 elements), else 64 at a time; f16 to 4 bits is rounded by arithmetic, about 98
  instructions for 256 elements."""

from __future__ import annotations

from math import prod
from typing import Any

from ptosim.ground.diagnostics.model import UnsupportedError, finding
from ptosim.ground.ir.types import REGISTER_BYTES
from ptosim.ground.isa.costs import CostRow
from ptosim.ground.isa.schema import dtype
from ptosim.ground.records import dataclass, replace
from ptosim.time.laws.casts import conversion_stage, dequantising_stage
from ptosim.time.laws.cost import Cost, Movement, Request, Stage, derived
from ptosim.time.laws.functions import (
    Body,
    Function,
    Nest,
    blocks,
    frame_stage,
    loop_stages,
    nest_by_rows,
    spread_and_combine,
)
from ptosim.time.laws.shapes import PointerShape, TileShape
from ptosim.time.laws.transfer import cut_rows

GROUP = 32
"""Elements that share an exponent."""

LANES = 64
"""f32 elements of a repeat."""

UNROLLED = 1024
"""Elements up to which the loops over f32 are the plain ones."""

Instructions = tuple[tuple[str, int], ...]
"""Instructions of an iteration: name and how many."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A loop of a microscaling function: iterations, loads, stores, instructions of one
    iteration."""

    name: str
    iterations: int
    loads: int
    stores: int
    instructions: Instructions

    @property
    def executes(self) -> str:
        """What an iteration executes, as text."""
        parts = [("vlds", self.loads), *self.instructions, ("vsts", self.stores)]
        return ", ".join(name if count == 1 else f"{count} {name}" for name, count in parts)

    @property
    def count(self) -> int:
        """Instructions of all iterations."""
        each = self.loads + self.stores + sum(count for _, count in self.instructions)
        return each * max(self.iterations, 1)


def microscaling(request: Request) -> Cost:
    """Return the cost of the three loops and the barriers between them."""
    shape = request.shape
    src, dst, exp = shape.tile("src"), shape.tile("dst"), shape.tile("exp")
    assert src is not None
    assert dst is not None
    assert exp is not None
    timing = Function(request.table)
    words = (shape.attrs.get(name) for name in ("mx_alg", "quantScaleAlg", "scale_alg"))
    nv = any(str(word or "").startswith("N") for word in words)
    stages = [frame_stage(timing)]
    for number, phase in enumerate(mx_phases(src, dst, nv=nv, dense=exp.type.rows == 1)):
        if number:
            row = request.table["function.barrier"]
            stages.append(Stage("memory barrier", row["cycles"], 1, row.confidence))
        stages.append(_phase_stage(request, timing, phase))
    return derived(request, stages, src.rows * src.cols * 4)


def _phase_stage(request: Request, timing: Function, phase: Phase) -> Stage:
    rows = tuple(
        (name, request.table[f"instruction.{name}"])
        for name, count in phase.instructions
        for _ in range(count)
    )
    body = Body(phase.loads, phase.stores, rows, True)
    nest = Nest(max(phase.iterations, 1), 1, False)
    chain = timing.chain(Body(0, 0, rows[:4], True))  # the longest dependent path, not every one
    cycles = chain + timing.loop(body, nest)
    return Stage(
        phase.name, cycles, phase.count, "derived", repeats=nest.total, executes=phase.executes
    )


def mx_phases(src: TileShape, dst: TileShape, *, nv: bool, dense: bool) -> list[Phase]:
    """Return the three loops, by the element types, the rule, the size, and whether the exponents
    of all rows are one run."""
    count = src.rows * -(-src.cols // GROUP) * GROUP
    groups = count // GROUP
    if src.bits == 32:
        steps = -(-groups // LANES) if dense else groups
        return [_maxima_f32(count), _exponents(steps, nv=nv), _scaled_f32(count, dense=dense)]
    half = src.dtype.family == "f16"
    width = dst.bits // getattr(dst.dtype, "count", 1)
    return [
        _maxima_16(count, special=half and not nv),
        _exponents(-(-groups // (2 * LANES)), nv=nv),
        _scaled_16(count, width, half=half),
    ]


def _maxima_f32(count: int) -> Phase:
    name = "maxima of groups"
    if count <= UNROLLED:
        return Phase(name, -(-count // LANES), 1, 2, (("vabs", 1), ("vsel", 1), ("vcgmax", 2)))
    permuted = 1 if count % 2048 == 0 else 2
    body = (("vabs", 4), ("vperm", permuted), ("vmax", 3), ("vcgmax", 1))
    return Phase(name, -(-count // 256), 2, 1, body)


def _maxima_16(count: int, *, special: bool) -> Phase:
    """`special`: f16 whose NaN and infinities are kept when it becomes bf16."""
    body = (("vlogic", 20 if special else 2), ("vmax", 1), ("vcgmax", 1))
    return Phase("maxima of groups", -(-count // 256), 1, 1, body)


def _exponents(iterations: int, *, nv: bool) -> Phase:
    body = [("vlogic", 4), ("vsub", 2), ("vcmp", 3), ("vsel", 4)]
    if nv:
        body += [("vmuls", 1), ("vadds", 2), ("vcmp", 2), ("vsel", 2)]
    return Phase("exponents and scales", iterations, 1, 2, tuple(body))


def _scaled_f32(count: int, *, dense: bool) -> Phase:
    name = "scale and convert"
    if dense and count > UNROLLED and count % 256 == 0:
        return Phase(name, count // 128, 2, 1, (("vmul", 2), ("vcvt", 2), ("vlogic", 1)))
    return Phase(name, -(-count // LANES), 3, 1, (("vmul", 2), ("vlogic", 1), ("vcvt", 1)))


_ROUNDED_BY_HAND = (("vcvt", 6), ("vmul", 4), ("vlogic", 64), ("vcmp", 4), ("vsel", 8), ("vadd", 8))
"""f16 to 4 bits, 256 elements: widened to four registers of f32 and scaled; each is rounded by
adding and taking away a power of two, clamped, signed and freed of NaN (pto-isa: about 98
instructions with the loads and stores)."""


def _scaled_16(count: int, bits: int, *, half: bool) -> Phase:
    name = "scale and convert"
    steps = -(-count // 256)
    if bits == 4 and half:
        return Phase(name, steps, 2, 2, _ROUNDED_BY_HAND)
    if bits == 4:
        return Phase(name, steps, 2, 2, (("vmul", 2), ("vsel", 2), ("vperm", 1), ("vcvt", 2)))
    body = (("vmul", 4 if half else 2), ("vcvt", 9 if half else 8), ("vlogic", 3))
    return Phase(name, steps, 2, 1, body)


# -- the whole operation ---------------------------------------------------------------------------


REPEAT = 64
"""f32 elements of a repeat."""


# -- A2/A3 -----------------------------------------------------------------------------------------


def quant_repeats(request: Request) -> Cost:
    """The chain of A2/A3: INT8 with a scale, and an offset in the asymmetric form, for each row."""
    src = request.shape.tile("src")
    dst = request.shape.tile("dst")
    assert src is not None
    assert dst is not None
    convert = request.table["instruction.vconv"]
    narrow = TileShape(dst.type, src.rows, src.cols)
    half = TileShape(replace(src.type, dtype=dtype("f16")), src.rows, src.cols)
    steps = spread_and_combine(request, "multiply by the scale", "vmul", src)
    if _has_offset(request, dst):
        steps += spread_and_combine(request, "add the offset", "vadd", src)
    steps += [
        conversion_stage(request, "f32 to s32", convert, src, src),
        dequantising_stage(request, src, src),
        conversion_stage(request, f"f16 to {dst.dtype}", convert, half, narrow),
    ]
    row = request.table["machine.barrier"]
    wait = Stage("barrier", row["cycles"], 1, row.confidence)
    stages = [stage for step in steps for stage in (step, wait)]
    return derived(request, stages, src.rows * src.cols * len(steps), latency=convert["start"])


def _has_offset(request: Request, dst: TileShape) -> bool:
    """A tile of offsets, or, where no type is written, a second column of the scales."""
    if request.shape.tile("offset") is not None:
        return True
    return request.shape.attrs.get("quant_type") is None and dst.dtype.kind == "uint"


# -- A5 --------------------------------------------------------------------------------------------


def quant_function(request: Request) -> Cost:
    """INT8: one loop nest; microscaling: three loops."""
    shape = request.shape
    if shape.tile("exp") is not None:
        return microscaling(request)
    src, dst = shape.tile("src"), shape.tile("dst")
    assert src is not None
    assert dst is not None
    asymmetric = _has_offset(request, dst)
    names = [("multiply by the scale", "vmul")]
    if asymmetric:
        names.append(("add the offset", "vadd"))
    names += [("f32 to s32", "vcvti"), ("s32 to f32", "vcvti"), ("f32 to f16", "vcvt"),
              (f"f16 to {dst.dtype}", "vcvt")]  # fmt: skip
    rows = tuple((label, request.instruction(n, src)) for label, n in names)
    body = Body(3 if asymmetric else 2, 1, rows, True)
    timing = Function(request.table)
    nest = nest_by_rows(src.rows, src.cols, REPEAT)
    stages = [frame_stage(timing), *loop_stages(timing, body, nest)]
    return derived(request, stages, src.rows * src.cols * len(names))


# Instructions of the micro level outside of vector regions: copies by bursts and loops, loads of
# L0, the cube, the fixpipe, sorting. They follow the laws of the tile operations that are made of
# them; their sizes are numbers of the instruction instead of shapes of tiles.


def copy(request: Request) -> Cost:
    """Bursts of bytes, or of units, through as many loops as there are."""
    args = _sizes(request)
    bursts = args.get("nburst.count", args.get("count", 1)) * prod(args.get("loop.count", ()))
    length = args["length"] * request.entry.options.get("unit", 1)
    return _through(request, _path(request), bursts * length, bursts)


def fractals(request: Request) -> Cost:
    """Global memory to L1 as fractals: `n` rows of `d` values, for each group."""
    args = _sizes(request)
    count, depth = (args.get(f"shape.{name}", args.get(name)) for name in "nd")
    rows = count * max(args.get("dst_group.groups", 1), 1)
    size = _pointer(request, "src").dtype.bytes_for(rows * depth)
    return _through(request, _path(request), size, rows)


def load(request: Request) -> Cost:
    """L1 to L0A or L0B."""
    args = _sizes(request)
    if args.get("m_step") is not None:
        return _through(request, _path(request), args["m_step"] * args["k_step"] * 512, 1)
    count = args["k"] * args.get("m", args.get("n", 0))
    return _through(request, _path(request), _pointer(request, "src").dtype.bytes_for(count), 1)


def scales(request: Request) -> Cost:
    """Scales of L0A or L0B: a byte for each row or column and 32 values of k."""
    args = _sizes(request)
    if args.get("x_step") is not None:
        return _through(request, "mat_scaling", args["x_step"] * args["y_step"] * 32, 1)
    size = args.get("m", args.get("n", 0)) * -(-args["k"] // 32)
    return _through(request, "mat_scaling", size, 1)


def fixpipe(request: Request) -> Cost:
    """An m by n accumulator: the bytes that are written count."""
    args = _sizes(request)
    size = _pointer(request, "dst").dtype.bytes_for(args["m"] * args["n"])
    return _through(request, _path(request), size, args["m"], args["n"])


def product(request: Request) -> Cost:
    """m x k by k x n."""
    args = _sizes(request)
    if "config" in args:  # three fields of 12 bits
        m, k, n = (args["config"] >> shift & 0xFFF for shift in (0, 12, 24))
    else:
        m, k, n = args["m"], args["k"], args["n"]
    return blocks(request, _pointer(request, "lhs").dtype, m, k, n)


def fill(request: Request) -> Cost:
    """Blocks of 32 bytes in L1 with a word."""
    args = _sizes(request)
    return _through(request, "fill_mat", args["repeat_times"] * args["blocks"] * 32, 1)


def sort(request: Request) -> Cost:
    """Repeats of 32 records sorted, or lists of records merged, by blocks of 64."""
    args = request.shape.args
    name = request.stages[0]
    row = request.table[f"instruction.{name}"]
    if "repeat" in args:
        count = args["repeat"]
    else:
        lengths = [
            args["counts"] >> 16 * k & 0xFFFF for k in range(4) if args["config"] >> 8 + k & 1
        ]
        count = (args["config"] & 0xFF) * -(-sum(lengths) // request.entry.options["item"])
    each = row["busy"] / 2  # of two ports that execute one sorts
    return request.cost(
        [
            Stage("start", row["latency"] - each, 1, row.confidence),
            Stage(name, each * count, count, row.confidence),
        ],
        work=0,
    )


def repeats(request: Request) -> Cost:
    """A vector instruction of A2/A3: start and cycles of each repeat; in count mode some more."""
    args, name = request.shape.args, request.stages[0]
    elem = _pointer(request, "dst").dtype
    counts, number, _ = args["masks"] or (0, 0, 0)
    lanes = REGISTER_BYTES // max(elem.bits // 8, 1)
    count = -(-number // lanes) if counts else args["repeat"] & 0xFF
    found = [f"instruction.{name}.int"] if elem.is_integer else []
    row = request.table.find(*found, f"instruction.{name}")
    slope = (row.get("slope16") or row["slope"]) if elem.bits <= 16 else row["slope"]
    counted = request.table["repeat.counted"]["cycles"] if "counted" in request.entry.options else 0
    cycles = row["start"] + slope * count + (counted if counts else 0)
    stages = [Stage(name, cycles, max(count, 1), row.confidence)]
    return request.cost(stages, latency=row["start"], work=count * lanes)


_FIELDS = ("config",)
"""Numbers whose bits are several sizes."""


def _sizes(request: Request) -> dict[str, Any]:
    """Sizes and counts of an instruction: a number below 0 moves nothing, as one that is 0."""

    def counted(value: Any) -> Any:
        if value.__class__ is tuple:
            return tuple(map(counted, value))
        return max(value, 0) if value.__class__ is int else value

    args = request.shape.args
    return {n: v if n in _FIELDS else counted(v) for n, v in args.items()}


def _pointer(request: Request, name: str) -> PointerShape:
    return request.shape.args[name]


def _path(request: Request) -> str:
    return f"{_pointer(request, 'src').loc}_{_pointer(request, 'dst').loc}"


def _through(request: Request, path: str, size: int, runs: int, cols: int = 0) -> Cost:
    """Latency, and the larger of bytes at the path's bandwidth and bursts; `cols` of an
    accumulator's row."""
    row: CostRow | None = request.table.rows.get(f"transfer.{path}")
    if row is None:
        text = f"there is no path from {' to '.join(path.split('_'))} that an operation could take"
        raise UnsupportedError([finding("PTO8002", text)])
    cut = runs * cut_rows(row, cols)
    by_bytes = size / request.table.bytes_per_cycle(row) + cut
    by_runs = runs * row["per_item"] + cut
    moved = None
    if "gm" in path.split("_"):
        direction = "read" if path.startswith("gm") else "write"
        moved = Movement(direction, size, max(runs, 1), size // max(runs, 1))
    occupied = path.startswith("mat")  # extractions do not overlap
    what = "bursts" if by_runs > by_bytes else "bytes"
    stages = [
        Stage("set-up" if occupied else "latency", row["cycles"], 1, row.confidence),
        Stage(f"{path.replace('_', ' to ')}: {what}", max(by_bytes, by_runs), runs, row.confidence),
    ]
    latency = 0 if occupied else row["cycles"]
    return request.cost(stages, latency=latency, moved=moved, work=0, spread=row.get("spread"))
