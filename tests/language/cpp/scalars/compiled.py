"""The same text for a compiler and for the reader: `python -m tests.language.cpp.scalars.compiled FIRST COUNT`.

g++ makes a batch of kernels one program, in which every run is a process of its own. A sanitizer ends those
whose behaviour C++ does not define, a timer those without an end; they are left out, as are texts that are no
C++. What remains is what the reader must give."""

from __future__ import annotations

import argparse
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import ptosim
from ptosim.ground.diagnostics.model import ProgramError
from ptosim.ground.errors import LimitError, PtosimError
from tests.language.cpp.scalars.kernel import kernel

ARGUMENTS = ((0, 0), (5, 3), (3, 7), (1, 2))
"""n and m of the runs of each kernel."""
MEMORY = (0, 0, 0, 1, 2, 3, 4)
"""`out` before a run."""
BATCH = 40
"""Kernels that are compiled together."""

_LONGEST = 50_000  # instructions of a run that is followed by the simulator; others are left out
_TARGETS = ("a5", "a2a3")
_COMPILER = (
    "g++", "-std=c++17", "-O0", "-w", "-fsanitize=undefined", "-fno-sanitize-recover=all"
)  # fmt: skip
_HEAD = """#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <sys/time.h>
#include <sys/wait.h>
#include <tuple>
#include <type_traits>
#include <unistd.h>
#include <utility>
#define AICORE
#define __global__
#define __gm__
"""
# Processor time, 0.2 s: that of the machine's other work does not count. `alarm` is for what waits.
_MAIN = """
static void run(void (*k)(int *, int, int), int id, int n, int m) {
  if (fork() == 0) {
    alarm(20);
    itimerval limit = {{0, 0}, {0, 200000}};
    setitimer(ITIMER_PROF, &limit, nullptr);
    int out[] = {MEMORY};
    k(out, n, m);
    printf("%d %d %d", id, n, m);
    for (int value : out) printf(" %d", value);
    printf("\\n");
    fflush(stdout);
    _exit(0);
  }
  int status;
  wait(&status);
}
int main() { CALLS }
"""

Given = dict[tuple[int, int], list[int]]
"""What `out` is after a run, by n and m."""


@functools.cache
def missing() -> str:
    """Return what is not here to compare with; empty if all is: a compiler whose sanitizer ends what
    is undefined, and lets other programs be."""
    if shutil.which("g++") is None:
        return "g++ is not installed"
    text = "__global__ AICORE void k(__gm__ int *out, int n, int m) { out[0] = 0x7ffffffb + n; }"
    with tempfile.TemporaryDirectory() as folder:
        (given,) = compiled([text], Path(folder))
    right = {(n, m): [0x7FFFFFFB + n, *MEMORY[1:]] for n, m in ARGUMENTS if n < 5}
    return "" if given == right else "g++ has no sanitizer of undefined behaviour"


def compiled(texts: Sequence[str], folder: Path) -> list[Given]:
    """Return what the compiler's program gives for each kernel; nothing of runs that are left out."""
    program = _compile(texts, folder)
    if program is None:
        if len(texts) < 2:
            return [{} for _ in texts]
        half = len(texts) // 2
        return compiled(texts[:half], folder) + compiled(texts[half:], folder)
    made: list[Given] = [{} for _ in texts]
    said = subprocess.run([program], capture_output=True, text=True, check=False).stdout
    for line in said.splitlines():
        index, n, m, *out = map(int, line.split())
        made[index][n, m] = out
    return made


def _compile(texts: Sequence[str], folder: Path) -> Path | None:
    """Return a program that runs all kernels on all arguments; None if one of them is no C++."""
    parts = [f"namespace k{index} {{\n{text}}}\n" for index, text in enumerate(texts)]
    calls = [f"run(k{i}::k, {i}, {n}, {m});" for i in range(len(texts)) for n, m in ARGUMENTS]
    main = _MAIN.replace("MEMORY", ", ".join(map(str, MEMORY))).replace("CALLS", "\n".join(calls))
    source, program = folder / "kernels.cpp", folder / "kernels"
    source.write_text(_HEAD + "".join(parts) + main, encoding="utf-8")
    made = subprocess.run(
        [*_COMPILER, "-o", program, source], capture_output=True, text=True, check=False
    )
    return program if made.returncode == 0 else None


@dataclass
class Compared:
    """What comparing some kernels has shown; `faults` has a text for each kernel with a wrong value
    or an internal error."""

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
                got = _values(program, n, m)
            except LimitError:
                self.long += 1
                continue
            if got != expected:
                return f"n = {n}, m = {m}: out is {got}, of C++ {expected}"
            self.runs += 1
        return ""


def _is_internal(refusal: PtosimError) -> bool:
    """True if the reader itself failed: it says so, or made a program that is none (of which the codes of
    other rooms tell). PTO8010 is what it does not read, PTO0030 what it takes for an error."""
    if not isinstance(refusal, ProgramError) or "this C++ is not followed" in str(refusal):
        return True
    return any(d.code not in ("PTO8010", "PTO0030") for d in refusal.diagnostics if d.is_error)


def _values(program: ptosim.Program, n: int, m: int) -> list[int]:
    args: Mapping[str, object] = {"out": np.array(MEMORY, np.int32), "n": n, "m": m}
    result = program.run(args, timing=False, max_instructions=_LONGEST)
    return result.outputs["out"].tolist()


def compared(seeds: Sequence[int], folder: Path) -> Compared:
    """Compare the kernels of some seeds, on both targets in turn."""
    result = Compared()
    texts = [kernel(seed) for seed in seeds]
    for seed, text, right in zip(seeds, texts, compiled(texts, folder), strict=True):
        result.add(f"seed {seed}", text, _TARGETS[seed % 2], right)
    return result


def main() -> None:
    """Compare the kernels of the seeds that the command line names, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int, help="the first seed")
    parser.add_argument("count", type=int, help="how many seeds")
    asked = parser.parse_args()
    for first in range(asked.first, asked.first + asked.count, BATCH):
        seeds = range(first, min(first + BATCH, asked.first + asked.count))
        with tempfile.TemporaryDirectory() as folder:
            found = compared(seeds, Path(folder))
        print(
            f"{seeds}: {found.runs} runs are equal, {found.undefined} of {found.kernels} kernels undefined, "
            f"{len(found.refused)} refused, {found.long} runs too long, {len(found.faults)} faults",
            *(reason.partition("\n")[0] for reason in found.refused), *found.faults,
            sep="\n", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    if missing():
        raise SystemExit(missing())
    main()
