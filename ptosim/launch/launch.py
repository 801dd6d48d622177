"""One run of a program: its arguments, cores and engine, and what it gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

from ptosim.engine.core.binder import Numbers
from ptosim.engine.core.bound import Depth
from ptosim.engine.core.decode import Decoder
from ptosim.engine.core.engine import Engine
from ptosim.engine.core.pace import Retirement
from ptosim.engine.watch.definedness import Definedness
from ptosim.engine.watch.monitor import Monitor, attach
from ptosim.ground.diagnostics.model import Sink, Trap, UnsupportedError
from ptosim.ground.errors import LimitError, PtosimError
from ptosim.ground.isa.dates import Profile
from ptosim.ground.isa.targets import machine as machine_of
from ptosim.ground.limits import current
from ptosim.ground.records import NamedTuple
from ptosim.language.frontend import Front
from ptosim.language.place.cores import CoreRole
from ptosim.launch import arguments, results
from ptosim.launch.arguments import told_arguments
from ptosim.launch.binding import Binding
from ptosim.launch.prepared import Args, Prepared, RunOptions, prepare
from ptosim.machine.core import (
    SLOT_BLOCK,
    SLOT_BLOCK_NUM,
    SLOT_KIND,
    SLOT_SUBBLOCK,
    SLOT_SUBBLOCK_NUM,
    Cluster,
    Core,
    Machine,
)
from ptosim.machine.gm import GmBuffer
from ptosim.machine.tile import TileRef, load_tile

if TYPE_CHECKING:
    from ptosim.engine.core.schedule import Scheduled
    from ptosim.ground.ir.program import Function
    from ptosim.ground.isa.costs import CostTable
    from ptosim.launch.generated import Used
    from ptosim.time.chip import Blocks
    from ptosim.time.report.totals import CostReport


class Extent(NamedTuple):
    """How much of a program a launch executes, and what its arguments are for that."""

    depth: Depth
    binding: type[Binding]
    looked: set[tuple[int, int, int]] | None = None
    """Without values: see `Machine.looked`."""


VALUES = Extent(Depth.VALUES, Binding)


class Kept(NamedTuple):
    """What belongs to the arguments of a launch, and not to its program."""

    engine: Engine
    cores: list[Core]
    clusters: list[Cluster]
    buffers: list[GmBuffer]
    global_counters: dict[Any, Any]


class Launch:
    """A prepared program, decoded, with arguments on the cores of a machine. `prepare` of a front
    end and an engine (`start`, or `begin` with parts of one's own) are all that differs between
    runs, dry runs and estimates."""

    def __init__(
        self,
        prepared: Prepared,
        options: RunOptions,
        args: Args,
        extent: Extent = VALUES,
        clusters: Iterable[tuple[int, int]] | None = None,
    ) -> None:
        """Decode the program, bind its arguments and make the cores: those of all blocks of every
        rank, or of `clusters` (rank and block of each). Raises UsageError for arguments that do not
        fit, LimitError for too many blocks, UnsupportedError for what cannot be executed."""
        self.prepared, self.options = prepared, options
        self.front, self.profile = prepared.front, prepared.profile
        self.resolved, self.function = prepared.resolved, prepared.function
        self.sink = Sink()
        self.sink.extend(prepared.findings)
        self.machine = Machine(machine_of(self.front.chip), has_values=extent.depth is Depth.VALUES)
        self.machine.looked = extent.looked
        self._binding, self._clusters = extent.binding, clusters
        self._used: dict[Function, list[Used]] = {}
        if options.peer is not None:
            from ptosim.launch import peers  # most launches are whole

            self.machine.returned = peers.returned(prepared, options)
            self.machine.stub = peers.stub_of(prepared, options)
        self._check_blocks()
        self.program = Decoder(
            self.resolved, prepared.placement, self.machine, self.profile, self._warn, self.sink,
            extent.depth,
        ).run(prepared.launched)  # fmt: skip
        if self.sink.has_errors:
            raise UnsupportedError([*self.front.sink, *self.sink])
        self._decoded = list(self.sink)
        self.engine: Engine
        self.figures: tuple[CostTable, int] | None = None
        self.domain: Numbers | None = None
        """Whose figures time goes by, and buffers to add; None: those of the chip."""
        self.is_timed = False  # cycles are counted beside the values
        self._take(args)

    def _take(self, args: Args) -> None:
        prepared, options = self.prepared, self.options
        self.binding = self._binding(prepared, self.program, self.machine, options, self.sink)
        self.binding.used = self._used
        given = arguments.by_name(prepared.launched, args, options.ranks)
        given = {**prepared.front.resolved.defaults, **given}
        self.binding.bind(given)
        self.told = told_arguments(prepared.launched, self.program, given)
        self.binding.generated.update(self.told.words)
        every = product(range(options.ranks), range(options.block_num))
        for rank, block in every if self._clusters is None else self._clusters:
            current().look()
            cluster = Cluster(block, rank=rank, has_ranks=options.ranks > 1)
            self.machine.clusters.append(cluster)
            for role in prepared.roles:
                self.machine.cores.append(self._make_core(cluster, role))

    def again(self, args: Args) -> None:
        """Take other arguments, with memory and cores of their own: the program stays decoded. What
        engines of earlier arguments hold is `kept` before, and put back to be used. Raises what
        making a launch raises."""
        self.sink = Sink()
        self.sink.extend(self._decoded)
        machine = self.machine
        before = machine.cores, machine.clusters, machine.buffers, machine.global_counters
        machine.cores, machine.clusters, machine.buffers = [], [], []
        machine.global_counters = {}
        try:
            self._take(args)
        except PtosimError:  # of arguments that are too large: others may follow
            machine.cores, machine.clusters, machine.buffers, machine.global_counters = before
            raise
        for core, old in (
            zip(machine.cores, before[0], strict=True) if not machine.has_values else ()
        ):
            core.spaces = old.spaces  # nobody asks what is in them

    def forget(self) -> None:
        """Let go of what was bound and watched; single instructions can still be executed."""
        if self.engine.monitor is not None:
            self.engine.monitor.release()
            self.engine.monitor = None
        for core in self.machine.cores:
            core.bounds.clear()
            core.transfers.clear()

    def kept(self) -> Kept:
        """Return what belongs to the present arguments."""
        at = self.machine
        return Kept(self.engine, at.cores, at.clusters, at.buffers, at.global_counters)

    def put_back(self, kept: Kept) -> Kept:
        """Go back to other arguments of it; return those that it had."""
        at = self.machine
        had = Kept(self.engine, at.cores, at.clusters, at.buffers, at.global_counters)
        self.engine, at.cores, at.clusters, at.buffers, at.global_counters = kept
        return had

    @classmethod
    def of(
        cls, front: Front, profile: Profile, options: RunOptions, entry: str, args: Args
    ) -> Launch:
        """Return the launch of an entry with values. Raises what `prepare` and a launch raise."""
        return cls(prepare(front, profile, entry, args, options.ranks), options, args)

    def _check_blocks(self) -> None:
        blocks, most = self.options.block_num, self.machine.definition.max_blocks
        if blocks > most:
            raise LimitError(f"block_num is {blocks}; a launch has at most {most:,} blocks")
        if blocks * self.options.ranks > most:
            raise LimitError(
                f"{self.options.ranks:,} ranks of {blocks:,} blocks are too many to run at once; "
                f"there may be {most:,} blocks in all"
            )

    def _warn(self, op: Any, code: str, message: str, help: str | None = None) -> None:
        self.engine.report(op, code, message, help)

    def _make_core(self, cluster: Cluster, role: CoreRole) -> Core:
        options = self.options
        core = Core(
            len(self.machine.cores),
            role.kind,
            cluster,
            role.sub_block,
            self.machine.definition,
            options.uninit,
            options.seed,
        )
        core.slots = list(self.program.initial)
        for slot, held in self.binding.rank_slots[cluster.rank].items():
            core.slots[slot] = held
        core.slots[SLOT_KIND] = role.kind
        core.slots[SLOT_BLOCK] = cluster.block
        core.slots[SLOT_BLOCK_NUM] = options.block_num
        core.slots[SLOT_SUBBLOCK] = role.sub_block
        core.slots[SLOT_SUBBLOCK_NUM] = role.sub_blocks
        self.told.fill(core)
        core.pc = self.program.functions[role.function].pc
        self.binding.fill_tiles(core)
        return core

    # -- run --------------------------------------------------------------------------------------

    def begin(self, observers: Sequence[Any] = (), **parts: Any) -> Engine:
        """Make an engine of these parts (`domain`, `pace`, `timing`); nothing is executed yet."""
        self.engine = Engine(
            self.program, self.resolved, self.machine, self.profile, self.sink, observers,
            in_order=self._never_waits, **parts,
        )  # fmt: skip
        return self.engine

    def start(self, observers: Sequence[Any] = ()) -> None:
        """Make the engine that the options ask for; nothing is executed yet."""
        pace = self._pace()
        self.is_timed = self.options.timing and pace is None
        timing = None
        if self.is_timed:
            from ptosim.launch.timing import bridge_of  # brings the laws of time

            timing = bridge_of(self.prepared, self.program, self.machine, self.figures)
        self.begin(observers, pace=pace, timing=timing, domain=self.domain)

    def _pace(self) -> Retirement | Scheduled | None:
        """When effects happen; None: in the order of the text."""
        if self.options.schedule:
            from ptosim.engine.core.schedule import Scheduled  # most runs are in order

            return Scheduled(self.options.schedule, self.resolved.settings.ordered)
        return Retirement() if self.options.commit == "retire" else None

    def run(self, observers: Sequence[Any] = ()) -> results.Result:
        """Execute and collect."""
        self.start(observers)
        if self.is_timed:
            from ptosim.launch.timing import begin

            begin(self.engine, self.blocks)
        monitor = self.sanitizers()
        try:
            self.engine.run(self.options.most_instructions)
        except Trap as trap:
            cost = self._cost()
            findings = [*self.front.sink, *self.sink]
            cycle = cost.cycles if cost is not None else None
            raise Trap(findings, pc=trap.pc, cycle=cycle, pipe=trap.pipe) from trap.__cause__
        if monitor is not None:
            monitor.finish()
            lines, options = monitor.lines, self.options
            lines.leave_without_values(self.machine, options.uninit, options.seed)
        cost = self._cost()
        return results.Result(
            outputs=self.outputs(at_end=True),
            findings=[*self.front.sink, *self.sink],
            prints=self.engine.prints,
            generated=self.binding.generated,
            executed=self.engine.executed,
            cycles=cost.cycles if cost is not None else None,
            priced=cost,
            definedness=self.definedness(monitor),
            met=frozenset(monitor.met) if monitor is not None else frozenset(),
            unsure=tuple(monitor.unsure.values()) if monitor is not None else (),
        )

    def definedness(self, monitor: Monitor | None) -> Definedness:
        """Return what a monitor, of this run or of one that did the same, knows of the arguments'
        bytes; nothing if nobody watched."""
        found = Definedness()
        if monitor is not None and monitor.chosen.defined:
            for name, given in self.binding.arrays.items():
                shadow = monitor.shadow(monitor.machine.cores[0], given.number)
                place = given.offset, given.size
                found.add(name, shadow, place, given.elem, given.shape)
        return found

    def release(self) -> None:
        """Let go of all memory at once, for what is left refers to itself and waits for the
        collector; what a result has stays."""
        for core in self.machine.cores:
            core.release()
        self.machine.buffers.clear()
        self.machine.scratch.clear()
        self.machine.kept.clear()
        self.engine.release()

    def _cost(self) -> CostReport | None:
        if not self.is_timed:
            return None
        from ptosim.launch.timing import report_of

        return report_of(self.prepared, self.engine, self.blocks)

    @cached_property
    def blocks(self) -> Blocks:
        """How the blocks share the cores of the chip: all of them are executed and timed."""
        from ptosim.launch.timing import all_blocks

        return all_blocks(self.prepared, self.options)

    def sanitizers(self) -> Monitor | None:
        """Attach the sanitizers that the options ask for; None if they ask for none."""
        tiles = (v for v in self.function.args if v.name in self.binding.tile_inputs)
        text = self.options.sanitize
        monitor = attach(self.engine, text, tiles, ordered=self._keeps_text)
        if monitor is not None and self.binding.on_chip is not None:
            self.binding.on_chip.define(monitor)
        return monitor

    @cached_property
    def _never_waits(self) -> bool:
        return self.prepared.never_waits  # looks at each operation: a launch may begin many times

    @cached_property
    def _keeps_text(self) -> bool:
        return self.prepared.keeps_text

    def has_values(self) -> bool:
        """True if tiles or numbers are among what it gives."""
        return bool(results.output_tiles(self.function) or results.output_values(self.function))

    def outputs(self, *, at_end: bool = False) -> results.Outputs:
        """Return what every pointer argument and output tile holds now, by name."""
        held = self.binding.held
        arrays = {n: held(a, at_end=at_end) for n, a in self.binding.arrays.items()}
        outputs = results.Outputs(arrays)
        core = self.machine.cores[0]
        on_chip = self.binding.on_chip
        for name, array in on_chip.outputs(core) if on_chip is not None else ():
            outputs[name] = array
        for value in results.output_tiles(self.function):
            ref = core.slots[self.program.slots[value]]
            if isinstance(ref, TileRef):
                outputs[value.name] = load_tile(core, ref)
        for value in results.output_values(self.function):
            outputs[value.name] = results.value_array(
                core.slots[self.program.slots[value]], value.type
            )
        return outputs
