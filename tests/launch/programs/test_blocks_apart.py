"""Blocks that do not depend on each other are executed on the same cores, in several processes; what
comes out is what the launch in order gives. Where they do depend on each other it is in order."""

from __future__ import annotations

import dataclasses
import os
import signal
from typing import Any

import numpy as np
import pytest

import ptosim
from ptosim.engine.watch import reach
from ptosim.launch import cost as cost_of_launches
from ptosim.launch import parallel
from ptosim.launch import prepared as launch_options
from ptosim.launch.compare import Choices
from ptosim.machine.effects.account import Effects
from tests.launch.programs.expected import PROGRAMS

BLOCKS = 6
HEAD = """
!V = !pto.tensor_view<?x?xf32>
!P = !pto.partition_tensor_view<8x16xf32>
!T = !pto.tile_buf<vec, 8x16xf32>
module {
  func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c96 = arith.constant 96 : index
    %number = pto.get_block_idx
    %block = arith.index_cast %number : i64 to index
    %mine = arith.muli %block, %c16 : index
    %vx = pto.make_tensor_view %x, shape = [%c8, %c96], strides = [%c96, %c1] : !V
    %vy = pto.make_tensor_view %y, shape = [%c8, %c96], strides = [%c96, %c1] : !V
    %a = pto.alloc_tile : !T
    %b = pto.alloc_tile : !T
"""


def window(view: str, at: str) -> str:
    return f"pto.partition_view %v{view}, offsets = [%c0, {at}], sizes = [%c8, %c16] : !V -> !P"


COPY = f"""
    %px = {window("x", "%mine")}
    %py = {window("y", "%mine")}
    pto.tload ins(%px : !P) outs(%a : !T)
    pto.tadd ins(%a, %a : !T, !T) outs(%b : !T)
    pto.tstore ins(%b : !T) outs(%py : !P)
"""
"""Every block doubles 16 columns: each row of the result has bytes of all blocks."""
TAIL = "    return\n  }\n}\n"


@pytest.fixture(autouse=True)
def any_size(monkeypatch):
    """Small programs are as good as large ones, and threads that other tests left do not matter."""
    monkeypatch.setattr(parallel, "LEAST_SECONDS", 1e-9)
    monkeypatch.setattr(parallel, "LEAST_SHARE", -1.0)
    monkeypatch.setattr(parallel, "can_fork", lambda: True)


def arrays() -> dict[str, np.ndarray]:
    x = np.arange(8 * 96, dtype=np.float32).reshape(8, 96)
    return {"x": x, "y": np.full((8, 96), 7, np.float32)}


def told(program: ptosim.Program, args: Any, jobs: int, **options: Any) -> tuple[Any, str]:
    """All that a run tells, and why it was in order."""
    try:
        result = program.run(args, jobs=jobs, **options)
    except ptosim.PtosimError as problem:
        return (type(problem), str(problem)), ""
    outputs = {n: (a.dtype, a.shape, a.tobytes()) for n, a in result.outputs.items()}
    findings = [str(d) for d in result.findings]
    cost = (result.cost.to_dict(), result.trace()) if result.cost is not None else None
    facts = outputs, findings, result.prints, result.executed, result.cycles, cost
    return facts, result.in_order


def both(
    program: ptosim.Program, args: Any, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> str:
    """Compare 1 and 3 processes with the launch in order; return why it was in order."""
    monkeypatch.setattr(launch_options, "FEWEST", 10**9)
    expected, _ = told(program, args, 1, **options)
    monkeypatch.setattr(launch_options, "FEWEST", 2)
    assert told(program, args, 1, **options)[0] == expected
    got, why = told(program, args, 3, **options)
    assert got == expected
    return why


def run(body: str, monkeypatch: pytest.MonkeyPatch, sync: str = "auto", **options: Any) -> str:
    program = ptosim.load(HEAD + body + TAIL, target="a5", sync=sync)
    return both(program, arrays(), monkeypatch, block_num=BLOCKS, **options)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sanitize", ["all", "none"])
@pytest.mark.parametrize("timing", [True, False])
def test_blocks_that_share_every_row(monkeypatch, sanitize, timing):
    assert run(COPY, monkeypatch, sanitize=sanitize, timing=timing) == ""


def test_arrays_that_are_handed_over(monkeypatch):
    monkeypatch.setattr(launch_options, "FEWEST", 2)
    program = ptosim.load(HEAD + COPY + TAIL, target="a5", sync="auto")
    args = arrays()
    result = program.run(args, jobs=2, block_num=BLOCKS, in_place=True)
    assert result.in_order == ""
    assert np.shares_memory(result.outputs["y"], args["y"])
    np.testing.assert_array_equal(args["y"], 2 * args["x"])


def test_a_large_array_of_which_windows_are_reached(monkeypatch):
    monkeypatch.setattr(launch_options, "FEWEST", 2)
    program = ptosim.load(HEAD + COPY + TAIL, target="a5", sync="auto")
    args = arrays() | {"x": np.resize(arrays()["x"], (20000, 96))}
    kept = args["x"].copy()
    result = program.run(args, jobs=2, block_num=BLOCKS)
    assert result.in_order == ""
    np.testing.assert_array_equal(result.outputs["y"], 2 * kept[:8])
    np.testing.assert_array_equal(args["x"], kept)


SHIPPED = [
    ("cube/flash_attention", "a2a3"),
    ("cube/flash_attention", "a5"),
    ("cube/gemm_grid", "a2a3"),
    ("model/linear_bf16", "a5"),
    ("cube/swiglu", "a2a3"),
]


@pytest.mark.sampled(0)
@pytest.mark.parametrize(("name", "target"), SHIPPED)
def test_shipped_programs(monkeypatch, name, target):
    """Cube and vector cores of a block at once, FIFOs in global memory, flags between cores."""
    choices = Choices(str(PROGRAMS / f"{name}.pto"), target=target).completed()
    program = choices.program()
    options = choices.run_options()
    assert options["block_num"] > 1
    why = both(program, choices.arguments(), monkeypatch, entry=choices.entry, **options)
    assert why == ""


# -- blocks that depend on each other --------------------------------------------------------------

TO_ONE = COPY.replace(window("y", "%mine"), window("y", "%c0"))
FROM_THE_LAST = COPY.replace(window("x", "%mine"), window("y", "%c0"))
ADDED = TO_ONE.replace(
    "outs(%py : !P)\n", "outs(%py : !P) {atomicType = #pto<atomic_type atomic_add>}\n"
)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (TO_ONE, "block 0 writes byte 0 of `y`, which block 1 uses"),
        (FROM_THE_LAST, "block 0 writes byte 0 of `y`, which block 1 uses"),
        (ADDED, "block 0 writes byte 0 of `y`, which block 1 uses"),
    ],
    ids=["written twice", "read after written", "added to"],
)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("sanitize", ["none", "all"])
def test_the_reason_names_the_blocks_and_the_byte(monkeypatch, body, reason, sanitize):
    assert run(body, monkeypatch, sanitize=sanitize) == reason


def test_a_block_that_reads_what_an_earlier_one_wrote(monkeypatch):
    """Block n reads the columns of block n - 1: the sums run through all of them."""
    chain = f"""
    %first = arith.cmpi eq, %block, %c0 : index
    %before = arith.subi %mine, %c16 : index
    %from = arith.select %first, %mine, %before : index
    %px = {window("y", "%from")}
    %py = {window("y", "%mine")}
    pto.tload ins(%px : !P) outs(%a : !T)
    pto.tadd ins(%a, %a : !T, !T) outs(%b : !T)
    pto.tstore ins(%b : !T) outs(%py : !P)
"""
    assert "which block 1 uses" in run(chain, monkeypatch, sanitize="none")


def test_blocks_that_meet(monkeypatch):
    meet = "pto.syncall() mode = #pto.sync_all_mode<hard>, core_type = #pto.sync_core_type<mix>\n"
    assert run(COPY + meet, monkeypatch, "manual", sanitize="none") == "blocks wait for each other"


def test_findings_are_told_in_order(monkeypatch):
    """Without flags the load and the addition race in every block."""
    assert run(COPY, monkeypatch, "manual") == "there are findings, which are told in order"


def test_a_block_that_does_not_come_to_its_end(monkeypatch):
    """The window of the last block is outside the view."""
    beyond = COPY.replace("%px =", "%most = arith.constant 64 : index\n    %px =").replace(
        "shape = [%c8, %c96]", "shape = [%c8, %most]"
    )
    waits = 'pto.wait_flag["PIPE_V", "PIPE_MTE2", "EVENT_ID0"]\n'
    run(beyond + waits, monkeypatch, "manual", sanitize="none")


def test_what_is_printed_comes_in_order(monkeypatch):
    said = 'pto.print ins("block %d\\0A", %number : i64)\n'
    assert run(COPY + said, monkeypatch) == ""


@pytest.mark.parametrize("uninit", ["random", "zero"])
def test_memory_that_nothing_wrote_is_that_of_each_block(monkeypatch, uninit):
    kept = COPY.replace("pto.tload ins(%px : !P) outs(%a : !T)\n", "")
    assert run(kept, monkeypatch, uninit=uninit, sanitize="none") == ""


def test_accounts_that_say_too_little_are_noticed(monkeypatch):
    """A safeguard: an operation that reaches more than it says must not give wrong values."""
    monkeypatch.setattr(reach, "effects_of", lambda binding: Effects())
    assert run(COPY, monkeypatch) == "what the blocks reach of `x` is not known"


def test_writes_that_no_account_has_are_noticed(monkeypatch):
    """The same where the page was read as well."""

    def reads_alone(binding: Any) -> Effects:
        found = account(binding)
        return dataclasses.replace(found, writes=[], reads=[*found.reads, *found.writes])

    account = reach.effects_of
    monkeypatch.setattr(reach, "effects_of", reads_alone)
    assert run(COPY, monkeypatch) == "what the blocks reach of `y` is not known"


def test_one_process_where_none_can_be_made(monkeypatch):
    monkeypatch.setattr(parallel, "can_fork", lambda: False)
    assert run(COPY, monkeypatch) == ""


def _ended() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_ended_from_outside(monkeypatch):
    """What it had taken is executed in order, with all the others."""
    monkeypatch.setattr(parallel, "_work", _ended)
    assert run(COPY, monkeypatch, sanitize="none", timing=False) == parallel.LOST


def test_rounds_that_repeat_are_timed_once(monkeypatch):
    """The cycles of a long run come from periods of its loops, and are those of all rounds."""
    rounds = "    %n = arith.constant 400 : index\n    scf.for %i = %c0 to %n step %c1 {\n"
    program = ptosim.load(HEAD + rounds + COPY + "    }\n" + TAIL, target="a5", sync="auto")
    found = []
    for long in (1 << 60, 1):
        monkeypatch.setattr(cost_of_launches, "LONG", long)
        found.append(program.run(arrays(), block_num=BLOCKS, jobs=1).cost)
    whole, folded = found
    kept = [len(core.steps) for core in folded.model.cores]
    assert max(kept) < len(whole.model.cores[0].steps) / 4
    assert folded.cycles == whole.cycles
    for one, other in zip(whole.model.cores, folded.model.cores, strict=True):
        assert one.work() == other.work()
        assert one.stalls == other.stalls
