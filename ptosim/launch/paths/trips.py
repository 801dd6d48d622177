"""Loops that end where a number says that nobody knows: what is found holds however many rounds
they make, where that can be shown.

For each way through an entry its loops are made long, and followed with the finder of periods
(`engine.paths.rounds`): from some round on, all that follows from a round is what followed from
one a period before. Then numbers of rounds beyond those before it and two periods bring out
nothing that fewer do not, and all of these few are followed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice, product
from math import prod
from typing import TYPE_CHECKING, Any

from ptosim.engine.core.bound import Inst
from ptosim.engine.paths.flow import (
    ADDRESSES,
    DECIDES,
    NO_REPEAT,
    deciding_in,
    is_inside,
    moving_seldom,
)
from ptosim.engine.paths.forms import (
    CANNOT,
    DATA,
    Assignment,
    Computed,
    Env,
    Form,
    NoRound,
    Round,
    Symbol,
    value_of,
)
from ptosim.engine.paths.noted import Decision
from ptosim.ground.records import NamedTuple
from ptosim.language.frontend import Front
from ptosim.launch.paths.explore import Explored, PathRun, is_loop, line_of
from ptosim.launch.paths.loops import (
    FEW,
    LARGE,
    MOST_ROUNDS,
    Counts,
    Loop,
    Unproven,
    Way,
    holds,
    now_of,
)
from ptosim.launch.paths.requirement import Requirement
from ptosim.launch.paths.solve import facts_of_symbols, first_ones, is_forced, meeting
from ptosim.machine.values import GmView, Pointer

if TYPE_CHECKING:
    from ptosim.engine.paths.rounds import Rounds, Shown

ROUNDS = 6
"""Rounds of the first following that looks for a period."""
_MORE = 3
"""Times as many rounds are followed where none of these repeat."""
_LONGER = 3
"""Times that they are made longer, where something goes on changing for some rounds."""
MOST_RUNS, MOST_INSTRUCTIONS = 40, 30_000
"""Followings with few rounds, and instructions of all followings."""
_TOO_LONG = f"more than {MOST_INSTRUCTIONS:,} instructions would show it"
_REPAIRS, _TRIED = 3, 12
"""How often values are looked for that a check asks for which fails in later rounds, and how many
are."""
_WAYS = 6
"""Ways through an entry whose loops are looked at."""
_PERIODS = 6
"""Rounds of the longest period of which each is followed as the last one."""


class Open(NamedTuple):
    """Why more rounds of the loop in a line may bring out more."""

    line: int
    why: str


def rounds_open(
    front: Front, explored: Explored, requirements: Sequence[Requirement]
) -> tuple[list[Open], int]:
    """Return of which loops on symbols more rounds than were followed may bring out more, and how
    many such loops there are. What is followed for it is added to the runs."""
    heads = {d.inst.pc: d.inst for run in explored.valid for d in run.noted.decisions if is_loop(d)}
    if explored.left or explored.open or explored.unsolved:
        why = explored.left or "not every decision was reached both ways"
        return [Open(line_of(front, inst), why) for inst in heads.values()], len(heads)
    proof = _Proof(front, explored, requirements, heads)
    found: dict[int, str] = {}
    try:
        proof.prove()
    except Unproven as problem:
        found[problem.pc] = problem.why
    if found:
        rest = next(iter(found.values()))
        found = {pc: found.get(pc, rest) for pc in heads}
    return [Open(line_of(front, heads[pc]), why) for pc, why in found.items()], len(heads)


class _Proof:
    """What is shown of the loops of an entry."""

    def __init__(
        self,
        front: Front,
        explored: Explored,
        requirements: Sequence[Requirement],
        heads: Mapping[int, Inst],
    ) -> None:
        self.front, self.explored, self.heads = front, explored, heads
        self.requirements = [r for r in requirements if not r.when]
        self.bodies = [inst.op for inst in heads.values() if inst.op is not None]
        self.known = {d.inst.pc for run in explored.runs for d in run.noted.decisions}
        self.known |= explored.limits.keys()
        self.left, self.instructions = MOST_RUNS, MOST_INSTRUCTIONS
        self.repairs = _REPAIRS
        self.alike: dict[int, set[Any]] = {}
        self.counts = Counts(explored.space)
        self.tried = {_key(run.assumed) for run in explored.runs}

    def prove(self) -> None:
        """Show that all loops repeat. Raises Unproven where that cannot be shown."""
        ways: dict[Any, PathRun] = {}
        for run in sorted(self.explored.valid, key=lambda r: len(r.noted.decisions), reverse=True):
            if any(is_loop(d) for d in run.noted.decisions):
                ways.setdefault(self._way(run), run)
        if len(ways) > _WAYS:
            raise self._unproven(f"there are more than {_WAYS} ways to them")
        for run in ways.values():
            self._prove(run)

    def _unproven(self, why: str) -> Unproven:
        return Unproven(next(iter(self.heads)), why)

    def _way(self, run: PathRun) -> Any:
        """What was decided outside of the loops, and in them on numbers of which none ends a
        loop, or of the launch alone."""
        decisions = run.noted.decisions
        ending = frozenset().union(*(d.form.symbols for d in decisions if is_loop(d)))
        return frozenset(
            (d.inst.pc, d.outcome)
            for d in decisions
            if not is_loop(d) and not (self._is_of_rounds(d) and d.form.symbols & ending)
        )

    def _is_of_rounds(self, decision: Decision) -> bool:
        return self._is_inside(decision.inst) and decision.form.is_of_round

    def _is_inside(self, inst: Inst) -> bool:
        return is_inside(inst.op, self.bodies)

    # -- one way -----------------------------------------------------------------------------------

    def _prove(self, run: PathRun) -> None:
        way = self._way_of(run)
        few = self._bounded(way)
        if few is None:
            self._see_decisions(way)
            self._begin(way)
            rounds = self._repeating(way)
            few = self.counts.few(way, rounds)
            self._afford(few, run)
            self._with_each_other(way, few, rounds)
        self._follow(few, way)

    def _begin(self, way: Way) -> None:
        """Raise Unproven where the first following that looks for a period, which is made twice,
        takes too much already: a loop in another one makes its rounds in each of its rounds."""
        loops = [loop.inst.op for loop in way.loops if loop.inst.op is not None]
        least = 0  # what is in branches is left aside
        for loop in loops:
            own = sum(op.parent is loop for op in loop.walk())
            least += own * ROUNDS ** (1 + sum(is_inside(loop, (other,)) for other in loops))
        if 2 * least > self.instructions:
            raise self._unproven(_TOO_LONG)

    def _afford(self, few: Mapping[Symbol, Sequence[int]], run: PathRun) -> None:
        """Raise Unproven where following so many numbers of rounds would take too much."""
        runs = prod(map(len, few.values()))
        if runs > 1 + self.left + len(self.tried):
            raise self._unproven(f"more than {MOST_RUNS} runs would show it")
        if (runs - len(self.tried)) * run.executed > self.instructions:
            raise self._unproven(_TOO_LONG)

    def _way_of(self, run: PathRun) -> Way:
        found: dict[int, Loop] = {}
        base = run.assumed
        for decision in run.noted.decisions:
            if not is_loop(decision):
                continue
            form = decision.form
            if not (isinstance(form, Computed) and isinstance(form.sources[0], Round)):
                raise Unproven(decision.inst.pc, "its rounds are not counted")
            found.setdefault(decision.inst.pc, Loop(decision.inst, decision, base))
        kept = [d for d in run.noted.decisions if not is_loop(d) and not self._is_of_rounds(d)]
        ending = {loop.symbol for loop in found.values()}
        limits = first_ones(b for b in run.noted.limits.values() if b.symbols & ending)
        return Way(run, list(found.values()), base, kept, limits)

    def _again(self, assignment: Assignment, asked: Iterable[int] = ()) -> PathRun:
        assert self.explored.again is not None
        made = self.explored.again(assignment, asked)
        self._take(made.executed)
        return made

    def _take(self, instructions: int) -> None:
        self.instructions -= instructions
        if self.instructions < 0:
            raise self._unproven(_TOO_LONG)

    def _spend(self) -> None:
        if not self.left:
            raise self._unproven(f"more than {MOST_RUNS} runs would show it")
        self.left -= 1

    def _add(self, run: PathRun) -> None:
        """A run counts like the others; what it comes to first is not covered."""
        for decision in run.noted.decisions:
            if decision.inst.pc not in self.known:
                line = line_of(self.front, decision.inst)
                raise self._unproven(f"line {line} decides in later rounds only")
        if run.outcome is not None and run.outcome.is_open:
            raise self._unproven(str(run.outcome))
        self.explored.runs.append(run)
        for limit in run.noted.limits.values():  # of which no other values were asked
            if limit.inst.pc not in self.known:
                line = line_of(self.front, limit.inst)
                raise self._unproven(f"line {line} is checked in later rounds only")

    # -- loops that are short ----------------------------------------------------------------------

    def _bounded(self, way: Way) -> dict[Symbol, list[int]] | None:
        """Values for each number of rounds, where a requirement or an assumption keeps all loops
        short; else None."""
        found: dict[Symbol, dict[int, None]] = {}
        for loop in way.loops:
            most = self._most(loop.symbol)
            trips = loop.trips({**way.base, loop.symbol: most}) if most is not None else -1
            if self._is_ended(loop, way):
                trips = loop.trips(way.base)
            if not 0 <= trips <= FEW:
                return None
            values = found.setdefault(loop.symbol, {})
            for rounds in range(trips + 1):
                values |= {
                    t[loop.symbol]: None for t in islice(self.counts.at(loop, rounds, way), 1)
                }
        return {symbol: sorted(values) for symbol, values in found.items()}

    def _is_ended(self, loop: Loop, way: Way) -> bool:
        """True if what was decided outside of loops leaves a loop no more rounds than it made."""
        tests = [d for d in way.run.noted.decisions if d.inst.pc == loop.inst.pc]
        ends = [d for d in tests if d.outcome is False]
        known = facts_of_symbols(way.base)
        return len(ends) == 1 and is_forced(ends[0], way.kept, known)

    def _most(self, symbol: Symbol) -> int | None:
        highs = [
            r.high
            for r in self.requirements
            if r.terms == {symbol.name: 1} and r.high is not None and r.multiple is None
        ]
        return min([*highs, *([symbol.high] if symbol.high < LARGE else [])], default=None)

    # -- loops that repeat -------------------------------------------------------------------------

    def _see_decisions(self, way: Way) -> None:
        """Raise Unproven for a loop in whose rounds data decide that are read there (some rounds
        more are followed once), and for one in which the number of the round decides, or is a place
        in a branch that its distance from the last one decides: a round far on may be the
        only one that is wrong. What the number of the round decides by itself (`i mod 2`) is
        compared where rounds are."""
        program = self.explored.kept[0].engine.program
        ending = {loop.symbol for loop in way.loops}
        decided = [
            d for d in way.run.noted.decisions
            if d.form.own and d.form.symbols & ending and not is_loop(d)
        ]  # fmt: skip
        inside = [d for d in decided if self._is_inside(d.inst)]
        self._see_numbers(way, inside)
        branches = [d.inst.op for d in inside]
        for loop in way.loops:
            seldom = moving_seldom(program, loop.inst, branches)
            if seldom is not None:
                line = line_of(self.front, seldom)
                raise Unproven(loop.inst.pc, f"few rounds take line {line}, by their number")
            deciding = deciding_in(program, loop.inst)
            if deciding is not None:
                self._add(self._again(self.counts.long(way, ROUNDS)))
                raise Unproven(loop.inst.pc, f"{DECIDES} {line_of(self.front, deciding)}")

    def _see_numbers(self, way: Way, inside: Iterable[Decision]) -> None:
        """Raise Unproven where the number of the round and one of the launch decide together in a
        round, or say together what is used there. Of the second those values are followed with
        which loops make few rounds, and of all with which one makes as many only one is: where
        more than the number of rounds depends on it, they may leave no round to the first."""
        for decision in inside:
            around = {loop for loop in way.loops if is_inside(decision.inst.op, (loop.inst.op,))}
            ending = {loop.symbol for loop in way.loops} - {loop.symbol for loop in around}
            form = decision.form
            if form.is_of_round and (form.own & ending or _asks_for_launch(form)):
                raise self._by_number(way, decision.inst)
        for limit in way.run.noted.limits.values():
            used = (form for form in limit.operands.values() if form.is_of_round)
            if self._is_inside(limit.inst) and any(map(_asks_for_launch, used)):
                raise self._by_number(way, limit.inst)

    def _by_number(self, way: Way, inst: Inst) -> Unproven:
        line = line_of(self.front, inst)
        return Unproven(way.loops[0].inst.pc, f"few rounds take line {line}, by their number")

    def _repeating(self, way: Way) -> dict[int, int]:
        """How many rounds of each loop bring out everything, by head."""
        rounds = ROUNDS
        after: dict[int, int] = {}
        for _ in range(_LONGER + 1):
            found, later = self._shown(way, rounds, after)
            if found is not None:
                return found
            after |= later
            rounds = max(after.values()) + ROUNDS if later else _MORE * rounds
            if rounds > MOST_ROUNDS:
                break
        raise Unproven(way.loops[0].inst.pc, f"something still changes after {rounds} rounds")

    def _with_each_other(
        self, way: Way, few: Mapping[Symbol, Sequence[int]], rounds: Mapping[int, int]
    ) -> None:
        """A loop repeats for each small number of rounds of those that another number ends. One
        inside of these was followed in each of their rounds, from the first one on."""
        for symbol in few if len(few) > 1 else ():
            own = [loop for loop in way.loops if loop.symbol == symbol]
            pairs = [(loop, each) for loop in own for each in way.loops]
            around = {e.symbol for loop, e in pairs if is_inside(loop.inst.op, (e.inst.op,))}
            others = [s for s in few if s != symbol and s not in around]
            for chosen in product(*(few[s] for s in others)) if others else ():
                given = dict(zip(others, chosen, strict=True))
                tried = self.explored.space.fits({**way.base, **given})
                if tried is None or not holds(way.kept, tried):
                    continue
                self._spend()
                this = way._replace(base=tried, loops=own)
                if self._is_alike(this):
                    continue
                again = self._repeating(this)
                if any(count > rounds.get(pc, 0) for pc, count in again.items()):
                    words = ", ".join(f"{s.name} = {v}" for s, v in given.items())
                    raise Unproven(own[0].inst.pc, f"it repeats later with {words}")

    def _is_alike(self, way: Way) -> bool:
        """True if loops repeat as they were shown to with other numbers."""
        assignment = self.counts.long(way, ROUNDS)
        assert self.explored.shown is not None
        shown = self.explored.shown(assignment, {loop.inst.pc: 0 for loop in way.loops})
        self._take(shown.executed)
        shown.settle()
        if shown.has_findings or shown.open:
            return False
        for loop in way.loops:
            pc, trips = loop.inst.pc, loop.trips(assignment)
            known = self.alike.get(pc, ())
            for execution in shown.rounds.get(pc, [[]]):
                if not any(_shape(each, trips) in known for each in execution):
                    return False
        return True

    def _shown(
        self, way: Way, rounds: int, after: Mapping[int, int]
    ) -> tuple[dict[int, int] | None, dict[int, int]]:
        """Follow long loops, which may repeat `after` some rounds; return by head how many rounds
        of each bring out everything, or None and after how many the next try is to begin."""
        most, more = 1, 0
        found: dict[int, int] = {}
        while more < min(most, _PERIODS):  # after each round of a period another loop may follow
            assignment = self.counts.long(way, rounds + more)
            more += 1
            assert self.explored.shown is not None
            heads = {loop.inst.pc: after.get(loop.inst.pc, 0) for loop in way.loops}
            shown = self.explored.shown(assignment, heads)
            self._take(shown.executed)
            beside = shown.settle()
            reached = [
                loop for loop in way.loops
                if loop.inst.pc in shown.seen and loop.inst.pc not in beside
            ]  # fmt: skip
            refused = _refused(shown, reached)
            is_sure = rounds > ROUNDS or (refused and refused.why.startswith(ADDRESSES))
            if refused is not None and not shown.has_findings:
                if is_sure:
                    raise refused
                return None, {}
            long = self._followed_too(way, assignment, shown)
            if long.outcome is None:
                return self._shown(self._repaired(way, long), rounds, after)
            if refused is not None:
                if is_sure:
                    raise refused
                return None, {}
            repeated, later = self._like_longer_ones(way, reached, long, shown)
            if len(repeated) < sum(len(shown.rounds[loop.inst.pc]) for loop in reached):
                is_soon = all(until < rounds for until in later.values())
                return None, {} if is_soon and rounds == ROUNDS else later
            for loop, each in repeated:
                pc = loop.inst.pc
                self.alike.setdefault(pc, set()).add(_shape(each, loop.trips(assignment)))
                found[pc] = max(found.get(pc, 0), _enough(each, loop.trips(assignment)))
                most = max(most, each.period) if len(reached) > 1 else most
            found |= {pc: max(found.get(pc, 0), found[other]) for pc, other in beside.items()}
        if most > _PERIODS:
            raise Unproven(way.loops[0].inst.pc, f"its period has {most} rounds")
        return found, {}

    def _followed_too(self, way: Way, assignment: Assignment, shown: Shown) -> PathRun:
        """Follow the same with forms: of what is compared in these rounds, too."""
        every = chain(*(chain(*each) for each in shown.rounds.values()))
        long = self._again(assignment, {pc for each in every for pc in each.limits})
        if long.outcome is None:
            return long
        self._add(long)
        if self._way(long) != self._way(way.run):
            raise self._unproven("other paths are taken in later rounds")
        return long

    def _repaired(self, way: Way, long: PathRun) -> Way:
        """The same way with values that meet a check which fails in later rounds: rather of what
        the caller gives than of data, of which each round has others."""
        limit, base = long.noted.broken, {**long.assignment, **long.noted.symbols}
        if limit is not None and self.repairs:
            self.repairs -= 1
            tried = meeting(limit, long.noted.decisions, base, self.explored.space)
            few = list(islice(tried, _TRIED))
            kept = [t for t in few if all(base.get(s) == v for s, v in t.items() if s.kind == DATA)]
            if few:
                return way._replace(base=(kept or few)[0])
        raise self._unproven("with many rounds a check fails")

    def _like_longer_ones(
        self, way: Way, loops: Sequence[Loop], long: PathRun, shown: Shown
    ) -> tuple[list[tuple[Loop, Rounds]], dict[int, int]]:
        """See that loops with more rounds do what these do; return how each execution repeats, and
        by head until which round something changes that is not about the end."""
        repeated: list[tuple[Loop, Rounds]] = []
        later: dict[int, int] = {}
        way = way._replace(base={**long.assignment, **long.noted.symbols}, kept=(), bounds=())
        for loop in loops:
            for execution in shown.rounds[loop.inst.pc]:
                untils = [self._until(each, long, loop, way) for each in execution]
                if 0 in untils:
                    repeated.append((loop, execution[untils.index(0)]))
                else:
                    later[loop.inst.pc] = max(later.get(loop.inst.pc, 0), min(untils))
        if not later:
            self._same_addresses(way, long, shown.shared)
        return repeated, later

    def _until(self, each: Rounds, run: PathRun, loop: Loop, way: Way) -> int:
        """Until which round something holds that is not about the end; 0 if nothing is."""
        changing = (
            until
            for pc, until in each.limits.items()
            if not self._is_at_end(pc, run, loop, way, each)
        )
        return max(changing, default=0)

    def _is_at_end(self, pc: int, run: PathRun, loop: Loop, way: Way, each: Rounds) -> bool:
        """True if what an instruction compares depends on how far the end of a loop is: where the
        loop is longer, it turns out the same until so many rounds before its end. It moves evenly
        with the rounds, which was found out, so the first and the last of them are asked."""
        farther = list(self.counts.farther(loop, way))
        if pc in self.heads:
            return _ends_with(pc, run, loop, way, farther)
        forms = run.noted.computed.get(pc, ())
        if not forms:
            return any(limit.inst.pc == pc for limit in run.noted.limits.values())
        until = each.limits[pc]
        count, rest = divmod(len(forms), loop.trips(way.base))
        if rest or not count:
            return False
        first = forms[each.at * count : (each.at + each.period) * count]
        last = forms[(until - each.period) * count : until * count]
        return bool(first and last and farther) and all(
            all(_is_like_now(form, Env(values)) for form in first)
            and all(_is_like_now(form, Env(values, later=more)) for form in last)
            for more, values in farther
        )

    def _same_addresses(self, way: Way, run: PathRun, shared: set[int]) -> None:
        """Windows of memory that several use must not depend on how many rounds there are."""
        farther = [tried for loop in way.loops for _, tried in self.counts.farther(loop, way)]
        for limit in run.noted.limits.values():
            if limit.inst.pc not in shared:
                continue
            for form in limit.operands.values():
                is_place = isinstance(form.now, (GmView, Pointer))
                if is_place and any(_is_elsewhere(form, tried) for tried in farther):
                    line = line_of(self.front, limit.inst)
                    raise Unproven(way.loops[0].inst.pc, f"{ADDRESSES} {line}")

    # -- few rounds --------------------------------------------------------------------------------

    def _follow(self, values: Mapping[Symbol, Sequence[int]], way: Way) -> None:
        """Follow the entry for all of these values. Raises Unproven where they are too many."""
        for chosen in product(*values.values()):
            given = dict(zip(values, chosen, strict=True))
            tried = self.explored.space.fits({**way.base, **given})
            if tried is None or not holds(way.kept, tried) or _key(tried) in self.tried:
                continue
            self._spend()
            self.tried.add(_key(tried))
            self._add(self._again(tried))


def _asks_for_launch(form: Form) -> bool:
    """True if what is of a round is made of a truth about numbers of the launch alone."""
    found, left = {form}, [form]
    while left:
        each = left.pop()
        dtype = None if each.is_of_round else getattr(each, "dtype", None)
        if dtype is not None and dtype.name == "i1":
            return True
        parts = _gain(each) if isinstance(each, Round) else each.parts()
        new = {part for part in parts if isinstance(part, Form) and part.own} - found
        found |= new
        left += new
    return False


def _gain(round_: Round) -> tuple[Any, Any]:
    return round_.first, round_.gain


def _refused(shown: Shown, loops: Sequence[Loop]) -> Unproven | None:
    """Why the first of some loops that does not repeat does not."""
    for loop in loops:
        pc = loop.inst.pc
        why = shown.open.get(pc, "" if pc in shown.rounds else NO_REPEAT)
        if why:
            return Unproven(pc, why)
    return None


def _shape(each: Rounds, trips: int) -> tuple[Any, ...]:
    """How a loop repeats: from which round on, and what is about its end."""
    ends = frozenset((pc, trips - until) for pc, until in each.limits.items())
    return each.first, each.period, ends


def _enough(each: Rounds, trips: int) -> int:
    """How many rounds bring out everything: those before it repeats, two periods, and as many as
    are at the end before the end is seen."""
    ends = [trips - until for until in each.limits.values()]
    return each.first + 2 * each.period - 1 + max([0, *ends])


def _ends_with(
    pc: int, run: PathRun, loop: Loop, way: Way, farther: Sequence[tuple[int, Assignment]]
) -> bool:
    """True if another loop makes as many rounds more as this one does."""
    test = next(d for d in run.noted.decisions if d.inst.pc == pc)
    other = Loop(test.inst, test, way.base)
    trips = other.trips(way.base)
    return all(other.trips(tried) - trips == more for more, tried in farther)


def _key(assignment: Assignment) -> frozenset[Any]:
    return frozenset((s, v) for s, v in assignment.items() if v != s.default)


_COMPARED = ("lt", "le", "gt", "ge")


def _is_like_now(form: Form, env: Env) -> bool:
    """True if two numbers that are compared are in the order in which they were."""
    if not isinstance(form, Computed) or len(form.sources) != 2:
        return False
    word = form.word.removesuffix("u")
    try:
        if word in _COMPARED:
            return bool(form.value(env) == form.now)
        one, other = (value_of(source, env) for source in form.sources)
    except (*CANNOT, NoRound):
        return False
    was, is_ = now_of(form.sources[0]) - now_of(form.sources[1]), one - other
    if word in ("eq", "ne"):
        return (was > 0) == (is_ > 0) and (was < 0) == (is_ < 0)
    return word in ("min", "max") and (was <= 0 or is_ >= 0) and (was >= 0 or is_ <= 0)


def _is_elsewhere(form: Form, tried: Assignment) -> bool:
    try:
        value = form.value(Env(tried))
    except (*CANNOT, NoRound):
        return True
    return bool((value.memory, value[-1]) != (form.now.memory, form.now[-1]))
