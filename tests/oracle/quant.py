"""Quantisation formulas one number at a time, with rational arithmetic.

Written from the public descriptions of each system, without ptosim and without NumPy: a finite number is
a Fraction, infinities and NaN are floats. `QUANTISERS` has one function for each scheme.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

Number = Fraction | float  # a float represents infinities and NaN only

# Precision in bits, exponents of the smallest and largest normal number.
FORMATS = {
    "f16": (11, -14, 15),
    "bf16": (8, -126, 127),
    "f32": (24, -126, 127),
    "f64": (53, -1022, 1023),
    "tf32": (11, -126, 127),
    "f80": (64, -16382, 16383),
}


def number(value: float) -> Number:
    """Return the exact value of a float."""
    return Fraction(value) if math.isfinite(value) else value


def nearest_even(value: Fraction) -> int:
    """Return the integer next to a fraction; of two the even one."""
    whole = math.floor(value)
    rest = value - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2):
        return whole + 1
    return whole


def nearest_away(value: Fraction) -> int:
    """Return the integer next to a fraction; of two the one farther from zero."""
    sign = -1 if value < 0 else 1
    return sign * math.floor(abs(value) + Fraction(1, 2))


def rounded(value: Number, name: str) -> Number:
    """Return a number as a binary float format holds it, nearest even."""
    if isinstance(value, float):
        return value
    precision, low, high = FORMATS[name]
    if value == 0:
        return Fraction(0)
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, low) - precision + 1)
    result = nearest_even(size / step) * step
    if result >= Fraction(2) ** (high + 1):
        result = math.inf
    return -result if value < 0 else result


def divided(a: Number, b: Number) -> Number:
    """Return a / b as IEEE has it; zeros have no sign here, so x / 0 takes the sign of x."""
    if isinstance(a, Fraction) and isinstance(b, Fraction) and b != 0:
        return a / b
    if _nan(a, b) or (isinstance(a, float) and isinstance(b, float)):
        return math.nan
    if isinstance(b, float):
        return Fraction(0)
    sign = -1 if (a < 0) != (b < 0) else 1
    return math.nan if a == 0 else sign * math.inf


def product(a: Number, b: Number) -> Number:
    """Return a * b."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a * b
    if _nan(a, b) or a == 0 or b == 0:
        return math.nan
    return math.inf if (a < 0) == (b < 0) else -math.inf


def total(a: Number, b: Number) -> Number:
    """Return a + b."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a + b
    if _nan(a, b) or (isinstance(a, float) and isinstance(b, float) and a != b):
        return math.nan
    return a if isinstance(a, float) else b


def _nan(*values: Number) -> bool:
    return any(isinstance(v, float) and math.isnan(v) for v in values)


Limits = tuple[int, int]


def clamp(value: Number, limits: Limits, nan: int, rounding=nearest_even) -> int:
    """Return a number as an integer inside limits."""
    if isinstance(value, float):
        if math.isnan(value):
            return nan
        return limits[1] if value > 0 else limits[0]
    return min(max(rounding(value), limits[0]), limits[1])


def limits_of(bits: int, signed: bool) -> Limits:
    """Return the range of an integer type."""
    low = -(1 << (bits - 1)) if signed else 0
    return low, low + (1 << bits) - 1


def reciprocal(scale: Number) -> Number:
    """Return 1 / scale in f32."""
    return rounded(divided(Fraction(1), scale), "f32")


def fp19(value: Number) -> Number:
    """Return an f32 without its lower 13 mantissa bits."""
    if isinstance(value, float) or value == 0:
        return value
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, -126) - 10)
    cut = math.floor(size / step) * step
    return -cut if value < 0 else cut


# -- the schemes: x, scale, multiplier, zero point, bits, signedness -> stored value ---------------------


def _after(q: Number, z: int, limits: Limits, rounding=nearest_even) -> int:
    """Zero point added to the rounded quotient; NaN gives the lower limit."""
    if isinstance(q, float):
        return clamp(q, limits, limits[0])
    return clamp(Fraction(rounding(q) + z), limits, limits[0])


def onnx(x, s, m, z, bits, signed):
    return _after(rounded(divided(x, s), "f32"), z, limits_of(bits, signed))


def onnx_ref(x, s, m, z, bits, signed):
    q = rounded(divided(x, s), "f32")
    whole = -(1 << 31)
    if isinstance(q, Fraction) and abs(nearest_even(q)) < 1 << 31:
        whole = nearest_even(q)
    whole = (whole + z + (1 << 31)) % (1 << 32) - (1 << 31)
    return clamp(Fraction(whole), limits_of(bits, signed), 0)


def qlinear_ref(x, s, m, z, bits, signed):
    limits = limits_of(bits, signed)
    real = rounded(total(rounded(product(x, m), "f64"), Fraction(z)), "f64")
    return clamp(real, limits, limits[0])


def qlinear_ort(x, s, m, z, bits, signed):
    return _after(rounded(product(x, m), "f32"), z, limits_of(bits, signed))


def mlir(x, s, m, z, bits, signed):
    limits = limits_of(bits, signed)
    return clamp(_quotient_plus(x, s, z, "f32"), limits, limits[0])


def expressed(x: Number, s: Number, z: int, limits: Limits, name: str) -> int:
    """quant.qcast with every step in the expressed type: clamp(round(x / s + float(z)))."""
    return clamp(_quotient_plus(rounded(x, name), rounded(s, name), z, name), limits, limits[0])


def real(q: int, s: Number, z: int, name: str) -> Number:
    """quant.dcast with every step in the expressed type: (float(q) - float(z)) * s."""
    difference = rounded(Fraction(q), name) - rounded(Fraction(z), name)
    return rounded(product(rounded(difference, name), rounded(s, name)), name)


def scaled(x: Number, s: Number) -> int:
    """A real value as a fixed-point value: f32(x / s), rounded to an integer."""
    quotient = rounded(divided(x, s), "f32")
    assert isinstance(quotient, Fraction)
    return nearest_even(quotient)


def real_of_scaled(q: int, s: Number) -> Number:
    """The real value of a fixed-point value in f32."""
    return rounded(product(rounded(Fraction(q), "f32"), s), "f32")


def _quotient_plus(x, s, z, name):
    quotient = rounded(divided(x, s), name)
    return rounded(total(quotient, rounded(Fraction(z), name)), name)


def mlir_lower(x, s, m, z, bits, signed):
    low, _ = limits_of(bits, signed)
    z = (z - low) % (1 << bits) + low
    real = _quotient_plus(x, s, z, "f32")
    whole = -(1 << 31)  # what the conversion instruction gives for everything out of range
    if isinstance(real, Fraction) and -(1 << 31) <= math.trunc(real) < 1 << 31:
        whole = math.trunc(real)
    return (whole - low) % (1 << bits) + low


def mlir_lower_clamp(x, s, m, z, bits, signed):
    limits = limits_of(bits, signed)
    return clamp(_quotient_plus(x, s, z, "f32"), limits, limits[0], math.trunc)


def mlir_const(x, s, m, z, bits, signed):
    limits = limits_of(bits, signed)
    return clamp(_quotient_plus(x, s, z, "f64"), limits, limits[0], nearest_away)


def mlir_const_wide(x, s, m, z, bits, signed):
    return _after(rounded(divided(x, s), "f64"), z, limits_of(bits, signed), nearest_away)


def two_steps(x, m, z):
    """f32 product, f32 sum."""
    return rounded(total(rounded(product(x, m), "f32"), rounded(Fraction(z), "f32")), "f32")


def onednn(x, s, m, z, bits, signed):
    limits = limits_of(bits, signed)
    return clamp(two_steps(x, m, z), limits, limits[0] if signed else limits[1])


def torch_quant(x, s, m, z, bits, signed):
    limits = limits_of(bits, signed)
    return clamp(rounded(total(product(x, m), Fraction(z)), "f32"), limits, limits[0])


def pto_hw(x, s, m, z, bits, signed):
    limits = limits_of(bits, signed)
    return clamp(Fraction(clamp(two_steps(x, m, z), (-(1 << 31), (1 << 31) - 1), 0)), limits, 0)


def pto_spec(x, s, m, z, bits, signed):
    return clamp(total(product(x, m), Fraction(z)), limits_of(bits, signed), 0)


def pto_spec_modulo(x, s, m, z, bits, signed):
    low, _ = limits_of(bits, signed)
    exact = total(product(x, m), Fraction(z))
    whole = nearest_even(exact) if isinstance(exact, Fraction) else 0
    return (whole - low) % (1 << bits) + low


def fixpipe(x, s, m, z, bits, signed):
    half = 1 << bits
    first = clamp(product(x, fp19(m)), (-half, half - 1), 0)
    return clamp(Fraction(first + z), limits_of(bits, signed), 0)


def fixpipe_cpumodel(x, s, m, z, bits, signed):
    limits = limits_of(bits, signed)
    return clamp(two_steps(x, m, z % (1 << (bits + 1))), limits, limits[0])


def page(x, s, m, z, bits, signed):
    low, high = limits_of(bits, signed)
    limits = max(low, -128), min(high, 127)
    q = rounded(divided(x, s), "f32")
    if isinstance(q, float) and math.isnan(q):
        return clamp(Fraction(z), limits, 0)
    return _after(q, z, limits)


def naive_f16(x, s, m, z, bits, signed):
    return clamp(rounded(two_steps(x, m, z), "f16"), limits_of(bits, signed), 0)


Quantiser = Callable[[Number, Number, Number, int, int, bool], int]

QUANTISERS: dict[str, Quantiser] = {
    "onnx": onnx,
    "onnx-ref": onnx_ref,
    "ort": onnx,
    "onnx-ref-qlinear": qlinear_ref,
    "ort-qlinear": qlinear_ort,
    "mlir": mlir,
    "mlir-page": onnx,
    "mlir-lower": mlir_lower,
    "mlir-lower-clamp": mlir_lower_clamp,
    "mlir-const": mlir_const,
    "mlir-const-wide": mlir_const_wide,
    "onednn": onednn,
    "torch-quant": torch_quant,
    "torch-fake": qlinear_ort,
    "pto-hw": pto_hw,
    "pto-spec": pto_spec,
    "pto-spec-modulo": pto_spec_modulo,
    "fixpipe": fixpipe,
    "fixpipe-cpumodel": fixpipe_cpumodel,
    "page": page,
    "naive-f16": naive_f16,
}


# -- narrow floats ----------------------------------------------------------------------------------------

# Mantissa bits, exponent bias, largest code of a finite magnitude, code of overflow, code of NaN.
NARROW = {
    "f8E4M3FN": (3, 7, 0x7E, 0x7F, 0x7F),
    "f8E4M3FNUZ": (3, 8, 0x7F, 0x80, 0x80),
    "f8E5M2": (2, 15, 0x7B, 0x7C, 0x7E),
    "f8E5M2FNUZ": (2, 16, 0x7F, 0x80, 0x80),
    "f6E2M3FN": (3, 1, 0x1F, 0x1F, 0x20),
    "f6E3M2FN": (2, 3, 0x1F, 0x1F, 0x20),
    "f4E2M1FN": (1, 1, 0x7, 0x7, 0x8),
}
SIGNS = {"f6E2M3FN": 0x20, "f6E3M2FN": 0x20, "f4E2M1FN": 0x8}


def narrow_value(name: str, magnitude: int) -> Fraction:
    """Return the value of a finite magnitude code."""
    mantissa, bias, *_ = NARROW[name]
    exponent, fraction = divmod(magnitude, 1 << mantissa)
    significand = fraction + ((1 << mantissa) if exponent else 0)
    return Fraction(significand) * Fraction(2) ** (max(exponent, 1) - bias - mantissa)


def narrow_code(name: str, value: float, saturate: bool) -> int:
    """Return the code of an f32 value, nearest even; -0 keeps its sign where the format has one."""
    _, _, last, overflow, nan = NARROW[name]
    sign = SIGNS.get(name, 0x80)
    unsigned_nan = "UZ" in name or name in SIGNS
    negative = sign if math.copysign(1, value) < 0 else 0
    if math.isnan(value):
        return nan if unsigned_nan else nan | negative
    code = _magnitude(name, abs(value), last)
    if code > last:
        if saturate or name in SIGNS:
            return last | negative
        return overflow if "UZ" in name else overflow | negative
    if code == 0 and "UZ" in name:
        return 0
    return code | negative


def _magnitude(name: str, size: float, last: int) -> int:
    if math.isinf(size):
        return last + 1
    exact = Fraction(size)
    low, high = 0, last + 2  # of a format that goes on beyond its largest value
    while high - low > 1:
        middle = (low + high) // 2
        if narrow_value(name, middle) <= exact:
            low = middle
        else:
            high = middle
    below, above = narrow_value(name, low), narrow_value(name, low + 1)
    if exact - below > above - exact or (exact - below == above - exact and low % 2):
        return low + 1
    return low
