"""Sorting: a stream of items of fixed size on both targets."""

from __future__ import annotations

from ptosim.time.laws.cost import Cost, Stage
from ptosim.time.laws.functions import Body, Function, Nest, frame_stage, loop_stages
from ptosim.time.laws.request import Request
from ptosim.time.laws.shapes import TileShape


def items(request: Request) -> Cost:
    """Start-up, and cycles for each item."""
    sources = request.shape.tiles(request.shape.ins)
    tile = request.source
    count = max(-(-_items(request, sources) // request.entry.options["item"]), 1)
    name = request.stages[0]
    row = request.instruction(name, tile)
    if request.shape.target == "a2a3":
        stage = Stage(name, row["start"] + row["slope"] * count, count, row.confidence)
        return request.cost([stage], latency=row["start"])
    timing = Function(request.table)
    body = Body(len(sources), 1, ((name, row),), tile.bits > 16)
    return request.cost([frame_stage(timing), *loop_stages(timing, body, Nest(count, 1, False))])


def _items(request: Request, sources: list[TileShape]) -> int:
    """Return what is sorted: the values of the first operand, or the records of all lists."""
    record = request.entry.options.get("record")
    if record is None:
        return sources[0].rows * sources[0].cols
    return sum(t.bytes for t in sources if t.bits == sources[0].bits) // record
