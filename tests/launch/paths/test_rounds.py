"""Loops that an argument ends: what is said of any number of rounds, and when nothing is.

The rounds of a loop repeat if what matters of the machine, and of what is ordered by what, is at a
head what it was some rounds before. What is claimed is compared with following each number of
rounds."""

from __future__ import annotations

import pytest

import ptosim
from tests.launch.paths.kernels import (
    LOAD,
    ORDERED,
    PART,
    RACE,
    STORE,
    TILE,
    VIEW,
    WORD,
    followed,
    kernel,
)

FREE = "pto.set_flag[<PIPE_MTE3>, <PIPE_MTE2>, <EVENT_ID0>]"
TAKEN = "pto.wait_flag[<PIPE_MTE3>, <PIPE_MTE2>, <EVENT_ID0>]"
FENCE = "pto.barrier <PIPE_ALL>"
CHECKED = 30
"""Numbers of rounds that are followed one by one."""


def loop(body: str, end: str = "%n", variable: str = "%i") -> str:
    return f"scf.for {variable} = %c0 to {end} step %c1 {{\n{body}\n}}"


def handed_over(body: str, before: str = "") -> str:
    """Rounds that use the tile in turn: each waits until the one before has stored it."""
    return f"{FREE}\n{before}{loop(f'{TAKEN}{chr(10)}{body}{chr(10)}{FREE}')}\n{TAKEN}"


def at_round(number: int, body: str, other: str = "", sign: str = "eq") -> str:
    made = f"%k = arith.constant {number} : index\n%c = arith.cmpi {sign}, %i, %k : index\n"
    rest = f" else {{\n{other}\n}}" if other else ""
    return f"{made}scf.if %c {{\n{body}\n}}{rest}"


LAST = "%k = arith.subi %n, %c1 : index\n%c = arith.cmpi eq, %i, %k : index\n"


def checked(body: str, inputs: str = "%n: index", **options):
    return ptosim.check(kernel(body, inputs), sync="manual", **options)


def coverage(body: str, inputs: str = "%n: index", **options) -> dict:
    (made,) = checked(body, inputs, **options).coverage
    return made


def faults(found) -> set[str]:
    return {d.code for d in found if d.severity.name in ("ERROR", "WARNING")}


def _slow(number: int):
    return pytest.param(number, marks=pytest.mark.slow)


REPEATING = {
    "rounds that hand a tile over": handed_over(ORDERED),
    "rounds with a barrier each": loop(f"{ORDERED}\n{FENCE}"),
    "the last round is another one": handed_over(f"{ORDERED}\n{LAST}scf.if %c {{\n{FENCE}\n}}"),
    "every third round is another one": handed_over(
        f"{ORDERED}\n%q = arith.remui %i, %c3 : index\n%c = arith.cmpi eq, %q, %c0 : index\n"
        f"scf.if %c {{\n{FENCE}\n}}"
    ),
    "one loop after another": f"{handed_over(ORDERED)}\n{loop(f'{ORDERED}{chr(10)}{FENCE}')}",
    "a loop in a loop": loop(loop(f"{ORDERED}\n{FENCE}", "%n", "%j")),
    "loops that two numbers end": loop(loop(f"{ORDERED}\n{FENCE}", "%m", "%j")),
    "as many rounds as a word in memory says": f"{WORD}\n{loop(f'{ORDERED}{chr(10)}{FENCE}', '%w')}",
}


@pytest.mark.parametrize("name", REPEATING)
def test_rounds_that_repeat_are_any_number_of_rounds(name):
    args = "%n: index, %m: index" if "%m" in REPEATING[name] else "%n: index"
    found = checked(REPEATING[name], args)
    assert not faults(found)
    (made,) = found.coverage
    assert (made["trips"], made["loops"], made["open"]) == ("proven", [], [])


@pytest.mark.parametrize("number", [n if n in (1, 4, 13) else _slow(n) for n in range(1, 21)])
def test_a_fault_of_one_round_is_found(number):
    """In one round the store does not wait for the load."""
    body = at_round(number, f"{LOAD}\n{STORE}", ORDERED)
    found = checked(loop(f"{body}\n{FENCE}"))
    assert "PTO5201" in faults(found)
    (race,) = [d for d in found if d.code == "PTO5201"]
    assert race.witness == {"n": number + 1}


@pytest.mark.sampled(0, 5)
@pytest.mark.parametrize("number", [5, *map(_slow, (2, 9, 17))])
@pytest.mark.parametrize("sign", ["slt", "sge", "ne"])
def test_what_is_claimed_holds_for_each_number_of_rounds(number, sign):
    """A flag that is given twice, or never, from some round on or until then."""
    body = handed_over(f"{ORDERED}\n{at_round(number, 'pto.barrier <PIPE_V>', FENCE, sign)}")
    mutant = body.replace("pto.barrier <PIPE_V>", f"{FREE}\n{TAKEN}\n{TAKEN}", 1)
    for text in map(kernel, (body, mutant)):
        found = ptosim.check(text, sync="manual")
        every = set().union(*(faults(followed(text, n=n)) for n in range(CHECKED)))
        assert faults(found) == every
        assert found.coverage[0]["trips"] == "proven" or faults(found)


def test_rounds_that_use_other_bytes_are_apart_for_ever():
    """Windows of one array that is read and written: each round its own row; or rows from both
    ends, which meet after two thousand rounds."""
    rows = "!pto.partition_tensor_view<1x64xf32>"
    view = (
        "%many = arith.constant 4096 : index\n"
        f"%v = pto.make_tensor_view %x, shape = [%many, %c64], strides = [%c64, %c1] : {VIEW}"
    )
    part = f"pto.partition_view %v, offsets = [{{}}, %c0], sizes = [%c1, %c64] : {VIEW} -> {rows}"
    tile = (
        "!pto.tile_buf<loc=vec, dtype=f32, rows=1, cols=64, v_row=1, v_col=64, blayout=row_major, "
        "slayout=none_box, fractal=512, pad=0>"
    )

    def rounds(there: str) -> str:
        body = ORDERED.replace(LOAD, f"pto.tload ins(%p : {rows}) outs(%u : {tile})").replace(
            STORE, f"pto.tstore ins(%u : {tile}) outs(%q : {rows})"
        )
        moved = f"%p = {part.format('%i')}\n{there}\n%q = {part.format('%o')}\n"
        alloc = f"{view}\n%u = pto.alloc_tile addr = %a0 : {tile}\n"
        return (alloc + handed_over(f"{moved}{body}")).replace("16x64", "4096x64")

    apart = coverage(rounds("%o = arith.addi %i, %c0 : index"))
    assert apart["trips"] == "proven"
    meeting = coverage(rounds("%z = arith.subi %many, %c1 : index\n%o = arith.subi %z, %i : index"))
    assert meeting["trips"] == "0..3"
    assert "the addresses of lines" in meeting["loops"][0]["why"]
    ahead = coverage(rounds("%o = arith.muli %i, %c2 : index"))
    assert (ahead["trips"], ahead["loops"][0]["why"]) == ("0..3", "its rounds do not repeat")


@pytest.mark.parametrize("name", ["x", "y"])
def test_a_row_that_memory_gives_the_number_of_may_be_any_row_of_what_is_only_read(name):
    """Which row of x each round loads, a table says: nobody writes x, so the rounds repeat. Rows of
    y that a table gives may be the same ones, or not: of their order nothing is claimed."""
    rows, row = f"{VIEW.replace('16x64', '?x64')}", PART.replace("16x64", "1x64")
    tile = TILE.replace("rows=16", "rows=1").replace("v_row=16", "v_row=1")
    table = (
        "%v = pto.load_scalar %d[%i] : !pto.ptr<i32> -> i32\n%w = arith.index_cast %v : i32 to index\n"
        f"%r = pto.partition_view %all, offsets = [%w, %c0], sizes = [%c1, %c64] : {rows} -> {row}\n"
        f"%s = pto.partition_view %all, offsets = [%i, %c0], sizes = [%c1, %c64] : {rows} -> {row}\n"
    )
    moved = ORDERED.replace(LOAD, f"pto.tload ins(%r : {row}) outs(%u : {tile})")
    if name == "y":
        moved = ORDERED.replace(STORE, f"pto.tstore ins(%u : {tile}) outs(%r : {row})").replace(
            LOAD, f"pto.tload ins(%s : {row}) outs(%u : {tile})"
        )
    body = (
        f"%all = pto.make_tensor_view %{name}, shape = [%m, %c64], strides = [%c64, %c1] : {rows}\n"
        f"%u = pto.alloc_tile addr = %a0 : {tile}\n{handed_over(table + moved)}"
    )
    made = coverage(body, "%n: index, %m: index")
    assert (made["open"], made["trips"]) == ([], "proven" if name == "x" else "0..3")


def test_a_loop_that_a_requirement_keeps_short_is_followed_whole():
    window = f"%w = pto.partition_view %vx, offsets = [%o, %c0], sizes = [%c1, %c64] : {VIEW} -> "
    body = f"%o = arith.muli %i, %c2 : index\n{window}{PART.replace('16x64', '1x64')}"
    made = coverage(loop(f"{body}\n{ORDERED}\n{FENCE}"))
    assert (made["trips"], made["runs"] >= 9) == ("proven", True)
    made = coverage(loop(f"{ORDERED}\n{FENCE}"), args={"n": range(1, 5)})
    assert made["trips"] == "proven"


UNPROVEN = {
    "data decide in the rounds": (
        loop(f"%v = pto.load_scalar %d[%i] : !pto.ptr<i32> -> i32\n%z = arith.constant 0 : i32\n"
             f"%c = arith.cmpi eq, %v, %z : i32\nscf.if %c {{\n{ORDERED}\n}}\n{FENCE}"),
        "what is read in its rounds decides in line 23"),
    "a loop that is not counted": (
        f"%e = scf.while (%i = %c0) : (index) -> index {{\n%c = arith.cmpi ne, %i, %n : index\n"
        f"scf.condition(%c) %i : index\n}} do {{\n^bb0(%j: index):\n{ORDERED}\n{FENCE}\n"
        "%h = arith.addi %j, %c1 : index\nscf.yield %h : index\n}",
        "its rounds are not counted"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNPROVEN)
def test_what_cannot_be_shown_is_not_claimed(name, cli, tmp_path):
    body, why = UNPROVEN[name]
    made = coverage(body)
    assert made["trips"] == "0..3"
    assert why in made["loops"][0]["why"]
    (tmp_path / "k.pto").write_text(kernel(body))
    told = cli("check", "--sync", "manual", str(tmp_path / "k.pto")).out
    assert "any number" not in told


def test_the_report_says_for_which_numbers_of_rounds(cli, tmp_path):
    (tmp_path / "k.pto").write_text(kernel(handed_over(ORDERED)))
    told = cli("check", "--sync", "manual", str(tmp_path / "k.pto")).out
    assert "all paths; rounds repeat: for any number of them" in " ".join(told.split())


def conditioned(test: str, body: str, carried: str = "%at") -> str:
    """Rounds as long as a condition holds, which `test` makes of %at: %more."""
    return (
        f"%left = scf.while (%at = %c0) : (index) -> index {{\n{test}\n"
        f"scf.condition(%more) {carried} : index\n}} do {{\n^bb0(%i: index):\n{body}\n"
        "%next = arith.addi %i, %c1 : index\nscf.yield %next : index\n}"
    )


COUNTING = {"slt, %at, %n": 8, "ult, %at, %n": 8, "sle, %at, %n": 7, "sgt, %n, %at": 8}
POLLED = (
    "%v = pto.load_scalar %d[%c2] : !pto.ptr<i32> -> i32\n%w = arith.index_cast %v : i32 to index\n"
    "%more = arith.cmpi sgt, %w, %c0 : index"
)


@pytest.mark.parametrize("compared", COUNTING)
def test_a_loop_with_a_condition_may_count_its_rounds(compared):
    """It is what a counted one is: any number of rounds, and the bound of the last one."""
    test = f"%more = arith.cmpi {compared} : index"
    every = checked(conditioned(test, f"{ORDERED}\n{FENCE}"))
    assert (faults(every), every.coverage[0]["trips"]) == (set(), "proven")
    window = f"%w = pto.partition_view %vx, offsets = [%o, %c0], sizes = [%c1, %c64] : {VIEW} -> "
    row = f"%o = arith.muli %i, %c2 : index\n{window}{PART.replace('16x64', '1x64')}"
    (required,) = checked(conditioned(test, f"{row}\n{ORDERED}\n{FENCE}")).requirements
    assert required["text"] == f"n <= {COUNTING[compared]}"


def test_what_a_loop_leaves_is_known_by_its_end():
    """The number of the first round that is not made is a row of 16."""
    window = (
        f"%w = pto.partition_view %vx, offsets = [%left, %c0], sizes = [%c1, %c64] : {VIEW} -> "
    )
    test = "%more = arith.cmpi slt, %at, %n : index"
    body = conditioned(test, f"{ORDERED}\n{FENCE}") + f"\n{window}{PART.replace('16x64', '1x64')}"
    assert [r["text"] for r in checked(body).requirements] == ["n <= 15"]


def test_a_loop_that_asks_again_ends_some_time():
    """What memory holds may be another number each time: the loop makes no round, or some of them,
    and what comes after it is followed. Nothing is said of many rounds."""
    found = checked(conditioned(POLLED, f"{ORDERED}\n{FENCE}") + f"\n{LOAD}\n{STORE}")
    (race,) = [d for d in found if d.code == "PTO5290"]
    assert race.witness == {"d[2]": 0}
    (made,) = found.coverage
    assert (made["open"], made["trips"]) == ([], "0..3")
    assert "d[2], time 2" in made["assumed"]
    assert not faults(checked(conditioned(POLLED, f"{ORDERED}\n{FENCE}")))


CARRIED = """%r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c0) -> (index) {{
%k = arith.constant 3 : index
{0}
scf.yield %b : index
}}
%k30 = arith.constant {1} : index
%c = arith.cmpi eq, %r, %k30 : index
scf.if %c {{
{2}
}}"""


@pytest.mark.parametrize(
    ("carried", "number", "rounds"),
    [
        ("%p = arith.remui %i, %c2 : index\n%b = arith.addi %a, %p : index", 30, 60),
        ("%o = arith.addi %a, %c1 : index\n%b = arith.remui %o, %k : index", 2, 5),
    ],
)
def test_what_rounds_carry_unevenly_is_not_claimed_after_them(carried, number, rounds):
    """What each round adds, or leaves, is not the same: after the loop it decides, and no form says
    after how many rounds it is what."""
    body = CARRIED.format(carried, number, RACE)
    assert "PTO5201" in faults(checked(body, args={"n": rounds}))
    made = coverage(body)
    assert made["trips"] != "proven"
    assert made["loops"][0]["why"].startswith("what its rounds carry is used after them in line")


def test_what_is_no_straight_line_is_not_said_to_be_read():
    """The square of the round decides: nothing is read."""
    square = "%p = arith.muli %i, %i : index\n%k = arith.constant 169 : index\n"
    square += "%c = arith.cmpi eq, %p, %k : index\n"
    made = coverage(loop(f"{square}scf.if %c {{\n{RACE}\n}}\n{FENCE}"))
    assert made["loops"][0]["why"].startswith("what does not move evenly decides in line")


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("number", [3, 5])
def test_a_round_that_is_wrong_for_one_number_of_another_loop_is_not_claimed(number, is_nested):
    """Of the numbers of rounds of the second loop that are followed none is 16."""
    inner = loop(FENCE, "%m", "%j")
    turned = (
        f"%k = arith.constant {number} : index\n%e = arith.cmpi eq, %i, %k : index\n"
        f"%o = arith.cmpi eq, %m, %c16 : index\n%c = arith.andi %e, %o : i1\n"
        f"scf.if %c {{\n{RACE}\n}}\n{FENCE}"
    )
    body = loop(f"{turned}\n{inner}") if is_nested else f"{loop(turned)}\n{inner}"
    args = "%n: index, %m: index"
    assert "PTO5201" in faults(checked(body, args, args={"n": number + 1, "m": 16}, explore=False))
    assert coverage(body, args)["trips"] == "0..3"


@pytest.mark.parametrize("number", [0, 5])
def test_what_rounds_carry_for_one_number_of_another_loop_is_not_claimed(number):
    """The rounds of the first loop add only where the second one ends with that number."""
    counting = (
        "%f = arith.constant 5 : index\n"
        f"%k = arith.constant {number} : index\n%o = arith.cmpi eq, %m, %k : index\n"
        "%r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c0) -> (index) {\n"
        f"%e = arith.cmpi eq, %a, %f : index\nscf.if %e {{\n{RACE}\n}}\n{FENCE}\n"
        "%p = arith.addi %a, %c1 : index\n%b = arith.select %o, %p, %a : index\n"
        "scf.yield %b : index\n}"
    )
    body, args = f"{counting}\n{loop(FENCE, '%m', '%j')}", "%n: index, %m: index"
    assert "PTO5201" in faults(checked(body, args, args={"n": 12, "m": number}, explore=False))
    assert coverage(body, args)["trips"] == "0..3"


def test_a_branch_of_the_number_of_another_loop_is_a_way_of_its_own():
    """In the branch the round decides; nothing in it is followed with few rounds only."""
    turned = (
        "%k = arith.constant 5 : index\n%o = arith.cmpi eq, %m, %c16 : index\n"
        "%e = arith.cmpi eq, %i, %k : index\n"
        f"scf.if %o {{\nscf.if %e {{\n{RACE}\n}}\n}}\n{FENCE}"
    )
    body, args = f"{loop(turned)}\n{loop(FENCE, '%m', '%j')}", "%n: index, %m: index"
    made = checked(body, args)
    assert "PTO5201" in faults(made) or coverage(body, args)["trips"] != "proven"
