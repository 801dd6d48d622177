"""Fences, cache maintenance, and barriers over the cores of a launch."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptosim.machine.core import Core
from ptosim.machine.values import GmView, Pointer
from ptosim.ops.base.binding import Binding, OpFault
from ptosim.ops.base.functions import Commit, kernel, nothing
from ptosim.ops.base.orders import MOVES, Barrier, Fence
from ptosim.ops.sync.flags import check_met, give

_KINDS = {"aiv_only": ("vector", "any"), "aic_only": ("cube", "any")}
_WORDS = {"aiv_only": "vector cores", "aic_only": "cube cores"}


@kernel("pto.dcci", "pto.cmo.cacheinvalid", events=True)
def cache_operation(op: Binding) -> Commit:
    """Cache maintenance; the simulator's memory is always up to date."""
    return nothing


@kernel("pto.dsb", "pto.fence.barrier_all", events=True)
def fence(op: Binding) -> Commit:
    """Wait until every move of this core to and from global memory is done. A dsb of the order of
    the scalar unit's own accesses (SEQ), and one of April, wait for nothing here."""
    word = op.values.get("scope")
    if op.op.name == "pto.dsb" and str(getattr(word, "member", word)) in ("SEQ", "None"):
        return nothing
    queues = op.core.queues
    op.sync = Fence(MOVES)
    op.guard = lambda: not any(pipe in queues for pipe in MOVES)
    return nothing


@kernel("pto.syncall", events=True)
def syncall(op: Binding) -> Commit:
    """The cores of the launch that take part meet; each first finishes what it issued. The soft
    form counts arrivals in the first word of its workspace."""
    core, machine = op.core, op.machine
    members = _participants(op)
    if core not in members:
        return nothing
    check_met(op, len(members))
    _check_launch(op)
    where = _workspace(op)
    if where is not None:
        _check_workspace(op, *where)
    scope = machine.global_counters
    name = ("syncall", op.attr("core_type") or "mix", core.rank, where)
    mine = (*name, core.index)
    op.sync = Barrier("ALL")
    op.signals = tuple((*name, core.index, c.index) for c in members)
    op.awaits = tuple((*name, c.index, core.index) for c in members)

    def arrive_once() -> bool:
        if core.queues:
            return False
        done = scope.get((*mine, "done"), 0)
        if scope.get(mine, 0) <= done:
            scope[mine] = done + 1
            _count(op, where, sum(scope.get((*name, c.index), 0) for c in members))
        return all(scope.get((*name, c.index), 0) > done for c in members)

    op.guard = arrive_once
    return give(scope, (*mine, "done"))


def _check_launch(op: Binding) -> None:
    """A hard meeting is one of every core that the chip has of the kinds: with fewer it waits for
    ever, and so does any meeting of more cores than run at once (reports of users of boards)."""
    core, chip = op.core, op.machine.definition
    cubes, vectors = chip.cores
    word = _core_type(op)
    of_kind = {"aiv_only": vectors, "aic_only": cubes}.get(word, cubes + vectors)
    if core.kind == "any" and word not in _KINDS:
        return
    kinds = _KINDS.get(word, (core.kind, "cube", "vector"))
    here = sum(c.rank == core.rank and c.kind in kinds for c in op.machine.cores)
    is_hard = str(getattr(op.values.get("mode"), "member", "")) == "hard"
    if here == of_kind or (not is_hard and here < of_kind):
        return
    cores = f"{of_kind} {_WORDS.get(word, 'cores')}"
    if op.machine.has_values:
        op.report(
            "PTO5216",
            f"is a meeting of {here} core{'s' * (here != 1)}, and the {chip.title} has {cores}",
            notes=("a hard meeting waits for every core of the chip; all run at once",),
            help=f"launch so many blocks that {cores} take part",
        )
    elif is_hard:
        op.report("PTO5217", f"needs a launch of all {cores} of the {chip.title}")


def _participants(op: Binding) -> list[Core]:
    """The cores of the device, of the kinds that the operation names; with `used_cores` the first
    so many of them."""
    kinds = _KINDS.get(_core_type(op))
    cores = [c for c in op.machine.cores if c.rank == op.core.rank]
    found = [c for c in cores if kinds is None or c.kind in kinds]
    count = int(op.scalar("used_cores")) if op.has("used_cores") else 0
    if count > len(found) and not op.machine.has_values:  # how many there are is not known
        op.report("PTO5217", f"needs a launch in which {count} cores take part")
    elif count > len(found):
        raise OpFault(
            "PTO5040",
            f"'{op.op.name}' waits for {count} cores; the launch has {len(found)} of the kind",
            help="launch as many blocks as take part, or leave the number out",
        )
    return found[: count or len(found)]


def _core_type(op: Binding) -> str:
    word = op.values.get("core_type")
    return str(getattr(word, "member", word))


def _workspace(op: Binding) -> tuple[int, int] | None:
    """Buffer and first byte of the words that the soft form counts in."""
    given: Any = op.values.get("gm_workspace")
    if isinstance(given, GmView):
        view = op.view_of(given)
        return view.buffer.number, view.offset * 4
    if isinstance(given, Pointer) and isinstance(given.memory, int):
        return given.memory, int(given.byte)
    return None


def _check_workspace(op: Binding, number: int, byte: int) -> None:
    """Raise OpFault unless the buffer has the word to count in; one of a run without values has
    nothing."""
    buffer = op.machine.buffers[number]
    if not buffer.size or 0 <= byte <= buffer.size - 4:
        return
    raise OpFault(
        "PTO6001",
        f"'{op.op.name}' counts in bytes [{byte}, {byte + 4}) of `{buffer.name}`, which has "
        f"{buffer.size}",
        help="give it a workspace of i32 words, from the first one on",
        context={"buffer": buffer.name},
    )


def _count(op: Binding, where: tuple[int, int] | None, arrived: int) -> None:
    """One more core has arrived: count it in memory, which has to begin at 0."""
    if where is None:
        return
    number, byte = where
    word = op.machine.buffers[number].part(byte, byte + 4).view(np.int32)
    if not len(word):  # a run without values
        return
    if int(word[0]) != arrived - 1:
        op.report(
            "PTO5041",
            f"counts in a workspace that holds {int(word[0])}; {arrived - 1} cores have arrived",
            help="set the workspace to 0 before the launch, and use it for nothing else",
        )
    word[0] = arrived
