"""Equality for all values of a scalar: each is a proof of its own, and one that fails is named."""

from __future__ import annotations

import json

import pytest

import ptosim
from ptosim.ground.errors import UsageError
from ptosim.tools.search.prove import EQUAL, REFUSED, UNEQUAL, Launched, prove_each

TILE, PART = "!pto.tile_buf<vec, 8x64xf32, valid=8x?>", "!pto.partition_tensor_view<8x?xf32>"


def text(body: str, bound: str = "%n") -> str:
    """A program over the first `n` columns of 8 rows."""
    return f"""func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c17 = arith.constant 17 : index
  %v = pto.make_tensor_view %x, shape = [%c8, %n], strides = [%n, %c1] : !pto.tensor_view<?x?xf32>
  %w = pto.make_tensor_view %y, shape = [%c8, %n], strides = [%n, %c1] : !pto.tensor_view<?x?xf32>
  %p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c8, {bound}] : !pto.tensor_view<?x?xf32> -> {PART}
  %q = pto.partition_view %w, offsets = [%c0, %c0], sizes = [%c8, {bound}] : !pto.tensor_view<?x?xf32> -> {PART}
  %a = pto.alloc_tile valid_col = {bound} : {TILE}
  %b = pto.alloc_tile valid_col = {bound} : {TILE}
  %s = pto.alloc_tile valid_col = {bound} : {TILE}
  pto.tload ins(%p : {PART}) outs(%a : {TILE})
  {body}
  pto.tstore ins(%b : {TILE}) outs(%q : {PART})
  return
}}
"""


ONE = f"pto.tadd ins(%a, %a : {TILE}, {TILE}) outs(%b : {TILE})"
SAME = f"""pto.tadd ins(%a, %a : {TILE}, {TILE}) outs(%s : {TILE})
  pto.tmov ins(%s : {TILE}) outs(%b : {TILE})"""
OTHER_AT_17 = f"""%is = arith.cmpi eq, %n, %c17 : index
  scf.if %is {{
    pto.tmul ins(%a, %a : {TILE}, {TILE}) outs(%b : {TILE})
  }} else {{
    pto.tadd ins(%a, %a : {TILE}, {TILE}) outs(%b : {TILE})
  }}"""


def pair(one: str, two: str):
    first, second = (ptosim.load(text(body), target="a5") for body in (one, two))
    return lambda given: (Launched(first, None, given), Launched(second, None, given))


def test_every_width_of_a_tile():
    """A sum and a move are the sum, for each number of valid columns; the claim names them."""
    proof = prove_each(pair(ONE, SAME), {"n": range(1, 65)})
    assert proof.verdict == EQUAL
    assert "all n in 1..64" in proof.about
    assert proof.elements == 2 * 8 * sum(range(1, 65))  # both arguments of each launch


@pytest.mark.parametrize("values", [range(1, 65), range(17, 18), range(3, 40, 7)])
def test_the_one_value_that_differs(values):
    """Programs that differ for 17 columns only are told apart exactly where 17 is among them."""
    proof = prove_each(pair(ONE, OTHER_AT_17), {"n": values})
    assert (proof.verdict == UNEQUAL) is (17 in values)
    assert (17 not in values) or "with n=17" in proof.why


def test_a_value_that_cannot_be_launched_is_no_proof():
    """65 columns do not fit the tile."""
    proof = prove_each(pair(ONE, SAME), {"n": range(60, 70)})
    assert proof.verdict == REFUSED
    assert "with n=65" in proof.why


def test_no_more_than_can_be_gone_through():
    with pytest.raises(UsageError, match="combinations"):
        prove_each(pair(ONE, SAME), {"n": range(1, 10**9)})


def test_the_command(tmp_path, cli):
    for name, body in (("a", ONE), ("b", SAME), ("c", OTHER_AT_17)):
        (tmp_path / f"{name}.pto").write_text(text(body))
    a, b, c = (tmp_path / f"{name}.pto" for name in "abc")
    options = ("--prove", "--target", "a5", "--slower", "1000")
    told = cli("diff", a, b, *options, "--forall", "n=1..32")
    assert told.code == 0
    assert "equal for all contents and all n in 1..32" in " ".join(told.out.split())
    told = cli("diff", a, c, *options, "--forall", "n=9..25:8", "--format", "json")
    assert (told.code, json.loads(told.out)["proof"]["verdict"]) == (1, UNEQUAL)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--forall", "n=1..4"), "--forall is for --prove"),
        (("--prove", "--forall", "n=4..1"), "has no value"),
        (("--prove", "--forall", "n=some"), "NAME=LOW..HIGH"),
        (("--prove", "--forall", "n=1..4", "--arg", "n=3"), "not both"),
        (("--prove", "--forall", "x=1..4"), "the scalars are n"),
        (("--prove", "--forall", "m=1..4"), "no argument `m`"),
        (("--prove", "--forall", "n=1..4", "--certificate", "c.json"), "takes no --forall"),
    ],
)
def test_what_is_no_range(words, said, tmp_path, cli):
    """One line, exit code 2, and no certificate."""
    (tmp_path / "a.pto").write_text(text(ONE))
    told = cli("diff", tmp_path / "a.pto", tmp_path / "a.pto", "--target", "a5", *words)
    assert told.code == 2
    assert said in told.err
    assert not (tmp_path / "c.json").exists()
