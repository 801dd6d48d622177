"""Placement of every entry before any run: addresses, overlaps of the rules, budgets."""

from __future__ import annotations

from ptosim.ground.diagnostics.model import Diagnostic, Sink
from ptosim.ground.ir.program import ResolvedModule
from ptosim.passes.place.cores import has_abstract, peer_functions, reached_functions
from ptosim.passes.place.planner import place


def check_placement(resolved: ResolvedModule, sink: Sink) -> None:
    """Report what the placement of each entry finds; a function that several entries reach is
    reported once. Functions whose tile shapes come from the arguments wait for the run."""
    seen: list[Diagnostic] = []
    for name in resolved.entries():
        reached = reached_functions(resolved, peer_functions(resolved, resolved.functions[name]))
        if any(has_abstract(f) for f in reached):
            continue
        found = Sink()
        place(resolved, reached, found)
        seen.extend(d for d in found if d not in seen)
    sink.extend(seen)
