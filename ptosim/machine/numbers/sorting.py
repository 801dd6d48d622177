"""Sorting and merging of records by a float score: downwards, equal scores in the order they come.

The order of scores is that of numbers, +0 and -0 are equal. No public document says where the sort
units put a NaN; three rules are offered: `sign` (a positive NaN above +infinity, a negative one
below -infinity, as their patterns read as signed magnitudes), `first` and `last` (every NaN above,
or below, everything).
"""

from __future__ import annotations

import numpy as np

_SIGN = np.uint32(0x80000000)


def keys(scores: np.ndarray, nan: str) -> np.ndarray:
    """Return f16 or f32 scores as unsigned numbers of the same shape, the largest score as the
    smallest number, so that an upward sort is a downward sort of scores."""
    wide = scores.astype(np.float32) + np.float32(0.0)  # -0 becomes +0
    bits = np.ascontiguousarray(wide).view(np.uint32)
    downwards = np.where(bits & _SIGN, bits, ~bits & ~_SIGN)
    missing = np.isnan(wide)
    if missing.any():
        above = np.uint32(0)
        below = np.uint32(0xFFFFFFFF)
        negative = np.signbit(scores) if nan == "sign" else nan == "last"
        downwards = np.where(missing, np.where(negative, below, above), downwards)
    return downwards


def sorted_order(scores: np.ndarray, nan: str) -> np.ndarray:
    """Return the places of the last axis in downward order."""
    return np.argsort(keys(scores, nan), axis=-1, kind="stable")


def merge_order(lists: list[np.ndarray], nan: str) -> np.ndarray:
    """Return the order in which a merge takes the records of lists of scores, as places in their
    concatenation: always the largest head, of equal ones that of the list with the lower number.

    Lists that are not sorted give what the step-by-step merge gives.
    """
    made = [keys(scores, nan) for scores in lists]
    if all((k[1:] >= k[:-1]).all() for k in made):
        return np.argsort(np.concatenate(made), kind="stable")
    return _by_heads([k.tolist() for k in made])


def _by_heads(made: list[list[int]]) -> np.ndarray:
    starts = np.cumsum([0, *map(len, made)]).tolist()
    heads = [0] * len(made)
    order: list[int] = []
    while len(order) < starts[-1]:
        waiting = [i for i, k in enumerate(made) if heads[i] < len(k)]
        taken = min(waiting, key=lambda i: made[i][heads[i]])
        order.append(starts[taken] + heads[taken])
        heads[taken] += 1
    return np.array(order, np.intp)


def until_one_is_empty(order: np.ndarray, lengths: list[int]) -> int:
    """Return how many records a merge gives that stops when the first list has run empty."""
    ends = np.cumsum(lengths) - 1
    places = np.empty(len(order), np.intp)
    places[order] = np.arange(len(order))
    return int(places[ends].min()) + 1
