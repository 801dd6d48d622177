"""How often each instruction of a vector region is executed, told from its control flow alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ptosim.engine.records import DecodedProgram, Inst, Kind
from ptosim.engine.unknown import NeedsValue
from ptosim.ir.core import Operation
from ptosim.ir.types import VRegType
from ptosim.timing.shapes import VectorWork

MAX_STEPS = 10_000_000


def region_work(program: DecodedProgram, region: Inst, slots: list[Any]) -> VectorWork:
    """Return what a vector region executes on these values. Where control flow depends on vector
    data, every instruction counts once and the result says that it is not exact."""
    values = list(slots)
    counts: Counter[int] = Counter()
    pc = region.pc + 1
    exact = True
    try:
        for _ in range(MAX_STEPS):
            if pc == region.end:
                break
            inst = program.insts[pc]
            if inst.kind is Kind.BRANCH:
                pc = inst.run(values)  # type: ignore[misc]
                continue
            if inst.kind is Kind.SCALAR:
                inst.run(values)  # type: ignore[misc]
            else:
                counts[pc] += 1
            pc += 1
    except (TypeError, NeedsValue):
        exact = False
        counts = Counter(
            i.pc for i in program.insts[region.pc + 1 : region.end] if i.kind is Kind.VECTOR
        )
    insts = [program.insts[pc] for pc in sorted(counts)]
    makers: dict[Any, int] = {}
    rows = []
    for number, inst in enumerate(insts):
        op = inst.op
        assert op is not None
        sources = {makers[v] for v in _operands(op) if v in makers}
        name = op.name.removeprefix("pto.")
        rows.append((name, _bits(op), counts[inst.pc], tuple(sorted(sources))))
        makers.update(dict.fromkeys(op.results, number))
    return VectorWork(tuple(rows), exact)


def _operands(op: Operation) -> list[Any]:
    bound = [o for b in op.bound.values() for o in (b if isinstance(b, list) else [b])]
    return [o.value for o in bound if getattr(o, "value", None) is not None]


def _bits(op: Operation) -> int:
    """Bits of the widest element among the vector results and operands."""
    types = [v.type for v in (*op.results, *_operands(op))]
    return max((t.elem.bits for t in types if isinstance(t, VRegType)), default=32)
