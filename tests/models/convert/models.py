"""Float models with outliers in their weights, made here: an MLP, a small convolutional net, one
transformer block; and one as onnxruntime's quantiser exports it."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.models.lower.models import model

F = TensorProto.FLOAT


def outliers(rng: np.random.Generator, shape: tuple[int, ...], depth: int) -> np.ndarray:
    """Weights of variance 1/depth, one in fifty of them four times as large."""
    w = rng.standard_normal(shape) / np.sqrt(depth)
    return (w * np.where(rng.random(shape) < 0.02, 4, 1)).astype(np.float32)


def mlp(sizes: tuple[int, ...] = (48, 64, 32, 10), batch: int = 16, seed: int = 0):
    """Return MatMul, Add, Relu in turn; the last layer has no Relu."""
    rng, nodes, constants, x = np.random.default_rng(seed), [], {}, "x"
    for i, (k, n) in enumerate(itertools.pairwise(sizes)):
        constants[f"w{i}"] = outliers(rng, (k, n), k)
        constants[f"b{i}"] = (rng.standard_normal(n) / 10).astype(np.float32)
        nodes.append(helper.make_node("MatMul", [x, f"w{i}"], [f"m{i}"], f"fc{i}"))
        nodes.append(helper.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}"], f"add{i}"))
        x = f"a{i}"
        if i < len(sizes) - 2:
            nodes.append(helper.make_node("Relu", [x], [f"r{i}"], f"relu{i}"))
            x = f"r{i}"
    nodes[-1].output[0] = "y"
    return model(nodes, [("x", F, [batch, sizes[0]])], [("y", F, [batch, sizes[-1]])], constants)


def conv_net(seed: int = 1) -> onnx.ModelProto:
    """Return conv, Relu, conv, residual sum, Relu, conv of stride 2, Relu, Flatten, Gemm."""
    rng = np.random.default_rng(seed)
    node, c = helper.make_node, 8
    constants = {
        "w0": outliers(rng, (c, 3, 3, 3), 27), "b0": (rng.standard_normal(c) / 10).astype(np.float32),
        "w1": outliers(rng, (c, c, 3, 3), 72), "b1": (rng.standard_normal(c) / 10).astype(np.float32),
        "w2": outliers(rng, (4, c, 3, 3), 72),
        "w3": outliers(rng, (10, 64), 64), "b3": (rng.standard_normal(10) / 10).astype(np.float32),
    }  # fmt: skip
    same = {"pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["c0"], "conv0", **same),
        node("Relu", ["c0"], ["r0"], "relu0"),
        node("Conv", ["r0", "w1", "b1"], ["c1"], "conv1", **same),
        node("Add", ["c1", "r0"], ["s"], "sum"),
        node("Relu", ["s"], ["r1"], "relu1"),
        node("Conv", ["r1", "w2"], ["c2"], "conv2", strides=[2, 2], **same),
        node("Relu", ["c2"], ["r2"], "relu2"),
        node("Flatten", ["r2"], ["f"], "flat"),
        node("Gemm", ["f", "w3", "b3"], ["y"], "head", transB=1),
    ]
    return model(nodes, [("x", F, [1, 3, 8, 8])], [("y", F, [1, 10])], constants)


def block(seed: int = 2, tokens: int = 16, width: int = 64, heads: int = 2) -> onnx.ModelProto:
    """Return a transformer block before its norms: attention and a Gelu MLP, each with a residual."""
    rng = np.random.default_rng(seed)
    node, each = helper.make_node, width // heads
    constants: dict[str, np.ndarray] = {"shape": np.array([tokens, heads, each], np.int64)}
    constants |= {"flat": np.array([tokens, width], np.int64)}
    constants["gain"] = np.float32(1 / np.sqrt(each))
    for name in ("wq", "wk", "wv", "wo"):
        constants[name] = outliers(rng, (width, width), width)
    constants["wu"] = outliers(rng, (width, 2 * width), width)
    constants["wd"] = outliers(rng, (2 * width, width), 2 * width)
    constants["bu"] = (rng.standard_normal(2 * width) / 10).astype(np.float32)
    for i in (1, 2):
        constants[f"g{i}"] = (1 + rng.standard_normal(width) / 10).astype(np.float32)
        constants[f"h{i}"] = (rng.standard_normal(width) / 10).astype(np.float32)
    nodes = [node("LayerNormalization", ["x", "g1", "h1"], ["n1"], "norm1")]
    for name, perm in (("q", [1, 0, 2]), ("k", [1, 2, 0]), ("v", [1, 0, 2])):
        nodes += [
            node("MatMul", ["n1", f"w{name}"], [name], name),
            node("Reshape", [name, "shape"], [f"{name}r"], f"{name}_heads"),
            node("Transpose", [f"{name}r"], [f"{name}t"], f"{name}_turn", perm=perm),
        ]
    nodes += [
        node("MatMul", ["qt", "kt"], ["s"], "scores"),
        node("Mul", ["s", "gain"], ["sg"], "scaled"),
        node("Softmax", ["sg"], ["p"], "softmax", axis=-1),
        node("MatMul", ["p", "vt"], ["o"], "mixed"),
        node("Transpose", ["o"], ["ot"], "o_turn", perm=[1, 0, 2]),
        node("Reshape", ["ot", "flat"], ["of"], "o_flat"),
        node("MatMul", ["of", "wo"], ["z"], "out"),
        node("Add", ["x", "z"], ["r"], "residual1"),
        node("LayerNormalization", ["r", "g2", "h2"], ["n2"], "norm2"),
        node("MatMul", ["n2", "wu"], ["u"], "up"),
        node("Add", ["u", "bu"], ["ub"], "up_bias"),
        node("Gelu", ["ub"], ["g"], "gelu"),
        node("MatMul", ["g", "wd"], ["d"], "down"),
        node("Add", ["r", "d"], ["y"], "residual2"),
    ]
    shape = [tokens, width]
    return model(nodes, [("x", F, shape)], [("y", F, shape)], constants)


def exported(seed: int = 3, m: int = 32, k: int = 64, n: int = 48) -> onnx.ModelProto:
    """Return one layer as onnxruntime's static quantiser exports it: Q, DQ, MatMul, Add, Relu, Q, DQ
    with scales of full precision."""
    rng, node = np.random.default_rng(seed), helper.make_node
    constants = {
        "xs": np.float32(0.0217), "xz": np.uint8(121), "ws": np.float32(0.0131), "wz": np.int8(0),
        "w": rng.integers(-127, 128, (k, n)).astype(np.int8), "b": rng.standard_normal(n).astype(np.float32),
        "ys": np.float32(0.1173), "yz": np.uint8(0),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["xq"], "x_q"),
        node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"], "x_dq"),
        node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], "w_dq"),
        node("MatMul", ["xd", "wd"], ["p"], "product"),
        node("Add", ["p", "b"], ["a"], "bias"),
        node("Relu", ["a"], ["r"], "relu"),
        node("QuantizeLinear", ["r", "ys", "yz"], ["yq"], "y_q"),
        node("DequantizeLinear", ["yq", "ys", "yz"], ["y"], "y_dq"),
    ]
    return model(nodes, [("x", F, [m, k])], [("y", F, [m, n])], constants)
