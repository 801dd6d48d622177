"""From executed instructions to the timing model: costs by shape, events by name.

The timing model sees no values and no memory; this is the only place that looks at both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ptosim.engine.core.bound import DecodedProgram, Inst, Kind, Moved
from ptosim.engine.core.runners import Host
from ptosim.engine.timed.events import (
    begin_waves,
    end_waves,
    estimated,
    fifo_events,
    fixed_part,
    forms_of,
    is_fifo,
    is_signal,
    popped_range,
    pops_tile,
    timed,
)
from ptosim.engine.timed.shared_memory import SharedMemory
from ptosim.ground.diagnostics.model import UnsupportedError, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import TileType
from ptosim.ground.isa.costs import CostTable
from ptosim.ground.source import Source
from ptosim.machine.affine import NO_LINE, NeedsValue, moves
from ptosim.machine.core import Core, Machine
from ptosim.machine.effects.ranges import Ranges, far_ranges, near_ranges, ranges_of
from ptosim.machine.tile import TileRef
from ptosim.ops.base.binding import Binding
from ptosim.ops.base.orders import Barrier, GetToken, ReleaseToken, SetFlag, WaitFlag
from ptosim.time.laws.cost import Cost, Stage
from ptosim.time.laws.shapes import ALIGNED, VectorWork
from ptosim.time.period.folds import fold, fold_signals
from ptosim.time.pipes.fast import DataOrder, issuer, ordered_issuer
from ptosim.time.pipes.model import TimingModel
from ptosim.time.pipes.state import Archive, restore, save
from ptosim.time.pipes.steps import PIPE_INDEX, Flag, Issued, Loop, Site, Step, loops_of

if TYPE_CHECKING:
    from ptosim.engine.timed.regions import LogicalRegion, RegionPlan
    from ptosim.ops.lower.logical.program import Lowered

# How late a pipe is on the way of data: a flag to an earlier pipe hands a buffer back.
_STAGE = {"MTE2": 0, "MTE1": 1, "M": 2, "V": 2, "FIX": 3, "MTE3": 3}


class TimingBridge:
    """Feeds a timing model from the instructions of a program. `is_ordered`: nothing in the program
    synchronises, so data do. `buffers`: how many more buffers every tile has, and how many
    more events every flag that hands one back; `copies`: how many do the same at the same time as
    each core, and share its bandwidth."""

    def __init__(
        self,
        program: DecodedProgram,
        resolved: ResolvedModule,
        machine: Machine,
        table: CostTable,
        *,
        is_ordered: bool,
        buffers: int = 0,
        copies: int = 1,
    ) -> None:
        self.program = program
        self.resolved = resolved
        self.machine = machine
        self.table = table
        self.buffers = buffers
        self._sites: list[Site | None] = [None] * len(program.insts)
        self._loops: dict[Operation, Loop] | None = None  # found when a place is asked for
        self._costs: dict[tuple[Any, ...], Cost] = {}
        self._regions: dict[VectorWork, Cost] = {}
        self._plans: dict[int, RegionPlan] = {}
        self._lowered: Lowered | None = None
        self._shared: dict[tuple[Any, ...], Step] = {}
        self._known: dict[tuple[Any, ...], Step] = {}  # by tiles and the form of windows
        self._archive: Archive = {}  # records that the way back cut off
        self.is_ordered = is_ordered
        self.folds = False  # True: of a long run periods of records are kept
        self._at_once = 0  # blocks that run at a time; 0: all
        self.memory = SharedMemory(program, resolved, machine, table, copies)
        totals = self._totals(copies)
        scalar = round(table["machine.scalar"]["cycles"])
        self.model = TimingModel(
            [core_name(core) for core in machine.cores], scalar, totals, copies
        )
        self._issue = round(table["machine.issue"]["cycles"])
        cores = self.model.cores if is_ordered else ()
        # On A2/A3 a vector operation that depends on the one before waits at a barrier.
        waits = table["machine.drain"]["waits"]
        draining = frozenset((PIPE_INDEX["V"],)) if waits else frozenset()
        self.orders = [DataOrder(t, draining, buffers) for t in cores]
        self.timed = self._timed_actions()
        # Scalar instructions of a region are part of its cost.
        self.ends = frozenset(i.end for i in program.insts if i.kind is Kind.REGION)

    def _totals(self, copies: int) -> dict[str, float]:
        """Total bandwidth, where the cores together could ask for more of it."""
        scale = 1 << 30
        hz = self.table.mhz * 1e6
        totals = {
            direction: self.table[f"machine.{direction}_total"]["gib_per_second"] * scale / hz
            for direction in ("read", "write")
        }
        devices = 1 + max((core.rank for core in self.machine.cores), default=0)
        totals = {direction: total * devices for direction, total in totals.items()}
        paths = {
            "read": {"cube": "gm_mat", "vector": "gm_vec", "any": "gm_mat"},
            "write": {"cube": "acc_gm", "vector": "vec_gm", "any": "vec_gm"},
        }
        for direction, total in totals.items():
            asked = sum(
                self.table.bytes_per_cycle(self.table[f"transfer.{paths[direction][core.kind]}"])
                for core in self.machine.cores
            )
            if asked * copies > total * 1.001:
                return totals
        return {}

    def _timed_actions(self) -> frozenset[int]:
        """Operations that the scalar unit executes itself on data of the pipes."""
        return frozenset(
            inst.pc
            for inst in self.program.insts
            if inst.kind is Kind.ACTION and inst.op is not None and _reads_tile(inst.op)
        )

    # -- issue -------------------------------------------------------------------------------------

    def issuer(self, core: Core) -> Any:
        """Return the function of (step, scalar operations before it) that issues on a core."""
        if self.is_ordered:
            return ordered_issuer(self.orders[core.index])
        return issuer(self.model.cores[core.index])

    def prepare(self, core: Core, inst: Inst, bound: Any) -> Issued:
        """Return the step of an instruction with its operands, and keep it there. A pop hands out
        another slot every time: where data order the program, it has a step for each execution."""
        if bound.__class__ is Moved:
            step: Any = bound.first.cost or self.prepare(core, inst, bound.first)
            if self.is_ordered:
                step = step.moved(bound.distance)
            bound.cost = step
            return step
        binding = bound.binding
        if is_fifo(binding):
            step = self._fifo_step(core, inst, binding)
            if self.is_ordered and pops_tile(core, binding):
                return step
        else:
            step = self._step(core, inst, binding)
            if is_signal(binding):
                bound.commit = timed(self, core, bound, step)
        bound.cost = step
        return step

    def action(self, core: Core, inst: Inst) -> Issued:
        """Return the step of an operation of the scalar unit on a tile."""
        names = ("src", "dst")
        slots = self.program.slots
        values: dict[str, Any] = {}
        for name in names:
            value = getattr(inst.operation.bound.get(name), "value", None)
            if value in slots:
                values[name] = core.slots[slots[value]]
        cost = self.cost(inst, values, {})
        return self._made(core, inst, cost, "S", ranges_of(inst.operation, values))

    def region(self, core: Core, inst: Inst) -> Issued:
        """Return the step of a vector region on the values that the core has now."""
        plan = self._plans.get(inst.pc)
        if plan is None:
            plan = self._plans[inst.pc] = self._planned(inst)
        if not plan.is_counted and any(map(moves, core.slots)):
            raise NeedsValue(NO_LINE)  # its instructions would be executed on what moves
        work = plan.work(core.slots)
        cost = self._regions.get(work)
        if cost is None:
            from ptosim.time.laws.region import region_cost  # tiles do without

            cost = self._regions[work] = region_cost(work, self.table)
        return self._made(core, inst, cost, "V", _WHOLE_UB if self.is_ordered else _NOWHERE)

    def _planned(self, inst: Inst) -> RegionPlan:
        """Return what is known of a region before it is executed."""
        # Programs of tiles have none.
        from ptosim.engine.timed.regions import RegionPlan
        from ptosim.ops.lower.logical.names import has_logical

        source, operation = self.resolved.module.source, inst.operation
        has_any = has_logical(operation.walk()[1:])
        logical = self._logical(operation, source) if has_any else None
        return RegionPlan(self.program, inst, source, logical)

    def _logical(self, region: Operation, source: Source) -> LogicalRegion:
        """Return the instructions of a region of logical operations."""
        # Most programs have none, and what lowers them are twenty modules.
        from ptosim.engine.timed.regions import LogicalRegion
        from ptosim.language.verify.checks.virtual import reason
        from ptosim.ops.lower.logical.program import Lowered
        from ptosim.ops.lower.logical.scope import NotLowered

        for op in region.walk():
            meant = reason(op, is_open=True) if op.has("virtual") else None
            if meant is not None:
                text = f"'{op.name}' cannot be executed: {meant[1]}"
                raise UnsupportedError([finding("PTO8002", text, op.span(source))])
        if self._lowered is None:
            self._lowered = Lowered(self.resolved, estimates=True)
        limits = self.machine.definition.registers
        try:
            scope = self._lowered.scope(region)
        except NotLowered as refused:
            text = f"'{refused.op.name}' has no cycles: {refused}"
            raise UnsupportedError([finding("PTO8002", text, refused.op.span(source))]) from refused
        return LogicalRegion(scope, source, limits)

    def _step(self, core: Core, inst: Inst, binding: Binding) -> Issued:
        sync = binding.sync
        if sync is not None or binding.signals or binding.awaits:
            return self._sync_step(core, inst, binding)
        if inst.launches:
            return self._launch_step(core, inst, inst.semantics.threads(binding))
        values = binding.values
        part = fixed_part(inst, values)
        if part is None:
            return self._new_step(core, inst, binding)
        key = (core.index, inst.pc, part)
        known = self._known.get(key)
        if known is None:
            step = self._new_step(core, inst, binding)
            self._known[key] = step.base
            return step
        if not self.is_ordered:
            return known
        return self.orders[core.index].placed(known, far_ranges(inst.operation, values))

    def _launch_step(self, core: Core, inst: Inst, threads: int) -> Issued:
        """The step of a launch of SIMT code, which may touch all of UB."""
        key = (inst.pc, threads)
        cost = self._costs.get(key)
        if cost is None:
            from ptosim.time.laws.vector_times import launch_cost  # tiles do without

            cost = self._costs[key] = launch_cost(inst.semantics.work, threads, self.table)
        return self._made(core, inst, cost, "V", _WHOLE_UB if self.is_ordered else _NOWHERE)

    def _new_step(self, core: Core, inst: Inst, binding: Binding) -> Issued:
        begins = ALIGNED if inst.window is None else self.memory.begins(core, inst)
        cost = self.cost(inst, binding.values, binding.attributes, begins)
        cost = self.memory.cost(core, inst, cost)
        return self._made(core, inst, cost, inst.pipe, ranges_of(inst.operation, binding.values))

    def _fifo_step(self, core: Core, inst: Inst, binding: Binding) -> Issued:
        """A copy into or out of a slot, or bookkeeping, with the events of the FIFO."""
        values = binding.values
        results = inst.operation.results
        if results and isinstance(results[0].type, TileType):
            type_ = results[0].type
            values = {**values, "result": _handle_of(type_)}
        takes, gives, pipe = fifo_events(self, core, binding)
        cost = self.cost(inst, values, binding.attributes)
        if self.is_ordered and pops_tile(core, binding):
            ranges: Ranges = ((), (popped_range(core, binding),))
        else:
            ranges = ranges_of(inst.operation, binding.values)
        return self._made(core, inst, cost, pipe or inst.pipe, ranges, takes, gives)

    def _made(
        self,
        core: Core,
        inst: Inst,
        cost: Cost,
        pipe: str,
        ranges: Ranges,
        takes: tuple[Flag, ...] = (),
        gives: tuple[Flag, ...] = (),
    ) -> Issued:
        """Return the step of an execution; where data order the program, executions that use other
        bytes of global memory have steps of their own, which are recorded as one."""
        near = near_ranges(ranges)
        key = (core.index, inst.pc, id(cost), takes, gives, near)
        step = self._shared.get(key)
        if step is None:
            shared = None
            if cost.moved is not None and self.model.shares and cost.busy:
                shared = (cost.moved.direction, cost.moved.bytes / cost.busy)
            step = self._shared[key] = Step(
                pipe_index(pipe),
                self.site(inst),
                cost,
                issue=self._issue,
                takes=takes,
                gives=gives,
                shared=shared,
                is_work=bool(cost.cycles or not cost.known),
                carry=self.carry() if gives else 0,
            )
            step.ranges = near
        return self.orders[core.index].placed(step, ranges) if self.is_ordered else step

    def carry(self) -> int:
        """Return the cycles that an event takes from one core to another."""
        return round(self.table["machine.cross"]["cycles"])

    # -- the run -----------------------------------------------------------------------------------

    def in_waves(self, at_once: int) -> None:
        """Let only so many blocks run at a time; before anything is executed."""
        self._at_once = at_once
        begin_waves(self.model, self.machine, at_once)

    def looked(self) -> None:
        """The run goes on for long: look at how many records there are."""
        if self.folds:
            self.fold()

    def fold(self) -> None:
        """Keep periods of records once, if there are many new ones."""
        if self.model.retired is None:
            for timer in self.model.cores:
                fold(timer)
            fold_signals(self.model.signals)

    def ended(self) -> None:
        """Every core has come to its end."""
        if self._at_once:
            end_waves(self.model, self.machine, self._at_once)

    def settle(self) -> None:
        """The run is over, or stops: place what competes for bandwidth."""
        self.model.settle()
        self.model.drain_retired()

    def cycle(self, core: Core, scalars: int) -> int:
        """Return the cycle at which everything that a core has executed so far is done, with so
        many operations of the scalar unit since the last issue."""
        timer = self.model.cores[core.index]
        return max(timer.clock + scalars * self.model.scalar_cycles, *timer.done)

    # -- state -------------------------------------------------------------------------------------

    def save(self) -> Any:
        """Return the state of the model, for `restore`."""
        return save(self.model, self.orders)

    def restore(self, state: Any, *, forget: bool = False) -> None:
        """Take the model to another state of this run; `forget` what came after it."""
        restore(self.model, self.orders, state, None if forget else self._archive)

    # -- costs -------------------------------------------------------------------------------------

    def cost(
        self,
        inst: Inst,
        values: Mapping[str, Any],
        attrs: Mapping[str, Any],
        begins: int = ALIGNED,
    ) -> Cost:
        """Return the cost of an instruction with the shapes of its operands, whose windows begin at
        multiples of so many bytes of global memory."""
        forms = forms_of(inst, values)
        key = (inst.pc, *forms)
        cost = self._costs.get(key)
        if cost is None:
            op = inst.operation
            cost = self._costs[key] = estimated(self.table, op, values, attrs, forms, begins)
        return cost

    # -- synchronisation ---------------------------------------------------------------------------

    def _sync_step(self, core: Core, inst: Inst, binding: Binding) -> Step:
        """The step of a flag, barrier, token or cross-core event."""
        sync = binding.sync
        takes, gives, drains, work = (), (), False, None
        pipe = inst.pipe
        if isinstance(sync, SetFlag) and sync.source != sync.target:
            gives = (self.flag(core, *sync),)
        elif isinstance(sync, WaitFlag):
            takes = (self.flag(core, *sync),)
        elif isinstance(sync, Barrier):
            drains, work = True, self._barrier_cost()
            pipe = "S" if sync.pipe == "ALL" else sync.pipe
        elif isinstance(sync, (GetToken, ReleaseToken)):
            token = (self._event(("token", core.index, sync.number), "buffer token", 1),)
            takes, gives = (token, ()) if isinstance(sync, GetToken) else ((), token)
        signals = tuple(self._event(key, "cross-core event") for key in binding.signals)
        awaits = tuple(self._event(key, "cross-core event") for key in binding.awaits)
        step = Step(
            pipe_index(pipe),
            self.site(inst),
            work if work is not None else _FREE,
            issue=self._issue,
            takes=takes if signals else takes + awaits,
            gives=gives + signals,
            drains=drains,
            is_work=work is not None,
            carry=self.carry() if signals else 0,
        )
        if signals and awaits:
            step.then = Step(step.pipe, step.site, _FREE, issue=0, takes=awaits, is_work=False)
        step.ranges = _NOWHERE
        return step

    def flag(self, core: Core, source: str, target: str, number: int) -> Flag:
        """Return the flag between two pipes of a core."""
        back = _STAGE.get(source, 0) > _STAGE.get(target, 9)
        credits = self.buffers if back else 0
        return self._event((core.index, source, target, number), f"flag from {source}", credits)

    def _event(self, key: Any, reason: str, credits: int = 0, group: int = 1) -> Flag:
        return self.model.flag(key, reason, credits, group)

    def fifo_event(self, key: Any, credits: int = 0, group: int = 1) -> Flag:
        """Return an event of a FIFO between cores; it comes in groups."""
        return self._event(key, "FIFO", credits, group)

    def _barrier_cost(self) -> Cost:
        row = self.table["machine.barrier"]
        return Cost("sync", (Stage("barrier", row["cycles"], 1, row.confidence),), row.confidence)

    # -- places ------------------------------------------------------------------------------------

    def site(self, inst: Inst) -> Site:
        """Return the place of an instruction in the program."""
        site = self._sites[inst.pc]
        if site is None:
            if self._loops is None:
                self._loops = loops_of(self.resolved)
            op = inst.op
            assert op is not None
            source = self.resolved.module.source
            line, _ = source.line_column(op.start)
            text = source.text[op.start : op.end].split("\n", 1)[0].strip()
            site = Site(
                inst.pc, op.name.removeprefix("pto."), line, text, self._loops.get(op), source.name
            )
            self._sites[inst.pc] = site
        return site


def bridge_of(engine: Host) -> TimingBridge:
    """Return the timing model beside an engine that has one."""
    assert isinstance(engine.timing, TimingBridge)
    return engine.timing


def _reads_tile(op: Operation) -> bool:
    tiles = any(isinstance(value.type, TileType) for value in op.operand_values())
    return tiles and op.has("reads_memory")


# A vector region reads and writes by computed addresses; it may touch all of UB.
_WHOLE_UB: Ranges = ((), (("vec", 0, 1 << 32),))
_NOWHERE: Ranges = ((), ())

_FREE = Cost("sync", (), "documented")


def _handle_of(type_: TileType) -> TileRef:
    """A handle of a tile's type; a valid shape that the program decides counts as the whole."""
    rows = type_.rows if type_.v_row is None else type_.v_row
    cols = type_.cols if type_.v_col is None else type_.v_col
    return TileRef(type_, 0, rows, cols)


def pipe_index(name: str) -> int:
    """Return the number of a pipe; that of a virtual pipe is of the one that it is part of."""
    index = PIPE_INDEX.get(name)
    if index is None:
        index = next((i for n, i in PIPE_INDEX.items() if n != "S" and n in name), 0)
    return index


def core_name(core: Core) -> str:
    """Return what a core is called in reports: AIC or AIV with the block."""
    kind = {"cube": "AIC", "vector": f"AIV{core.sub_block}"}.get(core.kind, "core")
    of = f"rank {core.rank} " if core.has_ranks else ""
    return f"{of}block {core.block} {kind}"
