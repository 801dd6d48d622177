"""What a program costs, without values: time is executed, and only scalars that decide it count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ptosim.engine.core.engine import Engine
from ptosim.engine.core.observers import Observer
from ptosim.engine.core.records import Depth
from ptosim.engine.core.symbolic import Undecided
from ptosim.engine.period.loops import NotFollowed
from ptosim.engine.timed.shapes import Shapes
from ptosim.engine.timed.timing_bridge import TimingBridge
from ptosim.engine.timed.timing_bridge import bridge_of as engine_bridge
from ptosim.ground.errors import InternalError, UsageError
from ptosim.ground.ir.core import Value
from ptosim.ground.ir.types import MemRefType, PtrType, TileType
from ptosim.ground.isa.costs import CostTable
from ptosim.ground.isa.profiles import Profile
from ptosim.ground.records import dataclass, field, replace
from ptosim.language.frontend import Front
from ptosim.launch.blocks import all_blocks, blocks_to_time
from ptosim.launch.costing import bridge_of, in_waves, report_of
from ptosim.launch.extents import Needed
from ptosim.launch.launch import Launch
from ptosim.launch.options import Args, RunOptions
from ptosim.launch.symbolic import SymbolicLaunch
from ptosim.launch.what_if import Costs, changed_table
from ptosim.machine.unknown import Unknown
from ptosim.time.chip import Blocks
from ptosim.time.pipes.last_uses import Forgotten
from ptosim.time.report.totals import CostReport

MANY = 50_000
"""Instructions after which a report says why loops were executed in full."""


@dataclass(eq=False)
class TimedLaunch(SymbolicLaunch):
    """A launch of which only the time is asked for."""

    depth = Depth.SHAPES
    domain: Shapes = field(init=False)  # type: ignore[assignment]

    figures: tuple[CostTable, int]
    each: bool = False
    """Time every block, also of those that do the same."""
    active: int | None = None
    """Blocks that run at the same time as one that is timed for all; None: as many as can."""
    steady: bool = True
    """Execute a period of a loop that repeats once."""

    @cached_property
    def blocks(self) -> Blocks:
        """The blocks, and whether one is timed for all."""
        return all_blocks(self, "as asked for") if self.each else blocks_to_time(self)

    def _block_count(self) -> int:
        return self.blocks.timed

    def start(self, observers: Sequence[Observer] = ()) -> None:
        """Make the engine; nothing is executed yet."""
        copies = 1
        if self.blocks.is_one_for_all:
            copies = self.blocks.at_once if self.active is None else self.active
        self.domain = Shapes()
        timing = bridge_of(self, *self.figures, copies)
        self.engine = Engine(*self.parts(), observers, timing=timing, domain=self.domain)
        in_waves(self, self.blocks)
        if self.steady:
            self.domain.watch_loops(self.engine)

    def _not_given(self, value: Value) -> Unknown:
        return Unknown(f"the scalar argument `{value.name}`", value.name)

    def _buffer(
        self,
        value: Value,
        type_: PtrType | MemRefType,
        given: dict[str, Any],
        needed: Needed | None,
    ) -> None:
        self._add_buffer(value, type_.elem, np.empty(0, np.uint8), (0,), is_own=True)

    def _tile_input(self, value: Value, type_: TileType, given: dict[str, Any]) -> None:
        """Content does not matter."""


@dataclass(eq=False)
class ValuedLaunch(Launch):
    """A launch on values of which only the time is asked for: data decide its path."""

    figures: tuple[CostTable, int]

    def _timing(self) -> TimingBridge:
        return bridge_of(self, *self.figures)


def cost_of(
    front: Front,
    profile: Profile,
    entry: str,
    args: Args,
    options: RunOptions,
    what_if: Mapping[str, float] | None = None,
    costs: Costs = None,
    *,
    each_block: bool = False,
    steady: bool = True,
) -> CostReport:
    """Return what an entry costs; see `Program.cost`. Where data decide its path and every array is
    given, it is run on them. Raises Trap for a deadlock, UsageError for a scalar that is needed and
    not known, InternalError if time stops where the program goes on."""
    figures = changed_table(front.chip, what_if or {}, costs)
    launch = TimedLaunch(front, profile, options, figures, each_block, steady=steady)
    try:
        launch = timed(launch, entry, args)
    except Undecided as open_:
        if open_.unknown.argument or not _has_arrays(launch, args):
            raise _asked(open_) from open_
        return _on_values(ValuedLaunch(front, profile, options, figures), entry, args)
    report = report_of(launch, launch.blocks, _last_wave(launch, entry, args))
    stuck = ", ".join(core.name for core in report.model.stuck())
    if stuck:
        raise InternalError(f"the timing model waits for an event that nobody gave: {stuck}")
    if steady and launch.engine.executed > MANY:
        report.in_full = dict(launch.domain.in_full)
    return report


def timed(launch: TimedLaunch, entry: str, args: Args) -> TimedLaunch:
    """Execute a launch; where something depends on rounds of a loop that were left out, once more
    with all of them."""
    launch.prepare(entry, args).start()
    try:
        launch.engine.run(launch.options.most_instructions)
    except (Forgotten, NotFollowed) as problem:
        launch = timed(replace(launch, steady=False), entry, args)
        launch.domain.in_full[0] = str(problem)
    return launch


def _last_wave(launch: TimedLaunch, entry: str, args: Args) -> int | None:
    """Return the cycles of a last wave of fewer blocks, which have more bandwidth each; None where
    it is like the others."""
    blocks = launch.blocks
    rest = blocks.count % blocks.at_once
    bridge = engine_bridge(launch.engine)
    shares = bridge.model.shares or bridge.memory.is_shared
    if not blocks.is_one_for_all or not rest or not shares:
        return None
    last = TimedLaunch(
        launch.front, launch.profile, launch.options, launch.figures,
        active=rest, steady=launch.steady,
    )  # fmt: skip
    return report_of(timed(last, entry, args)).span


def _has_arrays(launch: Launch, args: Args) -> bool:
    """True if no array would have to be made up."""
    if not isinstance(args, Mapping):
        return False
    names = {name.rpartition("@")[0] or name for name in args}
    arrays = (PtrType, MemRefType, TileType)
    taken = (v for f in launch.launched for v in f.args if isinstance(v.type, arrays))
    return all(value.name in names for value in taken)


def _on_values(launch: ValuedLaunch, entry: str, args: Args) -> CostReport:
    launch.options = replace(launch.options, sanitize="none", timing=True)
    report = launch.prepare(entry, args).run().cost
    report.on_values = True
    return report


def _asked(open_: Undecided) -> UsageError:
    name = open_.unknown.argument
    return UsageError(
        f"PTO6501: {open_.what} of '{open_.op.name}' at line {open_.line} depends on "
        f"{open_.unknown.origin}",
        help=f"give it a value: `--arg {name}=…` (in Python args={{{name!r}: …}})"
        if name
        else "give every array (`--arg`, or args={…} in Python): then it is timed on values",
    )
