"""What timing costs: on top of values, alone, and in memory."""

from __future__ import annotations

from functools import partial

import numpy as np

import ptosim
from ptosim.engine.batch import tile_loops
from ptosim.launch import in_parts
from ptosim.time.laws.cost import Cost, Stage
from ptosim.time.pipes.model import TimingModel
from ptosim.time.pipes.steps import PIPE_INDEX, Site, Step
from tests.bench.engine import without
from tests.bench.programs import add_loop, flag_loop, stream_loop, without_flags
from tests.bench.timing import Figure, best, calibration, peak_megabytes

EACH = 8
"""Instructions of one round of the loop with flags."""


def on_top() -> list[Figure]:
    """A run with timing less a run without, for each executed instruction and for each one that goes
    to a pipe: ordered by data (the same bytes, ever new ones of global memory, and those written
    back), and by flags. Both one round after the other, in one piece."""
    x = np.ones((16, 64), np.float32)
    wide = np.ones((16, 65536), np.float32)
    loop = calibration()
    figures = []
    programs = (
        ("data", add_loop(), 20_000, 1, x),
        ("data of a pipeline", without_flags(), 4_000, 4, x),
        ("data of a stream", stream_loop(), 4_000, 4, wide),
        ("data of a stream in place", stream_loop("x"), 4_000, 4, wide),
        ("flags", flag_loop(), 4_000, EACH, x),
    )
    for what, text, count, each, array in programs:
        run = partial(ptosim.load(text, target="a5").run,
                      {"x": array, "y": x, "z": array, "n": count}, sanitize="none")  # fmt: skip
        executed = run().executed
        with (
            without(in_parts, "attempt", lambda *_: None),
            without(tile_loops, "FEWEST"),
        ):
            timed, plain = best(partial(run, timing=True), 7), best(partial(run, timing=False), 7)
        extra = timed - plain
        figures.append(
            Figure(
                f"timing on top of values, {what}",
                f"{1e6 * extra / executed:.2f} us/instruction, "
                f"{1e6 * extra / (count * each):.2f} us/pipe operation",
                f"100k-addition loop {1000 * loop:.1f} ms",
                f"{extra / executed / loop * 100_000:.0f} additions",
                "<= 1 us/instruction",
            )
        )
    return figures


def alone() -> list[Figure]:
    """Instructions a second of the timing model itself (load, flags, work, flags, store on three
    pipes), and of `cost`, which executes the control flow too."""
    loop = calibration()
    rounds = 25_000
    seconds = best(lambda: _stream(rounds), 3)
    rate = EACH * rounds / seconds
    program = ptosim.load(flag_loop(), target="a5")
    count = 20_000
    counted = best(lambda: program.cost(args={"n": count}), 3)
    reference = f"100k-addition loop {1000 * loop:.1f} ms"
    return [
        Figure("timing alone, loads, flags, work, stores", f"{rate:,.0f} instructions/s", reference,
               f"{100_000 / loop / rate:.0f} additions each", ">= 800,000/s"),
        Figure("cost of the same from .pto text", f"{EACH * count / counted:,.0f} instructions/s",
               reference, f"{counted / loop / (EACH * count) * 100_000:.0f} additions each", ""),
    ]  # fmt: skip


def _stream(rounds: int) -> None:
    model = TimingModel(["core"])
    core = model.cores[0]
    site = Site(0, "work", 1, "")
    cost = Cost("work", (Stage("work", 40),), "derived", latency=9)
    flags = [model.flag(n, "flag") for n in ("a", "b", "c")]
    pipe = PIPE_INDEX

    def sync(name: str, number: int, *, gives: bool) -> Step:
        events = (flags[number],)
        takes, given = ((), events) if gives else (events, ())
        return Step(pipe[name], site, cost, takes=takes, gives=given, is_work=False)

    steps = [
        Step(pipe["MTE2"], site, cost), sync("MTE2", 0, gives=True), sync("V", 0, gives=False),
        Step(pipe["V"], site, cost), Step(pipe["V"], site, cost), sync("V", 1, gives=True),
        sync("MTE3", 1, gives=False), Step(pipe["MTE3"], site, cost),
    ]  # fmt: skip
    issue = core.issue
    for _ in range(rounds):
        for step in steps:
            issue(step, 1)


def memory() -> list[Figure]:
    """Peak memory of timing a million instructions with the whole report, beyond an interpreter with
    NumPy: ordered by flags, and a million operations of pipes on ever new addresses ordered by
    data."""
    figures = []
    for what, text, each in (("flags", flag_loop(), EACH), ("data of a stream", stream_loop(), 4)):
        script = f"program.cost(args={{'n': {1_000_000 // each}}}).to_dict()"
        megabytes = peak_megabytes(text, script)
        figures.append(Figure(f"peak memory, cost of 1,000,000 instructions, {what}",
                              f"{megabytes:.0f} MB", "interpreter with NumPy", "", "<= 300 MB"))  # fmt: skip
    return figures
