"""n steps forward, k back, k forward: the same bytes, on every target, with and without synchronisation.

The programs are generated: loads, vector operations, stores, flags and barriers in any order, in loops and
on several cores, most of them racy, some of them stuck."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptosim
from ptosim.debug import walker as walking
from ptosim.debug.checkpoints import Checkpoints
from ptosim.debug.session import Debugger
from ptosim.debug.tables import code
from ptosim.debug.walker import Walker
from ptosim.launch import array_files
from ptosim.launch.description import sidecar_of
from ptosim.time.period import folds
from ptosim.time.pipes import timers
from tests.debug.helpers import PROGRAMS
from tests.ops.semantics.test_sync import A2A3, X, mixed, program
from tests.shell.programs import TILE
from tests.soak.programs import arguments as soak_arguments
from tests.soak.programs import program as soak_program

_PAIR = "[<PIPE_{}>, <PIPE_{}>, <EVENT_ID{}>]"
_LINES = st.one_of(
    st.sampled_from(
        [
            "LOAD",
            "STORE",
            f"pto.tadd ins(%a, %a : {TILE}, {TILE}) outs(%a : {TILE})",
            f"pto.tmul ins(%a, %a : {TILE}, {TILE}) outs(%a : {TILE})",
            "pto.barrier <PIPE_V>",
            "pto.barrier <PIPE_ALL>",
        ]
    ),
    st.builds(
        lambda word, pipes, event: f"pto.{word}_flag" + _PAIR.format(*pipes, event),
        st.sampled_from(["set", "set", "wait"]),
        st.sampled_from([("MTE2", "V"), ("V", "MTE3"), ("MTE3", "MTE2"), ("MTE2", "MTE3")]),
        st.integers(0, 2),
    ),
)
_BODIES = st.lists(_LINES, min_size=1, max_size=8).map("\n".join)
_LOOPS = _BODIES.map(lambda b: f"scf.for %i = %c0 to %c2 step %c1 {{\n{b}\n}}")
_CORES = st.tuples(_BODIES, _BODIES).map(
    lambda b: mixed("pto.sync.set <PIPE_FIX>, 3", f"{b[0]}\npto.sync.wait <PIPE_MTE2>, 3\n{b[1]}")
)


def launched(text: str, target: str, **options) -> Walker:
    loaded = ptosim.load(program(text, target))
    session = loaded.debug({"x": X, "y": np.zeros_like(X)}, **options)
    return Walker(session.launch, Checkpoints(kept=4))


def state(walker: Walker):
    """Everything that can be seen: memory, registers, flags, queues, where every core is."""
    taken = walker.engine.snapshot()
    cores = [
        (
            c.pc, c.halted, c.slots[1:], c.registers, {k: n for k, n in c.flags.items() if n}, c.tokens,
            {p: [i.pc for i, _ in q] for p, q in c.queues.items()}, c.stalled and c.stalled[0].pc,
            {n: hash(b) for n, b in c.spaces.items() if b.count(0xFF) != len(b)},
        )
        for c in taken.cores
    ]  # fmt: skip
    turn = walker.turn.index if walker.turn is not None else None
    counters = [c[0] for c in taken.clusters]
    stop = (walker.finished, walker.trap is not None)
    return repr((walker.position, turn, stop, cores, taken.buffers, counters, in_time(walker)))


def in_time(walker: Walker):
    """The pipes over time: when everything executed so far started and ended, who waits for what."""
    model = walker.engine.timing.model
    return [
        (
            c.name, c.clock, c.free, c.done, c.stalls, [s.site.line for s in c.steps], c.starts, c.ends,
            c.dones, c.causes, c.waits, c.wait_sources, c.gate and c.gate[0].site.line,
            [q and [(s.site.line, now) for s, now in q] for q in c.queues],
        )
        for c in model.cores
    ], sorted((str(k), list(f.times), len(f.waiters)) for k, f in model.flags.items() if f.times or f.waiters)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    body=st.one_of(_BODIES, _LOOPS, _CORES),
    target=st.sampled_from(["a2a3", "a5"]),
    forward=st.integers(0, 40),
    back=st.integers(0, 40),
)
def test_forth_back_and_forth(body, target, forward, back):
    across = target == "a2a3" and "pto.sync.set" in body
    walker = launched(A2A3 + body if across else body, target)
    for _ in range(forward):
        walker.step()
    there, position = state(walker), walker.position
    walker.goto(max(position - back, 0))
    for _ in range(min(back, position)):
        walker.step()
    assert state(walker) == there


@pytest.mark.parametrize("name", ["loop", "queued", "cores", "mx"])
def test_every_position_of_a_program_from_both_sides(name):
    """Stepping, running to, and coming back from the end give the same state everywhere."""
    beside = {"loop": {"k": 2.0}}.get(name, {})
    loaded = ptosim.load(PROGRAMS / f"{name}.pto")
    forwards = Walker(loaded.debug(beside).launch)
    states = [state(forwards)]
    while not forwards.stopped:
        forwards.step()
        states.append(state(forwards))
    directly = Walker(loaded.debug(beside).launch, Checkpoints(kept=3))
    directly.goto(len(states))
    for position in reversed(range(len(states))):
        directly.goto(position)
        assert state(directly) == states[position], position


@pytest.mark.slow
def test_signals_whose_events_became_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way back finds an event again where only its time was kept, and the way forward too."""
    monkeypatch.setattr(timers, "MANY", 8)
    loaded, given = soak_program("signals"), soak_arguments("signals", 12)
    forwards = Walker(loaded.debug(given).launch)
    states = [state(forwards)]
    while not forwards.stopped:
        forwards.step()
        states.append(state(forwards))
    assert any(forwards.engine.timing.model.signals.save().values())
    directly = Walker(loaded.debug(given).launch, Checkpoints(kept=5))
    for position in (len(states) - 1, 100, 300, 20, 301, 299, 0, len(states) - 1, 200):
        directly.goto(position)
        assert state(directly) == states[position], position


def _in_time(session: Debugger) -> list[Any]:
    """What the debugger shows of time."""
    sheets = [code.pipes(session), *code.cost(session), code.timeline(session, 40, 120)]
    return [session.position, session.cycle, [(s.title, s.rows, s.notes) for s in sheets]]


@pytest.mark.sampled(0)
@pytest.mark.parametrize("name", ["tiles", "signals"])
def test_what_is_shown_of_time_where_periods_are_kept_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A debugger that folds the records of a long run shows the same everywhere, on any way."""
    monkeypatch.setattr(walking, "CHUNK", 100)
    rounds = {"tiles": 1, "signals": 300}[name]
    shown = []
    for least in (1 << 60, 300):
        for column in ("LEAST", "MANY_WAITS", "LEAST_GIVEN"):
            monkeypatch.setattr(folds, column, least)
        session = soak_program(name).debug(soak_arguments(name, rounds))
        session.walker.checkpoints = Checkpoints(kept=6)
        session.walker._save()
        session.continue_()
        end = session.position
        found = [_in_time(session)]
        for position in (end - 1, end // 2, end // 2 + 7, 50, end // 3, end - 2000, end):
            session.walker.goto(position)
            found.append(_in_time(session))
        session.reverse_stepi()
        found.append(_in_time(session))
        shown.append(found)
    assert shown[0] == shown[1]
    cores = session.walker.engine.timing.model.cores
    assert any(len(core.steps) < core.count / 2 for core in cores)


@pytest.mark.parametrize(
    "name", ["basics/softmax", "quant/mxfp8_dn_pipeline", "micro/flash_attention", "page/pipeline"]
)
def test_time_is_that_of_a_plain_run(name):
    """However a run was walked through, at its end every operation has the times of a plain run."""
    path = PROGRAMS.parents[2] / "programs" / f"{name}.pto"
    beside = sidecar_of(path)
    assert beside is not None
    program = ptosim.load(path, target="a5", level=beside.options.get("level"))
    args = {n: array_files.parse_spec(s, beside.folder) for n, s in beside.args.items()}
    plain = program.run(args).cost.model
    walker = Walker(program.debug(args).launch, Checkpoints(kept=8))
    walker.goto(1 << 40)
    end = walker.position
    for position in (end // 2, end // 3, end - 1, 1, end // 4):
        walker.goto(position)
        for _ in range(3):
            walker.step()
    walker.goto(1 << 40)
    model = walker.engine.timing.model
    model.settle()
    for core, same in zip(model.cores, plain.cores, strict=True):
        assert [s.site.line for s in core.steps] == [s.site.line for s in same.steps]
        assert (core.starts, core.ends, core.dones) == (same.starts, same.ends, same.dones)
    assert model.makespan == plain.makespan


def test_a_cycle_is_a_place_to_go_to():
    """It is the last position at which everything executed is done by then, from wherever one comes."""
    session = ptosim.load(PROGRAMS / "loop.pto").debug({"k": 2.0})
    cycles = [session.cycle]
    while session.stepi().reason != "end":
        cycles.append(session.cycle)
    cycles.append(session.cycle)
    assert cycles == sorted(cycles)
    for cycle in (0, cycles[20], cycles[20] - 1, cycles[-1] - 1, 1):
        there = max(i for i, c in enumerate(cycles) if c <= cycle)
        assert session.goto(f"cycle {cycle}").position == there
        assert session.cycle == cycles[there]
        session.restart()
        assert session.until(f"cycle {cycle}").position == there
    assert session.goto(f"cycle {cycles[-1]}").reason == "end"


def test_checkpoints_keep_to_their_budget():
    """Many checkpoints of a run that writes: few are kept, and the first and the last are among them."""
    checkpoints = Checkpoints(budget=3 << 20, kept=1000)
    text = f"""
    scf.for %i = %c0 to %c64 step %c1 {{
      LOAD
      pto.tadd ins(%a, %a : {TILE}, {TILE}) outs(%a : {TILE})
      STORE
    }}"""
    session = ptosim.load(program(text)).debug({"x": X, "y": np.zeros_like(X)})
    walker = Walker(session.launch, checkpoints)
    while not walker.stopped:
        walker.step()
        walker._save()
    assert checkpoints.bytes() <= 3 << 20
    assert 2 < len(checkpoints) < walker.position
    end = walker.position
    walker.goto(end - 1)
    walker.goto(3)
    assert walker.position == 3
