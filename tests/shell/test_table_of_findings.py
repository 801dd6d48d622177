"""The table of findings, row by row: a program for each, on `check` and on `run`.

Severity, origin and exit codes are those that the manual's page on `check` promises; whether the
assembler would refuse the text is what `check --no-dry-run` says, 3 or not."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

import ptosim
from ptosim.launch.sources import shipped
from tests.engine.sanitize.test_open_order import PROGRAM
from tests.engine.sanitize.test_races import ADD, LOAD_ADD_STORE, flag, pair
from tests.ops.semantics.test_sync import A2A3, mixed, program
from tests.shell.programs import PART, TILE, copy_program
from tests.support.micro import kernel

WAIT = flag("wait", "MTE2", "MTE3")
WINDOW = f"""%p2 = pto.partition_view %vx, offsets = [%r, %c0], sizes = [%c16, %c64] : !pto.tensor_view<16x64xf32> -> {PART}
pto.tload ins(%p2 : {PART}) outs(%a : {TILE})"""
OPEN_WINDOW = WINDOW.replace("%vx", "%w").replace("view<16x64", "view<?x64", 1)
OPEN_VIEW = (
    "%w = pto.make_tensor_view %x, shape = [%n, %c64], strides = [%c64, %c1] : "
    "!pto.tensor_view<?x64xf32>\n"
)
MOVED = f"""%one = arith.constant 1.0 : f32
%m = pto.alloc_tile addr = %n : {TILE}
pto.texpands ins(%one : f32) outs(%m : {TILE})"""
PLACED = f"%z = arith.constant 131072 : i64\n%a = pto.alloc_tile addr = %z : {TILE}"
UB_COPY = """%far = arith.constant 262112 : i64
%u = pto.castptr %far : i64 -> !pto.ptr<ui8, ub>
pto.mte_gm_ub %g, %u, 0, 64 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, ub>"""
IN_PLACE = f"""%zero = arith.constant 0 : i64
%next = arith.constant 256 : i64
%s = pto.alloc_tile addr = %zero : {TILE}
%d = pto.alloc_tile addr = %next : {TILE}
%one = arith.constant 1.0 : f32
pto.texpands ins(%one : f32) outs(%s : {TILE})
pto.tadd ins(%s, %s : {TILE}, {TILE}) outs(%d : {TILE})"""

TABLE = """%s = pto.alloc_tile : !pto.tile_buf<bias, 1x2048xf32>
%n = arith.constant 2048 : index
%vt = pto.make_tensor_view %x, shape = [%c1, %n], strides = [%n, %c1] : !pto.tensor_view<1x2048xf32>
%pt = pto.partition_view %vt, offsets = [%c0, %c0], sizes = [%c1, %n] : !pto.tensor_view<1x2048xf32> -> !pto.partition_tensor_view<1x2048xf32>
%mt = pto.alloc_tile : !pto.tile_buf<mat, 1x2048xf32>
pto.tload ins(%pt : !pto.partition_tensor_view<1x2048xf32>) outs(%mt : !pto.tile_buf<mat, 1x2048xf32>)
pto.tmov ins(%mt : !pto.tile_buf<mat, 1x2048xf32>) outs(%s : !pto.tile_buf<bias, 1x2048xf32>)"""


def placed(body: str, args: str = "") -> str:
    """At level 3 every tile has an address."""
    return program(body, args=args).replace(f"%a = pto.alloc_tile : {TILE}", PLACED)


def shipped_text(name: str) -> str:
    return shipped(f"broken/{name}").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Row:
    """A program that shows a row of the table; None for an exit code that the row leaves open."""

    name: str
    text: str
    code: str
    severity: str
    origin: str
    check: int
    run: int | None
    args: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


REFUSED = ("error", "assembler", 3, 3)
RACE = ("error", "hardware", 1, 1)
STOPS = ("error", "hardware", 1, 4)
WARNS = ("warning", "hardware", 0, 0)

ROWS = [
    # refused by the assembler; cannot be placed
    Row("syntax", copy_program("    pto.tmov ins("), "PTO0003", *REFUSED),
    Row("unknown operation", copy_program("    pto.tmow ins(%a : f32)"), "PTO1003", *REFUSED),
    Row("rule", shipped_text("valid_shapes"), "PTO2011", *REFUSED),
    Row("budget", shipped_text("over_budget"), "PTO4001", *REFUSED),
    Row("constant address", shipped_text("tile_out_of_bounds"), "PTO4353", *REFUSED),
    # accepted by the assembler, which cannot lower it: a run refuses rather than guesses
    Row("lowering", shipped_text("no_such_conversion"), "PTO8003", "warning", "assembler", 0, 5),
    # race, order of cores not given
    Row("race", program("LOAD\nSTORE"), "PTO5201", *RACE, options=("--sync", "manual")),
    Row("missing flag", program(LOAD_ADD_STORE.replace(pair("V", "MTE3"), "")), "PTO5201", *RACE),
    Row("back edge", program(f"LOAD\n{pair('MTE2', 'MTE3')}\nSTORE\nLOAD"), "PTO5202", *RACE),
    Row("barrier of A2/A3", program(f"LOAD\n{pair('MTE2', 'V')}\n{ADD}\n{ADD}", "a2a3"), "PTO5204", *RACE),
    Row("order of cores", PROGRAM.replace("ORDER", ""), "PTO5205", *RACE, options=("--sync", "manual")),
    # flag, token, semaphore that nothing can ever match on the followed path
    Row("flag", program(f"{WAIT}\nSTORE"), "PTO5006", *STOPS),
    Row("token", program('pto.get_buf "PIPE_MTE2", 3, 0\nLOAD\npto.get_buf "PIPE_MTE3", 3, 0\nSTORE'), "PTO5006", *STOPS),
    Row("token of nobody", program('pto.rls_buf "PIPE_V", 3, 0'), "PTO5004", *STOPS),
    Row("semaphore", program(mixed("pto.sync.wait <PIPE_FIX>, 5", "LOAD")), "PTO5006", *STOPS),
    Row("too many signals", program(A2A3 + mixed("pto.sync.set <PIPE_FIX>, 3\n" * 16, "LOAD"), "a2a3"), "PTO5005", *STOPS),
    Row("slot of a FIFO", shipped_text("freed_twice"), "PTO5106", *STOPS, options=("--entry", "cube_kernel")),
    # outside the view, inside the buffer
    Row("view", program(WINDOW, args=", %r: index"), "PTO6101", *WARNS, ("x=zeros:f32:32x64", "r=16")),
    # outside a buffer whose size is known, or outside a space
    Row("given buffer", program(WINDOW, args=", %r: index"), "PTO6001", *STOPS, ("x=zeros:f32:16x64", "r=16")),
    Row("static view", program(WINDOW, args=", %r: index"), "PTO6001", *STOPS, ("r=16",)),
    Row("given buffer, open view", program(OPEN_VIEW + OPEN_WINDOW, args=", %r: index, %n: index"), "PTO6001", *STOPS, ("x=zeros:f32:16x64", "r=16", "n=32")),
    Row("space", placed(MOVED, ", %n: i64"), "PTO6026", *STOPS, ("n=262112",)),
    Row("alignment", placed(MOVED, ", %n: i64"), "PTO6027", *STOPS, ("n=8",)),
    Row("space of a pointer", kernel("%g: !pto.ptr<ui8>", UB_COPY), "PTO6602", *STOPS, ("g=zeros:ui8:1x64",)),
    # beyond the real size of a small memory, which the assembler takes for larger
    Row("small memory", program(TABLE), "PTO4005", *STOPS),
    # outside a buffer whose size was assumed: in the run it is known
    Row("assumed buffer", program(OPEN_VIEW + OPEN_WINDOW, args=", %r: index, %n: index"), "PTO6019", "warning", "hardware", 0, None, ("r=16",)),
    # undefined bytes used, source destroyed, in-place hazard
    Row("nothing written", program("STORE"), "PTO7101", *WARNS),
    Row("in place", placed(IN_PLACE), "PTO6401", *WARNS),
    # a loop that no assembler refuses
    Row("step", shipped_text("loop_without_step").replace("%step: index", "").replace("    %c8", "    %step = arith.constant 0 : index\n    %c8"), "PTO1032", *REFUSED),
    # could be better
    Row("redundant", program(f"LOAD\n{pair('MTE2', 'MTE3')}\npto.barrier <PIPE_ALL>\nSTORE"), "PTO5301", "note", "lint", 0, None, options=("--redundant",)),
    Row("target", copy_program(arch=""), "PTO3003", "note", "lint", 0, 0, options=("-v",)),
]  # fmt: skip


@pytest.fixture
def file(request, tmp_path, row: Row) -> str:
    path = tmp_path / "k.pto"
    path.write_text(row.text, encoding="utf-8")
    return str(path)


def given(row: Row) -> list[str]:
    return [word for pair in row.args for word in ("--arg", pair)]


def by_name(rows: list[Row]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=[row.name for row in rows])


@by_name(ROWS)
def test_check(cli, file, row: Row) -> None:
    outcome = cli("check", file, *given(row), *row.options, "--format", "json")
    found = [f for f in json.loads(outcome.out)["findings"] if f["code"] == row.code]
    assert found, outcome.out
    assert {(f["severity"], f["origin"]) for f in found} == {(row.severity, row.origin)}
    assert outcome.code == row.check


@pytest.mark.sampled(16)
@by_name(ROWS)
def test_the_verdict_is_the_assemblers(cli, file, row: Row) -> None:
    """What only following brings out, or warns, rejects nothing."""
    options = [word for word in row.options if word != "--redundant"]
    code = cli("check", file, "--no-dry-run", *options).code
    assert (code == 3) == (row.check == 3)
    found = ptosim.check(row.text, dry_run=False)
    assert any(d.is_rejection for d in found) == (row.check == 3)


@by_name([row for row in ROWS if row.run is not None])
def test_run(cli, file, row: Row) -> None:
    outcome = cli("run", file, *given(row), *row.options, "--format", "jsonl")
    assert outcome.code == row.run, outcome.err + outcome.out
    if row.run != 5:
        found = [json.loads(line) for line in outcome.out.splitlines()]
        assert row.code in {f["code"] for f in found}
