"""4-bit floats in 32-bit lanes. The vector unit's arithmetic does what no instruction here does."""

from __future__ import annotations

from ptosim.ops.lower.writer import Writer

_SIGN, _MAGNITUDE = 0x80000000, 0x7FFFFFFF
NAN_CODE = 7


_OF_SIGNS = {"F": "FC", "C": "CF"}
"""The letters that a magnitude is rounded by, of a positive and of a negative number."""


def encode(out: Writer, value: str, elem: str, letter: str = "R") -> str:
    """Return codes (i32 lanes) of f32 lanes, rounded by a letter of `vcvt` (R, A, F, C, Z),
    saturated, NaN as 7."""
    bits = out.cast(value, "f32", "i32")
    size = out.binary("vand", bits, out.everywhere(_MAGNITUDE), out.every(), "i32")
    magnitude = _e2m1 if elem == "f4E2M1FN" else _e1m2
    by = _OF_SIGNS.get(letter, letter)
    made = [magnitude(out, size, each) for each in by]
    below = out.compare(bits, 0, "lt")
    code = made[0] if len(made) == 1 else out.select(made[1], made[0], below, "i32")
    negative = out.binary("vor", code, out.everywhere(8), out.every(), "i32")
    signed = out.select(negative, code, below, "i32")
    nan = out.compare(size, 0x7F800000, "gt")
    return out.select(out.everywhere(NAN_CODE), signed, nan, "i32")


def _e2m1(out: Writer, size: str, letter: str) -> str:
    if letter != "R":
        return _e2m1_in_steps(out, size, letter)
    # |x| plus the power of two whose unit in the last place is the step of the grid at |x|.
    exponent = _octave(out, size)
    magic = out.shift("vshls", out.with_constant("vadds", exponent, 22), 23)
    total = out.binary(
        "vadd", out.cast(size, "i32", "f32"), out.cast(magic, "i32", "f32"), out.every(), "f32"
    )
    steps = out.binary("vsub", out.cast(total, "f32", "i32"), magic, out.every(), "i32")
    return _code_of_steps(out, steps, exponent)


def _e2m1_in_steps(out: Writer, size: str, letter: str) -> str:
    """|x| divided by the step of the grid, which is exact, as an integer by any mode."""
    exponent = _octave(out, size)
    less = out.binary("vsub", out.everywhere(255), exponent, out.every(), "i32")
    inverse = out.cast(out.shift("vshls", less, 23), "i32", "f32")
    steps = out.binary("vmul", out.cast(size, "i32", "f32"), inverse, out.every(), "f32")
    return _code_of_steps(out, _at_most_seven(out, steps, letter), exponent)


def _octave(out: Writer, size: str) -> str:
    """The biased exponent, which gives the step of the grid: that of 1, 2 or 4."""
    exponent = out.shift("vshrs", size, 23)
    return out.with_constant("vmins", out.with_constant("vmaxs", exponent, 127), 129)


def _code_of_steps(out: Writer, steps: str, exponent: str) -> str:
    octave = out.shift("vshls", out.with_constant("vadds", exponent, -127), 1)
    return out.with_constant("vmins", out.binary("vadd", steps, octave, out.every(), "i32"), 7)


def _e1m2(out: Writer, size: str, letter: str) -> str:
    """A grid of quarters."""
    quarters = out.with_constant("vmuls", out.cast(size, "i32", "f32"), "4.0", "f32")
    return _at_most_seven(out, quarters, letter)


def _at_most_seven(out: Writer, value: str, letter: str) -> str:
    """At most 7, the largest code."""
    steps = out.convert(value, "f32", "si32", rnd=letter)
    return out.with_constant("vmins", out.cast(steps, "si32", "i32"), 7)


def pack(out: Writer, codes: str) -> str:
    """Return the bytes (lanes 0 to 31) of 64 codes: even elements in the low half."""
    even, odd = out.spread("vdintlv", codes, codes, "i32")
    return out.binary("vor", even, out.shift("vshls", odd, 4), out.every(), "i32")


def unpack(out: Writer, packed: str) -> str:
    """Return the 64 codes of 32 bytes (i32 lanes)."""
    low = out.binary("vand", packed, out.everywhere(15), out.every(), "i32")
    return out.spread("vintlv", low, out.shift("vshrs", packed, 4), "i32")[0]


def decode(out: Writer, codes: str, elem: str) -> str:
    """Return f32 patterns (i32 lanes) of codes."""
    size = out.binary("vand", codes, out.everywhere(7), out.every(), "i32")
    if elem == "f4E2M1FN":
        # The fields of the code are those of a float whose exponents are 126 too small.
        low = out.cast(out.shift("vshls", size, 22), "i32", "f32")
        value = out.with_constant("vmuls", low, "0x7E800000", "f32")
    else:
        whole = out.convert(out.cast(size, "i32", "si32"), "si32", "f32")
        value = out.with_constant("vmuls", whole, "0.25", "f32")
    sign = out.binary(
        "vand", out.shift("vshls", codes, 28), out.everywhere(_SIGN - (1 << 32)), out.every(), "i32"
    )
    return out.binary("vor", out.cast(value, "f32", "i32"), sign, out.every(), "i32")
