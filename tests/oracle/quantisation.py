"""What TQUANT leaves in its scratch tiles and in its source, from the description of its stages.

Plain integer and float32 arithmetic on whole arrays, without ptosim. Codes themselves are checked
against recorded data and against `tests.oracle.numerics`; this is about what lies beside them.
"""

from __future__ import annotations

import numpy as np

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
