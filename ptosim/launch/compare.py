"""Comparing an output with what was expected of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass
from ptosim.launch.description import Tolerance
from ptosim.machine.storage import has_numbers, native


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict on one output."""

    name: str
    count: int
    mismatches: int
    first: tuple[int, ...] | None
    got: Any
    expected: Any
    max_difference: float
    max_ulp: int | None  # of finite floats; None for integers
    tolerance: Tolerance

    @property
    def passed(self) -> bool:
        """True if nothing differs beyond the tolerance."""
        return self.mismatches == 0

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON data."""
        return {
            "name": self.name,
            "passed": self.passed,
            "elements": self.count,
            "mismatches": self.mismatches,
            "first": list(self.first) if self.first is not None else None,
            "got": _plain(self.got),
            "expected": _plain(self.expected),
            "max_difference": self.max_difference,
            "max_ulp": self.max_ulp,
            "tolerance": str(self.tolerance),
        }


def _plain(value: Any) -> Any:
    return None if value is None else str(value)


def compare(name: str, got: np.ndarray, expected: np.ndarray, tolerance: Tolerance) -> Comparison:
    """Compare an output with its expectation; raises UsageError if shapes or types cannot be
    matched.

    The expectation may have any shape of the same number of elements. Unsigned integers and raw
    bytes of the same width are codes, signed ones are codes of a float that NumPy does not have.
    """
    if got.size != expected.size:
        raise UsageError(
            f"expected values for `{name}` have shape {expected.shape}, the output {got.shape}"
        )
    expected = _same_kind(name, got, native(expected).reshape(got.shape))
    with np.errstate(all="ignore"):
        same = _equal(got, expected) if tolerance.is_exact else _close(got, expected, tolerance)
        difference = np.abs(_wide(got) - _wide(expected))
        finite = difference[np.isfinite(difference)]
    wrong = np.argwhere(~same)
    first = tuple(int(i) for i in wrong[0]) if len(wrong) else None
    return Comparison(
        name,
        got.size,
        len(wrong),
        first,
        got[first] if first is not None else None,
        expected[first] if first is not None else None,
        float(finite.max()) if finite.size else 0.0,
        _max_ulp(got, expected, np.isfinite(difference)),
        tolerance,
    )


def _same_kind(name: str, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    if expected.dtype == got.dtype:
        return expected
    if _are_codes(got.dtype, expected.dtype):
        return expected.view(got.dtype)
    what = f"expected values for `{name}` are {expected.dtype}, the output {got.dtype}"
    if not has_numbers(expected.dtype):
        raise UsageError(
            f"{what}, and they cannot be compared",
            help="give numbers that 64 bits hold, or raw bytes of the output's width",
        )
    with np.errstate(all="ignore"):
        converted = expected.astype(got.dtype)
        if np.array_equal(_wide(converted), _wide(expected), equal_nan=True):
            return converted
    raise UsageError(f"{what}, and some are not representable in it")


def _are_codes(got: np.dtype, expected: np.dtype) -> bool:
    if got.itemsize != expected.itemsize or expected.names is not None:
        return False
    if got.kind in "iub":
        return expected.kind in "uiV"
    if expected.type is np.void:
        return True
    return expected.kind in ("ui" if got.kind == "V" else "u")  # signed: values of f32 and f16


def _wide(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        return values.astype(np.longdouble)
    return values.astype(np.float64)


def _equal(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    if got.dtype.kind in "iub":
        return got == expected
    bits = f"u{got.dtype.itemsize}"
    same = got.view(bits) == expected.view(bits)
    return same | (np.isnan(_wide(got)) & np.isnan(_wide(expected)))


def _close(got: np.ndarray, expected: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    wide_got, wide_expected = _wide(got), _wide(expected)
    close = _equal(got, expected)
    if tolerance.rtol is not None or tolerance.atol is not None:
        most = float(np.finfo(np.float64).max)  # whole numbers may be larger
        least, share = (float(min(t or 0.0, most)) for t in (tolerance.atol, tolerance.rtol))
        bound = least + share * np.abs(wide_expected)
        close = close | (np.abs(wide_got - wide_expected) <= bound)
    if tolerance.ulp is not None:
        close = close | (_ulps(got, expected) <= tolerance.ulp)
        close &= ~(np.isnan(wide_got) ^ np.isnan(wide_expected))
    return close


def _max_ulp(got: np.ndarray, expected: np.ndarray, finite: np.ndarray) -> int | None:
    if got.dtype.kind in "iub":
        return None
    return int(_ulps(got, expected).max(initial=0, where=finite))


def _ulps(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Units in the last place between values: unsigned, for those of 64 bits are up to 2^64 apart,
    where the difference of the larger and the smaller one is right as unsigned numbers wrap."""
    one, other = _order(got), _order(expected)
    return np.maximum(one, other).view(np.uint64) - np.minimum(one, other).view(np.uint64)


_SIGN = np.uint64(1 << 63)


def _order(values: np.ndarray) -> np.ndarray:
    """Consecutive numbers for consecutive values, so that differences count units in the last
    place."""
    if values.dtype == np.uint64:
        return (values ^ _SIGN).view(np.int64)
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    bits = values.view(f"i{values.dtype.itemsize}").astype(np.int64)
    magnitude = bits & ((1 << (values.dtype.itemsize * 8 - 1)) - 1)
    return np.where(bits < 0, -magnitude, magnitude)
