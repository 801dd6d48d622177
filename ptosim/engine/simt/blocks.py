"""SIMT code of several blocks: threads wait at the start of the block that they go on in. The first
block in the order of control flow that somebody waits for is executed next, so that threads which
went different ways meet again where these join."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ptosim.engine.simt.flow import spend
from ptosim.ground.ir.core import Block, Operation, Region, Value, walk
from ptosim.ground.records import dataclass
from ptosim.ops.simt.arithmetic import merged
from ptosim.ops.simt.frame import Divergence, Frame, Lanes, Run

Slot = Callable[[Value], int]
Choose = Callable[[Frame, Lanes], Sequence[Lanes]]
"""From the threads that leave a block to those of each way on."""


@dataclass(slots=True, eq=False)
class Way:
    """A block to go on in (its place in the order), and what its arguments become."""

    to: int
    sources: list[int]
    targets: list[int]


@dataclass(slots=True, eq=False)
class Part:
    """A block: what runs, the slots that other blocks use, and the ways on, none at the end. `ends`
    copies the values that a function returns."""

    op: Operation | None
    run: Run
    seen: list[int]
    ways: list[Way]
    choose: Choose
    ends: tuple[list[int], list[int]]


def in_order(region: Region) -> list[Block]:
    """Return the blocks that can be reached, each after those that lead to it but by loops."""
    done: list[Block] = []
    entered: set[Block] = set()

    def visit(block: Block) -> None:
        entered.add(block)
        for jump in reversed(block.ops[-1].jumps if block.ops else ()):
            if jump.block not in entered:
                visit(jump.block)
        done.append(block)

    visit(region.blocks[0])
    return done[::-1]


def used_elsewhere(blocks: Sequence[Block]) -> list[list[Value]]:
    """Return for each block the values made in it that others use."""
    uses = []
    for block in blocks:
        ops = walk(block.ops)
        jumps = (o.value for op in ops for jump in op.jumps for o in jump.values)
        uses.append({v for op in ops for v in op.operand_values()} | {v for v in jumps if v})
    return [
        [
            value
            for op in block.ops
            for value in op.results
            if any(value in used for at, used in enumerate(uses) if at != number)
        ]
        for number, block in enumerate(blocks)
    ]


def run_parts(parts: list[Part]) -> Run:
    """Return the function that executes the blocks."""

    def run(frame: Frame) -> None:
        outer = frame.mask
        everybody = np.ones(frame.threads, bool) if outer is None else outer
        waiting: dict[int, Lanes] = {0: everybody}
        apart: Operation | None = None
        while waiting:
            number = min(waiting)
            mask = waiting.pop(number)
            part = parts[number]
            frame.mask = outer if mask is everybody else None if mask.all() else mask
            if apart is not None and frame.mask is not None:
                frame.divergences.append(Divergence(apart, mask, outer))
                _execute(frame, part, mask)
                frame.divergences.pop()
            else:
                _execute(frame, part, mask)
            taken = part.choose(frame, mask)
            for way, lanes in zip(part.ways, taken, strict=True):
                if not lanes.any():
                    continue
                before = waiting.get(way.to)
                waiting[way.to] = lanes if before is None else before | lanes
                _assign(frame, lanes, way.sources, way.targets)
            if len(part.ways) > 1 and sum(1 for lanes in taken if lanes.any()) > 1:
                apart = part.op
            if not part.ways:
                _assign(frame, mask, *part.ends)
            spend(frame, part.op)
        frame.mask = outer

    return run


def _execute(frame: Frame, part: Part, mask: Lanes) -> None:
    """Execute a block; other threads keep what they had."""
    values = frame.values
    before = [values[s] for s in part.seen]
    part.run(frame)
    if frame.mask is not None:
        for slot, old in zip(part.seen, before, strict=True):
            values[slot] = _over(mask, values[slot], old)


def _assign(frame: Frame, mask: Lanes, sources: list[int], targets: list[int]) -> None:
    """Several slots at once, for some threads."""
    values, is_all = frame.values, bool(mask.all())
    found = [values[s] for s in sources]
    for slot, value in zip(targets, found, strict=True):
        values[slot] = value if is_all else _over(mask, value, values[slot])


def _over(mask: Lanes, new: Any, old: Any) -> Any:
    return new if old is None else merged(mask, new, old)
