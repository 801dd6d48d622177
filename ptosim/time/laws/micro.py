"""Instructions of the micro level outside of vector regions: copies by bursts and loops, loads of
L0, the cube, the fixpipe, sorting. They follow the laws of the tile operations that are made of
them; their sizes are numbers of the instruction instead of shapes of tiles."""

from __future__ import annotations

from math import prod

from ptosim.ground.diagnostics.model import finding
from ptosim.ground.errors import UnsupportedError
from ptosim.ground.ir.types import REGISTER_BYTES
from ptosim.ground.isa.costs import CostRow
from ptosim.time.laws.cost import Cost, Movement, Stage
from ptosim.time.laws.cube import blocks
from ptosim.time.laws.request import Request
from ptosim.time.laws.shapes import PointerShape
from ptosim.time.laws.transfer import cut_rows


def copy(request: Request) -> Cost:
    """Bursts of bytes, or of units, through as many loops as there are."""
    args = request.shape.args
    bursts = args.get("nburst.count", args.get("count", 1)) * prod(args.get("loop.count", ()))
    length = args["length"] * request.entry.options.get("unit", 1)
    return _through(request, _path(request), bursts * length, bursts)


def fractals(request: Request) -> Cost:
    """Global memory to L1 as fractals: `n` rows of `d` values, for each group."""
    args = request.shape.args
    count, depth = (args.get(f"shape.{name}", args.get(name)) for name in "nd")
    rows = count * max(args.get("dst_group.groups", 1), 1)
    size = _pointer(request, "src").dtype.bytes_for(rows * depth)
    return _through(request, _path(request), size, rows)


def load(request: Request) -> Cost:
    """L1 to L0A or L0B."""
    args = request.shape.args
    if args.get("m_step") is not None:
        return _through(request, _path(request), args["m_step"] * args["k_step"] * 512, 1)
    count = args["k"] * args.get("m", args.get("n", 0))
    return _through(request, _path(request), _pointer(request, "src").dtype.bytes_for(count), 1)


def scales(request: Request) -> Cost:
    """Scales of L0A or L0B: a byte for each row or column and 32 values of k."""
    args = request.shape.args
    if args.get("x_step") is not None:
        return _through(request, "mat_scaling", args["x_step"] * args["y_step"] * 32, 1)
    size = args.get("m", args.get("n", 0)) * -(-args["k"] // 32)
    return _through(request, "mat_scaling", size, 1)


def fixpipe(request: Request) -> Cost:
    """An m by n accumulator: the bytes that are written count."""
    args = request.shape.args
    size = _pointer(request, "dst").dtype.bytes_for(args["m"] * args["n"])
    return _through(request, _path(request), size, args["m"], args["n"])


def product(request: Request) -> Cost:
    """m x k by k x n."""
    args = request.shape.args
    if "config" in args:  # three fields of 12 bits
        m, k, n = (args["config"] >> shift & 0xFFF for shift in (0, 12, 24))
    else:
        m, k, n = args["m"], args["k"], args["n"]
    return blocks(request, _pointer(request, "lhs").dtype, m, k, n)


def fill(request: Request) -> Cost:
    """Blocks of 32 bytes in L1 with a word."""
    args = request.shape.args
    return _through(request, "fill_mat", args["repeat_times"] * args["blocks"] * 32, 1)


def sort(request: Request) -> Cost:
    """Repeats of 32 records sorted, or lists of records merged, by blocks of 64."""
    args = request.shape.args
    name = request.stages[0]
    row = request.table[f"instruction.{name}"]
    if "repeat" in args:
        count = args["repeat"]
    else:
        lengths = [
            args["counts"] >> 16 * k & 0xFFFF for k in range(4) if args["config"] >> 8 + k & 1
        ]
        count = (args["config"] & 0xFF) * -(-sum(lengths) // request.entry.options["item"])
    each = row["busy"] / 2  # of two ports that execute one sorts
    return request.cost(
        [
            Stage("start", row["latency"] - each, 1, row.confidence),
            Stage(name, each * count, count, row.confidence),
        ],
        work=0,
    )


def repeats(request: Request) -> Cost:
    """A vector instruction of A2/A3: start and cycles of each repeat; in count mode some more."""
    args, name = request.shape.args, request.stages[0]
    elem = _pointer(request, "dst").dtype
    counts, number, _ = args["masks"] or (0, 0, 0)
    lanes = REGISTER_BYTES // max(elem.bits // 8, 1)
    count = -(-number // lanes) if counts else args["repeat"] & 0xFF
    found = [f"instruction.{name}.int"] if elem.is_integer else []
    row = request.table.find(*found, f"instruction.{name}")
    slope = (row.get("slope16") or row["slope"]) if elem.bits <= 16 else row["slope"]
    counted = request.table["repeat.counted"]["cycles"] if "counted" in request.entry.options else 0
    cycles = row["start"] + slope * count + (counted if counts else 0)
    stages = [Stage(name, cycles, max(count, 1), row.confidence)]
    return request.cost(stages, latency=row["start"], work=count * lanes)


def _pointer(request: Request, name: str) -> PointerShape:
    return request.shape.args[name]


def _path(request: Request) -> str:
    return f"{_pointer(request, 'src').loc}_{_pointer(request, 'dst').loc}"


def _through(request: Request, path: str, size: int, runs: int, cols: int = 0) -> Cost:
    """Latency, and the larger of bytes at the path's bandwidth and bursts; `cols` of an
    accumulator's row."""
    row: CostRow | None = request.table.rows.get(f"transfer.{path}")
    if row is None:
        text = f"there is no path from {' to '.join(path.split('_'))} that an operation could take"
        raise UnsupportedError([finding("PTO8002", text)])
    cut = runs * cut_rows(row, cols)
    by_bytes = size / request.table.bytes_per_cycle(row) + cut
    by_runs = runs * row["per_item"] + cut
    moved = None
    if "gm" in path.split("_"):
        direction = "read" if path.startswith("gm") else "write"
        moved = Movement(direction, size, max(runs, 1), size // max(runs, 1))
    occupied = path.startswith("mat")  # extractions do not overlap
    what = "bursts" if by_runs > by_bytes else "bytes"
    stages = [
        Stage("set-up" if occupied else "latency", row["cycles"], 1, row.confidence),
        Stage(f"{path.replace('_', ' to ')}: {what}", max(by_bytes, by_runs), runs, row.confidence),
    ]
    latency = 0 if occupied else row["cycles"]
    return request.cost(stages, latency=latency, moved=moved, work=0, spread=row.get("spread"))
