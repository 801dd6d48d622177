"""Every product with sizes that only the run knows: odd tails, one element, nothing at all; and the
named orders of the sums. Operands are written into the memories, at the addresses of their layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.test_matmul import floats, number, same
from tests.oracle import cube, layouts
from tests.support.text import Kernel

pytestmark = pytest.mark.slow

TARGETS = ["a2a3", "a5"]
RNG = np.random.default_rng(64)
M, K, N = 16, 128, 32
BACKGROUND = np.float32(-77)
NAMES = [
    (target, f"{op}{form}")
    for target in TARGETS
    for op in ("tmatmul", "tgemv")
    for form in ("", ".acc", ".bias", ".mx", ".mx.acc", ".mx.bias")
    if target == "a5" or ".mx" not in form
]


BESIDE = {"lhs_scale": ("lhs", "left_scale"), "rhs_scale": ("rhs", "right_scale")}


class Memories:
    """Writes operands before the product and reads the accumulator after it."""

    def __init__(self, contents: dict[str, bytes], values: Sequence[np.ndarray]) -> None:
        self.contents = contents
        self.values = values
        self.result = np.zeros(0, np.float32)

    def on_issue(self, core, inst, bound) -> None:
        if bound is None or "lhs" not in bound.binding.values:
            return
        values = bound.binding.values
        for name, data in self.contents.items():
            if name in BESIDE:  # scales belong to the data at 16 times their address
                operand, memory = BESIDE[name]
                addr = values[operand].addr // 16
            else:
                addr, memory = values[name].addr, values[name].type.loc
            core.space(memory).data[addr : addr + len(data)] = data

    def on_commit(self, core, inst, bound) -> None:
        if bound is not None and "lhs" in bound.binding.values:
            addr = bound.binding.values["dst"].addr
            whole = np.frombuffer(core.space("acc").data, np.float32, M * N, addr)
            places = [layouts.tile_offset("nz", (M, N), at, 32, 1024) for at in np.ndindex(M, N)]
            self.result = whole[places].reshape(M, N)


def image(values: np.ndarray, layout: str, fractal: int = 512) -> bytes:
    """Elements at the addresses of a layout."""
    flat = np.zeros(values.size, values.dtype)
    for at in np.ndindex(values.shape):
        place = layouts.tile_offset(layout, values.shape, at, values.itemsize * 8, fractal)
        flat[place] = values[at]
    return flat.tobytes()


def scale_image(codes: np.ndarray) -> bytes:
    """Codes [lines, groups] as the cube reads them."""
    flat = np.zeros(codes.size, np.uint8)
    for line, group in np.ndindex(codes.shape):
        flat[cube.left_scale_offset(line, group, codes.shape[1])] = codes[line, group]
    return flat.tobytes()


NZ: dict[str, Any] = {"blayout": "col_major", "slayout": "row_major"}


def product(target: str, name: str, dtype: str, data: dict[str, np.ndarray], sizes, **options):
    """The accumulator's whole tile after a product of sizes (m, k, n)."""
    if name.startswith("tgemv.mx"):  # a row of 16; August has scales for a row of one
        options["compat"] = "2026-04"
    k = Kernel(target, **options)
    m, depth, n = (k.arg(v, "index") for v in "mkn")
    left = k.dynamic("left", dtype, M, K, (m, depth), loc="left", **NZ)
    right = k.dynamic("right", dtype, K, N, (depth, n), loc="right", slayout="col_major")
    acc = k.dynamic("dst", "f32", M, N, (m, n), loc="acc", fractal=1024, **NZ)
    contents = {
        "lhs": image(data["a"], "zz" if target == "a2a3" else "nz"),
        **({"lhs": data["a"][0].tobytes()} if "gemv" in name else {}),  # one run of K elements
        "rhs": image(data["b"], "zn"),
        "dst": image(data["c"], "nz", 1024),
    }
    ins = [left, right]
    if ".mx" in name:
        kind = "f8E8M0FNU"
        keys: dict[str, Any] = {"fractal": 32, "loc": "scaling"}
        sa = k.tile("sa", kind, M, K // 32, layout="zz", **keys)
        sb = k.tile("sb", kind, K // 32, N, layout="nn", **keys)
        contents |= {"lhs_scale": scale_image(data["sa"]), "rhs_scale": scale_image(data["sb"])}
        ins = [left, sa, right, sb]
    if name.endswith(".acc"):
        ins = [acc, *ins]
    if "other" in data:
        other = k.dynamic("other", "f32", M, N, (m, n), loc="acc", fractal=1024, **NZ)
        ins[0] = other
        contents["acc"] = image(data["other"], "nz", 1024)
    if name.endswith(".bias"):
        ins.append(k.tile("bias", "f32", 1, N, loc="bias"))
        contents["bias"] = data["bias"].tobytes()
    k.op(f"pto.{name}", ins, [acc])
    look = Memories(contents, list(data.values()))
    k.run(dict(zip("mkn", sizes, strict=True)), uninit="zero", observers=[look])
    return look.result


def expected(name: str, data: dict[str, np.ndarray], sizes) -> np.ndarray:
    m, depth, n = sizes
    result = data["c"].copy()
    if 0 in (m, n):
        return result
    if depth == 0:  # nothing is added to the accumulator, to the biases, or to 0
        if not name.endswith(".acc"):
            result[:m, :n] = data["bias"][:, :n] if name.endswith(".bias") else 0
        return result
    a, b = number(data["a"][:m, :depth]), number(data["b"][:depth, :n])
    if ".mx" in name:
        a = cube.scaled(a, data["sa"][:m, : depth // 32], 1)
        b = cube.scaled(b, data["sb"].T[: depth // 32, :n], 0)
    start = None
    if name.endswith(".acc"):
        start = number(data["c"][:m, :n])
    if name.endswith(".bias"):
        start = number(data["bias"][:, :n])
    result[:m, :n] = cube.matmul(a, b, start)
    return result


def operands(dtype: str, *, specials: bool) -> dict[str, np.ndarray]:
    return {
        "a": floats(dtype, (M, K), specials=specials),
        "b": floats(dtype, (K, N)),
        "c": np.full((M, N), BACKGROUND),
        "bias": RNG.integers(-9, 9, (1, N)).astype(np.float32),
        "sa": RNG.integers(120, 134, (M, K // 32)).astype(np.uint8),
        "sb": RNG.integers(120, 134, (N, K // 32)).astype(np.uint8),
    }


@pytest.mark.parametrize(("target", "name"), NAMES)
def test_sizes_that_only_the_run_knows(target, name):
    """Elements outside m x n keep what they had; an empty product changes nothing."""
    rows = 1 if "gemv" in name else 5
    depths = (64, 128) if ".mx" in name else (1, 37)
    dtype = "f8E4M3FN" if ".mx" in name else "f16"
    data = operands(dtype, specials=True)
    for sizes in ((rows, depths[0], 1), (rows, depths[1], 29), (0, depths[1], 29), (rows, 0, 29),
                  (rows, depths[1], 0)):  # fmt: skip
        with np.errstate(invalid="ignore"):
            same(product(target, name, dtype, data, sizes), expected(name, data, sizes))


SPECIALS = (np.nan, np.inf, -np.inf, -0.0, 65504.0, -(2.0**-24))


@pytest.mark.parametrize(("target", "name"), NAMES)
def test_an_operand_that_is_no_ordinary_number(target, name):
    """It meets one row; zeros of a row alone keep the rules of IEEE sums."""
    rows = 1 if "gemv" in name else 3
    dtype = "f8E5M2" if ".mx" in name else "f16"
    sizes = (rows, 64, 5)
    for special in SPECIALS:
        data = operands(dtype, specials=False)
        data["a"][0, 0] = special
        if special == 0:
            data["a"][0] = special
        with np.errstate(invalid="ignore", over="ignore"):
            same(product(target, name, dtype, data, sizes), expected(name, data, sizes))


def in_order(name: str, data: dict[str, np.ndarray], sizes, step: int) -> np.ndarray:
    """The accumulator rounded to f32 after every `step` products along k."""
    m, depth, n = sizes
    a, b = number(data["a"][:m, :depth]), number(data["b"][:depth, :n])
    if ".mx" in name:
        a = cube.scaled(a, data["sa"][:m, : depth // 32], 1)
        b = cube.scaled(b, data["sb"].T[: depth // 32, :n], 0)
    total = np.zeros((m, n), np.float32)
    if name.endswith((".acc", ".bias")):
        total += data["c"][:m, :n] if name.endswith(".acc") else data["bias"][:, :n]
    for k in range(0, depth, step):
        total = cube.matmul_once(a[:, k : k + step], b[k : k + step], total)
    return total


@pytest.mark.sampled(3, 8)
@pytest.mark.parametrize(("target", "name"), NAMES)
def test_named_orders_of_the_sums(target, name):
    """A sum of f32 depends on its order: once rounded, product by product, or by blocks of 16. The
    products are exact in f32, the sum of a block of 16 in f64. The default rounds the sum of an
    instruction before it adds it to what is there."""
    dtype = "f8E4M3FN" if ".mx" in name else "f16"
    sizes = (1 if "gemv" in name else 3, K, 7)
    data = operands(dtype, specials=False)
    if dtype == "f16":
        data["a"] = (RNG.standard_normal((M, K)) * 100).astype(np.float16)
        data["b"] = (RNG.standard_normal((K, N)) * 100).astype(np.float16)
    data["c"] = (RNG.standard_normal((M, N)) * 1000).astype(np.float32)
    data["bias"] = (RNG.standard_normal((1, N)) * 1000).astype(np.float32)
    m, _, n = sizes
    steps = {"f64": K, "sequential": 1, "blocks": 16}
    wanted = {order: in_order(name, data, sizes, step) for order, step in steps.items()}
    for order, expected_sums in wanted.items():
        got = product(target, name, dtype, data, sizes, switches={"matmul.order": order})
        same(got[:m, :n], expected_sums)
    same(product(target, name, dtype, data, sizes)[:m, :n], expected(name, data, sizes)[:m, :n])
    if dtype == "f16" and name == "tmatmul":
        assert len({w.tobytes() for w in wanted.values()}) == 3


@pytest.mark.parametrize(("target", "name"), [n for n in NAMES if n[1].endswith(".acc")])
def test_the_accumulator_of_every_form(target, name):
    """An accumulator in another place than the result: it is added, or what is in the result."""
    dtype = "f8E4M3FN" if ".mx" in name else "f16"
    data, sizes = operands(dtype, specials=False), (1 if "gemv" in name else 3, 64, 5)
    data["other"] = RNG.integers(-99, 99, (M, N)).astype(np.float32)
    m, _, n = sizes
    for setting in ("operand", "dst"):
        switches = {"matmul.accumulator": setting}
        got = product(target, name, dtype, data, sizes, switches=switches)
        begin = data | ({"c": data["other"]} if setting == "operand" else {})
        same(got[:m, :n], expected(name, begin, sizes)[:m, :n])


@pytest.mark.parametrize("sizes", [(16, 129, 32), (17, 16, 32)])
def test_sizes_beyond_the_tiles_stop_the_run(sizes):
    with pytest.raises(ptosim.Trap):
        product("a5", "tmatmul", "f16", operands("f16", specials=False), sizes)
