"""The units of a file: modules with a symbol table each, and the functions that they declare.

Functions can be called before they are defined, so their names come before their bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from ptosim.ground.diagnostics.model import Label, Sink
from ptosim.ground.ir.attributes import Enum, attribute_of, token_value
from ptosim.ground.ir.core import Block, Operation, Tok, Value
from ptosim.ground.ir.program import Function, ResolvedModule, Unit
from ptosim.ground.ir.types import Type
from ptosim.ground.isa.targets import UnitRules, unit_rules

TypeOf = Callable[[Tok], Type]


def declare(resolved: ResolvedModule, type_of: TypeOf, sink: Sink) -> dict[Operation, Unit]:
    """Fill the file's unit with the modules and functions of the text; return the unit of each
    module. A name that a unit defines twice is reported."""
    declarer = _Declarer(resolved, type_of, sink)
    declarer.declare(resolved.module.ops, resolved.unit)
    resolved.functions = _named(resolved.unit)
    return declarer.units


class _Declarer:
    def __init__(self, resolved: ResolvedModule, type_of: TypeOf, sink: Sink) -> None:
        self.source = resolved.module.source
        self.type_of = type_of
        self.sink = sink
        self.units: dict[Operation, Unit] = {}

    def declare(self, ops: Sequence[Operation], unit: Unit) -> None:
        modules = [op for op in ops if op.name == "module"]
        is_all = unit.op is None and len(ops) == 1
        for op in ops:
            if op.name == "func.func" and op.form == "core":
                self._function(op, unit)
            elif op.name == "module":
                name = "" if is_all else _module_name(op) or str(modules.index(op))
                path = self._path(unit, name)
                inner = Unit(path, op, unit, kernel_kind_of(op) or unit.kernel_kind)
                inner.backend = backend_of(op) or unit.backend
                unit.children.append(inner)
                self.units[op] = inner
                for region in op.regions:
                    self.declare(region.ops, inner)

    @staticmethod
    def _path(unit: Unit, name: str) -> str:
        """The path of a module in a unit; a name that another one has gets a number."""
        path = "::".join(filter(None, (unit.path, name)))
        taken = {child.path for child in unit.children}
        return path if path not in taken else f"{path}.{len(unit.children)}"

    def _function(self, op: Operation, unit: Unit) -> None:
        symbol = next(t for t in op.items if t.type == "SYMBOL")
        name = token_value(symbol).name
        previous = unit.functions.get(name)
        if previous is not None:
            self.sink.report(
                "PTO1007",
                f"redefinition of function `@{name}`",
                symbol.span(self.source),
                more=(Label(previous.op.span(self.source), "first defined here"),),
                help="choose another name",
            )
        function = Function(
            name,
            unit,
            name,
            op,
            self._arguments(op),
            [self.type_of(t) for t in op.arrow or ()],
            private=any(t.type == "PRIVATE" for t in op.items) and not is_exported(op),
            has_body=bool(op.regions),
            kernel_kind=kernel_kind_of(op) or unit.kernel_kind,
        )
        if previous is None:
            unit.functions[name] = function
        else:
            unit.again[op] = function

    def _arguments(self, op: Operation) -> list[Value]:
        return [
            Value(
                a.parts[0].value[1:] if a.parts[0] else f"arg{i}",
                self.type_of(a.parts[1]),
                op,
                a.start,
                is_argument=True,
            )
            for i, a in enumerate(op.ins)
        ]


def _named(file: Unit) -> dict[str, Function]:
    """All functions by the names that tell them apart: a name that one unit alone defines is that
    of the definition."""
    functions = [f for unit in file.walk() for f in unit.functions.values()]
    symbols = Counter(f.symbol for f in functions)
    defined = Counter(f.symbol for f in functions if f.has_body)
    for function in functions:
        symbol = function.symbol
        is_alone = symbols[symbol] == 1 or (function.has_body and defined[symbol] == 1)
        if not is_alone:
            function.name = function.unit.qualified(symbol)
    return {f.name: f for f in functions}


def entries_of(resolved: ResolvedModule) -> list[str]:
    """Return the functions that can be run: those with a body that are marked as entries; where
    none is marked, or the date does not ask for it, those that are not private, of threads only
    where there are no others. A snippet without operations is none."""
    rules = unit_rules(resolved.date)
    bodies = [f for f in resolved.functions.values() if f.has_body and not _is_empty(f)]
    marked = [f.name for f in bodies if mark_of(f.op, rules)]
    if marked and "every_public_function" not in rules.rules:
        return marked
    public = [f for f in bodies if not f.private]
    launched = [f for f in public if SIMT_ENTRY not in f.op.attrs]
    return [f.name for f in launched or public]


SIMT_ENTRY = "pto.simt_entry"
"""Marks a function that launches of threads execute."""


def mark_of(op: Operation, rules: UnitRules) -> str | None:
    """Return the attribute that makes a function an entry, None where it has none."""
    return next((mark for mark in rules.marks if mark in op.attrs), None)


def _is_empty(function: Function) -> bool:
    return function.implicit and not function.body


def _module_name(op: Operation) -> str:
    symbol = next((t for t in op.items if t.type == "SYMBOL"), None)
    return token_value(symbol).name if symbol is not None else ""


def symbol_of(op: Operation) -> str:
    """Return the name of a function in the text."""
    return token_value(next(t for t in op.items if t.type == "SYMBOL")).name


def kernel_kind_of(op: Operation) -> str | None:
    """Return the kind of core that a function or module names."""
    value = attribute_of(op, "pto.kernel_kind")
    return value.member if isinstance(value, Enum) else None


def is_exported(op: Operation) -> bool:
    """True for a function that others may use though it is no entry."""
    return attribute_of(op, "pto.visibility") == "external"


def backend_of(op: Operation) -> str | None:
    """Return the back end that a module names, in small letters."""
    value = attribute_of(op, "pto.backend")
    return value.lower() if isinstance(value, str) else None


# The blocks of a region: which one each can be followed by, and which one it must come after.
#
# A value is visible in the blocks that its own dominates: those that cannot be reached without it.


def labels_of(blocks: Sequence[Block]) -> dict[str, Block]:
    """Return the blocks by their labels; of several with one label the first."""
    found: dict[str, Block] = {}
    for block in blocks:
        if block.label is not None:
            found.setdefault(block.label.value, block)
    return found


def successors(block: Block, labels: dict[str, Block]) -> list[Block]:
    """Return the blocks that the operations of a block name."""
    written = (clause.parts[0].value for op in block.ops for clause in jumps(op))
    return [labels[label] for label in written if label in labels]


def jumps(op: Operation) -> Iterator:
    """Yield the places of the text where an operation names a block."""
    return (clause for clause in op.clauses if clause.kind == "succ")


def dominated(blocks: Sequence[Block]) -> dict[Block, list[Block]]:
    """Return for each block the blocks that it dominates immediately, in the order of the text.
    Blocks that nothing reaches count as dominated by the first."""
    labels = labels_of(blocks)
    order = _reverse_postorder(blocks[0], labels)
    number = {block: i for i, block in enumerate(order)}
    before: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for following in successors(block, labels):
            before[following].append(block)
    parent = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [b for b in before[block] if b in parent]
            found = known[0]
            for other in known[1:]:
                found = _common(found, other, parent, number)
            if parent.get(block) is not found:
                parent[block] = found
                changed = True
    children: dict[Block, list[Block]] = {block: [] for block in blocks}
    for block in blocks[1:]:
        children[parent.get(block, blocks[0])].append(block)
    return children


def _reverse_postorder(first: Block, labels: dict[str, Block]) -> list[Block]:
    done: list[Block] = []
    seen = {first}
    stack = [(first, iter(successors(first, labels)))]
    while stack:
        block, rest = stack[-1]
        following = next((b for b in rest if b not in seen), None)
        if following is None:
            done.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(successors(following, labels))))
    return done[::-1]


def _common(
    one: Block, other: Block, parent: dict[Block, Block], number: dict[Block, int]
) -> Block:
    while one is not other:
        while number[one] > number[other]:
            one = parent[one]
        while number[other] > number[one]:
            other = parent[other]
    return one
