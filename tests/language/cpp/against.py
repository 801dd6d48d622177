"""The same text for a compiler and for the reader: what comparing kernels shows, and commands that do it.

What the compiler's program gives is what the reader must give; it may refuse a text, and say why."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import ptosim
from ptosim.ground.diagnostics.model import ProgramError
from ptosim.ground.errors import LimitError, PtosimError
from tests.language.cpp.compiler import Frame, Given, compiled, missing

_TARGETS = ("a5", "a2a3")
_FEW = 8
"""So many values are told as they are; of more only those that differ."""


@dataclass(frozen=True)
class Subject:
    """Kernels of one kind: `kernel` makes them from a seed, `batch` are compiled together in a `frame`,
    and `values` runs one by the simulator, with n and m, for what the compiler's program prints."""

    kernel: Callable[[int], str]
    batch: int
    frame: Frame
    values: Callable[[ptosim.Program, int, int], list[int]]


@dataclass
class Compared:
    """What comparing some kernels has shown; `faults` has a text for each kernel with a wrong value
    or an internal error."""

    subject: Subject
    kernels: int = 0
    undefined: int = 0
    """Kernels of which no run has a defined end."""
    refused: list[str] = field(default_factory=list)
    """Reasons for which kernels were not read."""
    runs: int = 0
    """Runs whose values are equal."""
    long: int = 0
    """Runs that were too long for the simulator."""
    faults: list[str] = field(default_factory=list)

    def add(self, name: str, text: str, target: str, right: Given) -> None:
        """Compare one kernel with what the compiler's program gave for it."""
        self.kernels += 1
        if not right:
            self.undefined += 1
            return
        try:
            wrong = self._wrong(text, target, right)
        except Exception as fault:  # of whatever kind: it is the finding
            wrong = f"{type(fault).__name__}: {fault}"
        if wrong:
            self.faults.append(f"{name} on {target}: {wrong}\n{text}")

    def _wrong(self, text: str, target: str, right: Given) -> str:
        """Return what is wrong with a kernel; empty if nothing is, or if it is refused."""
        headed = f"#include <pto/pto-inst.hpp>\nusing namespace pto;\n{text}"
        try:
            program = ptosim.load(headed, target=target, filename="k.cpp")
        except PtosimError as refusal:
            self.refused.append(str(refusal))
            return str(refusal) if _is_internal(refusal) else ""
        for (n, m), expected in right.items():
            try:
                got = self.subject.values(program, n, m)
            except LimitError:
                self.long += 1
                continue
            if got != expected:
                return f"n = {n}, m = {m}: {_difference(got, expected)}"
            self.runs += 1
        return ""


def _is_internal(refusal: PtosimError) -> bool:
    """True if the reader itself failed: it says so, or made a program that is none (of which the codes of
    other rooms tell). PTO8010 is what it does not read, PTO0030 what it takes for an error."""
    if not isinstance(refusal, ProgramError) or "this C++ is not followed" in str(refusal):
        return True
    return any(d.code not in ("PTO8010", "PTO0030") for d in refusal.diagnostics if d.is_error)


def _difference(got: list[int], expected: list[int]) -> str:
    if len(expected) <= _FEW or len(got) != len(expected):
        return f"out is {got}, of C++ {expected}"
    places = [at for at, value in enumerate(expected) if got[at] != value]
    told = "; ".join(f"[{at}] is {got[at]}, of C++ {expected[at]}" for at in places[:_FEW])
    return f"{len(places)} values differ: {told}"


def compared(subject: Subject, seeds: Sequence[int], folder: Path) -> Compared:
    """Compare the kernels of some seeds, on both targets in turn."""
    result = Compared(subject)
    texts = [subject.kernel(seed) for seed in seeds]
    given = compiled(texts, subject.frame, folder)
    for seed, text, right in zip(seeds, texts, given, strict=True):
        result.add(f"seed {seed}", text, _TARGETS[seed % 2], right)
    return result


def compare_batch(subject: Subject, batch: int, size: int, folder: Path) -> None:
    """Fail unless one of the batches of so many kernels is equal, most of it compared."""
    found = compared(subject, range(batch * size, (batch + 1) * size), folder)
    assert not found.faults, "\n".join(found.faults)
    assert found.kernels == size
    assert found.runs >= 2 * size, "most of four runs of each kernel are to be compared"


def main(subject: Subject, description: str | None) -> None:
    """Compare the kernels of the seeds that the command line names, and print what was found."""
    if missing():
        raise SystemExit(missing())
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("first", type=int, help="the first seed")
    parser.add_argument("count", type=int, help="how many seeds")
    asked = parser.parse_args()
    end = asked.first + asked.count
    for first in range(asked.first, end, subject.batch):
        seeds = range(first, min(first + subject.batch, end))
        with tempfile.TemporaryDirectory() as folder:
            found = compared(subject, seeds, Path(folder))
        print(
            f"{seeds}: {found.runs} runs are equal, {found.undefined} of {found.kernels} kernels undefined, "
            f"{len(found.refused)} refused, {found.long} runs too long, {len(found.faults)} faults",
            *(reason.partition("\n")[0] for reason in found.refused), *found.faults,
            sep="\n", flush=True,
        )  # fmt: skip
