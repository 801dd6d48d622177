"""bf16 to 4-bit floats obeys its rounding mode: the number on the grid below, above, toward zero,
or the nearest one with ties to even or away from zero. The page of `vcvt` has these five letters
for the pair (`RAFZC`), and a tile conversion is a loop of `vcvt`."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.ops.lower.program import expand
from tests.ops.conformance.data import arrays
from tests.support.text import Kernel

MODES = {"R": "RINT", "A": "ROUND", "F": "FLOOR", "C": "CEIL", "Z": "TRUNC"}
FORMS = {"e2m1": "f4E2M1FN", "e1m2": "f4E1M2FN"}
CASES = [(form, letter) for form in FORMS for letter in MODES]
PATTERNS = np.arange(0x10000, dtype=np.uint16)
ROWS, COLS = 64, 256
APRIL = "2026-04"  # which has tiles of single 4-bit floats


def program(form: str, mode: str) -> Kernel:
    k = Kernel("a5")
    a, b = k.tile("a", "bf16", ROWS, COLS), k.tile("b", FORMS[form], ROWS, COLS)
    k.load("x", a)
    k.op("pto.tcvt", [a], [b], f"rmode = #pto<round_mode {mode}>" if mode else "")
    k.store(b, "y")
    return k


def codes(text: str, patterns: np.ndarray) -> np.ndarray:
    """The codes of bf16 patterns by a program, one an entry."""
    prog, parts = ptosim.load(text, compat=APRIL), patterns.view(ml_dtypes.bfloat16)
    made = [
        prog.run({"x": part, "y": np.zeros(part.size, np.uint8)}).outputs["y"]
        for part in parts.reshape(-1, ROWS * COLS)
    ]
    return np.concatenate(made).view(np.uint8) & 15


def assert_codes(got: np.ndarray, form: str, letter: str) -> None:
    """The recorded codes; 255 there is a NaN, which has the code 7."""
    want = arrays("tcvt/bf16_to_fp4_modes.npz")[f"{form}_{letter}"]
    np.testing.assert_array_equal(got, np.where(want == 255, 7, want))


@pytest.mark.parametrize(("form", "letter"), CASES)
def test_every_pattern_by_every_mode(form, letter):
    assert_codes(codes(program(form, MODES[letter]).text(), PATTERNS), form, letter)


@pytest.mark.parametrize(("form", "letter"), CASES)
def test_written_out_as_vector_instructions(form, letter):
    made = expand(Source("tile.pto", program(form, MODES[letter]).text()), compat=APRIL)
    assert [s.name for s in made.stages] == ["pto.tcvt"]
    assert_codes(codes(made.text, PATTERNS), form, letter)


@pytest.mark.parametrize(("mode", "code"), [("FLOOR", 0), ("CEIL", 1), ("TRUNC", 0), ("", 1)])
def test_just_above_a_quarter(mode, code):
    """0x3E81 is 0.252, between 0 and 0.5: the mode decides, the nearest one where none is named."""
    x = np.full(ROWS * COLS, 0x3E81, np.uint16)
    assert set(codes(program("e2m1", mode).text(), x)) == {code}


def test_pairs_run_along_columns_of_tiles_laid_out_by_columns():
    """A pair counts as two numbers along rows there: 64x16 numbers are 32x16 pairs. Numbers that fp4
    holds come back as they were, each from its own place."""
    wide = "!pto.tile_buf<vec, 64x16xbf16, blayout=col_major>"
    pairs = "!pto.tile_buf<vec, 32x16x!pto.f4E2M1x2, blayout=col_major>"
    view, window = "!pto.tensor_view<64x16xbf16>", "!pto.partition_tensor_view<64x16xbf16>"
    views = "".join(
        f"""
    %v{n} = pto.make_tensor_view %{n}, shape = [%c64, %c16], strides = [%c1, %c64] {{layout = #pto.layout<dn>}} : {view}
    %w{n} = pto.partition_view %v{n}, offsets = [%c0, %c0], sizes = [%c64, %c16] : {view} -> {window}"""
        for n in "xy"
    )
    text = f"""module {{
  func.func @k(%x: !pto.ptr<bf16>, %y: !pto.ptr<bf16>) attributes {{pto.entry}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index{views}
    %a = pto.alloc_tile : {wide}
    %b = pto.alloc_tile : {pairs}
    %c = pto.alloc_tile : {wide}
    pto.tload ins(%wx : {window}) outs(%a : {wide})
    pto.tcvt ins(%a : {wide}) outs(%b : {pairs})
    pto.tcvt ins(%b : {pairs}) outs(%c : {wide})
    pto.tstore ins(%c : {wide}) outs(%wy : {window})
    return
  }}
}}"""
    held = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -1, -1.5, -2, -3, -4, -6])
    given = np.random.default_rng(7).choice(held, 1024).astype(ml_dtypes.bfloat16)
    zeros = np.zeros(1024, ml_dtypes.bfloat16)
    result = ptosim.load(text, target="a5").run({"x": given, "y": zeros})
    assert result.outputs["y"].ravel().tolist() == given.tolist()
