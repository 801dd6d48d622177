"""TQUANT, stage by stage.

A2/A3 (INT8): spread the scales, multiply, f32 to s32, s32 to f16, f16 to INT8, with a barrier after
each; the dequantising s32 to f16 sets a register and drains the pipe for every row, and dominates.
A5 (INT8): one vector function whose iteration does the same steps, with s32 to f32 and f32 to f16
in place of the dequantising conversion. Instructions are those of the pto-isa headers of TQUANT;
nobody has published a measurement."""

from __future__ import annotations

from ptosim.ground.isa.dtypes import dtype
from ptosim.ground.records import replace
from ptosim.time.laws.casts import conversion_stage, dequantising_stage
from ptosim.time.laws.cost import Cost, Stage, derived
from ptosim.time.laws.functions import Body, Function, frame_stage, loop_stages, nest_by_rows
from ptosim.time.laws.microscaling import microscaling
from ptosim.time.laws.request import Request
from ptosim.time.laws.shapes import TileShape
from ptosim.time.laws.spread import spread_and_combine

LANES = 64
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
    nest = nest_by_rows(src.rows, src.cols, LANES)
    stages = [frame_stage(timing), *loop_stages(timing, body, nest)]
    return derived(request, stages, src.rows * src.cols * len(names))
