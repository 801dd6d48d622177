"""Micro programs under the sanitizers: copies through pointers, vector regions, cube and fixpipe."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.engine.watch import definedness as copies
from ptosim.ground.isa.targets import machine as machine_def
from ptosim.machine.core import Cluster, Core, Machine, restore, snapshot
from tests.support.micro import kernel, run

V, P, M = "!pto.vreg<64xf32>", "!pto.ptr<f32, ub>", "!pto.mask<b32>"
GM = "!pto.ptr<f32, gm>"


def pointers(**places: tuple[str, str, int]) -> list[str]:
    """Pointers by name: element type, space, byte address."""
    lines = []
    for name, (elem, space, at) in places.items():
        lines.append(f"%at_{name} = arith.constant {at} : i64")
        lines.append(f"%{name} = pto.castptr %at_{name} : i64 -> !pto.ptr<{elem}, {space}>")
    return lines


def flag(source: str, target: str, number: int = 0) -> list[str]:
    names = f'["PIPE_{source}", "PIPE_{target}", "EVENT_ID{number}"]'
    return [f"pto.set_flag{names}", f"pto.wait_flag{names}"]


UB = pointers(p=("f32", "ub", 0), q=("f32", "ub", 4096))
FILL = f"pto.mte_gm_ub %g, %p, 0, 1024 nburst(1, 0, 0) : {GM}, {P}"
TAKE = f"pto.mte_ub_gm %q, %o, 1024 nburst(1, 0, 0) : {P}, {GM}"


def region(*lines: str, mask: str = '"PAT_ALL"') -> list[str]:
    return ["pto.vecscope {", f"%m = pto.pset_b32 {mask} : {M}", *lines, "}"]


def load(at: int, pointer: str = "p") -> str:
    return f"%x{at} = pto.vlds %{pointer}[{at}] : {P} -> {V}"


def store(value: int, at: int, pointer: str = "q", mask: str = "m") -> str:
    return f"pto.vsts %x{value}, %{pointer}[{at}], %{mask} : {V}, {P}, {M}"


ALL = [line for i in range(4) for line in (load(64 * i), store(64 * i, 64 * i))]


def findings(*lines: str, **options) -> list:
    text = kernel(f"%g: {GM}, %o: {GM}", "\n".join(["%z = arith.constant 0 : index", *lines]))
    args = {name: np.zeros(256, np.float32) for name in "go"}
    return run(text, args, **options).findings


def codes(*lines: str, **options) -> list[str]:
    return [f.code for f in findings(*lines, **options)]


# -- races -----------------------------------------------------------------------------------------


def test_flags_order_a_region_between_two_copies():
    assert codes(*UB, FILL, *flag("MTE2", "V"), *region(*ALL), *flag("V", "MTE3"), TAKE) == []


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([], flag("V", "MTE3"), ["PTO5201"] * 4),  # each load
        (flag("MTE2", "V"), [], ["PTO5201"] * 4),  # each store
    ],
)
def test_a_missing_flag_is_a_race(first, second, expected):
    # A flag elsewhere: the program has synchronisation of its own.
    other = flag("S", "MTE3", 3)
    assert codes(*UB, *other, FILL, *first, *region(*ALL), *second, TAKE) == expected


def test_buffer_tokens_order_too():
    def held(pipe: str, *lines: str) -> list[str]:
        return [f'pto.get_buf "PIPE_{pipe}", 0, 0', *lines, f'pto.rls_buf "PIPE_{pipe}", 0, 0']

    v = held("V", *region(*ALL))
    assert codes(*UB, *held("MTE2", FILL), *v, *held("MTE3", TAKE)) == []
    assert codes(*UB, FILL, *v, *held("MTE3", TAKE)) == ["PTO5201"] * 4


def test_a_race_names_load_and_copy_and_what_to_add():
    found = findings(*UB, FILL, *region(*ALL), *flag("V", "MTE3"), TAKE)[0]
    assert "'pto.vlds' reads vec [0x0, 0x" in found.message
    assert "'pto.mte_gm_ub' may not have written yet" in found.message
    assert found.context["first"]["pipe"] == "MTE2"
    assert found.context["second"]["pipe"] == "V"
    assert found.context["second"]["tile"] == "%p"
    flag_of = "pto.{}_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]"
    edits = {fix.replacement.strip(): fix.span.line for fix in found.fixes}
    copy = found.labels[1].span.line
    assert edits == {flag_of.format("set"): copy, flag_of.format("wait"): copy + 1}, "not inside"


def test_a_buffer_is_filled_again_too_early():
    """The second copy overwrites what the region may still read."""
    lines = [*UB, FILL, *flag("MTE2", "V"), *region(*ALL), FILL, *flag("V", "MTE3"), TAKE]
    assert codes(*lines) == ["PTO5202"] * 4
    lines[-4:-3] = [*flag("V", "MTE2"), FILL]
    assert codes(*lines) == []


def test_bursts_touch_their_own_bytes_only():
    """Bursts with gaps between them, and a region on the gaps."""
    gaps = f"pto.mte_gm_ub %g, %p, 0, 256 nburst(2, 256, 512) : {GM}, {P}"
    inside = f"pto.mte_gm_ub %g, %p, 0, 256 nburst(3, 256, 512) : {GM}, {P}"
    stores = region("%x0 = pto.vbr %one : f32 -> " + V, store(0, 64, "p"), store(0, 192, "p"))
    one = "%one = arith.constant 1.0 : f32"
    assert codes(*UB, one, *flag("S", "MTE3", 3), gaps, *stores) == []
    wide = region("%x0 = pto.vbr %one : f32 -> " + V, store(0, 64, "p"), store(0, 256, "p"))
    assert codes(*UB, one, *flag("S", "MTE3", 3), inside, *wide) == ["PTO5203"]


def test_a_masked_store_touches_active_lanes_only():
    one = "%one = arith.constant 1.0 : f32"
    copy = f"pto.mte_ub_gm %p, %g, 128 nburst(1, 0, 0) : {P}, {GM}"
    made = "%x0 = pto.vbr %one : f32 -> " + V
    few = '%few = pto.pset_b32 "PAT_H" : ' + M
    upper = f"%up = pto.pnot %few, %m : {M}, {M} -> {M}"
    before = [*UB, one, FILL, *flag("MTE2", "MTE3"), *flag("MTE2", "V", 1), copy]
    assert codes(*before, *region(made, few, upper, store(0, 0, "p", "up"))) == []
    assert codes(*before, *region(made, few, upper, store(0, 0, "p", "few"))) == ["PTO5202"]


def test_gathers_and_blocks():
    """Only what a gather takes, and a block whose mask bit is on, is read."""
    ramp = "%z0 = arith.constant 128 : i32\n%i = pto.vci %z0 : i32 -> !pto.vreg<64xi32>"
    gather = f"%x0 = pto.vgather2 %p, %i, %m : {P}, !pto.vreg<64xi32>, {M} -> {V}"
    low = f"pto.mte_gm_ub %g, %p, 0, 512 nburst(1, 0, 0) : {GM}, {P}"
    high = low.replace("512", "1024")
    lines = region(ramp, gather, store(0, 0))
    assert codes(*UB, FILL, *flag("MTE2", "V"), low, *lines) == []
    assert codes(*UB, FILL, *flag("MTE2", "V"), high, *lines) == ["PTO5201"]
    strides = "%bs = arith.constant 2 : i16\n%rs = arith.constant 1 : i16"
    block = f"%x0 = pto.vsldb %p, %bs, %rs, %m : {P}, i16, i16, {M} -> {V}"
    even = f"pto.mte_gm_ub %g, %p, 0, 32 nburst(8, 32, 64) : {GM}, {P}"
    assert codes(*UB, strides, FILL, *flag("MTE2", "V"), even, *region(block, store(0, 0))) == []


def test_going_back_into_a_region_keeps_what_it_did():
    """A state in the middle of a region: what was logged until then is there again."""
    core = Core(0, "vector", Cluster(0), 0, machine_def("a5"), "zero", 0)
    machine = Machine(machine_def("a5"), [core])
    core.open_vector_region()
    core.ub.watch()
    core.ub.log.extend((1 << 32 | 256 << 20, 2 << 32 | 256 << 20 | 64))
    core.ub.note(3, np.array([4, 8]), 4)
    state, entries = snapshot(machine), core.ub.log.tolist()
    core.open_vector_region()
    assert core.ub.log.tolist() == []
    restore(machine, state)
    assert core.ub.log.tolist() == entries
    ((code, starts, size),) = core.ub.parts
    assert (code, starts.tolist(), size) == (3, [4, 8], 4)


# -- bytes without a value -------------------------------------------------------------------------


def test_a_load_of_bytes_that_nothing_wrote():
    found = findings(*UB, FILL, *flag("MTE2", "V"), *region(load(256), store(256, 0)))
    assert [f.code for f in found] == ["PTO7101"]
    assert "'pto.vlds' reads %p in vec [0x400, 0x500)" in found[0].message
    assert codes(*UB, FILL, *flag("MTE2", "V"), *region(load(192), store(192, 0))) == []


def test_a_single_byte():
    """The copy is a byte short of the last register: the byte is the tail of its burst, which a copy
    without padding leaves undefined."""
    short = FILL.replace("1024", "1023")
    found = findings(*UB, short, *flag("MTE2", "V"), *region(*ALL))
    assert [f.code for f in found] == ["PTO7102"]
    assert found[0].context["bytes"] == [1023, 1024]


def test_lanes_that_a_mask_leaves_out_need_no_value():
    """The tail of an array: 200 values in four registers, the last with a mask of 8 lanes."""
    short = FILL.replace("1024", "800")
    tail = [
        "%n = arith.constant 8 : i32",
        f"%t, %r = pto.plt_b32 %n : i32 -> {M}, i32",
        load(192),
        f"%y = pto.vabs %x192, %t : {V}, {M} -> {V}",
        f"pto.vsts %y, %q[192], %t : {V}, {P}, {M}",
    ]
    assert codes(*UB, short, *flag("MTE2", "V"), *region(*tail)) == []
    nothing = [line.replace("192]", "256]") for line in tail]
    assert codes(*UB, short, *flag("MTE2", "V"), *region(*nothing)) == ["PTO7101"]


def test_stores_of_the_region_itself_count_in_their_order():
    one = "%one = arith.constant 1.0 : f32"
    made = "%x0 = pto.vbr %one : f32 -> " + V
    bar = 'pto.mem_bar "VV_ALL"'
    later = [made, store(0, 512, "p"), bar, load(512), store(512, 0)]
    assert codes(*UB, one, *region(*later)) == []
    first = [load(512), store(512, 0), bar, made, store(0, 512, "p")]
    assert codes(*UB, one, *region(*first)) == ["PTO7101"]


def test_copies_on_chip_hand_on_what_they_find():
    """Only who computes with bytes that have no value is told."""
    copy = f"pto.mte_ub_ub %p, %q, 64 nburst(1, 0, 0) : {P}, {P}"
    half = FILL.replace("1024", "512")
    before = [*UB, half, *flag("MTE2", "V"), copy]
    assert codes(*before) == []
    take = f"pto.mte_ub_gm %q, %o, 512 nburst(1, 0, 0) : {P}, {GM}"
    assert codes(*before, *flag("V", "MTE3"), take) == []
    assert codes(*before, *flag("V", "MTE3"), TAKE) == ["PTO7107"]
    assert codes(*before, *flag("V", "MTE3"), TAKE, TAKE).count("PTO7107") == 1, "once in a run"
    assert codes(*before, *region(load(64, "q"), store(64, 0, "p"))) == []
    assert codes(*before, *region(load(72, "q"), store(72, 0, "p"))) == ["PTO7101"]


@pytest.mark.parametrize(("most", "told"), [(1 << 22, ["PTO7107"]), (1, [])])
def test_copies_of_the_same_bytes_over_and_over(most, told, monkeypatch):
    """65536 times 64 units at one place are as many bytes as one time; of a copy that reaches too
    many, the destination counts as defined."""
    monkeypatch.setattr(copies, "MOST_PLACES", most)
    copy = f"pto.mte_ub_ub %p, %q, 64 nburst(65535, -64, -64) : {P}, {P}"
    before = [*UB, FILL.replace("1024", "512"), *flag("MTE2", "V"), copy]
    assert codes(*before, *flag("V", "MTE3"), TAKE) == told


def test_padding_has_a_value():
    pad = (
        f"pto.mte_gm_ub %g, %p, 0, 192 nburst(1, 0, 0) pad(%one, 0, 16) : {GM}, {P}, f32, i64, i64"
    )
    pad = "%one = arith.constant 1.0 : f32\n" + pad
    assert codes(*UB, pad, *flag("MTE2", "V"), *region(load(0), store(0, 0))) == []


def test_what_is_dropped_behind_a_buffer_needs_no_value():
    """4 KiB to a buffer of 1 KiB: a warning for the copy, none for what UB has after it."""
    much = f"pto.mte_ub_gm %p, %g, 4096 nburst(1, 0, 0) : {P}, {GM}"
    assert codes(*UB, FILL, *flag("MTE2", "MTE3"), much) == ["PTO6604"]


# -- cube ------------------------------------------------------------------------------------------


def product(k: int = 32, *, flags: bool = True, loaded: int = 1) -> list[str]:
    """A 16x32 by 32x16 product of f16 and its way to GM."""
    places = pointers(
        a=("f16", "mat", 0), b=("f16", "mat", 4096), l=("f16", "left", 0), r=("f16", "right", 0),
        c=("f32", "acc", 0),
    )  # fmt: skip
    ptr = {name: f"!pto.ptr<f16, {space}>" for name, space in
           (("a", "mat"), ("b", "mat"), ("l", "left"), ("r", "right"))}  # fmt: skip
    gm, acc = "!pto.ptr<f16, gm>", "!pto.ptr<f32, acc>"
    ordered = flag if flags else (lambda *_: [])
    nz = "nd2nz, shape(16, 32), src_layout(64), dst_group(1, 1, 16, 0), ctrl(0, false)"
    types = "shape i64, i64, src_layout i64, dst_group i64, i64, i64, i64, ctrl i64, i1"
    return [
        *places,
        f"%h = pto.castptr %g : {GM} -> {gm}",
        f"pto.mte_gm_l1_frac %h, %a, {nz} : {gm}, {ptr['a']}, {types}",
        *[f"pto.mte_gm_l1_frac %h, %b, {nz} : {gm}, {ptr['b']}, {types}"] * loaded,
        *ordered("MTE2", "MTE1"),
        f"pto.mte_l1_l0a %a, %l, 16, 32, 0, 0 : {ptr['a']}, {ptr['l']}",
        f"pto.mte_l1_l0b %b, %r, 32, 16, 0, 0 : {ptr['b']}, {ptr['r']}",
        *ordered("MTE1", "M"),
        f"pto.mad %l, %r, %c, 16, 16, {k} : {ptr['l']}, {ptr['r']}, {acc}",
        *ordered("M", "FIX"),
        f"pto.mte_l0c_gm %c, %g, 16, 16, 16, 16, 0, 0, nz2nd : {acc}, {GM}",
    ]  # fmt: skip


def cube(lines: list[str]) -> list[str]:
    text = kernel("%g: !pto.ptr<f32, gm>", "\n".join(lines), kind="cube")
    result = run(text, {"g": np.zeros(512, np.float32)})
    return [f.code for f in result.findings if not f.code.startswith("PTO66")]


def test_a_product_with_all_its_flags():
    assert cube(product()) == []


def test_a_product_without_flags_between_its_pipes():
    """Loads of L0 before L1 is there, product before L0 is, result before the product is done."""
    found = cube([*flag("S", "MTE3", 3), *product(flags=False)])
    assert found.count("PTO5201") == 5


def test_a_product_of_what_was_never_loaded():
    """The loads of L0 hand on what they find; the product is told."""
    assert cube(product(loaded=0)) == ["PTO7101"]


# -- the scalar unit beside the vector unit ----------------------------------------------------------

ZERO = "%zero = arith.constant 0 : index\n%one = arith.constant 1.0 : f32"
MANUAL = flag("S", "MTE3", 3)  # a flag elsewhere: the program has synchronisation of its own


def scalar_load(pointer: str) -> str:
    return f"%s = pto.load_scalar %{pointer}[%zero] : {P} -> f32"


def scalar_store(pointer: str) -> str:
    return f"pto.store_scalar %one, %{pointer}[%zero] : {P}, f32"


def test_scalar_operations_of_a_region_belong_to_the_vector_unit():
    """What the region, or an earlier one, stores is theirs without a flag; what others copy is
    not."""
    before = [*UB, ZERO, FILL, *flag("MTE2", "V")]
    inside = ["pto.vecscope {", scalar_load("q"), scalar_store("q"), "}"]
    assert codes(*before, *region(*ALL, scalar_load("q"))) == []
    assert codes(*before, *region(*ALL), *inside, *flag("V", "MTE3"), TAKE) == []
    unordered = [*UB, ZERO, *MANUAL, FILL, "pto.vecscope {", scalar_load("p"), "}"]
    (found,) = findings(*unordered)
    assert (found.code, found.context["second"]["pipe"]) == ("PTO5201", "V")
    assert codes(*before, *region(*ALL), *inside, TAKE) == ["PTO5201"] * 5  # the scalar store too


def test_scalar_operations_outside_a_region_belong_to_the_scalar_unit():
    before = [*UB, ZERO, FILL, *flag("MTE2", "V"), *region(*ALL)]
    assert codes(*before, scalar_load("q")) == ["PTO5201"]
    assert codes(*before, *flag("V", "S"), scalar_load("q")) == []


def test_a_tile_element_is_read_by_the_scalar_unit():
    tile = "!pto.tile_buf<vec, 1x64xf32>"
    before = [
        ZERO,
        *MANUAL,
        f"%at = arith.constant 0 : i64\n%t = pto.alloc_tile addr = %at : {tile}",
        f"pto.texpands ins(%one : f32) outs(%t : {tile})",
    ]
    take = f"%s = pto.tgetval ins(%t, %zero : {tile}, index) outs : f32"
    assert codes(*before, take) == ["PTO5201"]
    assert codes(*before, *flag("V", "S"), take) == []


# -- registers ---------------------------------------------------------------------------------------

MERGE = [
    *pointers(a=("f32", "ub", 0), b=("f32", "ub", 8192)),
    "%counts = arith.constant 281479271743489 : i64\n%config = arith.constant 7937 : i64",
    f"pto.mte_gm_ub %g, %a, 0, 1024 nburst(1, 0, 0) : {GM}, {P}",
    *flag("MTE2", "V"),
]
SORT = f"pto.vmrgsort4 %b, %a, %a, %a, %a, %counts, %config : {P}, {P}, {P}, {P}, {P}, i64, i64"
TAKEN = "%t0, %t1, %t2, %t3 = pto.get_vms4_sr : i16, i16, i16, i16"


def test_a_register_that_another_pipe_writes():
    """vmrgsort4 leaves its counts on PIPE_V, the scalar unit reads them."""
    (found,) = findings(*MERGE, SORT, TAKEN)
    assert found.code == "PTO5201"
    assert "'pto.get_vms4_sr' reads register vms4_sr, which 'pto.vmrgsort4'" in found.message
    sides = found.context["first"], found.context["second"]
    assert [side["pipe"] for side in sides] == ["V", "S"]
    assert codes(*MERGE, SORT, *flag("V", "S"), TAKEN) == []


def test_a_register_that_is_written_again_after_it_was_read():
    """The scalar unit has read before it issues what comes next; two merges keep their order."""
    assert codes(*MERGE, SORT, *flag("V", "S"), TAKEN, SORT, SORT) == []


ACC = "!pto.ptr<f32, acc>"
L0 = "!pto.ptr<f16, left>, !pto.ptr<f16, right>"


@pytest.mark.parametrize(("flags", "expected"), [(True, []), (False, ["PTO5201"])])
def test_the_unit_flag_orders_a_product_and_the_move_of_its_result(flags, expected):
    """Machine model, AccPhase: with the flag of both the move waits for the product, no event."""
    mad, move = ("unit_flag(check_and_set)", ", unit_flag(check_and_clear)") if flags else ("", "")
    text = f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @k() attributes {{pto.aicore, pto.kernel_kind = #pto.kernel_kind<cube>}} {{
    %z = arith.constant 0 : i64
    %n = arith.constant 16 : i64
    %a = pto.castptr %z : i64 -> !pto.ptr<f16, left>
    %b = pto.castptr %z : i64 -> !pto.ptr<f16, right>
    %c = pto.castptr %z : i64 -> {ACC}
    %ub = pto.castptr %z : i64 -> !pto.ptr<f32, ub>
    pto.mad %a, %b, %c, %n, %n, %n {mad} : {L0}, {ACC}, i64, i64, i64
    pto.mte_l0c_ub %c, %ub, %n, %n, %n, %n, dst_mode(0), nz2nd{move} : {ACC}, !pto.ptr<f32, ub>, i64, i64, i64, i64
    return
  }}
}}
"""
    found = ptosim.check(text, sync="manual")
    assert [d.code for d in found if d.code.startswith("PTO52")] == expected, found
    assert not any(d.is_rejection for d in found), found


# -- what a region stores of bytes without a value -------------------------------------------------


def stored(*lines: str):
    """`q` is filled, then what a region stores there of `p`, where nothing is, goes out; which of
    its 32 first lanes have values, and the only finding."""
    fill = FILL.replace("%p,", "%q,")
    text = kernel(
        f"%g: {GM}, %o: {GM}",
        "\n".join([
            "%z = arith.constant 0 : index", *UB, fill, *flag("MTE2", "V"), *region(*lines),
            *flag("V", "MTE3"), TAKE,
        ]),
    )  # fmt: skip
    result = run(text, {name: np.zeros(256, np.float32) for name in "go"})
    (found,) = result.findings
    return result.definedness["o"].tolist(), found


def test_what_is_stored_of_a_load_without_values_has_none():
    lanes, found = stored(load(0), f"%x1 = pto.vabs %x0, %m : {V}, {M} -> {V}", store(1, 64))
    assert lanes == [True] * 64 + [False] * 64 + [True] * 128
    assert [label.text for label in found.labels[1:]] == ["%p is made here", "stored to `o`"]
    (output,) = found.context["outputs"]
    assert [step["did"] for step in output["steps"]] == [
        "allocated", "computed", "stored",
    ]  # fmt: skip


def test_each_round_of_a_loop_stores_what_it_has_loaded():
    """The second round loads what the first has stored."""
    bar = 'pto.mem_bar "VV_ALL"'
    one = f"%one = arith.constant 1.0 : f32\n%x9 = pto.vbr %one : f32 -> {V}"
    loop = [
        "%e = arith.constant 128 : index", "%s = arith.constant 64 : index",
        "scf.for %i = %z to %e step %s {", bar,
        f"%x0 = pto.vlds %p[%i] : {P} -> {V}", f"pto.vsts %x0, %q[%i], %m : {V}, {P}, {M}",
        store(9, 64, "p"), "}",
    ]  # fmt: skip
    lanes, _ = stored(one, *loop)
    assert lanes == [False] * 64 + [True] * 192


def test_a_loop_hands_on_what_it_has_loaded():
    """A sum over rounds has no value as soon as one of its terms has none."""
    one = f"%one = arith.constant 1.0 : f32\n%x9 = pto.vbr %one : f32 -> {V}"
    loop = [
        "%e = arith.constant 128 : index", "%s = arith.constant 64 : index", store(9, 64, "p"),
        'pto.mem_bar "VV_ALL"',
        f"%x1 = scf.for %i = %z to %e step %s iter_args(%a = %x9) -> ({V}) {{",
        f"%x0 = pto.vlds %p[%i] : {P} -> {V}",
        f"%b = pto.vadd %a, %x0, %m : {V}, {V}, {M} -> {V}", f"scf.yield %b : {V}", "}",
        store(1, 0),
    ]  # fmt: skip
    lanes, _ = stored(one, *loop)
    assert lanes == [False] * 64 + [True] * 192
