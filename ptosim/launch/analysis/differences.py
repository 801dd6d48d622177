"""Two programs side by side, or one program on two targets: findings, values, budget, cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import (
    Diagnostic,
    ProgramError,
    Severity,
    Trap,
    UnsupportedError,
)
from ptosim.ground.errors import BudgetError, PtosimError, UsageError
from ptosim.ground.ir.program import Function
from ptosim.ground.isa.dates import make_profile
from ptosim.ground.records import dataclass, field
from ptosim.language.place.cores import peer_functions
from ptosim.launch.analysis.memory_map import memory_map
from ptosim.launch.compare import Choices, Comparison, compare
from ptosim.launch.description import Tolerance
from ptosim.launch.hard import Use, redrawn, uses
from ptosim.launch.prepared import Redraw
from ptosim.launch.program import LoadedProgram
from ptosim.time.report.totals import CostReport


@dataclass(slots=True)
class Side:
    """What one program gives. `spaces` are high-water mark and safe limit by space; `why_not` says
    why it has no values or no cycles."""

    name: str
    target: str
    chip: str
    findings: list[Diagnostic]
    spaces: dict[str, tuple[int, int]] = field(default_factory=dict)
    program: LoadedProgram | None = None
    cost: CostReport | None = None
    outputs: dict[str, np.ndarray] | None = None
    why_not: str = ""
    exit_code: int = 0
    """Of a program that is refused as a whole: rejected, or not executed on the target."""
    stop_code: int = 0
    """Of what kept a program that is not refused from giving values: arguments, a trap, a limit."""

    @property
    def cycles(self) -> int | None:
        """What it takes, where that is known."""
        return self.cost.cycles if self.cost is not None else None

    @property
    def is_rejected(self) -> bool:
        """True if the program is refused as a whole."""
        return self.exit_code != 0


@dataclass(slots=True)
class Difference:
    """What changes from one side to the other."""

    first: Side
    second: Side
    new: list[Diagnostic]
    gone: list[Diagnostic]
    values: list[Comparison]
    values_note: str = ""

    def regressions(self, slower: float, threshold: Severity | None) -> list[str]:
        """Return what got worse, in words: findings from a severity on, values, budget, cycles
        beyond `slower` percent."""
        told = []
        bad = [d for d in self.new if threshold is not None and d.severity >= threshold]
        if bad:
            told.append(f"{len(bad)} new finding{'s' if len(bad) != 1 else ''}")
        told += [f"values of {c.name} differ" for c in self.values if not c.passed]
        for space, (used, safe) in self.second.spaces.items():
            if used > safe and self.first.spaces.get(space, (0, 0))[0] <= safe:
                told.append(f"{space} is {used - safe} bytes over its safe limit")
        before, after = self.first.cycles, self.second.cycles
        if before and after and after > before * (1 + slower / 100):
            told.append(f"{(after - before) / before:,.1%} more cycles")
        return told

    @property
    def compares_nothing(self) -> bool:
        """True if no value of one side was compared with the other."""
        return bool(self.values_note)

    @property
    def exit_code(self) -> int:
        """That of a side that is refused, or that gave no values; 0 if both could be compared."""
        sides = (self.first, self.second)
        refused = next((s.exit_code for s in sides if s.exit_code), 0)
        if refused or not self.compares_nothing:
            return refused
        return next((s.stop_code for s in sides if s.stop_code), 1)

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as JSON data."""
        return {
            "sides": [_side_fields(s) for s in (self.first, self.second)],
            "new_findings": [d.to_dict() for d in self.new],
            "gone_findings": [d.to_dict() for d in self.gone],
            "values": [c.to_dict() for c in self.values],
            "values_note": self.values_note,
        }


def _side_fields(side: Side) -> dict[str, Any]:
    return {
        "name": side.name,
        "target": side.target,
        "chip": side.chip,
        "findings": len(side.findings),
        "cycles": side.cycles,
        "budget": {n: {"high_water": u, "safe": s} for n, (u, s) in side.spaces.items()},
        "without": side.why_not,
    }


def hard_data(
    programs: Sequence[tuple[LoadedProgram, str | None]],
    args: Mapping[str, Any],
    kinds: Sequence[str],
    seed: int,
    **launch: Any,
) -> list[dict[str, Any]]:
    """Return arguments of each kind that are hard for all of these programs: those that are marked
    (`Redraw`) or left out, in the shapes that the first program gives them. Raises what a run of it
    does."""
    known: dict[str, Use] = {}
    functions: list[Function] = []
    for program, entry in programs:
        resolved = program.front.resolved
        launched = peer_functions(resolved, resolved.functions[program.entry(entry)])
        functions += launched
        for name, use in uses(launched).items():
            known.setdefault(name, Use()).add(use)
    given = {n: v.value if isinstance(v, Redraw) else v for n, v in args.items()}
    program, entry = programs[0]
    result = program.run(given, entry=entry, seed=seed, timing=False, sanitize="none", **launch)
    drawn = {n: Redraw(v) for n, v in result.outputs.items() if n not in given}
    types = {a.name: a.kind for a in program.signature(entry)}
    drawn = {n: v for n, v in drawn.items() if types.get(n) in ("ptr", "memref")}
    return [redrawn(functions, {**drawn, **args}, kind, seed, known) for kind in kinds]


def look_at(choices: Choices, given: Mapping[str, Any] | None = None) -> Side:
    """Return one side, on `given` arguments, else on those of the choices. Raises
    UsageError for options that mean nothing; faults of the program are its findings."""
    args = choices.arguments() if given is None else dict(given)
    front = choices.front()
    side = Side(front.source.name, front.target, front.chip, list(front.sink))
    profile = make_profile(
        choices.profile or "hw", front.target, choices.switches, library=front.source.is_cpp
    )
    if front.sink.is_rejected:
        side.why_not, side.exit_code = "rejected", ProgramError.exit_code
        return side
    program = side.program = LoadedProgram(front, profile)
    entry = program.entry(choices.entry)
    named = {name: value for name, value in args.items() if "@" not in name}
    for space in memory_map(front, profile, entry, named).spaces:
        side.spaces[space.space.name] = (space.high_water, space.space.safe)
    try:
        result = program.run(args, entry=entry, timing=False, **choices.run_options())
        side.findings, side.outputs = result.findings, result.outputs
    except Trap as trap:
        side.findings, side.why_not = list(trap.diagnostics), "stopped"
        side.stop_code = trap.exit_code
    except BudgetError:
        raise
    except PtosimError as problem:
        side.why_not = str(problem)
        if isinstance(problem, UnsupportedError):
            side.exit_code = problem.exit_code
        else:
            side.stop_code = problem.exit_code
    try:
        how = choices.run_options("block_num", "ranks")
        side.cost = program.cost(entry=entry, args=args, **how)
    except BudgetError:
        raise
    except PtosimError as problem:
        side.why_not = side.why_not or str(problem)
    return side


def difference(first: Side, second: Side, tolerance: Tolerance) -> Difference:
    """Return what changes from the first side to the second."""
    before = {_key(d) for d in first.findings}
    after = {_key(d) for d in second.findings}
    values, note = _values(first, second, tolerance)
    return Difference(
        first,
        second,
        [d for d in second.findings if _key(d) not in before and d.severity > Severity.NOTE],
        [d for d in first.findings if _key(d) not in after and d.severity > Severity.NOTE],
        values,
        note,
    )


def _key(finding: Diagnostic) -> tuple[str, str]:
    return finding.code, finding.message


def _values(first: Side, second: Side, tolerance: Tolerance) -> tuple[list[Comparison], str]:
    for side in (first, second):
        if side.outputs is None:
            return [], f"not compared: {side.name} ({side.target}): {side.why_not}"
    one, two = first.outputs or {}, second.outputs or {}
    if one.keys() != two.keys():
        return [], f"not compared: outputs {', '.join(one)} and {', '.join(two)}"
    try:
        return [compare(name, two[name], one[name], tolerance) for name in one], ""
    except UsageError as problem:
        return [], f"not compared: {problem}"
