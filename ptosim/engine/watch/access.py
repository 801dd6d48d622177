"""The account of an operation's effects on the shadows of memories: what the sanitizers check and
note; and which bytes of its loads a vector region uses, as far as its text shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ptosim.engine.core.bound import Inst
from ptosim.engine.watch.shadow import Footprint, Shadow
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.records import NamedTuple, dataclass
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


# -- vector regions --------------------------------------------------------------------------------
#
# What the text of a vector region shows of its loads: which of them use all bytes that they read,
# and which stores they feed.
#
# A load of 256 bytes at the end of an array reads more than there is, and a mask leaves those
# lanes out later. A load uses its register whole if the text shows it: every lane reaches a store
# or a reduction under a mask with all lanes set, or under none.


def loads_used_whole(region: Operation) -> set[Operation]:
    """Return the loads of a region whose every lane is used."""
    users = _users(region)
    _, *ops = region.walk()
    return {
        op
        for op in ops
        if op.has("loads")
        and not op.has("indexed")
        and any(_is_used_whole(value, users) for value in op.results)
    }


def _users(region: Operation) -> dict[Value, list[Operation]]:
    users: dict[Value, list[Operation]] = {}
    _, *ops = region.walk()
    for op in ops:
        for value in op.operand_values():
            users.setdefault(value, []).append(op)
    return users


def _is_used_whole(value: Value, users: dict[Value, list[Operation]]) -> bool:
    waiting, seen = [value], set[Value]()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        for op in users.get(value, ()):
            if _leaves_out(op):
                continue
            if op.has("reduces"):
                return True
            if not op.has("stores") or "align" in op.bound:
                waiting += op.results
            elif not _is_point(op):
                return True
    return False


def _leaves_out(op: Operation) -> bool:
    """True if an operation may leave lanes out, or hands them on in a way that is not followed."""
    mask = getattr(op.bound.get("mask"), "value", None)
    if op.has("picks_lanes"):
        return True
    if mask is None:
        return bool(op.regions) or op.has("yields") or op.has("selects")
    pattern = getattr(mask.owner.bound.get("pattern"), "const", None) if mask.owner else None
    return str(getattr(pattern, "member", pattern)) != "PAT_ALL"


class Fed(NamedTuple):
    """How a store gets what a load read: in the same lanes, or a round of a loop later."""

    by_lanes: bool
    later: bool


def stores_fed(region: Operation) -> dict[Operation, dict[Operation, Fed]]:
    """Return for each load of a region the stores of it that what it read takes part in."""
    users = _users(region)
    return {op: _fed_by(op, users) for op in region.walk() if op.has("loads")}


def _fed_by(load: Operation, users: dict[Value, list[Operation]]) -> dict[Operation, Fed]:
    found: dict[Operation, Fed] = {}
    known: dict[Value, Fed] = {}
    waiting = [(value, Fed(by_lanes=True, later=False)) for value in load.results]
    while waiting:
        value, fed = waiting.pop()
        before = known.get(value)
        if before is not None:
            fed = Fed(before.by_lanes and fed.by_lanes, before.later or fed.later)
            if fed == before:
                continue
        known[value] = fed
        for op in users.get(value, ()):
            if op.has("stores"):
                found[op] = fed
            waiting += _handed_on(op, fed)
    return found


def _handed_on(op: Operation, fed: Fed) -> Iterator[tuple[Value, Fed]]:
    """What an operation makes of a value; a loop gives what it yields to its next round."""
    around = op.parent if op.has("yields") else None
    if around is not None:
        later = fed.later or around.has("loop")
        values = [*around.results]
        if around.has("loop"):
            values += [v for r in around.regions for b in r.blocks for v in b.values]
        for value in values:
            yield value, Fed(fed.by_lanes, later)
    by_lanes = fed.by_lanes and not (op.has("picks_lanes") or op.has("reduces"))
    for value in op.results:
        yield value, Fed(by_lanes, fed.later)


def _is_point(op: Operation) -> bool:
    """True for a store of one lane."""
    return "1PT" in str(op.attrs.get("dist", ""))
