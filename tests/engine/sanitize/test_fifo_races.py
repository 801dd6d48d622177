"""A pop on A2/A3 copies its tile on PIPE_MTE2: what reads the tile has to wait for that pipe. Slots in
global memory belong to one block. What the cube core puts into UB of a vector core is awaited there."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.launch import array_files
from ptosim.launch.description import sidecar_of
from ptosim.launch.sources import source_path
from ptosim.tools.api import check_source
from tests.engine.sanitize.test_mutations import canonical, synchronised


def swiglu() -> list[str]:
    text = source_path("@cube/swiglu").read_text(encoding="utf-8")
    return canonical(synchronised(text, "a2a3", None)).split("\n")


def races(lines: list[str]) -> list:
    found = check_source(Source("k", "\n".join(lines)), "a2a3", sync="manual").findings
    return [d for d in found if d.code.startswith("PTO52")]


@pytest.mark.slow
def test_flags_behind_a_pop_order_what_reads_the_tile():
    assert races(swiglu()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("popped", "reader"), [("tpop_from_aic", "V"), ("tpop_from_aiv", "MTE1")])
def test_a_pop_without_a_flag_behind_it_is_a_race(popped, reader):
    lines = swiglu()
    at = next(i for i, line in enumerate(lines) if popped in line)
    pair = [i for i in range(at, at + 4) if f"<PIPE_MTE2>, <PIPE_{reader}>" in lines[i]]
    assert len(pair) == 2
    found = races([line for i, line in enumerate(lines) if i not in pair])
    assert found
    assert all(popped in d.message for d in found)
    assert any(d.context[side]["pipe"] == "MTE2" for d in found for side in ("first", "second"))


@pytest.mark.parametrize(("target", "expected"), [("a2a3", ["PTO5205"]), ("a5", [])])
def test_two_blocks_whose_fifos_have_the_same_slots(target, expected):
    """Blocks run at once, so each needs slots of its own: A2/A3 has them in global memory, A5 on the
    chip. Whoever runs the blocks one after the other sees right values all the same."""
    path = source_path("@cube/swiglu")
    text = path.read_text(encoding="utf-8").replace("addptr %slots, %mine", "addptr %slots, %c0")
    args = {n: array_files.parse_spec(s, path.parent) for n, s in sidecar_of(path).args.items()}
    program = ptosim.load(text, target=target)
    found = program.run(args, block_num=2, entry="cube_kernel", timing=False).findings
    assert [d.code for d in found if d.severity.word != "note"] == expected
    assert all("block 1" in d.message and "block 0" in d.message for d in found)
    if expected:
        assert program.run(args, block_num=1, entry="cube_kernel", timing=False).findings == []


# -- from the accumulator to the memory of the vector cores ---------------------------------------

ACC = "!pto.tile_buf<acc, 32x64xf32, blayout=col_major, slayout=row_major, fractal=1024>"
UB = "!pto.tile_buf<vec, {rows}x64xf32>"
SIGNALS = "pto.sync.set <PIPE_FIX>, 0\npto.set_intra_block <PIPE_FIX>, 16"
WAITS = "pto.sync.wait <PIPE_MTE3>, 0"


def found_of_halves(set_: str, wait: str, move: str, rows: int = 16) -> list[str]:
    """A cube core fills UB of its vector cores by `move`; each of these stores what it has."""
    part, vec = f"!pto.partition_tensor_view<{rows}x64xf32>", UB.format(rows=rows)
    text = f"""module attributes {{pto.target_arch = "a5"}} {{
func.func @k(%y: !pto.ptr<f32>) attributes {{pto.entry}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %rows = arith.constant {rows} : index
  %c96 = arith.constant 96 : index
  %c64 = arith.constant 64 : index
  %a0 = arith.constant 0 : i64
  %vy = pto.make_tensor_view %y, shape = [%c96, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
  pto.section.cube {{
    %acc = pto.alloc_tile addr = %a0 : {ACC}
    %vec = pto.alloc_tile addr = %a0 : {vec}
    {move.replace("ACC", ACC).replace("UB", vec)}
    {set_}
  }}
  pto.section.vector {{
    %sub = pto.get_subblock_idx
    %s = arith.index_cast %sub : i64 to index
    %row = arith.muli %s, %rows : index
    %py = pto.partition_view %vy, offsets = [%row, %c0], sizes = [%rows, %c64] : !pto.tensor_view<?x?xf32> -> {part}
    %vec = pto.alloc_tile addr = %a0 : {vec}
    {wait}
    pto.tstore ins(%vec : {vec}) outs(%py : {part})
  }}
  return
}}
}}"""
    given = {"y": np.zeros((96, 64), np.float32)}
    found = ptosim.load(text, level=3, sync="manual").run(given, timing=False).findings
    cube = [d for d in found if "%acc" in d.message and d.code == "PTO7101"]
    assert cube  # nothing was multiplied: told once, of the move
    return [d.code for d in found if d not in cube]


HALVES = (
    "pto.tmov ins(%acc : ACC) outs(%vec : UB) "
    "{accToVecMode = #pto<acc_to_vec_mode dual_mode_split_m>}"
)
ONE = HALVES.replace("dual_mode_split_m", "single_mode_vec0")
WINDOW = HALVES.replace("tmov ins(%acc : ACC", "tinsert ins(%acc, %c16, %c0 : ACC, index, index")


def test_a_vector_core_waits_for_what_the_cube_core_puts_into_its_memory():
    assert found_of_halves(SIGNALS, WAITS, HALVES) == []
    assert found_of_halves("", "", HALVES) == ["PTO5205"]
    assert found_of_halves(SIGNALS, "", HALVES) == ["PTO5205"]


def test_what_the_cube_core_does_not_reach_has_no_value_there():
    """One vector core's memory is filled, or a window of the tile in each."""
    assert found_of_halves(SIGNALS, WAITS, ONE, 32) == ["PTO7101"]
    assert found_of_halves(SIGNALS, WAITS, WINDOW, 48) == ["PTO7101"]
