"""Memory faults that no hardware reports: each with a program that has it, and one that nearly has it.

Every entry says what is wrong, which code names it, whether it is found without values (`check`), and
how the twin differs. Sources: PTO ISA documentation (tiles, TASSIGN, data movement) and what the
library's code for A2/A3 and A5 does with its operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import ptosim
from ptosim.api import check_source
from ptosim.diagnostics.catalog import catalog
from ptosim.source import Source
from tests.support.text import Kernel


@dataclass
class Case:
    """`make(wrong)` writes the program, with its fault or without."""

    name: str
    code: str
    target: str
    make: Callable[[Kernel, bool], None]
    cure: str
    check: bool = True  # found without values, too
    args: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


CASES: list[Case] = []


def fault(code: str, *targets: str, cure: str, **keys: Any) -> Callable[[Any], Any]:
    """Register the maker of a program for some targets."""

    def register(make: Callable[[Kernel, bool], None]) -> Callable[[Kernel, bool], None]:
        name = make.__name__
        CASES.extend(Case(name, code, target, make, cure, **keys) for target in targets)
        return make

    return register


def through(k: Kernel, op: str, shape: tuple[int, int], at: tuple[int, int], dtypes=("f32", "f32"), attrs: str = "", count: int = 1) -> None:  # fmt: skip
    """Load x at one address, one operation, store y from another."""
    src = k.tile("s", dtypes[0], *shape, addr=at[0])
    dst = k.tile("d", dtypes[1], *shape, addr=at[1])
    k.load("gx", src)
    k.op(op, [src] * count, [dst], attrs)
    k.store(dst, "gy")


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
    """Ten columns are moved into a window; the last block reaches over the columns behind it."""
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
    """The last block of the last row ends behind the tile that the row belongs to."""
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
    through(k, "pto.tcvt", (16, 64), (0, 0 if wrong else 4096), ("f32", "f16"))


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


# -- what the library does on the side --------------------------------------------------------------


@fault("PTO7105", "a2a3", cure="tmp")
def hidden_scratch_over_a_live_tile(k: Kernel, wrong: bool) -> None:
    """A conversion that wraps takes 8 KiB at 184 KiB where it has no scratch tile."""
    at = 184 * 1024 if wrong else 180 * 1024
    live = k.tile("a", "f32", 16, 64, addr=at)
    x, q = k.tile("x", "f32", 16, 64, addr=0), k.tile("q", "i16", 16, 64, addr=4096)
    y = k.tile("y", "f32", 16, 64, addr=8192)
    k.load("gx", live)
    k.load("gx", x)
    k.op("pto.tcvt", [x], [q])
    k.op("pto.tadd", [live, live], [y])
    k.store(y, "gy")
    k.store(q, "gq")


@fault("PTO7105", "a2a3", cure="tmp")
def hidden_scratch_under_an_operand(k: Kernel, wrong: bool) -> None:
    x = k.tile("x", "f32", 16, 64, addr=0)
    column = k.tile("c", "f32", 16, 1, layout="dn", addr=184 * 1024 if wrong else 8192)
    y = k.tile("y", "f32", 16, 64, addr=4096)
    k.load("gx", x)
    k.load("gc", column)
    k.op("pto.trowexpandadd", [x, column], [y])
    k.store(y, "gy")


@fault("PTO7103", "a2a3", cure="copy")
def a_source_that_is_destroyed(k: Kernel, wrong: bool) -> None:
    """TQUANT to INT8 works in place in its source."""
    x, s = k.tile("a", "f32", 16, 64), k.tile("s", "f32", 16, 8)
    q, y = k.tile("q", "i8", 16, 64), k.tile("y", "f32", 16, 64)
    k.load("gx", x)
    k.op("pto.texpands", [("%one", "f32")], [s])
    if not wrong:
        k.op("pto.tadd", [x, x], [y])
    k.op("pto.tquant", [x, s], [q], "quant_type = #pto<quant_type INT8_SYM>")
    if wrong:
        k.op("pto.tadd", [x, x], [y])
    k.store(y, "gy")
    k.store(q, "gp")


@fault("PTO7103", "a2a3", cure="scratch")
def scratch_that_is_read(k: Kernel, wrong: bool) -> None:
    x, tmp, y = (k.tile(n, "i16", 16, 64) for n in ("a", "t", "y"))
    k.load("gx", x)
    k.load("gx", tmp)
    k.op("pto.txor", [x, x, tmp], [y])
    if not wrong:
        k.load("gx", tmp)
    k.op("pto.tadd", [tmp, y], [y])
    k.store(y, "gy")


@fault("PTO2019", "a2a3", cure="smaller scratch")
def scratch_too_small_for_a_row_sum(k: Kernel, wrong: bool) -> None:
    x, y = k.tile("a", "f32", 16, 256), k.tile("y", "f32", 16, 8, (16, 1))
    tmp = k.tile("t", "f32", 16, 32 if wrong else 64)
    k.load("gx", x)
    k.op("pto.trowsum", [x, tmp], [y])
    k.store(y, "gy")


@fault("PTO2019", "a2a3", cure="smaller scratch")
def scratch_too_small_for_a_conversion(k: Kernel, wrong: bool) -> None:
    x, y = k.tile("a", "f32", 16, 256), k.tile("y", "i16", 16, 256)
    tmp = k.tile("t", "f32", 1, 248 if wrong else 256)
    k.load("gx", x)
    k.op("pto.tcvt", [x, tmp], [y])
    k.store(y, "gy")


@fault("PTO2019", "a2a3", cure="smaller scratch")
def scratch_too_small_for_a_transposition(k: Kernel, wrong: bool) -> None:
    x, y = k.tile("a", "f32", 16, 32), k.tile("y", "f32", 32, 16)
    tmp = k.tile("t", "f32", 32, 8 if wrong else 16)
    k.load("gx", x)
    k.op("pto.ttrans", [x, tmp], [y])
    k.store(y, "gy")


@fault("PTO2019", "a2a3", cure="smaller scratch")
def scratch_too_small_for_exclusive_or(k: Kernel, wrong: bool) -> None:
    x, y = k.tile("a", "i16", 16, 64), k.tile("y", "i16", 16, 64)
    tmp = k.tile("t", "i16", 8 if wrong else 16, 64)
    k.load("gx", x)
    k.op("pto.txor", [x, x, tmp], [y])
    k.store(y, "gy")


@fault("PTO2019", "a2a3", cure="smaller scratch")
def scratch_too_small_for_a_broadcast(k: Kernel, wrong: bool) -> None:
    x, y = k.tile("x", "f32", 16, 64), k.tile("y", "f32", 16, 64)
    column = k.tile("c", "f32", 16, 1, layout="dn")
    tmp = k.tile("t", "f32", 1, 64 if wrong else 128)
    k.load("gx", x)
    k.load("gc", column)
    k.op("pto.trowexpandmul", [x, column, tmp], [y])
    k.store(y, "gy")


@fault("PTO2019", "a2a3", cure="manual page of TQUANT")
def scratch_too_small_for_tquant(k: Kernel, wrong: bool) -> None:
    x, s = k.tile("a", "f32", 16, 64), k.tile("s", "f32", 16, 1, layout="dn")
    q, tmp = k.tile("q", "i8", 16, 64), k.tile("t", "f32", 8 if wrong else 16, 64)
    k.load("gx", x)
    k.load("ones", s)
    k.op("pto.tquant", [x, s], [q, tmp], "quant_type = #pto<quant_type INT8_SYM>")
    k.store(q, "gy")


@fault("PTO7106", "a5", cure="set the mode again", check=True)
def the_control_register_is_overwritten(k: Kernel, wrong: bool) -> None:
    """A microscaling TQUANT clears the HF32 mode that a product behind it was to use."""
    mode = f"pto.sethf32mode ins({k.const(1, 'i32')} : i32)"
    tiles = _mx_tiles(k, 32, 128)
    left, right = k.tile("l", "f32", 16, 16, layout="zz" if k.target == "a2a3" else "nz", loc="left"), k.tile("r", "f32", 16, 16, layout="zn", loc="right")  # fmt: skip
    total = k.tile("acc", "f32", 16, 16, layout="nz", fractal=1024, loc="acc")
    first, second = (k.tile(n, "f32", 16, 16, layout="nz", loc="mat") for n in ("ml", "mr"))
    k.line(mode)
    k.load("gx", tiles[0])
    k.op("pto.tquant", tiles[:1], tiles[1:], "mx_alg = #pto<mx_quant_alg OcpMxFp8E4M3>")
    if not wrong:
        k.line(mode)
    for mat, part in ((first, left), (second, right)):
        k.load("gm", mat, (16, 16))
        k.op("pto.tmov", [mat], [part])
    k.op("pto.tmatmul", [left, right], [total])
    k.store(total, "gy")


def _mx_tiles(k: Kernel, rows: int, cols: int) -> list[Any]:
    groups = rows * cols // 32
    return [
        k.tile("mx", "f32", rows, cols),
        k.tile("mq", "f8E4M3FN", rows, cols),
        k.tile("me", "ui8", 1, groups),
        k.tile("mm", "f32", 1, groups),
        k.tile("ms", "f32", 1, 2 * groups),
    ]


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


@fault("PTO2028", "a2a3", "a5", cure="")
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


# -- what two libraries read differently ------------------------------------------------------------


@fault("PTO7031", "a2a3", "a5", cure="copies", check=False)
def a_block_that_holds_no_copies(k: Kernel, wrong: bool) -> None:
    x, block, y = (
        k.tile("x", "f32", 16, 64),
        k.tile("b", "f32", 16, 8),
        k.tile("y", "f32", 16, 64),
    )
    k.load("gx", x)
    k.load("gb" if wrong else "ones", block)
    k.op("pto.trowexpandadd", [x, block], [y])
    k.store(y, "gy")


@fault("PTO7029", "a5", cure="tcmp", check=True)
def a_mask_of_several_rows_packed_back_to_back(k: Kernel, wrong: bool) -> None:
    rows = 16 if wrong else 1
    x, y = k.tile("x", "f32", rows, 64), k.tile("y", "f32", rows, 64)
    mask, scratch = k.tile("m", "ui8", rows, 32), k.tile("t", "ui8", rows, 32)
    k.load("gx", x)
    k.op("pto.tcmps", [x, ("%one", "f32")], [mask], "cmpMode = #pto<cmp gt>")
    k.op("pto.tsel", [mask, x, x, scratch], [y])
    k.store(y, "gy")


# -- microscaling: actual bytes ---------------------------------------------------------------------


@fault("PTO4001", "a5", cure="59,461")
def a_microscaling_quantisation_over_budget(k: Kernel, wrong: bool) -> None:
    """4.40625 bytes for each f32 element, and one for its code: 45,056 elements fit 248 KiB, 49,152 do not."""
    tiles = _mx_tiles(k, 192 if wrong else 176, 256)
    k.load("gx", tiles[0])
    k.op("pto.tquant", tiles[:1], tiles[1:], "mx_alg = #pto<mx_quant_alg OcpMxFp8E4M3>")
    k.store(tiles[2], "ge")


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


def ran(case: Case, wrong: bool) -> list:
    try:
        program = ptosim.load(text_of(case, wrong), target=case.target)
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


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.check], ids=lambda c: f"{c.name}-{c.target}"
)
def test_it_is_found_without_values(case):
    for wrong in (True, False):
        source = Source("k", text_of(case, wrong))
        args = given(case, wrong)
        found = check_source(source, case.target, args=args, dry_run=True).findings
        codes = {d.code for d in found if d.severity.word != "note"}
        assert (case.code in codes) == wrong, codes
