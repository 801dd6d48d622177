"""How long `ptosim serve` takes to answer, beside the same command as a process of its own, and
how many requests of several callers it answers a second."""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench.programs import check_kernel
from tests.bench.start import environment
from tests.bench.timing import Figure

ROUNDS = 20
PTOSIM = (sys.executable, "-m", "ptosim")
COMMANDS = ("check -q", "run", "cost")
CROWDS = (("check", 200), ("cost", 60))
"""Commands of several callers, and how many answers a second are wanted on two cores."""
CALLERS = (1, 2, 8)
SECONDS = 3


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


def crowds() -> list[Figure]:
    """Answers a second to callers that ask one request after the other, each with a text that is
    another one each time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "socket"
        server = subprocess.Popen(
            [*PTOSIM, "serve", "--socket", str(path)],
            env=environment(folder),
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_for(path)
            return [_answered(path, words, wanted) for words, wanted in CROWDS]
        finally:
            server.terminate()
            server.wait()


def _wait_for(path: Path) -> None:
    for _ in range(600):
        if path.exists():
            return
        time.sleep(0.1)
    raise RuntimeError("the server does not listen")


def _answered(path: Path, words: str, wanted: int) -> Figure:
    found = []
    for callers in CALLERS:
        with ThreadPoolExecutor(callers) as pool:
            asked = [(path, words, number) for number in range(callers)]
            taken = [t for each in pool.map(lambda a: _ask_on(*a), asked) for t in each]
        found.append((len(taken) / SECONDS, statistics.median(taken)))
    listed = ", ".join(
        f"{callers}: {rate:.0f} ({1e3 * middle:.0f} ms)"
        for callers, (rate, middle) in zip(CALLERS, found, strict=True)
    )
    best = max(rate for rate, _ in found)
    return Figure(f"served {words}, answers a second", f"{best:.0f}", listed, "", f">= {wanted}")


def _ask_on(path: Path, words: str, number: int) -> list[float]:
    """How long each answer took in `SECONDS` seconds."""
    text, taken = check_kernel(20), list[float]()
    kernel = path.with_name(f"kernel{number}.pto")
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))
        answers, end = caller.makefile("rb"), time.perf_counter() + SECONDS
        while (start := time.perf_counter()) < end:
            kernel.write_text(f"{text}// {words} {number} {len(taken)}\n")
            request = {"argv": [words, str(kernel)]}
            caller.sendall(json.dumps(request).encode() + b"\n")
            assert json.loads(answers.readline())["exit"] == 0
            taken.append(time.perf_counter() - start)
    return taken
