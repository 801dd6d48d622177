"""What a law is asked: an operation's shapes, the figures of the target, the operation's entry."""

from __future__ import annotations

from math import prod

from ptosim.ground.isa.costs import CostEntry, CostRow, CostTable, lowest_confidence
from ptosim.ground.records import dataclass
from ptosim.time.laws.cost import Cost, Movement, Stage
from ptosim.time.laws.shapes import OpShape, TileShape


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
