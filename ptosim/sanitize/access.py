"""What one bound operation reads, writes and leaves undefined.

The operand roles of its row say which, the valid regions of its operands how far. A row's `access`
adds what roles cannot say: sources that the library destroys, pairs of events it uses itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ptosim.engine.core.records import Inst
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.isa.expr import evaluate
from ptosim.ground.isa.schema import Role
from ptosim.machine.core import Core
from ptosim.machine.layout import round_up
from ptosim.machine.tile import TileRef, tile_ref
from ptosim.machine.values import GmView
from ptosim.passes.verify.rule_views import environment
from ptosim.sanitize.footprint import Strided, strided, tile_bytes, touched_bytes, view_bytes
from ptosim.sanitize.shadow import Footprint, Shadow
from ptosim.semantics.base.touch import Touch, Touches

UNDEFINED, DEFINED, PADDING, CLOBBERED, SCRATCHED, HIDDEN = range(6)

Shadows = Callable[[Core, Any], Shadow]
"""Returns the shadow of a space of a core (by name), or of a buffer (by number)."""


class Access:
    """Footprints of one binding. `spoils` are bytes that are written with no meaningful value, with
    the state they get (None: they stay as defined as they were); `found` are read whether they have
    values or not; `is_atomic` marks additions that may come in any order."""

    __slots__ = ("core", "found", "inst", "is_atomic", "reads", "spoils", "writes")

    def __init__(self, core: Core, inst: Inst) -> None:
        self.core = core
        self.inst = inst
        self.reads: tuple[Footprint, ...] = ()
        self.writes: tuple[Footprint, ...] = ()
        self.found: tuple[Footprint, ...] = ()
        self.spoils: tuple[tuple[Footprint, int | None], ...] = ()
        self.is_atomic = False

    def moved(self, distance: int) -> Access:
        """Return the accesses of the same operation with its window of global memory so many bytes
        farther on."""
        made = Access(self.core, self.inst)
        made.reads = tuple(p.moved(distance) for p in self.reads)
        made.writes = tuple(p.moved(distance) for p in self.writes)
        made.found = tuple(p.moved(distance) for p in self.found)
        made.spoils = self.spoils
        made.is_atomic = self.is_atomic
        return made

    @property
    def is_empty(self) -> bool:
        """True if it touches no memory."""
        return not (self.reads or self.writes or self.spoils or self.found)


class _Lists:
    """What is collected while the operands of an operation are gone through."""

    def __init__(self) -> None:
        self.reads: list[Footprint] = []
        self.writes: list[Footprint] = []
        self.spoils: list[tuple[Footprint, int | None]] = []


def access_of(
    core: Core, inst: Inst, values: Any, attrs: Any, target: str, shadows: Shadows
) -> Access:
    """Return the accesses of an instruction whose operands have these values."""
    access = Access(core, inst)
    op: Operation = inst.op  # type: ignore[assignment]
    found = _Lists()
    destroyed = destroyed_sources(op, target)
    whole = access_entry(op, "whole", target) or {}
    tail = access_entry(op, "tail", target) or {}
    for name, role, value in _operands(op, values):
        reach = whole.get("rows", "all") if name == whole.get("of") else ""
        if reach == "window":
            value, reach = _loaded(value, values.get("src")), ""
        print_ = footprint(core, name, value, op, shadows, reach)
        if print_ is None:
            continue
        if role is Role.SCRATCH:
            _add_scratch(op, print_, target, found)
            continue
        if role in (Role.IN, Role.INOUT):
            found.reads.append(print_)
        if role is not Role.IN:
            found.writes.append(print_)
        if name in destroyed:
            found.spoils.append((print_, CLOBBERED))
        if name == tail.get("of"):
            _add_tail(core, value, print_, found, shadows)
    hidden = hidden_scratch(core, op, target, shadows)
    if hidden is not None:
        found.spoils.append((hidden, HIDDEN))
    access.reads, access.writes = tuple(found.reads), tuple(found.writes)
    access.spoils = tuple(found.spoils)
    access.is_atomic = attrs.get("atomicType") == "atomic_add"
    return access


def _add_scratch(op: Operation, print_: Footprint, target: str, found: _Lists) -> None:
    """Scratch has no meaningful value afterwards where the library uses it; A5 leaves most of it
    alone, and what its operations keep there (group maxima, scales) is a result like others."""
    if uses_scratch(op, print_.name, target):
        found.spoils.append((print_, SCRATCHED))
    elif print_.name == "tmp":
        found.spoils.append((print_, None))
    else:
        found.writes.append(print_)


def uses_scratch(op: Operation, name: str, target: str) -> bool:
    """True if the library destroys the content of a scratch operand."""
    entry = access_entry(op, "scratch", target)
    used = target == "a2a3" if entry is None else name in entry["of"].split()
    return used and name == "tmp"


def hidden_scratch(core: Core, op: Operation, target: str, shadows: Shadows) -> Footprint | None:
    """Return the bytes at a fixed address that the library takes where an operation has no scratch
    tile; None for most."""
    entry = access_entry(op, "hidden", target)
    if entry is None or not evaluate(entry["when"], environment(op, target)):
        return None
    place = core.machine_def.scratch[0]
    part = Strided(place.start, place.bytes)
    return Footprint(shadows(core, place.space), (part,), "hidden scratch", None)


def pointer_access(core: Core, inst: Inst, binding: Any, shadows: Shadows) -> Access:
    """Return the accesses of an instruction on pointers, as it told them when it was bound."""
    access = Access(core, inst)
    touches: Touches = binding.touches

    def made(found: list[Touch]) -> tuple[Footprint, ...]:
        prints = (pointed(touch, shadows) for touch in found)
        return tuple(print_ for print_ in prints if print_ is not None)

    access.reads, access.writes = made(touches.reads), made(touches.writes)
    access.found = made([read for read, _, _ in touches.found])
    update = binding.values.get("atomic.op")
    access.is_atomic = str(getattr(update, "member", update)) == "add"
    return access


def pointed(touch: Touch, shadows: Shadows) -> Footprint | None:
    """Return the bytes that a pointer reaches; None if there are none."""
    shadow = shadows(touch.core, touch.where)
    parts = touched_bytes(touch, shadow.bytes)
    return Footprint(shadow, parts, touch.operand, None) if parts else None


def destroyed_sources(op: Operation, target: str) -> tuple[str, ...]:
    """Return the inputs that the library's code for an operation overwrites."""
    entry = access_entry(op, "clobbers", target)
    return tuple(entry["of"].split()) if entry is not None else ()


def library_events(op: Operation, target: str) -> tuple[tuple[str, str], ...]:
    """Return the pairs of pipes between which the library's code uses EVENT_ID0 itself."""
    entry = access_entry(op, "events", target)
    if entry is None:
        return ()
    pairs = (pair.partition("-") for pair in entry["pairs"].split())
    return tuple((source, end) for source, _, end in pairs)


def access_entry(op: Operation, key: str, target: str) -> dict[str, Any] | None:
    """What a row says for a target, where its condition on variant or element type holds."""
    row = op.definition.access if op.definition is not None else {}
    table = row.get(key, {})
    entry = table.get(target, table.get("both"))
    if entry is None:
        return None
    if "variant" in entry and getattr(op.variant, "name", "") not in entry["variant"].split():
        return None
    kind = entry.get("elements")
    return entry if kind is None or _has_elements(op, entry["of"], kind) else None


def _has_elements(op: Operation, names: str, kind: str) -> bool:
    dtype = getattr(getattr(op.bound.get(names.split()[0]), "type", None), "dtype", None)
    return dtype is not None and dtype.is_integer == (kind == "integer")


def _operands(op: Operation, values: Any) -> Iterator[tuple[str, Role, Any]]:
    for operand in op.variant.operands if op.variant is not None else ():
        value = values.get(operand.name)
        if operand.variadic and value.__class__ is tuple:
            for entry in value:
                yield operand.name, operand.role, entry
        elif value is not None:
            yield operand.name, operand.role, value


def footprint(
    core: Core, name: str, value: Any, op: Operation | None, shadows: Shadows, reach: str = ""
) -> Footprint | None:
    """Return the bytes of an operand; None for one that is no memory, or empty. `reach` says how
    far it goes beyond the valid region of a tile: to `all` rows and columns, or to all columns of
    the `valid` rows."""
    if isinstance(value, TileRef):
        if value.type.loc not in core.machine_def.spaces:
            return None
        rows = value.type.rows if reach == "all" else value.v_row
        cols = value.type.cols if reach else value.v_col
        parts = tile_bytes(value, rows, cols)
        shadow = shadows(core, value.type.loc)
    elif isinstance(value, GmView) and isinstance(value.memory, int):
        parts = view_bytes(value.spec, value.offset)
        shadow = shadows(core, value.memory)
    else:
        return None
    inside = tuple(p for p in parts if p.start >= 0 and p.end <= shadow.bytes)
    if not inside:
        return None
    return Footprint(shadow, inside, name, _owner(op, name))


def _owner(op: Operation | None, name: str) -> Value | None:
    """The allocation that a tile operand's storage was made by, None if that is not known."""
    value = getattr(op.bound.get(name), "value", None) if op is not None else None
    while value is not None and value.owner is not None and value.owner.has("same_storage"):
        source = value.owner.bound.get("source")
        value = getattr(source, "value", None)
    made = value is not None and value.owner is not None and value.owner.name == "pto.alloc_tile"
    return value if made else None


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


def _add_tail(core: Core, ref: Any, print_: Footprint, found: _Lists, shadows: Shadows) -> None:
    """Some operations write whole 32-byte blocks: what lies behind the valid elements of the last
    block of a row gets the pad value of the tile, or no meaningful one."""
    if not isinstance(ref, TileRef):
        return
    tail = _tail(ref)
    if tail is None:
        return
    behind = Footprint(shadows(core, ref.type.loc), (tail,), print_.name, print_.owner)
    if ref.type.pad:
        found.writes.append(behind)
    else:
        found.spoils.append((behind, PADDING))


def _tail(ref: TileRef) -> Strided | None:
    type_ = ref.type
    if type_.slayout != "none_box" or type_.loc != "vec":
        return None
    by_rows = type_.blayout == "row_major"
    lines, valid, size = (
        (ref.v_row, ref.v_col, type_.cols) if by_rows else (ref.v_col, ref.v_row, type_.rows)
    )
    bits = type_.dtype.bits
    end = min(round_up(valid, 256 // bits), size)
    if end <= valid or not lines or bits < 8:
        return None
    return strided(ref.addr, valid, ((lines, size), (end - valid, 1)), bits)
