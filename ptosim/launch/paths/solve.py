"""Finds values under which a decision turns out another way, or a bound holds: by trying."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain, product
from typing import TYPE_CHECKING, Any

from ptosim.engine.paths.forms import (
    CANNOT,
    COUNT,
    INDEX,
    Assignment,
    Env,
    Form,
    NoRound,
    Symbol,
    constants_of,
)
from ptosim.engine.paths.noted import Course, Decision, Limit

if TYPE_CHECKING:
    from ptosim.launch.paths.facts import Facts

from ptosim.engine.paths.forms import Computed, Round, Unknowable, range_of
from ptosim.ground.records import NamedTuple

MOST = 400
"""Assignments that are tried for one decision."""
_SMALL = (0, 1, 2, 3, 4, 7, 8, 15, 16, 17)
_PAIRS = 18
_SMALL_ENOUGH = 4
_ASKED, _BOUNDS = 6, 16
"""Assignments of which bounds are asked, too, and how many bounds."""
_NEAR = 24
"""Decisions before one that are asked what they say of it, and whether they would stay."""


class Space:
    """Which assignments occur: an index is less than its count, and what is assumed holds."""

    def __init__(self, facts: Facts | None = None) -> None:
        self.facts = facts
        self._pairs: dict[tuple[Symbol, ...], list[tuple[Symbol, Symbol]]] = {}

    def known(self, symbol: Symbol) -> Symbol:
        """Return a symbol with the range that is assumed for it."""
        return symbol if self.facts is None else self.facts.of_symbol(symbol)

    def start(self, symbols: Iterable[Symbol]) -> Assignment:
        """Return the values of the first run. Raises UsageError where no values are inside."""
        if self.facts is None:
            return {symbol: symbol.default for symbol in symbols}
        return self.facts.start(symbols)

    def fits(self, tried: Assignment, *, steps: bool = True) -> Assignment | None:
        """Return an assignment with counts above their indices; None if it does not occur. Without
        `steps` any number takes the place of a multiple."""
        symbols = (*tried,)
        pairs = self._pairs.get(symbols)
        if pairs is None:
            by_name = {symbol.name: symbol for symbol in symbols}
            pairs = [(s, by_name[s.below]) for s in symbols if s.below in by_name]
            self._pairs[symbols] = pairs
        made = tried
        for symbol, count in pairs:
            value = made[symbol]
            if made[count] <= value:
                made = {**made, count: value + 1}
                if value >= count.high:
                    return None
        return made if self.facts is None or self.facts.hold(made, steps=steps) else None

    def values(self, symbol: Symbol) -> list[int]:
        """Values that what is assumed speaks of."""
        is_told = self.facts is not None and self.facts.values_of(symbol)
        return self.facts.values(symbol) if self.facts is not None and is_told else []


def facts_of_symbols(symbols: Iterable[Symbol]) -> list[Linear]:
    """What holds for symbols whatever they are: an index is less than its count."""
    by_name = {symbol.name: symbol for symbol in symbols}
    pairs = [(s, by_name[s.below]) for s in by_name.values() if s.below in by_name]
    return [Linear({count: 1, symbol: -1}, -1) for symbol, count in pairs]


def is_forced(decision: Decision, earlier: Sequence[Decision], known: Sequence[Linear]) -> bool:
    """True if after the earlier decisions of its path a decision cannot turn out another way."""
    if not decision.form.own:
        return True
    if not isinstance(decision.outcome, bool):
        return False
    if any(_inner(d.form) is _inner(decision.form) for d in earlier):
        return True
    near = [d for d in earlier if d.form.symbols & decision.form.symbols]
    facts = [*known, *(f for d in near[-_NEAR:] for f in facts_of(d.form, d.outcome))]
    return cannot_be(decision.form, not decision.outcome, facts)


def _inner(form: Any) -> Any:
    """What a truth is made of."""
    return _inner(form.sources[0]) if getattr(form, "word", "") == "cast" else form


def flipped(
    decision: Decision,
    outcomes: Collection[Any],
    earlier: Sequence[Decision],
    limits: Sequence[Limit],
    base: Assignment,
    space: Space,
) -> Assignment | None:
    """Return an assignment near `base` under which `decision` has none of `outcomes`, and as many
    of the earlier decisions and bounds that share a symbol with it hold as may be; None if none of
    those tried does."""

    def turns(tried: Assignment) -> bool:
        try:
            return decision.form.value(Env(tried)) not in outcomes
        except (*CANNOT, NoRound):
            return False

    wanted = facts_of(decision.form, not decision.outcome) if _is_truth(decision) else []
    return _found([decision.form], turns, earlier, limits, base, wanted, space)


def _is_truth(decision: Decision) -> bool:
    return isinstance(decision.outcome, bool)


def meeting(
    limit: Limit, earlier: Sequence[Decision], base: Assignment, space: Space
) -> Iterator[Assignment]:
    """Yield assignments near `base` that meet a bound, those that keep the path first."""
    forms = list(limit.operands.values())
    kept = Course([d for d in earlier if d.form.symbols & limit.symbols])
    later: list[tuple[int, Assignment]] = []
    for tried in sorted(tries(forms, base, space), key=lambda t: _size(t, base)):
        wrong = kept.wrong(tried)
        if wrong:
            later.append((wrong, tried))
        elif limit.is_met(tried):
            yield tried
    for _, tried in sorted(later, key=lambda pair: pair[0]):
        if limit.is_met(tried):
            yield tried


def _found(
    forms: list[Form],
    turns: Callable[[Assignment], bool],
    earlier: Sequence[Decision],
    limits: Sequence[Limit],
    base: Assignment,
    wanted: Sequence[Linear],
    space: Space,
) -> Assignment | None:
    symbols = frozenset().union(*(form.symbols for form in forms))
    kept = Course([d for d in earlier if d.form.symbols & symbols][-_NEAR:])
    bounds = first_ones(limit for limit in limits if limit.symbols & symbols)

    best, least, asked = None, None, 0
    for tried in chain(_roots(wanted, base, space), tries(forms, base, space)):
        if not turns(tried):
            continue
        count = kept.wrong(tried)
        if count == 0 and asked < _ASKED:
            asked += 1
            count = sum(limit.is_met(tried) is False for limit in bounds)
        elif count == 0:
            break
        if least is None or count < least:
            best, least = tried, count
        if count == 0:
            break
    if best is None:
        return None
    most = kept.wrong(best)
    is_good = lambda t: turns(t) and kept.wrong(t) <= most and space.fits(t) is not None  # noqa: E731
    made = _smaller(best, base, is_good)
    is_worse = any(limit.is_met(made) is False and limit.is_met(best) for limit in bounds)
    return best if is_worse else made


def first_ones(limits: Iterable[Limit]) -> list[Limit]:
    """Of each instruction one bound: to ask it means to execute it again."""
    found: dict[int, Limit] = {}
    for limit in limits:
        found.setdefault(limit.inst.pc, limit)
    return list(found.values())[:_BOUNDS]


def _smaller(
    tried: Assignment, base: Assignment, is_good: Callable[[Assignment], bool]
) -> Assignment:
    """An assignment that is as good, with smaller values: long loops cost time, and tell no more.
    Of each symbol that moved, the value before, then powers of two, then between them."""
    made = dict(tried)
    for symbol in sorted(made, key=lambda s: s.name):
        now, before = made[symbol], base.get(symbol, symbol.default)
        if now <= max(before, _SMALL_ENOUGH) or symbol.kind in (INDEX, COUNT):
            continue
        low = before
        for value in (before, *(1 << p for p in range(31) if before < 1 << p < now)):
            if is_good({**made, symbol: value}):
                made[symbol] = value
                break
            low = value
        while made[symbol] - low > 1 and made[symbol] > _SMALL_ENOUGH:
            middle = (low + made[symbol]) // 2
            if is_good({**made, symbol: middle}):
                made[symbol] = middle
            else:
                low = middle
    return made


def _roots(wanted: Sequence[Linear], base: Assignment, space: Space) -> Iterator[Assignment]:
    """Assignments at which a sum of symbols just is 0, each symbol moved by itself."""
    for fact in wanted:
        if not all(isinstance(atom, Symbol) for atom in fact.terms):
            continue
        now = fact.constant + sum(c * base.get(s, s.default) for s, c in fact.terms.items())
        for symbol, count in sorted(fact.terms.items(), key=lambda t: t[0].name):
            missing = -now if count > 0 else now
            value = base.get(symbol, symbol.default) + -(-missing // abs(count)) * (
                1 if count > 0 else -1
            )
            if symbol.low <= value <= symbol.high:
                tried = space.fits({**base, symbol: value})
                if tried is not None:
                    yield tried


def tries(forms: list[Form], base: Assignment, space: Space) -> Iterator[Assignment]:
    """Assignments to the symbols of forms: each by itself, then in pairs."""
    symbols = sorted(frozenset().union(*(f.symbols for f in forms)), key=lambda s: s.name)
    constants = list(dict.fromkeys(c for form in forms for c in constants_of(form)))

    @cache
    def values(symbol: Symbol) -> list[int]:
        return list(dict.fromkeys((*space.values(symbol), *_values(symbol, constants, base))))

    count = 0
    for symbol in symbols:
        for value in values(symbol)[: max(MOST // len(symbols), _PAIRS)]:
            tried = space.fits({**base, symbol: value})
            if tried is not None:
                yield tried
    yield from _together(symbols, base, space)
    for one, other in ((a, b) for a in symbols for b in symbols if a.name < b.name):
        for first, second in product(values(one)[:_PAIRS], values(other)[:_PAIRS]):
            tried = space.fits({**base, one: first, other: second})
            if tried is not None:
                count += 1
                yield tried
                if count >= 2 * MOST:
                    return


def _together(symbols: Sequence[Symbol], base: Assignment, space: Space) -> Iterator[Assignment]:
    """All symbols that are no place of a core are as large: products and quotients need that."""
    moved = [s for s in symbols if s.kind not in (INDEX, COUNT)]
    if len(moved) < 2:
        return
    for power in range(17):
        tried = space.fits({**base, **{s: min(1 << power, s.high) for s in moved}})
        if tried is not None:
            yield tried


def _values(symbol: Symbol, constants: Sequence[int], base: Assignment) -> Iterable[int]:
    """Values to try, the likely ones first."""
    now = base.get(symbol, symbol.default)
    first, last = _of_constants(tuple(constants))
    near = [now + d for d in (1, -1, 2, -2)]
    near += [v for c in constants[:8] for v in (now + c, now - c)]
    found = dict.fromkeys((*first, *near, *last))
    low, high = symbol.low, symbol.high
    return [v for v in found if low <= v <= high and v != now][:MOST]


@lru_cache(maxsize=64)
def _of_constants(constants: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Values that what forms are computed with speaks of, and small ones: those before and those
    after the ones near the value of now."""
    first: dict[int, None] = dict.fromkeys((0, 1, 2, 3, 4))
    for one in constants:
        first |= dict.fromkeys((one, one + 1, one - 1))
        for other in constants:
            if other not in (0, 1) and one > other:
                first |= dict.fromkeys((one // other, one // other + 1, one // other - 1))
    first |= dict.fromkeys(_SMALL)
    last: dict[int, None] = {}
    for power in range(5, 32):
        last |= dict.fromkeys((1 << power, (1 << power) - 1, (1 << power) + 1))
    for one in constants:
        for other in constants:
            if 0 < abs(one) < 1 << 16 and abs(other) < 1 << 32:
                last |= dict.fromkeys(other + one * k for k in (1, 2, 3, 5, 7))
    last |= dict.fromkeys((*range(5, 33), -1, -2, -8, -16))
    last |= dict.fromkeys(-c for c in constants)
    return list(first), list(last)


def _size(tried: Assignment, base: Assignment) -> int:
    get = base.get
    return sum([abs(value - get(symbol, symbol.default)) for symbol, value in tried.items()])


# What can be said of a form for every assignment: a sum of symbols, its range, and that a decision
# cannot turn out another way. Whole numbers that leave 64 bits are left aside.


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
    if isinstance(part, int):
        return Linear({}, int(part))
    if not isinstance(part, Form):  # of what is unknown, or has a fraction, each one may be another
        return Linear({object(): 1}, 0)
    if deep > _DEEP:
        return Linear({part: 1}, 0)
    made = None
    if isinstance(part, Round):
        made = linear_of(part.first, deep + 1)
        made = made.plus(linear_of(part.gain, deep + 1), part.number)
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


def _tightened(fact: Linear) -> Linear:
    """A sum of which something is assumed to have a remainder, as small as that lets it be at
    least 0."""
    if len(fact.terms) != 1:
        return fact
    ((atom, count),) = fact.terms.items()
    if not isinstance(atom, Symbol) or atom.step == 1:
        return fact
    if count > 0:  # the least value that it lets the symbol have
        least = -(fact.constant // count)
        return Linear({atom: 1}, -(least + (atom.rest - least) % atom.step))
    most = fact.constant // -count
    return Linear({atom: -1}, most - (most - atom.rest) % atom.step)


def _is_negative(asked: Linear, before: Iterable[Linear]) -> bool:
    """True if a sum is below 0 wherever those of `before` are not."""
    if range_of_sum(asked)[1] < 0:
        return True
    asked = _tightened(asked)
    if range_of_sum(asked)[1] < 0:
        return True
    near = [_tightened(f) for f in before if not f.terms.keys().isdisjoint(asked.terms)][-_MOST:]
    for at, first in enumerate(near):
        made = asked.plus(first)
        if range_of_sum(made)[1] < 0:
            return True
        if any(range_of_sum(made.plus(second))[1] < 0 for second in near[at:]):
            return True
    return False
