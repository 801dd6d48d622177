"""Where jobs are worked on: in this process, in processes of this machine (joblib's loky), on a
cluster (dask.distributed). One interface: results come as they are ready, each with the number of
its job, so that whoever asks can put them in order.

A job whose process ends is tried again: by the cluster's own scheduler, else by itself in a process
of its own, so that it takes no other job with it. If that ends too, the result is `Lost`."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

from ptosim.ground import __version__, processes
from ptosim.ground.errors import UsageError
from ptosim.ground.processes import OF_BLAS
from ptosim.tools.search.source import AHEAD, Lost, Work, missing_extra

# Jobs on a cluster of dask.distributed: one that runs already, or one made on this machine.

PATIENCE = 15
"""Seconds that a scheduler, and the first of its workers, may take to answer."""
_LOCAL = re.compile(r"local:(?P<number>[0-9]{1,3})")


class Cluster:
    """Workers of a Dask cluster. A job whose worker is lost is done again by the scheduler; after
    several times, once more when nothing else runs."""

    def __init__(self, address: str) -> None:
        """Raises UsageError: PTO7605 where distributed is not installed, PTO7606 for an address
        where nothing answers and for workers with another ptosim."""
        try:
            from concurrent.futures import CancelledError

            import distributed
            from distributed import client
            from distributed.comm.core import CommClosedError
            from distributed.scheduler import KilledWorker
        except ImportError as problem:
            raise missing_extra("a cluster", "cluster", problem) from problem
        self._dask, self._killed = distributed, KilledWorker
        closed = getattr(client, "ClosedClientError", CommClosedError)
        self._gone = CancelledError, CommClosedError, closed
        self._cluster: Any = None
        self._client: Any = None
        local = _LOCAL.fullmatch(address)
        if local is None and "://" not in address:
            raise UsageError(
                f"PTO7606: `{address}` is no cluster", help="tcp://host:8786, or local:4"
            )
        for name in [n for n in logging.Logger.manager.loggerDict if n.startswith("distributed")]:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # what it tells, we do
        try:
            self._connect(address, int(local["number"]) if local else 0)
        except BaseException:
            self.close()
            raise

    def _connect(self, address: str, local: int) -> None:
        if local:
            self._cluster = self._dask.LocalCluster(
                n_workers=local, threads_per_worker=1, processes=True, dashboard_address=":0",
                silence_logs=logging.CRITICAL,
            )  # fmt: skip
        try:
            self._client = self._dask.Client(self._cluster or address, timeout=PATIENCE)
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except (OSError, ValueError) as problem:  # TimeoutError is an OSError
            reason = " ".join(str(problem).split())
            raise UsageError(
                f"PTO7606: the cluster at {address} cannot be used: {reason}"
            ) from None
        self._check_versions(address)

    def _check_versions(self, address: str) -> None:
        try:
            versions = set(self._client.run(installed).values())
        except Exception as problem:  # whatever happens in a worker's Python
            text = f"PTO7606: the workers of {address} cannot work: {problem}"
            raise UsageError(text, help="install ptosim on every worker") from None
        others = sorted(versions - {__version__})
        if others:
            raise UsageError(
                f"PTO7606: workers of {address} have ptosim {others[0]}, this is {__version__}",
                help="install the same version on every worker",
            )

    @property
    def workers(self) -> int:
        """How many jobs the cluster works on now."""
        return max(sum(self._client.nthreads().values()), 1)

    def map(self, work: Work, jobs: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Yield results as they are ready. Raises UsageError (PTO7606) if the scheduler is lost."""
        try:
            yield from self._results(work, jobs)
        except self._gone as problem:
            reason = " ".join(str(problem).split())
            raise UsageError(
                f"PTO7606: the scheduler of the cluster is lost: {reason}",
                help="start it again, and give the same command: rows that are in a store stay",
            ) from None

    def _results(self, work: Work, jobs: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        numbered = iter(enumerate(jobs))
        given: dict[str, tuple[int, Any]] = {}
        lost: list[tuple[int, Any]] = []

        def next_ones(count: int) -> list[Any]:
            futures = []
            for _, (number, job) in zip(range(count), numbered, strict=False):
                future = self._client.submit(work, job, pure=False)
                given[future.key] = number, job
                futures.append(future)
            return futures

        ready = self._dask.as_completed(next_ones(AHEAD * self.workers))
        for future in ready:
            number, job = given.pop(future.key)
            try:
                result = future.result()
            except self._killed:
                lost.append((number, job))
            else:
                yield number, result
            for another in next_ones(1):
                ready.add(another)
        for number, job in lost:
            try:
                yield number, self._client.submit(work, job, pure=False).result()
            except self._killed:
                yield number, Lost()

    def close(self) -> None:
        """Leave the cluster; one that was made here ends."""
        for each in (self._client, self._cluster):
            if each is not None:
                with contextlib.suppress(OSError, RuntimeError):
                    each.close()
        self._client = self._cluster = None


def installed() -> str:
    """Return the version of ptosim where this is executed."""
    return __version__


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
        from ptosim.tools.search.engines import Cluster

        return Cluster(cluster)
    if jobs is not None and jobs < 1:
        raise UsageError(f"jobs is {jobs}; at least one process works")
    return InProcess() if jobs in (None, 1) else Processes(jobs)
