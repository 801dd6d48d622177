"""ONNX models and inputs that are wrong: which node, why, and the exit code."""

from __future__ import annotations

import json
import sys

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ptosim.ground.diagnostics.model import ProgramError, UnsupportedError
from ptosim.models import onnx_run
from ptosim.models.onnx_model import graph_of
from tests.models.lower.models import model, one

X = np.zeros((4, 6), np.float32)
F, U8 = TensorProto.FLOAT, TensorProto.UINT8


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.onnx"
    onnx.save(one("QuantizeLinear", {"x": X, "s": np.float32(0.1)}, U8, [4, 6], ("x",)), path)
    return path


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"\xff\xff\xff not a model", 3, "is not an ONNX model"),
        (b"", 3, "PTO0201"),
        (None, 2, "cannot read"),
    ],
)
def test_files_that_are_no_models(cli, tmp_path, content, code, words):
    path = tmp_path / "bad.onnx"
    if content is not None:
        path.write_bytes(content)
    got = cli("quant", "onnx", path)
    assert (got.code, words in got.err) == (code, True), got.err


@pytest.mark.parametrize(
    ("described", "code", "words"),
    [
        (helper.make_tensor_sequence_value_info("x", F, [4]), 3, "PTO0201"),
        (helper.make_tensor_value_info("x", TensorProto.STRING, [4]), 3, "PTO0201"),
        (helper.make_tensor_value_info("x", TensorProto.UNDEFINED, [4]), 3, "PTO0201"),
        (helper.make_tensor_value_info("x", F, [-3]), 3, "PTO0201"),
        (helper.make_tensor_value_info("x", F, [2**62]), 2, "--arg x=FILE.npy"),
    ],
    ids=["a_sequence", "strings", "of_no_type", "less_than_nothing", "beyond_memory"],
)
def test_inputs_that_hold_nothing_to_compute_with(cli, tmp_path, described, code, words):
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "g", [described],
        [helper.make_tensor_value_info("y", F, ["n"])],
    )  # fmt: skip
    path = tmp_path / "input.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    got = cli("quant", "onnx", path)
    assert (got.code, words in got.err) == (code, True), got.err


def test_a_cut_model(cli, good):
    good.write_bytes(good.read_bytes()[:-20])
    got = cli("quant", "onnx", good)
    assert (got.code, "PTO0201" in got.err) == (3, True), got.err


def test_a_model_that_the_checker_rejects():
    node = helper.make_node("QuantizeLinear", ["x", "nowhere"], ["y"], "q")
    wrong = model([node], [("x", F, [4])], [("y", U8, [4])], {})
    with pytest.raises(ProgramError) as caught:
        graph_of(wrong)
    assert caught.value.diagnostics[0].code == "PTO0201"
    assert "nowhere" in caught.value.diagnostics[0].message


def test_without_the_package(cli, good, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    got = cli("quant", "onnx", good)
    assert got.code == 2
    assert "pip install 'ptosim[onnx]'" in got.err


def test_operators_without_kernels_are_all_named():
    nodes = [
        helper.make_node("EyeLike", ["x"], ["a"], "first"),
        helper.make_node("Det", ["a"], ["y"], "second"),
    ]
    graph = graph_of(model(nodes, [("x", F, [4, 4])], [("y", F, [])], {}))
    with pytest.raises(UnsupportedError) as caught:
        onnx_run.run(graph, {"x": np.zeros((4, 4), np.float32)}, ["a5"])
    messages = [d.message for d in caught.value.diagnostics]
    assert ["EyeLike first" in messages[0], "Det second" in messages[1]] == [True, True]
    assert caught.value.exit_code == 5


def test_types_without_kernels(cli, tmp_path):
    """What one target refuses does not stop the other; what all refuse is an error."""
    path = tmp_path / "m.onnx"
    zero = np.asarray(0, ml_dtypes.float8_e4m3fnuz)
    made = one(
        "QuantizeLinear", {"x": X, "s": np.float32(1), "z": zero}, TensorProto.FLOAT8E4M3FNUZ,
        [4, 6], ("x",),
    )  # fmt: skip
    onnx.save(made, path)
    got = cli("quant", "onnx", path, "--target", "a2a3")
    assert (got.code, "PTO8204" in got.err) == (5, True), got.err
    got = cli("quant", "onnx", path)
    assert got.code == 0
    assert "a2a3 exact: refused: cannot be lowered to PTO" in got.out
    assert "a5 exact: same as the reference" in got.out
    report = json.loads(cli("quant", "onnx", path, "--format", "json").out)
    assert {(r["target"], r["form"]) for r in report["refused"]} == {
        ("a2a3", "exact"),
        ("a2a3", "fast"),
    }
    assert {f["target"] for f in report["nodes"][0]["forms"]} == {"a5"}


@pytest.mark.parametrize(
    ("scale", "attrs", "code"),
    [
        (np.ones(5, np.float32), {}, "PTO2201"),
        (np.ones(6, np.float32), {"axis": 7}, "PTO2203"),
        (np.ones((4, 2), np.float32), {"block_size": 2}, "PTO2205"),
    ],
)
def test_shapes_that_the_checker_lets_pass(cli, tmp_path, scale, attrs, code):
    path = tmp_path / "m.onnx"
    made = one("QuantizeLinear", {"x": X, "s": scale}, U8, [4, 6], ("x",), **attrs)
    onnx.save(made, path)
    got = cli("quant", "onnx", path)
    assert (got.code, code in got.err, "node" in got.err) == (3, True, True), got.err


def test_scales_that_are_not_numbers(cli, tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(one("QuantizeLinear", {"x": X, "s": np.float32(np.nan)}, U8, [4, 6], ("x",)), path)
    got = cli("quant", "onnx", path, "--target", "a5")
    assert got.code in (0, 1)
    assert "PTO7201" in got.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--arg", "z=zeros:f32:4x6"], "the model has no input `z`"),
        (["--arg", "x=zeros:f32:4x5"], "input `x` is float32 4x6, not float32 4x5"),
        (["--arg", "x=zeros:f16:4x6"], "not float16 4x6"),
        (["--arg", "x"], "--arg"),
        (["--target", "b7"], "unknown target"),
        (["--out", "q=q.npy", "--target", "a5"], "the model has no output `q`"),
        (["--emit", "/dev/null/x", "--target", "a5"], "cannot write to"),
    ],
)
def test_arguments(cli, good, arguments, words):
    got = cli("quant", "onnx", good, *arguments)
    assert (got.code, words in got.err) == (2, True), got.err
