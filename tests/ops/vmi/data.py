"""Lanes for tests: special and random patterns of each element type, masks of every kind."""

from __future__ import annotations

import random

from tests.ops.micro.data import lane
from tests.oracle.lanes import is_float
from tests.oracle.numerics import FORMATS
from tests.oracle.vmi import bits_of, read_as

COUNT = 75
"""Lanes of a vector that ends in the middle of a register, whatever its type."""


def vector(seed: object, name: str, count: int = COUNT) -> list[int]:
    rng = random.Random(f"{seed}|{name}")
    if name not in FORMATS and name in ("hif8", "f4E1M2x2", "f4E2M1x2", "bf16x2"):
        return [rng.getrandbits(bits_of(name)) for _ in range(count)]
    if name.startswith("f8"):
        return [rng.getrandbits(8) for _ in range(count)]
    return [lane(rng, name if is_float(name) else read_as(name)) for _ in range(count)]


def bools(seed: object, count: int = COUNT) -> list[bool]:
    rng = random.Random(f"{seed}|mask")
    return [rng.random() < 0.6 for _ in range(count)]


def is_nan(pattern: int, name: str) -> bool:
    form = FORMATS[name]
    top = ((1 << form.exponent_bits) - 1) << form.mantissa_bits
    if form.kind == "fn":
        return pattern & 0x7F == 0x7F
    return (pattern & ((1 << (form.bits - 1)) - 1)) > top


def assert_lanes(found: list[int], expected: list[int | None], name: str) -> None:
    """Bits are equal; None is any NaN."""
    assert len(found) == len(expected)
    wrong = []
    for i, (got, want) in enumerate(zip(found, expected, strict=True)):
        fits = is_nan(got, name) if want is None else got == want
        if not fits:
            wrong.append(f"lane {i}: {got:#x}, expected {'NaN' if want is None else hex(want)}")
    assert not wrong, "; ".join(wrong[:5])
