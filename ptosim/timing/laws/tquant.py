"""TQUANT, stage by stage.

A2/A3 (INT8): spread the scales, multiply, f32 to s32, s32 to f16, f16 to INT8, with a barrier
after each; the dequantising s32 to f16 sets a register and drains the pipe for every row, and
dominates. A5 (INT8): one vector function whose iteration does the same five steps. A5
(microscaling): three loops with memory barriers between them: maxima of the groups, exponents and
scales, scaled conversion (pto-isa headers of TQUANT; instruction counts for each iteration are
theirs, nobody has published a measurement).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ptosim.ground.isa.dtypes import dtype
from ptosim.timing.laws.casts import conversion_stage, dequantising_stage
from ptosim.timing.laws.cost import Cost, Stage
from ptosim.timing.laws.functions import (
    Body,
    Function,
    Nest,
    frame_stage,
    loop_stages,
    nest_by_rows,
)
from ptosim.timing.laws.request import Request
from ptosim.timing.laws.shapes import TileShape
from ptosim.timing.laws.spread import spread_and_combine

LANES = 64
"""f32 elements of a repeat."""

GROUP = 32
"""Elements that share an exponent."""



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
    return _derived(
        request, stages, src.rows * src.cols * len(steps), latency=convert["start"]
    )


def _has_offset(request: Request, dst: TileShape) -> bool:
    """A tile of offsets, or, where no type is written, a second column of the scales."""
    if request.shape.tile("offset") is not None:
        return True
    return request.shape.attrs.get("quant_type") is None and dst.dtype.kind == "uint"


# -- A5 --------------------------------------------------------------------------------------------


def quant_function(request: Request) -> Cost:
    """INT8: one loop nest; microscaling: three phases."""
    shape = request.shape
    if shape.tile("exp") is not None:
        return _microscaling(request)
    src, dst = shape.tile("src"), shape.tile("dst")
    assert src is not None
    assert dst is not None
    asymmetric = _has_offset(request, dst)
    names = [("scale: ", "vmul")]
    if asymmetric:
        names.append(("offset: ", "vadd"))
    names += [("f32 to s32: ", "vcvti"), ("s32 to f32: ", "vcvti"), ("f32 to f16: ", "vcvt"),
              (f"f16 to {dst.dtype}: ", "vcvt")]  # fmt: skip
    rows = tuple((f"{label}{n}", request.instruction(n, src)) for label, n in names)
    body = Body(3 if asymmetric else 2, 1, rows, True)
    timing = Function(request.table)
    nest = nest_by_rows(src.rows, src.cols, LANES)
    stages = [frame_stage(timing), *loop_stages(timing, body, nest)]
    return _derived(request, stages, src.rows * src.cols * len(names))


@dataclass(frozen=True, slots=True)
class Phase:
    """A loop of a microscaling function: iterations, loads, stores, instructions of one
    iteration."""

    name: str
    iterations: int
    loads: int
    stores: int
    instructions: tuple[tuple[str, int], ...]


def _microscaling(request: Request) -> Cost:
    src, dst = request.shape.tile("src"), request.shape.tile("dst")
    assert src is not None
    assert dst is not None
    timing = Function(request.table)
    attrs = request.shape.attrs
    words = (attrs.get(name) for name in ("mx_alg", "quantScaleAlg", "scale_alg"))
    phases = mx_phases(src, dst, nvidia=any(str(word or "").startswith("N") for word in words))
    stages = [frame_stage(timing)]
    for number, phase in enumerate(phases):
        if number:
            row = request.table["function.barrier"]
            stages.append(Stage("memory barrier", row["cycles"], 1, row.confidence))
        stages.append(_phase_stage(request, timing, phase))
    return _derived(request, stages, src.rows * src.cols * 4)


def _phase_stage(request: Request, timing: Function, phase: Phase) -> Stage:
    rows = tuple(
        (name, request.table[f"instruction.{name}"])
        for name, count in phase.instructions
        for _ in range(count)
    )
    body = Body(phase.loads, phase.stores, rows, True)
    nest = Nest(max(phase.iterations, 1), 1, False)
    chain = timing.chain(Body(0, 0, rows[:4], True))  # the longest dependent path, not every one
    return Stage(phase.name, chain + timing.loop(body, nest), nest.inner, "derived")


def mx_phases(src: TileShape, dst: TileShape, *, nvidia: bool) -> list[Phase]:
    """Return the three loops, by the element types and the size."""
    count = src.rows * -(-src.cols // GROUP) * GROUP
    groups = count // GROUP
    if src.bits == 32:
        return [
            _maxima_f32(count),
            _exponents(-(-groups // LANES), nvidia, 2),
            _scaled_f32(count),
        ]
    half = src.dtype.family == "f16"
    exponents = _exponents(-(-groups // (2 * LANES)), nvidia, 2)
    maxima = Phase(
        "maxima of groups", -(-count // 256), 1, 1,
        (("vlogic", 20 if half else 2), ("vmax", 1), ("vcgmax", 1)),
    )  # fmt: skip
    width = dst.bits // getattr(dst.dtype, "count", 1)
    return [maxima, exponents, _scaled_16(count, width, half)]


def _maxima_f32(count: int) -> Phase:
    name = "maxima of groups"
    if count <= 1024:
        return Phase(name, -(-count // LANES), 1, 2, (("vabs", 1), ("vsel", 1), ("vcgmax", 2)))
    if count % 2048 == 0:
        body = (("vabs", 4), ("vmax", 3), ("vperm", 1), ("vcgmax", 1))
        return Phase(name, count // 256, 2, 1, body)
    body = (("vabs", 4), ("vperm", 2), ("vmax", 3), ("vcgmax", 1))
    return Phase(name, -(-count // 256), 2, 1, body)


def _exponents(iterations: int, nvidia: bool, stores: int) -> Phase:
    body = [("vlogic", 4), ("vsub", 2), ("vcmp", 3), ("vsel", 4)]
    if nvidia:
        body += [("vmuls", 1), ("vadds", 2), ("vcmp", 2), ("vsel", 2)]
    return Phase("exponents and scales", iterations, 1, stores, tuple(body))


def _scaled_f32(count: int) -> Phase:
    name = "scale and convert"
    if count > 1024 and count % 256 == 0:
        return Phase(name, count // 128, 2, 1, (("vmul", 2), ("vcvt", 2), ("vlogic", 1)))
    return Phase(name, -(-count // LANES), 3, 1, (("vmul", 2), ("vlogic", 1), ("vcvt", 1)))


def _scaled_16(count: int, bits: int, half: bool) -> Phase:
    name = "scale and convert"
    if bits == 4:
        body = (("vmul", 2), ("vsel", 2), ("vperm", 1), ("vcvt", 2))
        return Phase(name, -(-count // 256), 2, 2, body)
    body = (("vmul", 4 if half else 2), ("vcvt", 9 if half else 8), ("vlogic", 3))
    return Phase(name, -(-count // 256), 2, 1, body)


def _derived(request: Request, stages: list[Stage], work: int, latency: float = 0) -> Cost:
    """Nobody has published a measured TQUANT: no stage is better than derived."""
    weaker = [
        replace(s, confidence="derived" if s.confidence != "assumed" else "assumed")
        for s in stages
    ]
    return request.cost(weaker, latency=latency, work=work)
