"""Which operations have an expansion."""

from __future__ import annotations

from collections.abc import Callable

from ptosim.ground.ir.core import Operation
from ptosim.ops.lower.writer import Writer

Maker = Callable[[Operation, Writer], None]
EXPANSIONS: dict[str, Maker] = {}


def expansion(*names: str) -> Callable[[Maker], Maker]:
    """Register the function that writes the region of operations. It raises `NotExpandable` with
    the reason where the vector unit has no instructions that give the same bytes."""

    def register(maker: Maker) -> Maker:
        for name in names:
            EXPANSIONS[name] = maker
        return maker

    return register
