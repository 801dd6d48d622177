"""Names of one storage: what a value of the text is another name for, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any

from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.types import MemRefType, MultiTileType, PtrType, TileType
from ptosim.ground.isa.schema import Role, ScratchEffect

MAX_STEPS = 64
"""Operations that a pointer is followed through."""


def is_memory(value: Value) -> bool:
    """True for a tile, a buffer or a pointer."""
    return isinstance(value.type, (TileType, MultiTileType, MemRefType, PtrType))


def is_storage(value: Value) -> bool:
    """True for a tile or a buffer."""
    return isinstance(value.type, (TileType, MultiTileType, MemRefType))


def operand_value(op: Operation, name: str) -> Value | None:
    """Return the value that an operand is, None if it is none."""
    return getattr(op.bound.get(name), "value", None)


def root_of(value: Value) -> Value:
    """Return the value that a tile is a window or another name of; itself if it is none."""
    while (source := _named_by(value)) is not None:
        value = source
    return value


def _named_by(value: Value) -> Value | None:
    """The value that a tile is a window or another name of; None if it is none."""
    owner = value.owner
    renames = owner is not None and owner.has("same_storage")
    return operand_value(owner, "source") if owner is not None and renames else None


class Roots:
    """Roots of many values of one program, each looked for once: names of names may be a long
    chain."""

    def __init__(self) -> None:
        self._known: dict[Value, Value] = {}

    def of(self, value: Value) -> Value:
        """Return what `root_of` does."""
        passed: list[Value] = []
        while value not in self._known and (source := _named_by(value)) is not None:
            passed.append(value)
            value = source
        root = self._known.get(value, value)
        self._known.update(dict.fromkeys(passed, root))
        return root


def slot_of(op: Operation) -> int | None:
    """Return at which byte of its multi buffer the tile begins that an operation picks; None if
    only the run knows."""
    slot, source = op.bound.get("slot"), operand_value(op, "source")
    number = slot.const if isinstance(slot, Operand) else None
    if not isinstance(number, int) or source is None or not isinstance(source.type, MultiTileType):
        return None
    return number * source.type.stride


def part_of_allocation(value: Value) -> tuple[Value, int, int] | None:
    """Return the allocation that a tile is in and the bytes from where to where of it may be the
    tile's; None where it is not clear how large that is."""
    owner = value.owner
    picks = None
    while owner is not None and owner.has("same_storage"):
        source = operand_value(owner, "source")
        if source is None:
            break
        picks = owner if owner.has("picks_slot") else picks
        value, owner = source, source.owner
    type_ = value.type
    if isinstance(type_, TileType):
        return value, 0, type_.bytes
    if not isinstance(type_, MultiTileType):
        return None
    start = slot_of(picks) if picks is not None else None
    if start is None:
        return value, 0, type_.bytes
    return value, start, start + type_.slot.bytes


def allocation_of(op: Operation, name: str) -> Value | None:
    """Return what the storage of an operand was made by, as far as that is known: the result of an
    allocation, a pointer made of a number, an argument of a function."""
    value = operand_value(op, name)
    if value is None:
        return None
    handed = _handed_in(op.function) if op.function is not None else {}
    found = _origins(value, handed)
    return next(iter(found)) if len(found) == 1 else None


def _origins(value: Value, handed: Mapping[Value, list[Value]]) -> set[Value | None]:
    """What the storage of a value may have been made by: None among them where that is not clear.
    Chains of pointers may be thousands long, and loops hand on what they were given."""
    found: set[Value | None] = set()
    passed, waiting = set[Value](), [value]
    while waiting:
        root = root_of(waiting.pop())
        if root in passed:
            continue
        passed.add(root)
        sources = handed.get(root) or _sources(root)
        waiting += sources
        if not sources:
            is_known = _makes_storage(root) or _is_function_argument(root)
            found.add(root if is_known else None)
    return found


def _sources(root: Value) -> list[Value]:
    """What a value that nothing hands on takes its storage from."""
    owner = root.owner
    if owner is None:
        return []
    if owner.has("points_into"):
        base = next(iter(owner.operand_values()), None)
        return [base] if base is not None and is_memory(base) else []
    return [] if _makes_storage(root) else _moved_on(owner, root)


_STORING = frozenset(("points_into", "makes_storage", "places"))


def _makes_storage(root: Value) -> bool:
    """True for an allocation, and for a pointer made of a number: the program's own address."""
    owner = root.owner
    return owner is not None and not _STORING.isdisjoint(owner.traits)


def _moved_on(owner: Operation, value: Value) -> list[Value]:
    """The pointer that an access has moved on and returns."""
    if not isinstance(value.type, PtrType) or owner.regions or value not in owner.results:
        return []
    pointers = [v for v in owner.operand_values() if isinstance(v.type, PtrType)]
    return pointers if len(pointers) == 1 else []


@lru_cache(maxsize=64)
def _handed_in(function: Operation) -> dict[Value, list[Value]]:
    """The values that loops and branches of a function hand on, by what they are then."""
    found: dict[Value, list[Value]] = {}
    for op in function.walk():
        for one, two in () if op.has("same_storage") else _pairs(op):
            if one is not None and two is not None and one is not two:
                found.setdefault(two, []).append(one)
    return found


def forget_handed_on() -> None:
    """Operations will be bound anew."""
    _handed_in.cache_clear()


def argument_of(value: Value) -> str:
    """Return the name of the pointer argument that a view comes from; `?` if that is not clear."""
    for _ in range(MAX_STEPS):
        owner = value.owner
        if owner is None or value.is_argument:
            break
        source = operand_value(owner, "source") or operand_value(owner, "ptr")
        if source is None:
            return "?"
        value = source
    return value.name if _is_function_argument(value) else "?"


def _is_function_argument(value: Value) -> bool:
    return value.is_argument and (value.owner is None or value.owner.has("function"))


def is_handed_over(value: Value) -> bool:
    """True for a value that a loop or a branch hands over: its storage is not one."""
    owner = value.owner
    return owner is not None and (owner.has("loop") or owner.has("branch"))


def joined(op: Operation) -> Iterator[tuple[Value, Value]]:
    """Yield the pairs of values that an operation makes names of one storage: views, results of
    branches, values that loops carry."""
    for one, two in _pairs(op):
        if one is not None and two is not None and is_storage(one) and is_storage(two):
            yield one, two


def _pairs(op: Operation) -> Iterable[tuple[Value | None, Value | None]]:
    if op.has("same_storage"):
        return [(operand_value(op, "source"), result) for result in op.results]
    if op.has("selects"):
        names = ("true_value", "false_value")
        return [(operand_value(op, n), result) for result in op.results for n in names]
    if op.jumps:
        return chain.from_iterable(
            ((o.value, v) for o, v in zip(jump.values, jump.block.values, strict=False))
            for jump in op.jumps
        )
    if op.regions and (op.has("loop") or op.has("branch")):
        return _of_regions(op)
    return ()


def _of_regions(op: Operation) -> Iterable[tuple[Value | None, Value | None]]:
    """A loop with a condition region hands the values of the condition to its body and to its
    results, and those of its body back to the condition; a counted loop counts in its first
    value."""
    first = op.regions[0].blocks[0] if op.regions[0].blocks else None
    init = [getattr(o, "value", None) for o in op.bound.get("init", ())]
    carried: list[Value] = []
    pairs = []
    if first is not None and op.has("loop"):
        carried = first.values if len(op.regions) > 1 else first.values[1:]
        if len(op.regions) > 1:
            pairs.append(zip(op.regions[1].blocks[0].values, op.results, strict=False))
    pairs += [zip(init, carried, strict=False), zip(carried, op.results, strict=False)]
    for number, region in enumerate(op.regions):
        last = region.ops[-1] if region.ops else None
        if last is None or not last.has("yields"):
            continue
        given = [getattr(o, "value", None) for o in last.bound.get("values", ())]
        targets = carried if number and op.has("loop") else op.results
        pairs.append(zip(given, targets, strict=False))
    return chain(*pairs)


# The operands of an operation and what it does with each: its row says, by role. The row's `access`
# adds what roles cannot say: sources that the library destroys, scratch that it uses, pairs of
# events and registers of its own, a destination that keeps what is around the window that is
# written.

READ = (Role.IN, Role.INOUT)
WRITTEN = (Role.OUT, Role.INOUT)
"""Roles of operands whose content an operation reads and of those that are its results; scratch is
neither."""


@lru_cache(maxsize=4096)
def _by_name(op: Operation) -> dict[str, Role]:
    operands = op.variant.operands if op.variant is not None else ()
    named = {o.name: o.role for o in operands}
    return named | {n: Role.SCRATCH for n in op.scratch or () if n not in named}


def roles(op: Operation) -> tuple[tuple[str, Role], ...]:
    """Return what an operation does with each of its operands, in the order of its row; placed
    scratch that its form has no operand for comes last."""
    return tuple(_by_name(op).items())


def role_of(op: Operation, name: str) -> Role:
    """Return what an operation does with an operand; it reads what its row does not name."""
    return _by_name(op).get(name, Role.IN)


def forget_roles() -> None:
    """Operations will be bound anew, some perhaps to other operands."""
    _by_name.cache_clear()


def named_values(op: Operation) -> Iterator[tuple[str, Role, Value]]:
    """Yield the values that the text of an operation names, with its results: operand, role and
    value, of lists each."""
    named = _by_name(op)
    for name, operand in op.operands():
        if operand.value is not None:
            yield name, named.get(name, Role.IN), operand.value
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
    if op.scratch is None:
        return
    for name, role in roles(op)[len(op.variant.operands) if op.variant is not None else 0 :]:
        if values.get(name) is not None:
            yield name, role, values[name]


def flag_key(op: Operation) -> tuple[str, str, str]:
    """Return the pipes and the event of a flag, as they are written."""
    names = ("src_pipe", "dst_pipe", "event")
    source, target, event = (str(getattr(op.bound.get(n), "const", op.bound.get(n))) for n in names)
    return source, target, event


def access_entry(op: Operation, key: str, target: str) -> dict[str, Any] | None:
    """What a row says for a target, where its condition on variant, element type or spaces (`vec`:
    the operands that are tiles in UB) holds."""
    table = op.definition.access.get(key) if op.definition is not None else None
    entry = table.get(target, table.get("both")) if table is not None else None
    if entry is None:
        return None
    if "variant" in entry and getattr(op.variant, "name", "") not in entry["variant"].split():
        return None
    if any(_space(op, name) != "vec" for name in entry.get("vec", "").split()):
        return None
    kind = entry.get("elements")
    return entry if kind is None or _has_elements(op, entry["of"], kind) else None


def are_apart(op: Operation, what: str, target: str) -> bool:
    """True if each row, or each column (`what`: `rows_apart`, `cols_apart`), of its results depends
    on that of its sources alone: a trait, or an access entry where only some variants are so."""
    return op.has(what) or access_entry(op, what, target) is not None


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
    entry = access_entry(op, "registers", target)
    if entry is None:
        return (), ()
    return tuple(entry.get("reads", "").split()), tuple(entry.get("writes", "").split())


def source_pipe(op: Operation, target: str) -> str | None:
    """Return the pipe that reads the sources, where it is not the pipe that writes: a copy through
    tiles loads before it stores."""
    entry = access_entry(op, "source_pipe", target)
    return entry["pipe"] if entry is not None else None
