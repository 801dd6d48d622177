"""What operations touch of their operands, as far as findings about undefined bytes show it."""

from __future__ import annotations

import ptosim

L = "!pto.tile_buf<left, 16x16xf16, blayout=col_major, slayout=row_major, valid=5x16>"
R = "!pto.tile_buf<right, 16x16xf16, blayout=row_major, slayout=col_major>"
A = "!pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>"
PART = A.replace("fractal=1024", "fractal=1024, valid=5x16")
T = "!pto.tile_buf<vec, 16x64xf32>"


def undefined(body: str, attributes: str = "") -> list[str]:
    text = f"func.func @k() {attributes} {{\n{body}\n  return\n}}"
    found = ptosim.load(text, target="a5").run({}).findings
    return [d.message for d in found if d.code == "PTO7101"]


def test_a_product_onto_an_accumulator_reads_its_own_rows():
    """Five rows are written and added to; the others are nobody's."""
    found = undefined(
        f"""  %l = pto.alloc_tile : {L}
  %r = pto.alloc_tile : {R}
  %a = pto.alloc_tile : {A}
  %p = pto.treshape %a : {A} -> {PART}
  pto.tmatmul ins(%l, %r : {L}, {R}) outs(%p : {PART})
  pto.tmatmul.acc ins(%a, %l, %r : {A}, {L}, {R}) outs(%a : {A})""",
        "attributes {pto.kernel_kind = #pto.kernel_kind<cube>}",
    )
    assert not [m for m in found if "reads %a" in m]
    assert [m for m in found if "reads %l" in m]


def test_one_element_is_written_and_nothing_is_read():
    found = undefined(
        f"""  %c = arith.constant 3 : index
  %v = arith.constant 1.0 : f32
  %a = pto.alloc_tile : {T}
  %b = pto.alloc_tile : {T}
  pto.tsetval ins(%c, %v : index, f32) outs(%a : {T})
  pto.tabs ins(%a : {T}) outs(%b : {T})"""
    )
    assert len(found) == 1
    assert "'pto.tabs' reads %a" in found[0]
