"""The checks of bounds and alignment that all rooms share: one function for each kind of place."""

from __future__ import annotations

from typing import Any

from ptosim.ground.errors import OpFault as OpFault
from ptosim.ground.ir.types import TileType
from ptosim.machine.core import Core
from ptosim.machine.gm import GmBuffer, ViewSpec


def check_place(core: Core, loc: str, addr: int, size: int, what: str) -> None:
    """Raise OpFault unless the bytes of a tile are in their space, at an aligned address (PTO IR
    manual, TASSIGN: SA-0353 and SA-0354). Memory of block scales has no alignment."""
    space = core.machine_def.spaces.get(loc)
    limit = space.bytes if space is not None else core.space(loc).size
    if addr < 0 or addr + size > limit:
        raise OpFault(
            "PTO6026",
            f"{what} [{addr:#x}, {addr + size:#x}) is out of bounds of {loc} ({limit} bytes)",
            notes=("[SA-0353] TASSIGN: address plus tile bytes exceed the space",),
            help="choose another address, or a smaller tile",
        )
    if space is not None and addr % space.align:
        raise OpFault(
            "PTO6027",
            f"{what} at {addr:#x} is not aligned to {space.align} bytes",
            notes=("[SA-0354] TASSIGN: address not aligned",),
            help=f"use a multiple of {space.align}",
        )


def check_window(
    start: tuple[int, int], sizes: tuple[int, int], whole: tuple[int, int], who: str = ""
) -> None:
    """Raise OpFault unless a window of rows and columns is in its tile."""
    (row, col), (rows, cols) = start, sizes
    if row < 0 or col < 0 or row + rows > whole[0] or col + cols > whole[1]:
        raise OpFault(
            "PTO6005",
            f"{who}the window of {rows}x{cols} at ({row}, {col}) leaves the tile of "
            f"{whole[0]}x{whole[1]}",
        )


def check_valid(type_: TileType, rows: int, cols: int) -> None:
    """Raise OpFault unless a tile of a type may have this valid shape."""
    if not (0 <= rows <= type_.rows and 0 <= cols <= type_.cols):
        raise OpFault(
            "PTO6004",
            f"valid shape {rows}x{cols} does not fit the tile's shape {type_.rows}x{type_.cols}",
            help="a valid dimension is between 0 and the static one",
        )


def check_elements(who: str, buffer: str, first: int, end: int, count: int, **more: Any) -> None:
    """Raise OpFault unless a buffer of global memory has the elements [first, end)."""
    if end > first and (first < 0 or end > count):
        raise OpFault(
            "PTO6001",
            f"'{who}' reaches outside `{buffer}`: elements [{first}, {end}) of {count}",
            context={"buffer": buffer},
            **more,
        )


MANY = 1 << 24
"""Elements that a view of any buffer may have. One has more of them than its buffer only where its
strides bring it back to the same ones."""


def check_count(who: str, spec: ViewSpec, buffer: GmBuffer) -> None:
    """Raise OpFault if a size of a view is negative, or if it has more than MANY elements, and more
    than its buffer: each would be moved."""
    if spec.count < 0:
        raise OpFault(
            "PTO6002",
            f"'{who}': a size of the view is negative: {list(spec.sizes)}",
            help="check the operands that give the sizes",
        )
    if spec.count > max(MANY, buffer.size * 8 // spec.dtype.bits):
        raise OpFault(
            "PTO1104",
            f"'{who}': a view of {spec.count:,} elements has more than `{buffer.name}`, and more "
            f"than {MANY:,}",
            notes=(f"view sizes {list(spec.sizes)}, strides {list(spec.strides)}",),
            help="check how the sizes were computed, and strides of 0",
        )


def outside_space(who: str, space: str, low: int, high: int, limit: int) -> OpFault:
    """Return the fault of an access through a pointer to bytes that a space on chip has not."""
    return OpFault(
        "PTO6602",
        f"'{who}' accesses {space} [{low:#x}, {high:#x}); the space has {limit:#x} bytes",
        help="check the address of the pointer, offset (in elements), sizes and strides",
    )
