"""Programs that users met on boards are judged as the boards judged them.

Of each program the errors and warnings that it has to have, by code, for the choices of the row: date and
synchronisation, arguments, blocks of a run. No finding above a note where none is listed. The wrong and the right
program of a rule have its number (`A07_wrong`, `A07_right`); `S` are about what the assembler makes of a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.boards import board_rules

FOLDER = Path(__file__).parents[1] / "data" / "board"


class Row(NamedTuple):
    name: str
    codes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    choices: dict[str, Any] = {}  # noqa: RUF012 - never changed


def row(
    name: str, codes: str = "", notes: str = "", words: tuple[str, ...] = (), **choices: Any
) -> Row:
    return Row(name, tuple(codes.split()), tuple(notes.split()), words, choices)


RACE, LATE, ORDER, REFUSED = "PTO5201", "PTO5202", "PTO5204", "assembler"
SEPTEMBER = {"compat": "2026-09"}

ROWS = [
    row("A01a_right"),
    row("A01a_wrong", RACE, words=("pto.tci", "PIPE_S")),
    row("A01c_right"),
    row("A01c_wrong", RACE, words=("pto.tci", "PIPE_V")),
    row("A01d_refused", "PTO2081", words=("requires explicit tmp when PlanMemory is skipped",)),
    row("A02_right64"),
    row("A02_wrong4", "PTO6112", words=("4 bytes apart",)),
    row("A02_wrong32", "PTO6112", words=("32 bytes apart",)),
    row("A02p_wrong", "PTO6112"),
    row("A03_right"),
    row("A03_wrong", "PTO5251"),
    row("A04_right"),
    row("A04_wrong", "PTO6110"),
    row("A06a_right", sync="manual"),
    row("A06a_wrong", RACE, sync="manual"),
    row("A06a_wrong", sync="auto"),
    row("A06b_right", sync="manual"),
    row("A06b_wrong", RACE, sync="manual"),
    row("A06b_wrong", sync="auto"),
    row("A07_right"),
    row("A07_wrong", RACE, words=("pto.mgather", "PIPE_MTE2", "PIPE_S")),
    row("A08a_right"),
    row("A08a_wrong", "PTO6430", words=("0x64", "multiple of 32", "1PT_B32", "507035")),
    row("A08c_right"),
    row("A10_wrong", "PTO7102", words=("0x48, 0x60", "PIPE_MTE3")),
    row("A10_right"),
    row("A11_right"),
    row(
        "A11_wrong",
        notes="PTO6052",
        words=("requires k <= 8", "broken by k = 9: valid shape -1x64", "the board hangs"),
    ),
    row("A11_wrong", "PTO6002 PTO6002 PTO6004", words=("the board hangs",), args={"k": 9}),
    row("A13_right"),
    row("A13_wrong", "PTO5003"),
    row("A14_right"),
    row(
        "A14_wrong",
        "PTO5006",
        words=("ring of 8 slots is full", "`pto.tfree_from_aic {split = 0}`"),
    ),
    row("A16a_right"),
    row("A16a_wrong", "PTO5006"),
    row("A16b_refused", "PTO5010 PTO5010"),
    row("A17_atomic", notes="PTO5209"),
    # windows wider than the stride, and blocks that store to the same bytes: told in every sync mode
    row("A17_wrong", "PTO5208 PTO5207"),
    row("A17_right"),
    row("A18_right"),
    row("A18_wrong", LATE),
    row("A19_wrong", "PTO6406"),
    row("A19_right"),
    row("A21_nobar", notes="PTO5213"),
    row("A21_right"),
    row("A21_wrong", ORDER),
    row("A21b_right"),
    row("A22_right"),
    row("A22_wrong", "PTO4353"),
    row("A25_right"),
    row("A25_wrong", "PTO6113"),
    row("A26_right"),
    row("A26_wrong", "PTO5211"),
    row("S01", "PTO6101 PTO6001"),
    row("S01", "PTO2026", words=("offset 8 + size 16 exceeds", "(16)"), **SEPTEMBER),
    row("S02"),
    row("S02", **SEPTEMBER),
    row("S03", "PTO1028", words=("unknown attribute",)),
    row("S03", notes="PTO3017", **SEPTEMBER),
    row("S05", "PTO7101 PTO7101"),
    row("S05", "PTO7101 PTO7101", **SEPTEMBER),
    row("S07", "PTO3006 PTO3006"),
    row("S07", **SEPTEMBER),
    row("S08"),
    row("S08", "PTO0010 PTO0010", words=("pto.load",), **SEPTEMBER),
    row("S09", "PTO1003"),
    row("S09", **SEPTEMBER),
    row("S11", RACE, sync="auto"),
    row("S11", sync="auto", **SEPTEMBER),
    row("S13", RACE),
    row("S13", RACE, sync="auto"),
    row("S15"),
    row("S17"),
    row("S17", "PTO3013", sync="auto"),
    row("S18", "PTO3011"),
    row("S21"),
    row("S23", RACE),
    row("S23", RACE, sync="auto"),
    row("S25", "PTO1021"),
]


def told(found: ptosim.Diagnostic) -> str:
    labels = " ".join(label.text for label in found.labels)
    return " ".join((found.message, labels, found.help or "", *found.notes))


@pytest.mark.parametrize(
    "given", ROWS, ids=lambda r: " ".join((r.name, *map(str, r.choices.values())))
)
def test_the_verdict_of_the_board(given):
    found = ptosim.check(FOLDER / f"{given.name}.pto", **given.choices)
    assert [d.code for d in found if d.severity.word != "note"] == list(given.codes)
    assert set(given.notes) <= {d.code for d in found}
    for words in given.words:
        assert any(words in told(d) for d in found), words


TWO_KERNELS = """module attributes {pto.target_arch = "a5"} {
  func.func @cube(%x: !pto.ptr<f32>) attributes {pto.kernel_kind = #pto.kernel_kind<cube>} {
    pto.sync.wait <PIPE_MTE2>, 3
    return
  }
  func.func @vector(%x: !pto.ptr<f32>) attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {
    SET
    return
  }
}
"""


def test_a_cube_and_a_vector_function_are_one_kernel():
    """Also where only signals join them: alone the cube would wait for ever."""
    right = ptosim.check(TWO_KERNELS.replace("SET", "pto.sync.set <PIPE_MTE3>, 3"))
    assert not [d.code for d in right if d.is_error]
    wrong = ptosim.check(TWO_KERNELS.replace("SET", "pto.sync.set <PIPE_MTE3>, 4"))
    assert "PTO5006" in [d.code for d in wrong]


TILE = "!pto.tile_buf<vec, 8x64xf32>"
COMPUTED = f"""module attributes {{pto.target_arch = "a3"}} {{
  func.func @k(%n: i64) attributes {{pto.kernel_kind = #pto.kernel_kind<vector>}} {{
    %zero = arith.constant 0 : i64
    %f = arith.constant 1.0 : f32
    %a = pto.alloc_tile addr = %zero : {TILE}
    %b = pto.alloc_tile addr = %n : {TILE}
    %c8192 = arith.constant 8192 : i64
    %c = pto.alloc_tile addr = %c8192 : {TILE}
    pto.texpands ins(%f : f32) outs(%a : {TILE})
    pto.tabs ins(%b : {TILE}) outs(%c : {TILE})
    return
  }}
}}
"""


def test_tiles_at_computed_addresses_are_taken_as_apart():
    """Where they are not, the assembler inserts nothing: a race in automatic mode too."""
    assert "PTO5204" in [d.code for d in ptosim.check(COMPUTED, sync="auto", args={"n": 0})]
    constant = COMPUTED.replace("addr = %n", "addr = %zero")
    assert "PTO5204" not in [d.code for d in ptosim.check(constant, sync="auto", args={"n": 0})]


@pytest.mark.parametrize(
    ("name", "lost"),
    [("A02_right64", False), ("A02_wrong4", True), ("A02_wrong32", True), ("A02p_wrong", True)],
)
def test_cores_that_store_to_one_line_are_found_in_a_run(name, lost):
    out = np.full(256, -777, np.int32)
    result = ptosim.load(FOLDER / f"{name}.pto").run({"out": out}, block_num=16)
    assert ("PTO5250" in [d.code for d in result.findings]) == lost
    assert result.definedness["out"].any() != lost


@pytest.mark.parametrize(("uninit", "shown"), [("poison", -1), ("zero", 0)])
def test_words_that_are_lost_have_no_value(uninit, shown):
    """A02, A03: what cores stored into one line, and what DMA stored around a scalar store, is
    undefined, and shows as memory does that nothing wrote; what nobody stored stays."""
    out = np.full(32, -777, np.int32)
    several = ptosim.load(FOLDER / "A02_wrong32.pto").run({"out": out}, block_num=2, uninit=uninit)
    assert several.outputs["out"][[0, 8]].tolist() == [shown] * 2
    assert set(several.outputs["out"][1:8].tolist()) == {-777}
    mixed = ptosim.load(FOLDER / "A03_wrong.pto").run({"y": np.zeros(256, np.int32)}, uninit=uninit)
    assert mixed.outputs["y"][:16].tolist() == [7] + [shown] * 15
    assert mixed.definedness["y"][:16].tolist() == [True] + [False] * 15


STORED = board_rules()["A04"].right
CLEAN = "    pto.cmo.cacheinvalid %y single_cache_line : !pto.ptr<i32>\n"
FENCE = "    pto.fence.barrier_all #pto.fence_scope<gm>\n"
AWAY = "    %far = pto.addptr %y, %c16 : !pto.ptr<i32> -> !pto.ptr<i32>\n" + CLEAN.replace(
    "%y", "%far"
)
READS = "[%c0, %c0], sizes = [%c1, %c16]"


@pytest.mark.parametrize(("old", "new", "told"), [
    ("", "", False),
    (CLEAN, "    pto.cmo.cacheinvalid all #pto.address_space<gm>\n", False),
    (CLEAN, AWAY, True),  # another line
    (FENCE, "", True),  # nothing waits until the line is in memory
    (CLEAN + FENCE, "    pto.barrier <PIPE_ALL>\n", True),
])  # fmt: skip
def test_a_transfer_reads_memory_and_not_the_cache(old, new, told):
    """A04: the line has to be written back, and a fence to wait for it, before the flag."""
    assert old in STORED
    found = ptosim.check(STORED.replace(old, new))
    assert [d.code for d in found if d.severity.word != "note"] == ["PTO6110"] * told


def test_loads_and_transfers_find_what_cache_and_memory_have():
    """A04, A05: a transfer finds memory as it was before a scalar store, a load the line as it was
    cached; after the cure both find what was stored last."""
    y = np.arange(100, 356, dtype=np.int32)
    for side, first in (("wrong", 100), ("right", 7)):
        program = ptosim.load(FOLDER / f"A04_{side}.pto")
        assert program.run({"y": y, "z": np.zeros(16, np.int32)}).outputs["z"][0] == first
    for side, second in (("wrong", 101), ("right", 100)):
        program = ptosim.load(getattr(board_rules()["A05"], side))
        assert program.run({"y": y, "rank": 0}).outputs["y"][32] == second


TWO_CORES = """module attributes {pto.target_arch = "a3"} {
  func.func @k(%f: !pto.ptr<i64>, %y: !pto.ptr<i32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %seven = arith.constant 7 : i32
    %z = arith.constant 0 : i64
    pto.set_ffts %f : !pto.ptr<i64>
    pto.section.cube {
      pto.store_scalar %seven, %y[%c0] : !pto.ptr<i32>, i32
      CLEANS
      pto.sync.set <PIPE_FIX>, 5
    }
    pto.section.vector {
      %s = pto.get_subblock_idx
      %first = arith.cmpi eq, %s, %z : i64
      CACHES
      pto.sync.wait <PIPE_S>, 5
      GIVES_UP
      scf.if %first {
        %q = pto.load_scalar %y[%c0] : !pto.ptr<i32> -> i32
        pto.store_scalar %q, %y[%c32] : !pto.ptr<i32>, i32
      }
    }
    return
  }
}
"""
CACHES = """scf.if %first {
        %w = pto.load_scalar %y[%c1] : !pto.ptr<i32> -> i32
        pto.store_scalar %w, %y[%c64] : !pto.ptr<i32>, i32
      }"""


@pytest.mark.parametrize(("cleans", "caches", "gives_up", "told", "found"), [
    ("", "", "", "PTO6110", 100),
    (CLEAN + FENCE, "", "", None, 7),
    (CLEAN + FENCE, CACHES, "", "PTO6111", None),  # which of the two came first is open
    (CLEAN + FENCE, CACHES, CLEAN, "PTO6111", None),
    (CLEAN + FENCE, CACHES, CLEAN + FENCE, None, 7),
])  # fmt: skip
def test_a_word_of_another_core_is_in_two_caches(cleans, caches, gives_up, told, found):
    """A05: who stores it writes its line back, who has the line cached gives it up, and each waits
    for a fence."""
    text = TWO_CORES.replace("CLEANS", cleans).replace("GIVES_UP", gives_up)
    text = text.replace("CACHES", caches)
    y = np.arange(100, 356, dtype=np.int32)
    result = ptosim.load(text).run({"f": np.zeros(16, np.int64), "y": y})
    for findings in (ptosim.check(text), result.findings):
        assert {d.code for d in findings if d.severity.word != "note"} == ({told} - {None})
    assert found is None or result.outputs["y"][32] == found


APART = """
    %n = arith.index_cast %b : i64 to index
    %at = arith.shli %n, %amount : index
    pto.store_scalar %seven, %y[%at] : !pto.ptr<i32>, i32
"""


@pytest.mark.parametrize("who", ["get_block_idx", "get_subblock_idx"])
@pytest.mark.parametrize(("amount", "told"), [(1, True), (3, True), (4, False)])
def test_words_of_cores_are_a_line_apart(who, amount, told):
    """A02: also where the distance is a shift, and for the two vector cores of a cluster."""
    text, right = board_rules()["A02"].right, APART.replace("%amount", f"%c{amount}")
    begin = text.index("    %block = ")
    numbers = "".join(f"    %c{n} = arith.constant {n} : index\n" for n in (3, 4))
    lines = f"{numbers}    %b = pto.{who}\n{right}"
    found = ptosim.check(text[:begin] + lines + text[text.index("    return") :])
    assert [d.code for d in found if d.severity.word != "note"] == ["PTO6112"] * told


@pytest.mark.parametrize(("count", "told"), [(40, True), (48, False), (49, True)])
def test_a_hard_meeting_is_one_of_all_cores(count, told):
    """The 910B1 has 48 vector cores: with fewer the meeting waits, with more they never all run."""
    rule = board_rules()["A23"]
    result = ptosim.load(rule.wrong).run({"y": np.zeros(64, np.int32), "rank": 0}, block_num=count)
    assert ("PTO5216" in [d.code for d in result.findings]) == told


def test_boards_have_numbers_for_what_stops_them():
    deadlock = next(d for d in ptosim.check(FOLDER / "A16a_wrong.pto") if d.is_error)
    assert "vector core 1 never signals" in deadlock.help
    assert "`pto.sync.set <PIPE_MTE3>, 3` where both come by" in deadlock.help
    assert deadlock.help.endswith("boards say 507014, 507018 or 507046")
    assert "507035" in next(d for d in ptosim.check(FOLDER / "A22_wrong.pto") if d.is_error).help


SLOTS = "!pto.multi_tile_buf<vec, 8x64xf32, count=2>"
AHEAD = f"""
!t = !pto.tile_buf<vec, 8x64xf32>
!v = !pto.tensor_view<8x64xf32>
!p = !pto.partition_tensor_view<8x64xf32>
module attributes {{pto.target_arch = "a3"}} {{
  func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c8 = arith.constant 8 : index
    %c64 = arith.constant 64 : index
    %a0 = arith.constant 0 : i64
    %vx = pto.make_tensor_view %x, shape = [%c8, %c64], strides = [%c64, %c1] : !v
    %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c8, %c64] : !v -> !p
    %vy = pto.make_tensor_view %y, shape = [%c8, %c64], strides = [%c64, %c1] : !v
    %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c8, %c64] : !v -> !p
    %m = pto.alloc_multi_tile addr = %a0 : {SLOTS}
    %first = pto.multi_tile_get %m[%c0] : {SLOTS} -> !t
    pto.tload ins(%px : !p) outs(%first : !t)
    scf.for %i = %c0 to %c8 step %c1 {{
      %next = arith.addi %i, %c1 : index
      %filled = arith.remui %next, %c2 : index
      %used = arith.remui %i, %c2 : index
      %a = pto.multi_tile_get %m[%filled] : {SLOTS} -> !t
      %b = pto.multi_tile_get %m[%used] : {SLOTS} -> !t
      pto.tload ins(%px : !p) outs(%a : !t)
      pto.tstore ins(%b : !t) outs(%py : !p)
    }}
    return
  }}
}}
"""


def test_flags_of_august_do_not_fit_slots_that_are_filled_ahead():
    """Assemblers before 0.63 prime and drain every slot; 0.63 and flags of one's own do not."""
    assert "PTO5219" in [d.code for d in ptosim.check(AHEAD, sync="auto")]
    for choices in ({"sync": "auto", "compat": "2026-09"}, {"sync": "manual"}):
        assert "PTO5219" not in [d.code for d in ptosim.check(AHEAD, **choices)]
    in_turn = AHEAD.replace("    pto.tload ins(%px : !p) outs(%first : !t)\n", "")
    assert "PTO5219" not in [d.code for d in ptosim.check(in_turn, sync="auto")]
