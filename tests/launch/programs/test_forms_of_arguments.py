"""Arguments that are no pointers: views, buffers in memories of the core, tiles; and functions that
are no entries."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim

KERNEL = "attributes {pto.kernel, pto.kernel_kind = #pto.kernel_kind<vector>}"
TILE, VIEW = "!pto.tile_buf<vec, 16x64xf32>", "!pto.partition_tensor_view<16x64xf32>"
ABS = "!pto.vreg<64xf32>, !pto.mask<b32> -> !pto.vreg<64xf32>"


def of_views(dims: str) -> str:
    v = f"!pto.tensor_view<{dims}xf32>"
    window = f"offsets = [%c0, %c0], sizes = [%c16, %c64] : {v} -> {VIEW}"
    return f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @k(%x: {v}, %y: {v}) attributes {{pto.kernel}} {{
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %p = pto.partition_view %x, {window}
    %q = pto.partition_view %y, {window}
    %t = pto.alloc_tile : {TILE}
    pto.tload ins(%p : {VIEW}) outs(%t : {TILE})
    pto.tabs ins(%t : {TILE}) outs(%t : {TILE})
    pto.tstore ins(%t : {TILE}) outs(%q : {VIEW})
    return
  }}
}}"""


def in_ub(type_: str) -> str:
    return f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @k(%x: {type_}, %y: {type_}) {KERNEL} {{
    %z = arith.constant 0 : index
    pto.vecscope {{
      %k = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
      %v = pto.vlds %x[%z] : {type_} -> !pto.vreg<64xf32>
      %w = pto.vabs %v, %k : {ABS}
      pto.vsts %w, %y[%z], %k : !pto.vreg<64xf32>, {type_}, !pto.mask<b32>
    }}
    return
  }}
}}"""


def data(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(0, 3, shape).astype(np.float32)


@pytest.mark.parametrize("dims", ["16x64", "?x64", "?x?"])
@pytest.mark.parametrize("rows", [16, 20])
def test_a_view_is_the_array_that_is_given(dims, rows):
    """Its rows follow each other; sizes that its type leaves open are those of the array."""
    given = data(rows, 64)
    args = {"x": given, "y": np.zeros_like(given)}
    found = ptosim.load(of_views(dims)).run(args)
    expected = np.zeros_like(given)
    expected[:16] = np.abs(given[:16])
    assert found.outputs["y"].tobytes() == expected.tobytes()
    assert found.findings == []


def test_a_view_that_is_left_out_has_the_sizes_of_its_type():
    found = ptosim.load(of_views("16x64")).run({})
    assert (found.outputs["y"] == np.abs(found.outputs["x"])).all()
    with pytest.raises(ptosim.PtosimError, match="nothing fixes its sizes"):
        ptosim.load(of_views("?x64")).run({})
    with pytest.raises(ptosim.PtosimError, match="nothing fixes its sizes"):
        ptosim.load(of_views("?x64")).run({"x": data(64), "y": data(16, 64)})


@pytest.mark.parametrize("type_", ["memref<128xf32, #pto.address_space<vec>>", "!pto.ptr<f32, ub>"])
def test_buffers_on_chip_are_arrays_before_and_after(type_):
    """What is given is defined, what is not written stays, and buffers do not share bytes."""
    given = data(128)
    found = ptosim.load(in_ub(type_)).run({"x": given, "y": np.full_like(given, 7)})
    assert found.outputs["x"].tobytes() == given.tobytes()
    assert (found.outputs["y"][:64] == np.abs(given[:64])).all()
    assert (found.outputs["y"][64:] == 7).all()
    assert "PTO7101" not in [d.code for d in found.findings]


def test_buffers_on_chip_that_do_not_fit():
    memref, pointer = "memref<128xf32, #pto.address_space<vec>>", "!pto.ptr<f32, ub>"
    with pytest.raises(ptosim.PtosimError, match="has 64 elements"):
        ptosim.load(in_ub(memref)).run({"x": data(64), "y": data(128)})
    with pytest.raises(ptosim.PtosimError, match="no room for"):
        ptosim.load(in_ub(pointer)).run({"x": data(1 << 18), "y": data(64)})


@pytest.mark.parametrize("commit", ["program", "retire"])
@pytest.mark.parametrize("shape", [(0,), (1,), (3,), (16, 16), (100,), (7, 33), (256, 128)])
def test_an_accumulator_is_its_bytes_in_their_order(shape, commit):
    """Elements of 32 bits lie in boxes there, which an array of any size fills (found by fuzzing)."""
    text = "func.func @k(%c: !pto.ptr<f32, acc>) attributes {pto.kernel} { return }"
    found = ptosim.load(text, target="a5").run({"c": data(*shape)}, commit=commit)
    assert found.outputs["c"].tobytes() == data(*shape).tobytes()
    with pytest.raises(ptosim.PtosimError, match="no room for"):
        ptosim.load(text, target="a5").run({"c": data(1 << 17)}, commit=commit)


def test_a_check_follows_them_and_counts_them_as_written():
    for text in (of_views("16x64"), in_ub("memref<128xf32, #pto.address_space<vec>>")):
        assert [
            d for d in ptosim.check(text) if d.is_error or d.code in ("PTO6050", "PTO7101")
        ] == []


def test_entry_names_a_function_that_is_none():
    text = f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @k(%g: !pto.ptr<f32>) attributes {{pto.kernel}} {{
    return
  }}
  func.func @half(%x: {TILE}, %y: {TILE}) {{
    pto.tabs ins(%x : {TILE}) outs(%y : {TILE})
    return
  }}
  func.func private @declared()
}}"""
    program, given = ptosim.load(text), data(16, 64)
    assert program.entries == ["k"]
    found = program.run({"x": given}, entry="half")
    assert found.outputs["y"].tobytes() == np.abs(given).tobytes()
    with pytest.raises(ptosim.PtosimError, match="no entry `declared`"):
        program.run({}, entry="declared")
