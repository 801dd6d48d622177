"""What scalar instructions and branches do, as closures over the slots they read and write. Most
have a *form* too, by which rounds of a loop are executed at once (`ptosim/engine/batch`)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from operator import index, itemgetter
from typing import Any, Protocol

from ptosim.engine.core.bound import Bound, DecodedProgram, Inst
from ptosim.ground import progress
from ptosim.ground.diagnostics.model import Diagnostic, Sink, Trap
from ptosim.ground.errors import BudgetError
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.limits import current
from ptosim.machine.affine import NeedsValue, Unknown
from ptosim.machine.core import SLOT_KIND, SLOT_STACK, Core, Machine
from ptosim.machine.gm import five_dims, view_spec
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import Binding, OpFault
from ptosim.ops.scalar.numbers import ScalarFault

Action = Callable[[Core], None]
Form = tuple[Any, ...]
"""What a closure does: `call function sources result`, `copy sources targets`, `start step
sources targets` and
`next variable step sources targets` (of a loop), `for variable upper body after`, `if condition
then otherwise`, `switch selector cases default`,
`jump target`; slots and places in the program are numbers."""


def form_of(run: Callable[[Any], Any]) -> Form | None:
    """Return the form of a closure, None if it has none: it is called."""
    return getattr(run, "form", None)


def _formed(run: Callable[[Any], Any], *form: Any) -> Callable[[Any], Any]:
    run.form = form  # type: ignore[attr-defined]
    return run


def getter(slots: list[int]) -> Callable[[list[Any]], Any]:
    if not slots:
        return lambda values: ()
    return itemgetter(*slots)


def scalar_runner(
    function: Callable[..., Any], sources: list[int], results: list[int]
) -> Callable[[list[Any]], None]:
    if len(results) != 1:

        def several(slots: list[Any]) -> None:
            values = function(*[slots[s] for s in sources])
            for slot, item in zip(results, values, strict=True):
                slots[slot] = item

        return several
    run = _one_result(function, sources, results[0])
    return _formed(run, "call", function, tuple(sources), results[0])


def _one_result(
    function: Callable[..., Any], sources: list[int], result: int
) -> Callable[[list[Any]], None]:
    if len(sources) == 1:
        (only,) = sources

        def one(slots: list[Any]) -> None:
            slots[result] = function(slots[only])

        return one
    if len(sources) == 2:
        first, second = sources

        def two(slots: list[Any]) -> None:
            slots[result] = function(slots[first], slots[second])

        return two

    def many(slots: list[Any]) -> None:
        slots[result] = function(*[slots[s] for s in sources])

    return many


def copier(sources: list[int], targets: list[int]) -> Callable[[list[Any]], None]:
    """Assign several slots at once, as if in parallel."""
    pairs = list(zip(sources, targets, strict=False))
    run = _copier(pairs)
    return _formed(run, "copy", tuple(s for s, _ in pairs), tuple(t for _, t in pairs))


def _copier(pairs: list[tuple[int, int]]) -> Callable[[list[Any]], None]:
    if not pairs:
        return lambda slots: None
    if len(pairs) == 1:
        ((source, target),) = pairs

        def copy_one(slots: list[Any]) -> None:
            slots[target] = slots[source]

        return copy_one

    take, into = itemgetter(*(s for s, _ in pairs)), [t for _, t in pairs]
    if len(pairs) == 2:
        first, second = into

        def copy_two(slots: list[Any]) -> None:
            slots[first], slots[second] = take(slots)

        return copy_two
    if len(pairs) == 3:
        first, second, third = into

        def copy_three(slots: list[Any]) -> None:
            slots[first], slots[second], slots[third] = take(slots)

        return copy_three

    def copy(slots: list[Any]) -> None:
        for target, value in zip(into, take(slots), strict=True):
            slots[target] = value

    return copy


def loop_start(step: int, sources: list[int], targets: list[int]) -> Callable[[list[Any]], None]:
    copy = copier(sources, targets)

    def start(slots: list[Any]) -> None:
        if slots[step] <= 0:
            raise OpFault("PTO6006", f"the step of scf.for is {slots[step]}; it must be positive")
        copy(slots)

    pairs = list(zip(sources, targets, strict=False))
    return _formed(start, "start", step, tuple(s for s, _ in pairs), tuple(t for _, t in pairs))


def advance(
    variable: int, step: int, yielded: list[int], carried: list[int]
) -> Callable[[list[Any]], None]:
    run = _advance(variable, step, yielded, carried)
    pairs = list(zip(yielded, carried, strict=False))
    sources, targets = tuple(s for s, _ in pairs), tuple(t for _, t in pairs)
    return _formed(run, "next", variable, step, sources, targets)


def _advance(
    variable: int, step: int, yielded: list[int], carried: list[int]
) -> Callable[[list[Any]], None]:
    if not carried:

        def advance_only(slots: list[Any]) -> None:
            slots[variable] += slots[step]

        return advance_only
    if len(carried) == 1:
        (source,), (target,) = yielded, carried

        def advance_and_carry_one(slots: list[Any]) -> None:
            slots[target] = slots[source]
            slots[variable] += slots[step]

        return advance_and_carry_one
    copy = copier(yielded, carried)

    def advance_and_carry(slots: list[Any]) -> None:
        copy(slots)
        slots[variable] += slots[step]

    return advance_and_carry


def loop_test(variable: int, upper: int, body: int, after: int) -> Callable[[list[Any]], int]:
    run = lambda slots: body if slots[variable] < slots[upper] else after  # noqa: E731
    return _formed(run, "for", variable, upper, body, after)


def branch_test(condition: int, then: int, otherwise: int) -> Callable[[list[Any]], int]:
    run = lambda slots: then if slots[condition] else otherwise  # noqa: E731
    return _formed(run, "if", condition, then, otherwise)


def jump(target: int) -> Callable[[list[Any]], int]:
    return _formed(lambda slots: target, "jump", target)


def switch(selector: int, cases: dict[int, int], default: int) -> Callable[[list[Any]], int]:
    run = lambda slots: cases.get(index(slots[selector]), default)  # noqa: E731
    return _formed(run, "switch", selector, cases, default)


def section_test(kind: str | None, inside: int, after: int) -> Callable[[list[Any]], int]:
    return lambda slots: inside if slots[SLOT_KIND] in (kind, "any") else after


def call(target: int, back: int) -> Callable[[list[Any]], int]:
    def enter(slots: list[Any]) -> int:
        slots[SLOT_STACK] = (back, slots[SLOT_STACK])
        return target

    return enter


def leave(slots: list[Any]) -> int:
    """The next pc, or -1 when the entry function returns."""
    stack = slots[SLOT_STACK]
    if stack is None:
        return -1
    slots[SLOT_STACK] = stack[1]
    return stack[0]


def reinterpreter(
    source: int, result: int, parts: dict[str, tuple[int, ...]], type_: Any
) -> Callable[[list[Any]], None]:
    def run(slots: list[Any]) -> None:
        base = slots[source]
        if not isinstance(base, GmView):  # a local buffer keeps its tile
            slots[result] = base
            return
        offset = slots[parts["offset"][0]] if parts["offset"] else 0
        sizes = tuple(slots[s] for s in parts["sizes"])
        strides = tuple(slots[s] for s in parts["strides"])
        view = view_spec(*five_dims(sizes, strides), type_.elem, base.spec.layout)
        slots[result] = GmView(view, base.memory, base.offset + index(offset))

    return run


def no_action(core: Core) -> None:
    """The end of a vector region, or what has no effect without values."""


def reader(run: Action, results: tuple[int, ...], unknown: Unknown) -> Action:
    """A read of memory without values: its place is checked, its results are unknown."""

    def read(core: Core) -> None:
        run(core)
        for slot in results:
            core.slots[slot] = unknown

    return read


def writer(run: Action, places: tuple[int, ...]) -> Action:
    """A write to memory without values: its place, that the slots of `places` say, is checked, and
    what it writes does not matter."""

    def write(core: Core) -> None:
        try:
            run(core)
        except NeedsValue:
            for slot in places:
                found = core.slots[slot]
                if Unknown in (found.__class__, getattr(found, "byte", None).__class__):
                    raise

    return write


# What the parts of a run may ask of the engine that they are given to.

# When an engine looks at its limits: after slices of instructions that take a fraction of a second
# each, so that an instruction costs nothing for it.

UNLIMITED = sys.maxsize
FIRST = 64
"""Instructions of the first slice; one may take a tenth of a second."""
UNTIMED = 1 << 18
"""The same where only the number of instructions is limited."""
LONGEST = 1 << 20
SECONDS = 0.05
"""What a slice should take."""


class Meter:
    """The limits of one run of an engine. `due` is the number of executed instructions at which to
    look again."""

    __slots__ = ("_budget", "_clock", "_most", "_size", "_watch", "due")

    def __init__(self, limit: int = UNLIMITED) -> None:
        self._budget = current()
        own = self._budget.instructions
        self._most = limit if own is None else min(limit, own)
        self._watch = progress.current()
        is_looked_at = self._budget.is_limited or self._watch is not None
        self._size = FIRST if is_looked_at else UNTIMED
        if self._watch is not None:
            self._watch.begin()
        self._clock = time.monotonic()
        self.due = min(self._most, self._size)

    def look(self, executed: int, place: Callable[[], str]) -> None:
        """Raise LimitError if a limit is reached, with the place where the program is; else say
        when to look again."""
        if executed >= self._most:
            where = place()
            raise BudgetError(
                f"PTO0014: the program has not ended after {self._most:,} instructions"
                f"{f'; it stopped at {where}' if where else ''}",
                help="look for a loop that does not end, or raise --max-instructions",
            )
        self._budget.look(place)
        if self._watch is not None:
            self._watch.tell(executed, place)
        now = time.monotonic()
        took, self._clock = now - self._clock, now
        if took < SECONDS / 2:
            self._size = min(self._size * 2, LONGEST)
        elif took > SECONDS * 2:
            self._size = max(self._size // 4, 1)
        self.due = min(self._most, executed + self._size)


Fault = OpFault | ScalarFault


class Host(Protocol):
    """The engine as its domain, its pace and its timing model see it."""

    program: DecodedProgram
    resolved: ResolvedModule
    machine: Machine
    sink: Sink
    domain: Any
    pace: Any
    timing: Any
    batches: Any
    insts: list[Inst]
    """What is executed: the program's instructions, or watched copies of them."""
    in_order: bool
    is_observed: bool
    executed: int
    left_out: int
    issued: int
    meter: Meter
    issuers: list[Any]
    """What issues in time, by core."""
    scalars: list[int]
    """Operations of the scalar unit since the last issue, by core."""
    reported: set[tuple[int, str]]
    """Findings of instructions that were told: the place and the code."""

    # -- binding -----------------------------------------------------------------------------------

    def bind(self, core: Core, inst: Inst) -> Bound:
        """Bind an instruction to the present values of its operands, and keep the binding."""
        ...

    def binding(self, core: Core, inst: Inst, values: Mapping[str, Any]) -> Binding:
        """Return an operation with values of its operands; nothing is checked yet."""
        ...

    def values_of(self, core: Core, inst: Inst) -> dict[str, Any]:
        """Return the present values of an instruction's operands."""
        ...

    # -- execution ---------------------------------------------------------------------------------

    def execute(self, core: Core, limit: int = ...) -> bool:
        """Execute a core until it ends, waits, or has executed `limit` instructions."""
        ...

    def step(self, core: Core) -> Inst | None:
        """Execute one instruction of a core."""
        ...

    def enter(self, core: Core, inst: Inst) -> int:
        """Return where the scalar unit goes on at the head of a vector region."""
        ...

    def look(self, core: Core) -> None:
        """Look at the limits."""
        ...

    def resume(self, core: Core) -> bool:
        """Let a stalled scalar unit go on if its guard holds."""
        ...

    def go_on(self, core: Core) -> None:
        """Commit the operation that a scalar unit waits with."""
        ...

    # -- effects -----------------------------------------------------------------------------------

    def issuing(self, core: Core, inst: Inst, bound: Bound) -> None:
        """An operation is issued."""
        ...

    def commit(self, core: Core, inst: Inst, bound: Bound) -> None:
        """An operation takes effect, and whatever waited for it moves."""
        ...

    def effect(self, core: Core, inst: Inst, bound: Bound) -> None:
        """An operation takes effect."""
        ...

    def issue_by(self, issuers: list[Any] | None) -> None:
        """Issue in time through other functions; None: those of the timing model."""
        ...

    # -- what is said ------------------------------------------------------------------------------

    def trap(self, inst: Inst | None, fault: Fault) -> Trap:
        """Report a fault, and return the trap that says where the program cannot go on."""
        ...

    def finding(self, inst: Inst | None, fault: Fault) -> Diagnostic:
        """Return what there is to say of an instruction that cannot be executed."""
        ...
