"""Whether the blocks of a launch keep apart in global memory, as far as the scalar unit's part of
a program tells: it is executed for each of them, and of each transfer the window is noted.

Following a launch with all that orders it takes tens of times as long, so this is asked first.
What has more than transfers of views, operations on tiles, flags and numbers has no answer here,
nor have blocks that meet: what orders them is asked then."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from ptosim.engine.core.binder import executing
from ptosim.engine.core.bound import Inst, Kind
from ptosim.engine.core.runners import ScalarFault
from ptosim.ground.ir.core import Clause, Operand, Operation
from ptosim.ground.ir.types import ScalarType, TileType
from ptosim.launch.launch import Launch
from ptosim.machine.affine import NeedsValue
from ptosim.machine.core import Core
from ptosim.machine.effects.account import acts_on_memory
from ptosim.machine.effects.ranges import intervals, meeting, union
from ptosim.machine.effects.strided import view_bytes
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import OpFault

_MOST = 100_000
"""Instructions of the scalar unit, of all blocks together: more are better followed, for then
rounds are left out."""

Windows = dict[int, set[GmView]]
"""Windows by the number of their buffer."""


class _Open(Exception):
    """There is no answer here."""


def keep_apart(launch: Launch) -> bool:
    """True if no block of a launch without values reaches a byte that another one writes; False
    where they do, and where that cannot be told."""
    written: dict[int, Windows] = {}
    read: dict[int, Windows] = {}
    plans = [_plan(inst, launch.front.target) for inst in launch.program.insts]
    left = _MOST
    try:
        with executing():
            for core in launch.machine.cores:
                block = core.cluster.block
                both = read.setdefault(block, {}), written.setdefault(block, {})
                left = _walk(core, launch.program.insts, plans, both, left)
            return not _meet(written, read)
    except (_Open, NeedsValue, OpFault, ScalarFault):
        return False


def _walk(
    core: Core, insts: list[Inst], plans: list[Any], both: tuple[Windows, Windows], left: int
) -> int:
    """Execute the scalar unit's part of a core; return how many instructions are left."""
    slots, pc = core.slots, core.pc
    while pc >= 0:
        left -= 1
        if left < 0:
            raise _Open
        inst, plan = insts[pc], plans[pc]
        if plan is _PASS:
            pc += 1
        elif inst.kind is Kind.SCALAR:
            inst.run(slots)
            pc += 1
        elif inst.kind is Kind.BRANCH:
            pc = inst.run(slots)
        elif inst.kind is Kind.ACTION and plan is _RUN:
            core.pc = pc
            inst.run(core)
            pc += 1
        elif plan.__class__ is bool:
            view = inst.getter(slots)[inst.window]
            if view.__class__ is not GmView or view.memory.__class__ is not int:
                raise _Open
            both[plan].setdefault(view.memory, set()).add(view)
            pc += 1
        else:
            raise _Open
    return left


_PASS, _RUN = "pass", "run"


def _plan(inst: Inst, target: str) -> Any:
    """What is done with an instruction: passed by, executed, or whether its window is written; None
    where there is no answer."""
    op = inst.op
    if inst.kind in (Kind.SCALAR, Kind.BRANCH):
        return _RUN
    if op is None or inst.kind not in (Kind.ACTION, Kind.EXEC) or op.has("handshake"):
        return None
    if inst.kind is Kind.ACTION:
        return None if acts_on_memory(op, target) else _RUN
    if inst.window is not None:
        return op.has("fixpipe") if op.has("fixpipe") or op.has("loads_tile") else None
    if op.has("sync") or _is_on_chip(op):
        return _PASS
    return None


def _is_on_chip(op: Operation) -> bool:
    """True for an operation on tiles and numbers alone, which no other core has a part in."""
    if op.results or op.has("one_side") or op.has("cross_core"):
        return False
    types = [operand.type for bound in op.bound.values() for operand in _operands(bound)]
    allowed = TileType, ScalarType, type(None)
    return any(isinstance(t, TileType) for t in types) and all(
        isinstance(t, allowed) for t in types
    )


def _operands(bound: Any) -> Iterator[Operand]:
    """The operands that are bound to a name of a row."""
    if isinstance(bound, Operand):
        yield bound
    elif isinstance(bound, Clause):
        yield from (each for each in bound.operands.values() if each is not None)
    elif isinstance(bound, list):
        for each in bound:
            yield from _operands(each)


def _meet(written: dict[int, Windows], read: dict[int, Windows]) -> bool:
    """True if two blocks meet in a buffer."""
    buffers = {number for windows in written.values() for number in windows}
    for number in buffers:
        writers, readers = (
            {block: windows[number] for block, windows in of.items() if number in windows}
            for of in (written, read)
        )
        if _are_in_a_row(writers, readers):
            continue
        sets = [[(b, _bytes(views)) for b, views in of.items()] for of in (writers, readers)]
        if meeting(*sets) is not None:
            return True
    return False


def _are_in_a_row(writers: dict[int, set[GmView]], readers: dict[int, set[GmView]]) -> bool:
    """True if each block has a stretch of a buffer of its own."""
    ends = []
    for block in writers.keys() | readers.keys():
        views = writers.get(block, set()) | readers.get(block, set())
        spans = [view.span() for view in views if 0 not in view.spec.sizes]
        if spans:
            ends.append((min(low for low, _ in spans), max(high for _, high in spans)))
    ends.sort()
    return all(high <= low for (_, high), (low, _) in pairwise(ends))


def _bytes(views: set[GmView]) -> np.ndarray:
    """The bytes of windows; those of one shape differ in where they begin."""
    groups: dict[Any, list[int]] = {}
    for view in views:
        groups.setdefault(view.spec, []).append(view.offset)
    sets = []
    for spec, offsets in groups.items():
        first = GmView(spec, 0, min(offsets))
        if first.span()[0] < 0 or spec.dtype.bits % 8:
            raise _Open
        rows = intervals(view_bytes(spec, first.offset))
        apart = (np.array(offsets, np.int64) - first.offset) * (spec.dtype.bits // 8)
        sets.append((rows[None] + apart[:, None, None]).reshape(-1, 2))
    return union(sets)
