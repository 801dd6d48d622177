"""What a change of formula costs: cycles of a generated kernel with the new formula, less those of
the step's own."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ptosim.ground.errors import UnsupportedError
from ptosim.machine.quant.schemes import Scheme, scheme
from ptosim.machine.quant.storage import Storage, storage
from ptosim.models import chains, kernels
from ptosim.models.audit.steps import SUMS, Line, Step
from ptosim.models.chains import Affine
from ptosim.models.kernel_builder import KernelBuilder, TileValue, module
from ptosim.models.kernel_runner import Argument, timed
from ptosim.models.quant.causes import exchanged

_ROUNDINGS = {"rne": "RINT", "away": "ROUND", "trunc": "TRUNC"}


def prices(step: Step, line: Line, targets: Sequence[str]) -> dict[str, int | None]:
    """Return the cycles that the smallest change adds to all executions of a step, by target; None
    where no kernel computes the changed formula."""
    own, name = step.own, line.system.formula(step.form)
    if own is None or not line.verdict.change or not name:
        return {}
    made = exchanged(own, scheme(name), line.verdict.change)
    return {t: None if made is None else _price(step, own, made, t) for t in targets}


def _price(step: Step, own: Scheme, made: Scheme, target: str) -> int | None:
    try:
        after = _cycles(step, made, target)
        # The cube's output path converts on the way: what is added is the whole vector kernel.
        before = 0 if step.form == SUMS else _cycles(step, own, target)
    except UnsupportedError:
        return None
    return None if after is None or before is None else (after - before) * step.executions


def _cycles(step: Step, formula: Scheme, target: str) -> int | None:
    rows, cols = prod(step.shape[:-1]), step.shape[-1] if step.shape else 1
    grid = kernels.grid(rows, cols)
    height, width = grid.padded
    out, element = storage(step.out), _element(step)
    f = function_of(step, formula, target, grid)
    count = {"tensor": 1, "row": height, "column": width}[step.along]
    args: dict[str, Argument] = {
        "x": np.zeros((height, width), kernels.ARRAYS[element]),
        "y": np.zeros((height, width), kernels.ARRAYS[kernels.memory_type(out)]),
    }
    zero = np.int32 if formula.zero == "after" else np.float32
    for name, kind in (("scale", np.float32), ("zero", zero)):
        if name in f.args:
            args[name] = kind(1).item() if step.along == "tensor" else np.ones(count, kind)
    return timed(module(f), args).cycles


def _element(step: Step) -> str:
    return "i32" if step.form == SUMS else "f32"


def function_of(step: Step, formula: Scheme, target: str, grid: kernels.Grid) -> KernelBuilder:
    """Return a function x -> y that computes a formula on a step's matrix, with `scale` and `zero`
    arguments as the step has them (i32 zeros where they come after the rounding). Raises
    UnsupportedError for a formula without instructions."""
    out, element = storage(step.out), _element(step)
    if formula == scheme("pto-hw"):
        return kernels.quantize(
            "quantize", target, grid, step.along, out, "fast", zero=step.has_zero
        )

    def body(f: KernelBuilder, frame: kernels.Frame) -> None:
        source = frame.load("x", element)
        real = source if element == "f32" else chains.real(f, source)
        shift = None
        scale = frame.parameter("scale", step.along)
        if step.has_zero:
            kind = "i32" if formula.zero == "after" else "f32"
            shift = frame.parameter("zero", step.along, kind)
        made = _formula(f, real, Affine(step.along, scale, shift), formula, out)
        frame.store(made, "y")

    return kernels.function("quantize", target, grid, body)


def _formula(
    f: KernelBuilder, x: TileValue, affine: Affine, formula: Scheme, out: Storage
) -> TileValue:
    """Add the operations of a formula. Raises UnsupportedError for one without instructions: a
    product and a sum in one rounding, arithmetic wider than f32, a result that wraps."""
    if formula.scale == "fused" or formula.precision in ("exact", "f64"):
        raise chains.unsupported("no instruction rounds a product and a sum once")
    if formula.overflow == "wrap":
        raise chains.unsupported("the formula's results wrap")
    value = f.tile("scaled", "f32", x.rows, x.cols)
    chains.apply(f, "div" if formula.scale == "divide" else "mul", x, affine.scale, value)
    if formula.through == ("f16",):
        value = chains.real(f, chains.half(f, value))
    if affine.zero is not None and formula.zero == "before":
        chains.apply(f, "add", value, affine.zero, value)
    if formula.nan != "zero":
        chains.numbers(f, value, x)  # what is no number gives a limit
    mode = {"rmode": f"#pto<round_mode {_ROUNDINGS[formula.rounding]}>"} | chains.ON
    whole = chains.converted(f, value, "whole", "i32", mode)
    if affine.zero is not None and formula.zero == "after":
        return chains.offset(f, whole, affine, out, x)
    return chains.narrow(f, whole, x, out)
