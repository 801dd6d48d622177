"""What is kept of the values that a signal had: who waits finds the same one as among all of them,
and what repeats takes no more room the longer it goes on."""

from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ptosim.ground.isa.schema import dtype
from ptosim.ground.isa.targets import machine
from ptosim.machine import signals
from ptosim.machine.core import Machine
from ptosim.machine.gm import GmBuffer

COMPARISONS = (operator.eq, operator.ne, operator.gt, operator.ge, operator.lt, operator.le)


def _given(values: list[int]) -> Machine:
    """A machine whose signal had these values, the first before any notification."""
    content = np.zeros(4, np.uint8)
    made = Machine(machine("950PR"))
    made.buffers.append(GmBuffer(0, "s", content, dtype("i32"), (1,)))
    core: Any = SimpleNamespace(index=0)
    for number, value in enumerate(values):
        content.view(np.int32)[0] = value
        if number:
            signals.note(made, core, 0, 0)
        else:
            signals.expect(made, 0, 0)
    return made


@pytest.mark.parametrize("most", [2, 3, 5])
def test_the_first_value_that_lets_a_wait_go(most: int) -> None:
    """From any value on that a core has seen; the last one where none lets it go."""
    random = np.random.default_rng(most)
    waiting: Any = SimpleNamespace(index=1)
    for _ in range(60):
        pattern = random.integers(0, most, random.integers(1, 6)).tolist()
        values = (pattern * 9)[: random.integers(1, 40)]
        values[random.integers(len(values)) :] += random.integers(0, most, 4).tolist()
        made = _given(values)
        for seen in range(len(values)):
            made.global_counters["seen", 0, 0, 1] = seen
            for compare in COMPARISONS:
                wanted = int(random.integers(0, most))
                sync = SimpleNamespace(number=0, cells=(0,), comparison=compare, value=wanted)
                several = (n for n in range(seen, len(values)) if compare(values[n], wanted))
                first = next(several, len(values) - 1)
                assert signals.seen(made, waiting, sync) == [(0, first)]


@pytest.mark.parametrize("pattern", [[7], [0, 1], [1, 0], [0, 1, 2, 3], [0, 5, 10]])
def test_values_that_come_again_are_kept_once(pattern: list[int]) -> None:
    """A signal that is set and put back, or counts round and round."""
    few, many = (len(_given(pattern * times).global_counters) for times in (5, 500))
    assert many == few
