"""A requirement: for which values of what only its caller knows the checks of a kernel hold, as
data, in words, and as a note."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ptosim.engine.paths.forms import DATA, INDEX, Symbol
from ptosim.engine.paths.noted import Decision
from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Span
from ptosim.language.frontend import Front

Met = Callable[[dict[Symbol, int]], bool | None]
"""True or False where a bound is asked, None where the path does not come to it."""
STEPS = sorted(odd << power for odd in (1, 3, 5, 7) for power in range(13))[1:]
"""Numbers of which a bound may ask multiples."""


@dataclass(slots=True, eq=False)
class Requirement:
    """For which values the checks of some lines hold: a sum (`terms`: how often each symbol, by
    name) between `low` and `high` (None: no bound), or a multiple of `multiple`. `kind` is
    `argument`, `data` or `index`; `broken_by` is an assignment that breaks it."""

    entry: str
    terms: dict[str, int]
    low: int | None
    high: int | None
    kind: str
    broken_by: dict[str, int]
    lines: list[int] = field(default_factory=list)
    multiple: int | None = None
    when: tuple[tuple[int, Decision], ...] = ()
    """What has to be decided that way for it to be asked, on other symbols, with its line."""
    told: list[str] = field(default_factory=list)
    """What its lines tell of `broken_by`, each once."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """What it is about, by name."""
        return tuple(self.terms)

    @property
    def expr(self) -> str:
        """The sum as text."""
        first, *rest = self.terms.items()
        text = f"{'-' * (first[1] < 0)}{times(abs(first[1]), first[0])}"
        return text + "".join(f" {'-' if c < 0 else '+'} {times(abs(c), n)}" for n, c in rest)

    @property
    def key(self) -> tuple[object, ...]:
        """What two requirements that are told once have in common."""
        ways = tuple((d.inst.pc, d.outcome) for _, d in self.when)
        return self.expr, self.multiple, ways

    def join(self, other: Requirement) -> None:
        """Take in another one of the same key: both hold."""
        self.lines += [line for line in other.lines if line not in self.lines]
        if other.low is not None and (self.low is None or other.low > self.low):
            self.low = other.low
        if other.high is not None and (self.high is None or other.high < self.high):
            self.high = other.high
        if all(value < 0 for value in self.broken_by.values()) or other.high == self.high:
            is_better = any(value >= 0 for value in other.broken_by.values())
            if is_better and other.broken_by != self.broken_by:
                self.broken_by, self.told = other.broken_by, []
        if other.broken_by == self.broken_by:
            self.told += [text for text in other.told if text not in self.told]

    @property
    def is_quiet(self) -> bool:
        """True for one that only negative values break, or that data has to meet."""
        if self.kind == DATA or all(value < 0 for value in self.broken_by.values()):
            return True
        if self.multiple is not None:
            return False
        up = all(count > 0 for count in self.terms.values()) and self.high is None
        down = all(count < 0 for count in self.terms.values()) and self.low is None
        return (up and (self.low or 0) <= 0) or (down and (self.high or 0) >= 0)

    @property
    def is_one(self) -> bool:
        """True if it leaves one value."""
        return self.low is not None and self.low == self.high

    def holds(self, values: Mapping[str, int]) -> bool | None:
        """Return if values by name meet it; None if one that it is about is not among them."""
        if not values.keys() >= self.terms.keys():
            return None
        total = sum(count * values[name] for name, count in self.terms.items())
        if self.multiple is not None:
            return total % self.multiple == 0
        return is_between(total, self.low, self.high)

    def __str__(self) -> str:
        text = self._text()
        lines = ", ".join(dict.fromkeys(str(line) for line, _ in self.when))
        return f"{text} (on a path through line {lines})" if lines else text

    def _text(self) -> str:
        if self.multiple is not None:
            return f"{self.expr} is a multiple of {self.multiple}"
        if len(self.terms) > 1:
            return self._as_sides()
        if self.low is not None and self.high is not None:
            return f"{self.low} <= {self.expr} <= {self.high}"
        if self.high is None:
            return f"{self.expr} >= {self.low}"
        if self.kind == INDEX:
            of_what = f" block{'s' * bool(self.high)}" if self.expr == "block" else ""
            return f"{self.expr} <= {self.high}: launch at most {self.high + 1}{of_what}"
        return f"{self.expr} <= {self.high}"

    def _as_sides(self) -> str:
        """With what is added on each side of the sign: `8*block + 8 <= n`."""
        ends = ((self.high, 1), (self.low, -1))
        return " and ".join(self._side(limit, sign) for limit, sign in ends if limit is not None)

    def _side(self, limit: int, sign: int) -> str:
        sides: tuple[list[str], list[str]] = ([], [])
        for name, count in self.terms.items():
            sides[count * sign < 0].append(times(abs(count), name))
        rest = limit * sign
        if rest or not all(sides):
            sides[rest > 0 or (rest == 0 and bool(sides[0]))].append(str(abs(rest)))
        return f"{' + '.join(sides[0])} <= {' + '.join(sides[1])}"

    def to_dict(self) -> dict[str, object]:
        """Return it as plain data."""
        return {
            "entry": self.entry, "expr": self.expr, "low": self.low, "high": self.high,
            "multiple": self.multiple, "lines": self.lines, "symbols": list(self.symbols),
            "kind": self.kind, "broken_by": self.broken_by, "terms": self.terms, "text": str(self),
            "when": [{"line": line, "outcome": d.outcome} for line, d in self.when],
        }  # fmt: skip


def is_between(value: int, low: int | None, high: int | None) -> bool:
    """Return if a value is in a range; None is no bound."""
    return (low is None or low <= value) and (high is None or value <= high)


def times(factor: int, name: str) -> str:
    """Return a symbol with its factor as text."""
    return name if factor == 1 else f"{factor}*{name}"


def is_allowed(symbol: Symbol, value: int) -> bool:
    """Return if a value is in the range of a symbol."""
    return symbol.low <= value <= symbol.high


def multiple(symbol: Symbol, at: Callable[[int], bool]) -> int | None:
    """Of what the only symbol of a bound has to be a multiple: the number and twice as much meet
    it, and what is between them does not."""
    if not is_allowed(symbol, 1) or at(1):
        return None
    for step in STEPS:
        if is_allowed(symbol, 2 * step) and at(step) and at(2 * step):
            return None if at(step + 1) or at(step + step // 2) else step
    return None


def told_of(
    front: Front, requirements: Sequence[Requirement], given: tuple[str, ...]
) -> list[Diagnostic]:
    """Return the notes on requirements that a user should see; `given` are words of the command
    that brings one out."""
    return [_finding_of(front, r, given) for r in requirements if not r.is_quiet]


def _finding_of(front: Front, made: Requirement, given: tuple[str, ...]) -> Diagnostic:
    text = front.source.text.splitlines()
    line = made.lines[0] if made.lines else 1
    start = sum(len(each) + 1 for each in text[: line - 1])
    width = len(text[line - 1]) if line <= len(text) else 0
    indent = width - len(text[line - 1].lstrip()) if width else 0
    span = Span(front.source, start + indent, start + width)
    lines = ", ".join(map(str, made.lines[:8]))
    broken = [f"--arg {n}={v}" for n, v in made.broken_by.items() if n not in _OF_LAUNCH]
    words = " ".join((*given, *broken)) if broken else ""
    see = f"see what a value outside does: `ptosim check {front.source.label} {words}`"
    if made.is_one:
        text_ = f"@{made.entry}: only {made.expr} = {made.low} is inside what it requires"
        return finding("PTO6054", text_, span, context=made.to_dict(), help=see if words else None)
    values = " and ".join(f"{name} = {value}" for name, value in made.broken_by.items())
    return finding(
        "PTO6052",
        f"@{made.entry} requires {made}",
        span,
        label=f"checked in line{'s' * (len(made.lines) > 1)} {lines}",
        notes=[f"broken by {values}: {text}" for text in made.told],
        help=see if words else None,
        context=made.to_dict(),
    )


_OF_LAUNCH = ("block", "blocks")
