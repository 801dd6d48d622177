"""What a program costs, without values: time is executed, and only scalars that decide it count."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import partial
from itertools import product
from os import PathLike
from pathlib import Path

from ptosim.engine.core.bound import Bound, Depth, Inst
from ptosim.engine.core.runners import Host
from ptosim.engine.core.symbolic import Undecided, is_unplaced
from ptosim.engine.period.loops import NotFollowed
from ptosim.engine.timed.shapes import Shapes
from ptosim.engine.timed.timing_bridge import bridge_of as engine_bridge
from ptosim.engine.watch.reach import Dependent
from ptosim.ground.errors import BudgetError, InternalError, UsageError
from ptosim.ground.ir.types import MemRefType, PtrType, TileType
from ptosim.ground.isa.costs import CostTable, cost_table
from ptosim.ground.isa.dates import Profile
from ptosim.ground.isa.overlay import wanted_instead
from ptosim.ground.records import dataclass, replace
from ptosim.language.frontend import Front
from ptosim.language.same_blocks import difference
from ptosim.launch.launch import Extent, Launch
from ptosim.launch.prepared import Args, Prepared, RunOptions, prepare
from ptosim.launch.timing import all_blocks, blocks_alike, bridge_of, in_waves, report_of
from ptosim.launch.unknown_binding import RunShapeBinding, ShapeBinding
from ptosim.machine.affine import NeedsValue
from ptosim.machine.core import Core
from ptosim.time.chip import Blocks
from ptosim.time.pipes.last_uses import Forgotten
from ptosim.time.pipes.model import InStep
from ptosim.time.report.figures import COLD, WARM
from ptosim.time.report.totals import CostReport

# Figures of a target that are changed for one estimate.

Costs = str | PathLike[str] | CostTable | None
"""Whose figures: those of the chip (None), a file of `ptosim calibrate` on top of them, or a
table."""

BUFFERS = "buffers"
"""The what-if key that is no figure: buffers after every hand-back flag, besides those written."""

OUT_OF_ORDER = "out-of-order"
"""The what-if key that times vector regions by the issue window (1) or in order (0)."""

SHORT_KEYS = {
    "clock": "machine.clock.mhz",
    "bandwidth": "machine.read_total.gib_per_second",
    "fill": "machine.fill.gib_per_second",
    "hbm": "machine.hbm.gib_per_second",
    "l2": "machine.l2.mib",
    "launch": "machine.launch.us",
    "head": "machine.task.us",
    "barriers": "machine.drain.waits",
    OUT_OF_ORDER: "window.switch.value",
}
"""Names for the figures that are changed most."""

MAY_BE_ZERO = ("barriers", OUT_OF_ORDER)


def chosen_table(chip: str, costs: Costs = None) -> CostTable:
    """Return the figures of a chip, with those of a board in their places if a file of them is
    given. Raises UsageError for a file that is none, or is of another chip."""
    if isinstance(costs, CostTable):
        return costs
    if costs is None:
        return cost_table(chip)
    from ptosim.ground.isa.overlay import overlaid, read_overlay

    return overlaid(cost_table(chip), read_overlay(Path(costs)))


def changed_table(
    chip: str, what_if: Mapping[str, float], costs: Costs = None
) -> tuple[CostTable, int]:
    """Return the figures of a chip with some changed, and the buffers to add. Raises UsageError
    for an unknown key or a value that makes no sense."""
    table, buffers = chosen_table(chip, costs), 0
    for key, value in what_if.items():
        name = key if key == BUFFERS else figure_name(table, key)
        wanted = wanted_instead(name, value)
        if value == 0 and key in SHORT_KEYS and key not in MAY_BE_ZERO:
            wanted = wanted or "a positive number"
        if wanted:
            raise UsageError(f"PTO6504: {key}={value:g} makes no sense; give {wanted}")
        if key == BUFFERS:
            buffers = int(value)
        else:
            table = table.changed(name, value)
    return table, buffers


def figure_name(table: CostTable, key: str) -> str:
    """Return the full name of a figure. Raises UsageError, with the keys, if there is none."""
    keys = table.keys()
    name = SHORT_KEYS.get(key, key)
    if name in keys:
        return name
    raise UsageError(
        f"PTO6503: there is no figure `{key}` on {table.chip}", help=_listed(keys, key)
    )


def _listed(keys: list[str], key: str) -> str:
    """Return the keys that are most like an unknown one, those that are words, and the figures of
    the section that it names."""
    words = [*SHORT_KEYS, BUFFERS]
    near = [k for k in keys if key in k][:4] or get_close_matches(key, [*words, *keys], 4, 0.5)
    lines = [f"nearest: {', '.join(near)}"] if near else []
    lines.append(f"keys: {', '.join(words)}; or a figure of the target")
    sections: dict[str, dict[str, list[str]]] = {}
    for name in keys:
        section, row, number = name.split(".", 2)
        sections.setdefault(section, {}).setdefault(row, []).append(number)
    asked = key.partition(".")[0]
    if asked not in sections:
        lines.append(f"`--what-if {next(iter(sections))}=1` lists those of a section, which are "
                     f"{', '.join(sections)}")  # fmt: skip
        return "\n".join(lines)
    figures = (f"{row}.{'|'.join(numbers)}" for row, numbers in sections[asked].items())
    return "\n".join([*lines, f"{asked}. {', '.join(figures)}"])


SHORT = 1 << 13
"""Instructions of a launch whose transfers compete up to which every round is executed."""
MOST_PASSES = 8
"""How often a launch whose transfers compete is followed until it is known which cores do."""
MANY = 50_000
"""Instructions after which a report says why loops were executed in full."""
SHARED_RATES = ("machine.read_total", "machine.write_total", "machine.fill")
"""Rows of what all cores share."""
ENDLESS = 1e9  # GiB/s
SHAPES = Extent(Depth.SHAPES, ShapeBinding)


class _IsLong(Exception):
    """A launch whose transfers compete executes more than is tried round by round."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A launch of which only the time is asked for. `active` blocks run at the same time as one
    that is timed for all; None: as many as can."""

    prepared: Prepared
    options: RunOptions
    args: Args
    figures: tuple[CostTable, int]
    blocks: Blocks
    active: int | None = None
    extent: Extent = SHAPES
    domain: type[Shapes] = Shapes

    def timed(self, *, steady: bool) -> tuple[Launch, dict[int, str]]:
        """Execute it; with `steady` of a loop that repeats one period. Where something depends on
        rounds that were left out, once more with all of them. Returns the launch, and which loops
        were executed in full, and why, by line."""
        if not steady:
            return self._timed(steady=False)
        try:
            return self._timed(steady=True, most=SHORT)
        except _IsLong:
            return self._timed_in_step() or self._timed(steady=True)

    def _timed_in_step(self) -> tuple[Launch, dict[int, str]] | None:
        """The same of cores that share bandwidth and do the same, as far as each goes: the times
        of one tell the rates of the others. None where they do not."""
        ends: dict[str, list[int]] | None = None
        for _ in range(MOST_PASSES):
            launch, in_full = self._timed(steady=True, in_step=True, ends=ends)
            model = engine_bridge(launch.engine).model
            if model.in_step is None:
                return launch, in_full
            if not launch.engine.left_out or not model.in_step.holds(model.cores):
                return None
            found = model.in_step.last_ends(model.cores)
            known = ends or {name: [] for name in found}
            if all(_before_last(found[name]) == _before_last(known[name]) for name in found):
                return launch, in_full
            ends = found
        return None

    def _timed(
        self,
        *,
        steady: bool,
        most: int | None = None,
        in_step: bool = False,
        ends: dict[str, list[int]] | None = None,
    ) -> tuple[Launch, dict[int, str]]:
        clusters = product(range(self.options.ranks), range(self.blocks.timed))
        launch = Launch(self.prepared, self.options, self.args, self.extent, clusters)
        copies = 1
        if self.blocks.is_one_for_all:
            copies = self.blocks.at_once if self.active is None else self.active
        domain = self.domain()
        timing = bridge_of(self.prepared, launch.program, launch.machine, self.figures, copies)
        model = timing.model
        if in_step and model.shares:
            model.in_step = InStep(model.pools, ends, len(model.cores))
        engine = launch.begin(timing=timing, domain=domain)
        in_waves(engine, self.blocks)
        alike: dict[int, int] = {}
        if steady:
            domain.watch_loops(engine)
            if domain.loops is not None:  # no core waits for one of another block
                alike = blocks_alike(self.prepared, engine, self.blocks)
        for core in alike:
            engine.machine.cores[core].halted = True
        limit = self.options.most_instructions
        tried = limit if most is None or not model.shares else min(limit, most)
        try:
            engine.run(tried)
        except BudgetError as reached:
            if engine.executed >= tried < limit:  # else it is a limit of the caller
                raise _IsLong from reached
            raise
        except (Forgotten, NotFollowed) as problem:
            launch, _ = self._timed(steady=False)
            return launch, {0: str(problem)}
        for core, one in alike.items():
            model.cores[core].do_as(model.cores[one])
            engine.executed += domain.executed[one]
        return launch, domain.in_full


def _before_last(ends: list[int]) -> list[int]:
    """When cores ended that others go on after: the last ones slow down nobody."""
    return [end for end in ends if end < max(ends)]


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
    start: str = WARM,
) -> CostReport:
    """Return what an entry costs; see `Program.cost`. Where data decide its path and every array is
    given, it is run on them. Raises Trap for a deadlock, UsageError for a scalar that is needed and
    not known, InternalError if time stops where the program goes on."""
    if start not in (WARM, COLD):
        raise UsageError(f"a launch starts {WARM} or {COLD}, not {start!r}")
    figures = changed_table(front.chip, what_if or {}, costs)
    prepared = prepare(front, profile, entry, args, options.ranks)
    blocks = _blocks_to_time(prepared, options)
    if each_block:
        blocks = all_blocks(prepared, options, "as asked for")
    estimate = Estimate(prepared, options, args, figures, blocks)
    try:
        launch, in_full = estimate.timed(steady=steady)
    except Undecided as open_:
        if open_.unknown.argument or not _has_arrays(prepared, args):
            raise _asked(open_) from open_
        return _begun(_on_values(estimate), start)
    report = report_of(prepared, launch.engine, blocks, _last_wave(estimate, launch, steady=steady))
    stuck = ", ".join(core.name for core in report.model.stuck())
    if stuck:
        raise InternalError(f"the timing model waits for an event that nobody gave: {stuck}")
    if steady and launch.engine.executed > MANY:
        report.in_full = dict(in_full)
    if launch.engine.executed <= SHORT:
        report.alone = partial(_alone, estimate, steady=steady)
    return _begun(report, start)


def _begun(report: CostReport, start: str) -> CostReport:
    """The same report, of a launch that begins with L2 warm or cold."""
    report.start = start
    return report


def _blocks_to_time(prepared: Prepared, options: RunOptions) -> Blocks:
    """The blocks of a launch without values: one is timed for all where they do the same."""
    every = all_blocks(prepared, options)
    if every.count == 1:
        return every
    if options.ranks > 1:
        return replace(every, differ="ranks may wait for each other")
    differ = difference(prepared.functions, by_data=prepared.is_ordered)
    return replace(every, differ=differ) if differ else replace(every, timed=1)


def _last_wave(estimate: Estimate, launch: Launch, *, steady: bool) -> int | None:
    """Return the cycles of a last wave of fewer blocks, which have more bandwidth each; None where
    it is like the others."""
    blocks, bridge = estimate.blocks, engine_bridge(launch.engine)
    rest = blocks.count % blocks.at_once
    shares = bridge.model.shares or bridge.memory.is_shared
    if not blocks.is_one_for_all or not rest or not shares:
        return None
    last, _ = replace(estimate, active=rest).timed(steady=steady)
    return report_of(estimate.prepared, last.engine).span


def _alone(estimate: Estimate, *, steady: bool) -> int:
    """Return the cycles of a launch whose cores have all the bandwidth that they ask for."""
    table, buffers = estimate.figures
    for name in SHARED_RATES:
        if name in table.rows:
            table = table.changed(f"{name}.gib_per_second", ENDLESS)
    launch, _ = replace(estimate, figures=(table, buffers)).timed(steady=steady)
    return report_of(estimate.prepared, launch.engine, estimate.blocks).cycles


def _has_arrays(prepared: Prepared, args: Args) -> bool:
    """True if no array would have to be generated."""
    if not isinstance(args, Mapping):
        return False
    names = {name.rpartition("@")[0] or name for name in args}
    arrays = (PtrType, MemRefType, TileType)
    taken = (v for f in prepared.launched for v in f.args if isinstance(v.type, arrays))
    return all(value.name in names for value in taken)


def _on_values(estimate: Estimate) -> CostReport:
    """The cost of a launch whose data decide its path."""
    options = replace(estimate.options, sanitize="none", timing=True)
    launch = Launch(estimate.prepared, options, estimate.args)
    launch.figures = estimate.figures
    report = launch.run().cost
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


# The cycles of a run, without its values: while the blocks compute these, or afterwards. They are
# those of the timed run wherever the program can be followed without data to the end, and every
# place that it uses is known.

ON_DATA = "its cycles depend on data"
LONG = 1 << 17
"""Instructions of a run of which not every round of a loop is kept."""


OF_RUN = Extent(Depth.SHAPES, RunShapeBinding)
"""Shapes alone, with the scalars that a run would have."""


class _Certain(Shapes):
    """Goes on only where nothing is unknown that time may depend on."""

    def bind(self, engine: Host, core: Core, inst: Inst) -> Bound:
        if inst.window is not None and is_unplaced(inst.getter(core.slots)[inst.window]):
            raise Dependent(ON_DATA)
        return super().bind(engine, core, inst)

    def missing(self, engine: Host, core: Core, inst: Inst, need: NeedsValue) -> int:
        raise Dependent(ON_DATA)


def cost_of_run(
    prepared: Prepared, options: RunOptions, args: Args, instructions: int
) -> CostReport:
    """Return what a run of so many instructions costs; of a long one periods of its loops are kept
    once. Raises Dependent where only its values decide that."""
    return counted_run(prepared, options, args, steady=instructions >= LONG)[0]


def counted_run(
    prepared: Prepared,
    options: RunOptions,
    args: Args,
    *,
    steady: bool,
    extent: Extent = OF_RUN,
) -> tuple[CostReport, int, int]:
    """Return what a run costs, how many instructions it executes, and how many of them were left
    out as others do the same. Raises Dependent where only its values decide that."""
    estimate = Estimate(
        prepared, options, args, changed_table(prepared.front.chip, {}),
        all_blocks(prepared, options),
        extent=extent, domain=_Certain,
    )  # fmt: skip
    try:
        launch, _ = estimate.timed(steady=steady)
    except Undecided as open_:
        raise Dependent(ON_DATA) from open_
    found = report_of(prepared, launch.engine, estimate.blocks)
    if any(True for _ in found.model.stuck()):
        raise Dependent(ON_DATA)
    left_out = launch.engine.left_out
    return found, launch.engine.executed + left_out, left_out
