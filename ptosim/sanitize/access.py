"""What one bound operation reads, writes and leaves undefined.

The operand roles of its row say which, the valid regions of its operands how far. A row's `access`
adds what roles cannot say: sources that the library destroys, pairs of events it uses itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ptosim.engine.records import Inst
from ptosim.ir.core import Operation, Value
from ptosim.isa.schema import Role
from ptosim.machine.core import Core
from ptosim.machine.gm import ViewSpec
from ptosim.machine.layout import round_up
from ptosim.machine.tile import TileRef
from ptosim.sanitize.footprint import Strided, strided, tile_bytes, touched_bytes, view_bytes
from ptosim.sanitize.shadow import Footprint, Shadow
from ptosim.semantics.touch import Touch, Touches

UNDEFINED, DEFINED, PADDING, CLOBBERED = range(4)

Shadows = Callable[[Core, Any], Shadow]
"""Returns the shadow of a space of a core (by name), or of a buffer (by number)."""

_SAME_BYTES = frozenset(
    f"pto.{n}"
    for n in ("treshape", "bitcast", "talias", "subset", "tsubview", "subview", "set_validshape")
)


class Access:
    """Footprints of one binding. `spoils` are bytes that are written with no meaningful value, with
    the state they get; `found` are read whether they have values or not; `is_atomic` marks
    additions that may come in any order."""

    __slots__ = ("core", "found", "inst", "is_atomic", "reads", "spoils", "writes")

    def __init__(self, core: Core, inst: Inst) -> None:
        self.core = core
        self.inst = inst
        self.reads: tuple[Footprint, ...] = ()
        self.writes: tuple[Footprint, ...] = ()
        self.found: tuple[Footprint, ...] = ()
        self.spoils: tuple[tuple[Footprint, int], ...] = ()
        self.is_atomic = False

    @property
    def is_empty(self) -> bool:
        """True if it touches no memory."""
        return not (self.reads or self.writes or self.spoils or self.found)


def access_of(
    core: Core, inst: Inst, values: Any, attrs: Any, target: str, shadows: Shadows
) -> Access:
    """Return the accesses of an instruction whose operands have these values."""
    access = Access(core, inst)
    op: Operation = inst.op  # type: ignore[assignment]
    reads: list[Footprint] = []
    writes: list[Footprint] = []
    spoils: list[tuple[Footprint, int]] = []
    destroyed = destroyed_sources(op, target)
    for name, role, value in _operands(op, values):
        print_ = footprint(core, name, value, op, shadows)
        if print_ is None:
            continue
        if role in (Role.IN, Role.INOUT):
            reads.append(print_)
        if role is not Role.IN:
            writes.append(print_)
        if name in destroyed:
            spoils.append((print_, CLOBBERED))
        if role is Role.OUT and op.name == "pto.tload":
            _add_tail(core, value, print_, writes, spoils, shadows)
    access.reads, access.writes, access.spoils = tuple(reads), tuple(writes), tuple(spoils)
    access.is_atomic = attrs.get("atomicType") == "atomic_add"
    return access


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
    entry = _entry(op, "clobbers", target)
    return tuple(entry["of"].split()) if entry is not None else ()


def library_events(op: Operation, target: str) -> tuple[tuple[str, str], ...]:
    """Return the pairs of pipes between which the library's code uses EVENT_ID0 itself."""
    entry = _entry(op, "events", target)
    if entry is None:
        return ()
    pairs = (pair.partition("-") for pair in entry["pairs"].split())
    return tuple((source, end) for source, _, end in pairs)


def _entry(op: Operation, key: str, target: str) -> dict[str, Any] | None:
    """What a row says for a target, where its condition on variant or element type holds."""
    row = op.definition.access if op.definition is not None else {}
    entry = row.get(key, {}).get(target)
    if entry is None or entry.get("variant") not in (None, getattr(op.variant, "name", "")):
        return None
    kind = entry.get("elements")
    return entry if kind is None or _has_elements(op, entry["of"], kind) else None


def _has_elements(op: Operation, names: str, kind: str) -> bool:
    dtype = getattr(getattr(op.bound.get(names.split()[0]), "type", None), "dtype", None)
    return dtype is not None and dtype.is_integer == (kind == "integer")


def _operands(op: Operation, values: Any) -> Iterator[tuple[str, Role, Any]]:
    for operand in op.variant.operands if op.variant is not None else ():
        value = values.get(operand.name)
        if operand.variadic and isinstance(value, tuple) and not _is_view(value):
            for entry in value:
                yield operand.name, operand.role, entry
        elif value is not None:
            yield operand.name, operand.role, value


def _is_view(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and isinstance(value[0], ViewSpec)


def footprint(
    core: Core, name: str, value: Any, op: Operation | None, shadows: Shadows
) -> Footprint | None:
    """Return the bytes of an operand; None for one that is no memory, or empty."""
    if isinstance(value, TileRef):
        if value.type.loc not in core.machine_def.spaces:
            return None
        parts = tile_bytes(value, value.v_row, value.v_col)
        shadow = shadows(core, value.type.loc)
    elif _is_view(value):
        spec, number, offset = value
        if not isinstance(number, int):
            return None
        parts = view_bytes(spec, offset)
        shadow = shadows(core, number)
    else:
        return None
    inside = tuple(p for p in parts if p.start >= 0 and p.end <= shadow.bytes)
    if not inside:
        return None
    return Footprint(shadow, inside, name, _owner(op, name))


def _owner(op: Operation | None, name: str) -> Value | None:
    """The allocation that a tile operand's storage was made by, None if that is not known."""
    value = getattr(op.bound.get(name), "value", None) if op is not None else None
    while value is not None and value.owner is not None and value.owner.name in _SAME_BYTES:
        source = value.owner.bound.get("source")
        value = getattr(source, "value", None)
    made = value is not None and value.owner is not None and value.owner.name == "pto.alloc_tile"
    return value if made else None


def _add_tail(
    core: Core,
    ref: Any,
    print_: Footprint,
    writes: list[Footprint],
    spoils: list[tuple[Footprint, int]],
    shadows: Shadows,
) -> None:
    """A load writes whole 32-byte blocks: what lies behind the valid elements of the last block
    of a row gets the pad value of the tile, or no meaningful one."""
    if not isinstance(ref, TileRef):
        return
    tail = _tail(ref)
    if tail is None:
        return
    behind = Footprint(shadows(core, ref.type.loc), (tail,), print_.name, print_.owner)
    if ref.type.pad:
        writes.append(behind)
    else:
        spoils.append((behind, PADDING))


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
