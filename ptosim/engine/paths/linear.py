"""What can be said of a form for every assignment: a sum of symbols, its range, and that a decision
cannot turn out another way. Whole numbers that leave 64 bits are left aside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ptosim.engine.paths.forms import Computed, Form, Round, Symbol, Unknowable, range_of
from ptosim.ground.records import NamedTuple

FAR = 1 << 63
_MOST = 12
"""Facts of a path that are combined with what is asked."""
_DEEP = 40
_NOT = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}


class Linear(NamedTuple):
    """A whole-number combination of atoms (symbols, and forms that are no sum) and a constant."""

    terms: dict[Any, int]
    constant: int

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """Return the sum with a multiple of another one."""
        terms = dict(self.terms)
        for atom, count in other.terms.items():
            terms[atom] = terms.get(atom, 0) + factor * count
            if not terms[atom]:
                del terms[atom]
        return Linear(terms, self.constant + factor * other.constant)

    def times(self, factor: int) -> Linear:
        """Return a multiple of it."""
        return Linear({}, 0).plus(self, factor)


def linear_of(part: Any, deep: int = 0) -> Linear:
    """Return a form or a number as a sum of atoms."""
    if isinstance(part, Unknowable):
        return Linear({part.symbol: 1}, 0)
    if not isinstance(part, Form):
        return Linear({}, int(part))
    if deep > _DEEP:
        return Linear({part: 1}, 0)
    made = None
    if isinstance(part, Round):
        step = linear_of(part.step, deep + 1)
        lower = linear_of(part.lower, deep + 1)
        made = lower.plus(step, part.number)
    elif isinstance(part, Computed):
        made = _computed(part, deep + 1)
    return Linear({part: 1}, 0) if made is None else made


def _computed(part: Computed, deep: int) -> Linear | None:
    word = part.word
    if word == "cast":
        inner = linear_of(part.sources[0], deep)
        return inner if part.dtype is None or _fits(inner, part, deep) else None
    if word not in ("add", "sub", "mul"):
        return None
    one, other = (linear_of(source, deep) for source in part.sources)
    if word == "mul":
        if one.terms and other.terms:
            return None
        made = one.times(other.constant) if not other.terms else other.times(one.constant)
    else:
        made = one.plus(other, 1 if word == "add" else -1)
    return made if _fits(made, part, deep) else None


def _fits(made: Linear, part: Computed, deep: int) -> bool:
    """True if the result cannot wrap around; of 64 bits that is taken for granted."""
    if part.dtype is None or (part.dtype.bits or 64) >= 64:
        return True
    low, high = range_of_sum(made, deep)
    least, most = range_of(part.dtype)
    return least <= low and high <= most


def range_of_sum(made: Linear, deep: int = 0) -> tuple[int, int]:
    """Return the least and the largest value of a sum."""
    low = high = made.constant
    for atom, count in made.terms.items():
        ends = [count * end for end in _range(atom, deep)]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _range(atom: Any, deep: int) -> tuple[int, int]:
    if isinstance(atom, Symbol):
        return atom.low, atom.high
    whole = (-FAR, FAR - 1)
    if not isinstance(atom, Computed) or deep > _DEEP:
        return whole
    if atom.dtype is not None:
        whole = range_of(atom.dtype)
    if len(atom.sources) != 2:
        return whole
    one, other = (range_of_sum(linear_of(s, deep + 1), deep + 1) for s in atom.sources)
    found = _of_word(atom.word, one, other)
    return whole if found is None else (max(found[0], whole[0]), min(found[1], whole[1]))


def _of_word(word: str, one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int] | None:
    is_plain = one[0] >= 0 and other[0] >= 0
    if word.endswith("u"):
        word = word[:-1]
        if not is_plain:
            return (0, other[1] - 1) if word == "mod" and other[0] > 0 else None
    match word:
        case "min":
            return min(one[0], other[0]), min(one[1], other[1])
        case "max":
            return max(one[0], other[0]), max(one[1], other[1])
        case "div" | "floordiv" | "ceildiv" if is_plain and other[0] > 0:
            up = other[0] - 1 if word == "ceildiv" else 0
            return one[0] // other[1], (one[1] + up) // other[0]
        case "rem" | "mod" if is_plain and other[0] > 0:
            return 0, min(one[1], other[1] - 1)
        case "rem" if other[0] > 0:
            return max(one[0], 1 - other[1]) if one[0] < 0 else 0, min(max(one[1], 0), other[1] - 1)
        case "and" if is_plain:
            return 0, min(one[1], other[1])
        case "mul":
            ends = [a * b for a in one for b in other]
            return min(ends), max(ends)
    return None


# -- decisions -------------------------------------------------------------------------------------


def facts_of(form: Any, outcome: Any) -> list[Linear]:
    """Return sums that are at least 0 where a truth value turns out that way: some of them."""
    if not isinstance(form, Computed) or not isinstance(outcome, (bool, int)):
        return []
    word = form.word
    if word == "cast":
        return facts_of(form.sources[0], bool(outcome))
    if word == "and" and outcome and form.dtype is not None and form.dtype.name == "i1":
        return [f for source in form.sources for f in facts_of(source, True)]
    if word == "or" and not outcome and form.dtype is not None and form.dtype.name == "i1":
        return [f for source in form.sources for f in facts_of(source, False)]
    return _compared(form, bool(outcome))


def _compared(form: Computed, outcome: bool) -> list[Linear]:
    word = form.word
    if len(form.sources) != 2:
        return []
    if word.endswith("u") and word[:-1] in _NOT:
        sides = [range_of_sum(linear_of(s)) for s in form.sources]
        if min(side[0] for side in sides) < 0:
            return []
        word = word[:-1]
    if word not in _NOT:
        return []
    one, other = map(linear_of, form.sources)
    more = one.plus(other, -1)  # one - other
    match word if outcome else _NOT[word]:
        case "lt":
            return [Linear({}, -1).plus(more, -1)]
        case "le":
            return [more.times(-1)]
        case "gt":
            return [more.plus(Linear({}, -1))]
        case "ge":
            return [more]
        case "eq":
            return [more, more.times(-1)]
    return []


def cannot_be(form: Any, outcome: Any, before: Sequence[Linear] = ()) -> bool:
    """True if no assignment makes a truth value turn out that way where the sums of `before` are at
    least 0: shown by ranges and sums of two of them, so False says nothing."""
    if not isinstance(form, Computed):
        return False
    if form.word == "cast" and form.sources[0].__class__ is Computed:
        return cannot_be(form.sources[0], outcome, before)
    is_logical = form.dtype is not None and form.dtype.name == "i1"
    if is_logical and form.word in ("and", "or"):
        ways = [cannot_be(source, outcome, before) for source in form.sources]
        return any(ways) if (form.word == "and") == bool(outcome) else all(ways)
    word = form.word.removesuffix("u")
    if word in ("eq", "ne") and (word == "eq") != bool(outcome):
        return _is_zero(form)  # they differ
    return any(_is_negative(fact, before) for fact in facts_of(form, outcome))


def _is_zero(form: Computed) -> bool:
    one, other = map(linear_of, form.sources)
    return one.plus(other, -1) == Linear({}, 0)


def _is_negative(asked: Linear, before: Iterable[Linear]) -> bool:
    """True if a sum is below 0 wherever those of `before` are not."""
    if range_of_sum(asked)[1] < 0:
        return True
    near = [f for f in before if not f.terms.keys().isdisjoint(asked.terms)][-_MOST:]
    for at, first in enumerate(near):
        made = asked.plus(first)
        if range_of_sum(made)[1] < 0:
            return True
        if any(range_of_sum(made.plus(second))[1] < 0 for second in near[at:]):
            return True
    return False
