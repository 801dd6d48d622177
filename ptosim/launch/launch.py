"""One run of a program: its arguments, cores and engine, and what it gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ptosim.engine.core.decode import Decoder
from ptosim.engine.core.engine import Engine
from ptosim.engine.core.records import DecodedProgram, Depth
from ptosim.engine.core.retire import Retirement
from ptosim.engine.watch.monitor import Monitor, attach
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.errors import LimitError, ProgramError, Trap, UnsupportedError
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.isa.profiles import Profile
from ptosim.ground.isa.targets import machine as machine_of
from ptosim.ground.limits import current
from ptosim.ground.records import dataclass, field
from ptosim.language.frontend import Front
from ptosim.language.place.cores import (
    CoreRole,
    Plan,
    has_abstract,
    peer_functions,
    plan,
    reached_functions,
)
from ptosim.language.place.planner import Placement
from ptosim.language.rewrite import abstract
from ptosim.launch import arguments, results, sharing
from ptosim.launch.binding import Argument, ArgumentBinding
from ptosim.launch.options import Args, RunOptions
from ptosim.launch.outputs import Outputs
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
from ptosim.machine.tile import TileRef
from ptosim.machine.tile_values import load_tile, store_tile

if TYPE_CHECKING:
    from ptosim.engine.timed.timing_bridge import TimingBridge
    from ptosim.time.chip import Blocks
    from ptosim.time.report.totals import CostReport


@dataclass(eq=False)
class Launch(ArgumentBinding):
    """One run: arguments in buffers and tiles, cores, an engine."""

    depth = Depth.VALUES
    """How much of the program is executed."""

    front: Front
    profile: Profile
    options: RunOptions
    sink: Sink = field(default_factory=Sink, init=False)
    generated: dict[str, str] = field(default_factory=dict, init=False)
    tile_inputs: dict[str, np.ndarray] = field(default_factory=dict, init=False)
    resolved: ResolvedModule = field(init=False)
    function: Function = field(init=False)
    launched: Sequence[Function] = field(init=False)
    roles: Sequence[CoreRole] = field(init=False)
    functions: Sequence[Function] = field(init=False)
    placement: Placement = field(init=False)
    machine: Machine = field(init=False)
    program: DecodedProgram = field(init=False)
    engine: Engine = field(init=False)
    is_timed: bool = field(default=False, init=False)  # cycles are counted beside the values
    arrays: dict[str, Argument] = field(default_factory=dict, init=False)
    """Where the arrays of arguments are, by name (of several ranks `name@rank`)."""
    rank_slots: list[dict[int, Any]] = field(default_factory=list, init=False)
    """What the cores of each rank begin with, where that differs from the program's values."""

    def __post_init__(self) -> None:
        self.begin_binding()

    def prepare(self, entry: str, args: Args) -> Self:
        """Place and decode an entry, bind its arguments and make the cores. Raises UsageError for
        arguments that do not fit, ProgramError and UnsupportedError for what these bring out."""
        given, known = self._resolve(entry, args)
        self.function = self.resolved.functions[entry]
        self.machine = Machine(machine_of(self.front.chip))
        self._check_blocks()
        launched = peer_functions(self.resolved, self.function)
        reached = known.reached if known else reached_functions(self.resolved, launched)
        arguments.refuse_open(reached)
        if known is None:
            known = plan(self.resolved, entry)
            self.sink.extend(known.findings)
            self._reject_errors()
        self.launched, self.roles, self.placement = known.launched, known.roles, known.placement
        self.functions = known.reached
        parts = (self.resolved, self.placement, self.machine, self.profile, self._warn, self.sink)
        self.program = Decoder(*parts, self.depth).run(self.launched)
        self._refuse_unsupported()
        self._bind_arguments(given)
        self._make_cores()
        return self

    def _resolve(self, entry: str, args: Args) -> tuple[dict[str, Any], Plan | None]:
        """Match the arguments, and make abstract types concrete by them. Returns the arguments by
        name, and the plan of the entry if it does not depend on them."""
        self.resolved = self.front.resolved
        known = self.front.plans.get(entry)
        function = self.resolved.functions[entry]
        launched = known.launched if known else peer_functions(self.resolved, function)
        given = self._named(launched, args)
        if known is None and has_abstract(function):
            self.resolved, assumed = abstract.concrete(self.front, given, self.sink)
            self.generated.update(assumed)
            self._reject_errors()
        return given, known

    def _named(self, launched: Sequence[Function], args: Args) -> dict[str, Any]:
        """Arguments by name, those of one rank by `name@rank`."""
        ranks = self.options.ranks
        args = sharing.by_rank(args, ranks)
        if not isinstance(args, Mapping):
            return arguments.match(launched, args)
        named = {name: sharing.split_rank(name, ranks) for name in args}
        arguments.match(launched, {plain: None for plain, _ in named.values()})
        return {
            plain if rank is None else f"{plain}@{rank}": args[name]
            for name, (plain, rank) in named.items()
        }

    def _check_blocks(self) -> None:
        blocks, most = self.options.block_num, self.machine.definition.max_blocks
        if blocks > most:
            raise LimitError(f"block_num is {blocks}; a launch has at most {most:,} blocks")
        if blocks * self.options.ranks > most:
            raise LimitError(
                f"{self.options.ranks:,} ranks of {blocks:,} blocks are too many to run at once; "
                f"there may be {most:,} blocks in all"
            )

    def _reject_errors(self) -> None:
        if self.sink.has_errors:
            raise ProgramError([*self.front.sink, *self.sink])

    def _refuse_unsupported(self) -> None:
        if self.sink.has_errors:
            raise UnsupportedError([*self.front.sink, *self.sink])

    def _warn(self, op: Any, code: str, message: str, help: str | None = None) -> None:
        self.engine.report(op, code, message, help)

    # -- run --------------------------------------------------------------------------------------

    def _make_cores(self) -> None:
        for rank, block in self._clusters():
            current().look()
            cluster = Cluster(block, rank=rank, has_ranks=self.options.ranks > 1)
            self.machine.clusters.append(cluster)
            for role in self.roles:
                self.machine.cores.append(self._make_core(cluster, role))

    def _clusters(self) -> Iterable[tuple[int, int]]:
        """The clusters that there are cores of: their ranks and blocks."""
        return product(range(self.options.ranks), range(self._block_count()))

    def _block_count(self) -> int:
        """Return how many blocks there are to execute."""
        return self.options.block_num

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
        for slot, held in self.rank_slots[cluster.rank].items():
            core.slots[slot] = held
        core.slots[SLOT_KIND] = role.kind
        core.slots[SLOT_BLOCK] = cluster.block
        core.slots[SLOT_BLOCK_NUM] = options.block_num
        core.slots[SLOT_SUBBLOCK] = role.sub_block
        core.slots[SLOT_SUBBLOCK_NUM] = role.sub_blocks
        core.pc = self.program.functions[role.function].pc
        self._fill_tiles(core)
        return core

    def _fill_tiles(self, core: Core) -> None:
        for name, array in self.tile_inputs.items():
            slot = self.program.tiles[name][0]
            store_tile(core, core.slots[slot], array)

    def parts(self) -> tuple[DecodedProgram, ResolvedModule, Machine, Profile, Sink]:
        """What every engine of this launch is made of."""
        return self.program, self.resolved, self.machine, self.profile, self.sink

    def start(self, observers: Sequence[Any] = ()) -> None:
        """Make the engine; nothing is executed yet."""
        retires = self.options.commit == "retire"
        self.is_timed = self.options.timing and not retires
        self.engine = Engine(
            *self.parts(),
            observers,
            in_order=self.front.sync == "auto",
            pace=Retirement() if retires else None,
            timing=self._timing() if self.is_timed else None,
        )

    def _timing(self) -> TimingBridge:
        from ptosim.launch.costing import bridge_of

        return bridge_of(self)

    def run(self, observers: Sequence[Any] = ()) -> results.Result:
        """Execute and collect."""
        self.start(observers)
        if self.is_timed:
            from ptosim.launch.costing import begin

            begin(self, self.blocks)
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
        cost = self._cost()
        return results.Result(
            outputs=self.outputs(at_end=True),
            findings=[*self.front.sink, *self.sink],
            prints=self.engine.prints,
            generated=self.generated,
            executed=self.engine.executed,
            cycles=cost.cycles if cost is not None else None,
            cost=cost,
        )

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
        from ptosim.launch.costing import report_of

        return report_of(self, self.blocks)

    @cached_property
    def blocks(self) -> Blocks:
        """How the blocks share the cores of the chip: all of them are executed and timed."""
        from ptosim.launch.blocks import all_blocks

        return all_blocks(self)

    def sanitizers(self) -> Monitor | None:
        """Attach the sanitizers that the options ask for; None if they ask for none."""
        tiles = (v for v in self.function.args if v.name in self.tile_inputs)
        return attach(self.engine, self.options.sanitize, self.front.sync, tiles)

    def has_values(self) -> bool:
        """True if tiles or numbers are among what it gives."""
        return bool(results.output_tiles(self.function) or results.output_values(self.function))

    def outputs(self, *, at_end: bool = False) -> Outputs:
        """Return what every pointer argument and output tile holds now, by name."""
        outputs = Outputs({n: self._held(a, at_end=at_end) for n, a in self.arrays.items()})
        core = self.machine.cores[0]
        for value in results.output_tiles(self.function):
            ref = core.slots[self.program.slots[value]]
            if isinstance(ref, TileRef):
                outputs[value.name] = load_tile(core, ref)
        for value in results.output_values(self.function):
            outputs[value.name] = results.value_array(
                core.slots[self.program.slots[value]], value.type
            )
        return outputs
