"""Helpers of tile operations (`attributes {pto.tileop.helper}`): what they must not be or hold."""

from __future__ import annotations

import pytest

import ptosim

TILE = "!pto.tile_buf<vec, 8x64xf32>"
HELPER = """func.func private @h(%t: {argument}){results} attributes {{pto.tileop.helper}} {{
  %c = arith.constant 1 : i32
  {compute}
  {body}
  return {value}
}}
func.func private @other(%t: {tile}) attributes {{pto.tileop.helper}} {{
  %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
  return
}}
func.func @k() {{ return }}"""
COMPUTE = 'pto.vecscope {\n  %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>\n}'
MOVE = "pto.mte_gm_ub %g, %u, %l, %l nburst(%l, %l, %l) : !pto.ptr<f32, gm>, !pto.ptr<f32, ub>, i64, i64, i64, i64, i64"
PLACES = """%l = arith.constant 0 : i64
%g = pto.castptr %l : i64 -> !pto.ptr<f32, gm>
%u = pto.castptr %l : i64 -> !pto.ptr<f32, ub>
"""
PRODUCT = """%l = arith.constant 16 : i64
%a = pto.castptr %l : i64 -> !pto.ptr<f16, left>
%b = pto.castptr %l : i64 -> !pto.ptr<f16, right>
%d = pto.castptr %l : i64 -> !pto.ptr<f32, acc>
pto.mad %a, %b, %d, %l, %l, %l : !pto.ptr<f16, left>, !pto.ptr<f16, right>, !pto.ptr<f32, acc>, i64, i64, i64"""


def messages(compat: str = "2026-08", **parts: str) -> list[str]:
    given = {
        "argument": TILE,
        "results": "",
        "body": "",
        "value": "",
        "tile": TILE,
        "compute": COMPUTE,
    } | parts
    found = ptosim.check(HELPER.format(**given), target="a5", compat=compat)
    return [d.message for d in found if d.is_rejection]


WRONG = [
    ("tileop helpers must not return values", {"results": " -> i32", "value": "%c : i32"}),
    ("tileop argument #0 must be !pto.tile_buf or a PTO scalar", {"argument": "!pto.ptr<f32, gm>"}),
    ("must not contain pipe synchronization", {"body": "pto.barrier <PIPE_ALL>"}),
    ("must not contain pre-existing sections", {"body": "pto.section.vector { }"}),
    ("must not contain Tile allocation", {"body": f"%n = pto.alloc_tile : {TILE}"}),
    (
        "Tile allocation or high-level TileOps",
        {"body": f"pto.tadd ins(%t, %t : {TILE}, {TILE}) outs(%t : {TILE})"},
    ),
    ("must not contain MTE data movement", {"body": PLACES + MOVE}),
    ("mixes Vector and Cube compute operations", {"body": PRODUCT}),
    ("tileop helpers must launch a @pto.simt helper", {"body": "%x = pto.get_tid_x : i32"}),
    ("contains no Vector or Cube compute operation", {"compute": ""}),
    ("must not call another helper", {"body": f"func.call @other(%t) : ({TILE}) -> ()"}),
]


def test_a_helper_takes_tiles_and_scalars():
    assert messages() == []
    assert messages(argument="f32") == []


@pytest.mark.parametrize(("words", "parts"), WRONG, ids=[words for words, _ in WRONG])
def test_what_a_helper_must_not_have(words: str, parts: dict[str, str]):
    assert any(words in message for message in messages(**parts))
    assert not any("helper" in message for message in messages("2026-04", **parts))


def test_addresses_and_extents_of_its_tiles():
    body = f"%q = pto.tile_buf_addr %t : {TILE} -> !pto.ptr<f32, ub>\n%r = pto.tile_valid_rows %t : {TILE} -> index"
    assert messages(body=body) == []
    other = f"%x = builtin.unrealized_conversion_cast %t : {TILE} to {TILE}\n%r = pto.tile_valid_cols %x : {TILE} -> index"
    assert any("to be an argument of the tileop helper" in m for m in messages(body=other))


def test_a_helper_of_the_cube():
    assert messages(compute=PRODUCT) == []


def test_a_launch_is_vector_compute():
    launch = "%n = arith.constant 32 : i32\npto.simt_launch @threads<<<%n, %n, %n>>>() : () -> ()"
    threads = "func.func @threads() attributes {pto.simt_entry} { return }\n"
    text = threads + HELPER.format(
        argument=TILE,
        results="",
        body="",
        value="",
        tile=TILE,
        compute=launch.replace("%n, %n, %n", "%n, %c, %c"),
    )
    found = ptosim.check(text, target="a5")
    assert [d.message for d in found if d.is_rejection] == []
