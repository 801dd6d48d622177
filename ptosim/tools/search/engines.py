"""Where jobs are worked on: in this process, in processes of this machine (joblib's loky), on a
cluster (dask.distributed). One interface: results come as they are ready, each with the number of
its job, so that whoever asks can put them in order.

A job whose process ends is tried again: by the cluster's own scheduler, else by itself in a process
of its own, so that it takes no other job with it. If that ends too, the result is `Lost`."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

from ptosim.ground import processes
from ptosim.ground.errors import UsageError
from ptosim.ground.processes import OF_BLAS
from ptosim.tools.search.source import AHEAD, Lost, Work, missing_extra

Job = TypeVar("Job")
ORPHAN = 1.0
"""Seconds between two looks of a worker at whether its parent is there."""


class Workers(Protocol):
    """Works on jobs. `work` is a function of a module; it gets one job and does not raise."""

    @property
    def workers(self) -> int:
        """How many jobs are worked on at the same time."""
        ...

    def map(self, work: Work, jobs: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Yield the number of each job with its result, or `Lost`, as they are ready."""
        ...

    def close(self) -> None:
        """Let the workers go, whatever they do."""
        ...


class InProcess:
    """One job after the other, in this process."""

    workers = 1

    def map(self, work: Work, jobs: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Yield results in order."""
        return ((number, work(job)) for number, job in enumerate(jobs))

    def close(self) -> None:
        """Nothing is left."""


class Processes:
    """Processes of this machine, made by loky."""

    def __init__(self, workers: int) -> None:
        """Raises UsageError (PTO7605) where joblib is not installed."""
        try:
            from joblib.externals.loky import process_executor
        except ImportError as problem:
            raise missing_extra("several processes", "search", problem) from problem
        self.workers = workers
        self._made_by = process_executor
        self._executor: Any = None

    def _start(self, workers: int) -> Any:
        if self._executor is None:
            one = dict.fromkeys(OF_BLAS, os.environ.get(OF_BLAS[0], "1"))
            self._executor = self._made_by.ProcessPoolExecutor(workers, env=one, initializer=_begin)
        return self._executor

    def map(self, work: Work, jobs: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Yield results as they are ready."""
        numbered, suspects = iter(enumerate(jobs)), []
        more = True
        while more:
            more = yield from self._until_lost(work, numbered, suspects)
            self.close()
            for number, job in suspects:
                yield number, self._alone(work, job)
            suspects.clear()

    def _until_lost(
        self, work: Work, jobs: Iterator[tuple[int, Any]], suspects: list[tuple[int, Any]]
    ) -> Iterator[tuple[int, Any]]:
        """Yield results; where a process ends, put the jobs without one into `suspects` and return
        True: there may be more."""
        from concurrent.futures import FIRST_COMPLETED, wait

        waiting: dict[Any, tuple[int, Any]] = {}
        broken = self._made_by.BrokenProcessPool
        executor, at_end = self._start(self.workers), False
        while True:
            try:
                while not at_end and len(waiting) < AHEAD * self.workers:
                    job = next(jobs, None)
                    if job is None:
                        at_end = True
                        break
                    suspects.append(job)  # if the next line fails, nobody has it
                    waiting[executor.submit(work, job[1])] = job
                    suspects.pop()
            except broken:
                suspects += waiting.values()
                return True
            if not waiting:
                return False
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                job = waiting.pop(future)
                try:
                    result = future.result()
                except broken:
                    suspects.append(job)
                else:
                    yield job[0], result
            if suspects:
                suspects += waiting.values()
                return True

    def _alone(self, work: Work, job: Any) -> Any:
        try:
            return self._start(1).submit(work, job).result()
        except self._made_by.BrokenProcessPool:
            self.close()
            return Lost()

    def close(self) -> None:
        """End the processes."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, kill_workers=True)
            self._executor = None


def _begin() -> None:
    """Ctrl-C is for the process that asks; it ends the others. Where it is killed itself, nobody
    tells them."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    processes.seldom()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(ORPHAN)
    os._exit(1)


def engine_of(jobs: int | None = None, cluster: str | None = None) -> Workers:
    """Return an engine: a cluster by its address (`tcp://host:8786`) or `local:N`, else `jobs`
    processes, this one alone for 1 or None. Raises UsageError (PTO7605, PTO7606), and for both."""
    if cluster is not None:
        if jobs is not None:
            raise UsageError("jobs and a cluster contradict each other", help="give one of them")
        from ptosim.tools.search.engines_dask import Cluster

        return Cluster(cluster)
    if jobs is not None and jobs < 1:
        raise UsageError(f"jobs is {jobs}; at least one process works")
    return InProcess() if jobs in (None, 1) else Processes(jobs)
