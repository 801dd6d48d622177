"""ONNX models that are changed as models: attributes, tensors, types, shapes, nodes and their names.
Changed bytes are hardly ever a model that a command looks at."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import numpy as np

NUMBERS = (0, 1, -1, 2, 3, 7, 255, 2**31, 2**40, 2**63 - 1, -(2**63))
SIZES = (0, 1, 2, 3, 5, 8, 16, -1, 2**20, 2**40)
OPERATIONS = (
    "MatMul", "Gemm", "Conv", "Add", "Mul", "Sub", "Div", "Relu", "Clip", "Gelu", "Softmax", "Reshape",
    "Transpose", "Flatten", "Identity", "Cast", "QuantizeLinear", "DequantizeLinear", "QLinearMatMul",
    "QLinearConv", "MatMulInteger", "ConvInteger", "DynamicQuantizeLinear", "LayerNormalization",
    "Constant", "Sigmoid", "Concat", "Split", "ReduceMean", "Slice", "Pad", "Squeeze", "Unknown", "",
)  # fmt: skip


@cache
def models() -> list[bytes]:
    """Return what is changed: quantised and float models; none where the package is missing."""
    try:
        import onnx  # noqa: F401
        from onnx import TensorProto

        from tests.models.convert.models import conv_net, exported, mlp
        from tests.models.lower.models import multilayer, one
    except ImportError:
        return []
    rng = np.random.default_rng(3)
    scale, zero = np.float32(0.05), np.int8(3)
    weights = rng.integers(-128, 128, (8, 4)).astype(np.int8)
    made = (
        mlp((8, 4, 2), 4),
        exported(m=4, k=8, n=6),
        multilayer(rng),
        conv_net(),
        one("QuantizeLinear", {"x": rng.random((4, 8), np.float32), "s": scale, "z": zero},
            TensorProto.INT8, [4, 8], ("x",)),
        one("DequantizeLinear", {"q": weights, "s": scale, "z": zero}, TensorProto.FLOAT, [8, 4]),
        one("MatMulInteger", {"a": rng.integers(0, 9, (4, 8)).astype(np.uint8), "b": weights},
            TensorProto.INT32, [4, 4], ("a",)),
    )  # fmt: skip
    return [model.SerializeToString() for model in made]


def changed(rng: Random) -> bytes:
    """Return a model after one to three changes."""
    import onnx

    model = onnx.load_from_string(rng.choice(models()))
    for _ in range(rng.choice((1, 1, 2, 3))):
        rng.choice(_CHANGES)(model, rng)
    return model.SerializeToString()


def samples(content: bytes) -> dict[str, np.ndarray]:
    """Return two samples of the inputs of a model as far as they have sizes, else of one input x."""
    import onnx

    rng, found = np.random.default_rng(1), {}
    try:
        inputs = onnx.load_from_string(content).graph.input
    except Exception:  # bytes that are no model
        inputs = ()
    for wire in inputs:
        dims = [d.dim_value for d in wire.type.tensor_type.shape.dim]
        if all(0 <= d <= 64 for d in dims):
            found[wire.name or "x"] = rng.standard_normal((2, *dims)).astype(np.float32)
    return found or {"x": rng.standard_normal((2, 4, 8)).astype(np.float32)}


# -- changes --------------------------------------------------------------------------------------


def _node(model: Any, rng: Random) -> Any:
    return rng.choice(model.graph.node) if model.graph.node else model.graph.node.add()


def _attribute(model: Any, rng: Random) -> None:
    """Another value, or another kind of it; or an attribute that the node does not have."""
    from onnx import helper

    node = _node(model, rng)
    names = [a.name for a in node.attribute] or ["axis", "pads", "strides", "group", "to", "alpha"]
    name = rng.choice((*names, "axis", "dilations", "kernel_shape", "auto_pad", "block_size"))
    kept = [a for a in node.attribute if a.name != name]
    value = rng.choice(
        (rng.choice(NUMBERS), [rng.choice(NUMBERS[:7])], [1, 2], [1, 1, 1, 1], 0.5, float("nan"),
         "SAME_UPPER", [0.5], "", np.float32(3))
    )  # fmt: skip
    del node.attribute[:]
    made = helper.make_attribute(name, float(value) if isinstance(value, np.float32) else value)
    node.attribute.extend([*kept, made])


def _wire(model: Any, rng: Random) -> None:
    """Another name in the place of an input or output of a node: an old one, none, or a new one."""
    node = _node(model, rng)
    names = [n for other in model.graph.node for n in (*other.input, *other.output)]
    names += [t.name for t in model.graph.initializer]
    place = node.input if rng.random() < 0.7 or not node.output else node.output
    if place and rng.random() < 0.8:
        place[rng.randrange(len(place))] = rng.choice((*names, "", "new"))
    elif place and rng.random() < 0.5:
        place.pop()
    else:
        place.append(rng.choice((*names, "")))


def _operation(model: Any, rng: Random) -> None:
    node = _node(model, rng)
    node.op_type = rng.choice(OPERATIONS)
    if rng.random() < 0.1:
        node.domain = rng.choice(("ai.onnx", "com.microsoft", "x"))


def _nodes(model: Any, rng: Random) -> None:
    nodes = list(model.graph.node)
    if not nodes:
        return
    at = rng.randrange(len(nodes))
    match rng.randrange(3):
        case 0:
            del nodes[at]
        case 1:
            nodes.insert(at, nodes[at])
        case _:
            rng.shuffle(nodes)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _tensor(model: Any, rng: Random) -> None:
    """A constant of another type, shape or content, or bytes that are not its own."""
    from onnx import numpy_helper

    tensors = model.graph.initializer
    if not tensors:
        return
    tensor = rng.choice(tensors)
    try:
        array = numpy_helper.to_array(tensor)
    except Exception:  # an earlier change broke it
        return
    match rng.randrange(6):
        case 0:
            tensor.data_type = rng.randrange(24)
            return
        case 1 if tensor.dims:
            tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(SIZES)
            return
        case 2:
            tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)]
            return
        case 3:
            words = (
                np.float32,
                np.float16,
                np.float64,
                np.int8,
                np.uint8,
                np.int32,
                np.int64,
                bool,
            )
            with np.errstate(all="ignore"):
                array = array.astype(rng.choice(words))
        case 4:
            shapes = ((), (1,), (0,), array.shape[::-1], (1, *array.shape), (array.size,))
            array = np.resize(array, rng.choice(shapes))
        case _:
            fills = (
                (0, 1, -1, 127)
                if array.dtype.kind in "iub"
                else (0, -1, np.nan, np.inf, 1e38, 1e-45)
            )
            with np.errstate(all="ignore"):
                array = np.full(array.shape, rng.choice(fills)).astype(array.dtype)
    name = tensor.name
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), name))


def _declared(model: Any, rng: Random) -> None:
    """Another type or shape of an input or output; or one more, or one less."""
    wires = rng.choice((model.graph.input, model.graph.output))
    if not wires:
        return
    wire = rng.choice(wires)
    dims = wire.type.tensor_type.shape.dim
    match rng.randrange(6):
        case 0:
            wire.type.tensor_type.elem_type = rng.randrange(24)
        case 1 if dims:
            rng.choice(dims).dim_value = rng.choice(SIZES)
        case 2 if dims:
            rng.choice(dims).dim_param = rng.choice(("N", "", "batch size"))
        case 3:
            wires.append(wire)
        case 4:
            del wires[:]
        case _:
            wire.name = rng.choice(("", "x", "y", "new"))


def _version(model: Any, rng: Random) -> None:
    if rng.random() < 0.3:
        model.ir_version = rng.choice((0, 3, 8, 11, 2**40))
    elif model.opset_import:
        model.opset_import[0].version = rng.choice((0, 1, 9, 10, 13, 19, 22, 25, 99, 2**40))


_CHANGES: tuple[Callable[[Any, Random], None], ...] = (
    _attribute, _attribute, _wire, _wire, _operation, _operation, _nodes, _tensor, _tensor, _tensor,
    _declared, _version,
)  # fmt: skip
