"""ONNX nodes on PTO kernels: each operator in a fast and an exact form.

Fast is what the hardware has instructions for (TQUANT's formula, the fixpipe); exact computes the
oracle's formula step by step. The host only moves data (axes, image patches, top bits of unsigned
bytes), computes the scalars of DynamicQuantizeLinear, and sums constant weights into biases.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.diagnostics.model import UnsupportedError
from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass, field
from ptosim.machine.quant.parameters import Storage, of_array, scheme, storage
from ptosim.machine.quant.quantize import Options, quantize_array
from ptosim.models import (
    kernels,
    onnx_elements,
    onnx_floats,
    onnx_functions,
    onnx_pools,
    requant,
)
from ptosim.models.chains import unsupported
from ptosim.models.kernel_runner import KernelRunner, factor_of, halves
from ptosim.models.kernels import Matrix, matrix
from ptosim.models.quant.onnx.ops import (
    ORACLES,
    dynamic_parameters,
    given,
    granularity,
    need,
    window_of,
)
from ptosim.models.quant.onnx.rules import Attributes, Node, dtype_word, output_type
from ptosim.models.quant.scaled import convolve
from ptosim.models.reference_node import of_arrays

# Operators that only rename, reshape or reorder: the host does them between kernels.


def move(node: Node, inputs: Arrays) -> list[np.ndarray]:
    """Execute one of the operators of `MOVES`; raises UsageError if its operands do not fit."""
    try:
        return [MOVES[node.op](node, inputs)]
    except KeyError as problem:
        raise UsageError(f"node {node}: the attribute {problem} is missing") from problem
    except (ValueError, IndexError, TypeError) as problem:
        raise UsageError(f"node {node}: {problem}") from problem


def _first(inputs: Arrays) -> np.ndarray:
    if not inputs or inputs[0] is None:
        raise ValueError("the first input is missing")
    return inputs[0]


def _reshape(node: Node, inputs: Arrays) -> np.ndarray:
    x, shape = _first(inputs), inputs[1]
    if shape is None:
        raise ValueError("the shape is missing")
    keep = not node.attrs.get("allowzero", 0)
    sizes = [x.shape[i] if d == 0 and keep else int(d) for i, d in enumerate(shape)]
    return x.reshape(sizes)


def _flatten(node: Node, inputs: Arrays) -> np.ndarray:
    x = _first(inputs)
    axis = node.attrs.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(int(np.prod(x.shape[:axis], dtype=np.int64)), -1)


def _transpose(node: Node, inputs: Arrays) -> np.ndarray:
    return np.ascontiguousarray(np.transpose(_first(inputs), node.attrs.get("perm")))


def _axes(node: Node, inputs: Arrays) -> tuple[int, ...] | None:
    given = inputs[1] if len(inputs) > 1 else node.attrs.get("axes")
    return None if given is None else tuple(int(a) for a in given)


def _squeeze(node: Node, inputs: Arrays) -> np.ndarray:
    return np.squeeze(_first(inputs), _axes(node, inputs))


def _unsqueeze(node: Node, inputs: Arrays) -> np.ndarray:
    axes = _axes(node, inputs)
    if axes is None:
        raise ValueError("the axes are missing")
    return np.expand_dims(_first(inputs), axes)


def _concat(node: Node, inputs: Arrays) -> np.ndarray:
    return np.concatenate([a for a in inputs if a is not None], node.attrs["axis"])


def constant(attrs: Attributes) -> np.ndarray:
    """Return the value of a Constant node."""
    for name, kind in (("value_float", np.float32), ("value_int", np.int64)):
        if name in attrs:
            return np.asarray(attrs[name], kind)
    for name, kind in (("value_floats", np.float32), ("value_ints", np.int64)):
        if name in attrs:
            return np.asarray(attrs[name], kind)
    return np.asarray(attrs["value"])


MOVES: dict[str, Callable[[Node, Arrays], np.ndarray]] = {
    "Identity": lambda node, inputs: _first(inputs),
    "Constant": lambda node, inputs: constant(node.attrs),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Concat": _concat,
}


Arrays = list[np.ndarray | None]


@dataclass(slots=True)
class Lowering:
    """One form on one target; `oracle` says whose results the exact form gives."""

    runner: KernelRunner
    form: str
    oracle: str
    notes: set[str] = field(default_factory=set)

    def node(self, node: Node, inputs: Arrays) -> list[np.ndarray]:
        """Execute a node; raises UnsupportedError for one that has no kernel."""
        known = OPERATORS.get(node.op)
        if known is None:
            raise _not_lowered(node, "no kernel is generated for this operator")
        return known(self, node, inputs)


def _not_lowered(node: object, why: str) -> UnsupportedError:
    return unsupported(f"node {node}: {why}")


# -- quantise, dequantise --------------------------------------------------------------------------


def integers(values: np.ndarray | None) -> np.ndarray:
    """Return zero points in int32; 0 for one that is left out."""
    return np.zeros((), np.int32) if values is None else values.astype(np.int32)


def _quantize(low: Lowering, node: Node, inputs: Arrays) -> list[np.ndarray]:
    x, scale = need(inputs, 0), need(inputs, 1)
    out = storage(output_type(node))
    if x.dtype not in (np.dtype(np.float32), np.dtype(np.int32), *_HALVES):
        raise _not_lowered(node, f"x is {x.dtype}")
    zero = np.zeros((), np.int32) if not out.is_integer else integers(given(inputs, 2))
    x2 = matrix(x, scale, zero, *granularity(scale, node.attrs))
    through = _through(low, node, x, scale)
    if not out.is_integer:
        return [_narrow(low, node, x2, out, through, given(inputs, 2))]
    return [low.runner.quantize(x2, out, low.form, through, low.oracle)]


_NATIVE = ("f8E4M3FN", "f8E5M2")
"""Narrow floats that A5 converts from and to f32."""


def _narrow(
    low: Lowering, node: Node, x: Matrix, out: Storage, through: str | None, zero: np.ndarray | None
) -> np.ndarray:
    """To a narrow float: by the conversion that A5 has, else quotients on the vector unit and a
    table of the host, as for formats that no target has."""
    saturate = bool(node.attrs.get("saturate", 1))
    if low.runner.target != "a5":
        raise unsupported(f"node {node}: {low.runner.target} has no tiles of {out}")
    if out.name in _NATIVE and saturate and low.oracle != "runtime":
        return low.runner.quantize(x, out, "exact", through)
    low.notes.add(f"quotients become {out} by a table of the host: no instruction converts them so")
    quotients = low.runner.scaled(x, "div", through=through)
    shift = np.zeros((), np.float32)
    if zero is not None and not out.name.startswith("f8"):
        shift = zero.astype(np.float32)
    one = np.ones((), np.float32)
    chosen = scheme(ORACLES[low.oracle][0])
    return quantize_array(quotients, one, shift, chosen, out, options=Options(saturate=saturate))


_HALVES = {storage("f16").array: "f16", storage("bf16").array: "bf16"}


def _through(low: Lowering, node: Node, x: np.ndarray, scale: np.ndarray) -> str | None:
    """The half type in which an oracle divides, None for f32 (and for what it promotes to f32)."""
    if low.oracle == "runtime":
        return None
    precision = node.attrs.get("precision") or 0
    if precision:
        name = storage(dtype_word(precision)).name
        return name if name in ("f16", "bf16") else None
    if low.oracle == "reference" and x.dtype != scale.dtype:
        return None  # NumPy promotes: a half by another type is divided in f32
    return _HALVES.get(scale.dtype)


def _dequantize(low: Lowering, node: Node, inputs: Arrays) -> list[np.ndarray]:
    q, scale = need(inputs, 0), need(inputs, 1)
    stored = of_array(q)
    assert stored is not None
    result = storage(output_type(node)).name
    if stored.kind == "float" and low.runner.target != "a5":
        raise unsupported(f"node {node}: {low.runner.target} has no tiles of {stored}")
    if stored.kind == "float" and stored.name not in _NATIVE:
        low.notes.add(f"{stored} becomes f32 by a table of the host: no instruction converts it")
        zero = np.zeros((), np.int32)
        x2 = matrix(q.astype(np.float32), scale, zero, *granularity(scale, node.attrs))
        return [low.runner.scaled(x2, "mul", result)]
    x2 = matrix(q, scale, integers(given(inputs, 2)), *granularity(scale, node.attrs))
    return [low.runner.dequantize(x2, stored, result)]


def _dynamic(low: Lowering, node: Node, inputs: Arrays) -> list[np.ndarray]:
    x = need(inputs, 0)
    scale, zero = dynamic_parameters(x, low.oracle)
    low.notes.add("scale and zero point of DynamicQuantizeLinear are computed by the host")
    x2 = matrix(x, np.asarray(scale), np.asarray(zero, np.int32))
    return [low.runner.quantize(x2, storage("ui8"), low.form, None), scale, zero]


# -- integer products ------------------------------------------------------------------------------


def matrices_of(node: object, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The operands of a product as matrices, or as [count, …] of them."""
    if not a.ndim or not b.ndim:
        raise _not_lowered(node, "an operand of a product is one number")
    a = a.reshape(1, -1) if a.ndim == 1 else a
    b = b.reshape(-1, 1) if b.ndim == 1 else b
    if b.ndim == 2:
        return a.reshape(-1, a.shape[-1]), b
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = np.broadcast_to(a, (*batch, *a.shape[-2:])).reshape(-1, *a.shape[-2:])
    right = np.broadcast_to(b, (*batch, *b.shape[-2:])).reshape(-1, *b.shape[-2:])
    return (left[0], right[0]) if len(left) == 1 else (left, right)


def result_shape(a: np.ndarray, b: np.ndarray) -> tuple[int, ...]:
    """Return the shape of a batched product."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ()))


def _matmul_integer(low: Lowering, node: Node, inputs: Arrays) -> list[np.ndarray]:
    a, b = need(inputs, 0), need(inputs, 1)
    a_zero, b_zero = integers(given(inputs, 2)), integers(given(inputs, 3))
    made = low.runner.sums(*matrices_of(node, a, b), (a_zero, b_zero))
    return [made.reshape(result_shape(a, b))]


def _qlinear_matmul(low: Lowering, node: Node, inputs: Arrays) -> list[np.ndarray]:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (need(inputs, i) for i in range(8))
    if a_scale.size != 1 or y_scale.size != 1 or y_zero.size != 1:
        raise _not_lowered(node, "scales of the rows of a product")
    factor = _factor(low, a_scale.reshape(-1), b_scale.reshape(-1), y_scale.reshape(-1))
    zeros = integers(a_zero), integers(b_zero)
    made = _requantised(low, *matrices_of(node, a, b), zeros, None, factor, y_zero)
    return [made.reshape(result_shape(a, b))]


def _factor(low: Lowering, a: np.ndarray, b: np.ndarray, y: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return (a * b / y).astype(np.float32)


def _requantised(
    low: Lowering,
    a: np.ndarray,
    b: np.ndarray,
    zeros: tuple[np.ndarray, np.ndarray],
    bias: np.ndarray | None,
    factor: np.ndarray,
    y_zero: np.ndarray,
) -> np.ndarray:
    """Product and requantisation of one pair of matrices."""
    zero, out = int(y_zero.reshape(())), storage(y_zero.dtype)
    if low.form == "fast":
        words = np.array([kernels.quant_word(v, zero, signed=out.signed) for v in factor], np.int64)
        return low.runner.sums(a, b, zeros, bias, words=words, out=out.name)
    acc = low.runner.sums(a, b, zeros, bias)
    acc = acc.reshape(-1, acc.shape[-1])
    if low.oracle == "reference":
        return _double(low, acc, factor, zero, out)
    return low.runner.on_sums(
        "requantise", acc, {"factor": factor},
        lambda f, x, p: requant.single(f, x, p["factor"], zero, out), out,
    )  # fmt: skip


def _double(
    low: Lowering, acc: np.ndarray, factor: np.ndarray, zero: int, out: Storage
) -> np.ndarray:
    largest = int(np.abs(acc.astype(np.int64)).max(initial=0))
    if largest > requant.LARGEST_SUM:
        low.notes.add(f"sums reach {largest}: beyond 2^24 the exact form is exact in f32 only")
    return low.runner.on_sums(
        "requantise", acc, halves(factor),
        lambda f, x, p: requant.double(f, x, factor_of(p), zero, out), out,
    )  # fmt: skip


# -- convolutions ----------------------------------------------------------------------------------


def per_filter(values: np.ndarray, filters: slice) -> np.ndarray:
    """Return the values of some filters, or the one of all."""
    return values.reshape(-1) if values.size == 1 else values.reshape(-1)[filters]


def _conv_integer(low: Lowering, node: Node, inputs: Arrays) -> list[np.ndarray]:
    x, w = need(inputs, 0), need(inputs, 1)
    x_zero, w_zero = integers(given(inputs, 2)), integers(given(inputs, 3))

    def each(a: np.ndarray, b: np.ndarray, filters: slice) -> np.ndarray:
        return low.runner.sums(a, b, (x_zero, per_filter(w_zero, filters)))

    groups = node.attrs.get("group", 1)
    fill = int(x_zero.reshape(-1)[0])
    return [convolve(x, w, window_of(node, x, w), groups, each, fill, w_zero)]


def _qlinear_conv(low: Lowering, node: Node, inputs: Arrays) -> list[np.ndarray]:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (need(inputs, i) for i in range(8))
    bias = given(inputs, 8)
    factor = _factor(low, x_scale.reshape(-1), w_scale.reshape(-1), y_scale.reshape(-1))
    x_zero, w_zero = integers(x_zero), integers(w_zero)

    def each(a: np.ndarray, b: np.ndarray, filters: slice) -> np.ndarray:
        zeros = (x_zero, per_filter(w_zero, filters))
        start = None if bias is None else bias[filters]
        return _requantised(low, a, b, zeros, start, per_filter(factor, filters), y_zero)

    groups = node.attrs.get("group", 1)
    fill = int(x_zero.reshape(-1)[0])
    return [convolve(x, w, window_of(node, x, w), groups, each, fill, w_zero)]


# -- float operators between quantised ones --------------------------------------------------------


def _matmul(low: Lowering, node: Node, inputs: Arrays) -> list[np.ndarray]:
    a, b = (onnx_floats.real(node, need(inputs, i)) for i in range(2))
    low.notes.add("MatMul of floats sums in another order than the reference")
    return [low.runner.product(*matrices_of(node, a, b)).reshape(result_shape(a, b))]


def _host(low: Lowering, node: Node, inputs: Arrays) -> list[np.ndarray]:
    return move(node, inputs)


def _rearranged(low: Lowering, node: Node, inputs: Arrays) -> list[np.ndarray]:
    """What moves data in other ways than `host_ops`, by onnx.reference; several parts of one."""
    count = max(node.outputs, 1)
    if any(a is not None and a.dtype == object for a in inputs):
        raise _not_lowered(node, "its operands are no numbers")
    return of_arrays(node.op, inputs, node.attrs, node.opset, count)


_REARRANGING = (
    "Slice", "Split", "Gather", "GatherElements", "GatherND", "Pad", "Expand", "Tile",
    "DepthToSpace", "SpaceToDepth", "Trilu", "TopK", "ScatterND", "ScatterElements",
    "ReverseSequence", "Compress", "OneHot",
)  # fmt: skip

UNARY = onnx_floats.UNARY | onnx_elements.UNARY | onnx_functions.UNARY
"""Functions of single elements that a kernel may have with what quantises around them."""


def operands_of(op: str) -> int:
    """Return how many operands of an operator may be codes that its kernel reads; 0 for one whose
    kernel only takes floats."""
    return 2 if op in onnx_floats.BINARY else int(op in UNARY or op in onnx_floats.BY_ROWS)


OPERATORS: dict[str, Callable[[Lowering, Node, Arrays], list[np.ndarray]]] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic,
    "MatMulInteger": _matmul_integer,
    "QLinearMatMul": _qlinear_matmul,
    "ConvInteger": _conv_integer,
    "QLinearConv": _qlinear_conv,
    **onnx_floats.OPERATORS,
    **onnx_elements.OPERATORS,
    **{op: onnx_floats.unary(op.lower(), body) for op, body in onnx_functions.UNARY.items()},
    "Mod": onnx_functions.modulo,
    **onnx_pools.OPERATORS,
    **dict.fromkeys(_REARRANGING, _rearranged),
    "MatMul": _matmul,
    **dict.fromkeys(MOVES, _host),
}
