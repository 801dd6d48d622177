"""Numbers that are another one in every period of a loop, what that proves, and the finder of such
periods.

An `Affine` number has a value now and a step: k periods later it is value + k * step. Whatever is
computed with it that stays of this form is an `Affine` number again. A comparison tells what is
true now, and notes for how many periods it stays true: where a whole period was executed on such
numbers, everything in it happens in the same way as often as the `Horizon` says, because every
decision was one of these comparisons. What leaves the form raises NeedsValue, as a value does that
is not known; a result that nobody can follow is `Opaque`, and looking at it raises the same.

Periods may lie in one another: while one of an outer loop is executed on such numbers, one of an
inner loop may be too. Each has a level, from 1 on, and the value of a number of one level may be a
number of a lower one. So what a comparison in the inner loop proves for so many of its periods, it
proves for so many periods of the outer one."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, NoReturn, TypeVar

# Values that are not known, in a run without values: they can be carried around, not looked at.


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


NO_LINE = Unknown("the number of the round, in a way that is no straight line")
"""Why an affine number could not be followed."""

ENDLESS = 1 << 62
"""More periods than any run has."""


class Horizon:
    """For how many periods from now on every comparison so far turns out the same, by level."""

    levels: list[int] = []  # noqa: RUF012 - of the periods that are being executed
    few: int = 0
    """Periods that a quotient has to stay for it to be followed."""

    @classmethod
    def begin(cls, few: int = 0) -> int:
        """Begin a period inside of those that are being executed; return its level."""
        cls.levels.append(ENDLESS)
        cls.few = few
        return len(cls.levels)

    @classmethod
    def end(cls) -> int:
        """End the innermost period; return for how many more its comparisons hold."""
        return cls.levels.pop()

    @classmethod
    def note(cls, level: int, margin: Any, step: int, *, is_open: bool) -> bool:
        """Return if a margin that grows by `step` is positive (`is_open`) or not negative now, and
        note how long that holds."""
        least = 1 if is_open else 0
        holds = margin >= least
        if holds and step < 0:
            cls._most(level, margin - least, -step)
        elif not holds and step > 0:
            cls._most(level, least - 1 - margin, step)
        return holds

    @classmethod
    def note_equal(cls, level: int, margin: Any, step: int) -> bool:
        """Return if a margin is zero now, and note how long that holds."""
        is_zero = margin == 0
        if step and is_zero:
            cls._most(level, 0, 1)
        elif step and (margin.__class__ is Affine or margin % step == 0):
            room = (-margin if step > 0 else margin) - 1
            if room >= 0:
                cls._most(level, room, abs(step))
        return is_zero

    @classmethod
    def _most(cls, level: int, room: Any, step: int) -> None:
        """No more periods than steps fit into a room. Where the room moves with an outer loop, it
        is taken to be no larger than it is for a while: now, or half of that if it sinks."""
        known = cls.levels[level - 1]
        periods = now(room) // step
        if room.__class__ is Affine:
            periods = min(known, periods // 2 if _sinks(room) else periods)
            _ = room >= periods * step  # noted for the outer loops
        if periods < known:
            cls.levels[level - 1] = periods


class Affine:
    """A number of this period, and what it gains in each: never zero."""

    __slots__ = ("level", "step", "value")

    def __init__(self, value: Any, step: int, level: int = 1) -> None:
        self.value = value
        self.step = step
        self.level = level

    # -- what stays a straight line ----------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        pair = _pair(self, other)
        if pair is None:
            return NotImplemented
        level, value, step, more, gain = pair
        return line(value + more, step + gain, level)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        pair = _pair(self, other)
        if pair is None:
            return NotImplemented
        level, value, step, less, loss = pair
        return line(value - less, step - loss, level)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        pair = _pair(self, other)
        if pair is None:
            return NotImplemented
        level, value, step, factor, moved = pair
        if step and moved:
            raise NeedsValue(NO_LINE)
        gain = step * factor if step else value * moved
        if gain.__class__ is Affine:
            raise NeedsValue(NO_LINE)
        return line(value * factor, gain, level)

    __rmul__ = __mul__

    def __neg__(self) -> Affine:
        return Affine(-self.value, -self.step, self.level)

    def __pos__(self) -> Affine:
        return self

    def __abs__(self) -> Affine:
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
        stays the same for some periods, which is noted. Where these are few, both are no straight
        line: they may only be places that nobody looks at."""
        if not isinstance(other, int) or other == 0:
            raise NeedsValue(NO_LINE)
        quotient, rest = self.value // other, self.value % other
        if self.step % other == 0:
            return line(quotient, self.step // other, self.level), rest
        at = abs(now(rest))
        left = abs(other) - 1 - at if (self.step > 0) == (other > 0) else at
        if left < Horizon.few * abs(self.step):
            raise NeedsValue(NO_LINE)
        moved = Affine(rest, self.step, self.level)
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
        pair = _pair(self, other)
        if pair is None:
            return NotImplemented
        level, value, step, than, gain = pair
        margin = sign * (value - than)
        return Horizon.note(level, margin, sign * (step - gain), is_open=is_open)

    def __eq__(self, other: object) -> Any:
        pair = _pair(self, other)
        if pair is None:
            return NotImplemented
        level, value, step, than, gain = pair
        return Horizon.note_equal(level, value - than, step - gain)

    def __ne__(self, other: object) -> Any:
        same = self.__eq__(other)
        return same if same is NotImplemented else not same

    def __bool__(self) -> bool:
        return not Horizon.note_equal(self.level, self.value, self.step)

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
        return format(now(self), spec)


class Opaque(Unknown):
    """A value of this period of which nobody knows how it moves: it can be carried, not looked
    at."""

    __slots__ = ("level", "value")

    def __init__(self, value: Any, level: int = 1) -> None:
        super().__init__(NO_LINE.origin)
        self.value = value
        self.level = level

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


def line(value: Any, step: int, level: int = 1) -> Any:
    """Return a number that gains `step` a period; one that gains nothing is what it is."""
    return Affine(value, step, level) if step else value


def is_same(first: Any, second: Any) -> bool:
    """True for numbers that are equal in every period of every level; nothing is noted."""
    distance = first - second
    return distance.__class__ is int and distance == 0


def now(value: Any) -> Any:
    """Return what a value is in this period, of all levels: tuples of numbers keep their kind."""
    kind = value.__class__
    if kind is int:
        return value
    while kind is Affine or kind is Opaque:
        value = value.value
        kind = value.__class__
    return _in_parts(value, now)


def settled(value: Any, level: int) -> Any:
    """Return what a value is in this period of a level; what a lower one moves still moves."""
    return later(value, level, 0)


def later(value: Any, level: int, periods: int) -> Any:
    """Return what a value is so many periods of a level later."""
    kind = value.__class__
    if kind is int:
        return value
    if kind is Affine:
        return value.value + value.step * periods if value.level == level else value
    if kind is Opaque:
        return value.value if value.level == level else value
    return _in_parts(value, lambda part: later(part, level, periods))


def _in_parts(value: Any, of: Callable[[Any], Any]) -> Any:
    if isinstance(value, tuple) and any(map(moves, value)):
        parts = map(of, value)
        return value.__class__(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def moves(value: Any) -> bool:
    """True for a value that is, or contains, one of this period only."""
    kind = value.__class__
    if kind is int:
        return False
    if kind is Affine or kind is Opaque:
        return True
    return isinstance(value, tuple) and any(map(moves, value))


def step_of(value: Any, level: int) -> int:
    """Return what a number gains in a period of a level."""
    while value.__class__ is Affine:
        if value.level == level:
            return value.step
        value = value.value
    return 0


def _sinks(value: Any) -> bool:
    """True for a number that becomes less in the periods of a level."""
    while value.__class__ is Affine:
        if value.step < 0:
            return True
        value = value.value
    return False


def _pair(one: Affine, other: Any) -> tuple[int, Any, int, Any, int] | None:
    """The higher level of two numbers, and for each the value and the step at that level."""
    if other.__class__ is Affine:
        if other.level == one.level:
            return one.level, one.value, one.step, other.value, other.step
        if other.level < one.level:
            return one.level, one.value, one.step, other, 0
        return other.level, one, 0, other.value, other.step
    return (one.level, one.value, one.step, int(other), 0) if isinstance(other, int) else None


State = TypeVar("State")


class Finder(Generic[State]):
    """The states of the rounds of a loop so far. With `is_even` a period has to have come twice,
    from the first to the second and to the third of three states; without, states that have one key
    are equal, and once is enough."""

    def __init__(self, is_even: Callable[[State, State, State], bool] | None = None) -> None:
        self.states: list[State] = []
        self._is_even = is_even
        self._rounds: dict[Hashable, list[int]] = {}

    def look(self, key: Hashable, state: State) -> int:
        """Add the state of the next round; return the fewest rounds of a period that ends with it,
        0 if there is none."""
        at = len(self.states)
        self.states.append(state)
        seen = self._rounds.setdefault(key, [])
        found = next((at - b for b in reversed(seen) if self._is_period(at, at - b)), 0)
        seen.append(at)
        return found

    def apart(self, rounds: int, count: int) -> list[State]:
        """Return so many states, the last one at the end, which lie a number of rounds apart."""
        return self.states[-1 - rounds * (count - 1) :: rounds]

    def clear(self) -> None:
        """Forget all states."""
        self.states.clear()
        self._rounds.clear()

    def _is_period(self, at: int, rounds: int) -> bool:
        if self._is_even is None:
            return True
        if at < 2 * rounds:
            return False
        states = self.states
        return self._is_even(states[at - 2 * rounds], states[at - rounds], states[at])
