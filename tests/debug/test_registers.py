"""Vector registers and predicates in the debugger."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ptosim
from ptosim.debug.shell import Shell
from ptosim.ground.errors import UsageError
from tests.support.micro import kernel

V = "!pto.vreg<64xf32>"
TEXT = kernel(
    "%g: !pto.ptr<f32>",
    f"""
    %zero = arith.constant 0 : i64
    %p = pto.castptr %zero : i64 -> !pto.ptr<f32, ub>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    pto.mte_gm_ub %g, %p, 0, 256 nburst(1, 0, 0) : !pto.ptr<f32>, !pto.ptr<f32, ub>
    pto.vecscope {{
      %m = pto.pset_b32 "PAT_VL4" : !pto.mask<b32>
      scf.for %i = %c0 to %c3 step %c1 {{
        %x = pto.vlds %p[%c0] : !pto.ptr<f32, ub> -> {V}
        %y = pto.vadd %x, %x, %m : {V}, {V}, !pto.mask<b32> -> {V}
        pto.vsts %y, %p[%c0], %m : {V}, !pto.ptr<f32, ub>, !pto.mask<b32>
      }}
    }}""",
)
GIVEN = np.arange(64, dtype=np.float32)


def stopped(at: str):
    session = ptosim.load(TEXT).debug({"g": GIVEN})
    session.break_(at)
    session.continue_()
    return session


def test_lanes_and_predicates_are_arrays():
    session = stopped("vsts")
    np.testing.assert_array_equal(session.value("%x"), GIVEN)
    expected = np.where(np.arange(64) < 4, 2 * GIVEN, 0)
    np.testing.assert_array_equal(session.value("%y"), expected)
    np.testing.assert_array_equal(session.value("%m"), np.arange(64) < 4)


def test_a_watch_on_a_lane_stops_where_it_changes():
    session = stopped("vsts")
    session.watch("%y[3]")
    stop = session.continue_()
    assert stop.reason == "watchpoint"
    assert session.value("%y")[3] == 12


def shown(session, line: str) -> dict:
    """What a command writes as data."""
    found: list[str] = []
    shell = Shell(session, lambda parts: found.extend(p.text.plain for p in parts), lambda: 100)
    shell.execute(line)
    return json.loads(found[0])


def test_the_command_shows_lanes_by_type_and_masks_as_bars():
    session = stopped("vsts")
    own = json.dumps(shown(session, "lanesj %y"))
    assert "64 lanes of f32" in own
    assert "128 lanes of f16" in json.dumps(shown(session, "lanesj %y f16"))
    bar = json.dumps(shown(session, "lanesj %m"), ensure_ascii=False)
    assert "4 of 64 lanes of b32" in bar
    assert "████····" in bar
    assert f"{0x1111:064x}" in bar
    for line, message in (("lanes %i", "is no register"), ("lanes %y nothing", "no type of lanes")):
        with pytest.raises(UsageError, match=message):
            shown(session, line)


def test_a_register_without_a_value_and_wrong_types():
    session = stopped("pset_b32")
    with pytest.raises(UsageError, match="no value yet"):
        session.value("%y")
