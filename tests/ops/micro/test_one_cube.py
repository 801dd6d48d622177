"""One cube machine: operands, scales, products and accumulators of tiles and of micro instructions
are the same bytes of the same memories.

The rules: L0A, L0B, L0C, the scale memory of each of L0A and L0B and the fixpipe buffer exist once.
L0C has blocks of 16 rows and 16 columns of 4 bytes, its columns of blocks are ceil(M/16) blocks high.
A product takes its scales at a sixteenth of the address of the data. With one row the left operand
is one run of K values. Each program says for every step whether a tile operation or a micro
instruction makes it; the model knows the matrices and nothing of memories."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops.semantics.test_matmul import number
from tests.oracle import cube
from tests.support.text import Kernel, Tile

RNG = np.random.default_rng(2039)
LEFT, RIGHT, ACC = 0x1000, 0x2000, 0x800
L1 = {"a": 0, "b": 0x10000, "sa": 0x20000, "sb": 0x28000, "bias": 0x30000, "c": 0x38000}
TYPES = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2, "f16": np.float16}


def codes(dtype: str, shape: tuple[int, int]) -> np.ndarray:
    if dtype == "f16":
        return (RNG.integers(-64, 64, shape) / 8).astype(np.float16)
    every = np.arange(256, dtype=np.uint8).view(TYPES[dtype])
    finite = every[np.isfinite(every.astype(np.float32))]
    return finite[RNG.integers(0, len(finite), shape)]


def boxes_of_scales(scales: np.ndarray) -> np.ndarray:
    """Scales [lines, groups] as boxes of 16 lines with two groups each; what fills up is 0."""
    lines, groups = scales.shape
    high, wide = -(-lines // 16), -(-groups // 2)
    flat = np.zeros(high * wide * 32, np.uint8)
    for r, g in np.ndindex(lines, groups):
        flat[(r // 16 * wide + g // 2) * 32 + r % 16 * 2 + g % 2] = scales[r, g]
    return flat


class Program:
    """A product of m, k, n; `how` says for each step whether it is made by a (t)ile operation or a
    (m)icro instruction: data left, data right, scales left, scales right, product, way out."""

    def __init__(self, how: str, types: tuple[str, str], sizes: tuple[int, int, int], start: str):
        self.how = dict(zip(("a", "b", "sa", "sb", "product", "out"), how, strict=True))
        self.types, self.sizes, self.start = types, sizes, start
        self.k = Kernel("a5", level=3)
        self.has_scales = types[0] != "f16"

    def pointer(self, name: str, at: int, type_: str, space: str) -> str:
        self.k.line(
            f"%{name} = pto.castptr {self.k.const(at, 'i64')} : i64 -> !pto.ptr<{type_}, {space}>"
        )
        return f"%{name}"

    def fence(self) -> None:
        self.k.line("pto.barrier #pto.pipe<PIPE_ALL>")

    def numbers(self, *values: int) -> str:
        return ", ".join(self.k.const(v, "i64") for v in values)

    def operand(self, side: str) -> Tile:
        """The matrix a [m, k] in L0A or b [k, n] in L0B."""
        m, k, n = self.sizes
        dtype = self.types["ab".index(side)]
        rows, cols = (m, k) if side == "a" else (k, n)
        loc, addr, layout = ("left", LEFT, "nz") if side == "a" else ("right", RIGHT, "zn")
        mat = self.k.tile(f"{side}1", dtype, rows, cols, layout="nz", loc="mat", addr=L1[side])
        tile = self.k.tile(f"{side}0", dtype, rows, cols, layout=layout, loc=loc, addr=addr)
        self.k.load(f"g{side}", mat, (rows, cols))
        self.fence()
        if self.how[side] == "t":
            self.k.op("pto.tmov", [mat], [tile])
            return tile
        source = self.pointer(f"p{side}1", L1[side], dtype, "l1")
        target = self.pointer(f"p{side}0", addr, dtype, f"l0{side}")
        types = f"!pto.ptr<{dtype}, l1>, !pto.ptr<{dtype}, l0{side}>"
        if side == "a" and m == 1:  # one run of k elements, as they are in L1
            sizes = self.numbers(16, k * np.dtype(TYPES[dtype]).itemsize // 512 * 32 or 32, 0, 0)
            source = self.pointer("pa1b", L1[side], dtype, "l1")
            self.k.line(f"pto.mte_l1_l0a {source}, {target}, {sizes} : {types}, i64, i64, i64, i64")
            return tile
        turned = "" if side == "a" else " {transpose = true}"
        sizes = self.numbers(rows, cols, 0, 0)
        self.k.line(
            f"pto.mte_l1_l0{side} {source}, {target}, {sizes}{turned} : {types}, i64, i64, i64, i64"
        )
        return tile

    def scales(self, side: str, data: Tile) -> Tile:
        """The scales of a matrix beside it; in global memory they are boxes."""
        m, k, n = self.sizes
        groups = k // 32
        shape, layout, lines = ((m, groups), "zz", m) if side == "a" else ((groups, n), "nn", n)
        keys: dict[str, Any] = {"layout": layout, "fractal": 32}
        name, at = f"s{side}", L1[f"s{side}"]
        home = {"a": LEFT, "b": RIGHT}[side] // 16
        tile = self.k.tile(name, "!pto.f8E8M0", *shape, loc="scaling", addr=0, **keys)
        if self.how[f"s{side}"] == "t":
            mat = self.k.tile(f"{name}1", "!pto.f8E8M0", *shape, loc="mat", addr=at, **keys)
            self.k.load(f"g{name}", mat)  # without a layout: a packed table
            self.fence()
            self.k.op("pto.tmov", [mat], [tile])
            self.k.op("pto.tget_scale_addr", [data], [tile])
            return tile
        size = -(-lines // 16) * -(-groups // 2) * 32
        self.k.line(
            f"pto.tget_scale_addr ins(%{data.name} : {data.type}) outs(%{name} : {tile.type})"
        )
        whole = self.k.arg(f"g{name}", "!pto.ptr<!pto.f8E8M0>")
        source = self.pointer(f"p{name}1", at, "!pto.f8E8M0", "l1")
        target = self.pointer(f"p{name}0", home * 16, data.dtype, f"l0{side}")
        line = "!pto.ptr<!pto.f8E8M0, l1>"
        self.k.line(
            f"pto.mte_gm_l1 {whole}, {source}, {self.numbers(size)} nburst({self.numbers(1, 0, 0)}) "
            f": !pto.ptr<!pto.f8E8M0>, {line}, i64, i64, i64, i64"
        )
        self.fence()
        sizes = self.numbers(*((m, k) if side == "a" else (k, n)), 0, 0)
        self.k.line(
            f"pto.mte_l1_l0{side}_mx {source}, {target}, {sizes} : {line}, "
            f"!pto.ptr<{data.dtype}, l0{side}>, i64, i64, i64, i64"
        )
        return tile

    def run(self, fractal: int = 1024) -> tuple[np.ndarray, np.ndarray, list[str]]:
        m, k, n = self.sizes
        args: dict[str, Any] = {
            "ga": codes(self.types[0], (m, k)),
            "gb": codes(self.types[1], (k, n)),
            "out": np.zeros((m, n), np.float32),
        }
        left, right = self.operand("a"), self.operand("b")
        ins = [left, right]
        a, b = number(args["ga"]), number(args["gb"])
        if self.has_scales:
            sa, sb = (
                RNG.integers(120, 134, s).astype(np.uint8) for s in ((m, k // 32), (n, k // 32))
            )
            args["gsa"], args["gsb"] = (
                boxes_of_scales(s).view(ml_dtypes.float8_e8m0fnu) for s in (sa, sb)
            )
            ins = [left, self.scales("a", left), right, self.scales("b", right)]
            a, b = cube.scaled(a, sa, 1), cube.scaled(b, sb.T, 0)
        acc = self.k.tile("c0", "f32", m, n, layout="nz", fractal=fractal, loc="acc", addr=ACC)
        start = self.first(acc, args)
        self.fence()
        self.product(ins, acc)
        self.fence()
        self.way_out(acc)
        result = self.k.run(args)
        return result.outputs["out"], cube.matmul(a, b, start), [f.code for f in result.findings]

    def first(self, acc: Tile, args: dict[str, Any]) -> np.ndarray | None:
        """What the product is added to: biases, which are in the table or, by a product of zeros
        that the other level makes, in the accumulator."""
        m, _, n = self.sizes
        if not self.start:
            return None
        values = RNG.integers(-100, 100, (1, n))
        bias = self.k.tile("bias1", "f32", 1, n, loc="mat", addr=L1["bias"])
        table = self.k.tile("bias0", "f32", 1, n, loc="bias", addr=0)
        args["gbias"] = values.astype(np.float32)
        self.k.load("gbias", bias)
        self.fence()
        self.k.op("pto.tmov", [bias], [table])
        if self.start == "acc":
            zl = self.k.tile("zl", "f16", max(m, 16), 16, layout="nz", loc="left", addr=0x8000)
            zr = self.k.tile("zr", "f16", 16, n, layout="zn", loc="right", addr=0x8000)
            za = self.k.tile("za1", "f16", max(m, 16), 16, layout="nz", loc="mat", addr=L1["c"])
            zb = self.k.tile("zb1", "f16", 16, n, layout="nz", loc="mat", addr=L1["c"] + 0x2000)
            args["gza"] = np.zeros((max(m, 16), 16), np.float16)
            args["gzb"] = np.zeros((16, n), np.float16)
            self.k.load("gza", za)
            self.k.load("gzb", zb)
            self.fence()
            self.k.op("pto.tmov", [za], [zl])
            self.k.op("pto.tmov", [zb], [zr])
            self.fence()
            if self.how["product"] == "m" and m > 1:
                self.k.op("pto.tmatmul.bias", [zl, zr, table], [acc])
            else:
                self.micro_product("mad_bias", 0x8000, "f16", "f16", (m, 16, n), True)
        return np.broadcast_to(values.astype(np.float32), (m, n))

    def micro_product(
        self, name: str, at: int, left: str, right: str, sizes: tuple[int, int, int], apart: bool
    ) -> None:
        suffix = f"{at:x}"
        a = self.pointer(f"ma{suffix}", at or LEFT, left, "l0a")
        b = self.pointer(f"mb{suffix}", at or RIGHT, right, "l0b")
        c = self.pointer(f"mc{suffix}", ACC, "f32", "l0c")
        m, k, n = sizes
        operands = [a, b, c]
        types = [f"!pto.ptr<{left}, l0a>", f"!pto.ptr<{right}, l0b>", "!pto.ptr<f32, l0c>"]
        if name.endswith("_bias"):
            operands.append(self.pointer(f"mt{suffix}", 0, "f32", "bt"))
            types.append("!pto.ptr<f32, bt>")
        flag = " disable_gemv" if apart else ""
        self.k.line(
            f"pto.{name} {', '.join(operands)}, {self.numbers(m, n, k)}{flag} : "
            f"{', '.join(types)}, i64, i64, i64"
        )

    def product(self, ins: list[Tile], acc: Tile) -> None:
        m = self.sizes[0]
        mx = self.has_scales
        if self.how["product"] == "m":
            name = "_".join(("mad", *(["mx"] if mx else []), *([self.start] if self.start else [])))
            self.micro_product(name, 0, *self.types, self.sizes, False)
            return
        op = "pto.tgemv" if m == 1 else "pto.tmatmul"
        op += (".mx" if mx else "") + (f".{self.start}" if self.start else "")
        if self.start == "acc":
            ins = [acc, *ins]
        if self.start == "bias":
            ins = [*ins, Tile("bias0", "f32", 1, self.sizes[2], loc="bias")]
        self.k.op(op, ins, [acc])

    def way_out(self, acc: Tile) -> None:
        m, _, n = self.sizes
        if self.how["out"] == "t":
            self.k.store(acc, "out", (m, n))
            return
        c = self.pointer("oc", ACC, "f32", "l0c")
        out = self.k.arg("out", "!pto.ptr<f32>")
        pitch = -(-m // 16) * 16
        self.k.line(
            f"pto.mte_l0c_gm {c}, {out}, {self.numbers(m, n, pitch, n, 0, 0)}, nz2nd : "
            "!pto.ptr<f32, l0c>, !pto.ptr<f32>, i64, i64, i64, i64, i64, i64"
        )


ALL = ["".join(how) for how in itertools.product("tm", repeat=6)]
MIXED = ["tttttm", "mmmmtt", "ttttmt", "mmmmmt", "mmttmm", "ttmmtt", "tmmttm", "mttmmt", "tttttt"]
FORMS = [("f8E4M3FN", "f8E4M3FN"), ("f8E4M3FN", "f8E5M2"), ("f8E5M2", "f8E5M2")]


def agree(program: Program, **keys: Any) -> None:
    got, expected, findings = program.run(**keys)
    np.testing.assert_array_equal(got, expected)
    assert findings == []


@pytest.mark.parametrize("start", ["", "acc", "bias"])
@pytest.mark.parametrize("how", MIXED)
def test_scaled_products_of_both_levels(how, start):
    """Loaded by one level, multiplied or read back by the other."""
    agree(Program(how, FORMS[MIXED.index(how) % 3], (32, 128, 64), start))


@pytest.mark.parametrize("how", ALL[::7])
def test_every_mixture(how):
    agree(Program(how, FORMS[1], (16, 192, 32), ""))


@pytest.mark.parametrize("how", ["tt__tm", "mm__mt", "tt__mm", "mm__tt"])
@pytest.mark.parametrize("fractal", [512, 1024])
@pytest.mark.parametrize("start", ["", "acc", "bias"])
def test_products_without_scales(how, fractal, start):
    """L0C has the same blocks, whatever fractal the type of the accumulator says."""
    agree(Program(how, ("f16", "f16"), (48, 64, 48), start), fractal=fractal)


@pytest.mark.parametrize("how", ["tttttm", "ttttmt", "tttttt", "ttttmm"])
@pytest.mark.parametrize("start", ["", "bias"])
def test_a_scaled_row_of_both_levels(how, start):
    """The left operand of a product of one row is one run of K values; its accumulator has blocks
    of 16 rows, of which it is the first."""
    agree(Program(how, FORMS[0], (1, 64, 64), start))


@pytest.mark.parametrize("how", ["tt__tm", "tt__mt", "tt__tt", "tt__mm"])
def test_a_row_of_both_levels(how):
    agree(Program(how, ("f16", "f16"), (1, 256, 48), ""))
