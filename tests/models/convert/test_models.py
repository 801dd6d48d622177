"""Converted models give onnx.reference's bits in the exact form; errors and cycles by layer."""

from __future__ import annotations

import itertools
import json
import re

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from ptosim.models import onnx_run
from ptosim.models.conversion import sensitivity, source
from ptosim.models.conversion.convert import Measures, attempt, convert, quantise
from ptosim.models.conversion.types import Settings
from ptosim.models.emit import write_layers
from ptosim.models.onnx_model import graph_of
from tests.models.convert import models

TARGETS = ("a2a3", "a5")


def prepared(proto: onnx.ModelProto, samples: int = 3):
    model = source.prepared(proto, {})
    rng = np.random.default_rng(9)
    feeds = [
        {
            n: rng.standard_normal(dims).astype(np.float32)
            for n, (_, dims) in model.graph.inputs.items()
        }
        for _ in range(samples)
    ]
    return model, source.Data(feeds, "here", "")


def reference(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    return np.asarray(ReferenceEvaluator(proto).run(None, feeds)[0])


@pytest.mark.parametrize(
    "make",
    [
        models.mlp,
        pytest.param(models.conv_net, marks=pytest.mark.slow),
        pytest.param(models.block, marks=pytest.mark.slow),
    ],
)
def test_the_exact_form_gives_the_references_bits(make):
    """Called here, on the model that is written: the same Q/DQ nodes."""
    model, samples = prepared(make())
    made = convert(model, samples, Settings(), TARGETS)
    want = reference(made.quantised.proto, samples.feeds[0])
    for target in TARGETS:
        np.testing.assert_array_equal(made.outcome.results[target, "exact"]["y"], want)
    assert not made.outcome.why_not
    groups = [r for r in made.rows if r.format == "int8"]
    assert len(groups) >= 3
    for row in groups:
        assert row.line.statement is not None
        assert row.line.statement[0]
        assert row.error.sqnr > 25
    # What the audit counts is what differs, wherever the inputs were right: 11 bits of the factor.
    counted = [r for r in groups if r.why is not None]
    for row in counted:
        gap = row.line.gaps["a5", "fast"]
        assert row.why.differ == gap.mismatches or gap.inherited
        assert sum(row.why.causes.values()) == row.why.differ
    # The fixpipe's factors have 11 bits: what differs is off by one where an input was right.
    for row in groups:
        for (_, form), gap in row.line.gaps.items():
            assert not gap.mismatches or form == "fast"
            if row.line.dtype == "int8" and not gap.inherited:
                assert gap.worst <= 1


@pytest.mark.slow
def test_the_sum_of_a_residual_joins_the_product():
    model, samples = prepared(models.conv_net())
    made = convert(model, samples, Settings(), TARGETS)
    assert [r.line.op for r in made.rows if r.format == "int8"] == [
        "Conv+bias+Relu", "Conv+bias+residual+Relu", "Conv+Relu", "Gemm+bias",
    ]  # fmt: skip
    for row in made.rows:
        if row.line.op == "Conv+bias+residual+Relu":
            assert all(g.worst <= 1 for g in row.line.gaps.values() if g.mismatches)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        Settings(activations="ui8", method="mse"),
        Settings(per_channel=False, method="entropy"),
        Settings(method="percentile", percentile=99.0),
    ],
)
def test_methods_and_granularities(settings):
    model, samples = prepared(models.mlp())
    made = convert(model, samples, settings, ("a5",))
    want = reference(made.quantised.proto, samples.feeds[0])
    np.testing.assert_array_equal(made.outcome.results["a5", "exact"]["y"], want)
    clipped = max(r.error.clipped for r in made.rows)
    assert (clipped > 0) == (settings.method != "minmax" and clipped > 0)
    if settings.method == "percentile":  # one in a hundred is beyond, at most
        assert 0 < clipped <= 0.0101


@pytest.mark.slow
def test_scales_of_full_precision_say_that_they_are_not_exact():
    model, samples = prepared(models.mlp())
    made = convert(model, samples, Settings(scales="f32"), ("a5",))
    said = [r.line.statement for r in made.rows if r.line.statement is not None]
    assert said
    assert not any(s[0] for s in said)
    short = convert(model, samples, Settings(), ("a5",))
    assert 0 < made.output.sqnr - short.output.sqnr < 3  # what exactness costs, in dB


@pytest.mark.sampled(3, 4)
@pytest.mark.slow
@pytest.mark.parametrize(("scales", "lost"), [("f32", 0.0), ("short", 2.0)])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_the_order_of_layers_is_that_of_brute_force(scales, lost, seed):
    """Every subset in float, computed here: the order leaves out the best of each size. Scales of
    few bits jump when a neighbour changes, so that a set that is not nested can be a little
    better."""
    model, samples = prepared(models.mlp((48, 64, 48, 32, 10), seed=seed))
    settings, values = Settings(scales=scales), onnx_run.every_value(model.graph, samples.feeds)
    names = [n for n, _ in sensitivity.order(model, samples, settings, values)]
    assert sorted(names) == ["fc0", "fc1", "fc2", "fc3"]
    whole = np.concatenate([v.ravel() for v in values["y"]]).astype(np.float64)

    def decibels(leave) -> float:
        proto = quantise(model, samples, settings, values, leave).proto
        got = np.concatenate([reference(proto, f).ravel() for f in samples.feeds])
        return 10 * np.log10(np.sum(whole**2) / np.sum((whole - got) ** 2))

    for size in range(1, len(names)):
        best = max(map(decibels, itertools.combinations(names, size)))
        assert best - decibels(names[:size]) <= lost + 1e-9


@pytest.mark.slow
def test_a_budget_leaves_layers_in_float():
    model, samples = prepared(models.mlp())
    settings, values = Settings(), onnx_run.every_value(model.graph, samples.feeds)
    ranked = sensitivity.order(model, samples, settings, values)

    measures = Measures()

    def run(leave):
        return attempt(model, samples, settings, ("a5",), values, leave, measures)

    def within(drop, cycles, least=None):
        budget = sensitivity.Budget(drop, cycles, least)
        made = sensitivity.within(model, samples, settings, values, ranked, budget, run, measures)
        return made, sensitivity.met(made, budget)

    every, unmet = within(None, None)
    assert not every.left
    assert not unmet
    some, unmet = within(sensitivity.percent(every.output.sqnr) - 0.1, None)
    assert some.left == [n for n, _ in ranked][: len(some.left)]
    assert some.left
    assert not unmet
    assert some.output.sqnr > every.output.sqnr
    as_good, unmet = within(None, None, some.output.sqnr)  # the same limit in dB
    assert (as_good.left, unmet) == (some.left, [])
    _, unmet = within(None, None, 300.0)
    assert "not 300 dB" in unmet[0]
    _, unmet = within(1e-6, 10)
    assert len(unmet) == 2
    limit = sensitivity.total_cycles(every)["a5"] + 1000  # the smallest layer, and its neighbour
    cheap, unmet = within(None, limit)
    assert cheap.left == ["fc2"]
    assert not unmet
    cheap, unmet = within(None, limit - 900)
    assert not cheap.left
    assert not unmet


@pytest.mark.slow
def test_what_is_counted_without_a_run_is_what_a_run_counts():
    """Cycles of the fast form on both targets, step by step, and the outputs' error."""
    model, samples = prepared(models.mlp())
    settings, values = Settings(), onnx_run.every_value(model.graph, samples.feeds)
    for leave in ([], ["fc1"]):
        tried = attempt(model, samples, settings, TARGETS, values, leave, Measures())
        made = convert(model, samples, settings, TARGETS, 0, leave, values)
        assert tried.output.sqnr == made.output.sqnr
        for target in TARGETS:
            ran = [row.line.cycles[target, "fast"] for row in made.rows]
            assert tried.cycles[target] == ran


@pytest.mark.slow
def test_the_default_export_of_onnxruntime_is_one_product():
    """A fifth of the cycles of casts to f32, and the reference's bits in the exact form here."""
    model = models.exported()
    x = np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)
    want = reference(model, {"x": x})
    fused = onnx_run.run(graph_of(model), {"x": x}, TARGETS)
    apart = onnx_run.run(graph_of(model), {"x": x}, TARGETS, is_fused=False)
    assert [line.op for line in fused.lines] == [
        "QuantizeLinear", "MatMul+bias+Relu", "DequantizeLinear"
    ]  # fmt: skip
    for target in TARGETS:
        np.testing.assert_array_equal(fused.results[target, "exact"]["y"], want)
        inner = sum(line.cycles[target, "fast"] or 0 for line in apart.lines[1:-1])
        assert 5 * (fused.lines[1].cycles[target, "fast"] or 0) < inner
        gap = fused.lines[1].gaps[target, "fast"]
        assert 0 < gap.mismatches < 100
        assert gap.worst == 1


@pytest.mark.slow
def test_the_command(cli, tmp_path):
    onnx.save(models.mlp(), tmp_path / "m.onnx")
    x = np.random.default_rng(5).standard_normal((4, 16, 48)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x)
    base = ("quant", "convert", tmp_path / "m.onnx", "--calibration", tmp_path / "d.npz")
    got = cli(*base, "--target", "a5", "-o", tmp_path / "out", "--seed", "7")
    assert got.code == 0
    assert "a5 exact: the same bits as the reference" in got.out
    record = json.loads((tmp_path / "out" / "convert.json").read_text())
    assert (record["seed"], record["calibration"]["samples"]) == (7, 4)
    assert len(record["calibration"]["sha256"]) == 64
    assert [s["step"] for s in record["steps"]] == [
        "collect", "couple", "choose", "rewrite", "fold", "strip"
    ]  # fmt: skip
    written = onnx.load(tmp_path / "out" / "model.onnx")
    onnx.checker.check_model(written, full_check=True)
    layers = sorted((tmp_path / "out").glob("*.pto"))
    assert len(list((tmp_path / "out").iterdir())) <= 2 + 3 * len(layers)
    assert len(layers) <= len(record["layers"])
    for path in layers:
        names = re.findall(r"^//--- (\S+)\.pto$", path.read_text(), re.MULTILINE)
        assert any(n.startswith("a5_fast_") for n in names)
        for name in names:
            assert cli("run", f"{path}#{name}").code == 0, name
    for step in ("choose", "fold"):
        shown = cli(*base, "--target", "a5", "--after", step)
        assert f"{step}: " in shown.out
        assert shown.code == 0
    assert "!quant.uniform<i8:f32" in cli(*base, "--target", "a5", "--after", "choose").out
    tight = cli(*base, "--target", "a5", "--max-drop", "0.0001")
    assert tight.code == 1
    assert "PTO7647" in tight.err


@pytest.mark.slow
@pytest.mark.parametrize("format", ["mxfp8", "mxfp4"])
def test_microscaling_on_both_targets(format, tmp_path):
    """Codes and exponents are onnx.reference's bit for bit on both targets, also where one has no
    instruction for them; sums of exact products differ in the last places alone."""
    model, samples = prepared(models.block(tokens=32))
    made = convert(model, samples, Settings(format=format), TARGETS)
    kinds = [r.line.op for r in made.rows if r.format in ("q", "mx")]
    word = format.upper()
    assert kinds.count(f"QuantizeLinear {word}") == 8  # n1, q, k, p, v, of, n2, g
    products = [r.line.op for r in made.rows if r.format == "mx"]
    assert [p.removesuffix("+bias") for p in products] == 8 * [f"MatMul {word}"]
    assert not made.quantised.plan.left
    for row in made.rows:
        for key, gap in row.line.gaps.items():
            if row.format == "q" and not gap.inherited:
                assert not gap.mismatches, (row.line.node, key)
            if row.format == "mx" and not gap.inherited:
                assert gap.worst <= 2e-6, (row.line.node, key)
    one, other = (made.outcome.results[t, "exact"]["y"] for t in TARGETS)
    assert np.abs(one - other).max() < 1e-5
    assert made.output.sqnr > (20 if format == "mxfp8" else 8)
    write_layers(tmp_path, made.outcome.programs)  # bytes of narrow floats in the archives, too
    ends = sorted(path.suffix for path in tmp_path.iterdir())
    assert ends == sorted([".npz", ".pto", ".toml"] * (len(ends) // 3))


@pytest.mark.slow
def test_microscaling_of_edges():
    """Groups of zeros, of one large value, subnormal quotients, ties: both targets and NumPy."""
    from ptosim.models import mx_kernels
    from ptosim.models.kernel_runner import KernelRunner

    rng = np.random.default_rng(3)
    x = (rng.standard_normal((6, 64)) * np.exp(4 * rng.standard_normal((6, 64)))).astype(np.float32)
    x[0, :32] = 0
    x[1, :32] = np.float32(2.0**-20)
    x[2, 0] = 1e5
    x[3, :32] = np.arange(32) * 2.0**-10 + 2.0**-11  # ties of subnormal codes, beside one of 2^8
    x[3, 31] = 256
    x[4, :32] = 480 + np.arange(32)  # beyond 448: saturates
    for form in mx_kernels.FORMATS.values():
        held = x.astype(ml_dtypes.bfloat16).astype(np.float32) if "4" in form.name[:2] else x
        size = np.abs(held.reshape(6, 2, 32)).max(2)
        power = np.floor(np.log2(np.where(size > 0, size, 1))) - form.top
        scale = np.where(size > 0, np.exp2(power), 2.0**-127)
        dtype = getattr(ml_dtypes, {"f8": "float8_e4m3fn", "f4": "float4_e2m1fn"}[form.name[:2]])
        ratio = np.clip(held.reshape(6, 2, 32) / scale[:, :, None], -form.largest, form.largest)
        want = ratio.astype(dtype).astype(np.float32).reshape(6, 64)
        for target in TARGETS:
            got = mx_kernels.quantize(KernelRunner(target), x, form)
            np.testing.assert_array_equal(got.codes.astype(np.float32), want)
            np.testing.assert_array_equal(got.scales[size > 0], scale[size > 0])
