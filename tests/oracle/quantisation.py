"""What TQUANT leaves in its scratch tiles and in its source, from the description of its stages.

Plain integer and float32 arithmetic on whole arrays, without ptosim. Codes themselves are checked
against recorded data and against `tests.oracle.numerics`; this is about what is beside them.
"""

from __future__ import annotations

import numpy as np

from tests.oracle import groups

GROUP = 32


def magnitudes(bits: np.ndarray) -> np.ndarray:
    """Patterns without their sign."""
    return bits & bits.dtype.type((1 << (bits.dtype.itemsize * 8 - 1)) - 1)


def maxima(bits: np.ndarray, src: str, rule: str, axis: int) -> np.ndarray:
    """Content of the max scratch by group: the largest magnitude as the stage compares it."""
    compared = magnitudes(bits)
    if src == "f16" and rule == "ocp":
        wide = compared.view(np.float16).astype(np.float32).view(np.uint32)
        nan = compared > 0x7C00
        compared = np.where(nan, 0x7FC0, wide >> 16).astype(np.uint16)
    rows, cols = compared.shape
    if axis == 1:
        return compared.reshape(rows, cols // GROUP, GROUP).max(2)
    return compared.reshape(rows // GROUP, GROUP, cols).max(1)


def scales(exponents: np.ndarray, src: str, dst: str) -> np.ndarray:
    """Content of the scaling scratch by group: the reciprocal scale as f32 or bf16 patterns."""
    e = exponents.astype(np.int64)
    field = np.where(e == 254, 0x00400000, (254 - e) << 23)
    if src == "f32":
        return np.where(e == 255, 0x7FC00000, field).astype(np.uint32)
    nan = 0x7F81 if dst == "f8E4M3FN" else 0x7FC0
    return np.where(e == 255, nan, field >> 16).astype(np.uint16)


def int8_stages(
    values: np.ndarray, scale: np.ndarray, offset: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """f32 products (sums), 32-bit integers, and the half-precision image of INT8 TQUANT."""
    with np.errstate(all="ignore"):
        products = (values * scale[:, None]).astype(np.float32)
        if offset is not None:
            products = (products + offset[:, None]).astype(np.float32)
        whole = np.rint(products.astype(np.float64))
        integers = np.clip(np.nan_to_num(whole), -(2.0**31), 2.0**31 - 1).astype(np.int32)
        half = np.clip(integers, -65504, 65504).astype(np.float16)
    return products, integers, half


def clobbered_source(
    products: np.ndarray, half: np.ndarray, source: np.ndarray, width: int
) -> np.ndarray:
    """Bytes of the source tile after INT8 TQUANT on A2/A3: the f32 results, and over them the f16
    image of (r, c) at byte 2 * (r * ceil16(width) + c)."""
    image = source.view(np.float32).reshape(-1, width).copy()
    image[: products.shape[0], : products.shape[1]] = products
    data = image.view(np.uint8).reshape(-1)
    pitch = -(-width // 16) * 16
    for r in range(half.shape[0]):
        for c in range(half.shape[1]):
            at = 2 * (r * pitch + c)
            data[at : at + 2] = half[r, c : c + 1].view(np.uint8)
    return data


# -- microscaling, byte by byte --------------------------------------------------------------------


class MxImages:
    """Bytes that a microscaling TQUANT writes, by tile: {"dst": {byte: value}, …}.

    From the description of its two paths along rows and the one along columns. `src` are the static
    rows of the source as patterns.
    """

    def __init__(
        self, src: list[list[int]], valid: tuple[int, int], form: str, dst: str, rule: str
    ) -> None:
        self.src = [list(row) for row in src]
        self.rows, self.cols = valid
        self.width = len(src[0])
        self.form, self.dst, self.rule = form, dst, rule
        self.size = 4 if form == "f32" else 2
        self.writes: dict[str, dict[int, int]] = {
            name: {} for name in ("src", "dst", "exp", "max", "scaling")
        }
        if self.size == 2:
            for r in range(self.rows):
                for c in range(self.cols, self.width):
                    self.src[r][c] = 0
                    self._put("src", (r * self.width + c) * 2, 0, 2)

    def _put(self, tile: str, at: int, value: int, size: int) -> None:
        for i in range(size):
            self.writes[tile][at + i] = value >> (8 * i) & 255

    def _element(self, r: int, c: int, code: int) -> None:
        if self.dst == "f8E4M3FN":
            self.writes["dst"][r * self.width + c] = code
            return
        at = r * self.width // 2 + c // 2
        old = self.writes["dst"].get(at, 0)
        keep = old & (0xF0 if c % 2 == 0 else 0x0F)
        self.writes["dst"][at] = keep | code << (4 * (c % 2))

    def _group(self, places: list[tuple[int, int]], exp: int, index: int) -> None:
        """Quantise one group; `index` is its element of the scratch tiles."""
        patterns = [self.src[r][c] if c < self._limit else 0 for r, c in places]
        result = groups.mx_group(patterns, self.form, self.dst, self.rule)
        self.writes["exp"][exp] = result.exponent
        self._put("max", index * self.size, result.maximum, self.size)
        for i in range(self._scales_each):
            at = (index * self._scales_each + i) * self.size
            self._put("scaling", at, result.scale, self.size)
        for (r, c), code in zip(places, result.codes, strict=True):
            if c < self.width:
                self._element(r, c, code)
        self.last = result

    _limit = 1 << 30
    _scales_each = 1

    def flat(self, doubled: bool) -> MxImages:
        """Groups along rows, one exponent row: all static columns, densely."""
        self._scales_each = 2 if doubled else 1
        groups = self.width // GROUP
        for r in range(self.rows):
            for g in range(groups):
                places = [(r, 32 * g + i) for i in range(GROUP)]
                self._group(places, r * groups + g, r * groups + g)
        return self

    def by_rows(self, exp_cols: int) -> MxImages:
        """Groups along rows, a row of exponents each: valid columns, zeros after them."""
        self._limit = self.cols
        groups = -(-self.cols // GROUP)
        scales: list[list[int]] = []
        for r in range(self.rows):
            scales.append([])
            for g in range(groups):
                places = [(r, 32 * g + i) for i in range(GROUP)]
                self._group(places, r * exp_cols + g, r * groups + g)
                scales[-1].append(self.last.scale)
        if self.size == 2:
            self._window(scales, exp_cols)
        return self

    def _window(self, scales: list[list[int]], exp_cols: int) -> None:
        """16-bit sources pass scales on through memory, 8 groups at a time."""
        groups = len(scales[0])
        for r, row in enumerate(scales):
            for g, scale in enumerate(row):
                if self.dst == "f8E4M3FN" and self.rows * groups < 8:
                    self._put("exp", r * exp_cols + 16 + 2 * g, scale, 2)
                else:
                    self._put("max", 2 * (g % 8), scale, 2)

    def by_columns(self, exp_cols: int, interleaved: bool) -> MxImages:
        """Groups along columns."""
        for g in range(self.rows // GROUP):
            for c in range(self.cols):
                at = g // 2 * exp_cols + 2 * c + g % 2 if interleaved else g * self.width + c
                places = [(32 * g + i, c) for i in range(GROUP)]
                self._group(places, at, g * self.width + c)
        return self
