"""Matrix products against exact sums: types, forms, specials, block scales, modes, places."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ptosim
from tests.ops.semantics.cube_harness import Product
from tests.ops.semantics.helpers import ARRAYS, codes
from tests.oracle import cube, layouts
from tests.oracle import numerics as oracle
from tests.support.text import Kernel

pytestmark = pytest.mark.sampled(5)

TARGETS = ["a2a3", "a5"]
ODD = (19, 37, 21)  # no whole boxes anywhere
RNG = np.random.default_rng(63)


def floats(kind: str, shape: tuple[int, int], *, specials: bool = False) -> np.ndarray:
    """Values whose products a sum of f64 holds exactly, with a few that are not numbers."""
    values = RNG.integers(-31, 32, shape) * np.exp2(RNG.integers(-3, 4, shape))
    if specials:
        flat = values.reshape(-1)
        flat[RNG.integers(0, flat.size, 5)] = [np.nan, np.inf, -np.inf, -0.0, 0.0]
    return values.astype(ARRAYS[kind])


def number(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def same(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal bit by bit, any NaN like any other."""
    both = (
        np.isnan(got) & np.isnan(expected) if got.dtype.kind == "f" else np.zeros(got.shape, bool)
    )
    np.testing.assert_array_equal(
        np.where(both, 0, got.view(np.uint32)), np.where(both, 0, expected.view(np.uint32))
    )


PAIRS = [(t, d, d) for t in TARGETS for d in ("f16", "bf16", "f32")] + [
    ("a5", a, b) for a in ("f8E4M3FN", "f8E5M2") for b in ("f8E4M3FN", "f8E5M2")
]


@pytest.mark.parametrize(("target", "a", "b"), PAIRS)
@pytest.mark.parametrize("specials", [False, True])
def test_float_products(target, a, b, specials):
    m, k, n = ODD
    x, y = floats(a, (m, k), specials=specials), floats(b, (k, n), specials=specials)
    result = Product(target, "pto.tmatmul", (a, b, "f32"), ODD).run(x, y)
    same(result.outputs["c"], cube.matmul(number(x), number(y)))
    assert not codes(result)


def test_hif8_products():
    m, k, n = ODD
    x, y = (RNG.integers(0, 256, s).astype(np.uint8) for s in ((m, k), (k, n)))
    wide = np.array([_hif8(c) for c in range(256)])
    result = Product("a5", "pto.tmatmul", ("hif8", "hif8", "f32"), ODD)
    ARRAYS.setdefault("hif8", np.dtype(np.uint8))
    same(result.run(x, y).outputs["c"], cube.matmul(wide[x], wide[y]))


def _hif8(code: int) -> float:
    return float(oracle.decode(code, "hif8"))


@pytest.mark.parametrize("target", TARGETS)
def test_integer_products(target):
    m, k, n = ODD
    x, y = (RNG.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
    x[0], y[:, 0] = -128, -128
    result = Product(target, "pto.tmatmul", ("i8", "i8", "i32"), ODD).run(x, y)
    np.testing.assert_array_equal(result.outputs["c"], cube.matmul_integers(x, y))


@pytest.mark.parametrize("target", TARGETS)
def test_wide_values_are_rounded_once(target):
    """Sums of f32 products that cancel: the sum in f64 keeps what a sum in f32 loses."""
    m, k, n = 16, 24, 16
    x = (RNG.standard_normal((m, k)) * np.exp2(RNG.integers(-9, 9, (m, k)))).astype(np.float32)
    y = RNG.standard_normal((k, n)).astype(np.float32)
    got = Product(target, "pto.tmatmul", ("f32", "f32", "f32"), (m, k, n)).run(x, y).outputs["c"]
    exact = cube.matmul(number(x), number(y))
    # Two roundings, to f64 and to f32, differ from one in rare ties only.
    assert np.count_nonzero(got != exact) <= 1
    np.testing.assert_allclose(got, exact, rtol=2.0**-23)
    assert np.count_nonzero(cube.matmul_in_order(x, y) != exact) > 20


def test_sums_in_the_order_of_k():
    m, k, n = 16, 37, 16
    x = RNG.standard_normal((m, k)).astype(np.float16)
    y = RNG.standard_normal((k, n)).astype(np.float16)
    run = Product("a2a3", "pto.tmatmul", ("f16", "f16", "f32"), (m, k, n),
                  options={"profile": "cpu"})  # fmt: skip
    same(run.run(x, y).outputs["c"], cube.matmul_in_order(x, y))


@pytest.mark.parametrize("dtype", ["f16", "i8"])
@pytest.mark.parametrize("target", TARGETS)
def test_accumulation(target, dtype):
    m, k, n = ODD
    whole = dtype == "i8"
    x = RNG.integers(-100, 100, (m, k)).astype(ARRAYS[dtype])
    y = RNG.integers(-100, 100, (k, n)).astype(ARRAYS[dtype])
    acc = RNG.integers(-100, 100, (m, n))
    dst = "i32" if whole else "f32"
    result = Product(target, "pto.tmatmul.acc", (dtype, dtype, dst), ODD).run(x, y, acc=acc)
    expected = (cube.matmul_integers if whole else cube.matmul)(x, y, acc)
    np.testing.assert_array_equal(result.outputs["c"], expected)
    assert not codes(result)


@pytest.mark.parametrize(("setting", "adds"), [("operand", True), ("dst", False)])
def test_an_accumulator_in_another_place(setting, adds):
    """The operand is added, or whatever is in dst (poison here: not the operand)."""
    x, y = floats("f16", (16, 16)), floats("f16", (16, 16))
    acc = RNG.integers(-9, 9, (16, 16))
    program = Product("a5", "pto.tmatmul.acc", ("f16", "f16", "f32"), (16, 16, 16),
                      options={"switches": {"matmul.accumulator": setting}}, acc_elsewhere=True)  # fmt: skip
    result = program.run(x, y, acc=acc)
    assert codes(result) == ["PTO6303"]
    expected = cube.matmul(number(x), number(y), acc)
    assert np.array_equal(result.outputs["c"], expected) == adds


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f16", "i8"])
def test_a_bias_for_each_column(target, dtype):
    m, k, n = (19, 37, 32)
    dst = "i32" if dtype == "i8" else "f32"
    x = RNG.integers(-100, 100, (m, k)).astype(ARRAYS[dtype])
    y = RNG.integers(-100, 100, (k, n)).astype(ARRAYS[dtype])
    bias = RNG.integers(-(2**20), 2**20, (1, n)).astype(ARRAYS[dst])
    result = Product(target, "pto.tmatmul.bias", (dtype, dtype, dst), (m, k, n)).run(
        x, y, bias=bias
    )
    expected = (cube.matmul if dst == "f32" else cube.matmul_integers)(x, y, bias)
    np.testing.assert_array_equal(result.outputs["c"], expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", ["", ".acc", ".bias"])
def test_one_row(target, form):
    """The left operand of a product of one row is one run of K elements."""
    m, k, n = 1, 256, 32
    x, y = floats("f16", (m, k)), floats("f16", (k, n))
    start = RNG.integers(-100, 100, (1, n)).astype(np.float32)
    extra = {".acc": {"acc": start}, ".bias": {"bias": start}}.get(form, {})
    product = Product(target, f"pto.tgemv{form}", ("f16", "f16", "f32"), (m, k, n), (1, k, n))
    result = product.run(x, y, **extra)
    expected = cube.matmul(number(x), number(y), start if form else None)
    np.testing.assert_array_equal(result.outputs["c"], expected)


# -- block scales ----------------------------------------------------------------------------------

MX = [
    ("f8E4M3FN", "f8E4M3FN"),
    ("f8E4M3FN", "f8E5M2"),
    ("f8E5M2", "f8E5M2"),
    ("f4E2M1FN", "f4E2M1FN"),
]


@pytest.mark.parametrize(("a", "b"), MX)
@pytest.mark.parametrize("form", ["", ".acc", ".bias"])
def test_block_scales(a, b, form):
    m, k, n = 18, 128, 20 if a != "f4E2M1FN" else 64
    x, y = (_codes(d, s) for d, s in ((a, (m, k)), (b, (k, n))))
    sa = RNG.integers(120, 132, (m, k // 32)).astype(np.uint8)
    sb = RNG.integers(120, 132, (k // 32, n)).astype(np.uint8)
    sa[3, 1] = 255
    start = RNG.integers(-100, 100, (m, n) if form == ".acc" else (1, n)).astype(np.float32)
    extra = {".acc": {"acc": start}, ".bias": {"bias": start}}.get(form, {})
    tiles = (32, k, 32 if n < 32 else 64)
    april = {"compat": "2026-04"} if a == "f4E2M1FN" else {}  # August has pairs of them
    product = Product("a5", f"pto.tmatmul.mx{form}", (a, b, "f32"), (m, k, n), tiles, april)
    result = product.run(x, y, scales=(_e8m0(sa), _e8m0(sb)), **extra)
    expected = cube.matmul(
        cube.scaled(number(x), sa, 1), cube.scaled(number(y), sb, 0), start if form else None
    )
    same(result.outputs["c"], expected)
    assert np.isnan(expected[3]).all()
    assert not codes(result)


def test_a_scaled_row():
    k, n = 128, 32
    x, y = _codes("f8E4M3FN", (1, k)), _codes("f8E4M3FN", (k, n))
    sa, sb = (RNG.integers(120, 132, s).astype(np.uint8) for s in ((1, 4), (4, n)))
    product = Product("a5", "pto.tgemv.mx", ("f8E4M3FN", "f8E4M3FN", "f32"), (1, k, n), (1, k, n))  # fmt: skip
    result = product.run(x, y, scales=(_e8m0(sa), _e8m0(sb)))
    same(
        result.outputs["c"],
        cube.matmul(cube.scaled(number(x), sa, 1), cube.scaled(number(y), sb, 0)),
    )


def _codes(dtype: str, shape: tuple[int, int]) -> np.ndarray:
    """Finite elements of every magnitude."""
    kind = cube.FLOAT_TYPES[dtype]
    bits = 4 if dtype.startswith("f4") else 8
    every = np.arange(1 << bits, dtype=np.uint8).view(kind)
    finite = every[np.isfinite(every.astype(np.float32))]
    return finite[RNG.integers(0, len(finite), shape)]


def _e8m0(values: np.ndarray) -> np.ndarray:
    return values.view(ml_dtypes.float8_e8m0fnu)


@pytest.mark.parametrize("k", [96, 100, 64])
def test_groups_of_a_smaller_k(k):
    """Scales are where their tile has them, also where fewer groups are valid than it has."""
    m, n, groups = 16, 32, -(-k // 32)
    x, y = _codes("f8E4M3FN", (m, k)), _codes("f8E5M2", (k, n))
    sa = RNG.integers(120, 132, (m, groups)).astype(np.uint8)
    sb = RNG.integers(120, 132, (groups, n)).astype(np.uint8)
    april = {"compat": "2026-04"} if groups != 4 else {}  # August places scales of all groups only
    types = ("f8E4M3FN", "f8E5M2", "f32")
    product = Product("a5", "pto.tmatmul.mx", types, (m, k, n), (16, 128, 32), april)
    result = product.run(x, y, scales=(_e8m0(sa), _e8m0(sb)))
    left, right = number(x).copy(), number(y).copy()
    for g in range(groups):
        left[:, 32 * g : 32 * g + 32] *= 2.0 ** (sa[:, g : g + 1].astype(np.float64) - 127)
        right[32 * g : 32 * g + 32] *= 2.0 ** (sb[g : g + 1].astype(np.float64) - 127)
    same(result.outputs["c"], cube.matmul(left, right))


@pytest.mark.parametrize("forms", [("f4E2M1", "f4E2M1"), ("f4E1M2", "f4E2M1")])
@pytest.mark.parametrize(("valid", "bias"), [((16, 64, 32), False), ((5, 64, 32), True)])
def test_pairs_of_fp4(forms, valid, bias):
    """Two numbers an element, the first in the low half, along k; a scale for 32 elements."""
    m, k, n = valid
    x, y = (RNG.integers(0, 256, shape).astype(np.uint8) for shape in ((m, k), (k, n)))
    sa = RNG.integers(120, 132, (m, 2)).astype(np.uint8)
    sb = RNG.integers(120, 132, (2, n)).astype(np.uint8)
    types = (f"!pto.{forms[0]}x2", f"!pto.{forms[1]}x2", "f32")
    op = "pto.tmatmul.mx.bias" if bias else "pto.tmatmul.mx"
    added = np.arange(n, dtype=np.float32).reshape(1, n) if bias else None
    product = Product("a5", op, types, valid, (16, k, n))
    result = product.run(x, y, scales=(_e8m0(sa), _e8m0(sb)), bias=added)
    assert [f.code for f in result.findings] == ["PTO4051"]
    grid = {"f4E2M1": [0, 0.5, 1, 1.5, 2, 3, 4, 6], "f4E1M2": [i / 4 for i in range(8)]}
    numbers = [np.array([*grid[f], *(-v for v in grid[f])]) for f in forms]
    left, right = np.zeros((m, 2 * k)), np.zeros((2 * k, n))
    left[:, 0::2], left[:, 1::2] = numbers[0][x & 15], numbers[0][x >> 4]
    right[0::2], right[1::2] = numbers[1][y & 15], numbers[1][y >> 4]
    left *= np.repeat(2.0 ** (sa.astype(np.float64) - 127), 64, axis=1)
    right *= np.repeat(2.0 ** (sb.astype(np.float64) - 127), 64, axis=0)
    same(result.outputs["c"], cube.matmul(left, right, added))


def test_k_has_whole_pairs_of_groups():
    """Of a scale tile that does not say where its scales are."""
    k = Kernel("a5", compat="2026-04")
    left = k.tile("l", "f8E4M3FN", 16, 128, (16, 96), layout="nz", loc="left")
    right = k.tile("r", "f8E4M3FN", 128, 32, (96, 32), layout="zn", loc="right")
    sa = k.tile("sa", "f8E4M3FN", 16, 128, loc="scaling")
    sb = k.tile("sb", "f8E4M3FN", 128, 32, loc="scaling")
    c = k.tile("c", "f32", 16, 32, layout="nz", fractal=1024, loc="acc")
    k.op("pto.tmatmul.mx", [left, sa, right, sb], [c])
    with pytest.raises(ptosim.Trap) as stopped:
        k.run({})
    assert stopped.value.diagnostics[-1].code == "PTO6304"


# -- HF32 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("target", "bits"), [("a2a3", 11), ("a5", 10)])
@pytest.mark.parametrize("away", [0, 1])
def test_shortened_operands(target, bits, away):
    m, k, n = 16, 16, 16
    x = np.abs(RNG.standard_normal((m, k))).astype(np.float32)
    unit = np.uint32(1 << (23 - bits))  # a half of it, more, and less: ties in both directions
    x.view(np.uint32)[...] &= ~(unit - np.uint32(1))
    x.view(np.uint32)[:, ::2] |= unit >> np.uint32(1)
    x[0, 0], x[1, 1] = np.finfo(np.float32).max, np.inf
    y = np.eye(k, n, dtype=np.float32)
    before = ("%hf = arith.constant 1 : i32", f"pto.sethf32mode ins(%hf : i32) {{mode = {away}}}")
    with np.errstate(invalid="ignore", over="ignore"):
        got = Product(target, "pto.tmatmul", ("f32",) * 3, (m, k, n), before=before).run(x, y)
        short = np.array([[cube.keep_bits(v, bits, bool(away)) for v in row] for row in x])
        same(got.outputs["c"], cube.matmul(number(short), number(y)))
    off = ("%hf = arith.constant 0 : i32", "pto.sethf32mode ins(%hf : i32)")
    exact = Product(target, "pto.tmatmul", ("f32",) * 3, (m, k, n), before=(*before[:2], *(
        line.replace("%hf", "%no") for line in off)))  # fmt: skip
    same(exact.run(x, y).outputs["c"], cube.matmul(number(x), number(y)))


# -- shapes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_the_left_memory_has_the_layout_of_the_target(target):
    seen: dict[str, bytes] = {}

    class Look:
        def on_commit(self, core, inst, bound) -> None:
            if inst.op.name == "pto.tmatmul":
                seen.update(
                    {n: bytes(core.space(n).data[: 32 * 64 * 2]) for n in ("left", "right")}
                )

    x = np.arange(32 * 64, dtype=np.uint16).reshape(32, 64).view(np.float16)
    y = x.reshape(64, 32)
    Product(target, "pto.tmatmul", ("f16", "f16", "f32"), (32, 64, 32)).run(
        x, y, observers=[Look()]
    )
    left, right = (np.frombuffer(seen[n], np.uint16) for n in ("left", "right"))
    layout = "zz" if target == "a2a3" else "nz"
    for r, c in np.ndindex(32, 64):
        assert left[layouts.tile_offset(layout, (32, 64), (r, c), 16)] == r * 64 + c
        assert right[layouts.tile_offset("zn", (64, 32), (c, r), 16)] == c * 32 + r


def test_sizes_that_only_the_run_knows():
    """Dynamic valid shapes; an empty one multiplies nothing."""
    for m in (5, 0):
        k = Kernel("a2a3")
        for name in ("m", "k", "n"):
            k.arg(name, "index")
        left = k.dynamic(
            "left",
            "f16",
            16,
            32,
            ("%m", "%k"),
            loc="left",
            blayout="col_major",
            slayout="row_major",
        )
        right = k.dynamic("right", "f16", 32, 16, ("%k", "%n"), loc="right", slayout="col_major")
        acc = k.dynamic("acc", "f32", 16, 16, ("%m", "%n"), loc="acc", blayout="col_major",
                        slayout="row_major", fractal=1024)  # fmt: skip
        k.op("pto.tmatmul", [left, right], [acc])
        done = []

        class Look:
            def on_commit(self, core, inst, bound, done=done) -> None:
                if inst.op.name == "pto.tmatmul":
                    done.append(np.frombuffer(core.space("acc").data, np.float32)[:256].copy())

        k.run({"m": m, "k": 17, "n": 3}, uninit="zero", observers=[Look()])
        assert not done[0].any()


def test_rows_of_rhs_that_are_not_valid_are_reported():
    k = Kernel("a5")
    left = k.tile("left", "f16", 16, 32, layout="nz", loc="left")
    right = k.tile("right", "f16", 32, 16, (16, 16), layout="zn", loc="right")
    acc = k.tile("acc", "f32", 16, 16, layout="nz", loc="acc", fractal=1024)
    k.op("pto.tmatmul", [left, right], [acc])
    assert codes(k.run({}, uninit="zero")) == ["PTO6302"]
