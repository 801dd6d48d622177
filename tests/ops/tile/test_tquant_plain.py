"""Plain tquant: which range the codes are clipped to."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.ground.source import Source
from ptosim.tools.api import check_source
from tests.support.text import Kernel

X = np.array([-1000.0, -128.5, -1.0, -0.4, 0.5, 1.5, 127.5, 128.0, 254.6, 1000.0], np.float32)
CLIPPED = {"INT8_SYM": (-128, 127), "INT8_ASYM": (0, 255)}


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("kind", CLIPPED)
@pytest.mark.parametrize("dtype", ["i8", "ui8", "si8"])
def test_the_clip_range_is_that_of_the_type(target, kind, dtype):
    """The byte is stored as it is, whatever the sign of the destination."""
    k = Kernel(target)
    x = k.tile("x", "f32", 1, 32)
    scale = k.tile("s", "f32", 8, 1, (1, 1), layout="dn")
    offset = k.tile("o", "f32", 8, 1, (1, 1), layout="dn")
    q = k.tile("q", dtype, 1, 32)
    scratch = [k.tile("t", "f32", 1, 32)] if target == "a2a3" else []
    for name, tile in (("ax", x), ("as_", scale), ("ao", offset)):
        k.load(name, tile)
    ins = [x, scale, offset] if kind == "INT8_ASYM" else [x, scale]
    k.op("pto.tquant", ins, [q, *scratch], f"quant_type = #pto<quant_type {kind}>")
    k.store(q, "aq")
    values = np.resize(X, (1, 32))
    out = np.zeros((1, 32), np.uint8 if dtype == "ui8" else np.int8)
    args = {"ax": values, "as_": np.ones(1, np.float32), "ao": np.zeros(1, np.float32), "aq": out}
    result = k.run(args)
    low, high = CLIPPED[kind]
    want = np.clip(np.rint(values), low, high).astype(np.int64) & 255
    np.testing.assert_array_equal(result.outputs["aq"].view(np.uint8), want)
    crossed = (kind == "INT8_SYM") == (dtype == "ui8")
    checked = check_source(Source("k", k.text()))
    warned = [f.code for f in checked.findings if f.code == "PTO2052"]
    assert bool(warned) == crossed
