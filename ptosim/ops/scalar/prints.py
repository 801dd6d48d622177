"""Output and abortion: `tprint`, `print`, `trap`; and single elements: `tgetval`, `tsetval`.

`tprint` writes, in the format of the CPU simulator, a line `TPRINT RxC` and the valid rows, blank
separated; in that of the device a header with element type, layout and memory, the shapes, and the
whole tile with a bar after the last valid column and a dashed line after the last valid row. A view
is printed one batch index after the other. The device format is documented in words only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ptosim.ground.ir.types import DType
from ptosim.machine.core import Core
from ptosim.machine.numbers.formats import decode, lookup
from ptosim.machine.pages import unpack_nibbles
from ptosim.machine.tile import Tile, TileRef
from ptosim.ops.base.binding import Binding, GmAccess, OpFault, tile_array, typed_scalar
from ptosim.ops.base.functions import Commit, kernel, value
from ptosim.ops.base.orders import Action, ValueContext

# Width and digits after the point of the library's print formats.
_FORMATS = {
    "Width8_Precision4": (8, 4),
    "Width8_Precision2": (8, 2),
    "Width10_Precision6": (10, 6),
}

Format = Callable[[Any], str]


def _formatter(op: Binding, dtype: DType) -> Format:
    width, digits = _FORMATS[op.attr("printFormat") or "Width8_Precision4"]
    if dtype.is_integer:
        return lambda item: f"{int(item):{width}d}"
    return lambda item: f"{float(item):{width}.{digits}f}"


def _numbers(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Elements as numbers: codes of narrow floats are decoded, 4-bit integers get their sign."""
    form = lookup(dtype.name)
    if form.kind == "code":
        return decode(values, form.name)
    if dtype.name in ("i4", "si4"):
        return ((values.astype(np.int8) << 4) >> 4).astype(np.int8)
    return values


def _lines(rows: Iterable[Iterable[Any]], format_: Format) -> list[str]:
    return [" ".join(format_(item) for item in row) for row in rows]


# -- tprint ----------------------------------------------------------------------------------------


@kernel("pto.tprint")
def tprint(op: Binding) -> Commit:
    """Print a tile or a view."""
    if not isinstance(op.values["src"], TileRef):
        return _print_view(op, op.view("src"))
    tile = op.tile("src")
    format_ = _formatter(op, tile.type.dtype)
    text = _TILE_TEXTS[op.switch("tprint.format")]
    return lambda: op.prints.append(text(tile, format_))


def _cpu_text(tile: Tile, format_: Format) -> str:
    rows = _numbers(tile.read(), tile.type.dtype)
    return "\n".join([f"TPRINT {tile.v_row}x{tile.v_col}", *_lines(rows, format_)]) + "\n"


def _npu_text(tile: Tile, format_: Format) -> str:
    type_ = tile.type
    lines = [
        f"TPRINT data type: {type_.dtype}, layout: {tile.layout.name}, tile type: {type_.loc}",
        f"Shape: [{tile.rows}, {tile.cols}], Valid Shape: [{tile.v_row}, {tile.v_col}]",
    ]
    rows = _numbers(tile.read(tile.rows, tile.cols), type_.dtype)
    for number, row in enumerate(rows):
        cells = [format_(item) for item in row]
        if tile.v_col < tile.cols:
            cells.insert(tile.v_col, "|")
        lines.append(" ".join(cells))
        if number + 1 == tile.v_row < tile.rows:
            lines.append("-" * len(lines[-1]))
    return "\n".join(lines) + "\n"


_TILE_TEXTS = {"cpu": _cpu_text, "npu": _npu_text}


def _print_view(op: Binding, view: GmAccess) -> Commit:
    format_ = _formatter(op, view.dtype)
    rows, cols = view.sizes[3:]

    def write() -> None:
        array = view.array()
        whole = unpack_nibbles(array) if view.dtype.bits == 4 else array
        for block in _numbers(whole, view.dtype).reshape(-1, rows, cols):
            lines = [f"TPRINT {rows}x{cols}", *_lines(block, format_)]
            op.prints.append("\n".join(lines) + "\n")

    return write


# -- print and trap --------------------------------------------------------------------------------


_WIDE = re.compile(r"%[^a-zA-Z%]*\d{4}")


@kernel("pto.print")
def print_(op: Binding) -> Commit:
    """Print a scalar with a format string in the manner of C."""
    text, item = str(op.scalar("format")), op.scalar("value")
    if _WIDE.search(text):
        raise OpFault("PTO6022", f"the format {text[:40]!r} of '{op.op.name}' is wider than a line")
    try:
        line = text % item if "%" in text else f"{text}{item}"
    except (TypeError, ValueError, OverflowError) as problem:
        raise OpFault(
            "PTO6022",
            f"the format {text!r} of '{op.op.name}' does not take {item!r}: {problem}",
            help="write one conversion such as %d or %f",
        ) from problem
    return lambda: op.prints.append(line if line.endswith("\n") else line + "\n")


@kernel("pto.trap")
def trap(op: Binding) -> Commit:
    """Stop the run."""

    def stop() -> None:
        raise OpFault("PTO6023", "the program stops itself with `pto.trap`")

    return stop


# -- single elements -------------------------------------------------------------------------------


def _place(tile: Tile, offset: int, name: str) -> np.ndarray:
    """Return the element at an offset in memory order, as a view of one element."""
    if not 0 <= offset < tile.rows * tile.cols:
        raise OpFault(
            "PTO6024",
            f"'{name}' accesses element {offset} of a tile of {tile.rows * tile.cols} elements",
        )
    size = tile.dtype.itemsize
    return tile_array(tile, (1,), (size,), offset=offset * size)


@kernel("pto.tsetval")
def tsetval(op: Binding) -> Commit:
    """Element `offset` of dst = val."""
    tile = op.tile("dst")
    place = _place(tile, int(op.scalar("offset")), op.op.name)
    item = typed_scalar(op.scalar("val"), tile.dtype)
    return lambda: place.fill(item)


@value("pto.tgetval")
def tgetval(ctx: ValueContext) -> Action:
    """result = element `offset` of src."""
    source, offset, result = ctx.slots["src"], ctx.slots["offset"], ctx.result
    name = ctx.op.name

    def run(core: Core) -> None:
        slots = core.slots
        ref: TileRef = slots[source]
        place = _place(Tile(ref, core.space(ref.type.loc).data), int(slots[offset]), name)
        slots[result] = place[0].item() if place.dtype.kind in "iuf" else float(place[0])

    return run
