"""Whether the blocks of a launch can be executed independently, and their results together.

That is tried: blocks are executed as if they were alone, and what each of them reaches in global
memory is noted. If one reaches what another one writes, if they signal each other, if one does not
come to its end or has findings, all of it is forgotten and the launch is executed in order; then
the reason is told. So the results are those of the launch in order, for any number of processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

import numpy as np

from ptosim.engine.core.pace import ProgramOrder
from ptosim.engine.watch.access import Clocks
from ptosim.engine.watch.definedness import Definedness
from ptosim.engine.watch.monitor import Monitor
from ptosim.engine.watch.reach import Dependent, GlobalReach, Sets
from ptosim.engine.watch.shadow import ORIGIN, Atom, Shadow
from ptosim.ground.diagnostics.model import Trap
from ptosim.ground.errors import BudgetError, LimitError, PtosimError
from ptosim.ground.isa.dates import Profile
from ptosim.ground.processes import Turns, can_fork, forked
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.language.frontend import Front
from ptosim.language.place.cores import has_abstract
from ptosim.launch.cost import cost_of_run
from ptosim.launch.launch import Launch
from ptosim.launch.prepared import Args, Prepared, RunOptions, prepare
from ptosim.launch.results import Result
from ptosim.machine.core import SLOT_BLOCK, MachineState, restore, snapshot
from ptosim.machine.effects.ranges import EMPTY, contains, meeting, union
from ptosim.machine.gm import GmBuffer
from ptosim.machine.overlay import WORD, Change, Overlay, apply, publish, shared_contents
from ptosim.machine.pages import PAGE
from ptosim.time.report.totals import CostReport

# Sanitizers at the beginning of the next block on the same cores: what they know of memory, clocks
# and flags is as at the start; what they have bound and reported stays.


def begin_again(monitor: Monitor) -> None:
    """Forget what the operations of a block did."""
    _clocks(monitor.clocks)
    monitor.notices.forget()
    for shadow in monitor.shadows.values():
        _shadow(shadow)
    monitor.begin_again()


def _clocks(clocks: Clocks) -> None:
    for agent in clocks.agents.values():
        agent.clock = clocks.fresh(agent)
        agent.count = 0
        agent.seen = None
        agent.pending.clear()
    clocks.forget()


def _shadow(shadow: Shadow) -> None:
    if shadow.is_global:  # the next block cuts it in other places
        shadow.forget()
        return
    for atom in shadow.atoms:
        _atom(atom, shadow.at_first)


def _atom(atom: Atom, defined: int) -> None:
    atom.defined = defined
    atom.write = ORIGIN
    atom.reads = {}
    atom.owner = atom.lost = None
    atom.taken = False


# The blocks of a launch one after the other on the same cores.
#
# What is bound for one block (operands, views, checks of the sanitizers) serves all of them.
# Global memory is an overlay: what the blocks write is kept apart until all of them have shown
# that none of them reaches what another one writes.


class Reach(NamedTuple):
    """The bytes of global memory that a block reads and writes, by buffer."""

    block: int
    read: Sets
    written: Sets


@dataclass(slots=True)
class Done:
    """What some blocks gave: how many instructions they executed, what they reached, what they
    changed, and what each of them printed, with its number."""

    executed: int
    reaches: list[Reach]
    changes: list[Change]
    prints: list[tuple[int, str]]


class _Counters(dict):  # type: ignore[type-arg]
    """Counters between blocks: whoever uses them does not stand alone."""

    def __setitem__(self, key: object, value: object) -> None:
        raise Dependent("blocks wait for each other")

    def setdefault(self, key: object, default: object = None) -> object:
        self[key] = default
        return default


class Blocks:
    """The blocks of a launch. Raises Dependent where one cannot be executed alone, or has
    findings: these depend on what was found before."""

    def __init__(self, prepared: Prepared, options: RunOptions, args: Args) -> None:
        # The cores of one block, which all blocks use; time is counted elsewhere.
        launch = self.launch = Launch(prepared, options, args, clusters=[(0, 0)])
        if launch.binding.tile_inputs or launch.has_values():
            raise Dependent("arguments or results are tiles")
        self.per_rank = options.block_num
        self.count = options.block_num * options.ranks
        machine = launch.machine
        self.overlay = Overlay(machine.buffers)
        machine.global_counters = _Counters()
        self.pace = ProgramOrder()
        engine = self.engine = launch.begin(pace=self.pace)
        self._told = len(launch.sink)
        self.monitor = launch.sanitizers()
        self.reach = GlobalReach(engine, machine, prepared.front.target, self.monitor)
        engine.monitor = self.reach  # type: ignore[assignment]  # it passes on what it is told
        self._begin: MachineState = snapshot(machine, with_buffers=False)
        self.reaches: list[Reach] = []
        self.prints: list[tuple[int, str]] = []

    def run(self, block: int) -> None:
        """Execute a block. Raises Dependent, and whatever an execution raises."""
        self._place(block)
        self.engine.prints.clear()
        self.engine.run(self.launch.options.most_instructions)
        if self.monitor is not None:
            self.monitor.finish()
        if len(self.launch.sink) > self._told:
            raise Dependent("there are findings, which are told in order")
        if self.pace.has_released and self.engine.prints:
            raise Dependent("a block prints after it has waited for another pipe")
        self.prints += [(block, text) for text in self.engine.prints]
        self.reaches.append(Reach(block, *self.reach.taken()))

    def _place(self, block: int) -> None:
        """Make the cores those of a block at its beginning."""
        machine, launch = self.launch.machine, self.launch
        rank, number = divmod(block, self.per_rank)
        cluster, each = machine.clusters[0], len(machine.cores)
        if rank != cluster.rank:
            for core in machine.cores:
                core.bounds[:] = [None] * len(core.bounds)
                core.transfers.clear()
        cluster.block, cluster.rank = number, rank
        for core in machine.cores:
            core.number = block * each + core.index
        restore(machine, self._begin)
        for core in machine.cores:
            for slot, held in launch.binding.rank_slots[rank].items():
                core.slots[slot] = held
            core.slots[SLOT_BLOCK] = number
            launch.told.fill(core)
            for pc in self.reach.to_forget:
                core.bounds[pc] = None
        self.pace.has_released = False
        if self.monitor is not None:
            begin_again(self.monitor)

    @property
    def bound(self) -> int:
        """How many bindings are kept for the blocks that follow."""
        cores = self.launch.machine.cores
        return sum(len(cache) for core in cores for cache in core.bounds if cache is not None)

    def taken(self) -> Done:
        """Return what the blocks so far gave, and forget it: what comes is told apart."""
        first = self.done()
        self.overlay.settle()
        self.reaches, self.prints, self.engine.executed = [], [], 0
        return first

    def done(self) -> Done:
        """Return what the blocks so far gave. Raises Dependent where memory was reached that their
        accounts do not have."""
        written: dict[int, list[np.ndarray]] = {}
        for number, rows in (item for r in self.reaches for item in r.written.items()):
            written.setdefault(number, []).append(rows)
        changes = [self.overlay.change(n, union(rows)) for n, rows in written.items()]
        for buffer in self.launch.machine.buffers:
            if not self._is_accounted(buffer):
                raise Dependent(f"what the blocks reach of `{buffer.name}` is not known")
        return Done(self.engine.executed, self.reaches, changes, self.prints)

    def _is_accounted(self, buffer: GmBuffer) -> bool:
        """True if every page that was touched, and every byte that was changed, is in an account:
        a safeguard against operations that say too little."""
        number = buffer.number
        written = union([r.written.get(number, EMPTY) for r in self.reaches])
        every = union([written, *(r.read.get(number, EMPTY) for r in self.reaches)])
        pages = np.zeros(-(-buffer.size // PAGE) + 1, np.int64)
        np.add.at(pages, every[:, 0] // PAGE, 1)
        np.add.at(pages, (every[:, 1] - 1) // PAGE + 1, -1)
        if not (np.cumsum(pages)[self.overlay.touched(number)] > 0).all():
            return False
        words = np.stack([written[:, 0] // WORD * WORD, -(-written[:, 1] // WORD) * WORD], 1)
        return contains(union([words]), self.overlay.changed(number))


# Blocks in several processes: this one and some that are forked from it, so they have what was
# prepared. Each takes the next block when it is done with one; what comes back are the bytes that
# its blocks changed and the account of what they reached.

STOPPED = "a block does not run to its end, which is told in order"
LOST = "a process was ended from outside"


class Failure(NamedTuple):
    """A block that could not be executed alone, and why: that of the lowest block is told. Blocks
    are taken in their order, so every lower one has begun, and comes to its end."""

    block: int
    why: str


_blocks: Blocks | None = None
_turns: Turns | None = None
_shared: list[np.ndarray] = []


class Team:
    """This process and the others, which are at work."""

    def __init__(
        self,
        blocks: Blocks,
        turns: Turns,
        shared: list[np.ndarray],
        others: list[Future[Done | Failure]],
    ) -> None:
        self._blocks, self._turns, self._others = blocks, turns, others
        self.shared = shared
        """Where the bytes are that the others changed."""

    def finish(self) -> list[Done]:
        """Execute blocks until there are none left; return what each process has done. Raises
        Dependent."""
        parts = [_execute(self._blocks, self._turns)]
        try:
            parts += [other.result() for other in self._others]
        except BrokenProcessPool as problem:  # as a system that lacks memory does
            raise Dependent(LOST) from problem
        failures = [part for part in parts if isinstance(part, Failure)]
        if failures:
            raise Dependent(min(failures).why)
        return [part for part in parts if isinstance(part, Done)]


@contextmanager
def at_work(blocks: Blocks, rest: range, jobs: int) -> Iterator[Team]:
    """Execute blocks in `jobs` processes, this one included: the others begin at once."""
    global _blocks, _turns, _shared
    turns, shared = Turns(rest), shared_contents(blocks.launch.machine.buffers)
    _blocks, _turns, _shared = blocks, turns, shared
    others = min(jobs - 1, len(rest))
    try:
        with forked(others) as executor:
            try:
                at_work = [executor.submit(_work) for _ in range(others)]
                yield Team(blocks, turns, shared, at_work)
            finally:
                turns.end()
    finally:
        _blocks, _turns, _shared = None, None, []


def _work() -> Done | Failure:
    assert _blocks is not None
    assert _turns is not None
    done = _execute(_blocks, _turns)
    if isinstance(done, Done):
        done.changes = [publish(change, _shared) for change in done.changes]
    return done


def _execute(blocks: Blocks, turns: Turns) -> Done | Failure:
    """Execute blocks as long as there are any."""
    is_idle = True
    for block in turns:
        is_idle = False
        try:
            blocks.run(block)
        except (PtosimError, Dependent) as problem:
            turns.end()
            return Failure(block, str(problem) if isinstance(problem, Dependent) else STOPPED)
    if is_idle:  # whatever this process did before was told
        return Done(0, [], [], [])
    try:
        return blocks.done()
    except Dependent as problem:
        return Failure(blocks.count, str(problem))


LEAST_SECONDS = 0.15
"""Of work for each process; making one takes some hundredths."""
SECONDS_TO_BIND = 8e-5
"""Of one instruction, about, with its sanitizers."""
LEAST_SHARE = 0.15
"""Of binding in the work of a block, from which on it is worth it in one process."""


def attempt(
    front: Front, profile: Profile, options: RunOptions, entry: str, args: Args
) -> Result | str:
    """Return the result of a launch whose blocks are independent, else why they are not. Raises
    UsageError, ProgramError and UnsupportedError for arguments, as an execution in order does."""
    if has_abstract(front.resolved.functions[entry]):
        return "types depend on the arguments"
    prepared = prepare(front, profile, entry, args, options.ranks)
    try:
        blocks = Blocks(prepared, options, args)
        try:
            return _executed(blocks, args)
        finally:
            blocks.launch.release()
    except Dependent as why:
        return str(why)


def _executed(blocks: Blocks, args: Args) -> Result:
    options = blocks.launch.options
    begin = time.process_time()
    _run(blocks, 0)
    rest = range(1, blocks.count)
    seconds = time.process_time() - begin
    jobs = min(options.jobs, int(seconds * len(rest) / LEAST_SECONDS))
    if jobs < 2 and blocks.bound * SECONDS_TO_BIND < LEAST_SHARE * seconds:
        raise Dependent("")
    instructions = blocks.engine.executed * blocks.count

    def cost() -> CostReport | None:
        if not options.timing:
            return None
        return cost_of_run(blocks.launch.prepared, options, args, instructions)

    if jobs > 1 and can_fork():
        first = blocks.taken()
        with at_work(blocks, rest, jobs) as team:
            found = cost()
            done = [first, *team.finish()]
        shared = team.shared
    else:
        found = cost()
        for block in rest:
            _run(blocks, block)
        done, shared = [blocks.done()], []
    return _together(blocks, done, shared, found)


def _run(blocks: Blocks, block: int) -> None:
    try:
        blocks.run(block)
    except BudgetError:
        raise
    except (Trap, LimitError) as problem:
        raise Dependent(STOPPED) from problem


def _together(blocks: Blocks, done: list[Done], shared: list[np.ndarray], cost: Any) -> Result:
    """Put the results of all blocks into the memory of the launch; `shared` are those of other
    processes."""
    launch = blocks.launch
    buffers = launch.machine.buffers
    _independent(buffers, sorted((r for one in done for r in one.reaches), key=_block_of))
    blocks.overlay.remove()
    for change in (c for one in done for c in one.changes):
        apply(buffers, change, shared)
    executed = sum(one.executed for one in done)
    if executed > launch.options.most_instructions:
        raise Dependent(STOPPED)
    return Result(
        outputs=launch.outputs(at_end=True),
        findings=[*launch.front.sink, *launch.sink],
        prints=[text for _, text in sorted((p for one in done for p in one.prints), key=_block_of)],
        generated=launch.binding.generated,
        executed=executed,
        cycles=cost.cycles if cost is not None else None,
        priced=cost,
        definedness=_definedness(blocks, done),
        unsure=tuple(blocks.monitor.unsure.values()) if blocks.monitor is not None else (),
    )


def _definedness(blocks: Blocks, done: list[Done]) -> Definedness:
    """What the blocks wrote: with values, for none of them has a finding. Slots of FIFOs are the
    library's: what is in them counts for no run as written by the program."""
    found = Definedness()
    if blocks.monitor is not None and blocks.monitor.chosen.defined:
        ends = [end for c in blocks.launch.machine.cores for end in c.cluster.fifos.ends.values()]
        slots = {end.gm[0] for end in ends if end.gm is not None}
        for name, given in blocks.launch.binding.arrays.items():
            reaches = [r.written.get(given.number, EMPTY) for one in done for r in one.reaches]
            if given.number in slots:
                reaches = []
            place = given.offset, given.size
            found.add_ranges(name, union(reaches), place, given.elem, given.shape)
    return found


def _block_of(told: tuple[Any, ...]) -> int:
    return told[0]


def _independent(buffers: list[GmBuffer], reaches: list[Reach]) -> None:
    """Raise Dependent if a block reaches what another one writes."""
    for buffer in buffers:
        number = buffer.number
        written = [(r.block, r.written[number]) for r in reaches if number in r.written]
        read = [(r.block, r.read[number]) for r in reaches if number in r.read]
        found = meeting(written, read)
        if found is not None:
            one, other, byte = found
            raise Dependent(
                f"block {one} writes byte {byte:,} of `{buffer.name}`, which block {other} uses"
            )
