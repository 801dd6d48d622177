"""Records of a long run are kept as periods, and nothing of them is lost: numbers, starts, causes,
counters and the path are those of a run that keeps all of them."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pytest

import ptosim
from ptosim.engine.core import runners
from ptosim.launch import in_parts
from ptosim.launch.results import Result
from ptosim.time.laws.cost import Cost, Stage
from ptosim.time.period import folds
from ptosim.time.pipes import timers
from ptosim.time.pipes.model import TimingModel
from ptosim.time.pipes.records import Records
from ptosim.time.pipes.steps import Site, Step
from ptosim.time.pipes.timers import CoreTimer
from tests.soak.programs import PROGRAMS, arguments, program
from tests.time.loops import Loops


def _both(
    monkeypatch: pytest.MonkeyPatch, least: int, loaded: Any, given: Any, blocks: int = 1
) -> tuple[Result, Result]:
    """Runs that keep everything, and that search periods each time there are `least` records; both
    in one piece, since one in parts has its time from a walk that leaves out rounds by itself."""
    monkeypatch.setattr(in_parts, "attempt", lambda *_: None)
    found = []
    for few in (1 << 60, least):
        monkeypatch.setattr(folds, "LEAST", few)
        monkeypatch.setattr(folds, "MANY_WAITS", few)
        monkeypatch.setattr(runners, "UNTIMED", least)
        monkeypatch.setattr(runners, "LONGEST", least)
        found.append(loaded.run(given, block_num=blocks, sanitize="none"))
    return found[0], found[1]


def _same(whole: CoreTimer, folded: CoreTimer) -> None:
    count = len(whole.steps)
    assert len(folded.steps) + folded.skipped == count
    for record in range(count):
        assert folded.step(record).site.pc == whole.step(record).site.pc
        assert folded.start(record) == whole.start(record)
        assert folded.cause(record) == whole.cause(record)
        assert folded.end(record) == whole.end(record)
    assert folded.work() == whole.work()
    assert folded.stalls == whole.stalls


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("name", "rounds", "least"), [("tiles", 2, 300), ("tiles", 2, 1000), ("vectors", 1500, 300)]
)
def test_every_record_is_there(
    monkeypatch: pytest.MonkeyPatch, name: str, rounds: int, least: int
) -> None:
    """Flags in nested loops, and vector regions in a row: each record by its number."""
    whole, folded = _both(monkeypatch, least, program(name), arguments(name, rounds))
    assert whole.cost is not None
    assert folded.cost is not None
    assert folded.cost.to_dict() == whole.cost.to_dict()
    for one, other in zip(whole.cost.model.cores, folded.cost.model.cores, strict=True):
        assert len(other.steps) < len(one.steps) / 3
        _same(one, other)


@pytest.mark.sampled(3, 14)
@pytest.mark.parametrize("seed", range(40))
def test_random_loops(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Nested loops with windows that move, flags that rotate, and several blocks that compete for
    bandwidth."""
    made = Loops(seed)
    target, sync = ("a2a3", "a5")[seed % 2], "auto" if made.is_auto else "manual"
    loaded = ptosim.load(made.text, target=target, sync=sync)
    count = 40 + seed % 7 * 10
    given = {name: np.zeros((272 * count, 64), np.float32) for name in "xy"} | {"n": count}
    whole, folded = _both(monkeypatch, 300, loaded, given, 1 + seed % 3)
    assert whole.cost is not None
    assert folded.cost is not None
    assert folded.cost.to_dict() == whole.cost.to_dict()
    for one, other in zip(whole.cost.model.cores, folded.cost.model.cores, strict=True):
        _same(one, other)


def test_waits_of_a_core_that_does_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal waits without an operation between them are one."""
    whole, folded = _both(monkeypatch, 256, program("cores"), arguments("cores", 2000))
    assert whole.cycles == folded.cycles
    assert folded.cost is not None
    assert all(len(core.waits) < 1000 for core in folded.cost.model.cores)


@pytest.mark.slow
def test_values_of_signals_are_columns_with_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    """When each value of a signal was given, by whom and after which record, is the same, and no
    event is left of those that nobody waits for."""
    kept = []
    monkeypatch.setattr(folds, "LEAST_GIVEN", 1 << 60)
    for many, least in ((1 << 60, 1 << 60), (16, 1 << 60), (16, 300)):
        monkeypatch.setattr(timers, "MANY", many)
        monkeypatch.setattr(folds, "LEAST_GIVEN", least)
        monkeypatch.setattr(runners, "UNTIMED", 500)
        monkeypatch.setattr(runners, "LONGEST", 500)
        result = program("signals").run(arguments("signals", 1000), sanitize="none")
        assert result.cost is not None
        kept.append((result.cycles, result.cost.to_dict(), result.cost.model))
    assert kept[0][:2] == kept[1][:2] == kept[2][:2]
    models = [one[2] for one in kept]
    assert len(models[0].flags) > 3000
    assert all(len(m.flags) < 60 for m in models[1:])
    ping, pong = sorted(models[0].signals.given)
    for cell, count in ((ping, 1000), (pong, 2000)):
        whole, plain, folded = (
            [m.signals.flag(cell, n).times[0] for n in range(1, count + 1)] for m in models
        )
        assert whole == plain == folded
        assert len(models[2].signals.given[cell].steps) < count / 2


@pytest.mark.slow
def test_of_waits_for_one_operation_the_last_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that only waits for what others store: no execution of its own comes in between."""
    whole, folded = _both(monkeypatch, 300, program("signals"), arguments("signals", 600))
    assert whole.cost is not None
    assert folded.cost is not None
    assert whole.cycles == folded.cycles
    cubes = [r.cost.model.cores[0] for r in (whole, folded) if r.cost is not None]
    assert [core.name.split()[-1] for core in cubes] == ["AIC", "AIC"]
    every, some = (list(zip(*[iter(core.wait_sources)] * 2, strict=True)) for core in cubes)
    assert len(every) > 1200
    assert len(some) < 600
    assert every[-1] in some


def test_a_cost_waits_for_counters_in_memory_as_a_run_does() -> None:
    """Without values the counters are followed all the same: they begin at 0, or as they are given.
    One that nobody of the launch raises holds nobody up: another device may."""
    ping = program("signals")
    for rounds in (1, 7):
        run = ping.run(arguments("signals", rounds), sanitize="none")
        for steady in (True, False):
            assert ping.cost(args={"n": rounds}, steady=steady).cycles == run.cycles
    ahead = {**arguments("signals", 7), "pong": np.full(1, 100, np.int32)}
    given = ping.run(ahead, sanitize="none")
    assert ping.cost(args=ahead).cycles == given.cycles < run.cycles
    unheard = PROGRAMS["signals"].replace("pto.comm.tnotify(%there", "pto.comm.tnotify(%back")
    alone = ptosim.load(unheard, level=3, sync="manual")
    assert alone.cost(args={"n": 2}).cycles > 0


@pytest.mark.parametrize("name", ["tiles", "signals"])
def test_the_way_back_cuts_periods(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Folded records that are cut anywhere are the first ones of the run, and the rest comes back
    from a copy; what is cut goes on as a run does."""
    rounds = {"tiles": 1, "signals": 400}[name]
    whole, folded = _both(monkeypatch, 300, program(name), arguments(name, rounds))
    assert whole.cost is not None
    assert folded.cost is not None
    one, other = whole.cost.model.cores[-1], folded.cost.model.cores[-1]
    assert other.repeats
    kept, count = Records(), one.count
    kept.become(other)
    records = [(one.step(n).site.pc, one.start(n), one.cause(n)) for n in range(count)]
    borders = [b for r in other.repeats for b in (r.first, r.first + r.length * (r.count + 1))]
    near = {b + d for b in borders for d in (-1, 0, 1, 30)}
    cuts = sorted({0, 1, count, *range(7, count, 211), *(n for n in near if 0 <= n <= count)})
    for cut in (*cuts, *reversed(cuts), *cuts[::3]):
        if cut > other.count:
            other.become(kept)
        other.cut(cut, 0)
        assert other.extent == (cut, 0)
        looked = {*range(0, cut, 97), *range(max(cut - 40, 0), cut)}
        found = {n: (other.step(n).site.pc, other.start(n), other.cause(n)) for n in looked}
        assert found == {n: records[n] for n in looked}
        assert sum(other.executed().values()) == cut


def test_a_transfer_that_shares_bandwidth_after_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is placed when the run ends, by the number of its record."""
    monkeypatch.setattr(folds, "LEAST", 100)
    ends = []
    for folds_too in (False, True):
        model = TimingModel(["core"], totals={"read": 1.0})
        timer, site = model.cores[0], Site(0, "work", 1, "")
        step = Step(1, site, Cost("work", (Stage("work", 4),), "derived"))
        shared = Step(4, site, Cost("work", (Stage("work", 40),), "derived"), shared=("read", 2.0))
        for _ in range(400):
            timer.issue(step, 0)
        if folds_too:
            folds.fold(timer)
            assert len(timer.steps) < 40
        timer.issue(shared, 0)
        model.settle()
        ends.append((timer.end(400), model.makespan))
    assert ends[0] == ends[1]
    assert ends[0][0] >= 400 + 80


def test_a_transfer_that_was_slowed_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation that ends at another time than its step says is no part of a period."""
    monkeypatch.setattr(folds, "LEAST", 100)
    monkeypatch.setattr(folds, "SAVED", 2)
    timer = TimingModel(["core"]).cores[0]
    step = Step(1, Site(0, "work", 1, ""), Cost("work", (Stage("work", 4),), "derived"))
    for number in range(400):
        timer.issue(step, 0)
        if number % 100 == 50:
            timer.slowed[number] = timer.start(number) + 3
    expected = [(timer.start(n), timer.end(n), timer.cause(n)) for n in range(400)]
    folds.fold(timer)
    assert [(timer.start(n), timer.end(n), timer.cause(n)) for n in range(400)] == expected
    assert len(timer.steps) < 40
    assert timer.work()[1][1] == sum(end - start for start, end, _ in expected)


def test_nothing_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations at odd times stay as they are."""
    monkeypatch.setattr(folds, "LEAST", 100)
    timer = TimingModel(["core"]).cores[0]
    step = Step(1, Site(0, "work", 1, ""), Cost("work", (Stage("work", 4),), "derived"))
    for number in range(300):
        timer.issue(step, number * number % 37)
    starts = array("q", timer.starts)
    folds.fold(timer)
    assert len(timer.steps) + timer.skipped == 300
    assert array("q", [timer.start(n) for n in range(300)]) == starts
