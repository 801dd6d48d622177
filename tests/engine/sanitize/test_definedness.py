"""Which elements of a result were written with values. What is computed of bytes that nothing wrote
has no value either: that is reported where they are read first, and once."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ptosim
from ptosim.shell.main import main
from tests.support.text import Kernel


def run(*names: str, **options: object):
    """Eight of sixteen columns are loaded; operations on all of them; ten rows, eight stored."""
    k = Kernel("a5")
    x, y = k.tile("x", "f32", 8, 16), k.tile("y", "f32", 8, 16)
    k.load("src", k.alias("pto.treshape", "part", x, v_row=8, v_col=8))
    for name in names:
        k.op(f"pto.{name}", [x, (k.arg("s", "f32"), "f32")], [y])
        x = y
    k.store(y, "dst")
    given = {"src": np.ones((8, 8), np.float32), "dst": np.zeros((10, 16), np.float32), "s": 1.0}
    return k.run(given, **options)


def test_elements_computed_of_bytes_without_values_have_none():
    result = run("tadds")
    expected = np.zeros((10, 16), bool)
    expected[:8, :8] = True  # of the rest nothing was loaded, or nothing stored
    assert np.array_equal(result.definedness["dst"], expected)
    assert not result.definedness["src"].any()  # nothing writes it


def test_the_cause_is_reported_once():
    """In the place of its source too, and after other operations."""
    result = run("tadds", "tmuls", "tsubs")
    assert [d.code for d in result.findings] == ["PTO7101"]
    assert "'pto.tadds' reads %x" in result.findings[0].message
    assert result.definedness["dst"].sum() == 64


def test_without_the_sanitizer_nothing_is_known():
    assert dict(run("tadds", sanitize="none").definedness) == {}


HALVES = """module attributes {pto.target_arch = "a5"} {
  func.func @cube() attributes {pto.kernel_kind = #pto.kernel_kind<cube>} {
    %b = pto.import_reserved_buffer {name = "fifo", peer_func = @vec} -> i32
    pto.aic_initialize_pipe {dir_mask = 1, slot_size = 4096}
      (c2v_consumer_buf = %b : i32, v2c_consumer_buf = %b : i32)
    %acc = pto.alloc_tile : !pto.tile_buf<acc, 32x32xf32>
    pto.tpush_to_aiv(%acc : !pto.tile_buf<acc, 32x32xf32>) {split = 0}
    return
  }
  func.func @vec() attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {
    %b = pto.reserve_buffer {name = "fifo", size = 32768, location = #pto.address_space<vec>,
      auto = true} -> i32
    pto.aiv_initialize_pipe {dir_mask = 1, slot_size = 4096}
      (c2v_consumer_buf = %b : i32, v2c_consumer_buf = %b : i32)
    %u = pto.alloc_tile : !pto.tile_buf<vec, 32x32xf32>
    %t = pto.tpop_from_aic {split = 0} -> !pto.tile_buf<vec, 32x32xf32>
    USE
    pto.tfree_from_aic {split = 0}
    return
  }
}
"""
ABS = "pto.tabs ins(%t : !pto.tile_buf<vec, 32x32xf32>) outs(%u : !pto.tile_buf<vec, 32x32xf32>)"


def undefined(text: str) -> list[ptosim.Diagnostic]:
    return [d for d in ptosim.check(text) if d.code == "PTO7101"]


def test_a_fifo_hands_on_what_it_gets():
    """Bytes that nobody wrote may be pushed; who reads what was popped is told, with the push."""
    assert undefined(HALVES.replace("    USE\n", "")) == []
    (found,) = undefined(HALVES.replace("USE", ABS))
    assert "'pto.tabs' reads %t" in found.message
    assert [label.text for label in found.labels[1:]] == ["%acc is made here", "pushed them so"]


def test_what_nobody_pops_is_told_of_the_push():
    """Of a half alone nothing is known of the other one."""
    lone = HALVES.replace("%t = pto.tpop_from_aic {split = 0} -> !pto.tile_buf<vec, 32x32xf32>", "")
    (found,) = undefined(
        lone.replace("    USE\n", "").replace("    pto.tfree_from_aic {split = 0}\n", "")
    )
    assert "'pto.tpush_to_aiv' reads %acc" in found.message


# -- where they come from --------------------------------------------------------------------------


def chain(*names: str, count: int = 1, more: str = ""):
    """A tile that nothing writes goes through operations, each in a loop, and is stored."""
    k = Kernel("a5")
    x = k.tile("t0", "f32", 8, 16)
    for number, name in enumerate(names, 1):
        y = k.tile(f"t{number}", "f32", 8, 16)
        zero, end, one = k.const(0), k.const(count), k.const(1)
        k.line(f"scf.for %i{number} = {zero} to {end} step {one} {{")
        k.op(f"pto.{name}", [x], [y])
        k.line("}")
        x = y
    k.store(x, "dst")
    k.line(more)
    return k.run({"dst": np.zeros((8, 16), np.float32)})


def steps(found: list[dict[str, object]]) -> list[str]:
    return [f"{step['did']} {step['name']}" for step in found]


def test_a_copy_is_no_finding_and_the_use_has_its_origin():
    """Never written, copied, stored: the finding is at the store, each step with its line."""
    (found,) = chain("tmov", "tmov").findings
    assert found.code == "PTO7101"
    assert "'pto.tstore' reads %t2" in found.message
    assert "a copy of bytes that nothing has written" in found.message
    assert steps(found.context["origin"]) == ["allocated %t0", "copied %t1", "copied %t2"]
    assert [label.text for label in found.labels[1:]] == [
        "%t0 is made here", "copied to %t1 as they are", "copied to %t2 as they are",
    ]  # fmt: skip
    lines = [label.span.line for label in found.labels]
    assert [step["line"] for step in found.context["origin"]] == lines[1:]
    (output,) = found.context["outputs"]
    assert (output["output"], output["steps"][-1]["line"]) == ("dst", lines[0])


def test_the_use_says_which_output_it_decides():
    """Computed with, so told there; the store of what was computed belongs to the finding."""
    result = chain("tmov", "tneg", "texp", count=3)
    (found,) = result.findings
    assert "'pto.tneg' reads %t1" in found.message
    assert [label.text for label in found.labels[-1:]] == ["stored to `dst`"]
    (output,) = found.context["outputs"]
    assert steps(output["steps"]) == [
        "allocated %t0", "copied %t1", "computed %t2", "computed %t3", "stored dst",
    ]  # fmt: skip
    assert not result.definedness["dst"].any()


def test_a_copy_that_nothing_uses_is_no_finding():
    assert inserted(first=8).findings == []


def test_a_copy_into_a_part_of_a_tile_is_one_of_its_bytes():
    (found,) = inserted(first=0).findings
    assert "'pto.tstore' reads %part" in found.message
    assert steps(found.context["origin"]) == ["allocated %x", "copied %y", "copied %part"]


def inserted(first: int):
    """Nothing writes a tile, which goes to columns 8 to 16 of another one; of that, 8 are stored."""
    k = Kernel("a5")
    x, y = k.tile("x", "f32", 8, 8), k.tile("y", "f32", 8, 16)
    part = k.tile("part", "f32", 8, 8)
    k.load("src", y)
    k.op("pto.tinsert", [x, (k.const(0), "index"), (k.const(8), "index")], [y])
    k.op("pto.textract", [y, (k.const(0), "index"), (k.const(8 - first), "index")], [part])
    k.store(part, "dst")
    given = {"src": np.ones((8, 16), np.float32), "dst": np.zeros((8, 8), np.float32)}
    result = k.run(given)
    assert result.definedness["dst"].all() == (first == 8)
    return result


def test_what_is_written_again_has_a_value_again():
    k = Kernel("a5")
    x, y = k.tile("x", "f32", 8, 16), k.tile("y", "f32", 8, 16)
    k.op("pto.tmov", [x], [y])
    k.load("src", y)
    k.store(y, "dst")
    given = {"src": np.ones((8, 16), np.float32), "dst": np.zeros((8, 16), np.float32)}
    result = k.run(given)
    assert result.findings == []
    assert result.definedness["dst"].all()


# -- in reports --------------------------------------------------------------------------------------


def said(capsys, tmp_path, store: bool, *options: str) -> str:
    """What `run` prints of half of a tile that goes to a part of `dst`."""
    k = Kernel("a5")
    x = k.tile("x", "f32", 8, 16)
    if store:
        k.load("src", k.alias("pto.treshape", "part", x, v_row=8, v_col=8))
    k.store(x, "dst")
    path = tmp_path / "k.pto"
    path.write_text(k.text())
    assert main(["run", str(path), "--arg", "dst=zeros:f32:10x16", *options]) == 0
    return capsys.readouterr().out


def test_a_run_says_of_how_many_elements_an_output_has_values(capsys, tmp_path):
    assert "dst: the run wrote values to 64 of 160 elements" in said(capsys, tmp_path, True)
    assert "dst: the run wrote values to 0 of 160 elements" in said(capsys, tmp_path, False)
    assert "wrote values" not in said(capsys, tmp_path, True, "--sanitize", "none")
    outputs = json.loads(said(capsys, tmp_path, True, "--format", "json"))["outputs"]
    assert {name: o.get("defined") for name, o in outputs.items()} == {"src": None, "dst": 64}


ATOMIC = """module attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {
  func.func @k(%p: !pto.ptr<i32, gm>, %v: i32) attributes {pto.simt_entry} {
    %old = pto.atomic_add %p, %v l2cache(nmfv), signed : !pto.ptr<i32, gm>, i32 -> i32
    return
  }
}
"""


def test_an_atomic_update_outside_of_threads_writes_its_element():
    result = ptosim.load(ATOMIC, target="a5").run({"p": np.arange(4, dtype=np.int32), "v": 7})
    assert result.outputs["p"].tolist() == [7, 1, 2, 3]
    assert result.definedness["p"].tolist() == [True, False, False, False]


# -- where data decide how much there is -------------------------------------------------------------


def joined(stored: int, fetched: bool = False) -> list[str]:
    """Codes of findings where 8 of 64 bytes of each source row are joined, and so many elements of
    each row stored; `fetched`: the result of a prefetch is stored."""
    k = Kernel("a5")
    x, y, n = k.tile("x", "f32", 8, 16), k.tile("y", "f32", 8, 32), k.tile("n", "i32", 8, 8)
    k.load("src", k.alias("pto.treshape", "part", x, v_row=8, v_col=2))
    k.op("pto.texpands", [("%cbytes", "i32")], [n])
    k.lines.insert(0, "%cbytes = arith.constant 8 : i32")
    k.op("pto.tconcatidx", [x, x, n, n], [y])
    if fetched:
        k.op("pto.tprefetch", [k.view("near", "f32", (8, 32))], [y])
    k.store(k.alias("pto.treshape", "out", y, v_row=8, v_col=stored), "dst")
    given = {"src": np.ones((8, 2), np.float32), "dst": np.zeros((8, stored), np.float32)}
    if fetched:
        given["near"] = np.ones((8, 32), np.float32)
    return [d.code for d in k.run(given).findings if d.severity.word != "note"]


def test_a_join_by_counts_reads_and_writes_what_they_say():
    """Of the sources two columns were loaded, and two of each are taken: four have values."""
    assert joined(4) == []
    assert joined(5) == ["PTO7101"]


def test_a_prefetch_leaves_its_tile_as_it_is():
    """It is a hint: what was there before it stays, and nothing else is there."""
    assert joined(4, fetched=True) == []
    assert joined(5, fetched=True) == ["PTO7101"]


# -- copies between tiles in boxes -------------------------------------------------------------------


def product_of(target: str, loaded: int, taken: int, column: int) -> list[tuple[str, str]]:
    """Findings of a product of `taken` columns, of 64 from `column` on that are extracted from a
    tile of L1 of which the first `loaded` have values."""
    k = Kernel(target)
    a = k.tile("a", "f16", 64, 128, layout="nz", loc="mat")
    b = k.tile("b", "f16", 64, 64, layout="nz", loc="mat")
    left = k.tile("l", "f16", 64, 64, layout="zz" if target == "a2a3" else "nz", loc="left")
    right = k.tile("r", "f16", 64, 64, layout="zn", loc="right")
    out = k.tile("c", "f32", 64, 64, layout="nz", loc="acc", fractal=1024)
    k.load("x", k.alias("pto.treshape", "part", a, v_row=64, v_col=loaded))
    k.load("y", b)
    k.op("pto.textract", [a, (k.const(0), "index"), (k.const(column), "index")], [left])
    k.op("pto.tmov", [b], [right])
    parts = (
        k.alias("pto.treshape", "lp", left, v_row=64, v_col=taken),
        k.alias("pto.treshape", "rp", right, v_row=taken, v_col=64),
    )
    k.op("pto.tmatmul", [*parts], [out])
    k.store(out, "o")
    given = {"x": np.ones((64, loaded), np.float16), "y": np.ones((64, 64), np.float16)}
    found = k.run(given | {"o": np.zeros((64, 64), np.float32)}).findings
    return [(d.code, d.message.split()[0]) for d in found if d.severity.word != "note"]


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_copy_between_boxes_hands_on_what_has_no_value(target):
    """Not the copy is wrong, but who takes more of it than was loaded, to the column; what is beside
    the window that is copied does not matter."""
    for loaded, taken, column in (
        (64, 64, 0),
        (48, 48, 0),
        (40, 40, 0),
        (128, 64, 64),
        (72, 8, 64),
    ):
        assert product_of(target, loaded, taken, column) == [], (loaded, taken, column)
    for loaded, taken, column in ((48, 64, 0), (40, 41, 0), (64, 1, 64), (72, 9, 64)):
        found = product_of(target, loaded, taken, column)
        assert found == [("PTO7101", "'pto.tmatmul'")], (loaded, taken, column)


BIG, SLOT = "!pto.tile_buf<vec, 128x248xf32>", "!pto.tile_buf<vec, 64x64xf32>"
MAT = "!pto.tile_buf<mat, 64x64xf32, blayout=col_major, slayout=row_major>"
REUSED = f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @vec() attributes {{pto.kernel_kind = #pto.kernel_kind<vector>}} {{
    %b = pto.import_reserved_buffer {{name = "fifo", peer_func = @cube}} -> i32
    pto.aiv_initialize_pipe {{dir_mask = 2, slot_size = 16384}}
      (c2v_consumer_buf = %b : i32, v2c_consumer_buf = %b : i32)
    %one = arith.constant 1.0 : f32
    %x0 = pto.alloc_tile : {BIG}
    %x1 = pto.alloc_tile : {BIG}
    pto.texpands ins(%one : f32) outs(%x0 : {BIG})
    pto.tneg ins(%x0 : {BIG}) outs(%x1 : {BIG})
    %y = pto.alloc_tile : {SLOT}
    FILL
    pto.tpush_to_aic(%y : {SLOT}) {{split = 0}}
    return
  }}
  func.func @cube() attributes {{pto.kernel_kind = #pto.kernel_kind<cube>}} {{
    %b = pto.reserve_buffer {{name = "fifo", size = 131072, location = #pto.address_space<mat>,
      auto = true}} -> i32
    pto.aic_initialize_pipe {{dir_mask = 2, slot_size = 16384}}
      (c2v_consumer_buf = %b : i32, v2c_consumer_buf = %b : i32)
    %t = pto.tpop_from_aiv {{split = 0}} -> {MAT}
    USE
    pto.tfree_from_aiv {{split = 0}}
    return
  }}
}}
"""
FILL = f"pto.texpands ins(%one : f32) outs(%y : {SLOT})"
LEFT = "!pto.tile_buf<left, 64x64xf32, blayout=col_major, slayout=row_major>"
RIGHT = "!pto.tile_buf<right, 64x64xf32, blayout=row_major, slayout=col_major>"
ACC = "!pto.tile_buf<acc, 64x64xf32, blayout=col_major, slayout=row_major, fractal=1024>"
PRODUCT = f"""%l = pto.alloc_tile : {LEFT}
    %r = pto.alloc_tile : {RIGHT}
    %c = pto.alloc_tile : {ACC}
    pto.tmov ins(%t : {MAT}) outs(%l : {LEFT})
    pto.tmov ins(%t : {MAT}) outs(%r : {RIGHT})
    pto.tmatmul ins(%l, %r : {LEFT}, {RIGHT}) outs(%c : {ACC})"""


@pytest.mark.parametrize(("fill", "use", "reader"), [
    ("", PRODUCT, "pto.tmatmul"), ("", "", None), (FILL, PRODUCT, None),
])  # fmt: skip
def test_a_fifo_hands_on_what_another_buffer_left(fill, use, reader):
    """%y has bytes of %x0 or %x1, whose use has ended: they are not its values, at the other end
    neither, where copies to L0A and L0B hand them on."""
    found = [
        d for d in ptosim.check(REUSED.replace("FILL", fill).replace("USE", use))
        if d.code.startswith("PTO71")
    ]  # fmt: skip
    assert {d.code for d in found} == ({"PTO7108"} if reader else set())
    assert all(f"'{reader}' reads" in d.message and "a copy of what %x" in d.message for d in found)


PART_OF = "!pto.tile_buf<vec, 64x64xf32, valid=32x64>"
HALF_FILL = f"""%part = pto.treshape %y : {SLOT} -> {PART_OF}
    pto.texpands ins(%one : f32) outs(%part : {PART_OF})"""
ONE_FILLS = f"""%sub = pto.get_subblock_idx
    %zero = arith.constant 0 : i64
    %is_first = arith.cmpi eq, %sub, %zero : i64
    scf.if %is_first {{
      {FILL}
    }}"""
SMALL_LEFT, SMALL_RIGHT = LEFT.replace("64x64", "32x32"), RIGHT.replace("64x64", "32x32")
SMALL_ACC = ACC.replace("64x64", "32x32")
WINDOWS = f"""%c0 = arith.constant 0 : index
    %row = arith.constant ROW : index
    %l = pto.alloc_tile : {SMALL_LEFT}
    %r = pto.alloc_tile : {SMALL_RIGHT}
    %c = pto.alloc_tile : {SMALL_ACC}
    pto.textract ins(%t, %row, %c0 : {MAT}, index, index) outs(%l : {SMALL_LEFT})
    pto.textract ins(%t, %c0, %c0 : {MAT}, index, index) outs(%r : {SMALL_RIGHT})
    pto.tmatmul ins(%l, %r : {SMALL_LEFT}, {SMALL_RIGHT}) outs(%c : {SMALL_ACC})"""


def test_of_a_tile_that_was_pushed_the_elements_with_values_have_values_at_the_other_end():
    """Half of the rows were filled, or the half of one of two vector cores: a product of those is
    right, one that takes the others is not."""
    whole = REUSED.replace("FILL", HALF_FILL)
    halves = REUSED.replace("FILL", ONE_FILLS).replace("split = 0", "split = 1")
    halves = halves.replace(SLOT, SLOT.replace("64x64", "32x64"))
    for text in (whole, halves):
        for row, expected in ((0, []), (16, ["PTO7108"]), (32, ["PTO7108"])):
            used = text.replace("USE", WINDOWS.replace("ROW", str(row)))
            found = [d for d in ptosim.check(used) if d.code.startswith("PTO71")]
            assert [d.code for d in found] == expected, row
            assert all("'pto.tmatmul'" in d.message for d in found)


def test_padding_in_place_reads_nothing_and_gives_no_value_to_what_it_leaves():
    """The library writes what is around the valid region alone."""
    part = "!pto.tile_buf<vec, 16x64xf32, valid=16x60>"
    pad = "!pto.tile_buf<vec, 16x64xf32, pad=1>"
    whole = "!pto.tile_buf<vec, 16x64xf32>"
    view = "!pto.partition_tensor_view<16x60xf32>"
    text = f"""func.func @k(%x: !pto.ptr<f32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c60 = arith.constant 60 : index
  %a0 = arith.constant 0 : i64
  %a1 = arith.constant 4096 : i64
  %v = pto.make_tensor_view %x, shape = [%c16, %c60], strides = [%c60, %c1] : !pto.tensor_view<?x?xf32>
  %p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c60] : !pto.tensor_view<?x?xf32> -> {view}
  %s = pto.alloc_tile addr = %a0 : {part}
  %d = pto.alloc_tile addr = %a0 : {pad}
  %o = pto.alloc_tile addr = %a1 : {whole}
  LOAD
  pto.tfillpad_inplace ins(%s : {part}) outs(%d : {pad})
  pto.tneg ins(%d : {pad}) outs(%o : {whole})
  return
}}"""
    for load, expected in (
        (f"pto.tload ins(%p : {view}) outs(%s : {part})", []),
        ("", [("PTO7101", "tneg")]),
    ):
        made = text.replace("LOAD", load)
        found = ptosim.check(made, target="a5", level=3, compat="2026-04")
        told = [
            (d.code, "tneg") for d in found if d.code.startswith("PTO71") and "tneg" in d.message
        ]
        assert told == expected
        assert not [d for d in found if d.code.startswith("PTO71") and "tfillpad" in d.message]


@pytest.mark.parametrize("op", ["tfillpad", "tconcat", "ttrans", "tmov"])
def test_a_copy_of_bytes_without_values_is_told_where_they_are_used(op):
    for use in (False, True):
        k = Kernel("a5")
        source = k.tile("a", "f32", 16, 64)
        rows, cols = {"tconcat": (16, 128), "ttrans": (64, 16)}.get(op, (16, 64))
        if op == "tfillpad":
            source = k.alias("pto.treshape", "part", source, v_row=16, v_col=60)
        out = k.tile("o", "f32", rows, cols, **({"pad": 1} if op == "tfillpad" else {}))
        more = {"ttrans": [k.tile("tmp", "f32", 16, 64)], "tconcat": [source]}.get(op, [])
        k.op(f"pto.{op}", [source, *more], [out])
        if use:
            k.op("pto.tneg", [out], [k.tile("b", "f32", rows, cols)])
        found = [d for d in k.run({}, timing=False).findings if d.code == "PTO7101"]
        assert ["'pto.tneg' reads %o" in d.message for d in found] == [True] * use


def test_a_window_that_cuts_a_box_reaches_the_boxes_around_it_alone():
    """Rows 8 to 23 of L1 are written, with the boxes 0 to 15 and 16 to 31 in part; the rest has no
    value."""
    acc, mat = ACC.replace("64x64", "16x64"), MAT.replace("f32", "f16")
    left = LEFT.replace("64x64xf32", "16x64xf16")
    right = RIGHT.replace("64x64xf32", "64x64xf16")
    text = f"""module attributes {{pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<cube>}} {{
func.func @k() attributes {{pto.kernel}} {{
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %row = arith.constant ROW : index
  %a = pto.alloc_tile : {acc}
  %m = pto.alloc_tile : {mat}
  %l = pto.alloc_tile : {left}
  %r = pto.alloc_tile : {right}
  pto.tinsert ins(%a, %c8, %c0 : {acc}, index, index) outs(%m : {mat})
  pto.textract ins(%m, %row, %c0 : {mat}, index, index) outs(%l : {left})
  pto.tmatmul ins(%l, %r : {left}, {right}) outs(%a : {acc})
  return
}}
}}"""
    for row, expected in ((16, False), (32, True), (48, True)):
        found = ptosim.check(text.replace("ROW", str(row)))
        told = [d for d in found if d.code == "PTO7101" and "reads %l" in d.message]
        assert bool(told) == expected, row
