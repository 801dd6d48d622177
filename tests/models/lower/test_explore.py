"""`ptosim quant explore`: formats against formulas written out, and what is reported."""

from __future__ import annotations

import json
import math

import ml_dtypes
import numpy as np
import pytest

from ptosim.models import explore as exploring
from ptosim.models.explore import FORMATS, explore

pytestmark = pytest.mark.slow

X = (
    np.random.default_rng(5).standard_normal((9, 70)) * np.float32([[0.1]] * 4 + [[3]] * 5)
).astype(np.float32)


def db(x: np.ndarray, back: np.ndarray) -> float:
    noise = float(((x.astype(np.float64) - back) ** 2).sum())
    return 10 * math.log10(float((x.astype(np.float64) ** 2).sum()) / noise)


def blocks(x: np.ndarray) -> np.ndarray:
    wide = np.zeros((len(x), -(-x.shape[1] // 32) * 32), np.float32)
    wide[:, : x.shape[1]] = x
    return wide.reshape(len(x), -1, 32)


def integers(bits: int, along: str) -> np.ndarray:
    """x rounded in steps of amax / largest code, by the reciprocal as TQUANT does."""
    top = 2 ** (bits - 1) - 1
    parts = {"tensor": X.reshape(1, 1, -1), "row": X[:, None], "block": blocks(X)}[along]
    scale = (np.abs(parts).max(2, keepdims=True).astype(np.float64) / top).astype(np.float32)
    scale[scale == 0] = 1
    codes = np.clip(np.rint(parts * (np.float32(1) / scale)), -top - 1, top)
    back = (codes * scale).astype(np.float32)
    return back.reshape(len(X), -1)[:, :70] if along == "block" else back.reshape(X.shape)


def microscaled(kind: str, rule: str) -> np.ndarray:
    """OCP: floor(log2 amax) - emax; NV: the power of two at or above amax / limit."""
    dtype, emax, limit = {
        "fp8": (ml_dtypes.float8_e4m3fn, 8, 448.0), "fp4": (ml_dtypes.float4_e2m1fn, 2, 6.0),
    }[kind]  # fmt: skip
    given = X if kind == "fp8" else X.astype(ml_dtypes.bfloat16).astype(np.float32)
    parts = blocks(given)
    amax = np.abs(parts).max(2, keepdims=True).astype(np.float64)
    power = np.floor(np.log2(amax)) - emax if rule == "OCP" else np.ceil(np.log2(amax / limit))
    scale = 2.0**power
    codes = np.clip(parts / scale, -limit, limit).astype(np.float32).astype(dtype)
    return (codes.astype(np.float64) * scale).reshape(len(X), -1)[:, :70]


@pytest.fixture(scope="module")
def found():
    return {c.format.name: c for c in explore(X, ["a2a3", "a5"], has_errors=True)}


def errors(candidate) -> np.ndarray:
    return np.concatenate(list(candidate.errors()))


@pytest.mark.parametrize("form", FORMATS, ids=lambda f: f.name)
def test_quality_is_that_of_the_formula(found, form):
    if form.rule:
        back = microscaled("fp8" if "Fp8" in form.rule else "fp4", form.rule[:3].upper().strip("M"))
    else:
        back = integers(int(form.out[1:]), form.along)
    candidate = found[form.name]
    np.testing.assert_array_equal(errors(candidate).reshape(X.shape), X.astype(np.float64) - back)
    assert candidate.sqnr == pytest.approx(db(X, back), rel=1e-12)


def test_bytes_and_order(found):
    assert found["int8 per tensor"].bytes == 630 + 4
    assert found["int8 per row"].bytes == 630 + 9 * 4
    assert found["int4 per block of 32"].bytes == 315 + 27 * 4
    assert found["MXFP8 e4m3 OCP"].bytes == 630 + 27
    assert found["MXFP4 e2m1 NV"].bytes == 315 + 27
    quality = [c.sqnr for c in found.values()]
    assert quality == sorted(quality, reverse=True)
    for name, candidate in found.items():
        on_a2a3 = not name.startswith("MX")
        assert (candidate.cycles["a2a3"] is not None) == on_a2a3
        assert candidate.cycles["a5"] > 0
        assert 0 < candidate.buffer["a5"] < 248 * 1024


def test_windows_change_nothing(found, monkeypatch):
    """Values come from windows of the tensor: a few rows, and strips of whole groups."""
    monkeypatch.setattr(exploring, "_WINDOW", 8 * 32)
    monkeypatch.setattr(exploring, "_STRIP", 32)
    for candidate in explore(X, ["a2a3", "a5"], has_errors=True):
        whole = found[candidate.format.name]
        strips = [
            whole_error[:, at : at + 32]
            for whole_error in tops(errors(whole))
            for at in (0, 32, 64)
        ]
        np.testing.assert_array_equal(
            errors(candidate), np.concatenate([strip.reshape(-1) for strip in strips])
        )
        np.testing.assert_array_equal(candidate.scales, whole.scales)
        assert candidate.sqnr == pytest.approx(whole.sqnr, rel=1e-12)
        assert (candidate.cycles, candidate.bytes) == (whole.cycles, whole.bytes)


def tops(found: np.ndarray) -> list[np.ndarray]:
    """The rows of a matrix like X in windows of eight."""
    matrix = found.reshape(X.shape)
    return [matrix[:8], matrix[8:]]


def test_processes_change_nothing(cli, tmp_path):
    np.save(tmp_path / "x.npy", X)
    one, two = (cli("quant", "explore", tmp_path / "x.npy", "-j", n) for n in (1, 2))
    assert (one.code, one.out) == (0, two.out)


def test_reports(cli, tmp_path):
    np.save(tmp_path / "x.npy", X)
    arguments = ["quant", "explore", tmp_path / "x.npy", "--target", "a5"]
    report = json.loads(cli(*arguments, "--format", "json").out)
    assert len(report["formats"]) == len(FORMATS)
    assert report["formats"][0]["targets"]["a5"]["ub_budget"] == 248 * 1024
    page = tmp_path / "out.html"
    assert cli(*arguments, "-o", page).code == 0
    text = page.read_text()
    assert text.count("<section") == len(FORMATS) + 1  # and quality against cost
    assert "errors from" in text
    assert "scales from" in text
    assert "<script src" not in text  # nothing is loaded from elsewhere


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("missing.npy", "cannot read"),
        ("zeros:i8:4x4", "a tensor of floats is needed, not int8"),
        ("zeros:f32:0x4", "of 0 elements"),
    ],
)
def test_bad_tensors(cli, spec, words):
    got = cli("quant", "explore", spec)
    assert (got.code, words in got.err) == (2, True), got.err


def test_values_that_are_not_finite(cli):
    """A tensor of zeros and one with NaN are reported, not refused."""
    assert cli("quant", "explore", "zeros:f32:2x32", "--target", "a5").code == 0
    x = X.copy()
    x[0, :3] = [np.nan, np.inf, -np.inf]
    assert len(explore(x, ["a5"])) == len(FORMATS)
