"""`python -m tests.accuracy.window`: the profiled operations of A5, written as vector instructions by
`expand`, in order and out of order against the published cycles."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean, median

import ptosim
from ptosim.expand.program import expand
from ptosim.ground.errors import PtosimError
from ptosim.ground.isa.costs import cost_table
from ptosim.ground.source import Source
from ptosim.timing.laws.shapes import TileShape
from ptosim.timing.laws.window import out_of_order
from tests.accuracy.points import Point, points

SCALAR_OPERATIONS = ("tmins", "tdivs")


def program(point: Point) -> str:
    """Return a function of the one operation."""
    tiles = {n: a for n, a in point.shape.args.items() if isinstance(a, TileShape) and n != "tmp"}
    lines = [f"%{name} = pto.alloc_tile : {tile.type}" for name, tile in tiles.items()]
    types = {name: str(tile.type) for name, tile in tiles.items()}
    ins = [name for name in tiles if name not in point.shape.outs]
    if point.shape.mnemonic in SCALAR_OPERATIONS:
        types["scalar"] = tiles[ins[0]].type.dtype.name
        lines.append(f"%scalar = arith.constant 2.0 : {types['scalar']}")
        ins = [*ins, "scalar"]
    (out,) = point.shape.outs
    given = ", ".join(f"%{name}" for name in ins)
    taken = ", ".join(types[name] for name in ins)
    lines.append(f"pto.{point.shape.mnemonic} ins({given} : {taken}) outs(%{out} : {types[out]})")
    return (
        'module attributes {pto.target_arch = "a5"} {\n  func.func @k() {\n    '
        + "\n    ".join([*lines, "return"])
        + "\n  }\n}\n"
    )


def errors(point: Point) -> tuple[float, float] | None:
    """Return the relative errors in order and out of order; None for an operation that is not
    written as one region."""
    try:
        report = ptosim.load(expand(Source("point.pto", program(point))).text).cost()
    except PtosimError:
        return None
    regions = [step.cost for step, _, _ in report.executed if step.cost.region is not None]
    if len(regions) != 1:
        return None
    (cost,) = regions
    window = out_of_order(cost.region.steps, cost_table("a5"))
    return cost.cycles / point.published - 1, window.cycles / point.published - 1


def main() -> None:
    """Print the errors of each family and of all, of operations of one contiguous row apart."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    left = 0
    for point in points():
        if point.target != "a5":
            continue
        pair = errors(point)
        if pair is None:
            left += 1
            continue
        rows = next(a.rows for a in point.shape.args.values() if isinstance(a, TileShape))
        for name in (point.family, "all", "one row" if rows == 1 else "several rows"):
            found[name].append(pair)
    print(f"{'':32}points   in order: mean, median, worst   out of order")
    for name, pairs in sorted(found.items()):
        figures = [(mean(x), median(x), max(x)) for x in
                   ([abs(p[at]) for p in pairs] for at in (0, 1))]  # fmt: skip
        text = "   ".join(" ".join(f"{f:7.1%}" for f in figure) for figure in figures)
        print(f"{name:32}{len(pairs):6}   {text}")
    print(f"{left} points are not written as one region")


if __name__ == "__main__":
    main()
