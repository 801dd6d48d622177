"""`check` answers for every argument: what is wrong behind a condition is found with a witness."""

from __future__ import annotations

import json

import pytest

import ptosim
from ptosim.launch.paths import solve
from tests.launch.paths.kernels import (
    LOAD,
    ORDERED,
    PART,
    RACE,
    SET,
    STORE,
    TILE,
    VIEW,
    WAIT,
    WORD,
    inside,
    kernel,
)

CONDITIONS = {
    "more": "%c = arith.cmpi sgt, %n, %c7 : index",
    "less": "%c = arith.cmpi slt, %n, %c1 : index",
    "one": "%c = arith.cmpi eq, %n, %c100 : index",
    "product": "%p = arith.muli %n, %c16 : index\n%c = arith.cmpi eq, %p, %c64 : index",
    "rest": "%r = arith.remsi %n, %c7 : index\n%c = arith.cmpi eq, %r, %c5 : index",
    "quotient": "%q = arith.divsi %n, %c64 : index\n%c = arith.cmpi eq, %q, %c3 : index",
    "bit": "%b = arith.andi %n, %c8 : index\n%c = arith.cmpi ne, %b, %c0 : index",
    "clamped": "%m = arith.minsi %n, %c64 : index\n%c = arith.cmpi eq, %m, %c64 : index",
    "block": "%b = pto.get_block_idx -> i64\n%i = arith.index_cast %b : i64 to index\n"
    "%c = arith.cmpi eq, %i, %c2 : index",
}


def found(text: str, **options) -> list[ptosim.Diagnostic]:
    every = ptosim.check(text, sync="manual", **options)
    return [d for d in every if not d.code.startswith("PTO74")]


def codes(text: str, **options) -> list[str]:
    return [d.code for d in found(text, **options)]


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_race_behind_a_condition_has_a_witness_that_shows_it(name):
    text = kernel(inside(CONDITIONS[name], RACE))
    (race,) = [d for d in found(text) if d.code == "PTO5201"]
    assert race.is_error
    assert race.witness
    assert not race.assumed
    known = {n: v for n, v in race.witness.items() if n == "n"}
    if known:
        assert "PTO5201" in codes(text, args=known, explore=False)
        assert "--arg n=" in (race.help or "")


@pytest.mark.parametrize("name", CONDITIONS)
def test_its_mended_twin_has_no_finding(name):
    assert codes(kernel(inside(CONDITIONS[name], ORDERED))) == []


def test_a_loop_of_no_rounds_waits_for_a_flag_that_its_body_sets():
    loop = "scf.for %i = %c0 to %n step %c1 {{\n{0}\n}}\n{1}"
    text = kernel(loop.format(f"{LOAD}\npto.barrier <PIPE_ALL>\n{SET}", f"{WAIT}\n{STORE}"))
    deadlock = next(d for d in found(text) if d.code == "PTO5006")
    assert deadlock.witness == {"n": 0}
    assert "PTO5006" in codes(text, args={"n": 0}, explore=False)
    mended = loop.format(f"{LOAD}\n{SET}\n{WAIT}\n{STORE}\npto.barrier <PIPE_ALL>", "")
    assert codes(kernel(mended)) == []


def test_a_decision_may_need_an_earlier_one_turned():
    inner = inside("%e = arith.cmpi eq, %m, %c3 : index\n%c = arith.andi %e, %e : i1", RACE)
    outer = f"%g = arith.cmpi sgt, %n, %c100 : index\nscf.if %g {{\n{inner}\n}}"
    (race,) = [d for d in found(kernel(outer, "%n: index, %m: index")) if d.code == "PTO5201"]
    assert race.witness is not None
    assert race.witness["n"] > 100
    assert race.witness["m"] == 3


def test_what_is_left_over_after_whole_tiles_is_a_path():
    """No first round takes fewer than 16 rows on a way to a later one: the branch turns in that
    round alone, and the windows of whole tiles, which it leaves out there, do not keep from it."""
    rows = VIEW.replace("16x64", "?x64")
    text = kernel(
        f"""%v = pto.make_tensor_view %x, shape = [%n, %c64], strides = [%c64, %c1] : {rows}
scf.for %row = %c0 to %n step %c16 {{
%end = arith.addi %row, %c16 : index
%whole = arith.cmpi sle, %end, %n : index
scf.if %whole {{
%w = pto.partition_view %v, offsets = [%row, %c0], sizes = [%c16, %c64] : {rows} -> {PART}
pto.tload ins(%w : {PART}) outs(%t : {TILE})
}} else {{
%later = arith.cmpi sgt, %row, %c0 : index
scf.if %later {{
{RACE}
}}
}}
}}"""
    )
    (race,) = [d for d in found(text) if d.code == "PTO5201"]
    assert race.witness == {"n": 17}
    (cover,) = ptosim.check(text, sync="manual").coverage
    assert cover["open"] == []


def test_a_branch_on_data_is_a_warning_that_names_what_is_assumed():
    data = inside(f"{WORD}\n%c = arith.cmpi eq, %w, %c7 : index", "{0}")
    (hazard,) = found(kernel(data.replace("{0}", RACE)))
    assert (hazard.code, hazard.severity.word) == ("PTO5290", "warning")
    assert (hazard.witness, hazard.assumed) == ({"d[2]": 7}, ["d[2]"])
    assert "PTO5201" in hazard.message
    assert codes(kernel(data.replace("{0}", ORDERED))) == []


def test_two_reads_of_one_word_are_one_symbol():
    """The flag is set and waited for under the same condition: no path has one without the other."""
    again = WORD.replace("%v", "%v2").replace("%w", "%w2")
    text = kernel(
        inside(f"{WORD}\n%c = arith.cmpi eq, %w, %c7 : index", f"{LOAD}\n{SET}")
        + "\n"
        + inside(f"{again}\n%c = arith.cmpi eq, %w2, %c7 : index", WAIT).replace("%c ", "%e ")
    )
    assert "PTO5290" not in codes(text)


def test_a_decision_on_a_float_is_taken_both_ways():
    more = "%z = arith.constant 1.5 : f32\n%c = arith.cmpf ogt, %n, %z : f32"
    assert codes(kernel(inside(more, RACE), "%n: f32")) == ["PTO5290"]
    assert codes(kernel(inside(more, ORDERED), "%n: f32")) == []


def test_without_exploring_the_first_open_decision_ends_it():
    text = kernel(inside(CONDITIONS["more"], RACE))
    assert codes(text, explore=False) == ["PTO6050"]
    assert codes(text, args={"n": 8}, explore=False) == ["PTO5201"]
    assert codes(text, args={"n": 7}) == []


def test_what_no_value_reaches_is_told_as_not_covered():
    never = (
        "%q = arith.muli %n, %n : index\n%e = arith.constant 4 : index\n"
        "%r = arith.remui %q, %e : index\n%c = arith.cmpi eq, %r, %c3 : index"
    )
    (note,) = found(kernel(inside(never, RACE)))
    assert (note.code, note.severity.word) == ("PTO6050", "note")
    assert "depends on n" in note.message


NEVER = {
    "a rest is less than its divisor": "%r = arith.remui %n, %c7 : index\n"
    "%c = arith.cmpi ugt, %r, %c7 : index",
    "a sum is itself": "%s = arith.addi %n, %c3 : index\n%e = arith.subi %s, %c3 : index\n"
    "%c = arith.cmpi ne, %e, %n : index",
    "a number is not beyond its bound": "%m = arith.minsi %n, %c8 : index\n"
    "%c = arith.cmpi sgt, %m, %c16 : index",
    "an index is less than its count": "%b = pto.get_block_idx -> i64\n"
    "%m = pto.get_block_num -> i64\n%c = arith.cmpi sge, %b, %m : i64",
}


@pytest.mark.parametrize("name", NEVER)
def test_what_cannot_happen_is_covered(name):
    """No value makes the condition hold, and that is shown by ranges and sums: nothing is open."""
    every = ptosim.check(kernel(inside(NEVER[name], RACE)), sync="manual")
    assert [d.code for d in every if d.code.startswith(("PTO5", "PTO60"))] == []
    (coverage,) = every.coverage
    assert coverage["open"] == []


def test_a_decision_that_an_earlier_one_decides_is_covered():
    inner = inside("%c1b = arith.cmpi sgt, %n, %c3 : index\n%c = arith.andi %c1b, %c1b : i1", LOAD)
    outer = f"%g = arith.cmpi sgt, %n, %c5 : index\nscf.if %g {{\n{inner}\n}}"
    (coverage,) = ptosim.check(kernel(outer), sync="manual").coverage
    assert (coverage["open"], coverage["runs"]) == ([], 2)


def test_products_and_quotients_of_several_arguments_are_turned():
    both = (
        "%p = arith.divui %n, %c64 : index\n%q = arith.divui %m, %c16 : index\n"
        "%r = arith.muli %p, %q : index\n%c = arith.cmpi ugt, %r, %c0 : index"
    )
    (race,) = [d for d in found(kernel(inside(both, RACE), "%n: index, %m: index")) if d.is_error]
    assert race.witness == {"m": 16, "n": 64}


def test_the_runs_are_the_same_every_time():
    text = kernel(inside(CONDITIONS["rest"], RACE))
    first, second = ([d.to_dict() for d in found(text)] for _ in range(2))
    assert json.dumps(first) == json.dumps(second)


def test_the_command_tells_coverage_and_witness(cli, tmp_path):
    name = str(tmp_path / "k.pto")
    (tmp_path / "k.pto").write_text(kernel(inside(CONDITIONS["more"], RACE)))
    told = cli("check", "--sync", "manual", name)
    assert told.code == 1
    assert "@k: 2 runs; all paths" in told.out
    assert "shown for n = 8" in told.err
    assert "--arg n=8" in told.err
    assert cli("check", "--sync", "manual", "--no-explore", name).code == 0
    told = cli("check", "--sync", "manual", "--format", "json", name)
    record = json.loads(told.out)
    (race,) = [d for d in record["findings"] if d["code"] == "PTO5201"]
    assert race["witness"] == {"n": 8}
    assert race["assumed"] == []
    (coverage,) = record["programs"][0]["coverage"]
    assert (coverage["runs"], coverage["valid"], coverage["paths"]) == (2, 2, "all")


def test_the_list_of_findings_has_the_coverage():
    every = ptosim.check(kernel(inside(CONDITIONS["more"], ORDERED)), sync="manual")
    (coverage,) = every.coverage
    assert (coverage["entry"], coverage["paths"], coverage["open"]) == ("k", "all", [])
    assert every.requirements == []


NUMBER = "%k = arith.constant {0} : index\n"
PLACED = """%a = arith.index_cast %o : index to i64
%u = pto.alloc_tile addr = %a : """ + TILE  # fmt: skip
USED = f"{ORDERED}\n{LOAD.replace('%t', '%u')}\npto.barrier <PIPE_ALL>"


@pytest.mark.parametrize("number", [0, 13, 77])
def test_which_of_two_addresses_is_taken_is_a_decision(number):
    """For one number the second load is to the tile that is being stored."""
    choice = "%q = arith.cmpi eq, %n, %k : index\n%far = arith.constant 8192 : index\n"
    choice += "%o = arith.select %q, %c0, %far : index\n"
    made = ptosim.check(kernel(f"{NUMBER.format(number)}{choice}{PLACED}\n{USED}"), sync="manual")
    (race,) = [d for d in made if d.is_error]
    assert (race.code, race.witness) == ("PTO5202", {"n": number})
    assert made.coverage[0]["paths"] == "all"


def test_each_address_and_each_flag_of_a_few_is_tried():
    """One of three addresses, and two of eight flags, are wrong; of an address that may be any
    nothing is claimed."""
    rest = "%r = arith.remui %n, %k : index\n"
    far = "%size = arith.constant 4096 : index\n%o = arith.muli %r, %size : index\n"
    made = ptosim.check(kernel(f"{NUMBER.format(3)}{rest}{far}{PLACED}\n{USED}"), sync="manual")
    assert [(d.code, d.witness) for d in made if d.is_error] == [("PTO5202", {"n": 0})]
    assert made.coverage[0]["paths"] == "all"
    free = "%size = arith.constant 32 : index\n%o = arith.muli %n, %size : index\n"
    made = ptosim.check(kernel(f"{free}{PLACED}\n{USED}"), sync="manual")
    assert made.coverage[0]["paths"] == "some"
    sets = "".join(f"pto.set_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID{n}>]\n" for n in range(6))
    wait = "pto.wait_flag_dyn[<PIPE_MTE2>, <PIPE_MTE3>, %r]\n"
    made = ptosim.check(
        kernel(f"{NUMBER.format(8)}{rest}{LOAD}\n{sets}{wait}{STORE}\npto.barrier <PIPE_ALL>"),
        sync="manual",
    )
    deadlock = next(d for d in made if d.code == "PTO5006")
    assert (deadlock.witness, made.coverage[0]["paths"]) == ({"n": 6}, "all")


def test_of_many_earlier_decisions_the_nearest_are_asked_whether_they_stay(monkeypatch) -> None:
    """A text of 80 nests on two arguments took 44 s: each decision asked each one before it."""
    asked = []
    course = solve.Course
    monkeypatch.setattr(solve, "Course", lambda kept: asked.append(len(kept)) or course(kept))
    loop = "scf.for %i{0} = %c0 to %n step %c16 {{\npto.barrier <PIPE_ALL>\n}}"
    ptosim.check(kernel("\n".join(loop.format(number) for number in range(16))))
    assert max(asked) == 24
