"""Sorting: a stream of items of fixed size on both targets."""

from __future__ import annotations

from ptosim.timing.cost import Cost, Stage
from ptosim.timing.laws.functions import Body, Function, Nest, frame_stage, loop_stages
from ptosim.timing.laws.request import Request


def items(request: Request) -> Cost:
    """Start-up, and cycles for each item."""
    sources = request.shape.tiles(request.shape.ins)
    tile = max(sources, key=lambda t: t.rows * t.cols)
    elements = sum(t.rows * t.cols for t in sources if t.bits == tile.bits)
    count = max(-(-elements // request.entry.options["item"]), 1)
    name = request.stages[0]
    row = request.instruction(name, tile)
    if request.shape.target == "a2a3":
        stage = Stage(name, row["start"] + row["slope"] * count, count, row.confidence)
        return request.cost([stage], latency=row["start"])
    timing = Function(request.table)
    body = Body(len(sources), 1, ((name, row),), tile.bits > 16)
    return request.cost([frame_stage(timing), *loop_stages(timing, body, Nest(count, 1, False))])
