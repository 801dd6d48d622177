"""The rules of the proof against the operations themselves: a result that changes when an element
of an input does is made of that element."""

from __future__ import annotations

import zlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptosim
from ptosim.tools.search.prove import global_hashes
from ptosim.tools.search.prove_ops import RULES
from ptosim.tools.search.prove_run import Follower
from tests.ops.semantics.cube_harness import Product

ROWS, COLS = 8, 64
_FULL = "!pto.tile_buf<vec, 8x64x{t}>"
_COLUMN = "!pto.tile_buf<vec, 8x1x{t}, blayout=col_major>"
_LINE = "!pto.tile_buf<vec, 1x64x{t}>"
INTEGER = ("and", "or", "xor", "shl", "shr", "not")
MATRIX = """
module {{
  func.func @k(%a: !pto.ptr<f16>, %b: !pto.ptr<f16>, %s: !pto.ptr<f32>, %y: !pto.ptr<f32>) attributes {{pto.kernel_kind = #pto.kernel_kind<cube>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %va = pto.make_tensor_view %a, shape = [%c16, %c16], strides = [%c16, %c1] : !pto.tensor_view<16x16xf16>
    %vb = pto.make_tensor_view %b, shape = [%c16, %c16], strides = [%c16, %c1] : !pto.tensor_view<16x16xf16>
    %vs = pto.make_tensor_view %s, shape = [%c1, %c16], strides = [%c16, %c1] : !pto.tensor_view<1x16xf32>
    %vy = pto.make_tensor_view %y, shape = [%c16, %c16], strides = [%c16, %c1] : !pto.tensor_view<16x16xf32>
    %pa = pto.partition_view %va, offsets = [%c0, %c0], sizes = [%c16, %c16] : !pto.tensor_view<16x16xf16> -> !pto.partition_tensor_view<16x16xf16>
    %pb = pto.partition_view %vb, offsets = [%c0, %c0], sizes = [%c16, %c16] : !pto.tensor_view<16x16xf16> -> !pto.partition_tensor_view<16x16xf16>
    %ps = pto.partition_view %vs, offsets = [%c0, %c0], sizes = [%c1, %c16] : !pto.tensor_view<1x16xf32> -> !pto.partition_tensor_view<1x16xf32>
    %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c16, %c16] : !pto.tensor_view<16x16xf32> -> !pto.partition_tensor_view<16x16xf32>
    %ta = pto.alloc_tile : !pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>
    %tb = pto.alloc_tile : !pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>
    %ts = pto.alloc_tile : !pto.tile_buf<mat, 1x16xf32>
    %l = pto.alloc_tile : !pto.tile_buf<left, 16x16xf16, blayout=col_major, slayout=row_major>
    %r = pto.alloc_tile : !pto.tile_buf<right, 16x16xf16, slayout=col_major>
    %bias = pto.alloc_tile : !pto.tile_buf<bias, 1x16xf32>
    %c = pto.alloc_tile : !pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>
    pto.tload ins(%pa : !pto.partition_tensor_view<16x16xf16>) outs(%ta : !pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>)
    pto.tload ins(%pb : !pto.partition_tensor_view<16x16xf16>) outs(%tb : !pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>)
    pto.tload ins(%ps : !pto.partition_tensor_view<1x16xf32>) outs(%ts : !pto.tile_buf<mat, 1x16xf32>)
    pto.tmov ins(%ta : !pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>) outs(%l : !pto.tile_buf<left, 16x16xf16, blayout=col_major, slayout=row_major>)
    pto.tmov ins(%tb : !pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>) outs(%r : !pto.tile_buf<right, 16x16xf16, slayout=col_major>)
    pto.tmov ins(%ts : !pto.tile_buf<mat, 1x16xf32>) outs(%bias : !pto.tile_buf<bias, 1x16xf32>)
    {first}
    pto.tstore ins(%c : !pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>) outs(%py : !pto.partition_tensor_view<16x16xf32>)
    return
  }}
}}
"""
_LEFT = "!pto.tile_buf<left, 16x16xf16, blayout=col_major, slayout=row_major>"
_RIGHT = "!pto.tile_buf<right, 16x16xf16, slayout=col_major>"
_ACC = "!pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>"
_PLAIN = f"pto.tmatmul ins(%l, %r : {_LEFT}, {_RIGHT}) outs(%c : {_ACC})"
PRODUCTS = {
    "pto.tmatmul": _PLAIN,
    "pto.tmatmul.acc": f"{_PLAIN}\n    pto.tmatmul.acc ins(%c, %l, %r : {_ACC}, {_LEFT}, {_RIGHT}) outs(%c : {_ACC})",
    "pto.tmatmul.bias": f"pto.tmatmul.bias ins(%l, %r, %bias : {_LEFT}, {_RIGHT}, !pto.tile_buf<bias, 1x16xf32>) outs(%c : {_ACC})",
}  # fmt: skip


def shapes(name: str) -> tuple[str, str, str]:
    """The kinds of a, b and the result of an operation."""
    word = name.removeprefix("pto.t")
    if word.startswith("rowexpand") or word in ("quant", "dequant"):
        return (_FULL, _COLUMN, _FULL) if word != "rowexpand" else (_COLUMN, _FULL, _FULL)
    if word.startswith("colexpand"):
        return (_FULL, _LINE, _FULL) if word != "colexpand" else (_LINE, _FULL, _FULL)
    if word.startswith("row"):
        return _FULL, _FULL, _COLUMN
    if word.startswith("col"):
        return _FULL, _FULL, _LINE
    return _FULL, _FULL, _FULL


def forms(name: str) -> list[str]:
    """Texts of the operation, one of which its row accepts: with or without scratch, a scalar."""
    a, b, y = shapes(name)
    types = {"quant": ("f32", "f32", "i8"), "dequant": ("i8", "f32", "f32")}
    word = name.removeprefix("pto.t").rstrip("s")
    kind = "i32" if word in INTEGER else "f32"
    ta, tb, ty = types.get(name.removeprefix("pto.t"), (kind, kind, kind))
    if word == "cvt":
        ty = "f16"
    a, b, y, full = a.format(t=ta), b.format(t=tb), y.format(t=ty), _FULL.format(t=ta)
    extra = " {quant_type = #pto<quant_type INT8_SYM>}" if word == "quant" else ""
    scalar = "%three" if kind == "f32" else "%two"
    lists = [
        ("%a, %b", f"{a}, {b}"), ("%a, %b, %tmp", f"{a}, {b}, {full}"), ("%a", a),
        ("%a, %tmp", f"{a}, {full}"), (f"%a, {scalar}", f"{a}, {kind}"),
        (f"%a, {scalar}, %tmp", f"{a}, {kind}, {full}"), ("%a, %b, %b", f"{a}, {b}, {b}"),
    ]  # fmt: skip
    ops = [f"{name} ins({v} : {t}) outs(%y : {y}){extra}" for v, t in lists]
    return [kernel((a, b, y), (ta, tb, ty), full, op) for op in ops]


def kernel(tiles: tuple[str, str, str], types: tuple[str, str, str], full: str, op: str) -> str:
    """A program that loads %a and %b, computes %y and stores it."""
    lines = []
    for n, tile, type_ in zip("aby", tiles, types, strict=True):
        rows, cols = (int(d) for d in tile.split("vec, ")[1].split("x")[:2])
        window = f"{rows}x{cols}x{type_}"
        strides = "[%c1, %c8]" if cols == 1 else f"[%c{cols}, %c1]"
        lines += [
            f"%v{n} = pto.make_tensor_view %p{n}, shape = [%c{rows}, %c{cols}], "
            f"strides = {strides} : !pto.tensor_view<{window}>",
            f"%w{n} = pto.partition_view %v{n}, offsets = [%c0, %c0], sizes = [%c{rows}, %c{cols}]"
            f" : !pto.tensor_view<{window}> -> !pto.partition_tensor_view<{window}>",
            f"%{n} = pto.alloc_tile : {tile}",
        ]
        if n != "y":
            lines.append(
                f"pto.tload ins(%w{n} : !pto.partition_tensor_view<{window}>) outs(%{n} : {tile})"
            )
    lines.append(f"%tmp = pto.alloc_tile : {full}")
    lines.append(op)
    lines.append(
        f"pto.tstore ins(%y : {tiles[2]}) outs(%wy : !pto.partition_tensor_view<{window}>)"
    )
    numbers = [f"%c{n} = arith.constant {n} : index" for n in (0, 1, 8, 64)]
    numbers += ["%three = arith.constant 3.0 : f32", "%two = arith.constant 2 : i32"]
    args = ", ".join(f"%p{n}: !pto.ptr<{t}>" for n, t in zip("aby", types, strict=True))
    body = "\n    ".join([*numbers, *lines, "return"])
    return f"module {{\n  func.func @k({args}) {{\n    {body}\n  }}\n}}\n"


def accepted(name: str, target: str) -> ptosim.Program | None:
    for text in forms(name) if name not in PRODUCTS else [MATRIX.format(first=PRODUCTS[name])]:
        try:
            return ptosim.load(text, target=target)
        except ptosim.ProgramError:
            continue
    return None


class Altered(Follower):
    """A follower for which elements of an argument are others."""

    def __init__(self, buffer: int, elements: np.ndarray, width: int) -> None:
        super().__init__(fresh=1, loose=False)
        self.place = buffer, (elements[:, None] * width + np.arange(width)).reshape(-1)

    def on_start(self, engine: object) -> None:
        super().on_start(engine)
        buffer, places = self.place
        self.memory.buffers[buffer].hashes[places] ^= np.uint64(0x5DEECE66D)


def data(program: ptosim.Program, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    made = {}
    for arg in program.signature():
        if program.entries == ["k"] and arg.name in ("a", "b"):
            size = 256
        else:
            size = 16 if arg.name == "s" else 512
        values = rng.uniform(0.5, 3.0, size)
        made[arg.name] = values.astype(arg.dtype.replace("f", "float")) if arg.dtype[0] == "f" else (
            rng.integers(1, 9, size).astype(arg.dtype.replace("i", "int")))  # fmt: skip
    return made


LEAST = 8
"""Elements of an argument that every shape of it reads."""

A5_TOO = ("rowsum", "rowmax", "colsum", "quant", "matmul", "cvt", "rowexpandmul")
OTHERS = tuple(f"pto.{name}" for name in ("tgemv", "tmatmul.mx"))  # tested below
CASES = [(name, "a2a3") for name in RULES if not name.startswith(OTHERS)] + [
    (f"pto.t{name}", "a5") for name in A5_TOO
]


@pytest.mark.sampled(3, 28)
@pytest.mark.parametrize(("name", "target"), CASES)
def test_what_changes_a_result_is_part_of_its_hash(name: str, target: str) -> None:
    program = accepted(name, target) or accepted(name, "a5")
    assert program is not None
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    args = data(program, 3)
    plain = Follower(fresh=1, loose=False)
    before = program.run(args, timing=False, sanitize="none", observers=[plain])
    out = list(args)[-1]
    width = before.outputs[out].itemsize
    changed_somewhere = False
    for index, given in enumerate(list(args)[:-1]):
        elements = rng.choice(LEAST, 3, replace=False)
        follower = Altered(index, elements, args[given].itemsize)
        after = program.run(
            altered(args, given, elements), timing=False, sanitize="none", observers=[follower]
        )
        values = (before.outputs[out] != after.outputs[out]).reshape(-1)
        one, two = global_hashes(plain)[out], global_hashes(follower)[out]
        hashes = (one != two).reshape(-1, width).any(axis=1)
        assert not (values & ~hashes).any()
        changed_somewhere |= bool(values.any())
    assert changed_somewhere


def altered(args: dict[str, np.ndarray], name: str, elements: np.ndarray) -> dict[str, np.ndarray]:
    """The arguments with other elements in one of them."""
    other = {k: v.copy() for k, v in args.items()}
    old = other[name][elements]
    other[name][elements] = old ^ 6 if old.dtype.kind != "f" else old * 3 + 1
    if old.dtype.kind == "f":
        other[name][elements[0]] = old[0] / 64
    return other


# -- scaled products, and those of one row ---------------------------------------------------------

_E4M3, _PAIR = "f8E4M3FN", "!pto.f4E2M1x2"


@pytest.mark.parametrize(
    ("op", "dtype", "m"),
    [("tmatmul.mx", _E4M3, 18), ("tmatmul.mx.bias", _PAIR, 5), ("tgemv.mx", _E4M3, 1),
     ("tgemv", "f16", 1), ("tgemv.bias", "f16", 1)],
)  # fmt: skip
def test_an_element_changes_its_row_or_column_of_a_product(op: str, dtype: str, m: int) -> None:
    """Of a factor, or of the scale of its group, and of a bias; no other element."""
    k, n, rng = 128, 32, np.random.default_rng(7)
    kind: Any = {_E4M3: ml_dtypes.float8_e4m3fn, "f16": np.float16}.get(dtype, np.uint8)
    x, y = (rng.integers(1, 7, shape).astype(kind) for shape in ((m, k), (k, n)))
    scales = [rng.integers(126, 129, s).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
              for s in ((m, k // 32), (k // 32, n))]  # fmt: skip
    given = [x, y, *(scales if ".mx" in op else [])]
    bias = np.ones((1, n), np.float32) if "bias" in op else None
    rows = 1 if m == 1 else 32
    product = Product("a5", f"pto.{op}", (dtype, dtype, "f32"), (m, k, n), (rows, k, n))

    def run(follower: Follower) -> tuple[np.ndarray, np.ndarray]:
        pair = (given[2], given[3]) if len(given) > 2 else None
        result = product.run(
            given[0], given[1], scales=pair, bias=bias, sanitize="none", observers=[follower]
        )
        return result.outputs["c"], global_hashes(follower)["c"].reshape(m, n, 4)[..., 0]

    values, hashes = run(Follower(fresh=1, loose=False))
    for number in range(len(given)):
        kept = given[number].copy()
        i, j = (int(rng.integers(size)) for size in kept.shape)
        given[number].view(np.uint8 if kept.itemsize == 1 else np.uint16)[i, j] += 2
        place = np.array([i * kept.shape[1] + j])
        after = run(Altered(number, place, kept.itemsize))
        given[number] = kept
        other = hashes != after[1]
        row, column = np.zeros((m, n), bool), np.zeros((m, n), bool)
        row[i % m], column[:, j % n] = True, True
        np.testing.assert_array_equal(other, row if number % 2 == 0 else column)
        assert (values != after[0]).any()
        assert not ((values != after[0]) & ~other).any()
