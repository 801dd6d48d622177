"""What `check` follows, what it finds there, and where it says that it stopped."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.source import Source
from ptosim.launch import dry_run
from ptosim.launch.paths import verdict
from ptosim.tools.api import Checked, check_source
from tests.engine.sanitize.test_races import pair
from tests.launch.symbolic.test_cost import MERGED, signalled
from tests.ops.semantics.test_sync import program
from tests.shell.programs import PART, VIEW
from tests.support.micro import kernel
from tests.support.text import date_of

RACE = "LOAD\nSTORE"


def checked(text: str, **options) -> Checked:
    return check_source(
        Source("k.pto", text), dry_run=True, compat=date_of(text), **{"sync": "manual", **options}
    )


def followed(text: str, **options) -> list[Diagnostic]:
    """What `check` says by default, without its advice on the text."""
    found = ptosim.check(text, **options)
    return [d for d in found if not d.code.startswith("PTO74")]


def codes(result: Checked) -> list[str]:
    """The codes of what following brings out; advice on the text is not about that."""
    return [d.code for d in result.findings if not d.code.startswith("PTO74")]


# -- what a memory decides ------------------------------------------------------------------------


def test_a_signal_in_memory_decides_no_path():
    """Whether it is set is not known: the race in the branch is not denied."""
    result = checked(signalled(f"scf.if %ok {{\n{RACE}\n}}"))
    assert "to its end" not in result.dry_run
    assert "'scf.if' depends on data that 'pto.ttest' reads" in result.dry_run
    assert "not followed: both its sides and what comes after" in result.dry_run


def test_a_race_after_a_signal_that_decides_nothing_is_found():
    assert "PTO5201" in codes(checked(signalled(RACE)))


def test_a_wait_for_a_signal_that_comes_from_outside_is_no_deadlock():
    text = signalled(RACE).replace("%ok = pto.ttest %ps, %one", "pto.twait ins(%ps, %one")
    text = text.replace(
        "ins(%ps, %one {cmp = #pto<wait_cmp EQ>} : (!pto.partition_tensor_view<1x1xi32>, i32) -> i1",
        "ins(%ps, %one : !pto.partition_tensor_view<1x1xi32>, i32) {cmp = #pto<wait_cmp EQ>}",
    )
    result = checked(text)
    assert "PTO5006" not in codes(result)
    assert "PTO5201" in codes(result)


def test_what_a_merge_took_decides_no_trip_count():
    assert "'scf.for' depends on data that 'pto.get_vms4_sr' reads" in checked(MERGED).dry_run


@pytest.mark.parametrize("predicate", ["eq", "ne"])
def test_equality_with_an_argument_that_is_not_given_is_open(predicate):
    body = f"%t = arith.cmpi {predicate}, %n, %c1 : index\nscf.if %t {{\n{RACE}\n}}"
    text = program(body, args=", %n: index")
    assert "'scf.if' depends on argument `n`" in checked(text).dry_run
    given = 1 if predicate == "eq" else 0
    assert "PTO5201" in codes(checked(text, args={"n": given}))
    assert codes(checked(text, args={"n": 1 - given})) == []


# -- what stops, and what does not -----------------------------------------------------------------


def test_what_leaves_a_buffer_is_told_and_the_race_after_it_is_found():
    """All views of the argument are static, so it has no more than they reach."""
    body = f"""%p2 = pto.partition_view %vx, offsets = [%r, %c0], sizes = [%c16, %c64] : {VIEW} -> {PART}
pto.tload ins(%p2 : {PART}) outs(%a : !pto.tile_buf<vec, 16x64xf32>)
STORE"""
    result = checked(program(body, args=", %r: index"), args={"r": 16})
    assert "PTO6001" in codes(result)
    assert "PTO5201" in codes(result)
    assert "to its end" in result.dry_run


def test_what_leaves_a_buffer_of_unknown_size_is_a_warning():
    """A second view, whose size is an argument, may reach further: so may the buffer."""
    body = f"""%w = pto.make_tensor_view %x, shape = [%n, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x64xf32>
%p2 = pto.partition_view %w, offsets = [%r, %c0], sizes = [%c16, %c64] : !pto.tensor_view<?x64xf32> -> {PART}
pto.tload ins(%p2 : {PART}) outs(%a : !pto.tile_buf<vec, 16x64xf32>)"""
    text = program(body, args=", %r: index, %n: index")
    warned = {d.code: d.severity.word for d in checked(text, args={"r": 16}).findings}
    assert "PTO6001" not in warned
    assert warned["PTO6019"] == "warning"
    assert codes(checked(text, args={"r": 16, "n": 32})) == [], "what the scalar gives it has"
    given = checked(text, args={"r": 16, "n": 32, "x": np.zeros((16, 64), np.float32)})
    assert "PTO6001" in codes(given), "what is given has its size"


def test_a_scalar_without_a_result_is_told_and_the_race_after_it_is_found():
    result = checked(program(f"%q = arith.divsi %c1, %c0 : index\n{RACE}"))
    assert codes(result) == ["PTO6007", "PTO5201"]


def test_what_stops_a_run_is_among_the_findings():
    wait = "pto.wait_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]"
    result = checked(program(f"{wait}\nSTORE"))
    assert "stopped by PTO5006 at k.pto:13:1" in result.dry_run
    assert "PTO5006" in codes(result)


def test_a_window_at_an_unknown_place_orders_the_tile_that_it_fills():
    body = f"""%p2 = pto.partition_view %vx, offsets = [%r, %c0], sizes = [%c16, %c64] : {VIEW} -> {PART}
pto.tload ins(%p2 : {PART}) outs(%a : !pto.tile_buf<vec, 16x64xf32>)
STORE"""
    result = checked(program(body, args=", %r: index"))
    assert codes(result) == ["PTO5201", "PTO6050"]
    assert "to its end; not checked: what depends on argument `r`" in result.dry_run
    assert result.dry_run in result.findings[-1].message


def test_a_view_of_unknown_size_is_followed_into_its_windows():
    body = f"""%w = pto.make_tensor_view %x, shape = [%n, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x64xf32>
%p2 = pto.partition_view %w, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<?x64xf32> -> {PART}
pto.tload ins(%p2 : {PART}) outs(%a : !pto.tile_buf<vec, 16x64xf32>)
STORE"""
    assert codes(checked(program(body, args=", %n: index"))) == ["PTO5201", "PTO6050"]


def test_an_unknown_event_ends_it():
    body = f"pto.set_flag_dyn[<PIPE_MTE2>, <PIPE_MTE3>, %n]\n{RACE}"
    result = checked(program(body, args=", %n: index"))
    assert "'pto.set_flag_dyn' depends on argument `n`" in result.dry_run
    assert codes(result) == ["PTO6050"]


def test_a_tile_without_a_place_ends_it_where_it_is_used():
    """The fault is told, and no byte is said to be undefined for want of it."""
    tile = "!pto.tile_buf<vec, 16x64xf32>"
    text = f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @k(%n: i64) {{
    %one = arith.constant 1.0 : f32
    %a = pto.alloc_tile addr = %n : {tile}
    pto.texpands ins(%one : f32) outs(%a : {tile})
    pto.tabs ins(%a : {tile}) outs(%a : {tile})
    return
  }}
}}
"""
    result = checked(text, args={"n": 8})
    assert codes(result) == ["PTO6027", "PTO6050"]
    assert "'pto.texpands' depends on the result of 'pto.alloc_tile' in line 4" in result.dry_run


def test_synchronisation_is_not_called_redundant_where_a_place_is_open():
    body = f"""%p2 = pto.partition_view %vy, offsets = [%r, %c0], sizes = [%c16, %c64] : {VIEW} -> {PART}
LOAD
{pair("MTE2", "MTE3")}
pto.tstore ins(%a : !pto.tile_buf<vec, 16x64xf32>) outs(%p2 : {PART})
pto.barrier <PIPE_ALL>
pto.tload ins(%py : {PART}) outs(%a : !pto.tile_buf<vec, 16x64xf32>)"""
    text = program(body, args=", %r: index")
    with pytest.raises(ptosim.UsageError, match="not checked: what depends on argument `r`"):
        checked(text, redundant=True)
    assert "PTO5301" not in codes(checked(text, redundant=True, args={"r": 0}))


@pytest.mark.parametrize("operation", ["load", "store"])
def test_a_scalar_access_at_an_unknown_place(operation):
    load = "%v = pto.load_scalar %x[%n] : !pto.ptr<f32> -> f32"
    store = "%f = arith.constant 1.0 : f32\npto.store_scalar %f, %x[%n] : !pto.ptr<f32>, f32"
    result = checked(program({"load": load, "store": store}[operation], args=", %n: index"))
    assert "argument `n`" in result.dry_run
    assert ("to its end" in result.dry_run) == (operation == "load")


# -- registers -------------------------------------------------------------------------------------

V, M, K = "!pto.vreg<64xf32>", "!pto.vreg<64xi32>", "!pto.mask<b32>"
UB = "!pto.ptr<f32, ub>"


def region(body: str, base: int = 0) -> str:
    """A vector region on UB at `base`."""
    return kernel(
        "",
        f"""    %a = arith.constant {base} : i64
    %zero = arith.constant 0.0 : f32
    %i0 = arith.constant 0 : index
    %s0 = arith.constant 0 : i32
    %p = pto.castptr %a : i64 -> {UB}
    pto.vecscope {{
      %all = pto.pset_b32 "PAT_ALL" : {K}
      %ramp = pto.vci %s0 {{order = "ASC"}} : i32 -> {M}
      %known = pto.vdup %zero, %all : f32, {K} -> {V}
{body}
    }}""",
    )


def stored(value: str = "%known") -> str:
    return f"pto.vsts {value}, %p[%i0], %all : {V}, {UB}, {K}"


LOADED = f"%r = pto.vlds %p[%i0] : {UB} -> {V}"
AS_INDEX = f"%x = pto.vbitcast %r : {V} -> {M}"
BARRIER = 'pto.mem_bar "VST_VLD"'


def gather(index: str) -> str:
    return f"%g = pto.vgather2 %p, {index}, %all : {UB}, {M}, {K} -> {V}"


def scatter(index: str) -> str:
    return f"pto.vscatter %known, %p, {index}, %all : {V}, {UB}, {M}, {K}"


@pytest.mark.parametrize("access", [gather, scatter])
def test_an_index_from_memory_is_not_checked(access):
    """UB holds poison before anything is stored: read as an index it would be far outside."""
    body = "\n".join([LOADED, AS_INDEX, access("%x")])
    result = checked(region(body))
    assert "PTO6602" not in codes(result)


@pytest.mark.parametrize("access", [gather, scatter])
def test_an_index_that_the_text_fixes_is_checked(access):
    inside = checked(region("\n".join([stored(), BARRIER, access("%ramp")])))
    assert codes(inside) == []
    end = 0x40000 - 128  # of the 256 KiB of A5's UB: half of the ramp's 64 floats is outside
    assert "PTO6602" in codes(checked(region(access("%ramp"), end)))


def test_a_scatter_to_unknown_places_leaves_no_read_undefined():
    """It may have written what is read then."""
    body = "\n".join([stored(), BARRIER, LOADED, AS_INDEX, scatter("%x"), BARRIER])
    after = f"%far = arith.constant 512 : index\n%q = pto.vlds %p[%far] : {UB} -> {V}"
    region_of = region(body).replace(
        "    pto.vecscope", "    %e = arith.constant 0 : i64\n    pto.vecscope"
    )
    second = (
        f"    pto.vecscope {{\n{after}\n{stored('%q').replace('%all', '%m')}\n    }}\n    return"
    )
    second = second.replace("{\n%far", f'{{\n%m = pto.pset_b32 "PAT_ALL" : {K}\n%far', 1)
    text = region_of.replace("    return", second)
    assert "PTO7101" not in codes(checked(text))
    assert "PTO7101" in codes(checked(text.replace(scatter("%x"), "")))


def test_a_store_under_an_unknown_mask_may_write_all_of_its_register():
    compare = f'%m = pto.vcmps %r, %zero, %all, "lt" : {V}, f32, {K} -> {K}'
    masked = f"pto.vsts %known, %p[%i64], %m : {V}, {UB}, {K}"
    first = "\n".join(
        ["%i64 = arith.constant 64 : index", stored(), BARRIER, LOADED, compare, masked]
    )
    text = region(first).replace(
        "    return",
        f"""    pto.vecscope {{
      %n = pto.pset_b32 "PAT_ALL" : {K}
      %j = arith.constant 64 : index
      %q = pto.vlds %p[%j] : {UB} -> {V}
      pto.vsts %q, %p[%j], %n : {V}, {UB}, {K}
    }}
    return""",
    )
    result = checked(text)
    assert "PTO7101" not in codes(result)
    assert "to its end" in result.dry_run
    beyond = text.replace("%i64 = arith.constant 64", "%i64 = arith.constant 65520")
    assert "PTO6602" not in codes(checked(beyond)), "no lane need be active"


def test_flags_are_followed_through_a_program_with_pairs():
    assert codes(checked(program(f"LOAD\n{pair('MTE2', 'MTE3')}\nSTORE"))) == []


# -- which programs, and how far -------------------------------------------------------------------


def counted(count: int, after: str = "") -> str:
    body = f"%end = arith.constant {count} : index\nscf.for %i = %c0 to %end step %c1 {{\nLOAD\n}}"
    return program(f"{body}\n{after}")


def test_a_program_without_flags_is_followed_too():
    """Nothing but following tells that the store takes what nothing wrote."""
    assert [d.code for d in followed(program("STORE"))] == ["PTO7101"]
    assert ptosim.check(program("STORE"), dry_run=False) == []


def never_the_same(count: int, after: str = "") -> str:
    """So many rounds of which some load, by a rule that no period has."""
    square = "%s = arith.muli %i, %i : index\n%r = arith.remui %s, %c1021 : index\n"
    test = "%if = arith.cmpi ult, %r, %c500 : index\nscf.if %if {\nLOAD\n}"
    numbers = "%c1021 = arith.constant 1021 : index\n%c500 = arith.constant 500 : index\n"
    end = f"%end = arith.constant {count} : index\n"
    loop = f"scf.for %i = %c0 to %end step %c1 {{\n{square}{test}\n}}"
    return program(f"{numbers}{end}{loop}\n{after}")


def test_a_long_program_is_left_and_one_note_says_so():
    (note,) = followed(never_the_same(10**9))
    assert (note.code, note.severity.word, note.origin.value) == ("PTO6050", "note", "lint")
    assert "left after 20,000 instructions" in note.message
    assert "`--dry-run` follows without a limit" in (note.help or "")


@pytest.mark.parametrize(
    ("line", "times"),
    [
        ("", 0),
        ("%b = pto.get_block_idx -> i64", 1),
        ("%v = pto.load_scalar %p[%c0] : !pto.ptr<i32> -> i32", 1),
    ],
)
def test_a_long_program_of_constants_has_one_path(monkeypatch, line, times):
    """To follow it again as far says nothing; a number of a core or of memory may."""
    asked: list[object] = []
    explore = verdict.explore
    monkeypatch.setattr(verdict, "explore", lambda *given: (asked.append(0), explore(*given))[1])
    monkeypatch.setattr(dry_run, "BUDGET", 300)
    monkeypatch.setattr(verdict, "BUDGET", 300)
    text = never_the_same(10**6).replace("%end =", f"{line}\n%end =")
    text = text.replace("func.func @k(", "func.func @k(%p: !pto.ptr<i32>, ")
    assert "left after 300 instructions" in followed(text)[-1].message
    assert len(asked) == times


def test_what_comes_after_a_long_loop_is_found_when_asked_for():
    text = never_the_same(8_000, "%q = arith.divsi %c1, %c0 : index")
    assert [d.code for d in followed(text)] == ["PTO6050"]
    assert [d.code for d in followed(text, dry_run=True)] == ["PTO6007"]


TWO = """func.func @one(%n: index) attributes {pto.entry} { return }
func.func @two(%m: index) attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %m step %c1 { }
  return
}"""


def test_one_note_names_every_entry_that_was_left():
    text = TWO.replace("{ return }", "{ %z = arith.constant 0 : index scf.for %i = %z to %n step %n { } return }", 1)  # fmt: skip
    found = ptosim.check(text, target="a5", explore=False)
    (note,) = [d for d in found if d.code == "PTO6050"]
    assert "@one: 'scf.for' depends on argument `n`" in note.message
    assert "@two: 'scf.for' depends on argument `m`" in note.message


def test_of_several_entries_each_takes_its_own_arguments():
    assert [d.code for d in ptosim.check(TWO, target="a5", args={"m": 2})] == []
    assert [d.code for d in ptosim.check(TWO, target="a5", entry="one")] == []
    for wrong in ({"args": {"k": 1}}, {"args": {"m": 1.5}}, {"entry": "three"}):
        with pytest.raises(ptosim.UsageError):
            ptosim.check(TWO, target="a5", **wrong)
