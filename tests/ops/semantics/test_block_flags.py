"""Flags between cores by the hardware's own numbers (August 2026), and what waits for memory."""

from __future__ import annotations

import pytest

import ptosim
from tests.ops.semantics.test_sync import copies, deadlock, mixed, run

VECTOR = "LOAD\npto.barrier <PIPE_ALL>\nSTORE\n"


def test_a_vector_core_means_its_own_below_16():
    """The first vector core's 5 and the second's 21, which it may also name itself."""
    cube = "pto.wait_intra_block <PIPE_FIX>, 5\npto.wait_intra_block <PIPE_FIX>, 21"
    assert copies(mixed(cube, VECTOR + "pto.set_intra_block <PIPE_MTE3>, 5"))
    both = mixed(cube.replace(" 21", " 5"), VECTOR + "pto.set_intra_block <PIPE_MTE3>, 5")
    deadlock(both)


def test_a_vector_core_means_any_by_16_and_more():
    """Both vector cores name 21: the cube takes it twice."""
    cube = "pto.wait_intra_block <PIPE_FIX>, 21\npto.wait_intra_block <PIPE_FIX>, 21"
    assert copies(mixed(cube, VECTOR + "pto.set_intra_block <PIPE_MTE3>, 21"))


@pytest.mark.parametrize("arch", ["a5", "a2a3"])
def test_the_first_vector_core_on_both_targets(arch):
    cube = "pto.set_intra_block <PIPE_FIX>, 3"
    vector = """%sub = pto.get_subblock_idx
      %zero = arith.constant 0 : i64
      %first = arith.cmpi eq, %sub, %zero : i64
      scf.if %first {
        pto.wait_intra_block <PIPE_MTE2>, 3
      }
      LOAD
      pto.barrier <PIPE_ALL>
      STORE"""
    assert copies(mixed(cube, vector), arch)
    deadlock(mixed("", vector), arch)


@pytest.mark.parametrize("arch", ["a5", "a2a3"])
def test_all_blocks_wait_for_all_of_their_kind(arch):
    meet = "pto.set_cross_block <PIPE_MTE3>, 4\npto.wait_cross_block <PIPE_MTE2>, 4\n"
    body = f"pto.section.vector {{\n{VECTOR}{meet}{meet}}}"
    assert copies(body, arch, block_num=3)
    deadlock(body.replace("pto.set_cross_block <PIPE_MTE3>, 4", "", 1), arch, block_num=3)


def test_numbers_that_are_computed_must_exist():
    for op in ("set_intra_block", "wait_intra_block", "set_cross_block", "wait_cross_block"):
        body = f"%n = arith.constant 32 : index\npto.section.vector {{\npto.{op} <PIPE_V>, %n : index\n}}"
        with pytest.raises(ptosim.Trap, match="PTO5003"):
            run(body)
    with pytest.raises(ptosim.Trap, match="PTO5003"):
        run("%n = arith.constant 32 : index\npto.get_buf_dyn[<PIPE_V>, %n]")


def test_computed_tokens():
    get, release = "pto.get_buf_dyn[<PIPE_{}>, %c1]", "pto.rls_buf_dyn[<PIPE_{}>, %c1]"
    body = "\n".join(
        [get.format("MTE2"), "LOAD", release.format("MTE2"), get.format("MTE3"), "STORE"]
    )
    assert copies(body)
    deadlock("\n".join([get.format("MTE2"), "LOAD", get.format("MTE3"), "STORE"]))


@pytest.mark.parametrize("scope", ["ALL", "DDR", "UB", "SEQ"])
def test_data_barriers_change_no_value(scope):
    assert copies(f'LOAD\npto.barrier <PIPE_ALL>\nSTORE\npto.dsb "{scope}"')


def test_the_older_name_of_a5_waits_for_the_same_semaphore():
    cube = "pto.wait_intra_core <PIPE_FIX>, 5\npto.wait_intra_core <PIPE_FIX>, 21"
    assert copies(mixed(cube, VECTOR + "pto.set_intra_block <PIPE_MTE3>, 5"))
    deadlock(mixed(cube, VECTOR))


def test_the_instructions_of_a2a3_are_its_mode_2():
    """The cube reaches both vector cores with one number, and waits for both."""
    vector = "pto.wait_flag_dev 3\nLOAD\npto.barrier <PIPE_ALL>\nSTORE\npto.set_cross_core <PIPE_MTE3>, 4"
    cube = "pto.set_cross_core <PIPE_FIX>, 3\npto.wait_flag_dev 4"
    assert copies(mixed(cube, vector), "a2a3")
    deadlock(mixed(f"{cube}\npto.wait_flag_dev 4", vector), "a2a3")
    deadlock(mixed("pto.wait_flag_dev 4", vector), "a2a3")


def test_the_number_of_a_core_in_the_place_of_a_pipe_is_not_defined():
    with pytest.raises(ptosim.Trap, match="PTO8002"):
        run(mixed("%n = arith.constant 1 : i64\npto.set_cross_core %n, 3 : i64", ""), "a2a3")
