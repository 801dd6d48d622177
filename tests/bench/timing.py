"""How to time: best of several, and a loop that says how fast this machine is today."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table."""

    what: str
    measured: str
    reference: str = ""
    ratio: str = ""
    budget: str = ""


def best(function: Callable[[], Any], repeats: int = 5) -> float:
    """Return the seconds of processor time of the fastest of several calls: a busy neighbour takes
    time from the clock on the wall, and hardly any from this."""
    return _fastest(function, repeats, time.process_time)


def best_wall(function: Callable[[], Any], repeats: int = 5) -> float:
    """Return the seconds on the wall of the fastest of several calls: of work in several threads."""
    return _fastest(function, repeats, time.perf_counter)


def used(function: Callable[[], Any], repeats: int = 7) -> float:
    """Return `best` of more calls."""
    return best(function, repeats)


def _fastest(function: Callable[[], Any], repeats: int, clock: Callable[[], float]) -> float:
    times = []
    for _ in range(repeats):
        start = clock()
        function()
        times.append(clock() - start)
    return min(times)


def each(function: Callable[[], Any], number: int, repeats: int = 5) -> float:
    """Return the seconds of one call, from the fastest of several runs of `number` calls."""

    def run() -> None:
        for _ in range(number):
            function()

    return best(run, repeats) / number


def calibration() -> float:
    """Return the seconds of a fixed pure-Python loop: 100,000 additions."""

    def loop() -> int:
        total = 0
        for i in range(100_000):
            total += i
        return total

    return best(loop)


def peak_megabytes(program: str, then: str) -> float:
    """Return the peak memory of a process that loads a program for A5 and does `then` with it,
    beyond an interpreter with NumPy."""
    # Not ru_maxrss: a child inherits that figure from whoever started it.
    script = (
        "import sys\n"
        "def peak():\n"
        "    lines = open('/proc/self/status').read().splitlines()\n"
        "    return next(int(line.split()[1]) for line in lines if line.startswith('VmHWM'))\n"
        "import numpy, ml_dtypes\n"
        "base = peak()\n"
        "import ptosim\n"
        "program = ptosim.load(sys.stdin.read(), target='a5')\n"
        f"{then}\n"
        "print(peak() - base)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=program, text=True, capture_output=True, check=True
    )
    return int(done.stdout) / 1024
