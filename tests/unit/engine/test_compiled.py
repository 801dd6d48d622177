"""Compiled loops do what the same instructions do one at a time: bytes, findings, cycles, counts."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ptosim
from ptosim.engine.core import fast
from ptosim.ground.errors import LimitError, Trap
from ptosim.launch.sidecar import sidecar_of
from ptosim.launch.sources import shipped_names, source_path
from ptosim.shell.main import main

RUNS = [
    (name, target)
    for name in shipped_names()
    for target in sidecar_of(source_path(f"@{name}")).targets  # type: ignore[union-attr]
]
NEVER = 1 << 60


@pytest.fixture
def after(monkeypatch):
    """Sets the rounds after which loops are compiled."""
    return lambda rounds: monkeypatch.setattr(fast, "HOT", rounds)


def report(command: str, name: str, target: str, capsys, *options: str) -> tuple[int, dict]:
    code = main([command, f"@{name}", "--target", target, "--format", "json", *options])
    found = json.loads(capsys.readouterr().out)
    return code, found


@pytest.mark.sampled(4, 85)
@pytest.mark.parametrize(("name", "target"), RUNS)
@pytest.mark.parametrize("options", [(), ("--sanitize", "none")], ids=["watched", "plain"])
def test_a_shipped_program_runs_the_same(name, target, options, after, capsys):
    after(NEVER)
    expected = report("run", name, target, capsys, *options)
    after(1)
    assert report("run", name, target, capsys, *options) == expected


@pytest.mark.sampled(2, 43)
@pytest.mark.parametrize(("name", "target"), RUNS)
def test_a_shipped_program_costs_the_same(name, target, after, capsys):
    after(NEVER)
    expected = report("cost", name, target, capsys)
    after(1)
    assert report("cost", name, target, capsys) == expected


LOOPS = """module attributes {pto.target_arch = "a5"} {
  func.func @k(%x: !pto.ptr<f32>, %n: index, %m: index, %d: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c7 = arith.constant 7 : index
    %c8 = arith.constant 8 : index
    %c64 = arith.constant 64 : index
    %v = pto.make_tensor_view %x, shape = [%c8, %c64], strides = [%c64, %c1] : !pto.tensor_view<8x64xf32>
    %a = pto.alloc_tile : !pto.tile_buf<vec, 1x64xf32>
    %b = pto.alloc_tile : !pto.tile_buf<vec, 1x64xf32>
    scf.for %i = %c0 to %n step %c1 {
      %row = arith.remui %i, %c8 : index
      %p = pto.partition_view %v, offsets = [%row, %c0], sizes = [%c1, %c64] : !pto.tensor_view<8x64xf32> -> !pto.partition_tensor_view<1x64xf32>
      pto.tload ins(%p : !pto.partition_tensor_view<1x64xf32>) outs(%a : !pto.tile_buf<vec, 1x64xf32>)
      %odd = arith.remui %i, %c2 : index
      %is = arith.cmpi eq, %odd, %c1 : index
      %next, %t = scf.for %j = %c0 to %m step %c1 iter_args(%u = %i, %w = %c7) -> (index, index) {
        pto.tadd ins(%a, %a : !pto.tile_buf<vec, 1x64xf32>, !pto.tile_buf<vec, 1x64xf32>) outs(%a : !pto.tile_buf<vec, 1x64xf32>)
        %z = arith.addi %u, %j : index
        scf.yield %w, %z : index, index
      }
      %q = arith.divui %t, %d : index
      scf.if %is {
        pto.tmul ins(%a, %a : !pto.tile_buf<vec, 1x64xf32>, !pto.tile_buf<vec, 1x64xf32>) outs(%b : !pto.tile_buf<vec, 1x64xf32>)
      } else {
        pto.tadd ins(%a, %a : !pto.tile_buf<vec, 1x64xf32>, !pto.tile_buf<vec, 1x64xf32>) outs(%b : !pto.tile_buf<vec, 1x64xf32>)
      }
      %s = arith.index_cast %q : index to i32
      %f = arith.sitofp %s : i32 to f32
      pto.tadds ins(%b, %f : !pto.tile_buf<vec, 1x64xf32>, f32) outs(%b : !pto.tile_buf<vec, 1x64xf32>)
      pto.tstore ins(%b : !pto.tile_buf<vec, 1x64xf32>) outs(%p : !pto.partition_tensor_view<1x64xf32>)
    }
    return
  }
}
"""


def arguments(n: int = 37, m: int = 5, d: int = 3) -> dict:
    x = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32) / 100
    return {"x": x, "n": n, "m": m, "d": d}


def test_loops_in_loops_with_branches_and_carried_values(after):
    program = ptosim.load(LOOPS)
    results = []
    for rounds in (NEVER, 1, 2, 3, 5):
        after(rounds)
        result = program.run(arguments())
        results.append((result.outputs["x"].tobytes(), result.executed, result.cycles))
    assert len(set(results)) == 1


@pytest.mark.sampled(5, 24)
@pytest.mark.parametrize("limit", [*range(1, 60), 333, 1000, 1001])
def test_a_limit_stops_where_it_always_did(limit, after):
    program = ptosim.load(LOOPS)
    told = []
    for rounds in (NEVER, 1):
        after(rounds)
        with pytest.raises(LimitError) as stop:
            program.run(arguments(), max_instructions=limit)
        told.append(str(stop.value))
    assert told[0] == told[1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("depth", range(0, 90, 7))
def test_every_position_can_be_gone_to(depth, after):
    program = ptosim.load(LOOPS)
    places = []
    for rounds in (NEVER, 1):
        after(rounds)
        session = program.debug(arguments())
        walker = session.walker
        walker.run_to(depth)
        core = walker.engine.machine.cores[0]
        places.append((walker.position, core.pc, tuple(map(repr, core.slots))))
    assert places[0] == places[1]
    assert places[0][0] == depth


def test_a_fault_in_a_compiled_loop_has_its_place(after):
    """A division by zero, after rounds in which the divisor was another number."""
    text = LOOPS.replace(
        "%q = arith.divui %t, %d", "%e = arith.subi %d, %i : index\n%q = arith.divui %t, %e"
    )
    program = ptosim.load(text)
    told = []
    for rounds in (NEVER, 1, 2):
        after(rounds)
        with pytest.raises(Trap) as trap:
            program.run(arguments(d=20))
        told.append(([str(d) for d in trap.value.diagnostics], trap.value.pc, trap.value.pipe))
    assert told[0] == told[1] == told[2]
    assert "PTO6007" in told[0][0][-1]


def test_loops_are_compiled_after_some_rounds(after, monkeypatch):
    made = []
    plain = fast.compile_loop
    monkeypatch.setattr(
        fast, "compile_loop", lambda p, head, *rest: made.append(head) or plain(p, head, *rest)
    )
    after(8)
    program = ptosim.load(LOOPS)
    alone = {"timing": False, "sanitize": "none"}  # else half as many
    program.run(arguments(n=7, m=1), **alone)
    assert not made
    program.run(arguments(n=40, m=2), **alone)
    assert len(made) == len(set(made)) == 2  # the inner one, and the outer one


def test_loops_in_one_another_as_deep_as_may_be(after):
    depth = 30
    heads = "".join(f"scf.for %i{n} = %c0 to %c{1 + (n == 29)} step %c1 {{\n" for n in range(depth))
    text = (
        'module attributes {pto.target_arch = "a5"} {\nfunc.func @k(%x: !pto.ptr<f32>) {\n'
        "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n"
        "%c2 = arith.constant 2 : index\n%c64 = arith.constant 64 : index\n"
        "scf.for %i = %c0 to %c64 step %c1 {\n"
        + heads
        + "%y = arith.addi %i, %c1 : index\n"
        + "}\n" * (depth + 1)
        + "return\n}\n}\n"
    )
    program = ptosim.load(text)
    counts = set()
    for rounds in (NEVER, 1, 4):
        after(rounds)
        counts.add(program.run({"x": np.zeros(1, np.float32)}).executed)
    assert len(counts) == 1


def test_an_observer_switches_it_off(after):
    class Watcher:
        seen = 0

        def on_commit(self, core, inst, bound) -> None:
            self.seen += 1

    after(1)
    watcher = Watcher()
    result = ptosim.load(LOOPS).run(arguments(), observers=[watcher])
    assert watcher.seen == result.executed
