"""Generated data, blocks in processes, pieces: time and memory that follow what is touched.

"Before" is what the same measurement gave on 2026-11-22 before large data were made lazily, blocks
apart and comparisons in pieces, on the same kind of machine (two cores, busy)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import ptosim
from ptosim.launch import prepared as launch_options
from tests.bench.timing import Figure, calibration, used
from tests.support.paths import PROGRAMS


def window(rows: int, cols: int, count: int, elem: str = "bf16") -> str:
    """Return a kernel that copies `count` windows of 16x128 of an array of rows x cols."""
    view, part = (
        f"!pto.tensor_view<{rows}x{cols}x{elem}>",
        f"!pto.partition_tensor_view<16x128x{elem}>",
    )
    small, tile = f"!pto.tensor_view<16x128x{elem}>", f"!pto.tile_buf<vec, 16x128x{elem}>"
    constants = {"c0": 0, "c1": 1, "c16": 16, "c128": 128, "n": count, "r": rows, "c": cols}
    lines = [f"    %{name} = arith.constant {value} : index" for name, value in constants.items()]
    return "\n".join(
        [
            "module {", f"  func.func @k(%w: !pto.ptr<{elem}>, %y: !pto.ptr<{elem}>) {{", *lines,
            f"    %v = pto.make_tensor_view %w, shape = [%r, %c], strides = [%c, %c1] : {view}",
            f"    %u = pto.make_tensor_view %y, shape = [%c16, %c128], strides = [%c128, %c1] : {small}",
            f"    %o = pto.partition_view %u, offsets = [%c0, %c0], sizes = [%c16, %c128] : {small} -> {part}",
            f"    %a = pto.alloc_tile : {tile}", "    scf.for %i = %c0 to %n step %c1 {",
            "      %row = arith.muli %i, %c16 : index",
            f"      %p = pto.partition_view %v, offsets = [%row, %c0], sizes = [%c16, %c128] : {view} -> {part}",
            f"      pto.tload ins(%p : {part}) outs(%a : {tile})",
            f"      pto.tstore ins(%a : {tile}) outs(%o : {part})",
            "    }", "    return", "  }", "}", "",
        ]
    )  # fmt: skip


_SCRIPT = """
import sys, time
def peak():
    lines = open('/proc/self/status').read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith('VmHWM')) / 1024
import numpy as np, ml_dtypes
import ptosim
program = ptosim.load(sys.stdin.read(), target='a5')
{before}
base, begin = peak(), time.process_time()
{then}
print(time.process_time() - begin, peak() - base)
"""


def apart(text: str, then: str, before: str = "") -> tuple[float, float]:
    """Return seconds of processor time and megabytes that `then` takes in a process of its own, on
    top of a loaded program and of what `before` made."""
    script = _SCRIPT.format(then=then, before=before)
    done = subprocess.run(
        [sys.executable, "-c", script], input=text, text=True, capture_output=True, check=True
    )
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


def _figure(what: str, found: tuple[float, float], before: str, budget: str) -> Figure:
    loop = calibration()
    seconds, megabytes = found
    return Figure(
        what, f"{seconds:.2f} s, {megabytes:.0f} MB", f"before {before}", f"{seconds / loop:.0f}",
        budget,
    )  # fmt: skip


def generated() -> list[Figure]:
    """Arguments that are left out, or given, of which a window is read: processor time and memory on
    top of a loaded program (and of the caller's arrays)."""
    given = "w = np.zeros((16384, 16384), np.uint16); w[:] = 1; y = np.zeros((16, 128), np.uint16)"
    return [
        _figure("run without arguments, weights of 8192x8192 bf16", apart(window(8192, 8192, 64), "program.run()"),
                "1.13 s, 171 MB", "< 1 s, < 200 MB"),
        _figure("the same, of 151936x2048 (vocabulary)", apart(window(151936, 2048, 64), "program.run()"),
                "refused: too many to make up", ""),
        _figure("512 MB given, 16 KB touched, beyond the array", apart(window(16384, 16384, 4), "program.run([w, y])", given),
                "0.10 s, 31 MB", "< 50 MB"),
    ]  # fmt: skip


def _grid(rows: int, columns: int, pieces: int, k: int) -> tuple[ptosim.Program, dict[str, Any]]:
    program = ptosim.load(PROGRAMS / "cube/gemm_grid.pto", target="a2a3")
    m, n = 128 * rows * pieces, 256 * columns * pieces
    a, b = np.ones((m, k), np.float16), np.ones((n, k), np.float16)
    sizes = {"m": m, "k": k, "n": n, "rows": rows, "columns": columns}
    return program, {"a": a, "b": b, "out": np.zeros((m, n), np.float32), **sizes}


def _in_order(run: Callable[[], Any]) -> Any:
    """Run with every block on cores of its own, in this process."""
    kept, launch_options.FEWEST = launch_options.FEWEST, sys.maxsize
    try:
        return run()
    finally:
        launch_options.FEWEST = kept


def _family_seconds(run: Callable[[], Any]) -> tuple[float, float]:
    """Wall-clock time, and processor time of this process and its children."""
    begin, wall = os.times(), time.perf_counter()
    run()
    end = os.times()
    return time.perf_counter() - wall, sum(end[:4]) - sum(begin[:4])


def blocks() -> list[Figure]:
    """24 blocks of a product: each bound once (a single piece for each block, all sanitizers), and in
    two processes (four pieces each)."""
    program, args = _grid(4, 6, 1, 512)
    run = partial(program.run, args, block_num=24, timing=False)
    before = used(lambda: _in_order(run), 3)
    after = used(run, 3)
    program, args = _grid(4, 6, 2, 2048)
    run = partial(program.run, args, block_num=24)
    one = _family_seconds(lambda: _in_order(run))
    two = _family_seconds(partial(run, jobs=2))
    return [
        Figure("24 blocks bound once, all sanitizers", f"{1e3 * after:.0f} ms",
               f"each block bound anew {1e3 * before:.0f} ms", f"{after / before:.2f}", "<= 0.56"),
        Figure("24 blocks in 2 processes, wall-clock", f"{two[0]:.2f} s ({two[1]:.2f} s of both cores)",
               f"in order {one[0]:.2f} s ({one[1]:.2f} s)", f"{two[0] / one[0]:.2f}", "0.6 on two free cores"),
    ]  # fmt: skip


_COMMAND = """
import sys
from ptosim.shell.main import main
sys.stdout = open('/dev/null', 'w')
main(%r)
sys.stdout = sys.__stdout__
"""


def pieces() -> list[Figure]:
    """Quantisation of 2048x4096 as commands."""
    found = []
    told = (("diff", [], "10.7 s, 733 MB"), ("explore", ["-j", "1"], "32.9 s, 1829 MB"))
    for command, options, before in told:
        then = _COMMAND % ["quant", command, "randn:f32:2048x4096", *options]
        budget = "< 5 s, < 200 MB"
        measured = apart("module {\n}\n", then)
        found.append(_figure(f"quant {command} of 2048x4096", measured, before, budget))
    return found


ALL: dict[str, Callable[[], list[Figure]]] = {
    "generated_data": generated,
    "independent_blocks": blocks,
    "in_pieces": pieces,
}
