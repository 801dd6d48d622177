"""A tile that is read after another one was written over a part of it (PTO7104)."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.cli.programs import TILE
from tests.semantics.test_sync import X, program


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


def test_a_loop_that_uses_shared_bytes_in_turn():
    body = f"scf.for %i = %c0 to %c2 step %c1 {{\nLOAD\nSTORE\n{FILL_B}\n{ADD_B}\n}}"
    assert codes(2048, body) == []
