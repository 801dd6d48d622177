"""Cube-vector pipes of August 2026, by value: several of them, slots in global memory as views, odd
halves, the vector core's number, pushes that convert; deadlocks and missing signals."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.acc_harness import Filled

TARGETS = ["a3", "a5"]
ROWS, COLS = 16, 64
CONSTANTS = "\n".join(
    f"    %c{n} = arith.constant {n} : index"
    for n in (0, 1, 7, 8, 10, 15, 16, 31, 32, 33, 63, 64, 160)
)
TYPES = """
!TV = !pto.tensor_view<16x64xf32>
!W = !pto.tensor_view<?x64xf32>
!P = !pto.partition_tensor_view<16x64xf32>
!acc = !pto.tile_buf<acc, 16x64xf32, blayout=col_major, slayout=row_major, fractal=1024>
!v = !pto.tile_buf<vec, 16x64xf32>
"""


def module(target: str, cube: str, vector: str, args: str = "", types: str = "") -> str:
    """Two kernels with the same arguments."""
    given = f"%slots: !pto.ptr<f32>, %y: !pto.ptr<f32>{args}"
    text = f'{TYPES}{types}\nmodule attributes {{"pto.target_arch" = "{target}"}} {{\n'
    for kind, body in (("cube", cube), ("vector", vector)):
        text += (
            f"  func.func @{kind}_kernel({given}) attributes "
            f"{{pto.kernel_kind = #pto.kernel_kind<{kind}>}} {{\n{CONSTANTS}\n{body}\n"
            "    return\n  }\n"
        )
    return text + "}\n"


def run(text: str, values: np.ndarray | None = None, **args) -> ptosim.Result:
    given = {
        "slots": np.zeros(8 * 1024, np.float32),
        "y": np.zeros((160, 64), np.float32),
        **args,
    }
    observers = [Filled(values)] if values is not None else []
    launch = ptosim.load(text)
    return launch.run(given, entry="cube_kernel", observers=observers)


def races(result: ptosim.Result) -> list[str]:
    return [f.message for f in result.findings if f.code.startswith("PTO52")]


def flags(source: str, target: str, number: int = 0) -> str:
    pair = f"[#pto.pipe<PIPE_{source}>, #pto.pipe<PIPE_{target}>, #pto.event<EVENT_ID{number}>]"
    return f"    pto.set_flag{pair}\n    pto.wait_flag{pair}"


SLOT = "    %s = pto.make_tensor_view %slots, shape = [%c16, %c64], strides = [%c64, %c1] : !TV"
OUT = "    %vy = pto.make_tensor_view %y, shape = [%c160, %c64], strides = [%c64, %c1] : !W"
VALUES = np.arange(ROWS * COLS, dtype=np.float32).reshape(ROWS, COLS) / 8


def to_vector(target: str, *, drop: str = "") -> str:
    """The cube stores its accumulator to slots in global memory ten times; the vector core adds each
    to itself. `drop`: lines to leave out."""
    cube = f"""{SLOT}
    pto.aic_initialize_pipe {{id = 3, dir_mask = 1, slot_size = 4096, slot_num = 2}} (gm_slot_tensor = %s : !TV)
    %a = pto.alloc_tile : !acc
    scf.for %i = %c0 to %c10 step %c1 {{
      %e = pto.talloc_to_aiv {{id = 3, split = 0}} -> !TV
      %pe = pto.partition_view %e, offsets = [%c0, %c0], sizes = [%c16, %c64] : !TV -> !P
      pto.tstore ins(%a : !acc) outs(%pe : !P)
      pto.tpush_to_aiv(%e : !TV) {{id = 3, split = 0}}
    }}"""
    vector = f"""{SLOT}
{OUT}
    pto.aiv_initialize_pipe {{id = 3, dir_mask = 1, slot_size = 4096, slot_num = 2}} (gm_slot_tensor = %s : !TV)
    %t = pto.alloc_tile : !v
    scf.for %i = %c0 to %c10 step %c1 {{
      %e = pto.tpop_from_aic {{id = 3, split = 0}} -> !TV
      %pe = pto.partition_view %e, offsets = [%c0, %c0], sizes = [%c16, %c64] : !TV -> !P
      pto.tload ins(%pe : !P) outs(%t : !v)
      pto.tfree_from_aic(%e : !TV) {{id = 3, split = 0}}
{flags("MTE2", "V")}
      pto.tadd ins(%t, %t : !v, !v) outs(%t : !v)
{flags("V", "MTE3")}
      %r = arith.muli %i, %c16 : index
      %py = pto.partition_view %vy, offsets = [%r, %c0], sizes = [%c16, %c64] : !W -> !P
      pto.tstore ins(%t : !v) outs(%py : !P)
{flags("MTE3", "MTE2", 1)}
    }}"""
    text = module(target, cube, vector)
    if drop:
        text = "\n".join(line for line in text.split("\n") if not re.search(drop, line))
    return text


@pytest.mark.parametrize("target", TARGETS)
def test_slots_in_global_memory_are_handed_on_as_views(target):
    """More entries than slots: each comes once, in order, and nothing races."""
    result = run(to_vector(target), VALUES)
    np.testing.assert_array_equal(result.outputs["y"], np.tile(VALUES * 2, (10, 1)))
    assert not races(result)
    assert result.cycles > 0


@pytest.mark.parametrize("target", TARGETS)
def test_a_slot_that_nobody_gives_back_is_a_deadlock(target):
    with pytest.raises(ptosim.Trap) as caught:
        run(to_vector(target, drop="tfree_from_aic"), VALUES)
    assert "PTO5006" in {f.code for f in caught.value.findings}


@pytest.mark.parametrize("target", TARGETS)
def test_a_pop_without_a_push_is_a_deadlock(target):
    with pytest.raises(ptosim.Trap) as caught:
        run(to_vector(target, drop="tpush_to_aiv"), VALUES)
    assert "PTO5006" in {f.code for f in caught.value.findings}


@pytest.mark.parametrize("target", TARGETS)
def test_a_free_before_the_load_is_a_race(target):
    """The producer may write the slot again while it is read."""
    lines = to_vector(target).split("\n")
    load = next(i for i, line in enumerate(lines) if "pto.tload" in line)
    free = next(i for i, line in enumerate(lines) if "tfree_from_aic" in line)
    lines[load], lines[free] = lines[free], lines[load]
    assert races(run("\n".join(lines), VALUES))


@pytest.mark.parametrize("target", TARGETS)
def test_a_push_needs_a_slot_that_was_taken(target):
    text = to_vector(target)
    push = next(line for line in text.split("\n") if "tpush_to_aiv" in line)
    with pytest.raises(ptosim.Trap) as caught:
        run(text.replace(push, f"{push}\n{push}"), VALUES)
    assert "PTO5142" in {f.code for f in caught.value.findings}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("split", [1, 2])
def test_each_vector_core_fills_its_half_of_a_slot(target, split):
    """The halves of both vector cores are one slot of the cube."""
    half, rows, cols = ("8x64", "%c8", "%c64") if split == 1 else ("16x32", "%c16", "%c32")
    cube = f"""{SLOT}
    pto.aic_initialize_pipe {{id = 1, dir_mask = 2, slot_size = 4096}} (gm_slot_tensor = %s : !TV)
    %e = pto.tpop_from_aiv {{id = 1, split = {split}}} -> !TV
    %pe = pto.partition_view %e, offsets = [%c0, %c0], sizes = [%c16, %c64] : !TV -> !P
    %m = pto.alloc_tile : !pto.tile_buf<mat, 16x64xf32>
    pto.tload ins(%pe : !P) outs(%m : !pto.tile_buf<mat, 16x64xf32>)
    pto.tfree_from_aiv(%e : !TV) {{id = 1, split = {split}}}"""
    vector = f"""{SLOT}
    pto.aiv_initialize_pipe {{id = 1, dir_mask = 2, slot_size = 4096}} (gm_slot_tensor = %s : !TV)
    %which = pto.get_subblock_idx
    %w = arith.trunci %which : i64 to i32
    %f = arith.sitofp %w : i32 to f32
    %t = pto.alloc_tile : !pto.tile_buf<vec, {half}xf32>
    pto.texpands ins(%f : f32) outs(%t : !pto.tile_buf<vec, {half}xf32>)
{flags("V", "MTE3")}
    %e = pto.talloc_to_aic {{id = 1, split = {split}}} -> !pto.tensor_view<{half}xf32>
    %pe = pto.partition_view %e, offsets = [%c0, %c0], sizes = [{rows}, {cols}] : !pto.tensor_view<{half}xf32> -> !pto.partition_tensor_view<{half}xf32>
    pto.tstore ins(%t : !pto.tile_buf<vec, {half}xf32>) outs(%pe : !pto.partition_tensor_view<{half}xf32>)
    pto.tpush_to_aic(%e : !pto.tensor_view<{half}xf32>) {{id = 1, split = {split}}}"""
    result = run(module(target, cube, vector))
    slot = result.outputs["slots"][:1024].reshape(16, 64)
    expected = np.zeros((16, 64), np.float32)
    expected[(slice(8, None), slice(None)) if split == 1 else (slice(None), slice(32, None))] = 1
    np.testing.assert_array_equal(slot, expected)
    assert not races(result)


def ends(
    target: str, more: str, name: str = "q", size: int = 4096, number: int = 0
) -> tuple[str, str]:
    """Both ends of a pipe from the cube to the vector cores with a reserved buffer."""
    gm = "gm_slot_buffer = %slots : !pto.ptr<f32>, " if target == "a3" else ""
    cube = (
        f'    %{name} = pto.import_reserved_buffer {{name = "{name}", peer_func = @vector_kernel}} -> i32\n'
        f"    pto.aic_initialize_pipe {{id = {number}, dir_mask = 1, slot_size = {size}{more}}} ({gm}c2v_consumer_buf = %{name} : i32)"
    )
    vector = (
        f'    %{name} = pto.reserve_buffer {{name = "{name}", size = {size * 8}, location = #pto.address_space<vec>, auto = true}} -> i32\n'
        f"    pto.aiv_initialize_pipe {{id = {number}, dir_mask = 1, slot_size = {size}{more}}} ({gm}c2v_consumer_buf = %{name} : i32)"
    )
    return cube, vector


@pytest.mark.parametrize("split", [3, 4])
def test_halves_of_an_odd_number(split):
    """The first vector core has one row or column more."""
    rows, cols = (15, 64) if split == 3 else (16, 63)
    cube, vector = ends("a3", "")
    cube += f"""
    %a = pto.alloc_tile : !odd
    pto.tpush_to_aiv(%a : !odd) {{split = {split}}}"""
    most = "8x64" if split == 3 else "16x32"
    size = ("%n", "%c64") if split == 3 else ("%c16", "%n")
    first = ("%at", "%c0") if split == 3 else ("%c0", "%at")
    more, less = ("%c8", "%c7") if split == 3 else ("%c32", "%c31")
    vector += f"""
{OUT}
    %which = pto.get_subblock_idx
    %k = arith.index_cast %which : i64 to index
    %is0 = arith.cmpi eq, %k, %c0 : index
    %n = arith.select %is0, {more}, {less} : index
    %at = arith.muli %k, {more} : index
    %t = pto.tpop_from_aic({size[0]}, {size[1]}) {{split = {split}}} -> !pto.tile_buf<vec, {most}xf32, valid=?x?>
    pto.tfree_from_aic {{split = {split}}}
{flags("MTE2", "MTE3")}
    %py = pto.partition_view %vy, offsets = [{first[0]}, {first[1]}], sizes = [{size[0]}, {size[1]}] : !W -> !pto.partition_tensor_view<?x?xf32>
    pto.tstore ins(%t : !pto.tile_buf<vec, {most}xf32, valid=?x?>) outs(%py : !pto.partition_tensor_view<?x?xf32>)"""
    odd = f"!odd = !pto.tile_buf<acc, 16x64xf32, valid={rows}x{cols}, blayout=col_major, slayout=row_major, fractal=1024>\n"
    values = VALUES[:rows, :cols]
    result = run(module("a3", cube, vector, types=odd), VALUES)
    np.testing.assert_array_equal(result.outputs["y"][:rows, :cols], values)
    rest = result.outputs["y"].copy()
    rest[:rows, :cols] = 0
    assert not rest.any(), "nothing else is written"


@pytest.mark.parametrize("target", TARGETS)
def test_two_pipes_with_ids(target):
    """What goes through one does not come out of the other, whatever the ids of the ends are."""
    one, one_vector = ends(target, "", "p", number=4)
    two, two_vector = ends(target, ", slot_num = 2", "q", number=7)
    if target == "a3":  # slots of their own
        two = two.replace("gm_slot_buffer = %slots", "gm_slot_buffer = %more")
        two_vector = two_vector.replace("gm_slot_buffer = %slots", "gm_slot_buffer = %more")
    two_vector = two_vector.replace("id = 7", "id = 5")
    cube = f"""{one}
{two}
    %a = pto.alloc_tile : !acc
    scf.for %i = %c0 to %c8 step %c1 {{
      pto.tpush_to_aiv(%a : !acc) {{id = 4, split = 1}}
      pto.tpush_to_aiv(%a : !acc) {{id = 7, split = 2}}
    }}"""
    vector = f"""{one_vector}
{two_vector}
{OUT}
    %which = pto.get_subblock_idx
    %k = arith.index_cast %which : i64 to index
    %r = arith.muli %k, %c8 : index
    %c = arith.muli %k, %c32 : index
    scf.for %i = %c0 to %c8 step %c1 {{
      %t = pto.tpop_from_aic {{id = 5, split = 2}} -> !pto.tile_buf<vec, 16x32xf32>
{flags("MTE2", "MTE3") if target == "a3" else ""}
      %py = pto.partition_view %vy, offsets = [%c16, %c], sizes = [%c16, %c32] : !W -> !pto.partition_tensor_view<16x32xf32>
      pto.tstore ins(%t : !pto.tile_buf<vec, 16x32xf32>) outs(%py : !pto.partition_tensor_view<16x32xf32>)
{flags("MTE3", "V") if target == "a5" else flags("MTE3", "MTE2")}
      pto.tfree_from_aic {{id = 5, split = 2}}
      %u = pto.tpop_from_aic {{id = 4, split = 1}} -> !pto.tile_buf<vec, 8x64xf32>
{flags("MTE2", "MTE3") if target == "a3" else ""}
      %pz = pto.partition_view %vy, offsets = [%r, %c0], sizes = [%c8, %c64] : !W -> !pto.partition_tensor_view<8x64xf32>
      pto.tstore ins(%u : !pto.tile_buf<vec, 8x64xf32>) outs(%pz : !pto.partition_tensor_view<8x64xf32>)
{flags("MTE3", "V") if target == "a5" else flags("MTE3", "MTE2")}
      pto.tfree_from_aic {{id = 4, split = 1}}
    }}"""
    text = module(target, cube, vector, ", %more: !pto.ptr<f32>")
    result = run(text, VALUES, more=np.zeros(2 * 1024, np.float32))
    expected = np.zeros((160, 64), np.float32)
    expected[:16] = expected[16:32] = VALUES
    np.testing.assert_array_equal(result.outputs["y"], expected)


@pytest.mark.parametrize("target", TARGETS)
def test_the_number_of_a_vector_core_can_be_given(target):
    """With `aiv_subblockid` each core gets the half of the other."""
    cube, vector = ends(target, "")
    cube += """
    %a = pto.alloc_tile : !acc
    pto.tpush_to_aiv(%a : !acc) {split = 1}"""
    vector += f"""
{OUT}
    %one = arith.constant 1 : i64
    %which = pto.get_subblock_idx
    %other = arith.subi %one, %which : i64
    %k = arith.index_cast %which : i64 to index
    %r = arith.muli %k, %c8 : index
    %t = pto.tpop_from_aic {{split = 1}} aiv_subblockid(%other) -> !pto.tile_buf<vec, 8x64xf32>
{flags("MTE2", "MTE3") if target == "a3" else ""}
    %py = pto.partition_view %vy, offsets = [%r, %c0], sizes = [%c8, %c64] : !W -> !pto.partition_tensor_view<8x64xf32>
    pto.tstore ins(%t : !pto.tile_buf<vec, 8x64xf32>) outs(%py : !pto.partition_tensor_view<8x64xf32>)
    pto.tfree_from_aic {{split = 1}}"""
    result = run(module(target, cube, vector), VALUES)
    expected = np.concatenate([VALUES[8:], VALUES[:8]])
    np.testing.assert_array_equal(result.outputs["y"][:16], expected)
    with pytest.raises(ptosim.Trap) as caught:
        run(module(target, cube, vector.replace("constant 1 : i64", "constant 3 : i64")), VALUES)
    assert "PTO5140" in {f.code for f in caught.value.findings}


EDGES = [0, -1, 1, -3, 5, 127, 128, -128, -129, 255, 256, 3, -2, 7, 1 << 20, -(1 << 20)]
WORDS = {
    "no_convert": ("f32", np.float32),
    "f32_f16": ("f16", np.float16),
    "req8_scalar": ("si8", np.int8),
    "req8_vec": ("si8", np.int8),
    "qf322b8_pre_scalar": ("ui8", np.uint8),
    "deqf16_scalar": ("f16", np.float16),
    "qf322f16_pre_scalar": ("f16", np.float16),
}


def expected_of(quant: str, values: np.ndarray, scales: np.ndarray, relu: bool) -> np.ndarray:
    """convert(relu(x) * scale): whole numbers to nearest even and clamped, floats saturated."""
    wide = values.astype(np.float64)
    if relu:
        wide = np.maximum(wide, 0)
    name, kind = WORDS[quant]
    if quant not in ("no_convert", "f32_f16"):
        wide = wide * scales
    if name in ("si8", "ui8"):
        low, high = (-128, 127) if name == "si8" else (0, 255)
        return np.clip(np.rint(wide), low, high).astype(kind)
    limit = float(np.finfo(kind).max)
    return np.clip(wide, -limit, limit).astype(kind)


def converting(target: str, quant: str, layout: str, relu: str) -> str:
    """A push that converts, and a vector core that stores what it pops."""
    name, _ = WORDS[quant]
    source = "i32" if quant.startswith(("req", "deq")) else "f32"
    tile = f"!pto.tile_buf<vec, 16x64x{name}{', blayout=col_major' if layout == 'nz2dn' else ''}>"
    epilogue = (
        f", nosplit = true, acc_push_epilogue = #pto.acc_push_epilogue<layout = {layout}, "
        f"quant = {quant}, relu = {relu}>"
    )
    cube, vector = ends(target, epilogue)
    cube += "\n    %a = pto.alloc_tile : !a"
    if quant.endswith("scalar"):
        cube += "\n    pto.set_quant_scalar(%scale : f32) {id = 0}"
    if quant.endswith("vec"):
        kind = "i64" if target == "a3" else "f32"
        view, part = f"!pto.tensor_view<1x64x{kind}>", f"!pto.partition_tensor_view<1x64x{kind}>"
        mat, fb = (f"!pto.tile_buf<{loc}, 1x64x{kind}>" for loc in ("mat", "scaling"))
        cube += f"""
    %vs = pto.make_tensor_view %table, shape = [%c1, %c64], strides = [%c64, %c1] : {view}
    %ps = pto.partition_view %vs, offsets = [%c0, %c0], sizes = [%c1, %c64] : {view} -> {part}
    %ml = pto.alloc_tile : {mat}
    %fb = pto.alloc_tile : {fb}
    pto.tload ins(%ps : {part}) outs(%ml : {mat})
{flags("MTE2", "FIX")}
    pto.tmov ins(%ml : {mat}) outs(%fb : {fb})
    pto.set_quant_vector(%fb : {fb}) {{id = 0}}"""
    cube += "\n    pto.tpush_to_aiv(%a : !a) {split = 0}"
    strides, attrs = (
        ("%c64, %c1", "") if layout != "nz2dn" else ("%c1, %c16", " {layout = #pto.layout<dn>}")
    )
    view = f"!pto.tensor_view<16x64x{name}>"
    part = f"!pto.partition_tensor_view<16x64x{name}>"
    vector += f"""
    %vz = pto.make_tensor_view %z, shape = [%c16, %c64], strides = [{strides}]{attrs} : {view}
    %t = pto.tpop_from_aic {{split = 0}} -> {tile}
{flags("MTE2", "MTE3") if target == "a3" else ""}
    %pz = pto.partition_view %vz, offsets = [%c0, %c0], sizes = [%c16, %c64] : {view} -> {part}
    pto.tstore ins(%t : {tile}) outs(%pz : {part})
    pto.tfree_from_aic {{split = 0}}"""
    types = f"!a = !pto.tile_buf<acc, 16x64x{source}, blayout=col_major, slayout=row_major, fractal=1024>\n"
    kind = "i64" if target == "a3" else "f32"
    more = f", %z: !pto.ptr<{name}>, %scale: f32, %table: !pto.ptr<{kind}>"
    return module(target, cube, vector, more, types)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("relu", ["no_relu", "normal_relu"])
@pytest.mark.parametrize("quant", WORDS)
def test_a_push_converts(target, quant, relu):
    source = np.int32 if quant.startswith(("req", "deq")) else np.float32
    values = np.resize(np.array(EDGES), (16, 64)).astype(source)
    scales = np.full(64, 0.5)
    table: np.ndarray = np.zeros(64, np.int64 if target == "a3" else np.float32)
    if quant.endswith("vec"):
        scales = np.where(np.arange(64) % 3, 0.25, 2.0)
        table = scales.astype(np.float32)
        if target == "a3":
            table = table.view(np.uint32).astype(np.int64) | 1 << 46
    kind = WORDS[quant][1]
    result = run(
        converting(target, quant, "nz2nd", relu),
        values,
        z=np.zeros((16, 64), kind),
        scale=0.5,
        table=table,
    )
    expected = expected_of(quant, values, scales, relu == "normal_relu")
    np.testing.assert_array_equal(result.outputs["z"], expected)
    assert not races(result)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("factors", [1, 32])
def test_a_push_needs_a_factor_for_each_column(target, factors):
    text = converting(target, "req8_vec", "nz2nd", "no_relu")
    text = text.replace("1x64x", "1x32x")
    if factors == 1:
        text = re.sub(r"(scaling, 1x32x\w+)", r"\1, valid=1x1", text)
    text = text.replace("sizes = [%c1, %c64]", "sizes = [%c1, %c32]")
    table = np.zeros(64, np.int64 if target == "a3" else np.float32)
    with pytest.raises(ptosim.Trap, match=f"PTO6021.*64 columns.* {factors} factors"):
        run(text, z=np.zeros((16, 64), np.int8), scale=0.5, table=table)


@pytest.mark.parametrize("target", TARGETS)
def test_a_push_that_converts_turns_the_tile(target):
    """With nz2dn the consumer's tile goes column by column; its elements are the same."""
    values = np.resize(np.array(EDGES), (16, 64)).astype(np.float32)
    args = {"z": np.zeros((64, 16), np.float32), "scale": 1.0}
    table = np.zeros(64, np.int64 if target == "a3" else np.float32)
    result = run(converting(target, "no_convert", "nz2dn", "no_relu"), values, **args, table=table)
    np.testing.assert_array_equal(result.outputs["z"], values.T)


def test_a_factor_belongs_to_its_pipe_and_stays():
    """Two pushes after one setting; a factor of another pipe changes nothing."""
    text = converting("a5", "req8_scalar", "nz2nd", "no_relu")
    push = next(line for line in text.split("\n") if "tpush_to_aiv" in line)
    pop = next(line for line in text.split("\n") if "tpop_from_aic" in line)
    free = next(line for line in text.split("\n") if "tfree_from_aic" in line)
    text = text.replace(push, f"{push}\n{push}").replace(
        pop, f"{pop.replace('%t', '%first')}\n{free}\n{pop}"
    )
    values = np.resize(np.array(EDGES), (16, 64)).astype(np.int32)
    args = {"z": np.zeros((16, 64), np.int8), "scale": 0.5, "table": np.zeros(64, np.float32)}
    result = run(text, values, **args)
    expected = expected_of("req8_scalar", values, np.full(64, 0.5), False)
    np.testing.assert_array_equal(result.outputs["z"], expected)
