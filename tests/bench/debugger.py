"""How fast the debugger moves, forwards and backwards: processor time, the slowest of several moves."""

from __future__ import annotations

import gc
import time
from typing import Any

import numpy as np

import ptosim
from ptosim.debug.checkpoints import BUDGET
from ptosim.debug.session import Debugger
from tests.bench.programs import add_loop, check_kernel
from tests.bench.timing import Figure

X = np.ones((16, 64), np.float32)
OPS = 2_000
LONG = 1_000_000


def debugger() -> list[Figure]:
    """Steps both ways on a kernel of 2,000 operations and on a run of a million, and a run without
    a break condition against a plain one."""
    return [*_short(), *_long()]


def _short() -> list[Figure]:
    arguments = {"x": X, "y": X, "z": X, "n": 1}
    program = ptosim.load(check_kernel(OPS), target="a5")
    plain = min(_slowest(lambda: program.run(arguments), 1) for _ in range(3))
    gc.collect()
    gc.freeze()  # as the command does, which has made no other run
    session = program.debug(arguments)
    forwards = _slowest(session.step, OPS // 2)
    backwards = _slowest(session.reverse_step, 100)
    what, reference = f"{OPS} operations", f"plain run {1e3 * plain:.0f} ms"
    return [
        Figure(f"step, {what}", _ms(forwards), reference, _of(forwards, plain), "<= 10 ms"),
        Figure(
            f"reverse-step, {what}", _ms(backwards), reference, _of(backwards, plain), "<= 50 ms"
        ),
    ]


def _long() -> list[Figure]:
    arguments = {"x": X, "y": X, "z": X, "n": LONG}
    program = ptosim.load(add_loop(), target="a5")
    started = time.process_time()
    program.run(arguments)
    plain = time.process_time() - started
    session = program.debug(arguments)
    started = time.process_time()
    session.continue_()
    under = time.process_time() - started
    last = _slowest(session.reverse_step, 5)
    anywhere = max(_back_from(session, part) for part in (0.9, 0.55, 0.1))
    held = session.walker.checkpoints.bytes()
    reference = f"plain run {plain:.1f} s"
    slowest = max(last, anywhere)
    return [
        Figure(f"debugger, no break condition, {LONG:,} operations", f"{under:.1f} s", reference,
               f"{under / plain:.2f}", "<= 1.5"),
        Figure(f"reverse-step, {LONG:,} operations", _ms(slowest), reference, _of(slowest, plain),
               "<= 1 s"),
        Figure(f"checkpoints, {LONG:,} operations", f"{held / 2**20:.0f} MB", "", "",
               f"<= {BUDGET >> 20} MB"),
    ]  # fmt: skip


def _back_from(session: Debugger, part: float) -> float:
    """Go somewhere, and a step back from there: the seconds of the way back."""
    session.goto(int(session.walker.launch.engine.issued * part))
    end = _slowest(session.reverse_step, 2)
    session.continue_()
    return end


def _slowest(move: Any, count: int) -> float:
    times = []
    for _ in range(count):
        started = time.process_time()
        move()
        times.append(time.process_time() - started)
    return max(times)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"


def _of(part: float, whole: float) -> str:
    return f"{part / whole:.3f}"
