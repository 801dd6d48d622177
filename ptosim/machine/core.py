"""A core: its memory spaces, its registers, and where its scalar unit is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from ptosim.ground.isa.conversions import Epilogue
from ptosim.ground.isa.targets import MachineDef
from ptosim.ground.limits import current
from ptosim.ground.records import NamedTuple, dataclass, field, replace
from ptosim.machine.gm import GmBuffer
from ptosim.machine.pages import POISON, MemorySpace
from ptosim.machine.values import GmView, Pointer
from ptosim.machine.vector import SimtState, VectorWindow

# FIFOs between the cube core and the vector cores of a cluster: what each end says, and how far
# each vector core's share has got.


class FifoKey(NamedTuple):
    """What the ends of a FIFO agree on: `kind` says by what they found each other (pipe: an id,
    flags: a flag base, order: the number of the initialisation on its core)."""

    kind: str
    number: int | str


class ShareKey(NamedTuple):
    """One vector core's share of one direction of a FIFO."""

    fifo: FifoKey
    direction: str
    vector: int


@dataclass(frozen=True, slots=True)
class PipeEnd:
    """One core's end. `local` has the addresses of the consumer's slots by direction (c2v, v2c);
    `gm` is the pointer to slots in global memory, None for slots on the chip. Where the entries are
    the slots in global memory themselves, `slot` is the view of the first. `epilogue` is what its
    pushes do, `popped_as` the elements that come out, `number` what the program calls it."""

    key: FifoKey
    slot_size: int
    slot_num: int
    local_slot_num: int
    local: tuple[tuple[str, int], ...]
    gm: Pointer | None = None
    slot: GmView | None = None
    epilogue: Epilogue | None = None
    popped_as: str | None = None
    number: int = 0

    def address(self, direction: str, index: int) -> int:
        """Return the address of tile number `index` in the consumer's memory."""
        count = self.slot_num if self.gm is None else self.local_slot_num
        return dict(self.local).get(direction, 0) + index % count * self.slot_size

    @property
    def period(self) -> int:
        """Tiles for each signal of free slots."""
        return self.slot_num if self.slot_num <= 2 else self.slot_num // 2


@dataclass(slots=True, eq=False)
class Share:
    """One vector core's share of one direction: slots taken for views, tiles pushed, handed out,
    popped and given back, what the slots hold, and where in global memory a push put it."""

    taken: int = 0
    pushed: int = 0
    issued: int = 0
    popped: int = 0
    freed: int = 0
    entries: dict[int, np.ndarray] = field(default_factory=dict)
    places: dict[int, Pointer] = field(default_factory=dict)

    def has_slot(self, end: PipeEnd) -> bool:
        """True if the producer may write its next tile: the first round is free, then each half of
        the slots (each round of one or two) waits for the consumer's signal that it is free."""
        beyond = max(self.pushed, self.taken) - end.slot_num
        return beyond < 0 or self.freed // end.period > beyond // end.period


@dataclass(slots=True, eq=False)
class Fifos:
    """The FIFOs of a cluster: the ends by core and key, those of a core by the number that the
    program gives them, and the shares."""

    ends: dict[tuple[int, FifoKey], PipeEnd] = field(default_factory=dict)
    current: dict[tuple[int, int], PipeEnd] = field(default_factory=dict)
    shares: dict[ShareKey, Share] = field(default_factory=dict)

    def share(self, key: ShareKey) -> Share:
        """Return a share; it is empty at the first use."""
        return self.shares.setdefault(key, Share())

    def copy(self) -> Fifos:
        """Return a copy of the state; what slots hold is never changed in place."""
        shares = {
            k: replace(s, entries=dict(s.entries), places=dict(s.places))
            for k, s in self.shares.items()
        }
        return Fifos(dict(self.ends), dict(self.current), shares)

    def restore(self, state: Fifos) -> None:
        """Put back a copy of an earlier state."""
        fresh = state.copy()
        self.ends, self.current, self.shares = fresh.ends, fresh.current, fresh.shares


_WIDE = np.dtype(np.float64)
LINE = 64
"""Bytes of a line of the host's cache; where it is another number nothing is lost."""

# Slots with a fixed meaning; the values of the program start at FIRST_SLOT.
SLOT_STACK = 0  # return addresses, a linked tuple (pc, rest)
SLOT_KIND = 1  # "cube", "vector", or "any" for a core that executes both kinds of section
SLOT_BLOCK = 2
SLOT_SUBBLOCK = 3
SLOT_BLOCK_NUM = 4
SLOT_SUBBLOCK_NUM = 5
SLOT_LOOPS = 6  # loop registers of the older copies, a tuple of pairs (name, value)
SLOT_STORES = 7  # how stores to global memory combine with what is there; None: they replace it
SLOT_MASKS = 8  # mask registers of the vector unit of A2/A3: whether they count, and both words
FIRST_SLOT = 9

CUBE_SPACES = frozenset(("mat", "left", "right", "acc", "bias", "scaling"))


@dataclass(slots=True, eq=False)
class Cluster:
    """What the cores of a block share: counters of cross-core flags, by keys that the operations
    on them agree on, and FIFOs between cube and vector cores. `rank` is the device that it is
    on."""

    block: int
    rank: int = field(default=0, kw_only=True)
    has_ranks: bool = field(default=False, kw_only=True)  # more devices than one run
    counters: dict[Any, int] = field(default_factory=dict)
    fifos: Fifos = field(default_factory=Fifos)


@dataclass(slots=True, eq=False)
class Core:
    """One core of a cluster.

    `slots` holds the values of the program, `pc` the next instruction. `flags` counts the events
    set and not yet waited for, by (source pipe, destination pipe, id). `queues` holds, for each
    pipe whose head waits for an event, that head and everything issued after it; a pipe that does
    not wait has no entry. `stalled` is the instruction that the scalar unit itself waits at. `ub`
    is UB as the vector unit sees it, from the first vector region on."""

    index: int
    kind: str
    cluster: Cluster
    sub_block: int
    machine_def: MachineDef
    uninit: str
    seed: int
    flags: dict[tuple[str, str, int], int] = field(default_factory=dict)
    tokens: dict[int, int] = field(default_factory=dict)
    token_lines: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """By buffer token: the pipes that were issued an acquisition and have not made it, in turn."""
    queues: dict[str, deque[Any]] = field(default_factory=dict)
    stalled: Any = None
    spaces: dict[str, MemorySpace] = field(default_factory=dict)
    slots: list[Any] = field(default_factory=list)
    pc: int = 0
    halted: bool = False
    registers: dict[str, int] = field(default_factory=lambda: {"ctrl": 0})
    ub: VectorWindow = field(init=False, default=None)  # type: ignore[assignment]
    simt: SimtState = field(default_factory=SimtState)
    # Instructions bound to operands: by place in the program, and transfers without the place
    # of their window.
    bounds: list[Any] = field(default_factory=list)
    transfers: dict[Any, Any] = field(default_factory=dict)
    # Its number among all cores of the launch; its index, unless several blocks use one core.
    number: int = field(init=False)

    def __post_init__(self) -> None:
        self.number = self.index

    @property
    def block(self) -> int:
        """The block of its cluster."""
        return self.cluster.block

    @property
    def rank(self) -> int:
        """The device of its cluster."""
        return self.cluster.rank

    @property
    def has_ranks(self) -> bool:
        """True if more devices than one run."""
        return self.cluster.has_ranks

    @property
    def place(self) -> tuple[int, int]:
        """Device and block of its cluster: what names the cluster among all."""
        return self.cluster.rank, self.cluster.block

    def open_vector_region(self) -> None:
        """Make UB ready for vector instructions; accesses of earlier regions are over."""
        if self.ub is None:
            self.ub = VectorWindow(self.space("vec").data)
        else:
            self.ub.order_all()

    def release(self) -> None:
        """Let go of memory, values and whatever was bound to them; nothing can be executed any
        more. They refer to each other, and would stay until the collector comes by."""
        for held in (self.bounds, self.transfers, self.slots, self.spaces, self.queues):
            held.clear()
        self.ub = self.stalled = None  # type: ignore[assignment]

    @property
    def unwritten(self) -> int:
        """A byte as memory shows it that nothing has written."""
        return {"zero": 0, "random": (self.seed * 1000 + self.number + 0x5B) & 0xFF}.get(
            self.uninit, POISON
        )

    def space(self, name: str) -> MemorySpace:
        """Return a memory space; its bytes exist from the first use."""
        space = self.spaces.get(name)
        if space is None:
            made = self.machine_def
            size = made.side.get(name) or made.spaces[name].bytes
            seed = self.seed * 1000 + self.number
            current().reserve(size, f"memory `{name}` of core {self.index}")
            space = self.spaces[name] = MemorySpace(name, size, self.uninit, seed)
        return space


@dataclass(slots=True)
class Machine:
    """All cores and the global memory they share."""

    definition: MachineDef
    cores: list[Core] = field(default_factory=list)
    clusters: list[Cluster] = field(default_factory=list)
    global_counters: dict[Any, Any] = field(default_factory=dict)  # flags between blocks
    buffers: list[GmBuffer] = field(default_factory=list)
    # Arrays that operations use again and again for intermediate values; no state.
    scratch: dict[Any, np.ndarray] = field(default_factory=dict)
    # The bytes whose conversion is in such an array.
    kept: dict[Any, bytes] = field(default_factory=dict)
    has_values: bool = True  # False where a program is followed, or timed, without them
    # Of a program that is followed without values but for those of arguments that the scalar unit
    # loads: which bytes these are, as buffer, first byte and the one after the last.
    looked: set[tuple[int, int, int]] | None = None
    # What stands for the other half of a pair that is not launched: it gives every signal and slot
    # at once; the function makes the number-th tile of a name, a shape and a type that it pushes.
    stub: Callable[[str, int, tuple[int, int], Any], np.ndarray] | None = None
    # What functions without a body return, by their names, where something stands for them.
    returned: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def mates(self, core: Core, kind: str) -> list[Core]:
        """Return the cores of a kind in the cluster of a core, by number."""
        return [c for c in self.cores if c.cluster is core.cluster and c.kind == kind]

    def scratch_array(
        self, role: str, shape: tuple[int, ...], dtype: np.dtype = _WIDE
    ) -> np.ndarray:
        """Return an array of a shape and type with any content, the same one for each role."""
        key = (role, shape, dtype)
        array = self.scratch.get(key)
        if array is None:
            array = self.scratch[key] = _aligned(shape, dtype)
        return array


def _aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array that begins with a line of the cache. NumPy's begin anywhere at 16 bytes, where half
    of all wide loads need two lines: an accumulator is added a sixth slower."""
    size = prod(shape) * dtype.itemsize
    memory = np.empty(size + LINE, np.uint8)
    start = -memory.__array_interface__["data"][0] % LINE
    return memory[start : start + size].view(dtype).reshape(shape)


@dataclass(frozen=True, slots=True)
class CoreState:
    """Everything of a core that can change."""

    pc: int
    halted: bool
    slots: tuple[Any, ...]
    spaces: dict[str, bytes]
    registers: dict[str, int]
    flags: dict[tuple[str, str, int], int]
    tokens: dict[int, int]
    token_lines: dict[int, tuple[str, ...]]
    queues: dict[str, tuple[Any, ...]]
    stalled: Any
    log: Any  # of accesses of a vector region that has not ended
    simt: Any


@dataclass(frozen=True, slots=True)
class MachineState:
    """Everything of a machine that can change. Queued instructions are kept as they are: they refer
    to memory by view, and memory is restored in place."""

    cores: tuple[CoreState, ...]
    buffers: tuple[bytes, ...]
    clusters: tuple[tuple[dict[Any, int], Fifos], ...]
    global_counters: dict[Any, Any]


def snapshot(machine: Machine, *, with_buffers: bool = True) -> MachineState:
    """Return a copy of the state of a machine, with or without its global memory."""
    cores = tuple(
        CoreState(
            core.pc,
            core.halted,
            tuple(core.slots),
            {name: space.snapshot() for name, space in core.spaces.items()},
            dict(core.registers),
            dict(core.flags),
            dict(core.tokens),
            dict(core.token_lines),
            {pipe: tuple(queue) for pipe, queue in core.queues.items()},
            core.stalled,
            core.ub.logged() if core.ub is not None else None,
            core.simt.saved(),
        )
        for core in machine.cores
    )
    return MachineState(
        cores,
        tuple(b.data.tobytes() for b in machine.buffers) if with_buffers else (),
        tuple((dict(c.counters), c.fifos.copy()) for c in machine.clusters),
        dict(machine.global_counters),
    )


def restore(machine: Machine, state: MachineState) -> None:
    """Put a state back; bytes change in place, so views of memory stay valid."""
    for core, saved in zip(machine.cores, state.cores, strict=True):
        core.pc, core.halted = saved.pc, saved.halted
        core.slots[:] = saved.slots
        for table, content in (
            (core.registers, saved.registers),
            (core.flags, saved.flags),
            (core.tokens, saved.tokens),
            (core.token_lines, saved.token_lines),
        ):
            table.clear()
            table.update(content)  # type: ignore[arg-type]
        core.queues.clear()
        core.queues.update({pipe: deque(queue) for pipe, queue in saved.queues.items()})
        core.stalled = saved.stalled
        core.simt.restore(saved.simt)
        if core.ub is not None:
            core.ub.order_all()
            core.ub.log_again(saved.log)
        for name in core.spaces.keys() - saved.spaces.keys():
            fresh = MemorySpace(
                name, core.spaces[name].size, core.uninit, core.seed * 1000 + core.number
            )
            core.spaces[name].restore(fresh.data)
        for name, data in saved.spaces.items():
            core.space(name).restore(data)
    for buffer, data in zip(machine.buffers, state.buffers, strict=bool(state.buffers)):
        if buffer.content.flags.writeable:
            buffer.data[:] = memoryview(data)
    for cluster, (counters, fifos) in zip(machine.clusters, state.clusters, strict=True):
        cluster.counters.clear()
        cluster.counters.update(counters)
        cluster.fifos.restore(fifos)
    machine.global_counters.clear()
    machine.global_counters.update(state.global_counters)
