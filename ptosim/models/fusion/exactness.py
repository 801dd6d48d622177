"""Whether sums of dequantised values are exact in f32, whatever the order of their terms.

A dequantised value is a code times a scale. If the scales of both operands have few significant
bits, every product and every partial sum is a whole number of units scale * scale that fits the 24
bits of an f32: then any evaluator gives the same sum (IEEE 754: exact results are not rounded)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ptosim.models.fusion.groups import Group, Scaled
from ptosim.models.fusion.programs import moved

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
    depth = math.prod(b.shape[i] for i in _summed(group, b.ndim))
    return statement(group, a.dtype, b, depth, constant=group.b.name in constants)
