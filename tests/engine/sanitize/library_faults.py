"""Faults that come from what the library's code for A2/A3 and A5 does with its operands: hidden and too
small scratch, sources that it destroys, the control register, operands that two libraries read
differently, budgets of microscaling."""

from __future__ import annotations

from typing import Any

from tests.engine.sanitize.faults import CASES, fault
from tests.support.text import Kernel

__all__ = ["CASES"]


# -- what the library does on the side --------------------------------------------------------------


@fault("PTO7105", "a2a3", cure="tmp")
def hidden_scratch_over_a_live_tile(k: Kernel, wrong: bool) -> None:
    """A broadcast of a column takes 8 KiB at 184 KiB where it has no scratch tile."""
    at = 184 * 1024 if wrong else 180 * 1024
    live = k.tile("a", "f32", 16, 64, addr=at)
    x, q = k.tile("x", "f32", 16, 64, addr=0), k.tile("q", "f32", 16, 64, addr=4096)
    column = k.tile("c", "f32", 16, 1, layout="dn", addr=12288)
    y = k.tile("y", "f32", 16, 64, addr=8192)
    k.load("gx", live)
    k.load("gx", x)
    k.load("gc", column)
    k.op("pto.trowexpandmul", [x, column], [q])
    k.op("pto.tadd", [live, live], [y])
    k.store(y, "gy")
    k.store(q, "gp")


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
    x, row = k.tile("a", "f32", 16, 64), k.tile("row", "f32", 1, 16)
    q, y = k.tile("q", "i8", 16, 64), k.tile("y", "f32", 16, 64)
    k.load("gx", x)
    k.op("pto.texpands", [("%one", "f32")], [row])
    s = k.alias("pto.treshape", "s", row, rows=16, cols=1, blayout="col_major")
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


@fault("PTO2037", "a2a3", cure="smaller scratch")
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
def scratch_too_small_for_a_narrow_conversion(k: Kernel, wrong: bool) -> None:
    x, y = k.tile("a", "f16", 16, 64), k.tile("y", "i8", 16, 64)
    tmp = k.tile("t", "f32", 1, 56 if wrong else 64)
    k.load("gx", x)
    k.op("pto.tcvt", [x, tmp], [y])
    k.store(y, "gy")


@fault("PTO2019", "a2a3", cure="smaller scratch")
def scratch_without_a_row_behind_the_last(k: Kernel, wrong: bool) -> None:
    valid = (16 if wrong else 15, 64)
    x, slope, y = (k.tile(n, "f32", 16, 64, valid) for n in ("a", "s", "y"))
    tmp = k.tile("t", "ui8", 16, 64, valid)
    k.load("gx", x)
    k.load("gx", slope)
    k.op("pto.tprelu", [x, slope, tmp], [y])
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


@fault("PTO2016", "a2a3", cure="smaller scratch")
def scratch_too_small_for_tquant(k: Kernel, wrong: bool) -> None:
    x, s = k.tile("a", "f32", 16, 64), k.tile("s", "f32", 16, 1, layout="dn")
    q, tmp = k.tile("q", "i8", 16, 64), k.tile("t", "f32", 8 if wrong else 16, 64)
    k.load("gx", x)
    k.load("ones", s)
    k.op("pto.tquant", [x, s], [q, tmp], "quant_type = #pto<quant_type INT8_SYM>")
    k.store(q, "gy")


@fault("PTO7106", "a5", cure="set the mode again", check=True)
def the_control_register_is_overwritten(k: Kernel, wrong: bool) -> None:
    """A microscaling TQUANT clears the HF32 mode that a product after it was to use."""
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


@fault("PTO4001", "a5", cure="59,461", options={"compat": "2026-04"})
def a_microscaling_quantisation_over_budget(k: Kernel, wrong: bool) -> None:
    """4.40625 bytes for each f32 element, and one for its code: 45,056 elements fit 248 KiB, 49,152 do not."""
    tiles = _mx_tiles(k, 192 if wrong else 176, 256)
    k.load("gx", tiles[0])
    k.op("pto.tquant", tiles[:1], tiles[1:], "mx_alg = #pto<mx_quant_alg OcpMxFp8E4M3>")
    k.store(tiles[2], "ge")
