"""Many candidates, one verdict each: in the order of the jobs, whoever works on them."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.limits import Limits
from ptosim.tools.search.engines import Workers, engine_of
from ptosim.tools.search.judge_jobs import read_jobs
from ptosim.tools.search.judge_run import FRESH, LIMITS, Task, lost, verdict
from ptosim.tools.search.work import Lost

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
    read; a byte that is no UTF-8 is a fault of its line."""
    try:
        file = path.open(encoding="utf-8-sig", errors="replace")
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror}") from problem
    return _lines(file)


def _lines(file: Any) -> Generator[str, None, None]:
    with file:
        yield from file
