"""What the followings of an entry say: findings with witnesses, and what they cover."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ptosim.engine.paths.forms import DATA, Form, Round, Symbol, parts_of
from ptosim.engine.paths.noted import Limit
from ptosim.engine.paths.scalars import ROUNDS
from ptosim.ground.diagnostics.model import Diagnostic, Severity, finding, recoded
from ptosim.ground.errors import BudgetError, PtosimError, UsageError
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import ScalarType
from ptosim.ground.isa.dates import Profile
from ptosim.ground.processes import uncollected
from ptosim.ground.records import NamedTuple, dataclass, field, replace
from ptosim.ground.source import Span
from ptosim.language.frontend import Front
from ptosim.language.toolchains import told_by
from ptosim.launch.dry_run import BUDGET, Followed
from ptosim.launch.paths.explore import (
    RUNS,
    Explored,
    PathRun,
    explore,
    given_words,
    is_forced_in,
    is_loop,
    line_of,
    outcomes_of,
)
from ptosim.launch.paths.requirement import Requirement, told_of
from ptosim.launch.paths.requirements import requirements_of
from ptosim.launch.paths.solve import linear_of, range_of_sum

if TYPE_CHECKING:
    from ptosim.launch.paths.facts import Facts
    from ptosim.launch.paths.trips import Open

ASSUMED_HAZARD, ASSUMED_NOTE = "PTO5290", "PTO6053"
"""The codes of an error or a hazard, and of anything less, that shows only with a value of data
that is assumed."""
_OF_ORDER = ("PTO50", "PTO51", "PTO52")

AGAIN, _STEPS = 32, 8
"""Followings of an entry that look for smaller values, and values of one symbol."""
NEVER = "PTO6056"
_DEAR, _LONG = 20, 1_000
"""What was followed is told from so many times the first run, and so many instructions, on."""
_ALL, _SOON = 4096, 520
"""Values of an operand of which each is asked, else those near the ends of its range."""


@dataclass(slots=True, eq=False)
class Coverage:
    """How much of an entry its followings cover. `paths` is `all` where every path was followed,
    `some` where each decision was only taken both ways, or not even that; `trips` says for how many
    rounds of loops that a symbol ends."""

    entry: str
    runs: int
    valid: int
    paths: str
    trips: str
    open: list[dict[str, object]] = field(default_factory=list)
    place: Span | None = None
    assumed: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    """What the user assumes."""
    loops: tuple[Open, ...] = ()
    """Loops that a symbol ends of which more rounds may bring out more."""
    ended: int = 0
    """How many loops a symbol ends."""
    unsaid: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """Lines with a check that asks something of what is named which no requirement says."""
    apart: tuple[tuple[int, int, tuple[str, ...]], ...] = ()
    """Pairs of lines whose windows of one buffer did not meet, and may with other values of what is
    named."""
    beyond: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """Lines that read of a tile what is written as far as was tried, and how much that is depends
    on what is named."""
    followed: int = 0
    """Instructions of all followings."""
    first: int = 0
    """Instructions of the first following that counts."""

    def to_dict(self) -> dict[str, object]:
        """Return it as plain data."""
        unsaid = [{"line": line, "symbols": list(names)} for line, names in self.unsaid]
        apart = [{"lines": [a, b], "symbols": list(names)} for a, b, names in self.apart]
        beyond = [{"line": line, "symbols": list(names)} for line, names in self.beyond]
        return {
            "entry": self.entry, "runs": self.runs, "valid": self.valid, "paths": self.paths,
            "trips": self.trips, "open": self.open, "assumed": list(self.assumed),
            "given": list(self.given), "loops": [loop._asdict() for loop in self.loops],
            **({"unsaid": unsaid} if unsaid else {}),
            **({"apart": apart} if apart else {}),
            **({"beyond": beyond} if beyond else {}),
            **({"followed": self.followed, "times": self.times} if self.is_dear else {}),
        }  # fmt: skip

    @property
    def times(self) -> int:
        """How often the instructions of the first following were followed."""
        return self.followed // max(self.first, 1)

    @property
    def is_dear(self) -> bool:
        """True if following it took so much more than one run that this is told."""
        return self.times > _DEAR and self.followed >= _LONG

    def __str__(self) -> str:
        count = f"{self.runs} run{'s' * (self.runs != 1)}"
        if self.valid < self.runs:
            count += f", {self.valid} valid"
        how = "all paths" if self.paths == "all" else "each decision both ways"
        if self.open:
            lines = ", ".join(dict.fromkeys(str(o["line"]) for o in self.open if o["line"]))
            how += f" but line {lines}" if lines else ", not all of them"
        rounds = "; rounds repeat: for any number of them" if self.ended else ""
        if self.loops:
            why = "; ".join(f"line {line}: {why}" for line, why in self.loops[:3])
            rounds = f"; loops with 0 to 3 rounds ({why})"
        data = f"; data assumed: {', '.join(self.assumed[:4])}" if self.assumed else ""
        given = f"; if {' and '.join(self.given)}" if self.given else ""
        more = "; ".join(f"line {line}: of {', '.join(names)}" for line, names in self.unsaid[:3])
        unsaid = f"; more is required than sums say ({more})" if more else ""
        pairs = ", ".join(f"{one} and {other}" for one, other, _ in self.apart[:3])
        apart = f"; windows of lines {pairs} are taken to be apart" if pairs else ""
        reads = ", ".join(str(line) for line, _ in self.beyond[:3])
        beyond = f"; what line {reads} reads is taken to be written" if reads else ""
        told = f"{data}{given}{unsaid}{apart}{beyond}{self._price()}"
        return f"@{self.entry}: {count}; {how}{rounds}{told}"

    def _price(self) -> str:
        if not self.is_dear:
            return ""
        return f"; {self.followed:,} instructions were followed, {self.times} times those of a run"


def coverage_of(
    front: Front, entry: str, explored: Explored, loops: tuple[Sequence[Open], int]
) -> Coverage:
    """Return what the followings of an entry cover; `loops` are those of which more rounds may
    bring out more, and how many there are that a symbol ends."""
    open_ = list(_open(front, explored))
    is_all = not (open_ or explored.apart or explored.beyond) and _is_every_path(
        explored.valid, has_proof=not loops[0]
    )
    every = (*explored.open, *explored.unsolved)
    places = [each.inst.op for each in every if each.inst.op is not None]
    place = Span(front.source, places[0].start, places[0].name_end) if places else None
    assumed = sorted({s.name for r in explored.valid for s in r.noted.decided_by if s.kind == DATA})
    return Coverage(
        entry, len(explored.runs), len(explored.valid), "all" if is_all else "some",
        "0..3" if loops[0] else "proven", open_, place, tuple(assumed),
        () if explored.space.facts is None else tuple(f.text for f in explored.space.facts.facts),
        tuple(loops[0]), loops[1],
        tuple(
            (line, tuple(sorted(symbol.name for symbol in symbols)))
            for line, symbols in sorted(explored.unsaid.items())
        ),
        explored.apart,
        tuple((line, tuple(sorted(names))) for line, names in sorted(explored.beyond.items())),
        explored.executed, explored.first,
    )  # fmt: skip


def _open(front: Front, explored: Explored) -> Iterator[dict[str, object]]:
    if explored.left:
        yield {"line": 0, "why": explored.left}
    for decision in explored.open:
        names = ", ".join(sorted(s.name for s in decision.form.symbols))
        side = "" if decision.outcome in (True, False) else " another way"
        word = {True: " false", False: " true"}.get(decision.outcome, side)
        why = f"no value found that makes it{word} (it depends on {names})"
        yield {"line": line_of(front, decision.inst), "why": why}
    for limit in explored.unsolved:
        if not explored.valid and is_never_met(limit):
            continue
        names = ", ".join(sorted(s.name for s in limit.symbols))
        yield {"line": line_of(front, limit.inst), "why": f"no value of {names} found inside"}
    told: set[str] = set()
    for run in explored.valid:
        outcome = run.outcome
        if outcome is not None and outcome.is_open and str(outcome) not in told:
            told.add(str(outcome))
            yield {"line": outcome.place.line if outcome.place else 0, "why": str(outcome)}


def _is_every_path(runs: Sequence[PathRun], *, has_proof: bool) -> bool:
    """True if after each way that was gone to a decision each of its sides was taken that can be;
    with a proof that rounds repeat, those of further rounds need not be looked at."""
    sides: dict[Any, dict[Any, tuple[PathRun, int]]] = {}
    for run in runs:
        path: tuple[Any, ...] = ()
        for at, decision in enumerate(run.noted.decisions[:64]):
            is_repeated = has_proof and (is_loop(decision) or decision.visit >= ROUNDS)
            if not is_repeated:
                sides.setdefault((path, decision.inst.pc), {})[decision.outcome] = run, at
            path = (*path, decision.inst.pc, decision.outcome)
    return all(
        are_all_of(outcomes) or is_forced_in(*next(iter(outcomes.values())))
        for outcomes in sides.values()
    )


def are_all_of(outcomes: Mapping[Any, tuple[PathRun, int]]) -> bool:
    """True if a decision was seen to turn out in every way that it can."""
    run, at = next(iter(outcomes.values()))
    possible = outcomes_of(run.noted.decisions[at], run)
    return possible is not None and possible <= outcomes.keys()


def not_covered(coverage: Coverage) -> Diagnostic | None:
    """Return the note on what the followings of an entry do not cover; None if that is nothing."""
    if not coverage.open:
        return None
    several = [
        f"line {o['line']}: {o['why']}" if o["line"] else str(o["why"]) for o in coverage.open
    ]
    more = f"; and {len(several) - 4} more" if len(several) > 4 else ""
    return finding(
        "PTO6050",
        f"not all is covered: @{coverage.entry}: {'; '.join(several[:4])}{more}",
        coverage.place,
        label="one side of this was not reached" if coverage.place is not None else "",
        help="`--runs 100` makes more runs, `--arg NAME=…` gives a value, `--assume` says more",
    )


# -- findings --------------------------------------------------------------------------------------


def findings_of(
    front: Front, entry: str, explored: Explored, known: Iterable[tuple[str, object]]
) -> list[Diagnostic]:
    """Return the findings of the runs that count, each once, for its smallest witness; those of
    `known` (code and line) were told."""
    told, found = set(known), list[Diagnostic]()
    runs = sorted(explored.valid, key=lambda r: (bool(_assumed(r)), _size(r)))
    smaller = _Smaller(explored)
    for run in runs:
        new = [d for d in _findings(run) if fault_of(d) not in told]
        faults = {fault_of(d) for d in new}
        told |= faults
        shown = smaller.run(run, faults) if faults else run
        first: dict[tuple[str, object], Diagnostic] = {}
        for each in _findings(shown):
            if fault_of(each) in faults:
                first.setdefault(fault_of(each), each)
        found += [_witnessed(front, first[fault], shown, explored.given) for fault in first]
    return found


def _findings(run: PathRun) -> list[Diagnostic]:
    return run.outcome.findings if run.outcome is not None else []


class _Smaller:
    """Looks for the smallest values that show what a run shows: it is followed again."""

    def __init__(self, explored: Explored) -> None:
        self.left = AGAIN
        self.explored = explored

    def run(self, run: PathRun, faults: set[tuple[str, object]]) -> PathRun:
        """Return a run that has as many faults, with symbols at their defaults, or smaller."""
        made = run
        for symbol in _moved(run):
            made = self._first(made, symbol, [symbol.default], faults)
        for symbol in [*_moved(made), *_moved(made)]:  # one may wait for another
            now = made.noted.symbols.get(symbol, symbol.default)
            values = [v for v in (0, 1, 2, 3, 4, *(1 << p for p in range(3, 17))) if v < now]
            told = [v for v in self.explored.space.values(symbol) if v < now]
            made = self._first(made, symbol, (told or values)[:_STEPS], faults)
        return made

    def _first(
        self, run: PathRun, symbol: Symbol, values: Sequence[int], faults: set[tuple[str, object]]
    ) -> PathRun:
        base = run.assumed
        for value in dict.fromkeys(values):
            tried = self.explored.space.fits({**base, symbol: value})
            is_it = tried is not None and tried[symbol] == value and symbol.low <= value
            if not is_it or value == base.get(symbol) or not self.left or tried is None:
                continue
            self.left -= 1
            assert self.explored.again is not None
            made = self.explored.again(tried)
            shown = {fault_of(d) for d in _findings(made)}
            is_less = (bool(_assumed(made)), _size(made)) <= (bool(_assumed(run)), _size(run))
            if shown >= faults and is_less:
                return made
        return run


def _moved(run: PathRun) -> list[Symbol]:
    """The symbols of a run that are not at their defaults, those farthest away first; a count is
    as small as its index lets it be."""
    moved = [s for s, v in run.noted.symbols.items() if v != s.default]
    return sorted(moved, key=lambda s: (-abs(run.noted.symbols[s] - s.default), s.name))


def fault_of(found: Diagnostic) -> tuple[str, object]:
    """The same fault on another path is not told again."""
    return found.code, found.span.line if found.span is not None else found.message


def _size(run: PathRun) -> tuple[int, int, int]:
    moved = [abs(v - s.default) for s, v in _witness(run).items()]
    return sum(moved), sum(m > 0 for m in moved), len(run.noted.decisions)


def _witness(run: PathRun) -> dict[Symbol, int]:
    """The values that the path of a run depends on."""
    met, decided = run.noted.symbols, run.noted.decided_by
    given = {s: v for s, v in met.items() if s in decided or v != s.default}
    return dict(sorted(given.items(), key=lambda pair: pair[0].name))


def _assumed(run: PathRun) -> list[str]:
    return sorted(s.name for s in run.noted.decided_by if s.kind == DATA)


def _witnessed(front: Front, found: Diagnostic, run: PathRun, given: tuple[str, ...]) -> Diagnostic:
    """A finding with the values that show it; with a value of data that is assumed it weighs
    less."""
    witness = {s.name: v for s, v in _witness(run).items()}
    place = found.span.start if found.span is not None else -1
    certain = {s.name: run.noted.symbols[s] for s in run.noted.certain.get(place, ())}
    witness = dict(sorted({**certain, **witness}.items()))
    if not witness:
        return found
    assumed = _assumed(run)
    told = ", ".join(f"{name} = {value}" for name, value in witness.items())
    notes = [f"shown for {told}"]
    if assumed:
        notes.append("what memory holds is assumed: " + ", ".join(assumed))
    context = {**found.context, "witness": witness, "assumed": assumed}
    made = replace(found, context=context)
    words = [f"--arg {s.name}={v}" for s, v in _witness(run).items() if _is_given(s)]
    if words and not assumed:
        words = [*given, *words]
        see = f"see it: `ptosim check {front.source.label} {' '.join(words)}`"
        made = replace(made, help=f"{made.help}; {see}" if made.help else see)
    if not assumed:
        return replace(made, notes=(*made.notes, *notes))
    is_hazard = found.severity is Severity.WARNING and found.code.startswith(_OF_ORDER)
    is_hazard = is_hazard or found.severity is Severity.ERROR
    code = ASSUMED_HAZARD if is_hazard else ASSUMED_NOTE
    made = replace(made, message=f"{found.message} ({found.code} with assumed data)")
    return recoded(made, code, *notes)


def _is_given(symbol: Symbol) -> bool:
    return symbol.kind != DATA and symbol.name not in ("block", "blocks")


def is_covered(followed: Followed, explored: Explored) -> bool:
    """True if what following left open is decided by the runs."""
    to_the_end = followed.stopped or followed.is_whole  # else where it ended says more
    is_followed = bool(explored.valid or (explored.unsolved and to_the_end))
    return followed.begun and explored.has_symbols and is_followed


def never_met(front: Front, entry: str, explored: Explored) -> list[Diagnostic]:
    """Return errors for the bounds that every run of an entry breaks, whatever the caller gives."""
    found: dict[int, Diagnostic] = {}
    for limit in explored.unsolved if not explored.valid else ():
        op = limit.inst.op
        if op is None or not is_never_met(limit):
            continue
        names = ", ".join(sorted(symbol.name for symbol in limit.symbols))
        found[limit.inst.pc] = finding(
            NEVER,
            f"@{entry}: no value of {names} meets what '{op.name}' checks",
            Span(front.source, op.start, op.name_end),
            help=f"`--arg {names.partition(',')[0]}=1 --no-explore` shows the check that fails",
        )
    return list(found.values())


def is_never_met(limit: Limit) -> bool:
    """True if no number that the operand of a bound can be meets it, as the range of its form
    shows. A bound keeps a number in a range, or asks for multiples: where a number outside of the
    range of the form meets it and the nearest one inside does not, none beyond that one does, but
    for multiples, which come again soon."""
    if len(limit.operands) != 1:
        return False
    ((slot, form),) = limit.operands.items()
    if form.now.__class__ is not int or _may_not_come(form):
        return False
    low, high = range_of_sum(linear_of(form))
    breaks = cache(lambda value: limit.breaks({slot: value}))
    if high - low <= _ALL:
        return all(breaks(value) for value in range(low, high + 1))
    near = (*range(_SOON), *(1 << n for n in range(12, 62, 3)))
    inside = {v for n in near for v in (low + n, high - n) if low <= v <= high}
    before = any(not breaks(v) for v in (0, 1, low - 1, low - 8, low // 2) if v < low)
    after = any(not breaks(v) for v in (0, 1, high + 1, high + 8) if v > high)
    return (before or after) and all(map(breaks, inside))


def _may_not_come(form: Form) -> bool:
    """True for a value of a later round of a loop that an unknown number may end before: what it
    breaks there, a launch without that round does not."""
    later = (part for part in parts_of(form) if isinstance(part, Round) and part.number)
    return any(isinstance(end, Form) for r in later for end in (r.lower, r.upper, r.step))


# An entry followed along all its paths, for a check: what comes to what one following says.


class EntryPaths(NamedTuple):
    """What the paths of an entry bring out, beside its first following."""

    findings: list[Diagnostic]
    coverage: Coverage
    requirements: list[Requirement]
    is_decided: bool
    """True if the runs decide what the first following left open."""
    inside: dict[str, int]
    """Values of the scalars that are not given which break nothing."""


def paths_of(
    front: Front,
    profile: Profile,
    entry: str,
    args: Mapping[str, Any],
    first: Followed,
    known: Iterable[tuple[str, object]],
    runs: int = RUNS,
    facts: Facts | None = None,
    blocks: int | None = None,
    peers: dict[object, EntryPaths] | None = None,
) -> EntryPaths | None:
    """Follow an entry along its paths; None where nothing depends on what is not known. Of two
    entries that are launched together the second one does what the first one did: `peers` keeps
    that, and `known` has what it brought out. Raises UsageError for facts that no values meet."""
    if not first.begun or first.stopped or not _is_open(front, entry, args, first, facts):
        return None
    peers = {} if peers is None else peers
    plan = front.plans.get(entry)
    names = (entry,) if plan is None else sorted(f.name for f in plan.launched)
    key = *names, *sorted(args)
    if key not in peers:
        made = _followed(front, profile, entry, args, first, known, (runs, facts, blocks))
        if made is not None:
            peers[key] = made
        return made
    same = peers[key]
    required = [replace(r, entry=entry) for r in same.requirements]
    coverage = replace(same.coverage, entry=entry)
    told = told_of(front, required, given_words(args))
    return same._replace(findings=told, coverage=coverage, requirements=required)


def _followed(
    front: Front,
    profile: Profile,
    entry: str,
    args: Mapping[str, Any],
    first: Followed,
    known: Iterable[tuple[str, object]],
    limits: tuple[int, Facts | None, int | None],
) -> EntryPaths | None:
    with uncollected():
        explored = _explored(front, profile, entry, args, *limits)
        if explored is None:
            return None
        try:
            return _brought_out(front, entry, explored, first, known)
        finally:
            explored.release()


def _explored(
    front: Front,
    profile: Profile,
    entry: str,
    args: Mapping[str, Any],
    runs: int,
    facts: Facts | None,
    blocks: int | None,
) -> Explored | None:
    try:
        explored = explore(front, profile, entry, args, runs, BUDGET, facts, blocks)
    except (BudgetError, UsageError):
        raise
    except PtosimError:
        return None  # what its assumed values bring out concerns nobody
    return explored if explored.has_symbols else None


def _brought_out(
    front: Front,
    entry: str,
    explored: Explored,
    first: Followed,
    known: Iterable[tuple[str, object]],
) -> EntryPaths:
    required = requirements_of(front, entry, explored)
    loops: tuple[Sequence[Open], int] = ((), 0)
    if any(is_loop(d) for run in explored.valid for d in run.noted.decisions):  # as within
        from ptosim.launch.paths.trips import rounds_open

        loops = rounds_open(front, explored, required)
    if explored.uses_twice:  # few programs do
        from ptosim.launch.paths.within import follow_meetings

        follow_meetings(front, explored)
    if any(use.forms for run in explored.valid for use in run.noted.uses.values()):
        from ptosim.launch.paths.within import follow_extents

        follow_extents(front, explored)
    found = findings_of(front, entry, explored, known)
    coverage = coverage_of(front, entry, explored, loops)
    found = [*never_met(front, entry, explored), *found]
    return EntryPaths(
        [*found, *told_of(front, required, explored.given)], coverage, required,
        is_covered(first, explored),
        _inside(front, entry, explored),
    )  # fmt: skip


def _inside(front: Front, entry: str, explored: Explored) -> dict[str, int]:
    """The arguments of the first run that counts, but for those that tell where a core is."""
    plan = front.plans.get(entry)
    functions = plan.reached if plan is not None else [front.resolved.functions[entry]]
    names = {v.name for f in functions for v in f.args if not told_by(v)}
    runs = explored.valid[:1]
    return {s.name: v for r in runs for s, v in r.noted.symbols.items() if s.name in names}


def _is_open(
    front: Front, entry: str, args: Mapping[str, Any], first: Followed, facts: Facts | None
) -> bool:
    """True if something of an entry is not known before the run. A program that is only long, and
    in which all numbers are constants and arithmetic on them, has one path: following it again as
    far says nothing new."""
    plan = front.plans.get(entry)
    functions = plan.reached if plan is not None else [front.resolved.functions[entry]]
    if any(
        isinstance(value.type, ScalarType) and value.name not in args
        for function in functions
        for value in function.args
    ) or any(op.has("tells_core") for function in functions for op in function.ops):
        return True
    if facts is not None or not first.ended.startswith("left after"):
        return first.is_open
    is_met = bool(first.unplaced or first.unchecked)
    return is_met or any(_is_made(op) for function in functions for op in function.ops)


def _is_made(op: Operation) -> bool:
    """May an operation make a number that is not known before the run?"""
    numbers = any(isinstance(value.type, ScalarType) for value in op.results)
    return bool(op.jumps) or (numbers and not op.name.startswith("arith."))
