"""What a watchpoint looks at."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

from ptosim.debug.expressions import Expression
from ptosim.debug.names import memory_range, number
from ptosim.debug.reading import Place, read_bytes
from ptosim.debug.stops import Breakpoint, Points, check_sample
from ptosim.ground.errors import UsageError
from ptosim.launch.launch import Launch
from ptosim.machine.core import Core


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
