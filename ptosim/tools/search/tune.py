"""`tune`: the fastest program that is equal to a reference, by rewrites of the program itself or by
a search through a space of its texts, each result with its proof."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import Trap
from ptosim.ground.errors import BudgetError, PtosimError, UsageError
from ptosim.ground.progress import part_done
from ptosim.ground.records import dataclass, field, replace
from ptosim.launch.description import kept_arguments
from ptosim.launch.dry_run import follow
from ptosim.launch.program import LoadedProgram
from ptosim.time.report.totals import CostReport
from ptosim.tools.search.point import arguments, load_text
from ptosim.tools.search.prove import (
    EQUAL,
    REASSOCIATED,
    UNEQUAL,
    Launched,
    Proof,
    hard_values,
    prove,
    run_with,
    same_values,
)
from ptosim.tools.search.request import Recipe, Refused
from ptosim.tools.search.rewrite import REWRITES, Launch, applied
from ptosim.tools.search.source import MakeError, Maker
from ptosim.tools.search.space import Params, Space
from ptosim.tools.search.tune_space import SEARCH, Budget, search

# -- one trial -------------------------------------------------------------------------------------

DEEPEST = 2
"""Rewrites that are applied one after the other."""
FIRST_ONLY = frozenset(["redundant synchronisation out"])
"""Rewrites of the program as it was written; others leave nothing for them."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program that was priced. `how` are the rewrites that made it, `params` the point of the
    space; `bound` is what the busiest pipe needs."""

    program: LoadedProgram
    launch: Launch
    cycles: int
    bound: int
    how: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The program."""
        return self.program.front.source.text

    @property
    def name(self) -> str:
        """What it is, in words."""
        point = " ".join(f"{name}={value}" for name, value in self.params.items())
        return ", ".join((*([point] if point else []), *self.how)) or "as it was"


class Trials:
    """Programs that were tried: the priced ones, and what became of the others."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.priced: dict[bytes, Candidate] = {}
        self.refused: Counter[str] = Counter()
        self.idle: Counter[str] = Counter()
        """Rewrites that had nothing to do, or could not be done, by the reason."""
        self.pruned = 0
        self.repeated = 0

    @property
    def best(self) -> int | None:
        """The fewest cycles so far."""
        return min((c.cycles for c in self.priced.values()), default=None)

    def offer(
        self,
        program: LoadedProgram,
        launch: Launch,
        how: tuple[str, ...] = (),
        params: Mapping[str, Any] | None = None,
    ) -> Candidate | None:
        """Price a program; None for one that was there before or cannot be priced."""
        key = _key(program, launch)
        if key in self.priced:
            self.repeated += 1
            return None
        self.budget.done += 1
        part_done()
        try:
            report = launch.report(program)
        except BudgetError:
            raise
        except PtosimError as problem:
            self.refuse(str(problem))
            return None
        found = Candidate(program, launch, report.cycles, bound_of(report), how, params or {})
        self.priced[key] = found
        return found

    def refuse(self, reason: str) -> None:
        """Count a program that could not be tried, by the reason."""
        self.refused[_line(reason)] += 1

    def rewrite(self, start: Candidate, deepest: int = DEEPEST) -> None:
        """Try the rewrites on a program, and on what they make, breadth first. What cannot get
        below the best one even if no pipe ever waited is left out."""
        level = [start]
        for _ in range(deepest):
            level = [made for one in level for made in self._rewritten(one)]

    def _rewritten(self, start: Candidate) -> list[Candidate]:
        made = []
        for name, rewrite in REWRITES.items():
            if self.budget.is_over or (start.how and name in FIRST_ONLY) or name in start.how:
                continue
            if self.best is not None and start.bound >= self.best:
                self.pruned += 1
                continue
            try:
                program = applied(start.program, rewrite, start.launch)
            except BudgetError:
                raise
            except PtosimError as problem:
                self.idle[_line(f"{name}: {problem}")] += 1
                continue
            found = self.offer(program, start.launch, (*start.how, name), start.params)
            made += [found] if found is not None else []
        return made


def bound_of(report: CostReport) -> int:
    """Return what the busiest pipe of any core works, as a part of the whole launch: no order of
    the same operations is faster."""
    busy = max((p.busy for p in report.pipes if p.pipe != "S"), default=0)
    return round(busy * report.cycles / max(report.span, 1))


def _line(text: str) -> str:
    return " ".join(text.split())


def _key(program: LoadedProgram, launch: Launch) -> bytes:
    text = program.front.source.text
    return hashlib.blake2b(f"{launch.block_num}\n{text}".encode(), digest_size=16).digest()


# --------------------------------------------------------------------------------------------------

TOLERANCES = ("", REASSOCIATED)


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of a search. `trials` programs are priced at most, for `seconds` at most;
    `keep` programs are proven and given back; values are compared on `seeds` sets of data."""

    trials: int = 60
    seconds: float | None = None
    seed: int = 0
    sampler: str = "tpe"
    keep: int = 1
    seeds: int = 3
    tolerance: str = ""
    rewrites: bool = True

    def __post_init__(self) -> None:
        if self.tolerance not in TOLERANCES:
            raise UsageError(
                f"PTO7622: there is no tolerance `{self.tolerance}`", help=f"`{REASSOCIATED}`"
            )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a candidate may take the place of the reference, or why not. `values` is where outputs
    differ first on `seeds` sets of data and on hard data ('' for nowhere), `findings` codes that
    the reference does not have."""

    proof: Proof
    values: str = ""
    seeds: int = 0
    findings: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """True if nothing speaks against it: an equal program, or one that could not be followed
        and gives the same values."""
        if self.findings or self.proof.verdict == UNEQUAL or self.proof.is_of_second:
            return False
        return bool(self.proof.tolerance) or not self.values

    @property
    def is_proven(self) -> bool:
        """True for a program that is equal for all contents (under the tolerance that is named)."""
        return self.holds and self.proof.verdict == EQUAL

    def __str__(self) -> str:
        if self.findings:
            return f"new findings: {', '.join(self.findings)}"
        if self.proof.verdict == UNEQUAL or self.proof.is_of_second:
            return f"not equal: {self.proof.why}"
        if self.values and not self.proof.tolerance:
            return f"values differ: {self.values}"
        same = f"same values on {self.seeds} seeds and hard data"
        if self.proof.verdict != EQUAL:
            return f"{same}; no proof: {self.proof.why}"
        if self.proof.tolerance:
            return f"equal {self.proof.about}, under the tolerance `{self.proof.tolerance}`"
        return f"equal {self.proof.about}; {same}"


@dataclass(frozen=True, slots=True)
class Best:
    """A program that was found, with its verdict."""

    candidate: Candidate
    verdict: Verdict


@dataclass(slots=True)
class Tuned:
    """What a search found: the reference, the programs that may take its place (the fastest
    first), those that were faster and are not equal, and what became of all others: `refused`
    points and `idle` rewrites by reason, `pruned` and `repeated` tries. Where the search was
    `stopped` (why), the fastest that were not compared with the reference any more are `open`."""

    name: str
    reference: Candidate
    best: list[Best] = field(default_factory=list)
    rejected: list[Best] = field(default_factory=list)
    open: list[Candidate] = field(default_factory=list)
    stopped: str = ""
    trials: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    idle: dict[str, int] = field(default_factory=dict)
    pruned: int = 0
    repeated: int = 0

    def speed_up(self, one: Candidate) -> float:
        """Return how many times as fast as the reference a program is."""
        return self.reference.cycles / max(one.cycles, 1)

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "version": 1, "program": self.name, "target": self.reference.program.target,
            "cycles": self.reference.cycles, "bound": self.reference.bound,
            "best": [self._fields(one) for one in self.best],
            "rejected": [self._fields(one) for one in self.rejected],
            "open": [self._of(one) for one in self.open], "stopped": self.stopped,
            "trials": self.trials, "pruned": self.pruned, "repeated": self.repeated,
            "refused": self.refused, "idle": self.idle,
        }  # fmt: skip

    def _fields(self, one: Best) -> dict[str, Any]:
        verdict = one.verdict
        return {
            **self._of(one.candidate),
            "proven": verdict.is_proven, "verdict": str(verdict),
            "proof": verdict.proof.to_dict(), "seeds": verdict.seeds,
            "findings": list(verdict.findings), "program": one.candidate.text,
        }  # fmt: skip

    def _of(self, candidate: Candidate) -> dict[str, Any]:
        return {
            "rewrites": list(candidate.how), "params": dict(candidate.params),
            "cycles": candidate.cycles, "bound": candidate.bound,
            "speed_up": round(self.speed_up(candidate), 4),
            "block_num": candidate.launch.block_num, "program": candidate.text,
        }  # fmt: skip


def tune_program(program: LoadedProgram, launch: Launch, wish: Wish) -> Tuned:
    """Search among the rewrites of a program. Raises ProgramError, UsageError, BudgetError where
    the program itself cannot be launched or priced."""
    trials = Trials(Budget(wish.trials + 1, wish.seconds))
    start = _start(program, launch, trials)
    with trials.budget.within(SEARCH):
        trials.rewrite(start)
    return _concluded(program.front.source.label, start, trials, wish)


def tune_space(
    maker: Maker,
    space: Space,
    recipe: Recipe,
    wish: Wish,
    *,
    target: str | None = None,
    reference: tuple[LoadedProgram, Launch] | None = None,
) -> Tuned:
    """Search through a space. The reference is a program of its own, else that of the first point
    that can be launched. Raises UsageError for a space without a point, and for points of which
    none can be launched (PTO7623)."""
    trials = Trials(Budget(wish.trials + 1, wish.seconds))
    start = None if reference is None else _start(*reference, trials)
    target = target or (recipe.targets[0] if recipe.targets else None)
    if target is None:
        target = "a2a3" if start is None else start.program.chip
    points = _Points(maker, recipe, target, trials, wish)
    budget = trials.budget
    with budget.within(SEARCH, lambda: start is not None or points.first is not None):
        search(space, points.price, lambda: budget.is_over, wish.trials, wish.sampler, wish.seed)
    start = start or points.first
    if start is None:
        told = "; ".join(reason for reason, _ in trials.refused.most_common(1)) or budget.stopped
        raise UsageError(f"PTO7623: no point of the space can be launched: {told}")
    return _concluded(maker.name, start, trials, wish)


class _Points:
    """Points of a space as programs."""

    def __init__(
        self, maker: Maker, recipe: Recipe, target: str, trials: Trials, wish: Wish
    ) -> None:
        self.maker = maker
        self.recipe = recipe
        self.target = target
        self.trials = trials
        self.wish = wish
        self.first: Candidate | None = None

    def price(self, params: Params) -> int | None:
        """Return the fewest cycles of a point, rewrites included; None for a refused one."""
        try:
            asked = self.recipe.at(params)
            program = load_text(self.maker.text(params), self.target, asked, self.maker.name)
        except (MakeError, Refused) as reason:
            self.trials.budget.refused += 1
            self.trials.refuse(str(reason))
            return None
        launch = Launch(asked.entry, arguments(asked) or None, asked.block_num)
        found = self.trials.offer(program, launch, (), params)
        if found is None:
            return None
        self.first = self.first or found
        if not self.wish.rewrites:
            return found.cycles
        before = set(self.trials.priced)
        self.trials.rewrite(found, 1)
        made = (c.cycles for k, c in self.trials.priced.items() if k not in before)
        return min([found.cycles, *made])


def _start(program: LoadedProgram, launch: Launch, trials: Trials) -> Candidate:
    start = trials.offer(program, launch)
    if start is None:
        reason = next(iter(trials.refused), "")
        raise UsageError(f"PTO7623: the program cannot be priced: {reason}")
    return start


def _concluded(name: str, start: Candidate, trials: Trials, wish: Wish) -> Tuned:
    """Prove the fastest ones until as many as are wanted hold."""
    found = Tuned(name, start)
    faster = [c for c in trials.priced.values() if c.cycles < start.cycles]
    faster.sort(key=lambda c: (c.cycles, len(c.how), c.text))
    budget = trials.budget
    while faster and len(found.best) < wish.keep:
        verdict = None
        if not budget.is_late:
            with budget.within(1):
                verdict = judged(start, faster[0], wish)
        if verdict is None:
            found.open = faster[: wish.keep - len(found.best)]
            break
        one = Best(faster.pop(0), verdict)
        (found.best if verdict.holds else found.rejected).append(one)
    found.stopped = budget.stopped
    found.trials = trials.budget.done - 1
    found.refused = dict(trials.refused.most_common())
    found.idle = dict(trials.idle.most_common())
    found.pruned, found.repeated = trials.pruned, trials.repeated
    return found


def judged(before: Candidate, after: Candidate, wish: Wish) -> Verdict:
    """Return whether a program may take the place of another: findings, values, proof."""
    one, two = before.launch.of(before.program), after.launch.of(after.program)
    if two.args is None:
        two = replace(two, args=one.args)
    new = sorted(_codes(after) - _codes(before))
    proof = prove(one, two, tolerance=wish.tolerance)
    if new or proof.verdict == UNEQUAL or proof.is_of_second:
        return Verdict(proof, findings=tuple(new))
    data = [_data(one, wish.seed + n) for n in range(wish.seeds)]
    differs = same_values(one, two, data)
    if not (differs or proof.tolerance):
        differs = hard_values(one, two, wish.seed)
    return Verdict(proof, differs, wish.seeds)


def _codes(candidate: Candidate) -> set[str]:
    """What the text, and following it without values, finds beyond notes."""
    program, launch = candidate.program, candidate.launch
    known = {n: v for n, v in (launch.args or {}).items() if not isinstance(v, np.ndarray)}
    followed = follow(program.front, program.profile, program.entry(launch.entry), known)
    told = [*program.findings, *followed.findings]
    return {d.code for d in told if d.severity > d.severity.NOTE}


def _data(launched: Launched, seed: int) -> Mapping[str, Any] | int:
    """Return the arguments of a seed. Arrays of floats are drawn anew; those of integers, which may
    be places, hold the same numbers in another order, unless the program stops on that. Numbers
    stay. Without arguments the run draws its own."""
    if launched.args is None:
        return seed
    plain, moved = (
        {name: _drawn(value, np.random.default_rng((seed, at)), integers=integers)
         for at, (name, value) in enumerate(launched.args.items())}
        for integers in (False, True)
    )  # fmt: skip
    if not any(_is_whole(value) for value in launched.args.values()):
        return plain
    try:
        run_with(launched, moved)
    except Trap:
        return plain
    return moved


def _is_whole(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "biu"


def _drawn(value: Any, rng: np.random.Generator, *, integers: bool) -> Any:
    if _is_whole(value):
        return rng.permutation(value.reshape(-1)).reshape(value.shape) if integers else value
    if not isinstance(value, np.ndarray):
        return value
    return rng.standard_normal(value.shape).astype(np.float32).astype(value.dtype)


def program_launch(
    program: LoadedProgram, given: Mapping[str, Any], entry: str | None, block_num: int | None
) -> Launch:
    """Return how a program is launched: its sidecar completed by what is given."""
    kept = program.sidecar
    options = kept.options if kept is not None else {}
    args = {**(kept_arguments(kept) if kept is not None else {}), **given}
    number = block_num if block_num is not None else options.get("block_num", 1)
    return Launch(entry or options.get("entry"), args or None, number)


def written(tuned: Tuned, folder: Path) -> list[tuple[Path, str]]:
    """Return the files that the programs go to, with their texts: each says in its first lines what
    it is."""
    stem = Path(tuned.name).name.split(".")[0].split(":")[0] or "program"
    found = [(one.candidate, str(one.verdict)) for one in tuned.best]
    found += [(one, f"not compared with the reference: {tuned.stopped}") for one in tuned.open]
    made = []
    for number, (one, verdict) in enumerate(found, 1):
        head = (
            f"// {stem}, tuned by ptosim for {one.program.front.label}: "
            f"{tuned.reference.cycles:,} -> {one.cycles:,} cycles "
            f"({one.name}; {one.launch.block_num} blocks)\n"
            f"// {verdict}\n\n"
        )
        made.append((folder / f"{stem}.{number}.pto", head + one.text))
    return made
