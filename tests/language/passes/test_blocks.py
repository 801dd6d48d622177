"""Labelled blocks: a body with labels is one scope, in which a value is visible in every block that
its own dominates. `cf.br`, `cf.cond_br` and `cf.switch` name blocks and give their arguments
values."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.source import Source
from ptosim.language.bind.units import dominated
from ptosim.language.syntax.parser import parse
from ptosim.tools.api import check_source

PROGRAM = """module attributes {pto.target_arch = "a5"} {
  func.func @f(%p: !pto.ptr<i32>, %n: index) attributes {pto.entry} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = arith.constant 0 : i32
    cf.br ^head(%c0, %z : index, i32)
  ^body:
    %k = arith.index_cast %i : index to i32
    %s2 = arith.addi %sum, %k : i32
    %i2 = arith.addi %i, %c1 : index
    cf.br ^head(%i2, %s2 : index, i32)
  ^head(%i: index, %sum: i32):
    %more = arith.cmpi slt, %i, %n : index
    cf.cond_br %more, ^body, ^done(%sum : i32)
  ^done(%r: i32):
    cf.switch %r : i32, [default: ^out(%r : i32), 6: ^six(%r : i32), 10: ^ten]
  ^six(%q: i32):
    %hundred = arith.constant 100 : i32
    %w = arith.addi %q, %hundred : i32
    cf.br ^out(%w : i32)
  ^ten:
    %t = arith.constant 1000 : i32
    cf.br ^out(%t : i32)
  ^out(%o: i32):
    pto.store_scalar %o, %p[%c0] : !pto.ptr<i32>, i32
    return
  }
}
"""


def codes(old: str, new: str) -> list[str]:
    assert old in PROGRAM
    return [d.code for d in ptosim.check(PROGRAM.replace(old, new, 1), dry_run=False)]


def test_values_are_visible_where_their_block_dominates():
    """`^body` is above `^head` in the text, and uses the arguments of `^head`."""
    assert [d.message for d in ptosim.check(PROGRAM, dry_run=False)] == []


@pytest.mark.parametrize(("n", "stored"), [(0, 0), (1, 0), (3, 3), (4, 106), (5, 1000), (6, 15)])
def test_branches_are_followed(n, stored):
    """The sum of 0…n-1; 6 goes to the block that adds 100, 10 to the one that says 1000."""
    outputs = ptosim.load(PROGRAM).run({"p": np.zeros(1, np.int32), "n": n}).outputs
    assert outputs["p"].tolist() == [stored]


def test_a_run_without_values_follows_what_is_known_and_says_where_it_stops():
    for text, says in (
        (PROGRAM.replace("%i, %n : index", "%i, %c1 : index"), "to its end"),
        (PROGRAM, "'cf.cond_br' depends on argument `n`"),
    ):
        checked = check_source(Source("t.pto", text), dry_run=True)
        assert {d.code for d in checked.findings} <= {"PTO6050"}
        assert says in checked.dry_run


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("cf.br ^out(%t : i32)", "cf.br ^nowhere", "PTO1030"),
        ("cf.br ^out(%t : i32)", "cf.br ^out", "PTO1030"),
        ("cf.br ^out(%t : i32)", "cf.br ^out(%c0 : index)", "PTO1030"),
        ("10: ^ten]", "10: ^ten(%r : i32)]", "PTO1030"),
        ("  ^ten:", "  ^ten:\n    cf.br ^out(%r : i32)\n  ^ten:", "PTO1030"),
        ("    cf.br ^out(%t : i32)\n", "", "PTO1031"),
        ("    %hundred", "    cf.br ^ten\n    %hundred", "PTO1031"),
        ("%o, %p[%c0]", "%w, %p[%c0]", "PTO1001"),  # ^six does not dominate ^out
        ("%t = arith.constant 1000", "%w = arith.constant 1000", "PTO1002"),
    ],
)
def test_wrong_branches_and_values_are_refused(old, new, code):
    assert code in codes(old, new)


def test_dominance():
    """The diamond with a loop: the join and the loop's head belong to the first block."""
    text = "func.func @f(%c: i1) { cf.cond_br %c, ^a, ^b ^a: cf.br ^d ^b: cf.br ^d ^d: cf.cond_br %c, ^d, ^e ^e: return ^lost: return }"
    (function,) = parse(Source("t", text), Sink()).ops
    blocks = function.regions[0].blocks
    names = {block: block.label.value if block.label else "" for block in blocks}
    found = {names[b]: [names[c] for c in children] for b, children in dominated(blocks).items()}
    assert found == {
        "": ["^a", "^b", "^d", "^lost"],
        "^a": [],
        "^b": [],
        "^d": ["^e"],
        "^e": [],
        "^lost": [],
    }


def test_a_region_of_blocks_yields_from_each_of_them():
    text = PROGRAM.replace(
        "    pto.store_scalar %o",
        """    %big = arith.cmpi sgt, %o, %z : i32
    %v = scf.execute_region -> i32 {
      cf.cond_br %big, ^pos, ^neg
    ^pos:
      scf.yield %o : i32
    ^neg:
      %m = arith.constant -1 : i32
      scf.yield %m : i32
    }
    pto.store_scalar %v""",
    )
    program = ptosim.load(text)
    for n, stored in ((0, -1), (4, 106)):
        outputs = program.run({"p": np.zeros(1, np.int32), "n": n}).outputs
        assert outputs["p"].tolist() == [stored]
    wrong = text.replace("scf.yield %m : i32", "scf.yield %c0 : index")
    assert [d.code for d in ptosim.check(wrong, dry_run=False)] == ["PTO1015"]


TILES = """module attributes {pto.target_arch = "a5"} {
  func.func @f(%p: !pto.ptr<f32>, %q: !pto.ptr<f32>, %n: index) attributes {pto.entry} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %v = pto.make_tensor_view %p, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<16x64xf32>
    %w = pto.make_tensor_view %q, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<16x64xf32>
    %s = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<16x64xf32> -> !pto.partition_tensor_view<16x64xf32>
    %d = pto.partition_view %w, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<16x64xf32> -> !pto.partition_tensor_view<16x64xf32>
    %a = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
    %sum = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
    pto.tload ins(%s : !pto.partition_tensor_view<16x64xf32>) outs(%a : !pto.tile_buf<vec, 16x64xf32>)
    pto.tload ins(%s : !pto.partition_tensor_view<16x64xf32>) outs(%sum : !pto.tile_buf<vec, 16x64xf32>)
    cf.br ^head(%c0 : index)
  ^head(%i: index):
    %b = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
    pto.tadds ins(%a, %one : !pto.tile_buf<vec, 16x64xf32>, f32) outs(%b : !pto.tile_buf<vec, 16x64xf32>)
    %e = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
    pto.tadd ins(%b, %b : !pto.tile_buf<vec, 16x64xf32>, !pto.tile_buf<vec, 16x64xf32>) outs(%e : !pto.tile_buf<vec, 16x64xf32>)
    pto.tadd ins(%sum, %e : !pto.tile_buf<vec, 16x64xf32>, !pto.tile_buf<vec, 16x64xf32>) outs(%sum : !pto.tile_buf<vec, 16x64xf32>)
    %i2 = arith.addi %i, %c1 : index
    %more = arith.cmpi slt, %i2, %n : index
    cf.cond_br %more, ^head(%i2 : index), ^done
  ^done:
    pto.tstore ins(%sum : !pto.tile_buf<vec, 16x64xf32>) outs(%d : !pto.partition_tensor_view<16x64xf32>)
    return
  }
}
""".replace("    %a = pto.alloc", "    %one = arith.constant 1.0 : f32\n    %a = pto.alloc", 1)


def test_tiles_live_throughout_a_cycle_of_blocks():
    """`%a` is last used in the text above `%e`, and again in the next round: they share no bytes.
    Each of three rounds adds 2 * (1 + 1)."""
    outputs = (
        ptosim.load(TILES)
        .run({"p": np.ones((16, 64), np.float32), "q": np.zeros((16, 64), np.float32), "n": 3})
        .outputs
    )
    assert np.unique(outputs["q"]).tolist() == [13.0]
