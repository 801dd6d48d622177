"""What scratch counts for: bytes that the planner gives, and what each target touches of a tile that
the program gives. Sizes and effects are those of the assembler of 2026-08."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.language.place.planner import place

F, S, H, B = (f"!pto.tile_buf<vec, 16x64x{t}>" for t in ("f32", "i16", "f16", "i8"))
I32, WIDE = "!pto.tile_buf<vec, 16x64xi32>", "!pto.tile_buf<vec, 16x256xf32>"
ONE = "!pto.tile_buf<vec, 16x8xf32, valid=16x1>"
ROW, ROWI, REC = (f"!pto.tile_buf<vec, 1x{n}>" for n in ("64xf32", "64xi32", "128xf32"))
ROW16 = "!pto.tile_buf<vec, 1x64xi16>"
MASK = "!pto.tile_buf<vec, 16x32xi8>"
DN = "!pto.tile_buf<vec, 16x1xf32, blayout=col_major>"
ODD, ODDI = (
    "!pto.tile_buf<vec, 16x64xf32, valid=16x40>",
    "!pto.tile_buf<vec, 16x64xi32, valid=16x40>",
)
TURNED = "!pto.tile_buf<vec, 64x16xf32>"
SLIM, UPRIGHT = "!pto.tile_buf<vec, 8x8xf32>", "!pto.tile_buf<vec, 8x8xf32>"

SIZES = [
    ("tci ins(%x : i32) outs(%a : A)", (ROWI,), 768),
    ("tci ins(%z : i16) outs(%a : A)", (ROW16,), 1792),
    ("trowsum ins(%a : A) outs(%b : B)", (F, ONE), 4096),
    ("trowargmax ins(%a : A) outs(%b : B)", (F, I32.replace("64xi32", "8xi32, valid=16x1")), 4096),
    ("tcolargmin ins(%a : A) outs(%b : B)", (F, ROWI), 4096),
    ("tcolsum ins(%a : A) outs(%b : B) {isBinary = true}", (F, ROW), 2048),
    ("tcolsum ins(%a : A) outs(%b : B)", (F, ROW), None),
    ("txor ins(%a, %b : A, B) outs(%c : C)", (S, S, S), 2048),
    ("txors ins(%a, %z : A, i16) outs(%b : B)", (S, S), 2048),
    ("tprelu ins(%a, %b : A, B) outs(%c : C)", (F, F, F), 17 * 32),
    ("trem ins(%a, %b : A, B) outs(%c : C)", (F, F, F), 512),
    ("trems ins(%a, %y : A, f32) outs(%b : B)", (F, F), 256),
    ("tsel ins(%a, %b, %c : A, B, C) outs(%d : D)", (MASK, F, F, F), 64),
    ("tsels ins(%a, %b, %y : A, B, f32) outs(%c : C)", (MASK, F, F), 256),
    ("ttrans ins(%a : A) outs(%b : B)", (F, TURNED), 4096),
    ("ttrans ins(%a : A) outs(%b : B)", (SLIM, UPRIGHT), 32),
    ("trowexpandmul ins(%a, %b : A, B) outs(%c : C)", (F, DN, F), 8192),
    ("trowexpandmul ins(%a, %b : A, B) outs(%c : C)", (F, F.replace("16x64", "16x8"), F), None),
    ("tsort32 ins(%a, %b : A, B) outs(%c : C)", (ODD, ODDI, WIDE), 4096),
    ("tsort32 ins(%a, %b : A, B) outs(%c : C)", (F, I32, WIDE), None),
    ("tpow ins(%a, %b : A, B) outs(%c : C)", (F, F, F), 4096),
    ("tpow ins(%a, %b : A, B) outs(%c : C)", (I32, I32, I32), None),
    ("tmrgsort ins(%a, %b no_tmp {exhausted = false} : A, B) outs(%c : C)", (ROW, ROW, REC), 512),
    ("tcvt ins(%a : A) outs(%b : B)", (WIDE, S.replace("64", "256")), 1024),
    ("tcvt ins(%a : A) outs(%b : B)", (ODD, S.replace("64xi16", "64xi16, valid=16x40")), 32 * 125),
    ("tcvt ins(%a : A) outs(%b : B)", (H, S), 256),
    ("tcvt ins(%a : A) outs(%b : B)", (H, B), 256),
    ("tcvt ins(%a : A) outs(%b : B) {sat_mode = #pto<saturation_mode ON>}", (H, B), None),
    ("tquant ins(%a, %b : A, B) outs(%c : C) {quant_type = #pto<quant_type INT8_SYM>}", (F, DN, B), 4096),
]  # fmt: skip


def program(op: str, types: tuple[str, ...]) -> str:
    for name, type_ in zip("ABCD", types, strict=False):
        op = op.replace(f" {name},", f" {type_},").replace(f" {name})", f" {type_})")
    lines = [f"  %{n} = pto.alloc_tile : {t}" for n, t in zip("abcd", types, strict=False)]
    return "\n".join(
        ["func.func @k(%x: i32, %y: f32, %z: i16) {", *lines, f"  pto.{op}", "  return", "}"]
    )


def planned(text: str, target: str) -> list[int]:
    front = run_frontend(Source("k", text), FrontOptions(target))
    assert not front.sink.is_rejected, [d.message for d in front.sink]
    functions = list(front.resolved.functions.values())
    placed = place(front.resolved, functions, Sink()).placed
    return [p.bytes for p in placed if p.name.startswith("scratch")]


@pytest.mark.parametrize(("op", "types", "size"), SIZES)
def test_the_planner_of_a2a3_gives_what_is_left_out(op, types, size):
    text = program(op, types)
    assert planned(text, "a2a3") == ([] if size is None else [size])
    assert planned(text, "a5") == []


def test_what_is_left_out_counts_in_the_budget():
    """Two tiles of 96,000 bytes fit; the 4 KiB that one of them is reduced with do not."""
    large = "!pto.tile_buf<vec, 128x192xf32>"
    text = program(
        "trowsum ins(%a : A) outs(%b : B)", (large, "!pto.tile_buf<vec, 128x8xf32, valid=128x1>")
    )
    keep = f"  %k = pto.alloc_tile : {large}\n  pto.tadd ins(%a, %k : {large}, {large}) outs(%k : {large})\n  return"
    text = text.replace("  return", keep)
    assert "PTO4001" in {d.code for d in ptosim.check(text, target="a2a3")}
    assert "PTO4001" not in {d.code for d in ptosim.check(text, target="a5")}


REDUCE = (
    """func.func @k(%p: !pto.ptr<f32>, %q: !pto.ptr<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %v = pto.make_tensor_view %p, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
  %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<16x64xf32>
  %u = pto.make_tensor_view %q, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
  %o = pto.partition_view %u, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<16x64xf32>
  %src = pto.alloc_tile : F
  %tmp = pto.alloc_tile : F
  %dst = pto.alloc_tile : ONE
  pto.tload ins(%w : !pto.partition_tensor_view<16x64xf32>) outs(%src : F)
  pto.tload ins(%w : !pto.partition_tensor_view<16x64xf32>) outs(%tmp : F)
  pto.trowmax ins(%src, %tmp : F, F) outs(%dst : ONE)
  pto.tstore ins(%tmp : F) outs(%o : !pto.partition_tensor_view<16x64xf32>)
  return
}""".replace("ONE", ONE)
    .replace("F)", F + ")")
    .replace(": F", f": {F}")
    .replace("F,", F + ",")
)


@pytest.mark.parametrize("compat", ["2026-04", "2026-08"])
def test_scratch_that_a5_does_not_use_keeps_its_bytes(compat):
    data = np.arange(1024, dtype=np.float32)
    made = ptosim.load(REDUCE, target="a5", compat=compat).run(
        {"p": data, "q": np.zeros_like(data)}
    )
    np.testing.assert_array_equal(made.outputs["q"].ravel(), data)
    assert "PTO7103" not in {d.code for d in made.findings}


def test_scratch_that_a2a3_uses_has_no_meaning_afterwards():
    data = np.arange(1024, dtype=np.float32)
    made = ptosim.load(REDUCE, target="a2a3").run({"p": data, "q": np.zeros_like(data)})
    assert "PTO7103" in {d.code for d in made.findings}


@pytest.mark.parametrize(
    ("op", "reported"),
    [("trowmax", False), ("trowargmax", False), ("tcolsum", True)],
)
def test_scratch_over_a_source_matters_only_where_it_is_used(op, reported):
    """A5: the tile of sums by pairs is used, those of reductions along rows are not."""
    types = {"trowmax": (F, ONE), "trowargmax": (F, ONE.replace("f32", "i32")), "tcolsum": (F, ROW)}
    src, dst = types[op]
    more = " {isBinary = true}" if op == "tcolsum" else ""
    text = f"""func.func @k() {{
  %at = arith.constant 0 : i64
  %to = arith.constant 8192 : i64
  %one = arith.constant 1.0 : f32
  %src = pto.alloc_tile addr = %at : {src}
  %tmp = pto.alloc_tile addr = %at : {src}
  %dst = pto.alloc_tile addr = %to : {dst}
  pto.texpands ins(%one : f32) outs(%src : {src})
  pto.{op} ins(%src, %tmp : {src}, {src}) outs(%dst : {dst}){more}
  return
}}"""
    codes = {d.code for d in ptosim.load(text, target="a5").run({}).findings}
    assert ("PTO6401" in codes) == reported
