"""Small networks in the shapes that exporters write, with samples for their inputs: open sizes,
arithmetic of shapes, what training leaves, branches, recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F, I64 = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node
Made = tuple[onnx.ModelProto, dict[str, np.ndarray]]


def build(nodes, inputs, outputs, constants, opset=17) -> onnx.ModelProto:
    """Return a model; sizes may be numbers, names, -1 and None, a shape None."""
    graph = helper.make_graph(
        nodes, "g", [wire(*w) for w in inputs], [wire(*w) for w in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def wire(name: str, kind: int, shape):
    made = helper.make_tensor_value_info(name, kind, None)
    if shape is not None:
        made.type.tensor_type.shape.SetInParent()
        for size in shape:
            dim = made.type.tensor_type.shape.dim.add()
            if isinstance(size, str):
                dim.dim_param = size
            elif size is not None:
                dim.dim_value = size
    return made


def weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    depth = int(np.prod(shape[1:])) if len(shape) == 4 else shape[-2] if len(shape) > 1 else 1
    return (rng.standard_normal(shape) / np.sqrt(depth)).astype(np.float32)


def _norm(rng: np.random.Generator, name: str, size: int) -> dict[str, np.ndarray]:
    return {
        f"{name}.s": (1 + rng.random(size)).astype(np.float32),
        f"{name}.b": rng.standard_normal(size).astype(np.float32),
        f"{name}.m": (rng.standard_normal(size) / 4).astype(np.float32),
        f"{name}.v": (0.5 + rng.random(size)).astype(np.float32),
    }


def mobile() -> Made:
    """paddle2onnx: sizes of -1, BatchNormalization after Conv, HardSwish in parts (Add, Clip, Mul,
    Div), a depthwise convolution, a gate of HardSigmoid, a classifier of MatMul and Add."""
    rng = np.random.default_rng(0)
    c: dict[str, Any] = {
        "w0": weights(rng, 8, 3, 3, 3),
        "w1": weights(rng, 8, 1, 3, 3),
        "w2": weights(rng, 8, 8, 1, 1),
    }
    c |= _norm(rng, "n0", 8) | _norm(rng, "n1", 8)
    c |= {
        "three": np.float32(3),
        "six": np.float32(6),
        "zero": np.float32(0),
        "b2": weights(rng, 8),
    }
    c |= {"w3": weights(rng, 8, 10), "b3": weights(rng, 10), "shape": np.array([0, -1], np.int64)}
    nodes = [
        node("Conv", ["x", "w0"], ["c0"], pads=[1, 1, 1, 1], strides=[2, 2], kernel_shape=[3, 3]),
        node("BatchNormalization", ["c0", "n0.s", "n0.b", "n0.m", "n0.v"], ["d0"]),
        node("Add", ["d0", "three"], ["h0"]), node("Clip", ["h0", "zero", "six"], ["h1"]),
        node("Mul", ["d0", "h1"], ["h2"]), node("Div", ["h2", "six"], ["h3"]),
        node("Conv", ["h3", "w1"], ["c1"], pads=[1, 1, 1, 1], group=8),
        node("BatchNormalization", ["c1", "n1.s", "n1.b", "n1.m", "n1.v"], ["d1"]),
        node("HardSwish", ["d1"], ["r1"]),
        node("GlobalAveragePool", ["r1"], ["g"]), node("Conv", ["g", "w2", "b2"], ["g1"]),
        node("HardSigmoid", ["g1"], ["g2"], alpha=0.1666667, beta=0.5),
        node("Mul", ["r1", "g2"], ["r2"]), node("AveragePool", ["r2"], ["p"], kernel_shape=[2, 2],
                                                strides=[2, 2]),
        node("ReduceMean", ["p"], ["q"], axes=[2, 3], keepdims=1),
        node("Reshape", ["q", "shape"], ["f"]), node("MatMul", ["f", "w3"], ["m"]),
        node("Add", ["m", "b3"], ["y"]),
    ]  # fmt: skip
    x = rng.standard_normal((2, 3, 12, 12)).astype(np.float32)
    return build(nodes, [("x", F, [-1, 3, -1, -1])], [("y", F, [-1, 10])], c, 14), {"x": x}


def torch_shapes() -> Made:
    """torch.onnx of x.view(x.size(0), -1) and nn.Linear: Shape, Gather, Unsqueeze, Concat, Reshape;
    Gemm with transB; Dropout and Identity; Constant nodes."""
    rng = np.random.default_rng(1)
    c: dict[str, Any] = {
        "w0": weights(rng, 32, 48),
        "b0": weights(rng, 32),
        "w1": weights(rng, 10, 32),
        "b1": weights(rng, 10),
    }
    one = numpy_helper.from_array(np.array([-1], np.int64))
    nodes = [
        node("Shape", ["x"], ["s"]), node("Constant", [], ["i"], value=numpy_helper.from_array(np.int64(0))),
        node("Gather", ["s", "i"], ["n"], axis=0),
        node("Constant", [], ["ax"], value=numpy_helper.from_array(np.array([0], np.int64))),
        node("Unsqueeze", ["n", "ax"], ["n1"]), node("Constant", [], ["rest"], value=one),
        node("Concat", ["n1", "rest"], ["to"], axis=0), node("Reshape", ["x", "to"], ["f"]),
        node("Gemm", ["f", "w0", "b0"], ["a"], transB=1, alpha=1.0, beta=1.0),
        node("LeakyRelu", ["a"], ["r"], alpha=0.1), node("Dropout", ["r"], ["d"]),
        node("Identity", ["d"], ["e"]),
        node("Gemm", ["e", "w1", "b1"], ["y"], transB=1, alpha=0.5, beta=2.0),
    ]  # fmt: skip
    x = rng.standard_normal((4, 3, 4, 4)).astype(np.float32)
    return build(nodes, [("x", F, ["batch", 3, 4, 4])], [("y", F, ["batch", 10])], c, 13), {"x": x}


def keras() -> Made:
    """tf2onnx: images with channels last, Transpose before and after each Conv, a pool of SAME,
    Softmax."""
    rng = np.random.default_rng(2)
    c: dict[str, Any] = {
        "w0": weights(rng, 8, 3, 3, 3),
        "b0": weights(rng, 8),
        "w1": weights(rng, 8, 8, 3, 3),
        "w2": weights(rng, 32, 5),
    }
    c |= {"to": np.array([-1, 32], np.int64)}
    first, last = [0, 3, 1, 2], [0, 2, 3, 1]
    nodes = [
        node("Transpose", ["x"], ["t0"], perm=first),
        node("Conv", ["t0", "w0", "b0"], ["c0"], auto_pad="SAME_UPPER", strides=[2, 2]),
        node("Transpose", ["c0"], ["u0"], perm=last), node("Transpose", ["u0"], ["t1"], perm=first),
        node("Relu", ["t1"], ["r0"]),
        node("Conv", ["r0", "w1"], ["c1"], auto_pad="SAME_LOWER"), node("Relu", ["c1"], ["r1"]),
        node("MaxPool", ["r1"], ["p"], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
        node("Transpose", ["p"], ["u1"], perm=last), node("Reshape", ["u1", "to"], ["f"]),
        node("MatMul", ["f", "w2"], ["m"]), node("Softmax", ["m"], ["y"]),
    ]  # fmt: skip
    x = rng.standard_normal((1, 8, 8, 3)).astype(np.float32)
    return build(nodes, [("x", F, ["unk__1", 8, 8, 3])], [("y", F, ["unk__2", 5])], c, 15), {"x": x}


def decoder(tokens: int = 8, width: int = 32) -> Made:
    """A decoder layer: token numbers, an embedding, LayerNorm in parts, a causal mask of -inf made
    from the length (Range, Less, Where), attention, Gelu in parts."""
    rng = np.random.default_rng(3)
    c: dict[str, Any] = {
        "table": weights(rng, 50, width),
        "eps": np.float32(1e-5),
        "two": np.float32(2),
    }
    c |= {f"w{n}": weights(rng, width, width) for n in "qkvo"}
    c |= {
        "up": weights(rng, width, 2 * width),
        "down": weights(rng, 2 * width, width),
        "zero": np.int64(0),
    }
    c |= {
        "one": np.int64(1),
        "root": np.float32(np.sqrt(2)),
        "half": np.float32(0.5),
        "unit": np.float32(1),
    }
    c |= {
        "gain": np.float32(width**-0.5),
        "far": np.float32(-np.inf),
        "none": np.float32(0),
        "ax0": np.array([0], np.int64),
        "ax1": np.array([1], np.int64),
    }
    c |= {"g": np.ones(width, np.float32), "h": np.zeros(width, np.float32)}
    nodes = [
        node("Gather", ["table", "ids"], ["e"], axis=0), node("Shape", ["ids"], ["s"]),
        node("Gather", ["s", "one"], ["n"], axis=0), node("Range", ["zero", "n", "one"], ["r"]),
        node("Unsqueeze", ["r", "ax0"], ["cols"]), node("Unsqueeze", ["r", "ax1"], ["rows"]),
        node("Less", ["rows", "cols"], ["later"]), node("Where", ["later", "far", "none"], ["mask"]),
        node("ReduceMean", ["e"], ["mean"], axes=[-1]), node("Sub", ["e", "mean"], ["mid"]),
        node("Pow", ["mid", "two"], ["sq"]), node("ReduceMean", ["sq"], ["var"], axes=[-1]),
        node("Add", ["var", "eps"], ["ve"]), node("Sqrt", ["ve"], ["sd"]), node("Div", ["mid", "sd"], ["nn"]),
        node("Mul", ["nn", "g"], ["ng"]), node("Add", ["ng", "h"], ["x"]),
        *(node("MatMul", ["x", f"w{n}"], [n]) for n in "qkv"),
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), node("MatMul", ["q", "kt"], ["sc"]),
        node("Mul", ["sc", "gain"], ["sg"]), node("Add", ["sg", "mask"], ["sm"]),
        node("Softmax", ["sm"], ["p"], axis=-1), node("MatMul", ["p", "v"], ["o"]),
        node("MatMul", ["o", "wo"], ["oo"]), node("Add", ["e", "oo"], ["res"]),
        node("MatMul", ["res", "up"], ["u"]), node("Div", ["u", "root"], ["ur"]), node("Erf", ["ur"], ["ue"]),
        node("Add", ["ue", "unit"], ["u1"]), node("Mul", ["u", "u1"], ["u2"]), node("Mul", ["u2", "half"], ["gelu"]),
        node("MatMul", ["gelu", "down"], ["dn"]), node("Add", ["res", "dn"], ["y"]),
    ]  # fmt: skip
    ids = rng.integers(0, 50, (1, tokens))
    return build(
        nodes, [("ids", I64, ["batch", "seq"])], [("y", F, ["batch", "seq", width])], c, 16
    ), {"ids": ids}


def recurrent(kind: str = "LSTM", direction: str = "bidirectional", before: int = 0) -> Made:
    """torch.onnx of nn.LSTM or nn.GRU, and a linear layer on the last states."""
    rng, steps, wide, h = np.random.default_rng(4), 3, 32, 32
    gates, ways = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 1 + (direction == "bidirectional")
    c: dict[str, Any] = {
        "W": weights(rng, ways, gates * h, wide) * np.float32(3), "R": (rng.standard_normal((ways, gates * h, h)) / 6).astype(np.float32),
        "B": (rng.standard_normal((ways, 2 * gates * h)) / 4).astype(np.float32),
        "h0": (rng.standard_normal((ways, 2, h)) / 4).astype(np.float32), "w": weights(rng, ways * h, 6),
        "flat": np.array([steps, 2, ways * h], np.int64),
    }  # fmt: skip
    c["W"] /= np.sqrt(wide).astype(np.float32)
    more = {"linear_before_reset": before} if kind == "GRU" else {}
    nodes = [
        node(kind, ["x", "W", "R", "B", "", "h0"], ["Y", "Yh"], hidden_size=h, direction=direction, **more),
        node("Transpose", ["Y"], ["Yt"], perm=[0, 2, 1, 3]), node("Reshape", ["Yt", "flat"], ["f"]),
        node("MatMul", ["f", "w"], ["y"]),
    ]  # fmt: skip
    x = rng.standard_normal((steps, 2, wide)).astype(np.float32)
    return build(nodes, [("x", F, ["seq", 2, wide])], [("y", F, None), ("Yh", F, None)], c, 14), {
        "x": x
    }


def detector() -> Made:
    """A head of a detector: ConvTranspose, Resize (nearest of 2, linear of half pixels), Concat,
    Split of boxes and scores, ReduceMax and ArgMax of classes; no shape is written for outputs."""
    rng = np.random.default_rng(5)
    c: dict[str, Any] = {"w0": weights(rng, 16, 4, 3, 3), "b0": weights(rng, 4), "s": np.array([1, 1, 2, 2], np.float32),
         "w1": weights(rng, 12, 24, 3, 3), "b1": weights(rng, 12), "parts": np.array([4, 8], np.int64)}  # fmt: skip
    nodes = [
        node("ConvTranspose", ["x", "w0", "b0"], ["u"], strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
        node("Slice", ["x", "from", "to", "axes"], ["x4"]),
        node("Resize", ["x4", "", "s"], ["n"], mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"),
        node("Resize", ["x", "", "s"], ["l"], mode="linear"), node("Concat", ["u", "n", "l"], ["cat"], axis=1),
        node("Conv", ["cat", "w1", "b1"], ["c"], pads=[1, 1, 1, 1]),
        node("Split", ["c", "parts"], ["boxes", "scores"], axis=1),
        node("Sigmoid", ["scores"], ["y"]), node("ReduceMax", ["y"], ["best"], axes=[1], keepdims=0),
        node("ArgMax", ["y"], ["which"], axis=1, keepdims=0),
    ]  # fmt: skip
    c |= {
        "from": np.array([0], np.int64),
        "to": np.array([4], np.int64),
        "axes": np.array([1], np.int64),
    }
    x = rng.standard_normal((1, 16, 5, 6)).astype(np.float32)
    outputs = [("boxes", F, None), ("y", F, None), ("best", F, None), ("which", I64, None)]
    return build(nodes, [("x", F, None)], outputs, c, 13), {"x": x}


def branching() -> Made:
    """torch.onnx of squeeze(): If the axis has one element, Squeeze, else Identity, in branches
    that take a value from outside; the condition follows from the shape."""
    rng = np.random.default_rng(6)
    c: dict[str, Any] = {
        "w": weights(rng, 32, 16),
        "i": np.array([1], np.int64),
        "one": np.array([1], np.int64),
    }
    yes = helper.make_graph([node("Squeeze", ["x", "one"], ["sq"])], "t", [], [wire("sq", F, None)])
    no = helper.make_graph([node("Identity", ["x"], ["same"])], "e", [], [wire("same", F, None)])
    nodes = [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "i"], ["n"]), node("Equal", ["n", "one"], ["is"]),
        node("If", ["is"], ["v"], then_branch=yes, else_branch=no), node("MatMul", ["v", "w"], ["y"]),
    ]  # fmt: skip
    x = rng.standard_normal((8, 1, 32)).astype(np.float32)
    return build(nodes, [("x", F, [None, None, 32])], [("y", F, None)], c, 13), {"x": x}


NETWORKS: dict[str, Callable[[], Made]] = {
    "mobile": mobile, "torch_shapes": torch_shapes, "keras": keras, "decoder": decoder,
    "lstm": recurrent, "gru": lambda: recurrent("GRU", "forward", 1), "detector": detector,
    "branching": branching,
}  # fmt: skip
