"""Programs around one matrix product: operands to L1, to L0, the product, the accumulator out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import ptosim
from tests.ops.semantics.helpers import ARRAYS
from tests.support.text import Kernel, Tile

Shape = tuple[int, int, int]


@dataclass
class Product:
    """A product of the operation `op`; sizes are those of the tiles, `valid` the m, k, n of the
    product. The data has the valid shapes."""

    target: str
    op: str
    types: tuple[str, str, str]  # lhs, rhs, dst
    valid: Shape
    tiles: Shape | None = None
    options: dict[str, Any] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    out: str | None = None
    acc_elsewhere: bool = False

    def run(
        self,
        a: np.ndarray,
        b: np.ndarray,
        *,
        acc: np.ndarray | None = None,
        bias: np.ndarray | None = None,
        scales: tuple[np.ndarray, np.ndarray] | None = None,
        **run: Any,
    ) -> ptosim.Result:
        """Run it; the result is the output `c`."""
        k = Kernel(self.target, **self.options)
        m, depth, n = self.valid
        tm, tk, tn = self.tiles or _padded(self.valid, self.types)
        args: dict[str, Any] = {"a": a, "b": b}
        for line in self.before:
            k.line(line)
        left = _operand(k, "left", "a", self.types[0], (tm, tk), (m, depth), "nz")
        right = _operand(k, "right", "b", self.types[1], (tk, tn), (depth, n), "zn")
        dst = _accumulator(k, "dst", self.types[2], (tm, tn), (m, n))
        ins: list[Tile] = [left, right]
        if scales is not None:
            args["sa"], args["sb"] = scales
            sa = _scale(k, "sa", (tm, tk // 32), (m, -(-depth // 32)), "zz", left)
            sb = _scale(k, "sb", (tk // 32, tn), (-(-depth // 32), n), "nn", right)
            ins = [left, sa, right, sb]
        if acc is not None:
            ins = [self._first(k, dst, (tm, tn), args, acc), *ins]
        if bias is not None:
            args["bias"] = bias
            ins = [*ins, _bias(k, self.types[2], tn, n)]
        k.op(self.op, ins, [dst])
        out = self.out or self.types[2]
        k.store(dst, "c", (m, n), dtype=out)
        args["c"] = np.zeros((m, n), ARRAYS[out])
        return k.run(args, **run)

    def _first(
        self, k: Kernel, dst: Tile, shape: tuple[int, int], args: dict[str, Any], acc: np.ndarray
    ) -> Tile:
        """An accumulator with given content: 1 x acc, a product of its own. (Elements of acc are
        small whole numbers.)"""
        m, n = acc.shape
        place = (
            _accumulator(k, "place", self.types[2], shape, (m, n)) if self.acc_elsewhere else dst
        )
        kind = "i8" if self.types[2] == "i32" else "f16"
        unit = 32 if kind == "i8" else 16
        depth = -(-m // unit) * unit
        args["one"] = np.eye(m, depth, dtype=ARRAYS[kind])
        args["first"] = np.pad(acc, ((0, depth - m), (0, 0))).astype(ARRAYS[kind])
        one = _operand(k, "left", "one", kind, (shape[0], depth), (m, depth), "nz", "unit")
        first = _operand(k, "right", "first", kind, (depth, shape[1]), (depth, n), "zn", "begin")
        k.op("pto.tmatmul", [one, first], [place])
        return place


def _padded(valid: Shape, types: tuple[str, str, str]) -> Shape:
    unit = {"i8": 32, "f8E4M3FN": 32, "f8E5M2": 32, "hif8": 32, "f4E2M1FN": 64}.get(types[0], 16)
    m, k, n = valid
    return -(-m // 16) * 16, -(-k // unit) * unit, -(-n // max(unit, 16)) * max(unit, 16)


def _operand(
    k: Kernel,
    loc: str,
    arg: str,
    dtype: str,
    shape: tuple[int, int],
    valid: tuple[int, int],
    layout: str,
    name: str | None = None,
) -> Tile:
    name = name or loc
    mat = k.tile(f"{name}_mat", dtype, *shape, valid, layout="nz", loc="mat")
    tile = k.tile(name, dtype, *shape, valid, layout=layout, loc=loc)
    k.load(arg, mat, valid)
    k.op("pto.tmov", [mat], [tile])
    return tile


def _accumulator(
    k: Kernel, name: str, dtype: str, shape: tuple[int, int], valid: tuple[int, int]
) -> Tile:
    return k.tile(name, dtype, *shape, valid, layout="nz", fractal=1024, loc="acc")


def _scale(
    k: Kernel, arg: str, shape: tuple[int, int], valid: tuple[int, int], layout: str, data: Tile
) -> Tile:
    """Scales where the product of `data` takes them."""
    keys: dict[str, Any] = {"layout": layout, "fractal": 32}
    mat = k.tile(f"{arg}_mat", "f8E8M0FNU", *shape, valid, loc="mat", **keys)
    tile = k.tile(f"{arg}_tile", "f8E8M0FNU", *shape, valid, loc="scaling", **keys)
    k.op("pto.tget_scale_addr", [data], [tile])
    k.load(arg, mat, valid, layout="nd")
    k.op("pto.tmov", [mat], [tile])
    return tile


def _bias(k: Kernel, dtype: str, cols: int, valid: int) -> Tile:
    mat = k.tile("bias_mat", dtype, 1, cols, (1, valid), loc="mat")
    tile = k.tile("bias_tile", dtype, 1, cols, (1, valid), loc="bias")
    k.load("bias", mat)
    k.op("pto.tmov", [mat], [tile])
    return tile
