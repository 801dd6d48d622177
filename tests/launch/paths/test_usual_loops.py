"""Loops as kernels usually have them are shown for any number of rounds: tails, several loops over the
same rows, two tiles in turn. Twins whose flags are left out, or of which only a round far on is wrong,
are not."""

from __future__ import annotations

import pytest

import ptosim
from tests.launch.paths.kernels import PART, SET, TILE, VIEW, WAIT, kernel

_ROWS = VIEW.replace("16x64", "?x64")
_SOME = PART.replace("16x64", "?x64")
_OPEN = TILE.replace("v_row=16", "v_row=?")
_ORDER = f"{SET}\n{WAIT}\n"
_BACK = _ORDER.replace("MTE2>, <PIPE_MTE3", "MTE3>, <PIPE_MTE2")
_HEAD = f"""%a1 = arith.constant 8192 : i64
%c2x = arith.constant 2 : index
%u = pto.alloc_tile addr = %a1 : {TILE}
%v = pto.make_tensor_view %x, shape = [%n, %c64], strides = [%c64, %c1] : {_ROWS}
%z = pto.make_tensor_view %y, shape = [%n, %c64], strides = [%c64, %c1] : {_ROWS}
%m = arith.divui %n, %c16 : index
"""


def _copy(row: str, name: str, rows: str = "", tile: str = "%t") -> str:
    """Lines that copy 16 rows, or as many as `rows` says."""
    part, size, made = (_SOME, rows, _OPEN) if rows else (PART, "%c16", TILE)
    tile = f"%t{name}" if rows else tile
    new = f"{tile} = pto.alloc_tile addr = %a0 valid_row = {rows} : {made}\n" if rows else ""
    return f"""{new}%p{name} = pto.partition_view %v, offsets = [{row}, %c0], sizes = [{size}, %c64] : {_ROWS} -> {part}
pto.tload ins(%p{name} : {part}) outs({tile} : {made})
{_ORDER}%q{name} = pto.partition_view %z, offsets = [{row}, %c0], sizes = [{size}, %c64] : {_ROWS} -> {part}
pto.tstore ins({tile} : {made}) outs(%q{name} : {part})
{_BACK}"""  # fmt: skip


def _tail(end: str, row: str, name: str) -> str:
    """Lines that copy 16 rows, or what is left of them before the end."""
    return f"""%left{name} = arith.subi {end}, {row} : index
%rows{name} = arith.minsi %left{name}, %c16 : index
{_copy(row, name, f"%rows{name}")}"""


def _branch(condition: str, then: str, other: str = "") -> str:
    return f"{condition}\nscf.if %is {{\n{then}}} else {{\n{other}}}\n"


def _each(body: str) -> str:
    return f"scf.for %i = %c0 to %m step %c1 {{\n%row = arith.muli %i, %c16 : index\n{body}}}\n"


def _number(test: str) -> str:
    """Lines that say if the number of the round is one of some."""
    word, other, value = test.split()
    number = "%i" if word == "is" else "%rest"
    made = f"%by = arith.constant {other} : index\n%rest = arith.remui %i, %by : index\n"
    made = made if word == "rem" else ""
    return f"{made}%some = arith.constant {value} : index\n%is = arith.cmpi eq, {number}, %some : index"


LOOPS = {
    "a tail in the loop": f"scf.for %row = %c0 to %n step %c16 {{\n{_tail('%n', '%row', 'a')}}}",
    "a tail after it": f"""{_each(_copy("%row", "a"))}%rest = arith.remui %n, %c16 : index
%at = arith.subi %n, %rest : index
{_branch("%is = arith.cmpi sgt, %rest, %c0 : index", _copy("%at", "b", "%rest"))}""",
    "two loops over the same rows": f"""scf.for %row = %c0 to %n step %c16 {{
{_tail("%n", "%row", "a")}}}
scf.for %again = %c0 to %n step %c16 {{
{_tail("%n", "%again", "b")}}}""",
    "as many rows as memory says": f"""%word = pto.load_scalar %d[%c0] : !pto.ptr<i32> -> i32
%said = arith.index_cast %word : i32 to index
%end = arith.minsi %said, %n : index
scf.for %row = %c0 to %end step %c16 {{
{_tail("%end", "%row", "a")}}}""",
    "two tiles in turn": _each(
        _branch(_number("rem 2 0"), _copy("%row", "a"), _copy("%row", "b", tile="%u"))
    ),
}


def _checked(body: str, args: str = "%n: index") -> tuple[bool, set[str]]:
    """Return if any number of rounds is claimed, and the codes of the hazards that are found."""
    found = ptosim.check(kernel(_HEAD + body, args), sync="manual")
    (cover,) = found.coverage
    return cover["trips"] == "proven", {d.code for d in found if d.code.startswith("PTO5")}


@pytest.mark.parametrize("name", LOOPS)
def test_a_usual_loop_is_shown_for_any_number(name: str) -> None:
    assert _checked(LOOPS[name]) == (True, set())


@pytest.mark.parametrize("name", LOOPS)
def test_its_twin_without_flags_back_has_a_race(name: str) -> None:
    _, codes = _checked(LOOPS[name].replace(_BACK, ""))
    assert codes


@pytest.mark.parametrize("test", ["rem 7 6", "is - 40"])
def test_a_round_far_on_is_followed_and_nothing_is_claimed(test: str) -> None:
    """No first round takes the branch whose load is not waited for."""
    wrong = _copy("%row", "a").replace(_ORDER, "")
    claimed, codes = _checked(_each(_branch(_number(test), wrong, _copy("%row", "b", tile="%u"))))
    assert (claimed, "PTO5201" in codes) == (False, True)


def test_what_only_later_rounds_check_is_not_claimed() -> None:
    """Round 40 takes the rows after its own, which 656 to 671 rows do not have."""
    far = "%next = arith.addi %row, %c16 : index\n" + _copy("%next", "a")
    assert not _checked(_each(_branch(_number("is - 40"), far, _copy("%row", "b"))))[0]


def test_rows_that_only_many_rounds_of_both_loops_share_are_asked_for() -> None:
    """The second loop begins 80 rows farther on: six rounds of both meet, and the last store of
    the first one is not waited for. A barrier between the loops orders them."""

    def both(between: str) -> str:
        of_second = f"""%q = pto.partition_view %z, offsets = [%to, %c0], sizes = [%c16, %c64] : {_ROWS} -> {PART}
pto.tstore ins(%u : {TILE}) outs(%q : {PART})
"""  # fmt: skip
        return f"""%c80 = arith.constant 80 : index
pto.tload ins(%px : {PART}) outs(%u : {TILE})
{_ORDER}{_each(_copy("%row", "a")).replace("%m", "%k")}{between}
scf.for %j = %c0 to %k step %c1 {{
%at = arith.muli %j, %c16 : index
%to = arith.addi %at, %c80 : index
{of_second}}}"""

    args = "%n: index, %k: index"
    claimed, codes = _checked(both(""), args)
    assert (claimed, "PTO5221" in codes) == (False, True)
    assert _checked(both("pto.barrier <PIPE_ALL>"), args) == (True, set())


def test_what_rounds_of_a_branch_ask_is_told_if_few_numbers_reach_it() -> None:
    """Rows from 48 on are loaded, 32 apart: 49 to 63 rows, 81 to 95 and so on have too few. Of three
    rounds the first one loads twice as far: 16 rows too few break it, 32 do not."""
    rows = _copy("%row", "a")
    guard = f"{_branch('%is = arith.cmpi sge, %row, %k : index', rows)}"
    later = f"""%k = arith.constant 32 : index
scf.for %row = %c16 to %n step %k {{
{guard}}}"""
    third = "%next = arith.addi %row, %c16 : index\n" + _copy("%next", "a")
    turns = _each(_branch(_number("rem 3 0"), third))
    for body in (later, turns):
        found = ptosim.check(kernel(_HEAD + body, "%n: index"), sync="manual")
        assert found.coverage[0]["unsaid"]
        assert not [r["text"] for r in found.requirements]
