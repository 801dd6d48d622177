"""TMOV through whole programs, against the recorded arrays.

Two operands on A5: ND to NZ and to ZN. Three operands: block exponents to ZZ. The public CPU
simulator's two-operand ZZ and NN are forms of profile `cpu`; on A5 they are copies of rows, with a
warning.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.ops.conformance.data import arrays, assert_bits, files, stem
from tests.support.text import LAYOUTS, Kernel

DTYPES = {1: "ui8", 2: "f16", 4: "f32"}
UNSIGNED = {"ui8": np.uint8, "f16": np.float16, "f32": np.float32}


def element(source: np.ndarray) -> str:
    return DTYPES[source.dtype.itemsize]


def two_operands(source: np.ndarray, layout: str, fractal: int, rows: int, profile: str):
    """Text that moves [valid, cols] into a tile of `rows` rows in another layout and stores its
    memory; the destination is cleared first."""
    valid, cols = source.shape
    dtype = element(source)
    size = rows * cols * source.dtype.itemsize
    k = Kernel("a5", profile=profile)
    src = k.tile("src", dtype, rows, cols, (valid, cols), addr=0)
    dst = k.tile("dst", dtype, rows, cols, (valid, cols), layout=layout, fractal=fractal, addr=size)
    raw = k.tile("raw", "ui8", 1, size, addr=size)
    k.load("zeros", raw)
    k.load("x", src)
    k.op("pto.tmov", [src], [dst])
    k.store(raw, "out")
    args = {
        "x": source.view(UNSIGNED[dtype]),
        "zeros": np.zeros(size, np.uint8),
        "out": np.zeros(size, np.uint8),
    }
    return k, args


def moved(source: np.ndarray, layout: str, fractal: int = 512, rows: int = 0, profile: str = "hw"):
    k, args = two_operands(source, layout, fractal, rows or source.shape[0], profile)
    result = k.run(args)
    return result.outputs["out"].view(source.dtype), result.findings


def two_operand_files(origin: str) -> list[dict]:
    return [e for e in files("tmov", origin) if e["mode"] in ("ND->NZ", "ND->ZN")]


@pytest.mark.parametrize("entry", two_operand_files("gen_data"), ids=stem)
def test_data_layouts(entry):
    given = arrays(entry["file"])
    rows = -(-given["src"].shape[0] // 16) * 16
    layout = entry["mode"][-2:].lower()
    got, findings = moved(given["src"], layout, rows=rows)
    assert_bits("tmov", got, given["gen_dst"])
    assert not findings


@pytest.mark.parametrize("entry", files("tmov", "cpu_sim"), ids=stem)
def test_cpu_simulator(entry):
    given = arrays(entry["file"])
    layout = entry["mode"][-2:].lower()
    fractal = 32 if layout in ("zz", "nn") else 512
    got, _ = moved(given["src"], layout, fractal, profile="cpu")
    assert_bits("tmov", got, given["cpu_dst"])


@pytest.mark.parametrize(
    "entry", [e for e in files("tmov", "cpu_sim") if e["mode"][-2:] in ("ZZ", "NN")], ids=stem
)
def test_two_operands_copy_rows_on_a5(entry):
    given = arrays(entry["file"])
    got, findings = moved(given["src"], entry["mode"][-2:].lower(), 32)
    np.testing.assert_array_equal(got, given["src"].reshape(-1))
    assert [f.code for f in findings] == ["PTO7002"]


def exponents_to_zz(source: np.ndarray, grp_axis: int, shape: tuple[int, int]) -> np.ndarray:
    """Move exponents into a ZZ tile of a valid shape and return its memory."""
    rows, cols = shape
    padded = -(-rows // 16) * 16 if grp_axis == 1 else rows
    size = padded * cols
    k = Kernel("a5")
    width = -(-size // 32) * 32
    if grp_axis == 1:
        src = k.tile("src", "ui8", 1, width, addr=0)
        window, sizes = k.tile("part", "ui8", 1, width, (1, source.size), addr=0), (1, source.size)
    else:
        src = k.tile("src", "ui8", *source.shape, addr=0)
        window, sizes = src, source.shape
    blayout, slayout = LAYOUTS["zz"]
    tall = padded if grp_axis == 1 else -(-size // 32)
    dst = k.tile(
        "dst", "ui8", tall, size // tall, (rows, cols) if grp_axis == 1 else None,
        layout="zz", fractal=32, addr=4 * width,
    )  # fmt: skip
    assert (dst.blayout, dst.slayout) == (blayout, slayout)
    tmp = k.tile("tmp", "ui8", 1, 4096, addr=2 * 65536)
    k.load("x", window, sizes)
    k.op("pto.tmov", [src, tmp], [dst], f"grp_axis = {grp_axis}")
    k.store(k.tile("raw", "ui8", 1, size, addr=4 * width), "out")
    outputs = k.run({"x": source.reshape(-1), "out": np.zeros(size, np.uint8)}).outputs
    return outputs["out"]


@pytest.mark.parametrize(
    "entry", [e for e in files("tmov", "gen_data") if e["mode"] == "ND->ZZ"], ids=stem
)
def test_exponents_of_rows(entry):
    given = arrays(entry["file"])
    assert_bits("tmov", exponents_to_zz(given["src"], 1, given["src"].shape), given["gen_dst"])


@pytest.mark.parametrize(
    "entry", [e for e in files("tmov", "gen_data") if e["mode"] == "DN->ZZ"], ids=stem
)
def test_exponents_of_columns(entry):
    given = arrays(entry["file"])
    assert_bits("tmov", exponents_to_zz(given["src"], 0, given["src"].shape), given["gen_zz"])


def source_with_exponents(exponents: np.ndarray) -> np.ndarray:
    """bf16 values whose groups of 32 rows have the shared exponents (OCP, MXFP4), up to 252."""
    rows, cols = exponents.shape
    bits = np.zeros((rows, 32, cols), np.uint16)
    bits[:, 7, :] = np.where(exponents == 0, 0, (exponents.astype(np.uint16) + 2) << 7)
    return bits.reshape(rows * 32, cols)


@pytest.mark.parametrize(
    "entry", [e for e in files("tmov", "gen_data") if e["mode"] == "DN->ZZ"], ids=stem
)
def test_interleaved_exponents_of_tquant(entry):
    given = arrays(entry["file"])
    exponents = given["src"]
    groups, cols = exponents.shape
    possible = exponents <= 252
    bits = source_with_exponents(np.where(possible, exponents, 0))
    k = Kernel("a5")
    src = k.tile("src", "bf16", *bits.shape)
    dst = k.tile("dst", "f4E2M1FN", *bits.shape)
    exp = k.tile("exp", "ui8", groups // 2, 2 * cols)
    k.load("x", src)
    k.op(
        "pto.tquant", [src], [dst, exp],
        "mx_alg = #pto<mx_quant_alg OcpMxFp4E2M1>, grp_axis = 0, interleave = true",
    )  # fmt: skip
    k.store(exp, "out")
    args = {"x": bits.view(ml_dtypes.bfloat16), "out": np.zeros(exponents.size, np.uint8)}
    pairs = possible.reshape(groups // 2, 2, cols).transpose(0, 2, 1).reshape(-1)
    assert_bits("tmov", k.run(args).outputs["out"], given["gen_interleaved"], pairs)
