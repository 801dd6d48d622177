"""Values that are not known, in a run without values: they can be carried around, not looked at."""

from __future__ import annotations

from typing import Any, NoReturn


class NeedsValue(Exception):
    """Something depends on a value that is not known."""

    def __init__(self, unknown: Unknown) -> None:
        super().__init__(unknown.origin)
        self.unknown = unknown


class Unknown:
    """A value without content. `argument` is the scalar argument that it comes from, if it is
    one."""

    __slots__ = ("argument", "origin")

    def __init__(self, origin: str, argument: str | None = None) -> None:
        self.origin = origin
        self.argument = argument

    def _needed(self, *others: Any) -> NoReturn:
        raise NeedsValue(self)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _needed
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = _needed
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _needed
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __neg__ = __abs__ = __invert__ = _needed
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __int__ = __float__ = __index__ = _needed

    def __repr__(self) -> str:
        return f"<unknown: {self.origin}>"
