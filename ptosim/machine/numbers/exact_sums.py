"""Sums of products that no order changes: exact, then rounded to f32 once.

Factors are f64 values whose products are exact in f64 (all types of the cube: f32 and narrower,
block scales included), far from the limits of its exponent.

BLAS gives a product in some order of sums, which is off by at most (k - 1) u times the sum of
magnitudes (u = 2^-53), and that sum is at most |row| |column| (Cauchy and Schwarz). Where all
of that interval rounds to one f32, it is the exact sum's. Of the elements that stay open, a few are
added in short pieces, which are off by less, then summed one by one; where there are many, factors
are cut into slices of so few bits that BLAS makes exact products of them (Ozaki, Ogita, Oishi and
Rump 2012), and these are added as pairs of f64."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from ptosim.ground.processes import OF_BLAS, wanted_threads

# Products of matrices of f64 by BLAS, without threads of their own.
#
# BLAS divides a product of a tile among threads that then wait for one another: on a quiet machine
# little is gained, on a shared one a product of 128 x 128 x 128 takes fifty times as long. So
# products run on as many threads as `PTOSIM_THREADS` says, one unless it is set; several cores are
# used by blocks that run side by side.
#
# The command line says so to BLAS before NumPy is loaded (`ptosim.ground.processes`). As a library,
# where NumPy and its threads are the caller's, the number is set around each product that BLAS
# would divide and set back after it, with threadpoolctl (`ptosim[speed]`); without that package a
# product is made in pieces that are too small to be divided.
#
# The order of the sums is that of the BLAS of this machine: what needs none is `exact_sums`.

UNDIVIDED = 64**3
"""m x n x k up to which OpenBLAS keeps a product on one thread (interface/gemm.c: four times its
smallest threshold of 65,536)."""


def multiply(left: np.ndarray, right: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return left x right ([m, k], [k, n]; in `out` if it is given) as `np.matmul` does. Raises
    UsageError where `PTOSIM_THREADS` is no number."""
    m, k = left.shape
    n = right.shape[1]
    if m * n * k <= UNDIVIDED:
        return np.matmul(left, right, out=out)
    libraries = _libraries()
    if libraries is None:
        return _in_pieces(left, right, out)
    threads = wanted_threads()
    changed = [(c, c.get_num_threads()) for c in libraries]
    changed = [(c, number) for c, number in changed if number != threads]
    for library, _ in changed:
        library.set_num_threads(threads)
    try:
        return np.matmul(left, right, out=out)
    finally:
        for library, number in changed:
            library.set_num_threads(number)


def _in_pieces(left: np.ndarray, right: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """A product of some rows and columns at a time; the sum of an element is in one of them."""
    (m, k), n = left.shape, right.shape[1]
    if out is None:
        out = np.empty((m, n), np.result_type(left, right))
    rows = max(min(m, 64, UNDIVIDED // k), 1)
    columns = max(UNDIVIDED // (k * rows), 1)
    for row in range(0, m, rows):
        for column in range(0, n, columns):
            there = slice(row, row + rows), slice(column, column + columns)
            np.matmul(left[there[0]], right[:, there[1]], out=out[there])
    return out


@cache
def _libraries() -> tuple[Any, ...] | None:
    """The libraries whose threads threadpoolctl can set, () if none is to be set; None without that
    package, where products have to be small."""
    threads = wanted_threads()
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        # What was in the environment when NumPy was loaded is what holds.
        told = any(os.environ.get(name) == "1" for name in OF_BLAS)
        return () if told or threads > 1 else None
    return tuple(c for c in ThreadpoolController().lib_controllers if c.user_api == "blas")


UNIT = 2.0**-53
_SLACK = 1 + 2.0**-20
_AT_ONCE = 1 << 15  # elements that stay in the cache
_TOGETHER = 4  # products of slices in one sum


Lengths = tuple[np.ndarray, np.ndarray]
"""Of the rows of the left factor and the columns of the right one."""


@np.errstate(all="ignore")
def exact_product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return left x right ([m, k], [k, n], f64) as f32: each element its exact sum, rounded once,
    to nearest, ties to even. A sum of zero is +0; NaN and infinities are those of IEEE 754."""
    rows = _lengths(left)
    columns = np.sqrt(np.einsum("kj,kj->j", right, right))
    if not (np.isfinite(rows).all() and np.isfinite(columns).all()):
        return _with_specials(left, right)
    total = multiply(left, right)
    k = left.shape[1]
    if k == 1:
        return (total + 0.0).astype(np.float32)
    off = _part(k) * rows, columns
    result, wide = _by_units(left, right, total, (rows, columns), off) or _by_interval(total, *off)
    if wide is not None and wide.any():
        _close(left, right, total, (rows, columns), result, wide)
    return result


def _part(k: int) -> float:
    """How far off a sum of k products is at most, as part of the sum of magnitudes; with two units
    more, for the roundings of the ends of the interval."""
    return (k + 3) * UNIT * _SLACK


_SHORT = 22
"""Bits after the first one of two factors at most, if their sums may be of few units: those of
f16, of narrower types, of small whole numbers."""


def _by_units(
    left: np.ndarray, right: np.ndarray, total: np.ndarray, lengths: Lengths, off: Lengths
) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Totals as f32 where factors have so few bits that nearly all sums are exact in any order:
    less than 2^53 of the unit of their products. Of the others, which are looked at one by one,
    where the interval has another f32; None if none has. None alone where these are many."""
    one = _bits(left)
    if one > _SHORT or one + (two := _bits(right)) > _SHORT:
        return None
    rows = lengths[0] / _units(left, 1, one)
    columns = 2.0**53 / _SLACK / (lengths[1] / _units(right, 0, two))
    some = np.flatnonzero(rows >= columns.min(initial=np.inf))
    longer = rows[some, None] >= columns
    if np.count_nonzero(longer) > total.size >> 4:
        return None
    np.add(total, 0.0, out=total)  # a sum of zero is +0
    result = total.astype(np.float32)
    if not len(some):
        return result, None
    i, j = np.nonzero(longer)
    i = some[i]
    ends = np.empty((2, len(i)), np.float32)
    still = _ends(total[i, j], off[0][i] * off[1][j], *ends)
    result[i, j] = ends[1]
    if not still.any():
        return result, None
    wide = np.zeros(total.shape, bool)
    wide[i[still], j[still]] = True
    return result, wide


def _bits(factor: np.ndarray) -> int:
    """Bits after the first one of a mantissa that some value of a factor needs."""
    used = int(np.bitwise_or.reduce(factor.view(np.int64), axis=None)) & (1 << 52) - 1
    return 53 - (used & -used).bit_length() if used else 0


def _units(factor: np.ndarray, axis: int, bits: int) -> np.ndarray:
    """A power of two for each line of a factor, of which all of its values are multiples."""
    sizes = np.abs(factor)
    least = sizes.min(axis, initial=np.inf)
    if not least.all():  # 0 is a multiple of everything
        least = np.where(sizes == 0, np.inf, sizes).min(axis)
    return np.ldexp(1.0, np.frexp(least)[1] - 1 - bits)


def _by_interval(
    total: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Totals as f32, and where those that are off by rows x columns have another one."""
    result, wide = np.empty(total.shape, np.float32), np.empty(total.shape, bool)
    step = max(_AT_ONCE // max(total.shape[1], 1), 1)
    off = np.empty((min(step, total.shape[0]), total.shape[1]))
    low = np.empty(off.shape, np.float32)
    for row in range(0, total.shape[0], step):
        part = slice(row, row + step)
        here = total[part]
        count = len(here)
        np.multiply(rows[part, None], columns, out=off[:count])
        wide[part] = _ends(here, off[:count], low[:count], result[part])
    return result, wide


def _ends(total: np.ndarray, off: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Put total - off and total + off as f32 into `low` and `high`; where they differ. (An exact
    sum of zero is +0 in `high`, whatever its sign in total.)"""
    np.subtract(total, off, out=low, casting="same_kind")
    np.add(total, off, out=high, casting="same_kind")
    return low.view(np.uint32) != high.view(np.uint32)


def _few(wide: np.ndarray) -> bool:
    """True if so many sums, one by one, take no longer than products of slices."""
    return int(np.count_nonzero(wide)) <= max(2, wide.size >> 9)


def _close(
    left: np.ndarray,
    right: np.ndarray,
    total: np.ndarray,
    lengths: Lengths,
    result: np.ndarray,
    wide: np.ndarray,
) -> None:
    """Put exact sums where `wide` leaves elements of the result open."""
    if wide.size >> 13 < np.count_nonzero(wide) <= wide.size >> 8:
        _by_pieces(left, right, lengths, result, wide)
    if np.count_nonzero(wide) <= max(1, wide.size >> 10):
        return _one_by_one(left, right, result, wide)
    _of_whole_numbers(left, right, total, lengths, result, wide)
    if not _few(wide) and _help(left, right, total, wide):
        _by_magnitudes(left, right, total, result, wide)
    if _few(wide):
        return _one_by_one(left, right, result, wide)
    return _by_slices(left, right, result, wide)


def _help(left: np.ndarray, right: np.ndarray, total: np.ndarray, wide: np.ndarray) -> bool:
    """True if narrower intervals leave few elements open in some of the rows."""
    some = slice(None, None, max(len(left) // 8, 1))
    still = wide[some].copy()
    _by_magnitudes(left[some], right, total[some], np.empty(still.shape, np.float32), still)
    return int(np.count_nonzero(still)) <= still.size >> 3


def _of_whole_numbers(
    left: np.ndarray,
    right: np.ndarray,
    total: np.ndarray,
    lengths: Lengths,
    result: np.ndarray,
    wide: np.ndarray,
) -> None:
    """Close what is exact in any order: factors that are whole multiples of 2^-26 of the power of
    two above the length of their row or column have sums of less than 2^53 units."""
    rows = np.asarray(_is_whole(left, lengths[0][:, None]).all(axis=1))
    exact = wide & rows[:, None]
    if exact.any():
        exact &= _is_whole(right, lengths[1]).all(0)
        result[exact] = (total[exact] + 0.0).astype(np.float32)
        wide &= ~exact


def _is_whole(factor: np.ndarray, length: np.ndarray) -> np.ndarray:
    _, exponent = np.frexp(length * _SLACK)
    shift = np.ldexp(1.5, exponent + 26)
    return (factor + shift) - shift == factor


def _by_magnitudes(
    left: np.ndarray, right: np.ndarray, total: np.ndarray, result: np.ndarray, wide: np.ndarray
) -> None:
    """Close what a narrower interval closes, of the sum of magnitudes itself."""
    off = multiply(np.abs(left), np.abs(right))
    off *= _part(left.shape[1]) * _SLACK
    ends = [np.empty(total.shape, np.float32) for _ in range(2)]
    still = _ends(total, off, *ends)
    np.copyto(result, ends[1], where=wide & ~still)
    wide &= still


# -- one by one ------------------------------------------------------------------------------------


def _one_by_one(left: np.ndarray, right: np.ndarray, result: np.ndarray, which: np.ndarray) -> None:
    for i, j, one, other in _pairs(left, right, which):
        products = one * other.T
        made, still = _certain(*_by_halves(products))
        if still.any():
            made[still] = [_with_fractions(line) for line in products[still].tolist()]
        result[i, j] = made


Pair = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _pairs(left: np.ndarray, right: np.ndarray, which: np.ndarray) -> Iterator[Pair]:
    """Where elements are, some at a time, and what they are sums of: rows [elements, k] of left and
    columns [k, elements] of right. Neighbours in a row of right are read together."""
    rows, columns = np.divmod(np.flatnonzero(which), which.shape[1])
    order = np.argsort(columns, kind="stable")
    step = max(4 * _AT_ONCE // left.shape[1], 1)
    for at in range(0, len(order), step):
        i, j = rows[order[at : at + step]], columns[order[at : at + step]]
        yield i, j, left[i], np.take(right, j, axis=1)


def _by_pieces(
    left: np.ndarray, right: np.ndarray, lengths: Lengths, result: np.ndarray, wide: np.ndarray
) -> None:
    """Close what sums of the sums of short pieces close: in them a product goes through fewer
    additions than k, so that they are off by less."""
    k = left.shape[1]
    size = math.isqrt(k)
    pieces = [slice(at, at + size) for at in range(0, k, size)]
    for i, j, one, other in _pairs(left, right, wide):
        total = np.zeros(len(i))
        for piece in pieces:
            total += np.einsum("ik,ki->i", one[:, piece], other[piece])
        off = _part(size + len(pieces)) * lengths[0][i] * lengths[1][j]
        ends = np.empty((2, len(i)), np.float32)
        still = _ends(total, off, *ends)
        result[i[~still], j[~still]] = ends[1][~still]
        wide[i, j] = still


def _by_halves(terms: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums of rows as a value, what it lacks, and how far off that is at most."""
    low, size, k = np.zeros(len(terms)), np.zeros(len(terms)), terms.shape[1]
    while terms.shape[1] > 1:
        half = terms.shape[1] // 2
        sums, errors = two_sum(terms[:, :half], terms[:, half : 2 * half])
        low += errors.sum(axis=1)
        size += np.abs(errors).sum(axis=1)
        terms = np.concatenate((sums, terms[:, 2 * half :]), axis=1)
    return terms[:, 0], low, size * _part(k)


def _with_fractions(terms: list[float]) -> np.float32:
    total = math.fsum(terms)  # rounded to f64 once; the rest says on which side the sum is
    return rounded(np.array([total]), np.array([math.fsum([*terms, -total])]))[0]


def rounded(sums: np.ndarray, rests: np.ndarray) -> np.ndarray:
    """Return sums + rests as f32, rounded once: `sums` are those values rounded to f64. A rest
    makes the last bit of its sum odd, so that no tie is made that there is not."""
    bits = (sums + 0.0).view(np.int64)
    odd = np.where((rests < 0) == (sums < 0), 1, -1)
    odd *= (rests != 0) & (bits & 1 == 0)
    bits += odd
    return bits.view(np.float64).astype(np.float32)


# -- slices ----------------------------------------------------------------------------------------


def _by_slices(left: np.ndarray, right: np.ndarray, result: np.ndarray, wide: np.ndarray) -> None:
    rows, columns = np.flatnonzero(wide.any(1)), np.flatnonzero(wide.any(0))
    left, right = left[rows], right[:, columns]
    steps = _steps(slices(left), slices(right.T))
    inside = np.ix_(rows, columns)
    wide, found = wide[inside], result[inside]
    step = max(16 * _AT_ONCE // len(columns), 1)
    for row in range(0, len(rows), step):
        part = slice(row, row + step)
        some = [[(one[part], other) for one, other in step] for step in steps]
        made, still = _of_slices(some)
        np.copyto(found[part], made, where=wide[part] & ~still)
        still &= wide[part]
        if still.any():
            _one_by_one(left[part], right, found[part], still)
    result[inside] = found


Slices = list[np.ndarray | None]
"""From the highest bits down; None is nothing but 0."""


def slices(rows: np.ndarray) -> Slices:
    """Cut f64 [m, k] into [m, k] that add up to it: in each slice the values of a row are whole
    numbers of so few bits, times a power of two, that a sum of k times `_TOGETHER` products of two
    of them is exact in f64."""
    bits = (53 - (rows.shape[1] * _TOGETHER - 1).bit_length()) // 2
    rest = np.ascontiguousarray(rows)
    made: Slices = []
    _, tops = np.frexp(np.abs(rest).max(axis=1, initial=0.0))
    while rest.any():
        shift = np.ldexp(1.5, tops - bits + 52)[:, None]
        high = (rest + shift) - shift
        made.append(high if high.any() else None)
        rest = rest - high
        tops = tops - bits
    return made


Step = list[tuple[np.ndarray, np.ndarray]]
"""Slices of left and of right whose products are one sum, as rows both."""


def _steps(lefts: Slices, rights: Slices) -> list[Step]:
    """Slices whose products have one unit, so that they are one sum; largest first."""
    steps: list[Step] = []
    for level in range(len(lefts) + len(rights) - 1):
        pairs = [
            (one, other)
            for i, one in enumerate(lefts)
            if one is not None and 0 <= level - i < len(rights)
            if (other := rights[level - i]) is not None
        ]
        steps += [pairs[at : at + _TOGETHER] for at in range(0, len(pairs), _TOGETHER)]
    return steps


def _of_slices(steps: list[Step]) -> tuple[np.ndarray, np.ndarray]:
    """The product of two factors as f32, step by step, and where it is not certain."""
    shape = (steps[0][0][0].shape[0], steps[0][0][1].shape[0])
    high, low, lost = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    made, still = np.empty(shape, np.float32), np.ones(shape, bool)
    lines = max(_AT_ONCE // shape[1], 1)
    parts = [slice(row, row + lines) for row in range(0, shape[0], lines)]
    for at, step in enumerate(steps):
        product, last = _summed(step), at + 1 == len(steps)
        for part in parts:
            high[part], error = two_sum(high[part], product[part])
            low[part], error = two_sum(low[part], error)
            lost[part] += np.abs(error)
        if last or (at >= 2 and at + 2 < len(steps)):
            left, right = _bound(steps[at + 1 :]) if not last else (lost[:, :0], lost[:0])
            for part in parts:
                off = lost[part] + left[part] @ right
                made[part], still[part] = _certain(high[part], low[part], off)
            if _few(still):
                break
    return made, still


def _summed(step: Step) -> np.ndarray:
    """The sum of the products of a step, of which each is exact, and the sum as well."""
    total = multiply(step[0][0], step[0][1].T)
    for one, other in step[1:]:
        total += multiply(one, other.T)
    return total


def _bound(steps: list[Step]) -> tuple[np.ndarray, np.ndarray]:
    """What products that were not made add at most, as a product of two factors: for each two
    slices the lengths of both sides (Cauchy and Schwarz)."""
    sides = zip(*(pair for step in steps for pair in step), strict=True)
    one, other = (np.stack([_lengths(rows) for rows in side], axis=1) for side in sides)
    return one * _SLACK, other.T * _SLACK


def _lengths(rows: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("ik,ik->i", rows, rows))


def _certain(high: np.ndarray, low: np.ndarray, off: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """high + low as f32, and where values within `off` of it round to another one."""
    off = np.where(off == 0, 0.0, off * _SLACK + np.abs(low) * 2.0**-50)
    below = rounded(*two_sum(high, low - off))
    above = rounded(*two_sum(high, low + off))
    return above, below.view(np.uint32) != above.view(np.uint32)


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return fl(a + b) and what it lacks of a + b (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


# -- NaN and infinities ----------------------------------------------------------------------------


def _with_specials(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """A product in which something is not finite: which infinities an element meets is counted, for
    not every BLAS is sure to multiply what is not finite by 0."""
    plain = [np.where(np.isfinite(v), v, 0.0) for v in (left, right)]
    result = exact_product(*plain)
    up = _meets(left, right, 1) + _meets(right.T, left.T, 1).T
    down = _meets(left, right, -1) + _meets(right.T, left.T, -1).T
    unknown = (up > 0) & (down > 0)
    unknown |= np.logical_or.outer(np.isnan(left).any(axis=1), np.isnan(right).any(axis=0))
    unknown |= multiply(_is(np.isinf(left)), _is(right == 0)) > 0
    unknown |= multiply(_is(left == 0), _is(np.isinf(right))) > 0
    result[up > 0] = np.inf
    result[down > 0] = -np.inf
    result[unknown] = np.nan
    return result


def _meets(left: np.ndarray, right: np.ndarray, sign: int) -> np.ndarray:
    """How many infinities of left times values of right have that sign."""
    one = multiply(_is(left == np.inf), _is(right * sign > 0))
    return one + multiply(_is(left == -np.inf), _is(right * sign < 0))


def _is(condition: np.ndarray) -> np.ndarray:
    return condition.astype(np.float64)
