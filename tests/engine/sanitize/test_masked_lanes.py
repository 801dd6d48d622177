"""Lanes without a value that a mask may leave out: what they decide shows when the run is repeated
with other bytes there. And contents that a region itself stores over."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.launch import schedules

MICRO = """module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {
  func.func @k(%x: !pto.ptr<f32, gm>, %y: !pto.ptr<f32, gm>) attributes {pto.aicore} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c64 = arith.constant 64 : index
    %two = arith.constant 2.0 : f32
    %used = arith.constant USED : i32
    %at_x = arith.constant 0 : i64
    %at_y = arith.constant AT : i64
    %ub_x = pto.castptr %at_x : i64 -> !pto.ptr<f32, ub>
    %ub_y = pto.castptr %at_y : i64 -> !pto.ptr<f32, ub>
    pto.mte_gm_ub %x, %ub_x, 0, LOADED nburst(1, LOADED, LOADED)
      : !pto.ptr<f32, gm>, !pto.ptr<f32, ub>
    pto.set_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]
    pto.wait_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]
    pto.vecscope {
      %_:1 = scf.for %i = %c0 to %c4 step %c1 iter_args(%left = %used) -> (i32) {
        %mask, %rest = pto.plt_b32 %left : i32 -> !pto.mask<b32>, i32
        %at = arith.muli %i, %c64 : index
        %v = pto.vlds %ub_x[%at] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>
        %r = pto.vmuls %v, %two, %mask
          : !pto.vreg<64xf32>, f32, !pto.mask<b32> -> !pto.vreg<64xf32>
        pto.vsts %r, %ub_y[%at], %mask
          : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>
        scf.yield %rest : i32
      }
    }
    pto.set_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]
    pto.wait_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]
    pto.mte_ub_gm %ub_y, %y, STORED nburst(1, STORED, STORED)
      : !pto.ptr<f32, ub>, !pto.ptr<f32, gm>
    pto.barrier #pto.pipe<PIPE_ALL>
    return
  }
}
"""


def doubled(used: int, loaded: int, at: int = 8192, text: str = MICRO, **options) -> ptosim.Result:
    """Of 256 numbers the first `loaded` come into UB, the first `used` are doubled and stored."""
    words = {"USED": used, "AT": at, "LOADED": 4 * loaded, "STORED": 4 * used}
    for word, number in words.items():
        text = text.replace(word, str(number))
    given = {"x": np.arange(256, dtype=np.float32), "y": np.zeros(used, np.float32)}
    return ptosim.load(text).run(given, **options)


@pytest.mark.parametrize("uninit", ["poison", "zero", "random"])
@pytest.mark.parametrize("in_place", [False, True])
def test_lanes_that_the_mask_leaves_out_decide_nothing(uninit, in_place):
    result = doubled(200, 200, uninit=uninit, in_place=in_place)
    assert result.findings == []
    assert result.unsure, "a load of 64 of which 8 have values"
    assert result.definedness["y"].all()
    assert np.array_equal(result.outputs["y"], 2 * np.arange(200))


@pytest.mark.parametrize("uninit", ["poison", "zero", "random"])
@pytest.mark.parametrize("in_place", [False, True])
def test_lanes_that_the_mask_lets_through_are_told(uninit, in_place):
    """Elements 200 to 219 of the result are computed of what nothing has written."""
    result = doubled(220, 200, uninit=uninit, in_place=in_place)
    (found,) = result.findings
    assert found.code == "PTO7101"
    assert "'pto.vlds' reads %ub_x in vec [0x320, 0x400)" in found.message
    assert "with other bytes there 20 of 220 elements of `y` come out different" in found.notes
    assert found.context["outputs"] == [{"output": "y", "steps": []}]
    assert result.definedness["y"].tolist() == [True] * 200 + [False] * 20


def test_without_the_sanitizer_and_in_long_runs_nothing_is_repeated(monkeypatch):
    assert doubled(220, 200, sanitize="races").findings == []
    monkeypatch.setattr(schedules, "MOST_AGAIN", 10)
    result = doubled(220, 200)
    assert result.findings == []
    assert result.unsure


LOGICAL = MICRO.split("      %_:1 = ", 1)[0] + """      %n = arith.constant USED : index
      %m = pto.vmi.create_mask %n : index -> !pto.vmi.mask<256xpred>
      %v = pto.vmi.vload %ub_x[%c0] : !pto.ptr<f32, ub> -> !pto.vmi.vreg<256xf32>
      %r = pto.vmi.vmuls %v, %two, %m
        : !pto.vmi.vreg<256xf32>, f32, !pto.vmi.mask<256xpred> -> !pto.vmi.vreg<256xf32>
      pto.vmi.vstore %r, %ub_y[%c0], %m
        : !pto.vmi.vreg<256xf32>, !pto.ptr<f32, ub>, !pto.vmi.mask<256xpred>
    }
""" + MICRO.split("      }\n    }\n", 1)[1]  # fmt: skip


def test_logical_vectors_too():
    assert doubled(200, 200, text=LOGICAL).findings == []
    result = doubled(220, 200, text=LOGICAL)
    assert [d.code for d in result.findings] == ["PTO7101"]
    assert result.definedness["y"].sum() == 200


# -- contents that the region stores over --------------------------------------------------------------


def test_a_region_that_stores_over_what_it_has_still_to_read():
    """A round stores where a later one reads: 512 bytes farther on, inside of what was loaded."""
    result = doubled(256, 256, at=512)
    _, found = result.findings  # the other one: no barrier is between
    assert found.code == "PTO7104"
    assert (
        "'pto.vlds' reads %ub_x in vec [0x200, 0x400), which %ub_y has overwritten" in found.message
    )
    assert not np.array_equal(result.outputs["y"], 2 * np.arange(256))


@pytest.mark.parametrize("at", [0, 1024])
def test_a_region_in_place_or_apart_is_right(at):
    result = doubled(256, 256, at=at)
    assert result.findings == []
    assert np.array_equal(result.outputs["y"], 2 * np.arange(256))


def test_a_part_by_its_own_address_that_is_changed_in_place():
    """The second pointer reads what is there before it stores: a name of a part."""
    text = MICRO.replace("vlds %ub_x[%at]", "vlds %ub_y[%c0]").replace(
        "vsts %r, %ub_y[%at]", "vsts %r, %ub_y[%c0]"
    )
    codes = [d.code for d in doubled(64, 256, at=512, text=text).findings]
    assert codes == ["PTO6610"]  # no barrier is between the rounds
