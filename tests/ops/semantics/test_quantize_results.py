"""tquant.mx with numbers of every kind, and every value of its switches; every byte that it writes is
looked at in `tests/ops/tile/test_tquant_mx.py`."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.ops.semantics.helpers import ARRAYS
from tests.oracle.quantisation import MxImages
from tests.support.text import Kernel

ROWS, COLS = 32, 64
BF16 = np.dtype(ml_dtypes.bfloat16)


def kernel(form: str, *, fp4: bool = False, valid: int = COLS, **options) -> Kernel:
    """Groups along columns: codes and exponents of ROWS x `valid`."""
    k = Kernel("a5", **options)
    x = k.tile("x", form, ROWS, COLS, (ROWS, valid))
    per, codes = (2, "!pto.f4E2M1x2") if fp4 else (1, "ui8")
    q = k.tile("q", codes, ROWS, COLS // per, (ROWS, valid // per))
    outs = [
        q,
        *(k.tile(n, t, 1, COLS, (1, valid)) for n, t in (("e", "ui8"), ("m", form), ("s", form))),
    ]
    k.load("gx", x)
    kind = "MXFP4_E2M1" if fp4 else "MXFP8"
    attrs = f"quant_type = #pto<quant_type {kind}>, grpAxis = #pto<mx_group_axis axis0>"
    k.op("pto.tquant.mx", [x], outs, attrs)
    k.store(q, "gq")
    k.store(outs[1], "ge")
    return k


def results(
    k: Kernel, x: np.ndarray, *, fp4: bool = False, **options
) -> tuple[np.ndarray, np.ndarray]:
    cols = x.shape[1]
    args = {"gx": x, "gq": np.zeros((ROWS, cols // (2 if fp4 else 1)), np.uint8),
            "ge": np.zeros(cols, np.uint8)}  # fmt: skip
    outputs = k.run(args, **options).outputs
    return outputs["gq"], outputs["ge"]


@pytest.mark.parametrize("form", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("valid", [64, 20])
def test_numbers_of_every_kind(form, valid):
    kind = ARRAYS[form]
    limits = ml_dtypes.finfo(kind)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, float(limits.max), float(limits.min),
               float(limits.smallest_subnormal), 0.5, 1.5, -2.5, 448.0, -6.0]  # fmt: skip
    x = np.random.default_rng(9).standard_normal((ROWS, valid)).astype(np.float32)
    x[3, : len(special)] = special
    x = x.astype(kind)
    q, e = results(kernel(form, valid=valid), x)
    patterns = x.view(f"u{kind.itemsize}")
    model = MxImages(patterns.tolist(), x.shape, form, "f8E4M3FN", "ocp").by_columns(COLS, False)
    want = [model.writes["dst"][r * valid + c] for r in range(ROWS) for c in range(valid)]
    np.testing.assert_array_equal(q.reshape(-1), want)
    np.testing.assert_array_equal(e, [model.writes["exp"][c] for c in range(valid)])


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
    x = np.full((ROWS, COLS), first if switch == "ftz" else 1.0, BF16)
    x[0, 0] = first
    q, e = results(kernel("bf16", switches={f"tquant.{switch}": setting}), x)
    assert (int(e[0]), int(q[0, 0])) == (exponent, code)


@pytest.mark.parametrize(("emax", "exponent"), [("2", 127), ("1", 128)])
def test_the_largest_exponent_of_four_bits(emax, exponent):
    k = kernel("bf16", fp4=True, switches={"tquant.emax_e2m1": emax})
    assert results(k, np.full((ROWS, COLS), 6.0, BF16), fp4=True)[1].tolist() == [exponent] * COLS


@pytest.mark.parametrize("rounding", ["rne", "stochastic"])
def test_rounding(rounding):
    """Without chance the nearest; with it a neighbour, by the seed."""
    x = np.random.default_rng(4).standard_normal((ROWS, COLS)).astype(BF16)
    k = kernel("bf16", switches={"tquant.rounding": rounding})
    one, other = (results(k, x, seed=seed)[0].astype(int) for seed in (7, 8))
    nearest = results(kernel("bf16"), x)[0].astype(int)
    assert (one != other).any() == (rounding == "stochastic")
    assert np.abs(one - nearest).max() == (1 if rounding == "stochastic" else 0)
