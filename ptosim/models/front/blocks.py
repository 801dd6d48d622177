"""Products as microscaling takes them: MatMul whose sums have a multiple of 32 terms.

Gemm becomes MatMul and Add; a convolution becomes a product of its patches, which the host gathers,
with the filters; operands of other depths get zeros, which change neither sums nor exponents."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.models.explore import GROUP
from ptosim.models.front.edits import Editor, attributes
from ptosim.models.front.rewrites import Rule, Shapes, apply, gathered
from ptosim.models.quant.scaled import Window

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

BIASED = "_biased"
"""What the name of the node that adds a bias has after that of its product."""
MOST = 1 << 24
"""Elements of the patches of one image; a convolution with more of them stays one."""


def for_blocks(proto: ModelProto, names: Collection[str] | None = None) -> None:
    """Rewrite the products of a model with static shapes, all or those named."""
    for rules in ({"Gemm": _gemm, "Conv": _conv}, {"MatMul": _padded}):
        apply(proto, {op: _of(rule, names) for op, rule in rules.items()})


def _of(rule: Rule, names: Collection[str] | None) -> Rule:
    if names is None:
        return rule
    return lambda editor, node, shapes: rule(editor, node, shapes) if node.name in names else None


def _named(node: NodeProto) -> str:
    return node.name or node.output[0]


def _gemm(editor: Editor, node: NodeProto, shapes: Shapes) -> list[NodeProto] | None:
    attrs = attributes(node)
    if (attrs.get("alpha", 1.0), attrs.get("beta", 1.0), attrs.get("transA", 0)) != (1, 1, 0):
        return None
    stem, made = _named(node), []
    right, weights = node.input[1], editor.constants.get(node.input[1])
    if attrs.get("transB", 0):
        if weights is not None:
            right = editor.constant(f"{stem}_turned", np.ascontiguousarray(weights.T))
        else:
            made.append(editor.node("Transpose", [right], f"{stem}_turned", perm=[1, 0]))
            right = made[-1].output[0]
    return [*made, *_product(editor, node, node.input[0], right, [])]


def _product(
    editor: Editor, node: NodeProto, left: str, right: str, after: list[NodeProto]
) -> list[NodeProto]:
    """A product under the name of the node, its third operand added, and what follows; the last
    node gives the node's result."""
    bias = node.input[2] if len(node.input) > 2 else ""
    product = editor.node("MatMul", [left, right], f"{_named(node)}_sums")
    if node.name:
        product.name = node.name
    made = [product]
    if bias:
        made.append(editor.node("Add", [product.output[0], bias], f"{_named(node)}{BIASED}"))
    if after:
        after[0].input[0] = made[-1].output[0]
    made += after
    made[-1].output[0] = node.output[0]
    return made


def _conv(editor: Editor, node: NodeProto, shapes: Shapes) -> list[NodeProto] | None:
    weights, shape = editor.constants.get(node.input[1]), shapes.get(node.input[0])
    attrs = attributes(node)
    if weights is None or shape is None or attrs.get("group", 1) != 1 or weights.ndim < 3:
        return None
    auto = attrs.get("auto_pad", b"NOTSET")
    try:
        window = Window(
            shape[2:], weights.shape[2:], attrs.get("strides", ()), attrs.get("pads", ()),
            attrs.get("dilations", ()), auto.decode() if isinstance(auto, bytes) else auto,
        )  # fmt: skip
    except UsageError:  # told of when it runs
        return None
    whole = math.prod(shape[1:])
    depth, filters = math.prod(weights.shape[1:]), weights.shape[0]
    if math.prod(window.out) * depth > MOST:
        return None
    places = np.arange(1, whole + 1).reshape(1, *shape[1:])
    index = window.patches(places, 0)[0] - 1  # -1 outside of the image
    index = np.where(index < 0, whole, index)
    missing = -depth % GROUP
    index = np.pad(index, ((0, 0), (0, missing)), constant_values=whole)
    stem = _named(node)
    moved, patches = gathered(
        editor, node.input[0], (shape[0], whole), index, (shape[0],), f"{stem}_patches"
    )
    rows = np.pad(weights.reshape(filters, depth).T, ((0, missing), (0, 0)))
    right = editor.constant(f"{stem}_filters", np.ascontiguousarray(rows))
    turned = editor.node("Transpose", [""], f"{stem}_turned", perm=[0, 2, 1])
    sizes = editor.constant(f"{stem}_out", np.array([shape[0], filters, *window.out], np.int64))
    last = editor.node("Reshape", [turned.output[0], sizes], f"{stem}_shaped")
    return [*moved, *_product(editor, node, patches, right, [turned, last])]


def _padded(editor: Editor, node: NodeProto, shapes: Shapes) -> list[NodeProto] | None:
    """Zeros after the last axis of the first operand, and after the rows of the second."""
    left, right = (shapes.get(n) for n in node.input)
    if not left or not right or len(right) < 2 or not left[-1] % GROUP:
        return None
    missing, made = -left[-1] % GROUP, []
    names = []
    for place, (shape, axis) in enumerate(((left, len(left) - 1), (right, len(right) - 2))):
        name, stem = node.input[place], f"{_named(node)}_{'ab'[place]}"
        held = editor.constants.get(name)
        ends = [missing if i == axis else 0 for i in range(len(shape))]
        if held is not None:
            names.append(editor.constant(f"{stem}_padded", np.pad(held, [(0, n) for n in ends])))
            continue
        pads = editor.constant(f"{stem}_pads", np.array([0] * len(shape) + ends, np.int64))
        made.append(editor.node("Pad", [name, pads], f"{stem}_padded"))
        names.append(made[-1].output[0])
    product = type(node).FromString(node.SerializeToString())
    product.input[0], product.input[1] = names
    return [*made, product]
