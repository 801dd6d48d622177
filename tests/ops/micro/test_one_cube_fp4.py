"""One cube machine for pairs of 4-bit numbers: data, scales, products and results of tiles and of
micro instructions meet in the same bytes.

The rules: a pair is a byte, its low half the first number along k, at both levels; tiles count pairs,
micro instructions numbers. Micro products have a scale for 32 numbers. Scale tiles have as many
columns as 32 go into the *pairs* of the operand, so a product of tiles has a scale for 32 pairs
(assumed, PTO4051). Both find them at a sixteenth of the address of the data."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops.micro.test_one_cube import ACC, L1, LEFT, MIXED, RIGHT, RNG, Program, boxes_of_scales
from tests.oracle import cube
from tests.support.text import Tile

GRID = {"!pto.f4E2M1x2": [0, 0.5, 1, 1.5, 2, 3, 4, 6], "!pto.f4E1M2x2": [i / 4 for i in range(8)]}
E2M1, E1M2 = GRID
FORMS = [(E2M1, E2M1), (E2M1, E1M2), (E1M2, E2M1), (E1M2, E1M2)]


def numbers_of(dtype: str, pairs: np.ndarray) -> np.ndarray:
    """The numbers [lines, 2 * pairs of a line] of bytes [lines, pairs]."""
    table = np.array([*GRID[dtype], *(-v for v in GRID[dtype])])
    return np.stack((table[pairs & 15], table[pairs >> 4]), axis=2).reshape(len(pairs), -1)


class Pairs(Program):
    """A product whose k counts pairs. `how` as of `Program`; both operands are [lines, pairs]."""

    def operand(self, side: str) -> Tile:
        m, k, n = self.sizes
        dtype = self.types["ab".index(side)]
        lines = m if side == "a" else n
        loc, addr, layout = ("left", LEFT, "nz") if side == "a" else ("right", RIGHT, "zn")
        by_tile = self.how[side] == "t"
        # tiles have the right operand as [k, n]: its columns are read as lines of global memory
        held = (lines, k) if side == "a" or not by_tile else (k, n)
        mat = self.k.tile(f"{side}1", dtype, *held, layout="nz", loc="mat", addr=L1[side])
        shape = (m, k) if side == "a" else (k, n)
        tile = self.k.tile(f"{side}0", dtype, *shape, layout=layout, loc=loc, addr=addr)
        self.k.load(f"g{side}", mat, held)
        self.fence()
        if by_tile:
            self.k.op("pto.tmov", [mat], [tile])
            return tile
        source = self.pointer(f"p{side}1", L1[side], dtype, "l1")
        target = self.pointer(f"p{side}0", addr, dtype, f"l0{side}")
        types = f"!pto.ptr<{dtype}, l1>, !pto.ptr<{dtype}, l0{side}>"
        sizes = (lines, 2 * k) if side == "a" else (2 * k, lines)
        self.k.line(
            f"pto.mte_l1_l0{side} {source}, {target}, {self.numbers(*sizes, 0, 0)} : "
            f"{types}, i64, i64, i64, i64"
        )
        return tile

    def groups(self) -> int:
        return self.sizes[1] // (32 if self.how["product"] == "t" else 16)

    def scales(self, side: str, data: Tile) -> Tile:
        m, _k, n = self.sizes
        lines = m if side == "a" else n
        name, at, home = f"s{side}", L1[f"s{side}"], {"a": LEFT, "b": RIGHT}[side] // 16
        layout = {"a": "zz", "b": "nn"}[side]
        keys: dict[str, Any] = {"layout": layout, "fractal": 32}

        def shape(groups: int) -> tuple[int, int]:
            return (m, groups) if side == "a" else (groups, n)

        dtype = "!pto.f8E8M0"
        groups = self.groups()
        tile = self.k.tile(name, dtype, *shape(groups), loc="scaling", addr=home, **keys)
        if self.how[f"s{side}"] == "t":
            mat = self.k.tile(f"{name}1", dtype, *shape(groups), loc="mat", addr=at, **keys)
            self.k.load(f"g{name}", mat)
            self.fence()
            self.k.op("pto.tmov", [mat], [tile])
            return tile
        whole = self.k.arg(f"g{name}", "!pto.ptr<!pto.f8E8M0>")
        source = self.pointer(f"p{name}1", at, dtype, "l1")
        target = self.pointer(f"p{name}0", home * 16, data.dtype, f"l0{side}")
        line = "!pto.ptr<!pto.f8E8M0, l1>"
        size = -(-lines // 16) * -(-groups // 2) * 32
        self.k.line(
            f"pto.mte_gm_l1 {whole}, {source}, {self.numbers(size)} nburst({self.numbers(1, 0, 0)}) "
            f": !pto.ptr<!pto.f8E8M0>, {line}, i64, i64, i64, i64"
        )
        self.fence()
        sizes = (m, 32 * groups) if side == "a" else (32 * groups, n)
        self.k.line(
            f"pto.mte_l1_l0{side}_mx {source}, {target}, {self.numbers(*sizes, 0, 0)} : {line}, "
            f"!pto.ptr<{data.dtype}, l0{side}>, i64, i64, i64, i64"
        )
        return tile

    def run(self, fractal: int = 1024) -> tuple[np.ndarray, np.ndarray, list[str]]:
        m, k, n = self.sizes
        x, y = (RNG.integers(0, 256, shape).astype(np.uint8) for shape in ((m, k), (n, k)))
        groups, width = self.groups(), 2 * k // self.groups()
        sa, sb = (RNG.integers(120, 134, (rows, groups)).astype(np.uint8) for rows in (m, n))
        # a tile of one row is no packed table: its scales lie one after the other
        table = sa.reshape(-1) if m == 1 and self.how["sa"] == "t" else boxes_of_scales(sa)
        args: dict[str, Any] = {
            "ga": x,
            "gb": np.ascontiguousarray(y.T) if self.how["b"] == "t" else y,
            "gsa": table.view(ml_dtypes.float8_e8m0fnu),
            "gsb": boxes_of_scales(sb).view(ml_dtypes.float8_e8m0fnu),
            "out": np.zeros((m, n), np.float32),
        }
        left, right = self.operand("a"), self.operand("b")
        ins = [left, self.scales("a", left), right, self.scales("b", right)]
        acc = self.k.tile("c0", "f32", m, n, layout="nz", fractal=fractal, loc="acc", addr=ACC)
        start = self.first(acc, args)
        self.fence()
        self.product(ins, acc)
        self.fence()
        self.way_out(acc)
        result = self.k.run(args)
        a = numbers_of(self.types[0], x) * np.repeat(2.0 ** (sa.astype(float) - 127), width, 1)
        b = numbers_of(self.types[1], y) * np.repeat(2.0 ** (sb.astype(float) - 127), width, 1)
        found = [f.code for f in result.findings]
        return result.outputs["out"], cube.matmul(a, b.T, start), found

    def micro_product(
        self, name: str, at: int, left: str, right: str, sizes: tuple[int, int, int], apart: bool
    ) -> None:
        m, k, n = sizes
        numbers = 2 * k if left in GRID else k
        super().micro_product(name, at, left, right, (m, numbers, n), apart)


def agree(program: Pairs, **keys: Any) -> None:
    got, expected, findings = program.run(**keys)
    np.testing.assert_array_equal(got, expected)
    assert findings == (["PTO4051"] if program.how["product"] == "t" else [])


@pytest.mark.parametrize("start", ["", "acc", "bias"])
@pytest.mark.parametrize("how", MIXED)
def test_products_of_both_levels(how, start):
    agree(Pairs(how, FORMS[MIXED.index(how) % 4], (32, 128, 64), start))


@pytest.mark.parametrize("how", ["".join(h) for h in itertools.product("tm", repeat=6)][::7])
def test_every_mixture(how):
    agree(Pairs(how, FORMS[1], (16, 192, 32), ""))


@pytest.mark.parametrize("how", ["tttttm", "ttttmt", "tttttt", "ttmmmm", "ttmmtt"])
@pytest.mark.parametrize("start", ["", "bias"])
def test_a_row_of_both_levels(how, start):
    """The left operand of a product of one row is one run of pairs."""
    agree(Pairs(how, FORMS[2], (1, 64, 64), start))
