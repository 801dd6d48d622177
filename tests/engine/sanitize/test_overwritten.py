"""A tile, an input or what a pointer leads to is read after another one was written over a part of
it (PTO7104)."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.engine.sanitize.test_micro import FILL, TAKE, P, V, flag, pointers, region, store
from tests.engine.sanitize.test_micro import codes as micro_codes
from tests.ops.semantics.test_sync import X, program
from tests.shell.programs import TILE
from tests.support.text import Kernel


def codes(second: int, body: str) -> list[str]:
    """Two tiles at level 3, %a at 0 and %b at `second`."""
    text = program(body).replace(
        f"%a = pto.alloc_tile : {TILE}",
        f"%za = arith.constant 0 : i64\n%zb = arith.constant {second} : i64\n"
        f"%a = pto.alloc_tile addr = %za : {TILE}\n%b = pto.alloc_tile addr = %zb : {TILE}\n"
        "%one = arith.constant 1.0 : f32",
    )
    result = ptosim.load(text).run({"x": X, "y": np.zeros_like(X)})
    return [d.code for d in result.findings]


FILL_B = f"pto.texpands ins(%one : f32) outs(%b : {TILE})"
ADD_B = f"pto.tadd ins(%b, %b : {TILE}, {TILE}) outs(%b : {TILE})"


@pytest.mark.parametrize("second", [32, 2048, 4064])
def test_part_of_a_live_tile_is_lost(second):
    assert codes(second, f"LOAD\n{FILL_B}\nSTORE") == ["PTO7104"]


def test_tiles_apart_and_tiles_whose_use_has_ended_are_fine():
    assert codes(4096, f"LOAD\n{FILL_B}\nSTORE") == []
    assert codes(2048, f"LOAD\nSTORE\n{FILL_B}\n{ADD_B}") == []
    assert codes(2048, f"LOAD\n{FILL_B}\n{ADD_B}\nLOAD\nSTORE") == []  # loaded anew


def test_two_names_of_the_same_bytes_are_meant():
    assert codes(0, f"LOAD\n{ADD_B}\nSTORE") == []


def test_an_operation_in_place_on_a_part_is_one_on_the_whole():
    """A part of a tile by its address: it reads what the whole has there, and changes that. (Here
    it reaches farther, to where nothing is.)"""
    assert codes(2048, f"LOAD\n{ADD_B}\nSTORE") == ["PTO7101"]
    assert codes(2048, f"LOAD\n{FILL_B}\n{ADD_B}\nSTORE") == ["PTO7104"], "its own values before"


SECOND = f"%s = pto.alloc_tile addr = %za : {TILE}"
ADD_S = f"pto.tadd ins(%s, %s : {TILE}, {TILE}) outs(%s : {TILE})"


def test_a_second_name_of_the_same_place_and_size_is_the_same_buffer():
    """Compilers write one for every reshape: which name reads it does not matter."""
    assert codes(2048, f"{SECOND}\nLOAD\n{FILL_B}\n{ADD_S}") == ["PTO7104"]
    assert codes(2048, f"{SECOND}\nLOAD\n{ADD_S}\n{FILL_B}\nSTORE") == ["PTO7104"]
    assert codes(2048, f"{SECOND}\nLOAD\n{FILL_B}\n{ADD_B}\nLOAD\n{ADD_S}\nSTORE") == []
    assert codes(4096, f"{SECOND}\nLOAD\n{FILL_B}\n{ADD_S}\nSTORE") == []


def test_a_name_of_a_part_reads_what_another_tile_left_of_it():
    """%h is the first half of %a, %c a row in it: what was in %a there is lost for %h, too. Where
    %h is made of rows alone, or where the row is changed in place, it is meant."""
    half = TILE.replace("16x64", "8x64")
    row = TILE.replace("16x64", "1x64")
    assert half != TILE
    places = [("h", 0, half), *((f"c{n}r", n * 256, row) for n in range(8))]
    names = "\n".join(
        f"%z{name} = arith.constant {at} : i64\n%{name} = pto.alloc_tile addr = %z{name} : {type_}"
        for name, at, type_ in places
    )
    fill = [f"pto.texpands ins(%one : f32) outs(%c{n}r : {row})" for n in range(8)]
    use = f"pto.tneg ins(%h : {half}) outs(%h : {half})"
    change = f"pto.tneg ins(%c3r : {row}) outs(%c3r : {row})"
    assert codes(8192, f"{names}\nLOAD\n{fill[3]}\n{use}") == ["PTO7104"]
    assert codes(8192, f"{names}\nLOAD\n{change}\n{use}\nSTORE") == []
    assert codes(8192, "\n".join([names, "LOAD", *fill, use])) == []
    assert codes(8192, f"{names}\nLOAD\n{use}\nSTORE") == []


def test_a_loop_that_uses_shared_bytes_in_turn():
    body = f"scf.for %i = %c0 to %c2 step %c1 {{\nLOAD\nSTORE\n{FILL_B}\n{ADD_B}\n}}"
    assert codes(2048, body) == []


# -- inputs ------------------------------------------------------------------------------------------

INPUTS = """%zx = arith.constant 0 : i64
%zy = arith.constant AT : i64
pto.tassign %x, %zx : !pto.tile<16x64xf32>, i64
pto.tassign %y, %zy : !pto.tile<16x64xf32>, i64
%r = pto.tadd %x, %y : (!pto.tile<16x64xf32>, !pto.tile<16x64xf32>) -> !pto.tile<16x64xf32>
"""


def of_inputs(text: str) -> list[str]:
    loaded = ptosim.load(text, target="a5", level=3)
    given = {"x": X.reshape(16, 64), "y": X.reshape(16, 64)}
    return [d.code for d in loaded.run(given).findings if d.code.startswith("PTO71")]


@pytest.mark.parametrize(("at", "expected"), [(4096, []), (2048, ["PTO7104"]), (0, ["PTO7104"])])
def test_inputs_on_each_other(at, expected):
    """Both have values from the start, so the second one destroys the first."""
    assert of_inputs(INPUTS.replace("AT", str(at))) == expected


def test_a_tile_over_an_input():
    filled = INPUTS.replace("AT", "4096").replace(
        "%r =",
        "%zt = arith.constant 2048 : i64\n%one = arith.constant 1.0 : f32\n"
        f"%t = pto.alloc_tile addr = %zt : {TILE}\npto.texpands ins(%one : f32) outs(%t : {TILE})\n"
        "%r =",
    )
    assert of_inputs(filled) == ["PTO7104"] * 2  # a half of %x, and a half of %y


# -- pointers of a number ----------------------------------------------------------------------------


def by_pointers(second: int, *lines: str) -> list[str]:
    """%p at 0 is filled with 1024 bytes; %q at `second` is the program's other buffer."""
    places = pointers(p=("f32", "ub", 0), q=("f32", "ub", second))
    return micro_codes(*places, FILL, *flag("MTE2", "V"), *lines)


ONE = "%one = arith.constant 1.0 : f32"
FILL_Q = [ONE, *region(f"%x0 = pto.vbr %one : f32 -> {V}", store(0, 0))]
TAKE_P = [*flag("V", "MTE3"), TAKE.replace("%q", "%p")]


@pytest.mark.parametrize(("second", "expected"), [(1024, []), (512, ["PTO7104"]), (0, [])])
def test_buffers_of_pointers_on_each_other(second, expected):
    assert by_pointers(second, *FILL_Q, *TAKE_P) == expected


def test_a_pointer_into_a_buffer_is_a_name_of_it():
    """What is reached from %p by an offset belongs to %p."""
    inside = [f"%c = arith.constant 128 : index\n%i = pto.addptr %p, %c : {P} -> {P}", ONE]
    fill = region(f"%x0 = pto.vbr %one : f32 -> {V}", store(0, 0, "i"))
    assert by_pointers(4096, *inside, *fill, *TAKE_P) == []


def test_a_tile_over_a_buffer_of_a_pointer():
    tile = [
        ONE,
        f"%zt = arith.constant 512 : i64\n%t = pto.alloc_tile addr = %zt : {TILE}",
        f"pto.texpands ins(%one : f32) outs(%t : {TILE})",
    ]
    assert by_pointers(8192, *tile, *TAKE_P) == ["PTO7104"]


def test_a_buffer_of_a_pointer_over_a_tile():
    tile = "!pto.tile_buf<vec, 1x64xf32>"
    lines = [
        ONE,
        f"%zt = arith.constant 4096 : i64\n%t = pto.alloc_tile addr = %zt : {tile}",
        f"pto.texpands ins(%one : f32) outs(%t : {tile})",
        *FILL_Q[1:],
        f"pto.tadd ins(%t, %t : {tile}, {tile}) outs(%t : {tile})",
    ]
    assert by_pointers(4224, *lines) == ["PTO7104"]
    assert by_pointers(4096 + 256, *lines) == []


# -- what another buffer left ------------------------------------------------------------------------
#
# A content belongs to one allocation. The planner hands the bytes of a tile on when it is not used
# any more; the next one has no values by that. Of tiles at addresses of the program, two of the
# same bytes are names of one, and one that lies in another is a name of a part.

BIG = "f32", 128, 128
"""Three of them at once fill what the planner takes."""


def used_up(k: Kernel) -> None:
    tiles = [k.tile(f"x{n}", *BIG) for n in range(3)]
    for tile in tiles:
        k.load("src", tile)
    for tile in tiles:
        k.store(tile, "dst")


def reused(*uses: str, count: int = 1) -> ptosim.Result:
    """%x0, %x1 and %x2 are used and not needed any more; then `uses` of %y, which has the bytes
    of one of them."""
    k = Kernel("a5")
    used_up(k)
    y, z = k.tile("y", *BIG), k.tile("z", *BIG)
    k.line(f"scf.for %i = {k.const(0)} to {k.const(count)} step {k.const(1)} {{")
    for use in uses:
        if use == "fill":
            k.op("pto.texpands", [(k.arg("s", "f32"), "f32")], [y])
        else:
            k.op(use, [y], [z])
    k.line("}")
    k.store(z, "dst")
    given = {"src": np.ones(BIG[1:], np.float32), "dst": np.zeros(BIG[1:], np.float32)}
    return k.run({**given, "s": 2.0} if "fill" in uses else given)


@pytest.mark.parametrize("count", [1, 3])
def test_a_tile_that_has_the_bytes_of_another_one_has_not_its_values(count):
    result = reused("pto.tneg", count=count)
    (found,) = result.findings
    assert found.code == "PTO7108"
    steps = [(step["did"], step["name"]) for step in found.context["origin"]]
    (allocated, (did, other)) = steps
    assert (allocated, did) == (("allocated", "%y"), "reused")
    assert "'pto.tneg' reads %y" in found.message
    assert f"what {other} left there" in found.message
    assert other in ("%x0", "%x1", "%x2")
    assert found.context["outputs"][0]["output"] == "dst"
    assert not result.definedness["dst"].any()


def test_a_copy_of_what_another_one_left_is_told_where_it_is_used():
    (found,) = reused("pto.tmov").findings
    assert found.code == "PTO7108"
    assert "'pto.tstore' reads %z" in found.message
    assert "a copy of what %x" in found.message
    assert [s["did"] for s in found.context["origin"]] == ["allocated", "reused", "copied"]


def test_a_tile_that_is_filled_first_has_values():
    result = reused("fill", "pto.tneg", count=2)
    assert result.findings == []
    assert result.definedness["dst"].all()


def placed(*tiles: tuple[int, int], read: tuple[int, int]) -> list[str]:
    """Tiles of a row at addresses (and of so many f32) are filled, then another one is read."""
    k = Kernel("a5", level=3)
    made = [k.tile(f"t{n}", "f32", 1, size, addr=at) for n, (at, size) in enumerate(tiles)]
    other = k.tile("other", "f32", 1, read[1], addr=read[0])
    result = k.tile("result", "f32", 1, read[1], addr=65536)
    for tile in made:
        k.op("pto.texpands", [(k.arg("s", "f32"), "f32")], [tile])
    k.op("pto.tneg", [other], [result])
    k.store(result, "dst")
    found = k.run({"s": 2.0, "dst": np.zeros((1, read[1]), np.float32)})
    return [d.code for d in found.findings]


def test_tiles_at_addresses_are_names_of_bytes_they_have_in_common():
    assert placed((0, 64), read=(0, 64)) == [], "a second name"
    assert placed((0, 64), read=(128, 32)) == [], "a part"
    assert placed((0, 32), (128, 32), read=(0, 64)) == [], "put together of parts"


@pytest.mark.parametrize("at", [64, 192])
def test_tiles_at_addresses_that_overlap_in_part_are_no_names(at):
    """Whether the other bytes have values or not: one cause, one finding."""
    assert placed((0, 64), (256, 64), read=(at, 64)) == ["PTO7108"]
    (found,) = placed((0, 64), read=(at, 64))
    assert found in ("PTO7101", "PTO7108")


@pytest.mark.parametrize("filled", [True, False])
def test_a_vector_region_reads_what_a_tile_left(filled):
    """By the address of the tile, whose bytes a region may fill itself."""
    k = Kernel("a5")
    used_up(k)
    y = k.tile("y", *BIG)
    k.line(
        f"""pto.vecscope {{
    %p = pto.tile_buf_addr %y : {y.type} -> !pto.ptr<f32, ub>
    %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
    %v = pto.vbr {k.arg("s", "f32")} : f32 -> !pto.vreg<64xf32>
    {"pto.vsts %v, %p[%i], %m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>" if filled else ""}
    %r = pto.vlds %p[%i] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>
    pto.vsts %r, %p[%j], %m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>
    }}""".replace("%i", k.const(0)).replace("%j", k.const(64))
    )
    given = {"src": np.ones(BIG[1:], np.float32), "dst": np.zeros(BIG[1:], np.float32), "s": 2.0}
    found = [d.message for d in k.run(given).findings if d.code == "PTO7108"]
    assert len(found) == (not filled)
    assert all("'pto.vlds' reads %p" in message for message in found)


def test_a_pointer_that_a_loop_carries_keeps_its_buffer():
    """Also one that a store has moved on, and under a second pointer to the same address."""
    places = pointers(p=("f32", "ub", 0), q=("f32", "ub", 512), r=("f32", "ub", 0))
    consts = [
        "%c0 = arith.constant 0 : index", "%c1 = arith.constant 1 : index",
        "%c4 = arith.constant 4 : index", "%c64 = arith.constant 64 : index", ONE,
    ]  # fmt: skip
    fill = region(
        f"%x = pto.vbr %one : f32 -> {V}",
        f"%last = scf.for %i = %c0 to %c4 step %c1 iter_args(%at = %p) -> ({P}) {{",
        f"%next = pto.vsts %x, %at[%c64], %m : {V}, {P}, !pto.mask<b32> -> {P}",
        f"scf.yield %next : {P}", "}",
    )  # fmt: skip
    take = [*flag("V", "MTE3"), TAKE.replace("%q", "%r")]
    assert micro_codes(*places, *consts, *fill, *take) == []
    assert micro_codes(*places, *consts, *fill, *FILL_Q[1:], *take) == ["PTO7104"]
