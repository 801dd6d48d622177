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
    ("check --no-dry-run", "<= 0.12 s"),
    ("check", "<= 0.28 s"),
    ("run", "<= 0.28 s"),
    ("cost", ""),
)
PROGRAM = "programs/basics/vadd.pto"


def start_up() -> list[Figure]:
    """Each command in turn with an interpreter that loads NumPy and ml_dtypes, several rounds; with
    bytecode, which `pip install` makes, and a cache of its own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = _environment(folder)
        kernel = Path(folder) / "kernel.pto"
        kernel.write_text(check_kernel(200))
        floor = [sys.executable, "-c", "import numpy, ml_dtypes"]
        chosen = [(words.split(), PROGRAM, budget) for words, budget in COMMANDS]
        chosen.append((["check", "-q"], str(kernel), "<= 0.3 s"))
        lines = [[sys.executable, "-m", "ptosim", *words, file] for words, file, _ in chosen]
        for line in lines:  # bytecode and cache
            _seconds(line, environment)
        shutil.rmtree(Path(folder) / "cache")
        first = _seconds(lines[-1], environment)
        for line in lines:
            _seconds(line, environment)
        taken: list[list[tuple[float, float]]] = [[] for _ in range(len(lines) + 1)]
        for _ in range(ROUNDS):
            for samples, line in zip(taken, [floor, *lines], strict=True):
                samples.append(_seconds(line, environment))
    bare = min(wall for wall, _ in taken[0])
    reference = f"Python, NumPy, ml_dtypes {bare:.3f} s"
    figures = [
        Figure(
            f"{' '.join(words)} of {'200 lines' if file != PROGRAM else 'a small file'}",
            _text(samples), reference, f"{min(w for w, _ in samples) / bare:.2f}", budget,
        )
        for (words, file, budget), samples in zip(chosen, taken[1:], strict=True)
    ]  # fmt: skip
    ratio = f"{first[0] / bare:.2f}"
    return [*figures, Figure("check of 200 lines, no cache", f"{first[0]:.3f} s", reference, ratio)]


def _environment(folder: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    own = {"PTOSIM_CACHE_DIR": f"{folder}/cache", "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
    return kept | own


def _seconds(command: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall-clock and processor seconds of one process."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _text(samples: list[tuple[float, float]]) -> str:
    walls, processor = zip(*samples, strict=True)
    middle = statistics.median(walls)
    return f"{min(walls):.3f} s, median {middle:.3f}, CPU {min(processor):.3f}"
