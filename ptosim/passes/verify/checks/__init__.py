"""Static checks that look at more than one operation."""

from __future__ import annotations

from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.ir.program import ResolvedModule
from ptosim.passes.verify.checks import addresses, fifos, functions, quantised, shapes, vecscope

_CHECKS = (
    functions.entries,
    functions.calls,
    functions.regions,
    addresses.levels,
    shapes.windows,
    shapes.layouts,
    shapes.tiles,
    fifos.signals,
    addresses.buffers,
    fifos.ends,
    fifos.popped,
    vecscope.check,
    quantised.check,
    quantised.reused,
)


def run_all(resolved: ResolvedModule, level: int, sink: Sink) -> None:
    """Run every check on a module; findings go to `sink`."""
    sink.extend([found for check in _CHECKS for found in check(resolved, level)])
