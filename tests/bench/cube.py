"""Products, half precision, whole kernels with several cores, and many blocks."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import ptosim
from ptosim.machine.numbers.exact_sums import exact_product, multiply
from tests.bench.timing import Figure, best, best_wall, each
from tests.support.paths import PROGRAMS
from tests.support.text import Kernel


def _repeated(k: Kernel, count: int, lines: tuple[str, ...]) -> None:
    """A loop around lines."""
    zero, one = k.const(0), k.const(1)
    k.line(f"scf.for %i = {zero} to {k.const(count)} step {one} {{")
    for line in lines:
        k.line(line)
    k.line("}")


def _beyond_the_loop(make: Any, count: int) -> float:
    """Seconds of one operation: a loop of them, less the same loop without."""
    runs = []
    for full in (True, False):
        program, args = make(count, full)
        runs.append(
            best_wall(lambda p=program, a=args: p.run(a, sanitize="none", uninit="zero"), 3)
        )
    return (runs[0] - runs[1]) / count


def _product(count: int, full: bool) -> tuple[ptosim.Program, dict[str, Any]]:
    k = Kernel("a5", sync="manual")
    left = k.tile("left", "f16", 128, 128, layout="nz", loc="left")
    right = k.tile("right", "f16", 128, 128, layout="zn", loc="right")
    acc = k.tile("acc", "f32", 128, 128, layout="nz", fractal=1024, loc="acc")
    lines = len(k.lines)
    k.op("pto.tmatmul", [left, right], [acc])
    body = tuple(k.lines[lines:])
    del k.lines[lines:]
    _repeated(k, count, body if full else ())
    return k.program(), {}


def products() -> list[Figure]:
    """A f16 product of 128 x 128 x 128 in the default order against the f32 product of BLAS."""
    seconds = _beyond_the_loop(_product, 100)
    a = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float32)
    out = np.empty_like(a)
    reference = each(lambda: np.matmul(a, a, out=out), 100)
    return [
        Figure(
            "tmatmul f16 128x128x128",
            f"{1e6 * seconds:.0f} us",
            f"f32 BLAS {1e6 * reference:.0f} us",
            f"{seconds / reference:.2f}",
            "<= 3",
        )
    ]


def sums() -> list[Figure]:
    """Exact sums against the f64 product of BLAS, 1024 x 1024 x 1024: of ordinary data, where the bound
    leaves few elements open, and of data that cancels. Processor time, in turns: what a neighbour
    takes from caches, it takes from both."""
    rng = np.random.default_rng(0)
    half = rng.standard_normal((1024, 512)).astype(np.float32)
    other = rng.standard_normal((512, 1024)).astype(np.float32)
    rest = rng.standard_normal((1024, 1024)).astype(np.float32) * 2.0**-12
    short = [rng.standard_normal((1024, 1024)).astype(np.float16) for _ in range(2)]
    kinds = {
        "ordinary f16": (*short, "<= 1.6"),
        "ordinary data": (rng.standard_normal((1024, 1024)).astype(np.float32), rest, "<= 1.6"),
        "data that cancels": (
            np.concatenate((half, -half), axis=1), np.concatenate((other, other)) + rest * 2.0**-12,
            "<= 12",
        ),
    }  # fmt: skip
    figures = []
    for name, (a, b, goal) in kinds.items():
        x, y = a.astype(np.float64), b.astype(np.float64)
        runs = [
            (
                best(lambda x=x, y=y: multiply(x, y), 1),
                best(lambda x=x, y=y: exact_product(x, y), 1),
            )
            for _ in range(7)
        ]
        plain, exact = (min(kind) for kind in zip(*runs, strict=True))
        figures.append(
            Figure(
                f"exact sums, {name}",
                f"{1e3 * exact:.0f} ms",
                f"f64 BLAS {1e3 * plain:.0f} ms",
                f"{exact / plain:.2f}",
                goal,
            )
        )
    return figures


def half_precision() -> list[Figure]:
    """Element-wise operations of f16 against NumPy's own: a detour through f32 takes as long, since the
    way back to f16 is most of it."""
    figures = []
    for name, plain in (("tadd", np.add), ("tmul", np.multiply), ("tmax", np.maximum)):

        def make(count: int, full: bool, op: str = name) -> tuple[ptosim.Program, dict[str, Any]]:
            k = Kernel("a5", sync="manual")
            a, b, c = (k.tile(n, "f16", 64, 128) for n in "abc")
            lines = len(k.lines)
            k.op(f"pto.{op}", [a, b], [c])
            body = tuple(k.lines[lines:])
            del k.lines[lines:]
            _repeated(k, count, body if full else ())
            return k.program(), {}

        seconds = _beyond_the_loop(make, 300)
        x = np.random.default_rng(0).standard_normal((64, 128)).astype(np.float16)
        reference = each(lambda p=plain, v=x: p(v, v), 100)
        figures.append(
            Figure(
                f"{name} f16 64x128",
                f"{1e6 * seconds:.0f} us",
                f"NumPy f16 {1e6 * reference:.0f} us",
                f"{seconds / reference:.2f}",
                "about 1",
            )
        )
    return figures


def _attention(keys: int, blocks: int) -> tuple[ptosim.Program, dict[str, Any]]:
    program = ptosim.load(PROGRAMS / "cube" / "flash_attention.pto", target="a5", sync="auto")
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((n, 64)).astype(np.float16) for n in (64 * blocks, keys, keys))
    args = {"q": q, "k": k, "v": v, "slots": np.zeros((blocks, 32768), np.float32)}
    return program, args | {
        "out": np.zeros((64 * blocks, 64), np.float32), "queries": 64 * blocks, "keys": keys,
    }  # fmt: skip


def _timed(program: ptosim.Program, args: dict[str, Any], blocks: int) -> tuple[float, int]:
    start = time.perf_counter()
    result = program.run(args, entry="cube_kernel", block_num=blocks, sanitize="none")
    return time.perf_counter() - start, result.executed


def kernels() -> list[Figure]:
    """Flash attention with more than 2,000 tile operations; 24 blocks against 24 runs of one."""
    long = min(_timed(*_attention(3072, 1), 1) for _ in range(3))
    # The fastest of several single runs is faster than they are on the whole: 24 of them in a row.
    rounds = [
        (
            sum(_timed(*_attention(512, 1), 1)[0] for _ in range(24)),
            _timed(*_attention(512, 24), 24)[0],
        )
        for _ in range(3)
    ]
    single, many = min(rounds, key=lambda pair: pair[1] / pair[0])
    return [
        Figure(
            f"flash attention, {long[1]} instructions", f"{long[0]:.2f} s", "", "", "2,000 in 1 s"
        ),
        Figure(
            "flash attention, 24 blocks",
            f"{many:.2f} s",
            f"24 runs of one block {single:.2f} s",
            f"{many / single:.2f}",
            "<= 1.1",
        ),
    ]
