"""Operators in other words: what training leaves in a graph, and what is a product after all.

BatchNormalization goes into the convolution before it, or becomes Mul and Add; ConvTranspose is a
convolution of an image with zeros in between; alpha and beta of Gemm go into its constants; pairs
of Transpose cancel; Identity and Dropout are names; InstanceNormalization and LpNormalization are
written out, Einsum of two operands is MatMul. Recurrent layers are in `recurrent`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ptosim.models.front import recurrent
from ptosim.models.front.edits import Chain, Editor, attributes, is_standard
from ptosim.models.onnx_model import captured
from ptosim.models.quant.onnx.ops import evaluate

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Shapes = Mapping[str, tuple[int, ...]]
Rule = Callable[[Editor, "NodeProto", Shapes], "list[NodeProto] | None"]
_ROUNDS = 8


def simplify(proto: ModelProto) -> None:
    """Rewrite a model with static shapes, until nothing changes."""
    for _ in range(_ROUNDS):
        editor = Editor(proto)
        changed = _applied(editor, shapes_of(proto), _RULES)
        changed |= _renamed(editor)
        editor.swept()
        if not changed:
            return


def shapes_of(proto: ModelProto) -> dict[str, tuple[int, ...]]:
    """Return the static shapes that the onnx package infers."""
    from onnx import shape_inference

    try:
        made = shape_inference.infer_shapes(proto, data_prop=True)
    except Exception:  # of its C++ code: what the model itself says is left
        made = proto
    found = {t.name: tuple(t.dims) for t in proto.graph.initializer}
    for value in (*made.graph.input, *made.graph.output, *made.graph.value_info):
        tensor = value.type.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        if tensor.HasField("shape") and all(d >= 0 for d in dims):
            found.setdefault(value.name, tuple(dims))
    return found


def apply(proto: ModelProto, rules: Mapping[str, Rule]) -> None:
    """Rewrite the nodes of a model by operator, once."""
    editor = Editor(proto)
    _applied(editor, shapes_of(proto), rules)
    editor.swept()


def for_kernels(proto: ModelProto) -> None:
    """Rewrite what has no kernel in a quantised model, whose other nodes stay as they are; operands
    that are dequantised constants are constants there."""
    wanted = {op: rule for op, rule in _RULES.items() if op != "Gemm"}
    nodes = [
        n for n in proto.graph.node
        if n.op_type in wanted and _is_known(n)
        and not (n.op_type == "LayerNormalization" and kernel_gives_all(n))
    ]  # fmt: skip
    editor = Editor(proto)
    made = {n: node for node in proto.graph.node for n in node.output}
    for node in nodes:
        for place, name in enumerate(node.input):
            maker = made.get(name)
            if maker is None or maker.op_type != "DequantizeLinear":
                continue
            if all(n in editor.constants for n in maker.input if n):
                given = [editor.constants.get(n) for n in maker.input]
                attrs = attributes(maker)
                found = evaluate(maker.op_type, given, attrs, opset=editor.opset)
                node.input[place] = editor.constant(f"{name}_real", found[0])
    _renamed(editor)
    editor.swept()
    if nodes:
        apply(proto, wanted)


def _is_known(node: NodeProto) -> bool:
    return is_standard(node) or node.op_type == recurrent.DYNAMIC


def _applied(editor: Editor, shapes: Shapes, rules: Mapping[str, Rule]) -> bool:
    made: list[NodeProto] = []
    changed = False
    for node in list(editor.proto.graph.node):
        rule = rules.get(node.op_type) if _is_known(node) else None
        found = rule(editor, node, shapes) if rule is not None else None
        changed |= found is not None
        made += [node] if found is None else found
    if changed:
        editor.put(made)
    return changed


# -- names -----------------------------------------------------------------------------------------


def _renamed(editor: Editor) -> bool:
    """Let the users of Identity, Dropout and pairs of Transpose take what comes before."""
    made = {n: node for node in editor.proto.graph.node for n in node.output}
    inside = {n for node in editor.proto.graph.node for n in captured(node)}
    names: dict[str, str] = {}
    for node in editor.proto.graph.node:
        name = node.output[0] if node.output else ""
        if name in editor.outputs or name in inside:
            continue
        source = _same_as(node, made)
        if source:
            names[name] = names.get(source, source)
    for node in editor.proto.graph.node:
        for place, name in enumerate(node.input):
            if name in names:
                node.input[place] = names[name]
    return bool(names)


def _same_as(node: NodeProto, made: Mapping[str, NodeProto]) -> str:
    if not is_standard(node):
        return ""
    if node.op_type == "Identity":
        return node.input[0]
    if node.op_type == "Dropout" and not any(node.output[1:]):
        return node.input[0] if len(node.input) < 3 else ""
    if node.op_type != "Transpose":
        return ""
    perm = attributes(node).get("perm")
    if perm is not None and list(perm) == sorted(perm):
        return node.input[0]
    before = made.get(node.input[0])
    if before is None or before.op_type != "Transpose":
        return ""
    first = attributes(before).get("perm")
    if perm is None and first is None:
        return before.input[0]
    if perm is None or first is None:
        return ""
    return before.input[0] if [first[p] for p in perm] == list(range(len(perm))) else ""


# -- BatchNormalization ----------------------------------------------------------------------------


def _batch_norm(editor: Editor, node: NodeProto, shapes: Shapes) -> list[NodeProto] | None:
    known = editor.constants
    attrs = attributes(node)
    if attrs.get("training_mode", 0) or any(n not in known for n in node.input[1:5]):
        return None
    scale, shift, mean, variance = (known[n].astype(np.float64) for n in node.input[1:5])
    factor = scale / np.sqrt(variance + attrs.get("epsilon", 1e-5))
    offset = shift - mean * factor
    joined = _into_product(editor, node, factor, offset)
    if joined is not None:
        return joined
    rank = len(shapes.get(node.input[0], ()))
    if rank < 2:
        return None
    along = (-1, *(1,) * (rank - 2))
    stem = node.name or node.output[0]
    first = editor.node(
        "Mul",
        [node.input[0], editor.constant(f"{stem}_factor", _f32(factor).reshape(along))],
        f"{stem}_scaled",
    )
    second = editor.node(
        "Add",
        [first.output[0], editor.constant(f"{stem}_offset", _f32(offset).reshape(along))],
        f"{stem}_shifted",
    )
    second.output[0] = node.output[0]
    return [first, second]


def _into_product(
    editor: Editor, node: NodeProto, factor: np.ndarray, offset: np.ndarray
) -> list[NodeProto] | None:
    """Change the weights of a convolution or Gemm whose result nothing else takes."""
    graph, name = editor.proto.graph, node.input[0]
    before = next((n for n in graph.node if name in n.output), None)
    if before is None or before.op_type not in ("Conv", "Gemm") or name in editor.outputs:
        return None
    weights = editor.constants.get(before.input[1])
    bias = before.input[2] if len(before.input) > 2 else ""
    if weights is None or (bias and bias not in editor.constants):
        return None
    if len(editor.users().get(name, [])) != 1:
        return None
    attrs = attributes(before)
    if (attrs.get("alpha", 1.0), attrs.get("beta", 1.0)) != (1, 1):
        return None
    first = before.op_type == "Conv" or attrs.get("transB", 0)
    along = (-1, *(1,) * (weights.ndim - 1)) if first else (1, -1)
    held = np.zeros(1) if not bias else editor.constants[bias].astype(np.float64).reshape(-1)
    if held.size not in (1, factor.size):
        return None
    made = weights.astype(np.float64) * factor.reshape(along)
    stem = before.name or name
    inputs = [
        before.input[0],
        editor.constant(f"{stem}_folded", _f32(made)),
        editor.constant(f"{stem}_folded_bias", _f32(held * factor + offset)),
    ]
    del before.input[:]
    before.input.extend(inputs)
    return [editor.onnx.helper.make_node("Identity", [name], [node.output[0]], node.name)]


def _f32(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32)


# -- Gemm ------------------------------------------------------------------------------------------


def _gemm(editor: Editor, node: NodeProto, shapes: Shapes) -> list[NodeProto] | None:
    """Factors into constants; a transposed first operand, and a third operand that is no constant
    row, as nodes of their own."""
    attrs = attributes(node)
    alpha, beta = attrs.get("alpha", 1.0), attrs.get("beta", 1.0)
    bias = node.input[2] if len(node.input) > 2 else ""
    columns = shapes.get(node.output[0], (0, 0))[-1]
    held = editor.constants.get(bias)
    is_row = held is not None and (held.size == 1 or held.shape in ((columns,), (1, columns)))
    if (alpha, beta, attrs.get("transA", 0)) == (1, 1, 0) and (not bias or is_row):
        return None
    stem = node.name or node.output[0]
    made: list[NodeProto] = []
    a, b = node.input[:2]
    if attrs.get("transA", 0):
        made.append(editor.node("Transpose", [a], f"{stem}_turned", perm=[1, 0]))
        a = made[-1].output[0]
    product = editor.node("Gemm", [a, b], f"{stem}_product", transB=int(attrs.get("transB", 0)))
    weights = editor.constants.get(b)
    last: NodeProto = product
    if alpha != 1 and weights is not None:
        product.input[1] = editor.constant(f"{stem}_weights", _f32(weights * np.float64(alpha)))
    if is_row and held is not None and (alpha == 1 or weights is not None):
        row = np.broadcast_to(_f32(held * np.float64(beta)).reshape(-1), (columns,))
        product.input.append(editor.constant(f"{stem}_bias", row))
        bias = ""
    made.append(product)
    if alpha != 1 and weights is None:
        factor = editor.constant(f"{stem}_alpha", np.asarray(alpha, np.float32))
        last = editor.node("Mul", [last.output[0], factor], f"{stem}_scaled")
        made.append(last)
    if bias:
        if beta != 1:
            factor = editor.constant(f"{stem}_beta", np.asarray(beta, np.float32))
            made.append(editor.node("Mul", [bias, factor], f"{stem}_third"))
            bias = made[-1].output[0]
        last = editor.node("Add", [last.output[0], bias], f"{stem}_sum")
        made.append(last)
    last.output[0] = node.output[0]
    return made


# -- ConvTranspose ---------------------------------------------------------------------------------


def _conv_transpose(editor: Editor, node: NodeProto, shapes: Shapes) -> list[NodeProto] | None:
    weights, shape = editor.constants.get(node.input[1]), shapes.get(node.input[0])
    if weights is None or shape is None or len(shape) != weights.ndim:
        return None
    attrs = attributes(node)
    rank, groups = weights.ndim - 2, attrs.get("group", 1)
    image, kernel = shape[2:], weights.shape[2:]
    strides = attrs.get("strides") or [1] * rank
    dilations = attrs.get("dilations") or [1] * rank
    reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    extra = attrs.get("output_padding") or [0] * rank
    full = [s * (n - 1) + r + 1 + e
            for n, s, r, e in zip(image, strides, reach, extra, strict=True)]  # fmt: skip
    before, out = _placed(attrs, image, strides, full)
    if any(o < 1 for o in out):
        return None
    taps = [_stuffed(n, s, r, b, o) for n, s, r, b, o in
            zip(image, strides, reach, before, out, strict=True)]  # fmt: skip
    stem = node.name or node.output[0]
    moved, source = _spread(editor, node.input[0], shape, taps, stem)
    flipped = np.flip(weights, tuple(range(2, 2 + rank)))
    parts = np.split(flipped, groups, 0) if weights.shape[0] % groups == 0 else [flipped]
    turned = np.ascontiguousarray(np.concatenate([np.swapaxes(p, 0, 1) for p in parts], 0))
    inputs = [source, editor.constant(f"{stem}_turned", turned), *node.input[2:]]
    made = editor.node(
        "Conv", inputs, f"{stem}_conv", group=groups, dilations=list(dilations)
    )  # fmt: skip
    made.output[0] = node.output[0]
    made.name = node.name
    return [*moved, made]


def _placed(attrs, image, strides, full) -> tuple[list[int], list[int]]:
    """Elements cut off before the result along each axis, and its sizes."""
    rank = len(image)
    wanted = attrs.get("output_shape")
    auto = attrs.get("auto_pad", b"NOTSET")
    auto = auto.decode() if isinstance(auto, bytes) else auto
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(image, strides, strict=True)]
    if wanted is None:
        pads = attrs.get("pads") or [0] * (2 * rank)
        pads = [0] * (2 * rank) if auto == "VALID" else pads
        out = [f - pads[i] - pads[i + rank] for i, f in enumerate(full)]
        return list(pads[:rank]), out
    total = [f - w for f, w in zip(full, list(wanted)[-rank:], strict=True)]
    less = [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in total]
    return less, list(wanted)[-rank:]


def _stuffed(size: int, stride: int, reach: int, before: int, out: int) -> np.ndarray:
    """Which element of an axis is at each place of the wide one; -1 for a zero."""
    at = np.arange(out + reach) - (reach - before)
    inside = (at >= 0) & (at % stride == 0) & (at // stride < size)
    return np.where(inside, at // stride, -1)


def _spread(
    editor: Editor, name: str, shape: tuple[int, ...], taps: list[np.ndarray], stem: str
) -> tuple[list[NodeProto], str]:
    """Nodes that give [batch, channels, …] with the elements that `taps` say, zeros elsewhere."""
    image = shape[2:]
    flat = np.zeros((1,) * len(image), np.int64)
    empty = np.zeros((1,) * len(image), bool)
    for axis, found in enumerate(taps):
        along = [1] * len(image)
        along[axis] = -1
        flat = flat * image[axis] + np.maximum(found, 0).reshape(along)
        empty = empty | (found < 0).reshape(along)
    index = np.where(empty, math.prod(image), flat)
    return gathered(editor, name, (*shape[:2], math.prod(image)), index, shape[:2], stem)


def gathered(
    editor: Editor,
    name: str,
    flat: tuple[int, ...],
    index: np.ndarray,
    lead: tuple[int, ...],
    stem: str,
) -> tuple[list[NodeProto], str]:
    """Nodes that reshape a value to `flat`, put a zero after its last axis, and take `index` of it:
    [*lead, *index.shape]."""
    rank = len(flat)
    shape = editor.constant(f"{stem}_flat", np.array(flat, np.int64))
    first = editor.node("Reshape", [name, shape], f"{stem}_rows")
    pads = editor.constant(f"{stem}_pads", np.array([0] * (2 * rank - 1) + [1], np.int64))
    second = editor.node("Pad", [first.output[0], pads], f"{stem}_padded")
    places = editor.constant(f"{stem}_places", index.reshape(-1).astype(np.int64))
    third = editor.node("Gather", [second.output[0], places], f"{stem}_taken", axis=rank - 1)
    sizes = editor.constant(f"{stem}_sizes", np.array((*lead, *index.shape), np.int64))
    last = editor.node("Reshape", [third.output[0], sizes], f"{stem}_image")
    return [first, second, third, last], last.output[0]


# -- normalisations --------------------------------------------------------------------------------


def _instance_norm(editor: Editor, node: NodeProto, shapes: Shapes) -> list[NodeProto] | None:
    """Of each channel of each image: the mean off, by the root of the variance."""
    x, scale, shift = node.input
    rank = len(shapes.get(x, ()))
    channels = math.prod(shapes.get(scale, (0,)))
    if rank < 3 or not channels:
        return None
    c = Chain(editor, node)
    over, along = range(2, rank), (channels, *(1,) * (rank - 2))
    mid = c.add("Sub", x, c.reduced("ReduceMean", x, *over))
    spread = c.reduced("ReduceMean", c.add("Mul", mid, mid), *over)
    small = c.constant(attributes(node).get("epsilon", 1e-5), np.float32)
    unit = c.add("Div", mid, c.add("Sqrt", c.add("Add", spread, small)))
    c.add("Add", c.add("Mul", unit, c.shaped(scale, along)), c.shaped(shift, along))
    return c.finish()


def _layer_norm(editor: Editor, node: NodeProto, shapes: Shapes) -> list[NodeProto] | None:
    """Its further outputs by nodes of their own: the mean, and one by the root of the variance."""
    x = node.input[0]
    if kernel_gives_all(node) or x not in shapes:
        return None
    c, attrs = Chain(editor, node), attributes(node)
    rank = len(shapes[x])
    over = range(attrs.get("axis", -1) % rank, rank)
    mean = c.reduced("ReduceMean", x, *over)
    mid = c.add("Sub", x, mean)
    spread = c.reduced("ReduceMean", c.add("Mul", mid, mid), *over)
    small = c.constant(attrs.get("epsilon", 1e-5), np.float32)
    root = c.add("Reciprocal", c.add("Sqrt", c.add("Add", spread, small)))
    for name, wanted in zip((mean, root), node.output[1:], strict=False):
        c.rename(name, wanted or name)
    first = type(node).FromString(node.SerializeToString())
    del first.output[1:]
    return [first, *c.made]


def kernel_gives_all(node: NodeProto) -> bool:
    """Return False for a node with outputs that its kernel does not compute."""
    return node.op_type != "LayerNormalization" or not any(node.output[1:])


def _lp_norm(editor: Editor, node: NodeProto, shapes: Shapes) -> list[NodeProto] | None:
    attrs, x = attributes(node), node.input[0]
    if attrs.get("p", 2) not in (1, 2):
        return None
    c = Chain(editor, node)
    axis = attrs.get("axis", -1)
    if attrs.get("p", 2) == 1:
        size = c.reduced("ReduceSum", c.add("Abs", x), axis)
    else:
        size = c.add("Sqrt", c.reduced("ReduceSum", c.add("Mul", x, x), axis))
    c.add("Div", x, size)
    return c.finish()


# -- Einsum ----------------------------------------------------------------------------------------


def _einsum(editor: Editor, node: NodeProto, shapes: Shapes) -> list[NodeProto] | None:
    """Two operands, no repeated or broadcast index: [batch, rows, sum] @ [batch, sum, columns], the
    operands turned before and the result after."""
    equation = attributes(node)["equation"].decode().replace(" ", "")
    if len(node.input) != 2 or "->" not in equation or "." in equation:
        return None
    terms, out = equation.split("->")
    a, b = terms.split(",")
    sizes: dict[str, int] = {}
    for term, name in zip((a, b), node.input, strict=True):
        if name not in shapes or len(term) != len(shapes[name]) or len(set(term)) != len(term):
            return None
        sizes |= dict(zip(term, shapes[name], strict=True))
    batch = [i for i in a if i in b and i in out]
    depth = [i for i in a if i in b and i not in out]
    rows = [i for i in a if i not in b and i in out]
    cols = [i for i in b if i not in a and i in out]
    if set(a) != {*batch, *depth, *rows} or set(b) != {*batch, *depth, *cols}:
        return None  # sums of one operand alone
    c = Chain(editor, node)

    def count(indices: list[str]) -> int:
        return math.prod(sizes[i] for i in indices)

    def turned(name: str, term: str, order: list[str], shape: list[int]) -> str:
        perm = [term.index(i) for i in order]
        held = editor.constants.get(name)
        if held is not None:
            made = np.ascontiguousarray(held.transpose(perm)).reshape(shape)
            return editor.constant(f"{c.stem}_turned", made)
        if perm != sorted(perm):
            name = c.add("Transpose", name, perm=perm)
        return c.shaped(name, shape)

    lead = [count(batch)] if batch else []
    left = turned(node.input[0], a, [*batch, *rows, *depth], [*lead, count(rows), count(depth)])
    right = turned(node.input[1], b, [*batch, *depth, *cols], [*lead, count(depth), count(cols)])
    made = [*batch, *rows, *cols]
    result = c.shaped(c.add("MatMul", left, right), [sizes[i] for i in made])
    perm = [made.index(i) for i in out]
    if perm != sorted(perm):
        c.add("Transpose", result, perm=perm)
    return c.finish()


def _dropout(editor: Editor, node: NodeProto, shapes: Shapes) -> list[NodeProto] | None:
    """A name, but in training; one that is an output of the model keeps its own."""
    training = editor.constants.get(node.input[2]) if len(node.input) > 2 else np.False_
    if training is None or training.any() or any(node.output[1:]):
        return None
    made = editor.node("Identity", node.input[:1], f"{node.name or node.output[0]}_same")
    made.output[0] = node.output[0]
    return [made]


_RULES: dict[str, Rule] = {
    "Dropout": _dropout,
    "InstanceNormalization": _instance_norm,
    "LpNormalization": _lp_norm,
    "LayerNormalization": _layer_norm,
    "Einsum": _einsum,
    "BatchNormalization": _batch_norm,
    "Gemm": _gemm,
    "ConvTranspose": _conv_transpose,
    **dict.fromkeys(recurrent.KINDS, recurrent.steps),
}
