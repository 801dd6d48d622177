"""MX quantization: groups of 32 elements share one power-of-two scale.

Three stages, each a function of arrays, and `quantizer`, which joins them:

1. the largest magnitude of each group, as a bit pattern (`group_maxima`, `truncated_to_bf16`);
2. the shared exponent, an E8M0 byte, and the reciprocal scale 2^(127 - exponent)
   (`ocp_exponents`, `nv_exponents`, `scale_table`);
3. every element times its scale, rounded once into f8E4M3FN or f4E2M1FN.

Magnitudes are compared as unsigned bit patterns, so infinity beats every number and NaN beats
infinity: one NaN makes its whole group NaN (exponent FF, every e4m3 byte 7F, every e2m1 code 7).
A scale is a power of two, so the product is exact unless it is subnormal, and subnormals round to
zero in both destinations: an f32 product serves f32, f16 and bf16 sources alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from ptosim.ground.records import NamedTuple
from ptosim.machine.numbers.formats import BF16, encoder, lookup, require
from ptosim.machine.numbers.rounding import round_stochastically

GROUP = 32

_INFINITY = 0x7F800000
_NAN = 0x7FC00000
_INFINITIES = {np.dtype(np.float32): _INFINITY, np.dtype(np.float16): 0x7C00, BF16: 0x7F80}
_WITHOUT_SIGN = {4: np.uint32(0x7FFFFFFF), 2: np.uint16(0x7FFF)}


class _Destination(NamedTuple):
    """`largest_exponent` is that of the largest power of two; NV divides maxima by the limit."""

    name: str
    largest_exponent: int
    reciprocal_limit: np.float32
    bf16_nan_scale: int


_E4M3 = _Destination("f8E4M3FN", 8, np.float32(1 / 448), 0x7F81)
_E2M1 = _Destination("f4E2M1FN", 2, np.float32(1 / 6), 0x7FC0)


class MxResult(NamedTuple):
    """Everything the three stages produce for values of shape [rows, cols].

    `maxima`, `exponents` and `scales` have one entry per group: [rows, cols/32] for axis 1,
    [rows/32, cols] for axis 0. `maxima` and `scales` are bit patterns: uint32 f32 patterns for an
    f32 source; uint16 for the others, where scales are bf16 patterns and maxima are bf16 patterns
    too, except f16 ones for an f16 source with the NV rule. `codes` has the shape of the values.
    """

    maxima: np.ndarray
    exponents: np.ndarray
    scales: np.ndarray
    codes: np.ndarray


def _grouped(values: np.ndarray, axis: int) -> np.ndarray:
    rows, cols = values.shape
    if axis == 1:
        return values.reshape(rows, cols // GROUP, GROUP)
    return values.reshape(rows // GROUP, GROUP, cols)


def group_maxima(values: np.ndarray, axis: int, *, ignore_nan: bool = False) -> np.ndarray:
    """Largest magnitude of each group of f32, f16 or bf16 `values`, as a pattern without sign.

    Shape [rows, cols/32] for axis 1 (groups along a row), [rows/32, cols] for axis 0. A NaN wins
    over everything, or with `ignore_nan` counts as zero. `ValueError` if the axis is no multiple
    of 32 long.
    """
    if values.shape[axis] % GROUP:
        raise ValueError(f"axis {axis} has {values.shape[axis]} elements, not a multiple of 32")
    without_sign = _WITHOUT_SIGN[values.dtype.itemsize]
    magnitudes = values.view(without_sign.dtype) & without_sign
    if ignore_nan:
        magnitudes[magnitudes > _INFINITIES[values.dtype]] = 0
    grouped = _grouped(magnitudes, axis)
    if axis == 0 or not magnitudes.size:
        return grouped.max(axis=2 if axis == 1 else 1, initial=0)
    # Over 32 contiguous elements reduceat takes half the time of a reduction along an axis.
    starts = np.arange(0, magnitudes.size, GROUP)
    return np.maximum.reduceat(magnitudes.reshape(-1), starts).reshape(grouped.shape[:2])


def truncated_to_bf16(patterns: np.ndarray) -> np.ndarray:
    """bf16 patterns (uint16) of unsigned f16 patterns: truncated, NaN becomes 7FC0.

    bf16 has fewer fraction bits and more exponent bits than f16, so truncation keeps the exponent
    exact, also of f16 subnormals, but would turn a NaN with a small payload into infinity.
    """
    upper = patterns.view(np.float16).astype(np.float32).view(np.uint32) >> 16
    upper[patterns > 0x7C00] = 0x7FC0
    return upper.astype(np.uint16)


def _widened(patterns: np.ndarray, form: str) -> np.ndarray:
    """f32 patterns of the group maxima `patterns`, which are read as format `form`."""
    if form == "f32":
        return patterns
    if form == "bf16":
        return patterns.astype(np.uint32) << 16
    return patterns.view(np.float16).astype(np.float32).view(np.uint32)


def _flushed(values: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) < np.float32(2**-126), np.copysign(0, values), values)


def ocp_exponents(maxima: np.ndarray, largest_exponent: int) -> np.ndarray:
    """Shared exponents (uint8) by the OCP rule from f32 patterns of the group maxima.

    The exponent field less `largest_exponent`, not below 0; infinity is treated like a number of
    exponent field 255; NaN gives 255.
    """
    fields = (maxima >> 23).astype(np.int32)
    exponents = np.maximum(fields - largest_exponent, 0)
    exponents[maxima > _INFINITY] = 255
    return exponents.astype(np.uint8)


@np.errstate(all="ignore")
def nv_exponents(
    maxima: np.ndarray, reciprocal_limit: np.float32, *, ftz: bool = False
) -> np.ndarray:
    """Shared exponents (uint8) by the NV rule from f32 patterns of the group maxima.

    The power of two at or above the maximum times `reciprocal_limit`, one f32 rounding. A product
    of 2^-127 or less gives 0, infinity gives 254, NaN 255. `ftz` flushes a subnormal maximum or
    product to zero.
    """
    values = maxima.view(np.float32)
    quotients = (_flushed(values) if ftz else values) * reciprocal_limit
    bits = (_flushed(quotients) if ftz else quotients).view(np.uint32)
    # Rounding up is possible above 2^-127 and below 2^127, the two ends of the exponent byte.
    up = ((bits & 0x7FFFFF) != 0) & (bits > 0x400000) & (bits < 0x7F000000)
    exponents = (bits >> 23) + up
    exponents[bits == _INFINITY] = 254
    return exponents.astype(np.uint8)


@cache
def scale_table() -> np.ndarray:
    """f32 pattern (uint32) of the reciprocal scale for each of the 256 shared exponents.

    2^(127 - exponent): 7F000000 for 0, the subnormal 2^-127 for 254, a quiet NaN for 255.
    """
    table = (254 - np.arange(256, dtype=np.uint32)) << 23
    table[254] = 0x00400000
    table[255] = _NAN
    table.flags.writeable = False
    return table


class _Recipe(NamedTuple):
    """A resolved quantizer.

    Maxima are stored in scratch as one format and read back as another only where the shipped
    header mixes them up.
    """

    stored_as: str
    read_as: str
    algorithm: str
    to: _Destination
    encode: Callable[[np.ndarray], np.ndarray]
    axis: int
    emax: int
    ignore_nan: bool
    halve_maxima: bool
    drop_zero_sign: bool
    ftz: bool

    @np.errstate(all="ignore")
    def __call__(self, values: np.ndarray, words: np.ndarray | None = None) -> MxResult:
        maxima = group_maxima(values, self.axis, ignore_nan=self.ignore_nan)
        if values.dtype == np.float16 and self.stored_as == "bf16":
            maxima = truncated_to_bf16(maxima)
        if self.halve_maxima:
            maxima &= 0xFFFF0000
        exponents = self._exponents(maxima)
        scales = scale_table().take(exponents)
        codes = self._codes(values, scales.view(np.float32), words)
        if self.stored_as != "f32":
            scales = (scales >> 16).astype(np.uint16)
            scales[exponents == 255] = self.to.bf16_nan_scale
        return MxResult(maxima, exponents, scales, codes)

    def _exponents(self, maxima: np.ndarray) -> np.ndarray:
        wide = _widened(maxima, self.read_as)
        if self.algorithm == "ocp":
            return ocp_exponents(wide, self.emax)
        return nv_exponents(wide, self.to.reciprocal_limit, ftz=self.ftz)

    def _codes(
        self, values: np.ndarray, scales: np.ndarray, words: np.ndarray | None
    ) -> np.ndarray:
        wide = _grouped(values.astype(np.float32, copy=False), self.axis)
        factors = scales[:, :, None] if self.axis == 1 else scales[:, None, :]
        products = _flushed(wide) * _flushed(factors) if self.ftz else wide * factors
        if words is not None:
            products = round_stochastically(products, words.reshape(wide.shape), self.to.name)
        codes = self.encode(products)
        if self.drop_zero_sign:
            # The CPU simulator's OCP path has no negative zero; its NV path loses the sign only
            # of the tie between zero and the smallest subnormal.
            tie = np.float32(-(2.0**-10))
            codes[codes == 0x80 if self.algorithm == "ocp" else products == tie] = 0
        return codes.reshape(values.shape)


def _maxima_formats(
    src: str, to: _Destination, algorithm: str, defective: bool
) -> tuple[str, str, str]:
    """What maxima are stored as, what they are read as, and the rule applied to them."""
    if defective and algorithm == "nv":
        if to is _E2M1:
            return src, "bf16", "ocp"
        if src == "f16":
            return "bf16", "f16", "nv"
    stored = "bf16" if (src, algorithm) == ("f16", "ocp") else src
    return stored, stored, algorithm


def quantizer(
    src: str,
    dst: str,
    algorithm: str,
    *,
    axis: int = 1,
    emax_e2m1: int = 2,
    nan_group: str = "poison",
    zero_sign: str = "keep",
    ftz: bool = False,
    header_defects: bool = False,
) -> Callable[..., MxResult]:
    """Function from [rows, cols] arrays of `src` to an `MxResult`.

    `src` is `f32`, `f16` or `bf16`; `dst` is `f8E4M3FN` or `f4E2M1FN`; `algorithm` is `ocp` or
    `nv`; `axis` is the one the groups of 32 run along. The function takes an optional second
    argument, uint32 words of the shape of the values, and then rounds stochastically.

    `emax_e2m1` is the exponent the OCP rule takes off for f4E2M1FN: 2, or 1 to the letter of the
    public description. `nan_group="ignore"` (a NaN does not count in the maximum) and
    `zero_sign="drop"` are what the public CPU simulator does for f8E4M3FN; for f32 to f4E2M1FN,
    which it alone has, its OCP rule looks at the upper half of an f32 maximum, so that a NaN may
    pass for infinity, and `nan_group="ignore"` represents that there. `ftz`
    flushes subnormal operands and quotients of the two multiplications. `header_defects` repeats
    what the shipped A5 header does for 16-bit sources on its flat exponent path (one-row exponent
    tile): NV f4E2M1FN takes the OCP exponent of the maximum's bits read as bf16, and NV f8E4M3FN
    from f16 reads bf16 maxima as f16; the second only if the element count is not a multiple of
    4096, which the caller has to check. `ValueError` for a combination that does not exist.
    """
    source = lookup(src).name
    to = {_E4M3.name: _E4M3, _E2M1.name: _E2M1}.get(lookup(dst).name)
    if source not in ("f32", "f16", "bf16") or to is None:
        raise ValueError(f"no MX quantization from {src} to {dst}")
    require("MX algorithm", algorithm, ("ocp", "nv"))
    require("axis", axis, (0, 1))
    require("emax_e2m1", emax_e2m1, (1, 2))
    require("nan_group", nan_group, ("poison", "ignore"))
    require("zero_sign", zero_sign, ("keep", "drop"))
    ignore_nan = nan_group == "ignore"
    return _Recipe(
        *_maxima_formats(source, to, algorithm, header_defects and source != "f32"),
        to=to,
        encode=encoder("f32", to.name, nan="plain"),
        axis=axis,
        emax=to.largest_exponent if to is _E4M3 else emax_e2m1,
        ignore_nan=ignore_nan and to is _E4M3,
        halve_maxima=ignore_nan and (source, to, algorithm) == ("f32", _E2M1, "ocp"),
        drop_zero_sign=to is _E4M3 and zero_sign == "drop",
        ftz=ftz,
    )
