"""Loops whose windows of global memory move, as those of every real kernel do, beside NumPy and beside
the copy of the bytes that must move."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import ptosim
from ptosim.launch import in_parts
from tests.bench.engine import without
from tests.bench.timing import Figure, best
from tests.launch.symbolic.loops import grid

SIZE = 4096
SHAPE = SIZE, SIZE


def grids() -> list[Figure]:
    """With values alone, with all sanitizers and cycles (of a new program, and of one that has run on
    other values), checked, and estimated: a sum of two arrays of 4096x4096 f32 in tiles, softmax of
    16384 rows, quantisation to INT8."""
    x, y = (np.ones(SHAPE, np.float32) for _ in range(2))
    out = np.zeros_like(x)
    copy = best(lambda: np.copyto(out, x), 3) / 2  # of an array that is read or written
    given = {"x": x, "y": y, "z": out}
    add = partial(np.add, x, y, out=out)
    figures = []
    for rows, columns in ((32, 256), (16, 64)):
        what = f"vadd {rows}x{columns} over 4096x4096"
        figures += _each(what, grid(rows, columns), "a5", given, 3 * copy, add)
    rows = np.random.default_rng(0).standard_normal((16384, 1024)).astype(np.float32)
    given = {"x": rows, "y": np.zeros_like(rows)}
    figures += _each(
        "softmax 16384x1024", softmax(), "a5", given, 2 * copy, partial(_softmax, rows)
    )
    values, scales = rows.reshape(SHAPE), np.full((SIZE, 1), 30, np.float32)
    given = {"x": values, "s": scales, "q": np.zeros(SHAPE, np.int8)}
    numpy = partial(_quantised, values, scales)
    for target in ("a2a3", "a5"):
        what = f"INT8 of 4096x4096, {target}"
        figures += _each(what, quantisation(), target, given, 1.25 * copy, numpy)
    return figures


def _each(
    what: str,
    text: str,
    target: str,
    given: dict[str, Any],
    limit: float,
    numpy: Callable[[], Any],
) -> list[Figure]:
    program = ptosim.load(text, target=target, sync="manual")
    run = partial(program.run, given)
    beside = f"bandwidth {1e3 * limit:.1f} ms, NumPy {1e3 * best(numpy, 2):.1f} ms"
    found = []
    for how, function in (
        ("bare", partial(run, sanitize="none", timing=False)),
        ("with defaults", run),
        ("with defaults, again", partial(_again, run)),
        ("check", partial(ptosim.check, text, target=target, sync="manual")),
        ("cost", partial(program.cost)),
    ):
        seconds = best(function, 2)
        measured, ratio = f"{1e3 * seconds:.1f} ms", f"{seconds / limit:.1f}"
        found.append(Figure(f"{what}, {how}", measured, beside, ratio))
    return found


def _again(run: Callable[[], Any]) -> None:
    with without(in_parts, "MOST_KNOWN", 8):
        run()


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def _quantised(x: np.ndarray, scales: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(x * scales), -128, 127).astype(np.int8)


_T, _C = "!pto.tile_buf<vec, 16x1024xf32>", "!pto.tile_buf<vec, 16x1xf32, blayout=col_major>"
_V, _P = "!pto.tensor_view<16384x1024xf32>", "!pto.partition_tensor_view<16x1024xf32>"
_BARRIER = "pto.barrier #pto.pipe<PIPE_ALL>"


def softmax() -> str:
    """Return softmax of 16384 rows of 1024 f32, 16 rows at a time."""
    steps = (
        f"pto.tload ins(%px : {_P}) outs(%a : {_T})",
        f"pto.trowmax ins(%a, %t : {_T}, {_T}) outs(%m : {_C})",
        f"pto.trowexpandsub ins(%a, %m, %t : {_T}, {_C}, {_T}) outs(%a : {_T})",
        f"pto.texp ins(%a : {_T}) outs(%a : {_T})",
        f"pto.trowsum ins(%a, %t : {_T}, {_T}) outs(%m : {_C})",
        f"pto.trowexpanddiv ins(%a, %m, %t : {_T}, {_C}, {_T}) outs(%a : {_T})",
        f"pto.tstore ins(%a : {_T}) outs(%py : {_P})",
    )
    lines = [f"%c{n} = arith.constant {n} : index" for n in (0, 1, 16, 1024, 16384)]
    lines += [
        f"%v{n} = pto.make_tensor_view %{n}, shape = [%c16384, %c1024], strides = [%c1024, %c1] : {_V}"
        for n in "xy"
    ]
    tiles = {"a": _T, "t": _T, "m": _C}
    lines += [f"%{name} = pto.alloc_tile : {type_}" for name, type_ in tiles.items()]
    lines.append("scf.for %i = %c0 to %c16384 step %c16 {")
    lines += [_part(n, "%i, %c0", "%c16, %c1024", _V, _P) for n in "xy"]
    lines += [f"{step}\n{_BARRIER}" for step in steps]
    return _module("%x: !pto.ptr<f32>, %y: !pto.ptr<f32>", [*lines, "}"])


def quantisation() -> str:
    """Return TQUANT to INT8 of 4096x4096 f32, each row with its scale, in tiles of 16x256."""
    tile, codes = "!pto.tile_buf<vec, 16x256xf32>", "!pto.tile_buf<vec, 16x256xi8>"
    view, part = "!pto.tensor_view<4096x4096xf32>", "!pto.partition_tensor_view<16x256xf32>"
    to, out = "!pto.tensor_view<4096x4096xi8>", "!pto.partition_tensor_view<16x256xi8>"
    scales, few = "!pto.tensor_view<4096x1xf32>", "!pto.partition_tensor_view<16x1xf32>"
    steps = (
        f"pto.tload ins(%px : {part}) outs(%a : {tile})",
        f"pto.tquant ins(%a, %m : {tile}, {_C}) outs(%c, %t : {codes}, {tile}) "
        "{quant_type = #pto<quant_type INT8_SYM>}",
        f"pto.tstore ins(%c : {codes}) outs(%pq : {out})",
    )
    lines = [f"%c{n} = arith.constant {n} : index" for n in (0, 1, 16, 256, 4096)]
    lines += [
        f"%v{n} = pto.make_tensor_view %{n}, shape = [%c4096, %c{size}], strides = [%c{size}, %c1] : {type_}"
        for n, size, type_ in (("x", 4096, view), ("s", 1, scales), ("q", 4096, to))
    ]
    tiles = {"a": tile, "t": tile, "m": _C, "c": codes}
    lines += [f"%{name} = pto.alloc_tile : {type_}" for name, type_ in tiles.items()]
    lines += [
        "scf.for %i = %c0 to %c4096 step %c16 {",
        _part("s", "%i, %c0", "%c16, %c1", scales, few),
        f"pto.tload ins(%ps : {few}) outs(%m : {_C})",
        "scf.for %j = %c0 to %c4096 step %c256 {",
        _part("x", "%i, %j", "%c16, %c256", view, part),
        _part("q", "%i, %j", "%c16, %c256", to, out),
    ]
    lines += [f"{step}\n{_BARRIER}" for step in steps]
    arguments = "%x: !pto.ptr<f32>, %s: !pto.ptr<f32>, %q: !pto.ptr<i8>"
    return _module(arguments, [*lines, "}", "}"])


def _part(name: str, offsets: str, sizes: str, view: str, part: str) -> str:
    return (
        f"%p{name} = pto.partition_view %v{name}, offsets = [{offsets}], sizes = [{sizes}] : "
        f"{view} -> {part}"
    )


def _module(arguments: str, lines: list[str]) -> str:
    body = "\n".join([*lines, "return", "}", "}"])
    return f"module {{\nfunc.func @k({arguments}) {{\n{body}\n"
