"""What belongs together in a program though it has no name in common: who gives and who awaits an
event, the tiles that share bytes, who calls whom, what is alive at a place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

from ptosim.ground.ir.attributes import Enum
from ptosim.ground.ir.core import Operand, Operation, Tok, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import MultiTileType, TileType
from ptosim.ground.isa.schema import OpDef, Role, enums, pipe_named
from ptosim.ground.isa.targets import machine
from ptosim.ground.records import NamedTuple
from ptosim.language.place.cores import sharing
from ptosim.language.place.reuse import lifetimes
from ptosim.machine.effects.storage import named_values
from ptosim.tools.lsp.document import Document
from ptosim.tools.lsp.names import Kind, innermost


class Way(StrEnum):
    """What a place does to the thing that it belongs to."""

    WRITES = "writes"
    READS = "reads"
    BOTH = "both"
    NAMES = "names"


class Place(NamedTuple):
    """Characters of a text that belong to a thing."""

    start: int
    end: int
    way: Way


# -- events ----------------------------------------------------------------------------------------
#
# Who awaits an event names the same operands as who gives it, beside the pipe that does so. Flags
# between pipes, tokens of buffers and the flags between cores are different things: they are told
# apart by the attributes and the operands that their rows have.

_OWN = ("pipe", "op_type", "buf_mode")
"""Operands that say who gives or awaits an event, and how."""
_IDS = 16
"""Flags of a cluster: those of its second vector core are the same ones, 16 higher."""
_ANY = object()


def events(document: Document, offset: int) -> list[Place]:
    """Return the operations that give or await the event of the operation at an offset, or the
    barriers of the same pipe; nothing for other operations, and at the name of a value."""
    ops = document.resolved.ops
    op = innermost(ops, offset)
    if op is None or op.definition is None or document.names.at(offset) is not None:
        return []
    if op.has("barrier"):
        own = _pipes(op)
        same = [
            o for o in ops if o.has("barrier") and (_pipes(o) & own or "ALL" in _pipes(o) | own)
        ]
        return [Place(o.start, o.end, Way.NAMES) for o in same]
    event = event_of(op)
    if event is None:
        return []
    same = [o for o in ops if (other := event_of(o)) is not None and _agree(event, other)]
    return [Place(o.start, o.end, Way.WRITES if o.has("signals") else Way.READS) for o in same]


def _pipes(op: Operation) -> set[str]:
    return {str(_plain(operand)) for _, operand in op.operands()}


def event_of(op: Operation) -> tuple[Any, ...] | None:
    """Return what tells the event of an operation from others; None if it has none."""
    if op.definition is None or not (op.has("signals") or op.has("waits")) or not op.bound:
        return None
    given = [(name, _plain(operand)) for name, operand in op.operands() if name not in _OWN]
    is_of_cluster = len(given) == 1 and given[0][0].startswith("event")
    numbers = [n % _IDS if is_of_cluster and isinstance(n, int) else n for _, n in given]
    return kind_of(op.definition), *numbers


def kind_of(row: OpDef) -> tuple[Any, ...]:
    """Return what tells the events of an operation's kind from those of others."""
    names = [o.name for o in row.variants[0].operands if o.name not in _OWN]
    return *sorted(row.attrs), len(names), *names[-1:]


def _plain(operand: Operand) -> Any:
    """The pipe or the number that an operand says, however it is written; a value that only the run
    knows can be any number."""
    const = operand.const
    if const is None:
        return _ANY
    text = const.member if isinstance(const, Enum) else const
    if not isinstance(text, str):
        return text
    event = enums()["event"].member(text)
    return enums()["event"].members[event] if event is not None else pipe_named(text) or text


def _agree(one: Sequence[Any], other: Sequence[Any]) -> bool:
    same = (_ANY in (a, b) or a == b for a, b in zip(one, other, strict=False))
    return len(one) == len(other) and all(same)


# -- storage ---------------------------------------------------------------------------------------


def storage(document: Document, offset: int) -> list[Place]:
    """Return every mention of a tile at an offset, and of the tiles, windows and other names that
    share bytes with it: its own first, where it is made before all; nothing for other values."""
    word = document.names.at(offset)
    made = document.names.definition(word) if word is not None else None
    value = made.value if made is not None else None
    if value is None or not isinstance(value.type, (TileType, MultiTileType)):
        return []
    tiles = dict.fromkeys(_tiles(document))
    shared = {value, *_sharing(document, value, list(tiles))}
    ways = _ways(document)
    found = []
    for mention in document.names.words:
        own = document.names.definition(mention) if mention.kind is Kind.VALUE else None
        if own is not None and own.value in shared:
            way = ways.get(mention.start, Way.WRITES if own.word == mention else Way.NAMES)
            order = (own.value is not value, mention != own.word if own.value is value else False)
            found.append((order, mention.start, Place(mention.start, mention.end, way)))
    return [place for *_, place in sorted(found, key=lambda one: one[:2])]


def _tiles(document: Document) -> Iterator[Value]:
    for made in (m for places in document.names.made.values() for m in places):
        if made.value is not None and isinstance(made.value.type, (TileType, MultiTileType)):
            yield made.value


def _sharing(document: Document, value: Value, tiles: list[Value]) -> Iterator[Value]:
    for plan in document.checked.front.plans.values():
        if any(value in (*f.args, *(v for op in f.ops for v in op.results)) for f in plan.reached):
            yield from sharing(value, tiles, plan.placement)


_WAYS = {Role.IN: Way.READS, Role.OUT: Way.WRITES, Role.INOUT: Way.BOTH}


def _ways(document: Document) -> dict[int, Way]:
    """What each operand does to the value that it names, by its offset."""
    found: dict[int, Way] = {}
    for op in document.resolved.ops:
        roles = {name: role for name, role, _ in named_values(op)}
        for name, operand in op.operands():
            if isinstance(operand.tok, Tok) and name in roles:
                found[operand.tok.start] = _WAYS.get(roles[name], Way.NAMES)
    return found


# -- calls -----------------------------------------------------------------------------------------


class Call(NamedTuple):
    """A function, and the places where it is called or where it calls."""

    function: Function
    places: list[Operation]


def function_at(document: Document, offset: int) -> Function | None:
    """Return the function that is named or called at an offset, else the one around it."""
    functions = document.resolved.functions
    op = innermost(document.resolved.ops, offset)
    if op is None:
        return None
    named = (
        functions.get(_callee(op))
        if op.name_end >= offset or _is_at_name(document, offset)
        else None
    )
    home = next((f for f in functions.values() if f.op in (op, op.function)), None)
    found = named or home
    return None if found is None or found.implicit else found


def _is_at_name(document: Document, offset: int) -> bool:
    word = document.names.at(offset)
    return word is not None and word.kind is Kind.FUNCTION


def _callee(op: Operation) -> str:
    name = op.bound.get("callee", "") if op.definition is not None else ""
    return name if isinstance(name, str) else ""


def callers(document: Document, name: str) -> list[Call]:
    """Return the functions that call or launch a function, with the calls."""
    known = document.resolved.functions
    functions = [f for f in known.values() if name in known and not f.implicit]
    found = [Call(f, [op for op in f.ops if _callee(op) == name]) for f in functions]
    return [call for call in found if call.places]


def callees(document: Document, name: str) -> list[Call]:
    """Return the functions that a function calls or launches, with the calls."""
    functions = document.resolved.functions
    ops = functions[name].ops if name in functions else []
    found: dict[str, list[Operation]] = {}
    for op in ops:
        if _callee(op) in functions:
            found.setdefault(_callee(op), []).append(op)
    return [Call(functions[callee], places) for callee, places in found.items()]


# -- memory ----------------------------------------------------------------------------------------


class Resident(NamedTuple):
    """Bytes of a space that a tile has; `alive` says whether they are in use at the place, `at` is
    the offset where it is made."""

    name: str
    start: int
    bytes: int
    alive: bool
    at: int


class Space(NamedTuple):
    """A memory on chip: its bytes, how many tiles take, and what is in it, by address."""

    name: str
    limit: int
    used: int
    tiles: list[Resident]


def memory(document: Document, offset: int) -> list[Space]:
    """Return the memories of the first entry whose plan reaches an offset, with what is placed in
    each and is in use there: from its first use to its last, throughout a loop around them."""
    plans = list(document.checked.front.plans.values())
    here = [p for p in plans if any(f.op.start <= offset <= f.op.end for f in p.reached)]
    if not here:
        return []
    placement = here[0].placement
    values = {v.start: v for f in here[0].reached for op in f.ops for v in op.results}
    alive = {
        value
        for function in here[0].reached
        if function.op.start <= offset <= function.op.end
        for value in _alive(function, set(values.values()), offset)
    }
    spaces: dict[str, list[Resident]] = {}
    for one in sorted(placement.placed, key=lambda p: (p.addr, p.start)):
        value = values.get(one.start)
        name = f"%{value.name}" if value is not None else one.name
        resident = Resident(name, one.addr, one.bytes, value in alive, one.start)
        spaces.setdefault(one.space, []).append(resident)
    sizes = machine(document.checked.front.chip).spaces
    return [
        Space(name, sizes[name].bytes if name in sizes else 0, placement.used(name), tiles)
        for name, tiles in spaces.items()
    ]


def _alive(function: Function, planned: set[Value], offset: int) -> Iterator[Value]:
    found, spans = lifetimes(function, planned)
    before = [spans[op][0] for op in function.ops if op.start <= offset and op in spans]
    now = max(before, default=0)
    yield from (value for value, life in found.items() if life.start <= now <= life.end)
