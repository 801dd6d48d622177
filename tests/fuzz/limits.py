"""The limits of a case: processor time, time on the wall, memory."""

from __future__ import annotations

import contextlib
import gc
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from tests.fuzz.case import Endless

SECONDS = 20
"""Processor time after which a case counts as one without an end."""
WAITING = 120
"""Seconds after which one that only waits does: the machine may be busy."""
GROWTH = 2**30
"""Bytes of memory in use by which a case may exceed what was in use before."""
ADDRESSES = 6 * 2**30
"""Bytes of address space: a program that asks for more gets an error, not the machine."""
_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


def limit_addresses() -> None:
    """Let allocations beyond `ADDRESSES` fail."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    """Raise Endless in what takes too long."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Endless

    before = [signal.signal(s, stop) for s in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, WAITING)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGPROF, before[0])
        signal.signal(signal.SIGALRM, before[1])


class Memory:
    """Watches the memory in use (Linux only; elsewhere it sees nothing). The highest point since
    the mark was set costs a microsecond; to set it costs as much as a short case, so it is set
    after a case that used `STEP` more, and after `OFTEN` cases."""

    STEP = 2**26
    OFTEN = 64

    def __init__(self) -> None:
        self._before = self._cases = 0
        self._set()

    def _set(self) -> None:
        with contextlib.suppress(OSError):
            _RESET.write_text("5", encoding="ascii")  # the highest point is that of now
        self._before, self._cases = in_use("VmRSS:"), 0

    def exceeded(self) -> int:
        """Return the bytes that the case that ends had in use at its highest point if those were
        too many, else 0."""
        if in_use("VmSize:") > ADDRESSES // 2:
            gc.collect()  # what only a cycle holds is not to take them from the next case
        more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - self._before
        self._cases += 1
        if more > self.STEP or self._cases >= self.OFTEN:
            self._set()
        return more if more > GROWTH and self._before else 0


def in_use(key: str) -> int:
    """Return a line of the system's account of this process in bytes; 0 where there is none."""
    try:
        text = _STATUS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    line = text.partition(key)[2].partition("kB")[0].strip()
    return int(line) * 1024 if line.isdigit() else 0
