"""The calibration kit: small kernels whose times on a board tell its figures, and a table for them.

Each program does one thing: nothing, move bytes at three mixes of reads and writes, move them in
pieces of one size or rows of one length, multiply, drain an accumulator. The blocks of a launch do
the same work, on neighbouring parts. A row of the table is a launch; its time goes into the column
`us`. The rows come in the order in which they narrow bars most: those of any program, or of those
that the kit is for."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.files import write_file
from ptosim.ground.isa.costs import CostTable, limit_spreads
from ptosim.ground.isa.targets import machine
from ptosim.ground.records import NamedTuple
from ptosim.launch.analysis.calibrate.boards import launched
from ptosim.time.report.launch_times import HBM, L2, LAUNCH
from ptosim.time.report.totals import CostReport

TABLE, SCRIPT = "kit.csv", "launch.py"
COLUMNS = ("program", "chip", "blocks", "args", "start", "meaning", "us", "what", "buffers")
MIB = 1 << 20
WIDTH = 1024
"""Columns of f32 tiles; four rows are 16 KiB, which a transfer needs for its full rate."""
SHARES = (0.25, 1, 4, 16)
"""Bytes of a launch, in sizes of L2."""
NEAR = (0.5, 0.7, 1.4, 2)
"""More of them for kernels that tell how large L2 is: around its size."""
PIECES = (2, 4, 8, 16, 32, 64)  # KiB of a transfer
ROWS = (64, 256, 1024, 4096)  # bytes of a row
APART = (512, 256, 128, 32)
"""What the addresses of rows are a multiple of."""
DEPTHS = (512, 2048, 8192)  # k of products
DRAINS = ((16, 16), (64, 16), (128, 32), (64, 64), (64, 48), (128, 80), (128, 128), (64, 256),
          (128, 192), (128, 256))  # fmt: skip
_SOME = (1, 2, 3, 4, 6, 8, 12, 16)  # blocks of empty kernels, besides half and all cores
WAVES = (2, 4, 8, 16)
"""Blocks of more empty kernels, in times all cores: there the starts of blocks are most of the
time, so that noise in a row leaves no more of them open than of the row."""
SHORT = ((16, 16), (64, 16), (128, 32), (64, 64))
"""Drains that are short beside the head of a task with a cube, a few rounds of each: of one row
noise leaves twice its own share of the head open."""
CUBE = " attributes {pto.kernel_kind = #pto.kernel_kind<cube>}"


class Row(NamedTuple):
    """A launch of the kit: program, blocks, scalars, what L2 holds at the start, which time is
    meant, what it is for, and the bytes of its buffers by argument."""

    program: str
    blocks: int
    args: dict[str, int]
    what: str
    buffers: dict[str, int]
    start: str = "warm"
    meaning: str = "device"


def write_kit(
    folder: str | Path, table: CostTable, programs_: Sequence[CostReport] = ()
) -> tuple[list[str], list[str]]:
    """Write the kit for a chip into a folder; return the names of its files, and of the laws that
    may be off in some programs and that no launch of the kit tells. The launches that tell most of
    the time of these programs come first. Raises UsageError if a table of measured times is already
    there."""
    folder = Path(folder)
    rows = list(kit_rows(table))
    path = folder / TABLE
    if path.exists():
        raise UsageError(f"{path} is there already: its times would be lost; give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    texts = programs()
    used = dict.fromkeys(row.program for row in rows)
    for name in used:
        write_file(folder / name, texts[name])
    write_file(folder / SCRIPT, _SCRIPT)
    untold: list[str] = []
    if programs_:
        rows, untold = _in_order(folder, rows, table, programs_)
    write_file(path, table_text(rows, table.chip))
    return [TABLE, SCRIPT, *used], untold


def _in_order(
    folder: Path, rows: Sequence[Row], table: CostTable, programs_: Sequence[CostReport]
) -> tuple[list[Row], list[str]]:
    """Rows in the order in which they narrow the bars of some programs most: again and again the
    one whose time is most of what may still be off in these; what it tells counts half from then
    on."""
    off: dict[str, float] = {}
    for report in programs_:
        for name, (share, spread) in _told_by(report).items():
            off[name] = off.get(name, 0.0) + share * spread
    loaded: dict[str, Any] = {}
    told = []
    for row in rows:
        program = launched(folder, row.program, row.program, loaded, table)
        report = program.cost(args=row.args, block_num=row.blocks, start=row.start, costs=table)
        told.append({name: share for name, (share, _) in _told_by(report).items()})
    untold = [name for name in off if not any(name in one for one in told)]
    left, found = list(range(len(rows))), []
    while left:
        gains = [sum(off.get(name, 0.0) * share for name, share in told[at].items()) for at in left]
        best = left.pop(max(range(len(left)), key=gains.__getitem__))
        found.append(rows[best])
        for name, share in told[best].items():
            off[name] = off.get(name, 0.0) * (1 - share / 2)
    return found, sorted(untold, key=off.__getitem__, reverse=True)


def _told_by(report: CostReport) -> dict[str, tuple[float, float]]:
    """What the time of a launch is made of, laws of the critical path or L2, HBM and the head: the
    share of each, and how far it may be off."""
    times, spreads = report.times, limit_spreads()
    head = times.head_us / times.device.us if times.device.us else 0.0
    found = {LAUNCH: (head, spreads[LAUNCH])}
    if times.limit in (L2, HBM):
        found[times.limit] = 1 - head, spreads[times.limit]
        return found
    parts = report.error_bar.parts
    total = sum(part.cycles for part in parts) or 1
    for part in parts:
        share, spread = found.get(part.name, (0.0, 0.0))
        found[part.name] = share + (1 - head) * part.cycles / total, max(spread, part.spread)
    return found


def table_text(rows: list[Row], chip: str) -> str:
    """Return the table of launches, without times, as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        args, sizes = (" ".join(f"{k}={v}" for k, v in d.items()) for d in (row.args, row.buffers))
        writer.writerow(
            (row.program, chip, row.blocks, args, row.start, row.meaning, "", row.what, sizes)
        )
    return out.getvalue()


# -- rows ------------------------------------------------------------------------------------------


def kit_rows(table: CostTable) -> Iterator[Row]:
    """Yield the launches for a chip, those first whose figures leave most of a bar open: HBM and
    L2, the head, the cube's paths, then the ways to UB."""
    cube, vector = machine(table.chip).cores
    l2 = int(table["machine.l2"]["mib"]) * MIB
    yield from _memory(vector, l2)
    yield from _heads(vector, l2)
    yield from _products(cube)
    yield from _ways(vector)


def _memory(vector: int, l2: int) -> Iterator[Row]:
    """Kinds of traffic at shares of L2, warm and cold."""
    for kind, arrays in ARRAYS.items():
        shares = SHARES + (NEAR if kind in ("copy", "sum") else ())
        yield from (_elementwise(kind, arrays, vector, share, l2) for share in shares)
    for kind, arrays in ARRAYS.items():
        for share in (0.5, 1):
            yield _elementwise(kind, arrays, vector, share, l2)._replace(start="cold")


def _heads(vector: int, l2: int) -> Iterator[Row]:
    """What a launch takes before its first instruction, by what the time is of."""
    empty = Row("empty.pto", vector, {"rounds": 1}, "an empty kernel", {"x": 1 << 16})
    for meaning in ("device", "back_to_back"):
        for blocks in sorted({*_SOME, vector // 2, vector, *(vector * w for w in WAVES)}):
            yield empty._replace(blocks=blocks, meaning=meaning)
    for share in (0.25, 4):
        yield _elementwise("copy", 2, vector, share, l2)._replace(meaning="back_to_back")
    for blocks in (1, 2, vector // 2, vector, 2 * vector):  # one alone could be off unnoticed
        yield empty._replace(blocks=blocks, meaning="wall")


def _products(cube: int) -> Iterator[Row]:
    """Products below and above L2, and drains of the accumulator alone."""
    word = "hardly more than a launch"
    for meaning in ("device", "back_to_back"):
        for blocks in sorted({*_SOME, cube}):
            yield _drained(16, 16, 1, word)._replace(blocks=blocks, meaning=meaning)
    for (m, n), rounds in product(SHORT, (1, 2, 4)):
        if (m, n, rounds) != (16, 16, 1):
            yield _drained(m, n, rounds, word)
    for rounds in (2, 4):
        yield _drained(16, 16, rounds, word)._replace(blocks=cube)
    for blocks in (1, 2, min(8, cube), cube):
        for depth in (128, *DEPTHS):
            yield _product(blocks, depth, 1, blocks)
    columns = grid(cube)[1]
    yield _product(cube, 4096, 192, 8 * columns, "above L2, row by row")
    yield _product(cube, 4096, 192, columns, "above L2, in columns of blocks")
    for (m, n), rounds in product(DRAINS, (64, 256)):
        yield _drained(m, n, rounds, f"{rounds} drains of {m}x{n}")


def _drained(m: int, n: int, rounds: int, what: str) -> Row:
    """Drains of one accumulator on one core."""
    sizes = {"x": 1 << 17, "y": 1 << 17, "out": m * n * 4}
    return Row(f"drain_{m}x{n}.pto", 1, {"rounds": rounds}, what, sizes)


def _ways(vector: int) -> Iterator[Row]:
    """Pieces of many sizes, and rows at many strides, on the way to UB."""
    for kib in PIECES:
        for blocks in (1, vector) if kib in (2, 16, 64) else (1,):
            rounds = 1024 // kib
            size = rounds * 2 * kib * 1024 * blocks
            yield Row(f"copy_{kib}k.pto", blocks, {"rounds": rounds}, f"pieces of {kib} KiB",
                      {"x": size, "y": size})  # fmt: skip
        rounds = 4096 // kib
        yield Row(f"fill_{kib}k.pto", 1, {"rounds": rounds}, f"stores of {kib} KiB",
                  {"x": rounds * 2 * kib * 1024})  # fmt: skip
    for length in ROWS:
        for aligned in (*APART, 0):
            whole = -(-length // APART[0]) * APART[0]
            stride = (whole + aligned if aligned else length) // 4
            word = f"on {aligned} bytes" if aligned else "one after the other"
            yield Row(f"rows_{length}.pto", 1, {"rounds": 64, "stride": stride},
                      f"rows of {length} bytes {word}",
                      {"x": 64 * (16384 // length) * stride * 4})  # fmt: skip


def _elementwise(kind: str, arrays: int, blocks: int, share: float, l2: int) -> Row:
    each = 2 * 4 * WIDTH * 4  # bytes of a round: two tiles
    rounds = max(round(share * l2 / (arrays * blocks * each)), 1)
    names: Sequence[str] = ("x", "y", "z")[:arrays] if kind != "sum" else ("x", "y")
    size = rounds * each * blocks
    sizes: dict[str, int] = dict.fromkeys(names, size)
    if kind == "sum":
        sizes["y"] = 4 * WIDTH * 4 * blocks
    return Row(f"{kind}.pto", blocks, {"rounds": rounds}, f"{kind} of {share:g} x L2", sizes)


def _product(blocks: int, depth: int, each: int, wide: int, word: str = "") -> Row:
    """Tiles of 128 x 256 in `wide` columns, `each` of them a block."""
    total = each * blocks
    wide = wide if total % wide == 0 else total
    rows, columns = grid(total) if each > 1 else grid(blocks)
    if each > 1:
        columns = max(c for c in range(1, total + 1) if total % c == 0 and c * c <= total)
        rows = total // columns
    args = {"each": each, "rows": rows, "columns": columns, "k": depth}
    args["wide"] = columns if "row by row" in word or each == 1 else _part(columns)
    sizes = {"x": rows * 128 * depth * 2, "y": columns * 256 * depth * 2,
             "out": rows * 128 * columns * 256 * 4}  # fmt: skip
    text = f"product {rows * 128} x {depth} x {columns * 256}"
    return Row("product.pto", blocks, args, f"{text} {word}".rstrip(), sizes)


def _part(columns: int) -> int:
    """Columns of tiles that are gone through together: about eight."""
    return min((c for c in range(1, columns + 1) if columns % c == 0), key=lambda c: abs(c - 8))


def grid(count: int) -> tuple[int, int]:
    """Return the rows and columns that so many tiles are arranged in, as square as can be."""
    rows = max(r for r in range(1, count + 1) if count % r == 0 and r * r <= count)
    return rows, count // rows


# -- programs --------------------------------------------------------------------------------------


def programs() -> dict[str, str]:
    """Return the text of every program by file name."""
    found = {f"{kind}.pto": _moving(kind, 4, WIDTH) for kind in ARRAYS}
    found["empty.pto"] = _function("empty", "%x: !pto.ptr<f32>, %rounds: index", [])
    found |= {f"copy_{kib}k.pto": _moving("copy", kib * 1024 // 2048, 512) for kib in PIECES}
    found |= {f"fill_{kib}k.pto": _moving("fill", kib * 1024 // 2048, 512) for kib in PIECES}
    found |= {f"rows_{length}.pto": _rows(length) for length in ROWS}
    found |= {f"drain_{m}x{n}.pto": _drain(m, n) for m, n in DRAINS}
    found["product.pto"] = _PRODUCT
    return found


ARRAYS = {"copy": 2, "scale": 1, "add": 3, "sum": 1}
"""Arrays that a kernel goes through."""
_WORK = {
    "scale": "pto.tmuls ins(%x{i}, %factor : {t}, f32) outs(%x{i} : {t})",
    "add": "pto.tadd ins(%x{i}, %y{i} : {t}, {t}) outs(%z{i} : {t})",
    "sum": "pto.tadd ins(%sum, %x{i} : {t}, {t}) outs(%sum : {t})",
}
"""What it does with each of the two tiles of a round."""
_READS = {"copy": "x", "scale": "x", "add": "xy", "sum": "x", "fill": ""}
_WRITES = {"copy": ("x", "y"), "scale": ("x", "x"), "add": ("z", "z"), "fill": ("x", "x")}
"""What is loaded, by array; which tile is stored, and where."""


def _function(name: str, args: str, body: list[str], kind: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body)
    return f"module {{\n  func.func @{name}({args}){kind} {{\n{lines}    return\n  }}\n}}\n"


_BLOCK = [
    "%c0 = arith.constant 0 : index",
    "%c1 = arith.constant 1 : index",
    "%c2 = arith.constant 2 : index",
    "%b64 = pto.get_block_idx",
    "%n64 = pto.get_block_num",
    "%b = arith.index_cast %b64 : i64 to index",
    "%n = arith.index_cast %n64 : i64 to index",
]


def _moving(kind: str, rows: int, cols: int) -> str:
    """Two tiles a round, so that the next is on its way while one is worked on."""
    tile, view = f"!pto.tile_buf<vec, {rows}x{cols}xf32>", f"!pto.tensor_view<?x{cols}xf32>"
    part = f"!pto.partition_tensor_view<{rows}x{cols}xf32>"
    arrays = sorted({*_READS[kind], *(_WRITES.get(kind, ("y", "y"))[1])})
    tiles = sorted({*_READS[kind], *_WRITES.get(kind, ("x", "x"))[0]})
    body = [
        *_BLOCK,
        f"%tall = arith.constant {rows} : index",
        f"%width = arith.constant {cols} : index",
        "%tiles = arith.muli %rounds, %c2 : index",
        "%own = arith.muli %tiles, %tall : index",
        "%rows = arith.muli %own, %n : index",
        "%first = arith.muli %b, %own : index",
        *(
            f"%v{a} = pto.make_tensor_view %{a}, shape = [%rows, %width], "
            f"strides = [%width, %c1] : {view}"
            for a in arrays
        ),
        *(f"%{a}{i} = pto.alloc_tile : {tile}" for a in tiles for i in (0, 1)),
    ]
    if kind == "scale":
        body.append("%factor = arith.constant 2.0 : f32")
    zeros = {"sum": ("sum",), "fill": ("x0", "x1")}.get(kind, ())
    if kind == "sum":
        body.append(f"%sum = pto.alloc_tile : {tile}")
    if zeros:
        body.append("%zero = arith.constant 0.0 : f32")
    body += [f"pto.texpands ins(%zero : f32) outs(%{name} : {tile})" for name in zeros]
    body += ["scf.for %i = %c0 to %tiles step %c2 {", "  %at = arith.muli %i, %tall : index",
             "  %r0 = arith.addi %first, %at : index",
             "  %r1 = arith.addi %r0, %tall : index"]  # fmt: skip
    body += [f"  {line}" for line in _round(kind, rows, cols, tile, view, part)]
    body.append("}")
    if kind == "sum":
        body += ["%to = arith.muli %b, %tall : index",
                 f"%py = pto.partition_view %vy, offsets = [%to, %c0], sizes = [{rows}, {cols}] : "
                 f"{view} -> {part}",
                 f"pto.tstore ins(%sum : {tile}) outs(%py : {part})"]  # fmt: skip
    args = ", ".join(f"%{a}: !pto.ptr<f32>" for a in arrays)
    return _function(kind, f"{args}, %rounds: index", body)


def _round(kind: str, rows: int, cols: int, tile: str, view: str, part: str) -> Iterator[str]:
    def window(name: str, array: str, i: int) -> str:
        return (
            f"%{name}{i} = pto.partition_view %v{array}, offsets = [%r{i}, %c0], "
            f"sizes = [{rows}, {cols}] : {view} -> {part}"
        )

    for i in (0, 1):
        for array in _READS[kind]:
            yield window(f"p{array}", array, i)
            yield f"pto.tload ins(%p{array}{i} : {part}) outs(%{array}{i} : {tile})"
    for i in (0, 1):
        if kind in _WORK:
            yield _WORK[kind].format(i=i, t=tile)
        if kind in _WRITES:
            value, array = _WRITES[kind]
            yield window(f"q{array}", array, i)
            yield f"pto.tstore ins(%{value}{i} : {tile}) outs(%q{array}{i} : {part})"


def _rows(length: int) -> str:
    """16 KiB a load, in rows of so many bytes that are apart."""
    rows, cols = 16384 // length, length // 4
    tile, view = f"!pto.tile_buf<vec, {rows}x{cols}xf32>", f"!pto.tensor_view<?x{cols}xf32>"
    part = f"!pto.partition_tensor_view<{rows}x{cols}xf32>"
    return _function("rows", "%x: !pto.ptr<f32>, %rounds: index, %stride: index", [
        *_BLOCK,
        f"%tall = arith.constant {rows} : index",
        f"%width = arith.constant {cols} : index",
        "%own = arith.muli %rounds, %tall : index",
        "%rows = arith.muli %own, %n : index",
        "%first = arith.muli %b, %own : index",
        "%v = pto.make_tensor_view %x, shape = [%rows, %width], strides = [%stride, %c1] : " + view,
        f"%t = pto.alloc_tile : {tile}",
        "scf.for %i = %c0 to %rounds step %c1 {",
        "  %at = arith.muli %i, %tall : index",
        "  %r = arith.addi %first, %at : index",
        f"  %p = pto.partition_view %v, offsets = [%r, %c0], sizes = [{rows}, {cols}] : "
        f"{view} -> {part}",
        f"  pto.tload ins(%p : {part}) outs(%t : {tile})",
        "}",
    ])  # fmt: skip


_TILES = """!am = !pto.tile_buf<mat, {m}x{k}xf16, blayout=col_major, slayout=row_major>
!bm = !pto.tile_buf<mat, {k}x{n}xf16, blayout=col_major, slayout=row_major>
!left = !pto.tile_buf<left, {m}x{k}xf16, blayout=col_major, slayout=row_major>
!right = !pto.tile_buf<right, {k}x{n}xf16, slayout=col_major>
!acc = !pto.tile_buf<acc, {m}x{n}xf32, blayout=col_major, slayout=row_major, fractal=1024>
"""
_POINTERS = "%x: !pto.ptr<f16>, %y: !pto.ptr<f16>, %out: !pto.ptr<f32>"


def _windows(rows: str, deep: str, cols: str) -> list[str]:
    return [
        f"%vx = pto.make_tensor_view %x, shape = [{rows}, {deep}], strides = [{deep}, %c1] : "
        "!pto.tensor_view<?x?xf16>",
        f"%vy = pto.make_tensor_view %y, shape = [{deep}, {cols}], strides = [{cols}, %c1] : "
        "!pto.tensor_view<?x?xf16>",
        f"%vo = pto.make_tensor_view %out, shape = [{rows}, {cols}], strides = [{cols}, %c1] : "
        "!pto.tensor_view<?x?xf32>",
        *(
            f"%{name}{i} = pto.alloc_tile : !{name}"
            for name in ("am", "bm", "left", "right")
            for i in (0, 1)
        ),
        "%acc = pto.alloc_tile : !acc",
    ]


def _loads(m: int, k: int, n: int, row: str, deep: str, col: str, i: int = 0) -> list[str]:
    pa, pb = f"!pto.partition_tensor_view<{m}x{k}xf16>", f"!pto.partition_tensor_view<{k}x{n}xf16>"
    return [
        f"%pa{i} = pto.partition_view %vx, offsets = [{row}, {deep}], sizes = [{m}, {k}] : "
        f"!pto.tensor_view<?x?xf16> -> {pa}",
        f"%pb{i} = pto.partition_view %vy, offsets = [{deep}, {col}], sizes = [{k}, {n}] : "
        f"!pto.tensor_view<?x?xf16> -> {pb}",
        f"pto.tload ins(%pa{i} : {pa}) outs(%am{i} : !am)",
        f"pto.tload ins(%pb{i} : {pb}) outs(%bm{i} : !bm)",
    ]


def _extracts(i: int) -> list[str]:
    return [
        f"pto.tmov ins(%am{i} : !am) outs(%left{i} : !left)",
        f"pto.tmov ins(%bm{i} : !bm) outs(%right{i} : !right)",
    ]


def _stores(m: int, n: int, row: str, col: str) -> list[str]:
    part = f"!pto.partition_tensor_view<{m}x{n}xf32>"
    return [
        f"%po = pto.partition_view %vo, offsets = [{row}, {col}], sizes = [{m}, {n}] : "
        f"!pto.tensor_view<?x?xf32> -> {part}",
        f"pto.tstore ins(%acc : !acc) outs(%po : {part})",
    ]


def _drain(m: int, n: int) -> str:
    """One product, whose accumulator is stored again and again."""
    body = [
        *_BLOCK, *(f"%c{v} = arith.constant {v} : index" for v in sorted({m, n, 64})),
        *_windows(f"%c{m}", "%c64", f"%c{n}"),
        *_loads(m, 64, n, "%c0", "%c0", "%c0"),
        *_extracts(0),
        "pto.tmatmul ins(%left0, %right0 : !left, !right) outs(%acc : !acc)",
        "scf.for %i = %c0 to %rounds step %c1 {",
        *(f"  {line}" for line in _stores(m, n, "%c0", "%c0")),
        "}",
    ]  # fmt: skip
    types = _TILES.format(m=m, k=64, n=n)
    return types + _function("drain", f"{_POINTERS}, %rounds: index", body, CUBE)


_PRODUCT = _TILES.format(m=128, k=64, n=256) + _function(
    "product",
    f"{_POINTERS}, %each: index, %rows: index, %columns: index, %wide: index, %k: index",
    [
        *_BLOCK,
        *(f"%c{v} = arith.constant {v} : index" for v in (64, 128, 256)),
        "%m = arith.muli %rows, %c128 : index",
        "%l = arith.muli %columns, %c256 : index",
        *_windows("%m", "%k", "%l"),
        "%group = arith.muli %rows, %wide : index",
        "scf.for %i = %c0 to %each step %c1 {",
        "  %before = arith.muli %i, %n : index",
        "  %t = arith.addi %before, %b : index",
        "  %g = arith.divui %t, %group : index",
        "  %in = arith.remui %t, %group : index",
        "  %tr = arith.divui %in, %wide : index",
        "  %tc = arith.remui %in, %wide : index",
        "  %left_of = arith.muli %g, %wide : index",
        "  %tile = arith.addi %left_of, %tc : index",
        "  %row = arith.muli %tr, %c128 : index",
        "  %column = arith.muli %tile, %c256 : index",
        "  scf.for %at = %c0 to %k step %c128 {",
        "    %at1 = arith.addi %at, %c64 : index",
        *(f"    {line}" for line in _loads(128, 64, 256, "%row", "%at", "%column")),
        *(f"    {line}" for line in _loads(128, 64, 256, "%row", "%at1", "%column", 1)),
        *(f"    {line}" for line in _extracts(0)),
        "    %begins = arith.cmpi eq, %at, %c0 : index",
        "    scf.if %begins {",
        "      pto.tmatmul ins(%left0, %right0 : !left, !right) outs(%acc : !acc)",
        "    } else {",
        "      pto.tmatmul.acc ins(%acc, %left0, %right0 : !acc, !left, !right) outs(%acc : !acc)",
        "    }",
        *(f"    {line}" for line in _extracts(1)),
        "    pto.tmatmul.acc ins(%acc, %left1, %right1 : !acc, !left, !right) outs(%acc : !acc)",
        "  }",
        *(f"  {line}" for line in _stores(128, 256, "%row", "%column")),
        "}",
    ],
    CUBE,
)

_SCRIPT = '''"""Fills the column `us` of kit.csv: launches every row that has no time yet.

    python launch.py COMMAND…

COMMAND launches one kernel on the board: it is called as

    COMMAND… PROGRAM.pto BLOCKS MEANING START BUFFERS ARGS

(BUFFERS as `x=BYTES y=BYTES`, ARGS as `name=VALUE …`, each one word) and prints microseconds as
its last word. MEANING: `device` is the Task Duration of msprof, `back_to_back` the time of many
launches in a row by their number, `wall` one call with the host. START: `warm` after launches of
the same data, `cold` on buffers that no launch before has touched."""

import csv
import subprocess
import sys
from pathlib import Path

path = Path(__file__).with_name("kit.csv")
if len(sys.argv) < 2:
    sys.exit(__doc__)
with path.open(newline="") as file:
    rows = list(csv.DictReader(file))
for row in rows:
    if row["us"].strip():
        continue
    words = (str(path.with_name(row["program"])), row["blocks"], row["meaning"], row["start"],
             row["buffers"], row["args"])
    done = subprocess.run([*sys.argv[1:], *words], capture_output=True, text=True)
    told = done.stdout.split()
    if done.returncode or not told:
        print(f"no time of {row['program']}: {done.stderr.strip()[-200:]}", file=sys.stderr)
        continue
    row["us"] = told[-1]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
'''
