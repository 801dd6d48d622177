"""Vector registers and predicates in the debugger: lanes by element type, masks as bars."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptosim.debug.reading import Reading, numbers_of
from ptosim.debug.sheet import Sheet, short_number
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Value
from ptosim.ground.ir.types import (
    BLOCK_BYTES,
    REGISTER_BYTES,
    DType,
    MaskType,
    VirtualMaskType,
    VirtualVRegType,
    VRegType,
)
from ptosim.ground.isa.dtypes import dtypes
from ptosim.machine.logical import LogicalMask, Twofold
from ptosim.machine.storage import view_dtype
from ptosim.machine.vector import Mask

BLOCKS = REGISTER_BYTES // BLOCK_BYTES
LINE = 90
"""Columns that the lanes of a line may take."""
ON, OFF = "█", "·"


def read_register(value: Value, content: Any) -> Reading | None:
    """Return a register's lanes, or those of a predicate as 0 and 1; None for other values."""
    content = content.first if isinstance(content, Twofold) else content
    if isinstance(value.type, VRegType | VirtualVRegType):
        dtype = value.type.elem
        codes = content.view(view_dtype(dtype))
        return Reading("register", dtype, codes, numbers_of(codes, dtype))
    if isinstance(content, LogicalMask):
        lanes = content.on.astype(np.uint8)
        return Reading("mask", dtypes()["ui8"], lanes, lanes)
    if isinstance(value.type, MaskType) and isinstance(content, Mask):
        lanes = getattr(content, f"on{value.type.granule // 8}").astype(np.uint8)
        return Reading("mask", dtypes()["ui8"], lanes, lanes)
    return None


def lanes_sheet(name: str, value: Value, content: Any, asked: str) -> Sheet:
    """Return a register by blocks of 32 bytes (or parts of them, where the numbers are wide), its
    lanes of the type asked for or its own; a predicate as a bar for each block. Raises UsageError
    if the value is neither, or the type none that a register can have."""
    if isinstance(value.type, MaskType):
        return _bar(name, value.type, content)
    if isinstance(value.type, VirtualMaskType | VirtualVRegType):
        return _logical_sheet(name, value.type, content, asked)
    if not isinstance(value.type, VRegType):
        raise UsageError(f"{name} is no register", help="`print` shows any value")
    dtype = _asked_type(asked, value.type.elem)
    codes = np.ascontiguousarray(content).view(np.uint8).view(view_dtype(dtype))
    cells = [short_number(n) for n in numbers_of(codes, dtype)]
    count = _in_a_line(cells)
    sheet = Sheet(f"{name}: {len(cells)} lanes of {dtype}", [">lane", *[">"] * count])
    for first in range(0, len(cells), count):
        sheet.add(str(first), *cells[first : first + count])
    return sheet


def _in_a_line(cells: list[str]) -> int:
    """The lanes of a block, halved until a line of them fits."""
    count = len(cells) // BLOCKS
    widest = max(map(len, cells)) + 2
    while count > 1 and count * widest > LINE:
        count //= 2
    return count


def _bar(name: str, type_: MaskType, mask: Mask) -> Sheet:
    lanes = getattr(mask, f"on{type_.granule // 8}")
    sheet = Sheet(f"{name}: {int(lanes.sum())} of {len(lanes)} lanes of b{type_.granule}")
    sheet.columns = [">lane", "active"]
    for block, row in enumerate(lanes.reshape(BLOCKS, -1)):
        sheet.add(str(block * len(row)), "".join(ON if on else OFF for on in row))
    sheet.notes.append(f"image {mask.bits:064x}, bit 0 last")
    return sheet


def _asked_type(asked: str, own: DType) -> DType:
    dtype = dtypes().get(asked) if asked else own
    if dtype is None or dtype.bits < 8:
        raise UsageError(f"`{asked}` is no type of lanes", help="for example `lanes %v f16`")
    return dtype


# -- logical vectors ------------------------------------------------------------------------------

BAR = 64
"""Lanes of a logical mask in a line."""
MOST = 16
"""Lanes of a logical vector in a line."""


def _logical_sheet(
    name: str, type_: VirtualVRegType | VirtualMaskType, content: Any, asked: str
) -> Sheet:
    """Return a logical vector in lines of as many lanes as fit, or a logical mask as bars. Where
    the mask that the assembler drops makes a difference, a note says in which lanes."""
    twofold = content if isinstance(content, Twofold) else None
    content = content.first if twofold is not None else content
    if isinstance(type_, VirtualMaskType):
        sheet = _logical_bar(name, type_, content)
    else:
        sheet = _logical_lanes(name, type_, content, asked)
    if twofold is not None:
        sheet.notes.append(_differing(twofold))
    return sheet


def _logical_lanes(name: str, type_: VirtualVRegType, content: Any, asked: str) -> Sheet:
    dtype = _asked_type(asked, type_.elem)
    raw = np.ascontiguousarray(content).view(np.uint8)
    if len(raw) % (dtype.bits // 8):
        raise UsageError(f"{name} has {len(raw)} bytes, which are no lanes of {dtype}")
    codes = raw.view(view_dtype(dtype))
    cells = [short_number(n) for n in numbers_of(codes, dtype)]
    count, widest = min(MOST, len(cells)), max(map(len, cells)) + 2
    while count > 1 and count * widest > LINE:
        count = -(-count // 2)
    sheet = Sheet(f"{name}: {len(cells)} lanes of {dtype}", [">lane", *[">"] * count])
    for first in range(0, len(cells), count):
        line = cells[first : first + count]
        sheet.add(str(first), *line, *[""] * (count - len(line)))
    return sheet


def _logical_bar(name: str, type_: VirtualMaskType, mask: LogicalMask) -> Sheet:
    sheet = Sheet(f"{name}: {int(mask.on.sum())} of {type_.lanes} lanes")
    sheet.columns = [">lane", "active"]
    for first in range(0, type_.lanes, BAR):
        row = mask.on[first : first + BAR]
        sheet.add(str(first), "".join(ON if on else OFF for on in row))
    return sheet


def _differing(value: Twofold) -> str:
    first, second = value.first, value.second
    if isinstance(first, LogicalMask):
        differ = first.on != second.on
    else:
        raw = f"u{first.dtype.itemsize}"
        differ = first.view(raw) != second.view(raw)
    return (
        f"{int(differ.sum())} lanes, the first {int(np.flatnonzero(differ)[0])}, depend on the "
        f"mask of {value.origin}, which the assembler drops"
    )
