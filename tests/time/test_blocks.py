"""Blocks share the cores of a chip: waves, and one block timed for all that do the same."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

import ptosim
from ptosim.engine.timed.shapes import Shapes
from ptosim.language.same_blocks import difference
from ptosim.launch import cost
from ptosim.time.chip import Blocks, at_once
from tests.support.paths import TESTS

GRID = {"m": 1536, "k": 512, "n": 1536, "rows": 4, "columns": 6}


def program(name: str, target: str | None = None):
    return ptosim.load(f"programs/{name}.pto", target=target)


@pytest.mark.parametrize(
    ("cores", "kinds", "pipes", "expected"),
    [
        ((24, 48), ["cube", "vector", "vector"], ["M", "V"], 24),
        ((24, 48), ["vector"], ["V"], 48),
        ((24, 48), ["cube"], ["M"], 24),
        ((20, 40), ["any"], ["V", "MTE2"], 40),
        ((20, 40), ["any"], ["V", "MTE1"], 20),
        ((24, 48), [], [], 1),
    ],
)
def test_blocks_that_run_at_a_time(cores, kinds, pipes, expected):
    assert at_once(cores, kinds, pipes) == expected


def test_a_thousand_blocks_on_24_cores_are_42_waves():
    """The last wave is of 16 blocks: they have more bandwidth each."""
    one, few, full, many = (
        program("cube/gemm_grid").cost(args=GRID, block_num=blocks) for blocks in (1, 16, 24, 1000)
    )
    assert many.blocks.waves == 42
    assert many.blocks.at_once == 24
    assert many.cycles == 41 * full.cycles + few.cycles
    assert many.moved()["read"] == 1000 * one.moved()["read"]


@pytest.mark.sampled(2, 5)
@pytest.mark.parametrize("blocks", [2, 25, 48, 49, 100])
@pytest.mark.parametrize("bandwidth", [None, 1500])
def test_one_block_timed_for_all_is_exact(blocks, bandwidth):
    """Also where they share bandwidth: equal blocks that begin together stay together."""
    what_if = {"bandwidth": bandwidth} if bandwidth else None
    one = program("basics/vadd").cost(block_num=blocks, what_if=what_if)
    assert one.blocks.is_one_for_all
    each = program("basics/vadd").cost(block_num=blocks, what_if=what_if, each_block=True)
    assert each.blocks.timed == blocks
    assert one.cycles == each.cycles


@pytest.mark.sampled(0)
@pytest.mark.parametrize("name", ["micro/flash_attention", "cube/swiglu", "quant/int8_sym"])
def test_one_block_of_several_cores_is_exact(name):
    entry = "cube_kernel" if name == "cube/swiglu" else None
    one = program(name).cost(block_num=50, entry=entry)
    assert one.blocks.is_one_for_all
    each = program(name).cost(block_num=50, entry=entry, each_block=True)
    assert each.cycles == one.cycles


TEXT = """module attributes {{pto.target_arch = "a3"}} {{
func.func @f(%x: !pto.ptr<f32>, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %id64 = pto.get_block_idx
  %id = arith.index_cast %id64 : i64 to index
  %v = pto.make_tensor_view %x, shape = [%n, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
  %t = pto.alloc_tile : !pto.tile_buf<vec, 8x64xf32>
  {body}
  return
}}
}}"""
LOAD = """%p = pto.partition_view %v, offsets = [{at}, %c0], sizes = [%c8, %c64] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<8x64xf32>
  pto.tload ins(%p : !pto.partition_tensor_view<8x64xf32>) outs(%t : !pto.tile_buf<vec, 8x64xf32>)"""
SAME = {
    "an offset": "%at = arith.muli %id, %c8 : index\n" + LOAD.format(at="%at"),
    "a part of a grid": "%a = arith.divui %id, %n : index\n%b = arith.muli %a, %n : index\n"
    "%e = arith.addi %b, %n : index\nscf.for %i = %b to %e step %c8 {\n" + LOAD.format(at="%i") + "\n}",
    "a difference": "%a = arith.addi %id, %n : index\n%d = arith.subi %a, %id : index\n"
    "scf.for %i = %c0 to %d step %c8 {\n" + LOAD.format(at="%i") + "\n}",
}  # fmt: skip
DIFFER = {
    "a trip count": "scf.for %i = %id to %n step %c8 {\n" + LOAD.format(at="%i") + "\n}",
    "a path": "%q = arith.cmpi eq, %id, %c0 : index\nscf.if %q {\n" + LOAD.format(at="%c0") + "\n}",
    "what a loop carries": "%s = scf.for %i = %c0 to %n step %c8 iter_args(%k = %c0) -> (index) {\n"
    "%m = arith.addi %k, %id : index\nscf.yield %m : index\n}\n"
    "scf.for %j = %c0 to %s step %c1 {\n" + LOAD.format(at="%c0") + "\n}",
    "a product of two": "%a = arith.muli %id, %id : index\n%b = arith.addi %a, %id : index\n"
    "scf.for %i = %a to %b step %c1 {\n" + LOAD.format(at="%i") + "\n}",
}  # fmt: skip


STORE = "\n" + LOAD.partition("\n")[2].replace("tload ins(%p", "tstore ins(%t").replace(
    "!pto.partition_tensor_view<8x64xf32>) outs(%t : !pto.tile_buf<vec, 8x64xf32>)",
    "!pto.tile_buf<vec, 8x64xf32>) outs(%p : !pto.partition_tensor_view<8x64xf32>)",
)  # fmt: skip
IN_PLACE = {
    "rows of its own": ("%o = arith.muli %id, %n : index\nscf.for %i = %c0 to %n step %c8 {\n"
                        "%at = arith.addi %o, %i : index\n", "}", True),
    "a place that rounds decide, too": (
        "scf.for %i = %c0 to %n step %c8 {\n%at = arith.muli %id, %i : index\n", "}", False),
    "places of the block and of none": ("%at = arith.muli %id, %c8 : index\n",
                                        LOAD.format(at="%c8").replace("%p", "%q"), False),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_blocks_that_work_in_place_are_the_same_if_all_places_move_with_them(name):
    """What is read and written there has the same distances in every block: one is timed for all,
    which is exact."""
    before, after, same = IN_PLACE[name]
    body = before + LOAD.format(at="%at") + STORE + "\n" + after
    assert told(body) is None  # flags order them, whatever the places
    assert ("read and written" in (told(body, by_data=True) or "")) is not same
    program = ptosim.load(TEXT.format(body=body))
    one = program.cost(args={"n": 64}, block_num=5)
    assert one.blocks.is_one_for_all is same
    assert one.cycles == program.cost(args={"n": 64}, block_num=5, each_block=True).cycles


def told(body: str, *, by_data: bool = False) -> str | None:
    front = ptosim.load(TEXT.format(body=body)).front
    return difference(front.plans["f"].reached, by_data=by_data)


@pytest.mark.parametrize("name", SAME)
def test_blocks_that_only_differ_in_addresses_are_the_same(name):
    assert told(SAME[name]) is None


@pytest.mark.parametrize("name", DIFFER)
def test_blocks_that_may_differ_are_timed_each(name):
    assert told(DIFFER[name])


def test_blocks_that_differ_wait_for_a_free_core():
    """Block b does b rounds: with as many cores as the chip has, blocks 48 and 49 follow 0 and 1."""
    body = (
        "%b = arith.addi %id, %c1 : index\nscf.for %i = %c0 to %b step %c1 {\n"
        + LOAD.format(at="%c0") + "\n}"
    )  # fmt: skip
    made = ptosim.load(TEXT.format(body=body))
    report = made.cost(args={"n": 4096}, block_num=50, what_if={"bandwidth": 1e6})
    assert report.blocks == Blocks(50, 48, 50, report.blocks.differ)
    cores = report.model.cores
    ends = [max(core.dones) for core in cores]
    assert [min(cores[b].starts) < ends[0] for b in (1, 47)] == [True, True]
    assert min(cores[48].starts) >= ends[0]
    assert min(cores[49].starts) >= ends[1]
    assert report.cycles == max(ends)


def test_a_run_on_values_has_waves_too():
    run = program("basics/vadd").run(block_num=49)
    assert run.cost is not None
    assert run.cost.blocks.waves == 2
    assert run.cycles == program("basics/vadd").cost(block_num=49).cycles


def test_the_report_says_how_blocks_were_counted(cli):
    out = cli("cost", "@basics/vadd", "--block-num", "100", "--target", "a2a3").out
    assert "100 blocks, 48 at a time: 3 waves; they do the same: one was timed" in out
    data = json.loads(cli("cost", "@basics/vadd", "--block-num", "100", "--format", "json",
                          "--target", "910b4").out)  # fmt: skip
    assert data["blocks"]["at_once"] == 40
    assert data["blocks"]["identical"] is True


def same(quick: ptosim.CostReport, full: ptosim.CostReport) -> None:
    """What is told does not depend on whether rounds were left out."""
    assert quick.cycles == full.cycles
    assert (quick.pipes, quick.path, quick.moved()) == (full.pipes, full.path, full.moved())
    assert [(u.name, u.count) for u in quick.lines] == [(u.name, u.count) for u in full.lines]


IN_STEP = """module attributes {pto.target_arch = "a3"} {
func.func @f(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %tiles: index, %columns: index) attributes {pto.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c512 = arith.constant 512 : index
  %c65536 = arith.constant 65536 : index
  %id64 = pto.get_block_idx
  %id = arith.index_cast %id64 : i64 to index
  %n64 = pto.get_block_num
  %blocks = arith.index_cast %n64 : i64 to index
  %v = pto.make_tensor_view %x, shape = [%c65536, %c65536], strides = [%c65536, %c1] : !pto.tensor_view<?x?xf32>
  %w = pto.make_tensor_view %y, shape = [%c65536, %c65536], strides = [%c65536, %c1] : !pto.tensor_view<?x?xf32>
  %a0 = arith.constant 0 : i64
  %t = pto.alloc_tile addr = %a0 : !pto.tile_buf<vec, 8x512xf32>
  pto.set_flag[<PIPE_MTE3>, <PIPE_MTE2>, <EVENT_ID0>]
  scf.for %i = %id to %tiles step %blocks {
    %r = arith.divui %i, %columns : index
    %c = arith.remui %i, %columns : index
    %row = arith.muli %r, %c8 : index
    %column = arith.muli %c, %c512 : index
    %p = pto.partition_view %v, offsets = [%row, %column], sizes = [%c8, %c512] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<8x512xf32>
    %q = pto.partition_view %w, offsets = [%row, %column], sizes = [%c8, %c512] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<8x512xf32>
    pto.wait_flag[<PIPE_MTE3>, <PIPE_MTE2>, <EVENT_ID0>]
    pto.tload ins(%p : !pto.partition_tensor_view<8x512xf32>) outs(%t : !pto.tile_buf<vec, 8x512xf32>)
    pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
    pto.wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
    pto.texp ins(%t : !pto.tile_buf<vec, 8x512xf32>) outs(%t : !pto.tile_buf<vec, 8x512xf32>)
    pto.set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]
    pto.wait_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]
    pto.tstore ins(%t : !pto.tile_buf<vec, 8x512xf32>) outs(%q : !pto.partition_tensor_view<8x512xf32>)
    pto.set_flag[<PIPE_MTE3>, <PIPE_MTE2>, <EVENT_ID0>]
  }
  pto.wait_flag[<PIPE_MTE3>, <PIPE_MTE2>, <EVENT_ID0>]
  return
}
}"""


@pytest.mark.parametrize(
    ("tiles", "blocks", "bandwidth"), [(12 * 80 + 7, 12, 240), (3 * 200 + 2, 3, 100), (900, 9, 50)]
)
def test_blocks_that_do_the_same_for_longer_leave_out_rounds(
    monkeypatch: pytest.MonkeyPatch, tiles: int, blocks: int, bandwidth: int
) -> None:
    """Tiles are dealt out to blocks that share bandwidth: all go in step, and whoever has a tile
    more has more bandwidth for it. Everything told is what executing every round tells."""
    monkeypatch.setattr(cost, "SHORT", 50)
    made = ptosim.load(IN_STEP, sync="manual", level=3)
    args = {"tiles": tiles, "columns": 7}
    what_if = {"bandwidth": bandwidth, "machine.write_total.gib_per_second": bandwidth}
    quick, full = (
        made.cost(args=args, block_num=blocks, what_if=what_if, steady=steady)
        for steady in (True, False)
    )
    assert quick.repeats
    assert not quick.in_full
    same(quick, full)
    assert any("shared bandwidth" in use.stalls for use in quick.pipes)


@pytest.mark.parametrize(
    ("tiles", "blocks"), [(12 * 80 + 7, 12), (900, 9), (5, 9), (3 * 200 + 2, 3)]
)
def test_blocks_of_as_many_rounds_are_executed_once(
    monkeypatch: pytest.MonkeyPatch, tiles: int, blocks: int
) -> None:
    """A launch whose blocks differ only in trip counts times each different count once; what is told
    is what executing each block tells."""
    monkeypatch.setattr(cost, "SHORT", 50)
    runs: list[Counter[int]] = []
    execute = Shapes.execute

    def executed(domain: Shapes, *rest: Any) -> bool:
        if domain.executed not in runs and domain.loops is not None:
            runs.append(domain.executed)
        return execute(domain, *rest)

    monkeypatch.setattr(Shapes, "execute", executed)
    args = {"tiles": tiles, "columns": 7}
    what_if = {"bandwidth": 240, "machine.write_total.gib_per_second": 240}
    made = ptosim.load(IN_STEP, sync="manual", level=3)
    quick = made.cost(args=args, block_num=blocks, what_if=what_if)
    counts = [len(range(block, tiles, blocks)) for block in range(blocks)]
    assert {frozenset(run) for run in runs} == {frozenset(map(counts.index, counts))}
    runs.clear()
    monkeypatch.setattr(cost, "blocks_alike", lambda *_: {})
    full = made.cost(args=args, block_num=blocks, what_if=what_if)
    assert {frozenset(run) for run in runs} == {frozenset(range(blocks))}
    same(quick, full)
    assert quick.to_dict() == full.to_dict()
    assert quick.repeats == full.repeats
    assert [c.conduct() for c in quick.model.cores] == [c.conduct() for c in full.model.cores]


def test_blocks_whose_rounds_the_counter_of_another_loop_decides_are_all_executed() -> None:
    """Block b goes through b rounds in its first round, 2b in the second: how many in all is not
    asked for."""
    inner = """    %many = arith.muli %i, %id : index
    scf.for %k = %c0 to %many step %c1 {
      pto.texp ins(%t : !pto.tile_buf<vec, 8x512xf32>) outs(%t : !pto.tile_buf<vec, 8x512xf32>)
    }
"""
    text = IN_STEP.replace("    %r = arith.divui", inner + "    %r = arith.divui")
    made = ptosim.load(text, sync="manual", level=3)
    args = {"tiles": 12, "columns": 7}
    quick, full = (
        made.cost(args=args, block_num=6, what_if={"bandwidth": 1e6}, steady=steady)
        for steady in (True, False)
    )
    same(quick, full)
    assert len({use.operations for use in quick.pipes if use.pipe == "V"}) > 2


def test_blocks_that_are_not_in_step_share_bandwidth_round_by_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Block b begins with b rounds of something else: when they transfer differs."""
    monkeypatch.setattr(cost, "SHORT", 50)
    ahead = """  scf.for %k = %c0 to %id step %c1 {
    pto.texp ins(%t : !pto.tile_buf<vec, 8x512xf32>) outs(%t : !pto.tile_buf<vec, 8x512xf32>)
  }
  pto.set_flag[<PIPE_V>, <PIPE_MTE2>, <EVENT_ID1>]
  pto.wait_flag[<PIPE_V>, <PIPE_MTE2>, <EVENT_ID1>]
"""
    at = IN_STEP.index("  pto.set_flag[<PIPE_MTE3>, <PIPE_MTE2>")
    made = ptosim.load(IN_STEP[:at] + ahead + IN_STEP[at:], sync="manual", level=3)
    quick, full = (
        made.cost(args={"tiles": 402, "columns": 7}, block_num=4, what_if={"bandwidth": 90},
                  steady=steady)
        for steady in (True, False)
    )  # fmt: skip
    assert not quick.repeats
    same(quick, full)


def test_a_pointer_out_of_a_number_is_followed_no_further():
    text = (TESTS / "regress/pointer_of_a_number_by_block.pto").read_text(encoding="utf-8")
    priced = ptosim.load(text).cost(args={"p": np.zeros(64, np.float32)}, block_num=2)
    assert priced.blocks.waves == 1
