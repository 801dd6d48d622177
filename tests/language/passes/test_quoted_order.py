"""The quoted form of an operation: operands in the order of its definition, which is not inputs
before outputs, with a number in `operandSegmentSizes` for each name; words are attributes.

The orders are those of the operation definitions of the public assembler: tstore and tmov (src,
dst, fp?, preQuantScalar?), textract and tinsert (src, row, col, dst, fp?, preQuantScalar?), tload
(src, dst, pad_value?, left_padding_num?, right_padding_num?, init_condition?), tgather (src, dst,
cdst?, indices?, tmp?, kValue?), tmrgsort (srcs*, blockLen?, dsts*, tmp?, excuted?), tquant (src, fp,
offset?, tmp?, dst), alloc_tile (addr?, valid_row?, valid_col?)."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.ir.core import Operation
from ptosim.ground.source import Source
from ptosim.language.bind.resolve import resolve
from ptosim.language.syntax.parser import parse

T = "!pto.tile_buf<vec, 16x64xf32>"
I = "!pto.tile_buf<vec, 16x64xi32>"
L = "!pto.tile_buf<mat, 16x64xf32, blayout=col_major, slayout=row_major>"
V = "!pto.partition_tensor_view<16x64xf32>"
FRAME = """
func.func @f(%p: !pto.ptr<f32>, %r: index, %c: index, %s: f32, %k: i32) {{
  %v = pto.make_tensor_view %p, shape = [%r, %c], strides = [%c, %r] : !pto.tensor_view<?x?xf32>
  %part = pto.partition_view %v, offsets = [%r, %c], sizes = [%r, %c] : !pto.tensor_view<?x?xf32> -> {V}
  %a = pto.alloc_tile : {T}
  %b = pto.alloc_tile : {T}
  %i = pto.alloc_tile : {I}
  %t = pto.alloc_tile : {T}
  %l = pto.alloc_tile : {L}
  {body}
  return
}}
"""


def bound(body: str, name: str) -> dict[str, str]:
    """Resolve a body for A5; return the value of each operand of the last operation of a name."""
    sink = Sink()
    text = FRAME.format(body=body, T=T, I=I, V=V, L=L)
    resolved = resolve(parse(Source("test.pto", text), sink), "a5", sink, date="2026-08")
    assert [d.message for d in sink] == []
    op: Operation = [op for op in resolved.module.walk() if op.name == name][-1]
    return {n: o.value.name for n, o in op.operands() if o.value is not None}


@pytest.mark.parametrize(
    ("name", "body", "operands"),
    [
        ("tload", f'"pto.tload"(%part, %a) : ({V}, {T}) -> ()', "src=part dst=a"),
        (
            "tload",
            f'"pto.tload"(%part, %a, %s, %r) <{{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>, '
            f"pad_mode = #pto.padmode<PadValue>}}> : ({V}, {T}, f32, index) -> ()",
            "src=part dst=a pad_value=s left_padding_num=r",
        ),
        ("tstore", f'"pto.tstore"(%a, %part) : ({T}, {V}) -> ()', "src=a dst=part"),
        (
            "textract",
            f'"pto.textract"(%l, %r, %c, %a) <{{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>}}> '
            f": ({L}, index, index, {T}) -> ()",
            "src=l row=r col=c dst=a",
        ),
        (
            "tgather",
            f'"pto.tgather"(%a, %b, %i, %t) <{{operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 0>}}> '
            f": ({T}, {T}, {I}, {T}) -> ()",
            "src=a dst=b indices=i tmp=t",
        ),
        (
            "tmrgsort",
            f'"pto.tmrgsort"(%a, %k, %b) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}}> '
            f": ({T}, i32, {T}) -> ()",
            "src=a blockLen=k dst=b",
        ),
        (
            "alloc_tile",
            f'%x = "pto.alloc_tile"() <{{operandSegmentSizes = array<i32: 0, 0, 0>}}> : () -> {T}',
            "",
        ),
    ],
)
def test_operands_are_in_the_order_of_the_definition(name, body, operands):
    assert bound(body, f"pto.{name}") == dict(word.split("=") for word in operands.split())


def test_segments_that_do_not_fit_are_refused():
    for sizes in ("1, 1", "1, 0, 1, 0", "1, 1, 1, 0"):
        sink = Sink()
        text = FRAME.format(
            body=f'"pto.tstore"(%a, %part) <{{operandSegmentSizes = array<i32: {sizes}>}}> '
            f": ({T}, {V}) -> ()",
            T=T, I=I, V=V, L=L,
        )  # fmt: skip
        resolve(parse(Source("test.pto", text), sink), "a5", sink, date="2026-08")
        assert [d.code for d in sink] == ["PTO2001"]


def test_an_unknown_operation_in_the_quoted_form():
    """The assembler says "unregistered operation '…' found in dialect ('pto')"."""
    sink = Sink()
    text = FRAME.format(body='"pto.nothing"() : () -> ()', T=T, I=I, V=V, L=L)
    resolve(parse(Source("test.pto", text), sink), "a5", sink, date="2026-08")
    (found,) = sink
    assert found.message == "unregistered operation 'pto.nothing' found in dialect ('pto')"


@pytest.mark.parametrize("compat", ["2026-04", "2026-08"])
def test_a_quoted_move_names_its_four_groups(compat):
    """Source, destination, table, scale: April's texts say which of them there are, too."""
    acc = "!pto.tile_buf<acc, 16x64xf32>"
    mat = "!pto.tile_buf<mat, 16x64xf16, blayout=col_major, slayout=row_major, fractal=512>"
    text = f"""module attributes {{pto.target_arch = "a3"}} {{
  func.func @k(%x: {acc}, %d: {mat}, %q: i64) {{
    "pto.tmov"(%x, %d, %q) {{operandSegmentSizes = array<i32: SIZES>}} : ({acc}, {mat}, i64) -> ()
    return
  }}
}}"""
    for sizes, accepted in (("1, 1, 0, 1", True), ("1, 0, 1, 1", False)):
        found = ptosim.check(text.replace("SIZES", sizes), compat=compat, dry_run=False)
        assert any(d.is_error for d in found) is not accepted
