"""The ONNX operators on quantised tensors, executed.

An oracle says whose results are wanted: `onnx` (the operator text, with the runtime's answers where
it is silent), `reference` (the Python evaluator of the onnx package) or `runtime` (onnxruntime on a
CPU). They differ in the rounding of zero points and in edge cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ptosim.ground.diagnostics.model import ProgramError, UnsupportedError, finding
from ptosim.ground.errors import UsageError
from ptosim.machine.quant.granularity import along, covering
from ptosim.machine.quant.inverse import dequantize
from ptosim.machine.quant.parameters import as_bytes, of_array, scheme, storage
from ptosim.machine.quant.quantize import Options, quantize_array
from ptosim.models.quant.onnx.rules import (
    Attributes,
    Input,
    Node,
    check_node,
    dtype_word,
    output_type,
    refuse_errors,
)
from ptosim.models.quant.scaled import Window, conv_int32, matmul_int32

ORACLES = {
    "onnx": ("onnx", "ort-qlinear"),
    "reference": ("onnx-ref", "onnx-ref-qlinear"),
    "runtime": ("ort", "ort-qlinear"),
}
"""Oracle to the schemes of QuantizeLinear and of the QLinear operators."""

Arrays = Sequence[np.ndarray | None]


def evaluate(
    op: str,
    inputs: Arrays,
    attrs: Attributes | None = None,
    *,
    opset: int,
    oracle: str = "onnx",
) -> list[np.ndarray]:
    """Execute an operator on arrays (one element an entry, ml_dtypes for narrow types).

    Raises ProgramError with findings if the operator cannot be used like this, UsageError for an
    unknown operator, opset or oracle.
    """
    if oracle not in ORACLES:
        raise UsageError(f"unknown oracle `{oracle}`", help=f"known: {', '.join(ORACLES)}")
    node = node_of(op, inputs, attrs or {}, opset)
    refuse_errors(check_node(node))
    try:
        return _OPERATORS[op](node, list(inputs), oracle)
    except (ValueError, IndexError) as problem:
        raise _misfit(node, inputs, problem) from problem


def _misfit(node: Node, inputs: Sequence[np.ndarray | None], problem: Exception) -> ProgramError:
    """What NumPy says of shapes: no rule of the standard's checkers has all of them."""
    shapes = ", ".join(str(list(a.shape)) for a in inputs if a is not None)
    text = f"{node}: operands of shapes {shapes} do not fit: {problem}"
    return ProgramError([finding("PTO2212", text)])


def node_of(op: str, inputs: Arrays, attrs: Attributes, opset: int) -> Node:
    """Return the node of an operator on arrays."""
    return Node(op, opset, [None if a is None else _operand(op, a) for a in inputs], attrs)


def _operand(op: str, array: np.ndarray) -> Input:
    known = of_array(array)
    if known is None:
        raise UsageError(
            f"{op}: an input holds {array.dtype}, which ONNX quantisation does not have"
        )
    return Input(known.onnx, array.shape, array)


def given(inputs: Arrays, index: int) -> np.ndarray | None:
    """Return an input; None if it is left out."""
    return inputs[index] if index < len(inputs) else None


def need(inputs: Arrays, index: int) -> np.ndarray:
    """Return an input that the rules of its operator have found."""
    found = inputs[index]
    assert found is not None
    return found


# -- quantise and dequantise -----------------------------------------------------------------------


def granularity(scale: np.ndarray, attrs: Attributes) -> tuple[int | None, int | None]:
    """Return the axis and the block size of scales; None where they have none."""
    block = attrs.get("block_size", 0)
    if block:
        return attrs.get("axis", 1), block
    return (None, None) if scale.size == 1 else (attrs.get("axis", 1), None)


def _quantize(node: Node, inputs: list[np.ndarray | None], oracle: str) -> list[np.ndarray]:
    x, scale, zero = need(inputs, 0), need(inputs, 1), given(inputs, 2)
    out = storage(output_type(node))
    axis, block = granularity(scale, node.attrs)
    precision = node.attrs.get("precision") or 0
    options = Options(
        saturate=bool(node.attrs.get("saturate", 1)),
        precision=storage(dtype_word(precision)).name if precision else None,
    )
    if zero is None or out.name.startswith("f8"):
        zero = np.zeros((), np.int8)
    elif out.kind == "float":
        zero = zero.astype(np.float32)
    factors = scale.astype(np.float32) if scale.dtype == storage("f8E8M0FNU").array else scale
    chosen = scheme(ORACLES[oracle][0])
    return [quantize_array(x, factors, as_bytes(zero), chosen, out, axis, block, options)]


def _dequantize(node: Node, inputs: list[np.ndarray | None], oracle: str) -> list[np.ndarray]:
    x, scale, zero = need(inputs, 0), need(inputs, 1), given(inputs, 2)
    axis, block = granularity(scale, node.attrs)
    shift = np.zeros((), np.int8) if zero is None else zero
    values = dequantize(
        x,
        scheme=ORACLES[oracle][0],
        scale=scale,
        zero_point=shift,
        dtype=output_type(node),
        axis=axis,
        block=block,
    )
    return [values]


def dynamic_parameters(x: np.ndarray, oracle: str) -> tuple[np.ndarray, np.ndarray]:
    """Return scale and zero point that DynamicQuantizeLinear chooses for an f32 tensor."""
    with np.errstate(all="ignore"):
        high = np.maximum(np.float32(0), x.max(initial=0))
        low = np.minimum(np.float32(0), x.min(initial=0))
        scale = (high - low) / np.float32(255)
        if high == low:
            scale = np.float32(1) / np.float32(255) if oracle == "reference" else np.float32(1)
        ideal = np.float32(0) - low / scale
        # A scale that underflows to 0, or NaN in x, leaves no zero point; both evaluators say 255.
        zero = np.uint8(255)
        if not np.isnan(ideal):
            zero = np.rint(np.clip(ideal, 0, 255)).astype(np.uint8)
    return np.asarray(scale, np.float32), np.asarray(zero, np.uint8)


def _dynamic(node: Node, inputs: list[np.ndarray | None], oracle: str) -> list[np.ndarray]:
    x = need(inputs, 0)
    scale, zero = dynamic_parameters(x, oracle)
    return [quantize_array(x, scale, zero, scheme("onnx"), storage("ui8")), scale, zero]


def positions(op: str, inputs: Arrays, attrs: Attributes, opset: int) -> np.ndarray | None:
    """Return where between integers an operator's real results are, in f64 without the zero point;
    None for operators that do not round."""
    node, arrays = node_of(op, inputs, attrs, opset), list(inputs)
    if op in ("QuantizeLinear", "DynamicQuantizeLinear"):
        x = need(arrays, 0)
        scale = dynamic_parameters(x, "onnx")[0] if op[0] == "D" else need(arrays, 1)
        return _ratios(x, scale, *granularity(scale, attrs))
    found = sums_and_factor(node, arrays)
    return None if found is None else found[0] * found[1].astype(np.float64)


def sums_and_factor(node: Node, arrays: Arrays) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the int32 sums that an operator requantises and their factor, of the sums' rank; None
    for an operator that does not."""
    if node.op not in ("QLinearMatMul", "QLinearConv"):
        return None
    try:
        return _sums_and_factor(node, arrays)
    except (ValueError, IndexError) as problem:
        raise _misfit(node, arrays, problem) from problem


def _sums_and_factor(node: Node, arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, _ = _all(list(arrays[:8]))
    if node.op == "QLinearMatMul":
        sums, axis = _product(node, a, b, a_zero, b_zero), -1
    else:
        sums, axis = _convolved(node, a, b, a_zero, b_zero), 1
        bias = given(arrays, 8)
        sums = sums if bias is None else sums + _along(bias, sums.ndim, 1)
    return sums, a_scale.reshape(()) * _along(b_scale, sums.ndim, axis) / y_scale.reshape(())


def _ratios(x: np.ndarray, scale: np.ndarray, axis: int | None, block: int | None) -> np.ndarray:
    whole = np.ascontiguousarray(x, np.float64)
    found = np.empty(whole.shape, np.float64)
    factors = scale.astype(np.float64)
    with np.errstate(all="ignore"):
        for region in covering(whole.shape, scale.shape, axis, block):
            region.data(found)[...] = region.data(whole) / region.parameter(factors)
    return found.reshape(x.shape)


# -- integer products ------------------------------------------------------------------------------


def _shifted(q: np.ndarray, zero: np.ndarray | None, axis: int) -> np.ndarray:
    """Return q - zero in int32; a vector of zero points runs along `axis`."""
    wide = q.astype(np.int32)
    if zero is None:
        return wide
    return wide - _along(zero.astype(np.int32), wide.ndim, axis)


def _along(values: np.ndarray, rank: int, axis: int) -> np.ndarray:
    if values.ndim > 1:
        return values  # already shaped for the operand, as [..., M, 1] or [..., 1, N]
    return along(values, rank, axis)


def _matmul_integer(node: Node, inputs: list[np.ndarray | None], oracle: str) -> list[np.ndarray]:
    a, b = need(inputs, 0), need(inputs, 1)
    return [_product(node, a, b, given(inputs, 2), given(inputs, 3))]


def _product(
    node: Node,
    a: np.ndarray,
    b: np.ndarray,
    a_zero: np.ndarray | None,
    b_zero: np.ndarray | None,
) -> np.ndarray:
    _integers_only(node, a, b)
    try:
        return matmul_int32(_shifted(a, a_zero, -2 if a.ndim > 1 else -1), _shifted(b, b_zero, -1))
    except ValueError as problem:
        raise _shape_error(node, a, b, "do not multiply or the zero points do not fit") from problem


def _shape_error(node: Node, a: np.ndarray, b: np.ndarray, why: str) -> ProgramError:
    shapes = f"{list(a.shape)} and {list(b.shape)}"
    return ProgramError([finding("PTO2212", f"{node}: operands of shapes {shapes} {why}")])


def _integers_only(node: Node, *arrays: np.ndarray) -> None:
    if any(a.dtype.kind not in "iu" for a in arrays):
        found = finding(
            "PTO8201",
            f"{node}: float8 operands are not executed",
            notes=("no public text says in which type their products are summed",),
        )
        raise UnsupportedError([found])


def _requantize(
    accumulator: np.ndarray,
    scales: tuple[np.ndarray, np.ndarray, np.ndarray],
    zero: np.ndarray,
    oracle: str,
    axis: int,
) -> np.ndarray:
    """Scale int32 sums by sa * sb / sy, in the type of the scales, and round to the output type."""
    first, second, last = scales
    with np.errstate(all="ignore"):
        factor = first * second / last
    rank = accumulator.ndim
    if oracle != "reference":
        factor = factor.astype(np.float32)
    factor = _along(np.asarray(factor), rank, axis)
    return quantize_array(
        accumulator,
        np.ones(factor.shape, np.float32),
        zero.reshape(()) if zero.size == 1 else zero,
        scheme(ORACLES[oracle][1]),
        storage(zero.dtype),
        options=Options(multiplier=factor.astype(np.float32)),
    )


def _qlinear_matmul(node: Node, inputs: list[np.ndarray | None], oracle: str) -> list[np.ndarray]:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = _all(inputs)
    sums = _product(node, a, b, a_zero, b_zero)
    rank = sums.ndim
    left = _along(a_scale, rank, -2 if a.ndim > 1 else -1)
    right = _along(b_scale, rank, -1)
    return [_requantize(sums, (left, right, y_scale.reshape(())), y_zero, oracle, -1)]


def _all(inputs: list[np.ndarray | None]) -> list[np.ndarray]:
    found = [a for a in inputs if a is not None]
    assert len(found) == len(inputs)
    return found


def window_of(node: Node, x: np.ndarray, w: np.ndarray) -> Window:
    """Return the window of a convolution; raises UsageError for a kernel of another shape."""
    attrs = node.attrs
    kernel = attrs.get("kernel_shape") or w.shape[2:]
    if tuple(kernel) != w.shape[2:]:
        raise UsageError(f"{node}: kernel_shape {list(kernel)} is not that of w {list(w.shape)}")
    return Window(
        x.shape[2:],
        kernel,
        attrs.get("strides", ()),
        attrs.get("pads", ()),
        attrs.get("dilations", ()),
        attrs.get("auto_pad", "NOTSET"),
    )


def _convolved(
    node: Node,
    x: np.ndarray,
    w: np.ndarray,
    x_zero: np.ndarray | None,
    w_zero: np.ndarray | None,
) -> np.ndarray:
    _integers_only(node, x, w)
    try:
        window = window_of(node, x, w)
        image = _shifted(x, x_zero, 1)
        return conv_int32(image, _shifted(w, w_zero, 0), window, node.attrs.get("group", 1))
    except (ValueError, UsageError) as problem:
        raise _shape_error(node, x, w, f"do not fit: {problem}") from problem


def _conv_integer(node: Node, inputs: list[np.ndarray | None], oracle: str) -> list[np.ndarray]:
    x, w = need(inputs, 0), need(inputs, 1)
    return [_convolved(node, x, w, given(inputs, 2), given(inputs, 3))]


def _qlinear_conv(node: Node, inputs: list[np.ndarray | None], oracle: str) -> list[np.ndarray]:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = _all(inputs[:8])
    sums = _convolved(node, x, w, x_zero, w_zero)
    bias = given(inputs, 8)
    if bias is not None:
        sums = sums + _along(bias, sums.ndim, 1)
    scales = (x_scale.reshape(()), _along(w_scale, sums.ndim, 1), y_scale.reshape(()))
    return [_requantize(sums, scales, y_zero, oracle, 1)]


_OPERATORS: dict[str, Callable[[Node, list[np.ndarray | None], str], list[np.ndarray]]] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic,
    "QLinearMatMul": _qlinear_matmul,
    "QLinearConv": _qlinear_conv,
    "MatMulInteger": _matmul_integer,
    "ConvInteger": _conv_integer,
}
