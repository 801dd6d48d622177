"""Any number of rounds by induction over one period: what it proves is so for each value, and what
is different for one value, or only after some rounds, is not proven."""

from __future__ import annotations

import random

import pytest

import ptosim
from ptosim.launch.compare import Choices
from ptosim.tools.search.prove import (
    EQUAL,
    REFUSED,
    UNEQUAL,
    Launched,
    _by_period,
    induction,
    prove,
    prove_each,
)
from ptosim.tools.search.prove_course import NotPeriodic
from tests.support.paths import PROGRAMS
from tests.tools.search.test_prove_each import (
    AHEAD,
    AT_37,
    CUT,
    DOUBLED,
    LOAD,
    MOVED,
    ROWS,
    STORE,
    VIEW,
    WINDOW,
    WINDOW_0,
    loop,
    loops,
    op,
)

VALUES = [{"n": n} for n in range(1, 61)]


def proven(one: str, two: str) -> set[int]:
    """The numbers of rounds, of 1 to 60, that induction proves; none where it does not apply."""
    try:
        return {k + 1 for k in induction(loops(one, two), VALUES).proven()}
    except NotPeriodic:
        return set()


def test_a_number_of_which_something_else_is_decided_is_left_out() -> None:
    """In the last of 37 rounds another operation is executed."""
    assert proven(DOUBLED, AT_37) == set(range(1, 61)) - {37}


@pytest.mark.slow
def test_rows_that_are_loaded_ahead_are_as_one_load_in_the_round() -> None:
    assert proven(DOUBLED, AHEAD) >= set(range(2, 61))


@pytest.mark.slow
def test_the_command_of_four_thousand_values_says_how() -> None:
    proof = prove_each(loops(DOUBLED, MOVED), {"n": range(1, 4097)})
    assert proof.verdict == EQUAL
    assert "4,096 of 4,096 values by induction over one period" in proof.why
    assert proof.elements >= 2 * 1024  # of the two ends that were compared
    told = prove_each(loops(DOUBLED, AT_37), {"n": range(1, 61)})
    assert told.verdict == UNEQUAL
    assert "with n=37" in told.why


def in_pairs() -> str:
    """Two rounds of DOUBLED in each, and the last one alone where their number is odd."""
    window = DOUBLED[DOUBLED.index("%at = ") : DOUBLED.index("pto.tload")]
    second = f"{window}{LOAD}\n{op('add', '%a', '%a', '%b')}\n{STORE}"
    for name in ("at", "p", "q"):
        second = second.replace(f"%{name} ", f"%{name}2 ").replace(f"[%{name},", f"[%{name}2,")
    second = second.replace("muli %i,", "muli %j,")
    pairs = DOUBLED.replace("step %c1", "step %c2")
    return pairs.replace(
        STORE,
        f"""{STORE}
    %j = arith.addi %i, %c1 : index
    %more = arith.cmpi slt, %j, %n : index
    scf.if %more {{
      {second}
    }}""",
    )


@pytest.mark.slow
def test_two_rounds_of_one_program_are_one_of_the_other() -> None:
    assert proven(DOUBLED, in_pairs()) >= set(range(5, 61))


START = f"{WINDOW_0}\n  pto.tload ins(%p0 : {WINDOW}) outs(%c : {ROWS})"
END = f"""%q0 = pto.partition_view %w, offsets = [%c0, %c0], sizes = [%c16, %c64] : {VIEW} -> {WINDOW}
  pto.tstore ins(%c : {ROWS}) outs(%q0 : {WINDOW})"""


@pytest.mark.slow
def test_a_sum_over_all_rounds_is_one_in_the_same_order() -> None:
    """Its expression is longer with each round: at each head it is the same one in both."""
    one = loop(f"{LOAD}\n{op('add', '%c', '%a', '%c')}", START, END)
    same = loop(f"{LOAD}\n{op('mov', '%a', '%b')}\n{op('add', '%c', '%b', '%c')}", START, END)
    other = loop(f"{LOAD}\n{op('add', '%a', '%c', '%c')}", START, END)
    assert len(proven(one, same)) > 50
    assert not proven(one, other)


def delayed(rounds: int) -> str:
    """What is added comes from a tile of so many rounds before; at first from the first rows."""
    tiles = [f"%s{k}" for k in range(rounds)]
    before = [f"{tile} = pto.alloc_tile : {ROWS}" for tile in tiles]
    before += [f"pto.tload ins(%p0 : {WINDOW}) outs({tile} : {ROWS})" for tile in tiles]
    moves = [op("mov", a, b) for a, b in zip(tiles[-2::-1], tiles[:0:-1], strict=True)]
    body = [LOAD, op("add", "%a", tiles[-1], "%b"), STORE, *moves, op("mov", "%a", tiles[0])]
    return loop("\n".join(body), "\n".join([START, *before]))


@pytest.mark.slow
def test_what_differs_after_some_rounds_only_is_not_proven() -> None:
    """Rounds repeat from the second on; what they compute is another thing from the seventh on."""
    kept = loop(f"{LOAD}\n{op('add', '%a', '%c', '%b')}\n{STORE}", START)
    late = delayed(6)
    launch = loops(kept, late)
    assert prove(*launch({"n": 5})).verdict == EQUAL
    assert prove(*launch({"n": 9})).verdict == UNEQUAL
    assert not {n for n in proven(kept, late) if not prove(*launch({"n": n})).is_equal}


NEAR = DOUBLED.replace(
    "%at = arith.muli %i, %c16", "%k = arith.minsi %i, %c37 : index\n    %at = arith.muli %k, %c16"
)


def test_rounds_that_stay_at_a_place_after_some_are_no_period() -> None:
    """From the 38th round on the rows are not those of the round."""
    assert not proven(DOUBLED, NEAR)


def cut(after: str) -> str:
    """As DOUBLED, and the first columns of the first rows again after the loop."""
    view = f"{VIEW} -> {CUT}"
    return loop(
        f"{LOAD}\n{op('add', '%a', '%a', '%b')}\n{STORE}", "",
        f"""%k = arith.{after}
  %t = pto.alloc_tile valid_col = %k : !pto.tile_buf<vec, 16x64xf32, valid=16x?>
  %pk = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %k] : {view}
  %qk = pto.partition_view %w, offsets = [%c0, %c0], sizes = [%c16, %k] : {view}
  pto.tload ins(%pk : {CUT}) outs(%t : !pto.tile_buf<vec, 16x64xf32, valid=16x?>)
  pto.tstore ins(%t : !pto.tile_buf<vec, 16x64xf32, valid=16x?>) outs(%qk : {CUT})""",
    )  # fmt: skip


@pytest.mark.slow
def test_an_end_of_another_form_for_each_value_is_left_to_its_own_proof() -> None:
    """As many columns as rounds are stored: no two values have the same end. One that is the same
    for all is proven with what the rounds may have left there."""
    assert not proven(cut("addi %n, %c0 : index"), cut("addi %n, %c0 : index"))
    same = cut("addi %c16, %c0 : index")
    assert proven(same, same) == set(range(1, 61))


@pytest.mark.slow
def test_a_window_that_leaves_its_view_is_found() -> None:
    """A view of 256 rows has sixteen windows."""
    short = loop(f"{LOAD}\n{op('add', '%a', '%a', '%b')}\n{STORE}", shape="[%c4096, %c64]").replace(
        "arith.constant 4096 ", "arith.constant 256 "
    )
    assert max(proven(short, short), default=0) <= 16
    proof = prove_each(loops(short, short), {"n": range(1, 61)})
    assert proof.verdict == REFUSED
    assert "with n=17" in proof.why


def test_other_programs_keep_their_proofs() -> None:
    """No loop, or a loop of which the scalar says nothing."""
    program = ptosim.load(DOUBLED.replace("to %n", "to %c16").replace("%n, %c16", "%c16, %c16"))
    with pytest.raises(NotPeriodic):
        induction(lambda given: (Launched(program, None, given),) * 2, VALUES)


@pytest.mark.slow
def test_what_is_no_number_that_stays_is_no_period() -> None:
    """Tiles of block scales are another object each time that they are asked for."""
    choices = Choices(str(PROGRAMS / "cube/gemm_mxfp8_grid.pto")).completed()
    args = dict(choices.arguments())

    def launch(given: dict[str, int]) -> tuple[Launched, Launched]:
        return (Launched(choices.program(), choices.entry, {**args, **given}, 1),) * 2

    with pytest.raises(NotPeriodic):
        induction(launch, [{"m": n} for n in range(1, 50)])


TILES = ["%a", "%b", "%c", "%d"]


def drawn(rng: random.Random) -> list[tuple[str, ...]]:
    """Some operations on tiles that keep what they hold from round to round."""
    words = rng.choices(["add", "mul", "sub", "mov"], k=rng.randint(2, 5))
    return [
        (word, *rng.sample(TILES, 2))
        if word == "mov"
        else (word, *(rng.choice(TILES) for _ in range(3)))
        for word in words
    ]


def changed(body: list[tuple[str, ...]], rng: random.Random) -> list[tuple[str, ...]]:
    """One operation left out, put in, moved, or with another operand."""
    made, at = list(body), rng.randrange(len(body))
    kind = rng.randrange(4)
    if kind == 0:
        del made[at]
    elif kind == 1:
        made.insert(at, ("mov", *rng.sample(TILES, 2)))
    elif kind == 2:
        made.insert(rng.randrange(len(made)), made.pop(at))
    else:
        made[at] = (made[at][0], *rng.sample(TILES, len(made[at]) - 1))
    return made


def rounds(body: list[tuple[str, ...]], special: tuple[str, int] | None) -> str:
    """Rounds of these operations; in some of them one more."""
    filled = [f"pto.tload ins(%p0 : {WINDOW}) outs({tile} : {ROWS})" for tile in TILES]
    before = "\n".join([WINDOW_0, f"%d = pto.alloc_tile : {ROWS}", *filled])
    inside = [LOAD, *(op(*each) for each in body)]
    if special is not None:
        inside.append(f"%is = arith.cmpi {special[0]}, %i, %c{special[1]} : index")
        inside.append(f"scf.if %is {{ {op('sub', '%b', '%a', '%b')} }}")
    return loop("\n".join([*inside, STORE]), before)


@pytest.mark.sampled(0, 4)
@pytest.mark.parametrize("seed", range(100))
def test_what_induction_proves_of_two_programs_is_so_for_each_value(seed: int) -> None:
    """Programs drawn at random and one change of each: no value of which it is proven has a proof
    of its own that fails."""
    rng = random.Random(43_000 + seed)
    body = drawn(rng)
    special = rng.choice([None, None, ("eq", 1), ("slt", 2), ("sge", 16), ("eq", 37)])
    two = rounds(changed(body, rng), special if rng.random() < 0.8 else None)
    one = rounds(body, special)
    found, launch = proven(one, two), loops(one, two)
    asked = found & {1, 2, 3, 6, 17, 38}
    assert {n for n in asked if prove(*launch({"n": n})).is_equal} == asked


# -- what is so for some values only ---------------------------------------------------------------

FIXED = {"%rows = arith.muli %n, %c16": "%rows = arith.muli %c256, %c16",
         "%c37 =": "%c256 = arith.constant 256 : index\n  %c592 = arith.constant 592 : index\n"
                   "  %c2048 = arith.constant 2048 : index\n  %c37 ="}  # fmt: skip
"""Views of as many rows for all values, and numbers of rows."""
FENCE = "pto.barrier <PIPE_ALL>"


def fixed(*parts: str) -> str:
    text = loop(*parts)
    for old, new in FIXED.items():
        text = text.replace(old, new)
    return text


def window(name: str, view: str, row: str) -> str:
    return (
        f"%{name} = pto.partition_view %{view}, offsets = [{row}, %c0], sizes = [%c16, %c64]"
        f" : {VIEW} -> {WINDOW}"
    )


def test_an_argument_that_holds_something_else_inside_a_round_is_not_what_was_given() -> None:
    """Rows of x are overwritten for a while and put back: at each head x is as it was. What is
    loaded meanwhile from rows 592 on is something else in round 37, and in no other."""
    junk = [f"pto.texpands ins(%z : f32) outs(%b : {ROWS})", FENCE,
            f"pto.tstore ins(%b : {ROWS}) outs(%p : {WINDOW})"]  # fmt: skip
    look = f"pto.tload ins(%r : {WINDOW}) outs(%c : {ROWS})"
    rest = [f"pto.tstore ins(%a : {ROWS}) outs(%p : {WINDOW})", FENCE,
            f"pto.tstore ins(%c : {ROWS}) outs(%q : {WINDOW})", FENCE]  # fmt: skip
    before = f"{window('r', 'v', '%c592')}\n  %z = arith.constant 1.0 : f32"
    late, soon = (
        fixed("\n".join([LOAD, FENCE, *each, FENCE, *rest]), before)
        for each in ((*junk, FENCE, look), (look, FENCE, *junk))
    )
    launch = loops(late, soon)
    assert prove(*launch({"n": 37})).verdict == EQUAL
    assert prove(*launch({"n": 38})).verdict == UNEQUAL
    assert not proven(late, soon)


def flag(one: str, other: str) -> str:
    return "".join(
        f"pto.{word}_flag[<PIPE_{one}>, <PIPE_{other}>, <EVENT_ID0>]\n" for word in ("set", "wait")
    )


@pytest.mark.slow
def test_an_end_that_races_with_what_was_before_for_one_value_is_no_proof_of_it() -> None:
    """What is stored to rows 592 on before the loop nothing orders before the loads of its end, and
    rows 16n are loaded there: that is a race for n = 37, and for no other."""
    before = "\n".join([
        WINDOW_0, window("first", "w", "%c592"), f"%d = pto.alloc_tile : {ROWS}",
        f"pto.tload ins(%p0 : {WINDOW}) outs(%c : {ROWS})", flag("MTE2", "MTE3"),
        f"pto.tload ins(%p0 : {WINDOW}) outs(%d : {ROWS})", flag("MTE2", "V"),
        f"pto.tstore ins(%c : {ROWS}) outs(%first : {WINDOW})",
    ])  # fmt: skip
    body = f"{LOAD}\n{flag('MTE2', 'V')}\n{op('add', '%d', '%a', '%d')}\n{flag('V', 'MTE2')}"
    after = [
        "%e = arith.muli %n, %c16 : index", "%f = arith.addi %e, %c2048 : index",
        window("from", "w", "%e"), window("to", "w", "%f"),
        f"pto.tload ins(%from : {WINDOW}) outs(%b : {ROWS})", flag("MTE2", "MTE3"),
        f"pto.tstore ins(%b : {ROWS}) outs(%to : {WINDOW})", FENCE,
    ]  # fmt: skip
    both = [
        ptosim.load(fixed(body, before, "\n".join(each)), target="a5", sync="manual")
        for each in (after, [FENCE, *after])
    ]

    def launch(given: dict[str, int]) -> tuple[Launched, Launched]:
        one, two = (Launched(program, None, given) for program in both)
        return one, two

    proof = prove(*launch({"n": 37}))
    assert (proof.verdict, "data race" in proof.why) == (REFUSED, True)
    found = {k + 1 for k in induction(launch, VALUES).proven()}
    assert found >= set(range(2, 61)) - {37}
    assert 37 not in found


# -- several blocks, and vector regions ------------------------------------------------------------


def in_blocks(text: str, step: int = 4) -> str:
    """Rounds b, b + step, … for block b."""
    rounds = "%n64 = pto.get_block_idx\n  %first = arith.index_cast %n64 : i64 to index\n  "
    rounds += f"%blocks = arith.constant {step} : index\n  scf.for %i = %first to %n step %blocks"
    return text.replace("scf.for %i = %c0 to %n step %c1", rounds)


def of_blocks(one: str, two: str, blocks: int) -> set[int]:
    programs = [ptosim.load(each, target="a5") for each in (one, two)]

    def launch(given: dict[str, int]) -> tuple[Launched, Launched]:
        one, two = (Launched(program, None, given, blocks) for program in programs)
        return one, two

    return {k + 1 for k in _by_period(launch, VALUES, [])}


@pytest.mark.slow
def test_blocks_that_do_not_meet_are_proven_one_by_one() -> None:
    """Every fourth round is a block's; which one has the last of them, the number says."""
    assert of_blocks(in_blocks(DOUBLED), in_blocks(MOVED), 4) == set(range(4, 61))
    assert of_blocks(in_blocks(DOUBLED), in_blocks(AT_37), 4) == set(range(4, 61)) - {37}


@pytest.mark.slow
def test_blocks_that_meet_for_some_numbers_are_not() -> None:
    """A fifth block has the rounds of the first but one; up to four rounds it has none."""
    assert not of_blocks(in_blocks(DOUBLED), in_blocks(DOUBLED), 5)
    first = f"""%is = arith.cmpi eq, %n, %c37 : index
  scf.if %is {{
    {window("q0", "w", "%c0")}
    pto.tload ins(%q0 : {WINDOW}) outs(%c : {ROWS})
  }}"""
    looks = in_blocks(loop(f"{LOAD}\n{op('add', '%a', '%a', '%b')}\n{STORE}", "", first))
    assert 37 not in of_blocks(looks, looks, 4)


def region(word: str, rows: str = "%c16", before: str = "") -> str:
    """As DOUBLED, by vector instructions."""
    lanes, mask, ub = "!pto.vreg<64xf32>", "!pto.mask<b32>", "!pto.ptr<f32, ub>"
    return loop(f"""{LOAD}
    {before}
    %from = pto.tile_buf_addr %a : {ROWS} -> {ub}
    %to = pto.tile_buf_addr %b : {ROWS} -> {ub}
    pto.vecscope {{
      %all = pto.pset_b32 "PAT_ALL" : {mask}
      scf.for %r = %c0 to {rows} step %c1 {{
        %o = arith.muli %r, %c64 : index
        %x1 = pto.vlds %from[%o] : {ub} -> {lanes}
        %x2 = pto.{word} %x1, %x1, %all : {lanes}, {lanes}, {mask} -> {lanes}
        pto.vsts %x2, %to[%o], %all : {lanes}, {ub}, {mask}
      }}
    }}
    {STORE}""")


def test_vector_regions_that_are_the_same_in_each_round() -> None:
    assert proven(region("vadd"), region("vadd")) == set(range(1, 61))
    assert not proven(region("vadd"), region("vmul"))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["%i", "%n"])
def test_a_region_that_has_fewer_rows_once(what: str) -> None:
    """In round 37, which is no period then, or in each round of 37."""
    fewer = (
        f"%is = arith.cmpi eq, {what}, %c37 : index\n    %k = arith.select %is, %c2, %c16 : index"
    )
    left = set() if what == "%i" else set(range(1, 61)) - {37}
    assert proven(region("vadd"), region("vadd", "%k", fewer)) == left


@pytest.mark.slow
@pytest.mark.sampled(0, 2)
@pytest.mark.parametrize("seed", range(40))
def test_what_is_proven_of_blocks_is_so_for_each_value(seed: int) -> None:
    """As above, of three blocks that have every third round each, or every second: then two meet."""
    rng = random.Random(44_000 + seed)
    body = drawn(rng)
    special = rng.choice([None, None, ("eq", 1), ("slt", 2), ("sge", 16), ("eq", 37)])
    step = rng.choice((3, 3, 2))
    one, two = (
        in_blocks(rounds(each, special), step)
        for each in (body, changed(body, rng) if rng.random() < 0.7 else body)
    )
    programs = [ptosim.load(each, target="a5") for each in (one, two)]
    asked = of_blocks(one, two, 3) & {1, 2, 4, 6, 17, 38, 59}
    for n in asked:
        assert prove(*(Launched(p, None, {"n": n}, 3) for p in programs)).is_equal, n
