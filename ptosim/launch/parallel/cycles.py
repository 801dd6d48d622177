"""The cycles of a launch without its values: while the blocks compute these, or afterwards.

They are those of the timed run wherever the program can be followed without data to the end, and
every place that it uses is known."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ptosim.engine.core.bound import Bound
from ptosim.engine.core.engine import Engine
from ptosim.engine.core.host import Host
from ptosim.engine.core.observers import Observer
from ptosim.engine.core.records import Inst
from ptosim.engine.core.symbolic import Undecided, is_unplaced
from ptosim.engine.timed.shapes import Shapes
from ptosim.engine.watch.reach import Dependent
from ptosim.ground.ir.core import Value
from ptosim.ground.ir.types import ScalarType
from ptosim.ground.isa.profiles import Profile
from ptosim.language.frontend import Front
from ptosim.launch.blocks import all_blocks
from ptosim.launch.cost import TimedLaunch, timed
from ptosim.launch.costing import bridge_of, in_waves, report_of
from ptosim.launch.launch import Launch
from ptosim.launch.options import Args, RunOptions
from ptosim.launch.what_if import changed_table
from ptosim.machine.core import Core
from ptosim.machine.unknown import NeedsValue
from ptosim.time.chip import Blocks
from ptosim.time.report.totals import CostReport

ON_DATA = "its cycles depend on data"
LONG = 1 << 17
"""Instructions of a run of which not every round of a loop is kept."""


class _Certain(Shapes):
    """Goes on only where nothing is unknown that time may depend on."""

    def bind(self, engine: Host, core: Core, inst: Inst) -> Bound:
        if inst.window is not None and is_unplaced(inst.getter(core.slots)[inst.window]):
            raise Dependent(ON_DATA)
        return super().bind(engine, core, inst)

    def missing(self, engine: Host, core: Core, inst: Inst, need: NeedsValue) -> int:
        raise Dependent(ON_DATA)


class _Timed(TimedLaunch):
    """A timed launch with the blocks and the scalars that a run has."""

    @cached_property
    def blocks(self) -> Blocks:
        """The blocks, each of them timed."""
        return all_blocks(self)

    def start(self, observers: Sequence[Observer] = ()) -> None:
        """Make the engine; nothing is executed yet."""
        timing = bridge_of(self, *self.figures)
        self.domain = _Certain()
        self.engine = Engine(*self.parts(), observers, timing=timing, domain=self.domain)
        in_waves(self, self.blocks)
        if self.steady:
            self.domain.watch_loops(self.engine)

    def _scalar(self, value: Value, type_: ScalarType, given: dict[str, Any]) -> Any:
        return Launch._scalar(self, value, type_, given)


def report(
    front: Front, profile: Profile, options: RunOptions, entry: str, args: Args, instructions: int
) -> CostReport:
    """Return what a run of so many instructions costs; of a long one periods of its loops are kept
    once. Raises Dependent where only its values decide that."""
    figures = changed_table(front.chip, {})
    launch = _Timed(front, profile, options, figures, steady=instructions >= LONG)
    try:
        launch = timed(launch, entry, args)
    except Undecided as open_:
        raise Dependent(ON_DATA) from open_
    found = report_of(launch, launch.blocks)
    if any(True for _ in found.model.stuck()):
        raise Dependent(ON_DATA)
    return found
