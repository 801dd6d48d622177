"""The older copies, whose operands are all in a row and whose loops are in registers.

PTO micro-instruction specification, data movement, older operations. The loop registers belong to
these copies only; the newer ones have loops of their own and ignore them."""

from __future__ import annotations

from ptosim.machine.core import SLOT_LOOPS, SLOT_STORES, Core
from ptosim.semantics.base.binding import Binding
from ptosim.semantics.base.functions import STATE, Commit, kernel, nothing, value
from ptosim.semantics.base.scalar_unit import Action, ValueContext
from ptosim.semantics.micro.dma import Copy, copied, gapped
from ptosim.semantics.micro.pointers import place

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
        # A new tuple each time, so that copies are bound to the values that they were issued with.
        slots = core.slots
        registers = {name: slots[slot] for name, slot in given.items()}
        slots[SLOT_LOOPS] = tuple(sorted((dict(slots[SLOT_LOOPS] or ()) | registers).items()))

    return run


def _looped(op: Binding, way: str) -> Commit:
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
    return copied(op, Copy(source, target, values["length"], levels))


STATE["pto.copy_gm_to_ubuf"] = (("loops", SLOT_LOOPS),)
STATE["pto.copy_ubuf_to_gm"] = (("loops", SLOT_LOOPS), ("stores", SLOT_STORES))


@kernel("pto.copy_gm_to_ubuf")
def copy_gm_to_ubuf(op: Binding) -> Commit:
    """GM to UB by bytes."""
    if op.values["left_pad"] or op.values["right_pad"]:
        op.report(
            "PTO6606", "has padding counts, but no operand names the value; nothing is padded"
        )
    return _looped(op, "outtoub")


@kernel("pto.copy_ubuf_to_gm")
def copy_ubuf_to_gm(op: Binding) -> Commit:
    """UB to GM by bytes."""
    return _looped(op, "ubtoout")


@kernel("pto.copy_gm_to_cbuf", "pto.copy_ubuf_to_cbuf", "pto.copy_cbuf_to_ubuf")
def copy_units(op: Binding) -> Commit:
    """Between GM or UB and L1, in units of 32 bytes with gaps; L1 to the UB of the vector core
    named."""
    values = op.values
    source = place(op, "src")
    target = place(op, "dst", values.get("subblock"))
    gaps = (values["src_gap"], values["dst_gap"])
    return copied(op, gapped(source, target, values["count"], values["length"], gaps))


@kernel("pto.load_cbuf_to_ca")
def load_cbuf_to_ca(op: Binding) -> Commit:
    """L1 to L0A, by fractals of 512 bytes: (m, k) from (m_start + m, k_start + k)."""
    source, target = place(op, "src"), place(op, "dst")
    m_start, k_start, m_step, k_step, src_stride, dst_stride = (
        op.values[n] for n in ("m_start", "k_start", "m_step", "k_step", "src_stride", "dst_stride")
    )
    if m_step <= 0 or k_step <= 0:
        return nothing
    start = source.start + (k_start * src_stride + m_start) * 512
    levels = [(m_step, 512, 512), (k_step, src_stride * 512, dst_stride * 512)]
    return copied(op, Copy(source._replace(start=start), target, 512, levels))
