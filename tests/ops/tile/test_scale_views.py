"""Views of tables of scales: boxes of 16 lines with two groups each, loaded into the tiles that hold
them in L1, and products with them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ptosim
from tests.ops.semantics.test_matmul import number
from tests.oracle import cube, layouts
from tests.support.text import Kernel

RNG = np.random.default_rng(3)
LINES, GROUPS = 32, 4


class Peek:
    """Keeps the bytes of L1 after the last instruction."""

    data = b""

    def on_commit(self, core, inst, bound) -> None:
        if "mat" in core.spaces:
            self.data = bytes(core.spaces["mat"].data)


def tables(lines: int, groups: int) -> dict[str, int | list[int]]:
    """Sizes and strides of a whole table."""
    return {
        "sizes": [1, lines // 16, groups // 2, 16, 2],
        "strides": [lines * groups, 16 * groups, 32, 2, 1],
    }


def boxed(scales: np.ndarray) -> np.ndarray:
    """Scales [line, group] in the order of the table."""
    lines, groups = scales.shape
    flat = np.zeros(scales.size, np.uint8)
    for line, group in np.ndindex(lines, groups):
        flat[layouts.exponent_zz(line, group, groups)] = scales[line, group]
    return flat


@pytest.mark.parametrize("side", ["mx_a_zz", "mx_b_nn"])
@pytest.mark.parametrize("dtype", ["ui8", "!pto.f8E8M0"])
def test_a_table_is_loaded_as_it_is(side, dtype):
    """Its boxes are those of the tile."""
    k = Kernel("a5")
    shape, layout = ((LINES, GROUPS), "zz") if side == "mx_a_zz" else ((GROUPS, LINES), "nn")
    tile = k.tile("t", dtype, *shape, layout=layout, fractal=32, loc="mat", addr=0)
    k.load("s", tile, layout=side, **tables(LINES, GROUPS))
    data = RNG.integers(0, 256, LINES * GROUPS).astype(np.uint8)
    peek = Peek()
    given = data if dtype == "ui8" else data.view(ml_dtypes.float8_e8m0fnu)
    result = k.run({"s": given}, observers=[peek])
    assert peek.data[: data.size] == data.tobytes()
    assert [f.code for f in result.findings] == []


def test_a_window_of_a_table():
    """The second 16 lines, the last two groups."""
    k = Kernel("a5")
    tile = k.tile("t", "ui8", 16, 2, layout="zz", fractal=32, loc="mat", addr=0)
    whole = tables(LINES, GROUPS)
    k.load("s", tile, [1, 1, 1, 16, 2], strides=whole["strides"], layout="mx_a_zz",
           offsets=[0, 1, 1, 0, 0], shape=whole["sizes"])  # fmt: skip
    scales = RNG.integers(0, 256, (LINES, GROUPS)).astype(np.uint8)
    peek = Peek()
    k.run({"s": boxed(scales)}, observers=[peek])
    assert peek.data[:32] == scales[16:, 2:].reshape(-1).tobytes()


def test_a_product_with_tables():
    """Scales of both matrices come from tables; each element of k has those of its group."""
    m, depth, n = 16, 128, 32
    k = Kernel("a5")
    codes = np.arange(256, dtype=np.uint8)
    finite = codes[(codes & 127) != 127]
    x, y = (finite[RNG.integers(0, len(finite), s)] for s in ((m, depth), (depth, n)))
    x, y = (v.view(ml_dtypes.float8_e4m3fn) for v in (x, y))
    sa = RNG.integers(120, 132, (m, depth // 32)).astype(np.uint8)
    sb = RNG.integers(120, 132, (n, depth // 32)).astype(np.uint8)
    parts = []
    for name, dims, layout, side, lines in (
        ("a", (m, depth), "nz", "mx_a_zz", m), ("b", (depth, n), "zn", "mx_b_nn", n),
    ):  # fmt: skip
        loc = "left" if name == "a" else "right"
        mat = k.tile(f"{name}_mat", "f8E4M3FN", *dims, layout="nz", loc="mat")
        operand = k.tile(name, "f8E4M3FN", *dims, layout=layout, loc=loc)
        k.load(f"g{name}", mat, dims)
        k.op("pto.tmov", [mat], [operand])
        shape, boxes = ((m, depth // 32), "zz") if name == "a" else ((depth // 32, n), "nn")
        keys = {"layout": boxes, "fractal": 32}
        table = k.tile(f"s{name}_mat", "!pto.f8E8M0", *shape, loc="mat", **keys)
        scale = k.tile(f"s{name}", "!pto.f8E8M0", *shape, loc="scaling", **keys)
        k.load(f"gs{name}", table, layout=side, **tables(lines, depth // 32))
        k.op("pto.tmov", [table], [scale])
        k.op("pto.tget_scale_addr", [operand], [scale])  # the move goes there already
        parts += [operand, scale]
    c = k.tile("c", "f32", m, n, layout="nz", fractal=1024, loc="acc")
    k.op("pto.tmatmul.mx", parts, [c])
    k.store(c, "out", (m, n))
    args = {"ga": x, "gb": y, "gsa": boxed(sa).view(ml_dtypes.float8_e8m0fnu),
            "gsb": boxed(sb).view(ml_dtypes.float8_e8m0fnu), "out": np.zeros((m, n), np.float32)}  # fmt: skip
    result = k.run(args)
    expected = cube.matmul(cube.scaled(number(x), sa, 1), cube.scaled(number(y), sb.T, 0))
    np.testing.assert_array_equal(result.outputs["out"], expected)


def test_a_table_has_boxes():
    k = Kernel("a5")
    tile = k.tile("t", "ui8", 16, 2, layout="zz", fractal=32, loc="mat")
    k.load("s", tile, [1, 1, 1, 8, 4], layout="mx_a_zz")
    with pytest.raises(ptosim.Trap) as stopped:
        k.run({"s": np.zeros(32, np.uint8)})
    assert stopped.value.diagnostics[-1].code == "PTO6051"


PLACES = {
    "nothing places them": "",
    "placed after the move": "tget",
    "placed before the move": "early",
    "used before they are placed": "used",
    "placed in another block": "branch",
}
"""Where `tget_scale_addr` is, and whether the scales of lhs are then where the product reads them."""


@pytest.mark.parametrize("where", PLACES.values(), ids=PLACES)
def test_a_product_reads_its_scales_beside_its_data(where):
    """At a sixteenth of the address of the data, whatever the operand says: that says only a type,
    and where it is another place that is told. A tile is placed from the nearest move from L1 into
    it on, in the same block, if nothing between uses it; else from where it is placed."""
    m, depth, n, data = 16, 64, 32, 0x1000
    k = Kernel("a5", level=3)
    keys = {"layout": "zz", "fractal": 32}
    left = k.tile("l", "f8E4M3FN", m, depth, layout="nz", loc="left", addr=data)
    right = k.tile("r", "f8E4M3FN", depth, n, layout="zn", loc="right", addr=0)
    acc = k.tile("c", "f32", m, n, layout="nz", fractal=1024, loc="acc", addr=0)
    moved = {}
    for slot, (name, layout, addr) in enumerate((
        ("own", "zz", 0), ("beside", "zz", data // 16), ("sb", "nn", 0),
    )):  # fmt: skip
        shape = (m, depth // 32) if layout == "zz" else (depth // 32, n)
        keys = {"layout": layout, "fractal": 32}
        table = k.tile(
            f"{name}1", "!pto.f8E8M0", *shape, loc="mat", addr=0x8000 + 64 * slot, **keys
        )
        moved[name] = table, k.tile(name, "!pto.f8E8M0", *shape, loc="scaling", addr=addr, **keys)
        k.load(f"g{name}", table)
    for tile, loc in ((left, "l"), (right, "r")):
        mat = k.tile(
            f"{loc}1",
            "f8E4M3FN",
            tile.rows,
            tile.cols,
            layout="nz",
            loc="mat",
            addr=0x4000 + 0x1000 * (loc == "r"),
        )
        k.load(f"g{loc}", mat)
        k.line("pto.barrier #pto.pipe<PIPE_ALL>")
        k.op("pto.tmov", [mat], [tile])
    own = moved["own"][1]
    for name in ("beside", "sb"):
        k.op("pto.tmov", moved[name][:1], moved[name][1:])
    placing = f"pto.tget_scale_addr ins(%l : {left.type}) outs(%own : {own.type})"
    product = [left, own, right, moved["sb"][1]]
    if where == "early":
        k.line(placing)
    k.op("pto.tmov", [moved["own"][0]], [own])
    k.line("pto.barrier #pto.pipe<PIPE_ALL>")
    if where == "used":
        k.op("pto.tmatmul.mx", product, [acc])
    if where == "branch":
        k.line("%true = arith.constant true")
        k.line(f"scf.if %true {{\n{placing}\n}}")
    elif where in ("tget", "used"):
        k.line(placing)
    k.op("pto.tmatmul.mx", product, [acc])
    k.line("pto.barrier #pto.pipe<PIPE_ALL>")
    k.store(acc, "out", (m, n))
    scales = {name: RNG.integers(122, 132, shape).astype(np.uint8) for name, shape in (
        ("own", (m, depth // 32)), ("beside", (m, depth // 32)), ("sb", (n, depth // 32)))}  # fmt: skip
    finite = np.arange(120, dtype=np.uint8)
    x, y = (
        finite[RNG.integers(0, 120, s)].view(ml_dtypes.float8_e4m3fn)
        for s in ((m, depth), (depth, n))
    )
    args = {f"g{name}": boxed(s).view(ml_dtypes.float8_e8m0fnu) for name, s in scales.items()}
    result = k.run({**args, "gl": x, "gr": y, "out": np.zeros((m, n), np.float32)})
    is_there = where in ("tget", "early")
    read = scales["own" if is_there else "beside"]
    expected = cube.matmul(
        cube.scaled(number(x), read, 1), cube.scaled(number(y), scales["sb"].T, 0)
    )
    np.testing.assert_array_equal(result.outputs["out"], expected)
    told = {"": True, "used": True, "branch": False}.get(where, False)
    assert ("PTO6305" in [f.code for f in result.findings]) == told
