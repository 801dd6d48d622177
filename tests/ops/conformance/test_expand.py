"""The vector regions of TQUANT and TCVT give the bytes of the tile operations, on the recorded
inputs: results, exponents, and what is left in scratch tiles.

What the tile operations give is compared with the recorded arrays in `test_tquant` and `test_tcvt`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.ops.lower.program import expand
from tests.ops.conformance import test_tcvt, test_tquant
from tests.ops.conformance.data import COMPARED, arrays, stem
from tests.ops.conformance.test_tcvt import ARRAYS, CODES, GENERATED, WIDENED
from tests.ops.conformance.test_tquant import DTYPES, INT8, RECOMMENDED
from tests.support.text import Kernel, date_of

pytestmark = pytest.mark.slow


def assert_same(k: Kernel, runs: list[dict[str, np.ndarray]]) -> None:
    """Run a kernel and its expansion on the same arguments."""
    expanded = expand(Source("tile.pto", k.text()), compat=date_of(k.text()))
    assert len(expanded.stages) == 1
    assert not expanded.kept
    tile, vector = k.program(), ptosim.load(expanded.text, compat=date_of(k.text()))
    for args in runs:
        expected = tile.run(args, timing=False, sanitize="none").outputs
        found = vector.run(args, timing=False, sanitize="none").outputs
        for name, array in expected.items():
            np.testing.assert_array_equal(
                found[name].reshape(-1).view(np.uint8), array.reshape(-1).view(np.uint8), name
            )
            COMPARED["expand elements"] += array.size
    COMPARED["expand arrays"] += len(runs)


@pytest.mark.sampled(0, 15)
@pytest.mark.parametrize(("entry", "places"), RECOMMENDED)
def test_microscaling(entry, places):
    case = test_tquant.Quantisation(entry, places)
    images = {f"out_{n}": np.zeros(size, np.uint8) for n, size in case.images.items()}
    assert_same(case.kernel, [{"x": arrays(entry["file"])["src"].view(DTYPES[case.src]), **images}])


@pytest.mark.parametrize(
    ("entry", "form"),
    [pytest.param(p.values[0], p.values[2], id=p.id) for p in INT8 if p.values[1] == "a5"],
)
def test_int8(entry, form):
    assert_same(test_tquant.int8_kernel(entry, "a5", form), [test_tquant.int8_args(entry, form)])


def conversions(entry: dict) -> Iterator[tuple[Kernel, list[dict[str, np.ndarray]]]]:
    """Every mode of a pair of types, in tiles that fit."""
    src, dst = test_tcvt.pair(entry)
    values = test_tcvt.source(entry)
    dst = "bf16" if stem(entry) in WIDENED else dst
    cols = min(256, values.size)
    height = values.size // cols
    limit = 32 if "i64" in (src, dst) else 64
    rows = next(r for r in range(min(limit, height), 0, -1) if height % r == 0)
    size, kind = rows * cols, ARRAYS.get(dst, CODES)
    for array in (a["name"] for a in entry["arrays"] if a["role"] == "expected"):
        attrs = test_tcvt.controls(array) + (
            "" if "sat" in array else ", sat_mode = #pto<saturation_mode ON>"
        )
        k = Kernel("a5")
        given, results = k.tile("given", src, rows, cols), k.tile("results", dst, rows, cols)
        k.load("x", given)
        k.op("pto.tcvt", [given], [results], attrs.lstrip(", "))
        k.store(results, "y")
        yield (
            k,
            [
                {"x": values[i : i + size], "y": np.zeros(size, kind)}
                for i in range(0, values.size, size)
            ],
        )


@pytest.mark.parametrize(
    "entry", [pytest.param(p.values[0], id=p.id) for p in GENERATED if p.values[1] == "a5"]
)
def test_conversions(entry):
    for k, runs in conversions(entry):
        assert_same(k, runs)
