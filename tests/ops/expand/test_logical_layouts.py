"""Natural layouts: what operations ask for, and which vectors have one layout."""

from __future__ import annotations

import pytest

from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.ops.lower.logical.program import Lowered
from tests.ops.expand.logical import load, mask, module, pointer, store, vreg


def layouts(body: str, *elems: str) -> dict[str, str]:
    """The layout of each vector, without what all have in common."""
    front = run_frontend(Source("t", module(body, list(elems))), FrontOptions())
    lowered = Lowered(front.resolved)
    return {
        v.name: str(lowered.layouts.of(v)).removeprefix("#pto.vmi.layout")
        for op in front.resolved.ops if op.has("virtual")
        for v in op.results if "vreg" in str(v.type)
    }  # fmt: skip


def cast(src: str, dst: str, lanes: int) -> str:
    narrow = ' {rounding = "R", saturate = "SAT"}' if src == "f32" else ""
    return "\n".join([
        load("s", lanes, src), f"%d = pto.vmi.vcvt %s{narrow} : {vreg(lanes, src)} -> {vreg(lanes, dst)}",
        store("d", lanes, dst),
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("src", "dst", "lanes", "source", "result"),
    [
        ("f16", "f32", 256, "<contiguous>", "<deinterleaved = 2>"),
        ("f16", "f32", 100, "<contiguous>", "<deinterleaved = 2>"),
        ("f16", "f32", 64, "<contiguous, lane_stride = 2>", "<contiguous>"),
        ("f8E4M3FN", "f32", 256, "<contiguous>", "<deinterleaved = 4>"),
        ("f8E4M3FN", "f32", 64, "<contiguous, lane_stride = 4>", "<contiguous>"),
        ("f32", "f16", 256, "<deinterleaved = 2>", "<contiguous>"),
        ("f32", "f16", 64, "<contiguous>", "<contiguous, lane_stride = 2>"),
        ("f32", "f8E4M3FN", 256, "<deinterleaved = 4>", "<contiguous>"),
        ("f32", "f8E4M3FN", 128, "<deinterleaved = 2>", "<contiguous, lane_stride = 2>"),
        ("f32", "f8E4M3FN", 64, "<contiguous>", "<contiguous, lane_stride = 4>"),
    ],
)
def test_conversions(src: str, dst: str, lanes: int, source: str, result: str) -> None:
    assert layouts(cast(src, dst, lanes), src, dst) == {"s": source, "d": result}


@pytest.mark.parametrize(
    ("groups", "source", "result"),
    [
        (128, "<contiguous, lane_stride = 4>", "<num_groups = 128, slots = 8>"),
        (64, "<contiguous, lane_stride = 2>", "<num_groups = 64, slots = 8>"),
        (32, "<contiguous>", "<num_groups = 32, slots = 8>"),
        (16, "<deinterleaved = 2>", "<num_groups = 16, slots = 8>"),
        (8, "<deinterleaved = 4>", "<contiguous>"),  # 8 slots of one register
        (4, "<contiguous>", "<num_groups = 4, slots = 1>"),
    ],
)
def test_reductions_of_groups(groups: int, source: str, result: str) -> None:
    """256 lanes of f32: groups of 2, 4, 8, 16, 32 and 64 lanes; a block has 8, a register 64."""
    v, m, r = vreg(256, "f32"), mask(256), vreg(groups, "f32")
    body = "\n".join([
        load("s", 256, "f32"), f'%m = pto.vmi.pset "PAT_ALL" : {m}',
        f"%d = pto.vmi.vcmax %s, %m {{group = {groups}}} : {v}, {m} -> {r}",
        f"%b = pto.vmi.vbrc %d {{group = {groups}}} : {r} -> {v}", store("b", 256, "f32"),
    ])  # fmt: skip
    found = layouts(body, "f32")
    assert (found["s"], found["d"]) == (source, result)


def test_element_wise_operations_and_loops_have_one_layout() -> None:
    v = vreg(256, "f32")
    body = f"""
      {load("h", 256, "f16")}
      %w = pto.vmi.vcvt %h : {vreg(256, "f16")} -> {v}
      %r = scf.for %i = %c0 to %c512 step %c256 iter_args(%a = %w) -> ({v}) {{
        {load("q", 256, "f32", "b", "%i")}
        %n = pto.vmi.vadd %a, %q : {v}, {v} -> {v}
        scf.yield %n : {v}
      }}
      %e = pto.vmi.vneg %r : {v} -> {v}
      {store("e", 256, "f32")}"""
    found = layouts(body, "f16", "f32")
    assert {found[n] for n in ("w", "q", "n", "e")} == {"<deinterleaved = 2>"}


def test_rows_of_blocks_unless_a_conversion_needs_the_lanes_in_order() -> None:
    v, m = vreg(64, "f32"), mask(64)
    rows = f"%s = pto.vmi.vload %a_f32[%c0], %c24 {{group = 4}} : {pointer('f32')} -> {v}"
    largest = "\n".join([
        rows, f'%m = pto.vmi.pset "PAT_ALL" : {m}',
        f"%d = pto.vmi.vcmax %s, %m {{group = 4}} : {v}, {m} -> {vreg(4, 'f32')}",
        store("d", 4, "f32"),
    ])  # fmt: skip
    assert layouts(largest, "f32")["s"] == "<block_deinterleaved = 2>"
    saved = rows + f'\n%t = pto.vmi.vcvt %s {{saturate = "SAT"}} : {v} -> {vreg(64, "f16")}'
    assert layouts(saved, "f32", "f16")["s"] == "<contiguous>"


def test_interleaving_several_registers_is_a_layout() -> None:
    v, m = vreg(256, "f32"), mask(256)
    body = "\n".join([
        load("p", 256, "f32"), f'%m = pto.vmi.pset "PAT_ALL" : {m}',
        f"%lo, %hi = pto.vmi.vintlv %p, %p, %m : {v}, {v}, {m} -> {v}, {v}", store("lo", 256, "f32"),
    ])  # fmt: skip
    assert layouts(body, "f32") == {
        "p": "<contiguous>", "lo": "<deinterleaved = 2>", "hi": "<deinterleaved = 2>",
    }  # fmt: skip
