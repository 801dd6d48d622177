"""`python -m tests.soak [--instructions 10000000]`: long runs, and whether their memory stays flat.

Each program runs in each way three times in a process of its own: for a quarter of the instructions,
for half of them and for all. What grows with instructions takes more from each to the next; tables that
fill up do so once. So the lesser of both slopes, in bytes by instruction, is what grows; exit code 1
says that it is more than `FLAT` somewhere. Takes minutes, and is not part of the tests."""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ptosim.engine.core import runners
from ptosim.machine import vector
from ptosim.time.period import folds
from tests.soak.programs import PROGRAMS, arguments, program

FLAT = 0.5
"""Bytes by instruction: 10^7 of them may take 5 MB more."""
NOISE = 1 << 20
"""Bytes that a process may take more or less: pages of a heap in pieces, garbage not yet
collected. A slope that this hides is told, and needs more instructions."""
MOST = 10**15


def _run(name: str, rounds: int, **options: Any) -> int:
    return program(name).run(arguments(name, rounds), max_instructions=MOST, **options).executed


def _followed(name: str, rounds: int) -> int:
    from ptosim.engine.core.binder import Observer
    from ptosim.launch.dry_run import follow

    class Count(Observer):
        executed = 0

        def on_issue(self, *_: object) -> None:
            self.executed += 1

    made, count = program(name), Count()
    follow(made.front, made.profile, made.entry(None), arguments(name, rounds), [count], MOST)
    return count.executed


def _timed(name: str, rounds: int) -> int:
    program(name).cost(args=arguments(name, rounds), max_instructions=MOST)
    return _run(name, 1) * rounds  # a run that is extrapolated executes fewer


def _stepped(name: str, rounds: int) -> int:
    session = program(name).debug(arguments(name, rounds))
    session.walker.checkpoints.kept = CHECKPOINTS
    session.continue_()
    return session.position


def _repeated(name: str, rounds: int) -> int:
    """Many short runs of one program, as a service does. The machine of a run refers to itself, so
    it waits for the collector, which comes at another moment of each run: how many wait at most is
    chance, and rises for some hundreds of runs. So it is called here; what it leaves is what
    grows."""
    made, executed = program(name), 0
    for number in range(rounds):
        executed += made.run(arguments(name, 1)).executed
        if number % COLLECTED == 0:
            gc.collect()
    return executed


class Way(NamedTuple):
    """A way to execute, and the share of the instructions that it gets: some are slow."""

    run: Callable[[str, int], int]
    share: float = 1.0


WAYS = {
    "all sanitizers, timed": Way(lambda n, r: _run(n, r)),
    "values only": Way(lambda n, r: _run(n, r, sanitize="none", timing=False)),
    "retired": Way(lambda n, r: _run(n, r, commit="retire"), 0.1),
    "cost": Way(_timed),
    "followed": Way(_followed, 0.1),
    "debugged": Way(_stepped, 0.3),
    "repeated": Way(_repeated, 0.1),
}
SHARES = {
    "tiles": 1.0, "vectors": 1.0, "region": 0.3, "threads": 0.01, "cores": 0.3, "signals": 0.4,
}  # fmt: skip
"""Of the instructions: a launch of threads is one."""
RECORDS = {"vectors": 1 / 57, "signals": 1 / 4}
"""Records by instruction, where most instructions leave none: a vector region is one, and arithmetic
on scalars is none."""
COLLECTED = 8
"""Short runs after which what is left of them is collected."""
CHECKPOINTS = 8
"""Of a debugger, which usually has some hundreds within a budget that a short run does not reach."""
FEWEST = 1 << 10
"""Records, accesses and instructions after which a run looks for what repeats at the soonest."""


def _look_sooner(share: float, records: float) -> None:
    """Of a program that gets a share of the instructions, of which so many leave a record, look for
    periods after that share of the usual records, and for equal accesses of a region after that of
    the usual ones. Both take some megabytes until they are first looked through, and while they
    are; that is not what grows, so the shortest run has to be beyond it."""
    for module, name, part in (
        (folds, "LEAST", share * records), (folds, "LEAST_GIVEN", share * records),
        (folds, "MANY_WAITS", share * records), (vector, "LONG", share), (runners, "UNTIMED", share),
        (runners, "LONGEST", share),
    ):  # fmt: skip
        setattr(module, name, max(int(getattr(module, name) * part), FEWEST))


class Measured(NamedTuple):
    """What one process took."""

    executed: int
    peak: int  # bytes
    seconds: float  # of the processor


def _measure(name: str, way: str, rounds: int) -> Measured:
    """In a process of its own: the peak of a process never falls."""
    command = [sys.executable, "-m", "tests.soak", "--one", name, way, str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}, {way}, {rounds} rounds:\n{done.stderr}")
    return Measured(**json.loads(done.stdout))


def _one(name: str, way: str, rounds: int) -> None:
    _look_sooner(SHARES[name] * WAYS[way].share, RECORDS.get(name, 1.0))
    executed = WAYS[way].run(name, rounds)
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    print(json.dumps({"executed": executed, "peak": peak, "seconds": time.process_time()}))


def _slope(few: Measured, many: Measured) -> float:
    """Bytes that an instruction leaves, from one run to a longer one."""
    return (many.peak - few.peak) / max(many.executed - few.executed, 1)


def _soak(name: str, way: str, instructions: int) -> bool:
    few = _measure(name, way, 4)
    each = max(few.executed // 4, 1)
    rounds = max(int(instructions * SHARES[name] * WAYS[way].share) // each, 8)
    short, half, long = (_measure(name, way, rounds // part) for part in (4, 2, 1))
    grown = min(_slope(short, half), _slope(half, long))
    micro = 1e6 * (long.seconds - short.seconds) / max(long.executed - short.executed, 1)
    flat = grown <= FLAT or long.peak - short.peak < NOISE
    verdict = "flat" if grown <= FLAT else "flat within 1 MiB" if flat else "GROWS"
    print(
        f"{name:<9}{way:<24}{long.executed:>12,}{short.peak / 2**20:>9.1f}"
        f"{long.peak / 2**20:>9.1f}{grown:>10.2f}{micro:>9.2f}  {verdict}",
        flush=True,
    )
    return flat


def main() -> int:
    """Measure, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--instructions", type=int, default=10**7)
    parser.add_argument("--program", choices=tuple(PROGRAMS))
    parser.add_argument("--way", choices=tuple(WAYS))
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, way, rounds = options.one
        _one(name, way, int(rounds))
        return 0
    print(
        f"{'program':<9}{'way':<24}{'instructions':>12}{'1/4 MiB':>9}{'all MiB':>9}{'B/instr':>10}"
        f"{'us/instr':>9}"
    )
    flat = [
        _soak(name, way, options.instructions)
        for name in ([options.program] if options.program else PROGRAMS)
        for way in ([options.way] if options.way else WAYS)
    ]
    return 0 if all(flat) else 1


if __name__ == "__main__":
    sys.exit(main())
