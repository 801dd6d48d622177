"""Which loops of a program its operations are in."""

from __future__ import annotations

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.time.pipes.sites import Loop


def loops_of(resolved: ResolvedModule) -> dict[Operation, Loop]:
    """Return the innermost loop of each operation that is in one."""
    found: dict[Operation, Loop] = {}

    def walk(op: Operation, loop: Loop | None) -> None:
        if "loop" in op.traits:
            line, _ = resolved.module.source.line_column(op.start)
            loop = Loop(line, loop)
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    if loop is not None:
                        found[inner] = loop
                    walk(inner, loop)

    for function in resolved.functions.values():
        walk(function.op, None)
    return found
