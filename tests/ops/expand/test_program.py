"""Which programs and operations are written out, and what is said about the others."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import ProgramError, UnsupportedError
from ptosim.ground.errors import UsageError
from ptosim.ground.source import Source
from ptosim.ops.lower.program import expand
from ptosim.shell.main import main
from tests.support.text import Kernel, date_of


def reason(k: Kernel) -> str:
    """Why the only operation with an expansion stays."""
    expanded = expand(Source("tile.pto", k.text()), compat=date_of(k.text()))
    assert not expanded.stages
    return expanded.kept[0].reason


def unary(**keys) -> Kernel:
    k = Kernel("a5")
    a, b = k.tile("a", "f32", 16, 16, **keys), k.tile("b", "f32", 16, 16, **keys)
    k.op("pto.tabs", [a], [b])
    return k


def test_tiles_that_vector_loads_cannot_address():
    k = Kernel("a5")
    a, b = k.tile("a", "f32", 16, 16), k.tile("b", "i32", 16, 16, layout="dn")
    k.op("pto.tcvt", [a], [b])
    assert "column-major" in reason(k)
    k = Kernel("a5")
    boxed = k.tile("boxed", "f32", 16, 16, layout="nz")
    k.op("pto.texpands", [(k.arg("s", "f32"), "f32")], [boxed])
    assert "fractal boxes" in reason(k)


def test_mask_bits_of_columns_that_only_the_run_knows():
    k = Kernel("a5")
    extent = k.arg("rows", "index")
    a, b = (k.dynamic(n, "f32", 16, 32, (extent, extent)) for n in "ab")
    mask = k.dynamic("m", "i8", 16, 32, (extent, extent))
    k.op("pto.tcmp", [a, b], [mask], "cmpMode = #pto<cmp lt>")
    assert "at run time only" in reason(k)


def test_what_stays_is_counted_and_strict_fails(tmp_path, capsys):
    """A remainder has no expansion, an absolute value has one."""
    k = unary()
    a, b = k.tile("c", "f32", 16, 16), k.tile("d", "f32", 16, 16)
    k.op("pto.tpows", [a, (k.arg("s", "f32"), "f32")], [b])
    (tmp_path / "k.pto").write_text(k.text())
    assert main(["expand", str(tmp_path / "k.pto")]) == 0
    said = capsys.readouterr()
    assert "1 of 2 vector operations stay as they are: tpows 1" in said.err
    assert "pto.tpows stays" in said.out
    assert main(["expand", str(tmp_path / "k.pto"), "--strict"]) == 1


def test_microscaling_without_scratch():
    k = Kernel("a5")
    src, dst = k.tile("src", "bf16", 32, 64), k.tile("dst", "f8E4M3FN", 32, 64)
    exp = k.tile("exp", "ui8", 1, 64)
    k.op("pto.tquant", [src], [dst, exp], "mx_alg = #pto<mx_quant_alg OcpMxFp8E4M3>")
    assert "operand max is left out" in reason(k)


_RESULTS = """module attributes {pto.target_arch = "a5"} {
  func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %v = pto.make_tensor_view %x, shape = [%c16, %c64], strides = [%c64, %c1] : VIEW
    %w = pto.make_tensor_view %y, shape = [%c16, %c64], strides = [%c64, %c1] : VIEW
    %a = pto.tload %v : (VIEW) -> TILE
    %b = pto.tadd %a, %a : (TILE, TILE) -> TILE
    pto.tstore ins(%b : TILE) outs(%w : VIEW)
    return
  }
}
""".replace("VIEW", "!pto.tensor_view<16x64xf32>").replace("TILE", "!pto.tile<16x64xf32>")


def test_what_an_older_date_refuses_stays():
    """Extents that only the run knows are asked of the tile by an operation of August."""
    open_ = "!pto.tile_buf<vec, 16x64xf32, valid=?x64>"
    more = (
        f"%d = pto.alloc_tile valid_row = %c16 : {open_}",
        f"pto.tabs ins(%d : {open_}) outs(%d : {open_})",
    )
    text = _RESULTS.replace("%b = pto.tadd", "\n    ".join((*more, "%b = pto.tadd")))
    assert not expand(Source("k.pto", text)).kept
    found = expand(Source("k.pto", text), compat="2026-04")
    assert [s.name for s in found.stages] == ["pto.tabs", "pto.tadd"]
    argument = text.replace("valid_row = %c16", "valid_row = %n").replace("%y: ", "%n: index, %y: ")
    found = expand(Source("k.pto", argument), compat="2026-04")
    assert [(k.name, k.reason[:8]) for k in found.kept] == [("pto.tabs", "2026-04 ")]
    assert not any(
        d.is_rejection for d in ptosim.check(found.text, compat="2026-04", dry_run=False)
    )


def test_operations_with_results_are_given_destinations_first():
    expanded = expand(Source("k.pto", _RESULTS))
    assert [s.name for s in expanded.stages] == ["pto.tadd"]
    assert not expanded.kept
    x = np.arange(1024, dtype=np.float32).reshape(16, 64)
    found = ptosim.load(expanded.text).run({"x": x, "y": np.zeros_like(x)})
    np.testing.assert_array_equal(found.outputs["y"], x + x)


def test_names_do_not_meet_those_of_the_program():
    k = Kernel("a5")
    a, b = k.tile("x0_1", "f32", 16, 64), k.tile("xx1", "f32", 16, 64)
    k.load("in", a)
    k.op("pto.tabs", [a], [b])
    k.store(b, "out")
    given = np.linspace(-3, 3, 1024, dtype=np.float32).reshape(16, 64)
    text = expand(Source("tile.pto", k.text())).text
    outputs = ptosim.load(text).run({"in": given, "out": np.zeros_like(given)}).outputs
    np.testing.assert_array_equal(outputs["out"], np.abs(given))


def test_empty_regions_are_left_out():
    k = Kernel("a5")
    a, b = k.tile("a", "f32", 16, 64, (0, 64)), k.tile("b", "f32", 16, 64, (0, 64))
    k.op("pto.tabs", [a], [b])
    assert "no elements" in expand(Source("tile.pto", k.text())).text


def test_another_target_a_snippet_and_a_wrong_program():
    k = unary()
    with pytest.raises(UsageError, match="vector regions are for a5"):
        expand(Source("tile.pto", k.text().replace('"a5"', '"a3"')))
    with pytest.raises(UsageError, match="no function"):
        expand(
            Source("tile.pto", "%y = pto.tabs %x : !pto.tile<16x16xf32> -> !pto.tile<16x16xf32>\n")
        )
    with pytest.raises(ProgramError):
        expand(Source("tile.pto", k.text().replace("outs(%b", "outs(%nothing")))


def test_the_command(cli, tmp_path):
    path = tmp_path / "tile.pto"
    k = unary()
    c = k.tile("c", "f32", 16, 16)
    k.op("pto.tpow", [c, c], [c])
    path.write_text(k.text())
    written = cli("expand", path, "-o", tmp_path / "vector.pto")
    assert (written.code, written.out) == (0, "")
    text = (tmp_path / "vector.pto").read_text()
    assert "pto.vecscope {" in text
    assert "pto.tpow" in text
    assert cli("check", tmp_path / "vector.pto").code == 0
    report = json.loads(cli("expand", path, "--format", "json").out)
    assert report["stages"] == [
        {
            "name": "pto.tabs",
            "line": 5,
            "counts": {"vlds": 4, "vabs": 4, "vsts": 4, "plt_b32": 1},  # 16x16: one run
        }
    ]
    assert cli("expand", tmp_path / "none.pto").code == 2
    assert cli("expand", path, "--target", "a3").code == 2


def test_calls_of_calls_are_not_inlined_without_end():
    """Each of 22 functions calls the next one twice: two million additions where they are inlined."""
    vector = "!pto.vmi.vreg<64xf32>"
    call = "func.call @f{}(%{}) : (" + vector + ") -> " + vector
    functions = [
        f"func.func private @f{n}(%a: {vector}) -> {vector} {{\n"
        f"%b = {call.format(n + 1, 'a')}\n%c = {call.format(n + 1, 'b')}\n"
        f"return %c : {vector}\n}}"
        for n in range(22)
    ]
    text = "\n".join(
        [
            'module attributes {pto.target_arch = "a5", '
            "pto.kernel_kind = #pto.kernel_kind<vector>} {",
            *functions,
            f"func.func private @f22(%a: {vector}) -> {vector} {{\nreturn %a : {vector}\n}}",
            "func.func @k(%p: !pto.ptr<f32, ub>) attributes {pto.kernel} {",
            "%c0 = arith.constant 0 : index\npto.vecscope {",
            f"%v = pto.vmi.vload %p[%c0] : !pto.ptr<f32, ub> -> {vector}",
            f"%w = {call.format(0, 'v')}",
            f"pto.vmi.vstore %w, %p[%c0] : {vector}, !pto.ptr<f32, ub>\n}}\nreturn\n}}\n}}",
        ]
    )
    with pytest.raises(UnsupportedError, match="more than 32,768 operations"):
        expand(Source("x.pto", text), compat="2026-08")
