"""Microscaling TQUANT: operands that may be left out or spelled otherwise, registers, switches."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptosim
from tests.ops.semantics.helpers import ARRAYS, codes, magnitudes
from tests.support.text import Kernel


def simple(outs: int, dst: str = "f8E4M3FN", dst_cols: int = 128, **options: Any) -> Kernel:
    """16x128 bf16 with one to four result tiles, placed by the planner."""
    k = Kernel("a5", **options)
    src = k.tile("src", "bf16", 16, 128)
    tiles = [
        k.tile("dst", dst, 16, dst_cols),
        k.tile("exp", "ui8", 1, 64),
        k.tile("max", "bf16", 1, 64),
        k.tile("scaling", "bf16", 1, 64),
    ]
    k.load("x", src)
    fp4 = dst == "f4E2M1FN" or dst_cols == 64
    k.op(
        "pto.tquant", [src], tiles[:outs],
        f"mx_alg = #pto<mx_quant_alg {'OcpMxFp4E2M1' if fp4 else 'OcpMxFp8E4M3'}>",
    )  # fmt: skip
    k.store(tiles[0], "y")
    k.store(tiles[1], "e")
    return k


X = magnitudes("bf16", (16, 128)).view(ml_dtypes.bfloat16)


def outputs(k: Kernel, **options: Any) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Codes and exponents, and the findings."""
    dst = next(d for d in ("f8E4M3FN", "f4E2M1FN", "ui8") if f"!pto.ptr<{d}>" in k.text())
    cols = 64 if dst == "ui8" else 128
    args = {"x": X, "y": np.zeros((16, cols), ARRAYS[dst]), "e": np.zeros(64, np.uint8)}
    result = k.run(args, **options)
    return result.outputs["y"].view(np.uint8), result.outputs["e"], codes(result)


@pytest.mark.parametrize("outs", [2, 3])
def test_scratch_may_be_left_out(outs):
    got, expected = outputs(simple(outs)), outputs(simple(4))
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_array_equal(got[1], expected[1])


def test_scratch_that_is_left_out_counts():
    """128x256 f32: 128 KiB + 32 KiB + 1 KiB of tiles, 4 KiB + 8 KiB of scratch."""
    k = Kernel("a5")
    src = k.tile("src", "f32", 128, 256)
    k.tile("more", "f32", 1, (253952 - (160 + 1 + 12) * 1024) // 4 + 8)
    k.op(
        "pto.tquant", [src], [k.tile("dst", "ui8", 128, 256), k.tile("exp", "ui8", 1, 1024)],
        "mx_alg = #pto<mx_quant_alg OcpMxFp8E4M3>",
    )  # fmt: skip
    with pytest.raises(ptosim.ProgramError, match="vec overflow, requires 2031872 bits") as caught:
        k.run({})
    labels = " ".join(label.text for label in caught.value.diagnostics[-1].labels)
    assert "scratch scaling of tquant: 8,192 bytes" in labels


def test_packed_bytes_as_destination():
    got, _, findings = outputs(simple(4, "ui8", 64))
    codes_, _, _ = outputs(simple(4, "f4E2M1FN"))
    np.testing.assert_array_equal(got & 15, codes_.reshape(16, 64, 2)[:, :, 0])
    np.testing.assert_array_equal(got >> 4, codes_.reshape(16, 64, 2)[:, :, 1])
    assert findings == ["PTO7004"]


def test_legacy_spelling_means_groups_along_rows():
    k = simple(4, compat="2026-04")
    k.lines = [
        line.replace(
            "{mx_alg = #pto<mx_quant_alg OcpMxFp8E4M3>}",
            "{quant_type = #pto<quant_type MXFP8>, scale_alg = #pto<quant_scale_alg OCP>}",
        )
        for line in k.lines
    ]
    np.testing.assert_array_equal(outputs(k)[0], outputs(simple(4))[0])


class Registers:
    """An observer that keeps the registers of the core."""

    def __init__(self) -> None:
        self.ctrl = 0

    def on_commit(self, core, inst, bound) -> None:
        self.ctrl = core.registers["ctrl"]


@pytest.mark.parametrize(("profile", "ctrl"), [("hw", 1 << 50), ("cpu", 0)])
def test_the_control_register_is_left_changed(profile, ctrl):
    k = Kernel("a5", profile=profile)
    src = k.tile("src", "bf16", 16, 128)
    outs = [k.tile("dst", "f8E4M3FN", 16, 128), k.tile("exp", "ui8", 16, 32)]
    k.load("x", src)
    k.op("pto.tquant", [src], outs, "mx_alg = #pto<mx_quant_alg OcpMxFp8E4M3>")
    registers = Registers()
    k.run({"x": X}, observers=[registers])
    assert registers.ctrl == ctrl


def test_no_exponent_store_in_zigzag_order_on_a5():
    k = simple(4)
    at = next(i for i, line in enumerate(k.lines) if line.startswith("pto.tquant"))
    extra = k.tile("zz", "ui8", 16, 4, layout="zz", fractal=32)
    k.lines.insert(at, k.lines.pop())
    line = k.lines[at + 1]
    head, tail = line.split(" outs(")
    names, types = tail.split(" : ", 1)
    types, attrs = types.rsplit(") {", 1)
    k.lines[at + 1] = f"{head} outs({names}, %zz : {types}, {extra.type}) {{{attrs}"
    with pytest.raises(ptosim.UnsupportedError, match="no zigzag exponent store"):
        outputs(k)


# -- switches -------------------------------------------------------------------------------------


def test_stochastic_rounding_depends_on_the_seed_only():
    switches = {"tquant.rounding": "stochastic"}
    one, again, other = (outputs(simple(4, switches=switches), seed=s)[0] for s in (7, 7, 8))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    nearest = outputs(simple(4))[0]
    distance = np.abs(one.astype(int) - nearest.astype(int))
    number = (nearest & 0x7F) != 0x7F
    assert distance[number & (one >> 7 == nearest >> 7)].max() == 1


def test_the_pages_largest_exponent():
    x = np.full((16, 128), 6.0, ml_dtypes.bfloat16)
    exponents = []
    for emax in ("2", "1"):
        k = simple(4, "f4E2M1FN", switches={"tquant.emax_e2m1": emax})
        args = {"x": x, "y": np.zeros((16, 128), ARRAYS["f4E2M1FN"]), "e": np.zeros(64, np.uint8)}
        exponents.append(int(k.run(args).outputs["e"][0]))
    assert exponents == [127, 128]


def test_defects_of_the_library_by_switch():
    """NV MXFP4 with one exponent row: the library takes the OCP exponent."""
    k, plain, ocp = (
        simple(4, "f4E2M1FN", switches=s) for s in ({"tquant.a5_header_defects": "on"}, {}, {})
    )
    for kernel in (k, plain):
        kernel.lines = [line.replace("OcpMxFp4E2M1", "NvMxFp4E2M1") for line in kernel.lines]
    np.testing.assert_array_equal(outputs(k)[1], outputs(ocp)[1])
    assert (outputs(plain)[1] != outputs(ocp)[1]).any()


@pytest.mark.parametrize(
    ("switch", "setting", "first", "exponent", "code"),
    [
        ("nan_group", "poison", np.nan, 255, 0x7F),
        ("nan_group", "ignore", np.nan, 119, 0x7F),
        ("zero_sign", "keep", -0.0, 119, 0x80),
        ("zero_sign", "drop", -0.0, 119, 0x00),
        ("ftz", "off", 2.0**-130, 0, 0x20),
        ("ftz", "on", 2.0**-130, 0, 0x00),
    ],
)
def test_both_settings_for_numbers_that_they_concern(switch, setting, first, exponent, code):
    """A group of ones after one special number; a group of subnormals, 2^-130 times 2^127."""
    x = np.full((16, 128), first if switch == "ftz" else 1.0, ml_dtypes.bfloat16)
    x[0, 0] = first
    k = simple(4, switches={f"tquant.{switch}": setting})
    args = {"x": x, "y": np.zeros((16, 128), ARRAYS["f8E4M3FN"]), "e": np.zeros(64, np.uint8)}
    result = k.run(args)
    assert int(result.outputs["e"][0]) == exponent
    assert int(result.outputs["y"].view(np.uint8).reshape(-1)[0]) == code
