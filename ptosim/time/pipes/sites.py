"""Where in a program an operation is."""

from __future__ import annotations

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.records import dataclass


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of the program: its place and the loop around it."""

    line: int
    outer: Loop | None = None

    @property
    def label(self) -> str:
        """Lines of the loop and of those around it, outermost first."""
        prefix = f"{self.outer.label} > " if self.outer is not None else ""
        return f"{prefix}loop at line {self.line}"


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """One instruction of the program: its number, operation, line (1-based), text, innermost
    loop."""

    pc: int
    mnemonic: str
    line: int
    text: str
    loop: Loop | None = None
    file: str = ""


# -- the loops of a program ------------------------------------------------------------------------


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
