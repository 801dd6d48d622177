"""oneDNN's int8 primitives as PTO programs: exact on the vector unit, and what the fixpipe loses."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.machine.quant.parameters import storage
from ptosim.machine.quant.quantize import quantize
from ptosim.models import plan
from ptosim.models.quant.onednn.attributes import Attributes
from ptosim.models.quant.onednn.primitives import Values
from tests.ops.conformance.data import arrays, document
from tests.ops.conformance.quant_data import assert_same

pytestmark = pytest.mark.slow

TARGETS = ["a2a3", "a5"]


def recorded_task(case) -> tuple[plan.Task, np.ndarray]:
    found = arrays("onednn/int8_cases.npz")

    def get(key):
        return found.get(f"{case['name']}/{key}")

    linear, attributes = case["kind"] == "qlinear", Attributes()
    attributes.set_scales("weights", case["mask_weights"] << linear)
    if case["post_op"] != "none":
        attributes.append(case["post_op"])
    conv = None
    if not linear:
        conv = plan.Convolution(
            (case["stride"],) * 2, (case["padding"],) * 4, (case["dilation"],) * 2, case["groups"]
        )
    out = storage(case["out"])
    values = Values(get("x_scale"), get("x_zp"), get("w_scale"), get("y_scale"), get("y_zp"))
    task = plan.Task(
        get("x"), get("w").T if linear else get("w"), values, attributes, get("bias"), out, conv
    )
    return task, get("y").view(out.array)


@pytest.mark.sampled(3, 20)
@pytest.mark.parametrize(
    "case", document("onednn/int8_cases.json")["cases"], ids=lambda c: c["name"]
)
def test_recorded_cases(case):
    """The exact form gives oneDNN's recorded outputs on both targets; both targets agree on the
    fixpipe form, whose difference is reported for each channel."""
    task, expected = recorded_task(case)
    found = plan.make(task, TARGETS)
    for form in found.forms:
        if form.form == "exact":
            assert_same("onednn-programs", form.output, expected)
            assert not form.mismatches.any()
        else:
            gap = np.abs(form.output.astype(int) - expected)
            np.testing.assert_array_equal(form.worst, task.by_channel(gap).max(1))
            np.testing.assert_array_equal(form.mismatches, (task.by_channel(gap) != 0).sum(1))
            assert (form.ties <= form.mismatches).all()
    fixpipe = [f.output for f in found.forms if f.form == "fixpipe"]
    assert len(fixpipe) == (2 if found.numbers.possible else 0)
    if fixpipe:
        np.testing.assert_array_equal(*fixpipe)


rng = np.random.default_rng(99)


def product(src_zero=0, dst_zero=0, bias=None, out="i8", post=(), kind=np.uint8) -> plan.Task:
    info = np.iinfo(kind)
    attributes = Attributes()
    attributes.set_scales("weights", 2)
    for name in post:
        attributes.append(*name)
    return plan.Task(
        rng.integers(info.min, info.max + 1, (21, 50)).astype(kind),
        rng.integers(-128, 128, (50, 33)).astype(np.int8),
        Values(0.02, src_zero, (rng.random(33) * 0.03 + 0.01).astype(np.float32), 1.3, dst_zero),
        attributes, bias, storage(out),
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "zero"), [(np.uint8, 131), (np.int8, -7), (np.int8, 0)])
def test_compensation(kind, zero):
    """Sums of what the cube multiplies, plus the compensation, are those of (src - zero point)."""
    task = product(zero, kind=kind)
    fed = task.src.astype(int) - (128 if kind is np.uint8 else 0)
    weights = task.weights.astype(int)
    want = (task.src.astype(int) - zero) @ weights
    np.testing.assert_array_equal(fed @ weights + plan.numbers(task).compensation, want)


@pytest.mark.parametrize("post", [(), (("relu",),)])
def test_the_fixpipe_form_is_the_scheme(post):
    """Its programs give `fixpipe` of the sums with the rounded bias; the words hold the factors."""
    bias = rng.standard_normal(33).astype(np.float32)
    task = product(120, -31, bias, post=post)
    found, scales = plan.make(task, ["a5"]), np.float64(task.values.weights_scale)
    step = np.float64(np.float32(0.02)) * scales
    whole = np.rint(bias / step).astype(np.int64)
    sums = (task.src.astype(np.int64) - 120) @ task.weights.astype(np.int64) + whole
    sums = np.maximum(sums, 0) if post else sums
    factor = (step / np.float64(np.float32(1.3))).astype(np.float32)
    want = quantize(
        sums.astype(np.int32), scheme="fixpipe", scale=np.ones(33, np.float32), multiplier=factor,
        zero_point=np.full(33, -31), dtype="i8", axis=1,
    )  # fmt: skip
    form = next(f for f in found.forms if f.form == "fixpipe")
    np.testing.assert_array_equal(form.output, want)
    kept = factor.view(np.uint32) >> 13
    for word, mantissa in zip(found.numbers.words.tolist(), kept.tolist(), strict=True):
        assert word == mantissa << 13 | (-31 & 0x1FF) << 37 | 1 << 46
    assert (found.numbers.loss >= 0).all()
    assert (found.numbers.loss < 2.0**-10).all()
    limit = step / np.float64(np.float32(1.3)) / 2
    assert (found.numbers.bias_error <= limit).all()


@pytest.mark.parametrize("out", ["ui8", "i32", "f32", "bf16"])
@pytest.mark.parametrize(
    "post",
    [
        (("relu", 0.25),), (("clip", -20.0, 30.5),), (("linear", 0.3, 2.7), ("abs",)),
        (("square",), ("relu",)),
    ],
)  # fmt: skip
def test_post_operations_on_the_vector_unit(post, out):
    task = product(5, 17 if out == "ui8" else 0, post=post, out=out, kind=np.int8)
    found = plan.make(task, TARGETS)
    assert [f.form for f in found.forms] == ["exact", "exact"]
    assert not any(f.mismatches.any() for f in found.forms)
    assert ("post-operation" if out == "ui8" else "requantises to 8 bits") in found.numbers.why


@pytest.mark.parametrize("conv", [False, True])
def test_a_sum_beyond_32_bits_is_said(conv):
    """Accumulators of 32 bits hold 127 * 127 * 133,144 and no more; the largest sum is exact."""
    for terms, wraps in ((133_144, False), (133_145, True)):
        shape = ((1, terms, 1, 1), (1, terms, 1, 1)) if conv else ((1, terms), (terms, 1))
        a, b = (np.full(s, 127, np.int8) for s in shape)
        window = plan.Convolution() if conv else None
        task = plan.Task(a, b, Values(), Attributes(), None, storage("i8"), window)
        made = plan.Plan(task, plan.numbers(task), a, largest=plan.largest_sum(task))
        assert made.largest == 127 * 127 * terms
        assert made.wraps is wraps
