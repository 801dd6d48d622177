"""A group on a target: the product of 8-bit integers, and what makes its sums the result.

The exact form takes the int32 sums to the vector unit and does there what the separate nodes do:
scale, bias, residual, Relu, division by the output's scale. The fast form leaves through the
fixpipe, with the bias and the residual in int32 units of the sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ptosim.ground.records import dataclass
from ptosim.machine.quant.parameters import Storage, storage
from ptosim.models import chains, depthwise, kernels, onnx_nodes
from ptosim.models.chains import Affine, Parameter
from ptosim.models.fusion.groups import Group, Scaled
from ptosim.models.kernel_builder import KernelBuilder, TileValue
from ptosim.models.kernel_runner import KernelRunner, OnSums
from ptosim.models.onnx_nodes import Lowering, integers, matrices_of, per_filter, result_shape
from ptosim.models.plan import OFFSETS
from ptosim.models.quant.onnx.ops import window_of
from ptosim.models.quant.onnx.rules import Input, Node
from ptosim.models.quant.scaled import Window, convolve

_STEP = 12
"""Bits of the fraction of factors in sums of integers."""


def run(low: Lowering, group: Group, env: Mapping[str, np.ndarray], opset: int) -> np.ndarray:
    """Return what a group computes from codes in `env`; raises UnsupportedError where the target
    has no such product."""
    a, b = (moved(s, env, opset) for s in (group.a, group.b))
    if group.core.op == "Add":
        made = _sum(low.runner, group, a, b, low.form)
    else:
        residual = None if group.residual is None else moved(group.residual, env, opset)
        made = _product(low, group, a, b, residual, opset)
    for node in group.moves:
        given = [made, *(env.get(n) for n in node.inputs[1:])]
        made = onnx_nodes.move(_plain(node, given, opset), given)[0]
    return made


def moved(operand: Scaled, env: Mapping[str, np.ndarray], opset: int) -> np.ndarray:
    """Return the codes of an operand after the moves that follow DequantizeLinear."""
    codes = env[operand.name]
    for node in operand.moves:
        given = [codes, *(env.get(n) for n in node.inputs[1:])]
        codes = onnx_nodes.move(_plain(node, given, opset), given)[0]
    return codes


def _plain(node, inputs: list[np.ndarray | None], opset: int) -> Node:
    known = [None if a is None else Input("?", a.shape) for a in inputs]
    return Node(node.op, opset, known, node.attrs, None, node.name)


# -- products --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What happens to sums [m, n]: factors of the columns, bias (reals, or None), codes that are
    added, Relu, and how the result is quantised (None: f32)."""

    unit: np.ndarray  # f32: what one unit of a sum is worth, for all or each column
    bias: np.ndarray | None
    residual: np.ndarray | None
    group: Group
    half: bool = False
    """Whether sums become halves on the way out of the accumulator."""

    @property
    def out(self) -> Storage:
        """The type of the result."""
        return storage("f32" if self.group.out is None else self.group.out.zero.dtype)

    def of(self, chosen: slice) -> Epilogue:
        """Return the part of some filters."""
        bias = None if self.bias is None else per_filter(self.bias, chosen)
        residual = None if self.residual is None else self.residual[:, chosen]
        return Epilogue(per_filter(self.unit, chosen), bias, residual, self.group, self.half)


def _product(
    low: Lowering,
    group: Group,
    a: np.ndarray,
    b: np.ndarray,
    residual: np.ndarray | None,
    opset: int,
) -> np.ndarray:
    core = group.core
    unit = (group.a.scale.reshape(-1) * group.b.scale.reshape(-1)).astype(np.float32)
    zeros = integers(group.a.zero), integers(group.b.zero).reshape(-1)
    half = low.form == "fast" and fits_halves(group, a.dtype, b, unit)
    if half:
        low.notes.add(HALVES)
    if core.op == "Conv":
        node = _plain(core, [a, b], opset)
        rows = None if residual is None else _patches(residual)
        whole = Epilogue(unit, group.bias, rows, group, half)

        def each(x: np.ndarray, y: np.ndarray, filters: slice) -> np.ndarray:
            flat = x.reshape(-1, x.shape[-1])
            own = (zeros[0], per_filter(zeros[1], filters))
            return sums_to_result(low, flat, y, own, whole.of(filters))

        window = window_of(node, a, b)
        if is_depthwise(group, b):
            return _depthwise(low, group, (a, b), window, residual, unit)
        fill = int(zeros[0].reshape(-1)[0])
        return convolve(a, b, window, core.attrs.get("group", 1), each, fill, zeros[1])
    if core.attrs.get("transA", 0):
        a = np.ascontiguousarray(a.T)
    if core.attrs.get("transB", 0):
        b = np.ascontiguousarray(b.T)
    shape = result_shape(a, b)
    rows = None
    if residual is not None:
        rows = np.broadcast_to(residual, shape).reshape(-1, shape[-1] if b.ndim > 1 else 1)
    after = Epilogue(unit, group.bias, rows, group, half)
    return sums_to_result(low, *matrices_of(core, a, b), zeros, after).reshape(shape)


def _patches(x: np.ndarray) -> np.ndarray:
    """Return [batch, channels, …] as [batch * positions, channels]."""
    return np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])


def sums_to_result(
    low: Lowering,
    a: np.ndarray,
    b: np.ndarray,
    zeros: tuple[np.ndarray, np.ndarray],
    after: Epilogue,
) -> np.ndarray:
    """Return the product of two matrices of codes, or of [count, …] of them, as the group's
    result."""
    runner = low.runner
    if after.half:
        bias = None
        if after.bias is not None:
            bias = np.broadcast_to(_whole_steps(after.bias, after.unit), (b.shape[-1],))
        words = np.array([kernels.quant_word(v, 0, signed=False) for v in after.unit], np.int64)
        relu = after.group.relu
        return runner.sums(a, b, zeros, bias, words=words, out="f16", relu=relu)
    if low.form == "exact" or after.group.out is None:
        acc = runner.sums(a, b, zeros)
        return _on_vector(runner, acc.reshape(-1, acc.shape[-1]), after)
    bias = None
    if after.bias is not None:
        bias = np.broadcast_to(_whole_steps(after.bias, after.unit), (b.shape[-1],))
    with np.errstate(all="ignore"):  # scales that are 0
        factor = (after.unit / after.group.out.scale).astype(np.float32)
    zero = int(after.group.out.zero)
    if after.residual is None and OFFSETS[0] <= zero <= OFFSETS[1]:
        words = [kernels.quant_word(v, zero, signed=after.out.signed) for v in factor]
        return runner.sums(
            a, b, zeros, bias, words=np.array(words, np.int64), out=after.out.name,
            relu=after.group.relu,
        )  # fmt: skip
    acc = runner.sums(a, b, zeros, bias)
    return _in_int32(runner, acc.reshape(-1, acc.shape[-1]), after, factor)


HALVES = "fast: floats that only kernels take leave the accumulator as f16, scaled by the fixpipe"
_LARGEST_HALF, _SMALLEST_HALF = 65504.0, 2.0**-24


def fits_halves(group: Group, a_type: np.dtype, b: np.ndarray, unit: np.ndarray) -> bool:
    """Return True if the floats of a product may leave the accumulator as f16: no codes give a
    result beyond its range, and the step of a sum is not below f16's smallest one."""
    if not group.feeds_kernels or group.residual is not None or is_depthwise(group, b):
        return False
    if not np.all(np.isfinite(unit) & (unit >= _SMALLEST_HALF)):
        return False
    top = largest(group.a, a_type) * largest(group.b, b.dtype)
    depth = math.prod(b.shape[i] for i in _summed(group, b.ndim))
    bias = 0.0 if group.bias is None else float(np.abs(group.bias).max(initial=0))
    return top * depth * float(unit.max()) + bias <= _LARGEST_HALF


def _whole_steps(bias: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """The bias in steps of the sums; one that an i32 does not hold is its limit, as in the
    accumulator."""
    with np.errstate(all="ignore"):
        steps = np.nan_to_num(np.rint(bias / unit))
    return np.clip(steps, -(2.0**31), 2.0**31 - 1).astype(np.int64)


def _on_vector(runner: KernelRunner, acc: np.ndarray, after: Epilogue) -> np.ndarray:
    """The steps of the separate nodes in f32, one by one."""
    params = {"unit": after.unit}
    if after.bias is not None:
        params["bias"] = after.bias
    beside = {} if after.residual is None else {"residual": np.ascontiguousarray(after.residual)}
    return runner.on_sums("finish", acc, params, _steps(after.group, after.out), after.out, beside)


def _steps(group: Group, out: Storage) -> OnSums:
    """The separate nodes on sums: times the unit, bias, residual, Relu, quantised."""

    def body(f: KernelBuilder, x: TileValue, p: Mapping[str, Parameter]) -> TileValue:
        real = x if x.dtype == "f32" else chains.real(f, x)
        chains.apply(f, "mul", real, p["unit"], real)
        if "bias" in p:
            chains.apply(f, "add", real, p["bias"], real)
        if group.residual is not None:
            held = p["residual"]
            assert isinstance(held, TileValue)
            f.tile_op("pto.tadd", [real, _dequantised(f, held, group.residual)], [real])
        return _finished(f, real, group, out)

    return body


def is_depthwise(group: Group, weights: np.ndarray) -> bool:
    """Return True for a convolution that the vector unit computes: one channel for each filter,
    and sums of codes that f32 holds."""
    groups = group.core.attrs.get("group", 1)
    most = math.prod(weights.shape[2:]) << 16
    return group.core.op == "Conv" and depthwise.applies(weights.shape, groups) and (
        most < depthwise.EXACT
    )  # fmt: skip


def _depthwise(
    low: Lowering,
    group: Group,
    operands: tuple[np.ndarray, np.ndarray],
    window: Window,
    residual: np.ndarray | None,
    unit: np.ndarray,
) -> np.ndarray:
    """Filters of one channel each: codes less zero points are multiplied and added as f32, exactly,
    and the same kernel finishes the sums."""
    a, b = operands
    zero_a = int(np.asarray(group.a.zero).reshape(-1)[0])
    zeros = np.asarray(group.b.zero).astype(np.float32).reshape(-1, *[1] * (b.ndim - 1))
    weights = b.astype(np.float32) - zeros
    out = storage("f32" if group.out is None else group.out.zero.dtype)
    params: dict[str, np.ndarray] = {"unit": unit}
    if zero_a:
        params["start"] = -zero_a * weights.reshape(len(weights), -1).sum(1)
    beside = {}
    if residual is not None:
        beside["residual"] = residual.reshape(-1, math.prod(window.out))
    finish = _steps(group, out)
    if low.form == "fast" and residual is None and group.out is not None:
        scale = np.float32(group.out.scale)
        with np.errstate(all="ignore"):  # scales that are 0
            params["unit"] = (unit / scale).astype(np.float32)
            if group.bias is not None:
                params["bias"] = (group.bias / scale).astype(np.float32)
        finish = _in_steps_of_the_result(group, out)
    elif group.bias is not None:
        params["bias"] = group.bias

    def started(f: KernelBuilder, x: TileValue, p: Mapping[str, Parameter]) -> TileValue:
        if "start" in p:
            chains.apply(f, "add", x, p["start"], x)
        return finish(f, x, p)

    ending = depthwise.Ending(started, params, beside, kernels.memory_type(out))
    made = depthwise.convolve(low.runner, a, weights, window, zero_a, ending)
    return made if made.dtype == out.array else made.astype(out.array)


def _in_steps_of_the_result(group: Group, out: Storage) -> OnSums:
    """One factor and the bias in steps of the result, Relu, rounded."""

    def body(f: KernelBuilder, x: TileValue, p: Mapping[str, Parameter]) -> TileValue:
        assert group.out is not None
        chains.apply(f, "mul", x, p["unit"], x)
        if "bias" in p:
            chains.apply(f, "add", x, p["bias"], x)
        if group.relu:
            f.tile_op("pto.tmaxs", [x, f.real(0.0)], [x])
        return _rounded(f, x, int(group.out.zero), out)

    return body


def _dequantised(f: KernelBuilder, held: TileValue, operand: Scaled) -> TileValue:
    real = chains.widen(f, held, storage(held.dtype))
    zero = int(np.asarray(operand.zero).reshape(()))
    if zero:
        f.tile_op("pto.tadds", [real, f.real(float(-zero))], [real])
    f.tile_op("pto.tmuls", [real, f.real(float(operand.scale.reshape(())))], [real])
    return real


def _finished(f: KernelBuilder, real: TileValue, group: Group, out: Storage) -> TileValue:
    """Relu and QuantizeLinear of reals."""
    if group.relu:
        f.tile_op("pto.tmaxs", [real, f.real(0.0)], [real])
    if group.out is None:
        return real
    zero = int(group.out.zero)
    shift = f.integer(zero, "i32") if zero else None
    affine = Affine("tensor", f.real(float(group.out.scale)), shift)
    return chains.quantize_exact(f, real, affine, out)


def _in_int32(
    runner: KernelRunner, acc: np.ndarray, after: Epilogue, factor: np.ndarray
) -> np.ndarray:
    """The residual in units of the sums, added in int32; then factor, rounding, zero point."""
    group, out = after.group, after.out
    params: dict[str, np.ndarray] = {"factor": factor}
    beside: dict[str, np.ndarray] = {}
    held = group.residual
    if held is not None and after.residual is not None:
        beside["residual"] = np.ascontiguousarray(after.residual)
        params["ratio"] = (held.scale.reshape(-1) / after.unit).astype(np.float32)

    def body(f: KernelBuilder, x: TileValue, p: Mapping[str, Parameter]) -> TileValue:
        if held is not None:
            codes = p["residual"]
            assert isinstance(codes, TileValue)
            real = chains.widen(f, codes, storage(codes.dtype))
            if int(held.zero):
                f.tile_op("pto.tadds", [real, f.real(float(-int(held.zero)))], [real])
            chains.apply(f, "mul", real, p["ratio"], real)
            whole = chains.converted(f, real, "whole", "i32", chains.CLAMPED)
            f.tile_op("pto.tadd", [x, whole], [x])
        if group.relu:
            f.tile_op("pto.tmaxs", [x, f.integer(0, "i32")], [x])
        assert group.out is not None
        real = chains.real(f, x)
        chains.apply(f, "mul", real, p["factor"], real)
        return _rounded(f, real, int(group.out.zero), out)

    return runner.on_sums("residual", acc, params, body, out, beside)


def _rounded(f: KernelBuilder, real: TileValue, zero: int, out: Storage) -> TileValue:
    whole = chains.converted(f, real, "whole", "i32", chains.CLAMPED)
    if zero:
        chains.clamp(f, whole, -chains.FAR, chains.FAR)
        f.tile_op("pto.tadds", [whole, f.integer(zero, "i32")], [whole])
    return chains.narrow(f, whole, real, out)


# -- sums of two quantised tensors -----------------------------------------------------------------


def _sum(runner: KernelRunner, group: Group, a: np.ndarray, b: np.ndarray, form: str) -> np.ndarray:
    assert group.out is not None
    shape = np.broadcast_shapes(a.shape, b.shape)
    a, b = (np.ascontiguousarray(np.broadcast_to(v, shape)) for v in (a, b))
    out = storage(group.out.zero.dtype)
    words = [storage(v.dtype).name for v in (a, b)]
    whole = [whole_factor(s, group) for s in (group.a, group.b)]

    def exact(f: KernelBuilder, frame) -> None:
        left = _dequantised(f, frame.load("x", words[0]), group.a)
        right = _dequantised(f, frame.load("z", words[1]), group.b)
        f.tile_op("pto.tadd", [left, right], [left])
        frame.store(_finished(f, left, group, out), "y")

    def fast(f: KernelBuilder, frame) -> None:
        parts = []
        for name, word, operand, factor in zip(
            ("x", "z"), words, (group.a, group.b), whole, strict=True
        ):
            held = frame.load(name, word)
            real = chains.widen(f, held, storage(word))
            codes = chains.converted(f, real, "codes", "i32", chains.CLAMPED)
            if int(operand.zero):
                f.tile_op("pto.tadds", [codes, f.integer(-int(operand.zero), "i32")], [codes])
            f.tile_op("pto.tmuls", [codes, f.integer(factor, "i32")], [codes])
            parts.append(codes)
        f.tile_op("pto.tadd", parts, [parts[0]])
        if group.relu:
            f.tile_op("pto.tmaxs", [parts[0], f.integer(0, "i32")], [parts[0]])
        real = chains.real(f, parts[0])
        f.tile_op("pto.tmuls", [real, f.real(2.0**-_STEP)], [real])
        assert group.out is not None
        frame.store(_rounded(f, real, int(group.out.zero), out), "y")

    is_fast = form == "fast" and max(whole) < 1 << 22
    return runner.elementwise("residual", fast if is_fast else exact, {"x": a, "z": b}, out.name)


def whole_factor(operand: Scaled, group: Group) -> int:
    """Return the scale of an operand in steps of the output, in units of 2^-12."""
    assert group.out is not None
    ratio = float(operand.scale.reshape(())) / float(group.out.scale)
    return round(ratio * (1 << _STEP))


# -- what a fused group keeps exactly --------------------------------------------------------------

FITS = 24
"""Bits of the mantissa of an f32."""
UNLIMITED = 1 << 16
"""Bits that no sum fits in."""


def significant_bits(values: np.ndarray) -> int:
    """Return the bits that the mantissas of positive finite numbers take; 1 for powers of two."""
    mantissa, _ = np.frexp(np.abs(np.asarray(values, np.float64)).reshape(-1))
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    low = whole & -whole
    return max(53 - int(v).bit_length() + 1 for v in low) if whole.any() else 1


def largest(operand: Scaled, dtype: np.dtype) -> int:
    """Return the largest magnitude of code less zero point."""
    info = np.iinfo(dtype)
    zero = np.asarray(operand.zero, np.int64)
    return int(max(np.max(info.max - zero), np.max(zero - info.min)))


def sum_bits(group: Group, a_type: np.dtype, b: np.ndarray, depth: int, *, constant: bool) -> int:
    """Return the bits that whole sums of a product may take: of a's largest codes with the weights
    themselves if they are `constant`, else with the largest codes of both."""
    top = largest(group.a, a_type)
    if not constant:
        return math.ceil(math.log2(max(top * largest(group.b, b.dtype) * depth, 1)))
    zero = np.asarray(group.b.zero, np.int64)
    wide = np.abs(b.astype(np.int64) - _along(zero, group, b.ndim))
    axes = _summed(group, b.ndim)
    total = int(wide.sum(axes).max(initial=0)) * top
    if group.bias is not None:
        unit = group.a.scale.reshape(-1).astype(np.float64) * group.b.scale.reshape(-1)
        with np.errstate(all="ignore"):
            largest_bias = float(np.abs(group.bias / unit).max(initial=0))
        if not math.isfinite(largest_bias):  # of a scale that is 0, or a bias that is no number
            return UNLIMITED
        total += math.ceil(largest_bias)
    return math.ceil(math.log2(max(total, 1)))


def _summed(group: Group, rank: int) -> tuple[int, ...]:
    if group.core.op == "Conv":
        return tuple(range(1, rank))
    if group.core.op == "Gemm" and group.core.attrs.get("transB", 0):
        return (1,)
    return (rank - 2,)


def _along(zero: np.ndarray, group: Group, rank: int) -> np.ndarray:
    if zero.size == 1 or group.b.axis is None:
        return zero.reshape(-1)[:1].reshape(())
    shape = [1] * rank
    shape[group.b.axis] = -1
    return zero.reshape(shape)


def statement(
    group: Group, a_type: np.dtype, b: np.ndarray, depth: int, *, constant: bool
) -> tuple[bool, str]:
    """Return whether the exact form must equal the separate nodes bit for bit, and the sentence
    that says why."""
    if group.core.op == "Add":
        return True, "the same f32 steps, element by element"
    sums = sum_bits(group, a_type, b, depth, constant=constant)
    scales = significant_bits(group.a.scale) + significant_bits(group.b.scale)
    if sums + scales <= FITS:
        return True, f"sums of {sums} bits, scales of {scales}: exact in f32 in every order"
    wide = "sums without a limit" if sums == UNLIMITED else f"sums of {sums} bits"
    return False, (
        f"{wide}, scales of {scales}, f32 has {FITS}: where the reference adds rounded"
        " products, results near a tie may differ by one step"
    )


def statement_in(
    group: Group, env: Mapping[str, np.ndarray], constants: Mapping[str, np.ndarray], opset: int
) -> tuple[bool, str]:
    """The same with the operands' codes in `env`."""
    a, b = env[group.a.name], moved(group.b, env, opset)
    if group.core.op == "Add":  # operands of any rank, a scalar too; nothing is summed over
        return statement(group, a.dtype, b, 1, constant=False)
    depth = math.prod(b.shape[i] for i in _summed(group, b.ndim))
    return statement(group, a.dtype, b, depth, constant=group.b.name in constants)
