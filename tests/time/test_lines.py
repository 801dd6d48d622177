"""What each line costs, and what its pipes wait for before it: said from one period of a loop, it is
what going through every execution says."""

from __future__ import annotations

from collections import Counter

import pytest

import ptosim
from ptosim.time.pipes.records import cause_of
from ptosim.time.report.spans import MOST, busy_spans, line_uses
from ptosim.time.report.totals import alike_cores
from tests.time.loops import Loops


def _timed(seed: int):
    program = ptosim.load(Loops(seed).text, target="a5")
    return program.cost(entry="kernel", args={"n": 120})


def _by_execution(core):
    """Cycles at work and still, by line: each record looked at by itself."""
    busy: Counter[int] = Counter()
    still: Counter[int] = Counter()
    ends: dict[int, int] = {}
    for record in range(core.count):
        step, start, end = core.step(record), core.start(record), core.end(record)
        busy[step.site.line] += end - start
        still[step.site.line] += max(start - ends.get(step.pipe, 0), 0)
        ends[step.pipe] = end
    return busy, still


@pytest.mark.parametrize("seed", range(16))
def test_lines_of_loops_that_repeat_cost_what_all_their_rounds_cost(seed):
    try:
        report = _timed(seed)
    except (ptosim.Trap, ptosim.ProgramError):
        pytest.skip("this one stops")
    (core,) = [each.of for each in alike_cores(report)]
    busy, still = _by_execution(core)
    found = line_uses(report)
    assert {line: use.busy for line, use in found.items()} == dict(busy)
    assert {line: use.waits for line, use in found.items() if use.waits} == {
        line: cycles for line, cycles in still.items() if cycles
    }
    assert sum(use.on_path for use in found.values()) <= report.span


def test_some_of_these_programs_repeat():
    assert any(core.repeats for seed in (0, 2, 6) for core in _timed(seed).model.cores)


def test_what_a_line_waits_for_is_what_gave_it_its_data():
    """A tile is added to itself: the vector unit waits for the load, the store for the vector
    unit."""
    report = ptosim.load("programs/basics/vadd.pto", target="a5").cost()
    found = line_uses(report)
    (add,) = [use for use in found.values() if "tadd" in use.ops]
    (store,) = [use for use in found.values() if "tstore" in use.ops]
    assert add.waited.most_common(1)[0][0][1] == "MTE2"
    assert store.waited.most_common(1)[0][0] == (add.line, "V")


def test_a_span_says_which_record_it_starts_after():
    report = ptosim.load("programs/basics/softmax.pto", target="a5").cost(args={"cols": 256})
    core = report.model.cores[0]
    spans = busy_spans(core)
    assert len(spans) == core.count < MOST
    for span in spans:
        assert span.after == cause_of(core.cause(span.record), core.index)
        if span.after is not None and span.after[0] == core.index:
            assert core.start(span.after[1]) <= span.start
