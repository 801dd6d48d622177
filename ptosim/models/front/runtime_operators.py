"""Functions, and operators of onnxruntime's own domain (com.microsoft), as operators of ONNX.

A model's own functions, and operators without kernels that ONNX defines by others (Selu, Attention,
GroupNormalization), are written out as their definition says. onnxruntime's quantised operators
(QGemm, QLinearAdd, …) become DequantizeLinear, the operator on reals, QuantizeLinear: what their
documents define. The runtime's kernels compute some of them with another order of roundings; what
follows is therefore compared with the definition, which a note says."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.ground.diagnostics.model import ProgramError, UnsupportedError, finding
from ptosim.ground.errors import UsageError
from ptosim.models.front.edits import Editor, attributes
from ptosim.models.onnx_model import Graph, graph_of

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

DOMAIN = "com.microsoft"
_STAY = frozenset(("CastLike", "Range", "Bernoulli", "SequenceMap"))
"""Operators with a definition by others that are no arithmetic of tensors, or that folding
computes."""


def written_out(proto: ModelProto, known: Collection[str]) -> ModelProto:
    """Return a model without functions of its own, and without operators that ONNX defines by
    others, but those `known`. Raises UnsupportedError for functions that cannot be written out."""
    from onnx import inliner

    made = proto
    if made.functions:
        try:
            made = inliner.inline_local_functions(made)
        except Exception as problem:  # of its C++ code
            first = str(problem).strip().splitlines()[0]
            raise UnsupportedError(
                [finding("PTO7640", f"functions of the model cannot be written out: {first}")]
            ) from problem
    own = {name for node in made.graph.node for name in node.output}
    try:
        return _in_f32(_cast_as_said(_defined(made, known)), own)
    except Exception:  # of its C++ code: what stays is named as an operator without a kernel
        return made


def _defined(proto: ModelProto, known: Collection[str]) -> ModelProto:
    """A model whose operators with a definition by others are those `known`."""
    from onnx import defs, helper, inliner

    schemas: Sequence[Any] = defs.get_all_schemas()
    functions = {
        s.name for s in schemas
        if s.domain == "" and (s.has_function or s.has_context_dependent_function)
    }  # fmt: skip
    wanted = functions - set(known) - _STAY
    nodes = [n for n in proto.graph.node if n.op_type in wanted and n.domain in ("", "ai.onnx")]
    if not nodes:
        return proto
    made = type(proto).FromString(proto.SerializeToString())
    opset = next((o.version for o in made.opset_import if o.domain in ("", "ai.onnx")), 1)
    for node in made.graph.node:
        if node.op_type not in wanted or node.domain not in ("", "ai.onnx"):
            continue
        own = {a.name for a in node.attribute}
        for name, attribute in defs.get_schema(node.op_type, opset, "").attributes.items():
            if name not in own and attribute.default_value.type:  # left empty where it is used
                node.attribute.append(attribute.default_value)
    said = {v.name for v in (*made.graph.value_info, *made.graph.input, *made.graph.output)}
    for t in made.graph.initializer:  # their types are looked for there alone
        if t.name not in said:
            value = helper.make_tensor_value_info(t.name, t.data_type, list(t.dims))
            made.graph.value_info.append(value)
    pairs = [("", name) for name in sorted(wanted)]
    return inliner.inline_selected_functions(made, pairs, inline_schema_functions=True)


_F32, _F64 = 1, 11


def _in_f32(proto: ModelProto, own: Collection[str]) -> ModelProto:
    """Definitions that compute in f64 (logarithms of sums) do so in f32, as kernels do; `own` are
    names that the model itself gives."""
    for node in proto.graph.node:
        if node.op_type == "Cast" and not set(node.output) & set(own):
            for attribute in node.attribute:
                if attribute.name == "to" and attribute.i == _F64:
                    attribute.i = _F32
    return proto


def _cast_as_said(proto: ModelProto) -> ModelProto:
    """CastLike as Cast to the type that is inferred."""
    from onnx import shape_inference

    if not any(n.op_type == "CastLike" for n in proto.graph.node):
        return proto
    graph = shape_inference.infer_shapes(proto).graph
    values = (*graph.value_info, *graph.input, *graph.output)
    types = {v.name: v.type.tensor_type.elem_type for v in values}
    types |= {t.name: t.data_type for t in proto.graph.initializer}
    for node in proto.graph.node:
        kind = types.get(node.input[1], 0) if node.op_type == "CastLike" else 0
        if kind:
            node.op_type = "Cast"
            node.input.pop()
            to = node.attribute.add()
            to.name, to.type, to.i = "to", to.INT, kind
    return proto


def standard(proto: ModelProto) -> list[str]:
    """Rewrite the nodes of a model that are known; return what a reader has to know."""
    if not any(n.domain == DOMAIN for n in proto.graph.node):
        return []
    editor = Editor(proto)
    made: list[NodeProto] = []
    said: list[str] = []
    for node in proto.graph.node:
        rule = _RULES.get(node.op_type) if node.domain == DOMAIN else None
        found = None if rule is None else rule(_Parts(editor, node))
        made += [node] if found is None else found
        if found is not None and node.op_type not in said:
            said.append(node.op_type)
    editor.put(made)
    editor.swept()
    if not said:
        return []
    return [f"{', '.join(said)} of onnxruntime: compared with what they are defined as in ONNX"]


def basic(proto: ModelProto) -> ModelProto:
    """Return a model after onnxruntime's basic optimisations, those that keep to ONNX' operators.
    Raises UsageError without the package, UnsupportedError for a model that it does not take."""
    try:
        import onnxruntime  # pyright: ignore[reportMissingImports] - an extra
    except ImportError as problem:
        raise UsageError(
            "--front onnxruntime needs the onnxruntime package", help="pip install 'ptosim[onnx]'"
        ) from problem
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "basic.onnx"
        options.optimized_model_filepath = str(file)
        try:
            onnxruntime.InferenceSession(
                proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as problem:  # of its C++ code
            first = str(problem).strip().splitlines()[0]
            raise UnsupportedError(
                [finding("PTO7640", f"onnxruntime does not take the model: {first}")]
            ) from problem
        return type(proto).FromString(file.read_bytes())


UNIT = "unit"
"""Ends the names of products of two scales, which the scale of a bias is by definition."""


def in_pairs(graph: Graph) -> tuple[Graph, dict[str, str]]:
    """Return a graph whose QLinearConv and QLinearMatMul are written out as DequantizeLinear, the
    operator and QuantizeLinear, and by the name of each of these nodes that of the one it was."""
    if not any(n.op in _PAIRED and n.is_standard for n in graph.nodes):
        return graph, {}
    proto = type(graph.proto).FromString(graph.proto.SerializeToString())
    for index, node in enumerate(proto.graph.node):
        node.name = node.name or graph.nodes[index].name
    editor, names = Editor(proto), {}
    made: list[NodeProto] = []
    for node in proto.graph.node:
        rule = _PAIRED.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        found = None if rule is None else rule(_Parts(editor, node))
        made += [node] if found is None else found
        names |= {f"{n.op_type} {n.name}": f"{node.op_type} {node.name}" for n in found or ()}
    editor.put(made)
    del proto.graph.value_info[:]
    try:
        return graph_of(proto), names
    except ProgramError:  # scales of channels before operator set 13
        return graph, {}


def _weights_of(p: _Parts, axis: int) -> str:
    """The second operand, dequantised along an axis."""
    scale = p.known(4)
    own: dict[str, Any] = {"axis": axis} if scale is not None and scale.size > 1 else {}
    return p.add("DequantizeLinear", [p.given(3), p.given(4), p.given(5)], "weights", **own)


def _conv_in_pairs(p: _Parts) -> list[NodeProto] | None:
    scale, unit = p.known(1), p.known(4)
    inputs = [p.real(0), _weights_of(p, 0)]
    if p.given(8):
        if scale is None or unit is None or scale.size != 1:
            return None
        factor = p.add("Mul", [p.given(1), p.given(4)], UNIT)
        along: dict[str, Any] = {"axis": 0} if unit.size > 1 else {}
        inputs.append(p.add("DequantizeLinear", [p.given(8), factor], "bias", **along))
    return p.codes(p.core("Conv", inputs, **p.attrs), 6)


def _product_in_pairs(p: _Parts) -> list[NodeProto] | None:
    held, scale = p.known(3), p.known(4)
    if held is None and (scale is None or scale.size != 1):
        return None
    axis = 0 if held is None else held.ndim - 1
    return p.codes(p.core("MatMul", [p.real(0), _weights_of(p, axis)]), 6)


class _Parts:
    """The nodes that one node becomes."""

    def __init__(self, editor: Editor, node: NodeProto) -> None:
        self.editor = editor
        self.node = node
        self.inputs = list(node.input)
        self.attrs = attributes(node)
        self.stem = node.name or node.output[0]
        self.made: list[NodeProto] = []

    def given(self, place: int) -> str:
        """Return the name of an input; empty for one that is left out."""
        return self.inputs[place] if place < len(self.inputs) else ""

    def known(self, place: int) -> np.ndarray | None:
        """Return the constant that an input is."""
        return self.editor.constants.get(self.given(place))

    def constant(self, stem: str, value: np.ndarray) -> str:
        """Add a constant."""
        return self.editor.constant(f"{self.stem}_{stem}", value)

    def add(self, op: str, inputs: Sequence[str], stem: str, **attrs: Any) -> str:
        """Add a node and return its result."""
        names = list(inputs)
        while names and not names[-1]:
            names.pop()
        made = self.editor.node(op, names, f"{self.stem}_{stem}", **attrs)
        self.made.append(made)
        return made.output[0]

    def real(self, place: int, **attrs: Any) -> str:
        """Add DequantizeLinear of the input at a place, with the scale and zero point after it."""
        names = [self.given(place + i) for i in range(3)]
        return self.add("DequantizeLinear", names, f"in{place}", **attrs)

    def codes(self, value: str, place: int) -> list[NodeProto]:
        """Add QuantizeLinear with the scale at a place; it gives the node's result."""
        return self.result("QuantizeLinear", [value, self.given(place), self.given(place + 1)])

    def result(self, op: str, inputs: Sequence[str], **attrs: Any) -> list[NodeProto]:
        """Add the node that gives the result, under the node's name."""
        self.add(op, inputs, "out", **attrs)
        self.made[-1].output[0] = self.node.output[0]
        return self.made

    def core(self, op: str, inputs: Sequence[str], **attrs: Any) -> str:
        """Add the operator itself, under the node's name."""
        made = self.add(op, inputs, "core", **attrs)
        if self.node.name:
            self.made[-1].name = self.node.name
        return made


Rule = Callable[[_Parts], "list[NodeProto] | None"]


def _unary(op: str, *keys: str) -> Rule:
    """X, its scale and zero point, those of the result."""

    def rule(p: _Parts) -> list[NodeProto] | None:
        if p.attrs.get("channels_last", 0):
            return None
        attrs = {k: p.attrs[k] for k in keys if k in p.attrs}
        return p.codes(p.core(op, [p.real(0)], **attrs), 3)

    return rule


def _binary(op: str) -> Rule:
    """A and B, each with scale and zero point, those of the result."""

    def rule(p: _Parts) -> list[NodeProto]:
        return p.codes(p.core(op, [p.real(0), p.real(3)]), 6)

    return rule


def _gemm(p: _Parts) -> list[NodeProto] | None:
    a_scale, b_scale = p.known(1), p.known(4)
    if a_scale is None or b_scale is None or a_scale.size != 1:
        return None
    alpha = np.float32(p.attrs.get("alpha", 1.0))
    scale = np.asarray(b_scale * alpha, np.float32)
    turned = int(p.attrs.get("transB", 0))
    own: dict[str, Any] = {"axis": 0 if turned else 1} if scale.size > 1 else {}
    names = [p.given(3), p.constant("b_scale", scale), p.given(5)]
    right = p.add("DequantizeLinear", names, "b", **own)
    inputs = [p.real(0), right]
    if p.given(6):
        unit = p.constant("unit", np.asarray(a_scale.reshape(()) * scale, np.float32))
        along: dict[str, Any] = {"axis": 0} if scale.size > 1 else {}
        inputs.append(p.add("DequantizeLinear", [p.given(6), unit], "bias", **along))
    attrs = {"transA": int(p.attrs.get("transA", 0)), "transB": turned}
    if not p.given(7):
        return p.result("Gemm", inputs, **attrs)
    return p.codes(p.core("Gemm", inputs, **attrs), 7)


def _concat(p: _Parts) -> list[NodeProto]:
    parts = [p.real(i) for i in range(2, len(p.inputs), 3)]
    joined = p.core("Concat", parts, axis=p.attrs["axis"])
    return p.result("QuantizeLinear", [joined, p.given(0), p.given(1)])


def _where(p: _Parts) -> list[NodeProto]:
    return p.codes(p.core("Where", [p.given(0), p.real(1), p.real(4)]), 7)


def _same(op: str) -> Rule:
    """An operator that ONNX has too."""

    def rule(p: _Parts) -> list[NodeProto]:
        return p.result(op, p.inputs, **p.attrs)

    return rule


def _dynamic_product(p: _Parts) -> list[NodeProto]:
    """A of floats, B, its scale and zero point, a bias."""
    p.add("DynamicQuantizeLinear", [p.given(0)], "quantized")
    names = [p.editor.fresh(f"{p.stem}_{n}") for n in ("scale", "zero")]
    p.made[-1].output.extend(names)
    codes = p.made[-1].output[0]
    return _sums(p, (codes, p.given(1), names[1], p.given(3)), (names[0], p.given(2)), p.given(4))


def _product_to_float(p: _Parts) -> list[NodeProto]:
    """A, B, both scales, both zero points, a bias."""
    operands = (p.given(0), p.given(1), p.given(4), p.given(5))
    return _sums(p, operands, (p.given(2), p.given(3)), p.given(6))


def _sums(
    p: _Parts, operands: tuple[str, ...], scales: tuple[str, str], bias: str
) -> list[NodeProto]:
    whole = p.core("MatMulInteger", operands)
    value = p.add("Cast", [whole], "real", to=1)
    unit = p.add("Mul", scales, "unit")
    if not bias:
        return p.result("Mul", [value, unit])
    return p.result("Add", [p.add("Mul", [value, unit], "scaled"), bias])


def _fused_product(p: _Parts) -> list[NodeProto] | None:
    if p.attrs.get("transBatchA", 0) or p.attrs.get("transBatchB", 0):
        return None
    operands = list(p.inputs[:2])
    for i, key in enumerate(("transA", "transB")):
        if not p.attrs.get(key, 0):
            continue
        held = p.known(i)
        if held is None:
            return None
        operands[i] = p.constant(f"turned{i}", np.ascontiguousarray(np.swapaxes(held, -1, -2)))
    alpha = p.attrs.get("alpha", 1.0)
    if alpha == 1:
        return p.result("MatMul", operands)
    factor = p.constant("alpha", np.asarray(alpha, np.float32))
    return p.result("Mul", [p.core("MatMul", operands), factor])


_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh")


def _activated(op: str) -> Rule:
    """A product with the activation after it."""

    def rule(p: _Parts) -> list[NodeProto] | None:
        word = p.attrs.pop("activation", b"")
        kind = word.decode() if isinstance(word, bytes) else word
        if kind not in _ACTIVATIONS or len(p.inputs) > 3:
            return None
        attrs = {k: v for k, v in p.attrs.items() if not k.startswith("activation")}
        return p.result(kind, [p.core(op, p.inputs, **attrs)])

    return rule


_TANH_SHARE = 0.044715
"""Of the cube, in the approximation of Gelu by tanh."""


def _gelu(approximate: bool = False, bias: bool = False) -> Rule:
    """Gelu of X, or of X and a bias; in parts before operator set 20, which has it."""

    def rule(p: _Parts) -> list[NodeProto]:
        x = p.inputs[0]
        if bias and p.given(1):
            x = p.core("Add", p.inputs[:2])
        if p.editor.opset >= 20:
            return p.result("Gelu", [x], **({"approximate": "tanh"} if approximate else {}))
        one, half = (
            p.constant(s, np.asarray(v, np.float32)) for s, v in (("one", 1), ("half", 0.5))
        )
        slope = np.sqrt(2 / np.pi) if approximate else np.sqrt(0.5)
        root = p.constant("slope", np.asarray(slope, np.float32))
        if approximate:
            share = p.constant("cubic", np.asarray(_TANH_SHARE, np.float32))
            cube = p.add("Mul", [p.add("Mul", [x, x], "square"), x], "cube")
            inner = p.add("Add", [x, p.add("Mul", [cube, share], "bent")], "inner")
            turn = p.add("Tanh", [p.add("Mul", [inner, root], "arg")], "turn")
        else:
            turn = p.add("Erf", [p.add("Mul", [x, root], "arg")], "turn")
        gate = p.add("Mul", [p.add("Add", [turn, one], "gate"), half], "share")
        return p.result("Mul", [x, gate])

    return rule


def _quick_gelu(p: _Parts) -> list[NodeProto]:
    factor = p.constant("alpha", np.asarray(p.attrs.get("alpha", 1.702), np.float32))
    gate = p.add("Sigmoid", [p.add("Mul", [p.inputs[0], factor], "scaled")], "gate")
    return p.result("Mul", [p.inputs[0], gate])


def _skip_norm(p: _Parts) -> list[NodeProto] | None:
    """LayerNormalization of a sum; the mean and what follows it are not given."""
    if any(p.node.output[1:3]):
        return None
    total = p.add("Add", p.inputs[:2], "sum")
    if p.given(4):
        total = p.add("Add", [total, p.given(4)], "biased")
    shown = p.node.output[3] if len(p.node.output) > 3 else ""
    epsilon = p.attrs.get("epsilon", 1e-12)
    names = [total, p.given(2), *([p.given(3)] if p.given(3) else [])]
    made = p.result("LayerNormalization", names, axis=-1, epsilon=epsilon)
    if shown:
        made.insert(-1, p.editor.onnx.helper.make_node("Identity", [total], [shown], shown))
    return made


_PAIRED: dict[str, Rule] = {"QLinearConv": _conv_in_pairs, "QLinearMatMul": _product_in_pairs}
_RULES: dict[str, Rule] = {
    "QuickGelu": _quick_gelu,
    "SkipLayerNormalization": _skip_norm,
    "QGemm": _gemm,
    "QLinearAdd": _binary("Add"),
    "QLinearMul": _binary("Mul"),
    "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearLeakyRelu": _unary("LeakyRelu", "alpha"),
    "QLinearSoftmax": _unary("Softmax", "axis"),
    "QLinearGlobalAveragePool": _unary("GlobalAveragePool"),
    "QLinearAveragePool": _unary(
        "AveragePool", "kernel_shape", "strides", "pads", "auto_pad", "ceil_mode",
        "count_include_pad",
    ),
    "QLinearReduceMean": _unary("ReduceMean", "axes", "keepdims"),
    "QLinearConcat": _concat,
    "QLinearWhere": _where,
    "QuantizeLinear": _same("QuantizeLinear"),
    "DequantizeLinear": _same("DequantizeLinear"),
    "DynamicQuantizeMatMul": _dynamic_product,
    "MatMulIntegerToFloat": _product_to_float,
    "FusedMatMul": _fused_product,
    "FusedConv": _activated("Conv"),
    "FusedGemm": _activated("Gemm"),
    "Gelu": _gelu(),
    "BiasGelu": _gelu(bias=True),
    "FastGelu": _gelu(approximate=True, bias=True),
}  # fmt: skip
