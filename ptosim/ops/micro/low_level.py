"""Low-level DMA forms: copies whose controls are fields of registers, and fills of L1.

PTO assembler of August 2026, definitions of the operations; no public program executes one. Words
whose bits are not documented are taken and change nothing.

The older copies, whose operands are all in a row and whose loops are in registers.

PTO micro-instruction specification, data movement, older operations. The loop registers belong to
these copies only; the newer ones have loops of their own and ignore them."""

from __future__ import annotations

import numpy as np

from ptosim.machine.core import SLOT_LOOPS, SLOT_STORES, Core
from ptosim.ops.base.binding import Binding
from ptosim.ops.base.functions import STATE, Commit, kernel, nothing, value
from ptosim.ops.base.orders import Action, ValueContext
from ptosim.ops.micro.dma import (
    Copy,
    check_sizes,
    copied,
    gapped,
    pad_bits,
    padded,
    set_registers,
    widened,
)
from ptosim.ops.micro.matrix import as_fractals
from ptosim.ops.micro.pointers import place, require_each, writes

# -- older copies, with loops in registers ---------------------------------------------------------

_SIZE_OPS = ("pto.set_loop_size_outtoub", "pto.set_loop_size_ubtoout")
_STRIDE_OPS = tuple(
    f"pto.set_loop{n}_stride_{way}" for n in (1, 2) for way in ("outtoub", "ubtoout")
)


@value(*_SIZE_OPS, *_STRIDE_OPS)
def loop_registers(ctx: ValueContext) -> Action:
    """How often loop 1 and loop 2 run around a copy (1 is no loop), or by how many bytes a round of
    one of them advances source and destination."""
    head, _, way = ctx.op.name.rpartition("_")
    number = head.removeprefix("pto.set_loop")[0]
    names = {"loop1": "count1", "loop2": "count2"}
    if ctx.op.name in _STRIDE_OPS:
        names = {"src_stride": f"src{number}", "dst_stride": f"dst{number}"}
    given = {f"{way}_{register}": ctx.slots[name] for name, register in names.items()}

    def run(core: Core) -> None:
        set_registers(core, {name: core.slots[slot] for name, slot in given.items()})

    return run


@value("pto.set_mov_pad_val")
def pad_register(ctx: ValueContext) -> Action:
    """The value that the older copies from global memory pad with."""
    slot, type_ = ctx.slots["value"], ctx.op.bound["value"].type

    def run(core: Core) -> None:
        set_registers(core, {"pad": pad_bits(core.slots[slot], type_)})

    return run


def _looped(op: Binding, way: str) -> Copy:
    """A copy by bytes inside the two loops of the registers."""
    source, target = place(op, "src"), place(op, "dst")
    values, registers = op.values, dict(op.values["loops"] or ())
    levels = [(values["count"], values["src_stride"], values["dst_stride"])]
    levels += [
        (
            registers.get(f"{way}_count{n}", 1),
            registers.get(f"{way}_src{n}", 0),
            registers.get(f"{way}_dst{n}", 0),
        )
        for n in (1, 2)
    ]
    copy = Copy(source, target, values["length"], levels)
    check_sizes(op, copy)
    return copy


STATE["pto.copy_gm_to_ubuf"] = (("loops", SLOT_LOOPS),)
STATE["pto.copy_ubuf_to_gm"] = (("loops", SLOT_LOOPS), ("stores", SLOT_STORES))


@kernel("pto.copy_gm_to_ubuf")
def copy_gm_to_ubuf(op: Binding) -> Commit:
    """GM to UB by bytes; with counts of padding the value of set_mov_pad_val around each burst."""
    copy = _looped(op, "outtoub")
    left, right = op.values["left_pad"], op.values["right_pad"]
    if not left and not right:
        return copied(op, copy)
    bits = dict(op.values["loops"] or ()).get("pad")
    if bits is None:
        op.report(
            "PTO6606", "has padding counts, but no operand names the value; nothing is padded"
        )
        return copied(op, copy)
    return padded(op, copy, (left, right), bits)


@kernel("pto.copy_ubuf_to_gm")
def copy_ubuf_to_gm(op: Binding) -> Commit:
    """UB to GM by bytes."""
    return copied(op, _looped(op, "ubtoout"))


@kernel(
    "pto.copy_gm_to_cbuf",
    "pto.copy_ubuf_to_cbuf",
    "pto.copy_cbuf_to_ubuf",
    "pto.copy_ubuf_to_ubuf",
)
def copy_units(op: Binding) -> Commit:
    """Between GM or UB and L1, in units of 32 bytes with gaps; L1 to the UB of the vector core
    named."""
    values = op.values
    source = place(op, "src")
    target = place(op, "dst", values.get("subblock"))
    gaps = (values["src_gap"], values["dst_gap"])
    return copied(op, gapped(source, target, values["count"], values["length"], gaps))


# -- low-level copies ------------------------------------------------------------------------------


_UNKNOWN = (
    "set_loop1_stride_outtol1", "set_loop2_stride_outtol1", "set_loop_size_outtol1",
    "set_pad_val_outtol1", "set_quant_pre", "set_relu_alpha", "set_fix_clip_relu", "set_fpc",
    "set_loop3_para", "set_channel_para",
)  # fmt: skip


@value(*(f"pto.{name}" for name in _UNKNOWN))
def unknown(ctx: ValueContext) -> Action:
    """Registers whose bits no document explains."""
    return lambda core: None


@kernel("pto.copy_matrix_cc_to_gm", "pto.copy_matrix_cc_to_cbuf", "pto.copy_matrix_cc_to_ub")
def unknown_way_out(op: Binding) -> Commit:
    """An accumulator on its way out, as two words say that no document explains."""
    op.report("PTO2138", "is not modelled: its destination stays as it is")
    return nothing


# -- copies as fractals ----------------------------------------------------------------------------


@value("pto.set_mte2_nz_para")
def set_fractal_controls(ctx: ValueContext) -> Action:
    """16 bits each: groups, and from 32 bytes to 32 bytes the strides of rows, column blocks and
    groups."""
    slot = ctx.slots["value"]

    def run(core: Core) -> None:
        set_registers(core, {"fractals": core.slots[slot]})

    return run


@kernel("pto.copy_gm_to_cbuf_multi_nd2nz", "pto.copy_gm_to_cbuf_multi_dn2nz")
def fractals_by_registers(op: Binding) -> Commit:
    """GM to L1 as fractals, groups and strides of the destination as set_mte2_nz_para says."""
    values = op.values
    word = dict(values["registers"] or ()).get("fractals", 1)
    groups, *strides = (word >> shift & 0xFFFF for shift in (0, 16, 32, 48))
    return as_fractals(
        op,
        (groups, values["n"], values["d"]),
        (values["outer"], values["inner"]),
        [stride * 32 for stride in reversed(strides)],
        by_rows=op.op.name.endswith("nd2nz"),
        small=values["small_c0"],
    )


STATE["pto.copy_gm_to_cbuf_multi_nd2nz"] = (("registers", SLOT_LOOPS),)
STATE["pto.copy_gm_to_cbuf_multi_dn2nz"] = (("registers", SLOT_LOOPS),)


# -- tables ----------------------------------------------------------------------------------------


@kernel("pto.copy_cbuf_to_bt")
def to_bias_table(op: Binding) -> Commit:
    """L1 to the bias table, in units of 32 source bytes; with `convert` 16-bit floats become
    f32."""
    if op.values["convert"]:
        return widened(op, *_bursts(op))
    count, length, gaps = _bursts(op)
    return copied(op, gapped(place(op, "src"), place(op, "dst"), count, length, gaps))


@kernel("pto.copy_cbuf_to_fbuf")
def to_parameters(op: Binding) -> Commit:
    """L1 to the buffer of fixpipe parameters, in units of 64 bytes."""
    count, length, gaps = _bursts(op)
    return copied(op, gapped(place(op, "src"), place(op, "dst"), count, length, gaps, 64))


def _bursts(op: Binding) -> tuple[int, int, tuple[int, int]]:
    values = op.values
    return values["count"], values["length"], (values["src_gap"], values["dst_gap"])


# -- filling ---------------------------------------------------------------------------------------


@kernel("pto.raw_fill_l1", "pto.create_cbuf_matrix")
def fill(op: Binding) -> Commit:
    """Runs of blocks of 32 bytes in L1, each full of a word of 32 or 16 bits."""
    values, bits = op.values, op.attr("fill_word_bits")
    count, blocks, gap = (values[name] for name in ("repeat_times", "blocks", "gap"))
    if count <= 0 or blocks <= 0:
        return nothing
    target = place(op, "dst")
    start = target.start + values.get("byte_offset", 0)
    target, size, step = target._replace(start=start), blocks * 32, (blocks + gap) * 32
    require_each(op, target, size, (count, step))
    writes(op, target, size, (count, step))
    kind = np.dtype(f"<u{bits // 8}")
    pattern = np.full(32 // kind.itemsize, values["raw"] & (1 << bits) - 1, kind).view(np.uint8)
    runs = target.array((count, blocks, 32), np.uint8, (step, 32, 1))

    def store() -> None:
        runs[:] = pattern

    return store
