"""Programs for each verdict on arguments, wrong ones beside right ones.

What is wrong on a path is an error if an argument or the place of a core leads there, weaker if data
that are assumed do. A check that depends on what only the caller knows is a requirement, one that
fails for an index that occurs a fault, one that nothing meets an error."""

from __future__ import annotations

import pytest

import ptosim
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
    kernel,
)

FENCE = "pto.barrier <PIPE_ALL>"
BLOCK = "%b = pto.get_block_idx -> i64\n%w = arith.index_cast %b : i64 to index"
ARGS = "%n: index, %m: index, %rank: index"
OPEN = TILE.replace("v_row=16", "v_row=?")


def when(number: str, sign: str, limit: str, body: str, other: str = "") -> str:
    rest = f" else {{\n{other}\n}}" if other else ""
    return f"%c = arith.cmpi {sign}, {number}, {limit} : index\nscf.if %c {{\n{body}\n}}{rest}"


def rounds(body: str, end: str = "%n") -> str:
    return f"scf.for %i = %c0 to {end} step %c1 {{\n{body}\n}}"


def row(offset: str, rows: str = "%c1") -> str:
    part = PART.replace("16x64", "1x64" if rows == "%c1" else "?x64")
    return f"%e = pto.partition_view %vx, offsets = [{offset}, %c0], sizes = [{rows}, %c64] : {VIEW} -> {part}"


def tile(rows: str) -> str:
    return f"%a = pto.alloc_tile addr = %a0 valid_row = {rows} : {OPEN}"


SETS = f"{LOAD}\n{FENCE}\n{SET}"
FAULTS = {
    "race of a load and a store": (RACE, ORDERED, "PTO5201"),
    "race of a store and a load": (f"{ORDERED}\n{LOAD}", f"{ORDERED}\n{FENCE}\n{LOAD}", "PTO5202"),
    "deadlock": (f"{ORDERED}\n{WAIT}", ORDERED, "PTO5006"),
    "flag twice": (f"{SET}\n{SET}\n{WAIT}\n{WAIT}", f"{SET}\n{WAIT}\n{SET}\n{WAIT}", "PTO5210"),
    "flag left": (SETS, f"{SETS}\n{WAIT}", "PTO5211"),
    "bytes that nothing wrote": (STORE, ORDERED, "PTO7101"),
}
"""What is wrong: its lines, those of the twin, the code."""
WAYS = {
    "always": ("{}", None),
    "an argument is large": (when("%n", "sgt", "%c64", "{}"), {"n": 65}),
    "a loop makes a round": (rounds("{}\n" + FENCE), {"n": 1}),
    "a number is not positive": (when("%n", "slt", "%c1", "{}"), {"n": 0}),
    "a block": (f"{BLOCK}\n" + when("%w", "eq", "%c3", "{}"), {"block": 3, "blocks": 4}),
    "a rank": (when("%rank", "eq", "%c2", "{}"), {"rank": 2}),
    "data": (f"{WORD}\n" + when("%w", "eq", "%c7", "{}"), {"d[2]": 7}),
}
"""What leads there: the lines around it, and the witness."""


def found(body: str, **options) -> list[ptosim.Diagnostic]:
    """Findings but for those on what is not used."""
    every = ptosim.check(kernel(body, ARGS), sync="manual", **options)
    return [d for d in every if not d.code.startswith("PTO74")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_with_what_leads_to_it(fault):
    wrong, right, code = FAULTS[fault]
    for lines, witness in WAYS.values():
        told = found(lines.replace("{}", wrong))
        assert told[0].witness == witness
        is_assumed = witness == {"d[2]": 7}
        is_weak = is_assumed and code == "PTO7101"
        assert told[0].code == ("PTO6053" if is_weak else "PTO5290" if is_assumed else code)
        assert code in told[0].code + told[0].message
        assert found(lines.replace("{}", right)) == []


WHOLE = "%q = arith.index_cast %n : index to i64\n"
SHAPE = OPEN.replace("v_col=64", "v_col=?")
EVENT = "[<PIPE_MTE2>, <PIPE_MTE3>, %n]"
BOUNDS = {
    "offset of a window": (row("%n"), ["0 <= n <= 15"]),
    "size of a window": (row("%c0", "%n"), ["0 <= n <= 16"]),
    "end of a window": (row("%m", "%n"), ["m + n <= 16", "m >= 0", "n >= 0"]),
    "last round": (rounds("%o = arith.muli %i, %c5 : index\n" + row("%o")), ["n <= 4"]),
    "rows of a tile": (tile("%n"), ["0 <= n <= 16"]),
    "rows and columns of a tile": (
        f"%a = pto.alloc_tile addr = %a0 valid_row = %n valid_col = %m : {SHAPE}",
        ["0 <= m <= 64", "0 <= n <= 16"]),
    "element of a tile": (
        f"{LOAD}\n{FENCE}\n%g = pto.tgetval ins(%t, %n : {TILE}, index) outs : f32",
        ["0 <= n <= 1023"]),
    "part of a tile": (
        f"%s = pto.subview %t[%n, %c0] sizes [1, 64] : {TILE} -> "
        + TILE.replace("rows=16", "rows=1").replace("v_row=16", "v_row=1"), ["0 <= n <= 15"]),
    "alignment of an address": (
        f"{WHOLE}%a = pto.alloc_tile addr = %q : {TILE}\n" + LOAD.replace("%t", "%a"),
        ["n is a multiple of 32"]),
    "end of a memory": (
        f"{WHOLE}%k = arith.constant 32 : i64\n%p = arith.muli %q, %k : i64\n"
        f"%a = pto.alloc_tile addr = %p : {TILE}\n" + LOAD.replace("%t", "%a"),
        ["0 <= n <= 6016"]),
    "step": (f"scf.for %i = %c0 to %c8 step %n {{\n{FENCE}\n}}", ["n >= 1"]),
    "divisor": (f"%q = arith.divsi %c8, %n : index\n{FENCE}", ["n >= 1"]),
    "divisor without a sign": (f"%q = arith.remui %c8, %n : index\n{FENCE}", ["n >= 1"]),
    "number of a flag": (
        f"pto.set_flag_dyn{EVENT}\npto.wait_flag_dyn{EVENT}", ["0 <= n <= 7"]),
    "block in a view": (f"{BLOCK}\n" + row("%w"), ["block <= 15: launch at most 16 blocks"]),
    "rest": (
        "%r = arith.remui %n, %c16 : index\n%o = arith.muli %r, %c16 : index\n" + row("%o"),
        ["n is a multiple of 16"]),
    "data": (f"{WORD}\n" + row("%w"), ["0 <= d[2] <= 15"]),
    "negative only": ("%o = arith.minsi %n, %c8 : index\n" + row("%o"), ["n >= 0"]),
    "one value": ("%o = arith.muli %n, %c16 : index\n" + row("%o"), ["0 <= n <= 0"]),
}  # fmt: skip
"""What a check of the machine asks of a number, and what that requires of the caller."""
QUIET = ("data", "negative only")
ONE = "one value"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", BOUNDS)
def test_what_is_asked_of_the_caller_is_a_requirement(name):
    body, required = BOUNDS[name]
    every = ptosim.check(kernel(body, ARGS), sync="manual")
    assert [r["text"] for r in every.requirements] == required
    told = [d.code for d in every if d.code.startswith("PTO60")]
    loud = [text for text in required if not text.endswith(" >= 0")]
    assert told == [] if name in QUIET else ["PTO6054"] if name == ONE else ["PTO6052"] * len(loud)
    broken = every.requirements[0]["broken_by"]
    given = {n: v for n, v in broken.items() if n in ("n", "m")}
    if given:  # the value outside is refused where it is given
        wrong = ptosim.check(kernel(body, ARGS), sync="manual", args={"n": 1, "m": 0, **given})
        assert any(d.severity.word != "note" for d in wrong)


FROM_ONE = "%o = arith.subi {}, %c1 : index\n" + row("%o")
CERTAIN = {
    "rank 0": (FROM_ONE.format("%rank"), {}, {"rank": 0}),
    "block 0": (f"{BLOCK}\n" + FROM_ONE.format("%w"), {}, None),
    "a block of a launch": (
        f"{BLOCK}\n%o = arith.muli %w, %c16 : index\n" + row("%o"), {"blocks": 3}, {"block": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", CERTAIN)
def test_an_index_that_occurs_is_no_requirement(name):
    body, options, witness = CERTAIN[name]
    (told,) = found(body, **options)
    assert (told.code, told.witness) == ("PTO6101", witness)
    mended = body.replace("arith.subi", "arith.muli").replace("muli %w, %c16", "addi %w, %c0")
    assert not [d for d in found(mended, **options) if d.severity.word != "note"]


NEVER = {
    "a rest beyond the end": "%r = arith.remui %n, %c8 : index\n%o = arith.addi %r, %c16 : index",
    "at least too much": "%o = arith.maxsi %n, %c64 : index",
    "a negative number": "%r = arith.minsi %n, %c3 : index\n%o = arith.subi %r, %c5 : index",
    "data": f"{WORD}\n%o = arith.maxsi %w, %c16 : index",
}


@pytest.mark.parametrize("name", NEVER)
def test_a_check_that_nothing_meets_is_an_error(name):
    (told,) = found(f"{NEVER[name]}\n" + row("%o"))
    assert (told.code, told.is_error) == ("PTO6056", True)
    inside_ = NEVER[name].replace("%c64", "%c8").replace("%c5", "%c2").replace("%c16", "%c8")
    assert not any(d.is_error for d in found(f"{inside_}\n" + row("%o")))


def test_what_is_not_proven_is_not_covered():
    """That no value meets the check is true, and nobody shows it."""
    other = "%p = arith.xori %n, %c16 : index\n%o = arith.xori %p, %n : index\n"
    (told,) = found(other + row("%o"))
    assert (told.code, told.severity.word) == ("PTO6050", "note")
    assert "no value of n found inside" in told.message


def test_where_memory_may_end_the_path_goes_on():
    """How large a buffer is that an argument points into, only the caller knows: a race farther on
    is found."""
    moved = (
        "%p = pto.addptr %x, %n : !pto.ptr<f32> -> !pto.ptr<f32>\n"
        f"%v = pto.make_tensor_view %p, shape = [%c16, %c64], strides = [%c64, %c1] : {VIEW}\n"
        f"%e = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c64] : {VIEW} -> {PART}"
        "\n" + LOAD.replace("%px", "%e")
    )
    for body, codes in ((RACE, ["PTO5201"]), (ORDERED, [])):
        told = found(f"{moved}\n{FENCE}\n" + when("%n", "eq", "%c64", body))
        assert [d.code for d in told] == codes


def test_which_flag_is_meant_is_a_decision():
    signal = "%r = arith.remui %n, %c2 : index\npto.set_flag_dyn[<PIPE_MTE2>, <PIPE_MTE3>, {}]\n"
    waits = "pto.wait_flag_dyn[<PIPE_MTE2>, <PIPE_MTE3>, %r]"
    (told,) = found(signal.format("%c1") + waits)
    assert (told.code, told.witness) == ("PTO5006", {"n": 0})
    assert found(signal.format("%r") + waits) == []
