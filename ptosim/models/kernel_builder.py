"""Kernels that are built: functions with constants, tiles, views and operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np

from ptosim.ground.ir.core import Module, Operation
from ptosim.ground.isa.targets import machine
from ptosim.ground.records import dataclass
from ptosim.language.build import Builder, Named, Typed, Words, as_module

_INFINITIES = {
    ("f32", True): "0x7F800000", ("f32", False): "0xFF800000",
    ("f16", True): "0x7C00", ("f16", False): "0xFC00",
    ("bf16", True): "0x7F80", ("bf16", False): "0xFF80",
}  # fmt: skip
_LAYOUTS = {
    "nd": ("row_major", "none_box"),
    "dn": ("col_major", "none_box"),
    "nz": ("col_major", "row_major"),
    "zn": ("row_major", "col_major"),
    "zz": ("row_major", "row_major"),
    "nn": ("col_major", "col_major"),
}
BITS = {
    "f32": 32, "i32": 32, "ui32": 32, "f16": 16, "bf16": 16, "i16": 16, "ui16": 16, "i8": 8,
    "ui8": 8, "f8E4M3FN": 8, "f8E5M2": 8, "f8E8M0FNU": 8, "f4E2M1FN": 4, "!pto.f4E2M1x2": 8,
    "i64": 64, "ui64": 64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TileValue:
    """A tile value: name, element type, shape, layout and memory space."""

    name: str
    dtype: str
    rows: int
    cols: int
    layout: str = "nd"
    loc: str = "vec"
    fractal: int = 512
    valid_cols: int | None = None
    spelled: str = ""

    @property
    def type(self) -> str:
        """The full spelling of its type, or the one that the program has."""
        if self.spelled:
            return self.spelled
        blayout, slayout = _LAYOUTS[self.layout]
        valid = self.cols if self.valid_cols is None else self.valid_cols
        return (
            f"!pto.tile_buf<loc={self.loc}, dtype={self.dtype}, rows={self.rows}, "
            f"cols={self.cols}, v_row={self.rows}, v_col={valid}, blayout={blayout}, "
            f"slayout={slayout}, fractal={self.fractal}, pad=0>"
        )

    @property
    def bytes(self) -> int:
        """Bytes of the tile, rounded up to 32-byte blocks."""
        return -(-self.rows * self.cols * BITS[self.dtype] // 8 // 32) * 32


class KernelBuilder(Builder):
    """One function under construction; arguments and constants are declared where they are first
    used."""

    def __init__(self, name: str, target: str) -> None:
        super().__init__()
        self.name = name
        self.target = target
        self.args: dict[str, str] = {}
        self.tiles: list[TileValue] = []
        self._constants: dict[tuple[str, str], str] = {}
        self._open: list[AbstractContextManager[None]] = []
        self._count = 0
        self._loops: list[int] = []
        self.places = 1

    # -- values ------------------------------------------------------------------------------------

    def arg(self, name: str, type_: str) -> str:
        """Return an argument of the function, declared where it is first used."""
        self.args.setdefault(name, type_)
        return f"%{name}"

    def pointer(self, name: str, dtype: str) -> Typed:
        """Return a pointer argument."""
        type_ = f"!pto.ptr<{dtype}>"
        return Typed(self.arg(name, type_), type_)

    def scalar(self, name: str, dtype: str) -> Typed:
        """Return a scalar argument as an operand."""
        return Typed(self.arg(name, dtype), dtype)

    def const(self, value: int, type_: str = "index") -> str:
        """Return the name of an integer constant."""
        key = (str(value), type_)
        if key not in self._constants:
            self._constants[key] = f"%c{'m' if value < 0 else ''}{abs(value)}_{type_}"
        return self._constants[key]

    def integer(self, value: int, type_: str) -> Typed:
        """Return an integer constant as an operand."""
        return Typed(self.const(value, type_), type_)

    def real(self, value: float, type_: str = "f32") -> Typed:
        """Return a float constant as an operand; infinities as the bits of f32 and f16."""
        text = repr(float(np.float32(value)))
        text = text if "." in text or "e" not in text else text.replace("e", ".0e")
        if math.isinf(value):
            text = _INFINITIES[type_, value > 0]
        key = (text, type_)
        if key not in self._constants:
            self._constants[key] = f"%f{len(self._constants)}"
        return Typed(self._constants[key], type_)

    def fresh(self, stem: str) -> str:
        """Return a new value name."""
        self._count += 1
        return f"%{stem}{self._count}"

    # -- operations --------------------------------------------------------------------------------

    def begin(self, stem: str, end: int, step: int) -> str:
        """Open a loop from 0 and return its counter."""
        counter = self.fresh(stem)
        loop = self.loop(counter, [self.const(0), self.const(end), self.const(step)])
        loop.__enter__()
        self._open.append(loop)
        return counter

    def end(self) -> None:
        """Close the innermost loop."""
        self._open.pop().__exit__(None, None, None)

    def share(self, axes: Sequence[tuple[int, int]]) -> list[str]:
        """Open a loop over the places of a grid that the blocks of a launch share, and return where
        a round is: for each axis (size, step) a value. A launch may have any number of blocks;
        `blocks` is the one that fills a chip with equal ones. `close` ends it."""
        counts = [-(-size // step) for size, step in axes]
        places = math.prod(counts)
        if places == 1:
            self._loops.append(len(axes))
            return [self.begin("i", size, step) for size, step in axes]
        block, blocks = (self._of_launch(word) for word in ("idx", "num"))
        rounds = self._arith("addi", blocks, self.const(places - 1))
        rounds = self._arith("divui", rounds, blocks)
        counter = self.fresh("r")
        loop = self.loop(counter, [self.const(0), rounds, self.const(1)])
        loop.__enter__()
        self._open.append(loop)
        self._loops.append(1)
        self.places = places
        rest = self._arith("addi", self._arith("muli", counter, blocks), block)
        rest = self._arith("minui", rest, self.const(places - 1))
        found: list[str] = []
        for count, (_, step) in reversed(list(zip(counts, axes, strict=True))):
            if count == places:
                at, rest, places = rest, self.const(0), 1
            elif count == 1:
                at = self.const(0)
            else:
                at, rest = (self._arith(op, rest, self.const(count)) for op in ("remui", "divui"))
                places //= count
            is_place = step == 1 or count == 1
            found.insert(0, at if is_place else self._arith("muli", at, self.const(step)))
        return found

    def close(self) -> None:
        """Close what `share` opened."""
        for _ in range(self._loops.pop()):
            self.end()

    @property
    def blocks(self) -> int:
        """How many blocks a launch has that fills the cores of a chip with as many rounds each."""
        cube = any(t.loc == "acc" for t in self.tiles)
        cores = machine(self.target).cores[0 if cube else 1]
        return max(n for n in range(1, min(self.places, cores) + 1) if not self.places % n)

    def placed(self, index: str, size: int, at: str) -> str:
        """Return index * size + at."""
        return self._arith("addi", self._arith("muli", index, self.const(size)), at)

    def _of_launch(self, word: str) -> str:
        wide, value = self.fresh("wide"), self.fresh(f"block_{word}")
        self.op(f"pto.get_block_{word}", results=[wide])
        self.op("arith.index_cast", [wide], ["i64", "to", "index"], results=[value])
        return value

    def _arith(self, word: str, left: str, right: str) -> str:
        made = self.fresh(word)
        self.op(f"arith.{word}", [left, right], ["index"], results=[made])
        return made

    def tile(
        self,
        stem: str,
        dtype: str,
        rows: int,
        cols: int,
        layout: str = "nd",
        loc: str = "vec",
        fractal: int = 512,
        valid_cols: int | None = None,
    ) -> TileValue:
        """Allocate a tile."""
        tile = TileValue(self.fresh(stem), dtype, rows, cols, layout, loc, fractal, valid_cols)
        self.tiles.append(tile)
        self.op("pto.alloc_tile", types=[tile.type], results=[tile.name])
        return tile

    def like(self, stem: str, dtype: str, tile: TileValue) -> TileValue:
        """Allocate a tile of the sizes of another one."""
        return self.tile(stem, dtype, tile.rows, tile.cols, valid_cols=tile.valid_cols)

    def cast(self, name: str, tile: TileValue, made: TileValue) -> TileValue:
        """Make a tile another view of the bytes of one: `pto.treshape` or `pto.bitcast`."""
        self.op(name, [tile], results=[made.name], arrow=[made.type])
        return made

    def step(self, word: str, *operands: TileValue | float, out: TileValue | None = None):
        """Add an operation of tiles and f32 numbers by its word (`adds`, `mul`, …), in place in the
        first operand or into `out`; return the tile that it writes."""
        made = operands[0] if out is None else out
        assert isinstance(made, TileValue)
        given = [o if isinstance(o, TileValue) else self.real(o) for o in operands]
        self.tile_op(f"pto.t{word}", given, [made])
        return made

    def reshaped(
        self, tile: TileValue, stem: str, rows: int, cols: int, layout: str = "nd"
    ) -> TileValue:
        """Return a tile as one of as many elements in other rows."""
        made = TileValue(self.fresh(stem), tile.dtype, rows, cols, layout)
        return self.cast("pto.treshape", tile, made)

    # -- memory ------------------------------------------------------------------------------------

    def view(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        layout: str | None = None,
    ) -> Typed:
        """Return a view of a whole pointer argument."""
        strides = strides or [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        value = self.fresh("view")
        type_ = f"!pto.tensor_view<{_dims(shape)}x{dtype}>"
        attrs: list[Words] = [{"layout": f"#pto.layout<{layout}>"}] if layout else []
        items = [self.pointer(name, dtype), self._sizes("shape", shape)]
        items += [self._sizes("strides", strides), *attrs]
        self.op("pto.make_tensor_view", items, [type_], results=[value])
        return Typed(value, type_)

    def window(
        self, view: Named, dtype: str, offsets: Sequence[str], sizes: Sequence[int]
    ) -> Typed:
        """Return a part of a view; offsets are values."""
        value = self.fresh("part")
        type_ = f"!pto.partition_tensor_view<{_dims(sizes)}x{dtype}>"
        items = [view, self.keyword("offsets", self.listed(offsets)), self._sizes("sizes", sizes)]
        self.op("pto.partition_view", items, results=[value], arrow=[type_])
        return Typed(value, type_)

    def load(
        self, tile: TileValue, view: Named, offsets: Sequence[str], sizes: Sequence[int]
    ) -> TileValue:
        """Load a part of a view into a tile."""
        self.tile_op("pto.tload", [self.window(view, tile.dtype, offsets, sizes)], [tile])
        return tile

    def _sizes(self, key: str, values: Sequence[int]):
        return self.keyword(key, self.listed([self.const(v) for v in values]))

    # -- the whole ---------------------------------------------------------------------------------

    def built(self) -> list[Operation]:
        """Return the operations of its body, constants first."""
        defined = Builder()
        for (value, type_), name in self._constants.items():
            defined.constant(name, value, type_)
        return [*defined.ops, *self.ops]


def module(f: KernelBuilder) -> Module:
    """Return the module of a function."""
    b = Builder()
    args = [Typed(f"%{name}", type_) for name, type_ in f.args.items()]
    with b.unit({"pto.target_arch": f'"{f.target}"'}), b.function(f.name, args):
        b.ops += f.built()
        b.typed("func.return")
    return as_module(b.ops, "<generated>")


def _dims(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))
