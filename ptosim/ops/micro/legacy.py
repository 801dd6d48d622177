"""The older copies, whose operands are all in a row and whose loops are in registers.

PTO micro-instruction specification, data movement, older operations. The loop registers belong to
these copies only; the newer ones have loops of their own and ignore them."""

from __future__ import annotations

from ptosim.machine.core import SLOT_LOOPS, SLOT_STORES, Core
from ptosim.ops.base.binding import Binding
from ptosim.ops.base.context import Action, ValueContext
from ptosim.ops.base.functions import STATE, Commit, kernel, value
from ptosim.ops.micro.dma import Copy, copied, gapped, pad_bits, padded, set_registers
from ptosim.ops.micro.pointers import place

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
    return Copy(source, target, values["length"], levels)


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
