"""What kinds of value the arguments of requests are. An editor may send anything; what is read here
without a look has the kind that the protocol gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ptosim.debug.dap.wire import Message
from ptosim.ground.errors import UsageError

_LARGEST = 1 << 53  # whole numbers of JSON that every side reads alike


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _all(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(isinstance(v, kind) for v in value)


_WHOLE = ("a whole number", _is_whole)
_TEXT = ("a text", lambda v: isinstance(v, str))
_TRUTH = ("true or false", lambda v: isinstance(v, bool))
_OBJECT = ("an object", lambda v: isinstance(v, dict))
_OBJECTS = ("a list of objects", _all(dict))
_TEXTS = ("a list of texts", _all(str))

_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "threadId": _WHOLE, "frameId": _WHOLE, "variablesReference": _WHOLE, "start": _WHOLE,
    "count": _WHOLE, "startFrame": _WHOLE, "levels": _WHOLE, "offset": _WHOLE, "column": _WHOLE,
    "line": _WHOLE, "requestId": _WHOLE, "blockNum": _WHOLE, "seed": _WHOLE, "level": _WHOLE,
    "maxInstructions": _WHOLE, "maxMemory": _WHOLE,
    "maxSeconds": ("a number", lambda v: isinstance(v, (int, float))),
    "expression": _TEXT, "context": _TEXT, "name": _TEXT, "memoryReference": _TEXT, "text": _TEXT,
    "filter": _TEXT, "granularity": _TEXT, "path": _TEXT, "condition": _TEXT, "dataId": _TEXT,
    "hitCondition": _TEXT, "logMessage": _TEXT, "accessType": _TEXT,
    "program": _TEXT, "target": _TEXT, "entry": _TEXT, "profile": _TEXT, "sync": _TEXT,
    "uninit": _TEXT, "sanitize": _TEXT, "timing": _TRUTH, "stopOnEntry": _TRUTH,
    "stopOnExit": _TRUTH, "set": _OBJECT, "args": _OBJECT,
    "source": _OBJECT, "format": _OBJECT, "breakpoints": _OBJECTS, "filters": _TEXTS,
}  # fmt: skip
_INSIDE = ("source", "breakpoints")


def check_fields(arguments: Mapping[str, Any], where: str) -> None:
    """Raise UsageError for a value of another kind than the protocol's; null is as good as left
    out."""
    for name, value in arguments.items():
        known = _KINDS.get(name)
        if known is None or value is None:
            continue
        what, holds = known
        if not holds(value):
            raise UsageError(f"`{name}` of {where} is {what}, not {_short(value)}")
        if name in _INSIDE:
            for each in value if isinstance(value, list) else [value]:
                check_fields(each, f"{name} of {where}")


def present(arguments: Message) -> Message:
    """Return the arguments without those that are null."""
    return {name: value for name, value in arguments.items() if value is not None}


def _short(value: Any) -> str:
    if isinstance(value, (dict, list)):  # as deep as the reader takes, which `repr` may not
        return "an object" if isinstance(value, dict) else "such a list"
    text = repr(value)
    return text if len(text) < 40 else f"{text[:37]}…"
