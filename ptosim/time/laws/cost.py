"""The cost of one operation: cycles, the stages they come from, bytes moved, and how sure it is."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ptosim.ground.isa.costs import CostEntry, CostRow, CostTable, lowest_confidence
from ptosim.ground.records import dataclass, replace
from ptosim.time.laws.shapes import OpShape, TileShape, VectorWork

SHARED = ("from HBM", "to HBM")
"""Stages that a read and a write have because all cores share HBM."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of an operation: vector instructions, a transfer, a start-up.

    `count` is how many instructions are executed (of a transfer its bursts); `repeats` is how many
    repeats of 256 bytes they process in all on A2/A3, and the iterations of their loop on A5; what
    is no vector instruction has none. `executes` names the instructions, of a loop those of an
    iteration. The cycles of a stage that is `shared` are its share of one pipelined loop, which it
    goes through together with the others."""

    name: str
    cycles: float
    count: int = 1
    confidence: str = "derived"
    repeats: int = 0
    shared: bool = False
    executes: str = ""


@dataclass(frozen=True, slots=True)
class Movement:
    """Bytes that go to or come from global memory: `direction` is read or write; `adds`: what is
    there is read, too, in L2."""

    direction: str
    bytes: int
    runs: int
    run_bytes: int
    adds: bool = False


class Cost:
    """What an operation takes on its pipe.

    `cycles` is the time from start to result; the last `latency` of them overlap with the next
    operation of the same pipe unless something waits for the result. `work` counts arithmetic
    operations. An operation without a law has `known` False and no cycles.
    """

    __slots__ = (
        "class_name",
        "confidence",
        "cycles",
        "form",
        "known",
        "latency",
        "moved",
        "region",
        "spread",
        "stages",
        "work",
    )

    def __init__(
        self,
        class_name: str,
        stages: tuple[Stage, ...],
        confidence: str,
        *,
        latency: float = 0,
        moved: Movement | None = None,
        work: int = 0,
        known: bool = True,
        cycles: float | None = None,
        region: VectorWork | None = None,
        form: str = "",
        spread: float = 0,
    ) -> None:
        total = sum(s.cycles for s in stages) if cycles is None else cycles
        self.class_name = class_name
        self.stages = stages
        self.confidence = confidence
        self.cycles = max(round(total), 0)
        self.latency = min(max(round(latency), 0), self.cycles)
        self.moved = moved
        self.work = work
        self.known = known
        self.region = region  # what a vector region executes
        self.form = form  # shape and element types of a cast
        self.spread = spread  # relative; what published fits of it leave open; 0: as its class

    @property
    def busy(self) -> int:
        """Cycles until the pipe takes the next operation."""
        return self.cycles - self.latency

    def longer(self, stage: Stage) -> Cost:
        """Return the cost with one stage more, in which its pipe is busy."""
        sure = lowest_confidence((self.confidence, stage.confidence))
        return Cost(
            self.class_name, (*self.stages, stage), sure, latency=self.latency,
            moved=self.moved, work=self.work, known=self.known, cycles=self.cycles + stage.cycles,
            region=self.region, form=self.form, spread=self.spread,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Cost({self.class_name}, {self.cycles} cycles)"


def derived(request: Request, stages: Iterable[Stage], work: int, latency: float = 0) -> Cost:
    """Return a cost of which nobody has published a measurement: no stage is better than
    derived."""
    weaker = [
        replace(s, confidence="derived" if s.confidence != "assumed" else "assumed") for s in stages
    ]
    return request.cost(weaker, latency=latency, work=work)


NOTHING = Cost("nothing", (), "documented")
"""An operation on an empty region, or one that is done before the program runs."""

NO_LAW = Cost("no law", (), "assumed", known=False)
"""The cost of an operation that no law covers: no cycles, and it is counted."""


# What a law is asked: an operation's shapes, the figures of the target, the operation's entry.


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a law."""

    shape: OpShape
    table: CostTable
    entry: CostEntry

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the operation's stages on this target, by the form that its operands ask for."""
        options, shape = self.entry.options, self.shape
        modes = (str(shape.attrs.get(name)).lower() for name in ("precision_mode", "precisionType"))
        is_precise = any("high_precision" in mode for mode in modes)
        if "precise" in options and shape.target == "a5" and is_precise:
            return (options["precise"],)
        if "with_tmp" in options and shape.target == "a2a3" and shape.args.get("tmp") is not None:
            return tuple(options["with_tmp"].split())
        return self.entry.stages[shape.target]

    @property
    def selected(self) -> tuple[str, ...]:
        """Names of the stages of a gather that goes through its source and keeps some elements;
        nothing if it goes by an index."""
        options, shape = self.entry.options, self.shape
        if "selected" not in options or shape.tile("indices", "idx") is not None:
            return ()
        return tuple(options["selected"][shape.target].split())

    @property
    def domain(self) -> TileShape:
        """The tile whose valid region the operation covers: the largest written one, else the
        largest read one."""
        written = self.shape.tiles(self.shape.outs)
        return max(written, key=lambda t: t.rows * t.cols) if written else self.source

    @property
    def source(self) -> TileShape:
        """The largest tile that is read."""
        return max(self.shape.tiles(self.shape.ins), key=lambda t: t.rows * t.cols)

    def instruction(self, name: str, tile: TileShape) -> CostRow:
        """Return the row of a vector instruction for an element type."""
        if tile.dtype.is_integer:
            return self.table.find(f"instruction.{name}.int", f"instruction.{name}")
        return self.table.find(f"instruction.{name}")

    def cost(
        self,
        stages: list[Stage],
        *,
        latency: float = 0,
        moved: Movement | None = None,
        work: int | None = None,
        spread: float = 0,
    ) -> Cost:
        """Return the cost that consists of stages."""
        if work is None:
            tile = self.domain
            work = prod((tile.rows, tile.cols, max(len(self.stages), 1)))
        return Cost(
            self.entry.class_.name,
            tuple(stages),
            lowest_confidence(s.confidence for s in stages),
            latency=latency,
            moved=moved,
            work=work,
            form=self.form,
            spread=spread,
        )

    @property
    def form(self) -> str:
        """Shape and element types of what is cast: `64x128 f32 to i8`; nothing if one is
        missing."""
        shape = self.shape
        src = shape.tile("src") or next(iter(shape.tiles(shape.ins)), None)
        dst = shape.tile("dst") or next(iter(shape.tiles(shape.outs)), None)
        if src is None or dst is None:
            return ""
        return f"{src.rows}x{src.cols} {src.dtype} to {dst.dtype}"
