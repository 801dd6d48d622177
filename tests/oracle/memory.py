"""Which element of global memory a transfer puts where, one element at a time.

From the description of the transfer instructions: lines are counted by the window, their length by
the valid region of the tile. Nothing is imported from ptosim.
"""

from __future__ import annotations

from itertools import product


def nd(
    sizes: tuple[int, ...], strides: tuple[int, ...], shape: tuple[int, int], valid: tuple[int, int]
) -> dict[int, int]:
    """Tile offset -> offset in global memory for row-major tiles."""
    found = {}
    for line, outer in enumerate(product(*(range(n) for n in sizes[:4]))):
        for c in range(valid[1]):
            at = sum(i * s for i, s in zip(outer, strides, strict=False)) + c * strides[4]
            found[line * shape[1] + c] = at
    return found


def dn(
    sizes: tuple[int, ...], strides: tuple[int, ...], shape: tuple[int, int], valid: tuple[int, int]
) -> dict[int, int]:
    """Tile offset -> offset in global memory for column-major tiles."""
    found = {}
    outer_sizes = (*sizes[:3], sizes[4])
    outer_strides = (*strides[:3], strides[4])
    for line, outer in enumerate(product(*(range(n) for n in outer_sizes))):
        for r in range(valid[0]):
            at = sum(i * s for i, s in zip(outer, outer_strides, strict=True)) + r * strides[3]
            found[line * shape[0] + r] = at
    return found


def nz(
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    shape: tuple[int, int],
    valid: tuple[int, int],
    width: int,
) -> dict[int, int]:
    """The same for tiles of column blocks, `width` elements (32 bytes) wide and contiguous."""
    found = {}
    for block, (i0, i1) in enumerate(product(range(sizes[0]), range(sizes[1]))):
        for r in range(valid[0]):
            for b in range(width):
                at = i0 * strides[0] + i1 * strides[1] + r * width + b
                found[block * shape[0] * width + r * width + b] = at
    return found


def five(
    sizes: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and strides of a window with missing leading dimensions."""
    while len(sizes) < 5:
        strides = (sizes[0] * strides[0], *strides)
        sizes = (1, *sizes)
    return sizes, strides


def padded(
    shape: tuple[int, int], lines: int, valid: int, width: int, *, by_rows: bool
) -> set[int]:
    """Offsets of the rest of the last 32-byte block of each line; `width` elements a block."""
    end = min(-(-valid // width) * width, shape[1] if by_rows else shape[0])
    pitch = shape[1] if by_rows else shape[0]
    return {line * pitch + i for line in range(lines) for i in range(valid, end)}
