"""Numbers that are another one in every period of a loop, and what that proves.

A `Moving` number has a value now and a step: k periods later it is value + k * step. Whatever is
computed with it that stays of this form is a `Moving` number again. A comparison tells what is true
now, and notes for how many periods it stays true: where a whole period was executed on such
numbers, everything in it happens in the same way as often as `Regime.periods` says, because every
decision was one of these comparisons. What leaves the form raises NeedsValue, as a value does that
is not known; a result that nobody can follow is `Blurred`, and looking at it raises the same."""

from __future__ import annotations

from typing import Any, NoReturn

from ptosim.machine.unknown import NeedsValue, Unknown

NO_LINE = Unknown("the number of the round, in a way that is no straight line")
"""Why a moving number could not be followed."""

ENDLESS = 1 << 62
"""More periods than any run has."""


class Regime:
    """For how many periods from now on every comparison so far turns out the same."""

    periods = ENDLESS

    @classmethod
    def begin(cls) -> None:
        """Forget earlier comparisons."""
        cls.periods = ENDLESS

    @classmethod
    def note(cls, margin: int, step: int, *, is_open: bool) -> bool:
        """Return if a margin that grows by `step` is positive (`is_open`) or not negative now, and
        note how long that holds."""
        least = 1 if is_open else 0
        holds = margin >= least
        if holds and step < 0:
            cls._most((margin - least) // -step)
        elif not holds and step > 0:
            cls._most((least - 1 - margin) // step)
        return holds

    @classmethod
    def note_equal(cls, margin: int, step: int) -> bool:
        """Return if a margin is zero now, and note how long that holds."""
        if step and margin == 0:
            cls._most(0)
        elif step and margin % step == 0 and -margin // step > 0:
            cls._most(-margin // step - 1)
        return margin == 0

    @classmethod
    def _most(cls, periods: int) -> None:
        cls.periods = min(cls.periods, periods)


class Moving:
    """A number of this period, and what it gains in each: never zero."""

    __slots__ = ("step", "value")

    def __init__(self, value: int, step: int) -> None:
        self.value = value
        self.step = step

    # -- what stays a straight line ----------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        pair = _pair(other)
        if pair is None:
            return NotImplemented
        return line(self.value + pair[0], self.step + pair[1])

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        pair = _pair(other)
        if pair is None:
            return NotImplemented
        return line(self.value - pair[0], self.step - pair[1])

    def __rsub__(self, other: Any) -> Any:
        pair = _pair(other)
        if pair is None:
            return NotImplemented
        return line(pair[0] - self.value, pair[1] - self.step)

    def __mul__(self, other: Any) -> Any:
        pair = _pair(other)
        if pair is None:
            return NotImplemented
        if pair[1]:
            raise NeedsValue(NO_LINE)
        return line(self.value * pair[0], self.step * pair[0])

    __rmul__ = __mul__

    def __neg__(self) -> Moving:
        return Moving(-self.value, -self.step)

    def __pos__(self) -> Moving:
        return self

    def __abs__(self) -> Moving:
        return -self if self < 0 else self

    def __lshift__(self, other: Any) -> Any:
        return self * (1 << other)

    def __floordiv__(self, other: Any) -> Any:
        return self._divided(other)[0]

    def __mod__(self, other: Any) -> Any:
        return self._divided(other)[1]

    def __rshift__(self, other: Any) -> Any:
        return self._divided(1 << other)[0]

    def __and__(self, other: Any) -> Any:
        """Bits of a mask of the lowest ones; any other mask is no straight line."""
        if not isinstance(other, int) or other < 0 or other & (other + 1):
            raise NeedsValue(NO_LINE)
        return self._divided(other + 1)[1]

    __rand__ = __and__

    def _divided(self, other: Any) -> tuple[Any, Any]:
        """Quotient and remainder. Either the step is a multiple of the divisor, or the quotient
        stays the same for some periods, which is noted."""
        if not isinstance(other, int) or other == 0:
            raise NeedsValue(NO_LINE)
        quotient, rest = divmod(self.value, other)
        if self.step % other == 0:
            return line(quotient, self.step // other), rest
        moved = Moving(rest, self.step)
        low, high = (0, other - 1) if other > 0 else (other + 1, 0)
        _ = low <= moved, moved <= high
        return quotient, moved

    # -- comparisons -------------------------------------------------------------------------------

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, 1, is_open=True)

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, 1, is_open=False)

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, -1, is_open=True)

    def __le__(self, other: Any) -> Any:
        return self._compared(other, -1, is_open=False)

    def _compared(self, other: Any, sign: int, *, is_open: bool) -> Any:
        pair = _pair(other)
        if pair is None:
            return NotImplemented
        margin, step = sign * (self.value - pair[0]), sign * (self.step - pair[1])
        return Regime.note(margin, step, is_open=is_open)

    def __eq__(self, other: object) -> Any:
        pair = _pair(other)
        if pair is None:
            return NotImplemented
        return Regime.note_equal(self.value - pair[0], self.step - pair[1])

    def __ne__(self, other: object) -> Any:
        same = self.__eq__(other)
        return same if same is NotImplemented else not same

    def __bool__(self) -> bool:
        return not Regime.note_equal(self.value, self.step)

    # -- what needs one number ---------------------------------------------------------------------

    def _needed(self, *others: object) -> NoReturn:
        raise NeedsValue(NO_LINE)

    __int__ = __float__ = __index__ = __hash__ = __round__ = __trunc__ = _needed
    __truediv__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __pow__ = __rpow__ = _needed
    __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = __rlshift__ = __rrshift__ = _needed
    __floor__ = __ceil__ = __array__ = __len__ = __iter__ = _needed

    def __repr__(self) -> str:
        return str(self.value)  # as findings about this round say it

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)


class Blurred(Unknown):
    """A value of this period of which nobody knows how it moves: it can be carried, not looked
    at."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        super().__init__(NO_LINE.origin)
        self.value = value

    def _needed(self, *others: object, **options: object) -> NoReturn:
        raise NeedsValue(NO_LINE)

    __add__ = __radd__ = __sub__ = __rsub__ = __neg__ = __and__ = __rand__ = _needed
    __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = __abs__ = _needed
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = _needed
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __mul__ = __rmul__ = _needed
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __int__ = __float__ = __index__ = _needed
    __round__ = __trunc__ = __floor__ = __ceil__ = __complex__ = _needed
    __len__ = __iter__ = __getitem__ = __array__ = __hash__ = _needed
    __eq__ = __ne__ = _needed  # type: ignore[assignment]  # no answer is a bool


def line(value: int, step: int) -> int | Moving:
    """Return a number that gains `step` a period; one that gains nothing is a plain number."""
    return Moving(value, step) if step else value


def now(value: Any) -> Any:
    """Return what a value is in this period: tuples of numbers keep their kind."""
    kind = value.__class__
    if kind is Moving or kind is Blurred:
        return value.value
    if isinstance(value, tuple) and any(moves(part) for part in value):
        parts = map(now, value)
        return kind(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def moves(value: Any) -> bool:
    """True for a value that is, or contains, one of this period only."""
    kind = value.__class__
    if kind is Moving or kind is Blurred:
        return True
    return isinstance(value, tuple) and any(map(moves, value))


def step_of(value: Any) -> int:
    """Return what a number gains in a period."""
    return value.step if value.__class__ is Moving else 0


def _pair(other: Any) -> tuple[int, int] | None:
    if other.__class__ is Moving:
        return other.value, other.step
    return (int(other), 0) if isinstance(other, int) else None
