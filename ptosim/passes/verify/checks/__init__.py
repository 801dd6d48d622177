"""Static checks that look at more than one operation."""

from __future__ import annotations

from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.ir.program import ResolvedModule
from ptosim.passes.verify.checks import (
    buffers,
    calls,
    functions,
    layouts,
    levels,
    pipes,
    popped,
    regions,
    sync,
    tiles,
    vecscope,
    views,
)
from ptosim.passes.verify.checks import quantised as quant

_CHECKS = (
    functions.check,
    calls.check,
    regions.check,
    levels.check,
    views.check,
    layouts.check,
    tiles.check,
    sync.check,
    buffers.check,
    pipes.check,
    popped.check,
    vecscope.check,
    quant.check,
)


def run_all(resolved: ResolvedModule, level: int, sink: Sink) -> None:
    """Run every check on a module; findings go to `sink`."""
    for check in _CHECKS:
        check(resolved, level, sink)
