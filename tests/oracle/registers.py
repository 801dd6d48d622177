"""Slow model of what happens between lanes: masks applied, reductions, rearrangement, conversions placed.

Registers are lists of lane patterns (None: any NaN), see `lanes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from tests.oracle import lanes as one
from tests.oracle.lanes import Bits, Pattern

Lanes = Sequence[Pattern]


def gated(results: Lanes, mask: Bits, name: str) -> list[Pattern]:
    """Inactive lanes are 0."""
    on = one.active(mask, one.bits_of(name) // 8)
    return [r if a else 0 for r, a in zip(results, on, strict=True)]


def lane_wise(function: Callable[..., Pattern], *registers: Sequence[int]) -> list[Pattern]:
    return [function(*values) for values in zip(*registers, strict=True)]


# -- reductions -------------------------------------------------------------------------------------


def _sum(values: list[int], name: str) -> Pattern:
    """Adjacent pairs, level by level, each sum rounded to the type (integers wrap at the end)."""
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=True)
        sums = [one.binary("add", a, b, name) for a, b in pairs]
        if None in sums:
            sums = [one.encode_exact("nan", name) if s is None else s for s in sums]
        values = [s for s in sums if s is not None]
    nan = one.is_float(name) and one.is_nan(one.decode(values[0], name))
    return None if nan else values[0]


def sums(register: Sequence[int], mask: Bits, src: str, dst: str, groups: int) -> list[Pattern]:
    """Sums of `groups` equal parts in the first lanes; the wider type `dst` takes sign-extended lanes."""
    on = one.active(mask, one.bits_of(src) // 8)
    widened = [
        r if one.is_float(src) else one.number(r, src) & ((1 << one.bits_of(dst)) - 1)
        for r in register
    ]
    values = [r if a else 0 for r, a in zip(widened, on, strict=True)]
    size = len(values) // groups
    found = [_sum(values[g * size : (g + 1) * size], dst) for g in range(groups)]
    return found + [0] * (2048 // one.bits_of(dst) - groups)


def _extremum(pairs: list[tuple[int, int]], name: str, larger: bool) -> tuple[int, Pattern]:
    """Index and pattern of the first extremum; the first NaN beats everything, zeros are equal."""
    best = pairs[0]
    for pair in pairs[1:]:
        x, y = one.read(pair[1], name), one.read(best[1], name)
        if one.is_nan(y):
            break
        if one.is_nan(x) or (
            (one.order(x)[0] > one.order(y)[0]) == larger and one.order(x)[0] != one.order(y)[0]
        ):
            best = pair
    return best


def _worst(name: str, larger: bool) -> int:
    bits = one.bits_of(name)
    if one.is_float(name):
        return one.encode_exact("-inf" if larger else "inf", name)
    if one.is_unsigned(name):
        return 0 if larger else (1 << bits) - 1
    return 1 << (bits - 1) if larger else (1 << (bits - 1)) - 1


def extremum(register: Sequence[int], mask: Bits, name: str, *, larger: bool) -> list[Pattern]:
    """Lane 0 the extremum, lane 1 its index."""
    on = one.active(mask, one.bits_of(name) // 8)
    values = [r if a else _worst(name, larger) for r, a in zip(register, on, strict=True)]
    at, best = _extremum(list(enumerate(values)), name, larger)
    result: list[Pattern] = [0] * len(values)
    result[0], result[1] = best, at
    return result


def group_extrema(register: Sequence[int], mask: Bits, name: str, *, larger: bool) -> list[Pattern]:
    on = one.active(mask, one.bits_of(name) // 8)
    values = [r if a else _worst(name, larger) for r, a in zip(register, on, strict=True)]
    size = len(values) // 8
    result: list[Pattern] = [0] * len(values)
    for g in range(8):
        result[g] = _extremum(list(enumerate(values[g * size : (g + 1) * size])), name, larger)[1]
    return result


# -- rearrangement ------------------------------------------------------------------------------------


def interleave(a: Sequence, b: Sequence) -> tuple[list, list]:
    stream = [x for pair in zip(a, b, strict=True) for x in pair]
    return stream[: len(a)], stream[len(a) :]


def deinterleave(a: Sequence, b: Sequence) -> tuple[list, list]:
    stream = [*a, *b]
    return [stream[2 * i] for i in range(len(a))], [stream[2 * i + 1] for i in range(len(a))]


def squeeze(register: Sequence[int], on: Sequence[int]) -> list[int]:
    chosen = [r for r, a in zip(register, on, strict=True) if a]
    return chosen + [0] * (len(register) - len(chosen))


def prefix_count(on: Sequence[int]) -> list[int]:
    counts, total = [], 0
    for a in on:
        counts.append(total)
        total += a
    return counts


def pack_half(register: Sequence[int], bits: int, *, higher: bool) -> list[int]:
    """The lower half of each lane of `bits`, as lanes of half the width."""
    low = [r & ((1 << bits // 2) - 1) for r in register]
    zeros = [0] * len(low)
    return zeros + low if higher else low + zeros


def unpack_half(register: Sequence[int], bits: int, part: int, *, signed: bool) -> list[int]:
    half = len(register) // 2
    chosen = register[half * part : half * (part + 1)]
    if not signed:
        return list(chosen)
    return [(r - (1 << bits) if r >> (bits - 1) else r) & ((1 << 2 * bits) - 1) for r in chosen]


# -- conversions --------------------------------------------------------------------------------------

PARTS = {None: 0, "EVEN": 0, "ODD": 1, "P0": 0, "P1": 1, "P2": 2, "P3": 3}


def converted(
    register: Sequence[int],
    mask: Bits,
    src: str,
    dst: str,
    letter: str = "R",
    *,
    saturate: bool = False,
    part: str | None = None,
) -> list[Pattern]:
    """vcvt with the mask of the source's lanes."""
    wide, narrow = one.bits_of(src), one.bits_of(dst)
    on = one.active(mask, wide // 8)
    k = PARTS[part]
    result: list[Pattern] = [0] * (2048 // narrow)
    for i in range(len(result) if narrow > wide else len(register)):
        step = max(wide, narrow) // min(wide, narrow)
        source = step * i + k if narrow > wide else i
        target = step * i + k if narrow < wide else i
        if on[source]:
            result[target] = one.convert(register[source], src, dst, letter, saturate=saturate)
    return result


def expdif(a: Sequence[int], b: Sequence[int], mask: Bits, name: str, part: str) -> list[Pattern]:
    if name == "f32":
        return gated(lane_wise(lambda x, y: one.expdif(x, y, name), a, b), mask, name)
    on = one.active(mask, 2)
    first = 1 if part == "ODD" else 0
    return [one.expdif(a[i], b[i], name) if on[i] else 0 for i in range(first, 128, 2)]


def ramp(start: int, name: str, step: int) -> list[Pattern]:
    """start, start + step, … from the pattern of a scalar."""
    count = 2048 // one.bits_of(name)
    if one.is_float(name):
        first = one.finite(one.decode(start, name))
        assert first is not None
        # Computed as a float, in f32 for f16: the sum is rounded to f32 and then to the type.
        return [
            one.pack(one.rounded(one.plus(first, Fraction(step * i)), "f32"), name)
            for i in range(count)
        ]
    return [
        (one.number(start, name) + step * i) & ((1 << one.bits_of(name)) - 1) for i in range(count)
    ]
