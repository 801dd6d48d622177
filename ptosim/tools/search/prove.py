"""Are two programs equal for all contents of their arguments? Both are executed on hashes.

Every byte of the arguments gets a number of its own, every operation makes new ones from those of
its operands, and at the end both programs must have left the same in every byte of every argument.
Scalars, shapes and numbers of blocks are those of the launch; the content of the arguments is
anything. Both programs must be free of races, or they could do something else on hardware."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count, product
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import Diagnostic, Origin, Severity, Trap
from ptosim.ground.errors import PtosimError, UsageError
from ptosim.ground.isa.dates import Profile, switches
from ptosim.ground.processes import each_of
from ptosim.ground.records import dataclass, field, replace
from ptosim.ground.source import Span
from ptosim.launch.analysis.differences import hard_data
from ptosim.launch.dry_run import follow as follow_dry
from ptosim.launch.launch import Launch
from ptosim.launch.prepared import Redraw, RunOptions, prepare
from ptosim.launch.program import LoadedProgram
from ptosim.launch.results import Result
from ptosim.machine.pages import has_numbers
from ptosim.tools.search.prove_course import Done, NotPeriodic
from ptosim.tools.search.prove_memory import Hashes, Unprovable
from ptosim.tools.search.prove_period import LEAST_VALUES, Induction, apart
from ptosim.tools.search.prove_run import Follower, global_hashes
from ptosim.tools.search.prove_shared import Parting, can_share, go_through

EQUAL, UNEQUAL, REFUSED = "equal", "unequal", "refused"
FOR_ALL = "for all contents and these scalars, shapes, blocks"
"""What a proof is about; what is printed of one says so."""
REASSOCIATED = "reassociated"
"""The name of the tolerance under which f32 sums in another order count as equal."""

MOST_VALUES = 100_000
"""Combinations of scalars that are gone through for one proof."""
MOST_INSTRUCTIONS = 4_000_000
"""Instructions that are executed for one proof of many values, by each program: some minutes."""
_AT_ONCE = 256
"""Combinations that are gone through before anybody asks if one failed."""

_NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class Proof:
    """What came out. `verdict` is `equal`, `unequal` (an element is another expression) or
    `refused` (one of the programs cannot be followed); `why` says it in words. `elements` counts
    the elements that were compared, `operations` those executed. `tolerance` is the one that was
    needed, "" for bit by bit, `about` what it holds for."""

    verdict: str
    why: str
    elements: int = 0
    operations: int = 0
    tolerance: str = ""
    about: str = FOR_ALL
    span: Span | None = field(default=None, compare=False)
    is_of_second: bool = False
    """True if it is the second program that cannot be followed, and the first could."""

    @property
    def is_equal(self) -> bool:
        """True if the programs are equal for all contents of their arguments."""
        return self.verdict == EQUAL

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "verdict": self.verdict, "why": self.why, "elements": self.elements,
            "operations": self.operations, "tolerance": self.tolerance, "about": self.about,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Launched:
    """A program with how it is launched."""

    program: LoadedProgram
    entry: str | None = None
    args: Mapping[str, Any] | None = None
    block_num: int | None = None
    only: int | None = None
    """The one block of these that is executed; None: all."""

    def run(self, observers: Sequence[Any], sanitize: str = "all") -> Result:
        """Run it, watched, and without time."""
        program, options = self.program, RunOptions(self.block_num or 1, sanitize, timing=False)
        if self.only is None:
            return program.run(
                self.args, entry=self.entry, block_num=self.block_num, timing=False,
                sanitize=sanitize, observers=observers,
            )  # fmt: skip
        made = prepare(program.front, program.profile, program.entry(self.entry), self.args)
        return Launch(made, options, self.args, clusters=[(0, self.only)]).run(observers)


@dataclass(frozen=True, slots=True)
class Followed:
    """What a program makes of its inputs: the hash of every byte of every argument. `result` is
    that of the same run on values, `as_whole` the first operation of which every result was made of
    all that it reads, since it has no rule of its own; `assumed` the bytes of arguments that the
    scalar unit has read, with their values."""

    hashes: dict[str, Hashes]
    widths: dict[str, int]
    result: Result
    as_whole: str = ""
    assumed: dict[str, dict[int, int]] = field(default_factory=dict)
    unordered: frozenset[str] = frozenset()
    """Arguments that several pipes or blocks add to."""


def prove(before: Launched, after: Launched, *, tolerance: str = "") -> Proof:
    """Compare what two programs compute from any content of their arguments.

    `tolerance="reassociated"` also takes sums of f32 in another order as equal; the proof then
    says whether that was needed. Raises UsageError for arguments that do not fit."""
    loose = tolerance == REASSOCIATED
    if why := _otherwise(before.program.profile, after.program.profile):
        return Proof(REFUSED, why)
    proof = _proved(before, after, loose=False)
    if proof.verdict != UNEQUAL or not loose:
        return proof
    other = _proved(before, after, loose=True)
    return other if other.is_equal else proof


def _otherwise(one: Profile, other: Profile) -> str:
    """In what two profiles give programs another meaning, '' in nothing: of switches one that sets
    others, else the first; and what makes it one for both, if there is such: one that sets all."""
    if one.target != other.target:
        return f"A is for {one.target}, B for {other.target}"
    differing = [name for name, value in one.switches.items() if value != other[name]]
    if not differing:
        return ""
    name = next((each for each in differing if switches()[each].sets), None)
    if name is not None:
        cure, more = name, ""
    else:
        name, *others = differing
        wanted = {each: one[each] for each in differing}.items()
        sets = ((n, s.sets.get(one[n], {})) for n, s in switches().items() if n in one.switches)
        cure = next((n for n, given in sets if wanted <= given.items()), name)
        more = f" ({', '.join(others)} too)" if others else ""
    both = f"`--set {cure}={one[cure]}` is for both"
    return f"switch {name} is {one[name]} in A and {other[name]} in B{more}; {both}"


def prove_each(
    launch: Callable[[Mapping[str, int]], tuple[Launched, Launched]],
    scalars: Mapping[str, range],
    *,
    tolerance: str = "",
    jobs: int = 1,
    done: Callable[[object], object] = lambda _: None,
    most: int = MOST_INSTRUCTIONS,
) -> Proof:
    """Compare two programs for all values of some scalars: `launch` gives both for one of each.

    What runs of several values have in common is executed once (`prove_shared`); values that come
    to nothing there are proofs of their own. The first that is not equal is the answer. When `most`
    instructions were executed no value is begun any more: the proof is none, and says so. `done` is
    told of each value. Raises UsageError where there are more than MOST_VALUES of them."""
    values = [dict(zip(scalars, each, strict=True)) for each in _combinations(scalars)]
    blocks = 1
    with suppress(UsageError):
        blocks = launch(values[-1])[0].block_num or 1
    about = _about(scalars, blocks)
    loose = tolerance == REASSOCIATED
    reasons: list[str] = []
    repeating = {} if loose or len(scalars) > 1 else _by_period(launch, values, reasons)
    no_induction = f"; no induction: {reasons[0]}" if reasons else ""
    others = [number for number in range(len(values)) if number not in repeating]
    shared, over = _together(launch, [values[n] for n in others], loose, jobs, most)
    equal = repeating | {others[n]: p for n, p in shared.items()}
    left = {others[n] for n in over}
    for _ in equal:
        done(_)

    def work(number: int) -> Proof:
        try:
            found = prove(*launch(values[number]), tolerance=tolerance)
        except UsageError as problem:
            found = Proof(REFUSED, str(problem))
        return replace(found, span=None)

    rest = [n for n in range(len(values)) if n not in equal and n not in left]
    executed = 0
    for first in range(0, len(rest), _AT_ONCE):
        some = rest[first : first + _AT_ONCE]
        if executed > most:
            left.update(rest[first:])
            break
        for number, proof in zip(some, each_of(work, some, jobs, done), strict=True):
            if not proof.is_equal:
                return replace(
                    proof, why=f"with {_values_text(values[number])}: {proof.why}", about=about
                )
            equal[number] = proof
            executed += proof.operations
    elements, operations = (sum(getattr(p, name) for p in equal.values())
                            for name in ("elements", "operations"))  # fmt: skip
    if left:
        next_one = _values_text(values[min(left)])
        why = (
            f"{len(left):,} of {len(values):,} values are left, the first {next_one}:"
            f" {most:,} instructions were executed; {len(equal):,} are equal{no_induction}"
        )
        return Proof(REFUSED, why, elements, operations, about=about)
    needed = next((p.tolerance for p in equal.values() if p.tolerance), "")
    more = {p.about.removeprefix(FOR_ALL) for p in equal.values()}
    about += "".join(sorted(more))
    why = "sums of f32 in another order" if needed else "every element is the same expression"
    if repeating:
        why += f"; {len(repeating):,} of {len(values):,} values by induction over one period"
    why += no_induction
    return Proof(EQUAL, why, elements, operations, needed, about)


def _by_period(
    launch: Callable[[Mapping[str, int]], tuple[Launched, Launched]],
    values: Sequence[Mapping[str, int]],
    reasons: list[str],
) -> dict[int, Proof]:
    """The values of which induction over one period of a loop shows that they are equal, by number.
    Both programs are free of races with the largest of them. Where there are none, `reasons` gets
    why."""
    if len(values) < LEAST_VALUES:
        return {}
    try:
        both = launch(values[-1])
        if not all(can_share(one, list(values[0])) for one in both):
            return {}
        blocks = [one.block_num or 1 for one in both]
        if blocks[0] != blocks[1]:
            return {}
        every = range(blocks[0]) if blocks[0] > 1 else [None]
        made = [induction(launch, values, block) for block in every]
        found = dict.fromkeys(sorted(apart(made)), Proof(EQUAL, ""))
        if not found or not all(map(_is_clean, both)):
            return {}
        elements, executed = (sum(getattr(m, w) for m in made) for w in ("elements", "executed"))
        return found | {next(iter(found)): Proof(EQUAL, "", elements, executed)}
    except (NotPeriodic, Unprovable, PtosimError) as problem:
        reasons.append(str(problem))
        return {}


def induction(
    launch: Callable[[Mapping[str, int]], tuple[Launched, Launched]],
    values: Sequence[Mapping[str, int]],
    block: int | None = None,
) -> Induction:
    """Begin an induction over rounds, of one block if it is named. Raises NotPeriodic, or
    Unprovable, where there is none."""

    def one_block(given: Mapping[str, int]) -> tuple[Launched, Launched]:
        one, other = launch(given)
        return replace(one, only=block), replace(other, only=block)

    return Induction(one_block, values, _walked, lambda given: all(map(_is_clean, launch(given))))


def _walked(
    launched: Launched, observer: Callable[[Follower], Any]
) -> tuple[Follower, Any, set[str]]:
    follower = Follower(fresh=next(_NUMBERS), loose=False)
    looks, doubts = observer(follower), set[str]()
    with suppress(Done):
        doubts = _doubts(_followed(launched, follower, [looks]))
    return follower, looks, doubts


def _is_clean(launched: Launched) -> bool:
    """True if a dry run with every round finds nothing that a proof must not have."""
    program = launched.program
    found = follow_dry(
        program.front, program.profile, program.entry(launched.entry), launched.args,
        budget=None, block_num=launched.block_num or 1,
    )  # fmt: skip
    return found.is_whole and not any(_breaks(d) for d in found.findings)


def _values_text(given: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in given.items())


def _together(
    launch: Callable[[Mapping[str, int]], tuple[Launched, Launched]],
    values: Sequence[Mapping[str, int]],
    loose: bool,
    jobs: int,
    most: int,
) -> tuple[dict[int, Proof], set[int]]:
    """Values of which one run of each program shows that they are equal, and those that were left
    since it would take too long."""
    if len(values) <= 1:
        return {}, set()
    try:
        both = launch(values[-1])
    except UsageError:
        return {}, set()
    if _otherwise(*(one.program.profile for one in both)):
        return {}, set()
    if not all(can_share(one, list(values[0])) for one in both):
        return {}, set()
    equal, left = _compared(both, values, False, jobs, most)
    if loose and len(equal) + len(left) < len(values):
        again, more = _compared(both, values, True, jobs, most)
        equal, left = {**again, **equal}, left | more
    return equal, left


def _compared(
    both: Sequence[Launched],
    values: Sequence[Mapping[str, int]],
    loose: bool,
    jobs: int,
    most: int,
) -> tuple[dict[int, Proof], set[int]]:
    first, second = (
        go_through(one, values, partial(_ends, one, loose), jobs=jobs, most=most) for one in both
    )
    tolerance = REASSOCIATED if loose else ""
    equal = {}
    for number, one in first.of.items():
        other = second.of.get(number)
        if other is None or "why" in one or "why" in other:
            continue
        if one["assumed"] or other["assumed"] or one["unordered"] or other["unordered"]:
            continue
        if one["held"] == other["held"] and set(other["doubts"]) <= set(one["doubts"]):
            executed = one["executed"] + other["executed"]
            equal[number] = Proof(EQUAL, "", one["elements"], executed, tolerance)
    return equal, {*first.left, *second.left}


def _ends(launched: Launched, loose: bool, parting: Parting) -> dict[str, Any]:
    """Follow a launch and tell what it left: the digest and the size of each argument."""
    follower = Follower(fresh=next(_NUMBERS), loose=loose)
    parting.before = lambda: [held.digest() for held in follower.memory.buffers]
    result = _followed(launched, follower, [parting])
    pairs = list(zip(follower.memory.machine.buffers, follower.memory.buffers, strict=True))
    return {
        "held": [[b.name, b.size, held.digest()] for b, held in pairs],
        "elements": sum(b.size // max(1, b.dtype.bits // 8) for b, _ in pairs),
        "doubts": sorted(_doubts(result)),
        "assumed": sorted(follower.assumed),
        "unordered": bool(follower.sums.unordered),
        "executed": result.executed,
    }


def _combinations(scalars: Mapping[str, range]) -> list[tuple[int, ...]]:
    total = int(np.prod([len(each) for each in scalars.values()], dtype=object))
    if total > MOST_VALUES:
        raise UsageError(
            f"that is {total:,} combinations of scalars, each with a run of its own",
            help=f"at most {MOST_VALUES:,}; a step leaves values out: `n=16..4096:16`",
        )
    return list(product(*scalars.values()))


def _about(scalars: Mapping[str, range], blocks: int) -> str:
    """What a proof for all values of some scalars is about."""
    each = [
        f"{name} in {some.start}..{some[-1]}" + (f":{some.step}" if some.step > 1 else "")
        for name, some in scalars.items()
    ]
    return (
        f"for all contents and all {', '.join(each)}; other scalars as they are; blocks {blocks}; "
        "arguments that do not overlap"
    )


def _proved(before: Launched, after: Launched, *, loose: bool) -> Proof:
    found: list[Followed] = []
    for word, launched in (("the first program", before), ("the second program", after)):
        try:
            found.append(follow(launched, loose=loose))
        except Unprovable as problem:
            return _refused(word, problem, launched.program, second=bool(found))
    new = sorted(_doubts(found[1].result) - _doubts(found[0].result))
    if new:
        why = f"the second program has {', '.join(new)}, the first has not"
        return Proof(REFUSED, why, is_of_second=True)
    return compare(found[0], found[1], loose=loose)


def _doubts(result: Result) -> set[str]:
    """Codes of findings that the machine may do something else than the text says."""
    return {
        d.code
        for d in result.findings
        if d.origin is Origin.HARDWARE and d.severity > Severity.NOTE
    }


def _refused(word: str, problem: Unprovable, program: LoadedProgram, *, second: bool) -> Proof:
    span, place = None, ""
    if problem.op is not None:
        span = program.front.resolved.module.span(problem.op)
        place = f" (`{problem.op.name}`, line {span.line})"
    return Proof(REFUSED, f"{word} {problem}{place}", span=span, is_of_second=second)


def follow(launched: Launched, *, loose: bool = False) -> Followed:
    """Execute a program on values and hashes. Raises Unprovable where hashes cannot follow."""
    follower = Follower(fresh=next(_NUMBERS), loose=loose)
    result = _followed(launched, follower, [])
    widths = {b.name: max(1, b.dtype.bits // 8) for b in follower.memory.machine.buffers}
    return Followed(
        global_hashes(follower), widths, result, follower.as_whole, follower.assumed,
        frozenset(follower.memory.machine.buffers[n].name for n in follower.sums.unordered),
    )  # fmt: skip


def _followed(launched: Launched, follower: Follower, others: Sequence[Any]) -> Result:
    try:
        result = launched.run([follower, *others])
    except Trap as trap:
        raise Unprovable(f"stops: {trap}") from trap
    follower.finish()
    wrong = next((d for d in result.findings if _breaks(d)), None)
    if wrong is not None:
        place = f" in line {wrong.spans[0].line}" if wrong.spans else ""
        raise Unprovable(f"has {wrong.code}{place}: {wrong.message}")
    return result


def _breaks(found: Diagnostic) -> bool:
    """Errors, and warnings that the machine would do something else than the text says."""
    return found.is_error or (found.code.startswith("PTO5") and found.origin is Origin.HARDWARE)


def compare(first: Followed, second: Followed, *, loose: bool = False) -> Proof:
    """Compare what two programs made of the same inputs."""
    if set(first.hashes) != set(second.hashes):
        return Proof(UNEQUAL, "the programs have other arguments")
    elements = 0
    for name, hashes in first.hashes.items():
        other = second.hashes[name]
        if len(hashes) != len(other):
            return Proof(UNEQUAL, f"%{name} has another size")
        elements += len(hashes) // first.widths[name]
        wrong = np.flatnonzero(hashes != other)
        if len(wrong):
            told = _difference(name, wrong, first.widths[name], len(hashes))
            whole = first.as_whole or second.as_whole
            if whole:
                return Proof(REFUSED, f"{told}, and {whole} is followed as a whole only")
            return Proof(UNEQUAL, told)
    executed = first.result.executed + second.result.executed
    how = "sums of f32 in another order" if loose else "every element is the same expression"
    about = FOR_ALL
    read = sorted({*first.assumed, *second.assumed})
    if read:
        about += f", and what the scalar unit reads of {', '.join(f'%{n}' for n in read)} as it is"
    added = sorted(first.unordered | second.unordered)
    if added:
        names = ", ".join(f"%{name}" for name in added)
        about += f", and what blocks add to {names} coming in the same order"
    for name in read:
        one, other = (each.assumed.get(name, {}) for each in (first, second))
        if any(other.get(at, value) != value for at, value in one.items()):
            return Proof(REFUSED, f"the scalar unit has read other values of %{name}")
    return Proof(EQUAL, how, elements, executed, REASSOCIATED if loose else "", about)


def _difference(name: str, wrong: np.ndarray, width: int, size: int) -> str:
    places = np.unique(wrong // width)
    return (
        f"{len(places):,} of {size // width:,} elements of %{name} are other expressions, "
        f"the first is element {places[0]:,}"
    )


def same_values(before: Launched, after: Launched, data: Sequence[Any]) -> str:
    """Run both programs on sets of data: arguments by name, or the seed of generated ones. Return
    where outputs differ first, '' if they are the same bit by bit."""
    for number, given in enumerate(data):
        first, second = (run_with(one, given) for one in (before, after))
        for name, array in first.outputs.items():
            other = second.outputs.get(name)
            if other is None or array.tobytes() != other.tobytes():
                return f"%{name} of set {number} of the data"
    return ""


HARD_KINDS = ("hard", "cancel", "ties", "special")
"""The kinds of hard data that two programs are compared on."""


def hard_values(before: Launched, after: Launched, seed: int = 0) -> str:
    """Run both programs on data that is hard for either (`launch/hard.py`), the arrays of their
    arguments drawn again. Return where outputs differ first, '' if they are the same: NaN is equal
    to NaN. Data on which the first program stops is left out."""
    programs = [(one.program, one.entry) for one in (before, after)]
    given = {n: Redraw(v) for n, v in (before.args or {}).items()}
    for kind in HARD_KINDS:
        try:
            (data,) = hard_data(programs, given, [kind], seed, block_num=before.block_num)
            first = run_with(before, data)
        except (Trap, UsageError):
            continue
        try:
            second = run_with(after, data)
        except Trap:
            return f"the second program stops on hard data ({kind})"
        except UsageError as problem:
            return f"the arguments of the first program ({problem})"
        for name, array in first.outputs.items():
            if name not in second.outputs or not _is_same(array, second.outputs[name]):
                return f"%{name} of hard data ({kind})"
    return ""


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    if one.tobytes() == other.tobytes():
        return True
    if one.dtype != other.dtype or one.shape != other.shape or not has_numbers(one.dtype):
        return False
    size = f"u{one.dtype.itemsize}"
    different = np.ascontiguousarray(one).view(size) != np.ascontiguousarray(other).view(size)
    return bool((np.isnan(one) & np.isnan(other))[different].all())


def judged_hard(before: Launched, after: Launched, proof: Proof) -> Proof:
    """Hold a proof, or that there is none, against hard data: programs that it tells apart are not
    equal. What is equal up to the order of its sums may differ."""
    if proof.verdict == UNEQUAL or proof.tolerance:
        return proof
    differs = hard_values(before, after)
    if differs:
        return replace(proof, verdict=UNEQUAL, why=f"values differ: {differs}")
    if proof.verdict == REFUSED and proof.span is not None:
        return replace(proof, why=f"{proof.why}; hard data does not tell them apart")
    return proof


def run_with(launched: Launched, given: Any) -> Result:
    """Run a program on arguments by name, or on those of a seed."""
    is_seed = isinstance(given, int)
    return launched.program.run(
        launched.args if is_seed else given, entry=launched.entry, block_num=launched.block_num,
        timing=False, sanitize="none", seed=given if is_seed else 0,
    )  # fmt: skip
