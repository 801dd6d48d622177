"""Runs one operation as program text and by its oracle, and compares the bytes of every tile.

Each tile is loaded and stored over its whole static shape, so that what an operation does outside
its valid region, or to its sources, is compared too. The operation itself sees the same storage
under the valid shape that the case asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

import ptosim
from ptosim.ground.isa.dates import make_profile
from ptosim.ground.isa.rows import isa
from tests.oracle import fills, gathering, lines, masks, numerics, tile, vector
from tests.support.text import Kernel
from tests.support.text import Tile as TextTile

MODELS = {**vector.MODELS, **masks.MODELS, **lines.MODELS, **fills.MODELS, **gathering.MODELS}


@dataclass(frozen=True)
class Spec:
    """A tile operand: its type, its valid shape, and its elements in memory order.

    `values` are numbers, or an array of the element type."""

    dtype: str
    rows: int
    cols: int
    valid: tuple[int, int] | None = None
    layout: str = "nd"
    pad: int = 0
    values: Any = None
    same: str | None = None  # name of the operand with which it shares its storage
    dynamic: bool = False


@dataclass(frozen=True)
class Scalar:
    """A scalar operand: its type and value; `const` writes it as a constant of the text."""

    dtype: str
    value: Any
    const: bool = False


Operand = Spec | Scalar


def np_dtype(name: str) -> np.dtype:
    """NumPy type of an element type."""
    if name == "bf16":
        return np.dtype(ml_dtypes.bfloat16)
    word = {"f": "float", "i": "int", "s": "int", "u": "uint"}[name[0]]
    return np.dtype(f"{word}{tile.width_of(name)}")


@cache
def default_switches(target: str, profile: str = "hw") -> dict[str, str]:
    """The switches of a profile."""
    return dict(make_profile(profile, target).switches)


# -- program ---------------------------------------------------------------------------------------


class Case:
    """An operation with operands, ready to be run and modeled."""

    def __init__(
        self,
        op: str,
        target: str,
        operands: Mapping[str, Operand],
        *,
        attrs: Mapping[str, Any] | None = None,
        switches: Mapping[str, str] | None = None,
        variant: str = "",
        results: Sequence[str] | None = None,
        date: str | None = None,
    ) -> None:
        self.op, self.target, self.operands = op, target, dict(operands)
        self.attrs = dict(attrs or {})
        self.switches = dict(switches or {})
        self.date = date  # of the language; None: as the operations of the text ask for
        definition = (isa(date) if date else isa()).get(f"pto.{op}")  # `isa(None)` is kept apart
        named = {v.name: v for v in definition.variants}
        self.variant = named[variant] if variant else definition.variants[0]
        self.compared = results

    def _order(self, defs: Sequence[Any]) -> list[str]:
        return [d.name for d in defs if d.name in self.operands]

    @property
    def storage(self) -> list[str]:
        """Names of the operands that have storage of their own."""
        return [n for n, o in self.operands.items() if isinstance(o, Spec) and o.same is None]

    def data(self, name: str) -> np.ndarray:
        """Elements of a tile operand in memory order."""
        spec = self.operands[name]
        kind, count = np_dtype(spec.dtype), spec.rows * spec.cols
        if spec.values is None:
            return np.frombuffer(bytes(count * kind.itemsize), kind)
        array = np.asarray(spec.values)
        return np.ascontiguousarray(array.astype(kind) if array.dtype != kind else array).reshape(
            count
        )

    # -- run ------------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        """The operation between loads and stores of whole tiles."""
        dated = {"compat": self.date} if self.date is not None else {}
        k = Kernel(self.target, switches=self.switches, **dated)
        tiles: dict[str, TextTile] = {}
        for name in self.storage:
            spec = self.operands[name]
            whole = k.tile(f"{name}_all", spec.dtype, spec.rows, spec.cols, layout=spec.layout)
            k.load(f"{name}_before", whole)
            tiles[name] = whole
        seen = {n: self._view(k, n, tiles) for n, o in self.operands.items() if isinstance(o, Spec)}
        for name, operand in self.operands.items():
            if isinstance(operand, Scalar):
                seen[name] = _scalar(k, name, operand)
        ins = [seen[n] for n in self._order(self.variant.ins)]
        outs = [seen[n] for n in self._order(self.variant.outs)]
        k.op(f"pto.{self.op}", ins, outs, _attributes(self.attrs))
        for name, whole in tiles.items():
            k.store(whole, f"{name}_after")
        return k

    def _view(self, k: Kernel, name: str, tiles: dict[str, TextTile]) -> TextTile:
        spec = self.operands[name]
        whole = tiles[spec.same or name]
        rows, cols = spec.valid or (spec.rows, spec.cols)
        if not spec.dynamic:
            if replace(whole, v_row=rows, v_col=cols, pad=spec.pad, dtype=spec.dtype) == whole:
                return whole
            return k.alias(
                "pto.treshape", name, whole, v_row=rows, v_col=cols, pad=spec.pad, dtype=spec.dtype
            )
        view = k.alias("pto.treshape", name, whole, v_row=-1, v_col=-1, pad=spec.pad)
        extents = [k.arg(f"{name}_{axis}", "index") for axis in ("rows", "cols")]
        k.line(f"pto.set_validshape %{name}, {', '.join(extents)} : {view.type}")
        return view

    def arguments(self) -> dict[str, Any]:
        """Arguments of the program."""
        given: dict[str, Any] = {}
        for name, operand in self.operands.items():
            if isinstance(operand, Scalar):
                given |= {} if operand.const else {name: operand.value}
                continue
            if operand.same is None:
                before = self.data(name)
                given |= {f"{name}_before": before, f"{name}_after": np.zeros_like(before)}
            if operand.dynamic:
                given |= dict(zip((f"{name}_rows", f"{name}_cols"), operand.valid, strict=True))
        return given

    def run(self, **options: Any) -> ptosim.Result:
        """Load and run the program."""
        return self.kernel().run(self.arguments(), **options)

    # -- model ----------------------------------------------------------------------------------

    def model(self) -> dict[str, tile.Tile]:
        """The tiles after the oracle's operation."""
        tiles: dict[str, tile.Tile] = {}
        for name in sorted(self.operands, key=lambda n: n not in self.storage):
            spec = self.operands[name]
            if not isinstance(spec, Spec):
                continue
            valid = spec.valid or (spec.rows, spec.cols)
            made = tile.Tile(spec.dtype, spec.rows, spec.cols, valid, spec.layout, spec.pad)
            made.memory = (
                tiles[spec.same].memory if spec.same else bytearray(self.data(name).tobytes())
            )
            tiles[name] = _identical(made, tiles, spec.same)
        scalars = {n: _value(o) for n, o in self.operands.items() if isinstance(o, Scalar)}
        switches = default_switches(self.target) | self.switches
        attrs = self.attrs | ({"swap": True} if self.variant.name == "scalar_tile" else {})
        call = tile.Call(self.op, self.target, tiles, scalars, attrs, switches)
        if not call.is_empty() or self.op.startswith(("tpart", "tconcat")):
            MODELS[self.op](call)
        return tiles

    def check(self, **options: Any) -> ptosim.Result:
        """Run both and compare every tile."""
        result = self.run(**options)
        tiles = self.model()
        for name in self.compared or self.storage:
            got = result.outputs[f"{name}_after"]
            expected = np.frombuffer(bytes(tiles[name].memory), got.dtype)
            assert_same(f"{self.op} {self.target} {name}", got, expected)
        return result


def _identical(made: tile.Tile, tiles: dict[str, tile.Tile], same: str | None) -> tile.Tile:
    """An operand in the place of another one of the same shape is that tile."""
    if same is None:
        return made
    other = tiles[same]
    equal = (made.dtype, made.valid, made.pad) == (other.dtype, other.valid, other.pad)
    return other if equal else made


def _scalar(k: Kernel, name: str, operand: Scalar) -> tuple[str, str]:
    if not operand.const:
        return k.arg(name, operand.dtype), operand.dtype
    literal = repr(operand.value)
    k.line(f"%k_{name} = arith.constant {literal} : {operand.dtype}")
    return f"%k_{name}", operand.dtype


def _value(operand: Scalar) -> Any:
    """The scalar as the oracle has it: floats are exact values of their type."""
    if operand.dtype not in tile.FLOATS:
        return operand.value
    array = np.array([operand.value], np_dtype(operand.dtype))
    return numerics.decode(int(array.view(f"u{array.itemsize}")[0]), operand.dtype)


def _attributes(attrs: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_attribute(value)}" for name, value in attrs.items())


_WORDS = {"eq": "cmp", "ne": "cmp", "lt": "cmp", "le": "cmp", "gt": "cmp", "ge": "cmp"}


def _attribute(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value} : i32"
    return f"#pto<{_WORDS[value]} {value}>" if value in _WORDS else str(value)


def assert_same(what: str, got: np.ndarray, expected: np.ndarray) -> None:
    """Equal bit patterns; NaN of any pattern is NaN."""
    kind = f"u{got.dtype.itemsize}"
    left, right = got.reshape(-1).view(kind), expected.reshape(-1).view(kind)
    same = left == right
    if got.dtype.kind not in "iu":
        same |= np.isnan(got.reshape(-1)) & np.isnan(expected.reshape(-1))
    wrong = np.flatnonzero(~same)
    shown = [f"[{i}] {got.reshape(-1)[i]!r}, expected {expected[i]!r}" for i in wrong[:6]]
    assert not wrong.size, f"{what}: {wrong.size} of {same.size} differ: {'; '.join(shown)}"


# -- values ----------------------------------------------------------------------------------------

_SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 3.0, -7.5, 1e-30, 65504.0)


def pool(dtype: str) -> np.ndarray:
    """Values at the edges of a type: signs of zero, infinities, NaN, limits, subnormals."""
    kind = np_dtype(dtype)
    if dtype not in tile.FLOATS:
        low, high = numerics.INT_RANGES[tile.plain(dtype)]
        edges = {low, low + 1, high, high - 1, 0, 1, 2, 3, 7, -1 if low else 5, -2 if low else 6}
        return np.array(sorted(edges), np.int64).astype(kind)
    limits = ml_dtypes.finfo(kind)
    edges = [limits.max, limits.min, limits.smallest_normal, limits.smallest_subnormal]
    with np.errstate(all="ignore"):
        special = np.array(_SPECIAL).astype(kind)
    return np.concatenate([special, np.array(edges, kind), -np.array(edges, kind)])


def mixture(dtype: str, count: int, seed: int) -> np.ndarray:
    """Half edges, half ordinary values with their ties and repetitions."""
    rng = np.random.default_rng(seed)
    edges = rng.choice(pool(dtype), count)
    if dtype in tile.FLOATS:
        wide = rng.standard_normal(count) * 2.0 ** rng.integers(-6, 7, count)
    else:
        wide = rng.integers(-40 if np_dtype(dtype).kind == "i" else 0, 120, count)
    ordinary = np.asarray(wide).astype(np_dtype(dtype))
    return np.where(rng.random(count) < 0.5, edges, ordinary).astype(np_dtype(dtype))
