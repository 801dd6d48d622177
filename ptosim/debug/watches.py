"""What a watchpoint looks at."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ptosim.debug.locations import memory_range, number
from ptosim.debug.reading import Place, read_bytes
from ptosim.debug.stops import Breakpoint, check_sample
from ptosim.ground.errors import UsageError

if TYPE_CHECKING:
    from ptosim.debug.session import Debugger

_GM_ELEMENT = re.compile(r"gm\s+%?(\w+)\s*(\[.*\])$", re.IGNORECASE)
_SPACE = re.compile(r"(\w+)\s*[:\s]\s*(0x|\d)")


def watch(session: Debugger, what: str) -> Breakpoint:
    """Add the watchpoint that `what` describes; see `Debugger.watch`."""
    text, _, condition = f"{what} ".partition(" if ")
    text = text.strip()
    if not text:
        raise UsageError("what is to be watched is missing", help="for example `watch %x[0, 3]`")
    word, _, rest = text.partition(" ")
    makers: dict[str, Callable[[Debugger, str], tuple[Any, bool]]] = {
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


def _expression(session: Debugger, text: str) -> tuple[Callable[[], Any], bool]:
    expression = session.condition(text)
    if not expression.references():
        raise UsageError(
            f"`{text}` never changes", help="name a value of the program, for example `%x`"
        )
    if expression.is_condition:
        return lambda: session.evaluate(expression), True
    return lambda: session.evaluate(expression), False


def _nan(session: Debugger, text: str) -> tuple[Callable[[], Any], bool]:
    return _expression(session, f"any(isnan({text}))")


def _outside(session: Debugger, text: str) -> tuple[Callable[[], Any], bool]:
    limit, _, name = text.partition(" ")
    if not name.strip():
        raise UsageError("`watch outside` takes a limit and a value", help="watch outside 448 %x")
    return _expression(session, f"any(abs({name}) > {limit})")


def _flag(session: Debugger, text: str) -> tuple[Callable[[], Any], bool]:
    words = re.split(r"[\s,]+", text.strip("() "))
    if len(words) != 3:
        raise UsageError("a flag is two pipes and a number", help="watch flag MTE2 V 0")
    source, target = (w.upper().removeprefix("PIPE_") for w in words[:2])
    event = number(words[2].upper().removeprefix("EVENT_ID"), "event id")
    flags = session.core.flags
    return lambda: flags.get((source, target, event), 0), False


def _bytes(session: Debugger, text: str) -> Callable[[], Any]:
    place: Place = memory_range(text.split(), session.launch.machine, session.core.index)
    return lambda: read_bytes(session.launch.machine, place)
