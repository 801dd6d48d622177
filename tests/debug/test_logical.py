"""Logical vectors and masks in the debugger."""

from __future__ import annotations

import numpy as np

import ptosim
from ptosim.debug.shell import Shell
from tests.support.micro import kernel
from tests.support.vmi import mask_type, vreg

T, M = vreg(70, "f32"), mask_type(70)
TEXT = kernel(
    "%g: !pto.ptr<f32>",
    f"""
    %zero = arith.constant 0 : i64
    %p = pto.castptr %zero : i64 -> !pto.ptr<f32, ub>
    %c0 = arith.constant 0 : index
    %c50 = arith.constant 50 : index
    pto.mte_gm_ub %g, %p, 0, 280 nburst(1, 0, 0) : !pto.ptr<f32>, !pto.ptr<f32, ub>
    pto.vecscope {{
      %m = pto.vmi.create_mask %c50 : index -> {M}
      %x = pto.vmi.vload %p[%c0] : !pto.ptr<f32, ub> -> {T}
      %y = pto.vmi.vadd %x, %x, %m : {T}, {T}, {M} -> {T}
      %s = pto.vmi.vcvt %y {{saturate = "SAT"}} : {T} -> {vreg(70, "si32")}
      pto.vmi.vstore %y, %p[%c0], %m : {T}, !pto.ptr<f32, ub>, {M}
    }}""",
)
GIVEN = np.arange(70, dtype=np.float32)


def stopped():
    session = ptosim.load(TEXT).debug({"g": GIVEN})
    session.break_("vmi.vstore")
    session.continue_()
    return session


def shown(session, line: str) -> str:
    found: list[str] = []
    shell = Shell(session, lambda parts: found.extend(p.text.plain for p in parts), lambda: 100)
    shell.execute(line)
    return "\n".join(found)


def test_vectors_and_masks_are_arrays():
    session = stopped()
    np.testing.assert_array_equal(session.value("%x"), GIVEN)
    np.testing.assert_array_equal(session.value("%y"), 2 * GIVEN)
    np.testing.assert_array_equal(session.value("%s"), (2 * GIVEN).astype(np.int32))
    np.testing.assert_array_equal(session.value("%m"), np.arange(70) < 50)


def test_lanes_and_bars():
    """A vector that depends on a dropped mask says where; other types see the same bytes."""
    session = stopped()
    assert "70 lanes of f32" in shown(session, "lanesj %x")
    assert "140 lanes of f16" in shown(session, "lanesj %x f16")
    text = shown(session, "lanesj %y")
    assert "20 lanes, the first 50, depend on the mask of 'pto.vmi.vadd' (%y)" in text
    bar = shown(session, "lanesj %m")
    assert "50 of 70 lanes" in bar
    assert "\\u2588" * 50 + "\\u00b7" * 14 in bar or "█" * 50 + "·" * 14 in bar
