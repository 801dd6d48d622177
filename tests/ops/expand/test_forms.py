"""Selections, comparisons, reductions along columns, places of extremes, partial operations and more
give the same bytes as their vector regions, also where only the run knows the valid shapes.

The two levels have separate implementations; numbers have NaN, infinities and zeros of both signs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.ops.lower.program import expand
from tests.ops.expand.test_rows import ARRAYS, ROWS, numbers
from tests.support.text import Kernel

Arrays = dict[str, np.ndarray]
FLAT = ("f32", "f16", "i32", "i16")
INTEGERS = ("i32", "i16")


def same(k: Kernel, args: Arrays, out: Arrays) -> ptosim.Result:
    """All operations are written out, and leave the bytes that they left."""
    expanded = expand(Source("tile.pto", k.text()))
    assert [kept.reason for kept in expanded.kept] == []
    expected = k.run({**args, **out}).outputs
    found = ptosim.load(expanded.text).run({**args, **out})
    for name in out:
        assert found.outputs[name].tobytes() == expected[name].tobytes()
    return found


def operand(k: Kernel, name: str, elem: str, cols: int, pitch: int, form: str):
    """A tile whose valid shape its type has, constants give, or only the run."""
    if form == "type":
        return k.tile(name, elem, ROWS, pitch, (ROWS, cols))
    if form == "constants":
        return k.dynamic(name, elem, ROWS, pitch, (k.const(ROWS), k.const(cols)))
    return k.dynamic(name, elem, ROWS, pitch, (k.arg("nr", "index"), k.arg("nc", "index")))


def extents(form: str, cols: int) -> dict:
    return {"nr": ROWS, "nc": cols} if form == "run" else {}


def column(elem: str, seed: int) -> np.ndarray:
    return np.ascontiguousarray(numbers(elem, (ROWS, 3), seed)[:, :1])


FORMS = ("type", "constants", "run")


@pytest.mark.sampled(3, 24)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("elem", FLAT)
@pytest.mark.parametrize("op", ["tcolsum", "tcolmax", "tcolmin", "tcolprod"])
def test_reductions_of_columns(op, elem, form):
    k, cols = Kernel("a5"), 200
    a, dst = operand(k, "a", elem, cols, 256, form), k.tile("dst", elem, 1, 256, (1, cols))
    k.load("in", a, (ROWS, cols))
    k.op(f"pto.{op}", [a], [dst])
    k.store(dst, "out", (1, cols))
    args = {"in": numbers(elem, (ROWS, cols), 1), **extents(form, cols)}
    same(k, args, {"out": np.zeros((1, cols), ARRAYS[elem])})


@pytest.mark.parametrize("rows", [1, 2, 5, 16, 23])
def test_columns_added_in_pairs(rows):
    """An odd last row joins the last pair of its level."""
    k = Kernel("a5")
    a, tmp = k.tile("a", "f32", rows, 64), k.tile("tmp", "f32", rows, 64)
    dst = k.tile("dst", "f32", 1, 64)
    k.load("in", a)
    k.op("pto.tcolsum", [a, tmp], [dst], "isBinary = true")
    k.store(dst, "out")
    data = np.random.default_rng(rows).normal(0, 30, (rows, 64)).astype(np.float32)
    same(k, {"in": data}, {"out": np.zeros((1, 64), np.float32)})


@pytest.mark.sampled(3, 24)
@pytest.mark.parametrize(("elem", "cols", "form"), [
    *product(("f32", "i32"), (40, 200), FORMS), ("f16", 200, "type"), ("i16", 200, "run"),
])  # fmt: skip
@pytest.mark.parametrize("op", ["tcolargmax", "tcolargmin", "trowargmax", "trowargmin"])
def test_places_of_extremes(op, elem, cols, form):
    """The first of equal ones; a NaN is never one."""
    k, along = Kernel("a5"), "col" in op
    a, tmp = (operand(k, n, elem, cols, 208, form) for n in ("a", "tmp"))
    if along:
        dst, best = (k.tile(n, e, 1, 208, (1, cols)) for n, e in (("d", "i32"), ("b", elem)))
    else:
        dst, best = (k.tile(n, e, ROWS, 1, layout="dn") for n, e in (("d", "i32"), ("b", elem)))
    shape = (1, cols) if along else (ROWS, 1)
    k.load("in", a, (ROWS, cols))
    k.op(f"pto.{op}", [a, tmp], [best, dst])
    k.store(dst, "out", shape if along else None)
    k.store(best, "best", shape if along else None)
    data = numbers(elem, (ROWS, cols), 3)
    data = data >> (30 if elem == "i32" else 12) if elem in INTEGERS else np.round(data / 40) * 40
    args = {"in": data.astype(ARRAYS[elem]), **extents(form, cols)}
    same(k, args, {"out": np.zeros(shape, np.int32), "best": np.zeros(shape, ARRAYS[elem])})


@pytest.mark.sampled(3, 30)
@pytest.mark.parametrize("op", ["tabs", "tadd", "trsqrt", "tdivs", "tdivs_by", "tcvt", "trowsum",
                                "trowmax", "trowexpand", "trowexpandmul", "tcolexpandadd"])  # fmt: skip
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cols", [40, 200])
def test_valid_shapes_in_every_form(op, cols, form):
    k = Kernel("a5")
    a, tmp = (operand(k, n, "f32", cols, 208, form) for n in ("a", "tmp"))
    k.load("in", a, (ROWS, cols))
    args = {"in": numbers("f32", (ROWS, cols), 7), **extents(form, cols)}
    made, size, kind = operand(k, "dst", "f32", cols, 208, form), (ROWS, cols), "f32"
    ins, name = [a], op
    if op.startswith("tdivs"):
        scalar = (k.arg("s", "f32"), "f32")
        ins, name, args["s"] = [a, scalar], "tdivs", np.float32(3.5)
        ins = ins[::-1] if op == "tdivs_by" else ins
    elif op == "tadd":
        ins = [a, a]
    elif op == "tcvt":
        made, kind = operand(k, "half", "f16", cols, 208, form), "f16"
    elif op in ("trowsum", "trowmax"):
        ins, made, size = [a, tmp], k.tile("one", "f32", ROWS, 1, layout="dn"), (ROWS, 1)
    elif "expand" in op:
        one = op != "tcolexpandadd"
        b = (
            k.tile("b", "f32", ROWS, 1, layout="dn")
            if one
            else k.tile("b", "f32", 1, 208, (1, cols))
        )
        k.load("in1", b, None if one else (1, cols))
        args["in1"] = column("f32", 8) if one else numbers("f32", (ROWS, cols), 8)[7:8]
        ins = [b] if op == "trowexpand" else [a, b]
    k.op(f"pto.{name}", ins, [made])
    k.store(made, "out", None if size == (ROWS, 1) else size)
    same(k, args, {"out": np.zeros(size, ARRAYS[kind])})


@pytest.mark.sampled(3, 12)
@pytest.mark.parametrize("cols", [64, 128, 200, 256, 300])
@pytest.mark.parametrize("elem", [*FLAT, "i8"])
def test_a_comparison_and_a_selection_by_it(elem, cols):
    """Nothing reads a bit of the mask that nothing wrote."""
    k = Kernel("a5")
    a, b, dst = (k.tile(n, elem, ROWS, 320, (ROWS, cols)) for n in "abd")
    mask, tmp = k.tile("mask", "i8", ROWS, 320, (ROWS, cols)), k.tile("tmp", elem, 1, 320)
    k.load("in0", a, (ROWS, cols))
    k.load("in1", b, (ROWS, cols))
    k.op("pto.tcmp", [a, b], [mask], "cmpMode = #pto<cmp lt>")
    k.op("pto.tsel", [mask, a, b, tmp], [dst])
    k.store(dst, "out", (ROWS, cols))
    args = {"in0": numbers(elem, (ROWS, cols), 3), "in1": numbers(elem, (ROWS, cols), 4)}
    found = same(k, args, {"out": np.zeros((ROWS, cols), ARRAYS[elem])})
    assert not {d.code for d in found.findings} & {"PTO7101", "PTO7102"}


@pytest.mark.parametrize("word", ["eq", "ne", "lt", "ge"])
@pytest.mark.parametrize(("elem", "cols"), [
    ("f32", 64), ("f32", 128), ("f32", 256), ("i32", 64), ("f16", 128), ("f16", 200), ("i16", 256),
    ("i8", 64), ("i8", 256),
])  # fmt: skip
def test_a_comparison_with_a_scalar(elem, cols, word):
    """Groups of bits are back to back over all rows: rows of whole groups are one run of them."""
    k = Kernel("a5")
    pitch = cols if cols != 200 else 224
    a, mask = (
        k.tile("a", elem, ROWS, pitch, (ROWS, cols)),
        k.tile("m", "i8", ROWS, 256, (ROWS, cols)),
    )
    k.load("in", a, (ROWS, cols))
    k.op("pto.tcmps", [a, (k.arg("s", elem), elem)], [mask], f"cmpMode = #pto<cmp {word}>")
    k.store(mask, "out", (ROWS, cols))
    args = {"in": numbers(elem, (ROWS, cols), 3), "s": ARRAYS[elem](2)}
    same(k, args, {"out": np.zeros((ROWS, cols), np.int8)})


def test_a_selection_of_a_scalar():
    k, cols = Kernel("a5"), 200
    a, dst = (k.tile(n, "f32", ROWS, 208, (ROWS, cols)) for n in "ad")
    mask, tmp = k.tile("m", "i8", ROWS, 224, (ROWS, cols)), k.tile("tmp", "f32", 1, 208)
    k.load("in", a, (ROWS, cols))
    k.op("pto.tcmp", [a, a], [mask], "cmpMode = #pto<cmp eq>")
    k.op("pto.tsels", [mask, a, tmp, (k.arg("s", "f32"), "f32")], [dst])
    k.store(dst, "out", (ROWS, cols))
    args = {"in": numbers("f32", (ROWS, cols), 3), "s": np.float32(2)}
    outputs = same(k, args, {"out": np.zeros((ROWS, cols), np.float32)}).outputs
    assert not np.isnan(outputs["out"]).any()


CORNER = ((16, 96), (9, 32))


@pytest.mark.sampled(3, 24)
@pytest.mark.parametrize(("elem", "shapes"), [
    *product(("f32", "i32"), (((16, 64), (16, 64)), ((8, 64), (16, 64)), ((16, 64), (16, 32)), CORNER)),
    ("f16", CORNER), ("i16", CORNER),
])  # fmt: skip
@pytest.mark.parametrize("op", ["tpartadd", "tpartmax", "tpartmin", "tpartmul", "tpartargmax",
                                "tpartargmin"])  # fmt: skip
def test_partial_operations(op, elem, shapes):
    k = Kernel("a5")
    whole = tuple(map(max, *shapes))
    tiles = [k.tile(n, elem, 16, 96, v) for n, v in zip("abd", (*shapes, whole), strict=True)]
    args = {}
    for name, tile, shape in zip(("in0", "in1"), tiles, shapes, strict=False):
        k.load(name, tile, shape)
        args[name] = numbers(elem, shape, len(args))
    out = {"out": np.zeros(whole, ARRAYS[elem])}
    if "arg" in op:
        places = [k.tile(n, "i32", 16, 96, v) for n, v in zip("xyz", (*shapes, whole), strict=True)]
        for name, tile, shape in zip(("at0", "at1"), places, shapes, strict=False):
            k.load(name, tile, shape)
            args[name] = np.arange(np.prod(shape), dtype=np.int32).reshape(shape) + 1000 * len(args)
        k.op(f"pto.{op}", [*tiles[:2], *places[:2]], [tiles[2], places[2]])
        k.store(places[2], "places", whole)
        out["places"] = np.zeros(whole, np.int32)
    else:
        k.op(f"pto.{op}", tiles[:2], tiles[2:])
    k.store(tiles[2], "out", whole)
    same(k, args, out)


SCALARS = {"tlrelu": "f32", "tshls": "i16", "tshrs": "i16", "taxpy": "", "taddsc": "", "tsubsc": ""}


@pytest.mark.parametrize(("op", "elem"), [
    ("tlrelu", "f32"), ("tprelu", "f32"), ("tprelu", "f16"), ("tshls", "i32"), ("tshrs", "i16"),
    ("taxpy", "f32"), ("taxpy", "f16"), *((f"t{w}{c}", e) for w in ("add", "sub") for c in ("c", "sc")
                                          for e in FLAT),
])  # fmt: skip
def test_several_steps_for_each_element(op, elem):
    k, cols = Kernel("a5"), 144
    tiles = [k.tile(n, elem, ROWS, cols) for n in "abcd"]
    for name, tile in zip(("in0", "in1", "in2", "in3"), tiles, strict=True):
        k.load(name, tile)
    args = {f"in{i}": numbers(elem, (ROWS, cols), i) for i in range(4)}
    ins = list(tiles[:3]) if op.endswith("c") else list(tiles[:1])
    if op in SCALARS:
        kind = SCALARS[op] or elem
        args["s"] = ARRAYS[kind](3)
        ins = [tiles[0], (k.arg("s", kind), kind), *([tiles[1]] if op.endswith("c") else [])]
    elif op == "tprelu":
        ins = [*tiles[:2], k.tile("tmp", "i8", ROWS, 160)]
    k.op(f"pto.{op}", ins, tiles[3:])
    k.store(tiles[3], "out")
    same(k, args, {"out": np.zeros((ROWS, cols), ARRAYS[elem])})


def test_what_only_the_run_knows_is_said_as_a_bound():
    k = Kernel("a5")
    a = operand(k, "a", "f32", 64, 64, "run")
    k.op("pto.tabs", [a], [a])
    text = expand(Source("tile.pto", k.text())).text
    assert "// pto.tabs: at most " in text
    assert "pto.tile_valid_rows %a" in text


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("elem", ["f32", "i32"])
def test_gathers_by_index(elem, form):
    """Indices count elements of the source in memory order, rows of another length included."""
    k, cols = Kernel("a5"), 100
    src = k.tile("src", elem, 8, 72)
    places, dst = (operand(k, n, e, cols, 128, form) for n, e in (("at", "i32"), ("dst", elem)))
    k.load("in", src, (8, 72))
    k.load("places", places, (ROWS, cols))
    k.op("pto.tgather", [src, places, k.tile("tmp", "i32", ROWS, 128)], [dst])
    k.store(dst, "out", (ROWS, cols))
    rng = np.random.default_rng(5)
    args = {"in": numbers(elem, (8, 72), 1), **extents(form, cols)}
    args["places"] = rng.integers(0, 8 * 72, (ROWS, cols), np.int32)
    found = same(k, args, {"out": np.zeros((ROWS, cols), ARRAYS[elem])})
    assert np.array_equal(
        found.outputs["out"].view("u4"), args["in"].reshape(-1)[args["places"]].view("u4")
    )


@pytest.mark.parametrize(("rows", "cols"), [(16, 32), (64, 64), (96, 16), (8, 208)])
@pytest.mark.parametrize("elem", FLAT)
def test_transposes(elem, rows, cols):
    k = Kernel("a5")
    turned = -(-rows // 16) * 16
    src, dst = k.tile("src", elem, rows, cols), k.tile("dst", elem, cols, turned, (cols, rows))
    k.load("in", src, (rows, cols))
    k.op("pto.ttrans", [src, k.tile("tmp", elem, rows, cols)], [dst])
    k.store(dst, "out", (cols, rows))
    args = {"in": numbers(elem, (rows, cols), 3)}
    found = same(k, args, {"out": np.zeros((cols, rows), ARRAYS[elem])})
    assert found.outputs["out"].tobytes() == np.ascontiguousarray(args["in"].T).tobytes()


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("cols", [64, 200])
@pytest.mark.parametrize("elem", ["i32", "i16"])
def test_numbers_that_count(elem, cols, step):
    k = Kernel("a5")
    pitch = -(-cols // 16) * 16
    dst, tmp = k.tile("dst", elem, 1, pitch, (1, cols)), k.tile("tmp", "f32", 1, 512)
    k.op("pto.tci", [(k.arg("s", elem), elem), tmp], [dst], "descending = true" if step < 0 else "")
    k.store(dst, "out", (1, cols))
    found = same(k, {"s": ARRAYS[elem](-7)}, {"out": np.zeros((1, cols), ARRAYS[elem])})
    assert found.outputs["out"].reshape(-1).tolist() == list(range(-7, cols * step - 7, step))


@pytest.mark.parametrize("by_tile", [True, False])
@pytest.mark.parametrize("elem", INTEGERS)
def test_powers_of_integers(elem, by_tile):
    """By squares, modulo the type; of a negative exponent the truncated fraction."""
    k, cols = Kernel("a5"), 48
    a, b, dst = (k.tile(n, elem, ROWS, cols) for n in ("a", "b", "dst"))
    k.load("in", a)
    k.load("by", b)
    if by_tile:
        k.op("pto.tpow", [a, b], [dst])
    else:
        k.op("pto.tpows", [a, (k.arg("s", elem), elem)], [dst])
    k.store(dst, "out")
    rng, kind = np.random.default_rng(5), ARRAYS[elem]
    bases, exponents = rng.integers(-9, 10, (ROWS, cols)), rng.integers(-4, 40, (ROWS, cols))
    args = {
        "in": bases.astype(kind),
        "by": exponents.astype(kind),
        **({} if by_tile else {"s": kind(5)}),
    }
    found = same(k, args, {"out": np.zeros((ROWS, cols), kind)})
    width = kind(0).nbytes * 8
    for made, base, power in zip(
        found.outputs["out"].flat, bases.flat, exponents.flat, strict=True
    ):
        power = int(power) if by_tile else 5
        unit = {1: 1, -1: -1 if power % 2 else 1}.get(int(base), 0)
        exact = unit if power < 0 else int(base) ** power
        assert (int(made) - exact) % (1 << width) == 0


@pytest.mark.parametrize(
    ("rows", "cols", "rounds"), [(1, 64, 7), (3, 256, 10), (2, 520, 10), (4, 24, 7)]
)
@pytest.mark.parametrize("elem", ["i32", "ui32"])
def test_random_numbers(elem, rows, cols, rounds):
    """Products of 64 bits, and a counter of 128 bits that carries."""
    k = Kernel("a5")
    dst = k.tile("dst", elem, rows, cols)
    numbers_ = [k.arg(n, "i32") for n in ("k0", "k1", "c0", "c1", "c2", "c3")]
    k.op("pto.trandom", [(n, "i32") for n in numbers_], [dst], f"rounds = {rounds}")
    k.store(dst, "out")
    args = {"k0": 17, "k1": -5, "c0": -20, "c1": -1, "c2": -1, "c3": 9}
    same(k, args, {"out": np.zeros((rows, cols), np.dtype(elem.replace("i", "int")))})


STEPS = {"P1111": (1, 0), "P0101": (2, 0), "P1010": (2, 1), "P0010": (4, 1), "P1000": (4, 3)}


@pytest.mark.parametrize("axis", ["row", "col"])
@pytest.mark.parametrize("elem", ["f32", "i16"])
@pytest.mark.parametrize("pattern", STEPS)
def test_patterns_gather_and_scatter(pattern, elem, axis):
    """A pattern keeps each second or fourth column or row; scattered, the others become zero."""
    k, (step, first), rows, cols = Kernel("a5"), STEPS[pattern], 8, 32
    wide = (rows, cols * step) if axis == "row" else (rows * step, cols)
    src, few = k.tile("src", elem, *wide), k.tile("few", elem, rows, cols)
    back = k.tile("back", elem, *wide)
    k.load("in", src)
    attrs = f'maskPattern = #pto.mask_pattern<{pattern}>, axis = "{axis}"'
    k.op("pto.tgather", [src], [few], attrs)
    k.op("pto.tscatter", [few], [back], attrs)
    k.store(few, "kept")
    k.store(back, "whole")
    data = numbers(elem, wide, 7)
    out = {"kept": np.zeros((rows, cols), data.dtype), "whole": np.ones(wide, data.dtype)}
    found = same(k, {"in": data}, out).outputs
    part = np.s_[:, first::step] if axis == "row" else np.s_[first::step]
    spread = np.zeros(wide, data.dtype)
    spread[part] = data[part]
    assert found["kept"].tobytes() == np.ascontiguousarray(data[part]).tobytes()
    assert found["whole"].tobytes() == spread.tobytes()


@pytest.mark.parametrize("form", ["type", "run"])
@pytest.mark.parametrize("elem", FLAT)
def test_scatters_by_index(elem, form):
    """Of equal indices the last one in row order stays; what no index names is zero."""
    k, cols = Kernel("a5"), 100
    number = "i32" if elem.endswith("32") else "i16"
    src, at = (operand(k, n, e, cols, 112, form) for n, e in (("src", elem), ("at", number)))
    dst = k.tile("dst", elem, ROWS, 128)
    k.load("in", src, (ROWS, cols))
    k.load("places", at, (ROWS, cols))
    k.op("pto.tscatter", [src, at], [dst])
    k.store(dst, "out")
    rng = np.random.default_rng(6)
    args = {"in": numbers(elem, (ROWS, cols), 1), **extents(form, cols)}
    args["places"] = rng.integers(0, ROWS * 128, (ROWS, cols), ARRAYS[number])
    found = same(k, args, {"out": np.ones((ROWS, 128), ARRAYS[elem])})
    wanted = np.zeros(ROWS * 128, ARRAYS[elem])
    for place, value in zip(args["places"].reshape(-1), args["in"].reshape(-1), strict=True):
        wanted[place] = value
    assert found.outputs["out"].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("diagonal", [-3, 5, 40_000, -40_000])
@pytest.mark.parametrize("elem", ["f16", "i32"])
def test_triangles(elem, diagonal, upper):
    k, rows, cols = Kernel("a5"), 24, 208
    dst = k.tile("dst", elem, rows, cols, (rows, 200))
    k.op("pto.ttri", [(k.arg("d", "i32"), "i32")], [dst], f"upperOrLower = {upper} : i32")
    k.store(dst, "out", (rows, 200))
    found = same(k, {"d": diagonal}, {"out": np.zeros((rows, 200), ARRAYS[elem])})
    apart = np.arange(200) - np.arange(rows)[:, None]
    inside = apart >= diagonal if upper else apart <= diagonal
    assert np.array_equal(found.outputs["out"], inside.astype(ARRAYS[elem]))


@pytest.mark.parametrize("form", ["type", "run"])
@pytest.mark.parametrize("elem", FLAT)
@pytest.mark.parametrize("op", ["trowprod", "trowsum", "trowmax", "trowmin"])
def test_products_sums_and_extremes_of_rows(op, elem, form):
    """Neighbors in pairs, level by level, in each register; registers from left to right."""
    k, cols = Kernel("a5"), 200
    a, tmp = (operand(k, n, elem, cols, 208, form) for n in ("a", "tmp"))
    dst = k.tile("dst", elem, ROWS, 1, layout="dn")
    k.load("in", a, (ROWS, cols))
    k.op(f"pto.{op}", [a, tmp], [dst])
    k.store(dst, "out")
    data = np.random.default_rng(cols).normal(1, 0.2, (ROWS, cols))
    data = (data * 3 if elem.startswith("i") else data).astype(ARRAYS[elem])
    data[0, 0] = 0 if elem.startswith("i") else np.nan
    same(k, {"in": data, **extents(form, cols)}, {"out": np.zeros((ROWS, 1), data.dtype)})
