"""Rounding of floats: to integral values, and to a float format with fewer bits.

The modes are the six of the ISA: `rint` ties to even, `round` ties away from zero, `floor`,
`ceil`, `trunc`, and `odd`, von Neumann rounding: truncate, and make the last kept bit one if
anything was lost. `none` is not a mode here: what it represents depends on the conversion.

Sums with a product, a*b + c, rounded once, as a fused multiply-add does.

The product of two f32, f16 or bf16 values is exact in f64, the sum need not be. Where it is not,
the f64 sum is rounded to odd (its last bit is set), after which the rounding to the narrow format
gives what one rounding of the exact value would give: f64 has more than two bits to spare."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ptosim.machine.numbers.formats import BF16, Format, lookup, require

MODES = ("rint", "round", "floor", "ceil", "trunc", "odd")


def _half_away(values: np.ndarray) -> np.ndarray:
    # Adding one half would round 0.49999997 up, so the lost part is compared instead.
    whole = np.trunc(values)
    step = np.abs(values - whole) >= 0.5
    return whole + np.copysign(step.astype(values.dtype), values)


def _to_odd(values: np.ndarray) -> np.ndarray:
    whole = np.trunc(values)
    halved = whole * 0.5
    step = (whole != values) & (halved == np.trunc(halved))
    return whole + np.copysign(step.astype(values.dtype), values)


_INTEGRAL: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rint": np.rint,
    "round": _half_away,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "odd": _to_odd,
}


@np.errstate(all="ignore")
def to_integral(values: np.ndarray, mode: str) -> np.ndarray:
    """Round f64, f32, f16 or bf16 `values` to integral values of the same type.

    The sign of a zero result is that of the input; infinities and NaN pass. `ValueError` for an
    unknown mode.
    """
    require("rounding mode", mode, MODES)
    if values.dtype == BF16:
        return _INTEGRAL[mode](values.astype(np.float32)).astype(BF16)
    return _INTEGRAL[mode](values)


# Precision in bits and the exponent of the smallest subnormal.
_SHAPES = {"f16": (11, -24), "bf16": (8, -133), "f32": (24, -149)}


def step_sizes(wide: np.ndarray, precision: int, smallest: int) -> np.ndarray:
    """Distance between neighbors around each f64 value in a float format.

    `precision` counts the significant bits, `smallest` is the exponent of the least subnormal.
    """
    exponents = (wide.view(np.int64) >> 52) & 0x7FF
    steps = np.maximum(exponents - (precision - 1), smallest + 1023)
    return (steps << 52).view(np.float64)


def _snap(wide: np.ndarray, dst: str, mode: str) -> np.ndarray:
    """Round f64 values to the precision and exponent range of `dst`, still as f64."""
    steps = step_sizes(wide, *_SHAPES[dst])
    return _INTEGRAL[mode](wide / steps) * steps


def _overflow(rounded: np.ndarray, wide: np.ndarray, form: Format, mode: str) -> np.ndarray:
    """Finite values beyond the range: infinity, or the largest finite one if rounding inwards."""
    upper = form.highest if mode in ("floor", "trunc", "odd") else np.inf
    lower = form.lowest if mode in ("ceil", "trunc", "odd") else -np.inf
    finite = np.isfinite(wide)
    rounded[finite & (rounded > form.highest)] = upper
    rounded[finite & (rounded < form.lowest)] = lower
    return rounded


@np.errstate(all="ignore")
def narrow(values: np.ndarray, dst: str, mode: str, *, saturate: bool) -> np.ndarray:
    """Round f64, f32 or bf16 `values` to `dst` (`f32`, `f16` or `bf16`), in one rounding.

    IEEE in every mode, subnormals included. With `saturate` every result beyond the largest
    finite value, infinities included, becomes that value; NaN stays NaN. `ValueError` for an
    unknown mode or destination.
    """
    require("rounding mode", mode, MODES)
    if dst not in _SHAPES:
        raise ValueError(f"cannot narrow to {dst}")
    form = lookup(dst)
    source = values.astype(np.float32) if values.dtype == BF16 else values
    if mode == "rint" and (dst != "bf16" or source.dtype == np.float32):
        result = source.astype(form.dtype)
    else:
        wide = source.astype(np.float64)
        result = _overflow(_snap(wide, dst, mode), wide, form, mode).astype(form.dtype)
    if saturate:
        _clamp_infinities(result, form)
    return result


_SIGN_BITS = {"f16": np.uint16(1 << 15), "bf16": np.uint16(1 << 15), "f32": np.uint32(1 << 31)}
_INFINITIES = {"f16": np.uint16(0x7C00), "bf16": np.uint16(0x7F80), "f32": np.uint32(0x7F800000)}


def _clamp_infinities(result: np.ndarray, form: Format) -> None:
    infinity = _INFINITIES[form.name]
    bits = result.view(infinity.dtype)
    infinite = (bits & ~_SIGN_BITS[form.name]) == infinity
    if infinite.any():
        # The pattern before that of an infinity is the largest finite value of its sign.
        bits[infinite] -= 1


# -- shortened mantissas ---------------------------------------------------------------------------

_MANTISSA_MODES = ("round_even", "round_away")


def keep_mantissa(values: np.ndarray, bits: int, mode: str) -> np.ndarray:
    """Round f32 values to `bits` bits of mantissa after the point, to nearest, ties to even or away
    from zero, as HF32 and TF32 do. A NaN stays as it is; rounding up the largest values gives
    infinity."""
    require("rounding of the mantissa", mode, _MANTISSA_MODES)
    patterns = np.ascontiguousarray(values).view(np.uint32)
    dropped = np.uint32(23 - bits)
    half = np.uint32(1 << (22 - bits))
    if mode == "round_even":
        half = half - np.uint32(1) + ((patterns >> dropped) & np.uint32(1))
    mask = np.uint32(0xFFFFFFFF << (23 - bits) & 0xFFFFFFFF)
    rounded = (patterns + half) & mask
    return np.where(np.isnan(values), patterns, rounded).view(np.float32)


# -- sums with a product, rounded once -------------------------------------------------------------


_NAMES = {np.dtype(np.float32): "f32", np.dtype(np.float16): "f16", BF16: "bf16"}


@np.errstate(all="ignore")
def multiply_add(first: np.ndarray, second: np.ndarray, addend: np.ndarray) -> np.ndarray:
    """first * second + addend in the type of `addend` (f32, f16 or bf16), with one rounding."""
    product = first.astype(np.float64) * second.astype(np.float64)
    wide = addend.astype(np.float64)
    total = product + wide
    # Knuth's two-sum: the exact error of the f64 addition.
    part = total - product
    lost = (product - (total - part)) + (wide - part)
    inexact = np.isfinite(total) & (lost != 0)
    if inexact.any():
        total = np.where(inexact, _sum_to_odd(total, lost), total)
    return narrow(total, _NAMES[addend.dtype], "rint", saturate=False)


def _sum_to_odd(total: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """Round the exact sum total + lost to odd: to that neighbor whose last bit is one."""
    even = (total.view(np.int64) & 1) == 0
    neighbor = np.nextafter(total, np.where(lost > 0, np.inf, -np.inf))
    return np.where(even, neighbor, total)


def odd_float(values: np.ndarray) -> np.ndarray:
    """Return 64-bit integers in f64, rounded to odd where it cannot hold them: narrowing that to a
    smaller float rounds them once, in any mode."""
    high = (values >> 32).astype(np.float64) * 2.0**32
    low = (values & 0xFFFFFFFF).astype(np.float64)
    total = high + low
    lost = low - (total - high)
    return np.where(lost != 0, _sum_to_odd(total, lost), total)


# Random bits: stochastic rounding into the element formats of the MX modes, and Philox 4x32.
#
# No document says how the hardware draws the random bits of a rounding, so a result is reproducible
# within ptosim and statistically right, and nothing more. Philox 4x32 gives four 32-bit words for
# each value of a 128-bit counter under a 64-bit key (Salmon, Moraes, Dror, Shaw: "Parallel random
# numbers: as easy as 1, 2, 3", 2011).

# Significant bits and the exponent of the smallest subnormal.
_STOCHASTIC_SHAPES = {"f8E4M3FN": (4, -9), "f4E2M1FN": (2, -1)}


def noise(seed: int, counter: int, shape: tuple[int, ...]) -> np.ndarray:
    """uint32 random words of `shape`, a pure function of `seed` and `counter`.

    A counter-based generator (Philox): the words of one operation do not depend on how many were
    drawn before it, so a run can be replayed from any point.
    """
    count = math.prod(shape)
    generator = np.random.Philox(key=seed, counter=[0, 0, counter, 0])
    words = np.asarray(generator.random_raw((count + 1) // 2)).view(np.uint32)
    return words[:count].reshape(shape)


@np.errstate(all="ignore")
def round_stochastically(values: np.ndarray, words: np.ndarray, dst: str) -> np.ndarray:
    """Round f32 `values` up or down to the grid of `dst`, up with the odds of the lost part.

    `dst` is `f8E4M3FN` or `f4E2M1FN`. A magnitude goes up if the lost fraction of its step plus
    word/2^32 reaches one; `words` is uint32 of the same shape. The result is f32 and may be
    beyond the range of `dst`; values of the grid, infinities and NaN pass.
    """
    magnitudes = np.abs(values).astype(np.float64)
    steps = step_sizes(magnitudes, *_STOCHASTIC_SHAPES[dst])
    whole = np.floor(magnitudes / steps + words * 2.0**-32)
    return np.copysign(whole * steps, values).astype(np.float32)


# -- the generator of the language -----------------------------------------------------------------

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_WORD = 1 << 32


def philox4x32(counters: np.ndarray, key: tuple[int, int], rounds: int) -> np.ndarray:
    """Return the blocks of `counters` (uint32 [n, 4], lowest word first) as uint32 [n, 4]."""
    c0, c1, c2, c3 = (counters[:, i].astype(np.uint64) for i in range(4))
    k0, k1 = key
    for _ in range(rounds):
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (second >> np.uint64(32)) ^ c1 ^ np.uint64(k0),
            second & _LOW,
            (first >> np.uint64(32)) ^ c3 ^ np.uint64(k1),
            first & _LOW,
        )
        k0, k1 = (k0 + _KEY_STEPS[0]) % _WORD, (k1 + _KEY_STEPS[1]) % _WORD
    return np.stack((c0, c1, c2, c3), axis=1).astype(np.uint32)


def counter_words(values: list[int]) -> np.ndarray:
    """Return 128-bit counters as uint32 [n, 4], lowest word first; they wrap around."""
    data = b"".join((value % (1 << 128)).to_bytes(16, "little") for value in values)
    return np.frombuffer(data, np.uint32).reshape(-1, 4)
