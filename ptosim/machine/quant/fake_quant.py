"""`quant.const_fake_quant`: from an observed range to a uniform type, and what it does to values.

The operation emulates TensorFlow's fake_quant_with_min_max_args; MLIR turns it into a quantisation
and a dequantisation. All parameters are computed in f64 from f32 limits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.machine.quant.mlir.passes import dcast, qcast
from ptosim.machine.quant.mlir.types import StorageSpec, UniformType

_EPSILON = 2.0**-52


def fake_quant_type(
    low: float | Sequence[float],
    high: float | Sequence[float],
    num_bits: int,
    *,
    narrow_range: bool = False,
    is_signed: bool = False,
    axis: int | None = None,
    expressed: str = "f32",
) -> UniformType:
    """Return the type that represents [low, high]: one range, or with `axis` one for each channel.

    `num_bits` chooses a storage width of 8, 16 or 32; fewer bits do not make the range smaller.
    Raises UsageError for limits or widths that give no type.
    """
    storage = _storage(num_bits, narrow_range, is_signed)
    lows, highs = _limits(low), _limits(high)
    if axis is None and (len(lows), len(highs)) != (1, 1):
        raise UsageError("a list of limits needs an axis")
    if len(lows) != len(highs):
        raise UsageError("mismatched per-axis min and max size")
    pairs = [_parameters(a, b, storage) for a, b in zip(lows, highs, strict=True)]
    scales, zeros = zip(*pairs, strict=True)
    return UniformType(storage, expressed, scales, zeros, axis)


def fake_quant(x: np.ndarray, type_: UniformType, mode: str = "mlir") -> np.ndarray:
    """Return x quantised and dequantised."""
    return dcast(qcast(x, type_, mode), type_, mode)


def _limits(value: float | Sequence[float]) -> list[float]:
    try:
        values = np.atleast_1d(np.asarray(value, np.float32)).astype(np.float64).tolist()
    except OverflowError:  # a whole number of hundreds of digits
        raise UsageError("a limit is larger than any float") from None
    if not values:
        raise UsageError("there are no limits")
    return values


def _storage(num_bits: int, narrow_range: bool, is_signed: bool) -> StorageSpec:
    width = next((w for w in (8, 16, 32) if num_bits <= w), None)
    if width is None or num_bits < 1:
        raise UsageError(f"unsupported FakeQuant number of bits: {num_bits}")
    low = -(1 << (width - 1)) if is_signed else 0
    full = (low, low + (1 << width) - 1)
    first = low + (1 if narrow_range else 0)
    return StorageSpec(
        f"{'i' if is_signed else 'u'}{width}", width, is_signed, False, first, full[1], full
    )


def _parameters(low: float, high: float, storage: StorageSpec) -> tuple[float, int]:
    """Return scale and zero point. The zero point comes from that end of the range which gives it
    with the smaller error, and is rounded half away from zero into the range."""
    first, last = float(storage.low), float(storage.high)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise UsageError(f"limits [{low:g}, {high:g}] give no scale: they are not finite")
    if low > high:
        raise UsageError(f"limits [{low:g}, {high:g}] are not in order")
    if abs(high - low) < _EPSILON:
        return 1.0, storage.low
    scale = (high - low) / (last - first)
    from_low = first - low / scale
    from_high = last - high / scale
    error_low = abs(first) + abs(low / scale)
    error_high = abs(last) + abs(high / scale)
    ideal = from_low if error_low < error_high else from_high
    if ideal < first:
        return scale, storage.low
    if ideal > last:
        return scale, storage.high
    return scale, int(math.copysign(math.floor(abs(ideal) + 0.5), ideal))
