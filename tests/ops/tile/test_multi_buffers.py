"""Multi buffers of August 2026: where the slots are, loops with two of them, slots outside."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions
from ptosim.launch.analysis.insert_sync.write import rewritten

TARGETS = ["a2a3", "a5"]
M = "!pto.multi_tile_buf<vec, 16x64xf32, count=2>"
T = "!pto.tile_buf<vec, 16x64xf32>"
P = "!pto.partition_tensor_view<16x64xf32>"
SLOT = 16 * 64 * 4
FRAME = """
func.func @f(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %i: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %c5 = arith.constant 5 : index
  %c80 = arith.constant 80 : index
  %one = arith.constant 1.0 : f32
  %base = arith.constant 8192 : i64
  %vx = pto.make_tensor_view %x, shape = [%c80, %c64], strides = [%c64, %c1] : !pto.tensor_view<80x64xf32>
  %vy = pto.make_tensor_view %y, shape = [%c80, %c64], strides = [%c64, %c1] : !pto.tensor_view<80x64xf32>
  {body}
  return
}}
"""
LOOP = f"""
  %m = pto.alloc_multi_tile : {M}
  scf.for %k = %c0 to %c5 step %c1 {{
    %row = arith.muli %k, %c16 : index
    %slot = arith.remui %k, %c2 : index
    %t = pto.multi_tile_get %m[%slot] : {M} -> {T}
    %px = pto.partition_view %vx, offsets = [%row, %c0], sizes = [%c16, %c64] : !pto.tensor_view<80x64xf32> -> {P}
    %py = pto.partition_view %vy, offsets = [%row, %c0], sizes = [%c16, %c64] : !pto.tensor_view<80x64xf32> -> {P}
    pto.tload ins(%px : {P}) outs(%t : {T})
    pto.tadds ins(%t, %one : {T}, f32) outs(%t : {T})
    pto.tstore ins(%t : {T}) outs(%py : {P})
  }}
"""
RNG = np.random.default_rng(7)


def views(name: str, block: int) -> str:
    """The windows %px… and %py… of a block of 16 rows."""
    return "\n".join(
        f"%{name}{v} = pto.partition_view %v{v}, offsets = [{block * 16}, 0], sizes = [16, 64] "
        f": !pto.tensor_view<80x64xf32> -> {P}"
        for v in "xy"
    )


def two(alloc: str = f"pto.alloc_multi_tile : {M}", a: str = "%c0", b: str = "%c1") -> str:
    """Fill two slots, then add 1 to the first and store both."""
    return f"""
      %m = {alloc}
      {views("p", 0)}
      {views("q", 1)}
      %a = pto.multi_tile_get %m[{a}] : {M} -> {T}
      %b = pto.multi_tile_get %m[{b}] : {M} -> {T}
      pto.tload ins(%px : {P}) outs(%a : {T})
      pto.tload ins(%qx : {P}) outs(%b : {T})
      pto.tadds ins(%a, %one : {T}, f32) outs(%a : {T})
      pto.tstore ins(%a : {T}) outs(%py : {P})
      pto.tstore ins(%b : {T}) outs(%qy : {P})
    """


def given(i: int = 0) -> dict:
    x = RNG.standard_normal((80, 64)).astype(np.float32)
    return {"x": x, "y": np.zeros((80, 64), np.float32), "i": i}


def run(body: str, target: str, i: int = 0, **options):
    args = given(i)
    result = ptosim.load(FRAME.format(body=body), target=target, sync="auto", **options).run(args)
    return args["x"], result.outputs["y"].reshape(80, 64), result


@pytest.mark.parametrize("target", TARGETS)
def test_a_loop_with_two_slots(target):
    """Each round has its own block, with synchronisation at run time and with inserted flags."""
    x, y, result = run(LOOP, target)
    assert np.array_equal(y, x + 1)
    assert not result.findings
    text = FRAME.format(body=LOOP)
    for plan in (False, True):
        options = FrontOptions(target)
        flagged, _ = rewritten(Source("k", text), options, plan=plan, insert_sync=True)
        args = given()
        result = ptosim.load(flagged, target=target, sync="manual").run(args)
        assert np.array_equal(result.outputs["y"].reshape(80, 64), args["x"] + 1)
        assert not result.findings


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("slots", [("%c0", "%c1"), ("%c1", "%i"), ("%i", "%c1")])
def test_slots_are_one_after_the_other(target, slots):
    """Two slots do not share bytes; one slot named twice is one storage."""
    x, y, _ = run(two(a=slots[0], b=slots[1]), target, i=0)
    assert np.array_equal(y[:16], x[:16] + 1)
    assert np.array_equal(y[16:32], x[16:32])
    _, y, _ = run(two(a="%c1", b="%i"), target, i=1)
    assert np.array_equal(y[:16], y[16:32])


def tiles_of(flagged: str) -> list[int]:
    return [int(n) for n in re.findall(r"%ptosim_addr\d+ = arith.constant (\d+)", flagged)]


def test_the_planner_counts_every_slot():
    body = f"{two()}\n%z = pto.alloc_tile : {T}\npto.tmov ins(%b : {T}) outs(%z : {T})"
    flagged, _ = rewritten(
        Source("k", FRAME.format(body=body)), FrontOptions("a5"), plan=True, insert_sync=False
    )
    assert tiles_of(flagged) == [0, 2 * SLOT]


@pytest.mark.parametrize("target", TARGETS)
def test_the_base_is_the_programs_at_level_3(target):
    """A single tile at base + one slot is the second slot."""
    body = two(f"pto.alloc_multi_tile addr = %base : {M}")
    body = body.replace("%b = pto.multi_tile_get %m[%c1]", "%unused = pto.multi_tile_get %m[%c1]")
    body = f"%second = arith.constant {8192 + SLOT} : i64\n" + body.replace(
        "pto.tstore ins(%b", f"%b2 = pto.alloc_tile addr = %second : {T}\npto.tstore ins(%b2"
    ).replace("outs(%b :", "outs(%unused :")
    x, y, _ = run(body, target)
    assert np.array_equal(y[16:32], x[16:32])


def test_an_address_anywhere_makes_it_level_3():
    body = two(f"pto.alloc_multi_tile addr = %base : {M}") + f"%z = pto.alloc_multi_tile : {M}"
    found = ptosim.check(FRAME.format(body=body), target="a5")
    assert any("requires a base 'addr' operand" in f.message for f in found)


@pytest.mark.parametrize("slot", [2, -1])
def test_a_slot_outside_stops_the_run(slot):
    with pytest.raises(ptosim.ProgramError) as stopped:
        run(two(b="%i"), "a5", i=slot)
    assert "PTO6061" in str(stopped.value)
    assert f"slot {slot} is outside" in str(stopped.value)


def test_the_valid_extents_are_those_of_every_slot():
    several = "!pto.multi_tile_buf<vec, 16x64xf32, valid=?x64, count=2>"
    tile = "!pto.tile_buf<vec, 16x64xf32, valid=?x64>"
    body = f"""
      %m = pto.alloc_multi_tile valid_row = %i : {several}
      %a = pto.multi_tile_get %m[%c1] : {several} -> {tile}
      {views("p", 0)}
      %r, %c = pto.get_validshape %a : {tile}
      %n = arith.index_cast %r : index to i32
      %f = arith.sitofp %n : i32 to f32
      pto.store_scalar %f, %y[%c0] : !pto.ptr<f32>, f32
    """
    _, y, _ = run(body, "a5", i=8)
    assert y[0, 0] == 8


def test_constant_slots_are_apart():
    """A load of one slot does not wait for the store of the other; that of an unknown one does."""

    def flags(slot: str) -> int:
        body = f"""
          %m = pto.alloc_multi_tile : {M}
          {views("p", 0)}
          {views("q", 1)}
          %a = pto.multi_tile_get %m[%c0] : {M} -> {T}
          %b = pto.multi_tile_get %m[{slot}] : {M} -> {T}
          pto.tstore ins(%a : {T}) outs(%py : {P})
          pto.tload ins(%qx : {P}) outs(%b : {T})
        """
        text = FRAME.format(body=body)
        source = Source("k", text)
        flagged, _ = rewritten(source, FrontOptions("a5"), plan=False, insert_sync=True)
        return flagged.count("pto.set_flag") + flagged.count("pto.get_buf")

    assert flags("%c1") == 0
    assert flags("%i") == flags("%c0") > 0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("slot", [0, 1])
def test_races_are_about_the_bytes_of_the_slot(target, slot):
    """Nothing orders the second load after the store: a race if it fills the same slot."""
    body = f"""
      %m = pto.alloc_multi_tile : {M}
      {views("p", 0)}
      {views("q", 1)}
      %a = pto.multi_tile_get %m[%c0] : {M} -> {T}
      %b = pto.multi_tile_get %m[%i] : {M} -> {T}
      pto.tload ins(%px : {P}) outs(%a : {T})
      pto.set_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]
      pto.wait_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]
      pto.tstore ins(%a : {T}) outs(%py : {P})
      pto.tload ins(%qx : {P}) outs(%b : {T})
      pto.set_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID1>]
      pto.wait_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID1>]
      pto.tstore ins(%b : {T}) outs(%qy : {P})
    """
    program = ptosim.load(FRAME.format(body=body), target=target, sync="manual")
    found = program.run(given(slot)).findings
    assert [f.code for f in found if f.code.startswith("PTO5")] == ([] if slot else ["PTO5202"])


def test_slots_share_the_fate_of_their_buffer():
    """A space that overflows without reuse: two buffers of which one is dead share bytes, the slots
    of one buffer never do."""
    several, tile = M.replace("16x64", "16x1024"), T.replace("16x64", "16x1024")
    lines = []
    for n in range(2):  # 128 KiB each, of 192
        lines += [
            f"%m{n} = pto.alloc_multi_tile : {several}",
            f"%a{n} = pto.multi_tile_get %m{n}[%i] : {several} -> {tile}",
            f"%b{n} = pto.multi_tile_get %m{n}[%c1] : {several} -> {tile}",
            f"pto.texpands ins(%one : f32) outs(%a{n} : {tile})",
            f"pto.tadds ins(%a{n}, %one : {tile}, f32) outs(%b{n} : {tile})",
        ]
    text = FRAME.format(body="\n".join(lines))
    flagged, _ = rewritten(Source("k", text), FrontOptions("a2a3"), plan=True, insert_sync=False)
    assert tiles_of(flagged) == [0, 0]
