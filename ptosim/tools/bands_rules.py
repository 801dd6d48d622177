"""The rules of bands (see `bands.py`): which operations go up and down with their operands, and
the ends of sums in any order, of extremes, rounded outwards to an element type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ptosim.ground.ir.types import DType
from ptosim.machine.pages import argument_dtype
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import OpFault

ROUNDING = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
"""Half a unit in the last place of 1."""


_NAMES = ("add", "sub", "mul", "div", "max", "min")
UP = frozenset(
    f"pto.t{name}"
    for name in (
        "load", "store", "mov", "extract", "insert", "trans", "expands", "ci", "fillpad",
        "fillpad_expand", "fillpad_inplace", "cvt", "exp", "log", "sqrt", "relu", "add", "adds",
        "max", "maxs", "min", "mins", "addrelu", "rowexpand", "colexpand", "rowmax", "rowmin",
        "colmax", "colmin", "reshape",
        *(f"{axis}expand{word}" for axis in ("row", "col") for word in ("add", "max", "min")),
    )
)  # fmt: skip
"""Operations that go up with each operand."""
CORNERS = frozenset(
    f"pto.t{name}"
    for name in (
        *_NAMES, *(f"{word}s" for word in _NAMES), "neg", "abs", "rsqrt", "recip", "lrelu", "prelu",
        "quant", "dequant", "sel", "sels", "axpy", "partadd", "partmul", "partmax", "partmin",
        *(f"{axis}expand{word}" for axis in ("row", "col") for word in (*_NAMES, "expdif")),
    )
)  # fmt: skip
"""Operations that go up or down with each operand, on either side of zero."""
MASKS = frozenset(("pto.tcmp", "pto.tcmps"))
ROW_SUMS, COLUMN_SUMS = ("pto.trowsum", "pto.trowprod"), ("pto.tcolsum", "pto.tcolprod")
PRODUCTS = frozenset(
    f"pto.{form}{more}" for form in ("tmatmul", "tgemv") for more in ("", ".acc", ".bias")
)


SCALED_PRODUCTS = frozenset(name.replace("tmatmul", "tmatmul.mx").replace("tgemv", "tgemv.mx")
                            for name in PRODUCTS)  # fmt: skip
SIGNS = {4: [0x77], 8: [0x7F], 16: [0xFF, 0x7F], 32: [0xFF, 0xFF, 0xFF, 0x7F]}
"""What is left of the bytes of an element without its sign."""


def dtype_of(value: Any) -> DType:
    """Return the element type of a tile or a view."""
    return value.spec.dtype if isinstance(value, GmView) else value.type.dtype


def only_moves(step: Any) -> bool:
    """True if an operation only moves the elements that have two ends, whatever they are (a gather
    by indices that have one value each). It is tried on their numbers, up and down, and has to do
    with both ends what it does with the numbers."""
    opened = [v for _, v in step.reads if step.opened(step.region(v)).any()]
    sizes = {dtype_of(v).bits for v in (*opened, *(v for _, v in step.writes))}
    regions = {step.region(v) for v in opened}
    if len(sizes) != 1 or not sizes <= {16, 32, 64}:
        return False
    kind, numbers, count = np.dtype(f"u{sizes.pop() // 8}"), [], 0
    for region in sorted(regions, key=str):
        elements, rest = divmod(region[2] - region[1], kind.itemsize)
        if rest or count + elements > 1 << 15:
            return False
        numbers.append((region, np.arange(count, count + elements).astype(kind)))
        count += elements
    contents = [step.content("low") for _ in range(2)]
    for content, turn in zip(contents, (kind.type(0), ~kind.type(0)), strict=True):
        for region, each in numbers:
            step.write(content, region, (each ^ turn).view(np.uint8))
    try:
        left = step.executed([*contents, step.content("low"), step.content("high")])
    except (OpFault, ValueError, IndexError):
        return False  # an index that leads nowhere
    memory = step.watcher.memory
    ends = [
        np.concatenate([getattr(memory(p), which)[a:b].view(kind) for (p, a, b), _ in numbers])
        for which in ("low", "high")
    ]
    written = (step.region(v) for _, v in step.writes)
    return all(_is_moved(step, region, left, ends) for region in written)


def _is_moved(step: Any, region: Any, left: list[list[np.ndarray]], ends: list[np.ndarray]) -> bool:
    """True if what is written in a region are those of `ends` that the numbers say, for both."""
    place, start, stop = region
    kind = ends[0].dtype
    index = next(i for i, (p, a, b) in enumerate(step.regions) if p == place and a <= start < b)
    first = step.regions[index][1]
    if (stop - start) % kind.itemsize:
        return False
    up, down, *both = (one[index][start - first : stop - first].view(kind) for one in left)
    moved = up == ~down
    if not (moved | (up == down)).all() or (up[moved] >= len(ends[0])).any():
        return False
    return all(
        np.array_equal(made, np.where(moved, given[np.where(moved, up, 0)], up))
        for made, given in zip(both, ends, strict=True)
    )


def without_numbers(step: Any) -> Iterator[list[np.ndarray]]:
    """Yield the content with a NaN in place of each element that may be anything, if there are any:
    no end of it says what becomes of a NaN."""
    content, found = step.content("high"), False
    for region, kind in _floats(step, step.reads):
        place, start, stop = region
        memory = step.watcher.memory(place)
        low, high = (end[start:stop].view(kind).copy() for end in (memory.low, memory.high))
        is_any = np.isneginf(low.astype(np.float64)) & np.isposinf(high.astype(np.float64))
        if is_any.any():
            high[is_any] = np.nan
            step.write(content, region, high.view(np.uint8))
            found = True
    if found:
        yield content


def widen(step: Any, lost: Sequence[Any], low: Sequence[Any], high: Sequence[Any]) -> None:
    """Let what is NaN in a content of the regions be anything."""
    for (place, start, stop), kind in _floats(step, step.writes):
        for (other, a, b), *contents in zip(step.regions, lost, low, high, strict=True):
            if other == place and a <= start and stop <= b:
                every, one, most = (c[start - a : stop - a].view(kind) for c in contents)
                one[is_nan(every)], most[is_nan(every)] = -np.inf, np.inf


def _floats(step: Any, values: Sequence[tuple[str, Any]]) -> Iterator[tuple[Any, Any]]:
    """The regions of operands of floats, with their types."""
    for _, value in values:
        region, dtype = step.region(value), dtype_of(value)
        is_float = dtype.is_float and is_plain(dtype)
        if is_float and not (region[2] - region[1]) % (dtype.bits // 8):
            yield region, argument_dtype(dtype)


def is_plain(dtype: DType) -> bool:
    """True for elements whose bytes are a number that NumPy compares."""
    return dtype.name in ROUNDING or (dtype.is_integer and dtype.bits in (8, 16, 32, 64))


def is_nan(array: np.ndarray) -> np.ndarray:
    return array != array


def ends_of(dtype: DType) -> tuple[Any, Any]:
    if dtype.is_float:
        return -np.inf, np.inf
    kind = np.iinfo(argument_dtype(dtype))
    return kind.min, kind.max


def extremes(every: Sequence[np.ndarray], dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """The least and the most of several contents, as bytes; where one is NaN, and not all are, it
    may be anything."""
    kind = argument_dtype(dtype)
    arrays = [np.ascontiguousarray(part).view(kind) for part in every]
    wide = np.stack([a.astype(np.float64) for a in arrays])
    nan = np.isnan(wide)
    picked = []
    for pick in (np.argmin, np.argmax):
        index = pick(np.where(nan, np.inf if pick is np.argmin else -np.inf, wide), axis=0)
        picked.append(np.take_along_axis(np.stack(arrays), index[None], 0)[0])
    low, high = picked
    lost = nan.any(axis=0) & ~nan.all(axis=0)
    low[lost], high[lost] = ends_of(dtype)
    return low.view(np.uint8), high.view(np.uint8)


def lowest_bit(values: np.ndarray) -> np.ndarray:
    """The value of the last bit that is set in each number; infinity for what has none."""
    with np.errstate(all="ignore"):
        finite = np.where(np.isfinite(values), values, 0.0)
        mantissa, exponent = np.frexp(finite)
        whole = (np.abs(mantissa) * 2.0**53).astype(np.int64)
        last = np.ldexp((whole & -whole).astype(np.float64), exponent - 53)
    return np.where(finite == 0, np.inf, last)


def error_of(terms: Any, size: np.ndarray, grid: np.ndarray, rounding: float) -> np.ndarray:
    """How far a sum of so many terms may be from the exact one, whatever the order; 0 where all
    terms are multiples of a number of which the largest partial sum has few."""
    with np.errstate(all="ignore"):
        exact = size <= grid / rounding
        most = np.maximum(np.asarray(terms, np.float64), 1.0) * rounding * 1.001 * size
        return np.where(exact | (size == 0), 0.0, most + 2.0**-148)


def sum_ends(
    low: np.ndarray, high: np.ndarray, axis: int, dtype: DType
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of sums along an axis; an infinity stays one, whatever is added to it."""
    size = np.maximum(np.abs(low), np.abs(high))
    size = np.where(np.isfinite(size), size, 0.0)
    grid = np.minimum(lowest_bit(low), lowest_bit(high)).min(axis=axis)
    with np.errstate(all="ignore"):
        error = error_of(low.shape[axis], size.sum(axis=axis), grid, ROUNDING[dtype.name])
        ends = low.sum(axis=axis), high.sum(axis=axis)
        return spread(*ends, size.sum(axis=axis), error, dtype)


def product_ends(
    low: np.ndarray, high: np.ndarray, axis: int, dtype: DType
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of products along an axis: all factors but one round, and those above or
    below 1 alone may leave the type."""
    rounding = ROUNDING[dtype.name]
    with np.errstate(all="ignore"):
        one, other = np.take(low, 0, axis), np.take(high, 0, axis)
        for at in range(1, low.shape[axis]):
            a, b = np.take(low, at, axis), np.take(high, at, axis)
            every = np.stack([one * a, one * b, other * a, other * b])
            one, other = every.min(axis=0), every.max(axis=0)
        size = np.maximum(np.abs(one), np.abs(other))
        error = low.shape[axis] * rounding * 1.001 * size + 2.0**-148
        largest = np.maximum(np.abs(low), np.abs(high))
        partial = np.where(largest > 1, largest, 1.0).prod(axis=axis)
        small = np.where((largest < 1) & (largest > 0), largest, 1.0).prod(axis=axis)
        return spread(one, other, np.where(small < 2.0**-120, np.inf, partial), error, dtype)


def product_sums(
    left: Sequence[np.ndarray], right: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ends of the sums of products, the sum of their magnitudes, and the least bit of any."""
    with np.errstate(all="ignore"):
        size = [np.maximum(np.abs(a), np.abs(b)) for a, b in (left, right)]
        total = size[0] @ size[1]
        middle = [(a + b) / 2 for a, b in (left, right)]
        radius = [(b - a) / 2 for a, b in (left, right)]
        around = radius[0] @ size[1] + size[0] @ radius[1] + total * 2.0**-48
        center = middle[0] @ middle[1]
        bits = [np.minimum(lowest_bit(a), lowest_bit(b)) for a, b in (left, right)]
        grid = bits[0].min(axis=1)[:, None] * bits[1].min(axis=0)[None, :]
        exact = (total <= grid * 2.0**50) & ~radius[0].any() & ~radius[1].any()
        around = np.where(exact, 0.0, around)
        return center - around, center + around, total, grid


def spread(
    low: np.ndarray, high: np.ndarray, size: np.ndarray, error: np.ndarray, dtype: DType
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of sums with their error; where partial sums may overflow it can be
    anything."""
    with np.errstate(all="ignore"):
        slack = np.where((error > 0) & np.isfinite(size), size * 2.0**-46, 0.0)
        beyond = size + error > _LARGEST.get(dtype.name, np.inf)
        least, most = low - error - slack, high + error + slack
        return np.where(beyond, -np.inf, least), np.where(beyond, np.inf, most)


_LARGEST = {"f32": float(np.finfo(np.float32).max), "f16": 65504.0, "bf16": 3.3895313892515355e38}


def outwards(
    low: np.ndarray, high: np.ndarray, actual: np.ndarray, dtype: DType
) -> tuple[np.ndarray, np.ndarray]:
    """Ends as elements of a type, rounded outwards, around what was computed. Where the end is
    beyond the type, or where it is no number and the result is one, it may be anything."""
    kind = argument_dtype(dtype)
    computed = actual.astype(np.float64)
    if dtype.is_integer:
        lost = (low < ends_of(dtype)[0]) | (high > ends_of(dtype)[1])
        one, other = np.minimum(low, computed), np.maximum(high, computed)
        whole = [np.where(lost, 0, end).astype(kind) for end in (one, other)]
        least, most = (np.where(lost, end, w) for end, w in zip(ends_of(dtype), whole, strict=True))
        return least.astype(kind), most.astype(kind)
    with np.errstate(all="ignore"):
        one, other = low.astype(kind), high.astype(kind)
        one = np.where(one.astype(np.float64) > low, np.nextafter(one, kind.type(-np.inf)), one)
        other = np.where(
            other.astype(np.float64) < high, np.nextafter(other, kind.type(np.inf)), other
        )
        same = low == high
        one = np.where(same | (computed < one.astype(np.float64)), actual, one)
        other = np.where(same | (computed > other.astype(np.float64)), actual, other)
        is_nan = np.isnan(low) | np.isnan(high)
        limit = _LARGEST[dtype.name]
        beyond = ~same & ((np.abs(low) > limit) | (np.abs(high) > limit))
    stays = ~np.isfinite(computed) & is_nan
    one = np.where(stays, actual, np.where(is_nan | beyond, kind.type(-np.inf), one))
    other = np.where(stays, actual, np.where(is_nan | beyond, kind.type(np.inf), other))
    return one.astype(kind), other.astype(kind)
