"""Where an element of a tile is, one element at a time, from the public description of layouts.

Offsets are in elements (bytes for 8-bit and packed data). Nothing is imported from ptosim, and the
functions look at one (row, column) at a time, so they share neither code nor form with it.
"""

from __future__ import annotations


def box(bits: int, inner: str, fractal: int) -> tuple[int, int]:
    """Rows and columns of a box: 512 bytes, 1024 bytes of 32-bit, or 32 bytes of scales."""
    if inner == "none":
        return 1, 1
    if fractal == 1024:
        return 16, 16
    width = 2 if fractal == 32 else 32 * 8 // bits
    return (16, width) if inner == "row" else (width, 16)


INNER = {"nd": "none", "dn": "none", "nz": "row", "zz": "row", "zn": "col", "nn": "col"}


def tile_offset(
    layout: str, shape: tuple[int, int], at: tuple[int, int], bits: int, fractal: int = 512
) -> int:
    """Offset of element `at` in a tile of static shape `shape`."""
    (rows, cols), (r, c) = shape, at
    if layout == "nd":
        return r * cols + c
    if layout == "dn":
        return c * rows + r
    ir, ic = box(bits, INNER[layout], fractal)
    big_r, a = divmod(r, ir)
    big_c, b = divmod(c, ic)
    inside = a * ic + b if INNER[layout] == "row" else b * ir + a
    if layout[0] == "n":  # boxes column by column
        return big_c * rows * ic + big_r * ir * ic + inside
    return big_r * cols * ir + big_c * ir * ic + inside


def move_to_nz(at: tuple[int, int], pitch: int, size: int) -> int:
    """Offset in the NZ image that TMOV makes: column blocks of 32 bytes, `pitch` rows apart."""
    r, c = at
    width = 32 // size
    return (c // width) * pitch * width + r * width + c % width


def move_to_zn(at: tuple[int, int], cols: int, size: int) -> int:
    """Offset in the ZN image that TMOV makes of `cols` columns."""
    r, c = at
    depth = 32 // size
    boxes = cols // 16
    return ((r // depth) * boxes + c // 16) * 16 * depth + (c % 16) * depth + r % depth


def exponent_zz(row: int, group: int, groups: int) -> int:
    """Byte of the exponent of (row, group) in ZZ form, `groups` a row."""
    return (row // 16) * 16 * groups + (group // 2) * 32 + (row % 16) * 2 + group % 2


def exponent_dn_zz(group_row: int, col: int, group_rows: int) -> int:
    """Byte of the exponent of (group of rows, column) in ZZ form."""
    return (
        (col // 16) * 32 * (group_rows // 2)
        + (group_row // 2) * 32
        + (col % 16) * 2
        + group_row % 2
    )


def gm_index(layout: str, sizes: tuple[int, ...], at: tuple[int, int]) -> tuple[int, ...]:
    """The five indices of the element (row, column) of a window."""
    (r, c), (_, s1, s2, s3, s4) = at, sizes
    if layout == "nd":
        return (r // (s1 * s2 * s3), r // (s2 * s3) % s1, r // s3 % s2, r % s3, c)
    if layout == "dn":
        return (c // (s1 * s2 * s4), c // (s2 * s4) % s1, c // s4 % s2, r, c % s4)
    q = c // s4
    return (q // s1, q % s1, r // s3, r % s3, c % s4)
