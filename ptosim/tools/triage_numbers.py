"""Arrays of a triage compared: what is near to what, and how a value may be rounded or left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from ptosim.launch.compare import compare
from ptosim.launch.description import Tolerance
from ptosim.machine.pages import has_numbers

SLACK = 2.0**-18
"""Parts of a value that rounding in f32 may take from it in a chain of operations."""
MOST_TRIES = 24
"""Parts of an input that are tried."""

ROUNDINGS: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("half away from zero", lambda v: np.sign(v) * np.floor(np.abs(v) + 0.5)),
    ("towards zero", np.trunc),
    ("down", np.floor),
    ("up", np.ceil),
    ("half up", lambda v: np.floor(v + 0.5)),
    ("half to even", np.rint),
)


def element_text(name: str, where: np.ndarray) -> str:
    """The first element of those in a mask, as a user names it."""
    return f"{name}[{', '.join(str(int(i)) for i in np.argwhere(where)[0])}]"


def same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Where elements are equal: NaN and NaN, zeros of either sign."""
    if not has_numbers(one.dtype):
        return one == other
    a, b = one.astype(np.float64), other.astype(np.float64)
    return (a == b) | (np.isnan(a) & np.isnan(b))


def tolerated(array: np.ndarray, value: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    """Where an element is within a tolerance that a user has given."""
    if tolerance == Tolerance():
        return np.zeros(value.shape, bool)
    flat = zip(array.reshape(-1), value.reshape(-1), strict=True)
    found = [compare("", np.array([g]), np.array([v]), tolerance).passed for g, v in flat]
    return np.array(found, bool).reshape(value.shape)


def is_close(one: np.ndarray, other: np.ndarray) -> bool:
    """True for arrays that are equal up to what another order and the type's rounding make."""
    if not has_numbers(one.dtype):
        return bool((one == other).all())
    a, b = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(all="ignore"):
        size = np.abs(b[np.isfinite(b)]).max(initial=0.0)
        allowed = step_of(b, one.dtype) * 1.01 + 2.0**-16 * np.abs(b) + 2.0**-20 * size
        return bool((same(one, other) | (np.abs(a - b) <= allowed)).all())


def step_of(reference: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The distance of two neighbouring values of a type."""
    if dtype.kind in "iu":
        return np.ones(reference.shape)
    fraction = {"float32": 23, "float16": 10, "bfloat16": 7, "float64": 52}.get(str(dtype), 2)
    with np.errstate(all="ignore"):
        finite = np.where(np.isfinite(reference), np.abs(reference), 0.0)
        return np.ldexp(1.0, np.maximum(np.frexp(finite)[1], -125) - 1 - fraction)


def is_near(array: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Where an array is what f64 gives, rounded to its type."""
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        allowed = 0.505 * step_of(reference, array.dtype) + SLACK * np.abs(reference)
        near = np.abs(wide - reference) <= allowed
        if array.dtype.kind in "iu":
            ends = np.iinfo(array.dtype)
            near |= np.abs(wide - np.clip(reference, ends.min, ends.max)) <= allowed
    return near | (wide == reference) | (np.isnan(wide) & np.isnan(reference))


def is_tie(one: np.ndarray, other: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Where a reference is half way between two others: how it is rounded decides."""
    with np.errstate(all="ignore"):
        above, below = (each.astype(np.float64) - reference for each in (one, other))
        return (above == -below) & (above != 0)


def others(part: np.ndarray) -> np.ndarray:
    if part.dtype.kind in "iu":
        return part ^ np.array(1, part.dtype)
    return (part.astype(np.float64) * -1.5 + 1.0).astype(part.dtype)


def counts_of(size: int) -> list[int]:
    """How many columns may have been taken: a few less, a tile less, parts."""
    if size < 4:
        return []
    found = [size - 1, size // 2, size - size // 4, size - size // 8, size - size // 16]
    found += [size - step for step in (8, 16, 32, 64, 128, 256) if step < size]
    return list(dict.fromkeys(c for c in found if 0 < c < size))[:MOST_TRIES]


def unaffected(
    shape: tuple[int, ...], source: tuple[int, ...], axis: int, count: int
) -> np.ndarray:
    """Where an output is not where the part of an input is that is left out."""
    found = np.ones(shape, bool)
    from_end = axis - len(source)
    if len(shape) >= -from_end and shape[from_end] == source[axis]:
        rest: list[Any] = [slice(None)] * len(shape)
        rest[from_end] = slice(count, None)
        found[tuple(rest)] = False
    return found


def given_twice(array: np.ndarray, value: np.ndarray) -> str:
    """A row of the golden that has a number twice where the program's has each once, in an array
    that is right elsewhere, or with those after it one further."""
    if array.ndim == 0 or not has_numbers(array.dtype):
        return ""
    is_right, rows = same(array, value).mean() >= 0.75, array.reshape(-1, array.shape[-1])
    for number, (row, own) in enumerate(zip(rows, value.reshape(rows.shape), strict=True)):
        found, first, counts = np.unique(
            row.astype(np.float64), return_index=True, return_counts=True
        )
        once = row[np.sort(first)]
        if len(once) == len(row) or len(np.unique(own)) < len(own):
            continue
        if is_right or same(once, own[: len(once)]).all():
            return f"row {number} has {found[counts > 1][0]:g} twice, the program each once"
    return ""


def moved(array: np.ndarray, value: np.ndarray) -> str:
    """How the golden has the program's values in other places, or times a number."""
    if not has_numbers(array.dtype):
        return ""
    for told, other in _elsewhere(value):
        is_it = is_close if array.dtype.kind not in "iub" else np.array_equal
        if other.shape == array.shape and is_it(other, array):
            return f"it has the values of the program {told}"
    with np.errstate(all="ignore"):
        ratios = array.astype(np.float64) / value.astype(np.float64)
        middle = float(np.nanmedian(ratios)) if np.isfinite(ratios).any() else 1.0
        factor = float(f"{middle:.6g}")
        if factor not in (0.0, 1.0) and is_close(array, value.astype(np.float64) * factor):
            return f"it has {factor:g} times the values of the program"
    return ""


def narrower(array: np.ndarray, value: np.ndarray) -> str:
    """A narrower float that has all values of the golden, and not those of the program."""
    if array.dtype != np.float32:
        return ""
    for kind in (ml_dtypes.bfloat16, np.float16):
        with np.errstate(all="ignore"):
            is_own, is_it = (same(a, a.astype(kind)).all() for a in (value, array))
        if is_it and not is_own:
            return f"all of its values are numbers of {np.dtype(kind)}: it was computed in that"
    return ""


def variants(given: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """An input as a golden may have taken it by mistake."""
    yield from _elsewhere(given)
    if given.dtype == np.float32:
        for kind in (ml_dtypes.bfloat16, np.float16):
            with np.errstate(all="ignore"):
                yield f"rounded to {np.dtype(kind)}", given.astype(kind).astype(np.float32)


def _elsewhere(given: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The same elements transposed, off by one or by a block of 16, 32, or in the other order."""
    if given.ndim > 1 and min(given.shape[-2:]) > 1:
        yield "transposed", given.swapaxes(-1, -2).reshape(given.shape)
    for axis, what in ((-2, "row"), (-1, "column")):
        size = given.shape[axis] if given.ndim >= -axis else 0
        for step in (1, 16, 32):
            if step < size:
                some = what if step == 1 else f"{step} {what}s"
                yield f"off by {'a ' if step == 1 else ''}{some}", np.roll(given, step, axis)
                yield f"off by {'a ' if step == 1 else ''}{some}", np.roll(given, -step, axis)
        if size > 1:
            yield f"with its {what}s in the other order", np.flip(given, axis)
