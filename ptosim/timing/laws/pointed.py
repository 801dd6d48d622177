"""Transfers and products of the micro level: sizes are operands, memories those of the pointers.

Bytes over the path's bandwidth and a minimum for each burst, as for tiles; a product is as many
blocks as its operands fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from ptosim.timing.cost import Cost, Movement, Stage
from ptosim.timing.laws.cube import product_stages
from ptosim.timing.laws.request import Request
from ptosim.timing.laws.transfer import transfer_cost
from ptosim.timing.shapes import PointerShape

Values = Mapping[str, Any]
Extent = tuple[int, int]
"""Bytes of a transfer, and its bursts."""

UNIT = 32
FRACTAL = 512
_BURSTS = ("nburst.count", "count")


def _copied(values: Values, unit: int) -> Extent:
    """Bursts of `length` units, in every round of the loops."""
    count = next((values[n] for n in _BURSTS if n in values), 1)
    rounds = prod(values.get("loop.count", ()) or (1,))
    return values["length"] * unit * count * rounds, count * rounds


def _bytes(values: Values, request: Request) -> Extent:
    return _copied(values, 1)


def _units(values: Values, request: Request) -> Extent:
    return _copied(values, UNIT)


def _pairs_of_units(values: Values, request: Request) -> Extent:
    return _copied(values, 2 * UNIT)


def _fractals(values: Values, request: Request) -> Extent:
    groups, rows = values["dst_group.groups"], values["shape.n"]
    size = groups * rows * values["shape.d"]
    return _width(request, "src").bytes_for(size), groups * rows


def _operand(values: Values, request: Request) -> Extent:
    rows = values["m"] if "m" in values else values["n"]
    return _width(request, "src").bytes_for(rows * values["k"]), 1


def _scales(values: Values, request: Request) -> Extent:
    rows = values["m"] if "m" in values else values["n"]
    return -(-rows // 16) * -(-values["k"] // 64) * UNIT, 1


def _results(values: Values, request: Request) -> Extent:
    rounds = values.get("loop3.count", 1) or 1
    rounds = rounds if isinstance(rounds, int) else prod(rounds)
    size = values["m"] * values["n"] * rounds
    return _width(request, "dst").bytes_for(size), values["m"] * rounds


def _older_fractals(values: Values, request: Request) -> Extent:
    return values["m_step"] * values["k_step"] * FRACTAL, 1


_EXTENTS: dict[str, Callable[[Values, Request], Extent]] = {
    "bytes": _bytes,
    "units": _units,
    "pairs": _pairs_of_units,
    "fractals": _fractals,
    "operand": _operand,
    "scales": _scales,
    "results": _results,
    "older": _older_fractals,
}


def _width(request: Request, name: str) -> Any:
    pointer = request.shape.args[name]
    assert isinstance(pointer, PointerShape)
    return pointer.dtype


def copies(request: Request) -> Cost:
    """A transfer between the memories of two pointers; its option `size` says what its operands
    count."""
    args = request.shape.args
    src, dst = args["src"], args["dst"]
    size, runs = _EXTENTS[request.entry.options["size"]](args, request)
    size, runs = max(size, 0), max(runs, 0)
    path = f"{src.space}_{dst.space}"
    row = request.table.find(f"transfer.{path}", "transfer.vec_vec")
    moved = None
    if "gm" in (src.space, dst.space):
        direction = "read" if src.space == "gm" else "write"
        moved = Movement(direction, size, runs, size // max(runs, 1))
    return transfer_cost(request, row, size, runs, moved)


def mad(request: Request) -> Cost:
    """C = A * B of m x k and k x n elements."""
    args = request.shape.args
    m, n, k = (args[name] for name in "mnk")
    row, stages = product_stages(request, (m, k, n), _width(request, "lhs").bits)
    return request.cost(stages, latency=row["start"], work=2 * m * n * k)


def records(request: Request) -> Cost:
    """Sorting: blocks of 32 records, or of 64 where lists are merged, one after the other."""
    args = request.shape.args
    lists = "counts" in args
    row = request.table[f"instruction.{'vmerge' if lists else 'vsort'}"]
    repeats = (args["config"] & 0xFF) if lists else args["repeat"]
    each = sum(args["counts"] >> 16 * i & 0xFFFF for i in range(4)) / 64 if lists else 1
    stages = [
        Stage("start", row["latency"], 1, row.confidence),
        Stage("records", row["busy"] * max(repeats * each - 1, 0), repeats, row.confidence),
    ]
    return request.cost(stages, work=0)


def scalar_access(request: Request) -> Cost:
    """A load or store of the scalar unit, which waits for nothing here."""
    row = request.table["machine.scalar"]
    return request.cost([Stage("scalar access", row["cycles"], 1, row.confidence)], work=0)
