"""Start-up: commands on one small file as whole processes, beside an interpreter with the libraries."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.programs import check_kernel
from tests.bench.timing import Figure

ROUNDS = 7
COMMANDS = (
    ("check --no-dry-run", True, "<= 0.12 s", "0.2 s"),
    ("check", True, "<= 0.28 s", ""),
    ("check", False, "<= 0.12 s", ""),
    ("run", True, "<= 0.28 s", "0.5 s"),
    ("cost", True, "", "0.5 s"),
)
"""Words, whether the text is another one each time, what is allowed, what it took before
2026-11-15 (on another day of the same kind of machine)."""
PROGRAM = "programs/basics/vadd.pto"


def start_up() -> list[Figure]:
    """Each command in turn with an interpreter that loads NumPy and ml_dtypes, several rounds; with
    bytecode, which `pip install` makes, and a cache of its own. A text that was changed is checked,
    one that was not is remembered."""
    floor = [sys.executable, "-c", "import numpy, ml_dtypes"]
    taken: list[list[tuple[float, float]]] = [[] for _ in range(len(COMMANDS) + 2)]
    with tempfile.TemporaryDirectory() as folder:
        around = environment(folder)
        texts = [Path(PROGRAM).read_text()] * len(COMMANDS) + [check_kernel(200)]
        lines: list[list[str]] = []
        for number in range(ROUNDS + 1):
            lines = [floor]
            for place, text in enumerate(texts):
                words, is_new = COMMANDS[place][:2] if place < len(COMMANDS) else ("check -q", True)
                kernel = Path(folder) / f"kernel{place}.pto"
                kernel.write_text(f"{text}// {number if is_new else 0}\n")
                lines.append([sys.executable, "-m", "ptosim", *words.split(), str(kernel)])
            spent = [seconds_of(line, around) for line in lines]
            if number:  # the first round makes bytecode and cache
                for samples, one in zip(taken, spent, strict=True):
                    samples.append(one)
        shutil.rmtree(Path(folder) / "cache")
        first = seconds_of(lines[-1], around)
    bare = min(processor for _, processor in taken[0])
    reference = f"Python, NumPy, ml_dtypes CPU {bare:.3f} s"
    rows = [
        (f"{words} of a small file{'' if is_new else ' that did not change'}", budget, before)
        for words, is_new, budget, before in COMMANDS
    ]
    rows.append(("check -q of 200 lines", "<= 0.3 s", ""))
    figures = [
        Figure(
            what, _text(samples), f"{reference}{f'; before {before}' if before else ''}",
            f"{min(cpu for _, cpu in samples) / bare:.2f}", budget,
        )
        for (what, budget, before), samples in zip(rows, taken[1:], strict=True)
    ]  # fmt: skip
    ratio = f"{first[1] / bare:.2f}"
    return [
        *figures,
        Figure("check of 200 lines, no cache", f"CPU {first[1]:.3f} s", reference, ratio),
    ]


def environment(folder: str) -> dict[str, str]:
    """Return the surroundings of a command whose bytecode and cache are in a folder of its own."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    own = {"PTOSIM_CACHE_DIR": f"{folder}/cache", "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
    return kept | own


def seconds_of(command: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall-clock and processor seconds of one process."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _text(samples: list[tuple[float, float]]) -> str:
    walls, processor = zip(*samples, strict=True)
    middle = statistics.median(walls)
    return f"CPU {min(processor):.3f} s; wall {min(walls):.3f}, median {middle:.3f}"
