"""What the engine costs beyond NumPy, each figure beside what it is with the means switched off that
make it fast: `before` and after in one run. Processor time, so that a busy machine shows less."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import ptosim
from ptosim.engine.batch import batches
from ptosim.ground.source import Source
from ptosim.launch.sources import shipped_names
from ptosim.machine.numbers import exact_sums, transcendental
from ptosim.ops.lower.program import expand
from ptosim.shell.main import main
from tests.bench.programs import add_loop, empty_loop, flag_loop
from tests.bench.sanitizers import planned
from tests.bench.timing import Figure, best_wall, used
from tests.support.paths import PROGRAMS
from tests.support.text import Kernel

NEVER = 1 << 60
COUNT = 10_000


@contextlib.contextmanager
def without(module: Any, name: str, value: Any = NEVER) -> Iterator[None]:
    """Switch something off for a while."""
    kept = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, kept)


def dispatch() -> list[Figure]:
    """A 16x64 addition, and a loop of loads, flags, additions and stores, without timing and
    sanitizers, beyond NumPy."""
    x = np.ones((16, 64), np.float32)
    given = {"x": x, "y": x, "z": x, "n": COUNT}
    out = np.empty_like(x)
    work = used(lambda: [np.add(x, x, out=out) for _ in range(COUNT)]) / COUNT
    figures = []
    for what, text, each, numpy in (
        ("tile op, bare", add_loop(), 1, work),
        ("loop without a body, a round", empty_loop(), 1, 0.0),
        ("load, 2 additions, store, 4 flags: each", flag_loop(), 8, 0.5 * work),
    ):
        program = ptosim.load(text, target="a5")
        run = partial(program.run, given, sanitize="none", timing=False)
        one = used(run) / COUNT / each - numpy
        figures.append(
            Figure(f"{what}, beyond NumPy", f"{1e6 * one:.2f} us",
                   f"np.add 16x64 {1e6 * work:.2f} us", f"{one / work:.2f}", "<= 1.2 us")
        )  # fmt: skip
    return figures


def observed() -> list[Figure]:
    """2,000 operations on tiles of 32x128 f32 with 3,200 flags: all sanitizers, and timing, against
    the same without."""
    program = planned()
    given = {n: np.zeros((32, 128), np.float32) for n in "xy"}
    run = partial(program.run, given)
    bare = used(lambda: run(sanitize="none", timing=False))
    figures = []
    for what, options, budget in (
        ("all sanitizers", {"sanitize": "all", "timing": False}, "<= 2"),
        ("timing", {"sanitize": "none", "timing": True}, "<= 1.3"),
    ):
        on = used(partial(run, **options))
        figures.append(
            Figure(f"{what}, processor time", f"{1e3 * on:.1f} ms", f"bare {1e3 * bare:.1f} ms",
                   f"{on / bare:.2f}", budget)
        )  # fmt: skip
    return figures


def _additions(count: int) -> ptosim.Program:
    """So many additions of 128x64 f32, written as vector instructions."""
    k = Kernel("a5", sync="manual")
    a, b = (k.tile(n, "f32", 128, 64) for n in "ab")
    zero, one = k.const(0), k.const(1)
    k.line(f"scf.for %i = {zero} to {k.const(count)} step {one} {{")
    k.op("pto.tadd", [a, a], [b])
    k.line("}")
    return ptosim.load(expand(Source("k", k.text()), "a5").text, target="a5", sync="manual")


def rows() -> list[Figure]:
    """A row of a 128x64 addition as vector instructions (two loads, an addition, a store): rounds at
    once, and one by one."""
    many, few = _additions(41), _additions(1)

    def each() -> float:
        runs = (
            partial(p.run, {}, sanitize="none", timing=False, uninit="zero") for p in (many, few)
        )
        most, least = map(used, runs)
        return (most - least) / 40 / 128

    row = each()
    with without(batches, "FEWEST"):
        singly = each()
    return [
        Figure("a row of a 128x64 addition", f"{1e6 * row:.2f} us",
               f"rounds one by one {1e6 * singly:.2f} us", f"{row / singly:.2f}", "0.02 us")
    ]  # fmt: skip


def functions() -> list[Figure]:
    """exp of f32 tiles against NumPy's f64 function alone, and through an f64 copy as before."""
    figures = []
    for shape in ((64, 128), (128, 256)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        wide, out = x.astype(np.float64), np.empty_like(x)
        alone = used(lambda w=wide: np.exp(w), 30)
        one = used(lambda x=x, o=out: transcendental.exp(x, o), 30)
        before = used(
            lambda x=x, o=out: np.copyto(o, np.exp(x.astype(np.float64)), casting="unsafe"), 30
        )
        figures.append(
            Figure(f"exp of {shape[0]}x{shape[1]} f32", f"{1e6 * one:.0f} us",
                   f"f64 function {1e6 * alone:.0f} us, with a copy {1e6 * before:.0f} us",
                   f"{one / alone:.2f}", "about 1")
        )  # fmt: skip
    return figures


def threads() -> list[Figure]:
    """A product of 128x128x128 of f64 as a library: threads of BLAS set around it, in pieces that
    are not divided, and left alone. Wall-clock time: threads wait."""
    rng = np.random.default_rng(0)
    left, right, out = rng.random((128, 128)), rng.random((128, 128)), np.empty((128, 128))

    def mean(function: Callable[[], Any]) -> float:
        start = time.perf_counter()
        for _ in range(200):
            function()
        return (time.perf_counter() - start) / 200

    alone = mean(lambda: np.matmul(left, right, out=out))
    limited = mean(lambda: exact_sums.multiply(left, right, out))
    with without(exact_sums, "_libraries", lambda: None):
        pieces = mean(lambda: exact_sums.multiply(left, right, out))
    return [
        Figure("f64 product 128x128x128, mean of 200", f"{1e6 * limited:.0f} us",
               f"threads of BLAS {1e6 * alone:.0f} us, in pieces {1e6 * pieces:.0f} us",
               f"{limited / alone:.2f}", "<= 1.5, far less on a busy machine")
    ]  # fmt: skip


def gemm() -> list[Figure]:
    """A f16 GEMM of 1536 on 24 blocks with values, against NumPy's f32 product; processor time."""
    run, reference = _gemm(1536, 1536)
    plain = used(reference, 3)
    return [
        _beside(used(partial(run, timing=timing), 3), plain, what)
        for timing, what in (
            (False, "GEMM 1536 f16, 24 blocks, values"),
            (True, "the same with cycles"),
        )
    ]


def large_gemm() -> list[Figure]:
    """The same of 4096 x 4096 x 4608 by the clock on the wall: processes here, threads of BLAS there."""
    run, reference = _gemm(4096, 4608)  # 24 blocks divide no 4096
    cores = os.cpu_count() or 1
    one = best_wall(partial(run, timing=False, jobs=cores), 2)
    return [_beside(one, best_wall(reference, 2), f"GEMM 4096x4096x4608 f16, {cores} cores, wall")]


def _gemm(m: int, n: int) -> tuple[Callable[..., Any], Callable[[], Any]]:
    """The run of a product of [m, m] and [m, n], and NumPy's of the same numbers in f32."""
    program = ptosim.load(PROGRAMS / "cube" / "gemm_grid.pto", target="a2a3")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, m)).astype(np.float16) for size in (m, n))
    sizes = {"m": m, "k": m, "n": n, "rows": 4, "columns": 6}
    given = {"a": a, "b": b, "out": np.zeros((m, n), np.float32), **sizes}
    left, right = a.astype(np.float32), b.astype(np.float32).T
    run = partial(program.run, given, block_num=24, sanitize="none")
    return run, partial(np.matmul, left, right)


def _beside(one: float, reference: float, what: str) -> Figure:
    beside = f"NumPy f32 {reference:.3f} s"
    return Figure(what, f"{one:.2f} s", beside, f"{one / reference:.1f}", "<= 3")


def shipped() -> list[Figure]:
    """A `run` of every shipped program, one after the other in one process."""

    def every() -> None:
        for name in shipped_names():
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                main(["run", f"@{name}"])

    seconds = used(every, 1)
    return [
        Figure(f"run of all {len(shipped_names())} shipped programs", f"{seconds:.1f} s", "", "",
               "<= 10 s")
    ]  # fmt: skip


def models() -> list[Figure]:
    """The shipped decode layer (118 launches on both targets) and flash attention, with values, all
    sanitizers and cycles; processor time."""
    layer = sum(
        used(lambda t=target: ptosim.run_chain("@model/decode_layer", target=t), 1)
        for target in ("a2a3", "a5")
    )
    flash = used(lambda: ptosim.load("@cube/flash_attention").run(), 1)
    return [
        Figure("decode layer, both targets", f"{layer:.1f} s", "before 9.2 s", "", "<= 4 s"),
        Figure("flash attention", f"{flash:.2f} s", "loading included", "", ""),
    ]


ALL = {
    "engine_dispatch": dispatch,
    "engine_observed": observed,
    "engine_rows": rows,
    "engine_functions": functions,
    "engine_threads": threads,
    "engine_gemm": gemm,
    "engine_gemm_large": large_gemm,
    "engine_shipped": shipped,
    "engine_models": models,
}
