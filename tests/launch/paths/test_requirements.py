"""A bound that depends on arguments is no error: `check` says for which values it holds."""

from __future__ import annotations

import pytest

import ptosim
from tests.launch.paths.kernels import PART, RACE, TILE, VIEW, kernel

VALID = TILE.replace("v_row=16", "v_row=?")
PARTS = PART.replace("16x64", "?x64")
WINDOW = f"%w = pto.partition_view %vx, offsets = [%o, %c0], sizes = [%c1, %c64] : {VIEW} -> {PART}"


def tile(rows: str) -> str:
    return f"{rows}\n%a = pto.alloc_tile addr = %a0 valid_row = %r : {VALID}"


def window(offset: str) -> str:
    return f"{offset}\n{WINDOW}".replace(PART, PART.replace("16x64", "1x64"))


KERNELS = {
    "rows left": (tile("%r = arith.subi %c8, %n : index"), "-8 <= n <= 8"),
    "rows of a clamped rest": (
        tile("%q = arith.subi %c8, %n : index\n%r = arith.minsi %q, %c16 : index"), "n <= 8"),
    "an offset": (window("%o = arith.addi %n, %c0 : index"), "0 <= n <= 15"),
    "an offset in eights": (window("%o = arith.muli %n, %c8 : index"), "0 <= n <= 1"),
    "the last round": (
        "scf.for %i = %c0 to %n step %c1 {\n" + window("%o = arith.muli %i, %c2 : index") + "\n}",
        "n <= 8"),
    "two numbers": (window("%o = arith.addi %n, %m : index"),
        "m + n <= 15 and 0 <= m + n"),
    "a number in eights and another": (
        window("%p = arith.muli %m, %c8 : index\n%o = arith.addi %n, %p : index"),
        "8*m + n <= 15 and 0 <= 8*m + n"),
    "the last of a number of rounds": (
        "scf.for %i = %m to %n step %c1 {\n" + window("%o = arith.addi %i, %c0 : index") + "\n}",
        "n <= 16"),
}  # fmt: skip


def requirements(text: str) -> list[str]:
    return [d.message for d in ptosim.check(text, sync="manual") if d.code == "PTO6052"]


@pytest.mark.parametrize("name", KERNELS)
def test_what_a_kernel_requires(name):
    body, expected = KERNELS[name]
    text = kernel(body, "%n: index, %m: index" if "%m" in body else "%n: index")
    assert f"@k requires {expected}" in requirements(text)
    every = ptosim.check(text, sync="manual")
    assert not any(d.is_error for d in every), "a requirement is no error"


def test_each_number_of_a_bound_may_have_a_range_of_its_own():
    shape = TILE.replace("v_row=16", "v_row=?").replace("v_col=64", "v_col=?")
    body = f"%a = pto.alloc_tile addr = %a0 valid_row = %n valid_col = %m : {shape}"
    told = requirements(kernel(body, "%n: index, %m: index"))
    assert told == ["@k requires 0 <= m <= 64", "@k requires 0 <= n <= 16"]


def test_a_bound_on_one_side_of_a_branch_names_the_branch():
    """Where the mode is 3 an offset of 100 is right."""
    inner = window("%o = arith.addi %n, %c0 : index")
    body = f"%c = arith.cmpi ne, %mode, %c3 : index\nscf.if %c {{\n{inner}\n}}"
    text = kernel(body, "%n: index, %mode: index")
    (told,) = requirements(text)
    assert told.startswith("@k requires 0 <= n <= 15 (on a path through line ")
    (record,) = ptosim.check(text, sync="manual").requirements
    assert [w["outcome"] for w in record["when"]] == [True]
    for mode, is_wrong in ((3, False), (4, True)):
        found = ptosim.check(text, sync="manual", args={"n": 100, "mode": mode})
        assert any(d.code == "PTO6101" for d in found) == is_wrong


def test_what_does_not_occur_is_not_required():
    """A loop from the block on makes no round for blocks beyond its end; a block is less than the
    number of blocks."""
    block = "%b = pto.get_block_idx -> i64\n%i0 = arith.index_cast %b : i64 to index\n"
    many = "%m = pto.get_block_num -> i64\n%z = arith.index_cast %m : i64 to index\n"
    view = f"%v = pto.make_tensor_view %x, shape = [%z, %c64], strides = [%c64, %c1] : {VIEW}\n"
    loop = "scf.for %i = %i0 to %n step %z {{\n{}\n}}"
    of_rows = view.replace("%z,", "%n,") + WINDOW.replace("%o", "%i").replace("%vx", "%v")
    of_blocks = view + WINDOW.replace("%o", "%i0").replace("%vx", "%v")
    for body in (loop.format(of_rows), of_blocks):
        text = (block + many + body).replace("16x64", "?x64")
        text = text.replace("!pto.partition_tensor_view<?x64", "!pto.partition_tensor_view<1x64")
        assert requirements(kernel(text)) == []


def test_clamped_numbers_require_nothing():
    """A valid row count of max(min(8 - n, 16), 0) is inside for every n."""
    rows = (
        "%q = arith.subi %c8, %n : index\n%e = arith.minsi %q, %c16 : index\n"
        "%r = arith.maxsi %e, %c0 : index"
    )
    assert requirements(kernel(tile(rows))) == []


def test_a_guard_is_part_of_the_bound():
    """The window is only made where it is inside."""
    body = window("%o = arith.addi %n, %c0 : index")
    guard = "%c = arith.cmpi ult, %n, %c16 : index\nscf.if %c {{\n{}\n}}"
    assert requirements(kernel(guard.format(body))) == []


def test_inside_there_is_no_finding_and_outside_there_is():
    body, _ = KERNELS["rows left"]
    text = kernel(body)
    for inside in (0, 1, 7, 8):
        codes = [d.code for d in ptosim.check(text, sync="manual", args={"n": inside})]
        assert not any(c.startswith("PTO60") for c in codes)
    outside = ptosim.check(text, sync="manual", args={"n": 9})
    assert any(d.is_error for d in outside)


def test_the_record_of_a_requirement():
    body, _ = KERNELS["rows left"]
    every = ptosim.check(kernel(body), sync="manual")
    (record,) = every.requirements
    assert (record["expr"], record["low"], record["high"]) == ("n", -8, 8)
    assert (record["kind"], record["broken_by"]) == ("argument", {"n": 9})


def test_what_no_sum_says_is_named():
    """A product of two numbers is a row of 16: that is no sum of them."""
    found = ptosim.check(kernel(window("%o = arith.muli %n, %m : index"), ARGS), sync="manual")
    (made,) = found.coverage
    assert [each["symbols"] for each in made["unsaid"]] == [["m", "n"]]
    found = ptosim.check(kernel(window("%o = arith.addi %n, %m : index"), ARGS), sync="manual")
    assert "unsaid" not in found.coverage[0]


def test_multiples_of_a_size_that_is_at_least_one():
    """Rounds of 8 rows each end with the last of n rows: n is a multiple of 8."""
    view = VIEW.replace("16x64", "?x64")
    part = PART.replace("16x64", "8x64")
    body = (
        f"%v = pto.make_tensor_view %x, shape = [%n, %c64], strides = [%c64, %c1] : {view}\n"
        "scf.for %i = %c0 to %n step %c8 {\n"
        f"%w = pto.partition_view %v, offsets = [%i, %c0], sizes = [%c8, %c64] : {view} -> {part}\n}}"
    )
    for assume in ((), ("n >= 1",)):
        made = ptosim.check(kernel(body), sync="manual", assume=assume).requirements
        assert [r["text"] for r in made] == ["n is a multiple of 8"]


ARGS = "%n: index, %m: index"
TABLE = (
    "scf.for %i = %c0 to %n step %c1 {\n%v = pto.load_scalar %d[%i] : !pto.ptr<i32> -> i32\n"
    "%j = arith.index_cast %v : i32 to index\n" + window("%o = arith.addi %j, %c0 : index") + "\n}"
)


def test_what_each_word_of_a_table_has_to_meet_is_one_requirement(cli, tmp_path):
    """A loop takes the rows that words in memory name: all of them are of the view."""
    found = ptosim.check(kernel(TABLE), sync="manual")
    (made,) = found.requirements
    assert (made["text"], made["kind"]) == ("0 <= d[*] <= 15", "data")
    assert "PTO6052" not in [d.code for d in found]
    (tmp_path / "k.pto").write_text(kernel(TABLE))
    quiet, told = (
        cli("check", "--sync", "manual", tmp_path / "k.pto", *v).out for v in ((), ("-v",))
    )
    assert "d[*]" not in quiet
    assert "@k requires 0 <= d[*] <= 15 (of what memory holds): line" in told
    assumed = ptosim.check(kernel(TABLE), sync="manual", assume=["0 <= d[*] < 16"])
    assert assumed.requirements == []


def test_rounds_that_begin_late_and_take_steps_are_asked():
    """Rounds 2, 5, 8 … use row 16 times as far: the first that leaves the 4,096 rows is 257, which
    is none, so 257 rounds are inside. With another start, that no sum says, it is said that more
    is required."""
    rows, part = VIEW.replace("16x64", "?x64"), "!pto.partition_tensor_view<1x64xf32>"
    view = "%many = arith.constant 4096 : index\n"
    view += f"%v = pto.make_tensor_view %x, shape = [%many, %c64], strides = [%c64, %c1] : {rows}\n"
    body = (
        "scf.for %i = %{0} to %n step %c3 {{\n%o = arith.muli %i, %c16 : index\n"
        f"%w = pto.partition_view %v, offsets = [%o, %c0], sizes = [%c1, %c64] : {rows} -> {part}\n}}}}"
    )
    (made,) = ptosim.check(kernel(view + body.format("c2")), sync="manual").requirements
    assert made["text"] == "n <= 257"
    found = ptosim.check(kernel(view + body.format("m"), ARGS), sync="manual")
    assert [each["symbols"] for each in found.coverage[0]["unsaid"]] == [["m", "n"]]


def test_what_a_loop_adds_up_is_asked_and_decides():
    """A row that each round moves by 64 is a sum of the rounds, in the loop and after it: no number
    of them that leaves the view is a fault of the kernel, and 50 rounds are found by what is
    compared after them."""
    rows, part = VIEW.replace("16x64", "?x64"), "!pto.partition_tensor_view<16x64xf32>"
    before = "%many = arith.constant 4096 : index\n"
    before += (
        f"%v = pto.make_tensor_view %x, shape = [%many, %c64], strides = [%c64, %c1] : {rows}\n"
    )
    loop = "%r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c0) -> (index) {{\n{0}\n"
    loop += "%b = arith.addi %a, %c64 : index\nscf.yield %b : index\n}}\n{1}"
    window = f"%w = pto.partition_view %v, offsets = [%{{0}}, %c0], sizes = [%c16, %c64] : {rows} -> {part}\n"
    for lines, most in (
        (loop.format(window.format("a"), ""), 64),
        (loop.format("", window.format("r")), 63),
    ):
        found = ptosim.check(kernel(before + lines), sync="manual")
        assert [r["text"] for r in found.requirements] == [f"n <= {most}"]
        assert not [d for d in found if d.is_error]
    test = "%k = arith.constant 3200 : index\n%c = arith.cmpi eq, %r, %k : index\n"
    wrong = f"{test}scf.if %c {{\n{RACE}\n}}"
    (race,) = [d for d in ptosim.check(kernel(loop.format("", wrong)), sync="manual") if d.is_error]
    assert (race.code, race.witness) == ("PTO5201", {"n": 50})


def test_both_ends_of_a_difference_are_told():
    rows = "%r = arith.subi %n, %m : index"
    (made,) = ptosim.check(kernel(tile(rows), ARGS), sync="manual").requirements
    assert made["text"] == "m <= n and n <= m + 16"


def test_a_bound_is_found_past_a_number_that_is_compared_with_another():
    """Where n is m another path is taken: just beside the first values that are asked. (A kernel of
    the generator, 659: nothing was said of the largest n + m.)"""
    test = "%c = arith.cmpi eq, %n, %m : index\nscf.if %c {\npto.barrier <PIPE_ALL>\n}\n"
    text = kernel(test + window("%o = arith.addi %n, %m : index"), ARGS)
    texts = [r["text"] for r in ptosim.check(text, sync="manual").requirements]
    assert any(text.startswith("m + n <= 15") for text in texts)


DIVIDED = "%q = arith.divui %n, %m : index"
DIVISIONS = {
    "of anything": DIVIDED,
    "on a path": f"%is = arith.cmpi sgt, %k, %c8 : index\nscf.if %is {{\n{DIVIDED}\n}}",
}


@pytest.mark.parametrize("explore", [True, False])
@pytest.mark.parametrize("name", DIVISIONS)
def test_a_given_divisor_of_zero_is_an_error_whatever_is_divided(name: str, explore: bool) -> None:
    """Found by launching shipped programs: nothing was said of it, because what is divided is not
    known. The command that shows it repeats what was given."""
    text = kernel(DIVISIONS[name], "%n: index, %m: index, %k: index")
    zero = ptosim.check(text, sync="manual", args={"m": 0}, explore=explore)
    found = [d for d in zero if d.code == "PTO6007"]
    assert len(found) == (explore or name == "of anything")
    if name == "on a path":
        assert all("--arg m=0 --arg k=" in (d.help or "") for d in found)
    other = ptosim.check(text, sync="manual", args={"m": 3}, explore=explore)
    assert not [d for d in other if d.is_error]
    if explore:
        asked = ptosim.check(text, sync="manual", args={"n": 5})
        (told,) = [d for d in asked if d.code == "PTO6052"]
        assert "--arg n=5 --arg m=0" in (told.help or "")


def test_a_truth_value_that_was_given_is_repeated_as_the_command_takes_it() -> None:
    asked = ptosim.check(
        kernel(DIVIDED, "%n: index, %m: index, %is: i1"), sync="manual", args={"is": True}
    )
    (told,) = [d for d in asked if d.code == "PTO6052"]
    assert "--arg is=true --arg m=0" in (told.help or "")


def rows_of(count: str) -> str:
    """A kernel whose blocks take tiles of 16 whole rows of %n in turn, `count` of them."""
    return kernel(
        f"""%block64 = pto.get_block_idx -> i64
%block = arith.index_cast %block64 : i64 to index
%blocks64 = pto.get_block_num -> i64
%blocks = arith.index_cast %blocks64 : i64 to index
%v = pto.make_tensor_view %x, shape = [%n, %c64], strides = [%c64, %c1] : {VIEW.replace("16x64", "?x64")}
{count}
scf.for %i = %block to %tiles step %blocks {{
%row = arith.muli %i, %c16 : index
%w = pto.partition_view %v, offsets = [%row, %c0], sizes = [%c16, %c64] : {VIEW.replace("16x64", "?x64")} -> {PART}
pto.tload ins(%w : {PART}) outs(%t : {TILE})
}}""",
        "%n: index",
    )


def test_a_sum_of_the_first_round_is_not_taken_for_all_that_is_asked() -> None:
    """Tiles are counted up, and the last one is whole: %n has to be a multiple of 16. Of the first
    round a sum is known, 16*block + 16 <= n, which 40 meets, and which 16 rows break in a launch
    of two blocks without harm."""
    up = ptosim.check(rows_of("%tiles = arith.ceildivui %n, %c16 : index"), sync="manual")
    assert [made["text"] for made in up.requirements] == ["n is a multiple of 16"]
    assert "unsaid" not in up.coverage[0]
    down = ptosim.check(rows_of("%tiles = arith.divui %n, %c16 : index"), sync="manual")
    assert "unsaid" not in down.coverage[0]
    assert not [made for made in down.requirements if "16" in made["text"]]


def test_a_round_that_more_blocks_do_not_make_is_no_error_of_every_launch() -> None:
    """24 rows in whole tiles of 16 * blocks: one block makes a second round, which reaches outside;
    two make none. `no value of blocks meets` it (PTO6056) was told, and was not true."""
    text = rows_of("%tiles = arith.constant 1 : index")
    head, _, tail = text.partition("scf.for")
    loop = "%step = arith.muli %blocks, %c16 : index\nscf.for %row = %c0 to %n step %step {"
    body = tail.partition("{")[2].replace("%row = arith.muli %i, %c16 : index\n", "")
    found = ptosim.check(f"{head}{loop}{body}", sync="manual", args={"n": 24})
    assert "PTO6056" not in [d.code for d in found]
    (cover,) = found.coverage
    assert (cover["paths"], [each["why"] for each in cover["open"]]) == (
        "some", ["no value of blocks found inside"],
    )  # fmt: skip


def test_where_every_number_that_is_assumed_breaks_a_bound_it_is_told() -> None:
    """Nothing was said of it by default: each run was void, and the first one open."""
    one = rows_of("%tiles = arith.constant 1 : index")
    found = ptosim.check(one, sync="manual", assume=["1 <= n", "n <= 8"])
    assert "PTO6050" in [d.code for d in found]
    (cover,) = found.coverage
    assert not cover["valid"]
    assert any("found inside" in each["why"] for each in cover["open"])
