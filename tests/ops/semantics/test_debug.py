"""Output of tprint and print, trap, reading one element, and what a run-time fault says."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.harness import Case, Scalar, Spec, np_dtype
from tests.support.text import Kernel


def printed(k: Kernel, **args) -> list[str]:
    return k.run(args).prints


def tile_print(dtype: str, values, *, attrs: str = "", **options) -> list[str]:
    k = Kernel("a5", **options)
    rows, cols = np.shape(values)
    width = 256 // int(dtype.lstrip("bfiu"))
    tile = k.tile("t", dtype, rows + 1, width, (rows, cols))
    k.load("src", tile)
    suffix = f" {{{attrs}}}" if attrs else ""
    k.line(f"pto.tprint ins(%t : {tile.type}){suffix}")
    return printed(k, src=np.array(values).astype(np_dtype(dtype)))


def test_tprint_writes_the_valid_rows_in_the_format_of_the_cpu_simulator():
    text = tile_print("f32", [[1.5, -2.25], [np.inf, np.nan]])
    assert text == ["TPRINT 2x2\n  1.5000  -2.2500\n     inf      nan\n"]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("Width8_Precision4", "  0.3333"),
        ("Width8_Precision2", "    0.33"),
        ("Width10_Precision6", "  0.333333"),
    ],
)
def test_tprint_has_three_formats(name, line):
    attrs = f"printFormat = #pto<print_format {name}>"
    assert tile_print("f32", [[1 / 3]], attrs=attrs) == [f"TPRINT 1x1\n{line}\n"]


def test_tprint_writes_integers_without_a_point():
    assert tile_print("i32", [[7, -123456]]) == ["TPRINT 1x2\n       7  -123456\n"]


def test_tprint_of_the_device_marks_the_borders_of_the_valid_region():
    (text,) = tile_print("f32", [[1.0, 2.0]], switches={"tprint.format": "npu"})
    lines = text.splitlines()
    assert lines[0] == "TPRINT data type: f32, layout: nd, tile type: vec"
    assert lines[1] == "Shape: [2, 8], Valid Shape: [1, 2]"
    assert lines[2].startswith("  1.0000   2.0000 | ")
    assert set(lines[3]) == {"-"}
    assert len(lines) == 5


def test_tprint_of_a_view_writes_one_block_for_each_batch_index():
    k = Kernel("a5")
    view = k.view("src", "f32", (2, 1, 2))
    k.line(f"pto.tprint ins({view[0]} : {view[1]})")
    text = printed(k, src=np.arange(4, dtype=np.float32))
    assert text == ["TPRINT 1x2\n  0.0000   1.0000\n", "TPRINT 1x2\n  2.0000   3.0000\n"]


@pytest.mark.parametrize(
    ("form", "type_", "value", "expected"),
    [
        ("x = %d\\n", "index", 42, "x = 42\n"),
        ("%08.3f", "f32", 2.5, "0002.500\n"),
        ("100%% of %d", "i32", -1, "100% of -1\n"),
    ],
)
def test_print_formats_as_c_does(form, type_, value, expected):
    k = Kernel("a5")
    x = k.arg("x", type_)
    k.line(f'pto.print ins("{form}", {x} : {type_})')
    assert printed(k, x=value) == [expected]


def test_prints_come_in_the_order_of_execution():
    k = Kernel("a5")
    zero, one, three = k.const(0), k.const(1), k.const(3)
    k.line(f"scf.for %i = {zero} to {three} step {one} {{")
    k.line('pto.print ins("%d", %i : index)')
    k.line("}")
    assert printed(k) == ["0\n", "1\n", "2\n"]


def test_a_format_that_does_not_take_its_value_is_a_trap():
    k = Kernel("a5")
    x = k.arg("x", "f32")
    k.line(f'pto.print ins("%d %d", {x} : f32)')
    with pytest.raises(ptosim.Trap, match="PTO6022"):
        k.run({"x": 1.0})


def test_trap_stops_the_run():
    k = Kernel("a5")
    k.line("pto.trap")
    with pytest.raises(ptosim.Trap, match="PTO6023"):
        k.run({})


VALUES = [("f32", -2.5), ("f16", 0.25), ("i32", -7), ("bf16", 1.5), ("ui8", 200)]


@pytest.mark.parametrize(
    ("target", "dtype", "value"),
    [("a5", *v) for v in VALUES] + [("a2a3", *v) for v in VALUES[:3]],  # as tadds has them
)
def test_one_element_is_read_in_memory_order(target, dtype, value):
    """The value goes through a scalar of the program into a second tile."""
    k = Kernel(target)
    width = 256 // int(dtype.lstrip("bfiu"))
    x, y, z = (
        k.tile("x", dtype, 2, width),
        k.tile("y", dtype, 1, width),
        k.tile("z", dtype, 1, width),
    )
    k.load("src", x)
    k.load("zeros", z)
    at = k.const(width + 3)
    k.line(f"%v = pto.tgetval ins(%x, {at} : {x.type}, index) outs : {dtype}")
    k.op("pto.tadds", [z, ("%v", dtype)], [y])
    k.store(y, "dst")
    data = np.zeros(2 * width, np_dtype(dtype))
    data[width + 3] = value
    zeros = np.zeros(width, np_dtype(dtype))
    result = k.run({"src": data, "zeros": zeros, "dst": zeros})
    assert result.outputs["dst"].tolist() == [value] * width


def test_an_element_outside_the_tile_is_a_trap():
    operands = {
        "offset": Scalar("index", 64),
        "val": Scalar("f32", 1.0),
        "dst": Spec("f32", 1, 64),
    }
    with pytest.raises(ptosim.Trap, match="PTO6024"):
        Case("tsetval", "a5", operands).run()


def test_a_source_smaller_than_the_destination_is_a_trap():
    """On A5 tadds only wants equal columns."""
    operands = {
        "src": Spec("f32", 1, 16),
        "scalar": Scalar("f32", 1.0),
        "dst": Spec("f32", 4, 16),
    }
    with pytest.raises(ptosim.Trap, match="PTO6021"):
        Case("tadds", "a5", operands).run()


def test_a_boxed_tile_is_a_trap():
    operands = {
        "src": Spec("f32", 16, 16, layout="nz"),
        "scalar": Scalar("f32", 1.0),
        "dst": Spec("f32", 16, 16),
    }
    with pytest.raises(ptosim.Trap, match="PTO6020"):
        Case("tadds", "a5", operands).run()
