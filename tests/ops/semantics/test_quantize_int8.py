"""INT8 TQUANT: which parameter meets which element, what remains in other bytes, operands and switches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.helpers import Image, codes
from tests.oracle import groups
from tests.oracle import numerics as oracle
from tests.oracle.quantisation import clobbered_source, int8_stages
from tests.support.text import Kernel

SYM = "quant_type = #pto<quant_type INT8_SYM>"
ASYM = "quant_type = #pto<quant_type INT8_ASYM>"
RNG = np.random.default_rng(9)


def kernel(
    target: str,
    shape: tuple[int, int],
    parameter: tuple[int, int, str],
    *,
    valid: tuple[int, int] | None = None,
    tmp: bool = False,
    asym: bool = False,
    **options: Any,
) -> Kernel:
    """Load source and parameters whole, quantise the valid part, store what was quantised."""
    rows, cols, layout = parameter
    by_columns = target == "a2a3" and (layout == "nd" or rows != (valid or shape)[0])
    if by_columns or shape[1] % 32 or (layout == "nd" and cols % 8):
        options = {"compat": "2026-04", **options}  # August: a column, whole blocks
    k = Kernel(target, **options)
    src = k.tile("src", "f32", *shape, valid)
    tiles = [src]
    k.load("x", src)
    for name in ["scale", "offset"][: 2 if asym else 1]:
        tile = k.tile(f"{name}_tile", "f32", rows, cols, layout=layout)
        k.load(name, tile)
        tiles.append(tile)
    dst = k.tile("dst", "ui8" if asym else "i8", *shape, valid)
    outs = [dst, k.tile("tmp", "f32", *shape)] if tmp else [dst]
    k.op("pto.tquant", tiles, outs, ASYM if asym else SYM)
    k.store(dst, "y")
    return k


def run(k: Kernel, x: np.ndarray, scale: np.ndarray, offset: np.ndarray | None = None, **options):
    y = np.zeros(x.shape, np.int8 if offset is None else np.uint8)
    args = {"x": x, "scale": scale, "y": y} | ({} if offset is None else {"offset": offset})
    result = k.run(args, **options)
    return result.outputs["y"], codes(result)


def expected(x: np.ndarray, scale: np.ndarray, offset: np.ndarray | None = None) -> np.ndarray:
    """One element at a time, in exact arithmetic; parameters broadcast to the elements."""
    scale = np.broadcast_to(scale, x.shape)
    shift = None if offset is None else np.broadcast_to(offset, x.shape)
    out = np.zeros(x.shape, np.int64)
    for at in np.ndindex(x.shape):
        value = oracle.decode(int(x[at].view(np.uint32)), "f32")
        z = None if shift is None else oracle.Fraction(float(shift[at]))
        out[at] = groups.int8_code(value, oracle.Fraction(float(scale[at])), z)
    return out


def source(shape: tuple[int, int]) -> np.ndarray:
    x = (RNG.standard_normal(shape) * 60).astype(np.float32)
    x.reshape(-1)[:12] = [
        0.5, 1.5, -2.5, 127.5, -128.5, 300, -300, 1e30, -1e30, np.inf, -np.inf, np.nan,
    ]  # fmt: skip
    return x


# -- parameters -----------------------------------------------------------------------------------

# target, parameter tile (rows, cols, layout), scratch -> flat index of the scale of element (r, c)
ADDRESSES = [
    ("a5", (16, 1, "dn"), False, lambda r, c: r),
    ("a5", (16, 8, "nd"), False, lambda r, c: r),
    ("a5", (2, 8, "nd"), False, lambda r, c: r),
    ("a2a3", (16, 1, "dn"), False, lambda r, c: r),
    ("a2a3", (16, 1, "dn"), True, lambda r, c: r),
    ("a2a3", (16, 8, "nd"), False, lambda r, c: 8 * r + c % 8),
    ("a2a3", (4, 32, "nd"), False, lambda r, c: 8 * r + c % 8),
    ("a2a3", (32, 32, "nd"), False, lambda r, c: 8 * r + c % 8),
]


@pytest.mark.parametrize("asym", [False, True])
@pytest.mark.parametrize(("target", "parameter", "tmp", "index"), ADDRESSES)
def test_parameters_are_read_from_flat_memory(target, parameter, tmp, index, asym):
    rows, cols, layout = parameter
    flat = np.exp2(RNG.integers(-6, 2, rows * cols)).astype(np.float32)
    shift = RNG.integers(0, 200, rows * cols).astype(np.float32) + np.float32(0.25)
    x = source((16, 24))
    places = np.array([[index(r, c) for c in range(24)] for r in range(16)])
    k = kernel(target, (16, 24), parameter, tmp=tmp, asym=asym)
    got, findings = run(k, x, flat, shift if asym else None)
    want = expected(x, flat[places], shift[places] if asym else None)
    np.testing.assert_array_equal(got, want)
    by_lane = target == "a2a3" and layout == "nd"
    assert set(findings) - {"PTO2044"} == ({"PTO7001"} if by_lane else set())


def test_blocks_of_copies_do_not_warn():
    scale = np.repeat(np.exp2(RNG.integers(-6, 2, 16)).astype(np.float32), 8)
    x = source((16, 32))
    got, findings = run(kernel("a2a3", (16, 32), (16, 8, "nd")), x, scale)
    np.testing.assert_array_equal(got, expected(x, scale[::8, None]))
    assert not findings


@pytest.mark.parametrize(
    ("target", "parameter"), [("a5", (8, 1, "dn")), ("a2a3", (8, 8, "nd")), ("a2a3", (8, 1, "dn"))]
)
def test_a_parameter_tile_that_is_too_small(target, parameter):
    k = kernel(target, (16, 32), parameter)
    with pytest.raises(ptosim.ProgramError, match="scale tile to hold"):
        k.program()


def test_a_parameter_tile_that_is_too_small_at_run_time():
    k = Kernel("a5")
    rows = k.arg("rows", "index")
    src = k.dynamic("src", "f32", 16, 32, (rows, k.const(32)))
    dst = k.dynamic("dst", "i8", 16, 32, (rows, k.const(32)))
    k.op("pto.tquant", [src, k.tile("scale", "f32", 8, 1, layout="dn")], [dst], SYM)
    assert not codes(k.run({"rows": 8}))
    with pytest.raises(ptosim.Trap, match="fp has 8 f32, 9 are read"):
        k.run({"rows": 9})


@pytest.mark.parametrize("target", ["a5", "a2a3"])
@pytest.mark.parametrize("parameter", [(8, 1, "dn"), (8, 8, "nd")])
def test_parameters_that_change_in_a_loop(target, parameter):
    """The tiles keep their places; their content is read anew each time."""
    rows, cols, layout = parameter
    k = Kernel(target, compat="2026-04" if layout == "nd" else "2026-08")
    src, dst = k.tile("src", "f32", 8, 32), k.tile("dst", "i8", 8, 32)
    scale = k.tile("scale_tile", "f32", rows, cols, layout=layout)
    c0, c1, c3 = (k.const(n) for n in (0, 1, 3))
    k.line(f"scf.for %i = {c0} to {c3} step {c1} {{")
    k.load("x", src)
    size = rows * cols
    whole, part = f"!pto.tensor_view<3x{size}xf32>", f"!pto.partition_tensor_view<1x{size}xf32>"
    pointer = k.arg("scale", "!pto.ptr<f32>")
    flat = k.alias("pto.treshape", "flat", scale, rows=1, cols=size, blayout="row_major")
    k.line(
        f"%v = pto.make_tensor_view {pointer}, shape = [{c3}, {k.const(size)}], "
        f"strides = [{k.const(size)}, {c1}] : {whole}"
    )
    k.line(
        f"%p = pto.partition_view %v, offsets = [%i, {c0}], sizes = [{c1}, {k.const(size)}] "
        f": {whole} -> {part}"
    )
    k.op("pto.tload", [("%p", part)], [flat])
    k.op("pto.tquant", [src, scale], [dst], SYM)
    out = k.arg("y", "!pto.ptr<i8>")
    whole, part = "!pto.tensor_view<24x32xi8>", "!pto.partition_tensor_view<8x32xi8>"
    k.line(f"%row = arith.muli %i, {k.const(8)} : index")
    k.line(
        f"%w = pto.make_tensor_view {out}, shape = [{k.const(24)}, {k.const(32)}], "
        f"strides = [{k.const(32)}, {c1}] : {whole}"
    )
    k.line(
        f"%q = pto.partition_view %w, offsets = [%row, {c0}], "
        f"sizes = [{k.const(8)}, {k.const(32)}] : {whole} -> {part}"
    )
    k.op("pto.tstore", [dst], [("%q", part)])
    k.line("}")
    x = np.full((8, 32), 3, np.float32)
    scales = np.repeat(np.array([[1], [2], [5]], np.float32), size, axis=1)
    got = k.run({"x": x, "scale": scales, "y": np.zeros((24, 32), np.int8)}).outputs["y"]
    np.testing.assert_array_equal(got.reshape(3, -1), np.full((3, 256), [[3], [6], [15]]))


# -- what remains in other bytes --------------------------------------------------------------------------


@pytest.mark.parametrize("asym", [False, True])
@pytest.mark.parametrize(
    ("shape", "valid"), [((8, 64), (8, 64)), ((8, 64), (5, 37)), ((4, 40), (4, 40))]
)
def test_a2a3_overwrites_source_and_scratch(shape, valid, asym):
    rows, cols = shape
    size = rows * cols * 4
    k = Kernel("a2a3", compat="2026-04")
    src = k.tile("src", "f32", rows, cols, valid, addr=0)
    dst = k.tile("dst", "ui8" if asym else "i8", rows, 64, valid, addr=2 * size)
    if cols != 64:
        dst = k.tile("narrow", "ui8" if asym else "i8", rows, 64, valid, addr=2 * size)
    images = [Image(k, size, 0, "src_image"), Image(k, size, size, "tmp_image")]
    tmp = k.tile("tmp", "f32", rows, cols, valid, addr=size)
    k.load("x", k.tile("whole", "f32", *shape, addr=0))
    parameters = []
    for i, name in enumerate(["scale", "offset"][: 2 if asym else 1]):
        at = 3 * size + i * 64
        parameters.append(k.tile(f"{name}_tile", "f32", 8, 1, layout="dn", addr=at))
        k.load(name, parameters[-1])
    k.op("pto.tquant", [src, *parameters], [dst, tmp], ASYM if asym else SYM)
    for image in images:
        image.read()
    x = np.nan_to_num(source(shape), posinf=50000, neginf=-50000)
    scale = np.exp2(RNG.integers(-2, 6, 8)).astype(np.float32)
    shift = np.arange(8, dtype=np.float32) * 9 + np.float32(0.5)
    args = {"x": x, "scale": scale} | ({"offset": shift} if asym else {})
    result = k.run(args | images[0].args | images[1].args)
    v_rows, v_cols = valid
    products, integers, half = int8_stages(
        x[:v_rows, :v_cols], scale[:v_rows], shift[:v_rows] if asym else None
    )
    np.testing.assert_array_equal(
        images[0].of(result), clobbered_source(products, half, x.view(np.uint32), cols)
    )
    got = images[1].of(result, np.int32).reshape(shape)
    np.testing.assert_array_equal(got[:v_rows, :v_cols], integers)


@pytest.mark.parametrize("aliased", [False, True])
def test_a5_keeps_its_source_unless_it_is_the_destination(aliased):
    k = Kernel("a5")
    src = k.tile("src", "f32", 8, 64, addr=0)
    dst = k.tile("dst", "i8", 8, 64, addr=0 if aliased else 4096)
    scale = k.tile("scale_tile", "f32", 8, 1, layout="dn", addr=8192)
    k.load("x", src)
    k.load("scale", scale)
    k.op("pto.tquant", [src, scale], [dst], SYM)
    k.store(dst, "y")
    k.store(src, "after")
    x, scales = source((8, 64)), np.linspace(0.25, 2, 8, dtype=np.float32)
    args = {"x": x, "scale": scales, "y": np.zeros((8, 64), np.int8), "after": np.zeros_like(x)}
    outputs = k.run(args).outputs
    want = expected(x, scales[:, None]).astype(np.int8)
    np.testing.assert_array_equal(outputs["y"], want)
    after = x.view(np.uint8).reshape(-1).copy()
    if aliased:
        after[:512] = want.view(np.uint8).reshape(-1)
    np.testing.assert_array_equal(outputs["after"].view(np.uint8).reshape(-1), after)


@pytest.mark.parametrize("target", ["a5", "a2a3"])
def test_only_valid_elements_are_written(target):
    k = Kernel(target)
    image = Image(k, 8 * 64, 0)
    image.fill(0x5A)
    dst = k.tile("dst", "i8", 8, 64, (5, 37), addr=0)
    src = k.tile("src", "f32", 8, 64, (5, 37), addr=4096)
    k.load("x", src)
    scale = k.tile("scale_tile", "f32", 8, 1, (5, 1), layout="dn", addr=8192)
    k.load("scale", scale)
    tmp = k.tile("tmp", "f32", 8, 64, (5, 37), addr=16384)
    k.op("pto.tquant", [src, scale], [dst, tmp], SYM)
    image.read()
    x = source((5, 37))
    got = image.of(k.run({"x": x, "scale": np.ones(5, np.float32), **image.args}), np.int8)
    want = np.full((8, 64), 0x5A, np.int8)
    want[:5, :37] = expected(x, np.ones(1))
    np.testing.assert_array_equal(got.reshape(8, 64), want)


# -- scratch of the simulator ---------------------------------------------------------------------


def large(target: str, rows: int) -> Kernel:
    k = Kernel(target)
    src, dst = k.tile("src", "f32", rows, 128), k.tile("dst", "i8", rows, 128)
    k.op("pto.tquant", [src, k.tile("scale", "f32", rows, 1, layout="dn")], [dst], SYM)
    return k


def test_scratch_counts_on_a2a3_only():
    """192 rows: 96 + 24 KiB and the scales fit; 96 KiB of scratch beside them do not."""
    large("a5", 192).run({})
    large("a2a3", 160).run({})
    with pytest.raises(ptosim.ProgramError) as caught:
        large("a2a3", 192).run({})
    finding = caught.value.diagnostics[-1]
    used = 192 * (128 * 4 + 128 + 4 + 128 * 4)
    assert finding.code == "PTO4001"
    assert finding.message == (
        f"vec overflow, requires {used * 8} bits while {196608 * 8} bits avaliable!"
    )
    assert any("scratch tmp of tquant: 98,304 bytes" in label.text for label in finding.labels)


# -- switches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_the_pages_division_and_late_offset(target):
    x = source((8, 32))
    scale = np.array([0.3, 3, 7, 1.5, 2, 0.7, 1, 5], np.float32)
    shift = np.arange(8, dtype=np.float32) + np.float32(0.5)
    switches = {"tquant.int8_scale": "div", "tquant.int8_offset": "post"}
    k = kernel(target, (8, 32), (8, 1, "dn"), asym=True, switches=switches)
    got, _ = run(k, x, scale, shift)
    with np.errstate(all="ignore"):
        whole = np.rint((x / scale[:, None]).astype(np.float64))
        whole = np.nan_to_num(np.clip(whole, -(2.0**31), 2.0**31 - 1))
    want = np.clip(np.rint(whole + shift[:, None]), 0, 255)
    np.testing.assert_array_equal(got, want.astype(np.uint8))


def test_one_scale_for_the_tile_on_the_page_only():
    x = source((8, 32))
    got, _ = run(kernel("a5", (8, 32), (1, 1, "nd"), profile="page"), x, np.full(1, 4, np.float32))
    np.testing.assert_array_equal(got, expected(x, np.full(1, 0.25, np.float32)))
    with pytest.raises(ptosim.UnsupportedError, match="one scale for a whole tile"):
        run(kernel("a5", (8, 32), (1, 1, "nd")), x, np.full(1, 4, np.float32))
