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

from ptosim.ground.isa.dtypes import dtype
from ptosim.ground.records import dataclass, replace
from ptosim.time.laws.casts import conversion_stage, dequantising_stage
from ptosim.time.laws.cost import Cost, Stage, derived
from ptosim.time.laws.functions import Body, Function, Nest, frame_stage, loop_stages, nest_by_rows
from ptosim.time.laws.request import Request
from ptosim.time.laws.shapes import TileShape
from ptosim.time.laws.spread import spread_and_combine

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
