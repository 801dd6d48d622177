"""How long `ptosim serve` takes to answer, beside the same command as a process of its own."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.programs import check_kernel
from tests.bench.start import environment
from tests.bench.timing import Figure

ROUNDS = 20
PTOSIM = (sys.executable, "-m", "ptosim")
COMMANDS = ("check -q", "run", "cost")


def serving() -> list[Figure]:
    """Each command on a small program whose text is another one each time, over standard input."""
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [*PTOSIM, "serve", "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(folder),
        )
        with server:  # it ends with its input
            return [_answers(server, Path(folder), words) for words in COMMANDS]


def _answers(server: subprocess.Popen[bytes], folder: Path, words: str) -> Figure:
    path = folder / "kernel.pto"
    text = check_kernel(20)
    asked = [*words.split(), str(path)]
    taken = []
    for number in range(ROUNDS + 1):
        path.write_text(f"{text}// {words} {number}\n")
        start = time.perf_counter()
        _ask(server, asked, folder)
        taken.append(time.perf_counter() - start)
    first, later = taken[0], taken[1:]
    start = time.perf_counter()
    alone = [*PTOSIM, *asked]
    subprocess.run(alone, check=True, env=environment(str(folder)), stdout=subprocess.DEVNULL)
    by_itself = time.perf_counter() - start
    return Figure(
        f"served {words}, wall",
        f"{1e3 * min(later):.0f} ms, median {1e3 * statistics.median(later):.0f}",
        f"its first {1e3 * first:.0f} ms, a process of its own {1e3 * by_itself:.0f} ms",
        f"{min(later) / by_itself:.2f}",
        "<= 30 ms",
    )


def _ask(server: subprocess.Popen[bytes], words: list[str], folder: Path) -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps({"argv": words, "cwd": str(folder)}).encode() + b"\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    assert answer["exit"] == 0, answer
