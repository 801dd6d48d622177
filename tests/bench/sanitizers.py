"""What watching every access costs."""

from __future__ import annotations

import numpy as np

import ptosim
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions
from ptosim.launch.analysis.insert_sync.write import rewritten
from tests.bench.timing import Figure, used
from tests.support.text import Kernel

ROUNDS = 400
"""Rounds of a load, three vector operations and a store: 2,000 operations."""
_TILE = "!pto.tile_buf<vec, 32x128xf32>"
_VIEW, _PART = "!pto.tensor_view<32x128xf32>", "!pto.partition_tensor_view<32x128xf32>"


def _kernel() -> str:
    views = "".join(
        f"    %v{n} = pto.make_tensor_view %{n}, shape = [%c32, %c128], strides = [%c128, %c1] : {_VIEW}\n"
        f"    %p{n} = pto.partition_view %v{n}, offsets = [%c0, %c0], sizes = [%c32, %c128] : {_VIEW} -> {_PART}\n"
        for n in "xy"
    )
    constants = "".join(
        f"    %c{n} = arith.constant {n} : index\n" for n in (0, 1, 32, 128, ROUNDS)
    )
    tiles = "".join(f"    %{n} = pto.alloc_tile : {_TILE}\n" for n in "abc")
    adds = "".join(
        f"      pto.tadd ins(%{a}, %{b} : {_TILE}, {_TILE}) outs(%{c} : {_TILE})\n"
        for a, b, c in (("a", "a", "b"), ("a", "b", "c"), ("b", "c", "c"))
    )
    return (
        'module attributes {pto.target_arch = "a5"} {\n'
        "  func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {\n"
        f"{constants}{views}{tiles}    scf.for %i = %c0 to %c{ROUNDS} step %c1 {{\n"
        f"      pto.tload ins(%px : {_PART}) outs(%a : {_TILE})\n{adds}"
        f"      pto.tstore ins(%c : {_TILE}) outs(%py : {_PART})\n    }}\n    return\n  }}\n}}\n"
    )


def planned() -> ptosim.Program:
    """Return the program, placed and synchronised."""
    text, _ = rewritten(Source("k", _kernel()), FrontOptions(), plan=True, insert_sync=True)
    return ptosim.load(text, sync="manual")


def _quantiser() -> tuple[ptosim.Program, dict[str, np.ndarray]]:
    """300 rounds of a load, TQUANT and a store of 32x256, with its arguments."""
    k = Kernel("a5")
    x, q = k.tile("x", "f32", 32, 256), k.tile("q", "i8", 32, 256)
    scale = k.tile("s", "f32", 32, 1, layout="dn")
    k.load("scale", scale)
    k.line(f"scf.for %i = {k.const(0)} to {k.const(300)} step {k.const(1)} {{")
    k.load("values", x)
    k.op("pto.tquant", [x, scale], [q], "quant_type = #pto<quant_type INT8_SYM>")
    k.store(q, "codes")
    k.line("}")
    values = np.random.default_rng(0).standard_normal((32, 256)).astype(np.float32)
    factors = (127 / np.abs(values).max(axis=1)).astype(np.float32)
    given = {"values": values, "scale": factors, "codes": np.zeros((32, 256), np.int8)}
    return k.program(), given


def _quant() -> Figure:
    program, given = _quantiser()
    on, off = (
        used(lambda s=s: program.run(given, sanitize=s, timing=False), 9) for s in ("quant", "none")
    )
    return Figure(
        "sanitizer quant, TQUANT", f"{1000 * on:.1f} ms", f"without {1000 * off:.1f} ms",
        f"{on / off:.2f}", "<= 2.6",
    )  # fmt: skip


def sanitizers() -> list[Figure]:
    """2,000 operations on tiles of 32x128 f32, with all sanitizers, with timing, and without any;
    processor time, with what a run needs before its first operation."""
    loaded = planned()
    given = {n: np.zeros((32, 128), np.float32) for n in "xy"}

    def seconds(sanitize: str, *, timing: bool) -> float:
        return used(lambda: loaded.run(given, sanitize=sanitize, timing=timing), 9)

    off = seconds("none", timing=False)
    without = f"without {1000 * off:.1f} ms"
    return [
        Figure(what, f"{1000 * on:.1f} ms", without, f"{on / off:.2f}", budget)
        for what, on, budget in (
            ("all sanitizers", seconds("all", timing=False), "<= 2"),
            ("timing", seconds("none", timing=True), "<= 1.3"),
        )
    ] + [_quant()]
