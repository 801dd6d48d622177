"""Rounds of vector regions that are executed at once do what they do one by one: bytes, findings,
counts, cycles, and what is remembered of accesses."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import ptosim
from ptosim.engine.batch import batches
from ptosim.ground.diagnostics.model import Trap
from ptosim.ground.errors import LimitError
from tests.engine import loops

NEVER = 1 << 60
P, V, M = "!pto.ptr<f32, ub>", "!pto.vreg<64xf32>", "!pto.mask<b32>"
H, HP = "!pto.vreg<128xf16>", "!pto.ptr<f16, ub>"

BODIES = {
    "sum": """%a = pto.vlds %x[%at] : {P} -> {V}
        %b = pto.vlds %y[%at] : {P} -> {V}
        %c = pto.vadd %a, %b, %m : {V}, {V}, {M} -> {V}
        pto.vsts %c, %z[%at], %m : {V}, {P}, {M}""",
    "in place": """%a = pto.vlds %x[%at] : {P} -> {V}
        %b = pto.vexp %a, %m : {V}, {M} -> {V}
        pto.vsts %b, %x[%at], %m : {V}, {P}, {M}""",
    "one place for all": """%a = pto.vlds %x[%at] : {P} -> {V}
        %k = pto.vlds %y[%c64] : {P} -> {V}
        %b = pto.vmax %a, %k, %m : {V}, {V}, {M} -> {V}
        pto.vsts %b, %z[%at], %m : {V}, {P}, {M}""",
    "registers and numbers": """%a = pto.vlds %x[%at] : {P} -> {V}
        %b = pto.vmuls %a, %f, %m : {V}, f32, {M} -> {V}
        %c = pto.vmaxs %b, %zero, %m : {V}, f32, {M} -> {V}
        %d = pto.vmula %c, %a, %b, %m : {V}, {V}, {V}, {M} -> {V}
        pto.vsts %d, %z[%at], %m : {V}, {P}, {M}""",
    "a part of the lanes": """%a = pto.vlds %x[%at] : {P} -> {V}
        %c = pto.vadd %a, %a, %some : {V}, {V}, {M} -> {V}
        pto.vsts %c, %z[%at], %some : {V}, {P}, {M}""",
    "the row before": """%p = arith.subi %at, %c64 : index
        %a = pto.vlds %z[%p] : {P} -> {V}
        %c = pto.vadd %a, %a, %m : {V}, {V}, {M} -> {V}
        pto.vsts %c, %z[%at], %m : {V}, {P}, {M}""",
    "the row after": """%p = arith.addi %at, %c64 : index
        %a = pto.vlds %z[%p] : {P} -> {V}
        %c = pto.vadd %a, %a, %m : {V}, {V}, {M} -> {V}
        pto.vsts %c, %z[%at], %m : {V}, {P}, {M}""",
    "stores that overlap": """%h = arith.muli %i, %c8 : index
        %a = pto.vlds %x[%at] : {P} -> {V}
        pto.vsts %a, %z[%h], %m : {V}, {P}, {M}""",
    "a load after the store": """%a = pto.vlds %x[%at] : {P} -> {V}
        pto.vsts %a, %z[%at], %m : {V}, {P}, {M}
        %b = pto.vlds %z[%at] : {P} -> {V}
        %c = pto.vadd %a, %b, %m : {V}, {V}, {M} -> {V}
        pto.vsts %c, %y[%at], %m : {V}, {P}, {M}""",
    "two stores to one place": """%a = pto.vlds %x[%at] : {P} -> {V}
        %b = pto.vlds %y[%at] : {P} -> {V}
        pto.vsts %a, %z[%at], %m : {V}, {P}, {M}
        pto.vsts %b, %z[%at], %m : {V}, {P}, {M}""",
    "rows that come again": """%r = arith.remui %i, %c24 : index
        %w = arith.muli %r, %c64 : index
        %a = pto.vlds %x[%at] : {P} -> {V}
        pto.vsts %a, %z[%w], %m : {V}, {P}, {M}""",
    "every second row": """%e = arith.addi %at, %at : index
        %o = arith.addi %e, %c64 : index
        %a = pto.vlds %x[%e] : {P} -> {V}
        pto.vsts %a, %x[%o], %m : {V}, {P}, {M}""",
    "backwards": """%q = arith.subi %n, %i : index
        %w = arith.muli %q, %c64 : index
        %a = pto.vlds %x[%w] : {P} -> {V}
        pto.vsts %a, %z[%at], %m : {V}, {P}, {M}""",
    "gaps between lanes": """%a = pto.vlds %x[%at] : {P} -> {V}
        pto.vsts %a, %z[%at], %third : {V}, {P}, {M}""",
    "no lanes": """%a = pto.vlds %x[%at] : {P} -> {V}
        %c = pto.vadd %a, %a, %none : {V}, {V}, {M} -> {V}
        pto.vsts %c, %z[%at], %m : {V}, {P}, {M}
        pto.vsts %a, %y[%at], %none : {V}, {P}, {M}""",
    "one lane of a row": """%a = pto.vlds %x[%i] {{dist = "BRC_B32"}} : {P} -> {V}
        %b = pto.vcadd %a, %m : {V}, {M} -> {V}
        pto.vsts %b, %z[%i], %m {{dist = "1PT_B32"}} : {V}, {P}, {M}""",
    "half of the width": """%a = pto.vlds %x[%at] : {P} -> {V}
        %b = pto.vcvt %a, %m {{rnd = "R", sat = "SAT", part = "EVEN"}} : {V}, {M} -> {H}
        pto.vsts %b, %hp[%at], %some {{dist = "PK_B32"}} : {H}, {HP}, {M}""",
    "a sum that is kept": """%a = pto.vlds %x[%at] : {P} -> {V}
        %s = pto.vlds %z[%c64] : {P} -> {V}
        %b = pto.vadd %a, %s, %m : {V}, {V}, {M} -> {V}
        pto.vsts %b, %z[%c64], %m : {V}, {P}, {M}""",
    "sums of rows": """%sum = scf.for %j = %c0 to %c8 step %c1 iter_args(%acc = %zeros) -> ({V}) {{
          %k = arith.muli %j, %c64 : index
          %w = arith.addi %at, %k : index
          %a = pto.vlds %x[%w] : {P} -> {V}
          %b = pto.vadd %acc, %a, %m : {V}, {V}, {M} -> {V}
          scf.yield %b : {V}
        }}
        %total = pto.vcadd %sum, %m : {V}, {M} -> {V}
        pto.vsts %total, %z[%i], %m {{dist = "1PT_B32"}} : {V}, {P}, {M}""",
    "compared and selected": """%a = pto.vlds %x[%at] : {P} -> {V}
        %b = pto.vlds %y[%at] : {P} -> {V}
        %w = pto.vcmp %a, %b, %some, "lt" : {V}, {V}, {M} -> {M}
        %c = pto.vsel %a, %b, %w : {V}, {V}, {M} -> {V}
        %d = pto.vadd %c, %zeros, %w : {V}, {V}, {M} -> {V}
        %e = pto.vcmax %d, %w : {V}, {M} -> {V}
        pto.vsts %d, %z[%at], %m : {V}, {P}, {M}""",
    "pointers that move": """%done:2 = scf.for %j = %c0 to %n step %c1 iter_args(%p = %x, %q = %z) -> ({P}, {P}) {{
          %a, %p1 = pto.vlds %p[%c64] : {P} -> {V}, {P}
          %b = pto.vneg %a, %m : {V}, {M} -> {V}
          %q1 = pto.vsts %b, %q[%c64], %m : {V}, {P}, {M} -> {P}
          scf.yield %p1, %q1 : {P}, {P}
        }}""",
    "lanes that are left": """%last = scf.for %j = %c0 to %n step %c1 iter_args(%more = %lanes) -> (i32) {{
          %mask, %rest = pto.plt_b32 %more : i32 -> {M}, i32
          %w = arith.muli %j, %c64 : index
          %a = pto.vlds %x[%w] : {P} -> {V}
          %b = pto.vadd %a, %a, %mask : {V}, {V}, {M} -> {V}
          pto.vsts %b, %z[%w], %mask : {V}, {P}, {M}
          scf.yield %rest : i32
        }}""",
    "a stream of one place": """%a = pto.vlds %x[%at] : {P} -> {V}
        pto.vsts %a, %z[%c64], %m : {V}, {P}, {M}""",
}


def text(body: str, after: str = "") -> str:
    return f"""module attributes {{pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>}} {{
  func.func @k(%g: !pto.ptr<f32, gm>, %n: index, %f: f32) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c24 = arith.constant 24 : index
    %c64 = arith.constant 64 : index
    %zero = arith.constant -0.0 : f32
    %few = arith.constant 37 : i32
    %nothing = arith.constant 0 : i32
    %lanes = arith.constant 3000 : i32
    %size = arith.constant 229376 : i64
    %one = arith.constant 1 : i64
    %b0 = arith.constant 0 : i64
    %b1 = arith.constant 65536 : i64
    %b2 = arith.constant 131072 : i64
    %x = pto.castptr %b0 : i64 -> {P}
    %y = pto.castptr %b1 : i64 -> {P}
    %z = pto.castptr %b2 : i64 -> {P}
    %hp = pto.castptr %b2 : i64 -> {HP}
    pto.mte_gm_ub %g, %x, %b0, %size nburst(%one, %size, %size) : !pto.ptr<f32, gm>, {P}, i64, i64, i64, i64, i64
    pto.set_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]
    pto.wait_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]
    pto.vecscope {{
      %m = pto.pset_b32 "PAT_ALL" : {M}
      %third = pto.pset_b32 "PAT_M3" : {M}
      %some, %left = pto.plt_b32 %few : i32 -> {M}, i32
      %none, %left0 = pto.plt_b32 %nothing : i32 -> {M}, i32
      %zeros = pto.vbr %zero : f32 -> {V}
      scf.for %i = %c1 to %n step %c1 {{
        %at = arith.muli %i, %c64 : index
        {body.format(P=P, V=V, M=M, H=H, HP=HP)}
      }}
      {after}
    }}
    pto.set_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]
    pto.wait_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]
    pto.mte_ub_gm %x, %g, %size nburst(%one, %size, %size) : {P}, !pto.ptr<f32, gm>, i64, i64, i64, i64
    return
  }}
}}"""


@pytest.fixture
def fewest(monkeypatch):
    """Sets the rounds that are worth a batch."""
    monkeypatch.setattr(batches, "WORTH", 0)
    return lambda rounds: monkeypatch.setattr(batches, "FEWEST", rounds)


@pytest.fixture
def taken(monkeypatch):
    """The rounds of every batch that was executed."""
    found: list[int] = []
    plain = batches.Batch.run

    def run(self, *given):
        trace = plain(self, *given)
        if trace is not None and trace is not batches.FAILED:
            found.append(trace.rounds)
        return trace

    monkeypatch.setattr(batches.Batch, "run", run)
    return found


def given(n: int) -> dict:
    rng = np.random.default_rng(n)
    values = rng.standard_normal(57344).astype(np.float32)
    values[rng.integers(0, 57344, 3000)] = np.nan
    values[rng.integers(0, 57344, 3000)] = -0.0
    values[rng.integers(0, 57344, 3000)] = np.inf
    return {"g": values, "n": n, "f": 1.5}


def outcome(program: ptosim.Program, args: dict, **options) -> tuple:
    result = program.run(args, **options)
    findings = [(str(d), d.notes) for d in result.findings]
    return result.outputs["g"].tobytes(), result.executed, result.cycles, findings


@pytest.mark.sampled(8, 31)
@pytest.mark.parametrize(("n", "sanitize"), [(3, "all"), (20, "none"), (100, "all")])
@pytest.mark.parametrize("name", BODIES)
def test_a_batch_is_its_rounds(name, n, sanitize, fewest):
    program = ptosim.load(text(BODIES[name]))
    results = []
    for rounds in (NEVER, 2):
        fewest(rounds)
        results.append(outcome(program, given(n), sanitize=sanitize))
    assert results[0] == results[1]


INDEPENDENT = {
    "sum": True, "in place": True, "one place for all": True, "registers and numbers": True,
    "a part of the lanes": True, "the row before": False, "the row after": True,
    "stores that overlap": False, "a load after the store": False,
    "two stores to one place": False, "rows that come again": True, "every second row": True,
    "backwards": True, "gaps between lanes": False, "no lanes": True, "one lane of a row": True,
    "half of the width": True, "a sum that is kept": False, "sums of rows": True,
    "compared and selected": True, "pointers that move": True, "lanes that are left": True,
    "a stream of one place": False,
}  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", BODIES)
def test_what_is_executed_at_once(name, taken, fewest):
    fewest(8)
    ptosim.load(text(BODIES[name])).run(given(100))
    assert bool(taken) == INDEPENDENT[name]


@pytest.mark.sampled(6, 20)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("make", [loops.module, loops.logical_module])
def test_loops_made_at_random(make, seed, fewest):
    rng = Random(seed)
    program = ptosim.load(make(rng))
    n = rng.choice((0, 1, 2, 9, 20, 33, 60, 100))
    args = given(n) | {"lanes": rng.choice((0, 1, 64 * n, 64 * n - 13))}
    results = []
    for rounds in (NEVER, 2, 8):
        fewest(rounds)
        try:
            results.append(outcome(program, args))
        except Trap as trap:
            results.append([str(d) for d in trap.diagnostics])
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("name", ["sum", "in place"])
def test_a_later_loop_still_sees_what_is_not_ordered(name, fewest):
    """A load of what the loop before has stored, with no barrier between: PTO6610."""
    after = """scf.for %j = %c1 to %n step %c1 {{
        %to = arith.muli %j, %c64 : index
        %v = pto.vlds {0}[%to] : {P} -> {V}
        pto.vsts %v, %y[%to], %m : {V}, {P}, {M}
      }}""".format("%z" if name == "sum" else "%x", P=P, V=V, M=M)
    program = ptosim.load(text(BODIES[name], after))
    results = []
    for rounds in (NEVER, 2, 8):
        fewest(rounds)
        results.append(outcome(program, given(60)))
    assert results[0] == results[1] == results[2]
    assert any("PTO6610" in line for line, _ in results[0][3])


def test_a_place_outside_ub_is_told_as_always(fewest):
    program = ptosim.load(text(BODIES["sum"]))
    told = []
    for rounds in (NEVER, 2):
        fewest(rounds)
        with pytest.raises(Trap) as trap:
            program.run(given(1000))
        told.append([str(d) for d in trap.value.diagnostics])
    assert told[0] == told[1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("limit", [50, 100, 101, 102, 103, 150])
def test_a_limit_stops_where_it_always_did(limit, fewest):
    program = ptosim.load(text(BODIES["sum"]))
    told = []
    for rounds in (NEVER, 2):
        fewest(rounds)
        with pytest.raises(LimitError) as stop:
            program.run(given(100), max_instructions=limit)
        told.append(str(stop.value))
    assert told[0] == told[1]


@pytest.mark.sampled(2, 7)
@pytest.mark.parametrize("position", range(30, 600, 41))
def test_every_position_can_be_gone_to(position, fewest):
    program = ptosim.load(text(BODIES["in place"]))
    states = []
    for rounds in (NEVER, 4):
        fewest(rounds)
        walker = program.debug(given(100)).walker
        walker.run_to(position)
        core = walker.engine.machine.cores[0]
        ub = core.ub
        names = sorted(walker.engine.program.slots.items(), key=lambda pair: pair[1])
        held = [repr(core.slots[slot]) for _, slot in names]
        states.append((walker.position, core.pc, held, bytes(ub.data), bytes(ub.last), ub.marks))
    assert states[0] == states[1]
