"""Signals in memory over long runs: what is kept of their values and of what they told."""

from __future__ import annotations

import operator
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ptosim.engine.watch.access import Clocks
from ptosim.engine.watch.ordering import Notices
from ptosim.machine import signals
from ptosim.machine.core import Machine
from ptosim.ops.base.orders import Signals

COMPARE = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "GT": operator.gt,
    "GE": operator.ge,
    "LT": operator.lt,
    "LE": operator.le,
}


def cores(count: int) -> list[Any]:
    return [SimpleNamespace(index=n, halted=False) for n in range(count)]


def hand_over(notices: Notices, clocks: Clocks, made: list[Any], number: int) -> None:
    """Core 0 tells core 1 by signal 0, and core 1 answers by signal 1."""
    for giver, taker, cell in ((0, 1, 0), (1, 0, 1)):
        clocks.begin(clocks.scalar(made[giver]))
        notices.publish(clocks.scalar(made[giver]), (0, cell), number, adds=True)
        notices.acquire(clocks.scalar(made[taker]), (0, cell), number)


@pytest.mark.parametrize(("count", "kept"), [(2, 2), (3, 200)])
def test_what_all_know_is_dropped(count, kept):
    """A third core that has heard of nothing may yet wait for an early value."""
    made = cores(count)
    clocks = Clocks(made, ["V"], "a5")
    notices = Notices(made, clocks)
    for number in range(1, 101):
        hand_over(notices, clocks, made, number)
    held = sum(map(len, notices._told.values()))
    assert held <= kept
    if count == 3:
        late = clocks.scalar(made[2])
        notices.acquire(late, (0, 0), 7)
        assert late.clock[clocks.scalar(made[0]).index] == 7
        assert late.clock[clocks.scalar(made[1]).index] == 6
        late.core.halted = True
        hand_over(notices, clocks, made, 101)
        hand_over(notices, clocks, made, 102)
        assert sum(map(len, notices._told.values())) <= 2


def machine() -> Machine:
    word = np.zeros(4, np.uint8)
    buffer = SimpleNamespace(part=lambda start, end: word[start:end], word=word)
    return Machine(definition=None, buffers=[buffer])  # type: ignore[arg-type, list-item]


@pytest.mark.parametrize("seed", range(6))
def test_the_value_that_lets_a_wait_go(seed):
    """Against a list of all values: counted up, set, set back, wrapped."""
    rng, made = Random(seed), machine()
    core, other = SimpleNamespace(index=0), SimpleNamespace(index=1)
    word = made.buffers[0].word.view(np.int32)  # type: ignore[attr-defined]
    values = [0]
    signals.expect(made, 0, 0)
    for _ in range(60):
        value = values[-1] + 1 if rng.random() < 0.7 else rng.choice((0, 3, 2**31 - 1, -(2**31)))
        word[0] = values_now = np.int64(value).astype(np.int32)
        values.append(int(values_now))
        signals.note(made, other, 0, 0)  # type: ignore[arg-type]
        at = rng.randrange(len(values))
        made.global_counters["seen", 0, 0, 0] = at
        for name, compare in COMPARE.items():
            given = rng.choice(values) + rng.randrange(-1, 2)
            wait = Signals("s", 0, (0,), name, given)
            first = next((n for n in range(at, len(values)) if compare(values[n], given)), None)
            expected = len(values) - 1 if first is None else first
            assert signals.seen(made, core, wait) == [(0, expected)], (name, given)  # type: ignore[arg-type]


def test_a_count_takes_no_memory():
    made = machine()
    core = SimpleNamespace(index=0)
    word = made.buffers[0].word.view(np.int32)  # type: ignore[attr-defined]
    for number in range(1000):
        signals.expect(made, 0, 0)
        word[0] = 3 * number
        signals.note(made, core, 0, 0)  # type: ignore[arg-type]
    assert len(made.global_counters) < 8
