"""How element types are in memory: the NumPy dtype of a view, and 4-bit elements two a byte.

Floats of 8 bits and less are uint8 codes in a view (NumPy cannot compute with them anyway);
arguments hold them as ml_dtypes types."""

from __future__ import annotations

import random
from functools import lru_cache

import ml_dtypes
import numpy as np

from ptosim.ground.ir.types import DType

_VIEW_NAMES = {"bfloat16": ml_dtypes.bfloat16}


@lru_cache(maxsize=64)
def view_dtype(dtype: DType) -> np.dtype:
    """Return the NumPy dtype of a memory view: the values themselves, or uint8 codes (also for the
    packed bytes of 4-bit elements)."""
    if dtype.bits <= 8 and (not dtype.is_integer or dtype.bits < 8):
        return np.dtype(np.uint8)
    if dtype.array == "bool":
        return np.dtype(np.uint8)
    return np.dtype(_VIEW_NAMES.get(dtype.array, dtype.array))


@lru_cache(maxsize=64)
def argument_dtype(dtype: DType) -> np.dtype:
    """Return the dtype of an argument or result array of an element type."""
    if dtype.array == "codes":
        return np.dtype(np.uint8)
    return np.dtype(getattr(ml_dtypes, dtype.array, dtype.array))


def has_numbers(dtype: np.dtype) -> bool:
    """True for an array type whose elements are real numbers: those of NumPy, and the floats and
    small integers of ml_dtypes, which are of its kind for raw bytes."""
    return dtype.kind in "biuf" or (dtype.kind == "V" and dtype.type is not np.void)


def native(array: np.ndarray) -> np.ndarray:
    """Return an array in the byte order of the machine; a file may have the other one."""
    if array.dtype.isnative:
        return array
    return array.astype(array.dtype.newbyteorder("="))


def unpack_nibbles(packed: np.ndarray) -> np.ndarray:
    """Return one code an entry for bytes that hold two along the last axis, the even one low."""
    codes = np.empty((*packed.shape[:-1], packed.shape[-1] * 2), np.uint8)
    codes[..., 0::2] = packed & 15
    codes[..., 1::2] = packed >> 4
    return codes


def pack_nibbles(codes: np.ndarray) -> np.ndarray:
    """Return the bytes of codes, two along the last axis a byte; an odd last one is alone."""
    low = codes[..., 0::2] & 15
    packed = low.astype(np.uint8)
    high = codes[..., 1::2]
    packed[..., : high.shape[-1]] |= (high.astype(np.uint8) & 15) << 4
    return packed


def to_bytes(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Return the bytes in memory of an argument array (C order), as a new flat uint8 array."""
    data = as_bytes(array, dtype)
    return data.copy() if np.may_share_memory(data, array) else data


def as_bytes(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Return the bytes in memory of an argument array (C order), flat uint8: those of the array
    itself where it is contiguous and its elements are whole bytes."""
    if dtype.bits == 4:
        return pack_nibbles(_codes(array).reshape(-1))
    return np.ascontiguousarray(array, argument_dtype(dtype)).reshape(-1).view(np.uint8)


def from_bytes(
    data: np.ndarray, dtype: DType, shape: tuple[int, ...], *, copy: bool = True
) -> np.ndarray:
    """Return the argument array of a shape that bytes in memory hold: a new array, or without
    `copy` those bytes themselves where elements are whole bytes."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype.bits == 4:
        codes = unpack_nibbles(data[: (count + 1) // 2])[:count]
        return _from_codes(codes, dtype).reshape(shape)
    size = count * dtype.bits // 8
    held = data[:size].copy() if copy else data[:size]
    return held.view(argument_dtype(dtype)).reshape(shape)


def _codes(array: np.ndarray) -> np.ndarray:
    return array.view(np.uint8) & 15  # ml_dtypes keeps a 4-bit element in the low bits of a byte


def _from_codes(codes: np.ndarray, dtype: DType) -> np.ndarray:
    kind = argument_dtype(dtype)
    if dtype.array == "int4":  # ml_dtypes sign-extends into the byte
        codes = np.where(codes > 7, codes | 0xF0, codes).astype(np.uint8)
    return codes.view(kind) if kind != np.uint8 else codes


# A memory space: bytes with an address range.

POISON = 0xFF
"""Fill byte of memory that nothing has written: NaN in every float format, -1 in integers."""


class MemorySpace:
    """The bytes of one space of one core. Never resized: NumPy views point into it."""

    __slots__ = ("data", "name", "size")

    def __init__(self, name: str, size: int, uninit: str, seed: int) -> None:
        self.name = name
        self.size = size
        if uninit == "zero":
            self.data = bytearray(size)
        elif uninit == "random":
            self.data = bytearray(random.Random(f"{seed}|{name}").randbytes(size))
        else:
            self.data = bytearray([POISON]) * size

    def snapshot(self) -> bytes:
        """Return a copy of the bytes."""
        return bytes(self.data)

    def restore(self, data: bytes | bytearray) -> None:
        """Put a snapshot back."""
        self.data[:] = data
