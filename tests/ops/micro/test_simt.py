"""SIMT: launches, who a thread is, memory, operations of a warp, atomic updates, arithmetic,
conversions, words from one launch to the next, and what is found while threads run."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np
import pytest

import ptosim
from tests.support.micro import run

HEAD = 'module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {'
GM = "!pto.ptr<i32, gm>"


def program(functions: str, args: str, body: str) -> str:
    return f"{HEAD}\n{functions}\nfunc.func @kernel({args}) attributes {{pto.kernel}} {{\n{body}\nreturn\n}}\n}}\n"


def section(args: str, body: str, dims: str = "32, 1, 1", before: str = "") -> str:
    return program("", args, f"{before}\npto.section.simt<<<{dims}>>> {{\n{body}\n}}")


def pointers(**types: str) -> str:
    return ", ".join(f"%{name}: !pto.ptr<{elem}, gm>" for name, elem in types.items())


TID = "%t = pto.get_tid_x : i32\n%i = arith.index_cast %t : i32 to index"
LINEAR = """%x = pto.get_tid_x : i32
%y = pto.get_tid_y : i32
%z = pto.get_tid_z : i32
%dx = pto.get_block_dim_x : i32
%dy = pto.get_block_dim_y : i32
%dz = pto.get_block_dim_z : i32
%yz = arith.muli %dy, %z : i32
%yy = arith.addi %y, %yz : i32
%yx = arith.muli %yy, %dx : i32
%t = arith.addi %x, %yx : i32
%i = arith.index_cast %t : i32 to index"""


def store(value: str, where: str = "p", elem: str = "i32") -> str:
    return f"pto.store %{value}, %{where}[%i] : !pto.ptr<{elem}, gm>, {elem}"


def words(
    body: str, value: str = "r", count: int = 32, dims: str | None = None, **options: str
) -> list[int]:
    """What each thread computes, as an i32."""
    text = section(pointers(p="i32"), f"{TID}\n{body}\n{store(value)}", dims or f"{count}, 1, 1")
    result = ptosim.load(text, switches=options or None).run({"p": np.zeros(count, np.int32)})
    return result.outputs["p"].tolist()


def codes(result: ptosim.Result) -> list[str]:
    return [d.code for d in result.findings]


# -- launches --------------------------------------------------------------------------------------

BODY = f"""func.func @body(%p: {GM}, %n: i32) attributes {{pto.simt_entry}} {{
{LINEAR}
%r = arith.addi %t, %n : i32
{store("r")}
return
}}"""
LAUNCHES = {
    "launch": f"pto.simt_launch @body<<<%c4, %c3, %c2>>>(%p, %n) : ({GM}, i32) -> ()",
    "registers": "pto.store_vfsimt_info %c2, %c3, %c4 : i32, i32, i32\n"
    f"func.call @body(%p, %n) : ({GM}, i32) -> ()",
}
CONSTANTS = "\n".join(f"%c{n} = arith.constant {n} : i32" for n in (1, 2, 3, 4, 8, 64))


@pytest.mark.parametrize("form", LAUNCHES)
def test_a_launch_executes_a_function_for_every_thread(form):
    text = program(BODY, f"%p: {GM}, %n: i32", f"{CONSTANTS}\n{LAUNCHES[form]}")
    result = run(text, {"p": np.zeros(24, np.int32), "n": 100})
    assert result.outputs["p"].tolist() == list(range(100, 124))
    assert codes(result) == []


def test_one_setting_of_the_registers_serves_several_calls():
    calls = (
        f"func.call @body(%p, %n) : ({GM}, i32) -> ()\nfunc.call @body(%p, %c1) : ({GM}, i32) -> ()"
    )
    text = program(
        BODY,
        f"%p: {GM}, %n: i32",
        f"{CONSTANTS}\npto.store_vfsimt_info %c1, %c2, %c3 : i32, i32, i32\n{calls}",
    )
    result = run(text, {"p": np.zeros(6, np.int32), "n": 100})
    assert result.outputs["p"].tolist() == list(range(1, 7))


def test_a_call_without_registers_and_a_launch_that_is_too_large_are_refused():
    call = f"func.call @body(%p, %n) : ({GM}, i32) -> ()"
    with pytest.raises(ptosim.Trap, match="PTO7306"):
        run(program(BODY, f"%p: {GM}, %n: i32", call), {"p": np.zeros(6, np.int32), "n": 0})
    launch = f"pto.simt_launch @body<<<%n, %n, %n>>>(%p, %n) : ({GM}, i32) -> ()"
    for size in (0, 13):
        with pytest.raises(ptosim.Trap, match="PTO7306"):
            run(
                program(BODY, f"%p: {GM}, %n: i32", launch), {"p": np.zeros(6, np.int32), "n": size}
            )


def test_more_threads_than_promised_are_a_warning():
    few = BODY.replace("{pto.simt_entry}", "{pto.simt_entry, pto.simt_max_threads = 8 : i32}")
    text = program(few, f"%p: {GM}, %n: i32", f"{CONSTANTS}\n{LAUNCHES['launch']}")
    result = run(text, {"p": np.zeros(24, np.int32), "n": 0})
    assert codes(result) == ["PTO7305"]
    assert result.outputs["p"].tolist() == list(range(24))


def test_a_section_sees_the_values_around_it_and_calls_functions():
    twice = """func.func private @twice(%v: i32) -> i32 {
%c2 = arith.constant 2 : i32
%r = arith.muli %v, %c2 : i32
return %r : i32
}"""
    body = f"""%k = arith.addi %n, %n : i32
pto.section.simt<<<16, 1, 1>>> {{
{TID}
%a = func.call @twice(%t) : (i32) -> i32
%b = func.call @twice(%a) : (i32) -> i32
%r = arith.addi %b, %k : i32
{store("r")}
}}"""
    result = run(program(twice, f"%p: {GM}, %n: i32", body), {"p": np.zeros(16, np.int32), "n": 5})
    assert result.outputs["p"].tolist() == [4 * t + 10 for t in range(16)]


# -- who a thread is -------------------------------------------------------------------------------


def test_coordinates_and_sizes():
    names = [
        "get_tid_x",
        "get_tid_y",
        "get_tid_z",
        "get_block_dim_x",
        "get_block_dim_y",
        "get_block_dim_z",
    ]
    body = LINEAR + "".join(
        f"\n%q{n} = pto.{w} : i32\n{store(f'q{n}', f'p{n}')}" for n, w in enumerate(names)
    )
    text = section(pointers(**{f"p{n}": "i32" for n in range(6)}), body, "4, 3, 2")
    result = run(text, {f"p{n}": np.zeros(24, np.int32) for n in range(6)})
    wanted = [(t % 4, t // 4 % 3, t // 12, 4, 3, 2) for t in range(24)]
    assert [tuple(result.outputs[f"p{n}"][t] for n in range(6)) for t in range(24)] == wanted


def test_the_grid_is_zero_and_a_switch_counts_blocks():
    for word in (
        "get_grid_dim_x",
        "get_grid_dim_y",
        "get_grid_dim_z",
        "get_block_idx_x",
        "get_block_idx_y",
        "get_block_idx_z",
    ):
        assert words(f"%r = pto.{word} : i32", count=4) == [0] * 4
    text = section(
        pointers(p="i32"), f"{TID}\n%r = pto.get_grid_dim_x : i32\n{store('r')}", "1, 1, 1"
    )
    for choice, found in (("zero", 0), ("blocks", 3)):
        loaded = ptosim.load(text, switches={"simt.grid": choice})
        result = loaded.run({"p": np.zeros(1, np.int32)}, block_num=3, sanitize="none")
        assert result.outputs["p"].tolist() == [found]


def test_the_kernels_own_numbers():
    body = "%b = pto.get_block_num\n%v = pto.get_veccoreid : i32\n%n = arith.trunci %b : i64 to i32\n%r = arith.addi %n, %v : i32"
    assert words(body, count=2) == [1, 1]


def test_lanes_and_their_masks():
    assert words("%r = pto.get_laneid : i32", count=70) == [t % 32 for t in range(70)]
    masks = {
        "get_lanemask_eq": lambda lane: 1 << lane,
        "get_lanemask_lt": lambda lane: (1 << lane) - 1,
        "get_lanemask_le": lambda lane: (2 << lane) - 1,
        "get_lanemask_gt": lambda lane: (0xFFFFFFFF << (lane + 1)) & 0xFFFFFFFF,
        "get_lanemask_ge": lambda lane: (0xFFFFFFFF << lane) & 0xFFFFFFFF,
    }
    for word, mask in masks.items():
        found = words(f"%r = pto.{word} : i32", count=40)
        assert [w & 0xFFFFFFFF for w in found] == [mask(t % 32) for t in range(40)]


def test_clocks_grow():
    body = "%a = pto.get_clock64 : i64\n%b = pto.get_clock64 : i64\n%m = arith.cmpi slt, %a, %b : i64\n%c = pto.get_clock32 : i32\n%r = arith.extui %m : i1 to i32"
    assert words(body, count=3) == [1, 1, 1]


# -- divergence ------------------------------------------------------------------------------------


def test_branches_and_loops_that_threads_take_differently():
    body = """%c0 = arith.constant 0 : i32
%c1 = arith.constant 1 : i32
%c3 = arith.constant 3 : i32
%few = arith.remui %t, %c3 : i32
%s = scf.for %k = %c0 to %few step %c1 iter_args(%a = %c0) -> (i32) : i32 {
  %b = arith.addi %a, %t : i32
  scf.yield %b : i32
}
%big = arith.cmpi sgt, %s, %c3 : i32
%r = scf.if %big -> (i32) {
  scf.yield %s : i32
} else {
  %n = arith.subi %c0, %t : i32
  scf.yield %n : i32
}"""
    sums = [t * (t % 3) for t in range(40)]
    assert words(body, count=40) == [s if s > 3 else -t for t, s in enumerate(sums)]


def test_a_choice_of_several_ways():
    body = """%c3 = arith.constant 3 : i32
%few = arith.remui %t, %c3 : i32
%at = arith.index_cast %few : i32 to index
%r = scf.index_switch %at -> i32
case 0 { %a = arith.constant 10 : i32
  scf.yield %a : i32 }
case 1 { scf.yield %t : i32 }
default { %b = arith.constant -1 : i32
  scf.yield %b : i32 }"""
    assert words(body, count=7) == [(10, t, -1)[t % 3] for t in range(7)]


def test_a_division_by_zero_counts_only_where_a_thread_does_it():
    body = """%c0 = arith.constant 0 : i32
%c12 = arith.constant 12 : i32
%some = arith.cmpi ne, %t, %c0 : i32
%r = scf.if %some -> (i32) {
  %q = arith.divsi %c12, %t : i32
  scf.yield %q : i32
} else { scf.yield %c0 : i32 }"""
    assert words(body, count=5) == [0, 12, 6, 4, 3]
    with pytest.raises(ptosim.Trap, match=r"\(0,0,0\) divides by zero"):
        words("%c1 = arith.constant 1 : i32\n%r = arith.divsi %c1, %t : i32", count=5)


def test_a_loop_that_never_ends_is_stopped(monkeypatch):
    monkeypatch.setattr("ptosim.engine.simt.flow.MAX_EXECUTED", 1000)
    body = """%true = arith.constant true
%r = scf.while (%a = %t) : (i32) -> i32 {
  scf.condition(%true) %a : i32
} do {
^bb0(%a: i32):
  %b = arith.addi %a, %a : i32
  scf.yield %b : i32
}"""
    with pytest.raises(ptosim.Trap, match="PTO7308"):
        words(body, count=2)


# -- memory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [("load", "store"), ("ldg", "stg")])
@pytest.mark.parametrize(
    ("elem", "value"),
    [("i8", "i8"), ("i16", "i16"), ("i32", "i32"), ("i64", "i64"), ("f16", "f16"), ("bf16", "bf16"),
     ("f32", "f32"), ("f8E4M3FN", "f8E4M3FN"), ("!pto.hif8x2", "!pto.hif8x2"),
     *((f"vector<2x{t}>", f"vector<2x{t}>") for t in ("f16", "bf16", "f32", "i8", "i16", "i32", "f8E5M2")),
     ("vector<4xf8E4M3FN>", "vector<4xf8E4M3FN>"), ("vector<8xf8E5M2>", "vector<8xf8E5M2>")],
)  # fmt: skip
def test_elements_of_every_type_keep_their_bits(op, elem, value):
    load, save = op
    body = f"""{TID}
%v = pto.{load} %p[%i] : !pto.ptr<{elem}, gm> -> {value}
pto.{save} %v, %q[%i] : !pto.ptr<{elem}, gm>, {value}"""
    text = section(
        "%a: !pto.ptr<i8, gm>, %b: !pto.ptr<i8, gm>",
        body,
        before=f"""
%p = pto.castptr %a : !pto.ptr<i8, gm> -> !pto.ptr<{elem}, gm>
%q = pto.castptr %b : !pto.ptr<i8, gm> -> !pto.ptr<{elem}, gm>""",
    )
    data = np.arange(256, dtype=np.uint8).view(np.int8)
    result = run(text, {"a": data, "b": np.zeros(256, np.int8)})
    found = result.outputs["b"].view(np.uint8)
    size = np.flatnonzero(found).max() + 1
    assert size in (32, 64, 128, 256)
    assert found[:size].tolist() == list(range(size))


def test_cache_clauses_have_no_effect():
    body = f"""{TID}
%v = pto.ldg %p[%i] l1cache(uncache) l2cache(nadrop) : {GM} -> i32
pto.stg %v, %q[%i] l1cache(cache) l2cache(wtsred) : {GM}, i32"""
    data = np.arange(32, dtype=np.int32)
    result = run(section(pointers(p="i32", q="i32"), body), {"p": data, "q": data * 0})
    assert result.outputs["q"].tolist() == data.tolist()


def test_threads_pass_words_through_ub_behind_a_barrier():
    body = f"""{TID}
pto.store %t, %u[%i] : !pto.ptr<i32, ub>, i32
pto.syncthreads
%c63 = arith.constant 63 : index
%j = arith.subi %c63, %i : index
%r = pto.load %u[%j] : !pto.ptr<i32, ub> -> i32
{store("r")}"""
    before = "%c0 = arith.constant 0 : i64\n%u = pto.castptr %c0 : i64 -> !pto.ptr<i32, ub>"
    text = section(pointers(p="i32"), body, "64, 1, 1", before)
    result = run(text, {"p": np.zeros(64, np.int32)})
    assert result.outputs["p"].tolist() == list(range(63, -1, -1))
    assert codes(result) == []
    racy = run(
        text.replace("pto.syncthreads", "pto.threadfence_block\npto.threadfence"),
        {"p": np.zeros(64, np.int32)},
    )
    assert codes(racy) == ["PTO7300"]


def test_pointers_as_numbers_lead_back():
    body = f"""{TID}
%c4 = arith.constant 4 : i64
%n = pto.castptr %p : {GM} -> i64
%o = arith.extui %t : i32 to i64
%b = arith.muli %o, %c4 : i64
%m = arith.addi %n, %b : i64
%q = pto.castptr %m : i64 -> {GM}
%c0 = arith.constant 0 : index
pto.store %t, %q[%c0] : {GM}, i32"""
    result = run(section(pointers(p="i32"), body), {"p": np.zeros(32, np.int32)})
    assert result.outputs["p"].tolist() == list(range(32))


@pytest.mark.parametrize("cast", ["castptr", "ptrtoint"])
def test_a_number_made_of_a_pointer_is_its_address_in_threads_too(cast):
    """The kernel makes integers of its pointers and hands them on: turned back inside the threads
    they lead to the same bytes, also after arithmetic, whichever argument they are of."""
    text = f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @body(%a: i64, %b: i64) attributes {{pto.simt_entry}} {{
    {TID}
    %w = arith.extui %t : i32 to i64
    %c4 = arith.constant 4 : i64
    %o = arith.muli %w, %c4 : i64
    %far = arith.addi %b, %o : i64
    %p = pto.castptr %a : i64 -> {GM}
    %q = pto.castptr %far : i64 -> {GM}
    %c0 = arith.constant 0 : index
    %v = pto.load %p[%i] : {GM} -> i32
    pto.store %v, %q[%c0] : {GM}, i32
    return
  }}
  func.func @k(%x: {GM}, %y: {GM}) attributes {{pto.entry}} {{
    %c32 = arith.constant 32 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : index
    %z = pto.addptr %y, %c2 : {GM} -> {GM}
    %a = pto.{cast} %x : {GM} -> i64
    %b = pto.{cast} %z : {GM} -> i64
    pto.simt_launch @body<<<%c32, %c1, %c1>>>(%a, %b) : (i64, i64) -> ()
    return
  }}
}}"""
    given = np.arange(100, 132, dtype=np.int32)
    result = run(text, {"x": given, "y": np.zeros(34, np.int32)})
    assert result.outputs["y"].tolist() == [0, 0, *given.tolist()]


def test_outside_of_simt_code_they_act_for_one_thread():
    body = f"""%c1 = arith.constant 1 : index
%v = pto.load %p[%c1] : {GM} -> i32
%o = pto.atomic_add %p, %v : {GM}, i32 -> i32
pto.store %o, %p[%c1] : {GM}, i32"""
    result = run(program("", pointers(p="i32"), body), {"p": np.array([5, 7], np.int32)})
    assert result.outputs["p"].tolist() == [12, 5]


# -- findings --------------------------------------------------------------------------------------


def test_a_race_names_its_threads_and_the_last_one_wins():
    body = f"""{TID}
%c0 = arith.constant 0 : index
pto.store %t, %p[%c0] : {GM}, i32"""
    result = run(section(pointers(p="i32"), body), {"p": np.zeros(1, np.int32)})
    assert result.outputs["p"].tolist() == [31]
    assert codes(result) == ["PTO7300"]
    assert "thread (0,0,0)" in result.findings[0].message


def test_of_two_stores_that_race_the_higher_thread_wins_whichever_is_first():
    """Thread 31 stores to word 0 before thread 0 does; a thread's own stores stay in order."""
    body = f"""{TID}
%c31 = arith.constant 31 : index
%c9 = arith.constant 9 : i32
%j = arith.subi %c31, %i : index
pto.store %t, %p[%j] : {GM}, i32
{store("c9")}"""
    result = run(section(pointers(p="i32"), body), {"p": np.zeros(32, np.int32)})
    assert result.outputs["p"].tolist() == [31 - n if n < 16 else 9 for n in range(32)]


def test_a_meeting_of_a_warp_orders_its_lanes_only():
    body = f"""{LINEAR}
%c1 = arith.constant 1 : i32
{store("t")}
%s = pto.redux_add %t : i32 -> i32
%n = arith.xori %t, %CHANGE : i32
%j = arith.index_cast %n : i32 to index
%r = pto.load %p[%j] : {GM} -> i32
%c32 = arith.constant 32 : i32"""
    for change, found in (("c1", []), ("c32", ["PTO7300"])):
        text = body.replace("%CHANGE", f"%{change}")
        if change == "c32":
            text = text.replace("%c32 = arith.constant 32 : i32", "").replace(
                "%c1 = arith.constant 1", "%c32 = arith.constant 32"
            )
        assert (
            codes(run(section(pointers(p="i32"), text, "64, 1, 1"), {"p": np.zeros(64, np.int32)}))
            == found
        )


def test_a_barrier_that_not_all_threads_reach():
    body = """%c3 = arith.constant 3 : i32
%some = arith.cmpi ult, %t, %c3 : i32
scf.if %some {
  pto.syncthreads
}"""
    with pytest.raises(ptosim.Trap, match=r"PTO7301.*\(3,0,0\), \(4,0,0\) of 5"):
        words(body, value="t", count=5)


def test_a_thread_outside_of_a_memory():
    text = section(pointers(p="i32"), f"{TID}\n{store('t')}", "4, 2, 1").replace(
        "get_tid_x", "get_tid_y"
    )
    run(text, {"p": np.zeros(2, np.int32)}, sanitize="none")
    body = f"{LINEAR}\n{store('t')}"
    with pytest.raises(
        ptosim.Trap, match=r"of thread \(2,1,0\) accesses bytes \[0x18, 0x1c\) of `p`"
    ):
        run(section(pointers(p="i32"), body, "4, 2, 1"), {"p": np.zeros(6, np.int32)})


def test_words_that_nothing_wrote_are_found():
    before = "%c0 = arith.constant 0 : i64\n%u = pto.castptr %c0 : i64 -> !pto.ptr<i32, ub>"
    body = f"{TID}\n%r = pto.load %u[%i] : !pto.ptr<i32, ub> -> i32\n{store('r')}"
    text = section(pointers(p="i32"), body, before=before)
    given = {"p": np.zeros(32, np.int32)}
    result = ptosim.load(text).run(given, uninit="zero")
    assert "PTO6500" in codes(result) or any(
        "undefined" in d.message or "nothing" in d.message for d in result.findings
    )
    assert result.outputs["p"].tolist() == [0] * 32


# -- operations of a warp --------------------------------------------------------------------------


def test_shuffles():
    def source(kind: str, lane: int, by: int, width: int) -> int:
        base, local = lane // width * width, lane % width
        if kind == "shuffle_idx":
            return base + by % width
        other = {"shuffle_up": local - by, "shuffle_down": local + by, "shuffle_bfly": local ^ by}[
            kind
        ]
        return base + other if 0 <= other < width else lane

    for kind in ("shuffle_idx", "shuffle_up", "shuffle_down", "shuffle_bfly"):
        for width in (16, 32):
            for by in (0, 1, 5, 16, 31):
                body = f"%b = arith.constant {by} : i32\n%r = pto.{kind} %t, %b {{width = {width} : i32}} : i32, i32 -> i32"
                found = words(body, count=64)
                wanted = [t // 32 * 32 + source(kind, t % 32, by, width) for t in range(64)]
                assert found == wanted, (kind, width, by)


def test_votes_and_reductions_are_of_the_lanes_that_are_there():
    """Threads 0 to 9 and 10 to 39 meet in two branches."""
    body = """%c10 = arith.constant 10 : i32
%c1 = arith.constant 1 : i32
%low = arith.cmpi ult, %t, %c10 : i32
%b = arith.andi %t, %c1 : i32
%odd = arith.cmpi eq, %b, %c1 : i32
%r = scf.if %low -> (i32) {
  %x = pto.vote_ballot %odd : i1 -> i32
  scf.yield %x : i32
} else {
  %s = pto.redux_add %t : i32 -> i32
  %m = pto.redux_max %t signed : i32 -> i32
  %n = pto.redux_min %t unsigned : i32 -> i32
  %u = arith.addi %s, %m : i32
  %v = arith.addi %u, %n : i32
  scf.yield %v : i32
}"""

    def other(first: int, end: int) -> int:
        return sum(range(first, end)) + end - 1 + first

    assert words(body, count=40) == [0b1010101010] * 10 + [other(10, 32)] * 22 + [other(32, 40)] * 8


@pytest.mark.parametrize("word", ["vote_all", "vote_any", "vote_uni"])
def test_votes(word):
    wanted = {"vote_all": all, "vote_any": any, "vote_uni": lambda given: len(set(given)) == 1}[
        word
    ]
    for limit in (0, 3, 32, 35, 64):
        body = f"""%c = arith.constant {limit} : i32
%p0 = arith.cmpi ult, %t, %c : i32
%v = pto.{word} %p0 : i1 -> i1
%r = arith.extui %v : i1 to i32"""
        given = [t < limit for t in range(64)]
        assert words(body, count=64) == [int(wanted(given[t // 32 * 32 :][:32])) for t in range(64)]


def test_a_lane_that_takes_no_part_gives_nothing():
    body = """%c0 = arith.constant 0 : i32
%c3 = arith.constant 3 : i32
%low = arith.cmpi ult, %t, %c3 : i32
%r = scf.if %low -> (i32) {
  %x = pto.shuffle_down %t, %c3 : i32, i32 -> i32
  scf.yield %x : i32
} else { scf.yield %c0 : i32 }"""
    assert words(body, count=6)[:3] == [0, 1, 2]
    assert words(body, count=6, **{"simt.inactive_source": "zero"})[:3] == [0, 0, 0]


def test_sums_of_f16_are_exact_where_they_fit():
    body = f"""{TID}
%c1 = arith.constant 1 : i32
%n = arith.addi %t, %c1 : i32
%h = pto.convert %n round(r) signed : i32 -> f16
%s = pto.redux_add %h : f16 -> f16
{store("s", "p", "f16")}"""
    result = run(section(pointers(p="f16"), body), {"p": np.zeros(32, np.float16)})
    assert result.outputs["p"].tolist() == [528.0] * 32


# -- atomic updates --------------------------------------------------------------------------------

INTEGER = {
    "atomic_exch": lambda old, new: new, "atomic_add": lambda a, b: a + b, "atomic_sub": lambda a, b: a - b,
    "atomic_min": min, "atomic_max": max, "atomic_and": lambda a, b: a & b, "atomic_or": lambda a, b: a | b,
    "atomic_xor": lambda a, b: a ^ b,
}  # fmt: skip


@pytest.mark.parametrize("word", INTEGER)
@pytest.mark.parametrize(("count", "cells"), [(32, 32), (100, 3), (200, 1)])
def test_atomic_updates_come_in_the_order_of_threads(word, count, cells):
    """Cell t % cells; old values are those before each update, whoever uses them is told."""
    body = f"""{TID}
%c = arith.constant {cells} : i32
%k = arith.remui %t, %c : i32
%j = arith.index_cast %k : i32 to index
%q = pto.addptr %p, %j : {GM} -> {GM}
%f = arith.constant 7 : i32
%a = arith.muli %t, %f : i32
%v = arith.subi %a, %c : i32
%o = pto.{word} %q, %v : {GM}, i32 -> i32
{store("o", "old")}"""
    text = section(pointers(p="i32", old="i32"), body, f"{count}, 1, 1")
    start = np.arange(cells, dtype=np.int32) * 3 + 1
    result = run(text, {"p": start, "old": np.zeros(count, np.int32)})
    held, old = start.tolist(), []
    for t in range(count):
        old.append(held[t % cells])
        held[t % cells] = INTEGER[word](held[t % cells], 7 * t - cells)
    assert result.outputs["p"].tolist() == held
    assert result.outputs["old"].tolist() == old
    assert codes(result) == ([] if count == cells else ["PTO7307"])


def test_unsigned_extremes():
    body = f"""{TID}
%v = arith.constant -1 : i32
%o = pto.atomic_max %p, %v unsigned : {GM}, i32 -> i32
%w = arith.constant 5 : i32
%x = pto.atomic_min %q, %w unsigned : {GM}, i32 -> i32"""
    given = {"p": np.array([3], np.int32), "q": np.array([-1], np.int32)}
    result = run(section(pointers(p="i32", q="i32"), body), given)
    assert (result.outputs["p"][0], result.outputs["q"][0]) == (-1, 5)


@pytest.mark.parametrize(
    ("elem", "kind"), [("f32", np.float32), ("f16", np.float16), ("bf16", ml_dtypes.bfloat16)]
)
@pytest.mark.parametrize("count", [20, 150])
def test_atomic_sums_of_floats_round_each_time(elem, kind, count):
    body = f"""{TID}
%f = arith.sitofp %t : i32 to {elem}
%o = pto.atomic_add %p, %f : !pto.ptr<{elem}, gm>, {elem} -> {elem}"""
    result = run(section(pointers(p=elem), body, f"{count}, 1, 1"), {"p": np.array([0.5], kind)})
    held = kind(0.5)
    for t in range(count):
        held = kind(float(held) + float(kind(t)))
    assert result.outputs["p"].tolist() == [float(held)]


def test_atomic_updates_of_pairs_and_of_64_bits():
    body = f"""{TID}
%v = arith.constant dense<[1.0, 2.0]> : vector<2xf16>
pto.atomic_add %p, %v : !pto.ptr<vector<2xf16>, gm>, vector<2xf16> -> vector<2xf16>
%w = arith.extsi %t : i32 to i64
%o = pto.atomic_max %q, %w signed : !pto.ptr<i64, gm>, i64 -> i64"""
    text = section(
        "%a: !pto.ptr<f16, gm>, %q: !pto.ptr<i64, gm>",
        body,
        before="%p = pto.castptr %a : !pto.ptr<f16, gm> -> !pto.ptr<vector<2xf16>, gm>",
    )
    result = run(text, {"a": np.array([1, 10], np.float16), "q": np.array([-5], np.int64)})
    assert result.outputs["a"].tolist() == [33, 74]
    assert result.outputs["q"].tolist() == [31]


@pytest.mark.parametrize(("count", "cells"), [(32, 32), (100, 3), (300, 1)])
def test_compare_and_swap(count, cells):
    """Each thread replaces the number of its turn by the next: a chain through all of a cell."""
    body = f"""{TID}
%c = arith.constant {cells} : i32
%k = arith.remui %t, %c : i32
%j = arith.index_cast %k : i32 to index
%q = pto.addptr %p, %j : {GM} -> {GM}
%c2 = arith.constant 2 : i32
%turn = arith.divui %t, %c : i32
%half = arith.divui %turn, %c2 : i32
%next = arith.addi %turn, %c2 : i32
%o = pto.atomic_cas %q, %half, %next : {GM}, i32, i32 -> i32
{store("o", "old")}"""
    result = run(section(pointers(p="i32", old="i32"), body, f"{count}, 1, 1"),
                 {"p": np.zeros(cells, np.int32), "old": np.zeros(count, np.int32)})  # fmt: skip
    held, old = [0] * cells, []
    for t in range(count):
        turn, at = t // cells, t % cells
        old.append(held[at])
        if held[at] == turn // 2:
            held[at] = turn + 2
    assert result.outputs["p"].tolist() == held
    assert result.outputs["old"].tolist() == old


def test_compare_and_swap_of_floats_by_bits_or_by_value():
    body = f"""{TID}
%zero = arith.constant 0.0 : f32
%one = arith.constant 1.0 : f32
%o = pto.atomic_cas %p, %zero, %one : !pto.ptr<f32, gm>, f32, f32 -> f32"""
    text = section(pointers(p="f32"), body, "1, 1, 1")
    for choice, found in (("bits", -0.0), ("value", 1.0)):
        loaded = ptosim.load(text, switches={"simt.atomic_cas": choice})
        assert loaded.run({"p": np.array([-0.0], np.float32)}).outputs["p"].tolist() == [found]


# -- arithmetic ------------------------------------------------------------------------------------


def test_high_halves_and_wide_products():
    for word, view in (("signed", lambda v: v), ("unsigned", lambda v: v & 0xFFFFFFFF)):
        body = f"%c = arith.constant -3 : i32\n%a = arith.muli %t, %c : i32\n%r = pto.mulhi %a, %c {word} : i32, i32 -> i32"
        wanted = [(view(-3 * t) * view(-3)) >> 32 for t in range(32)]
        assert [w & 0xFFFFFFFF for w in words(body)] == [w & 0xFFFFFFFF for w in wanted]
        body = f"%c = arith.constant -3 : i32\n%a = arith.muli %t, %c : i32\n%w = pto.mul_i32toi64 %a, %c {word} : i32, i32 -> i64\n%s = arith.constant 20 : i64\n%h = arith.shrui %w, %s : i64\n%r = arith.trunci %h : i64 to i32"
        wanted = [(view(-3 * t) * view(-3) & (1 << 64) - 1) >> 20 for t in range(32)]
        assert [w & 0xFFFFFFFF for w in words(body)] == [w & 0xFFFFFFFF for w in wanted]


def test_high_halves_of_64_bits():
    for word, view in (("signed", lambda v: v), ("unsigned", lambda v: v & (1 << 64) - 1)):
        body = f"""%c = arith.constant -123456789012345 : i64
%e = arith.extsi %t : i32 to i64
%a = arith.muli %e, %c : i64
%h = pto.mulhi %a, %c {word} : i64, i64 -> i64
%r = arith.trunci %h : i64 to i32"""
        c = -123456789012345
        wanted = [(view(c * t) * view(c)) >> 64 for t in range(32)]
        assert [w & 0xFFFFFFFF for w in words(body)] == [w & 0xFFFFFFFF for w in wanted]


def test_bytes_of_two_words():
    """prmt: 0 to 3 are bytes of the second operand, 4 to 7 of the first; bit 3 does not count."""
    for selector in (0x3210, 0x7654, 0x0123, 0xFEDC, 0x6420, 0x8F31):
        body = f"""%a = arith.constant {0x44332211} : i32
%b = arith.constant {0x18171615} : i32
%s = arith.constant {selector} : i32
%r = pto.prmt %a, %b, %s : i32, i32, i32 -> i32"""
        both = [0x15, 0x16, 0x17, 0x18, 0x11, 0x22, 0x33, 0x44]
        wanted = sum(both[selector >> 4 * k & 7] << 8 * k for k in range(4))
        assert words(body, count=2) == [wanted] * 2


FUNCTIONS = {
    "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "sin": math.sin, "cos": math.cos,
    "ceil": math.ceil, "floor": math.floor, "absf": abs, "rint": round,
    "round": lambda v: math.floor(v + 0.5),
}  # fmt: skip


@pytest.mark.parametrize("word", FUNCTIONS)
def test_functions_of_f32(word):
    body = f"""{TID}
%v = pto.load %p[%i] : !pto.ptr<f32, gm> -> f32
%r = pto.{word} %v : f32 -> f32
{store("r", "p", "f32")}"""
    given = np.arange(1, 33, dtype=np.float32) / np.float32(8)
    result = run(section(pointers(p="f32"), body), {"p": given})
    assert result.outputs["p"].tolist() == [
        float(np.float32(FUNCTIONS[word](float(v)))) for v in given
    ]


def test_pairs_of_floats():
    """Arithmetic on vector<2xf16> is that of its numbers, the first in the low bits."""
    body = f"""{TID}
%v = pto.load %p[%i] : !pto.ptr<vector<2xf16>, gm> -> vector<2xf16>
%k = arith.constant dense<[2.0, -3.0]> : vector<2xf16>
%a = arith.mulf %v, %k : vector<2xf16>
%b = pto.absf %a : vector<2xf16> -> vector<2xf16>
%c = pto.fma %b, %k, %v : vector<2xf16>, vector<2xf16>, vector<2xf16> -> vector<2xf16>
%d = pto.fmax %c, %k : vector<2xf16>, vector<2xf16> -> vector<2xf16>
%e = pto.sqrt %d : vector<2xf16> -> vector<2xf16>
pto.store %e, %p[%i] : !pto.ptr<vector<2xf16>, gm>, vector<2xf16>"""
    text = section(
        "%a0: !pto.ptr<f16, gm>",
        body,
        "16, 1, 1",
        "%p = pto.castptr %a0 : !pto.ptr<f16, gm> -> !pto.ptr<vector<2xf16>, gm>",
    )
    given = np.arange(32, dtype=np.float16)

    def one(v: float, k: float) -> float:
        c = abs(v * k) * k + v
        return float(np.float16(math.sqrt(max(c, k)))) if max(c, k) >= 0 else math.nan

    found = run(text, {"a0": given}).outputs["a0"].tolist()
    wanted = [one(float(v), (2.0, -3.0)[n % 2]) for n, v in enumerate(given)]
    assert found == pytest.approx(wanted, nan_ok=True, abs=0)


def test_extremes_take_the_number_and_a_switch_the_nan():
    body = f"""{TID}
%v = pto.load %p[%i] : !pto.ptr<f32, gm> -> f32
%one = arith.constant 1.0 : f32
%a = pto.fmin %v, %one : f32, f32 -> f32
%b = pto.fmax %one, %v : f32, f32 -> f32
%c = pto.pow %a, %b : f32, f32 -> f32
{store("a", "q", "f32")}
{store("b", "p", "f32")}"""
    text = section(pointers(p="f32", q="f32"), body, "3, 1, 1")
    given = {"p": np.array([math.nan, 0.5, 3], np.float32), "q": np.zeros(3, np.float32)}
    result = run(text, given)
    assert (result.outputs["q"].tolist(), result.outputs["p"].tolist()) == ([1, 0.5, 1], [1, 1, 3])
    other = ptosim.load(text, switches={"simt.nan": "nan"}).run(given)
    assert math.isnan(other.outputs["q"][0])


def test_fma_rounds_once():
    body = f"""{TID}
%v = pto.load %p[%i] : !pto.ptr<f32, gm> -> f32
%m = arith.negf %v : f32
%s = arith.mulf %v, %v : f32
%n = arith.negf %s : f32
%r = pto.fma %v, %v, %n : f32, f32, f32 -> f32
{store("r", "p", "f32")}"""
    value = np.float32(1 + 2**-12 + 2**-23)
    result = run(section(pointers(p="f32"), body, "1, 1, 1"), {"p": np.array([value], np.float32)})
    exact = float(value) ** 2
    assert result.outputs["p"].tolist() == [exact - float(np.float32(exact))]


def test_bits_in_another_type():
    body = """%f = arith.sitofp %t : i32 to f32
%h = arith.truncf %f : f32 to f16
%b = llvm.bitcast %h : f16 to i16
%r = arith.extui %b : i16 to i32"""
    assert words(body) == [struct.unpack("<H", struct.pack("<e", t))[0] for t in range(32)]


# -- conversions -----------------------------------------------------------------------------------


def test_floats_to_integers_round_and_clamp():
    values = [1.75, -1.75, 2.5, 3.5, -2.5, 1e20, -1e20, math.nan, 0.0, -0.4]
    modes = {
        "r": lambda v: round(v), "z": math.trunc, "f": math.floor, "c": math.ceil,
        "a": lambda v: math.floor(abs(v) + 0.5) * (1 if v >= 0 else -1),
    }  # fmt: skip
    for letter, mode in modes.items():
        body = f"""{TID}
%v = pto.load %p[%i] : !pto.ptr<f32, gm> -> f32
%r = pto.convert %v round({letter}) sat signed : f32 -> i32
{store("r", "q")}"""
        given = {"p": np.array(values, np.float32), "q": np.zeros(len(values), np.int32)}
        found = run(section(pointers(p="f32", q="i32"), body, f"{len(values)}, 1, 1"), given)
        wanted = [0 if math.isnan(v) else max(-(2**31), min(mode(v), 2**31 - 1)) for v in values]
        assert found.outputs["q"].tolist() == wanted, letter


def test_an_unsigned_source_and_destination():
    body = f"""{TID}
%m = arith.constant -1 : i32
%f = pto.convert %m round(r) unsigned : i32 -> f32
%g = pto.convert %f round(r) sat unsigned : f32 -> i32
{store("g")}
pto.store %f, %q[%i] : !pto.ptr<f32, gm>, f32"""
    given = {"p": np.zeros(2, np.int32), "q": np.zeros(2, np.float32)}
    result = run(section(pointers(p="i32", q="f32"), body, "2, 1, 1"), given)
    assert result.outputs["q"].tolist() == [2.0**32] * 2
    assert result.outputs["p"].tolist() == [-1] * 2


@pytest.mark.parametrize(
    ("pair", "elem", "bytes_"),
    [("!pto.hif8x2", "!pto.hif8x2", [0x08, 0x10]), ("vector<2xf8E4M3FN>", "vector<2xf8E4M3FN>", [0x38, 0x40]),
     ("vector<2xf8E5M2>", "vector<2xf8E5M2>", [0x3C, 0x40])],
)  # fmt: skip
def test_pairs_of_low_precision(pair, elem, bytes_):
    """1.0 and 2.0 become two codes, the first at the lower address, and come back."""
    letter = "a" if "hif8" in pair else "r"
    body = f"""{TID}
%v = arith.constant dense<[1.0, 2.0]> : vector<2xf32>
%c = pto.convert %v round({letter}) sat : vector<2xf32> -> {pair}
pto.store %c, %q[%i] : !pto.ptr<{elem}, gm>, {pair}
%b = pto.convert %c round(r) sat : {pair} -> vector<2xf32>
pto.store %b, %w[%i] : !pto.ptr<vector<2xf32>, gm>, vector<2xf32>"""
    before = f"%q = pto.castptr %a : !pto.ptr<i8, gm> -> !pto.ptr<{elem}, gm>\n%w = pto.castptr %f : !pto.ptr<f32, gm> -> !pto.ptr<vector<2xf32>, gm>"
    text = section("%a: !pto.ptr<i8, gm>, %f: !pto.ptr<f32, gm>", body, "1, 1, 1", before)
    result = run(text, {"a": np.zeros(2, np.int8), "f": np.zeros(2, np.float32)})
    assert result.outputs["a"].tolist() == bytes_
    assert result.outputs["f"].tolist() == [1.0, 2.0]


def test_pairs_of_four_bits():
    """1.5 and -2.0 in e2m1: codes 3 and 12, the first in the low nibble."""
    body = f"""{TID}
%v = arith.constant dense<[1.5, -2.0]> : vector<2xbf16>
%c = pto.convert %v round(r) sat : vector<2xbf16> -> !pto.f4E2M1x2
pto.store %c, %q[%i] : !pto.ptr<!pto.f4E2M1x2, gm>, !pto.f4E2M1x2"""
    before = "%q = pto.castptr %a : !pto.ptr<i8, gm> -> !pto.ptr<!pto.f4E2M1x2, gm>"
    result = run(
        section("%a: !pto.ptr<i8, gm>", body, "1, 1, 1", before), {"a": np.zeros(1, np.int8)}
    )
    assert result.outputs["a"].view(np.uint8).tolist() == [0xC3]


# -- words from one launch to the next -------------------------------------------------------------

KEEP = f"""func.func @first(%p: {GM}) attributes {{pto.simt_entry}} {{
{TID}
%c5 = arith.constant 5 : i32
%a = arith.muli %t, %c5 : i32
%w = arith.extsi %a : i32 to i64
%b = arith.muli %w, %w : i64
pto.keep %a {{slot = 0 : i64}} : i32
pto.keep %b {{slot = 2 : i64}} : i64
return
}}
func.func @swap(%p: {GM}) attributes {{pto.simt_entry}} {{
%a = pto.resume {{slot = 0 : i64}} : i32
%b = pto.resume {{slot = 2 : i64}} : i64
%c = arith.trunci %b : i64 to i32
%d = arith.extsi %a : i32 to i64
pto.keep %c {{slot = 0 : i64}} : i32
pto.keep %d {{slot = 2 : i64}} : i64
return
}}
func.func @idle(%p: {GM}) attributes {{pto.simt_entry}} {{
return
}}
func.func @last(%p: {GM}) attributes {{pto.simt_entry}} {{
%a = pto.resume {{slot = 0 : i64}} : i32
%b = pto.resume {{slot = 2 : i64}} : i64
{LINEAR}
%c = arith.trunci %b : i64 to i32
%s = arith.constant 1000 : i32
%m = arith.muli %c, %s : i32
%r = arith.addi %a, %m : i32
{store("r")}
return
}}"""


def kept(names: str, dims: str = "%c64, %c1, %c1", last: str | None = None) -> ptosim.Result:
    lines = [CONSTANTS]
    for name in names.split():
        use = last if last is not None and name == "last" else dims
        lines.append(f"pto.simt_launch @{name}<<<{use}>>>(%p) : ({GM}) -> ()")
    return run(program(KEEP, f"%p: {GM}", "\n".join(lines)), {"p": np.zeros(64, np.int32)})


def test_threads_keep_words_for_the_next_launch():
    result = kept("first last")
    assert result.outputs["p"].tolist() == [5 * t + 1000 * 25 * t * t for t in range(64)]
    assert codes(result) == []


def test_words_are_swapped_and_go_by_linear_id():
    result = kept("first swap last", last="%c8, %c8, %c1")
    assert result.outputs["p"].tolist() == [25 * t * t + 1000 * 5 * t for t in range(64)]
    assert codes(result) == []


def test_a_launch_between_leaves_the_words_with_a_warning():
    result = kept("first idle last")
    assert result.outputs["p"].tolist() == [5 * t + 1000 * 25 * t * t for t in range(64)]
    assert set(codes(result)) == {"PTO7303"}


def test_a_word_that_nothing_kept():
    with pytest.raises(ptosim.Trap, match="PTO7304"):
        kept("last")
    with pytest.raises(ptosim.Trap, match=r"PTO7304.*thread \(8,0,0\)"):
        kept("first last", dims="%c8, %c1, %c1", last="%c64, %c1, %c1")


# -- time ------------------------------------------------------------------------------------------


def test_a_launch_is_work_of_the_vector_pipe_and_grows_with_warps():
    def cycles(count: int) -> int:
        text = section(pointers(p="i32"), f"{TID}\n{store('t')}", f"{count}, 1, 1")
        result = run(text, {"p": np.zeros(count, np.int32)})
        return result.cost.cycles

    assert cycles(32) < cycles(64) < cycles(1024)


@pytest.mark.parametrize(
    ("elem", "address"), [("f32", 2**63 - 4), ("i8", 2**63 - 1), ("i64", 2**63 - 8), ("f32", -4)]
)
@pytest.mark.parametrize("what", ["load", "store"])
def test_a_place_whose_end_wraps_is_outside_of_the_memory(elem, address, what):
    access = {
        "load": f"%v = pto.load %q[%c0] : !pto.ptr<{elem}, ub> -> {elem}",
        "store": f"%v = arith.constant {0.0 if elem == 'f32' else 0} : {elem}\n"
        f"pto.store %v, %q[%c0] : !pto.ptr<{elem}, ub>, {elem}",
    }
    body = f"""%a = arith.constant {address} : i64
%q = pto.castptr %a : i64 -> !pto.ptr<{elem}, ub>
%c0 = arith.constant 0 : index
{access[what]}"""
    with pytest.raises(ptosim.Trap, match="PTO7302"):
        run(section("", body), {})


def test_elements_that_share_a_byte_are_refused_where_they_are_used():
    body = "%c0 = arith.constant 0 : index\n%v = pto.load %g[%c0] : !pto.ptr<i4, gm> -> i4"
    with pytest.raises(ptosim.UnsupportedError) as caught:
        run(section(pointers(g="i4"), body), {"g": np.zeros(64, np.int8)})
    (found,) = caught.value.diagnostics
    assert found.code == "PTO8002"
    assert found.span is not None


THREADS_AND_KERNEL = """module attributes {pto.target_arch = "a5"} {
  func.func @threads(%y: !pto.ptr<i32, gm>) attributes {pto.simt_entry} {
    %i = pto.get_tid_x : i32
    %at = arith.index_cast %i : i32 to index
    pto.store %i, %y[%at] : !pto.ptr<i32, gm>, i32
    return
  }
  func.func @kernel(%m: memref<64xi32, #pto.address_space<gm>>) attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {
    %c64 = arith.constant 64 : i32
    %c1 = arith.constant 1 : i32
    %y = builtin.unrealized_conversion_cast %m : memref<64xi32, #pto.address_space<gm>> to !pto.ptr<i32, gm>
    pto.simt_launch @threads<<<%c64, %c1, %c1>>>(%y) : (!pto.ptr<i32, gm>) -> ()
    return
  }
}"""


def test_what_threads_execute_is_no_entry_beside_a_kernel():
    """A bridge of types makes a memref a pointer to its first element."""
    program = ptosim.load(THREADS_AND_KERNEL)
    assert list(program.entries) == ["kernel"]
    found = program.run({"m": np.full(64, -1, np.int32)}).outputs["m"]
    assert found.tolist() == list(range(64))
