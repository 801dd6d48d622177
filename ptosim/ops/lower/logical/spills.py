"""Regions of logical operations that need more registers than there are."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.isa.targets import machine
from ptosim.ops.lower.logical.names import has_logical

NAMES = {"vector": "vector registers", "mask": "predicate registers"}


def spills(resolved: ResolvedModule) -> Iterator[Diagnostic]:
    """Yield a warning for each region and kind of register of which there are too few."""
    limits = machine(resolved.chip).registers
    in_snippet = any(f.implicit for f in resolved.functions.values())  # may leave operands out
    if not limits or in_snippet or not has_logical(resolved.ops):
        return
    # Most programs have none, and what lowers them takes as long to load as a small one to parse.
    from ptosim.ops.lower.logical.pressure import KINDS, pressure
    from ptosim.ops.lower.logical.program import Lowered, takes_logical, vector_scopes
    from ptosim.ops.lower.logical.scope import NotLowered

    lowered = Lowered(resolved, estimates=True)
    for function in resolved.functions.values():
        if not function.has_body or takes_logical(function):
            continue
        for block in function.op.regions[0].blocks:
            for region in vector_scopes(block.run):
                if not has_logical(region.walk()[1:]):
                    continue
                try:
                    nodes = lowered.scope(region).nodes
                except NotLowered:  # what it would need is not known; expanding it says why
                    continue
                found = pressure(nodes, limits)
                for kind in KINDS:
                    if not found.spilled[kind]:
                        continue
                    needed = found.peak[kind]
                    yield finding(
                        "PTO6463",
                        f"the region needs {needed} {NAMES[kind]} at once, the machine has "
                        f"{limits[kind]}: {needed - limits[kind]} values would be spilled",
                        region.walk()[1].span(resolved.module.source),
                        notes=("counted over its physical instructions in program order",),
                        help="make the vectors shorter, or use results sooner: `ptosim expand` "
                        "shows the registers",
                    )
