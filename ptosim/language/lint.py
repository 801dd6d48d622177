"""What works and could be better, as far as the text alone shows it: notes of origin `lint`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Label, Sink, finding
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import PtrType, ScalarType, TileType, ViewType
from ptosim.ground.isa.schema import Role
from ptosim.ground.source import Source, Span, has_bidi
from ptosim.language.strides import factor, of_blocks
from ptosim.machine.effects.storage import (
    Roots,
    argument_of,
    joined,
    named_values,
    operand_value,
    root_of,
)


def directions(source: Source) -> Iterator[Diagnostic]:
    """Report the first character that shows its line in another order than it is read in."""
    at = has_bidi(source.own)
    if at is not None:
        at += len(source.around[0])
        yield finding(
            "PTO0017",
            f"character U+{ord(source.text[at]):04X} changes the direction of text",
            Span(source, at, at + 1),
            notes=("an editor may show this line in another order than it is read in",),
            help="remove it",
        )


def unused(function: Function, source: Source) -> Iterator[Diagnostic]:
    """Report tiles and views that no operation names."""
    for op in function.ops:
        for result in op.results:
            if result.uses:
                continue
            if op.has("makes_storage"):
                yield _unused(result, "PTO7401", "tile", source, _RESERVED)
            elif op.has("view") or op.has("window") or op.has("same_storage"):
                yield _unused(result, "PTO7402", "view", source)


def arguments(functions: Sequence[Function], source: Source) -> Iterator[Diagnostic]:
    """Report pointer arguments that no operation names. Functions that are launched together have
    the same arguments, and each uses some of them."""
    public = [function for function in functions if not function.private]
    used = {argument.name for function in public for argument in function.args if argument.uses}
    for function in public:
        for argument in function.args:
            if argument.name not in used and isinstance(argument.type, PtrType):
                yield _unused(argument, "PTO7403", "argument", source)


_RESERVED = "its bytes are reserved all the same"


def _unused(value: Value, code: str, what: str, source: Source, note: str = "") -> Diagnostic:
    return finding(
        code,
        f"{what} `%{value.name}` is never used",
        value.span(source),
        notes=(note,) if note else (),
        help="remove it",
    )


class _Buffers:
    """What tiles are names of: tiles at one address have the same bytes."""

    def __init__(self) -> None:
        self._roots = Roots()
        self._at: dict[tuple[str, Any], Value] = {}
        self._known: dict[Value, Value] = {}

    def of(self, value: Value) -> Value:
        """Return the first tile that has the bytes of this one."""
        known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._first(value)
        return known

    def _first(self, value: Value) -> Value:
        root = self._roots.of(value)
        owner, type_ = root.owner, root.type
        if owner is None or not owner.has("makes_storage") or not isinstance(type_, TileType):
            return root
        addr = owner.bound.get("addr")
        if not isinstance(addr, Operand):
            return root
        place = addr.const if addr.value is None or addr.const is not None else addr.value
        return self._at.setdefault((type_.loc, place), root)


def unread(function: Function, source: Source) -> Iterator[Diagnostic]:
    """Report tiles that operations fill and none reads. An operation with several results may have
    some that nobody needs; what a loop or a branch hands over is read there."""
    writers: dict[int, Operation] = {}
    tiles: dict[int, Value] = {}
    read: set[int] = set()
    roots = _Buffers()
    for op in function.ops:
        for pair in joined(op) if not op.has("same_storage") else ():
            read.update(id(roots.of(value)) for value in pair)
        named = _named_storage(op)
        written = _outputs(op, named)
        for _, role, value in named:
            root = roots.of(value)
            if op.has("makes_storage") and value in op.results:
                tiles[id(root)] = root
            elif op.has("same_storage"):
                continue
            elif role is Role.OUT and value in written:
                writers[id(root)] = op
            else:
                read.add(id(root))
    for key, tile in tiles.items():
        if key in writers and key not in read:
            label = f"fills `%{tile.name}`"
            yield finding(
                "PTO7404",
                f"what is written to `%{tile.name}` is never read",
                writers[key].span(source),
                label=label,
                more=(Label(tile.span(source), "the tile"),),
                help="store it, or remove what fills it",
            )


_Named = tuple[tuple[str, Role, Value], ...]


def _named_storage(op: Operation) -> _Named:
    """The values that an operation names, without the numbers, of which most are."""
    return tuple(use for use in named_values(op) if use[2].type.__class__ is not ScalarType)


def _outputs(op: Operation, named: _Named) -> list[Value]:
    """The tiles that an operation fills: its only result, or several that are halves of one."""
    outputs = [value for _, role, value in named if role is not Role.IN]
    if len(outputs) != 1 and not op.has("halves"):
        return []
    return [value for value in outputs if isinstance(value.type, TileType)]


_WHOLE = frozenset(
    ("elementwise", "tile_scalar", "expand", "reduce", "convert", "generate", "quant")
)
"""Families whose operations write the whole valid region of their result."""


def overwritten(function: Function, source: Source) -> Iterator[Diagnostic]:
    """Report a result that the next operation on the same tile overwrites unread. Only operations
    in a row count: what has regions, calls or changes extents ends the row."""
    roots = _Buffers()
    for op in function.ops:
        for region in op.regions:
            for block in region.blocks:
                yield from _overwritten(block.ops, roots, source)


def _overwritten(ops: list[Operation], roots: _Buffers, source: Source) -> Iterator[Diagnostic]:
    pending: dict[int, tuple[Operation, Value]] = {}
    for op in ops:
        if op.regions or op.has("call") or op.has("sets_valid") or op.has("jumps"):
            pending.clear()
            continue
        named = _named_storage(op)
        output = next(iter(_outputs(op, named)), None)
        for _, role, value in named:
            root = roots.of(value)
            before = pending.pop(id(root), None)
            if role is not Role.OUT or value is not output or not _fills(op):
                continue
            if before is not None and before[1] is value:
                yield _lost(before[0], op, value, source)
            pending[id(root)] = (op, value)


def _fills(op: Operation) -> bool:
    row = op.definition
    if row is None:
        return False
    return row.family in _WHOLE or (row.family == "memory" and op.bound.get("src") is not None)


def _lost(first: Operation, second: Operation, tile: Value, source: Source) -> Diagnostic:
    return finding(
        "PTO7405",
        f"what is written to `%{tile.name}` is overwritten before anything reads it",
        first.span(source),
        label="written here",
        more=(Label(second.span(source), "and here"),),
        help="remove the first, or give one of them another tile",
    )


# -- loads in a loop that bring the same bytes each time -------------------------------------------


def invariant_loads(function: Function, source: Source) -> Iterator[Diagnostic]:
    """Report loads whose view and tile are made outside a counted loop that changes neither."""
    for op in function.ops:
        if op.has("counted") and op.regions:
            inside = op.walk()[1:]
            if not any(each.has("call") for each in inside):
                yield from _of_loop(op, inside, source)


def _of_loop(loop: Operation, inside: list[Operation], source: Source) -> Iterator[Diagnostic]:
    defined = {id(v) for op in inside for v in op.results}
    defined |= {
        id(v) for op in (loop, *inside) for r in op.regions for b in r.blocks for v in b.values
    }
    stored = {argument_of(v) for op in inside for v in _written(op) if isinstance(v.type, ViewType)}
    filled = [id(root_of(v)) for op in inside for v in _written(op)]
    for op in loop.regions[0].ops:
        view, tile = _load(op)
        if view is None or tile is None or {id(view), id(tile)} & defined:
            continue
        argument = argument_of(view)
        if argument == "?" or stored & {argument, "?"} or filled.count(id(root_of(tile))) > 1:
            continue
        if any(id(v) in defined for v in op.operand_values()):
            continue
        yield finding(
            "PTO7406",
            f"'{op.name}' brings the same bytes in every round of the loop",
            op.span(source),
            more=(Label(loop.span(source), "the loop"),),
            notes=("its view and its tile are made outside, and nothing in the loop changes them",),
            help="move it before the loop",
        )


def _load(op: Operation) -> tuple[Value | None, Value | None]:
    """The view and the tile of an operation that fills a tile from global memory."""
    named = list(named_values(op))
    views = [v for _, role, v in named if role is Role.IN and isinstance(v.type, ViewType)]
    tiles = [v for _, role, v in named if role is Role.OUT and isinstance(v.type, TileType)]
    if len(views) != 1 or len(tiles) != 1 or op.definition is None:
        return None, None
    return (views[0], tiles[0]) if op.definition.family == "memory" else (None, None)


def _written(op: Operation) -> list[Value]:
    if op.has("same_storage") or op.has("window") or op.has("view"):
        return []
    return [value for _, role, value in named_values(op) if role is not Role.IN]


# -- slots of a multi buffer that no round of a loop picks ----------------------------------------


def idle_slots(function: Function, source: Source) -> Iterator[Diagnostic]:
    """Report slots picked by a remainder of a counter that grows past them: `i % 2` in steps of 2
    is one slot, so that nothing overlaps."""
    for found in _picks(function).values():
        if len({operand_value(op, "slot") for op in found}) == 1:
            yield from _idle(found[0], source)


def _idle(pick: Operation, source: Source) -> Iterator[Diagnostic]:
    slot = operand_value(pick, "slot")
    rest = slot.owner if slot is not None and not slot.is_argument else None
    loop = _loop_around(pick)
    step = getattr(loop.bound.get("step"), "const", None) if loop is not None else None
    first, by = _turned(rest) if rest is not None else (None, 0)
    if loop is None or not isinstance(step, int) or by < 2 or _rounds(loop) in (0, 1):
        return
    counter = loop.regions[0].blocks[0].values[0]
    grows = factor(first, lambda value: value is counter)
    count = by // gcd(grows * step, by) if grows else by
    if count < by:
        start = getattr(loop.bound.get("lower"), "const", None)
        left = f"{by - count} slots"
        if isinstance(start, int) and first is not None and first.value is counter:
            picked = {(start + k * step) % by for k in range(by)}
            left = f"slot {', '.join(str(n) for n in range(by) if n not in picked)}"
        yield finding(
            "PTO7408",
            f"{left} of {by} {'is' if by - count == 1 else 'are'} never selected by '{pick.name}'",
            pick.span(source),
            more=(Label(loop.span(source), f"its counter grows by {step} a round"),),
            help=f"take the number of the round: ((i - start) / {step}) % {by}",
        )


def _turned(rest: Operation) -> tuple[Operand | None, int]:
    """What a number is a remainder of, and by what: of `i % 2`, or `i & 1`, i and 2; by 0 where it
    is none."""
    operands = [o for o in rest.bound.values() if isinstance(o, Operand)]
    if len(operands) != 2 or not isinstance(operands[1].const, int):
        return None, 0
    first, by = operands[0], operands[1].const
    if rest.has("remainder"):
        return first, by
    is_mask = rest.has("bit_and") and by & (by + 1) == 0
    return first, by + 1 if is_mask else 0


def filled_ahead(function: Function, source: Source) -> Iterator[Diagnostic]:
    """Report a slot that is filled before a loop whose rounds fill the next one and use their own:
    assemblers before 0.63 set and take the flags of every slot (PTOAS#1519, #1524)."""
    written = {v for op in function.ops for v in _written(op)}
    for picks in _picks(function).values():
        loops = {loop for op in picks if (loop := _loop_around(op)) is not None}
        before = [op for op in picks if _loop_around(op) is None and op.results[0] in written]
        for loop in loops if before else ():
            inside = [op for op in picks if _loop_around(op) is loop]
            ahead = [op for op in inside if _turns(op, loop) and op.results[0] in written]
            if ahead and any(_turns(op, loop) is False for op in inside):
                yield finding(
                    "PTO5219",
                    f"'{ahead[0].name}' picks the slot that the next round uses, and the first one "
                    "is filled before the loop: the flags that are inserted do not fit",
                    ahead[0].span(source),
                    more=(Label(before[0].span(source), "filled before the loop"),),
                    notes=(
                        "with an even number of rounds data are wrong, with an odd one it hangs",
                    ),
                    help="assemble with 0.63 or later, or write the flags yourself",
                )


def _picks(function: Function) -> dict[Value | None, list[Operation]]:
    """The operations that pick slots, by what they pick from."""
    found: dict[Value | None, list[Operation]] = {}
    for op in function.ops:
        if op.has("picks_slot"):
            found.setdefault(operand_value(op, "source"), []).append(op)
    return found


def _turns(pick: Operation, loop: Operation) -> bool | None:
    """True for a slot that is a remainder of more than the counter of the loop, False for one of
    the counter itself; None for others."""
    counter = loop.regions[0].blocks[0].values[0]
    slot = operand_value(pick, "slot")
    rest = slot.owner if slot is not None and not slot.is_argument else None
    if rest is None or not rest.has("remainder"):
        return None
    first = next(o for o in rest.bound.values() if isinstance(o, Operand))
    grows = factor(first, lambda value: value is counter)
    return None if grows != 1 else first.value is not counter


def _loop_around(op: Operation) -> Operation | None:
    while op.parent is not None and not op.parent.has("counted"):
        op = op.parent
    return op.parent


def _rounds(loop: Operation) -> int | None:
    given = [getattr(loop.bound.get(n), "const", None) for n in ("lower", "upper", "step")]
    known = [each for each in given if isinstance(each, int)]
    return len(range(*known)) if len(known) == len(given) and known[2] > 0 else None


# -- stores of the scalar unit to global memory that others are told of while its cache has them ---


def unpublished(function: Function, source: Source) -> Iterator[Diagnostic]:
    """Report the last scalar store before a signal to other cores or ranks, in the order of the
    text, where nothing between them writes the scalar data cache back."""
    stored: Operation | None = None
    for op in function.ops:
        if op.has("writes_back"):
            stored = None
        elif _stores_to_gm(op):
            stored = op
        elif stored is not None and _tells_others(op):
            yield _unpublished(stored, op, source)
            stored = None


def _tells_others(op: Operation) -> bool:
    return op.has("publishes") or (op.has("cross_core") and op.has("signals"))


def _stores_to_gm(op: Operation) -> bool:
    if not op.has("writes_memory") or op.has("atomic_update"):
        return False
    place = operand_value(op, "ptr")
    type_ = place.type if place is not None else None
    return isinstance(type_, ViewType) or (isinstance(type_, PtrType) and type_.space == "gm")


def _unpublished(store: Operation, signal: Operation, source: Source) -> Diagnostic:
    return finding(
        "PTO6110",
        f"'{store.name}' is in the scalar unit's cache when '{signal.name}' tells others of it",
        store.span(source),
        more=(Label(signal.span(source), "told here"),),
        notes=(
            "on hardware they may read what was there before; here memory is always up to date",
        ),
        help="write `pto.cmo.cacheinvalid %pointer single_cache_line : …` between them",
    )


# -- all of them --------------------------------------------------------------------------------

_LINTS = (
    unused,
    unread,
    overwritten,
    invariant_loads,
    idle_slots,
    unpublished,
)


def lints(resolved: ResolvedModule, blocks: int | None = None) -> list[Diagnostic]:
    """Return what could be better in the functions of a module that has no errors, for a launch of
    so many blocks."""
    source = resolved.module.source
    functions = [f for f in resolved.functions.values() if f.has_body and not f.implicit]
    found = [each for lint in _LINTS for function in functions for each in lint(function, source)]
    for function in functions:
        found += of_blocks(function, source, blocks)
        if function.name in resolved.settings.ordered:
            found += filled_ahead(function, source)
    sink = Sink(date=resolved.date)
    sink.extend([*directions(source), *arguments(functions, source), *found])
    return list(sink)
