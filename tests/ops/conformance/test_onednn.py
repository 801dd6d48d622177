"""int8 matrix products and convolutions against what oneDNN computed."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.machine.quant.parameters import storage
from ptosim.models.quant.onednn.attributes import Attributes
from ptosim.models.quant.onednn.primitives import Values, convolution, matmul
from ptosim.models.quant.scaled import matmul_int32
from tests.ops.conformance.data import arrays, assert_bits, document
from tests.ops.conformance.quant_data import assert_same


@pytest.mark.parametrize(
    "case", document("onednn/int8_cases.json")["cases"], ids=lambda c: c["name"]
)
def test_int8(case):
    recorded = arrays("onednn/int8_cases.npz")

    def get(key):
        return recorded.get(f"{case['name']}/{key}")

    linear = case["kind"] == "qlinear"
    attributes = Attributes()
    # The mask of the linear cases is that of PyTorch's [N, K] weights; oneDNN's are [K, N].
    mask = case["mask_weights"] << 1 if linear else case["mask_weights"]
    attributes.set_scales("weights", mask)
    if case["post_op"] != "none":
        attributes.append(case["post_op"])
    values = Values(get("x_scale"), get("x_zp"), get("w_scale"), get("y_scale"), get("y_zp"))
    common = {"attributes": attributes, "bias": get("bias"), "dst": case["out"]}
    if linear:
        got = matmul(get("x"), get("w").T, values, **common)
        sums = matmul_int32(get("x").astype(np.int32) - get("x_zp"), get("w").T)
        assert_bits("onednn-sums", sums, get("acc_minus_comp"))
    else:
        got = convolution(
            get("x"), get("w"), values, **common,
            strides=(case["stride"],) * 2, padding=(case["padding"],) * 4,
            dilation=(case["dilation"],) * 2, groups=case["groups"],
        )  # fmt: skip
    assert_same("onednn", got, get("y").view(storage(case["out"]).array))
