"""The stage table of TQUANT for both targets, over eight shapes."""

from __future__ import annotations

from ptosim.ground.isa.costs import cost_table
from ptosim.time.laws.cost import Cost
from ptosim.time.laws.estimate import estimate
from tests.accuracy.points import make, tile

SHAPES = ((16, 64), (64, 64), (64, 128), (128, 128), (16, 512), (256, 32), (100, 80), (1, 1024))


def int8(target: str, rows: int, cols: int, *, offset: bool = False) -> Cost:
    """Return what an INT8 TQUANT costs, symmetric or with an offset."""
    shape = (rows, cols, rows, cols)
    column = (rows, 1, rows, 1)
    ins = {"src": tile("f32", *shape), "fp": tile("f32", *column)}
    if offset:
        ins["offset"] = tile("f32", *column)
    outs = {"dst": tile("ui8" if offset else "i8", *shape)}
    return estimate(make(target, "tquant", ins, outs), cost_table(target))


def mx(dtype: str, result: str, rows: int, cols: int, algorithm: str) -> Cost:
    """Return what a microscaling TQUANT costs on A5."""
    shape = (rows, cols, rows, cols)
    groups = (1, rows * cols // 32, 1, rows * cols // 32)
    outs = {"dst": tile(result, *shape), "exp": tile("ui8", *groups)}
    attrs = {"mx_alg": algorithm}
    return estimate(
        make("a5", "tquant", {"src": tile(dtype, *shape)}, outs, **attrs), cost_table("a5")
    )


def markdown() -> str:
    """Return the tables in Markdown; every figure is derived."""
    parts = []
    for title, make_cost in (
        ("A2/A3, INT8_SYM", lambda r, c: int8("a2a3", r, c)),
        ("A2/A3, INT8_ASYM", lambda r, c: int8("a2a3", r, c, offset=True)),
        ("A5, INT8_SYM", lambda r, c: int8("a5", r, c)),
        ("A5, MXFP8 from f32 (OCP)", lambda r, c: mx("f32", "f8E4M3FN", r, c, "OcpMxFp8E4M3")),
    ):
        costs = {
            shape: make_cost(*shape) for shape in SHAPES if shape[1] % 32 == 0 or "MX" not in title
        }
        parts.append(_table(title, costs))
    return "\n\n".join(parts)


def _table(title: str, costs: dict[tuple[int, int], Cost]) -> str:
    first = next(iter(costs.values()))
    names = [s.name for s in first.stages]
    lines = [
        f"| {title} | " + " | ".join(f"{r}x{c}" for r, c in costs) + " |",
        "|---|" + "---:|" * len(costs),
    ]
    for name in dict.fromkeys(names):
        cells = [
            f"{sum(s.cycles for s in cost.stages if s.name == name):,.0f}"
            for cost in costs.values()
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    totals = " | ".join(f"**{cost.cycles:,}**" for cost in costs.values())
    lines.append(f"| cycles | {totals} |")
    return "\n".join(lines)
