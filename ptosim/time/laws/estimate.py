"""From the shapes of an operation to its cost."""

from __future__ import annotations

from collections.abc import Callable

from ptosim.ground.ir.types import DType, TileType
from ptosim.ground.isa.costs import CostTable, cost_entries
from ptosim.ground.isa.schema import dtype
from ptosim.ground.records import replace
from ptosim.time.laws import casts as convert
from ptosim.time.laws import functions, repeats, tquant, transfer
from ptosim.time.laws import tquant as quant
from ptosim.time.laws.cost import NO_LAW, NOTHING, Cost, Request, Stage
from ptosim.time.laws.functions import Body, Function, Nest, frame_stage, loop_stages
from ptosim.time.laws.shapes import OpShape, TileShape


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


# -- estimates -------------------------------------------------------------------------------------


# Operations that no instruction computes cost what the tile operations cost that they become.
# Quantised casts are what `ptosim fmt --lower-quant` writes for them in its exact form. The entry
# lists the steps, `operation type -> type`, with `stored` and `real` for the types of both sides.

_WIDTHS = (8, 16, 32)


def sequence(request: Request) -> Cost:
    """The steps one after the other. They are an estimate: what a program's own lowering is cheaper
    by, nobody can know here."""
    tile = request.source
    stages: list[Stage] = []
    for step in _steps(request):
        name, source, target = step
        shape = _shape(name, request.shape.target, tile, source, target)
        cost = estimate(shape, request.table)
        stages.append(Stage(f"{name} {source} to {target}", cost.cycles, 1, "assumed"))
    return request.cost(stages, work=tile.rows * tile.cols * len(stages))


def _steps(request: Request) -> list[tuple[str, DType, DType]]:
    """The steps for the width that is stored; those of narrower types go through f32 and f16."""
    shape = request.shape
    width = _width(request)
    wide = next(size for size in _WIDTHS if width <= size)
    entries = [cost_entries()[n] for n in request.entry.options.get("of", "").split()]
    steps: list[str] = []
    for entry in entries or [request.entry]:
        steps += entry.options["steps"][f"bits{wide}"]
    named = {"stored": dtype(f"i{wide}"), "real": _real(shape)}
    found = []
    for text in steps:
        name, source, _, target = text.split()
        pair = [named[w] if w in named else dtype(w) for w in (source, target)]
        if name != "tcvt" or pair[0] != pair[1]:
            found.append((name, pair[0], pair[1]))
    return found


def _width(request: Request) -> int:
    bits = request.shape.attrs.get("num_bits")
    if isinstance(bits, int):
        return min(max(bits, 1), _WIDTHS[-1])
    sides = [t.dtype for t in request.shape.tiles((*request.shape.ins, *request.shape.outs))]
    return next((d.bits for d in sides if d.kind == "quant"), 8)


def _real(shape: OpShape) -> DType:
    """The float type of the cast: f16 and bf16 are converted first, others cost as f32."""
    sides = [t.dtype for t in shape.tiles((*shape.ins, *shape.outs))]
    found = next((d for d in sides if d.kind == "float"), None)
    return found if found is not None and found.name in ("f16", "bf16") else dtype("f32")


def _shape(name: str, machine: str, tile: TileShape, source: DType, target: DType) -> OpShape:
    def held(kind: DType) -> TileShape:
        made: TileType = replace(tile.type, dtype=kind)
        return TileShape(made, tile.rows, tile.cols)

    args = {"src": held(source), "dst": held(target)}
    return OpShape(name, machine, args, {}, ("src",), ("dst",))


# Laws by the name that `isa/costs/classes.toml` gives them, for each target.

Law = Callable[[Request], Cost]

_BOTH: dict[str, Law] = {
    "items": items,
    "load": transfer.load,
    "store": transfer.store,
    "move": transfer.move,
    "fifo": transfer.fifo,
    "remote": transfer.remote,
    "product": functions.product,
    "register": functions.register,
    "sync": functions.sync,
    "sequence": sequence,
    "micro_copy": tquant.copy,
    "micro_fractals": tquant.fractals,
    "micro_load": tquant.load,
    "micro_scales": tquant.scales,
    "micro_fill": tquant.fill,
    "micro_fixpipe": tquant.fixpipe,
    "micro_product": tquant.product,
    "micro_sort": tquant.sort,
}

LAWS: dict[str, dict[str, Law]] = {
    "a2a3": {
        **_BOTH,
        "tile_tile": repeats.tile_tile,
        "flat": repeats.flat,
        "scalar": repeats.scalar,
        "by_rows": repeats.by_rows,
        "row_broadcast": functions.row_broadcast,
        "rows": repeats.rows,
        "columns": repeats.columns,
        "gather": repeats.gather,
        "convert": convert.convert_repeats,
        "micro_repeats": tquant.repeats,
        "quant": quant.quant_repeats,
    },
    "a5": {
        **_BOTH,
        "function": functions.function,
        "row_function": functions.row_function,
        "row_reduce": functions.row_reduce,
        "col_reduce": functions.col_reduce,
        "gather": functions.gather,
        "select": functions.select,
        "convert": convert.convert_function,
        "quant": quant.quant_function,
    },
}


def estimate(shape: OpShape, table: CostTable) -> Cost:
    """Return what an operation costs; `NO_LAW` if nothing tells it."""
    entry = cost_entries().get(shape.mnemonic)
    if entry is None:
        return NO_LAW
    tiles = shape.tiles((*shape.ins, *shape.outs))
    if tiles and all(t.rows * t.cols == 0 for t in tiles):
        return NOTHING
    law = LAWS[table.target][entry.class_.laws[table.target]]
    return law(Request(shape, table, entry))
