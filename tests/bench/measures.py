"""What is measured."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

import ptosim
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.language.syntax.parser import parse
from ptosim.launch import in_parts
from ptosim.launch.sources import open_source
from ptosim.ops.lower.program import expand
from tests.bench import clock, cpp, cube, data, engine, growth, moving, quant, search, simt, steady
from tests.bench.debugger import debugger
from tests.bench.editor import edits, server, typing
from tests.bench.programs import (
    add_loop,
    check_kernel,
    empty_loop,
    logical_loop,
    long_module,
    mxfp8,
    vector_loop,
)
from tests.bench.sanitizers import sanitizers
from tests.bench.serving import crowds, serving
from tests.bench.start import start_up
from tests.bench.timing import Figure, best, calibration, each, peak_megabytes
from tests.bench.walk import walk
from tests.support.paths import PROGRAMS


def parsing() -> list[Figure]:
    """Parsing with positions, 10,000 lines of 160 characters."""
    text = long_module(10_000)
    lines = text.count("\n")
    seconds = best(lambda: parse(Source("long.pto", text), Sink()), 3)
    loop = calibration()
    return [
        Figure(
            f"parse {lines} lines",
            f"{lines / seconds:,.0f} lines/s",
            f"100k-addition loop {1000 * loop:.1f} ms; before 15,000 lines/s",
            f"{seconds / loop:.0f}",
            ">= 25,000 lines/s",
        )
    ]


def dispatch() -> list[Figure]:
    """What an operation costs beyond its NumPy work, with timing, one after the other; sanitizers
    have a figure of their own."""
    count = 10_000
    x = np.ones((16, 64), np.float32)
    arguments = {"x": x, "y": x, "z": x, "n": count}
    with_add = ptosim.load(add_loop(), target="a5")
    without = ptosim.load(empty_loop(), target="a5")
    with engine.without(in_parts, "attempt", lambda *_: None):
        full = best(lambda: with_add.run(arguments, sanitize="none"), 5) / count
    loop = best(lambda: without.run(arguments, sanitize="none"), 5) / count
    out = np.empty_like(x)
    work = each(lambda: np.add(x, x, out=out), count)
    extra = full - loop - work
    return [
        Figure(
            "dispatch of a tile op, with timing",
            f"{1e6 * extra:.2f} us",
            f"np.add 16x64 {1e6 * work:.2f} us; before 3.4 us in all",
            f"{extra / work:.2f}",
            "<= 2 us",
        )
    ]


def vector() -> list[Figure]:
    """A vector region of 1,000 rounds of eight instructions, and an instruction of a longer one, both
    with timing."""
    program = ptosim.load(vector_loop())

    def seconds(rounds: int) -> float:
        return best(lambda: program.run({"n": rounds}, uninit="zero"))

    short, long = seconds(1000), seconds(5000)
    a, b = np.ones(64, np.float32), np.ones(64, np.float32)
    work = each(lambda: np.add(a, b), 10_000)
    one = (long - short) / 4000 / 8
    beside = f"np.add of 64 {1e6 * work:.2f} us"
    return [
        Figure(
            "vector region, 1,000 x 8", f"{1e3 * short:.1f} ms", beside,
            f"{short / work / 8000:.1f}", "< 30 ms",
        ),
        Figure(
            "micro instruction with timing", f"{1e6 * one:.2f} us", beside, f"{one / work:.1f}",
            "<= 3 us",
        ),
    ]  # fmt: skip


def logical() -> list[Figure]:
    """An operation on logical vectors of 256 lanes in a region of 1,000 rounds of eight, beyond what
    NumPy needs for it."""
    program = ptosim.load(logical_loop())

    def seconds(rounds: int) -> float:
        return best(lambda: program.run({"n": rounds}, uninit="zero", timing=False))

    a, b = np.ones(256, np.float32), np.ones(256, np.float32)
    work = each(lambda: np.add(a, b), 10_000)
    one = (seconds(1250) - seconds(250)) / 1000 / 8 - work
    return [
        Figure(
            "logical vector operation, beyond NumPy", f"{1e6 * one:.2f} us",
            f"np.add of 256 {1e6 * work:.2f} us", f"{one / work:.1f}", "<= 4 us",
        )
    ]  # fmt: skip


def registers() -> list[Figure]:
    """Writing logical vectors as registers, compared with reading the program."""
    text = open_source("@vmi/mxfp8_quantise")

    read, written = best(lambda: run_frontend(text, FrontOptions())), best(lambda: expand(text))
    return [
        Figure(
            "logical vectors as registers", f"{1e3 * (written - read):.1f} ms",
            f"reading the program {1e3 * read:.1f} ms", f"{written / read - 1:.1f}", "<= 2",
        )
    ]  # fmt: skip


def quantisation() -> list[Figure]:
    """TQUANT MXFP8 of 128x256 against the plain NumPy/ml_dtypes expression."""
    values = np.random.default_rng(0).standard_normal((128, 256)).astype(np.float32)
    count = 200
    program = ptosim.load(mxfp8(count), target="a5")
    arguments = {"x": values, "y": np.zeros((128, 256), np.uint8), "e": np.zeros(1024, np.uint8)}
    seconds = best(lambda: program.run(arguments), 3) / count

    def plain() -> np.ndarray:
        groups = values.reshape(128, 8, 32)
        largest = np.abs(groups).max(axis=2)
        exponents = np.maximum((largest.view(np.uint32) >> 23).astype(np.int32) - 8, 0)
        scales = ((254 - exponents).astype(np.uint32) << 23).view(np.float32)
        scaled = np.clip(groups * scales[..., None], -448, 448)
        return scaled.astype(ml_dtypes.float8_e4m3fn)

    reference = each(plain, 100)
    return [
        Figure(
            "tquant MXFP8 128x256",
            f"{1e6 * seconds:.0f} us",
            f"plain expression {1e6 * reference:.0f} us",
            f"{seconds / reference:.2f}",
            "<= 2",
        )
    ]


def memory() -> list[Figure]:
    """Peak memory of a run, beyond an interpreter with NumPy."""
    megabytes = peak_megabytes(check_kernel(1000), "program.run({})")
    spaces = 1.4  # A5: the bytes of every space of a core, in MB
    return [
        Figure(
            "peak memory, 1,000 lines",
            f"{megabytes:.0f} MB",
            f"machine spaces {spaces} MB",
            "",
            "spaces + arguments + 60 MB",
        )
    ]


def exploring() -> list[Figure]:
    """`check` of each shipped program along its paths, beside a check that follows it once."""
    times, known = [], []
    for path in sorted(PROGRAMS.rglob("*.pto")):
        has_open = bool(ptosim.check(path).coverage)  # warm, too
        once = best(lambda at=path: ptosim.check(at, explore=False), 2)
        times.append((once, best(lambda at=path: ptosim.check(at), 2)))
        known += [times[-1]] if not has_open else []
    ratios = sorted(all_ / once for once, all_ in times)
    once, whole = (sum(column) for column in zip(*times, strict=True))
    text = f"{1000 * whole:.0f} ms, {len(times)} programs"
    plain = sum(all_ for _, all_ in known) / sum(once for once, _ in known)
    return [
        Figure(
            f"check along all paths, {what}", text, f"once {1000 * once:.0f} ms", f"{n:.2f}", most
        )
        for what, n, most in (
            ("sum", whole / once, "<= 3"),
            (f"{len(known)} without unknown scalars", plain, "<= 1.05"),
            ("median", ratios[len(ratios) // 2], "<= 2"),
            ("worst", ratios[-1], "<= 20"),
        )
    ]


ALL: dict[str, Callable[[], list[Figure]]] = {
    "start_up": start_up,
    "exploring": exploring,
    "serving": serving,
    "serving_crowds": crowds,
    "parsing": parsing,
    "dispatch": dispatch,
    "vector": vector,
    "logical": logical,
    "registers": registers,
    "quantisation": quantisation,
    "schemes": quant.schemes,
    "onnx_model": quant.model,
    "products": cube.products,
    "sums": cube.sums,
    "half_precision": cube.half_precision,
    "kernels": cube.kernels,
    "memory": memory,
    "sanitizers": sanitizers,
    "timing_on_top": clock.on_top,
    "timing_alone": clock.alone,
    "timing_memory": clock.memory,
    "steady_loops": steady.loops,
    "steady_launches": steady.launches,
    "steady_memory": steady.memory,
    "moving_windows": moving.grids,
    "debugger": debugger,
    "walk": walk,
    "editor": edits,
    "keys": typing,
    "language_server": server,
    "simt": simt.threads,
    "cpp": cpp.long_kernels,
    **engine.ALL,
    **data.ALL,
    **growth.ALL,
    **search.ALL,
}
