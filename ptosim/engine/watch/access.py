"""The account of an operation's effects on the shadows of memories: what the sanitizers check and
note."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ptosim.engine.core.bound import Inst
from ptosim.engine.watch.shadow import Footprint, Shadow
from ptosim.ground.ir.core import Operation
from ptosim.ground.records import dataclass
from ptosim.machine.core import Core
from ptosim.machine.effects.account import DEFINED, HIDDEN, Bound, Effects, Reached, effects_of
from ptosim.machine.effects.storage import allocation_of
from ptosim.machine.effects.strided import Strided, Touch, touched_bytes
from ptosim.machine.values import Memory

Shadows = Callable[[Core, Memory], Shadow]
"""Returns the shadow of a space of a core (by name), or of a buffer (by number)."""


@dataclass(slots=True, eq=False)
class Access:
    """Footprints of one binding; see `Effects`."""

    core: Core
    inst: Inst
    reads: tuple[Footprint, ...] = ()
    writes: tuple[Footprint, ...] = ()
    found: tuple[Footprint, ...] = ()
    spoils: tuple[tuple[Footprint, int | None], ...] = ()
    is_atomic: bool = False

    def moved(self, distance: int) -> Access:
        """Return the accesses of the same operation with its window of global memory so many bytes
        farther on."""
        made = Access(self.core, self.inst)
        made.reads = tuple([p.moved(distance) for p in self.reads])
        made.writes = tuple([p.moved(distance) for p in self.writes])
        made.found = tuple([p.moved(distance) for p in self.found])
        made.spoils = self.spoils
        made.is_atomic = self.is_atomic
        return made

    @property
    def all_writes(self) -> tuple[tuple[Footprint, int | None], ...]:
        """What it writes, each with the state that its bytes get (None: they keep it)."""
        return (*[(print_, DEFINED) for print_ in self.writes], *self.spoils)

    @property
    def is_empty(self) -> bool:
        """True if it touches no memory."""
        return not (self.reads or self.writes or self.spoils or self.found)


def access_of(core: Core, inst: Inst, binding: Bound, shadows: Shadows) -> Access:
    """Return the accesses of an instruction with its operands."""
    op = binding.op
    access = noted(core, inst, effects_of(binding), shadows)
    for print_ in access.reads if binding.carried else ():
        print_.is_copied = print_.name in binding.carried
    hidden = hidden_scratch(core, op, binding, shadows)
    if hidden is not None:
        access.spoils += ((hidden, HIDDEN),)
    return access


def noted(core: Core, inst: Inst, found: Effects, shadows: Shadows) -> Access:
    """Return effects as accesses of an instruction."""
    op = inst.op
    access = Access(core, inst)
    access.reads = _footprints(found.reads, op, shadows)
    access.writes = _footprints(found.writes, op, shadows)
    access.found = _footprints(found.found, op, shadows)
    spoils = ((footprint(reached, op, shadows), state) for reached, state in found.spoils)
    access.spoils = tuple((print_, state) for print_, state in spoils if print_ is not None)
    access.is_atomic = found.is_atomic
    return access


def _footprints(
    reached: Iterable[Reached | Touch], op: Operation | None, shadows: Shadows
) -> tuple[Footprint, ...]:
    prints = (footprint(one, op, shadows) for one in reached)
    return tuple(print_ for print_ in prints if print_ is not None)


def footprint(reached: Reached | Touch, op: Operation | None, shadows: Shadows) -> Footprint | None:
    """Return the bytes of an operand that are in its memory; None if there are none."""
    shadow = shadows(reached.core, reached.where)
    if isinstance(reached, Touch):
        parts = touched_bytes(reached, shadow.bytes)
    else:
        parts = tuple(p for p in reached.parts if p.start >= 0 and p.end <= shadow.bytes)
    if not parts:
        return None
    owner = allocation_of(op, reached.operand) if op is not None else None
    return Footprint(shadow, parts, reached.operand, owner)


def hidden_scratch(core: Core, op: Operation, binding: Bound, shadows: Shadows) -> Footprint | None:
    """Return the bytes at a fixed address that the library takes where an operation has no scratch
    tile, neither the program's nor the planner's; None for most."""
    uses = (op.scratch or {}).items()
    takes = (
        u.definition.hidden and u.is_lacking and binding.values.get(n) is None for n, u in uses
    )
    if not any(takes):
        return None
    place = core.machine_def.scratch[0]
    part = Strided(place.start, place.bytes)
    return Footprint(shadows(core, place.space), (part,), "hidden scratch", None)
