"""What an operation orders, as its binding says it for the timing model, the race checks and
reports: flags, barriers, buffer tokens, events between cores, FIFOs and signals in memory.

`kind` is the word for it in reports and JSON; the text is what an operation that waits there waits
for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from ptosim.ground.diagnostics.model import UnsupportedError, finding
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.attributes import Enum
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.ir.types import DType, ScalarType, TileType, Type
from ptosim.ground.isa.dates import Profile
from ptosim.ground.isa.schema import enums
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.machine.core import Core, FifoKey, Machine
from ptosim.machine.numbers.lanes import COMPARISONS

STORES = ("MTE3", "FIX")
MOVES = ("MTE2", *STORES)
"""Pipes that store to global memory, and all that move data to or from it."""


class SetFlag(NamedTuple):
    """Signals an event between two pipes of its core."""

    source: str
    target: str
    event: int
    kind = "set"


class WaitFlag(NamedTuple):
    """Waits for an event between two pipes of its core."""

    source: str
    target: str
    event: int
    kind = "wait"

    def __str__(self) -> str:
        return f"{self.source} -> {self.target} EVENT_ID{self.event}"


class Barrier(NamedTuple):
    """Waits until a pipe, or every pipe of its core (ALL), has finished what was issued before."""

    pipe: str
    kind = "barrier"

    def __str__(self) -> str:
        return "its pipes to finish" if self.pipe == "ALL" else f"pipe {self.pipe} to finish"


class GetToken(NamedTuple):
    """Acquires a buffer token."""

    pipe: str
    number: int
    kind = "get"

    def __str__(self) -> str:
        return f"buffer token {self.number}"


class ReleaseToken(NamedTuple):
    """Releases a buffer token."""

    pipe: str
    number: int
    kind = "release"


class CrossSet(NamedTuple):
    """Signals an event to other cores."""

    pipe: str
    event: int
    kind = "cross_set"


class CrossWait(NamedTuple):
    """Waits for an event of other cores."""

    pipe: str
    event: int
    kind = "cross_wait"

    def __str__(self) -> str:
        return f"the cross-core event {self.event}"


_SENDERS = {"v": "cube", "to vector": "cube", "c": "vector", "to cube": "vector"}
"""Who gives an event of each kind."""


def who_is_missing(
    wait: Any, awaits: Sequence[tuple[Any, ...]], counters: Mapping[Any, int]
) -> str | None:
    """Return which cores of the cluster have to signal for a wait to go on, and how, by the events
    that it waits for and those that there are; None for a wait that does not name them."""
    if not isinstance(wait, CrossWait):
        return None
    keys = [k[1] for k in awaits if len(k) == 2 and not counters.get(k[1])]
    if not keys or keys[0][0] not in _SENDERS:
        return None
    number, towards = wait.event, keys[0][0]
    if _SENDERS[towards] == "cube":
        number = keys[0][1] + 16 * keys[0][2] if towards == "to vector" else number
        return f"the cube core has to signal: `pto.sync.set <PIPE_FIX>, {number}` there"
    lanes = [key[2] if towards == "c" else key[1] // 16 for key in keys]
    set_ = f"`pto.sync.set <PIPE_MTE3>, {keys[0][1] % 16}`"
    if towards == "c" and len(lanes) == 1 and len(awaits) > 1:
        text = "the cube core waits for both, vector core {} never signals: {} where both come by"
        return text.format(lanes[0], set_)
    who = "both vector cores have" if len(lanes) > 1 else f"vector core {lanes[0]} has"
    return f"{who} to signal: {set_} there"


class FifoUse(NamedTuple):
    """Uses one direction (c2v, v2c) of a FIFO between the cores of a cluster."""

    key: FifoKey
    direction: str
    kind = ""


class Alloc(FifoUse):
    """Takes a free slot in global memory, to be filled."""

    __slots__ = ()
    kind = "alloc"

    def __str__(self) -> str:
        return f"a free slot in its FIFO ({self.direction})"


class Push(FifoUse):
    """Puts a tile into a slot."""

    __slots__ = ()
    kind = "push"

    def __str__(self) -> str:
        return f"a free slot in its FIFO ({self.direction})"


class Pop(FifoUse):
    """Takes the oldest tile."""

    __slots__ = ()
    kind = "pop"

    def __str__(self) -> str:
        return f"a tile in its FIFO ({self.direction})"


class Free(FifoUse):
    """Gives the slot of the oldest popped tile back."""

    __slots__ = ()
    kind = "free"


class Notify(NamedTuple):
    """Sets signals in a buffer of global memory, or adds to them, after the stores of its core:
    `cells` are the first bytes of these elements."""

    buffer: str
    number: int
    cells: tuple[int, ...]
    adds: bool
    kind = "notify"

    @property
    def pipes(self) -> tuple[str, ...]:
        """Return the pipes whose stores it comes after."""
        return STORES

    def __str__(self) -> str:
        return "the stores before it"


class Signals(NamedTuple):
    """Waits until signals in a buffer of global memory compare true with a value, or looks whether
    they do."""

    buffer: str
    number: int
    cells: tuple[int, ...]
    compare: str
    value: int
    kind = "signals"

    @property
    def comparison(self) -> Callable[[Any, Any], Any]:
        """Return the function of a signal, or an array of them, and the value."""
        return COMPARISONS[self.compare.lower()]

    def __str__(self) -> str:
        return f"signals of {self.buffer} {self.compare.lower()} {self.value}"


class Fence(NamedTuple):
    """Waits until some pipes of its core have finished what was issued before."""

    pipes: tuple[str, ...]
    kind = "fence"

    def __str__(self) -> str:
        return f"{', '.join(self.pipes)} to finish"


Sync = (
    SetFlag | WaitFlag | Barrier | GetToken | ReleaseToken | CrossSet | CrossWait | FifoUse
    | Notify | Signals | Fence
)  # fmt: skip
WITHIN_CORE = (SetFlag, WaitFlag, Barrier, GetToken, ReleaseToken, Fence)
"""What orders the pipes of one core; a barrier that others take part in has signals of its own."""


# What the maker of an operation sees at decoding: the slots of its operands and results, and
# everything that its text fixes. A maker returns the function that executes the operation on a
# core.
#
# `Context` is what all levels have. The scalar unit, registers (`micro`), logical vectors (`vmi`)
# and threads (`simt`) add how their values are carried.

Action = Callable[[Core], None]


class Looks:
    """An action that tells `Machine.looked` which bytes it loads as a number."""

    def __call__(self, core: Core) -> None:
        raise NotImplementedError


def taker(sources: Sequence[int]) -> Callable[[list[Any]], Sequence[Any]]:
    """Return what takes the values of slots, in one step of C code: of one slot by a slice, as an
    item alone would come without its sequence."""
    if len(sources) > 1:
        return itemgetter(*sources)
    first = sources[0] if sources else 0
    return itemgetter(slice(first, first + len(sources)))


def computed(function: Callable[..., Any], sources: Sequence[int], target: int) -> Action:
    """Return the action: a slot becomes the function of the values in others."""
    take = taker(sources)

    def run(core: Core) -> None:
        slots = core.slots
        slots[target] = function(*take(slots))

    return run


def constant(value: object, target: int) -> Action:
    """Return the action: a slot becomes a value."""
    return partial(_put, target, value)


def _put(slot: int, value: object, core: Core) -> None:
    core.slots[slot] = value


def several(function: Callable[..., Any], sources: Sequence[int], targets: Sequence[int]) -> Action:
    """Return the action: slots become the results of the function of the values in others."""
    take = taker(sources)

    def run(core: Core) -> None:
        slots = core.slots
        for target, result in zip(targets, function(*take(slots)), strict=True):
            slots[target] = result

    return run


def not_reported(code: str, message: str, *help: str) -> None:
    """Report nothing: for an operation whose findings somebody else makes."""


@dataclass(slots=True, eq=False)
class Context:
    """An operation at decoding. `slots` are those of its operands by the names of the row: one,
    several, or None where it is left out."""

    op: Operation
    slots: dict[str, Any]
    results: tuple[int, ...]
    profile: Profile
    report: Callable[..., None] = not_reported

    def __getitem__(self, name: str) -> int:
        return self.slots[name]

    def has(self, name: str) -> bool:
        """True if an optional operand or result is there."""
        return self.slots.get(name) is not None

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes of the text."""
        return self.op.attributes

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute that may be left out."""
        value = self.op.attributes.get(name)
        return default if value is None else value

    def switch(self, name: str) -> str:
        """Return the value of a semantic switch."""
        return self.profile.switches[name]

    def const(self, name: str) -> Any:
        """Return the value of an operand if the text fixes it, else None."""
        operand = self.op.bound.get(name)
        return operand.const if isinstance(operand, Operand) else None

    def word(self, name: str) -> str:
        """Return the word that an operand is, in its canonical spelling; of an attribute its
        value."""
        operand = self.op.bound.get(name)
        if operand is None:
            return self.op.attributes[name]
        value = operand.const
        text = value.member if isinstance(value, Enum) else str(value)
        assert self.op.variant is not None
        row = next(d for d in self.op.variant.operands if d.name == name)
        return next(filter(None, (enums()[e].member(text) for e in row.enums)), text)

    def type(self, name: str) -> Any:
        """Return the type of an operand or result."""
        operand = self.op.bound.get(name)
        if operand is not None:
            return operand.type
        made = self.op.result_values.get(name)
        if made is None:
            raise UnsupportedError([finding("PTO8002", f"'{self.op.name}' has no `{name}`")])
        return made.type

    def elem(self, name: str) -> DType:
        """Return the type of the numbers of a scalar, or of the elements of anything else."""
        type_ = self.type(name)
        return type_.dtype if isinstance(type_, ScalarType) else type_.elem

    # -- of one result ----------------------------------------------------------------------------

    @property
    def result(self) -> int:
        """Slot of the first result. Raises UsageError where the text gives it another place."""
        if not self.results:
            raise UsageError(f"'{self.op.name}' makes a value, and has none to name it")
        return self.results[0]

    @property
    def result_type(self) -> Type:
        """Type of the first result."""
        _ = self.result
        return self.op.results[0].type


@dataclass(slots=True, eq=False)
class ValueContext(Context):
    """An operation of the scalar unit, which gives a handle (view, tile, pointer) or a number."""

    machine: Machine = None  # type: ignore[assignment]  # always given
    layout: str | None = None
    address: int | None = None  # where the planner put the result
    popped_as: str | None = None  # elements of a FIFO whose pushes convert

    @property
    def result_tile(self) -> TileType:
        """Type of the first result, which is a tile."""
        type_ = self.result_type
        if not isinstance(type_, TileType):
            raise UsageError(f"'{self.op.name}' makes a tile, and its result is a {type_}")
        return type_

    def computed(self, function: Callable[..., Any], *names: str) -> Action:
        """Return the action: the result is the function of operands."""
        return computed(function, [self.slots[name] for name in names], self.result)

    def constant(self, value: object) -> Action:
        """Return the action: the result is a value."""
        return constant(value, self.result)
