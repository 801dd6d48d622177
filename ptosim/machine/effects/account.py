"""The bytes that one execution of an operation reads, writes and leaves undefined.

The operand roles of its row say which; how far says the operation when it is bound (what it has
`covered` of a tile), else the valid regions of its operands. Operations on pointers tell all of it
themselves. A row's `access` adds what roles cannot say.

What operations that the scalar unit executes itself do to memory and registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.types import BLOCK_BITS
from ptosim.ground.isa.schema import Role, ScratchEffect
from ptosim.ground.records import NamedTuple, dataclass, field, replace
from ptosim.machine.core import Core
from ptosim.machine.effects.storage import (
    READ,
    access_entry,
    bound_values,
    destroyed_sources,
    registers,
    scratch_effect,
)
from ptosim.machine.effects.strided import (
    Beyond,
    Strided,
    Touch,
    Touches,
    Window,
    strided,
    tile_bytes,
    view_bytes,
)
from ptosim.machine.layout import round_up
from ptosim.machine.tile import TileRef, tile_ref
from ptosim.machine.values import GmView, Memory, Pointer

UNDEFINED, DEFINED, PADDING, CLOBBERED, SCRATCHED, HIDDEN, TAINTED = range(7)
"""What is known of a byte's value: nothing was written, or a value, or something without meaning
(what an operation writes after the valid elements, destroys in a source, leaves in its scratch,
or in scratch that no operand is, or was computed of such bytes)."""

REGISTER = "register "
"""Registers that several pipes use are memories of their own, with this in front of their name."""
SPECIAL_REGISTER_BYTES = 8


class Reached(NamedTuple):
    """The bytes of an operand: in a space of a core (by name), in a buffer of global memory (by
    number), or a register of a core. They may reach outside the memory."""

    operand: str
    core: Core
    where: Memory
    parts: tuple[Strided, ...]


@dataclass(slots=True, eq=False)
class Effects:
    """What one execution does. `spoils` are bytes that are written with no meaningful value, with
    the state they get (None: they stay as defined as they were); `found` are read whether they have
    values or not; `is_atomic` marks additions that may come in any order. `owners`
    are allocations of operands, once somebody asked for them."""

    reads: list[Reached | Touch] = field(default_factory=list)
    writes: list[Reached | Touch] = field(default_factory=list)
    found: list[Reached | Touch] = field(default_factory=list)
    spoils: list[tuple[Reached | Touch, int | None]] = field(default_factory=list)
    is_atomic: bool = False
    owners: dict[str, Value | None] = field(default_factory=dict)

    def is_of(self, core: Core) -> bool:
        """True if all that is reached is operands of this core."""
        every = (*self.reads, *self.writes, *self.found, *[one for one, _ in self.spoils])
        return all(one.core is core for one in every)


class Bound(Protocol):
    """What is known of an operation with its operands: `semantics.base.binding.Binding`."""

    op: Operation
    core: Core
    values: Mapping[str, Any]
    touches: Touches | None
    made: list[tuple[Core, TileRef]]
    beyond: list[Beyond]
    covered: dict[str, Window]
    copied: list[tuple[Touch, Touch]]
    carried: set[str]
    found: list[Touch]
    done: Callable[[], Sequence[Effects] | None] | None
    effects: Effects | None

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attributes of the row with their values or defaults."""
        ...

    @property
    def target(self) -> str:
        """The target the program runs on."""
        ...


def effects_of(binding: Bound) -> Effects:
    """Return what an operation does to memory and registers."""
    found = _of_pointers(binding) if binding.touches is not None else _of_operands(binding)
    return _with_registers(binding, found)


def effects_after(binding: Bound) -> Sequence[Effects]:
    """Return what an operation did whose data decide what it reaches, step by step; what it may do
    where it was not executed, and has told nothing."""
    told = binding.done() if binding.done is not None else None
    if told is None:
        return (effects_of(binding),)
    return [_with_registers(binding, one) for one in told or (Effects(),)]


def _with_registers(binding: Bound, found: Effects) -> Effects:
    read, written = registers(binding.op, binding.target)
    found.reads += [register(binding.core, name) for name in read]
    found.writes += [register(binding.core, name) for name in written]
    return found


def register(core: Core, name: str) -> Reached:
    """Return a register of a core."""
    return Reached(name, core, REGISTER + name, (Strided(0, SPECIAL_REGISTER_BYTES),))


def _of_pointers(binding: Bound) -> Effects:
    touches = binding.touches
    assert touches is not None
    update = binding.values.get("atomic.op")
    return Effects(
        [*touches.reads],
        [*touches.writes],
        [read for read, _, _ in touches.found],
        [(tail, PADDING) for tail in touches.tails],
        is_atomic=touches.combines or str(getattr(update, "member", update)) == "add",
    )


def _of_operands(binding: Bound) -> Effects:
    op, core, values, target = binding.op, binding.core, binding.values, binding.target
    found = Effects()
    found.is_atomic = binding.attributes.get("atomicType") == "atomic_add"
    _add_beyond(binding, found)  # what is known of a byte inside of an operand says more
    destroyed = destroyed_sources(op, target)
    whole = access_entry(op, "whole", target) or {}
    tail = access_entry(op, "tail", target) or {}
    kept = access_entry(op, "keeps", target) or {}
    for name, role, value in bound_values(op, values):
        reach = whole.get("rows", "all") if name == whole.get("of") else ""
        if reach == "window":
            value, reach = _loaded(value, values.get("src")), ""
        owners = [owner for owner, ref in binding.made if ref is value]
        value = _covered(binding, name, value)
        every = [reached_by(owner, name, value, reach) for owner in owners or (core,)]
        if owners:  # no memory of this core
            found.writes += [one for one in every if one is not None]
            continue
        (reached,) = every
        if reached is None:
            continue
        one = _element(op, reached, value, values, target)
        if one is not None:
            (found.reads if role is Role.IN else found.writes).append(one)
            continue
        is_kept = name == kept.get("of")
        if role is Role.SCRATCH or (is_kept and kept.get("is_whole")):
            _add_scratch(op, reached, target, found)
            continue
        _add_by_role(role, reached, found, is_kept=is_kept and name in binding.covered)
        if name in destroyed:
            found.spoils.append((reached, CLOBBERED))
        if name == tail.get("of"):
            _add_tail(value, reached, found)
    if not found.writes and _is_empty(op, values):
        found.reads.clear()
    copied = [source for source, _ in binding.copied if source.operand not in binding.carried]
    found.found += [*binding.found, *copied]
    return found


def _is_empty(op: Operation, values: Mapping[str, Any]) -> bool:
    """True for an operation whose every destination is a tile without valid elements."""
    kept = (Role.IN, Role.SCRATCH)
    every = [value for _, role, value in bound_values(op, values) if role not in kept]
    return bool(every) and all(isinstance(v, TileRef) and not v.v_row * v.v_col for v in every)


def _add_by_role(role: Role, reached: Reached, found: Effects, *, is_kept: bool) -> None:
    """What is read, unless it `is_kept` around a window, and what is written."""
    if role in READ and not is_kept:
        found.reads.append(reached)
    if role is not Role.IN:
        found.writes.append(reached)


def _covered(binding: Bound, name: str, value: Any) -> Any:
    """The part of a tile that the operation takes, where that is not its valid region."""
    covered = binding.covered.get(name)
    if covered is None or not isinstance(value, TileRef):
        return value
    type_ = value.type
    rows, cols = min(covered.rows, type_.rows), min(covered.cols, type_.cols)
    first = value.layout.offset(covered.row, covered.col) * type_.dtype.bits // 8
    made = tile_ref(type_, value.addr + first, rows, cols)
    if made.layout.strides == value.layout.strides:
        return made
    held = replace(type_, pitch=value.layout.rows)  # an accumulator is as high as its valid rows
    made = tile_ref(held, value.addr + first, rows, cols)
    return made if made.layout.strides == value.layout.strides else value


def _element(
    op: Operation, reached: Reached, value: Any, values: Mapping[str, Any], target: str
) -> Reached | None:
    """The one element that an operation touches, counted in memory order; None for most."""
    entry = access_entry(op, "element", target)
    if entry is None or reached.operand != entry["of"] or not isinstance(value, TileRef):
        return None
    size, at = value.type.dtype.bits // 8, values.get(entry["at"])
    if not isinstance(at, int) or not size:
        return None
    return reached._replace(parts=(Strided(value.addr + at * size, size),))


def _add_beyond(binding: Bound, found: Effects) -> None:
    for beside in binding.beyond:
        reached = Reached(beside.operand, binding.core, beside.space, (beside.part,))
        if beside.spoiled:
            found.spoils.append((reached, PADDING))
        else:
            found.writes.append(reached)


def _add_scratch(op: Operation, reached: Reached, target: str, found: Effects) -> None:
    """Scratch has no meaningful value afterwards where the library uses it; A5 leaves most of it
    alone, and what its operations keep there (group maxima, scales) is a result like others. A
    destination comes here where the operation is a hint, which keeps all of it."""
    is_hint = (access_entry(op, "keeps", target) or {}).get("is_whole", False)
    effect = ScratchEffect.KEPT if is_hint else scratch_effect(op, reached.operand, target)
    if effect is ScratchEffect.USED:
        found.spoils.append((reached, SCRATCHED))
    elif effect is ScratchEffect.KEPT:
        found.spoils.append((reached, None))
    elif effect is ScratchEffect.RESULT:
        found.writes.append(reached)


def reached_by(core: Core, name: str, value: Any, reach: str = "") -> Reached | None:
    """Return the bytes of an operand; None for one that is no memory, or empty. `reach` says how
    far it goes beyond the valid region of a tile: to `all` rows and columns, or to all columns of
    the `valid` rows."""
    if isinstance(value, TileRef):
        if not core.machine_def.has_memory(value.type.loc):
            return None
        rows = value.type.rows if reach == "all" else value.v_row
        cols = value.type.cols if reach else value.v_col
        where: Memory = value.type.loc
        parts = tile_bytes(value, rows, cols)
    elif isinstance(value, GmView) and isinstance(value.memory, int):
        where, parts = value.memory, view_bytes(value.spec, value.offset)
    else:
        return None
    return Reached(name, core, where, parts) if parts else None


def _loaded(ref: Any, view: Any) -> Any:
    """The part of a tile that a window fills: its rows are counted by the window (of a column-major
    tile its columns), how far they go says the tile."""
    if not isinstance(ref, TileRef) or not isinstance(view, GmView):
        return ref
    if ref.type.slayout != "none_box":
        return ref
    s0, s1, s2, s3, s4 = view.spec.sizes
    if view.spec.layout == "nd" and ref.type.blayout == "row_major":
        rows = min(s0 * s1 * s2 * s3, ref.type.rows)
        return tile_ref(ref.type, ref.addr, rows, ref.v_col)
    if view.spec.layout == "dn" and ref.type.blayout == "col_major":
        cols = min(s0 * s1 * s2 * s4, ref.type.cols)
        return tile_ref(ref.type, ref.addr, ref.v_row, cols)
    return ref


def _add_tail(ref: Any, reached: Reached, found: Effects) -> None:
    """Some operations write whole 32-byte blocks: what follows the valid elements in the last block
    of a row gets the pad value of the tile, or no meaningful one."""
    tail = _tail(ref) if isinstance(ref, TileRef) else None
    if tail is None:
        return
    rest = reached._replace(parts=(tail,))
    if ref.type.pad:
        found.writes.append(rest)
    else:
        found.spoils.append((rest, PADDING))


def _tail(ref: TileRef) -> Strided | None:
    type_ = ref.type
    if type_.slayout != "none_box" or type_.loc != "vec":
        return None
    by_rows = type_.blayout == "row_major"
    lines, valid, size = (
        (ref.v_row, ref.v_col, type_.cols) if by_rows else (ref.v_col, ref.v_row, type_.rows)
    )
    bits = type_.dtype.bits
    end = min(round_up(valid, BLOCK_BITS // bits), size)
    if end <= valid or not lines or bits < 8:
        return None
    return strided(ref.addr, valid, ((lines, size), (end - valid, 1)), bits)


# -- operations of the scalar unit -----------------------------------------------------------------


def acts_on_memory(op: Operation, target: str) -> bool:
    """True if an operation of the scalar unit reads or writes memory, or a register that another
    pipe uses."""
    return op.has("reads_memory") or op.has("writes_memory") or any(registers(op, target))


def effects_of_action(core: Core, op: Operation, values: Mapping[str, Any], target: str) -> Effects:
    """Return what an operation does with these operands; nothing of an element whose place is not
    known."""
    found = Effects()
    read, written = registers(op, target)
    found.reads += [register(core, name) for name in read]
    found.writes += [register(core, name) for name in written]
    element = _pointed_at(core, op, values)
    if element is not None and op.has("reads_memory"):
        found.reads.append(element)
    if element is not None and op.has("writes_memory"):
        found.writes.append(element)
    return found


def _pointed_at(core: Core, op: Operation, values: Mapping[str, Any]) -> Reached | None:
    """The element at an offset of a pointer, or of a tile in the order of memory."""
    offset = values.get("offset", 0)
    for name, base in values.items():
        if isinstance(base, Pointer):
            (where, start), elem = base, op.bound[name].type.elem
        elif isinstance(base, TileRef):
            where, start, elem = base.type.loc, base.addr, base.type.dtype
        else:
            continue
        if not isinstance(offset, int) or not isinstance(start, int) or where is None:
            return None
        part = Strided(start + offset * elem.bits // 8, max(elem.bits // 8, 1))
        return Reached(name, core, where, (part,))
    return None
