"""Byte images of tiles: what is in a memory space before and after an operation."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import ptosim
from tests.support.text import Kernel, Tile

ARRAYS = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "i8": np.dtype(np.int8),
    "ui8": np.dtype(np.uint8),
    "i16": np.dtype(np.int16),
    "ui16": np.dtype(np.uint16),
    "i32": np.dtype(np.int32),
    "ui32": np.dtype(np.uint32),
    "i64": np.dtype(np.int64),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f4E2M1FN": np.dtype(ml_dtypes.float4_e2m1fn),
}


def counting(dtype: str, count: int) -> np.ndarray:
    """Distinguishable elements: their number, in as many bits as they have (0 does not occur)."""
    kind = ARRAYS[dtype]
    if dtype == "f4E2M1FN":
        return (np.arange(count) % 15 + 1).astype(np.uint8).view(kind)
    numbers = np.arange(1, count + 1, dtype=np.uint64)
    if kind.itemsize == 1:
        numbers = numbers % 251 + 1
    return numbers.astype(f"u{kind.itemsize}").view(kind)


def patterns(array: np.ndarray) -> np.ndarray:
    """Bit patterns of an array, flat."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(-1)


class Image:
    """The first bytes of the vec space, from outside: filled before a program and read after it."""

    def __init__(self, kernel: Kernel, size: int, at: int = 0, name: str = "image") -> None:
        self.kernel, self.size, self.name = kernel, size, name
        self.tile: Tile = kernel.tile(name, "ui8", 1, size, addr=at)
        self.args: dict[str, np.ndarray] = {}

    def fill(self, value: int | np.ndarray) -> None:
        """Fill the bytes."""
        self.kernel.load(f"{self.name}_before", self.tile)
        given = np.broadcast_to(np.asarray(value, np.uint8), (self.size,))
        self.args[f"{self.name}_before"] = given.copy()

    def read(self) -> None:
        """Store the bytes at this point of the program."""
        self.kernel.store(self.tile, f"{self.name}_after")
        self.args[f"{self.name}_after"] = np.zeros(self.size, np.uint8)

    def of(self, result: ptosim.Result, dtype: np.dtype | type = np.uint8) -> np.ndarray:
        """The bytes that were read."""
        return result.outputs[f"{self.name}_after"].view(dtype)


def codes(result: ptosim.Result) -> list[str]:
    """Codes of the findings of a run; not of those on undefined bytes, which tests look at on
    purpose."""
    return [f.code for f in result.findings if not f.code.startswith("PTO71")]


BITS = {"f4E2M1FN": 4, "ui8": 8, "i8": 8, "f16": 16, "bf16": 16, "f32": 32, "i32": 32, "i64": 64}
BACKGROUND = 0xA5


def loaded_image(
    target: str,
    dtype: str,
    shape: tuple[int, int],
    source: np.ndarray,
    window: dict[str, Any],
    *,
    options: dict[str, Any] | None = None,
    **tile_keys: Any,
) -> tuple[np.ndarray, ptosim.Result]:
    """Load a window into a tile at address 0 of memory that holds BACKGROUND in every byte; return
    the bytes of the tile afterwards."""
    k = Kernel(target, **(options or {}))
    image = Image(k, shape[0] * shape[1] * BITS[dtype] // 8)
    image.fill(BACKGROUND)
    tile = k.tile("tile", dtype, *shape, tile_keys.pop("valid", None), addr=0, **tile_keys)
    k.load("x", tile, **window)
    image.read()
    result = k.run({"x": source, **image.args})
    return image.of(result), result


def background(dtype: str, count: int) -> np.ndarray:
    """The patterns of elements that nothing wrote."""
    size = ARRAYS[dtype].itemsize
    return np.full(count * size, BACKGROUND, np.uint8).view(f"u{size}")


def magnitudes(form: str, shape: tuple[int, int], seed: int = 1) -> np.ndarray:
    """Numbers of many magnitudes with some specials, as patterns."""
    rng = np.random.default_rng(seed)
    wide = rng.standard_normal(shape) * np.exp2(rng.integers(-12, 12, shape))
    kind = ARRAYS[form]
    numbers = wide.astype(np.float32).astype(kind)
    flat = numbers.reshape(-1)
    flat[rng.integers(0, flat.size, 6)] = [0.0, -0.0, np.inf, np.nan, 448.0, -6.0]
    return numbers.view(f"u{kind.itemsize}")
