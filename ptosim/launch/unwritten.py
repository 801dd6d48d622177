"""Outputs that a run without values reached in part: what a grid of tiles leaves out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ptosim.engine.watch.monitor import Monitor
from ptosim.engine.watch.shadow import ORIGIN, Shadow
from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.core import Value
from ptosim.launch.extents import Needed
from ptosim.launch.symbolic import SymbolicLaunch

_MOST = 0.5
"""An output that is written to a smaller part than this is updated, not filled."""


def partly_written(launch: SymbolicLaunch, monitor: Monitor) -> Iterator[Diagnostic]:
    """Report arrays of which most elements are written, and the rest neither written nor read. Only
    arrays that views of constant shape describe row after row count, and only programs that do the
    same whichever core executes them: a launch on more cores would reach more."""
    if any(op.has("tells_core") for op in launch.front.resolved.ops):
        return
    for value in launch.function.args:
        needed = launch.reached.get(value.name)
        argument = launch.arrays.get(value.name)
        if needed is None or argument is None or not (needed.is_whole and needed.in_order):
            continue
        shadow = monitor.shadow(launch.machine.cores[0], argument.number)
        left = _left(shadow, needed)
        if left is not None and 0 < left.sum() < _MOST * needed.elements:
            yield _finding(launch, value, needed, left)


def _left(shadow: Shadow, needed: Needed) -> np.ndarray | None:
    """Which elements nothing wrote; None if one of them was read."""
    rest = [atom for atom in shadow.atoms if atom.write == ORIGIN]
    if any(atom.reads for atom in rest):
        return None
    labels = np.isin(shadow.labels, [atom.label for atom in rest])
    of_bytes = np.repeat(labels, shadow.unit)[: shadow.bytes]
    each = max(shadow.bytes // needed.elements, 1)
    return of_bytes[: needed.elements * each : each]


def _finding(launch: SymbolicLaunch, value: Value, needed: Needed, left: np.ndarray) -> Diagnostic:
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(left)), needed.shape))
    return finding(
        "PTO7407",
        f"{int(left.sum()):,} of the {needed.elements:,} elements of `%{value.name}` are never "
        "written",
        value.span(launch.front.source),
        label=f"the first one is {list(first)} of {'x'.join(map(str, needed.shape))}",
        help="let the last round of the loop reach them, with a smaller valid region",
    )
