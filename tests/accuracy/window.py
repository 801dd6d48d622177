"""`python -m tests.accuracy.window [--families]`: the two models of vector regions, in order and out of order,
against the published vector functions, and against the profiled operations of A5 as `expand` writes them."""

from __future__ import annotations

import sys
from collections import defaultdict
from statistics import mean, median

import ptosim
from ptosim.ground.errors import PtosimError
from ptosim.ground.isa.costs import CostTable, cost_table
from ptosim.ground.source import Source
from ptosim.ops.lower.program import expand
from ptosim.time.laws.region import region_cost
from ptosim.time.laws.shapes import TileShape
from tests.accuracy import vector_functions
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
    found = [region_cost(cost.region, table).cycles for table in both(cost_table("a5"))]
    return found[0] / point.published - 1, found[1] / point.published - 1


def both(table: CostTable) -> tuple[CostTable, CostTable]:
    """Return the figures switched to in order, and to out of order."""
    return table.changed("window.switch.value", 0), table.changed("window.switch.value", 1)


PAIR = tuple[float, float]


def functions() -> dict[str, list[PAIR]]:
    """Return the errors in order and out of order of the published vector functions, by kind: with the
    figures of that model, and with ours."""
    found: dict[str, list[PAIR]] = defaultdict(list)
    for what, table in (
        ("its figures", vector_functions.own_figures()),
        ("ours", cost_table("a5")),
    ):
        tables = both(table)
        for loop in vector_functions.loops():
            pair = (loop.error(tables[0]), loop.error(tables[1]))
            kind = "rows" if loop.rows > 1 else "one loop"
            for name in (f"{what}, {kind}", f"{what}, all", f"{what}: {loop.name}"):
                found[name].append(pair)
    return found


def operations() -> tuple[dict[str, list[PAIR]], int]:
    """Return the errors of the profiled operations, by family, of those whose expansion has the
    library's structure, and of all; and how many are not written as one region."""
    found: dict[str, list[PAIR]] = defaultdict(list)
    left = 0
    for point in points():
        if point.target != "a5":
            continue
        pair = errors(point)
        if pair is None:
            left += 1
            continue
        rows = next(a.rows for a in point.shape.args.values() if isinstance(a, TileShape))
        where = (
            "another structure" if is_other(point) else "one row" if rows == 1 else "several rows"
        )
        for name in (f": {point.family}", "all", where):
            found[name].append(pair)
    return found, left


def is_other(point: Point) -> bool:
    """True for operations that the library computes by a routine or in loops that `expand` does not
    write: precise reciprocals, conversions to 16 bits and between 16-bit formats."""
    return "precise" in point.family or point.family in (
        "TCVT bf16 to fp16", "TCVT fp16 to hif8", "TCVT fp32 to bf16", "TCVT fp32 to fp16"
    )  # fmt: skip


def lines(found: dict[str, list[PAIR]], *, by_family: bool) -> list[str]:
    """Return a line for each group: mean, median and worst error of both models."""
    made = []
    for name, pairs in sorted(found.items()):
        if ": " in name and not by_family:
            continue
        figures = [(mean(x), median(x), max(x)) for x in
                   ([abs(p[at]) for p in pairs] for at in (0, 1))]  # fmt: skip
        text = "   ".join(" ".join(f"{f:7.1%}" for f in figure) for figure in figures)
        made.append(f"{name.removeprefix(': '):40}{len(pairs):6}   {text}")
    return made


def main() -> None:
    """Print the errors."""
    by_family = "--families" in sys.argv
    head = "points   in order: mean, median, worst   out of order"
    print(f"{'published vector functions':40}{head}")
    print("\n".join(lines(functions(), by_family=by_family)))
    found, left = operations()
    print(f"{'profiled operations as instructions':40}{head}")
    print("\n".join(lines(found, by_family=by_family)))
    print(f"{left} points are not written as one region")


if __name__ == "__main__":
    main()
