"""A2/A3: a tile meets a value for each of its rows.

A value goes to a block of 32 bytes (vbrcb), then the rows meet their blocks: column by column, one
instruction for each repeat of a row and a masked one for what is left over; row by row in count
mode where rows are fewer than the repeats of one, or lie more than 255 blocks apart. The scratch
takes the values of 240 rows: more go in several passes, each with start-ups of its own (pto-isa
headers of TROWEXPAND* and TQUANT)."""

from __future__ import annotations

from ptosim.ground.ir.types import BLOCK_BYTES, MAX_REPEATS
from ptosim.ground.isa.costs import CostRow
from ptosim.time.laws.cost import Cost, Stage
from ptosim.time.laws.repeats import chain, instruction_stage, row_by_row
from ptosim.time.laws.request import Request
from ptosim.time.laws.shapes import TileShape

PASS_ROWS = 240
"""Rows whose values are spread in one pass."""

_BLOCKS = 8
"""Values that one repeat of vbrcb spreads."""


def row_broadcast(request: Request) -> Cost:
    """A value for each row: spread, combined with the rows, then what follows row by row."""
    tile, first = request.domain, request.stages[0]
    stages = spread_and_combine(request, first, first, tile)
    return chain(request, [*stages, *row_by_row(request, tile, request.stages[1:])])


def spread_and_combine(
    request: Request, name: str, instruction: str, tile: TileShape
) -> list[Stage]:
    """Return the stages of all passes, in their order; `name` is that of combining."""
    spread = request.table["instruction.vbrcb"]
    row = request.instruction(instruction, tile)
    what = name.rpartition(" ")[2] if " " in name else "value"
    stages: list[Stage] = []
    for start in range(0, max(tile.rows, 1), PASS_ROWS):
        part = TileShape(tile.type, min(tile.rows - start, PASS_ROWS), tile.cols)
        blocks = -(-part.rows // _BLOCKS)
        stages += [
            instruction_stage(f"spread the {what}", spread, blocks, tile),
            _combine(request, name, row, part),
        ]
    return stages


def _combine(request: Request, name: str, row: CostRow, part: TileShape) -> Stage:
    whole, rest = divmod(part.cols, part.lanes)
    repeats = part.rows * part.row_repeats
    masked = request.table["repeat.masked"]["cycles"]
    distance = part.type.cols * part.bits // 8
    if whole > part.rows or distance > MAX_REPEATS * BLOCK_BYTES:
        return instruction_stage(name, row, repeats, part, masked * part.rows, part.rows)
    extra = masked if rest else 0
    return instruction_stage(name, row, repeats, part, extra, whole + bool(rest))
