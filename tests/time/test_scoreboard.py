"""The event engine against the scoreboard of the oracle, on random programs of one to three cores."""

from __future__ import annotations

import random

import pytest

from ptosim.time.laws.cost import Cost, Stage
from ptosim.time.pipes import last_uses as places
from ptosim.time.pipes.fast import DataOrder, issuer, ordered_issuer
from ptosim.time.pipes.model import TimingModel
from ptosim.time.pipes.steps import PIPE_INDEX, Site, Step
from tests.oracle.scoreboard import Act, makespan, ordered_makespan

pytestmark = pytest.mark.slow

PIPES = ("V", "M", "MTE1", "MTE2", "MTE3", "FIX")
SITE = Site(0, "work", 1, "")
PROGRAMS = 2000


def engine(programs: list[list[Act]], *, fast: bool = True) -> int | None:
    """Return what the engine says of the same programs, issued core by core as far as they go;
    through the function for what is common, or the general one."""
    model = TimingModel([f"core {i}" for i in range(len(programs))])
    for core, program in zip(model.cores, programs, strict=True):
        issue = issuer(core) if fast else core.issue
        for act in program:
            issue(step_of(model, act), 0)
    model.settle()
    return None if any(True for _ in model.stuck()) else model.makespan


def step_of(model: TimingModel, act: Act) -> Step:
    pipe = PIPE_INDEX[act.pipe]
    cost = Cost("work", (Stage("work", act.busy + act.latency),), "derived", latency=act.latency)
    if act.kind == "work":
        return Step(pipe, SITE, cost)
    if act.kind == "barrier":
        return Step(pipe, SITE, cost, drains=True)
    flags = (model.flag(act.flag, act.flag),)
    takes, gives = (flags, ()) if act.kind == "wait" else ((), flags)
    return Step(pipe, SITE, cost, takes=takes, gives=gives, is_work=False, carry=act.carry)


def random_programs(rng: random.Random, cores: int) -> list[list[Act]]:
    """Programs in which every wait has a set somewhere before it in a common order, so that none
    hangs; flags between pipes of a core, flags between cores, barriers, waits of the scalar unit."""
    programs: list[list[Act]] = [[] for _ in range(cores)]
    open_flags: list[tuple[int, str]] = []
    for number in range(rng.randrange(1, 40)):
        core = rng.randrange(cores)
        pipe = rng.choice(PIPES)
        kind = rng.choices(("work", "set", "wait", "barrier", "all"), (10, 4, 4, 1, 1))[0]
        if kind == "work":
            act = Act("work", pipe, rng.randrange(1, 60), rng.choice((0, 0, 9, 40)))
        elif kind == "barrier":
            act = Act("barrier", pipe, 1)
        elif kind == "all":
            act = Act("barrier", "S", 1)
        elif kind == "set":
            target = rng.randrange(cores)
            carry = 7 if target != core else 0
            act = Act("set", pipe, flag=f"{target}.{number}", carry=carry)
            open_flags.append((target, act.flag))
        else:
            if not open_flags:
                continue
            core, flag = open_flags.pop(rng.randrange(len(open_flags)))
            act = Act("wait", rng.choice((*PIPES, "S")), flag=flag)
        programs[core].append(act)
    return programs


def test_engine_is_the_scoreboard():
    """Two independent implementations of the same rules give the same cycle on every program."""
    rng = random.Random(20260821)
    waits = 0
    for _ in range(PROGRAMS):
        programs = random_programs(rng, rng.choice((1, 1, 2, 3)))
        expected = makespan(programs)
        assert engine(programs) == expected, programs
        assert engine(programs, fast=False) == expected, programs
        waits += sum(a.kind == "wait" for p in programs for a in p)
    assert waits > PROGRAMS


def test_a_wait_that_nobody_answers_is_stuck_in_both():
    programs = [[Act("work", "V", 5), Act("wait", "V", flag="never"), Act("work", "V", 5)]]
    assert engine(programs) is None
    assert makespan(programs) is None


def test_adding_a_wait_never_makes_a_program_faster():
    """One core, bandwidth of its own: a wait for an event that was set somewhere before."""
    rng = random.Random(7)
    slower = 0
    for _ in range(PROGRAMS // 2):
        (program,) = random_programs(rng, 1)
        taken = {a.flag for a in program if a.kind == "wait"}
        free = [i for i, a in enumerate(program) if a.kind == "set" and a.flag not in taken]
        if not free:
            continue
        given = rng.choice(free)
        at = rng.randrange(given + 1, len(program) + 1)
        wait = Act("wait", rng.choice(PIPES), flag=program[given].flag)
        before = engine([program])
        after = engine([[*program[:at], wait, *program[at:]]])
        assert before is not None
        assert after is not None
        assert after >= before, (program, at, wait)
        slower += after > before
    assert slower > 100


def test_order_by_data_is_the_definition():
    """Regions that overlap in any way; the vector pipe of A2/A3 drains between dependent operations."""
    rng = random.Random(11)
    for _ in range(300):
        draining = rng.choice((frozenset(), frozenset(("V",))))
        body = [data_act(rng) for _ in range(rng.randrange(1, 12))]
        check_order(rng, body, rng.randrange(1, 4), draining)


def test_order_by_data_over_much_global_memory():
    """Ever new bytes of a buffer, and of the memory of a core."""
    rng = random.Random(12)
    for _ in range(20):
        draining = rng.choice((frozenset(), frozenset(("V",))))
        body = [data_act(rng, ("vec", 0, 1), 300) for _ in range(rng.randrange(80, 160))]
        check_order(rng, body, rng.randrange(1, 3), draining)


def test_many_steps_on_the_same_bytes():
    """More steps of a pipe than are asked one by one."""
    rng = random.Random(14)
    for _ in range(10):
        body = [data_act(rng, ("vec",), 3) for _ in range(rng.randrange(300, 400))]
        check_order(rng, body, rng.randrange(1, 3), frozenset())


def test_stretches_joined_for_their_number_order_more_and_never_less(monkeypatch):
    monkeypatch.setattr(places, "MOST", 16)
    rng = random.Random(13)
    for _ in range(10):
        body = [data_act(rng, ("vec", 0), 500) for _ in range(150)]
        assert ordered(rng, body, 1, frozenset()) >= ordered_makespan(body, frozenset())


def check_order(rng: random.Random, body: list[Act], rounds: int, draining: frozenset[str]) -> None:
    program = body * rounds
    assert ordered(rng, body, rounds, draining) == ordered_makespan(program, draining), program


def ordered(rng: random.Random, body: list[Act], rounds: int, draining: frozenset[str]) -> int:
    """Return what the engine says of so many rounds, by the general function or the fast one."""
    model = TimingModel(["core"])
    order = DataOrder(model.cores[0], frozenset(PIPE_INDEX[p] for p in draining))
    issue = rng.choice((order.issue, ordered_issuer(order)))
    steps = [order.placed(step_of(model, act), (act.reads, act.writes)) for act in body]
    for number in range(rounds * len(body)):
        issue(steps[number % len(body)], 0)
    return model.makespan


def data_act(
    rng: random.Random, memories: tuple[str | int, ...] = ("vec", "mat"), size: int = 6
) -> Act:
    def ranges() -> tuple[tuple[str | int, int, int], ...]:
        firsts = [(rng.choice(memories), rng.randrange(size)) for _ in range(rng.randrange(3))]
        return tuple((space, first, first + rng.randrange(1, 4)) for space, first in firsts)

    return Act("work", rng.choice(PIPES[:4]), rng.randrange(1, 50), rng.choice((0, 20)),
               reads=ranges(), writes=ranges())  # fmt: skip


def test_transfers_that_share_bandwidth_keep_their_events():
    """A transfer in the heap gives the events of its own execution; cores that together ask for twice
    the total take twice as long, and what waits for them goes on."""
    model = TimingModel(["a", "b"], 1, {"read": 100.0})
    cost = Cost("load", (Stage("bytes", 1000),), "derived")
    load = Step(PIPE_INDEX["MTE2"], SITE, cost, shared=("read", 100.0))
    for core in model.cores:
        order = DataOrder(core, frozenset())
        load = Step(PIPE_INDEX["MTE2"], SITE, cost, shared=("read", 100.0))
        order.issue(order.placed(load, ((), (("vec", 0, 64),))), 0)
        add = Step(PIPE_INDEX["V"], SITE, Cost("add", (Stage("vadd", 10),), "derived"))
        order.issue(order.placed(add, ((("vec", 0, 64),), ())), 0)
    model.settle()
    assert not any(True for _ in model.stuck())
    assert model.makespan == 2010
