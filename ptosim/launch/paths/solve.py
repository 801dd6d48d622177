"""Finds values under which a decision turns out another way, or a bound holds: by trying."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product

from ptosim.engine.paths.forms import Assignment, Env, Form, NoRound, Symbol, constants_of
from ptosim.engine.paths.records import CANNOT, Decision, Limit

MOST = 400
"""Assignments that are tried for one decision."""
_SMALL = (0, 1, 2, 3, 4, 7, 8, 15, 16, 17)
_PAIRS = 18


def flipped(
    decision: Decision, earlier: Sequence[Decision], limits: Sequence[Limit], base: Assignment
) -> Assignment | None:
    """Return an assignment near `base` under which `decision` turns out another way, and as many
    of the earlier decisions and bounds that share a symbol with it hold as may be; None if none of
    those tried does."""

    def turns(tried: Assignment) -> bool:
        try:
            return bool(decision.form.value(Env(tried)) != decision.outcome)
        except (*CANNOT, NoRound):
            return False

    return _found([decision.form], turns, earlier, limits, base)


def meeting(limit: Limit, earlier: Sequence[Decision], base: Assignment) -> Iterator[Assignment]:
    """Yield assignments near `base` that meet a bound, those that keep the path first."""
    forms = list(limit.operands.values())
    kept = [d for d in earlier if d.form.symbols & limit.symbols]
    found = [t for t in _tries(forms, base) if limit.is_met(t)]
    found.sort(key=lambda t: (sum(not d.holds(Env(t)) for d in kept), _size(t, base)))
    yield from found


def _found(
    forms: list[Form],
    turns: Callable[[Assignment], bool],
    earlier: Sequence[Decision],
    limits: Sequence[Limit],
    base: Assignment,
) -> Assignment | None:
    symbols = frozenset().union(*(form.symbols for form in forms))
    kept = [d for d in earlier if d.form.symbols & symbols]
    bounds = [limit for limit in limits if limit.symbols & symbols]
    best, least = None, None
    for tried in _tries(forms, base):
        if not turns(tried):
            continue
        env = Env(tried)
        wrong = sum(not d.holds(env) for d in kept)
        wrong += sum(limit.is_met(tried) is False for limit in bounds)
        if least is None or wrong < least:
            best, least = tried, wrong
        if wrong == 0:
            break
    return best


def _tries(forms: list[Form], base: Assignment) -> Iterator[Assignment]:
    """Assignments to the symbols of forms: each by itself, then in pairs."""
    symbols = sorted(frozenset().union(*(f.symbols for f in forms)), key=lambda s: s.name)
    constants = list(dict.fromkeys(c for form in forms for c in constants_of(form)))
    values = {s: list(_values(s, constants, base)) for s in symbols}
    count = 0
    for symbol in symbols:
        for value in values[symbol]:
            tried = consistent({**base, symbol: value})
            if tried is not None:
                count += 1
                yield tried
                if count >= MOST:
                    return
    for one, other in ((a, b) for a in symbols for b in symbols if a.name < b.name):
        for first, second in product(values[one][:_PAIRS], values[other][:_PAIRS]):
            tried = consistent({**base, one: first, other: second})
            if tried is not None:
                count += 1
                yield tried
                if count >= 2 * MOST:
                    return


def _values(symbol: Symbol, constants: Sequence[int], base: Assignment) -> Iterable[int]:
    """Values to try, the likely ones first."""
    now = base.get(symbol, symbol.default)
    found: dict[int, None] = dict.fromkeys((0, 1, 2, 3, 4))
    for one in constants:
        found |= dict.fromkeys((one, one + 1, one - 1))
        for other in constants:
            if other not in (0, 1) and one > other:
                found |= dict.fromkeys((one // other, one // other + 1, one // other - 1))
    found |= dict.fromkeys(_SMALL)
    found |= dict.fromkeys(now + d for d in (1, -1, 2, -2))
    found |= dict.fromkeys(v for c in constants[:8] for v in (now + c, now - c))
    for power in range(5, 32):
        found |= dict.fromkeys((1 << power, (1 << power) - 1, (1 << power) + 1))
    for one in constants:
        for other in constants:
            if 0 < abs(one) < 1 << 16 and abs(other) < 1 << 32:
                found |= dict.fromkeys(other + one * k for k in (1, 2, 3, 5, 7))
    found |= dict.fromkeys((*range(5, 33), -1, -2, -8, -16))
    found |= dict.fromkeys(-c for c in constants)
    return [v for v in found if symbol.low <= v <= symbol.high and v != now][:MOST]


def consistent(tried: Assignment) -> Assignment | None:
    """Return an assignment with counts above their indices; None if an index has no room."""
    made = dict(tried)
    by_name = {symbol.name: symbol for symbol in made}
    for symbol, value in tried.items():
        count = by_name.get(symbol.below)
        if count is not None and made[count] <= value:
            made[count] = value + 1
    return made


def _size(tried: Assignment, base: Assignment) -> int:
    return sum(abs(value - base.get(symbol, symbol.default)) for symbol, value in tried.items())
