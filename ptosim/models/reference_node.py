"""Models and single nodes computed by onnx.reference: reference values, constants that are folded,
and what the host does between kernels.

Some operators of the package give other results than their definition (MaxPool with different pads
before and after, GlobalMaxPool of one axis, Softmax before operator set 13, LRN): those are
computed here. What it does not compute at all onnxruntime does, if it is installed."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.models.quant.onnx.ops import evaluate
from ptosim.models.quant.scaled import Window

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Values = Mapping[str, np.ndarray]


def every_name(
    proto: ModelProto, feeds: Values, *, is_quick: bool = False
) -> dict[str, np.ndarray]:
    """Return the value of every name that nodes of a model give, in a run: by onnx.reference, with
    pairs before operator set 19 computed here, or by onnxruntime where that fails. `is_quick`:
    convolutions are computed here, in another order of sums. Raises what onnx.reference raises if
    neither computes it."""
    try:
        return by_reference(proto, feeds, is_quick=is_quick, has_pairs=_opset_of(proto) < _PAIRS)
    except Exception as problem:  # whatever its operators raise
        found = _by_runtime(proto, feeds)
        if found is None:
            raise problem
        return found


_PAIRS = 19
"""The first operator set whose QuantizeLinear and DequantizeLinear onnx.reference has."""


def _opset_of(proto: ModelProto) -> int:
    return next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)


def by_reference(
    proto: ModelProto, feeds: Values, *, is_quick: bool = False, has_pairs: bool = False
) -> dict[str, np.ndarray]:
    """Return the same by onnx.reference alone; raises whatever it raises. `has_pairs`: nodes that
    quantise are computed here."""
    made = evaluator(proto, is_quick=is_quick, has_pairs=has_pairs)
    with np.errstate(all="ignore"):  # what is divided by 0 is infinity, and said by nobody
        found = made.run(None, dict(feeds), intermediate=True)
    del made
    gc.collect(1)  # its nodes know it: it would keep a copy of all constants for long
    assert isinstance(found, dict)  # of all names: `intermediate`
    return {n: np.asarray(v) for n, v in found.items() if n and v is not None}


def evaluator(proto: ModelProto, *, is_quick: bool = False, has_pairs: bool = False) -> Any:
    """Return onnx.reference's evaluator of a model, with what its operators do wrong put right."""
    from onnx.reference import ReferenceEvaluator

    opset = _opset_of(proto)
    pairs = _pairs(opset) if has_pairs else ()
    return ReferenceEvaluator(proto, new_ops=[*_corrected(opset < 13, is_quick), *pairs])


@cache
def _pairs(opset: int) -> tuple[Any, ...]:
    from onnx.reference.op_run import OpRun

    class QuantizeLinear(OpRun):
        op_domain = ""

        def _run(self, *inputs, **_):  # of attributes the node's own: others are of later sets
            own = {a.name: getattr(self, a.name) for a in self.onnx_node.attribute}
            return tuple(evaluate(type(self).__name__, list(inputs), own, opset=opset))

    class DequantizeLinear(QuantizeLinear):
        pass

    return QuantizeLinear, DequantizeLinear


@cache
def _corrected(is_flat: bool, is_quick: bool) -> tuple[Any, ...]:
    """Operators by their definition; `is_flat`: Softmax is that of the axis and all after it;
    `is_quick`: convolutions too."""
    from onnx.reference.op_run import OpRun

    class MaxPool(OpRun):
        op_domain = ""

        def _run(self, x, **attrs):
            window = Window(
                x.shape[2:], attrs["kernel_shape"], attrs.get("strides") or (),
                attrs.get("pads") or (), attrs.get("dilations") or (),
                attrs.get("auto_pad") or "NOTSET", bool(attrs.get("ceil_mode")),
            )  # fmt: skip
            return _largest(x, window, len(self.onnx_node.output), attrs.get("storage_order", 0))

    class GlobalMaxPool(OpRun):
        op_domain = ""

        def _run(self, x):
            return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)

    class LRN(OpRun):
        op_domain = ""

        def _run(self, x, alpha=1e-4, beta=0.75, bias=1.0, size=0):
            padded = np.zeros((x.shape[0], x.shape[1] + size - 1, *x.shape[2:]), x.dtype)
            before = (size - 1) // 2
            padded[:, before : before + x.shape[1]] = np.square(x)
            squares = sum(padded[:, i : i + x.shape[1]] for i in range(size))
            return ((x / (bias + alpha / size * squares) ** beta).astype(x.dtype),)

    class Softmax(OpRun):
        op_domain = ""

        def _run(self, x, axis=1):
            rows = np.exp(_low_rows(x, axis))
            return ((rows / rows.sum(axis=1, keepdims=True)).astype(x.dtype).reshape(x.shape),)

    class LogSoftmax(OpRun):
        op_domain = ""

        def _run(self, x, axis=1):
            rows = _low_rows(x, axis)
            made = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
            return (made.astype(x.dtype).reshape(x.shape),)

    always = (MaxPool, GlobalMaxPool, LRN, *(_quick() if is_quick else ()))
    return (*always, Softmax, LogSoftmax) if is_flat else always


def _quick() -> tuple[Any, ...]:
    """Convolutions as products of whole arrays."""
    from onnx.reference.op_run import OpRun

    class Conv(OpRun):
        op_domain = ""

        def _run(self, x, w, b=None, **attrs):
            window = Window(
                x.shape[2:], w.shape[2:], attrs.get("strides") or (), attrs.get("pads") or (),
                attrs.get("dilations") or (), attrs.get("auto_pad") or "NOTSET",
            )  # fmt: skip
            made = _convolved(x, w, window, attrs.get("group") or 1)
            if b is not None:
                made = made + b.reshape(-1, *[1] * (x.ndim - 2))
            return (made.astype(x.dtype),)

    return (Conv,)


def _convolved(x: np.ndarray, w: np.ndarray, window: Window, groups: int) -> np.ndarray:
    """The sum over the places of the window of the image there times the weights there."""
    batch, filters = x.shape[0], w.shape[0]
    parts = x.reshape(batch, groups, -1, *x.shape[2:])
    flat = w.reshape(groups, filters // groups, w.shape[1], -1)
    total = np.zeros((batch, groups, filters // groups, int(np.prod(window.out))), np.float32)
    for place, tap in enumerate(window.taps(parts)):
        total += flat[..., place] @ tap.reshape(batch, groups, w.shape[1], -1)
    return total.reshape(batch, filters, *window.out)


def _low_rows(x: np.ndarray, axis: int) -> np.ndarray:
    """The rows of all axes from one on, less the largest of each."""
    at = axis + x.ndim if axis < 0 else axis
    rows = x.reshape(int(np.prod(x.shape[:at], dtype=np.int64)), -1)
    return rows - rows.max(axis=1, keepdims=True)


def _largest(x: np.ndarray, window: Window, outputs: int, order: int) -> tuple[np.ndarray, ...]:
    """The largest elements of windows, and where they are in the whole tensor."""
    low = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    count = len(window.kernel)
    rows = window.patches(x.reshape(-1, 1, *x.shape[2:]), low)
    shape = (*x.shape[:2], *window.out)
    best = rows.max(axis=-1).reshape(shape)
    if outputs < 2:
        return (best,)
    places = np.arange(x.size, dtype=np.int64).reshape(x.shape)
    if order:
        turned = (0, 1, *range(x.ndim - 1, 1, -1))
        inner = np.arange(int(np.prod(x.shape[2:]))).reshape([x.shape[a] for a in turned[2:]])
        planes = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * count)
        places = planes * inner.size + inner.transpose(range(count - 1, -1, -1))
    taken = window.patches(places.reshape(-1, 1, *x.shape[2:]), 0)
    first = np.argmax(rows, axis=-1)[..., None]
    return best, np.take_along_axis(taken, first, -1)[..., 0].reshape(shape).astype(np.int64)


def _by_runtime(proto: ModelProto, feeds: Values) -> dict[str, np.ndarray] | None:
    """The values of a model by onnxruntime without its optimisations; None without the package,
    or if it does not compute the model."""
    try:
        import onnxruntime  # pyright: ignore[reportMissingImports] - an extra
    except ImportError:
        return None
    copy = type(proto).FromString(proto.SerializeToString())
    said = {o.name for o in copy.graph.output}
    names = [n for node in copy.graph.node for n in node.output if n]
    for name in names:
        if name not in said:
            copy.graph.output.add().name = name
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            copy.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        made = session.run(names, dict(feeds))
    except Exception:  # of its C++ code
        return None
    return {n: np.asarray(v) for n, v in zip(names, made, strict=True) if v is not None}


def computed(
    node: NodeProto, values: Mapping[str, np.ndarray], opset: int
) -> dict[str, np.ndarray]:
    """Return the outputs of a node by name; `values` has its operands, and what graphs inside it
    take from outside. Raises whatever the package's operators raise."""
    from onnx import helper

    wires = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in values.items()
    ]
    names = [n for n in node.output if n]
    outputs = [helper.make_empty_tensor_value_info(n) for n in names]
    graph = helper.make_graph([node], "node", wires, outputs)
    versions = {"": opset}
    if node.domain not in ("", "ai.onnx"):
        versions[node.domain] = 1
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    found = every_name(helper.make_model(graph, opset_imports=imports), values)
    return {n: found[n] for n in names}


def node_proto(
    op: str, inputs: list[str], outputs: list[str], domain: str, attrs: Mapping[str, Any]
) -> NodeProto:
    """Return a node with attributes given as values."""
    from onnx import helper, numpy_helper

    held: dict[str, Any] = {
        k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in attrs.items()
    }
    return helper.make_node(op, inputs, outputs, domain=domain or None, **held)


def of_arrays(
    op: str,
    inputs: list[np.ndarray | None],
    attrs: Mapping[str, Any],
    opset: int,
    outputs: int = 1,
) -> list[np.ndarray]:
    """Return the outputs of a standard operator on arrays."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(inputs)]
    made = [f"y{i}" for i in range(outputs)]
    values = {n: a for n, a in zip(names, inputs, strict=True) if a is not None}
    found = computed(node_proto(op, names, made, "", attrs), values, opset)
    return [found[n] for n in made]
