"""Programs that g++ makes of kernels: each run is a process of its own, whose values are printed.

A sanitizer ends the runs whose behaviour C++ does not define, a timer those without an end; they are left
out, as are texts that are no C++."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ARGUMENTS = ((0, 0), (5, 3), (3, 7), (1, 2))
"""n and m of the runs of each kernel."""

_COMPILER = (
    "g++", "-std=c++17", "-O0", "-w", "-fsanitize=undefined", "-fno-sanitize-recover=all"
)  # fmt: skip
# Processor time, 0.2 s: that of the machine's other work does not count. `alarm` is for what waits.
_HEAD = """#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <sys/time.h>
#include <sys/wait.h>
#include <tuple>
#include <type_traits>
#include <unistd.h>
#include <utility>
#define AICORE
#define __global__
#define __gm__
template <typename F> static void apart(F work) {
  if (fork() == 0) {
    alarm(20);
    itimerval limit = {{0, 0}, {0, 200000}};
    setitimer(ITIMER_PROF, &limit, nullptr);
    work();
    fflush(stdout);
    _exit(0);
  }
  int status;
  wait(&status);
}
"""

Given = dict[tuple[int, int], list[int]]
"""What a kernel leaves in its memory, by n and m of the run."""


@dataclass(frozen=True)
class Frame:
    """What is around kernels `k` to make them a program. `head` is in front of all of them; `run`
    defines `run(k, id, n, m)`: it runs a kernel `apart`, and prints a line of id, n, m and values."""

    head: str
    run: str


@functools.cache
def missing() -> str:
    """Return what is not here to compare with; empty if all is: a compiler whose sanitizer ends what
    is undefined, and lets other programs be."""
    if shutil.which("g++") is None:
        return "g++ is not installed"
    text = '#include <cstdio>\nint main(int count, char **) { printf("%d", 0x7ffffffe + count); }'
    with tempfile.TemporaryDirectory() as folder:
        program = _compile(text, Path(folder))
        said = program and [
            subprocess.run([program, *more], capture_output=True, text=True, check=False).stdout
            for more in ([], ["one more"])
        ]
    return "" if said == ["2147483647", ""] else "g++ has no sanitizer of undefined behaviour"


def compiled(texts: Sequence[str], frame: Frame, folder: Path) -> list[Given]:
    """Return what the compiler's program gives for each kernel; nothing of runs that are left out."""
    program = _compile(_source(texts, frame), folder)
    if program is None:
        if len(texts) < 2:
            return [{} for _ in texts]
        half = len(texts) // 2
        return compiled(texts[:half], frame, folder) + compiled(texts[half:], frame, folder)
    made: list[Given] = [{} for _ in texts]
    said = subprocess.run([program], capture_output=True, text=True, check=False).stdout
    for line in said.splitlines():
        index, n, m, *values = map(int, line.split())
        made[index][n, m] = values
    return made


def _source(texts: Sequence[str], frame: Frame) -> str:
    """Return a program that runs all kernels on all arguments."""
    kernels = [f"namespace k{index} {{\n{text}}}\n" for index, text in enumerate(texts)]
    runs = [f"run(k{i}::k, {i}, {n}, {m});\n" for i in range(len(texts)) for n, m in ARGUMENTS]
    return "".join([_HEAD, frame.head, *kernels, frame.run, "int main() {\n", *runs, "}\n"])


def _compile(source: str, folder: Path) -> Path | None:
    """Return the program of a text; None if it is no C++."""
    text, program = folder / "kernels.cpp", folder / "kernels"
    text.write_text(source, encoding="utf-8")
    made = subprocess.run(
        [*_COMPILER, "-o", program, text], capture_output=True, text=True, check=False
    )
    return program if made.returncode == 0 else None
