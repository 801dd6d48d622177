"""Instructions bound to the operands of one execution: what pipes queue and execute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any, NoReturn, Protocol

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.ir.core import Clause, Operand, Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import TileType
from ptosim.ground.isa.dates import Profile
from ptosim.ground.records import dataclass, field
from ptosim.machine.core import FIRST_SLOT, Machine
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import Binding
from ptosim.ops.micro.hazards import RegionPlace
from ptosim.ops.scalar.tensors import constant_array


class Bound:
    """An instruction with the operands of one execution: its effect, the guard that must hold first
    (None: always), and what it was made of."""

    __slots__ = ("access", "at_issue", "at_once", "binding", "commit", "cost", "guard")

    def __init__(self, commit: Callable[[], object], binding: Binding) -> None:
        self.commit = commit
        self.binding = binding
        self.guard = binding.guard
        self.at_issue = binding.at_issue
        # True for an operation that waits, of which nobody need know before its event has come.
        self.at_once = binding.at_issue is None and not (binding.signals and binding.awaits)
        self.cost: Any = None  # for the timing model
        self.access: Any = None  # for the sanitizers: of an earlier run until they know it


class Moved(Bound):
    """A transfer that was bound before (`first`), with its window of global memory at another
    place, `distance` bytes away."""

    __slots__ = ("_binding", "distance", "first", "view")

    def __init__(
        self, commit: Callable[[], object], first: Bound, view: GmView, distance: int
    ) -> None:
        self.commit = commit
        self.first = first
        self.view = view
        self.distance = distance
        self.guard = self.at_issue = self.cost = self._binding = None
        self.at_once = True

    @property
    def binding(self) -> Binding:  # type: ignore[override]
        """What it was made of; made when somebody asks."""
        if self._binding is None:
            self._binding = self.first.binding.elsewhere(self.view)
        return self._binding


@dataclass(slots=True, eq=False)
class Region:
    """A vector region whose pipe waits: it executes as a whole when the pipe gets to it, on the
    values that it saw when it was issued. Stands in a queue in the place of a binding."""

    commit: Callable[[], object]
    guard: None = None
    cost: Any = None


def has_zero(binding: Binding) -> bool:
    """True if a scalar that the text does not fix is 0.0 or -0.0, which are equal as keys."""
    return any(
        value.__class__ is float and value == 0 and _operand(binding.op, name).const is None
        for name, value in binding.values.items()
    )


def _operand(op: Operation, name: str) -> Any:
    """The operand of a name, or `clause.name`."""
    clause, dot, inner = name.partition(".")
    return op.bound[clause][inner] if dot else op.bound[name]


# Decoded programs: a flat list of instructions with explicit numbers for everything.


class Depth(IntEnum):
    """How much of a program is executed. Control flow, scalars and synchronisation always are; what
    is left out gives unknown values."""

    SHAPES = 0  # operands have shapes: enough for time
    PLACES = 1  # and places in memory, which are checked: enough for bounds, races, lifetimes
    VALUES = 2  # and content


class Kind(IntEnum):
    """What the scalar unit does with an instruction."""

    SCALAR = 0  # execute at once on the slots
    ACTION = 1  # execute at once on the core (memory, registers)
    BRANCH = 2  # execute at once; the result is the next pc
    EXEC = 3  # bind operands and issue to a pipe
    VECTOR = 4  # execute at once on the core, as a part of the vector region around it
    REGION = 5  # the head of a vector region: its instructions up to `end` are one unit of its pipe


def _of_another_kind(given: Any) -> NoReturn:
    raise AssertionError("an instruction is executed or bound as its kind says")


@dataclass(slots=True, eq=False)
class Inst:
    """One instruction. `run` is for kinds that execute at once; EXEC reads `getter(slots)`, the
    values that its binding depends on, in the order of `operands`, and is issued to `pipe`;
    `window` is the place among them of the only view of global memory, `attrs` what the text says
    of its attributes. `end` is where a vector region ends; `launches` says that it executes threads
    (its semantics are a `Launch`)."""

    pc: int
    kind: Kind
    op: Operation | None
    run: Callable[[Any], Any] = _of_another_kind
    getter: Callable[[list[Any]], Any] = _of_another_kind
    operands: tuple[tuple[str, int | tuple[int, ...]], ...] = ()
    semantics: Any = None
    pipe: str = "S"
    window: int | None = None
    end: int = -1
    attrs: Mapping[str, Any] = field(default_factory=dict)
    launches: bool = False

    def running(self, run: Callable[[Any], Any]) -> Inst:
        """Return a copy that does something else."""
        return Inst(
            self.pc, self.kind, self.op, run, self.getter, self.operands, self.semantics, self.pipe,
            self.window, self.end, self.attrs, self.launches,
        )  # fmt: skip

    @property
    def operation(self) -> Operation:
        """The operation of the text; for instructions that have one."""
        assert self.op is not None
        return self.op


@dataclass(slots=True, eq=False)
class DecodedFunction:
    """Where a function starts and which slots hold its arguments."""

    function: Function
    pc: int
    arg_slots: list[int]
    result_slots: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class DecodedProgram:
    """Instructions, the initial slots, and the functions by name.

    `tiles` are the tiles that exist from the start: slot, type and address.
    """

    insts: list[Inst]
    initial: list[Any]
    functions: dict[str, DecodedFunction]
    tiles: dict[str, tuple[int, TileType, int]] = field(default_factory=dict)
    slots: dict[Value, int] = field(default_factory=dict)
    regions: dict[Operation, dict[Operation, Any]] = field(default_factory=dict)
    """Of each vector region the places of its operations, as hazards and logs name them."""


# Slots: every value of a program has a place in the list that a core computes on.


class Stream(Protocol):
    """The instructions of a program while it is decoded, as those see them that decode control
    flow and launches."""

    resolved: ResolvedModule
    machine: Machine
    profile: Profile
    insts: list[Inst]
    slots: Slots
    functions: dict[str, DecodedFunction]
    current: DecodedFunction
    launches: Any  # what decodes a launch of threads
    in_vector_region: bool
    places: dict[Operation, RegionPlace]
    regions: dict[Operation, dict[Operation, RegionPlace]]

    def emit(self, kind: Kind, op: Operation | None, run: Any = None, **details: Any) -> Inst:
        """Add an instruction at the end."""
        ...

    def ops(self, ops: Any) -> None:
        """Decode operations, one after the other."""
        ...

    def refuse(self, finding: Diagnostic, *, has_no_time: bool = False) -> None:
        """Report what is not executed."""
        ...


class Slots:
    """The slots of a program, and what they hold before it runs."""

    def __init__(self) -> None:
        self.initial: list[Any] = [None] * FIRST_SLOT
        self.of: dict[Value, int] = {}
        self._consts: dict[tuple[type, str], int] = {}

    def new(self, value: Any) -> int:
        self.initial.append(value)
        return len(self.initial) - 1

    def value(self, value: Value) -> int:
        """Return the slot of a value; one whose content the text fixes is filled already."""
        slot = self.of.get(value)
        if slot is None:
            slot = self.of[value] = self.new(constant_array(value.const, value.type))
        return slot

    def operand(self, operand: Operand) -> int:
        """Return the slot of an operand; a literal gets one of its own."""
        if operand.value is not None:
            return self.value(operand.value)
        const = operand.const
        key = (type(const), repr(const))  # 0.0 and -0.0 are equal, and are not one constant
        if key not in self._consts:
            self._consts[key] = self.new(const)
        return self._consts[key]

    def bound(self, bound: Any) -> Any:
        if isinstance(bound, Operand):
            return self.operand(bound)
        if isinstance(bound, list):
            return tuple(self.bound(b) for b in bound)
        return None

    def clause(self, name: str, bound: Any) -> Iterator[tuple[str, Any]]:
        """Operands of a clause as `clause.operand`; of one that can be repeated, a tuple for
        each."""
        if isinstance(bound, Clause):
            for inner, operand in bound.operands.items():
                if operand is not None:
                    yield f"{name}.{inner}", self.operand(operand)
        elif isinstance(bound, list) and bound and isinstance(bound[0], Clause):
            for inner in bound[0].operands:
                yield f"{name}.{inner}", tuple(self.bound(c[inner]) for c in bound)
