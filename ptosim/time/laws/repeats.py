"""The vector unit of A2/A3: instructions of repeats of 256 bytes, one after the other.

An instruction takes start + slope x repeats. What follows without a barrier overlaps its start-up,
so the start-up of the last instruction is the operation's latency; a barrier between two stages
pays it again. Repeats follow from how the library splits a tile (pto-isa headers, binary and scalar
operations): one masked instruction with a repeat for each row where a tile is narrower than a
repeat; one stream where the valid region is contiguous, in count mode if its rows end within a
repeat or it is longer than 255 repeats; column by column, or row by row, where it is not
contiguous. Costs need not grow with the size: a tile that fills its repeats is cheaper than one
that does not (published device fits).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from ptosim.ground.ir.types import MAX_REPEATS
from ptosim.ground.isa.costs import CostRow
from ptosim.time.laws.cost import Cost, Request, Stage
from ptosim.time.laws.shapes import TileShape

HALF_LANES = 64
"""Lanes that instructions of half rate process at once, whatever the width of the elements."""


FEW = 4
"""Repeats of a region of wide rows below which each row has an instruction."""


def instruction_stage(
    name: str, row: CostRow, repeats: float, tile: TileShape, extra: float = 0, count: int = 1
) -> Stage:
    """Return the stage of one instruction stream: `count` instructions, one start-up."""
    cycles = row["start"] + slope_of(row, tile) * repeats + extra
    executes = row.name.removeprefix("instruction.").partition(".")[0]
    return Stage(
        name, cycles, count, row.confidence, repeats=max(ceil(repeats), 1), executes=executes
    )


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
    masked = request.table["repeat.masked"]["cycles"]
    lanes, rows, cols = tile.lanes, tile.rows, tile.cols
    if tile.type.cols < lanes and rows <= MAX_REPEATS:
        return instruction_stage(name, row, rows, tile, masked)
    if not tile.is_contiguous:
        repeats, extra, count = strided(request, tile)
        return instruction_stage(name, row, repeats, tile, extra, count)
    repeats = -(-rows * cols // lanes)
    if (cols > lanes and cols % lanes) or repeats > MAX_REPEATS:
        counted = request.table["repeat.counted"]["cycles"]
        return instruction_stage(name, row, repeats, tile, counted)
    rest = rows * cols % lanes != 0
    count = 2 if rest and repeats > 1 else 1
    return instruction_stage(name, row, repeats, tile, masked if rest else 0, count)


def strided(request: Request, tile: TileShape) -> tuple[int, float, int]:
    """Return repeats, cycles beside them, and instructions of a region that is not contiguous: an
    instruction for each row in count mode, or one for each repeat of a row and a masked one for
    what is left over."""
    table = request.table
    whole, rest = divmod(tile.cols, tile.lanes)
    repeats = tile.rows * tile.row_repeats
    pieces = -(-tile.rows // MAX_REPEATS)
    few = tile.rows * whole < FEW and whole > 1
    if few or (tile.rows <= whole and rest):
        return repeats, table["repeat.masked"]["cycles"] * tile.rows, tile.rows
    if tile.rows <= whole:
        return repeats, 0, tile.rows
    masked = table["repeat.masked"]["cycles"] if rest else 0
    return repeats, masked, (whole + bool(rest)) * pieces


def flat(request: Request) -> Cost:
    """One tile: contiguous tiles are one stream."""
    return _flattened(request, scalar=False)


def scalar(request: Request) -> Cost:
    """A tile and a scalar: as one tile, but in count mode where rows end within a repeat."""
    return _flattened(request, scalar=True)


def _flattened(request: Request, *, scalar: bool) -> Cost:
    tile = max(request.shape.tiles((*request.shape.ins, *request.shape.outs)), key=_extent)
    stages = [_flat_stage(request, name, tile, scalar=scalar) for name in request.stages]
    return chain(request, stages)


def _extent(tile: TileShape) -> int:
    return tile.rows * tile.cols * tile.bits


def _flat_stage(request: Request, name: str, tile: TileShape, *, scalar: bool) -> Stage:
    """Return the stage of an instruction on a tile that may be flattened."""
    row = request.instruction(name, tile)
    lanes = tile.lanes
    if not tile.is_contiguous:
        whole, rest = divmod(tile.cols, lanes)
        repeats = tile.rows * tile.row_repeats
        return instruction_stage(name, row, repeats, tile, count=whole + bool(rest))
    repeats = tile.rows * tile.cols / lanes
    partial = scalar and tile.cols > lanes and tile.cols % lanes
    counted = request.table["repeat.counted"]["cycles"]
    extra = counted if partial or repeats > MAX_REPEATS else 0
    return instruction_stage(name, row, repeats, tile, extra)


def by_rows(request: Request) -> Cost:
    """Every row has repeats of its own."""
    return chain(request, row_by_row(request, request.domain, request.stages))


def row_by_row(request: Request, tile: TileShape, names: Sequence[str]) -> list[Stage]:
    """Return the stages of instructions each of which every row has for itself."""
    repeats = tile.rows * tile.row_repeats
    rows = ((name, request.instruction(name, tile)) for name in names)
    return [instruction_stage(name, row, repeats, tile, count=tile.rows) for name, row in rows]


def rows(request: Request) -> Cost:
    """Reductions along rows, and what reads a value for each row.

    A row of several repeats is combined into one first: each repeat more is an instruction that
    waits for the one before. What ends within a repeat is masked. Beyond four repeats the halves
    need a pass more."""
    tile = max(request.shape.tiles((*request.shape.ins, *request.shape.outs)), key=_extent)
    row = request.table.find(f"rows.{request.stages[0]}")
    further, rest = max(tile.row_repeats, 1) - 1, tile.cols % tile.lanes
    start = row["start"] + row.get("per_pass") * further
    passes = further
    if "per_pass" in row.values:
        masks = (rest > 0) + (further > 1 and rest > HALF_LANES)
        start += masks * request.table["repeat.masked"]["cycles"]
        passes += (further > 0 and rest > 0) + (further >= HALVED)
    return _of_rows(request, row, tile, start, row["per_row"] + row.get("per_repeat") * passes)


HALVED = 4
"""Repeats of a row that are combined by halves without a further pass."""


AHEAD = 3
"""Further repeats of a row beyond which a reduction along columns takes no longer to begin."""


def _of_rows(request: Request, row: CostRow, tile: TileShape, start: float, each: float) -> Cost:
    count = max(tile.row_repeats, 1)
    name = f"rows of {count} repeats"
    stages = [
        Stage("start", start, 1, row.confidence),
        Stage(name, max(each * tile.rows, 0), tile.rows, row.confidence, repeats=count * tile.rows),
    ]
    return request.cost(stages, latency=start, work=tile.rows * tile.cols)


def gather(request: Request) -> Cost:
    """By an index a row costs as in `rows`; by a mask or a comparison the source has repeats."""
    if not request.selected:
        return rows(request)
    tile = max(request.shape.tiles(request.shape.ins), key=_extent)
    return chain(request, row_by_row(request, tile, request.selected))


def columns(request: Request) -> Cost:
    """Reductions along columns: row by row into the result, each row waits for the one before.
    Where whole repeats and what is left over are instructions of their own, both wait."""
    tile = max(request.shape.tiles(request.shape.ins), key=_extent)
    row = request.table.find(f"columns.{request.stages[0]}")
    whole, rest = divmod(tile.cols, tile.lanes)
    repeats = max(tile.row_repeats, 1)
    each = row["per_row"] + row["per_repeat"] * repeats
    if row.get("apart") and whole and rest:
        each = 2 * row["per_row"] + row["per_repeat"] * repeats
        return _of_rows(request, row, tile, row["start"] - row["per_row"], each)
    start = row["start"] + row.get("per_pass") * min(repeats - 1, AHEAD)
    return _of_rows(request, row, tile, start, each)
