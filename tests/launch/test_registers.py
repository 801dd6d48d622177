"""Registers and predicates are arguments and results of a launch: arrays of their lanes by name."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import ptosim

REGISTER = """module attributes {{pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>}} {{
  func.func @f(%v: {v}, %m: {m}) -> {v} {{
    %w = {op} %v, %v, %m : {v}, {v}, {m} -> {v}
    return %w : {v}
  }}
}}
"""
FORMS = {
    "micro f32": ("pto.vadd", "!pto.vreg<64xf32>", "!pto.mask<b32>", np.float32, 64),
    "micro bf16": ("pto.vadd", "!pto.vreg<128xbf16>", "!pto.mask<b16>", ml_dtypes.bfloat16, 128),
    "micro i8": ("pto.vadd", "!pto.vreg<256xi8>", "!pto.mask<b8>", np.int8, 256),
    "logical": ("pto.vmi.vadd", "!pto.vmi.vreg<100xf16>", "!pto.vmi.mask<100xpred>",
                np.float16, 100),
}  # fmt: skip


def program(form):
    op, v, m, dtype, lanes = FORMS[form]
    return ptosim.load(REGISTER.format(op=op, v=v, m=m)), dtype, lanes


@pytest.mark.parametrize("form", FORMS)
def test_lanes_come_and_go_as_arrays(form):
    """Inactive lanes of an addition on registers are 0; `signature` names kind, type and lanes."""
    loaded, dtype, lanes = program(form)
    data = (np.arange(lanes) % 50).astype(dtype)
    mask = np.arange(lanes) % 3 == 0
    got = loaded.run({"v": data, "m": mask}).outputs["w"]
    assert got.dtype == dtype
    dropped = form == "logical"  # whose lowering drops the mask of an addition
    want = np.where(mask | dropped, 2 * data.astype(np.float64), 0)
    assert np.array_equal(got.astype(np.float64), want)
    assert [(a.name, a.kind, a.shape) for a in loaded.signature()] == [
        ("v", "vreg", (lanes,)), ("m", "mask", (lanes,)),
    ]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_what_is_left_out_is_random_lanes_that_are_all_active(form):
    loaded, _, lanes = program(form)
    result = loaded.run({})
    assert result.outputs["w"].shape == (lanes,)
    assert np.count_nonzero(result.outputs["w"].astype(np.float64)) > lanes // 2
    assert loaded.cost().cycles > 0


@pytest.mark.parametrize(("args", "told"), [
    ({"v": np.zeros(63, np.float32)}, "has 63 elements; !pto.vreg<64xf32> has 64 lanes"),
    ({"v": np.zeros(64, np.float16)}, "is an array of f32"),
    ({"m": np.zeros(32, np.uint8)}, "has 32 elements; !pto.mask<b32> has 64 lanes"),
    ({"m": np.zeros(64, np.float32)}, "is a predicate: an array of 64 booleans"),
])  # fmt: skip
def test_arrays_that_do_not_fit_are_told(args, told):
    loaded, _, _ = program("micro f32")
    with pytest.raises(ptosim.UsageError, match=re.escape(told)):
        loaded.run(args)


def test_logical_arguments_of_a_region_have_values_and_cycles():
    """In a region, and handed to a function that it calls."""
    v, m = "!pto.vmi.vreg<100xf32>", "!pto.vmi.mask<100xpred>"
    text = f"""module attributes {{pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>}} {{
  func.func @f(%v: {v}, %m: {m}, %p: !pto.ptr<f32, ub>) {{
    %c0 = arith.constant 0 : index
    pto.vecscope {{
      %w = func.call @square(%v) : ({v}) -> {v}
      pto.vmi.vstore %w, %p[%c0], %m : {v}, !pto.ptr<f32, ub>, {m}
    }}
    return
  }}
  func.func private @square(%x: {v}) -> {v} {{
    %r = pto.vmi.vmul %x, %x : {v}, {v} -> {v}
    return %r : {v}
  }}
}}"""
    data, mask = np.arange(100, dtype=np.float32), np.arange(100) % 3 == 0
    loaded = ptosim.load(text)
    found = loaded.run({"v": data, "m": mask, "p": np.zeros(128, np.float32)})
    assert np.array_equal(found.outputs["p"][:100], np.where(mask, data * data, 0))
    assert found.cycles > 0
