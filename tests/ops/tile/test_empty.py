"""Valid regions that are empty in a run: an empty destination means that nothing happens; what an
empty source means beside a destination that is not is a fault, a copy of the other source, or the pad
value, by family."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.harness import Case, Operand, Scalar, Spec, mixture

TARGETS = ["a2a3", "a5"]


def tile(seed: int, valid: tuple[int, int], *, cols: int = 16, **keys) -> Spec:
    return Spec("f32", 4, cols, valid, values=mixture("f32", 4 * cols, seed), dynamic=True, **keys)


def fault(case: Case) -> str | None:
    try:
        case.run()
    except ptosim.Trap as trap:
        return trap.diagnostics[-1].code
    return None


ELEMENTWISE = {
    "tadd": ("src0", "src1"), "tmax": ("src0", "src1"), "texp": ("src",), "tadds": ("src",),
    "tcvt": ("src",),
}  # fmt: skip


@pytest.mark.parametrize("empty", [(0, 16), (4, 0)])
@pytest.mark.parametrize("op", ELEMENTWISE)
@pytest.mark.parametrize("target", TARGETS)
def test_an_empty_source_of_one_that_needs_equal_shapes_stops_the_run(target, op, empty):
    operands: dict[str, Operand] = {n: tile(i, (4, 16)) for i, n in enumerate(ELEMENTWISE[op])}
    operands[ELEMENTWISE[op][-1]] = tile(9, empty)
    if op == "tadds":
        operands["scalar"] = Scalar("f32", 2.0)
    operands["dst"] = tile(5, (4, 16))
    assert fault(Case(op, target, operands)) == "PTO6080"
    nothing = {
        n: tile(i, empty) if isinstance(o, Spec) else o for i, (n, o) in enumerate(operands.items())
    }
    assert fault(Case(op, target, nothing)) is None


@pytest.mark.parametrize("empty", [(0, 16), (4, 0)])
@pytest.mark.parametrize("op", ["trowsum", "trowmax", "tcolmax", "tcolprod"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_reduction_of_nothing_stops_the_run_unless_dst_is_empty(target, op, empty):
    out = (1, 16) if op.startswith("tcol") else (4, 1)
    made = {"src": tile(1, empty), "dst": tile(2, out)}
    if op.startswith("trow"):
        made["tmp"] = Spec("f32", 4, 16)
    assert fault(Case(op, target, made)) == "PTO6080"
    result = Case(op, target, {**made, "dst": tile(2, (0, 0))}).run()
    np.testing.assert_array_equal(
        result.outputs["dst_after"], mixture("f32", 64, 2).astype(np.float32)
    )


@pytest.mark.parametrize("target", TARGETS)
def test_column_sums_of_nothing_write_nothing(target):
    result = Case("tcolsum", target, {"src": tile(1, (0, 16)), "dst": tile(2, (1, 16))}).run()
    np.testing.assert_array_equal(
        result.outputs["dst_after"], mixture("f32", 64, 2).astype(np.float32)
    )


@pytest.mark.parametrize("empty", [(0, 9), (3, 0), (0, 0)])
@pytest.mark.parametrize("target", TARGETS)
def test_the_padding_of_an_empty_source_is_all_of_the_destination(target, empty):
    """Up to the physical columns of the rows involved: on A5 the valid ones."""
    operands = {"src": tile(1, empty), "dst": tile(2, (3, 12), pad=1)}
    got = Case("tfillpad", target, operands).run().outputs["dst_after"].reshape(4, 16)
    rows = 3 if target == "a5" else 4
    np.testing.assert_array_equal(got[:rows], np.zeros((rows, 16), np.float32))


def test_a_histogram_of_nothing_counts_nothing():
    operands = {
        "src": Spec("ui16", 4, 64, (4, 0), dynamic=True),
        "idx": Spec("ui8", 32, 1, layout="dn"),
        "dst": Spec("ui32", 4, 264, (4, 256), values=np.arange(4 * 264)),
    }
    got = Case("thistogram", "a5", operands).run().outputs["dst_after"].reshape(4, 264)
    assert not got[:, :256].any()
    assert (got[:, 256:] == np.arange(4 * 264).reshape(4, 264)[:, 256:]).all()


@pytest.mark.parametrize(("m", "k", "n"), [(0, 16, 16), (16, 16, 0), (16, 0, 16)])
@pytest.mark.parametrize("target", TARGETS)
def test_products_of_nothing(target, m, k, n):
    """No rows or columns: nothing is written. No products: the sum of none is 0."""
    layout = (
        "blayout=row_major, slayout=row_major"
        if target == "a2a3"
        else "blayout=col_major, slayout=row_major"
    )
    text = f"""func.func @k(%p: !pto.ptr<f16>, %y: !pto.ptr<f32>) attributes {{pto.kernel_kind = #pto.kernel_kind<cube>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %v = pto.make_tensor_view %p, shape = [%c16, %c16], strides = [%c16, %c1] : !pto.tensor_view<?x?xf16>
  %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c16] : !pto.tensor_view<?x?xf16> -> !pto.partition_tensor_view<16x16xf16>
  %u = pto.make_tensor_view %y, shape = [%c16, %c16], strides = [%c16, %c1] : !pto.tensor_view<?x?xf32>
  %o = pto.partition_view %u, offsets = [%c0, %c0], sizes = [%c16, %c16] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<16x16xf32>
  %m = pto.alloc_tile : !pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>
  %l = pto.alloc_tile : !pto.tile_buf<left, 16x16xf16, {layout}>
  %r = pto.alloc_tile : !pto.tile_buf<right, 16x16xf16, blayout=row_major, slayout=col_major>
  %a = pto.alloc_tile : !pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>
  pto.tload ins(%w : !pto.partition_tensor_view<16x16xf16>) outs(%m : !pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>)
  pto.tmov ins(%m : !pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>) outs(%l : !pto.tile_buf<left, 16x16xf16, {layout}>)
  pto.tmov ins(%m : !pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>) outs(%r : !pto.tile_buf<right, 16x16xf16, blayout=row_major, slayout=col_major>)
  pto.tmatmul ins(%l, %r : !pto.tile_buf<left, 16x16xf16, {layout}>, !pto.tile_buf<right, 16x16xf16, blayout=row_major, slayout=col_major>) outs(%a : !pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>)
  %le = pto.treshape %l : !pto.tile_buf<left, 16x16xf16, {layout}> -> !pto.tile_buf<left, 16x16xf16, {layout}, valid={m}x{k}>
  %re = pto.treshape %r : !pto.tile_buf<right, 16x16xf16, blayout=row_major, slayout=col_major> -> !pto.tile_buf<right, 16x16xf16, blayout=row_major, slayout=col_major, valid={k}x{n}>
  pto.tmatmul ins(%le, %re : !pto.tile_buf<left, 16x16xf16, {layout}, valid={m}x{k}>, !pto.tile_buf<right, 16x16xf16, blayout=row_major, slayout=col_major, valid={k}x{n}>) outs(%a : !pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>)
  pto.tstore ins(%a : !pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>) outs(%o : !pto.partition_tensor_view<16x16xf32>)
  return
}}"""
    x = np.eye(16, dtype=np.float16) * 3
    got = (
        ptosim.load(text, target=target)
        .run({"p": x, "y": np.zeros((16, 16), np.float32)})
        .outputs["y"]
    )
    want = np.zeros((16, 16)) if k == 0 else np.eye(16) * 9
    np.testing.assert_array_equal(got.reshape(16, 16), want)
