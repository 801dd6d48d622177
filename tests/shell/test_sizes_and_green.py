"""Sizes follow from what is known, and nothing is green that was not looked at."""

from __future__ import annotations

import shutil

import pytest

import ptosim
from ptosim.ground.isa.cache import programs_directory
from ptosim.launch.compare import compare

DYNAMIC = """module attributes {pto.target_arch = "a5"} {
  func.func @kernel(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %no: !pto.ptr<f32>, %n: i32) attributes {pto.entry} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %m = arith.index_cast %n : i32 to index
    %rows = arith.muli %m, %c16 : index
    %vx = pto.make_tensor_view %x, shape = [%rows, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
    %vy = pto.make_tensor_view %y, shape = [%rows, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
    %t = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
    scf.for %i = %c0 to %rows step %c16 {
      %px = pto.partition_view %vx, offsets = [%i, %c0], sizes = [%c16, %c64] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<16x64xf32>
      %py = pto.partition_view %vy, offsets = [%i, %c0], sizes = [%c16, %c64] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<16x64xf32>
      pto.tload ins(%px : !pto.partition_tensor_view<16x64xf32>) outs(%t : !pto.tile_buf<vec, 16x64xf32>)
      pto.tstore ins(%t : !pto.tile_buf<vec, 16x64xf32>) outs(%py : !pto.partition_tensor_view<16x64xf32>)
    }
    return
  }
}
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "k.pto"
    file.write_text(DYNAMIC, encoding="utf-8")
    return file


def test_given_scalars_fix_the_sizes_of_views() -> None:
    """3 x 16 rows of 64, by the arithmetic of the program."""
    result = ptosim.load(DYNAMIC).run({"n": 3})
    assert {name: a.shape for name, a in result.outputs.items() if name != "no"} == {
        "x": (48, 64),
        "y": (48, 64),
    }


def test_a_pointer_that_nothing_uses_needs_no_array(cli, path) -> None:
    assert "no: nothing: the program does not use it" in cli("run", path, "--arg", "n=2").out


def test_the_help_is_ready_to_paste(cli, path) -> None:
    outcome = cli("run", path)
    assert outcome.code == 2
    assert "--arg n=64" in outcome.err
    assert "--arg x=randn:f32:64x64" in outcome.err
    assert cli("run", path, "--arg", "n=64").code == 0


def test_views_without_rows_need_nothing(cli, path) -> None:
    for rows in ("0", "-1"):
        assert cli("run", path, "--arg", f"n={rows}").code == 0


def test_a_comparison_of_nothing_is_not_green(cli, path) -> None:
    outcome = cli("port", path, "--from", "a2a3", "--to", "a5")
    assert (outcome.code, "no values were compared" in outcome.out) == (2, True)
    assert "nothing got worse" not in outcome.out
    assert cli("diff", path, path).code == 2
    given = cli("port", path, "--from", "a2a3", "--to", "a5", "--arg", "n=2")
    assert (given.code, "nothing got worse" in given.out) == (0, True)


def test_an_array_of_another_shape_than_the_views_is_noted(cli, path) -> None:
    odd = cli("run", path, "--arg", "n=2", "--arg", "x=randn:f32:64x32")
    assert (
        odd.code,
        "PTO6043" in cli("run", path, "--arg", "n=2", "--arg", "x=randn:f32:64x32", "-v").err,
    ) == (0, True)
    same = cli("run", path, "--arg", "n=2", "--arg", "x=randn:f32:32x64", "-v")
    assert "PTO6043" not in same.err


def test_a_strict_run_says_in_a_line_why_it_fails(cli) -> None:
    outcome = cli("run", "@broken/stale_padding", "-q", "--strict")
    assert outcome.code == 1
    # a run ends with its verdict in one line
    assert outcome.err.splitlines()[-1].startswith("failed: ")
    assert "PTO7101" in outcome.err.splitlines()[-1]


def test_files_of_narrow_floats_say_what_they_hold(cli, tmp_path) -> None:
    name = tmp_path / "y.npy"
    tile = "!pto.tile_buf<vec, 16x64xbf16>"
    text = f"%a = pto.tadds %x, 1.0 : {tile} -> {tile}\n"
    program = tmp_path / "k.pto"
    program.write_text(text.replace("tile_buf<vec, ", "tile<"), encoding="utf-8")
    outcome = cli("run", program, "--target", "a5", "--out", f"a={name}")
    assert (outcome.code, "holds the bits of bfloat16" in outcome.err) == (0, True), outcome.err


def test_a_sidecar_is_used_from_python_as_on_the_command_line(cli, tmp_path) -> None:
    """`load` takes target and date from it, `run` without arguments its arguments; the report of
    the command line names it."""
    shutil.copytree(programs_directory() / "basics", tmp_path / "basics")
    path = tmp_path / "basics" / "vadd.pto"
    program = ptosim.load(path)
    assert program.target == "a2a3"  # the first of its targets
    result = program.run()
    assert result.generated == {}
    for name, (expected, tolerance) in program.expected().items():
        assert compare(name, result.outputs[name], expected, tolerance).passed
    assert ptosim.load(path, target="a5").target == "a5"  # what is given wins
    assert "vadd.toml" in cli("run", path).out
    path.with_suffix(".toml").unlink()
    assert ptosim.load(path).expected() == {}


def test_a_tile_that_is_scratch_first_and_then_read_gets_data() -> None:
    """What scratch holds no operation gives or takes: the first use that counts is the reading."""
    tile = "!pto.tile_buf<vec, 16x64xf32>"
    text = (
        f"func.func @k(%a: {tile}, %b: {tile}, %d: {tile}) {{\n"
        f"  pto.trsqrt ins(%a, %b : {tile}, {tile}) outs(%d : {tile})\n"
        f"  LATER\n  return\n}}\n"
    )
    read = text.replace("LATER", f"pto.tadd ins(%a, %b : {tile}, {tile}) outs(%d : {tile})")
    assert set(ptosim.load(read, target="a5").run().generated) == {"a", "b"}
    assert set(ptosim.load(text.replace("LATER", ""), target="a5").run().generated) == {"a"}
