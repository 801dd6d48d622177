"""Elements of 2 and 4 bits in bytes: the first in the lowest bits, the last byte filled with
zeros."""

from __future__ import annotations

import numpy as np

from ptosim.machine.quant.parameters import Storage, narrow_integers


def _codes(values: np.ndarray) -> np.ndarray:
    return values.view(np.uint8) if values.dtype.itemsize == 1 else values.astype(np.uint8)


def pack(values: np.ndarray, kind: Storage) -> bytes:
    """Return the bytes of elements (one an entry), as ONNX raw data and PTO memory hold them."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if kind.bits >= 6:
        return flat.tobytes()
    per_byte = 8 // kind.bits
    codes = _codes(flat) & ((1 << kind.bits) - 1)
    padded = np.zeros(-(-codes.size // per_byte) * per_byte, np.uint8)
    padded[: codes.size] = codes
    shifts = np.arange(per_byte, dtype=np.uint8) * kind.bits
    return np.bitwise_or.reduce(padded.reshape(-1, per_byte) << shifts, axis=1).tobytes()


def unpack(data: bytes, kind: Storage, shape: tuple[int, ...]) -> np.ndarray:
    """Return the elements that packed bytes hold, one an entry."""
    raw = np.frombuffer(data, np.uint8)
    count = int(np.prod(shape, dtype=np.int64))
    if kind.bits >= 6:
        return raw.view(kind.array)[:count].reshape(shape).copy()
    per_byte = 8 // kind.bits
    shifts = np.arange(per_byte, dtype=np.uint8) * kind.bits
    codes = (raw[:, None] >> shifts & ((1 << kind.bits) - 1)).reshape(-1)[:count]
    if kind.is_integer and kind.signed:
        codes = np.where(codes > kind.high, codes - (1 << kind.bits), codes)
    if kind.is_integer:
        return narrow_integers(codes.astype(np.int8), kind).reshape(shape)
    return codes.astype(np.uint8).view(kind.array).reshape(shape)
