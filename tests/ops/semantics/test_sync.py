"""Flags hold the pipe that waits, and nothing else; a program that cannot go on ends and says why."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ptosim
from ptosim.ground.errors import LimitError
from tests.shell.programs import PART, TILE, VIEW

X = np.arange(1024, dtype=np.float32).reshape(16, 64)


def program(body: str, arch: str = "a5", args: str = "") -> str:
    """A kernel with LOAD (x to %a, MTE2), STORE (%a to y, MTE3) and the lines of `body`."""
    body = re.sub(r"\bLOAD\b", f"pto.tload ins(%px : {PART}) outs(%a : {TILE})", body)
    body = re.sub(r"\bSTORE\b", f"pto.tstore ins(%a : {TILE}) outs(%py : {PART})", body)
    return f"""module attributes {{pto.target_arch = "{arch}"}} {{
  func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>{args}) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %vx = pto.make_tensor_view %x, shape = [%c16, %c64], strides = [%c64, %c1] : {VIEW}
    %vy = pto.make_tensor_view %y, shape = [%c16, %c64], strides = [%c64, %c1] : {VIEW}
    %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c16, %c64] : {VIEW} -> {PART}
    %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c16, %c64] : {VIEW} -> {PART}
    %a = pto.alloc_tile : {TILE}
{body}
    return
  }}
}}
"""


def run(body: str, arch: str = "a5", **options):
    return ptosim.load(program(body, arch)).run({"x": X, "y": np.zeros_like(X)}, **options)


def copies(body: str, arch: str = "a5", **options) -> bool:
    return np.array_equal(run(body, arch, **options).outputs["y"], X)


def deadlock(body: str, arch: str = "a5", **options):
    with pytest.raises(ptosim.Trap) as caught:
        run(body, arch, **options)
    (finding,) = [d for d in caught.value.findings if d.code == "PTO5006"]
    assert ptosim.Trap.exit_code == 4
    return finding


SET = "pto.set_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]"
WAIT = "pto.wait_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]"


def test_set_then_wait():
    assert copies(f"LOAD\n{SET}\n{WAIT}\nSTORE")


def test_a_pipe_that_waits_holds_what_is_issued_to_it_later():
    """The store is issued first and takes effect after the load, because its pipe waits."""
    assert copies(f"{WAIT}\nSTORE\nLOAD\n{SET}")


def test_other_pipes_go_on():
    assert copies(
        "pto.wait_flag[<PIPE_MTE3>, <PIPE_V>, <EVENT_ID0>]\nLOAD\nSTORE\n"
        "pto.set_flag[<PIPE_MTE3>, <PIPE_V>, <EVENT_ID0>]"
    )


def test_events_of_different_ids_and_pipes_are_different():
    finding = deadlock(f"LOAD\n{SET}\n{WAIT.replace('ID0', 'ID1')}\nSTORE")
    assert "EVENT_ID1" in finding.labels[0].text
    assert any("set and not waited for: EVENT_ID0" in n for n in finding.notes)


def test_symbolic_events_name_the_pipes_of_their_operations():
    """TLOAD is MTE2 and TSTORE_VEC is MTE3 in the assembler's table."""
    kinds = "#pto.sync_op_type<TLOAD>, #pto.sync_op_type<TSTORE_VEC>, <EVENT_ID0>"
    assert copies(f"LOAD\npto.record_event[{kinds}]\npto.wait_event[{kinds}]\nSTORE")
    assert copies(f"LOAD\npto.record_event[{kinds}]\n{WAIT}\nSTORE")


def test_computed_event_ids():
    dynamic = "[#pto.pipe<PIPE_MTE2>, #pto.pipe<PIPE_MTE3>, %c1]"
    assert copies(f"LOAD\npto.set_flag_dyn{dynamic}\npto.wait_flag_dyn{dynamic}\nSTORE")
    with pytest.raises(ptosim.Trap, match="event id 16"):
        run(f"pto.set_flag_dyn{dynamic.replace('%c1', '%c16')}")


def test_event_arrays():
    array = "!pto.eventid_array<2>"
    body = f"""%e = pto.declare_eventid_array -> {array}
    pto.eventid_array_set %e[%c0], %c1 : {array}
    %n = pto.eventid_array_get %e[%c0] : {array}
    LOAD
    pto.set_flag_dyn[#pto.pipe<PIPE_MTE2>, #pto.pipe<PIPE_MTE3>, %n]
    pto.wait_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID1>]
    STORE"""
    assert copies(body)
    with pytest.raises(ptosim.Trap, match="PTO5008"):
        run(body.replace("get %e[%c0]", "get %e[%c1]"))
    with pytest.raises(ptosim.Trap, match="PTO5007"):
        run(body.replace("get %e[%c0]", "get %e[%c2]"))


def test_a_barrier_of_all_pipes_waits_for_queued_work():
    assert copies(f"{SET}\n{WAIT}\nLOAD\npto.barrier <PIPE_ALL>\nSTORE")
    finding = deadlock(f"{WAIT}\nLOAD\npto.barrier <PIPE_ALL>\nSTORE")
    assert any("its pipes to finish" in label.text for label in finding.labels)


def test_the_scalar_unit_can_wait():
    scalar = "pto.wait_flag[<PIPE_MTE2>, <PIPE_S>, <EVENT_ID0>]"
    assert copies(f"LOAD\n{SET.replace('MTE3', 'S')}\n{scalar}\nSTORE")
    deadlock(f"LOAD\n{scalar}\n{SET.replace('MTE3', 'S')}\nSTORE")


def test_a_wait_at_the_end_is_a_deadlock_even_if_nothing_follows():
    deadlock(f"LOAD\nSTORE\n{WAIT}")


def test_buffer_tokens_order_their_holders():
    get, release = 'pto.get_buf "PIPE_{}", 3, 0', 'pto.rls_buf "PIPE_{}", 3, 0'
    body = "\n".join(
        [get.format("MTE2"), "LOAD", release.format("MTE2"), get.format("MTE3"), "STORE"]
    )
    assert copies(body)
    finding = deadlock("\n".join([get.format("MTE2"), "LOAD", get.format("MTE3"), "STORE"]))
    assert "buffer token 3" in finding.labels[0].text
    with pytest.raises(ptosim.Trap, match="PTO5004"):
        run(release.format("V"))


SECTIONS = "pto.section.cube {{\n{cube}\n}}\npto.section.vector {{\n{vector}\n}}"


def mixed(cube: str, vector: str) -> str:
    return SECTIONS.format(cube=cube, vector=vector)


def test_a5_cube_names_each_vector_core():
    """Id for the first vector core, id + 16 for the second, where the program says so; else one
    signal is seen by both (A16)."""
    vector = "pto.sync.wait <PIPE_MTE2>, 3\nLOAD\npto.barrier <PIPE_ALL>\nSTORE"
    both = mixed("pto.sync.set <PIPE_FIX>, 3\npto.set_intra_block <PIPE_FIX>, 19", vector)
    assert copies(both)
    assert copies(both, block_num=3)
    finding = deadlock(both.replace("19", "20"))
    assert "vector 1" in finding.labels[0].text
    assert copies(mixed("pto.sync.set <PIPE_FIX>, 3", vector))


def test_a5_cube_waits_for_both_vector_cores():
    """A16: a wait of the cube core needs one signal from each of them."""
    vector = "LOAD\npto.barrier <PIPE_ALL>\nSTORE\npto.sync.set <PIPE_MTE3>, 5"
    assert copies(mixed("pto.sync.wait <PIPE_FIX>, 5", vector))
    one = vector.replace(
        "pto.sync.set",
        "%z = arith.constant 0 : i64\n%s = pto.get_subblock_idx\n"
        "%q = arith.cmpi eq, %s, %z : i64\nscf.if %q {\npto.sync.set",
    )
    finding = deadlock(mixed("pto.sync.wait <PIPE_FIX>, 5", one + "\n}"))
    assert "vector core 1 never signals" in finding.help


def test_a5_cube_tells_the_vector_cores_apart():
    cube = "pto.sync.wait <PIPE_FIX>, 5\npto.wait_intra_block <PIPE_FIX>, 21"
    assert copies(mixed(cube, "LOAD\npto.barrier <PIPE_ALL>\nSTORE\npto.sync.set <PIPE_MTE3>, 5"))
    deadlock(mixed(cube.replace("21", "22"), "LOAD\nSTORE\npto.sync.set <PIPE_MTE3>, 5"))


A2A3 = "%m = memref.alloc() : memref<16xi64>\npto.set_ffts %m : memref<16xi64>\n"


def test_a2a3_cube_waits_for_both_vector_cores():
    cube = "pto.sync.wait <PIPE_FIX>, 5"
    vector = "LOAD\npto.barrier <PIPE_ALL>\nSTORE\npto.sync.set <PIPE_MTE3>, 5"
    assert copies(A2A3 + mixed(cube, vector), "a2a3")
    deadlock(A2A3 + mixed(f"{cube}\n{cube}", vector), "a2a3")


def test_a2a3_one_set_reaches_both_vector_cores():
    vector = "pto.sync.wait <PIPE_MTE2>, 3\nLOAD\npto.barrier <PIPE_ALL>\nSTORE"
    assert copies(A2A3 + mixed("pto.sync.set <PIPE_FIX>, 3", vector), "a2a3")


def test_a2a3_semaphores_overflow():
    with pytest.raises(ptosim.Trap, match="PTO5005"):
        run(A2A3 + mixed("pto.sync.set <PIPE_FIX>, 3\n" * 16, "LOAD"), "a2a3")


def test_ping_pong_between_cores_interleaves_them():
    """Running one core to its end first would never finish."""
    cube = (
        "pto.sync.wait <PIPE_FIX>, 1\npto.sync.set <PIPE_FIX>, 2\npto.set_intra_block <PIPE_FIX>, 18\n"
        * 3
    )
    vector = "pto.sync.set <PIPE_MTE3>, 1\npto.sync.wait <PIPE_MTE3>, 2\n" * 3
    cube = cube.replace("<PIPE_FIX>, 1\n", "<PIPE_FIX>, 1\npto.wait_intra_block <PIPE_FIX>, 17\n")
    assert copies(mixed(cube, vector + "LOAD\npto.barrier <PIPE_ALL>\nSTORE"))


def test_all_cores_meet():
    words = "mode = #pto.sync_all_mode<hard>, core_type = #pto.sync_core_type<mix>"
    assert copies(f"LOAD\npto.syncall() {words}\nSTORE", block_num=4)


@pytest.mark.parametrize(
    "meeting",
    [
        "pto.syncall() mode = #pto.sync_all_mode<hard>, core_type = #pto.sync_core_type<mix>",
        "pto.set_cross_block <PIPE_MTE3>, 4",
        "pto.wait_cross_block <PIPE_MTE3>, 4",
    ],
)
def test_more_cores_than_can_meet(meeting):
    """An event from each to each other would be gigabytes."""
    with pytest.raises(LimitError, match="cores meet; at most 1,024 can"):
        copies(meeting, block_num=1100)
