"""Integer matrix products and convolutions on the cube: zero points, unsigned bytes, image patches.

The cube multiplies int8 by int8 on both targets. Unsigned bytes get their top bit flipped, and zero
points become int32 biases of the columns or further rows of the product, which is exact.
"""

from __future__ import annotations

import numpy as np

from ptosim.interop.chains import unsupported
from ptosim.interop.kernel_runner import KernelRunner


def signed(q: np.ndarray, zero: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return int8 values and their zero points for unsigned ones: the top bit is flipped."""
    if q.dtype == np.uint8:
        return (q ^ np.uint8(0x80)).view(np.int8), zero - 128
    return q, zero


def sums(
    runner: KernelRunner,
    a: np.ndarray,
    b: np.ndarray,
    a_zero: np.ndarray,
    b_zero: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    words: np.ndarray | None = None,
    out: str = "",
    relu: bool = False,
) -> np.ndarray:
    """Return (a - a_zero) @ (b - b_zero) + bias for int8 or uint8 matrices, on the cube.

    The zero point of a becomes a bias of the columns, that of b further rows of b that meet a
    again. `words`, `out` and `relu` are those of `KernelRunner.product`."""
    a, a_zero = signed(a, a_zero)
    b, b_zero = signed(b, b_zero)
    if a_zero.size != 1:
        raise unsupported("a zero point for each row of a product")
    rows = [b]
    left = -np.broadcast_to(b_zero.reshape(-1), (b.shape[1],)).astype(np.int32)
    total = b.astype(np.int64).sum(0) + b.shape[0] * left.astype(np.int64)
    while np.any(left):
        part = np.clip(left, -128, 127)
        rows.append(np.broadcast_to(part.astype(np.int8), b.shape))
        left = left - part
    shift = -int(a_zero.reshape(())) * total
    if bias is not None:
        shift = shift + bias
    whole = shift.astype(np.int32) if np.any(shift) else None
    wide = np.concatenate([a] * len(rows), 1)
    return runner.product(wide, np.concatenate(rows, 0), whole, words=words, out=out, relu=relu)
