"""Program text for tests: a kernel of loads, operations and stores, written line by line.

k = Kernel("a5")
x = k.tile("x", "f32", 16, 64)
k.load("src", x)
k.op("pto.texp", [x], [y])
k.store(y, "dst")
result = k.run({"src": array, "dst": zeros})
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any

import ptosim
from ptosim.ground.ir.types import TileType
from ptosim.ground.isa.dates import DATES
from ptosim.ground.isa.rows import isa
from ptosim.language.syntax.parser import parse_type
from ptosim.language.verify.checks.shapes import misaligned

_OPERATION = re.compile(r"(?<![\w!#.])pto\.[\w.]*\w")


_OWN_NOTATION = ("set_quant_scalar ins", "set_quant_vector ins", "mx_quant_alg", "grp_axis")
"""Words of ptosim's own notation for microscaling from before the assembler had one."""


def date_of(text: str) -> str:
    """Return the date of the language that a test's text is written in: April's if it has a name or
    an enum that August has no more, has single 4-bit floats, or allocates a tile that August
    refuses."""
    april, august = DATES[:2]
    if any(word in text for word in _OWN_NOTATION) or _SINGLE_FP4.search(text):
        return april
    if _gone() & set(_OPERATION.findall(text)) or any(map(_is_refused, _ALLOCATION.findall(text))):
        return april
    return august


@cache
def _gone() -> set[str]:
    """Names of April that August has no more."""
    april, august = DATES[:2]
    return set(isa(april).names()) - set(isa(august).names())


_SINGLE_FP4 = re.compile(r"f4E\dM\d(FN)?\b")  # today's are pairs
_ALLOCATION = re.compile(r"pto\.alloc_tile\b[^\n]*: (!pto\.[^\n]*>)")


@cache
def _is_refused(type_text: str) -> bool:
    """True for an allocation whose rows are no whole blocks, or that cuts boxes."""
    type_ = parse_type(type_text).type
    return isinstance(type_, TileType) and misaligned(type_) is not None


@dataclass(frozen=True)
class Tile:
    """A tile of the text: its name and everything its type says."""

    name: str
    dtype: str
    rows: int
    cols: int
    v_row: int | None = None
    v_col: int | None = None
    blayout: str = "row_major"
    slayout: str = "none_box"
    fractal: int = 512
    pad: int = 0
    compact: int = 0
    loc: str = "vec"

    @property
    def valid(self) -> tuple[int, int]:
        return (
            self.rows if self.v_row is None else self.v_row,
            self.cols if self.v_col is None else self.v_col,
        )

    @property
    def type(self) -> str:
        rows, cols = (("?" if v == -1 else v) for v in self.valid)
        compact = f", compact={self.compact}" if self.compact else ""
        return (
            f"!pto.tile_buf<loc={self.loc}, dtype={self.dtype}, rows={self.rows}, "
            f"cols={self.cols}, v_row={rows}, v_col={cols}, blayout={self.blayout}, "
            f"slayout={self.slayout}, fractal={self.fractal}, pad={self.pad}{compact}>"
        )


LAYOUTS = {
    "nd": ("row_major", "none_box"),
    "dn": ("col_major", "none_box"),
    "nz": ("col_major", "row_major"),
    "zz": ("row_major", "row_major"),
    "zn": ("row_major", "col_major"),
    "nn": ("col_major", "col_major"),
}


class Kernel:
    """One function; pointer arguments appear where they are first used."""

    def __init__(self, target: str, **load_options: Any) -> None:
        self.target = target
        self.load_options = load_options
        self.args: dict[str, str] = {}
        self.lines: list[str] = []
        self.constants: dict[tuple[int, str], str] = {}
        self._views = 0

    # -- values ---------------------------------------------------------------------------------

    def const(self, value: int, type_: str = "index") -> str:
        """Return the name of an integer constant."""
        key = (value, type_)
        if key not in self.constants:
            self.constants[key] = f"%c{type_}{value}".replace("-", "m")
        return self.constants[key]

    def arg(self, name: str, type_: str) -> str:
        """Return the name of a function argument."""
        assert self.args.setdefault(name, type_) == type_
        return f"%{name}"

    def line(self, text: str) -> None:
        """Add a line of text."""
        self.lines.append(text)

    # -- tiles ----------------------------------------------------------------------------------

    def tile(
        self,
        name: str,
        dtype: str,
        rows: int,
        cols: int,
        valid: tuple[int, int] | None = None,
        *,
        layout: str = "nd",
        addr: int | None = None,
        **keys: Any,
    ) -> Tile:
        """Allocate a tile. A valid extent of -1 is dynamic and needs `rows`/`cols` clauses, which
        `dynamic` writes."""
        blayout, slayout = LAYOUTS[layout]
        v_row, v_col = valid or (None, None)
        tile = Tile(name, dtype, rows, cols, v_row, v_col, blayout, slayout, **keys)
        at = "" if addr is None else f" addr = {self.const(addr, 'i64')}"
        self.line(f"%{name} = pto.alloc_tile{at} : {tile.type}")
        return tile

    def dynamic(
        self,
        name: str,
        dtype: str,
        rows: int,
        cols: int,
        valid: tuple[str, str],
        *,
        addr: int | None = None,
        **keys: Any,
    ) -> Tile:
        """Allocate a tile whose valid extents are values of the program."""
        tile = Tile(name, dtype, rows, cols, -1, -1, **keys)
        at = "" if addr is None else f"addr = {self.const(addr, 'i64')} "
        extents = f"valid_row = {valid[0]} valid_col = {valid[1]}"
        self.line(f"%{name} = pto.alloc_tile {at}{extents} : {tile.type}")
        return tile

    def alias(self, op: str, name: str, source: Tile, **changes: Any) -> Tile:
        """Another view of a tile by treshape or bitcast."""
        tile = replace(source, name=name, **changes)
        self.line(f"%{name} = {op} %{source.name} : {source.type} -> {tile.type}")
        return tile

    # -- operations -----------------------------------------------------------------------------

    def op(
        self,
        name: str,
        ins: Sequence[Tile | tuple[str, str]],
        outs: Sequence[Tile | tuple[str, str]],
        attrs: str = "",
    ) -> None:
        """Add an operation on tiles and on (value, type) pairs."""
        attrs = f" {{{attrs}}}" if attrs else ""
        results = f" outs({_group(outs)})" if outs else ""
        self.line(f"{name} ins({_group(ins)}){results}{attrs}")

    def view(
        self,
        arg: str,
        dtype: str,
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
        *,
        layout: str | None = None,
        offsets: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
    ) -> tuple[str, str]:
        """Return a window of an argument: value and type. `shape` is that of the whole view."""
        self._views += 1
        number = self._views
        shape = list(shape or sizes)
        offsets = list(offsets or [0] * len(sizes))
        strides = list(strides or (prod(shape[i + 1 :]) for i in range(len(shape))))
        pointer = self.arg(arg, f"!pto.ptr<{dtype}>")
        attrs = f" {{layout = #pto.layout<{layout}>}}" if layout else ""
        whole = f"!pto.tensor_view<{_dims(shape)}x{dtype}>"
        part = f"!pto.partition_tensor_view<{_dims(sizes)}x{dtype}>"
        self.line(
            f"%v{number} = pto.make_tensor_view {pointer}, shape = [{self._consts(shape)}], "
            f"strides = [{self._consts(strides)}]{attrs} : {whole}"
        )
        self.line(
            f"%p{number} = pto.partition_view %v{number}, offsets = [{self._consts(offsets)}], "
            f"sizes = [{self._consts(sizes)}] : {whole} -> {part}"
        )
        return f"%p{number}", part

    def _consts(self, values: Sequence[int]) -> str:
        return ", ".join(self.const(v) for v in values)

    def load(self, arg: str, tile: Tile, sizes: Sequence[int] | None = None, **keys: Any) -> None:
        """Load a tile from a contiguous window, or the one that the keys describe."""
        keys = _by_columns(tile, sizes, keys)
        view = self.view(arg, tile.dtype, sizes or tile.valid, **keys)
        self.op("pto.tload", [view], [tile])

    def store(
        self,
        tile: Tile,
        arg: str,
        sizes: Sequence[int] | None = None,
        *,
        attrs: str = "",
        dtype: str | None = None,
        **keys: Any,
    ) -> None:
        """Store a tile to a contiguous window, or the one that the keys describe."""
        keys = _by_columns(tile, sizes, keys)
        view = self.view(arg, dtype or tile.dtype, sizes or tile.valid, **keys)
        self.op("pto.tstore", [tile], [view], attrs)

    # -- text -----------------------------------------------------------------------------------

    def text(self) -> str:
        """Return the module."""
        args = ", ".join(f"%{name}: {type_}" for name, type_ in self.args.items())
        constants = [
            f"{name} = arith.constant {value} : {type_}"
            for (value, type_), name in self.constants.items()
        ]
        body = "\n".join(f"    {line}" for line in [*constants, *self.lines, "return"])
        return (
            f'module attributes {{pto.target_arch = "{self.target}"}} {{\n'
            f"  func.func @kernel({args}) {{\n{body}\n  }}\n}}\n"
        )

    def program(self) -> ptosim.Program:
        """Return the loaded program."""
        text = self.text()
        return ptosim.load(text, **{"compat": date_of(text), **self.load_options})

    def run(self, args: Mapping[str, Any], **options: Any) -> ptosim.Result:
        """Load and run; without the clock, unless it is asked for, which is a third of a run."""
        return self.program().run(args, **{"timing": False, **options})


def _group(operands: Sequence[Tile | tuple[str, str]]) -> str:
    pairs = [(f"%{o.name}", o.type) if isinstance(o, Tile) else o for o in operands]
    return f"{', '.join(v for v, _ in pairs)} : {', '.join(t for _, t in pairs)}"


def _dims(sizes: Sequence[int]) -> str:
    return "x".join(str(s) for s in sizes)


def _by_columns(tile: Tile, sizes: Sequence[int] | None, keys: dict[str, Any]) -> dict[str, Any]:
    """A column-major tile without a window of its own has a column-major image."""
    if sizes is None and not keys and (tile.blayout, tile.slayout) == LAYOUTS["dn"]:
        return {"strides": (1, tile.valid[0]), "layout": "dn"}
    return keys
