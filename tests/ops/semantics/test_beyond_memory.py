"""Operands that end beyond their memory: windows of tiles at the end of a space, views of global
memory with sizes that no view has, tables whose rows leave their buffer. Each is told once, with its
place; what is inside has its values."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.oracle import layouts
from tests.support.text import LAYOUTS, Kernel, Tile

Shape = tuple[int, int]

TARGETS = ["a2a3", "a5"]
UB = {"a2a3": 196608, "a5": 262144}
L1 = 524288
NZ = ", ".join(f"{k}={v}" for k, v in zip(("blayout", "slayout"), LAYOUTS["nz"], strict=True))


def trap(k: Kernel, args: dict | None = None, **options) -> str:
    """Run what cannot be executed; return the code of the one error, which has a place."""
    with pytest.raises(ptosim.Trap) as stopped:
        k.run(args or {}, **options)
    errors = [d for d in stopped.value.diagnostics if d.is_error]
    assert len(errors) == 1
    assert errors[0].span is not None
    return errors[0].code


# -- windows at the end of a space -------------------------------------------------------------------


def window(
    k: Kernel, dtype: str, shape: tuple[int, int], size: int, pad: int = 0
) -> tuple[str, str]:
    """The last quarter of a tile at the end of UB. It keeps the tile's columns, so that its static
    shape ends beyond the space; its valid region does not."""
    rows, cols = shape
    whole = k.tile("whole", dtype, rows, cols, addr=UB[k.target] - size, pad=pad)
    type_ = f"!pto.tile_buf<vec, {rows // 2}x{cols // 2}x{dtype}, pad={pad}>"
    at, sizes = f"{k.const(rows // 2)}, {k.const(cols // 2)}", f"{rows // 2}, {cols // 2}"
    k.line(f"%w = pto.subview %whole[{at}] sizes [{sizes}] : {whole.type} -> {type_}")
    return "%w", type_


def gather(k: Kernel) -> None:
    w = window(k, "f32", (8, 64), 2048)
    index, tmp = k.tile("index", "i32", 4, 32, addr=8192), k.tile("tmp", "i32", 4, 32, addr=16384)
    k.op("pto.tgather", [w, index, tmp], [k.tile("dst", "f32", 4, 32, addr=0)])


def scatter(k: Kernel) -> None:
    w = window(k, "f32", (8, 64), 2048)
    index = k.tile("index", "i32", 4, 32, addr=8192)
    k.op("pto.tscatter", [k.tile("src", "f32", 4, 32, addr=0), index], [w])


def show(k: Kernel) -> None:
    k.load_options["switches"] = {"tprint.format": "npu"}
    k.op("pto.tprint", [window(k, "f32", (8, 64), 2048)], [])


def load(k: Kernel) -> None:
    k.load_options["profile"] = "cpu"  # which fills what is outside the valid region
    w = window(k, "f32", (8, 64), 2048)
    k.op("pto.tload", [k.view("x", "f32", (4, 32))], [w])


def pad(k: Kernel) -> None:
    w = window(k, "f32", (8, 64), 2048, pad=1)
    k.op("pto.tfillpad", [k.tile("src", "f32", 4, 32, addr=0)], [w])


def convert(k: Kernel) -> None:
    w = window(k, "!pto.f4E2M1x2", (16, 64), 1024)
    src = k.tile("src", "bf16", 8, 64, addr=0)
    k.line(
        f"pto.tcvt ins(%src {{rmode = #pto<round_mode RINT>}} : {src.type}) outs({w[0]} : {w[1]})"
    )


WHOLE = [(use, target) for use in (gather, scatter, show, load, pad) for target in TARGETS]


@pytest.mark.parametrize(("use", "target"), [*WHOLE, (convert, "a5")])
def test_an_operation_on_all_of_a_window_that_ends_beyond_the_space(use, target):
    """The static shape is what the hardware would read or write."""
    k = Kernel(target)
    use(k)
    args = {"x": np.zeros((4, 32), np.float32)} if use is load else {}
    assert trap(k, args, uninit="zero") == "PTO6013"


class Bytes:
    """What is in a memory after the last operation."""

    def __init__(self, loc: str, size: int) -> None:
        self.loc, self.size, self.found = loc, size, b""

    def on_commit(self, core, inst, bound) -> None:
        self.found = bytes(core.space(self.loc).data[-self.size or None :])

    def element(self, layout: str, shape: tuple[int, int], at: tuple[int, int]) -> float:
        return float(
            np.frombuffer(self.found, np.float16)[layouts.tile_offset(layout, shape, at, 16)]
        )


def boxed_window(k: Kernel) -> tuple[str, str]:
    """The last boxes of a tile at the end of L1."""
    whole = k.tile("whole", "f16", 64, 64, layout="nz", loc="mat", addr=L1 - 8192)
    type_ = f"!pto.tile_buf<mat, 32x32xf16, {NZ}>"
    k.load("x", whole)
    at = f"{k.const(32)}, {k.const(32)}"
    k.line(f"%w = pto.subview %whole[{at}] sizes [32, 32] : {whole.type} -> {type_}")
    return "%w", type_


NUMBERS = np.arange(4096, dtype=np.int16).reshape(64, 64).astype(np.float16)


@pytest.mark.parametrize("move", ["tmov", "textract"])
@pytest.mark.parametrize("target", TARGETS)
def test_boxes_at_the_end_of_the_space_are_moved(target, move):
    k = Kernel(target)
    w = boxed_window(k)
    layout = "nz" if target == "a5" else "zz"
    left = k.tile("left", "f16", 32, 32, layout=layout, loc="left", addr=0)
    start = [(k.const(0), "index")] * 2 if move == "textract" else []
    k.op(f"pto.{move}", [w, *start], [left])
    look = Bytes("left", 0)
    k.run({"x": NUMBERS}, observers=[look])
    for at in np.ndindex(32, 32):
        assert look.element(layout, (32, 32), at) == NUMBERS[at[0] + 32, at[1] + 32]


@pytest.mark.parametrize("target", TARGETS)
def test_boxes_at_the_end_of_the_space_are_filled(target):
    k = Kernel(target)
    w = boxed_window(k)
    k.op("pto.tload", [k.view("y", "f16", (32, 32))], [w])
    look = Bytes("mat", 8192)
    given = -1 - NUMBERS[:32, :32]
    k.run({"x": NUMBERS, "y": given}, observers=[look])
    expected = NUMBERS.copy()
    expected[32:, 32:] = given
    for at in np.ndindex(64, 64):
        assert look.element("nz", (64, 64), at) == expected[at]


@pytest.mark.parametrize(("rows", "is_inside"), [(64, False), (48, True)])
def test_the_row_between_column_blocks_counts(rows, is_inside):
    """Compact form 2: column blocks are a row further apart than the valid rows."""
    k = Kernel("a5")
    keys = {"layout": "nz", "loc": "mat", "addr": L1 - 8192, "compact": 2}
    k.tile("src", "f16", 64, 64, (rows, 64), **keys)
    src = Tile("src", "f16", 64, 64, rows, 64, *LAYOUTS["nz"], loc="mat", compact=2)
    left = k.tile("left", "f16", 64, 64, (rows, 64), layout="nz", loc="left", addr=0)
    k.op("pto.tmov", [src], [left])
    if is_inside:
        k.run({}, uninit="zero")
    else:
        assert trap(k, uninit="zero") == "PTO6026"


def test_rows_that_are_read_further_apart_than_the_tile_has_them():
    """The rows of src1 are taken as far apart as those of src0, and end beyond UB."""
    k = Kernel("a5")
    a = k.dynamic("a", "f32", 64, 256, (k.const(64), k.const(8)), addr=0)
    b = k.tile("b", "f32", 64, 8, addr=UB["a5"] - 2048)
    mask = k.tile("mask", "i8", 64, 32, (64, 8), addr=131072)
    k.op("pto.tcmp", [a, b], [mask], "cmpMode = #pto<cmp lt>")
    assert trap(k, uninit="zero") == "PTO6013"


# -- views with sizes that none has ------------------------------------------------------------------


def view(k: Kernel, shape: Shape, strides: Shape, dtype: str = "f32") -> tuple[str, str]:
    """A view of an argument from its element 8 on, whose type gives no sizes."""
    pointer = k.arg("g", f"!pto.ptr<{dtype}>")
    k.line(f"%p = pto.addptr {pointer}, {k.const(8)} : !pto.ptr<{dtype}> -> !pto.ptr<{dtype}>")
    type_ = f"!pto.tensor_view<?x?x{dtype}>"
    dims, steps = (", ".join(map(k.const, numbers)) for numbers in (shape, strides))
    k.line(f"%v = pto.make_tensor_view %p, shape = [{dims}], strides = [{steps}] : {type_}")
    return "%v", type_


def part(k: Kernel, shape: Shape, strides: Shape, sizes: Shape | None = None) -> tuple[str, str]:
    """The first elements of such a view (all if no sizes are given), as a partition."""
    seen, type_ = view(k, shape, strides)
    result = "!pto.partition_tensor_view<?x?xf32>"
    zeros, lengths = (", ".join(map(k.const, numbers)) for numbers in ((0, 0), sizes or shape))
    k.line(
        f"%q = pto.partition_view {seen}, offsets = [{zeros}], sizes = [{lengths}] : "
        f"{type_} -> {result}"
    )
    return "%q", result


BIG = 1 << 62


@pytest.mark.parametrize(
    ("shape", "strides", "code"),
    [
        ((1, -1), (1, 1), "PTO6002"),
        ((-1, 8), (1, 1), "PTO6002"),
        ((-1, -1), (1, 1), "PTO6002"),
        ((0, -1), (1, 1), "PTO6002"),
        ((1, BIG), (0, 0), "PTO1104"),
        ((BIG, BIG), (0, 0), "PTO1104"),
        ((40000, 40000), (0, 0), "PTO1104"),
        ((1 << 12, (1 << 12) + 1), (0, 0), "PTO1104"),
    ],
)
@pytest.mark.parametrize("use", ["tprint", "tload", "tstore"])
def test_a_view_with_sizes_that_none_has(use, shape, strides, code):
    k = Kernel("a5")
    seen, tile = view(k, shape, strides), k.tile("tile", "f32", 4, 8)
    ins, outs = {
        "tprint": ([seen], []), "tload": ([seen], [tile]), "tstore": ([tile], [seen]),
    }[use]  # fmt: skip
    k.op(f"pto.{use}", ins, outs)
    assert trap(k, {"g": np.zeros(64, np.float32)}, uninit="zero") == code


def test_elements_at_one_place_are_moved():
    """A view that repeats elements, and has more of them than its buffer, is a view all the same."""
    k = Kernel("a5")
    seen, tile = view(k, (4, 8), (0, 0)), k.tile("tile", "f32", 4, 8)
    k.op("pto.tload", [seen], [tile])
    k.store(tile, "y")
    given = np.arange(9, dtype=np.float32)
    result = k.run({"g": given, "y": np.zeros((4, 8), np.float32)})
    np.testing.assert_array_equal(result.outputs["y"], np.full((4, 8), 8))


# -- tables ------------------------------------------------------------------------------------------


def access(
    k: Kernel, op: str, table: tuple, index: Shape, attrs: str, valid: Shape | None = None
) -> None:
    """A gather from, or a scatter to, a table of a tile of 8 rows of 32 elements."""
    data = k.tile("data", "f32", 8, 32)
    idx = k.tile("idx", "i32", index[0], index[1], valid)
    k.load("i", idx)
    ins, outs = ([table, idx], [data]) if op == "mgather" else ([data, idx], [table])
    k.op(f"pto.{op}", ins, outs, attrs)


OPS = ["mgather", "mscatter"]


@pytest.mark.parametrize(
    ("shape", "strides", "where"),
    [
        ((8, 1), (1, -1), "before the start"),
        ((8, 1), (1, -BIG), "before the start"),
        ((8, 1), (1, BIG), "past the end"),
    ],
)
@pytest.mark.parametrize("op", OPS)
def test_a_row_of_a_table_that_leaves_its_buffer(op, shape, strides, where):
    k = Kernel("a5")
    access(k, op, part(k, shape, strides), (1, 8), "coalesce = #pto<coalesce row>")
    args = {"g": np.zeros(17, np.float32), "i": np.zeros((1, 8), np.int32)}
    with pytest.raises(ptosim.Trap, match=where) as stopped:
        k.run(args, uninit="zero")
    assert stopped.value.diagnostics[-1].code == "PTO6402"


@pytest.mark.parametrize("op", OPS)
def test_a_table_of_one_row_takes_no_step(op):
    """It is the first of a view whose outer strides have more than 64 bits."""
    k = Kernel("a5")
    table = part(k, (8, 32), (BIG, 1), (1, 32))
    access(k, op, table, (1, 8), "coalesce = #pto<coalesce row>")
    if op == "mgather":
        k.store(Tile("data", "f32", 8, 32), "y")
    given = np.arange(40, dtype=np.float32)
    args = {"g": given.copy(), "i": np.zeros((1, 8), np.int32)}
    if op == "mgather":
        args["y"] = np.ones((8, 32), np.float32)
    result = k.run(args, uninit="zero")
    if op == "mgather":
        np.testing.assert_array_equal(result.outputs["y"], np.tile(given[8:], (8, 1)))
    else:
        np.testing.assert_array_equal(result.outputs["g"][8:], np.zeros(32))


BEYOND = {
    "mgather": ("clamp", "wrap", "undefined", "zero"),
    "mscatter": ("clamp", "wrap", "undefined", "skip"),
}


@pytest.mark.parametrize(("op", "mode"), [(op, mode) for op in OPS for mode in BEYOND[op]])
def test_a_row_longer_than_the_table_in_april(op, mode):
    """Rows have the tile's width: the last one of the table ends beyond the buffer."""
    word = "gather" if op == "mgather" else "scatter"
    k = Kernel("a5", compat="2026-04")
    access(k, op, part(k, (4, 4), (4, 1)), (8, 8), f"{word}Oob = #pto<{word}_oob {mode}>", (8, 1))
    args = {"g": np.zeros(24, np.float32), "i": np.full((8, 1), 3, np.int32)}
    assert trap(k, args, uninit="zero") == "PTO6402"


@pytest.mark.parametrize(("op", "mode"), [("mgather", "zero"), ("mscatter", "skip")])
def test_an_index_that_reaches_nothing_is_not_looked_at_in_april(op, mode):
    word = "gather" if op == "mgather" else "scatter"
    k = Kernel("a5", compat="2026-04")
    access(k, op, part(k, (1, 32), (32, 1)), (8, 8), f"{word}Oob = #pto<{word}_oob {mode}>", (8, 1))
    args = {"g": np.ones(40, np.float32), "i": np.full((8, 1), 3, np.int32)}
    result = k.run(args, uninit="zero")
    np.testing.assert_array_equal(result.outputs["g"], np.ones(40))


@pytest.mark.parametrize(
    ("strides", "addr", "code"), [((0, 0), 0, "PTO6001"), ((16, 1), L1 - 8192, "PTO6013")]
)
def test_an_image_of_a_tile_that_leaves_its_memory(strides, addr, code):
    """Elements that go into L1 are put together in a scratch, as the image of the whole tile: one
    that has them all at one place is too short, and the tile may be a window at the end of L1."""
    k = Kernel("a5")
    whole = k.tile("whole", "f32", 64, 32, layout="nz", loc="mat", addr=addr)
    type_ = f"!pto.tile_buf<mat, 32x16xf32, {NZ}>"
    at = f"{k.const(32)}, {k.const(16)}"
    k.line(f"%w = pto.subview %whole[{at}] sizes [32, 16] : {whole.type} -> {type_}")
    table, idx = part(k, (4, 8), (8, 1)), k.view("i", "i32", (32, 16))
    scratch = k.view("s", "f32", (64, 16), strides)
    k.op("pto.mgather", [table, idx, scratch], [("%w", type_)], "coalesce = #pto<coalesce elem>")
    elements = 1 if strides == (0, 0) else 1024
    args = {
        "g": np.zeros(40, np.float32),
        "i": np.zeros((32, 16), np.int32),
        "s": np.zeros(elements, np.float32),
    }
    assert trap(k, args, uninit="zero") == code


# -- memrefs without dimensions ----------------------------------------------------------------------


@pytest.mark.parametrize("type_", ["memref<f32>", "memref<f32, strided<[], offset: 0>>"])
def test_a_memref_without_dimensions_is_one_element(type_):
    part = "memref<f32, strided<[], offset: 3>>"
    k = Kernel("a5")
    g, h, zero = k.arg("g", type_), k.arg("h", "memref<8xf32>"), k.const(0)
    k.line(f"%x = pto.load_scalar {g}[{zero}] : {type_} -> f32")
    k.line(
        f"%r = memref.reinterpret_cast {h} to offset: [3], sizes: [], strides: [] : "
        f"memref<8xf32> to {part}"
    )
    k.line(f"pto.store_scalar %x, %r[{zero}] : {part}, f32")
    result = k.run({"g": np.full(1, 7, np.float32), "h": np.zeros(8, np.float32)})
    assert result.outputs["h"].tolist() == [0, 0, 0, 7, 0, 0, 0, 0]
