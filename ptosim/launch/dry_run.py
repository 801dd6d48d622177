"""A dry run: a program is followed without values, and what that brings out is told.

Buffers and tiles hold nothing, and scalars are those given. Control flow, addresses and
synchronisation are followed as far as scalars are known. Races, deadlocks, flags, and reads of
bytes that nothing wrote need no data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.engine.core.binder import executing
from ptosim.engine.core.bound import Depth
from ptosim.engine.core.engine import Engine
from ptosim.engine.core.symbolic import Undecided, Unknowns
from ptosim.engine.watch.monitor import Monitor
from ptosim.engine.watch.shadow import ORIGIN, Shadow
from ptosim.ground.diagnostics.model import (
    Diagnostic,
    Origin,
    ProgramError,
    Severity,
    Trap,
    UnsupportedError,
    finding,
    recoded,
)
from ptosim.ground.errors import BudgetError, PtosimError, UsageError
from ptosim.ground.ir.core import Value
from ptosim.ground.isa.dates import Profile
from ptosim.ground.records import dataclass, field, replace
from ptosim.ground.source import Span
from ptosim.language.frontend import Front
from ptosim.language.toolchains import tells_core
from ptosim.launch.generated import Needed
from ptosim.launch.launch import Extent, Launch
from ptosim.launch.prepared import NORMAL, Prepared, RunOptions, prepare
from ptosim.launch.unknown_binding import ASSUMED_BYTES, UnknownBinding
from ptosim.machine.core import Core

if TYPE_CHECKING:
    from ptosim.engine.period.followed import FollowedLoops
    from ptosim.engine.watch.reach import GlobalReach, Sets

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
COMPARED = 200
"""Instructions of a program that is short: its loops are followed round by round."""
MAX_STEPS = 200_000
"""Instructions that are followed for a map, or to judge a change."""

_TOLD = ("PTO5", "PTO61", "PTO7407")
"""Notes that following tells; notes on what operations compute are for runs."""
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
    chosen: Sequence[int] | None = None,
) -> Followed:
    """Follow an entry as far as its scalars are known, for `budget` instructions at most (None: as
    many as a run executes), in `block_num` blocks, or in the `chosen` ones of them. Never
    raises for faults of the program; raises UsageError for arguments that do not fit."""
    given = front, profile, entry, args, observers, budget, block_num, chosen
    found, is_sure = _follow(*given)
    if is_sure:
        return found
    again, _ = _follow(*given, in_full=True)
    return found if again.is_open and not found.is_open else again


def _follow(
    front: Front,
    profile: Profile,
    entry: str,
    args: Mapping[str, Any] | None,
    observers: Sequence[Any],
    budget: int | None,
    block_num: int,
    chosen: Sequence[int] | None,
    *,
    in_full: bool = False,
) -> tuple[Followed, bool]:
    """Follow an entry; False if there may be more or other findings where rounds were left out."""
    options = RunOptions(block_num, timing=False)
    try:
        prepared = prepare(front, profile, entry, args or {})
        clusters = None if chosen is None else [(0, block) for block in chosen]
        launch = Launch(prepared, options, args or {}, PLACES, clusters)
    except UsageError as problem:
        if args:
            raise
        return Followed(ended=f"not begun: {problem}", begun=False), True
    except UnsupportedError as problem:
        return Followed(ended=f"not begun: {problem}", begun=False), True
    except ProgramError as problem:  # what its shapes bring out, where they come from arguments
        ended = f"not begun: {problem}"
        return Followed(list(problem.diagnostics), ended, False, stopped=True), True
    except BudgetError:
        raise
    except PtosimError as problem:
        return Followed(ended=f"not begun: {problem}", begun=False), True
    domain = Unknowns()
    launch.begin(observers, domain=domain)
    engine, monitor = launch.engine, launch.sanitizers()
    walk = Walk(engine, domain, None if in_full else monitor)
    result = _followed(launch, domain, monitor, walk, budget)
    return result, walk.is_sure


def followed(
    launch: Launch, domain: Unknowns, budget: int | None, loops: FollowedLoops | None = None
) -> Followed:
    """Follow a launch that has begun, every round of it, watched by `loops`. Raises what its domain
    raises."""
    walk = Walk(launch.engine, domain, None, loops)
    monitor = launch.sanitizers() if loops is None else loops.monitor
    return _followed(launch, domain, monitor, walk, budget)


class Walk:
    """A way through a program, instruction by instruction. In one that turns out to be long the
    rounds of loops are compared, and those that repeat others left out; without `monitor` none
    are. Where `is_sure` is False, following all of them may find something else."""

    def __init__(
        self,
        engine: Engine,
        domain: Unknowns,
        monitor: Monitor | None,
        loops: FollowedLoops | None = None,
        compared: int | None = None,
    ) -> None:
        self._engine = engine
        self._compared = COMPARED if compared is None else compared
        self._domain = domain
        self._monitor = None if engine.is_observed else monitor
        self._loops = loops
        self._times = 0  # that rounds were left out
        self.is_sure = True

    @executing()  # not for each instruction
    def to_the_end(self, budget: int) -> str:
        """Execute to the end; return why it did not get there."""
        engine = self._engine
        steps, limit = 0, budget
        step: Callable[[Core], object] = engine.step if self._loops is None else self._loops.step
        is_long = self._compared if self._monitor is not None else -1
        while (core := engine.next_core()) is not None:
            if steps == limit:
                limit = self._limit(steps, budget)
                if steps == limit:
                    return f"left after {steps:,} instructions"
            if engine.executed >= engine.meter.due:
                engine.look(core)
            if steps == is_long:
                step = self._compare()
            step(core)
            steps += 1
        return ""

    def _limit(self, steps: int, budget: int) -> int:
        """Where to stop: a loop of which rounds were left out since the last time is as good as at
        its end, so that what comes after it is followed as far again."""
        times = self._loops.left_out if self._loops is not None else 0
        if times == self._times:
            return steps
        self._times = times
        return min(steps + budget, max(budget, MAX_STEPS))

    def _compare(self) -> Callable[[Core], object]:
        """Compare the rounds of loops from now on."""
        from ptosim.engine.period.followed import FollowedLoops

        assert self._monitor is not None
        self._loops = FollowedLoops(self._engine, self._domain, self._monitor)
        return self._loops.step

    def stop(self) -> None:
        """The walk is over: see if something was found after rounds were left out."""
        if self._loops is not None:
            self._loops.stop()
            self.is_sure = self._loops.is_sure


def _followed(
    launch: Launch,
    domain: Unknowns,
    monitor: Monitor | None,
    walk: Walk,
    budget: int | None,
) -> Followed:
    binding = launch.binding
    assert isinstance(binding, UnknownBinding)
    result, stop = Followed(), None
    try:
        result.ended = walk.to_the_end(budget or launch.options.most_instructions)
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
    walk.stop()
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


def _is_kept(found: Diagnostic) -> bool:
    return found.severity is not Severity.NOTE or found.code.startswith(_TOLD)


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


# How much of arrays that no view sizes the accesses of a launch reach.


_HIDDEN = frozenset(("simt_region", "launches", "sets_launch", "indexed"))
"""Traits of what a run without values does not follow: threads, lanes that a register places."""


def accessed(
    front: Front, profile: Profile, entry: str, args: Mapping[str, Any], options: RunOptions
) -> dict[str, Needed]:
    """Return what a launch reaches of the arrays that are left out and that no view sizes, where it
    can be followed to its end without values, or reaches the same whatever the values are (two
    runs on large arrays, each with data of its own); of others nothing."""
    from ptosim.engine.watch.reach import Dependent  # only where a size is not known

    options = replace(options, timing=False, ranks=1, jobs=1, schedule=0, inputs=NORMAL)
    try:
        prepared = prepare(front, profile, entry, args)
        launch = Launch(prepared, options, args, PLACES)
        binding = launch.binding
        assert isinstance(binding, UnknownBinding)
        names = binding.assumed - binding.reached.keys()
        elems = {name: binding.arrays[name].elem for name in names}
        large = {n: Needed(ASSUMED_BYTES * 8 // e.bits, (ASSUMED_BYTES * 8 // e.bits,))
                 for n, e in elems.items()}  # fmt: skip
        if not any(op.traits & _HIDDEN for function in prepared.functions for op in function.ops):
            sets = _without_values(launch)
            return large if sets is None else _needed(launch, names, *sets)
        found = [_with_values(prepared, replace(options, sizes=large, seed=seed), args, names)
                 for seed in (1, 2)]  # fmt: skip
    except (PtosimError, Undecided, Dependent):
        return {}
    return found[0] if found[0] == found[1] else {}


def _without_values(launch: Launch) -> Sequence[Sets] | None:
    """Return what is reached; None where the launch stops before its end, as a run of it does."""
    domain = Unknowns()
    engine = launch.begin(domain=domain)
    reach = _watched(launch, engine)
    try:
        left = Walk(engine, domain, None).to_the_end(_MOST_STEPS)
    except Trap as trap:
        if any(d.origin is not Origin.HARDWARE for d in trap.diagnostics):
            raise
        return None
    return () if left or domain.unplaced else reach.taken()


def _with_values(
    prepared: Prepared, options: RunOptions, args: Mapping[str, Any], names: set[str]
) -> dict[str, Needed]:
    launch = Launch(prepared, options, args)
    engine = launch.begin()
    reach = _watched(launch, engine)
    engine.run(_MOST_STEPS)
    return _needed(launch, names, *reach.taken())


def _watched(launch: Launch, engine: Engine) -> GlobalReach:
    from ptosim.engine.watch.reach import GlobalReach

    reach = GlobalReach(engine, launch.machine, launch.front.target, launch.sanitizers())
    engine.monitor = reach  # type: ignore[assignment]  # it passes on what it is told
    return reach


def _needed(launch: Launch, names: set[str], *sets: Sets) -> dict[str, Needed]:
    """The elements up to the last byte of each array that is in one of the sets; nothing if one of
    them is not reached, or as far as arrays of an assumed size go."""
    found = {}
    for name in names:
        array = launch.binding.arrays[name]
        rows = [each[array.number] for each in sets if len(each.get(array.number, ()))]
        size = max((int(part[:, 1].max()) for part in rows), default=0)
        if not 0 < size < ASSUMED_BYTES:
            return {}
        count = size * 8 // array.elem.bits
        found[name] = Needed(count, (count,))
    return found


# Whether the blocks of a launch reach each other's bytes, as far as no values are needed.

_RACE, _PERHAPS = "PTO5205", "PTO5207"
_ONE_LINE, _PERHAPS_ONE_LINE = "PTO5250", "PTO6112"
_FARTHER = (0, 2, 3, 4, 5, 8, 16)
"""Blocks that the first one may meet where its neighbour does not: rows that are taken modulo a
number, steps of a few blocks."""
_MOST_STEPS = 50_000
"""Instructions of them that are followed."""


def races_of_blocks(
    front: Front,
    profile: Profile,
    entry: str,
    args: Mapping[str, Any],
    budget: int | None,
    blocks: int | None,
    chosen: Sequence[int] | None = None,
) -> list[Diagnostic]:
    """Return the races between blocks of an entry that asks which block it is: of a launch of so
    many `blocks`, or of the `chosen` ones of them; where nobody says how many there are, of the
    first two, or of the first and some farther ones, as a warning. Of a program that does not ask
    only a number of blocks makes a race. Words of blocks in one line of the scalar cache are a
    warning."""
    if blocks == 1 or (blocks is None and not _asks(front, entry)):
        return []
    how: dict[str, Any] = {"budget": budget, "block_num": blocks or 2, "chosen": chosen}
    found = _findings(front, profile, entry, args, how)
    races = [d for d in found if d.code == _RACE and _is_between_blocks(d)]
    told = [d.span.line for d in races if d.span is not None]
    lines = [
        recoded(d, _PERHAPS_ONE_LINE, "blocks 0 and 1 of a launch are such cores")
        for d in found
        if d.code == _ONE_LINE and d.span is not None and d.span.line not in told
    ]
    if blocks is not None:
        return races + lines
    if not races:
        races = _farther(front, profile, entry, args, budget)
    return [recoded(d, _PERHAPS, _fewer(d)) for d in races] + lines


def _findings(
    front: Front, profile: Profile, entry: str, args: Mapping[str, Any], how: Mapping[str, Any]
) -> list[Diagnostic]:
    """What following several blocks brings out; nothing where they keep apart as it is."""
    from ptosim.launch.blocks_apart import keep_apart

    chosen, options = how["chosen"], RunOptions(how["block_num"], "none", timing=False)
    clusters = None if chosen is None else [(0, block) for block in chosen]
    try:
        launch = Launch(prepare(front, profile, entry, args), options, args, PLACES, clusters)
        launch.begin(domain=Unknowns())
        if keep_apart(launch):
            return []
    except BudgetError:
        raise
    except PtosimError:
        pass  # following says what is wrong
    return follow(front, profile, entry, args, **how).findings


def _farther(
    front: Front, profile: Profile, entry: str, args: Mapping[str, Any], budget: int | None
) -> list[Diagnostic]:
    """The races of the first block with ones that are not its neighbour. Those of two others say
    nothing: where the rows end, the last blocks of a launch that is too large do the same."""
    budget = min(budget or _MOST_STEPS, _MOST_STEPS)
    how: dict[str, Any] = {"budget": budget, "block_num": _FARTHER[-1] + 1, "chosen": _FARTHER}
    found = _findings(front, profile, entry, args, how)
    return [d for d in found if d.code == _RACE and _is_between_blocks(d) and 0 in _blocks(d)]


def _fewer(found: Diagnostic) -> str:
    last = max(_blocks(found))
    many = "two blocks; a launch of one" if last == 1 else f"block {last}; a launch of {last}"
    return f"found with {many} has no such race (`--blocks {last}`)"


def _asks(front: Front, entry: str) -> bool:
    known = front.plans.get(entry)
    return known is not None and any(map(tells_core, known.reached))


def _is_between_blocks(found: Diagnostic) -> bool:
    one, other = _blocks(found)
    return one != other


def _blocks(found: Diagnostic) -> list[int]:
    """The blocks of the two accesses."""
    sides: list[Any] = [found.context[name] for name in ("first", "second")]
    return [side["block"] for side in sides]
