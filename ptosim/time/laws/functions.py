"""The vector unit of A5: one operation is one function of vector instructions.

A function takes start + load + the chain of its instructions (each hands its result on 3 cycles
early) + store + drain for its first iteration; every further one adds what the busiest resource
needs: two ports that execute, two loads or a load and a store to UB in a cycle, one iteration
dispatched a cycle. A valid region that is contiguous is one loop over repeats; otherwise rows are
an outer loop whose iterations start at least 7 cycles apart, and accesses go strided. An inner loop
of one iteration is unrolled away (pipeline model in pto-isa; the strided access and the row
distance are fitted to its profile).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import ceil

from ptosim.ground.ir.types import BLOCK_BYTES, MAX_REPEATS
from ptosim.ground.isa.costs import CostRow, CostTable, lowest_confidence, vector_units
from ptosim.ground.isa.schema import DType
from ptosim.ground.records import dataclass
from ptosim.time.laws.cost import Cost, Request, Stage
from ptosim.time.laws.repeats import chain, instruction_stage, row_by_row
from ptosim.time.laws.shapes import TileShape

PAIR = 2
"""Repeats that a select of 32-bit elements takes at once."""


@dataclass(frozen=True, slots=True)
class Nest:
    """Iterations of the inner loop, and rows; one row where everything is one loop."""

    inner: float
    rows: int
    strided: bool

    @property
    def total(self) -> int:
        """Iterations in all."""
        return round(self.inner * self.rows)


@dataclass(frozen=True, slots=True)
class Body:
    """One iteration: loads, stores, and the rows of its instructions with their names."""

    loads: int
    stores: int
    instructions: tuple[tuple[str, CostRow], ...]
    wide: bool  # elements wider than 16 bits

    def latency(self, row: CostRow) -> float:
        """Cycles from the start of an instruction to its result; a routine takes its time on a
        port."""
        if "latency" not in row.values:
            return self.busy(row) / 2
        return row["latency"] if self.wide else row.get("latency16", row["latency"])

    def busy(self, row: CostRow) -> float:
        """Cycles that an instruction takes a port."""
        return row["busy"] if self.wide else row.get("busy16", row["busy"])

    @property
    def is_routine(self) -> bool:
        """True if its one instruction is the name of a sequence of them, without a latency of its
        own."""
        return len(self.instructions) == 1 and "latency" not in self.instructions[0][1].values

    @property
    def is_simple(self) -> bool:
        """True if it has one load, and instructions of one cycle."""
        return self.loads <= 1 and all(self.busy(row) <= 1 for _, row in self.instructions)


def nest_of(tiles: Sequence[TileShape], rows: int, cols: int, lanes: int) -> Nest:
    """Return the loops over a region of rows x cols elements; smaller operands (masks) do not
    count."""
    if rows <= 1 or all(t.is_contiguous or t.rows * t.cols < rows * cols for t in tiles):
        return nest_in_line(rows, cols, lanes)
    return nest_by_rows(rows, cols, lanes)


def nest_in_line(rows: int, cols: int, lanes: int) -> Nest:
    """Return the one loop over a region that is one run of memory."""
    return Nest(max(-(-rows * cols // lanes), 1), 1, False)


def nest_by_rows(rows: int, cols: int, lanes: int) -> Nest:
    """Return the loops over rows, each with its own iterations; rows of one iteration are one
    loop."""
    inner = max(-(-cols // lanes), 1)
    if inner == 1:
        return Nest(rows, 1, True)
    return Nest(inner, rows, True)


def _row(row: CostRow) -> str:
    return row.name.rpartition("instruction.")[2]


class Function:
    """The time of one function on one target."""

    def __init__(self, table: CostTable) -> None:
        self.table = table

    def figure(self, name: str, number: str = "cycles") -> float:
        """Return a number of the pipeline."""
        return self.table[f"function.{name}"][number]

    def frame(self, body: Body | None = None) -> float:
        """Cycles of a function beside its loop; `body` as in `edges`. One that loads nothing begins
        to execute at once."""
        frame = self.edges(simple=body is not None and body.is_simple)
        if body is None or body.loads or not body.stores:
            return frame
        return frame - self.figure("load") + self.table["window.loads"]["early"]

    def edges(self, *, simple: bool) -> float:
        """Start, first load, last store, drain; one more to dispatch anything but a load, an
        instruction of one cycle and a store."""
        early = self.figure("forward")
        dispatch = 0 if simple else self.figure("dispatch")
        return (
            self.figure("start") + dispatch + self.figure("load") - early
            + self.figure("store") + self.figure("drain")
        )  # fmt: skip

    def chain(self, body: Body) -> float:
        """Cycles from the first operand to the last result of an iteration."""
        return sum(self.handed_on(body))

    def handed_on(self, body: Body) -> list[float]:
        """Cycles of each instruction until the next one has its result; between some instructions
        that is a cycle earlier."""
        plain, early = self.figure("forward"), self.table["window.forward"]["early"]
        units = [vector_units().get(_row(row), frozenset()) for _, row in body.instructions]
        ahead = [
            early if "early" in one and "late" not in then else plain
            for one, then in itertools.pairwise(units)
        ]
        rows = [row for _, row in body.instructions]
        pairs = zip(rows, [*ahead, plain], strict=False)
        return [max(body.latency(row) - ahead, 0) for row, ahead in pairs]

    def ports(self, body: Body, count: float) -> float:
        """Cycles by which the two ports delay the last of so many iterations."""
        rows = [row for _, row in body.instructions]
        if body.is_routine:
            each = body.busy(rows[0]) / 2
            return each * (count - 1) - rows[0]["overlap"]
        return self.port_cycles(sum(map(body.busy, rows)), len(rows), count)

    def port_cycles(self, busy: float, instructions: float, count: float) -> float:
        """As `ports`, of iterations of so many instructions that are `busy` on ports for so
        long."""
        if instructions == 1:
            return busy * ((count - 1) // 2) + (count - 1) % 2
        several = self.figure("several", "per_item") * instructions * (count - 1)
        return max(busy / 2 * (count - 1), several - self.figure("several", "overlap"))

    def accesses(self, body: Body, nest: Nest) -> float:
        """Cycles by which loads and stores delay the last iteration."""
        return self.access_cycles(body.loads, body.stores, nest)

    def access_cycles(self, loads: float, stores: float, nest: Nest) -> float:
        """As `accesses`, of iterations of so many loads and stores."""
        inner = nest.inner
        per_load = max(ceil(loads / 2), 1)
        mixed = max((loads + stores) / 2, per_load)
        if nest.rows == 1:
            after = max(inner - self.figure("ahead"), 0)
            return (
                per_load * (inner - 1)
                + (mixed - per_load) * after
                + self.figure("loop")
                + (1 if nest.strided else min(loads, 2))
            )
        first, further = (inner - 1) * per_load + 2 * self.figure("loop"), nest.rows - 1
        plain = first + further * max(self.figure("row_gap"), inner + self.figure("row_start"))
        if loads > 1:  # the accesses of a row overlap those of the one before
            first = (loads + stores) / 2 * inner - self.figure("strided", "overlap")
        return max(plain, first + further * self.strided(loads + stores, inner))

    def strided(self, accesses: float, inner: float) -> float:
        """Cycles that the accesses of a row take where rows are apart, so many in an iteration."""
        return self.figure("strided", "per_access") * accesses * inner

    def row_distance(self, body: Body, inner: float) -> float:
        """Cycles from the start of a row to the start of the next."""
        least = max(self.figure("row_gap"), inner + self.figure("row_start"))
        return max(least, self.strided(body.loads + body.stores, inner))

    def loop(self, body: Body, nest: Nest) -> float:
        """Cycles that all iterations but the first add; of few rows of one iteration, which are
        written out, routines do not overlap."""
        if nest.total <= 1:
            return 0
        few = self.figure("unrolled", "count")
        if body.is_routine and nest.strided and nest.rows == 1 and nest.total <= few:
            alone = self.frame(body) + self.chain(body)
            return (nest.total - 1) * alone + nest.total * self.figure("row_start")
        ports = self.ports(body, nest.total) + self.figure("loop")
        return max(ports, self.accesses(body, nest), self._last_row(body, nest))

    def _last_row(self, body: Body, nest: Nest) -> float:
        """Cycles until the last row begins, and that its iterations wait for ports."""
        ports = self.ports(body, nest.inner) + self.figure("loop")
        return (nest.rows - 1) * self.row_distance(body, nest.inner) + ports


def function(request: Request) -> Cost:
    """An operation whose iteration loads its operands, computes and stores."""
    body, tiles, data, lanes = _parts(request)
    return function_cost(request, body, nest_of(tiles, data.rows, data.cols, lanes))


def row_function(request: Request) -> Cost:
    """As `function` where an operand has a value for each row, or for each column: row by row."""
    body, _, data, lanes = _parts(request)
    return function_cost(request, body, nest_by_rows(data.rows, data.cols, lanes))


def gather(request: Request) -> Cost:
    """By an index as other functions; by a mask or a comparison over the source."""
    if not request.selected:
        return function(request)
    tile = request.source
    rows = tuple((n, request.instruction(n, tile)) for n in request.selected)
    nest = nest_of([tile], tile.rows, tile.cols, tile.lanes)
    return function_cost(request, Body(1, 1, rows, tile.bits > 16), nest)


def _parts(request: Request) -> tuple[Body, list[TileShape], TileShape, int]:
    shape = request.shape
    tile = request.domain
    sources = shape.tiles(shape.ins)
    wide = max([tile, *sources], key=lambda t: t.bits)
    data = max([tile, *sources], key=lambda t: t.rows * t.cols)
    body = Body(
        len(sources),
        1,
        tuple((n, request.instruction(n, wide)) for n in request.stages),
        wide.bits > 16,
    )
    covering = [t for t in [tile, *sources] if t is not shape.tile("mask")]
    return body, covering, data, wide.lanes


def function_cost(request: Request, body: Body, nest: Nest) -> Cost:
    """Return the cost of a function of one loop nest."""
    timing = Function(request.table)
    return request.cost([frame_stage(timing, body), *loop_stages(timing, body, nest)])


def frame_stage(timing: Function, body: Body | None = None) -> Stage:
    """Return the stage of what a function takes beside its loop."""
    names = ("start", "dispatch", "load", "store", "drain")
    confidence = lowest_confidence(timing.table[f"function.{n}"].confidence for n in names)
    return Stage("start and drain", timing.frame(body), 1, confidence)


def loop_stages(timing: Function, body: Body, nest: Nest, name: str = "") -> list[Stage]:
    """Return a stage for each instruction of a body: its latency and its share of the loop."""
    loop = timing.loop(body, nest)
    rows = body.instructions
    weight = sum(body.busy(row) for _, row in rows) or 1
    extra = ["function.loop"]
    if nest.rows > 1:
        extra += ["function.strided", "function.row_start"]
    shared = (
        lowest_confidence(timing.table[n].confidence for n in extra)
        if nest.total > 1
        else "documented"
    )
    return [
        Stage(
            f"{name}{instruction}",
            cycles + loop * body.busy(row) / weight,
            nest.total,
            lowest_confidence((row.confidence, shared)),
            repeats=nest.total,
            shared=len(rows) > 1,
            executes=_row(row),
        )
        for (instruction, row), cycles in zip(rows, timing.handed_on(body), strict=True)
    ]


def row_reduce(request: Request) -> Cost:
    """Reductions along rows: repeats are combined, the last instruction crosses the lanes."""
    tile = request.source
    timing = Function(request.table)
    wide = tile.bits > 16
    combine, cross = _combine_and_cross(request, tile)
    inner = max(-(-tile.cols // tile.lanes), 1)
    inside = Body(1, 0, tuple(combine), wide)
    last = Body(0, 1, tuple(cross), wide)
    stages = [frame_stage(timing)]
    if inner > 1:
        each = max(1, timing.figure("several", "per_item") * len(combine))
        stages.append(
            Stage(combine[0][0], timing.chain(inside) + each * (inner - 1) * tile.rows,
                  (inner - 1) * tile.rows, "derived")
        )  # fmt: skip
    distance = timing.row_distance(Body(1, 1, (), wide), 1) if inner > 1 else 1
    busy = last.busy(cross[0][1]) if len(cross) == 1 else timing.ports(last, 2)
    name, row = cross[-1]
    loop = max(busy, distance) * (tile.rows - 1)
    stages.append(Stage(name, timing.chain(last) + loop, tile.rows, row.confidence))
    return request.cost(stages, work=tile.rows * tile.cols)


def _combine_and_cross(
    request: Request, tile: TileShape
) -> tuple[list[tuple[str, CostRow]], list[tuple[str, CostRow]]]:
    """What combines repeats, and what crosses the lanes of the last: one instruction, or a fold for
    every halving."""
    names = list(request.stages)
    fold = request.entry.options.get("fold")
    if fold is None:
        combine, cross = names[:-1], names[-1:]
    else:
        combine, cross = names, fold.split() * (tile.lanes - 1).bit_length()
    found = [[(n, request.instruction(n, tile)) for n in part] for part in (combine, cross)]
    return found[0], found[1]


def col_reduce(request: Request) -> Cost:
    """Reductions along columns: an inner loop over rows for each repeat of a row."""
    tile = request.source
    timing = Function(request.table)
    body = Body(
        1, 0, tuple((n, request.instruction(n, tile)) for n in request.stages), tile.bits > 16
    )
    width = max(-(-tile.cols // tile.lanes), 1)
    chain = max(timing.chain(body), 1)
    each = max(chain, timing.ports(body, 2), 1)
    loop = each * max(tile.rows - 1, 0) * width + timing.figure("row_gap") * (width - 1)
    stages = [
        frame_stage(timing),
        Stage(request.stages[0], chain + loop, tile.rows * width, "derived"),
    ]
    return request.cost(stages, work=tile.rows * tile.cols)


def select(request: Request) -> Cost:
    """Select by mask: elements of 32 bits go in pairs of repeats, and a repeat that is left over
    has a loop of its own; rows of more than a pair do not overlap."""
    tile = request.domain
    if tile.bits != 32:
        return function(request)
    line, by_row = request.table["select.line"], request.table["select.rows"]
    sources = request.shape.tiles(request.shape.ins)
    data = [t for t in sources if t.bits == tile.bits]
    contiguous = tile.rows <= 1 or all(t.is_contiguous for t in [tile, *data])
    cols, rows = (tile.rows * tile.cols, 1) if contiguous else (tile.cols, tile.rows)
    repeats = max(-(-cols // tile.lanes), 1)
    timing = Function(request.table)
    first = line["latency"] + line["nested"] * (repeats - 1)
    step = line["nested"] * repeats
    if repeats > PAIR:
        first += by_row["odd"] * (repeats % PAIR)
        step += by_row["row"]
    elif repeats == PAIR:
        step += timing.figure("row_gap")
    loop = first + (rows - 1) * step
    confidence = lowest_confidence((line.confidence, by_row.confidence))
    stages = [frame_stage(timing), Stage("vsel", loop, repeats * rows, confidence)]
    return request.cost(stages)


# The cube: blocks of 16 x 16 results and 32 bytes of K, and the registers around it.

BLOCK = 16


def product(request: Request) -> Cost:
    """M x K by K x N of tiles."""
    lhs, rhs = request.shape.tile("lhs"), request.shape.tile("rhs")
    assert lhs is not None
    assert rhs is not None
    return blocks(request, lhs.dtype, lhs.rows, lhs.cols, rhs.cols)


def blocks(request: Request, dtype: DType, rows: int, deep: int, cols: int) -> Cost:
    """Return the cost of a product whose left operand has rows x deep elements; dimensions are
    rounded up to blocks."""
    row = request.table.find(f"cube.product.{_kind(dtype)}", "cube.product")
    k_block = BLOCK_BYTES * 8 // max(dtype.bits, 8)
    m, k, n = _up(rows, BLOCK), _up(deep, k_block), _up(cols, BLOCK)
    count = (m // BLOCK) * (k // k_block) * (n // BLOCK)
    stages = [
        Stage("start", row["start"], 1, row.confidence),
        Stage("blocks", m * k * n / row["macs"], count, row.confidence),
    ]
    return request.cost(stages, latency=row["start"], work=2 * rows * deep * cols)


def _kind(dtype: DType) -> str:
    if dtype.bits == 32:
        return "f32"
    return {8: "8bit", 4: "4bit"}.get(dtype.bits, "16bit")


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def register(request: Request) -> Cost:
    """A register of a unit is set."""
    row = request.table["cube.register"]
    return request.cost([Stage("register", row["cycles"], 1, row.confidence)], work=0)


def sync(request: Request) -> Cost:
    """Synchronisation itself: what it waits for is the pipes' time."""
    return request.cost([], work=0)


# A2/A3: a tile meets a value for each of its rows.
#
# A value goes to a block of 32 bytes (vbrcb), then the rows meet their blocks: column by column,
# one instruction for each repeat of a row and a masked one for what is left over; row by row in
# count mode where rows are fewer than the repeats of one, or lie more than 255 blocks apart. The
# scratch takes the values of 240 rows: more go in several passes, each with start-ups of its own
# (pto-isa headers of TROWEXPAND* and TQUANT).

PASS_ROWS = 240
"""Rows whose values are spread in one pass."""

_BLOCKS = 8
"""Values that one repeat of vbrcb spreads."""


def row_broadcast(request: Request) -> Cost:
    """A value for each row: spread, combined with the rows, then what follows row by row."""
    tile, first = request.domain, request.stages[0]
    stages = spread_and_combine(request, first, first, tile)
    return chain(request, [*stages, *row_by_row(request, tile, request.stages[1:])])


def spread_and_combine(
    request: Request, name: str, instruction: str, tile: TileShape
) -> list[Stage]:
    """Return the stages of all passes, in their order; `name` is that of combining."""
    spread = request.table["instruction.vbrcb"]
    row = request.instruction(instruction, tile)
    what = name.rpartition(" ")[2] if " " in name else "value"
    stages: list[Stage] = []
    for start in range(0, max(tile.rows, 1), PASS_ROWS):
        part = TileShape(tile.type, min(tile.rows - start, PASS_ROWS), tile.cols)
        blocks = -(-part.rows // _BLOCKS)
        stages += [
            instruction_stage(f"spread the {what}", spread, blocks, tile),
            _combine(request, name, row, part),
        ]
    return stages


def _combine(request: Request, name: str, row: CostRow, part: TileShape) -> Stage:
    whole, rest = divmod(part.cols, part.lanes)
    repeats = part.rows * part.row_repeats
    masked = request.table["repeat.masked"]["cycles"]
    distance = part.type.cols * part.bits // 8
    if whole > part.rows or distance > MAX_REPEATS * BLOCK_BYTES:
        return instruction_stage(name, row, repeats, part, masked * part.rows, part.rows)
    extra = masked if rest else 0
    return instruction_stage(name, row, repeats, part, extra, whole + bool(rest))
