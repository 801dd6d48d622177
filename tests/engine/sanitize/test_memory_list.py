"""Memory faults that no hardware reports: each with a program that has it, and one that nearly has it.

Every entry says what is wrong, which code names it, whether it is found without values (`check`), and
how the twin differs; those of `library_faults` belong to the list. Sources: PTO ISA documentation
(tiles, TASSIGN, data movement) and what the library's code for A2/A3 and A5 does with its operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.catalog import catalog
from ptosim.ground.source import Source
from ptosim.tools.api import check_source
from tests.engine.sanitize.faults import Case, fault, through
from tests.engine.sanitize.library_faults import CASES
from tests.support.text import Kernel, date_of

# -- values that nobody wrote -----------------------------------------------------------------------


@fault("PTO7101", "a2a3", "a5", cure="load or fill the tile first")
def nothing_was_written(k: Kernel, wrong: bool) -> None:
    x, y = (k.tile(n, "f32", 16, 64) for n in "ab")
    if not wrong:
        k.load("gx", x)
    k.op("pto.tadd", [x, x], [y])
    k.store(y, "gy")


@fault("PTO7102", "a2a3", "a5", cure="pad=1")
def padding_is_read(k: Kernel, wrong: bool) -> None:
    x = k.tile("a", "f32", 16, 64, (16, 10), pad=0 if wrong else 1)
    wide = k.alias("pto.treshape", "w", x, v_row=16, v_col=16)
    y = k.tile("y", "f32", 16, 64, (16, 16))
    k.load("gx", x)
    k.op("pto.tadd", [wide, wide], [y])
    k.store(y, "gy")


@fault("PTO7102", "a2a3", cure="pad=1")
def whole_blocks_over_a_neighbour(k: Kernel, wrong: bool) -> None:
    """Ten columns are moved into a window; the last block reaches over the columns after it."""
    whole = k.tile("a", "f32", 16, 64)
    x = k.tile("x", "f32", 16, 64, (16, 10 if wrong else 16))
    window = k.alias("pto.treshape", "w", whole, v_row=16, v_col=10 if wrong else 16)
    y = k.tile("y", "f32", 16, 64)
    k.load("gx", whole)
    k.load("gx", x, (16, 10 if wrong else 16), shape=(16, 64), strides=(64, 1))
    k.op("pto.tmov", [x], [window])
    k.op("pto.tadd", [whole, whole], [y])
    k.store(y, "gy")


@fault("PTO7104", "a2a3", "a5", cure="apart")
def the_tail_of_a_load_meets_a_live_tile(k: Kernel, wrong: bool) -> None:
    """The last block of the last row ends after the tile that the row belongs to."""
    below = k.tile("b", "f32", 16, 64, (16, 60), addr=0)
    live = k.tile("a", "f32", 1, 8, addr=16 * 256 - 32 if wrong else 16 * 256)
    y = k.tile("y", "f32", 1, 8, addr=32768)
    k.load("gv", live)
    k.load("gx", below, (16, 60), shape=(16, 64), strides=(64, 1))
    k.op("pto.tadd", [live, live], [y])
    k.store(y, "gw")
    k.store(below, "gy", (16, 60), shape=(16, 64), strides=(64, 1))


# -- outside, beside, askew -------------------------------------------------------------------------


def _shifted(k: Kernel) -> None:
    """A window of a view of 16 rows, from row %n on."""
    x = k.tile("a", "f32", 16, 64)
    view, part = "!pto.tensor_view<16x64xf32>", "!pto.partition_tensor_view<16x64xf32>"
    k.arg("n", "index")
    k.arg("gx", "!pto.ptr<f32>")
    zero, one, rows, cols = (k.const(n) for n in (0, 1, 16, 64))
    k.line(f"%v = pto.make_tensor_view %gx, shape = [{rows}, {cols}], strides = [{cols}, {one}] : {view}")  # fmt: skip
    k.line(f"%p = pto.partition_view %v, offsets = [%n, {zero}], sizes = [{rows}, {cols}] : {view} -> {part}")  # fmt: skip
    k.op("pto.tload", [("%p", part)], [x])
    k.store(x, "gy")


ROWS = {"gx": np.zeros((16, 64), np.float32)}
MORE = {"gx": np.zeros((32, 64), np.float32)}


@fault("PTO6001", "a2a3", "a5", cure="size of the argument", options={"n": (1, 0), "args": ROWS})
def outside_the_buffer(k: Kernel, wrong: bool) -> None:
    _shifted(k)


@fault("PTO6101", "a2a3", "a5", cure="view", options={"n": (1, 0), "args": MORE})
def outside_the_view_and_inside_the_buffer(k: Kernel, wrong: bool) -> None:
    _shifted(k)


@fault("PTO4353", "a2a3", "a5", cure="another address")
def outside_the_space(k: Kernel, wrong: bool) -> None:
    limit = (192 if k.target == "a2a3" else 256) * 1024
    x = k.tile("a", "f32", 16, 64, addr=limit - (4064 if wrong else 4096))
    k.load("gx", x)
    k.store(x, "gy")


@fault("PTO4354", "a2a3", "a5", cure="multiple of 32")
def misaligned(k: Kernel, wrong: bool) -> None:
    x = k.tile("a", "f32", 16, 64, addr=16 if wrong else 32)
    k.load("gx", x)
    k.store(x, "gy")


@fault("PTO6402", "a5", cure="", check=False)
def an_index_outside_its_table(k: Kernel, wrong: bool) -> None:
    table, index = k.tile("t", "f32", 16, 64), k.tile("i", "i32", 16, 64)
    scratch, y = k.tile("u", "i32", 16, 64), k.tile("y", "f32", 16, 64)
    k.load("gx", table)
    k.op("pto.texpands", [(k.const(1024 if wrong else 1023, "i32"), "i32")], [index])
    k.op("pto.tgather", [table, index, scratch], [y])
    k.store(y, "gy")


# -- operands that share bytes ----------------------------------------------------------------------


@fault("PTO6401", "a2a3", "a5", cure="storage of its own")
def a_partial_overlap(k: Kernel, wrong: bool) -> None:
    """In place is fine, one row further is not."""
    through(k, "pto.tadd", (16, 64), (0, 256 if wrong else 0), count=2)


@fault("PTO6401", "a2a3", cure="storage of its own")
def a_reciprocal_in_place(k: Kernel, wrong: bool) -> None:
    through(k, "pto.trecip", (16, 64), (0, 0 if wrong else 4096))


@fault("PTO6401", "a2a3", cure="storage of its own")
def a_conversion_to_another_width_in_place(k: Kernel, wrong: bool) -> None:
    """The last columns of all rows come after the rest of all rows."""
    through(k, "pto.tcvt", (16, 96 if wrong else 64), (0, 0), ("f32", "f16"))


@fault("PTO6401", "a2a3", cure="storage of its own")
def scratch_over_a_source(k: Kernel, wrong: bool) -> None:
    x = k.tile("a", "i16", 16, 64, addr=0)
    y = k.tile("y", "i16", 16, 64, addr=2048)
    tmp = k.tile("t", "i16", 16, 64, addr=0 if wrong else 4096)
    k.load("gx", x)
    k.op("pto.txor", [x, x, tmp], [y])
    k.store(y, "gy")


@fault("PTO6401", "a2a3", "a5", cure="storage of its own")
def a_gather_into_its_own_table(k: Kernel, wrong: bool) -> None:
    table = k.tile("t", "f32", 16, 64, addr=0)
    index, scratch = k.tile("i", "i32", 16, 64, addr=4096), k.tile("u", "i32", 16, 64, addr=8192)
    y = k.tile("y", "f32", 16, 64, addr=0 if wrong else 12288)
    k.load("gx", table)
    k.op("pto.texpands", [(k.const(3, "i32"), "i32")], [index])
    k.op("pto.tgather", [table, index, scratch], [y])
    k.store(y, "gy")


# -- valid shapes and windows -----------------------------------------------------------------------


def _dynamic(k: Kernel, rows: int) -> None:
    k.arg("n", "index")
    x = k.dynamic("a", "f32", 16, 64, ("%n", k.const(64)))
    k.load("gx", x, (max(min(rows, 16), 1), 64))
    k.store(x, "gy", (max(min(rows, 16), 1), 64))


@fault("PTO6004", "a2a3", "a5", cure="between 0 and", options={"n": (-1, 8)})
def a_negative_valid_shape(k: Kernel, wrong: bool) -> None:
    _dynamic(k, 8)


@fault("PTO6004", "a2a3", "a5", cure="between 0 and", options={"n": (17, 16)})
def a_valid_shape_beyond_its_tile(k: Kernel, wrong: bool) -> None:
    _dynamic(k, 16)


@fault("PTO2017", "a2a3", "a5", cure="")
def a_valid_shape_set_too_large(k: Kernel, wrong: bool) -> None:
    x = k.dynamic("a", "f32", 16, 64, (k.const(16), k.const(64)))
    k.line(f"pto.set_validshape %a, {k.const(16)}, {k.const(65 if wrong else 64)} : {x.type}")
    k.load("gx", x, (16, 64))
    k.store(x, "gy", (16, 64))


@fault("PTO6103", "a2a3", "a5", cure="same size")
def a_window_wider_than_the_valid_region(k: Kernel, wrong: bool) -> None:
    x = k.tile("a", "f32", 16, 64, (16, 56 if wrong else 64))
    k.load("gx", x, (16, 64))
    k.store(x, "gy")


@fault("PTO6009", "a2a3", "a5", cure="smaller window")
def a_window_with_more_rows_than_the_tile(k: Kernel, wrong: bool) -> None:
    x = k.tile("a", "f32", 8, 64)
    k.load("gx", x, (16 if wrong else 8, 64))
    k.store(x, "gy")


# -- the property -----------------------------------------------------------------------------------


def text_of(case: Case, wrong: bool) -> str:
    kernel = Kernel(case.target)
    kernel.line("%one = arith.constant 1.0 : f32")
    case.make(kernel, wrong)
    return kernel.text()


def given(case: Case, wrong: bool) -> dict[str, Any]:
    """Arguments beside those that the run makes up."""
    values = dict(case.options.get("args", {}))
    if "n" in case.options:
        values["n"] = case.options["n"][0 if wrong else 1]
    return values


def _date(case: Case, text: str) -> str:
    return case.options.get("compat") or date_of(text)


def ran(case: Case, wrong: bool) -> list:
    try:
        text = text_of(case, wrong)
        program = ptosim.load(text, target=case.target, compat=_date(case, text))
        return program.run(arguments(program, given(case, wrong))).findings
    except ptosim.ProgramError as problem:
        return list(problem.diagnostics)


def arguments(program: ptosim.Program, fixed: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for arg in program.signature():
        if arg.name in fixed:
            made[arg.name] = fixed[arg.name]
        elif arg.name == "ones":
            made[arg.name] = np.full((16, 8), 100, np.float32)
    return made


@pytest.mark.sampled(16)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.name}-{c.target}")
def test_the_fault_is_named_and_its_twin_is_not(case):
    found = [d for d in ran(case, wrong=True) if d.code == case.code]
    assert found, [(d.code, d.message) for d in ran(case, wrong=True)]
    finding = found[0]
    assert finding.span is not None, "a place"
    assert finding.span.line > 1
    assert len(finding.message) > 20, "a rule"
    told = " ".join((finding.help or "", *finding.notes))
    assert case.cure in told, told
    assert catalog()[case.code].cure
    twin = ran(case, wrong=False)
    assert [d.code for d in twin if d.severity.word != "note"] == [], [d.message for d in twin]


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    "case", [c for c in CASES if c.check], ids=lambda c: f"{c.name}-{c.target}"
)
def test_it_is_found_without_values(case):
    for wrong in (True, False):
        source = Source("k", text_of(case, wrong))
        args = given(case, wrong)
        date = _date(case, source.text)
        found = check_source(source, case.target, args=args, dry_run=True, compat=date).findings
        codes = {d.code for d in found if d.severity.word != "note"}
        assert (case.code in codes) == wrong, codes
