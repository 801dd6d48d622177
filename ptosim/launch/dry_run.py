"""A dry run: a program is followed without values, and what that brings out is told.

Buffers and tiles hold nothing, and scalars are those given. Control flow, addresses and
synchronisation are followed as far as scalars are known. Races, deadlocks, flags, and reads of
bytes that nothing wrote need no data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ptosim.engine.core.engine import Engine
from ptosim.engine.core.execute import executing
from ptosim.engine.core.records import Depth
from ptosim.engine.core.symbolic import Undecided, Unknowns
from ptosim.engine.watch.monitor import Monitor
from ptosim.engine.watch.shadow import ORIGIN, Shadow
from ptosim.ground.diagnostics.model import Diagnostic, Severity, finding, recoded
from ptosim.ground.errors import (
    BudgetError,
    ProgramError,
    PtosimError,
    Trap,
    UnsupportedError,
    UsageError,
)
from ptosim.ground.ir.core import Value
from ptosim.ground.isa.profiles import Profile
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Span
from ptosim.language.frontend import Front
from ptosim.language.promises import tells_core
from ptosim.launch.binding import UnknownBinding
from ptosim.launch.extents import Needed
from ptosim.launch.launch import Extent, Launch
from ptosim.launch.options import RunOptions
from ptosim.launch.prepared import prepare

# Outputs that a run without values reached in part: what a grid of tiles leaves out.

_MOST = 0.5
"""An output that is written to a smaller part than this is updated, not filled."""


def partly_written(
    launch: Launch, binding: UnknownBinding, monitor: Monitor
) -> Iterator[Diagnostic]:
    """Report arrays of which most elements are written, and the rest neither written nor read. Only
    arrays that views of constant shape describe row after row count, and only programs that do the
    same whichever core executes them: a launch on more cores would reach more."""
    if any(map(tells_core, launch.front.resolved.functions.values())):
        return
    for value in launch.function.args:
        needed = binding.reached.get(value.name)
        argument = binding.arrays.get(value.name)
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


def _finding(launch: Launch, value: Value, needed: Needed, left: np.ndarray) -> Diagnostic:
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(left)), needed.shape))
    return finding(
        "PTO7407",
        f"{int(left.sum()):,} of the {needed.elements:,} elements of `%{value.name}` are never "
        "written",
        value.span(launch.front.source),
        label=f"the first one is {list(first)} of {'x'.join(map(str, needed.shape))}",
        help="let the last round of the loop reach them, with a smaller valid region",
    )


PLACES = Extent(Depth.PLACES, UnknownBinding)
BUDGET = 20_000
"""Instructions that `check` follows unless it is told to follow to the end."""
MAX_STEPS = 200_000
"""Instructions that are followed for a map, or to judge a change."""

_TOLD = ("PTO5", "PTO61", "PTO7407")
"""Notes that following tells; notes on what operations compute are for runs."""
_OF_VALUES = "PTO72"
"""What quantisation does to values is for runs."""
_OUTSIDE = "PTO6001"
_PERHAPS_OUTSIDE = "PTO6019"


@dataclass(slots=True)
class Followed:
    """What following an entry without values brought out, and where it ended: '' if it came to the
    end of the program. `begun` is False where there was nothing to follow, `stopped` True where the
    program itself ends there: what is wrong is among the findings. `place` is where following had
    to give up. `unplaced` says on what accesses depend that may be anywhere, `unchecked` the same
    of other checks that were left out."""

    findings: list[Diagnostic] = field(default_factory=list)
    ended: str = ""
    begun: bool = True
    stopped: bool = False
    place: Span | None = None
    unplaced: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True if the program was followed to its end, and every access is at a known place."""
        return not self.ended and not self.unplaced

    @property
    def is_open(self) -> bool:
        """True if something was not followed or not checked that values could have decided."""
        return bool((self.ended and not self.stopped) or self.unplaced or self.unchecked)

    def __str__(self) -> str:
        text = self.ended or "to its end"
        origins = ", ".join(dict.fromkeys((*self.unplaced, *self.unchecked)))
        return f"{text}; not checked: what depends on {origins}" if origins else text


def follow(
    front: Front,
    profile: Profile,
    entry: str,
    args: Mapping[str, Any] | None = None,
    observers: Sequence[Any] = (),
    budget: int | None = MAX_STEPS,
    block_num: int = 1,
) -> Followed:
    """Follow an entry as far as its scalars are known, for `budget` instructions at most (None: as
    many as a run executes), in `block_num` blocks. Never raises for faults of the program; raises
    UsageError for arguments that do not fit."""
    options = RunOptions(block_num, timing=False)
    try:
        prepared = prepare(front, profile, entry, args or {})
        launch = Launch(prepared, options, args or {}, PLACES)
    except UsageError as problem:
        if args:
            raise
        return Followed(ended=f"not begun: {problem}", begun=False)
    except UnsupportedError as problem:
        return Followed(ended=f"not begun: {problem}", begun=False)
    except ProgramError as problem:  # what its shapes bring out, where they come from arguments
        return Followed(list(problem.diagnostics), f"not begun: {problem}", False, stopped=True)
    except BudgetError:
        raise
    except PtosimError as problem:
        return Followed(ended=f"not begun: {problem}", begun=False)
    domain = Unknowns()
    launch.begin(observers, domain=domain)
    return _followed(launch, domain, budget)


def _followed(launch: Launch, domain: Unknowns, budget: int | None) -> Followed:
    engine, monitor, binding = launch.engine, launch.sanitizers(), launch.binding
    assert isinstance(binding, UnknownBinding)
    result, stop = Followed(), None
    try:
        result.ended = _walk(engine, budget or launch.options.most_instructions)
    except Undecided as open_:
        result.ended = f"{open_}; not followed: {open_.left_out}"
        result.place = Span(launch.front.source, open_.op.start, open_.op.name_end)
    except Trap as trap:
        stop = max(reversed(trap.findings), key=lambda d: d.severity)
        place = f" at {stop.spans[0]}" if stop.spans else ""
        result.ended, result.stopped = f"stopped by {stop.code}{place}", True
    except BudgetError as reached:
        reached.findings = [_certain(d, binding.assumed) for d in launch.sink if _is_kept(d)]
        raise
    if monitor is not None and not result.ended:
        monitor.finish()
        launch.sink.extend(partly_written(launch, binding, monitor))
    found = [d for d in launch.sink if d is stop or _is_kept(d)]
    result.findings = [_certain(d, binding.assumed) for d in found]
    unplaced = dict(domain.unplaced)
    for core in launch.machine.cores:
        unplaced |= core.ub.unplaced if core.ub is not None else {}
    result.unplaced, result.unchecked = tuple(unplaced), tuple(domain.unchecked)
    return result


@executing()  # not for each instruction
def _walk(engine: Engine, budget: int) -> str:
    """Execute to the end; return why it did not get there."""
    steps = 0
    while (core := engine.next_core()) is not None:
        if steps == budget:
            return f"left after {budget:,} instructions"
        if engine.executed >= engine.meter.due:
            engine.look(core)
        engine.step(core)
        steps += 1
    return ""


def _is_kept(found: Diagnostic) -> bool:
    if found.severity is Severity.NOTE:
        return found.code.startswith(_TOLD)
    return not found.code.startswith(_OF_VALUES)


def _certain(found: Diagnostic, assumed: set[str]) -> Diagnostic:
    """The size of some buffers was assumed; the real ones may be larger."""
    if found.code != _OUTSIDE or found.context.get("buffer") not in assumed:
        return found
    note = "the size of the buffer is not known: it was taken to be what the views imply, or 4 MiB"
    return recoded(found, _PERHAPS_OUTSIDE, note)


def left_open(outcomes: Mapping[str, Followed]) -> Diagnostic | None:
    """Return one note on all that could not be followed, by entry; None if there is nothing."""
    open_ = {name: outcome for name, outcome in outcomes.items() if outcome.is_open}
    if not open_:
        return None
    place = next((o.place for o in open_.values() if o.place is not None), None)
    told = "; ".join(f"@{name}: {outcome}" for name, outcome in open_.items())
    is_budget = any(o.ended.startswith("left after") for o in open_.values())
    return finding(
        "PTO6050",
        f"not all could be followed without values: {told}",
        place,
        label="what comes after this is not followed",
        help="`--dry-run` follows without a limit" if is_budget else None,
    )
