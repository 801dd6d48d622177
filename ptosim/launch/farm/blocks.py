"""The blocks of a launch one after the other on the same cores.

What is bound for one block (operands, views, checks of the sanitizers) serves all of them. Global
memory is an overlay: what the blocks write is kept apart until all of them have shown that none of
them reaches what another one writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ptosim.engine.core.engine import Engine
from ptosim.engine.core.pace import ProgramOrder
from ptosim.engine.watch.again import begin_again
from ptosim.engine.watch.reach import Dependent, GlobalReach, Sets
from ptosim.ground.isa.profiles import Profile
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.language.frontend import Front
from ptosim.language.place.cores import has_abstract
from ptosim.launch.launch import Launch
from ptosim.launch.options import Args, RunOptions
from ptosim.machine.core import SLOT_BLOCK, MachineState, restore, snapshot
from ptosim.machine.effects.intervals import EMPTY, contains, union
from ptosim.machine.gm import GmBuffer
from ptosim.machine.overlay import WORD, Change, Overlay
from ptosim.machine.pages import PAGE


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


class OneBlock(Launch):
    """A launch with the cores of one block, which all blocks use; time is counted elsewhere."""

    pace: ProgramOrder

    def _clusters(self) -> Iterable[tuple[int, int]]:
        return [(0, 0)]

    def start(self, observers: Sequence[Any] = ()) -> None:
        """Make the engine; nothing is executed yet."""
        in_order = self.front.sync == "auto"
        self.pace = ProgramOrder()
        self.engine = Engine(*self.parts(), observers, in_order=in_order, pace=self.pace)


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

    def __init__(
        self, front: Front, profile: Profile, options: RunOptions, entry: str, args: Args
    ) -> None:
        if has_abstract(front.resolved.functions[entry]):
            raise Dependent("types depend on the arguments")
        launch = self.launch = OneBlock(front, profile, options).prepare(entry, args)
        if launch.tile_inputs or launch.has_values():
            raise Dependent("arguments or results are tiles")
        self.per_rank = options.block_num
        self.count = options.block_num * options.ranks
        machine = launch.machine
        self.overlay = Overlay(machine.buffers)
        machine.global_counters = _Counters()
        launch.start()
        engine = self.engine = launch.engine
        self._told = len(launch.sink)
        self.monitor = launch.sanitizers()
        self.reach = GlobalReach(engine, machine, front.target, self.monitor)
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
        if self.launch.pace.has_released and self.engine.prints:
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
            for slot, held in launch.rank_slots[rank].items():
                core.slots[slot] = held
            core.slots[SLOT_BLOCK] = number
            for pc in self.reach.to_forget:
                core.bounds[pc] = None
        self.launch.pace.has_released = False
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
