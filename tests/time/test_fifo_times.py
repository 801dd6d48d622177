"""Time of FIFOs between cores: a pop waits for its push, a push for free slots; and a run with values
says the same as one without."""

from __future__ import annotations

import pytest

import ptosim
from tests.ops.semantics.pair_harness import Pair, loop
from tests.ops.semantics.test_fifo import (
    COLS,
    ROWS,
    accumulator,
    args,
    frontend,
    given,
    half,
    place,
)
from tests.support.text import Tile

TARGETS = ("a2a3", "a5")


def one_way(target: str, count: int, slow: int, split: int = 1) -> Pair:
    """The cube pushes; each vector core works `slow` times on every tile before it gives it back."""
    pair = Pair(target)
    frontend(pair, 1)
    cube, vector = pair.cube, pair.vector
    acc = accumulator(cube)
    loop(cube, count)
    cube.line(f"pto.tpush_to_aiv(%acc : {acc.type}) {{split = {split}}}")
    cube.line("}")
    t = half(vector, "t", split)
    out = vector.tile("out", "f32", t.rows, t.cols)
    loop(vector, count)
    vector.line(f"%t = pto.tpop_from_aic {{split = {split}}} -> {t.type}")
    for _ in range(slow):
        vector.op("pto.texp", [t], [out])
    vector.line(f"pto.tfree_from_aic {{split = {split}}}")
    vector.line("}")
    vector.op("pto.tstore", [out], [place(vector, split)])
    return pair


def both_ways(target: str, count: int) -> Pair:
    """A tile goes to the cube and comes back before the next one goes."""
    pair = Pair(target)
    frontend(pair, 3)
    cube, vector = pair.cube, pair.vector
    part = half(vector, "x", 1, "f16")
    x = vector.tile("x", "f16", part.rows, part.cols)
    wide = half(vector, "w", 1)
    vector.tile("w", "f32", wide.rows, wide.cols)
    window = place(vector, 1)
    vector.op("pto.tload", [window], [wide])
    vector.op("pto.tcvt", [wide], [x])
    acc = accumulator(cube)
    mat = Tile("m", "f16", ROWS, COLS, None, None, "col_major", "row_major", loc="mat")
    left = cube.tile("left", "f16", ROWS, COLS, layout="nz", loc="left")
    right = cube.tile("right", "f16", COLS, COLS, layout="zn", loc="right")
    loop(cube, count)
    cube.line(f"%m = pto.tpop_from_aiv {{split = 1}} -> {mat.type}")
    cube.op("pto.tmov", [mat], [left])
    cube.line("pto.tfree_from_aiv {split = 1}")
    cube.op("pto.tmatmul", [left, right], [acc])
    cube.line(f"pto.tpush_to_aiv(%acc : {acc.type}) {{split = 1}}")
    cube.line("}")
    back = half(vector, "b", 1)
    loop(vector, count)
    vector.line(f"pto.tpush_to_aic(%x : {x.type}) {{split = 1}}")
    vector.line(f"%b = pto.tpop_from_aic {{split = 1}} -> {back.type}")
    vector.op("pto.tadd", [back, wide], [wide])
    vector.op("pto.tcvt", [wide], [x])
    vector.line("pto.tfree_from_aic {split = 1}")
    vector.line("}")
    vector.op("pto.tstore", [wide], [window])
    return pair


def cost(pair: Pair, entry: str = "cube_kernel") -> ptosim.CostReport:
    return ptosim.load(pair.text()).cost(entry=entry)


def use(report: ptosim.CostReport, core: str, pipe: str):
    return next(p for p in report.pipes if p.core == f"block 0 {core}" and p.pipe == pipe)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("split", [0, 1, 2])
def test_with_and_without_values(target, split):
    for pair, entry in ((one_way(target, 12, 2, split), "cube_kernel"),
                        (both_ways(target, 5), "vector_kernel")):  # fmt: skip
        ran = pair.run(given(pair, args()), entry=entry, uninit="zero", sanitize="none")
        timed = cost(pair, entry)
        assert ran.cycles == timed.cycles > 0
        assert ran.cost.to_dict()["pipes"] == timed.to_dict()["pipes"]
        assert not timed.unknown


@pytest.mark.parametrize("target", TARGETS)
def test_the_slower_side_sets_the_pace(target):
    """A consumer that works longer on each tile: the producer runs ahead by the slots that there are
    and then waits for them; the total is the consumer's work."""
    quick, slow = cost(one_way(target, 40, 1)), cost(one_way(target, 40, 8))
    each = next(u for u in slow.ops if u.name == "texp")
    work = each.cycles / each.count
    assert slow.cycles > 8 * 40 * work
    assert slow.cycles > 1.2 * quick.cycles
    producer = use(slow, "AIC", "FIX")
    assert producer.stalls["FIFO"] > 0.5 * slow.cycles
    few = cost(one_way(target, 8, 8))
    assert "FIFO" not in use(few, "AIC", "FIX").stalls


@pytest.mark.parametrize("target", TARGETS)
def test_a_pop_waits_for_its_push(target):
    """There and back in turn: every round takes both copies, so no pipe is busy all the time."""
    short, long = (
        cost(both_ways(target, 2), "vector_kernel"),
        cost(both_ways(target, 6), "vector_kernel"),
    )
    each = (long.cycles - short.cycles) / 4
    assert each > 2 * ptosim.ground.isa.costs.cost_table(target)["machine.cross"]["cycles"]
    assert max(p.share for p in long.pipes) < 0.9


def test_slots_come_back_in_halves():
    """Eight slots come back four at a time: the ninth push waits for the fourth free."""
    report = cost(one_way("a5", 9, 8))
    pushes = [s for s, step in zip(report.model.cores[0].starts, report.model.cores[0].steps, strict=True)
              if step.site.mnemonic == "tpush_to_aiv"]  # fmt: skip
    vector = report.model.cores[1]
    ends = [
        d
        for d, step in zip(vector.dones, vector.steps, strict=True)
        if step.site.mnemonic == "texp"
    ]
    assert pushes[8] > ends[4 * 8 - 1]
    assert pushes[7] < ends[8]


def test_what_is_popped_is_there_at_once_in_its_own_core():
    """An event from one core to another takes cycles; data within a core do not wait for them,
    whoever makes the flags."""
    vector = cost(one_way("a2a3", 1, 1)).model.cores[1]
    times = {step.site.mnemonic: (start, done) for step, start, done in
             zip(vector.steps, vector.starts, vector.dones, strict=True)}  # fmt: skip
    assert times["texp"][0] == times["tpop_from_aic"][1]
