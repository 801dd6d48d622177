"""Jobs on a cluster of dask.distributed: one that runs already, or one made on this machine."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.version import __version__
from ptosim.tools.search.source import AHEAD, Lost, Work, missing_extra

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
            import distributed
            from distributed.scheduler import KilledWorker
        except ImportError as problem:
            raise missing_extra("a cluster", "cluster", problem) from problem
        self._dask, self._killed = distributed, KilledWorker
        self._cluster: Any = None
        self._client: Any = None
        local = _LOCAL.fullmatch(address)
        if local is None and "://" not in address:
            raise UsageError(
                f"PTO7606: `{address}` is no cluster", help="tcp://host:8786, or local:4"
            )
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what it tells, we do
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
        """Yield results as they are ready."""
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
