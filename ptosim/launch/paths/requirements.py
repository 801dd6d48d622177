"""What a kernel requires of its caller: bounds that depend on what only the caller knows.

A bound is a check of an instruction that can be asked again with other operands. So what it
requires is found by asking: the values around one that meets it, of one symbol the range, of two
the line between them, which is tried on other pairs before it is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

from ptosim.engine.core.bound import Kind
from ptosim.engine.paths.forms import (
    COUNT,
    DATA,
    INDEX,
    Computed,
    Env,
    Likeness,
    Round,
    Symbol,
    parts_of,
)
from ptosim.engine.paths.noted import Course, Decision, Limit
from ptosim.ground.records import NamedTuple
from ptosim.language.frontend import Front
from ptosim.launch.paths.explore import Explored, PathRun, is_loop, line_of
from ptosim.launch.paths.requirement import (
    Met,
    Requirement,
    is_allowed,
    is_between,
    multiple,
)
from ptosim.launch.paths.solve import Space, linear_of

MOST_BOUNDS = 64
"""Bounds of an entry that are asked."""
_IN_VAIN = 2
"""Bounds of a kind that are asked without an answer."""
_MOST_SYMBOLS = 5
_ASKED = 128
"""Assignments among which one that breaks a bound is looked for."""
_FAR = 1 << 40
"""A bound farther away is one of the type, not of the kernel."""
_NEAR = 8
_Pair = tuple[Limit, PathRun]
_PROBES = (0, 1, 2, 3, 5, 9, 17, 33, 100, 1000, 5000, 100_000, 1 << 24, -1, -9, -100, -1000)
_GUARDED = (*range(40, 136, 8), *(n + 1 for n in range(40, 136, 8)), 144, 145, 192, 193, 256, 257,
            384, 385, 512, 513, 999, 1024, 1025, 4999, 65_537)  # fmt: skip
"""What a bound is asked with, too, that branches keep from rounds: few numbers may reach it."""


def requirements_of(front: Front, entry: str, explored: Explored) -> list[Requirement]:
    """Return what the bounds of the runs of an entry require, each once, with all its lines."""
    found: dict[tuple[object, ...], Requirement] = {}
    known: Planes = {}
    left: dict[object, int] = {}
    every_kind: dict[object, tuple[Limit, PathRun]] = {}
    for limit, run, kind in _asked(explored):
        if not left.setdefault(kind, _IN_VAIN):
            continue
        when = _conditions(limit, run, explored)
        required = list(required_by(entry, limit, run, explored.space, known))
        every_kind.setdefault(kind, (limit, run))
        left[kind] -= not required
        for made in required:
            if _is_contradicted(made, limit.inst.pc, explored):
                continue
            ways = [*when, *_avoided(made, limit, run, explored.space)]
            made.when = tuple((line_of(front, d.inst), d) for d in ways)
            made.lines = [line_of(front, limit.inst)]
            made.told = _told_by(made, limit, run, explored.space)
            same = found.setdefault(made.key, made)
            if same is not made:
                same.join(made)
    every = [_where_met(explored, pair) for pair in every_kind.values()]
    _ask_more(front, entry, explored, found, every)
    return _of_tables(found.values())


def _ask_more(
    front: Front,
    entry: str,
    explored: Explored,
    found: dict[tuple[object, ...], Requirement],
    every: Sequence[_Pair],
) -> None:
    """See if what is `found` is all that is asked: add multiples, and name lines that ask more."""
    asks = lambda limit, run: _asks(limit, run, explored.space, found.values())  # noqa: E731
    more: dict[int, _Pair] = {}
    for limit, run in every:
        if limit.inst.pc not in more and asks(limit, run):
            more[limit.inst.pc] = limit, run
    if not more:
        return
    from ptosim.launch.paths.multiples import Multiples  # few kernels ask for some

    asked = Multiples(
        found,
        lambda limit, run: _met(limit, run, explored.space),
        lambda limit, run: tuple(_conditions(limit, run, explored)),
        lambda made, limit, run: _told_by(made, limit, run, explored.space),
    )
    asked.add(front, entry, more.values(), every)
    for limit, run in more.values():
        if asks(limit, run):
            explored.unsaid.setdefault(line_of(front, limit.inst), limit.symbols)


def _where_met(explored: Explored, pair: _Pair) -> _Pair:
    """Return a bound in a run that met it: what is assumed of others is not at fault there."""
    limit, _ = pair
    of_inst = explored.limits.get(limit.inst.pc, ())
    met = (p for p in of_inst if p[1].outcome is not None and p[0].symbols == limit.symbols)
    return next(met, pair)


def multiples_by(entry: str, limit: Limit, run: PathRun, space: Space) -> Iterator[Requirement]:
    """Yield of what arguments have to be multiples for one bound of a run, whatever others ask."""
    from ptosim.launch.paths.multiples import multiples  # few kernels ask for some

    yield from multiples(entry, limit, run, _met(limit, run, space))


def _told_by(made: Requirement, limit: Limit, run: PathRun, space: Space) -> list[str]:
    """What a bound tells of the values that break it."""
    values = {s: made.broken_by[s.name] for s in limit.symbols if s.name in made.broken_by}
    assignment = space.fits({**run.assumed, **values})
    told = limit.told(assignment) if assignment is not None else None
    return [told] if told else []


_ELEMENT = re.compile(r"(.+)\[\d+\]")


def _of_tables(required: Iterable[Requirement]) -> list[Requirement]:
    """Join what lines require of several elements of an array alike: it is required of each that
    they read (`table[*]`)."""
    found: dict[tuple[object, ...], list[Requirement]] = {}
    for made in required:
        elements = [name for name in made.terms if _ELEMENT.fullmatch(name)]
        terms = {_every(name): count for name, count in made.terms.items()}
        alike = made.low, made.high, made.multiple, tuple(made.lines), made.key[2]
        key = (tuple(terms.items()), *alike) if len(elements) == 1 else (id(made),)
        found.setdefault(key, []).append(made)
    return [_joined(several) for several in found.values()]


def _every(name: str) -> str:
    element = _ELEMENT.fullmatch(name)
    return f"{element[1]}[*]" if element is not None else name


def _joined(several: Sequence[Requirement]) -> Requirement:
    first = several[0]
    if len(several) > 1:
        first.terms = {_every(name): count for name, count in first.terms.items()}
    return first


def _is_contradicted(made: Requirement, pc: int, explored: Explored) -> bool:
    """True if a run that counts came there with values that would break it: the bound says less."""
    there = {id(run) for _, run in explored.limits.get(pc, ()) if run.outcome is not None}
    met = (
        {s.name: v for s, v in run.noted.symbols.items()}
        for run in explored.valid if id(run) in there
    )  # fmt: skip
    return any(made.holds(values) is False for values in met)


def _conditions(limit: Limit, run: PathRun, explored: Explored) -> list[Decision]:
    """The decisions on other symbols without which a bound is not asked: no run came to it that
    decided another way."""
    seen: dict[int, set[Any]] = {}
    for other, by in explored.limits.get(limit.inst.pc, ()):
        for decision in by.noted.decisions[: other.after]:
            seen.setdefault(decision.inst.pc, set()).add(decision.outcome)
    taken: dict[int, set[Any]] = {}
    for by in explored.runs:
        for decision in by.noted.decisions:
            taken.setdefault(decision.inst.pc, set()).add(decision.outcome)
    found = {
        d.inst.pc: d for d in run.noted.decisions[: limit.after]
        if not d.form.symbols & limit.symbols and not is_loop(d)
        and len(seen.get(d.inst.pc, ())) == 1 < len(taken.get(d.inst.pc, ()))
    }  # fmt: skip
    return list(found.values())


_OUTSIDE = (0, 1, 7, 100, 5000, 1 << 20)


def _avoided(made: Requirement, limit: Limit, run: PathRun, space: Space) -> list[Decision]:
    """The decisions on the symbols of a sum that with some values outside turn out another way, so
    that the bound is not asked."""
    context = {d.inst.pc: d for d in _context(limit, run)} if len(made.terms) > 1 else {}
    symbols = sorted(limit.symbols, key=lambda s: s.name)
    found: dict[int, Decision] = {}
    for values in product(_OUTSIDE, repeat=len(symbols)) if context else ():
        tried = dict(zip(symbols, values, strict=True))
        if made.holds({s.name: v for s, v in tried.items()}) is not False:
            continue
        assignment = space.fits({**run.assumed, **tried})
        if assignment is None or any(assignment[s] != v for s, v in tried.items()):
            continue
        env = Env(assignment)
        found |= {pc: d for pc, d in context.items() if pc not in found and not d.holds(env)}
    return list(found.values())


class _Bound(NamedTuple):
    """A bound to ask, and the run that came to it; those of an instruction that differ in what was
    decided before and in the rounds of loops have the same `kind`."""

    limit: Limit
    run: PathRun
    kind: tuple[object, ...]


def _asked(explored: Explored) -> list[_Bound]:
    """The bounds to ask, each once: of each instruction the first one, then the others. One of a
    later round asks nothing that those of the first two and the last one do not, where what it is
    about moves evenly with the rounds."""
    like, alike = Likeness(), Likeness(rounds=False)
    first, others = list[_Bound](), list[_Bound]()
    for pc, pairs in explored.limits.items():
        known: set[object] = set()
        for limit, run in pairs:
            context = frozenset((like.of(d.form), d.outcome) for d in _context(limit, run))
            same, in_rounds = (_parts(limit, by) for by in (like, alike))
            is_later = (in_rounds, context) in known and _is_later(limit)
            if (same, context) in known or is_later:
                continue
            (others if known else first).append(_Bound(limit, run, (pc, in_rounds, context)))
            known |= {(same, context), (in_rounds, context)}
    return (first + others)[:MOST_BOUNDS]


def _parts(limit: Limit, like: Likeness) -> tuple[object, ...]:
    operands = {slot: like.of(p) for slot, p in (*limit.operands.items(), *limit.others.items())}
    return like, *sorted(operands.items())


def _is_later(limit: Limit) -> bool:
    """True if it is about a round after the second one, and a sum of what is not known."""
    rounds = 0
    for part in parts_of(*limit.operands.values()):
        atoms = linear_of(part).terms if isinstance(part, Computed) else ()
        if not all(isinstance(atom, Symbol) for atom in atoms):
            return False
        rounds += part.number if isinstance(part, Round) else 0
    return rounds > 1


def _context(limit: Limit, run: PathRun) -> list[Decision]:
    """The decisions before a bound, but for those of loops: what is in a loop is asked of its
    first and of its last round."""
    before = run.noted.decisions[: limit.after]
    return [
        d for d in before
        if d.form.own & limit.symbols and not is_loop(d) and d.inst.kind is not Kind.ACTION
        and d.inst.kind is not Kind.EXEC  # of which flag or place something is, any may be
    ]  # fmt: skip


def _course(limit: Limit, run: PathRun) -> Course:
    """The decisions before a bound, without those that are asked with it of its round."""
    guards = {d.inst.pc for d in limit.guards}
    return Course([d for d in _context(limit, run) if d.inst.pc not in guards])


def required_by(
    entry: str, limit: Limit, run: PathRun, space: Space, known: Planes | None = None
) -> Iterator[Requirement]:
    """Yield what a bound of a run requires, found by asking it with other values; edges of bounds
    on the same symbols that are `known` are asked first."""
    symbols = sorted(limit.symbols, key=lambda s: s.name)
    met = _met(limit, run, space)
    base = run.assumed
    if len(symbols) == 1:
        (symbol,) = symbols
        occurs = lambda v: space.fits({**base, symbol: v}) is not None  # noqa: E731
        made = _range(entry, symbol, met, [v for v in space.values(symbol) if occurs(v)])
        if made is not None:
            yield made
    elif len(symbols) <= _MOST_SYMBOLS:
        yield from _planes(entry, symbols, met, {} if known is None else known)


def _met(limit: Limit, run: PathRun, space: Space) -> Met:
    """Return what says if a bound of a run is met with other values of its symbols."""
    context = _course(limit, run)
    symbols = sorted(limit.symbols, key=lambda s: s.name)
    base = run.assumed
    has_gaps = space.facts is not None and any(fact.has_gaps for fact in space.facts.facts)
    answers: dict[tuple[int | None, ...], bool | None] = {}

    def met(tried: dict[Symbol, int]) -> bool | None:
        key = tuple([tried.get(symbol) for symbol in symbols])
        if key not in answers:
            answers[key] = asked(tried)
        return answers[key]

    def asked(tried: dict[Symbol, int]) -> bool | None:
        assignment = space.fits({**base, **tried}, steps=not has_gaps)
        if assignment is None or not tried.items() <= assignment.items():
            return None  # does not occur: an index beyond its count
        return limit.is_met(assignment, is_guarded=True) if context.holds(assignment) else None

    return met


def _asks(limit: Limit, run: PathRun, space: Space, known: Iterable[Requirement]) -> bool:
    """True if numbers break a bound, and nothing that is known to be required."""
    base = run.assumed
    context = _course(limit, run)
    probes = (*_PROBES[:-4], *(_GUARDED if limit.guards else ()))
    for symbol, value in product(sorted(limit.symbols, key=lambda s: s.name), probes):
        if not is_allowed(symbol, value):
            continue
        tried = space.fits({**base, symbol: value})
        if tried is None or not context.holds(tried):
            continue
        values = {s.name: tried[s] for s in limit.symbols if s in tried}  # of others it is not
        is_known = any(made.holds(values) is False for made in known)
        if not is_known and limit.is_met(tried, is_guarded=True) is False:
            return True
    return False


def _kind(symbols: Sequence[Symbol]) -> str:
    kinds = {s.kind for s in symbols}
    if DATA in kinds:
        return DATA
    return INDEX if kinds == {INDEX} else "argument"


def _range(entry: str, symbol: Symbol, met: Met, known: Sequence[int]) -> Requirement | None:
    """The values of one symbol that meet a bound, around the least one from 0 on that does; `known`
    are values that are assumed to occur."""
    at = lambda v: met({symbol: v}) is not False  # noqa: E731
    tried = [v for v in _PROBES if v >= 0 and is_allowed(symbol, v)]
    holds = {v: at(v) for v in (*tried, *(v for v in (-1,) if v >= symbol.low))}
    if all(holds.values()):
        return None
    name, kind = symbol.name, _kind([symbol])
    step = multiple(symbol, at)
    if step is not None:
        return Requirement(entry, {name: 1}, None, None, kind, {name: 1}, [], step)
    asked = [v for v in tried if met({symbol: v})]  # of others the path does not come there
    inside = next(iter(asked or [v for v in tried if holds[v]]), None)
    if inside is None:
        return None
    low, high = (_edge(symbol, inside, sign, lambda v: met({symbol: v})) for sign in (-1, 1))
    if low in (None, 1) and holds.get(0) is False and inside == 1:
        low = 1  # a divisor: of numbers below 0 nothing is said
        holds = {value: is_met for value, is_met in holds.items() if value >= 0}
    if low is None and high is None:
        return None
    if any(h != is_between(v, low, high) for v, h in holds.items()):
        return None  # no range: nothing that a line says
    outside = high + 1 if high is not None else (low or 0) - 1
    if high is None and low is not None and low > 0:
        outside = low - 1
    away = (symbol.rest - outside) % symbol.step
    outside += away if high is not None or not away else away - symbol.step
    outside = next((v for v in known if not is_between(v, low, high)), outside)
    return Requirement(entry, {name: 1}, low, high, kind, {name: outside})


def _edge(
    symbol: Symbol,
    inside: int,
    sign: int,
    at: Callable[[int], bool | None],
    likely: Iterable[int] = (),
) -> int | None:
    """The last value in a direction that still meets a bound, before one that does not; None if it
    is as far as the type, or if what is beyond does not come to the bound."""
    far = min(max(inside + sign * (_FAR - 1), symbol.low), symbol.high)
    if far == inside or (at(far) and at(far - sign)):
        return None
    for edge in likely:
        is_there = symbol.low <= min(edge, edge + sign) and max(edge, edge + sign) <= symbol.high
        if is_there and at(edge) and at(edge + sign) is False:
            return edge
    good, bad, step = inside, _past(inside + sign, sign, far, at), 1
    while at(bad):
        if bad == far:
            return None
        good, step = bad, step * (2 if step < _NEAR else 32)
        bad = min(max(inside + sign * step, min(inside, far)), max(inside, far))
        bad = _past(bad, sign, far, at)
    broken = at(bad) is False
    while abs(bad - good) > 1:
        middle = _past((good + bad) // 2, sign, bad - sign, at)
        met = at(middle)
        if met:
            good = middle
        else:
            bad, broken = middle, met is False
    return good if broken else None


def _past(value: int, sign: int, last: int, at: Callable[[int], bool | None]) -> int:
    """The next value where the path does not come to a bound with just this one: one that is
    compared with another number."""
    after = value + sign
    has_next = (last - value) * sign > 0
    return after if has_next and at(value) is None and at(after) is not None else value


def _planes(
    entry: str, symbols: Sequence[Symbol], met: Met, known: Planes
) -> Iterator[Requirement]:
    """What several symbols have to meet, where it is sums: `8*block + 8 <= n`."""
    for moved in symbols:
        others = [s for s in symbols if s is not moved]
        for sign in (1, -1):
            alike = known.setdefault((moved, sign, *others), [])
            found = _slopes(moved, others, sign, met, alike)
            if found is None or not _agrees(moved, sign, *found, met):
                continue
            slopes, constant = found
            if found not in alike:
                alike.append(found)
            terms = {moved: 1, **{s: -slope for s, slope in slopes.items() if slope}}
            kept = sorted(terms, key=lambda s: s.name)
            low, high = (None, constant) if sign > 0 else (constant, None)
            of_kept = {s: terms[s] for s in kept}
            broken = _broken(of_kept, sign, constant, others, met) or _beyond(moved, sign, found)
            named = {s.name: terms[s] for s in kept}
            if named[kept[0].name] < 0:  # written with its first symbol as it is
                named = {name: -count for name, count in named.items()}
                low, high = (None if v is None else -v for v in (high, low))
            yield Requirement(entry, named, low, high, _kind(kept), broken)


_LIKELY = 3
"""Edges of earlier bounds that are asked first."""
_Plane = tuple[dict[Symbol, int], int]
Planes = dict[tuple[object, ...], list[_Plane]]
"""Of a symbol, a direction and other symbols the edges that were found, in their order."""


def _edge_of(plane: _Plane, values: Mapping[Symbol, int]) -> int:
    slopes, constant = plane
    return constant + sum([slope * values[s] for s, slope in slopes.items()])


def _slopes(
    moved: Symbol, others: Sequence[Symbol], sign: int, met: Met, alike: Sequence[_Plane]
) -> _Plane | None:
    """The factors and the constant of the edge of one symbol as each of the others moves."""

    def edge(values: dict[Symbol, int], *more: int) -> int | None:
        at = lambda v: met({moved: v, **values})  # noqa: E731
        inside = next((v for v in _PROBES if is_allowed(moved, v) and at(v)), None)
        likely = (*more, *(_edge_of(plane, values) for plane in alike[:_LIKELY]))
        return _edge(moved, inside, sign, at, likely) if inside is not None else None

    base = {s: _usual(s) for s in others}
    first = edge(base)
    if first is None:
        return None
    slopes = {}
    for symbol in others:
        steps = [base[symbol] + d for d in (1, 2) if is_allowed(symbol, base[symbol] + d)]
        steps = steps or [base[symbol] - 1]
        edges = [edge({**base, symbol: steps[0]}, first)]
        if len(steps) > 1 and edges[0] is not None:
            edges.append(edge({**base, symbol: steps[1]}, 2 * edges[0] - first))
        gains = [
            (e - first) // (v - base[symbol]) for v, e in zip(steps, edges, strict=True)
            if e is not None and (e - first) % (v - base[symbol]) == 0
        ] if len(edges) == len(steps) else []  # fmt: skip
        if len(gains) < len(steps) or len(set(gains)) != 1:
            return None
        slopes[symbol] = gains[0]
    return slopes, first - sum(slope * base[s] for s, slope in slopes.items())


_TRIED = (1, 2, 4, 7, 16, 0, 33, 3)
_MANY = 1000


def _usual(symbol: Symbol, value: int = 1) -> int:
    """A value to ask with; counts are large, so that no index is beyond them."""
    value += _MANY if symbol.kind == COUNT else 0
    return min(max(value, symbol.low), symbol.high)


def _agrees(moved: Symbol, sign: int, slopes: dict[Symbol, int], constant: int, met: Met) -> bool:
    """True if it is the edge for other values, too, but for those that another edge leaves out."""
    count = 0
    for turn in range(8):
        values = {s: _usual(s, _TRIED[(turn + 3 * at) % 8]) for at, s in enumerate(slopes)}
        edge = constant + sum(slope * values[s] for s, slope in slopes.items())
        tried = {moved: edge, **values}
        counts = {s.below: v for s, v in tried.items() if s.below}
        if any(s.name in counts and v <= counts[s.name] for s, v in tried.items()):
            continue  # does not occur
        if is_allowed(moved, edge + sign) and met({**tried, moved: edge + sign}):
            return False
        is_in = is_allowed(moved, edge) and met(tried) is not False
        if not is_in and any(met({**values, moved: v}) for v in _near(moved, edge, sign)):
            return False
        count += is_in
    return count > 1


def _near(moved: Symbol, edge: int, sign: int) -> list[int]:
    """Values on the good side of an edge."""
    found = (edge - sign * d for d in (1, 2, 4, 8, 16, 64, 1024))
    return [v for v in (*found, 0, 1) if is_allowed(moved, v) and (edge - v) * sign > 0]


def _beyond(moved: Symbol, sign: int, plane: _Plane) -> dict[str, int]:
    """Values just outside, however large."""
    slopes, constant = plane
    values = {s: _usual(s) for s in slopes}
    edge = constant + sum(slope * values[s] for s, slope in slopes.items())
    return {moved.name: edge + sign, **{s.name: v for s, v in values.items()}}


def _broken(
    terms: Mapping[Symbol, int], sign: int, constant: int, others: Sequence[Symbol], met: Met
) -> dict[str, int]:
    """Small values that are on the wrong side of this edge, and break the bound."""
    rest = {s: _usual(s) for s in others if s not in terms}
    values = (1, 0, 2, 3, 9, 17, 100, 1000)
    for tried in islice(product(values, repeat=len(terms)), _ASKED):
        pairs: dict[Symbol, int] = dict(zip(terms, tried, strict=True))
        total = sum(count * pairs[s] for s, count in terms.items())
        is_out = (total - constant) * sign > 0 and all(is_allowed(s, v) for s, v in pairs.items())
        if is_out and met({**rest, **pairs}) is False:
            return {s.name: v for s, v in pairs.items()}
    return {}
