"""Arguments in which pypto tells a block where it runs are known; others are the caller's."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.language.toolchains import promises_of

NUMBERS = """module attributes {pto.target_arch = "a5"} {
  func.func @k(%out: !pto.ptr<i32>, %n: index, %rows: index,
               %__pypto_spmd_block_idx: i32, %__pypto_spmd_block_num: i32,
               %__pypto_spmd_subblock_idx: i32)
      attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %view = pto.make_tensor_view %out, shape = [%rows, %c16], strides = [%c16, %c1]
      : !pto.tensor_view<?x?xi32>
    %i = arith.index_cast %__pypto_spmd_block_idx : i32 to index
    %at = arith.muli %i, %c16 : index
    %c100 = arith.constant 100 : i32
    %tens = arith.muli %__pypto_spmd_block_num, %c100 : i32
    %value = arith.addi %tens, %__pypto_spmd_block_idx : i32
    pto.store_scalar %value, %out[%at] : !pto.ptr<i32>, i32
    return
  }
}
"""
GIVEN = {"n": 1, "rows": 4}


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_block_gets_its_number_and_how_many_there_are(jobs):
    out = np.zeros((4, 16), np.int32)
    program = ptosim.load(NUMBERS)
    result = program.run({"out": out, **GIVEN}, block_num=4, jobs=jobs)
    assert result.outputs["out"][:, 0].tolist() == [400, 401, 402, 403]
    assert result.generated["__pypto_spmd_block_num"] == "the number of blocks"


def test_what_the_caller_gives_wins():
    out = np.zeros((4, 16), np.int32)
    given = {"out": out, **GIVEN, "__pypto_spmd_block_idx": 3}
    assert ptosim.load(NUMBERS).run(given).outputs["out"][:, 0].tolist() == [0, 0, 0, 103]


def test_check_follows_a_kernel_that_asks_where_it_runs():
    """The number of the block is 0 and 1 as of `pto.get_block_idx`: nothing of it is left open."""
    found = ptosim.check(NUMBERS, args=GIVEN)
    assert "PTO6050" not in [d.code for d in found]


def test_the_range_of_each_argument_is_known():
    promised = promises_of(ptosim.load(NUMBERS).front.resolved.functions["k"])
    ranges = {n: (p.kind, p.low, p.high) for n, p in promised.items()}
    assert ranges == {
        "out": ("pointer", None, None),
        "n": ("free", None, None),
        "rows": ("extent", 1, None),
        "__pypto_spmd_block_idx": ("index", 0, 65_535),
        "__pypto_spmd_block_num": ("count", 1, 65_536),
        "__pypto_spmd_subblock_idx": ("index", 0, 1),
    }
    assert promised["__pypto_spmd_block_idx"].below == "__pypto_spmd_block_num"
