"""Microscaling in a Q/DQ model: the nodes that choose shared exponents and quantise as one kernel,
and products of what two DequantizeLinear with blocks of 32 give.

An exponent is that of the largest magnitude of the group: Abs, Reshape, ReduceMax, a product with
2^-8 (e4m3) or 2^-2 (e2m1), Cast to float8e8m0 rounding down, and back to float."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ptosim.ground.records import dataclass
from ptosim.machine.quant.parameters import of_array, storage
from ptosim.models import mx_kernels, onnx_nodes
from ptosim.models.explore import GROUP
from ptosim.models.kernel_runner import KernelRunner
from ptosim.models.mx_kernels import FORMATS, Format, Scaled
from ptosim.models.onnx_model import GraphNode
from ptosim.models.onnx_nodes import Lowering
from ptosim.models.quant.onnx.rules import Input, Node

STATEMENT = (
    "products of codes are exact; their f32 sums depend on the order, which is not the reference's"
)


@dataclass(frozen=True, slots=True)
class MxStep:
    """One kernel: `quantise` makes codes (`output`) and scales (`scales`) of a value, `product`
    multiplies two operands of codes and scales, each with the axis of its groups."""

    kind: str
    core: GraphNode
    nodes: tuple[GraphNode, ...]
    output: str
    format: Format
    operands: tuple[tuple[str, str, int], ...]
    scales: str = ""
    bias: np.ndarray | None = None
    """Of a product, in f32: one value for each column."""
    relu: bool = False
    moves: tuple[GraphNode, ...] = ()
    """Of a product: what the host does to its result."""

    @property
    def title(self) -> str:
        """What a report calls it."""
        word = "MXFP8" if self.format.name == "f8E4M3FN" else "MXFP4"
        after = ["bias"] * (self.bias is not None) + ["Relu"] * self.relu
        return "+".join([f"{self.core.op} {word}", *after])

    @property
    def inputs_of_codes(self) -> list[str]:
        """The names that it starts from."""
        return [name for operand in self.operands for name in operand[:2] if name]


def quantise_step(
    node: GraphNode, made: Mapping[str, GraphNode], constants: Mapping[str, np.ndarray]
) -> MxStep | None:
    """Return the step that ends in a QuantizeLinear; None if its scales are not chosen so."""
    if node.op != "QuantizeLinear" or node.attrs.get("block_size", 0) != GROUP:
        return None
    form = _FORMATS.get(node.attrs.get("output_dtype", 0))
    chain = _chain(node.inputs[1], made)
    if form is None or chain is None:
        return None
    _, down, product, largest, _, size = chain
    factor = constants.get(product.inputs[1])
    axis = int(node.attrs.get("axis", 1))
    fits = (
        down.attrs.get("round_mode") == "down"
        and factor is not None
        and factor.size == 1
        and float(factor.reshape(())) == 2.0**-form.top
        and not largest.attrs.get("keepdims", 1)
    )
    source, between = _halved(node.inputs[0], made)
    if not fits or size.inputs[0] != node.inputs[0]:
        return None
    if (form.name == "f4E2M1FN") != bool(between):
        return None
    nodes = (node, *chain, *between)
    operand = (source, "", axis)
    return MxStep("quantise", node, nodes, node.outputs[0], form, (operand,), node.inputs[1])


_FORMATS = {17: FORMATS["f8E4M3FN"], 23: FORMATS["f4E2M1FN"]}
"""By the number of the type in ONNX (TensorProto.FLOAT8E4M3FN, FLOAT4E2M1)."""
_CHAIN = ("Cast", "Cast", "Mul", "ReduceMax", "Reshape", "Abs")


def _chain(name: str, made: Mapping[str, GraphNode]) -> list[GraphNode] | None:
    found = []
    for op in _CHAIN:
        node = made.get(name)
        if node is None or node.op != op:
            return None
        found.append(node)
        name = node.inputs[0]
    return found


def _halved(name: str, made: Mapping[str, GraphNode]) -> tuple[str, tuple[GraphNode, ...]]:
    """The value before Cast to bf16 and back, which MXFP4 has."""
    second = made.get(name)
    first = made.get(second.inputs[0]) if second is not None and second.op == "Cast" else None
    if first is None or second is None or first.op != "Cast" or first.attrs.get("to") != 16:
        return name, ()
    return first.inputs[0], (second, first)


def product_step(
    node: GraphNode, made: Mapping[str, GraphNode], constants: Mapping[str, np.ndarray]
) -> MxStep | str:
    """Return the step of a product of blocked operands, or why there is none (empty: they are not
    blocked)."""
    parents = [made.get(n) for n in node.inputs[:2]]
    blocked = [
        p is not None and p.op == "DequantizeLinear" and p.attrs.get("block_size", 0) == GROUP
        for p in parents
    ]
    if not any(blocked) or node.op not in ("MatMul", "Gemm"):
        return ""
    if not all(blocked):
        return "one operand has groups of 32, the other has not"
    if any(n for n in node.inputs[2:]):
        return "a bias of a product of groups"
    operands = []
    for parent in parents:
        assert parent is not None
        operands.append((parent.inputs[0], parent.inputs[1], int(parent.attrs.get("axis", 1))))
    dequantising = tuple(p for p in parents if p is not None)
    form = _format(operands[0][0], made, constants)
    if form is None or form is not _format(operands[1][0], made, constants):
        return "groups of other types than e4m3 or e2m1, or of both"
    nodes = (node, *dequantising)
    return MxStep("product", node, nodes, node.outputs[0], form, tuple(operands))


def _format(
    name: str, made: Mapping[str, GraphNode], constants: Mapping[str, np.ndarray]
) -> Format | None:
    """The format of codes: a constant's type, or what QuantizeLinear is told."""
    if name in constants:
        stored = of_array(constants[name])
        return None if stored is None else FORMATS.get(stored.name)
    node = made.get(name)
    return None if node is None else _FORMATS.get(node.attrs.get("output_dtype", 0))


# -- execution -------------------------------------------------------------------------------------


def run(low: Lowering, step: MxStep, env: dict[str, np.ndarray], opset: int) -> None:
    """Execute a step and put what it makes into `env`. The fast form adds the bias to the sums in
    the accumulator; the exact form rounds before, as the separate nodes do."""
    runner, after = low.runner, mx_kernels.After(step.bias, step.relu)
    if step.kind == "quantise":
        _quantise(runner, step, env)
        return
    if low.form == "fast":
        made = _product(runner, step, env, after)
    else:
        made = _product(runner, step, env, mx_kernels.After())
        if after.is_something:
            flat = made.reshape(-1, made.shape[-1])
            made = mx_kernels.finished(runner, flat, after).reshape(made.shape)
    for node in step.moves:
        given = [made, *(env.get(n) for n in node.inputs[1:])]
        known = [None if a is None else Input("?", a.shape) for a in given]
        plain = Node(node.op, opset, known, node.attrs, None, node.name)
        made = onnx_nodes.move(plain, given)[0]
    env[step.output] = made


def notes(step: MxStep, target: str) -> list[str]:
    """Return what a reader of the report has to know of how a step was computed."""
    if target != "a5":
        return [
            f"{target} has no microscaling: its kernels compute the same numbers in f32 and bf16"
        ]
    if step.kind == "product" and step.format.name == "f4E2M1FN":
        return [
            "MXFP4 codes are multiplied as e4m3, which has all their values; the host repacks them"
        ]
    return []


def _key(name: str) -> str:
    """Where the bf16 values of codes are, on A2/A3."""
    return f"{name} as bf16"


def _quantise(runner: KernelRunner, step: MxStep, env: dict[str, np.ndarray]) -> None:
    source, _, axis = step.operands[0]
    moved = np.ascontiguousarray(np.moveaxis(env[source], axis, -1))
    made = mx_kernels.quantize(runner, moved.reshape(-1, moved.shape[-1]), step.format)

    def back(rows: np.ndarray) -> np.ndarray:
        shaped = rows.reshape(*moved.shape[:-1], rows.shape[-1])
        return np.ascontiguousarray(np.moveaxis(shaped, -1, axis))

    env[step.output] = back(made.codes).astype(storage(step.format.name).array)
    env[step.scales] = back(made.scales)
    if made.values is not None:
        env[_key(step.output)] = back(made.values)


def _product(
    runner: KernelRunner, step: MxStep, env: Mapping[str, np.ndarray], after: mx_kernels.After
) -> np.ndarray:
    """Rows of the first operand and columns of the second, each with its groups along the last
    axis."""
    left, right = (_operand(o, env) for o in step.operands)
    if step.core.attrs.get("transA", 0):
        raise ValueError("rows of a transposed operand have no groups")
    shapes = [side[0].shape for side in (left, right)]
    if len(shapes[1]) == 2:
        made = mx_kernels.product(runner, _rows(left), _rows(right), after)
        return made.reshape(*shapes[0][:-1], shapes[1][0])
    batch = np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])
    sides = _batched(left, batch), _batched(right, batch)
    made = mx_kernels.product(runner, *sides, after)
    return made.reshape(*batch, shapes[0][-2], shapes[1][-2])


Side = tuple[np.ndarray, np.ndarray, np.ndarray | None]
"""Codes, scales, and values in bf16, groups along the last axis."""


def _operand(operand: tuple[str, str, int], env: Mapping[str, np.ndarray]) -> Side:
    name, scales, axis = operand
    values = env.get(_key(name))
    codes, factors = (np.moveaxis(env[n], axis, -1) for n in (name, scales))
    return codes, factors, None if values is None else np.moveaxis(values, axis, -1)


def _rows(side: Side) -> Scaled:
    codes, scales, values = (
        None if a is None else np.ascontiguousarray(a).reshape(-1, a.shape[-1]) for a in side
    )
    assert codes is not None
    assert scales is not None
    return Scaled(codes, scales, values)


def _batched(side: Side, batch: tuple[int, ...]) -> Scaled:
    """The matrices of a side, [count, …] of them."""
    codes, scales, values = (
        None
        if a is None
        else np.broadcast_to(a, (*batch, *a.shape[-2:])).reshape(-1, *a.shape[-2:])
        for a in side
    )
    assert codes is not None
    assert scales is not None
    return Scaled(codes, scales, values)
