"""Operations of SIMT launches that the scalar unit executes, and operations of SIMT code in
ordinary code, where they act as for one thread."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operand, Operation
from ptosim.machine.core import Core
from ptosim.machine.simt import LAUNCH_REGISTERS
from ptosim.ops.base.context import Action, ValueContext
from ptosim.ops.base.functions import OF_THREADS, load, value
from ptosim.ops.simt.frame import LANE_OPS, Frame, LaneContext, uniform
from ptosim.ops.simt.memory import LaneMemory

ALONE = (
    "pto.load", "pto.store",
    *(f"pto.atomic_{w}" for w in ("exch", "add", "sub", "min", "max", "and", "or", "xor", "cas")),
)  # fmt: skip


@value("pto.store_vfsimt_info")
def store_vfsimt_info(ctx: ValueContext) -> Action:
    """The threads of the calls of SIMT functions after it."""
    slots = [ctx.slots[name] for name in ("x", "y", "z")]

    def run(core: Core) -> None:
        for name, slot in zip(LAUNCH_REGISTERS, slots, strict=True):
            core.registers[name] = core.slots[slot]

    return run


@value(*ALONE)
def of_one_thread(ctx: ValueContext) -> Action:
    """What one thread of a launch does."""
    op = ctx.op
    load([op.name + OF_THREADS])
    taken, slots, initial = _slots(op, ctx.slots)
    results = tuple(range(len(initial), len(initial) + len(op.results)))
    initial += [None] * len(results)
    step = LANE_OPS[op.name](LaneContext(op, slots, results, ctx.profile))

    def run(core: Core) -> None:
        values = list(initial)
        for at, slot, type_ in taken:
            values[at] = uniform(core.slots[slot], type_)
        frame = Frame(core, ctx.machine, op, None, _nobody, (1, 1, 1), values)
        frame.memory = LaneMemory(frame, watched=False)
        with np.errstate(all="ignore"):
            step(frame)
        for at, slot in zip(results, ctx.results, strict=True):
            core.slots[slot] = _plain(values[at])

    return run


def _slots(op: Operation, outer: dict[str, Any]) -> tuple[list[Any], dict[str, Any], list[Any]]:
    """The operands in slots of their own: what they are filled from, by name, and empty."""
    taken, slots, initial = [], {}, []
    for name, bound in op.bound.items():
        if isinstance(bound, Operand) and outer.get(name) is not None:
            slots[name] = len(initial)
            taken.append((len(initial), outer[name], bound.type))
            initial.append(None)
        else:
            slots[name] = None
    return taken, slots, initial


def _plain(value: Any) -> Any:
    """The value of one thread as the scalar unit has it."""
    if value.ndim > 1:
        return tuple(value[:, 0].tolist())
    return float(value[0]) if value.dtype.kind not in "iub" else value[0].item()


def _nobody(found: object) -> None:
    """Findings of one thread alone there are none."""
