"""Helpers of tile operations (`attributes {pto.tileop.helper}`): what they must not be or hold."""

from __future__ import annotations

import pytest

import ptosim

TILE = "!pto.tile_buf<vec, 8x64xf32>"
HELPER = """func.func private @h(%t: {argument}){results} attributes {{pto.tileop.helper}} {{
  %c = arith.constant 1 : i32
  {body}
  return {value}
}}
func.func private @other(%t: {tile}) attributes {{pto.tileop.helper}} {{ return }}
func.func @k() {{ return }}"""


def messages(compat: str = "2026-08", **parts: str) -> list[str]:
    given = {"argument": TILE, "results": "", "body": "", "value": "", "tile": TILE} | parts
    found = ptosim.check(HELPER.format(**given), target="a5", compat=compat)
    return [d.message for d in found if d.is_rejection]


WRONG = [
    ("tileop helpers must not return values", {"results": " -> i32", "value": "%c : i32"}),
    ("tileop argument #0 must be !pto.tile_buf or a PTO scalar", {"argument": "!pto.ptr<f32, gm>"}),
    ("must not contain pipe synchronization", {"body": "pto.barrier <PIPE_ALL>"}),
    ("must not contain pre-existing sections", {"body": "pto.section.vector { }"}),
    ("must not contain Tile allocation", {"body": f"%n = pto.alloc_tile : {TILE}"}),
    ("must not call another helper", {"body": f"func.call @other(%t) : ({TILE}) -> ()"}),
]


def test_a_helper_takes_tiles_and_scalars():
    assert messages() == []
    assert messages(argument="f32") == []


@pytest.mark.parametrize(("words", "parts"), WRONG, ids=[words for words, _ in WRONG])
def test_what_a_helper_must_not_have(words: str, parts: dict[str, str]):
    assert any(words in message for message in messages(**parts))
    assert not any("helper" in message for message in messages("2026-04", **parts))
