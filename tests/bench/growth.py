"""How time and memory grow: the exponent between two sizes that differ by a factor, of processor
time (log of the ratio of times over log of the factor). A table of its own: blocks, findings, lines,
instructions, bytes."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import ptosim
from ptosim.ground.source import Source
from ptosim.language.syntax.parser import parse
from tests.bench.data import _grid, _in_order, apart, window
from tests.bench.programs import _HEAD, _KV, _PART, _TAIL, _tiles, _views, add_loop, long_module
from tests.bench.timing import Figure, used

FACTOR = 4
"""Between the sizes that are compared."""


def exponent(seconds: Callable[[int], float], size: int, factor: int = FACTOR) -> tuple[float, str]:
    """Return the exponent of growth from a size to `factor` times it, and what was measured."""
    small, large = (
        max(seconds(n), 1e-4) for n in (size, size * factor)
    )  # differences, on a busy machine
    text = f"{1e3 * small:.0f} ms at {size:,}, {1e3 * large:.0f} ms at {size * factor:,}"
    return math.log(large / small) / math.log(factor), text


def unrolled(count: int) -> str:
    """Return a kernel of `count` additions, each into a tile of its own."""
    text = (
        _HEAD + _views("xz") + _tiles("a") + f"    pto.tload ins(%px : {_PART}) outs(%a : {_KV})\n"
    )
    for i in range(count):
        before = f"t{i - 1}" if i else "a"
        text += f"    %t{i} = pto.alloc_tile : {_KV}\n"
        text += f"    pto.tadd ins(%{before}, %a : {_KV}, {_KV}) outs(%t{i} : {_KV})\n"
    return text + f"    pto.tstore ins(%t{count - 1} : {_KV}) outs(%pz : {_PART})\n" + _TAIL


def _lines(count: int) -> float:
    from ptosim.ground.diagnostics.model import Sink

    text = long_module(count)
    return used(lambda: parse(Source("long.pto", text), Sink()), 3)


def _instructions(count: int) -> float:
    program = ptosim.load(add_loop(), target="a5")
    x = np.ones((16, 64), np.float32)
    return used(lambda: program.run({"x": x, "y": x, "z": x, "n": count}), 3)


def _findings(count: int) -> float:
    text = _HEAD + "    pto.tmow ins(%x : f32)\n" * count + _TAIL
    return used(lambda: ptosim.check(text), 2)


def _blocks(count: int) -> float:
    """The race detector on blocks that run in order, each on cores of its own."""
    program, args = _grid(count // 4, 4, 1, 512)
    return used(lambda: _in_order(lambda: program.run(args, block_num=count, timing=False)), 3)


def _retired(count: int) -> float:
    """Blocks whose effects happen when their pipes retire: all of them are under way at once."""
    program, args = _grid(count // 4, 4, 1, 512)
    return used(lambda: program.run(args, block_num=count, timing=False, commit="retire"), 3)


def _bytes(count: int) -> float:
    """Windows that a run reads of generated data."""
    program = ptosim.load(window(16 * count, 4096, count), target="a5")
    return used(program.run, 3)


def _command(*words: str) -> Callable[[int], float]:
    """Seconds of processor time of a command on a straight kernel, less those on a short one; FILE
    in its words is the kernel, which is the first of them."""

    def once(path: Path) -> float:
        command, *others = (str(path) if word == "FILE" else word for word in words)
        script = (
            "import sys, time\nfrom ptosim.shell.main import main\n"
            "out, sys.stdout = sys.stdout, open('/dev/null', 'w')\nbegin = time.process_time()\n"
            f"main([{command!r}, {str(path)!r}, *{others!r}, '--no-cache'])\n"
            "print(time.process_time() - begin, file=out)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], text=True, capture_output=True, check=True
        )
        return float(done.stdout)

    def seconds(count: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "k.pto"
            path.write_text(unrolled(2))
            start = min(once(path) for _ in range(2))
            path.write_text(unrolled(count))
            return min(once(path) for _ in range(2)) - start

    return seconds


MEASURES: tuple[tuple[str, Callable[[int], float], int, str], ...] = (
    ("lines (parsing)", _lines, 2000, ""),
    ("instructions (run, sanitizers, timing)", _instructions, 4000, ""),
    ("findings (check)", _findings, 250, "1.9"),
    ("blocks (race detector)", _blocks, 12, "1.6"),
    ("blocks (committed as pipes retire)", _retired, 96, "1.9"),
    ("bytes (generated data that are read)", _bytes, 256, ""),
    ("operations (stats)", _command("stats"), 450, "1.6"),
    ("operations (map)", _command("map"), 450, "2.0"),
    ("operations (port)", _command("port", "--from", "a5", "--to", "a2a3"), 225, "1.5"),
    ("operations (diff)", _command("diff", "FILE"), 225, ""),
    ("operations (check)", _command("check"), 450, ""),
)
"""What grows, its seconds, the smaller size, and the exponent before 2026-11-22."""


def growth() -> list[Figure]:
    """Exponents of growth; below 1.1 is linear."""
    figures = []
    for what, seconds, size, before in MEASURES:
        found, text = exponent(seconds, size)
        told = f"before {before}" if before else ""
        figures.append(Figure(f"growth in {what}", text, told, f"{found:.2f}", "<= 1.1"))
    return figures


def memory_growth() -> list[Figure]:
    """Memory of a run with all sanitizers and timing, four times as many instructions."""
    figures = []
    for what, text in (("tile operations", add_loop()), ("vector instructions", _vectors())):
        given = "x = np.ones((16, 64), np.float32)\n"
        args = "{'x': x, 'y': x, 'z': x, 'n': %d}" if what.startswith("tile") else "{'n': %d}"
        each = [
            apart(text, f"program.run({args % n}, uninit='zero')", given)[1]
            for n in (20_000, 80_000)
        ]
        more = 1e6 * (each[1] - each[0]) / 60_000
        if what.startswith("vector"):
            more /= 8
        figures.append(
            Figure(f"memory of each further of the {what}", f"{more:.0f} bytes",
                   f"{each[0]:.0f} MB and {each[1]:.0f} MB", "", "records of time alone"),
        )  # fmt: skip
    return figures


def _vectors() -> str:
    from tests.bench.programs import vector_loop

    return vector_loop()


ALL: dict[str, Callable[[], list[Figure]]] = {"growth": growth, "memory_growth": memory_growth}
