"""What a kernel requires of its caller: bounds that depend on what only the caller knows.

A bound is a check of an instruction that can be asked again with other operands. So what it
requires is found by asking: the values around one that meets it, of one symbol the range, of two
the line between them, which is tried on other pairs before it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from ptosim.engine.core.runners import form_of
from ptosim.engine.paths.forms import DATA, INDEX, Env, Symbol
from ptosim.engine.paths.records import Decision, Limit
from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Span
from ptosim.language.frontend import Front
from ptosim.launch.paths.explore import Explored, PathRun, line_of

MOST_BOUNDS = 48
"""Bounds of an entry that are asked."""
_FAR = 1 << 40
"""A bound farther away is one of the type, not of the kernel."""
_PROBES = (0, 1, 2, 3, 5, 9, 17, 33, 100, 1000, 5000, 100_000, 1 << 24)

Met = Callable[[dict[Symbol, int]], bool]


@dataclass(slots=True, eq=False)
class Requirement:
    """For which values the checks of some lines hold: `expr` between `low` and `high` (None: no
    bound), a multiple of `multiple`. `kind` is `argument`, `data` or `index`; `broken_by` is an
    assignment that breaks it."""

    entry: str
    expr: str
    low: int | None
    high: int | None
    kind: str
    symbols: tuple[str, ...]
    broken_by: dict[str, int]
    lines: list[int] = field(default_factory=list)
    multiple: int | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What two requirements that are told once have in common."""
        return self.expr, self.low, self.high, self.multiple

    @property
    def is_quiet(self) -> bool:
        """True for one that only negative values break, or that data has to meet."""
        return self.kind == DATA or all(value < 0 for value in self.broken_by.values())

    @property
    def is_one(self) -> bool:
        """True if it leaves one value."""
        return self.low is not None and self.low == self.high

    def __str__(self) -> str:
        if self.multiple is not None:
            return f"{self.expr} is a multiple of {self.multiple}"
        if self.low is not None and self.high is not None:
            return f"{self.low} <= {self.expr} <= {self.high}"
        if self.high is None:
            return f"{self.expr} >= {self.low}"
        if self.kind == INDEX:
            return f"{self.expr} <= {self.high}: launch at most {self.high + 1}"
        return f"{self.expr} <= {self.high}"

    def to_dict(self) -> dict[str, object]:
        """Return it as plain data."""
        return {
            "entry": self.entry, "expr": self.expr, "low": self.low, "high": self.high,
            "multiple": self.multiple, "lines": self.lines, "symbols": list(self.symbols),
            "kind": self.kind, "broken_by": self.broken_by,
        }  # fmt: skip


def requirements_of(front: Front, entry: str, explored: Explored) -> list[Requirement]:
    """Return what the bounds of the runs of an entry require, each once, with all its lines."""
    found: dict[tuple[object, ...], Requirement] = {}
    for limit, run in _asked(explored):
        for made in _of_bound(entry, limit, run):
            known = found.setdefault(made.key, made)
            line = line_of(front, limit.inst)
            if line not in known.lines:
                known.lines.append(line)
    sure = [r for r in found.values() if not _is_contradicted(r, explored)]
    return [r for r in sure if not _is_implied(r, sure)]


def _is_contradicted(made: Requirement, explored: Explored) -> bool:
    """True if a run that counts has a value that would break it: then the bound says less."""
    if made.multiple is not None or len(made.symbols) > 1:
        return False
    values = (
        value
        for run in explored.valid
        for symbol, value in run.noted.symbols.items()
        if symbol.name == made.expr
    )
    return any(not _is_between(value, made.low, made.high) for value in values)


def told_of(front: Front, requirements: Sequence[Requirement]) -> list[Diagnostic]:
    """Return the notes on requirements that a user should see."""
    return [_told(front, r) for r in requirements if not r.is_quiet]


def _told(front: Front, made: Requirement) -> Diagnostic:
    text = front.source.text.splitlines()
    line = made.lines[0] if made.lines else 1
    start = sum(len(each) + 1 for each in text[: line - 1])
    width = len(text[line - 1]) if line <= len(text) else 0
    indent = width - len(text[line - 1].lstrip()) if width else 0
    span = Span(front.source, start + indent, start + width)
    lines = ", ".join(map(str, made.lines[:8]))
    words = " ".join(f"--arg {n}={v}" for n, v in made.broken_by.items() if n not in _OF_LAUNCH)
    see = f"see what a value outside does: `ptosim check {front.source.label} {words}`"
    if made.is_one:
        text_ = f"@{made.entry}: only {made.expr} = {made.low} is inside what it requires"
        return finding("PTO6054", text_, span, context=made.to_dict(), help=see if words else None)
    return finding(
        "PTO6052",
        f"@{made.entry} requires {made}",
        span,
        label=f"checked in line{'s' * (len(made.lines) > 1)} {lines}",
        help=see if words else None,
        context=made.to_dict(),
    )


_OF_LAUNCH = ("block", "blocks")


def _asked(explored: Explored) -> Iterator[tuple[Limit, PathRun]]:
    """The bounds to ask: of an instruction the first and the last of each set of symbols."""
    count = 0
    for pairs in explored.limits.values():
        chosen: dict[tuple[object, ...], tuple[Limit, PathRun]] = {}
        for limit, run in pairs:
            chosen.setdefault((limit.symbols, limit.after, "first"), (limit, run))
            chosen[limit.symbols, "last"] = limit, run
        for pair in dict.fromkeys(chosen.values()):
            if count >= MOST_BOUNDS:
                return
            count += 1
            yield pair


def _context(limit: Limit, run: PathRun) -> list[Decision]:
    """The decisions before a bound, but for those of loops: what is in a loop is asked of its
    first and of its last round."""
    before = run.noted.decisions[: limit.after]
    return [
        d for d in before
        if d.form.symbols & limit.symbols and (form_of(d.inst.run) or ("",))[0] != "for"
    ]  # fmt: skip


def _of_bound(entry: str, limit: Limit, run: PathRun) -> Iterator[Requirement]:
    context = _context(limit, run)
    symbols = sorted(limit.symbols, key=lambda s: s.name)
    base = {**run.assignment, **run.noted.symbols}

    def met(tried: dict[Symbol, int]) -> bool:
        assignment = {**base, **tried}
        env = Env(assignment)
        if not all(d.holds(env) for d in context):
            return True
        return limit.is_met(assignment) is not False

    kind = _kind(symbols)
    if len(symbols) == 1:
        made = _range(entry, symbols[0], met, kind)
    elif len(symbols) == 2:
        made = _line(entry, symbols, met, kind)
    else:
        made = None
    if made is not None:
        yield made


def _kind(symbols: Sequence[Symbol]) -> str:
    kinds = {s.kind for s in symbols}
    if DATA in kinds:
        return DATA
    return INDEX if kinds == {INDEX} else "argument"


def _is_allowed(symbol: Symbol, value: int) -> bool:
    return symbol.low <= value <= symbol.high


def _range(entry: str, symbol: Symbol, met: Met, kind: str) -> Requirement | None:
    """The values of one symbol that meet a bound, around the least one from 0 on that does."""
    tried = [v for v in _PROBES if _is_allowed(symbol, v)]
    holds = {v: met({symbol: v}) for v in (*tried, *(v for v in (-1,) if v >= symbol.low))}
    if all(holds.values()):
        return None
    inside = next((v for v in tried if holds[v]), None)
    if inside is None:
        return None
    name, at = symbol.name, lambda v: met({symbol: v})
    multiple = _multiple(symbol, inside, at)
    if multiple is not None:
        broken = {name: inside + 1}
        return Requirement(entry, name, None, None, kind, (name,), broken, [], multiple)
    low, high = _edge(symbol, inside, -1, at), _edge(symbol, inside, 1, at)
    if low is None and high is None:
        return None
    if any(h != _is_between(v, low, high) for v, h in holds.items()):
        return None  # no range: nothing that a line says
    outside = high + 1 if high is not None else (low or 0) - 1
    if high is None and low is not None and low > 0:
        outside = low - 1
    return Requirement(entry, name, low, high, kind, (name,), {name: outside})


def _is_between(value: int, low: int | None, high: int | None) -> bool:
    return (low is None or low <= value) and (high is None or value <= high)


def _multiple(symbol: Symbol, inside: int, at: Callable[[int], bool]) -> int | None:
    if at(inside + 1) or inside != 0:
        return None
    for power in range(1, 13):
        step = 1 << power
        if _is_allowed(symbol, 2 * step) and at(step) and at(2 * step):
            return step if not at(step + step // 2) else None
    return None


def _edge(symbol: Symbol, inside: int, sign: int, at: Callable[[int], bool]) -> int | None:
    """The last value in a direction that still meets a bound; None if it is as far as the type."""
    good, step = inside, 1
    while True:
        tried = inside + sign * step
        if abs(tried) > _FAR or not _is_allowed(symbol, tried):
            return None
        if not at(tried):
            break
        good, step = tried, step * 2
    bad = tried
    while abs(bad - good) > 1:
        middle = (good + bad) // 2
        if at(middle):
            good = middle
        else:
            bad = middle
    return good


def _line(entry: str, symbols: Sequence[Symbol], met: Met, kind: str) -> Requirement | None:
    """What two symbols have to meet, where it is a line: `8*block + 8 <= n`."""
    one, other = symbols
    for moved, by in ((one, other), (other, one)):
        for sign in (1, -1):
            found = _slope(moved, by, sign, met)
            if found is None:
                continue
            factor, constant = found
            if not _agrees(moved, by, sign, factor, constant, met):
                continue
            if factor == 0:
                low, high = (None, constant) if sign > 0 else (constant, None)
                name, outside = moved.name, constant + sign
                return Requirement(
                    entry, name, low, high, kind, (name,), {name: outside, by.name: 1}
                )
            names = (one.name, other.name)
            broken = _broken(moved, by, met)
            if sign > 0:  # moved <= factor*by + constant
                expr = (
                    f"{moved.name} - {_times(factor, by)}"
                    if factor > 0
                    else (f"{moved.name} + {_times(-factor, by)}")
                )
                return Requirement(entry, expr, None, constant, kind, names, broken)
            expr = (
                f"{moved.name} - {_times(factor, by)}"
                if factor > 0
                else (f"{moved.name} + {_times(-factor, by)}")
            )
            return Requirement(entry, expr, constant, None, kind, names, broken)
    return None


def _times(factor: int, symbol: Symbol) -> str:
    return symbol.name if factor == 1 else f"{factor}*{symbol.name}"


def _slope(moved: Symbol, by: Symbol, sign: int, met: Met) -> tuple[int, int] | None:
    """The factor and constant of the edge of one symbol as the other moves."""
    edges: list[tuple[int, int]] = []
    for value in (1, 2, 3):
        at = lambda v, value=value: met({moved: v, by: value})  # noqa: E731
        inside = next((v for v in _PROBES if _is_allowed(moved, v) and at(v)), None)
        edge = _edge(moved, inside, sign, at) if inside is not None else None
        if edge is None:
            return None
        edges.append((value, edge))
    (_, a), (_, b), (_, c) = edges
    return (b - a, a - (b - a)) if b - a == c - b else None


def _agrees(moved: Symbol, by: Symbol, sign: int, factor: int, constant: int, met: Met) -> bool:
    for value, distance in product((1, 2, 4, 7, 16), (0, 1)):
        edge = factor * value + constant
        tried = edge + sign * distance
        if _is_allowed(moved, tried) and met({moved: tried, by: value}) != (distance == 0):
            return False
    return True


def _broken(moved: Symbol, by: Symbol, met: Met) -> dict[str, int]:
    for first, second in product((1, 0, 2, 3, 9, 17, 100, 1000), repeat=2):
        is_allowed = _is_allowed(moved, first) and _is_allowed(by, second)
        if is_allowed and not met({moved: first, by: second}):
            return {moved.name: first, by.name: second}
    return {}


def _is_implied(one: Requirement, others: Sequence[Requirement] | object) -> bool:
    """True if another one on the same expression asks for as much."""
    for other in others:  # type: ignore[attr-defined]
        if other is one or other.expr != one.expr or one.multiple or other.multiple:
            continue
        low = one.low is None or (other.low is not None and other.low >= one.low)
        high = one.high is None or (other.high is not None and other.high <= one.high)
        if low and high:
            return True
    return False
