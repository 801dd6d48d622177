"""Many candidates, one verdict each: in the order of the jobs, whoever works on them."""

from __future__ import annotations

import hashlib
import math
import re
import secrets
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ptosim.ground.confined import bounded
from ptosim.ground.diagnostics.model import Diagnostic, Severity, finding
from ptosim.ground.errors import UsageError
from ptosim.ground.files import lines_of, refuse_device
from ptosim.ground.isa.costs import GIB
from ptosim.ground.isa.schema import plain_dtypes
from ptosim.ground.limits import UNTRUSTED, Limits
from ptosim.ground.records import dataclass, field, replace
from ptosim.ground.words import whole
from ptosim.language.place.cores import peer_functions
from ptosim.launch.hard import drawn
from ptosim.launch.paths.caller import broken_by
from ptosim.launch.prepared import NORMAL, Redraw
from ptosim.launch.program import LoadedProgram
from ptosim.time.report.totals import CostReport
from ptosim.tools.search import point
from ptosim.tools.search.engines import Workers, engine_of
from ptosim.tools.search.judge_jobs import Candidate, Expression, read_jobs
from ptosim.tools.search.point import DONE, cost, hazards, judging, load_text
from ptosim.tools.search.request import Refused, Request, refused_by
from ptosim.tools.search.source import Lost

# -- the runs --------------------------------------------------------------------------------------

# The least time in which a chip can do what a launch did: cycles below it are no result.


def least_cycles(report: CostReport, written: int = 0) -> int:
    """Return the cycles below which no launch of these bytes and operations is: the bytes read, and
    those written (`written` at least, what the outputs have), over the whole chip's bandwidth, and
    the work of the busiest pipe."""
    moved = report.moved()
    amounts = {"read": moved["read"], "write": max(moved["write"], written)}
    by_memory = max(bytes_ / _a_cycle(report, way) for way, bytes_ in amounts.items())
    by_pipe = max((use.busy for use in report.pipes), default=0)
    return max(math.floor(by_memory), by_pipe)


def _a_cycle(report: CostReport, direction: str) -> float:
    """Bytes that the chip moves in a cycle."""
    rate = report.table[f"machine.{direction}_total"]["gib_per_second"]
    return rate * GIB / (report.mhz * 1e6)


def untimed(report: CostReport) -> str:
    """Return the operations that count no cycles because no law covers them; '' if there are
    none."""
    return ", ".join(f"{name} ({count:,})" for name, count in report.unknown.items())


LIMITS = Limits(10_000_000, UNTRUSTED.seconds, UNTRUSTED.memory)
"""Of a candidate, which a stranger may have written, where neither its job nor the caller says
others."""
FRESH = 1
"""Rounds of inputs that nobody could know, beside those that a job names."""
MOST_DIAGNOSTICS = 50
_RANDOM = re.compile(r"(?P<kind>randn|randint):(?P<dtype>[^:]+):(?P<shape>[^:]+)(?P<seed>:\d+)?")
_CODE = re.compile(r"(PTO\d{4}): ?(.*)", re.DOTALL)
_SEEDS = 1 << 31


@dataclass(frozen=True, slots=True)
class Task:
    """A candidate, its number among all, and what the judge adds: a secret that its fresh inputs
    come from, how many rounds of them, limits where the job has none."""

    candidate: Candidate
    number: int
    secret: int
    fresh: int = FRESH
    limits: Limits = LIMITS
    times: bool = False


@dataclass(slots=True)
class Judgement:
    """What is known of a candidate on a target."""

    target: str
    stage: str = DONE
    reason: str | None = None
    findings: list[Diagnostic] = field(default_factory=list)
    cycles: int | None = None
    us: float = 0.0


def verdict(task: Task) -> dict[str, Any]:
    """Return the verdict on a candidate; never raises for what is wrong with it."""
    begin = time.perf_counter()
    given = task.candidate
    with bounded(_limits(given.request.limits, task.limits).memory):
        found = [Judgement("", "parse", given.problem)] if given.problem else _on_targets(task)
    result = _verdict(given.id, found)
    if task.times:
        result["seconds"] = round(time.perf_counter() - begin, 6)
    return result


def lost(task: Task, reason: str) -> dict[str, Any]:
    """Return the verdict on a candidate whose process ended."""
    return _verdict(task.candidate.id, [Judgement("", "run", reason)])


def _on_targets(task: Task) -> list[Judgement]:
    """The judgement on each target, up to the first that refuses the candidate."""
    found: list[Judgement] = []
    for target in task.candidate.targets:
        found.append(_judge(task, target))
        if found[-1].stage != DONE:
            break
    return found


def _verdict(name: Any, found: Sequence[Judgement]) -> dict[str, Any]:
    last = found[-1]
    ok = last.stage == DONE
    told = [d.to_dict() for each in found for d in _findings_to_show(each)]
    shown = [d for at, d in enumerate(told) if d not in told[:at]]  # targets say the same
    return {
        "id": name,
        "ok": ok,
        "stage": last.stage,
        "score": _score([each.us for each in found]) if ok else 0.0,
        "cycles": {each.target: each.cycles for each in found if each.cycles is not None},
        "diagnostics": shown[:MOST_DIAGNOSTICS],
    }


def _score(times: Sequence[float]) -> float:
    """Launches in a millisecond: the geometric mean over the targets."""
    logs = [math.log(1000 / us) if us > 0 else 0.0 for us in times]
    return round(math.exp(sum(logs) / len(logs)), 6)


def _findings_to_show(found: Judgement) -> list[Diagnostic]:
    """The findings to show, the errors first; what has no finding is made one."""
    kept = [d for d in found.findings if d.severity > Severity.NOTE]
    kept.sort(key=lambda d: -d.severity)
    is_told = any(d.is_error or f"{d.code}: {d.message}" == found.reason for d in kept)
    if found.stage == DONE or is_told:
        return kept
    coded = _CODE.fullmatch(found.reason or "")
    code, message = (coded[1], coded[2]) if coded is not None else ("PTO7614", found.reason or "")
    return [finding(code, message), *kept]


def _judge(task: Task, target: str | None) -> Judgement:
    given = task.candidate
    limits = _limits(given.request.limits, task.limits)
    followed = min(given.request.followed, limits.instructions or given.request.followed)
    request = replace(given.request, limits=limits, followed=followed)
    found = Judgement(target or "")
    with judging(found, request.limits) as at:
        at("parse")
        program = load_text(given.text, target, request, given.name)
        found.target = program.front.label
        at("hazards")
        found.findings = hazards(program, request)
        _refuse_outside(program, request)
        rounds = _rounds(task)
        if request.expect:
            for fresh, seed in rounds:
                _check(program, request, task, (fresh, seed), at)
            if given.inputs != NORMAL and _is_open(given):
                _check(program, request, task, (True, _secret(task, "hard")), at, given.inputs)
        at("cost")
        _time(found, program, replace(request, args=_seeded(request.args, rounds[0])))
    return found


def _refuse_outside(program: LoadedProgram, request: Request) -> None:
    """Raise Refused at `hazards` for scalars that break what the entry requires."""
    entry, known = program.entry(request.entry), point.scalars(program, request)
    is_run = bool(request.expect)  # else it is only timed, with scalars that are allowed
    broken = broken_by(
        program.front, program.profile, entry, known, request.block_num, is_run=is_run
    )
    if broken:
        raise Refused("hazards", f"{broken[0].code}: {broken[0].message}", tuple(broken))


def _limits(own: Limits, usual: Limits) -> Limits:
    """The limits of a job, and the usual ones where it has none."""
    return Limits(
        own.instructions or usual.instructions,
        own.seconds or usual.seconds,
        own.memory or usual.memory,
    )


def _rounds(task: Task) -> list[tuple[bool, int]]:
    """The rounds of inputs: whether nobody could know them, and their seed. What is expected as an
    array belongs to one set of inputs."""
    given = task.candidate
    named = [(False, seed) for seed in given.seeds or (0,)]
    if not _is_open(given):
        return named[:1]
    return named + [(True, _secret(task, f"input {n}")) for n in range(task.fresh)]


def _is_open(given: Candidate) -> bool:
    """True if what is expected can be computed for other inputs."""
    return bool(given.request.expect) and all(map(_is_computed, given.request.expect.values()))


def _is_computed(value: Any) -> bool:
    return callable(value) or isinstance(value, Expression)


def _secret(task: Task, what: str) -> int:
    digest = hashlib.sha256(f"{task.secret} {task.number} {what}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % _SEEDS


def _seeded(args: Mapping[str, Any], round_: tuple[bool, int]) -> dict[str, Any]:
    """The arguments of a round: the n-th random one without a seed of its own has seed + n; in a
    round that nobody could know no seed is its own."""
    fresh, seed = round_
    found: dict[str, Any] = {}
    for name, spec in args.items():
        match = _RANDOM.fullmatch(spec) if isinstance(spec, str) else None
        if match is not None and (fresh or match["seed"] is None):
            spec = f"{match['kind']}:{match['dtype']}:{match['shape']}:{seed}"
            seed += 1
        found[name] = spec
    return found


def _check(
    program: LoadedProgram,
    request: Request,
    task: Task,
    round_: tuple[bool, int],
    at: Any,
    inputs: str = NORMAL,
) -> None:
    """Run a round and compare, on random arguments or on `inputs` of another kind in their place.
    Raises Refused."""
    at("run")
    seeded = replace(request, args=_seeded(request.args, round_), seed=_secret(task, "run"))
    try:
        args = point.arguments(seeded)
        if inputs != NORMAL:
            args = _hard(program, seeded, args, inputs)
    except Exception as problem:
        raise refused_by("run", problem) from problem
    rng = np.random.default_rng(_secret(task, f"poison {round_}"))
    begun = _poisoned(program, seeded, args, rng)
    wanted = _expected(seeded, begun)
    for name, value in begun.items():
        if name in wanted and _is_answer(value, wanted[name]):
            begun[name] = _poison(value, rng)
    result = point.executed(program, begun, seeded)
    at("values")
    for found in point.compared(result, wanted, request.tolerance):
        if not found.passed:
            how = "inputs drawn anew" if round_[0] else f"the inputs of seed {round_[1]}"
            how = how if inputs == NORMAL else f"inputs of the kind `{inputs}`"
            raise Refused(
                "values",
                f"PTO7612: output `{found.name}` is not that of the reference ({found.tolerance}) "
                f"on {how}",
            )


def _hard(
    program: LoadedProgram, request: Request, args: Mapping[str, Any], kind: str
) -> dict[str, Any]:
    """The arguments with data that is hard for the program where they are random."""
    resolved = program.front.resolved
    launched = peer_functions(resolved, resolved.functions[program.entry(request.entry)])
    given = {n: Redraw(v) if _is_random(request.args[n]) else v for n, v in args.items()}
    return drawn(launched, given, kind, request.seed)


def _is_random(spec: Any) -> bool:
    return isinstance(spec, str) and _RANDOM.fullmatch(spec) is not None


def _expected(request: Request, args: Mapping[str, Any]) -> dict[str, Any]:
    """What is expected, as arrays. Raises Refused at `values`."""
    made = {n: _reference(e, request) for n, e in request.expect.items()}
    return point.expected(replace(request, expect=made), args)


def _reference(given: Any, request: Request) -> Any:
    if not isinstance(given, Expression):
        return given
    try:
        function = point.reference_named(str(given), request.base)
    except UsageError as problem:
        raise refused_by("values", problem) from problem
    return function or (lambda **args: eval(str(given), {"np": np, **args}))  # the job's author's


def _poisoned(
    program: LoadedProgram,
    request: Request,
    args: Mapping[str, Any],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """The arguments with poison in the outputs that begin as zeros. Where the program combines its
    stores with what is there, zeros stay; other contents are inputs as well, and what is left out
    the run fills with data of its own seed."""
    if _combines(program):
        return dict(args)
    return {
        name: _poison(value, rng) if name in request.expect and _is_zeros(request, name) else value
        for name, value in args.items()
    }


def _is_zeros(request: Request, name: str) -> bool:
    spec = request.args.get(name)
    return isinstance(spec, str) and spec.startswith("zeros:")


def _poison(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Bytes that are never zero, of the array's type and shape."""
    if array.dtype.kind == "b":
        return np.ones_like(array)
    if array.dtype.itemsize > 1 or array.dtype.kind == "u":
        raw = rng.integers(1, 256, array.nbytes, np.uint8)
        return raw.view(array.dtype).reshape(array.shape)
    return rng.integers(1, 8, array.nbytes, np.uint8).view(array.dtype).reshape(array.shape)


def _is_answer(value: Any, wanted: Any) -> bool:
    wanted = np.asarray(wanted)
    if not isinstance(value, np.ndarray):
        return False
    return value.size == wanted.size and value.tobytes() == wanted.tobytes()


def _combines(program: LoadedProgram) -> bool:
    """True if a store of the program adds to what is in memory."""
    ops = program.front.resolved.ops
    return any("atomic" in op.name for op in ops) or any(
        str(value) not in ("atomic_none", "none", "None")
        for op in ops
        for key, value in op.attributes.items()
        if "tomic" in key
    )


def _time(found: Judgement, program: LoadedProgram, request: Request) -> None:
    """Count the cycles. Raises Refused at `cost`, also for cycles that no machine has."""
    report = cost(program, request)
    found.cycles, found.us = report.cycles, report.least_microseconds
    free = untimed(report)
    if free:
        raise Refused("cost", f"PTO7610: no law says what these operations take: {free}")
    least = least_cycles(report, _written(program, request))
    if report.cycles < least:
        raise Refused("cost", f"PTO7610: {report.cycles:,} cycles; the machine needs {least:,}")


def _written(program: LoadedProgram, request: Request) -> int:
    """Bytes that the outputs have: those that have to be written."""
    dtypes = {arg.name: arg for arg in program.signature(request.entry)}
    sizes = 0
    for name in request.expect:
        spec = request.args.get(name)
        if name in dtypes and isinstance(spec, np.ndarray):
            sizes += spec.nbytes
        elif name in dtypes and isinstance(spec, str) and spec.count(":") >= 2:
            sizes += _size(spec)
    return sizes


def _size(spec: str) -> int:
    _, dtype, shape, *_ = spec.split(":")
    known = plain_dtypes().get(dtype)
    dims = [whole(d) for d in shape.lower().split("x")]
    if known is None or None in dims:
        return 0
    return known.bytes_for(math.prod(d or 0 for d in dims))


# --------------------------------------------------------------------------------------------------

Verdict = dict[str, Any]


class Judge:
    """Judges jobs on an engine; fresh inputs come from `seed`, which is drawn if nobody says
    one."""

    def __init__(
        self,
        engine: Workers,
        seed: int | None = None,
        *,
        fresh: int = FRESH,
        limits: Limits = LIMITS,
        times: bool = False,
    ) -> None:
        if fresh < 0:
            raise UsageError(f"fresh is {fresh}; it is a number of rounds from 0 on")
        self._engine = engine
        self._secret = secrets.randbits(64) if seed is None else seed
        self._fresh, self._times = fresh, times
        self._limits = Limits(
            limits.instructions or LIMITS.instructions,
            limits.seconds or LIMITS.seconds,
            limits.memory or LIMITS.memory,
        )

    def verdicts(
        self, jobs: Iterable[str | Mapping[str, Any]], folder: Path | None = None
    ) -> Iterator[Verdict]:
        """Yield the verdict on each job, in their order; those that are ready before their turn
        wait."""
        given: dict[int, Task] = {}
        ready: dict[int, Verdict] = {}
        turn = 0

        def tasks() -> Iterator[Task]:
            for number, candidate in enumerate(read_jobs(jobs, folder)):
                limits = self._limits
                task = Task(candidate, number, self._secret, self._fresh, limits, self._times)
                given[number] = task
                yield task

        for number, found in self._engine.map(verdict, tasks()):
            task = given.pop(number)
            ready[number] = lost(task, found.reason) if isinstance(found, Lost) else found
            while turn in ready:
                yield ready.pop(turn)
                turn += 1


def judge(
    jobs: Iterable[str | Mapping[str, Any]] | str | Path,
    *,
    workers: int | None = None,
    cluster: str | None = None,
    seed: int | None = None,
    fresh: int = FRESH,
    max_instructions: int | None = None,
    max_seconds: float | None = None,
    max_memory: int | None = None,
    times: bool = False,
) -> list[Verdict]:
    """Judge candidates and return one verdict for each, in their order.

    `jobs` are mappings with the keys of `ptosim judge` (`id`, `program` or `text`, `target`,
    `args`, `seeds`, `expect`, `limits`), lines of JSON, or the path of a file of such lines; an
    expectation may be an array or a function of the arguments. `workers` processes work on them
    (1), or a `cluster` of Dask. Inputs of `fresh` rounds are drawn anew, from `seed` if it is
    given. Limits hold for each job. A verdict has `id`, `ok`, `stage`, `score`, `cycles` by target
    and `diagnostics`. Raises UsageError for a file that cannot be read, and for what `engine_of`
    refuses; a line that is no job has a verdict."""
    folder, lines = None, jobs
    if isinstance(jobs, (str, Path)):
        folder, lines = Path(jobs).parent, read_lines(Path(jobs))
    engine = engine_of(workers, cluster)
    limits = Limits(max_instructions, max_seconds, max_memory)
    try:
        judges = Judge(engine, seed, fresh=fresh, limits=limits, times=times)
        return list(judges.verdicts(lines, folder))  # type: ignore[arg-type]
    finally:
        engine.close()
        if folder is not None:
            lines.close()  # type: ignore[union-attr]


def read_lines(path: Path) -> Generator[str, None, None]:
    """Return the lines of a file, one after the other. Raises UsageError at once if it cannot be
    read, and for a line that is larger than a file may be; a byte that is no UTF-8 is a fault of
    its line."""
    try:
        refuse_device(path)
        file = path.open("rb")
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror}") from problem
    return _lines(file, str(path))


def _lines(file: Any, name: str) -> Generator[str, None, None]:
    with file:
        yield from lines_of(file, name)
