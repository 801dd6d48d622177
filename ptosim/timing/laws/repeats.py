"""The vector unit of A2/A3: instructions of repeats of 256 bytes, one after the other.

An instruction takes start + slope x repeats. What follows without a barrier overlaps its start-up,
so the start-up of the last instruction is the operation's latency; a barrier between two stages
pays it again. Repeats follow from how the library splits a tile: one stream where the valid region
is contiguous, row by row where it is not, a masked pass where a tile is narrower than a repeat
(pto-isa headers, binary operations). Costs grow with rows and columns: where the published laws
would have a whole repeat cheaper than a part of it, the cheaper form bounds the dearer one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptosim.ground.ir.types import MAX_REPEATS
from ptosim.ground.isa.costs import CostRow
from ptosim.timing.laws.cost import Cost, Stage
from ptosim.timing.laws.request import Request
from ptosim.timing.laws.shapes import TileShape

HALF_LANES = 64
"""Lanes that instructions of half rate process at once, whatever the width of the elements."""


def instruction_stage(
    name: str, row: CostRow, repeats: float, tile: TileShape, extra: float = 0
) -> Stage:
    """Return the stage of one instruction stream."""
    cycles = row["start"] + slope_of(row, tile) * repeats + extra
    return Stage(name, cycles, max(round(repeats), 1), row.confidence)


def slope_of(row: CostRow, tile: TileShape) -> float:
    """Return the cycles of a repeat; instructions of half rate count the active lanes of a narrow
    repeat."""
    wide = row.get("slope16")
    if not wide or tile.bits > 16:
        return row["slope"]
    if tile.type.cols <= HALF_LANES and not _is_scalar_form(row):
        return wide / 2
    return wide


def _is_scalar_form(row: CostRow) -> bool:
    """Scalar and unary forms flatten narrow tiles, so their repeats are full."""
    return row.name.removeprefix("instruction.") != "vdiv"


def chain(request: Request, stages: list[Stage]) -> Cost:
    """Join stages by barriers; only the last start-up overlaps with what comes after."""
    barrier = request.table["machine.barrier"]
    joined: list[Stage] = []
    for number, stage in enumerate(stages):
        if number:
            joined.append(Stage("barrier", barrier["cycles"], 1, barrier.confidence))
        joined.append(stage)
    last = request.stages[-1] if request.stages else ""
    row = request.table.rows.get(f"instruction.{last}")
    return request.cost(joined, latency=row["start"] if row else 0)


def tile_tile(request: Request) -> Cost:
    """Two tiles: a tile narrower than a repeat takes a masked repeat for each row."""
    tile = request.domain
    data = max(request.shape.tiles(request.shape.ins), key=lambda t: t.bits)
    # Of a comparison the data are processed, not the mask that it writes.
    whole = data if data.rows * data.cols >= tile.rows * tile.cols else tile
    return chain(request, [_binary_stage(request, name, whole) for name in request.stages])


def _binary_stage(request: Request, name: str, tile: TileShape) -> Stage:
    row = request.instruction(name, tile)
    slope = slope_of(row, tile)
    masked = min(request.table["repeat.masked"]["cycles"], slope * tile.rows)
    counted = request.table["repeat.counted"]["cycles"]
    lanes, rows, cols = tile.lanes, tile.rows, tile.cols
    by_row = rows * tile.row_repeats
    narrow = masked if tile.bits <= 16 and cols <= lanes else 0
    if tile.type.cols < lanes or not tile.is_contiguous:
        return instruction_stage(name, row, by_row, tile, narrow)
    whole = slope * by_row + max(narrow, counted if by_row > MAX_REPEATS else 0)
    if cols % lanes == 0:
        return instruction_stage(name, row, by_row, tile, whole - slope * by_row)
    repeats = -(-rows * cols // lanes)
    extra = min(counted, whole - slope * repeats)
    return instruction_stage(name, row, repeats, tile, extra)


def flat(request: Request) -> Cost:
    """One tile, or a tile and a scalar: contiguous tiles are one stream."""
    tile = max(request.shape.tiles((*request.shape.ins, *request.shape.outs)), key=_extent)
    return chain(request, [flat_stage(request, name, tile) for name in request.stages])


def _extent(tile: TileShape) -> int:
    return tile.rows * tile.cols * tile.bits


def flat_stage(request: Request, name: str, tile: TileShape) -> Stage:
    """Return the stage of an instruction on a tile that may be flattened."""
    row = request.instruction(name, tile)
    lanes = tile.lanes
    by_row = tile.rows * tile.row_repeats
    if not tile.is_contiguous:
        return instruction_stage(name, row, by_row, tile)
    repeats = tile.rows * tile.cols / lanes
    counted = request.table["repeat.counted"]["cycles"]
    slope = slope_of(row, tile)
    extra = counted if repeats > MAX_REPEATS else 0
    if tile.cols > lanes and tile.cols % lanes:
        extra = max(extra, min(counted, slope * (by_row - repeats)))
    return instruction_stage(name, row, repeats, tile, extra)


def by_rows(request: Request) -> Cost:
    """Every row has repeats of its own."""
    return chain(request, _row_by_row(request, request.domain, request.stages))


def _row_by_row(request: Request, tile: TileShape, names: Sequence[str]) -> list[Stage]:
    repeats = tile.rows * tile.row_repeats
    rows = ((name, request.instruction(name, tile)) for name in names)
    return [instruction_stage(name, row, repeats, tile) for name, row in rows]


def row_broadcast(request: Request) -> Cost:
    """A value for each row: spread over blocks of 32 bytes, then combined row by row."""
    tile = request.domain
    spread = request.table["instruction.vbrcb"]
    first = instruction_stage("vbrcb", spread, -(-tile.rows // 8), tile)
    return chain(request, [first, *_row_by_row(request, tile, request.stages)])


def rows(request: Request) -> Cost:
    """Reductions along rows, and what reads a value for each row: cycles for each row that grow
    with its repeats."""
    tile = max(request.shape.tiles((*request.shape.ins, *request.shape.outs)), key=_extent)
    row = request.table.find(f"rows.{request.stages[0]}")
    further = max(tile.row_repeats, 1) - 1
    passes = row.get("passes") * request.table["repeat.masked"]["cycles"]
    each = row["per_row"] + row.get("per_repeat") * further
    return _of_rows(request, row, tile, row["start"] + passes * further, each)


def _of_rows(request: Request, row: CostRow, tile: TileShape, start: float, each: float) -> Cost:
    name = f"rows of {max(tile.row_repeats, 1)} repeats"
    stages = [
        Stage("start", start, 1, row.confidence),
        Stage(name, each * tile.rows, tile.rows, row.confidence),
    ]
    return request.cost(stages, latency=start, work=tile.rows * tile.cols)


def gather(request: Request) -> Cost:
    """By an index a row costs as in `rows`; by a mask or a comparison the source has repeats."""
    if not request.selected:
        return rows(request)
    tile = max(request.shape.tiles(request.shape.ins), key=_extent)
    return chain(request, _row_by_row(request, tile, request.selected))


def columns(request: Request) -> Cost:
    """Reductions along columns: row by row into the result."""
    tile = max(request.shape.tiles(request.shape.ins), key=_extent)
    row = request.table.find(f"columns.{request.stages[0]}")
    each = row["per_row"] + row["per_repeat"] * max(tile.row_repeats, 1)
    return _of_rows(request, row, tile, row["start"], each)
