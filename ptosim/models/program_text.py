"""Writing PTO modules: functions with constants, tiles, views and operations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ptosim.ground.records import NamedTuple, dataclass


class TypedName(NamedTuple):
    """A value with its type, as they are written."""

    name: str
    type: str


_INFINITIES = {
    ("f32", True): "0x7F800000", ("f32", False): "0xFF800000",
    ("f16", True): "0x7C00", ("f16", False): "0xFC00",
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
class TileText:
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


class FunctionText:
    """One function under construction."""

    def __init__(self, name: str, target: str) -> None:
        self.name = name
        self.target = target
        self.args: dict[str, str] = {}
        self.tiles: list[TileText] = []
        self._constants: dict[tuple[str, str], str] = {}
        self._lines: list[str] = []
        self._depth = 1
        self._count = 0

    # -- values ------------------------------------------------------------------------------------

    def arg(self, name: str, type_: str) -> str:
        """Return an argument of the function, declared where it is first used."""
        self.args.setdefault(name, type_)
        return f"%{name}"

    def pointer(self, name: str, dtype: str) -> str:
        """Return a pointer argument."""
        return self.arg(name, f"!pto.ptr<{dtype}>")

    def scalar(self, name: str, dtype: str) -> TypedName:
        """Return a scalar argument as an operand."""
        return TypedName(self.arg(name, dtype), dtype)

    def const(self, value: int, type_: str = "index") -> str:
        """Return an integer constant."""
        key = (str(value), type_)
        if key not in self._constants:
            self._constants[key] = f"%c{'m' if value < 0 else ''}{abs(value)}_{type_}"
        return self._constants[key]

    def integer(self, value: int, type_: str) -> TypedName:
        """Return an integer constant as an operand."""
        return TypedName(self.const(value, type_), type_)

    def real(self, value: float, type_: str = "f32") -> TypedName:
        """Return a float constant as an operand; infinities as the bits of f32 and f16."""
        text = repr(float(np.float32(value)))
        text = text if "." in text or "e" not in text else text.replace("e", ".0e")
        if math.isinf(value):
            text = _INFINITIES[type_, value > 0]
        key = (text, type_)
        if key not in self._constants:
            self._constants[key] = f"%f{len(self._constants)}"
        return TypedName(self._constants[key], type_)

    def fresh(self, stem: str) -> str:
        """Return a new value name."""
        self._count += 1
        return f"%{stem}{self._count}"

    # -- lines -------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Add a line."""
        self._lines.append("  " * (self._depth + 1) + text)

    def comment(self, text: str) -> None:
        """Add a comment line."""
        self.line(f"// {text}")

    def loop(self, stem: str, end: int, step: int) -> str:
        """Open a loop from 0 and return its counter."""
        counter = self.fresh(stem)
        self.line(
            f"scf.for {counter} = {self.const(0)} to {self.const(end)} step {self.const(step)} {{"
        )
        self._depth += 1
        return counter

    def end(self) -> None:
        """Close the innermost loop."""
        self._depth -= 1
        self.line("}")

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
    ) -> TileText:
        """Allocate a tile."""
        tile = TileText(self.fresh(stem), dtype, rows, cols, layout, loc, fractal, valid_cols)
        self.tiles.append(tile)
        self.line(f"{tile.name} = pto.alloc_tile : {tile.type}")
        return tile

    def op(
        self,
        name: str,
        ins: Sequence[TileText | TypedName],
        outs: Sequence[TileText | TypedName],
        attrs: str = "",
        fp: TileText | None = None,
    ) -> None:
        """Add an operation; `fp` is a scale for each column."""
        tail = f" {{{attrs}}}" if attrs else ""
        scale = f" fp {fp.name} : {fp.type}" if fp is not None else ""
        self.line(f"{name} ins({_group(ins)}{scale}) outs({_group(outs)}){tail}")

    # -- memory ------------------------------------------------------------------------------------

    def view(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        layout: str | None = None,
    ) -> TypedName:
        """Return a view of a whole pointer argument."""
        strides = strides or [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        value = self.fresh("view")
        type_ = f"!pto.tensor_view<{_dims(shape)}x{dtype}>"
        attrs = f" {{layout = #pto.layout<{layout}>}}" if layout else ""
        self.line(
            f"{value} = pto.make_tensor_view {self.pointer(name, dtype)}, shape = "
            f"[{self._consts(shape)}], strides = [{self._consts(strides)}]{attrs} : {type_}"
        )
        return TypedName(value, type_)

    def window(
        self, view: TypedName, dtype: str, offsets: Sequence[str], sizes: Sequence[int]
    ) -> TypedName:
        """Return a part of a view; offsets are values."""
        value = self.fresh("part")
        type_ = f"!pto.partition_tensor_view<{_dims(sizes)}x{dtype}>"
        self.line(
            f"{value} = pto.partition_view {view.name}, offsets = [{', '.join(offsets)}], sizes = "
            f"[{self._consts(sizes)}] : {view.type} -> {type_}"
        )
        return TypedName(value, type_)

    def _consts(self, values: Sequence[int]) -> str:
        return ", ".join(self.const(v) for v in values)

    # -- text --------------------------------------------------------------------------------------

    def text(self) -> str:
        """Return the function."""
        args = ", ".join(f"%{name}: {type_}" for name, type_ in self.args.items())
        body = "\n".join([*(f"    {c}" for c in self._defined()), *self._lines, "    return"])
        return f"  func.func @{self.name}({args}) {{\n{body}\n  }}\n"

    def body(self) -> list[str]:
        """Return the lines alone, constants first, without indentation."""
        return [*self._defined(), *(line.strip() for line in self._lines)]

    def _defined(self) -> list[str]:
        return [
            f"{name} = arith.constant {value} : {type_}"
            for (value, type_), name in self._constants.items()
        ]


def module(target: str, functions: Sequence[FunctionText], head: Sequence[str] = ()) -> str:
    """Return a module of functions, with comment lines in front."""
    comments = "".join(f"// {line}\n" for line in head)
    body = "\n".join(f.text() for f in functions)
    return f'{comments}module attributes {{pto.target_arch = "{target}"}} {{\n{body}}}\n'


def _group(operands: Sequence[TileText | TypedName]) -> str:
    return f"{', '.join(o.name for o in operands)} : {', '.join(o.type for o in operands)}"


def _dims(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))
