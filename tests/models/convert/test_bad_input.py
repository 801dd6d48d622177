"""Bad models and data: one line, the code, the exit code; nothing is written."""

from __future__ import annotations

import io

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ptosim.ground.errors import UsageError
from ptosim.models.conversion.source import read
from tests.models.convert import models
from tests.models.lower.models import model, one

F = TensorProto.FLOAT


def outcome(cli, tmp_path, proto, data, *more):
    onnx.save(proto, tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", **data)
    return cli(
        "quant", "convert", tmp_path / "m.onnx", "--calibration", tmp_path / "d.npz",
        "-o", tmp_path / "out", "--target", "a5", *more,
    )  # fmt: skip


def refused(got, tmp_path, code: int, *words: str) -> None:
    assert got.code == code
    assert "Traceback" not in got.err
    assert not (tmp_path / "out").exists()
    for word in words:
        assert word in got.err


X = {"x": np.zeros((16, 48), np.float32) + 1}


@pytest.mark.slow
def test_operators_that_are_not_known(cli, tmp_path):
    proto = models.mlp()
    proto.graph.node.insert(0, helper.make_node("EyeLike", ["x"], ["s"], "ones"))
    proto.graph.node[1].input[0] = "s"
    refused(outcome(cli, tmp_path, proto, X), tmp_path, 5, "PTO7640", "EyeLike")
    got = outcome(cli, tmp_path, proto, X, "--partial")
    assert got.code == 0
    assert "EyeLike ones is computed by the host" in got.out


@pytest.mark.parametrize("of_a_runtime", [False, True])
def test_a_constant_with_fewer_bytes_than_its_shape(cli, tmp_path, of_a_runtime):
    """Operators of a runtime are written in ONNX's own before ONNX can check the model."""
    proto = models.mlp()
    cut = proto.graph.initializer[0]
    cut.raw_data = cut.raw_data[:-3]
    if of_a_runtime:
        proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        proto.graph.node.insert(0, helper.make_node("Gelu", ["x"], ["g"], domain="com.microsoft"))
        proto.graph.node[1].input[0] = "g"
    refused(outcome(cli, tmp_path, proto, X), tmp_path, 3, "PTO0201", cut.name)


@pytest.mark.slow
def test_dimensions_without_a_size(cli, tmp_path):
    proto = models.mlp()
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    pixels = {"x": np.ones(16 * 48, np.float32)}
    refused(outcome(cli, tmp_path, proto, pixels), tmp_path, 3, "PTO7641", "batch")
    refused(outcome(cli, tmp_path, proto, X, "--dim", "n=16"), tmp_path, 2, "no dimension `n`")
    refused(outcome(cli, tmp_path, proto, X, "--dim", "batch=x"), tmp_path, 2, "positive size")
    assert outcome(cli, tmp_path, proto, X, "--dim", "batch=16").code == 0
    assert outcome(cli, tmp_path, proto, X).code == 0  # that of the samples


@pytest.mark.parametrize(
    ("data", "word"),
    [
        ({"x": np.zeros((16, 32), np.float32)}, "16x48, the data is 16x32"),
        ({"z": np.zeros((16, 48), np.float32)}, "no values for input `x`"),
        ({"x": np.zeros((16, 48), np.int32)}, "the data is int32"),
        ({"x": np.full((16, 48), np.nan, np.float32)}, "NaN"),
    ],
)
def test_data_that_does_not_fit(cli, tmp_path, data, word):
    refused(outcome(cli, tmp_path, models.mlp(), data), tmp_path, 2, "PTO7642", word)


def test_weights_that_are_no_numbers(cli, tmp_path):
    proto = models.mlp()
    weights = onnx.numpy_helper.to_array(proto.graph.initializer[0]).copy()
    weights[0, 0] = np.nan
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, "w0"))
    refused(outcome(cli, tmp_path, proto, X), tmp_path, 3, "PTO7643", "`w0`: 1 of")


def test_models_without_anything_to_quantise(cli, tmp_path):
    x = np.zeros((16, 48), np.float32)
    relu = one("Relu", {"x": x}, F, [16, 48], ("x",))
    refused(outcome(cli, tmp_path, relu, X), tmp_path, 3, "PTO7646")
    exported = models.exported()
    got = outcome(cli, tmp_path, exported, {"x": np.zeros((32, 64), np.float32)})
    refused(got, tmp_path, 3, "PTO7644")


def test_files(cli, tmp_path):
    onnx.save(models.mlp(), tmp_path / "m.onnx")
    (tmp_path / "d.npz").write_bytes(b"no archive")
    for data in ("d.npz", "none.npz"):
        got = cli("quant", "convert", tmp_path / "m.onnx", "--calibration", tmp_path / data)
        refused(got, tmp_path, 2, "cannot read")
    assert cli("quant", "convert", tmp_path / "m.onnx").code == 2
    np.savez(tmp_path / "d.npz", **X)
    for wrong in (("-o", tmp_path / "m.onnx"), ("--max-drop", "0"), ("--max-drop", "nan")):
        got = cli(
            "quant", "convert", tmp_path / "m.onnx", "--calibration", tmp_path / "d.npz", *wrong
        )
        refused(got, tmp_path, 2, "error: ")


@pytest.mark.slow
def test_a_float_model_is_sent_to_convert(cli, tmp_path):
    onnx.save(models.mlp(), tmp_path / "m.onnx")
    got = cli("quant", "onnx", tmp_path / "m.onnx", "--target", "a5", "--fail-on", "never")
    assert "PTO7645" in got.err
    assert "ptosim quant convert" in got.err


def test_what_is_not_fused_says_why():
    from ptosim.models.fusion.groups import fuse
    from ptosim.models.onnx_model import graph_of

    node = helper.make_node
    constants = {
        "s": np.float32(0.5), "z": np.int8(0), "rows": np.ones(4, np.float32), "zr": np.zeros(4, np.int8),
        "w": np.ones((4, 3), np.int8), "f": np.ones((4, 3), np.float32),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"], "q"),
        node("DequantizeLinear", ["q", "s", "z"], ["d"], "d"),
        node("DequantizeLinear", ["w", "rows", "zr"], ["wd"], "wd", axis=0),
        node("MatMul", ["d", "wd"], ["y1"], "summed"),
        node("MatMul", ["d", "f"], ["y2"], "floats"),
    ]
    made = fuse(
        graph_of(
            model(nodes, [("x", F, [2, 4])], [("y1", F, [2, 3]), ("y2", F, [2, 3])], constants)
        )
    )
    assert not made.groups
    assert made.why_not["summed"] == "`w` has scales along axis 0, which is summed over"
    assert made.why_not["floats"] == "operand `f` is not quantised: it is a constant"


def test_archives_that_are_damaged(tmp_path):
    """Each way in which NumPy's own reader ends in another error; the reader of SPECs knows them."""
    whole = io.BytesIO()
    np.savez_compressed(whole, x=np.arange(64, dtype=np.float32))
    content = whole.getvalue()
    entry = content.index(b"PK\x01\x02")
    start = 30 + 5  # of the header and the name `x.npy`
    for at, value in (
        (start + 25, b"\xff\xff\xff"),  # what is compressed
        (entry + 8, b"\x01"),  # flags: with a password
        (entry + 10, b"\x63"),  # a compression that nobody has
        (entry + 6, b"\xfa"),  # version 25.0
    ):
        data = tmp_path / "d.npz"
        data.write_bytes(content[:at] + value + content[at + len(value) :])
        with pytest.raises(UsageError, match=r"d\.npz"):
            read(str(data))
    np.savez(tmp_path / "d.npz", x=np.full((4, 8), "abc"))
    with pytest.raises(UsageError, match="is not a NumPy file of numbers"):
        read(str(tmp_path / "d.npz"))
