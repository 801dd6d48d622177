"""Names of one storage: what a value of the text is another name for, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain

from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.types import MemRefType, MultiTileType, PtrType, TileType

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


def _makes_storage(root: Value) -> bool:
    """True for an allocation, and for a pointer made of a number: the program's own address."""
    owner = root.owner
    return owner is not None and any(
        owner.has(trait) for trait in ("points_into", "makes_storage", "places")
    )


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
