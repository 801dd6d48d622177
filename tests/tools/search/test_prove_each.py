"""Equality for all values of a scalar: one that fails is named, and what runs have in
common is executed once."""

from __future__ import annotations

import json

import pytest

import ptosim
from ptosim.ground.errors import UsageError
from ptosim.ground.processes import can_fork
from ptosim.ground.records import replace
from ptosim.tools.search import prove_shared
from ptosim.tools.search.prove import (
    EQUAL,
    REFUSED,
    UNEQUAL,
    Launched,
    _together,
    prove,
    prove_each,
)

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
    proof = prove_each(pair(ONE, SAME), {"n": range(1, 25)})
    assert proof.verdict == EQUAL
    assert "all n in 1..24" in proof.about
    assert proof.elements >= 2 * 8 * sum(range(1, 25))  # both arguments of each launch


@pytest.mark.parametrize("values", [range(9, 25), range(17, 18), range(3, 40, 7)])
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


# -- loops: what many numbers of rounds have in common is executed once ----------------------------

ROWS, COLS = "!pto.tile_buf<vec, 16x64xf32>", "!pto.tile_buf<vec, 16x64xf32, valid=16x?>"
WINDOW, CUT = "!pto.partition_tensor_view<16x64xf32>", "!pto.partition_tensor_view<16x?xf32>"
VIEW = "!pto.tensor_view<?x?xf32>"


def loop(body: str, before: str = "", after: str = "", shape: str = "[%rows, %c64]") -> str:
    """A program of `n` rounds over 16 rows of 64 numbers each."""
    constants = "\n  ".join(
        f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 16, 37, 64, 4096)
    )
    views = "\n  ".join(
        f"%{v} = pto.make_tensor_view %{p}, shape = {shape}, strides = [%c64, %c1] : {VIEW}"
        for v, p in (("v", "x"), ("w", "y"))
    )
    tiles = "\n  ".join(f"%{t} = pto.alloc_tile : {ROWS}" for t in "abc")
    return f"""func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) {{
  {constants}
  %rows = arith.muli %n, %c16 : index
  {views}
  {tiles}
  {before}
  scf.for %i = %c0 to %n step %c1 {{
    %at = arith.muli %i, %c16 : index
    %p = pto.partition_view %v, offsets = [%at, %c0], sizes = [%c16, %c64] : {VIEW} -> {WINDOW}
    %q = pto.partition_view %w, offsets = [%at, %c0], sizes = [%c16, %c64] : {VIEW} -> {WINDOW}
    {body}
  }}
  {after}
  return
}}
"""


def op(word: str, *tiles: str) -> str:
    *sources, target = tiles
    types = ", ".join([ROWS] * len(sources))
    return f"pto.t{word} ins({', '.join(sources)} : {types}) outs({target} : {ROWS})"


LOAD = f"pto.tload ins(%p : {WINDOW}) outs(%a : {ROWS})"
STORE = f"pto.tstore ins(%b : {ROWS}) outs(%q : {WINDOW})"
DOUBLED = loop(f"{LOAD}\n{op('add', '%a', '%a', '%b')}\n{STORE}")
MOVED = loop(f"{LOAD}\n{op('add', '%a', '%a', '%c')}\n{op('mov', '%c', '%b')}\n{STORE}")
WINDOW_0 = (
    f"%p0 = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c64] : {VIEW} -> {WINDOW}"
)
AHEAD = loop(
    f"""{op("add", "%a", "%a", "%b")}
    %j = arith.addi %i, %c1 : index
    %more = arith.cmpi slt, %j, %n : index
    scf.if %more {{
      %next = arith.muli %j, %c16 : index
      %r = pto.partition_view %v, offsets = [%next, %c0], sizes = [%c16, %c64] : {VIEW} -> {WINDOW}
      pto.tload ins(%r : {WINDOW}) outs(%a : {ROWS})
    }}
    {STORE}""",
    f"{WINDOW_0}\n  pto.tload ins(%p0 : {WINDOW}) outs(%a : {ROWS})",
)
"""The next rows are loaded before these are stored, but in the last round."""
AT_37 = loop(f"""{LOAD}
    %last = arith.subi %n, %c1 : index
    %is_last = arith.cmpi eq, %i, %last : index
    %is_37 = arith.cmpi eq, %n, %c37 : index
    %both = arith.andi %is_last, %is_37 : i1
    scf.if %both {{
      {op("mul", "%a", "%a", "%b")}
    }} else {{
      {op("add", "%a", "%a", "%b")}
    }}
    {STORE}""")
"""Another operation in the last of 37 rounds."""


def loops(one: str, two: str):
    first, second = (ptosim.load(each, target="a5") for each in (one, two))
    return lambda given: (Launched(first, None, given), Launched(second, None, given))


@pytest.mark.slow
@pytest.mark.parametrize("other", [pytest.param(MOVED, marks=pytest.mark.deep), AHEAD])
def test_rounds_that_values_have_in_common_are_executed_once(other):
    """40 numbers of rounds are 820 rounds of nine instructions in each program, which are 14,760; a
    sixth of them is enough."""
    proof = prove_each(loops(DOUBLED, other), {"n": range(1, 41)}, most=2_400)
    assert proof.verdict == EQUAL, proof.why
    assert proof.operations > 18 * 820  # of all the runs that were followed


@pytest.mark.slow
def test_why_there_is_no_induction_is_told():
    """Blocks of ceil(n / 4) rounds begin elsewhere with each fourth value: values are gone through,
    up to a limit."""
    first = """%b64 = pto.get_block_idx
  %blk = arith.index_cast %b64 : i64 to index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %more = arith.addi %n, %c3 : index
  %per = arith.divui %more, %c4 : index
  %first = arith.muli %blk, %per : index
  %next = arith.addi %first, %per : index
  %last = arith.minui %next, %n : index
  scf.for %i = %first to %last"""
    one, two = (text.replace("scf.for %i = %c0 to %n", first) for text in (DOUBLED, MOVED))
    both = loops(one, two)

    def launch(given):
        return tuple(replace(each, block_num=4) for each in both(given))

    assert prove_each(launch, {"n": range(1, 9)}).verdict == EQUAL
    proof = prove_each(launch, {"n": range(1, 65)}, most=2000)
    assert proof.verdict == REFUSED
    assert "2,000 instructions were executed" in proof.why
    assert (
        "no induction: no loop has so many rounds that several values have in common" in proof.why
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "verdict"),
    [(range(34, 40), UNEQUAL), (range(30, 37), EQUAL), (range(38, 44), EQUAL)],
)
def test_the_one_number_of_rounds_that_differs(values, verdict):
    proof = prove_each(loops(DOUBLED, AT_37), {"n": values})
    assert proof.verdict == verdict, proof.why
    assert verdict == EQUAL or "with n=37" in proof.why


def test_a_view_that_is_too_small_for_one_value_is_found():
    """A view has 64 rows: the fifth window of 16 leaves it."""
    short = loop(f"{LOAD}\n{op('add', '%a', '%a', '%b')}\n{STORE}", shape="[%c64, %c64]")
    proof = prove_each(loops(short, short), {"n": range(1, 9)})
    assert proof.verdict == REFUSED
    assert "with n=5" in proof.why
    assert prove_each(loops(short, short), {"n": range(1, 5)}).verdict == EQUAL


@pytest.mark.slow
def test_what_would_take_too_long_is_told():
    """The proof is none, and says how far it came."""
    assert can_fork(), "a thread of another test is left"
    proof = prove_each(loops(DOUBLED, MOVED), {"n": range(1, 41)}, most=300)
    assert proof.verdict == REFUSED
    assert "of 40 values are left, the first n=" in proof.why
    assert "300 instructions" in proof.why


@pytest.mark.sampled(0, 3)
@pytest.mark.parametrize(
    "other", [DOUBLED, MOVED, AHEAD, AT_37, loop(LOAD), loop(f"{LOAD}{STORE}")]
)
def test_each_value_has_the_verdict_of_its_own_proof(other):
    assert can_fork(), "a thread of another test is left"
    launch = loops(DOUBLED, other)
    equal, left = _together(launch, [{"n": n} for n in range(34, 40)], False, 1, 10**9)
    assert not left
    own = {k: prove(*launch({"n": n})).is_equal for k, n in enumerate(range(34, 40))}
    assert {k for k, found in own.items() if found} == equal.keys()


def test_without_copies_each_value_is_a_proof_of_its_own(monkeypatch):
    """A process that has other threads does not fork: what is found is the same."""
    monkeypatch.setattr(prove_shared, "can_fork", lambda: False)
    proof = prove_each(loops(DOUBLED, MOVED), {"n": range(34, 40)})
    assert proof.verdict == EQUAL
    proof = prove_each(loops(DOUBLED, AT_37), {"n": range(34, 40)})
    assert proof.verdict == UNEQUAL
    assert "with n=37" in proof.why


def test_the_command(tmp_path, cli):
    for name, body in (("a", ONE), ("b", SAME), ("c", OTHER_AT_17)):
        (tmp_path / f"{name}.pto").write_text(text(body))
    a, b, c = (tmp_path / f"{name}.pto" for name in "abc")
    options = ("--prove", "--target", "a5", "--slower", "1000")
    told = cli("diff", a, b, *options, "--forall", "n=1..12")
    assert told.code == 0
    assert "equal for all contents and all n in 1..12" in " ".join(told.out.split())
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
        (("--prove", "--forall", "n=1..24:0", "--certificate", "c.json"), "NAME=LOW..HIGH"),
    ],
)
def test_what_is_no_range(words, said, tmp_path, cli):
    """One line, exit code 2, and no certificate."""
    (tmp_path / "a.pto").write_text(text(ONE))
    told = cli("diff", tmp_path / "a.pto", tmp_path / "a.pto", "--target", "a5", *words)
    assert told.code == 2
    assert said in told.err
    assert not (tmp_path / "c.json").exists()
