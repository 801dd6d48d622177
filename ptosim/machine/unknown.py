"""Values that are not known, in a run without values: they can be carried around, not looked at."""

from __future__ import annotations

from typing import NoReturn


class NeedsValue(Exception):
    """Something depends on a value that is not known."""

    def __init__(self, unknown: Unknown) -> None:
        super().__init__(unknown.origin)
        self.unknown = unknown


class Unknown:
    """A value without content: a scalar, a register, a predicate or a handle.

    What is computed with it is unknown in the same way. Whatever has to look at it (its
    truth, order, size, lanes) gets NeedsValue. `origin` says in words where it comes from,
    `argument` is the scalar argument that it is, if it is one."""

    __slots__ = ("argument", "origin")

    def __init__(self, origin: str, argument: str | None = None) -> None:
        self.origin = origin
        self.argument = argument

    def _unknown(self, *others: object) -> Unknown:
        return self

    def _needed(self, *others: object, **options: object) -> NoReturn:
        raise NeedsValue(self)

    def __mul__(self, other: object) -> Unknown | int:
        return 0 if other.__class__ is int and other == 0 else self

    __rmul__ = __mul__
    __add__ = __radd__ = __sub__ = __rsub__ = __neg__ = __and__ = __rand__ = _unknown
    __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = __abs__ = _unknown
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = _unknown
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _unknown
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __int__ = __float__ = __index__ = _needed
    __round__ = __trunc__ = __floor__ = __ceil__ = __complex__ = _needed
    __len__ = __iter__ = __getitem__ = __array__ = _needed
    __eq__ = __ne__ = _needed  # type: ignore[assignment]  # no answer is a bool
    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # a protocol that it does not have
            raise AttributeError(name)
        raise NeedsValue(self)

    def __repr__(self) -> str:
        return f"<unknown: {self.origin}>"
