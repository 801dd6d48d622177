"""Where a run stops: breakpoints, watchpoints, findings; and what is said when it does."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ptosim.debug.expressions import Expression, Unavailable, fingerprint, truth
from ptosim.debug.names import memory_range, number
from ptosim.debug.reading import Place, read_bytes
from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass, field
from ptosim.launch.launch import Launch
from ptosim.machine.core import Core


@dataclass(frozen=True, slots=True)
class Stop:
    """Why and where a run stopped.

    `reason` is one of start, step, breakpoint, watchpoint, finding, trap, deadlock, end, interrupt,
    goto. `number` is that of the breakpoint, `text` what happened in words. `missed` says that a
    command did not get where it was to go."""

    reason: str
    position: int
    text: str = ""
    number: int | None = None
    finding: Diagnostic | None = None
    missed: bool = False


@dataclass(slots=True)
class Breakpoint:
    """A place or an event at which a run stops.

    `kind` is line, op, pipe, function, pc, code, nan, or watch. `pcs` are the instructions of a
    place; `sample` gives the value that a watchpoint compares, or with `is_condition` whether it
    holds; `codes` are the codes, or their beginnings, of findings."""

    number: int
    kind: str
    text: str
    pcs: frozenset[int] = frozenset()
    codes: tuple[str, ...] = ()
    sample: Callable[[], Any] | None = None
    is_condition: bool = False
    core: int | None = None
    condition: Expression | None = None
    ignore: int = 0
    hits: int = 0
    temporary: bool = False
    enabled: bool = True
    commands: list[str] = field(default_factory=list)
    last: Any = None
    mark: object = None  # the fingerprint of `last`
    log: Callable[[], None] | None = None  # is called instead of stopping

    def describe(self) -> str:
        """Return the breakpoint in words."""
        core = f" core {self.core}" if self.core is not None else ""
        condition = f" if {self.condition.text}" if self.condition is not None else ""
        return f"{self.text}{core}{condition}"


@dataclass(frozen=True, slots=True)
class Hit:
    """A breakpoint that holds, and why in words; of a watchpoint also what changed."""

    point: Breakpoint
    text: str
    finding: Diagnostic | None = None
    change: str = ""


class Points:
    """The breakpoints and watchpoints of a session."""

    def __init__(self) -> None:
        self.all: dict[int, Breakpoint] = {}
        self._next = 1
        self._by_pc: dict[int, list[Breakpoint]] = {}
        self._watches: list[Breakpoint] = []
        self._codes: list[Breakpoint] = []
        self.nan: Breakpoint | None = None  # stops where the first NaN comes up

    def add(self, kind: str, text: str, **details: Any) -> Breakpoint:
        """Add a breakpoint and return it."""
        point = Breakpoint(self._next, kind, text, **details)
        self._next += 1
        self.all[point.number] = point
        self.refresh()
        return point

    def remove(self, number: int) -> None:
        """Remove a breakpoint. Raises UsageError if there is none of that number."""
        del self.all[self.get(number).number]
        self.refresh()

    def get(self, number: int) -> Breakpoint:
        """Return a breakpoint by number. Raises UsageError if there is none."""
        if number not in self.all:
            known = ", ".join(map(str, self.all)) or "none"
            raise UsageError(f"there is no breakpoint {number}", help=f"breakpoints: {known}")
        return self.all[number]

    def refresh(self) -> None:
        """Sort the enabled breakpoints by what has to be looked at; call after changing one."""
        self._by_pc = {}
        for point in self.all.values():
            if point.enabled:
                for pc in point.pcs:
                    self._by_pc.setdefault(pc, []).append(point)
        enabled = [p for p in self.all.values() if p.enabled]
        self._watches = [p for p in enabled if p.kind == "watch"]
        self._codes = [p for p in enabled if p.codes]
        self.nan = next((p for p in enabled if p.kind == "nan"), None)

    @property
    def is_empty(self) -> bool:
        """True if nothing has to be looked at while a run goes on."""
        return not (self._by_pc or self._watches or self._codes or self.nan)

    @property
    def watching(self) -> bool:
        """True if there are enabled watchpoints."""
        return bool(self._watches)

    # -- matching ---------------------------------------------------------------------------------

    def at(self, pc: int, core: int, holds: Callable[[Expression], bool]) -> Hit | None:
        """Return the breakpoint at an instruction, if its condition holds."""
        for point in self._by_pc.get(pc, ()):
            if point.core in (None, core) and (point.condition is None or holds(point.condition)):
                return Hit(point, f"breakpoint {point.number}, {point.describe()}")
        return None

    def arm(self) -> None:
        """Take the present values of all watchpoints."""
        for point in self._watches:
            point.last, point.mark = sampled(point)

    def changed(self, holds: Callable[[Expression], bool]) -> Hit | None:
        """Return the first watchpoint whose value changed since it was last looked at, or whose
        condition has come to hold."""
        found = None
        for point in self._watches:
            before, mark = point.last, point.mark
            point.last, point.mark = sampled(point)
            if mark == point.mark:
                continue
            if point.is_condition and not point.last:
                continue
            if before is None and (
                point.is_condition or isinstance(point.last, (np.ndarray, np.generic))
            ):
                continue  # the value has come into being, nothing was written
            if point.condition is not None and not holds(point.condition):
                continue
            if found is None:
                text = f"watchpoint {point.number}, {point.describe()}"
                found = Hit(
                    point, text, change="" if point.is_condition else _change(before, point.last)
                )
        return found

    def reported(self, findings: Sequence[Diagnostic]) -> Hit | None:
        """Return the breakpoint on a code that one of the findings has."""
        for finding in findings:
            for point in self._codes:
                if finding.code.startswith(point.codes):
                    return Hit(point, f"{finding.code}: {finding.message}", finding)
        return None


def sampled(point: Breakpoint) -> tuple[Any, object]:
    """Return the value of a watchpoint now, and its fingerprint; None while it has none: what it
    looks at is not there yet, or is nothing that can be computed or compared here."""
    try:
        return _sample(point)
    except UsageError:
        return None, None


def check_sample(point: Breakpoint) -> None:
    """Raise UsageError if a watchpoint has no value, other than because what it looks at is not
    there yet."""
    with contextlib.suppress(Unavailable):
        _sample(point)


def _sample(point: Breakpoint) -> tuple[Any, object]:
    value = point.sample() if point.sample is not None else None
    if point.is_condition:
        value = truth(value)
    return value, fingerprint(value)


def _change(before: object, after: object) -> str:
    """A change in words: both values, or for arrays how many elements and the first one."""
    if isinstance(before, bytes) and isinstance(after, bytes):
        before, after = (np.frombuffer(b, np.uint8) for b in (before, after))
    if isinstance(before, np.ndarray) and isinstance(after, np.ndarray) and before.ndim:
        return _array_change(before, after)
    return f"{_short(before)} -> {_short(after)}"


def _array_change(before: np.ndarray, after: np.ndarray) -> str:
    if before.shape != after.shape:
        return f"{_short(before)} -> {_short(after)}"
    differs = ~((before == after) | ((before != before) & (after != after)))
    if not differs.any():
        return "the sign of a zero, or the bits of a NaN"
    first = tuple(int(i) for i in np.argwhere(differs)[0])
    place = ", ".join(map(str, first))
    return (
        f"{int(differs.sum())} of {before.size} elements changed; "
        f"[{place}]: {_short(before[first])} -> {_short(after[first])}"
    )


def _short(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, np.ndarray) and value.ndim:
        return f"{'x'.join(map(str, value.shape))} elements"
    if isinstance(value, (float, np.floating)):
        return f"{float(value):g}"
    return str(value)


# What a watchpoint looks at.


class Watched(Protocol):
    """What a watchpoint asks of the debugger."""

    @property
    def points(self) -> Points:
        """The breakpoints and watchpoints."""
        ...

    @property
    def core(self) -> Core:
        """The core that commands look at."""
        ...

    @property
    def launch(self) -> Launch:
        """What runs."""
        ...

    def condition(self, text: str) -> Expression:
        """Return an expression of the user."""
        ...

    def evaluate(self, expression: str | Expression) -> Any:
        """Return its value now."""
        ...

    def catch_nan(self) -> Breakpoint:
        """Stop where the first NaN comes up."""
        ...


_GM_ELEMENT = re.compile(r"gm\s+%?(\w+)\s*(\[.*\])$", re.IGNORECASE)
_SPACE = re.compile(r"(\w+)\s*[:\s]\s*(0x|\d)")


def watch(session: Watched, what: str) -> Breakpoint:
    """Add the watchpoint that `what` describes; see `Debugger.watch`."""
    text, _, condition = f"{what} ".partition(" if ")
    text = text.strip()
    if not text:
        raise UsageError("what is to be watched is missing", help="for example `watch %x[0, 3]`")
    word, _, rest = text.partition(" ")
    makers: dict[str, Callable[[Watched, str], tuple[Any, bool]]] = {
        "tile": _expression, "nan": _nan, "outside": _outside, "flag": _flag, "event": _flag,
    }  # fmt: skip
    element = _GM_ELEMENT.match(text)
    if element is not None:
        sample, holds = _expression(session, f"%{element[1]}{element[2]}")
    elif word in makers and rest:
        sample, holds = makers[word](session, rest.strip())
    elif not text.startswith("%") and _SPACE.match(text):
        sample, holds = _bytes(session, text), False
    else:
        sample, holds = _expression(session, text)
    chosen = session.condition(condition) if condition.strip() else None
    details = {"sample": sample, "is_condition": holds, "condition": chosen}
    check_sample(Breakpoint(0, "watch", text, **details))
    return session.points.add("watch", f"watch {text}", **details)


def _expression(session: Watched, text: str) -> tuple[Callable[[], Any], bool]:
    expression = session.condition(text)
    if not expression.references():
        raise UsageError(
            f"`{text}` never changes", help="name a value of the program, for example `%x`"
        )
    if expression.is_condition:
        return lambda: session.evaluate(expression), True
    return lambda: session.evaluate(expression), False


def _nan(session: Watched, text: str) -> tuple[Callable[[], Any], bool]:
    return _expression(session, f"any(isnan({text}))")


def _outside(session: Watched, text: str) -> tuple[Callable[[], Any], bool]:
    limit, _, name = text.partition(" ")
    if not name.strip():
        raise UsageError("`watch outside` takes a limit and a value", help="watch outside 448 %x")
    return _expression(session, f"any(abs({name}) > {limit})")


def _flag(session: Watched, text: str) -> tuple[Callable[[], Any], bool]:
    words = re.split(r"[\s,]+", text.strip("() "))
    if len(words) != 3:
        raise UsageError("a flag is two pipes and a number", help="watch flag MTE2 V 0")
    source, target = (w.upper().removeprefix("PIPE_") for w in words[:2])
    event = number(words[2].upper().removeprefix("EVENT_ID"), "event id")
    flags = session.core.flags
    return lambda: flags.get((source, target, event), 0), False


def _bytes(session: Watched, text: str) -> Callable[[], Any]:
    place: Place = memory_range(text.split(), session.launch.machine, session.core.index)
    return lambda: read_bytes(session.launch.machine, place)


# Classes of findings to stop at, for `catch` and for the exception filters of an editor.


# Name -> (what it stops at, beginnings of the codes; none: an observer of its own).
FILTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "race": ("data race, missing synchronisation", ("PTO520",)),
    "bounds": (
        "access outside a window, a view or a buffer",
        ("PTO6001", "PTO6013", "PTO6026", "PTO61", "PTO6602"),
    ),
    "uninitialised": ("read of bytes that nothing wrote", ("PTO71",)),
    "nan": ("first NaN", ()),
    "flags": ("flag set twice, or left set", ("PTO521",)),
    "budget": ("memory beyond a space", ("PTO4",)),
    "deadlock": ("a run that cannot go on", ("PTO5006",)),
    "any": ("any finding", ("PTO",)),
}


def catch(session: Watched, name: str) -> Breakpoint:
    """Stop at a class of findings. Raises UsageError for an unknown one."""
    word = name.strip().lower()
    word = {"uninit": "uninitialised", "oob": "bounds", "races": "race"}.get(word, word)
    if word not in FILTERS:
        raise UsageError(f"`catch` does not take `{name}`", help=f"one of {', '.join(FILTERS)}")
    if word == "nan":
        return session.catch_nan()
    what, codes = FILTERS[word]
    return session.points.add("code", f"catch {word} ({what})", codes=codes)
