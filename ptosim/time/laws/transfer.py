"""Loads, stores and moves: latency, bandwidth, and a minimum for each burst.

The time of a transfer is latency + the larger of bytes / bandwidth and bursts x cycles of a burst;
the latency of a transfer overlaps with the transfer after it on the same pipe. Rows of a window
that are apart are moved in whole pieces; windows that begin, and rows that are, at no multiple of
512 bytes take longer. What is added to global memory is read there, too: twice the bytes.
"""

from __future__ import annotations

from ptosim.ground.isa.costs import CostRow, lowest_confidence
from ptosim.time.laws.cost import Cost, Movement, Request, Stage
from ptosim.time.laws.functions import BLOCK
from ptosim.time.laws.shapes import ALIGNED, TileShape, ViewShape


def load(request: Request) -> Cost:
    """Global memory to a tile."""
    tile = request.shape.tile("dst") or request.domain
    return _between(request, tile, f"gm_{tile.loc}", "read")


def store(request: Request) -> Cost:
    """A tile to global memory; an accumulator through the fixpipe, which counts the bytes it
    writes."""
    tile = request.shape.tile("src") or request.domain
    return _between(request, tile, f"{tile.loc}_gm", "write")


def _between(request: Request, tile: TileShape, path: str, direction: str) -> Cost:
    """Global memory, by its window, and a tile."""
    if request.entry.options.get("gather"):
        return _gather(request, tile, direction)
    view = ViewShape((tile.rows, tile.cols), (tile.type.cols, 1), tile.dtype)
    return _global(request, path, request.shape.view() or view, direction)


def _global(request: Request, path: str, view: ViewShape, direction: str) -> Cost:
    row = request.table.find(f"transfer.{path}", "transfer.gather")
    runs, length = view.runs()
    adds = request.shape.attrs.get("atomicType") == "atomic_add"
    moved = Movement(direction, view.bytes, runs, length, adds)
    longer, known_from = _longer(request, path, row, view)
    few = few_rows(row, request.shape.tile("dst"))
    if view.apart >= FAR and _becomes_fractals(request.shape.tile("dst")) and row.get("far"):
        longer, few, known_from = row["far"], 1.0, row
    size = round(_in_pieces(row, view) * (1 + adds) * longer * few)
    sure = lowest_confidence((row.confidence, known_from.confidence))
    tile = request.shape.tile("src") if path.startswith("acc") else None
    if tile is None:
        return _transfer(request, row, size, runs, moved, sure=sure)
    cut = cut_rows(row, tile.cols)
    return _transfer(request, row, size, tile.rows, moved, cut=cut, sure=sure)


_OFF = {
    "gm_vec": "transfer.vec_apart", "vec_gm": "transfer.vec_apart",
    "gm_mat": "transfer.vec_apart", "acc_gm": "transfer.acc_apart",
}  # fmt: skip
"""The row that says how much longer rows take that go over the end of a line, by path."""


def _longer(request: Request, path: str, row: CostRow, view: ViewShape) -> tuple[float, CostRow]:
    """Return how many times as long a window takes that is off 512 bytes, and the row that says so.
    Rows that become fractals have fits of their own, by their stride; of all others those matter
    that go over the end of a line, because of their stride or of where the window begins."""
    runs, length = view.runs()
    stride = view.aligned(ALIGNED)
    if runs > 1 and stride < ALIGNED and row.get("off_any"):
        return unaligned(row, stride, length), row
    off = request.table.rows.get(_OFF.get(path, ""))
    aligned = view.aligned(view.begins)
    if off is None or aligned >= min(length, ALIGNED):
        return 1.0, row
    return unaligned(off, aligned, length), off


def _in_pieces(row: CostRow, view: ViewShape) -> int:
    """The bytes of a window with each of its rows rounded up to whole pieces of the DMA."""
    runs, length = view.runs()
    piece = int(row.get("piece")) or 1
    return view.bytes if runs == 1 else runs * -(-length // piece) * piece


LONG = 1024
"""Bytes of a row from which its ends weigh no less."""


def unaligned(row: CostRow, aligned: int, length: int) -> float:
    """Return how many times as long rows of a length take whose addresses are multiples of
    `aligned` bytes, of what rows on 512 bytes take. Between rows of 512 bytes and of 1 KiB it is in
    between."""
    if aligned >= ALIGNED:
        return 1.0
    name = "off_256" if aligned >= 256 else "off_128" if aligned >= 128 else "off_32"
    name = name if aligned >= 32 else "off_any"
    short = row.get(name) or 1.0
    far = row.get(name.replace("off", "long")) or short
    part = min(max(2 * length / LONG - 1, 0.0), 1.0)
    return short + (far - short) * part


FAR = 1 << 16
"""Elements between rows from which a load into fractals moves one row an instruction (catlass)."""


def _becomes_fractals(tile: TileShape | None) -> bool:
    return tile is not None and tile.type.slayout == "row_major"


def few_rows(row: CostRow, tile: TileShape | None) -> float:
    """Return how many times as long a load takes whose rows become blocks of 16 rows, of what its
    bytes take: each row that a block lacks costs a share of a row that is there."""
    if tile is None or not _becomes_fractals(tile) or not 0 < tile.rows < BLOCK:
        return 1.0
    return 1 + row.get("lacking") * (BLOCK - tile.rows) / tile.rows


def _gather(request: Request, tile: TileShape, direction: str) -> Cost:
    row = request.table["transfer.gather"]
    index = request.shape.tile("idx")
    by_row = index is not None and index.cols == 1
    runs = tile.rows if by_row else tile.rows * tile.cols
    moved = Movement(direction, tile.bytes, runs, max(tile.bytes // max(runs, 1), 1))
    return _transfer(request, row, tile.bytes, runs, moved)


def cut_rows(row: CostRow, cols: int) -> float:
    """Return the cycles that the fixpipe takes more for each row, by the odd part of the number of
    its blocks of columns: 48 columns are 3 blocks, 64 are 4, whose odd part is 1."""
    blocks = max(-(-cols // BLOCK), 1)
    return row.get("per_odd") * (blocks // (blocks & -blocks) - 1)


def _transfer(
    request: Request,
    row: CostRow,
    size: int,
    runs: int,
    moved: Movement | None = None,
    cut: float = 0,
    sure: str = "",
) -> Cost:
    by_bytes = size / request.table.bytes_per_cycle(row) + runs * cut
    by_runs = runs * (row["per_item"] + cut)
    name = row.name.removeprefix("transfer.").replace("_", " to ", 1)
    what = "bursts" if by_runs > by_bytes else "bytes"
    stages = [
        Stage("latency", row["cycles"], 1, row.confidence),
        Stage(f"{name}: {what}", max(by_bytes, by_runs), runs, sure or row.confidence),
    ]
    return request.cost(
        stages, latency=row["cycles"], moved=moved, work=0, spread=row.get("spread")
    )


def move(request: Request) -> Cost:
    """Between on-chip memories, by the path; inside UB as a copy."""
    shape = request.shape
    src = shape.tile("src") or request.domain
    dst = shape.tile("dst") or request.domain
    if src.loc == "vec" and dst.loc == "vec" and shape.args.get("tmp") is not None:
        return request.cost([exponent_stage(request, src)], work=0)
    path = f"transfer.{src.loc}_{dst.loc}"
    row = request.table.find(path, "transfer.vec_vec")
    size = _moved_bytes(src, dst)
    if row.name == "transfer.vec_vec":
        return _copy(request, row, src, dst, size)
    occupied = row["cycles"] if src.loc == "mat" else 0
    stages = [
        Stage("set-up" if occupied else "latency", row["cycles"], 1, row.confidence),
        Stage(
            row.name.removeprefix("transfer.").replace("_", " to "),
            size / request.table.bytes_per_cycle(row),
            1,
            row.confidence,
        ),
    ]
    latency = 0 if occupied else row["cycles"]
    return request.cost(stages, latency=latency, work=0, spread=row.get("spread"))


def _moved_bytes(src: TileShape, dst: TileShape) -> int:
    """A window has the size of the smaller tile; the fixpipe counts what it writes."""
    count = min(src.rows * src.cols, dst.rows * dst.cols)
    return (dst if src.loc == "acc" else src).dtype.bytes_for(count)


def _copy(request: Request, row: CostRow, src: TileShape, dst: TileShape, size: int) -> Cost:
    """Runs of 32-byte blocks; a start for each run."""
    contiguous = src.is_contiguous and dst.is_contiguous
    runs = 1 if contiguous else min(src.rows, dst.rows)
    blocks = size / request.table.bytes_per_cycle(row)
    stages = [
        Stage("starts of runs", row["cycles"] * runs, runs, row.confidence),
        Stage("blocks of 32 bytes", max(blocks, runs), runs, row.confidence),
    ]
    return request.cost(stages, work=0)


def exponent_stage(request: Request, src: TileShape) -> Stage:
    """Return the stage of block exponents that go into zigzag order, a gather of pairs of bytes: a
    load, a permutation and a store for each repeat."""
    row = request.table.find("instruction.vperm", "instruction.vtrans")
    repeats = max(-(-src.rows * src.cols // 256), 1)
    each = row.get("busy") or row["slope"]
    frame = request.table.rows.get("function.start")
    start = frame["cycles"] + 30 if frame is not None else row.get("start")
    return Stage("exponents to zigzag", start + each * repeats * 2, repeats, "assumed")


def fifo(request: Request) -> Cost:
    """A push copies into the next slot, a pop on A2/A3 out of it; the rest is bookkeeping."""
    shape = request.shape
    tile = shape.tile("tile", "result")
    word = request.entry.mnemonic
    if (
        tile is None
        or word.startswith("tfree")
        or (word.startswith("tpop") and shape.target == "a5")
    ):
        row = request.table["machine.issue"]
        return request.cost([Stage(word, row["cycles"], 1, row.confidence)], work=0)
    view = ViewShape((tile.rows, tile.cols), (tile.cols, 1), tile.dtype)
    if word.startswith("tpop"):
        return _global(request, f"gm_{tile.loc}", view, "read")
    if shape.target == "a2a3":
        return _global(request, f"{tile.loc}_gm", view, "write")
    row = request.table[f"transfer.{'acc_vec' if tile.loc == 'acc' else 'vec_mat'}"]
    return _transfer(request, row, tile.bytes, 1)


def remote(request: Request) -> Cost:
    """Between chips."""
    view = request.shape.view()
    tiles = request.shape.tiles((*request.shape.ins, *request.shape.outs))
    size = view.bytes if view is not None else max((t.bytes for t in tiles), default=0)
    return _transfer(request, request.table[f"transfer.{request.stages[0]}"], size, 1)
