"""Nothing orders blocks but what the program says, whatever `sync` is: automatic synchronisation
works inside a core. Two blocks, or ranks, that reach the same bytes of global memory, one of them
writing, are an error in a run; the finding names both, the bytes and both lines."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim

VIEW = "!pto.tensor_view<?x?xf32>"
PART = "!pto.partition_tensor_view<8x64xf32>"
TILE = "!pto.tile_buf<vec, 8x64xf32>"
OUT = np.zeros((16, 64), np.float32)
ONES = np.ones((16, 64), np.float32)


def kernel(body: str, *, sync: str | None = None) -> ptosim.Program:
    """A kernel on windows of 8 rows: `rows(NAME, FIRST)` is one of them."""
    return ptosim.load(
        f"""func.func @k(%x: !pto.ptr<f32>, %o: !pto.ptr<f32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %b64 = pto.get_block_idx
  %b = arith.index_cast %b64 : i64 to index
  %mine = arith.muli %b, %c8 : index
  %xs = pto.make_tensor_view %x, shape = [%c16, %c64], strides = [%c64, %c1] : {VIEW}
  %os = pto.make_tensor_view %o, shape = [%c16, %c64], strides = [%c64, %c1] : {VIEW}
  %t = pto.alloc_tile : {TILE}
{body}
  return
}}""",
        target="a5",
        sync=sync,
    )


def rows(name: str, source: str, first: str) -> str:
    return (
        f"  %{name} = pto.partition_view %{source}, offsets = [%{first}, %c0], "
        f"sizes = [%c8, %c64] : {VIEW} -> {PART}"
    )


def load(name: str) -> str:
    return f"  pto.tload ins(%{name} : {PART}) outs(%t : {TILE})"


def store(name: str) -> str:
    return f"  pto.tstore ins(%t : {TILE}) outs(%{name} : {PART})"


def copy(first: str) -> str:
    return "\n".join([rows("p", "xs", "mine"), rows("q", "os", first), load("p"), store("q")])


def codes(program: ptosim.Program, **options: object) -> list[str]:
    found = program.run({"x": ONES, "o": OUT}, block_num=2, **options).findings
    return [d.code for d in found if d.severity.name == "ERROR"]


def test_two_blocks_that_store_to_the_same_rows():
    program = kernel(copy("c0"))
    result = program.run({"x": ONES, "o": OUT}, block_num=2)
    (found,) = [d for d in result.findings if d.code == "PTO5205"]
    assert "of block 1 writes" in found.message
    assert "of block 0 may still be writing" in found.message
    assert found.context["bytes"] == [0, 8 * 64 * 4]
    assert [found.context[side]["block"] for side in ("first", "second")] == [0, 1]
    assert codes(program, jobs=2) == ["PTO5205"]
    assert len(codes(program)) == 1


def test_blocks_with_rows_of_their_own_are_right():
    assert codes(kernel(copy("mine"))) == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_element_that_a_block_stored_has_a_value(jobs):
    whole = np.zeros((20, 64), np.float32)
    result = kernel(copy("mine")).run({"x": ONES, "o": whole}, block_num=2, jobs=jobs)
    stored = result.definedness["o"]
    assert stored.shape == (20, 64)
    assert stored[:16].all()
    assert not stored[16:].any()


def test_one_block_is_right():
    program = kernel(copy("c0"))
    assert not [d for d in program.run({"x": ONES, "o": OUT}).findings if d.code == "PTO5205"]


def test_a_block_that_loads_what_another_one_stores():
    body = [rows("p", "xs", "mine"), rows("q", "os", "mine"), rows("z", "os", "c0")]
    body += [load("p"), store("q"), load("z"), store("q")]
    assert codes(kernel("\n".join(body))) == ["PTO5205"]


def test_atomic_additions_come_in_any_order():
    body = "\n".join([rows("p", "xs", "mine"), rows("q", "os", "c0"), load("p"), store("q")])
    added = f"outs(%q : {PART}) {{atomicType = #pto<atomic_type atomic_add>}}"
    body = body.replace(f"outs(%q : {PART})", added)
    assert codes(kernel(body)) == []


@pytest.mark.parametrize("sync", ["auto", "manual"])
def test_the_mode_of_synchronisation_does_not_matter(sync):
    assert "PTO5205" in codes(kernel(copy("c0"), sync=sync))


def test_two_ranks_that_store_to_one_buffer():
    """Arrays that are one object are one buffer, whose ranks they are."""
    shared = OUT.copy()
    both = [{"x": ONES, "o": shared}, {"x": ONES, "o": shared}]
    findings = kernel(copy("c0")).run(both, ranks=2).findings
    (found,) = [d for d in findings if d.code == "PTO5205"]
    assert "of block 0 of rank 1 writes" in found.message


@pytest.mark.parametrize(("value", "code"), [("c1", "PTO5206"), ("own", "PTO5205")])
def test_two_sub_blocks_that_store_to_the_same_bytes(value, code):
    """The same values are a warning: the order does not show."""
    number = "  %s = pto.get_subblock_idx\n  %own = arith.index_cast %s : i64 to index\n"
    scalar = (
        f"  %i = arith.index_cast %{value} : index to i32\n  %f = arith.sitofp %i : i32 to f32\n"
    )
    fill = f"  pto.texpands ins(%f : f32) outs(%t : {TILE})"
    body = number + scalar + "\n".join([rows("q", "os", "c0"), fill, store("q")])
    body = f"  pto.section.vector {{\n{body}\n  }}"  # on both vector cores of a block
    found = kernel(body).run({"x": ONES, "o": OUT}).findings
    assert [d.code for d in found if d.code.startswith("PTO52")] == [code]


@pytest.mark.parametrize(("value", "code"), [("one", "PTO5206"), ("own", "PTO5205")])
def test_two_sub_blocks_that_write_to_the_same_bytes_of_l1(value, code):
    """L1 belongs to the cube core; each vector core writes it."""
    plain, boxes = "vec, 16x64xf16", ", blayout=col_major, slayout=row_major>"
    text = f"""module attributes {{pto.target_arch = "a5"}} {{
func.func @k() attributes {{pto.entry}} {{
  %a0 = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  pto.section.vector {{
    %own = pto.get_subblock_idx
    %f = arith.sitofp %{value} : i64 to f16
    %p = pto.alloc_tile addr = %a0 : !pto.tile_buf<{plain}>
    %v = pto.alloc_tile addr = %a0 : !pto.tile_buf<{plain}{boxes}
    %m = pto.alloc_tile addr = %a0 : !pto.tile_buf<mat, 16x64xf16{boxes}
    pto.texpands ins(%f : f16) outs(%p : !pto.tile_buf<{plain}>)
    pto.barrier <PIPE_ALL>
    pto.tmov ins(%v : !pto.tile_buf<{plain}{boxes}) outs(%m : !pto.tile_buf<mat, 16x64xf16{boxes})
  }}
  pto.section.cube {{
  }}
  return
}}
}}"""
    found = ptosim.load(text, level=3, sync="manual").run({}, timing=False).findings
    assert [d.code for d in found if d.severity.word != "note"] == [code]


def checked(body: str, **options: object) -> list[str]:
    source = kernel(body).front.source.text
    return [d.code for d in ptosim.check(source, target="a5", **options) if "PTO52" in d.code]


def test_a_check_says_what_two_blocks_would_do():
    """Nobody says how many blocks there are: a warning, and the error where the number is given."""
    assert checked(copy("c0")) == ["PTO5207"]
    assert checked(copy("c0"), blocks=2) == ["PTO5205"]
    assert checked(copy("c0"), blocks=1) == []
    assert checked(copy("mine")) == []
    assert checked(copy("mine"), blocks=2) == []


def of_block(text: str) -> str:
    """The first row of a block as the program computes it, then a copy to there."""
    return f"{text}\n{copy('row')}"


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("  %r = arith.remsi %b, %c2 : index\n  %row = arith.muli %r, %c8 : index", 2),
        ("  %r = arith.remsi %b, %c4 : index\n  %row = arith.muli %r, %c2 : index", 1),
        ("  %r = arith.divsi %b, %c2 : index\n  %row = arith.muli %r, %c8 : index", 1),
    ],
)
def test_the_first_block_may_meet_a_farther_one(text, blocks):
    """Rows modulo two: blocks 0 and 1 are apart, 0 and 2 are not. The warning says up to how many
    blocks a launch is free of it."""
    body = of_block("  %c2 = arith.constant 2 : index\n  %c4 = arith.constant 4 : index\n" + text)
    source = kernel(body).front.source.text
    (found,) = [d for d in ptosim.check(source, target="a5") if d.code == "PTO5207"]
    assert f"`--blocks {blocks}`" in found.notes[-1]
    assert checked(body, blocks=blocks) == []
    assert checked(body, blocks=blocks + 1) == ["PTO5205"]


def test_last_blocks_that_do_the_same_are_no_race_of_the_first():
    """A program for two blocks whose last rows end with the array: a third one would store to the
    rows of the second."""
    assert checked(of_block("  %row = arith.minsi %mine, %c8 : index")) == []


def test_a_program_that_does_not_ask_for_its_block_is_for_one():
    body = copy("c0")
    source = kernel(body).front.source.text.replace("pto.get_block_idx", "arith.constant 0 : i64")
    assert not [d for d in ptosim.check(source, target="a5") if "PTO52" in d.code]
    found = ptosim.check(source, target="a5", blocks=2)
    assert [d.code for d in found if "PTO52" in d.code] == ["PTO5205"]
