"""Operations that no instruction computes: the cost of the tile operations that they become.

Quantised casts are what `ptosim fmt --lower-quant` writes for them in its exact form. The entry
lists the steps, `operation type -> type`, with `stored` and `real` for the types of both sides."""

from __future__ import annotations

from ptosim.ground.ir.types import DType, TileType
from ptosim.ground.isa.costs import cost_entries
from ptosim.ground.isa.dtypes import dtype
from ptosim.ground.records import replace
from ptosim.time.laws.cost import Cost, Stage
from ptosim.time.laws.request import Request
from ptosim.time.laws.shapes import OpShape, TileShape

_WIDTHS = (8, 16, 32)


def sequence(request: Request) -> Cost:
    """The steps one after the other. They are an estimate: what a program's own lowering is cheaper
    by, nobody can know here."""
    from ptosim.time.laws.estimate import estimate

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
