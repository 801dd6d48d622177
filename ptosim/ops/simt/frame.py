"""The threads of one launch while they run: a value is an array over them, and a mask says which of
them execute the present instruction.

An array has the linear id of the thread as its last axis. An array of length 1 there is the value
of every thread; several numbers in one value (`vector<2xf16>`) are the axis before it. Lanes of
threads that do not execute an instruction hold anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import Label, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import DType, MemRefType, PtrType, ScalarType, Type, VectorType
from ptosim.ground.isa.schema import dtype
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.machine.core import Core, Machine
from ptosim.machine.pages import view_dtype
from ptosim.machine.tile import TileRef
from ptosim.machine.values import Fragment, GmView, Memory, Pointer, near
from ptosim.machine.vector import WARP
from ptosim.ops.base.binding import OpFault
from ptosim.ops.base.functions import OF_THREADS, registrar
from ptosim.ops.base.orders import Context
from ptosim.ops.simt.tracks import Clock

Lanes = np.ndarray
Run = Callable[["Frame"], None]

MAX_EXECUTED = 50_000_000
"""Instructions that a launch executes, each once for all threads, before it counts as endless."""


_MOST_MASKS = 16


class LanePtr(NamedTuple):
    """A pointer of every thread: one memory, and the byte that each thread's leads to."""

    memory: Memory | None
    byte: Lanes


class PrivatePtr(NamedTuple):
    """A place in memory of each thread's own."""

    memory: Fragment
    byte: Lanes


@dataclass(slots=True, eq=False)
class Divergence:
    """Where threads of a launch went different ways: the operation, and who took its first way."""

    op: Operation
    taken: Lanes
    present: Lanes | None


@dataclass(slots=True, eq=False)
class Frame:
    """One launch: `dims` are its threads in x, y and z, `values` what the slots of its code hold,
    `mask` who executes (None: every thread). `emit` takes findings, at the `launch`."""

    core: Core
    machine: Machine
    launch: Operation
    source: Any
    emit: Callable[[Any], None]
    dims: tuple[int, int, int]
    values: list[Any]
    mask: Lanes | None = None
    threads: int = field(init=False)
    ids: Lanes = field(init=False)
    clock: Clock = field(init=False)
    memory: Any = None  # a `LaneMemory`
    keeps: dict[int, Lanes] = field(default_factory=dict)  # words by slot
    private: dict[int, Lanes] = field(default_factory=dict)  # arrays of this launch, by allocation
    executed: int = 0
    rounds: int = 0  # of all its loops
    recorder: Any = None  # notes what every thread does, for the debugger
    divergences: list[Divergence] = field(default_factory=list)
    # Of each branch the condition that threads parted at last, and how: values never change.
    parted: dict[Operation, tuple[Lanes, Divergence]] = field(default_factory=dict)
    _active: dict[int, tuple[Lanes, Lanes]] = field(default_factory=dict)
    _masks: dict[bytes, Lanes] = field(default_factory=dict)
    _seen: set[Any] = field(default_factory=set)
    _made: dict[str, Lanes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        x, y, z = self.dims
        self.threads = x * y * z
        self.clock = Clock(self.threads)
        self.ids = self.clock.ids

    def coordinate(self, axis: int) -> Lanes:
        """Return x, y or z of every thread, as i32."""
        name = "xyz"[axis]
        made = self._made.get(name)
        if made is None:
            x, y, _ = self.dims
            ids = self.ids
            made = (ids % x, ids // x % y, ids // (x * y))[axis].astype(np.int32)
            self._made[name] = made
        return made

    def lane_ids(self) -> Lanes:
        """Return the number of every thread in its warp, as i32."""
        made = self._made.get("lane")
        if made is None:
            made = self._made["lane"] = (self.ids % WARP).astype(np.int32)
        return made

    # -- who executes -----------------------------------------------------------------------------

    def active(self) -> Lanes:
        """Return the ids of the threads that execute."""
        mask = self.mask
        if mask is None:
            return self.ids
        found = self._active.get(id(mask))
        if found is None:  # masks are replaced, never changed; the entry keeps the id in use
            if len(self._active) > _MOST_MASKS:
                self._active.clear()
            found = self._active[id(mask)] = (mask, np.flatnonzero(mask))
        return found[1]

    def one_mask(self, mask: Lanes) -> Lanes:
        """Return the one array of a mask that comes again and again, as in a loop: what is known of
        who executes is found by it."""
        key = mask.tobytes()
        found = self._masks.get(key)
        if found is None:
            if len(self._masks) > _MOST_MASKS:
                self._masks.clear()
            found = self._masks[key] = mask
        return found

    def full(self, value: Lanes) -> Lanes:
        """Return a value with a lane for each thread."""
        if value.shape[-1] == self.threads:
            return value
        return np.broadcast_to(value, (*value.shape[:-1], self.threads))

    def chosen(self, value: Lanes, ids: Lanes | None) -> Lanes:
        """Return the lanes of some threads (None: of all)."""
        value = self.full(value)
        return value if ids is None else value.take(ids, axis=-1)

    def spread(self, lanes: Lanes, ids: Lanes | None) -> Lanes:
        """Return a value that has `lanes` in the lanes of some threads (None: of all)."""
        if ids is None:
            return lanes
        value = np.zeros((*lanes.shape[:-1], self.threads), lanes.dtype)
        value[..., ids] = lanes
        return value

    def warps(self) -> tuple[Lanes, Lanes]:
        """Return lane ids by warp as rows (missing lanes repeat the last thread), and who of them
        executes."""
        rows = self._made.get("rows")
        if rows is None:
            count = -(-self.threads // WARP)
            rows = np.arange(count * WARP).reshape(count, WARP)
            self._made["on"] = rows < self.threads
            rows = self._made["rows"] = np.minimum(rows, self.threads - 1)
        on = self._made["on"]
        return rows, on if self.mask is None else on & self.mask[rows]

    # -- findings ---------------------------------------------------------------------------------

    def name_of(self, thread: int) -> str:
        """Return the coordinates of a thread, `(3,0,0)`."""
        x, y, _ = self.dims
        thread = int(thread)
        return f"({thread % x},{thread // x % y},{thread // (x * y)})"

    def names_of(self, threads: Sequence[int] | Lanes, most: int = 4) -> str:
        """Return the coordinates of threads, of many the first ones and how many more there are."""
        named = ", ".join(self.name_of(t) for t in threads[:most])
        rest = len(threads) - most
        return f"{named} and {rest} more" if rest > 0 else named

    def report(
        self, code: str, op: Operation, message: str, help: str | None = None, key: Any = None
    ) -> None:
        """Report a finding at an operation of the launch, once for each operation, code and
        `key`."""
        at = (op.start, code, key)
        if at in self._seen:
            return
        self._seen.add(at)
        more = (Label(self.launch.span(self.source), "in this launch"),)
        span = op.span(self.source)
        self.emit(finding(code, f"'{op.name}' {message}", span, more=more, help=help))

    def fault(
        self, code: str, op: Operation, message: str, help: str | None = None, **more: Any
    ) -> OpFault:
        """Return what stops the launch at one of its operations."""
        at = op if self.source is not None else None
        return OpFault(code, f"'{op.name}' {message}", help=help, at=at, **more)


# Functions of operations in SIMT code, by name: the maker of an operation gets what the text fixes
# and returns the function that executes it for every thread of a launch at once.

Maker = Callable[["LaneContext"], Run]

LANE_OPS: dict[str, Maker] = {}


def lanes(*names: str) -> Callable[[Maker], Maker]:
    """Register the maker of operations in SIMT code."""
    return registrar(LANE_OPS, names, OF_THREADS)


@dataclass(slots=True, eq=False)
class LaneContext(Context):
    """An operation of SIMT code, on the values of all threads of a launch at once."""

    def has(self, name: str) -> bool:
        """True if an optional operand or flag is there."""
        return self.op.bound.get(name) is not None

    def elem(self, name: str) -> DType:
        """Return the type of the numbers of an operand."""
        return element_type(self.type(name))

    def computed(self, function: Callable[..., Any], *names: str) -> Run:
        """Return the instruction: the result is the function of operands, lane by lane."""
        return computed(function, [self.slots[n] for n in names], self.results[0])


def computed(function: Callable[..., Any], sources: list[int], target: int) -> Run:
    """Return the instruction: a slot becomes the function of the values in others."""
    if len(sources) == 1:
        (only,) = sources

        def one(frame: Frame) -> None:
            values = frame.values
            values[target] = function(values[only])

        return one
    if len(sources) == 2:
        first, second = sources

        def two(frame: Frame) -> None:
            values = frame.values
            values[target] = function(values[first], values[second])

        return two

    def many(frame: Frame) -> None:
        values = frame.values
        values[target] = function(*[values[s] for s in sources])

    return many


def element_type(type_: Type) -> DType:
    """Return the type of the numbers that a value is made of."""
    if isinstance(type_, ScalarType):
        return type_.dtype
    return type_.elem if isinstance(type_, (VectorType, PtrType, MemRefType)) else dtype("i64")


def lane_dtype(found: DType) -> np.dtype:
    """Return the NumPy type of a number of a value."""
    return np.dtype(bool) if found.name == "i1" else view_dtype(found)


def width_of(type_: Type) -> int | None:
    """Return how many numbers a value of a type is, None for one."""
    if isinstance(type_, VectorType):
        return type_.dims[0]
    return None


def uniform(value: Any, type_: Type) -> Any:
    """Return a value of the scalar unit as the value of every thread."""
    if isinstance(value, GmView):
        value = value.start
    if isinstance(value, Fragment):
        return PrivatePtr(value, np.zeros(1, np.int64))
    if isinstance(value, TileRef):
        value = Pointer(value.type.loc, value.addr)
    if isinstance(value, Pointer):
        return LanePtr(value.memory, np.array([near(value.byte)], np.int64))
    kind = element_type(type_)
    if isinstance(value, tuple):
        return np.concatenate([_number(v, kind) for v in value])[:, None]
    return _number(value, kind)


def _number(value: Any, kind: DType) -> Lanes:
    wanted = lane_dtype(kind)
    if wanted.kind in "iu" and not isinstance(value, float):
        bits = int(value) & ((1 << 8 * wanted.itemsize) - 1)
        return np.array([bits], f"u{wanted.itemsize}").view(wanted)
    return np.array([value]).astype(wanted)
