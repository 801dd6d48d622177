"""The bytes that one execution of an operation reads, writes and leaves undefined.

The operand roles of its row say which; how far says the operation when it is bound (what it has
`covered` of a tile), else the valid regions of its operands. Operations on pointers tell all of it
themselves. A row's `access` adds what roles cannot say.

What operations that the scalar unit executes itself do to memory and registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Protocol

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.types import BLOCK_BITS
from ptosim.ground.isa.schema import Role, ScratchEffect
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.machine.core import Core
from ptosim.machine.effects.storage import (
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

# What the `access` of a row adds to the roles of its operands: sources that the library destroys,
# scratch that it uses, pairs of events and registers of its own, a destination that keeps what is
# around the window that is written.

# The operands of an operation and what it does with each: its row says, by role.

READ = (Role.IN, Role.INOUT)
WRITTEN = (Role.OUT, Role.INOUT)
"""Roles of operands whose content an operation reads and of those that are its results; scratch is
neither."""


@lru_cache(maxsize=4096)
def roles(op: Operation) -> tuple[tuple[str, Role], ...]:
    """Return what an operation does with each of its operands, in the order of its row."""
    operands = op.variant.operands if op.variant is not None else ()
    return tuple((o.name, o.role) for o in operands)


@lru_cache(maxsize=4096)
def role_of(op: Operation, name: str) -> Role:
    """Return what an operation does with an operand; it reads what its row does not name."""
    return dict(roles(op)).get(name, Role.IN)


def named_values(op: Operation) -> Iterator[tuple[str, Role, Value]]:
    """Yield the values that the text of an operation names, with its results: operand, role and
    value, of lists each."""
    for name, operand in op.operands():
        if operand.value is not None:
            yield name, role_of(op, name), operand.value
    for name, value in op.result_values.items():
        yield name, Role.OUT, value


def written_name(op: Operation, name: str) -> str:
    """Return the name that the program gives an operand of a row, with `%`; its own if none."""
    value = getattr(op.bound.get(name), "value", None)
    if value is None:
        value = op.result_values.get(name)
    return f"%{value.name}" if value is not None else name


def bound_values(op: Operation, values: Mapping[str, Any]) -> Iterator[tuple[str, Role, Any]]:
    """Yield operand, role and run-time value of every operand that has one, of lists each."""
    for operand in op.variant.operands if op.variant is not None else ():
        value: Any = values.get(operand.name)
        if operand.variadic and value.__class__ is tuple:
            for entry in value:
                yield operand.name, operand.role, entry
        elif value is not None:
            yield operand.name, operand.role, value


def flag_key(op: Operation) -> tuple[str, str, str]:
    """Return the pipes and the event of a flag, as they are written."""
    names = ("src_pipe", "dst_pipe", "event")
    source, target, event = (str(getattr(op.bound.get(n), "const", op.bound.get(n))) for n in names)
    return source, target, event


def access_entry(op: Operation, key: str, target: str) -> dict[str, Any] | None:
    """What a row says for a target, where its condition on variant, element type or spaces (`vec`:
    the operands that are tiles in UB) holds."""
    row = op.definition.access if op.definition is not None else {}
    table = row.get(key, {})
    entry = table.get(target, table.get("both"))
    if entry is None:
        return None
    if "variant" in entry and getattr(op.variant, "name", "") not in entry["variant"].split():
        return None
    if any(_space(op, name) != "vec" for name in entry.get("vec", "").split()):
        return None
    kind = entry.get("elements")
    return entry if kind is None or _has_elements(op, entry["of"], kind) else None


def _space(op: Operation, name: str) -> str | None:
    return getattr(getattr(op.bound.get(name), "type", None), "loc", None)


def _has_elements(op: Operation, names: str, kind: str) -> bool:
    dtype = getattr(getattr(op.bound.get(names.split()[0]), "type", None), "dtype", None)
    return dtype is not None and dtype.is_integer == (kind == "integer")


def destroyed_sources(op: Operation, target: str) -> tuple[str, ...]:
    """Return the inputs that the library's code for an operation overwrites."""
    entry = access_entry(op, "clobbers", target)
    return tuple(entry["of"].split()) if entry is not None else ()


def scratch_effect(op: Operation, name: str, target: str) -> ScratchEffect | None:
    """Return what an operation does with a scratch operand; None for one that is no scratch."""
    if role_of(op, name) is not Role.SCRATCH and name != "tmp":
        return None
    use = (op.scratch or {}).get(name)
    if use is not None and use.definition.effect is not None:
        return use.definition.effect
    if name != "tmp":
        return ScratchEffect.RESULT
    return ScratchEffect.USED if target == "a2a3" else ScratchEffect.KEPT


def uses_scratch(op: Operation, name: str, target: str) -> bool:
    """True if an operand is scratch whose content the library destroys."""
    return scratch_effect(op, name, target) is ScratchEffect.USED


def is_inert(op: Operation, name: str) -> bool:
    """True for a scratch operand that the operation does not touch."""
    use = (op.scratch or {}).get(name)
    return use is not None and use.definition.effect is ScratchEffect.NONE


def is_uncounted(op: Operation, name: str, target: str) -> bool:
    """True for scratch that the planner counts nothing where it does not count all of it."""
    effect = scratch_effect(op, name, target)
    use = (op.scratch or {}).get(name)
    is_real = effect in (None, ScratchEffect.RESULT) or (use is not None and use.definition.counts)
    return not is_real


def library_events(op: Operation, target: str) -> tuple[tuple[str, str, int], ...]:
    """Return the pairs of pipes between which the library's code uses events itself, with their
    numbers: EVENT_ID0, and the next one for a second tile of the list `per`."""
    if op.passes is not None:
        return tuple((source, end, 0) for source, end in op.passes.flags)
    entry = access_entry(op, "events", target)
    if entry is None:
        return ()
    pairs = (pair.partition("-") for pair in entry["pairs"].split())
    tiles = op.bound.get(entry.get("per", ""))
    numbers = range(max(len(tiles), 1) if isinstance(tiles, list | tuple) else 1)
    return tuple((source, end, n) for source, _, end in pairs for n in numbers)


def registers(op: Operation, target: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the registers that an operation reads and those that it writes, of those that more
    than one pipe uses."""
    entry = access_entry(op, "registers", target) or {}
    return tuple(entry.get("reads", "").split()), tuple(entry.get("writes", "").split())


def source_pipe(op: Operation, target: str) -> str | None:
    """Return the pipe that reads the sources, where it is not the pipe that writes: a copy through
    tiles loads before it stores."""
    entry = access_entry(op, "source_pipe", target)
    return entry["pipe"] if entry is not None else None


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
    values or not; `is_atomic` marks additions that may come in any order."""

    reads: list[Reached | Touch] = field(default_factory=list)
    writes: list[Reached | Touch] = field(default_factory=list)
    found: list[Reached | Touch] = field(default_factory=list)
    spoils: list[tuple[Reached | Touch, int | None]] = field(default_factory=list)
    is_atomic: bool = False


class Bound(Protocol):
    """What is known of an operation with its operands: `semantics.base.binding.Binding`."""

    op: Operation
    core: Core
    values: Mapping[str, Any]
    touches: Touches | None
    beyond: list[Beyond]
    covered: dict[str, Window]
    copied: list[tuple[Touch, Touch]]
    found: list[Touch]

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
    destroyed = destroyed_sources(op, target)
    whole = access_entry(op, "whole", target) or {}
    tail = access_entry(op, "tail", target) or {}
    kept = access_entry(op, "keeps", target) or {}
    for name, role, value in bound_values(op, values):
        reach = whole.get("rows", "all") if name == whole.get("of") else ""
        if reach == "window":
            value, reach = _loaded(value, values.get("src")), ""
        value = _covered(binding, name, value)
        reached = reached_by(core, name, value, reach)
        if reached is None:
            continue
        one = _element(op, reached, value, values, target)
        if one is not None:
            (found.reads if role is Role.IN else found.writes).append(one)
            continue
        if role is Role.SCRATCH:
            _add_scratch(op, reached, target, found)
            continue
        is_kept = name == kept.get("of") and name in binding.covered  # around a window
        if role in READ and not is_kept:
            found.reads.append(reached)
        if role is not Role.IN:
            found.writes.append(reached)
        if name in destroyed:
            found.spoils.append((reached, CLOBBERED))
        if name == tail.get("of"):
            _add_tail(value, reached, found)
    _add_beyond(binding, found)
    found.found += [*binding.found, *(source for source, _ in binding.copied)]
    return found


def _covered(binding: Bound, name: str, value: Any) -> Any:
    """The part of a tile that the operation takes, where that is not its valid region."""
    covered = binding.covered.get(name)
    if covered is None or not isinstance(value, TileRef):
        return value
    type_ = value.type
    rows, cols = min(covered.rows, type_.rows), min(covered.cols, type_.cols)
    first = value.layout.offset(covered.row, covered.col) * type_.dtype.bits // 8
    return tile_ref(type_, value.addr + first, rows, cols)


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
    alone, and what its operations keep there (group maxima, scales) is a result like others."""
    effect = scratch_effect(op, reached.operand, target)
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
    offset = values.get("offset")
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
