"""What works and could be better: notes of origin `lint`, with the place and the cure."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.ground.diagnostics.model import Origin, Severity
from tests.support.paths import PROGRAMS

HEAD = """func.func @kernel(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %f = arith.constant 2.0 : f32
  %vx = pto.make_tensor_view %x, shape = [%c64, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
  %vy = pto.make_tensor_view %y, shape = [%c64, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
  %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c64, %c64] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<64x64xf32>
  %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c64, %c64] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<64x64xf32>
  %t = pto.alloc_tile : !t
  %u = pto.alloc_tile : !t
"""
LOAD = "  pto.tload ins(%px : !pto.partition_tensor_view<64x64xf32>) outs(%t : !t)\n"
STORE = "  pto.tstore ins(%u : !t) outs(%py : !pto.partition_tensor_view<64x64xf32>)\n"
DOUBLE = "  pto.tmuls ins(%t, %f : !t, f32) outs(%u : !t)\n"
ALIAS = "!t = !pto.tile_buf<vec, 64x64xf32>\n"


def lints(*lines: str, head: str = HEAD) -> list[tuple[str, str]]:
    """The codes and the text of the first lines that the notes are about."""
    text = ALIAS + head + "".join(lines) + "  return\n}\n"
    found = ptosim.check(text, target="a5")
    notes = [d for d in found if d.origin is Origin.LINT and d.code.startswith("PTO74")]
    assert all(d.severity is Severity.NOTE and d.help for d in notes)
    assert [d for d in found if d.is_error] == []
    return [(d.code, d.message) for d in notes]


def test_a_kernel_without_waste() -> None:
    assert lints(LOAD, DOUBLE, STORE) == []


def test_a_tile_that_nothing_uses() -> None:
    assert lints("  %w = pto.alloc_tile : !t\n", LOAD, DOUBLE, STORE) == [
        ("PTO7401", "tile `%w` is never used")
    ]


def test_a_view_that_nothing_uses() -> None:
    view = HEAD.splitlines()[7].replace("%px =", "%pz =") + "\n"
    assert lints(view, LOAD, DOUBLE, STORE) == [("PTO7402", "view `%pz` is never used")]


def test_an_output_that_is_never_written() -> None:
    head = HEAD.replace("%n: index", "%n: index, %out: !pto.ptr<f32>")
    assert lints(LOAD, DOUBLE, STORE, head=head) == [("PTO7403", "argument `%out` is never used")]


def test_kernels_that_are_launched_together_share_their_arguments() -> None:
    """One of them uses it: that is enough."""
    other = "func.func @other(%out: !pto.ptr<f32>) attributes {pto.entry} {\n  return\n}\n"
    used = (
        other.replace("@other", "@used")
        .replace("  return", "  %s = pto.load_scalar %out[%z] : !pto.ptr<f32> -> f32\n  return")
        .replace("{\n", "{\n  %z = arith.constant 0 : index\n", 1)
    )
    assert [d.code for d in ptosim.check(other) if d.code == "PTO7403"] == ["PTO7403"]
    assert [d.code for d in ptosim.check(other + used) if d.code == "PTO7403"] == []


def test_a_result_that_nobody_reads() -> None:
    lost = DOUBLE.replace("%u", "%w")
    assert lints("  %w = pto.alloc_tile : !t\n", LOAD, lost, DOUBLE, STORE) == [
        ("PTO7404", "what is written to `%w` is never read")
    ]


def test_a_window_is_the_tile_that_it_is_of() -> None:
    window = "  %w = pto.subview %u[%c0, %c0] sizes [32, 64] : !t\n"
    store = STORE.replace("%u : !t", "%w : !pto.tile_buf<vec, 32x64xf32>")
    store = store.replace("%py", "%ph").replace("64x64", "32x64")
    part = (
        HEAD.splitlines()[8].replace("%py =", "%ph =").replace("sizes = [%c64,", "sizes = [%c32,")
    )
    part = "  %c32 = arith.constant 32 : index\n" + part.replace("view<64x64", "view<32x64") + "\n"
    assert [code for code, _ in lints(part, LOAD, DOUBLE, window, store)] == ["PTO7402"]


def test_tiles_at_one_address_are_names_of_one_buffer() -> None:
    """At level 3 a second tile at the address of another one has its bytes: what is read of one was
    written to the other."""
    at = "  %a{0} = arith.constant {0} : i64\n  %{1} = pto.alloc_tile addr = %a{0} : !t\n"
    head = HEAD.replace("  %t = pto.alloc_tile : !t\n", at.format(0, "t"))
    head = head.replace("  %u = pto.alloc_tile : !t\n", at.format(16384, "u"))
    name = "  %w = pto.alloc_tile addr = %a0 : !t\n"
    fill = "  pto.texpands ins(%f : f32) outs(%w : !t)\n"
    work = (LOAD, DOUBLE, STORE, fill, DOUBLE, STORE)
    assert lints(name, *work, head=head) == []
    elsewhere = at.format(32768, "w")
    assert lints(elsewhere, *work, head=head) == [
        ("PTO7404", "what is written to `%w` is never read")
    ]


def test_a_result_that_is_overwritten_unread() -> None:
    fill = "  pto.texpands ins(%f : f32) outs(%t : !t)\n"
    assert lints(fill, LOAD, DOUBLE, STORE) == [
        ("PTO7405", "what is written to `%t` is overwritten before anything reads it")
    ]
    assert lints(LOAD, DOUBLE, fill, DOUBLE, STORE) == [
        ("PTO7405", "what is written to `%u` is overwritten before anything reads it")
    ]
    assert lints(LOAD, DOUBLE, STORE, fill, DOUBLE, STORE) == []


def in_a_loop(*lines: str) -> str:
    return f"  scf.for %i = %c0 to %n step %c1 {{\n{''.join(lines)}  }}\n"


def test_a_load_that_a_loop_repeats() -> None:
    assert lints(in_a_loop(LOAD, DOUBLE), STORE) == [
        ("PTO7406", "'pto.tload' brings the same bytes in every round of the loop")
    ]


MOVED = HEAD.splitlines()[7].replace("%px =", "%pi =").replace("[%c0,", "[%i,") + "\n"


@pytest.mark.parametrize(
    "body",
    [
        (LOAD, "  pto.tadds ins(%t, %f : !t, f32) outs(%t : !t)\n", DOUBLE),  # it changes the tile
        (LOAD, DOUBLE, STORE.replace("%py", "%px")),  # it changes what is loaded
        (MOVED, LOAD.replace("%px", "%pi"), DOUBLE),  # the view moves
    ],
)
def test_a_load_that_a_loop_needs(body: tuple[str, ...]) -> None:
    assert "PTO7406" not in [code for code, _ in lints(in_a_loop(*body), STORE)]


def test_shipped_programs_have_nothing_to_be_told_but_notes() -> None:
    programs = PROGRAMS
    for path in sorted(programs.glob("quant/*.pto"))[:6]:
        found = ptosim.check(path)
        assert [d.code for d in found if d.code.startswith("PTO74")] == [], path.name


def test_the_assemblers_verdict_has_no_advice() -> None:
    text = ALIAS + HEAD + "  return\n}\n"
    assert {d.code for d in ptosim.check(text, target="a5", dry_run=False)} <= {"PTO0012"}


GRID = """func.func @kernel(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %cols = arith.constant COLS : index
  %end = arith.constant END : index
  %vx = pto.make_tensor_view %x, shape = [%c64, %cols], strides = [%cols, %c1] : !pto.tensor_view<?x?xf32>
  %vy = pto.make_tensor_view %y, shape = [%c64, %cols], strides = [%cols, %c1] : !pto.tensor_view<?x?xf32>
  %t = pto.alloc_tile : !t
  scf.for %i = %c0 to %end step %c64 {
    %px = pto.partition_view %vx, offsets = [%c0, %i], sizes = [%c64, %c64] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<64x64xf32>
    %py = pto.partition_view %vy, offsets = [%c0, %i], sizes = [%c64, %c64] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<64x64xf32>
    pto.tload ins(%px : !pto.partition_tensor_view<64x64xf32>) outs(%t : !t)
    pto.tstore ins(%t : !t) outs(%py : !pto.partition_tensor_view<64x64xf32>)
  }
"""  # fmt: skip


def test_a_grid_of_tiles_that_leaves_columns_out() -> None:
    """Tiles of 64 columns over 164: the last 36 columns of 64 rows are never written."""
    head = GRID.replace("COLS", "164").replace("END", "128")
    assert lints(head=head) == [
        ("PTO7407", "2,304 of the 10,496 elements of `%y` are never written")
    ]


@pytest.mark.parametrize(("cols", "end"), [(192, 192), (192, 64)], ids=["whole", "an update"])
def test_a_grid_that_fills_its_output_or_updates_a_small_part(cols: int, end: int) -> None:
    assert lints(head=GRID.replace("COLS", str(cols)).replace("END", str(end))) == []
