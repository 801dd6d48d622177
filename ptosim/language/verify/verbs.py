"""The words of the expressions in `isa/structure.toml`: what a rule can ask of operations,
functions, values and types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from math import prod
from typing import Any

from ptosim.ground.ir.attributes import Symbol, attribute_of, number_of
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule, Unit
from ptosim.ground.ir.types import (
    MAX_THREADS,
    AbstractTileType,
    ErrorType,
    MemRefType,
    MultiTileType,
    ScalarType,
    StructType,
    TileType,
    Type,
    VectorType,
    ViewType,
)
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.targets import machine, unit_rules
from ptosim.ground.records import NamedTuple
from ptosim.language.bind.names import compatible
from ptosim.language.bind.units import mark_of
from ptosim.language.place.scopes import OF_REGISTERS, escapes, runs_of
from ptosim.language.place.sides import (
    CUBE,
    OPEN,
    VECTOR,
    VIRTUAL,
    has_registers,
    is_register,
    makes_registers,
    pipe_of,
    votes,
)
from ptosim.language.verify.checks.functions import callees_of
from ptosim.language.verify.operands import constant
from ptosim.machine.effects.storage import operand_value, root_of

HELPER = "pto.tileop.helper"
"""Marks the body of one tile operation, a function that is called as one."""


class Pair(NamedTuple):
    """What is given in a place and what is wanted there."""

    number: int
    given: Any
    wanted: Any


class Named(NamedTuple):
    """An operand with its name in the row."""

    name: str
    operand: Operand


class Escape(NamedTuple):
    """A value of an inferred region and who uses it outside."""

    value: Value
    user: Operation


@lru_cache(maxsize=512)
def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# -- operations ------------------------------------------------------------------------------------


def has(op: Operation | None, traits: str) -> bool:
    """True for an operation with one of the traits."""
    return op is not None and not op.traits.isdisjoint(_words(traits))


def having(ops: Iterable[Operation], traits: str) -> list[Operation]:
    """The operations with one of the traits."""
    words = _words(traits)
    return [op for op in ops if not words.isdisjoint(op.traits)]


def _first_having(ops: Iterable[Operation], trait: str) -> Operation | None:
    return next((op for op in ops if trait in op.traits), None)


def inside(op: Operation, trait: str) -> Operation | None:
    """The innermost operation around one that has the trait."""
    return op.inside(trait)


def of_family(op: Operation, beginning: str) -> bool:
    """True if the name of its family begins so."""
    return op.definition is not None and op.definition.family.startswith(beginning)


def given(op: Operation, name: str) -> bool:
    """True where the name is bound, if only to nothing."""
    return name in op.bound


def arg(op: Operation, name: str) -> Any:
    """What a name of the row is bound to."""
    return op.bound.get(name)


def result(op: Operation) -> Value | None:
    """The first result."""
    return op.results[0] if op.results else None


def owner(operand: Any) -> Operation | None:
    """The operation that defines an operand."""
    value = operand.value if isinstance(operand, Operand) else None
    return value.owner if isinstance(value, Value) else None


def made_by(operand: Any, traits: str) -> bool:
    """True if an operation with one of the traits defines an operand."""
    return has(owner(operand), traits)


def named_operands(op: Operation) -> list[Named]:
    """The operands with their names."""
    return [Named(name, operand) for name, operand in op.operands()]


def takes_only(op: Operation, values: Collection[Value]) -> bool:
    """True if all operands are among these values."""
    return all(value in values for value in op.operand_values())


def has_operand(op: Operation, name: str) -> bool:
    """True if the row has a named operand of this name."""
    row = op.definition
    return row is not None and any(d.name == name for v in row.variants for d in v.named)


def written(op: Operation, name: str) -> bool:
    """True if the text has the attribute."""
    return name in op.attrs


# -- types -----------------------------------------------------------------------------------------

_TYPES: dict[str, tuple[type, ...]] = {
    "tile": (TileType,),
    "abstract_tile": (AbstractTileType,),
    "multi_tile": (MultiTileType,),
    "scalar": (ScalarType,),
    "struct": (StructType,),
    "view": (ViewType,),
    "memref": (MemRefType,),
    "vector": (VectorType,),
    "virtual": VIRTUAL,
    "error": (ErrorType,),
}


@lru_cache(maxsize=64)
def _classes(words: str) -> tuple[type, ...]:
    return tuple(kind for word in words.split() for kind in _TYPES[word])


def is_a(type_: Any, words: str) -> bool:
    """True for a type of one of the kinds; `register`: what only the vector unit has."""
    return is_register(type_) if words == "register" else isinstance(type_, _classes(words))


def type_of(operand: Any) -> Type | None:
    """The type of an operand or value; None for what has none."""
    return getattr(operand, "type", None)


def types(values: Iterable[Any] | None) -> list[Any]:
    """The types of operands or values."""
    return [value.type for value in values or ()]


def touches(op: Operation, words: str) -> bool:
    """True if a result or an operand is of one of the kinds."""
    found = [*(v.type for v in op.results), *(o.type for _, o in op.operands())]
    return any(is_a(type_, words) for type_ in found)


def takes(op: Operation, words: str) -> bool:
    """True if an operand is of one of the kinds."""
    return any(is_a(value.type, words) for value in op.operand_values())


def fit(given: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """True if each type can be used for the one in its place."""
    return all(g is None or compatible(g, w) for g, w in zip(given, wanted, strict=False))


def pairs(given: Sequence[Any], wanted: Sequence[Any]) -> list[Pair]:
    """What is given and wanted in each place that both have."""
    both = enumerate(zip(given, wanted, strict=False))
    return [Pair(number, one, other) for number, (one, other) in both]


def first_unlike(given: Sequence[Operand] | None, wanted: Sequence[Type]) -> list[Pair]:
    """The first place whose operand has another type."""
    found = pairs(given or (), wanted)
    return [p for p in found if p.given.type and not compatible(p.given.type, p.wanted)][:1]


def has_errors(values: Iterable[Value]) -> bool:
    """True if the type of a value is reported already."""
    return any(isinstance(value.type, ErrorType) for value in values)


def listed(types: Iterable[Any]) -> str:
    """The types in a sentence."""
    return joined(types) or "nothing"


def joined(entries: Iterable[Any]) -> str:
    """The entries with commas between them."""
    return ", ".join(map(str, entries))


# -- functions and regions -------------------------------------------------------------------------


def is_helper(function: Function) -> bool:
    """True for the body of one tile operation."""
    return HELPER in function.op.attrs


def _arguments(region: Any) -> list[Any]:
    return region.blocks[0].args if region.blocks else []


def _block_types(op: Operation) -> list[Any]:
    block = op.regions[0].blocks[0] if op.regions and op.regions[0].blocks else None
    return [v.type for v in block.values] if block is not None else []


def _for_cube(op: Operation, function: Function) -> bool:
    """True for a register operation that only a cube core would execute."""
    section = op.inside("section")
    side = section.definition.side if section is not None and section.definition else None
    return has_registers(op) and (side or function.kernel_kind) == CUBE


def _escaping(function: Function) -> list[Escape]:
    runs = list(runs_of(function.op.regions[0].blocks))
    return [Escape(value, user) for value, user in escapes(function, runs)]


def _places_storage(function: Function) -> bool:
    """True where the planner has something to place: a tile, a memref of local memory."""
    made = [op.results[0].type for op in function.ops if has(op, "makes_storage") and op.results]
    return any(
        isinstance(t, (TileType, MultiTileType)) or (isinstance(t, MemRefType) and t.space != "gm")
        for t in made
    )


def _next_fixed(function: Function) -> Operation | None:
    """The first buffer at an address that the program says."""
    reserved = having(function.ops, "reserves")
    return next((op for op in reserved if attribute_of(op, "auto") is False), None)


def _reserves(function: Function, name: object) -> bool:
    return any(attribute_of(op, "name") == name for op in having(function.ops, "reserves"))


def _with_bodies(unit: Unit) -> list[Function]:
    return [f for f in unit.functions.values() if f.has_body]


_STATIC: dict[str, Callable[..., Any]] = {
    "len": len,
    "str": str,
    "has": has,
    "having": having,
    "any_has": lambda ops, trait: _first_having(ops, trait) is not None,
    "next_having": _first_having,
    "inside": inside,
    "of_family": of_family,
    "given": given,
    "arg": arg,
    "attr": attribute_of,
    "attribute": lambda op, name: op.attributes.get(name),
    "number": number_of,
    "result": result,
    "owner": owner,
    "value_of": lambda operand: operand.value,
    "made_by": made_by,
    "named_operands": named_operands,
    "op_values": Operation.operand_values,
    "takes_only": takes_only,
    "has_operand": has_operand,
    "has_registers": has_registers,
    "written": written,
    "is_a": is_a,
    "type_of": type_of,
    "types": types,
    "touches": touches,
    "takes": takes,
    "fit": fit,
    "compatible": compatible,
    "pairs": pairs,
    "first_unlike": first_unlike,
    "has_errors": has_errors,
    "listed": listed,
    "joined": joined,
    "quoted": lambda word: f"'{word}'",
    "item": lambda entries, number: entries[number],
    "product": prod,
    "next_of": lambda table: next(iter(table.values()), None),
    "is_int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "is_symbol": lambda value: isinstance(value, Symbol),
    "none_negative": lambda numbers: all(n is None or n >= 0 for n in numbers),
    "ends_with": str.endswith,
    "before_last": lambda ops: ops[:-1],
    "constants": lambda *given: [*map(constant, given[0] if isinstance(given[0], list) else given)],
    "mnemonic": lambda op: op.name.removeprefix("pto."),
    "storage": lambda op: _storage(operand_value(op, "source")),
    "is_helper": is_helper,
    "arguments": _arguments,
    "block_types": _block_types,
    "for_cube": _for_cube,
    "escapes": _escaping,
    "reserves": _reserves,
    "with_bodies": _with_bodies,
    "same_backend": lambda units: len({unit.backend for unit in units}) <= 1,
}


def _storage(value: Value | None) -> Value | None:
    """What a tile is a window or another name of."""
    return root_of(value) if value is not None and isinstance(value.type, TileType) else None


class Verbs:
    """What the rules of one program can ask; of what is asked of whole functions each answer is
    kept."""

    def __init__(self, resolved: ResolvedModule, level: int) -> None:
        self.resolved = resolved
        self.level = level
        self.words = {word for op in resolved.ops for word in op.traits}
        families = (op.definition.family for op in resolved.ops if op.definition is not None)
        self.words |= {family.partition("_")[0] for family in families}
        self._known: dict[Any, Any] = {}

    def names(self) -> Mapping[str, Any]:
        """Every name that an expression can use beside those of the thing that it is about."""
        resolved, settings = self.resolved, self.resolved.settings
        return {
            **_STATIC,
            "target": resolved.target,
            "level": self.level,
            "level_inferred": "level" not in settings.given,
            "dump": settings.dump,
            "insert_sync": settings.inserts_sync,
            "kind": resolved.module.kind,
            "most_threads": MAX_THREADS,
            "ruled": lambda name: name in self.rules.rules,
            "rule_text": lambda name: self.rules.rules.get(name),
            "has_word": self.words.__contains__,
            "mentions": lambda text: text in resolved.module.source.text,
            "any_registers": self._any_registers,
            "first_with": self._first_with,
            "callee": lambda op: resolved.functions.get(op.bound.get("callee", "")),
            "peer_function": resolved.peer,
            "mark": lambda op: mark_of(op, self.rules),
            "named": lambda trait: isa(resolved.date).having(trait)[0].name,
            "pipe": lambda op: pipe_of(op, resolved.target),
            "room": self._room,
            "in_header": self._in_header,
            "is_launched": self._is_launched,
            "kinds_of": lambda fn: self._once(self._kinds, fn),
            "names_kind": self._names_kind,
            "next_fixed": lambda fn: self._once(_next_fixed, fn),
            "places_storage": lambda fn: self._once(_places_storage, fn),
            "resolved": resolved,
            "all_ends": lambda: self.ends,
            "is_moved": self._is_moved,
        }

    def _once(self, ask: Callable[[Any], Any], about: Any) -> Any:
        """The answer of `ask`, asked once."""
        key = ask, about
        if key not in self._known:
            self._known[key] = ask(about)
        return self._known[key]

    @property
    def rules(self) -> Any:
        """What the date says of modules and functions."""
        return unit_rules(self.resolved.date)

    @property
    def ends(self) -> list[Any]:
        """Every end of a FIFO (`fifos.End`)."""
        return self._of_fifos[0]

    @property
    def strays(self) -> list[tuple[Function, Any]]:
        """Users of FIFOs (`fifos.Use`) that belong to no end."""
        return self._of_fifos[1]

    @cached_property
    def _of_fifos(self) -> tuple[list[Any], list[tuple[Function, Any]]]:
        # Asked of programs with FIFOs only: others do without the module.
        from ptosim.language.verify.checks.fifos import ends_of

        return ends_of(self.resolved)

    def _any_registers(self) -> bool:
        return any(op.traits & OF_REGISTERS or makes_registers(op) for op in self.resolved.ops)

    def _first_with(self, trait: str, name: str) -> Operation | None:
        """The first operation with a trait for which the text gives a named operand."""
        ops = (op for op in self.resolved.ops if trait in op.traits and has_operand(op, name))
        return next((op for op in ops if op.bound.get(name) is not None), None)

    def _room(self, space: object) -> int | None:
        """Bytes of a memory that the planner has."""
        found = machine(self.resolved.chip).spaces.get(str(space))
        return found.planner if found is not None else None

    def _in_header(self, key: Any) -> bool:
        """True for a key of the initialisation of a FIFO, which says so itself."""
        opened = (op for op in self.resolved.ops if op.definition and op.definition.fifo == "open")
        return any(op.start <= key.start < op.end for op in opened)

    def _is_launched(self, function: Function) -> bool:
        """True for an entry: what is marked, and what the date takes for one."""
        if not function.has_body or function.implicit:
            return False
        is_marked = mark_of(function.op, self.rules) is not None
        if "every_public_function" in self.rules.rules:
            return not function.private and (is_marked or function.name not in self._called())
        return is_marked

    def _called(self) -> set[str]:
        functions = (f for f in self.resolved.functions.values() if f.has_body)
        return {name for f in functions for name, _ in callees_of(f)}

    def _kinds(self, function: Function) -> set[str]:
        return votes(function.body, self.resolved.target) & {CUBE, VECTOR}

    def _names_kind(self, functions: Sequence[Function]) -> bool:
        """True if something in functions says which kind of core executes them."""
        target = self.resolved.target
        return any(
            f.kernel_kind is not None
            or votes(f.body, target) - {OPEN}
            or any(op.has("section") for op in f.ops)
            for f in functions
        )

    def _is_moved(self, op: Operation, name: str) -> bool:
        """True if a move of exponents takes the tile that an operation has under a name."""
        moved = (
            _tile(mover, "src") for mover in self.resolved.ops
            if mover.variant is not None and mover.variant.name == "exponents"
        )  # fmt: skip
        return _tile(op, name) in {value for value in moved if value is not None}


def _tile(op: Operation, name: str) -> Value | None:
    value = getattr(op.bound.get(name) if op.bound else None, "value", None)
    return value if value is not None else op.result_values.get(name)
