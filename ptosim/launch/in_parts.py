"""A run in parts: hazards and time without values, once for each period of the loops that repeat
(`engine/period`); then the values by themselves, many rounds of tile operations at once
(`engine/batch`). All three together are less than one round after the other with all of it. What
does not depend on values is kept for the next run of the program that differs in nothing else.

What comes out is what the run in one piece gives. Where a part cannot say so (something is found,
data decide the path or the time), all of it is forgotten, and the run is made in one piece."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.engine.core.binder import Numbers
from ptosim.engine.core.bound import Bound, Depth, Inst, Kind
from ptosim.engine.core.runners import Host
from ptosim.engine.core.symbolic import Undecided, Unknowns
from ptosim.engine.watch.access import parse
from ptosim.engine.watch.quantisation import QuantBook
from ptosim.engine.watch.reach import Dependent
from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.errors import PtosimError
from ptosim.ground.ir.types import MemRefType, PtrType, ScalarType, ViewType
from ptosim.ground.isa.dates import Profile
from ptosim.ground.records import NamedTuple, replace
from ptosim.language.frontend import Front
from ptosim.launch import arguments
from ptosim.launch.launch import Extent, Launch
from ptosim.launch.prepared import LEAST, Args, Prepared, RunOptions, prepare
from ptosim.launch.results import Result
from ptosim.launch.unknown_binding import RunPlaceBinding
from ptosim.machine.core import Core
from ptosim.ops.base.binding import Binding
from ptosim.ops.base.functions import Commit

if TYPE_CHECKING:
    from ptosim.engine.watch.definedness import Definedness
    from ptosim.time.report.totals import CostReport

MOST_KNOWN = 8
"""Kinds of runs of which is kept what they do beside their values."""

LONG_ENOUGH, FOLLOWED, SHARE = 20_000, 100_000, 4
"""Instructions that are followed with sanitizers: so many, or that part of all, of a short run half
of them; where loops do not repeat, one round after the other is as good."""

COMPARED = 20
"""Instructions after which the rounds of loops are compared: a run in parts is known to be long."""

TIMED = 4_000
"""Instructions of a run without sanitizers that are timed by themselves: where more of them do not
repeat, values and time together are less."""


class Placed(Unknowns):
    """Goes on only where values decide nothing of what is reached."""

    def bind(self, engine: Host, core: Core, inst: Inst) -> Bound:
        """Bind an instruction whose account its places give."""
        bound = super().bind(engine, core, inst)
        if bound.binding.done is not None or self.unplaced or self.unchecked:
            raise Dependent("data decide what is reached")
        return bound

    def released(self, engine: Host, waiting: list[Core]) -> Core | None:
        """Nobody goes on by signals in memory."""
        raise Dependent("a signal in memory is waited for")


class Known(dict[Any, "_Beside | None"]):
    """What runs of a program do beside their values, by all that decides it: the last few. None: a
    run that is made in one piece. It is empty in another process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Known, ()

    def keep(self, key: Any, beside: _Beside | None) -> None:
        """Remember it, and forget what was kept first."""
        if key is None or (beside is not None and beside.unsure):
            return
        self[key] = beside
        while len(self) > MOST_KNOWN:
            del self[next(iter(self))]


class _Beside(NamedTuple):
    """What a run does beside its values: its time, its instructions, those of them that were left
    out as others do the same, and what its sanitizers know where they have found nothing."""

    cost: CostReport
    instructions: int
    left_out: int
    definedness: Definedness
    unsure: tuple[Diagnostic, ...]


def attempt(
    front: Front, profile: Profile, options: RunOptions, entry: str, args: Args, known: Known
) -> Result | None:
    """Return the result of a run in parts; None where it has to be made in one piece. What it does
    beside its values is taken from `known`, or kept there."""
    try:
        prepared = prepare(front, profile, entry, args, options.ranks)
        return _in_parts(prepared, options, args, known)
    except (PtosimError, Dependent, Undecided):  # in one piece it is told in its order
        return None


def _in_parts(prepared: Prepared, options: RunOptions, args: Args, known: Known) -> Result | None:
    bare = replace(options, sanitize="none", timing=False)
    launch = Launch(prepared, bare, args)
    if any(map(is_by_value, launch.program.insts)):
        return None
    key = kind_of(prepared, options, args)
    if key not in known:
        known.keep(key, beside := _beside(prepared, options, bare, args, launch))
    else:
        beside = known[key]
    if beside is None:
        return None
    numbers = _Counted() if parse(options.sanitize).quant else Numbers()
    launch.domain = numbers
    told = len(launch.sink)
    result = launch.run()
    launch.release()
    if isinstance(numbers, _Counted):
        numbers.book.finish()
    if numbers.is_unsure or len(launch.sink) > told or result.executed != beside.instructions:
        return None
    if options.timing:
        from ptosim.launch.cost import LONG, cost_of_run

        result.priced, result.cycles = beside.cost, beside.cost.cycles
        if beside.left_out and beside.instructions < LONG:  # every record is kept, if somebody asks
            given = dict(args) if isinstance(args, Mapping) else args
            result.priced = partial(cost_of_run, prepared, bare, given, beside.instructions)
    result.definedness, result.unsure = beside.definedness, beside.unsure
    return result


def _beside(
    prepared: Prepared, options: RunOptions, bare: RunOptions, args: Args, launch: Launch
) -> _Beside | None:
    """What a run does beside its values; None where only a run in one piece can say. Raises
    Dependent and what following it raises."""
    from ptosim.launch.cost import counted_run  # with the laws of time

    chosen = parse(options.sanitize)
    timed = bare if chosen.is_needed else replace(bare, max_instructions=TIMED)
    cost, count, left_out = counted_run(prepared, timed, args, steady=True)
    if not LEAST <= count <= options.most_instructions:
        return None
    if not chosen.is_needed:
        return _Beside(cost, count, left_out, launch.definedness(None), ())
    watched = _Watched(prepared, replace(options, timing=False), args)
    most = max(FOLLOWED, count // SHARE) if count >= LONG_ENOUGH else count // 2
    if not watched.is_clean(most):
        return None
    monitor = watched.monitor
    unsure = tuple(monitor.unsure.values()) if monitor is not None else ()
    return _Beside(cost, count, left_out, launch.definedness(monitor), unsure)


def kind_of(prepared: Prepared, options: RunOptions, args: Args) -> Any:
    """All that decides what a run does beside its values, but the program; None where contents of
    arrays may be part of that, or one is in the memory of another."""
    if options.ranks > 1 or options.sizes or options.popped or not isinstance(args, Mapping):
        return None
    arrays, found = {}, []
    values = {v.name: v.type for f in prepared.launched for v in f.args}
    for name, held in sorted(args.items()):
        type_ = values.get(name)
        if isinstance(held, np.ndarray) and isinstance(type_, (PtrType, MemRefType, ViewType)):
            arrays[name] = held
            found.append((name, held.shape, held.dtype, held.flags.c_contiguous))
        elif isinstance(held, (int, float, np.generic)) and isinstance(type_, ScalarType):
            found.append((name, type(held), repr(held)))
        else:
            return None
    on_chip = any(getattr(values[name], "space", None) not in (None, "gm") for name in arrays)
    waits = any("signal" in op.bound for f in prepared.functions for op in f.ops)
    if on_chip or waits or arguments.shared_parts(arrays):
        return None
    chosen = (options.block_num, options.sanitize, options.timing, options.uninit, options.peer)
    return prepared.function.name, *chosen, options.seed, options.most_instructions, *found


class _Counted(Numbers):
    """Looks at the values that quantising operations take, as the sanitizer does."""

    def __init__(self) -> None:
        self.book = QuantBook()

    def watched(self, binding: Binding, commit: Commit) -> Commit:
        """Return an effect with what is looked at before it. Raises ValueError for a stack of tiles
        that is not to be looked at as one."""
        check = self.book.check_of(binding)
        if check is None:
            return commit
        binding.moved = None  # it would leave out the check

        def checked() -> None:
            check()
            self.counted += 1
            commit()

        return checked


class _Watched:
    """A run that is followed without values, with its sanitizers."""

    def __init__(self, prepared: Prepared, options: RunOptions, args: Args) -> None:
        self.domain = Placed()
        self._launch = Launch(prepared, options, args, Extent(Depth.PLACES, RunPlaceBinding))
        self._launch.begin(domain=self.domain)
        self.monitor = self._launch.sanitizers()

    def is_clean(self, most: int) -> bool:
        """True if nothing is found, and nothing could be in rounds that were left out; at most so
        many instructions are followed without leaving some out."""
        from ptosim.launch.dry_run import Walk  # with what `check` needs

        launch, monitor, domain = self._launch, self.monitor, self.domain
        told = len(launch.sink)
        walk = Walk(launch.engine, domain, monitor, compared=COMPARED)
        try:
            ended = walk.to_the_end(most)
        finally:
            walk.stop()
        if ended or not walk.is_sure or domain.unplaced or domain.unchecked:
            return False
        if monitor is not None:
            monitor.finish()
        return len(launch.sink) == told and not (monitor is not None and monitor.met)


def is_by_value(inst: Inst) -> bool:
    """True for an instruction that is part of a region, or whose values sanitizers follow: time may
    depend on them, too."""
    op = inst.op
    if inst.kind in (Kind.VECTOR, Kind.REGION) or op is None:
        return op is not None
    return any(map(op.has, ("reads_memory", "writes_memory", "launches")))
