"""Rounds of a loop that are issued at once leave what the same rounds leave one by one: records,
causes, waits, stalls, the state of every pipe and event."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

import ptosim
from ptosim.engine.core import fast
from ptosim.engine.timed.engine import TimedEngine
from ptosim.ground.errors import Trap
from ptosim.time.laws.cost import Cost, Stage
from ptosim.time.pipes.model import TimingModel
from ptosim.time.pipes.rounds import Rounds
from ptosim.time.pipes.steps import Step
from tests.support.text import Kernel

PIPES = (1, 2, 4, 5)
COLUMNS = ("steps", "starts", "causes", "waits", "wait_sources", "free", "done", "free_record")


def step(rng: random.Random, pipe: int, takes=(), gives=()) -> Step:
    is_work = not (takes or gives)
    busy, latency = rng.choice((0, 1, 3, 40, 700)), rng.choice((0, 5, 60))
    cost = Cost("work", (Stage("work", busy + latency),), "derived", latency=latency)
    drains = is_work and rng.random() < 0.1
    carry = rng.choice((0, 30)) if gives else 0
    return Step(
        pipe, None, cost, takes=takes, gives=gives, is_work=is_work, drains=drains, carry=carry
    )


def loop(rng: random.Random, model: TimingModel) -> tuple[list[Step], list[Step]]:
    """Operations before a loop, and those of a round: work on pipes that hand buffers to the next
    one, and get them back by flags that are given before the loop as often as there are buffers."""
    pipes = rng.sample(PIPES, rng.randint(1, 3))
    before: list[Step] = []
    body = [step(rng, rng.choice(pipes)) for _ in range(rng.randint(1, 5))]
    for source, target in pairwise(pipes):
        there, back = (model.flag((source, target, way), "flag") for way in "tb")
        before += [step(rng, target, gives=(back,)) for _ in range(rng.randint(1, 2))]
        ways = [(source, (back,), ()), (source, (), (there,)), (target, (there,), ()),
                (target, (), (back,))]  # fmt: skip
        places = sorted(rng.randint(0, len(body)) for _ in ways)
        for place, (pipe, takes, gives) in reversed(list(zip(places, ways, strict=True))):
            body.insert(place, step(rng, pipe, takes, gives))
    if rng.random() < 0.2:  # a pipe on its own
        body.append(step(rng, rng.choice(PIPES)))
    return before, body


def issued(seed: int, *, at_once: bool) -> tuple[list, int]:
    """The state after rounds of a random loop, and the rounds that were issued one by one."""
    rng = random.Random(seed)
    model = TimingModel(["core"], scalar_cycles=rng.choice((1, 1, 9, 120)))
    timer = model.cores[0]
    before, body = loop(rng, model)
    names = {id(s): n for n, s in enumerate((*before, *body))}
    pending, tail = [rng.choice((0, 0, 3)) for _ in body], rng.choice((0, 2))
    for one in (*before, *(step(rng, rng.choice(PIPES)) for _ in range(rng.choice((0, 3))))):
        names.setdefault(id(one), len(names))
        timer.issue(one, 1)
    count, carried, part = rng.randint(1, 40), rng.choice((0, 7)), rng.randint(0, len(body))
    told: list[Step] = []

    def issue(one: Step, scalars: int) -> None:
        told.append(one)
        timer.issue(one, scalars)

    run = Rounds(timer, issue, tuple(pending), tail)
    if at_once:
        run(body, count, carried, body[:part])
    else:
        for _ in range(count):
            run._round(body, carried)
            carried = tail
        run._round(body[:part], carried)
    state: list = [[names[id(s)] for s in timer.steps]]
    state += [list(getattr(timer, column)) for column in COLUMNS[1:]]
    state += [timer.done_record, timer.clock, timer.stalls, timer.blocked, model.makespan]
    state += [[(n, list(f.times), len(f.waiters)) for n, f in model.flags.items()]]
    for one in body:  # what comes next finds the same
        timer.issue(one, 0)
    return [*state, list(timer.starts), list(timer.causes)], len(told) // len(body)


def test_rounds_at_once_are_like_rounds_one_by_one():
    skipped = 0
    for seed in range(120):
        expected, rounds = issued(seed, at_once=False)
        found, singly = issued(seed, at_once=True)
        assert found == expected, seed
        skipped += singly < rounds
    assert skipped > 50  # those that are periodic, and long enough


VIEW, PART = "!pto.tensor_view<116x64xf32>", "!pto.partition_tensor_view<16x64xf32>"
TILE = "!pto.tile_buf<vec, 16x64xf32>"


def program(row: str) -> ptosim.Program:
    """A loop that loads rows from `row` on, adds and stores them, ordered by flags."""
    views = "".join(
        f"%v{n} = pto.make_tensor_view %{n}, shape = [%c116, %c64], strides = [%c64, %c1] : {VIEW}\n"
        for n in "xz"
    )
    parts = "".join(
        f"%p{n} = pto.partition_view %v{n}, offsets = [{row}, %c0], sizes = [%c16, %c64] : "
        f"{VIEW} -> {PART}\n"
        for n in "xz"
    )
    flags = [
        f"pto.set_flag[<PIPE_{a}>, <PIPE_{b}>, <EVENT_ID0>]\n"
        f"pto.wait_flag[<PIPE_{a}>, <PIPE_{b}>, <EVENT_ID0>]\n"
        for a, b in (("MTE2", "V"), ("V", "MTE3"), ("MTE3", "MTE2"))
    ]
    constants = "".join(f"%c{n} = arith.constant {n} : index\n" for n in (0, 1, 16, 64, 100, 116))
    tiles = "".join(f"%{n} = pto.alloc_tile : {TILE}\n" for n in "ac")
    return ptosim.load(
        'module attributes {pto.target_arch = "a5"} {\n'
        f"func.func @k(%x: !pto.ptr<f32>, %z: !pto.ptr<f32>) {{\n{constants}{views}{tiles}"
        f"scf.for %i = %c0 to %c100 step %c1 {{\n{parts}"
        f"pto.tload ins(%px : {PART}) outs(%a : {TILE})\n{flags[0]}"
        f"pto.tadd ins(%a, %a : {TILE}, {TILE}) outs(%c : {TILE})\n{flags[1]}"
        f"pto.tstore ins(%c : {TILE}) outs(%pz : {PART})\n{flags[2]}}}\nreturn\n}}\n}}\n"
    )


@pytest.mark.parametrize("row", ["%c0", "%i"], ids=["stays", "moves"])
def test_a_run_with_values_has_the_records_of_every_round(row, monkeypatch):
    loaded = program(row)
    given = {n: np.zeros((116, 64), np.float32) for n in "xz"}
    found = []
    for hot in (1 << 60, 4):
        monkeypatch.setattr(fast, "HOT", hot)
        found.append(loaded.run(given).trace())
    assert found[0] == found[1]
    assert len(found[0]) > 300


FAULT = 37
"""The round in which a division by zero ends the loop."""


def test_what_the_last_round_issued_counts_where_a_loop_fails(monkeypatch):
    k = Kernel("a5", sync="manual")
    a, b = (k.tile(n, "f32", 16, 64) for n in "ab")
    zero, one, end = k.const(0), k.const(1), k.const(60)
    k.line(f"scf.for %i = {zero} to {end} step {one} {{")
    k.op("pto.tadd", [a, a], [b])
    k.line(f"%left = arith.subi {k.const(FAULT)}, %i : index")
    k.line(f"%q = arith.divui {end}, %left : index")
    k.op("pto.tadd", [b, b], [a])
    k.line("}")
    loaded = ptosim.load(k.text(), sync="manual")
    timers, found = [], []
    run = TimedEngine.run
    monkeypatch.setattr(
        TimedEngine, "run", lambda e, *a: (timers.append(e.bridge.model.cores[0]), run(e, *a))[1]
    )
    for hot in (1 << 60, 4):
        monkeypatch.setattr(fast, "HOT", hot)
        with pytest.raises(Trap) as trap:
            loaded.run({}, uninit="zero")
        texts = [str(d) for d in trap.value.diagnostics]
        found.append((trap.value.pc, texts, [list(getattr(timers[-1], c)) for c in COLUMNS[1:]]))
    assert found[0] == found[1]
    assert len(timers[0].steps) == 2 * FAULT + 1


WORD, ONE = "!pto.ptr<i32>", "!pto.tensor_view<1xi32>"


@pytest.mark.parametrize("answer", ["wait", "test"])
def test_signals_of_another_value_each_round_are_not_put_off(answer, monkeypatch):
    """Whoever looks at a signal waits for it, or has its answer, before the next operation: block 1
    is told a hundred times, each round of the other waits for one more."""
    ask = {
        "wait": f"pto.comm.twait(%s, %m : {ONE}, i32) {{cmp = #pto<wait_cmp ge>}}\n",
        "test": f"%f = pto.comm.ttest(%s, %m : {ONE}, i32) {{cmp = #pto<wait_cmp ge>}} -> i1\n",
    }[answer]
    loaded = ptosim.load(
        'module attributes {pto.target_arch = "a5"} {\n'
        f"func.func @k(%sig: {WORD}) attributes {{pto.entry}} {{\n"
        "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n"
        "%c100 = arith.constant 100 : index\n%one = arith.constant 1 : i32\n"
        f"%s = pto.make_tensor_view %sig, shape = [%c1], strides = [%c1] : {ONE}\n"
        "%b = pto.get_block_idx\n%k = arith.index_cast %b : i64 to index\n"
        "%tells = arith.cmpi eq, %k, %c0 : index\nscf.if %tells {\n"
        "scf.for %r = %c0 to %c100 step %c1 {\n"
        f"pto.comm.tnotify(%s, %one : {ONE}, i32) {{notifyOp = #pto<notify_op atomic_add>}}\n"
        "}\n} else {\nscf.for %r = %c0 to %c100 step %c1 {\n"
        f"%q = arith.index_cast %r : index to i32\n%m = arith.addi %q, %one : i32\n{ask}"
        "}\n}\nreturn\n}\n}\n",
        sync="manual",
    )
    found = []
    for hot in (1 << 60, 4):
        monkeypatch.setattr(fast, "HOT", hot)
        result = loaded.run({"sig": np.zeros(1, np.int32)}, block_num=2)
        found.append((result.cycles, result.cost.to_dict()))
    assert found[0] == found[1]
