"""The memory planner: offsets that the assembler's own tests expect, and no live buffers on the same
bytes wherever the order is left open."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.language.place.planner import Placement, place
from ptosim.language.place.reuse import lifetimes

HEAD = """module attributes {pto.target_arch = "a3"} {
  func.func @k(%n: index, %cond: i1) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %one = arith.constant 1.0 : f32
"""


def tile(kib: int) -> str:
    return f"!pto.tile_buf<vec, 32x{kib * 8}xf32>"


def alloc(name: str, kib: int) -> str:
    return f"%{name} = pto.alloc_tile : {tile(kib)}\n"


def fill(name: str, kib: int) -> str:
    return f"pto.texpands ins(%one : f32) outs(%{name} : {tile(kib)})\n"


def use(a: str, b: str, d: str, kib: int) -> str:
    t = tile(kib)
    return f"pto.tadd ins(%{a}, %{b} : {t}, {t}) outs(%{d} : {t})\n"


def plan(body: str) -> tuple[dict[str, int], Placement, Sink]:
    front = run_frontend(Source("k", f"{HEAD}{body}return\n  }}\n}}\n"), FrontOptions())
    assert not [d for d in front.sink if d.severity.word == "error" and d.code != "PTO4001"]
    function = front.resolved.functions["k"]
    sink = Sink()
    placement = place(front.resolved, [function], sink)
    lives, _ = lifetimes(function, set(placement.values))
    values = [(v, a) for v, a in placement.values.items() if v in lives]
    for one, at in values:  # no two live buffers share bytes
        for two, other in values:
            a, b = lives[one], lives[two]
            together = a.start < b.end and b.start < a.end
            if one is not two and together:
                assert at + one.type.bytes <= other or other + two.type.bytes <= at
    return {v.name: a for v, a in placement.values.items()}, placement, sink


def test_everything_fits_without_reuse():
    """One after the other in the order of the text (no_reuse_overlap)."""
    offsets, _, _ = plan(alloc("a", 8) + alloc("b", 8) + fill("a", 8) + fill("b", 8))
    assert offsets == {"a": 0, "b": 8192}


@pytest.mark.parametrize(("count", "last"), [(8, 57344), (24, 188416)])
def test_peaks(count, last):
    """peak_8_overlapping and peak_exact_capacity: the last of 8 and of 24 buffers of 8 KiB."""
    names = [f"b{i}" for i in range(count)]
    body = "".join(alloc(n, 8) for n in names) + "".join(fill(n, 8) for n in names)
    offsets, _, sink = plan(body + use("b0", "b1", names[-1], 8))
    assert offsets[names[-1]] == last
    assert not sink.has_errors


def test_buffers_one_after_the_other_share_address_0():
    """reuse_sequential: three buffers of 96 KiB, none alive beside another."""
    names = ("a", "b", "c")
    offsets, _, sink = plan("".join(alloc(n, 96) + fill(n, 96) + use(n, n, n, 96) for n in names))
    assert set(offsets.values()) == {0}
    assert not sink.has_errors


def test_a_hole_is_filled():
    """fragmentation_hole_fit: 23 buffers stay, the 24th place serves one after another."""
    long = [f"l{i}" for i in range(23)]
    body = "".join(alloc(n, 8) + fill(n, 8) for n in long)
    body += "".join(alloc(n, 8) + fill(n, 8) + use(n, n, n, 8) for n in ("s", "t", "u"))
    body += "".join(use(n, n, n, 8) for n in long)
    offsets, placement, sink = plan(body)
    assert not sink.has_errors
    assert {offsets[n] for n in ("s", "t", "u")} == {188416}
    assert placement.used("vec") == 196608


def test_a_buffer_made_before_a_loop_lives_to_its_end():
    """loop_no_reuse_outer_live: the first tile is read by the next iteration."""
    inner = alloc("b", 96) + fill("b", 96) + use("b", "b", "b", 96)
    outside = f"{alloc('a', 96)}{fill('a', 96)}scf.for %i = %c0 to %n step %c1 {{\n{use('a', 'a', 'a', 96)}{inner}}}\n"
    offsets, _, _ = plan(outside)
    assert offsets == {"a": 0, "b": 98304}
    # One more does not fit beside the loop's, but after the loop.
    offsets, _, sink = plan(outside + alloc("c", 96) + fill("c", 96))
    assert offsets["c"] in (0, 98304)
    assert not sink.has_errors


def test_views_belong_to_their_storage():
    """bind_tile_alias: what is read through another name is in use."""
    t, other = tile(96), "!pto.tile_buf<vec, 64x384xf32>"
    body = alloc("a", 96) + fill("a", 96) + f"%v = pto.treshape %a : {t} -> {other}\n"
    body += alloc("b", 96) + fill("b", 96)
    body += f"pto.tadd ins(%v, %v : {other}, {other}) outs(%v : {other})\n"
    body += alloc("c", 96) + fill("c", 96)
    offsets, _, sink = plan(body)
    assert offsets["a"] != offsets["b"]
    assert not sink.has_errors


def test_results_of_branches_and_carried_values_are_their_storage():
    t = tile(64)
    body = alloc("a", 64) + alloc("b", 64) + fill("a", 64) + fill("b", 64)
    body += (
        f"%r = scf.if %cond -> ({t}) {{\nscf.yield %a : {t}\n}} else {{\nscf.yield %b : {t}\n}}\n"
    )
    body += alloc("d", 64) + fill("d", 64) + use("r", "r", "r", 64) + alloc("e", 64) + fill("e", 64)
    offsets, _, sink = plan(body)
    assert len({offsets[n] for n in "abd"}) == 3
    assert not sink.has_errors


def test_a_result_takes_the_place_of_a_source_that_ends_with_it():
    body = alloc("a", 96) + fill("a", 96) + alloc("b", 96) + fill("b", 96)
    body += alloc("d", 96) + use("a", "b", "d", 96) + use("d", "d", "d", 96)
    offsets, _, sink = plan(body)
    assert not sink.has_errors
    assert offsets["d"] in (offsets["a"], offsets["b"])


def test_what_cannot_share_is_an_overflow():
    body = "".join(alloc(n, 96) + fill(n, 96) for n in "abd") + use("a", "b", "d", 96)
    _, _, sink = plan(body)
    (found,) = sink
    assert found.code == "PTO4001"
    assert "vec overflow, requires 2359296 bits while 1572864 bits avaliable!" in found.message


def test_a_program_that_only_fits_with_reuse_computes_the_same():
    """Three sums one after the other in 288 KiB of tiles, on 192 KiB."""
    part, view = "!pto.partition_tensor_view<32x768xf32>", "!pto.tensor_view<32x768xf32>"
    t = tile(96)
    body = f"""module attributes {{pto.target_arch = "a3"}} {{
  func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %c768 = arith.constant 768 : index
    %vx = pto.make_tensor_view %x, shape = [%c32, %c768], strides = [%c768, %c1] : {view}
    %vy = pto.make_tensor_view %y, shape = [%c32, %c768], strides = [%c768, %c1] : {view}
    %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c32, %c768] : {view} -> {part}
    %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c32, %c768] : {view} -> {part}
    {alloc("a", 96)}{alloc("b", 96)}{alloc("d", 96)}
    pto.tload ins(%px : {part}) outs(%a : {t})
    {use("a", "a", "b", 96)}{use("b", "b", "d", 96)}
    pto.tstore ins(%d : {t}) outs(%py : {part})
    return
  }}
}}
"""
    x = np.arange(32 * 768, dtype=np.float32).reshape(32, 768)
    result = ptosim.load(body).run({"x": x, "y": np.zeros_like(x)})
    assert np.array_equal(result.outputs["y"], 4 * x)
