"""Operands of a memref type in global memory, in every command."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.shell.main import main

APRIL = "2026-04"  # the language in which tile operations take memrefs
GM = "memref<16x64xf32, #pto.address_space<gm>>"
TILE = "!pto.tile_buf<vec, 16x64xf32>"
X = np.arange(1024, dtype=np.float32).reshape(16, 64)


def copy(arch: str, times: int = 1) -> str:
    """x to y over a tile, doubled; the transfers name the memrefs themselves."""
    return f"""module attributes {{pto.target_arch = "{arch}"}} {{
  func.func @k(%x: {GM}, %y: {GM}) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant {times} : index
    %a = pto.alloc_tile : {TILE}
    scf.for %i = %c0 to %n step %c1 {{
      pto.tload ins(%x : {GM}) outs(%a : {TILE})
      pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
      pto.wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
      pto.tadd ins(%a, %a : {TILE}, {TILE}) outs(%a : {TILE})
      pto.set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]
      pto.wait_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]
      pto.tstore ins(%a : {TILE}) outs(%y : {GM})
      pto.barrier <PIPE_ALL>
    }}
    return
  }}
}}
"""


@pytest.mark.parametrize("arch", ["a2a3", "a5"])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("commit", ["program", "retire"])
def test_values(arch, times, commit):
    loaded = ptosim.load(copy(arch, times), compat=APRIL)
    result = loaded.run({"x": X, "y": np.zeros_like(X)}, commit=commit)
    np.testing.assert_array_equal(result.outputs["y"], 2 * X)
    assert result.findings == []


@pytest.mark.parametrize("arch", ["a2a3", "a5"])
def test_it_costs_what_the_same_program_on_views_costs(arch):
    part = "!pto.partition_tensor_view<16x64xf32>"
    view = "!pto.tensor_view<16x64xf32>"
    lines = copy(arch).replace(GM, part).splitlines()
    lines[1] = lines[1].replace(f": {part}", ": !pto.ptr<f32>").replace("%x:", "%px:")
    lines[1] = lines[1].replace("%y:", "%py:")
    made = ["%c16 = arith.constant 16 : index", "%c64 = arith.constant 64 : index"]
    for name in "xy":
        made += [
            f"%v{name} = pto.make_tensor_view %p{name}, shape = [%c16, %c64], "
            f"strides = [%c64, %c1] : {view}",
            f"%{name} = pto.partition_view %v{name}, offsets = [%c0, %c0], "
            f"sizes = [%c16, %c64] : {view} -> {part}",
        ]
    views = "\n".join([*lines[:4], *made, *lines[4:]])
    assert ptosim.load(copy(arch), compat=APRIL).cost().cycles == ptosim.load(views).cost().cycles


@pytest.mark.parametrize(
    "command",
    [
        ["run"],
        ["check", "--dry-run"],
        ["check", "--redundant"],
        ["check", "--needless"],
        ["cost"],
        ["map"],
        ["stats"],
        ["port", "--from", "a2a3", "--to", "a5"],
        ["diff", "k.pto"],
        ["fmt"],
    ],
    ids=lambda c: c[0],
)
def test_no_command_ends_in_an_internal_error(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.pto").write_text(copy("a2a3"))
    assert main([command[0], "k.pto", *command[1:], "--compat", APRIL]) in (0, 1)


def test_a_step_of_the_debugger():
    session = ptosim.load(copy("a5"), compat=APRIL).debug({"x": X, "y": np.zeros_like(X)})
    session.continue_()
    np.testing.assert_array_equal(session.launch.outputs()["y"], 2 * X)


def test_a_race_between_memrefs_is_found_without_values():
    racy = copy("a5").replace("pto.set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]", "", 1)
    racy = racy.replace("pto.wait_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]", "", 1)
    assert [d.code for d in ptosim.check(racy, compat=APRIL)] == ["PTO5201"]


def test_a_window_of_a_memref_that_leaves_it_is_refused():
    reach = (
        "%r = memref.reinterpret_cast %x to offset: [%c1], sizes: [16, 64], strides: [64, 1] : "
        f"{GM} to memref<16x64xf32, strided<[64, 1], offset: ?>, #pto.address_space<gm>>"
    )
    text = copy("a5").replace("    %a =", f"    {reach}\n    %a =")
    text = text.replace(
        f"tload ins(%x : {GM})",
        "tload ins(%r : memref<16x64xf32, strided<[64, 1], offset: ?>, #pto.address_space<gm>>)",
    )
    with pytest.raises(ptosim.Trap) as stopped:
        ptosim.load(text, compat=APRIL).run({"x": X, "y": np.zeros_like(X)})
    assert stopped.value.findings[-1].code == "PTO6001"
    assert "PTO6001" in [d.code for d in ptosim.check(text, compat=APRIL)], "the type says its size"


def test_a_memref_with_gaps_is_as_large_as_it_reaches():
    """Rows of 64 elements at a distance of 128: 15 * 128 + 64 elements, generated or given."""
    strided = "memref<16x64xf32, strided<[128, 1]>, #pto.address_space<gm>>"
    text = copy("a5").replace(GM, strided)
    result = ptosim.load(text, compat=APRIL).run()
    assert {name: array.size for name, array in result.outputs.items()} == {"x": 1984, "y": 1984}
    assert ptosim.check(text, compat=APRIL) == []
    x, y = np.arange(1984, dtype=np.float32), np.zeros(1984, np.float32)
    rows = np.lib.stride_tricks.as_strided(x, (16, 64), (512, 4))
    got = ptosim.load(text, compat=APRIL).run({"x": x, "y": y}).outputs["y"]
    np.testing.assert_array_equal(
        np.lib.stride_tricks.as_strided(got, (16, 64), (512, 4)), 2 * rows
    )
    with pytest.raises(ptosim.UsageError, match="reach 1984"):
        ptosim.load(text, compat=APRIL).run({"x": x[:1983], "y": y})
