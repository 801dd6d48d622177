"""Names, types and operands: a parsed module becomes functions whose operations know their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.ir.core import Attr, Block, Module, Operation, Region, Tok, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import (
    ErrorType,
    PtrType,
    ScalarType,
    TileType,
    Type,
    VectorType,
    ViewType,
)
from ptosim.ground.isa.dates import DEFAULT_DATE, comes_later, holds
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OpDef, Variant, dtype
from ptosim.ground.records import replace
from ptosim.ground.source import Span
from ptosim.ground.words import whole
from ptosim.language.bind import bind
from ptosim.language.bind.names import compatible, named_results, type_difference
from ptosim.language.bind.structured import WITHOUT_OPERAND_LISTS, Structured
from ptosim.language.bind.units import declare, entries_of, symbol_of
from ptosim.language.bind.unknown import unknown_operation
from ptosim.language.bind.written import Listed, OfWords, Written, collect, take_meaning
from ptosim.language.syntax.parser import parse_type
from ptosim.language.verify.rule_views import attribute, condition_holds

_MAX_RESULTS = 1024


def resolve(
    module: Module,
    target: str,
    sink: Sink,
    types: Mapping[str, Type] | None = None,
    *,
    date: str = DEFAULT_DATE,
    legacy: bool = False,
) -> ResolvedModule:
    """Bind every name, type and operand of a module for a chip, or for the usual one of an
    architecture, as a date of the language reads it; faults go to `sink`.
    With `legacy` names of other dates are read too.

    `types` gives values whose type is abstract in the text a tile type.
    """
    resolver = _Resolver(module, target, sink, types or {}, date)
    resolver.reads_all = legacy or module.kind == "snippet"
    return resolver.run()


def _empty_region(op: Operation) -> None:
    """Of operations that execute a region `{ }` is an empty one, and no dictionary."""
    has_one = op.has("simt_region") or op.has("fusion")
    if has_one and not op.regions and op.form == "items" and {} in op.items:
        at = list(op.items).index({})
        op.items = [*op.items[:at], *op.items[at + 1 :]]
        op.regions = [Region([Block([], [])], op.end)]


class _Resolver(Listed, Structured):
    def __init__(
        self, module: Module, target: str, sink: Sink, types: Mapping[str, Type], date: str
    ) -> None:
        super().__init__(module, target, sink, types, date)
        self.isa = isa(date)
        self.reads_all = False
        self.kept = module.kept
        self._function: Function | None = None
        self._words = OfWords()
        self._handlers = {"module": self._module, "func.func": self._func, **self._structured}

    def run(self) -> ResolvedModule:
        resolved = self.resolved
        if self.kept is not None:
            self.kept.begin(resolved.chip)
            self.scope.known = self.kept.values
        self.units = declare(resolved, self.type_of, self.sink)
        if self.module.kind == "snippet":
            self._snippet()
        else:
            for op in self.module.ops:
                self._operation(op)
        resolved.ops = self.module.walk()
        for op in (*resolved.ops, *(f.op for f in resolved.functions.values() if f.implicit)):
            for block in (block for region in op.regions for block in region.blocks):
                block.executed = None
                for inner in block.ops:
                    inner.parent = op
        for function in resolved.functions.values():
            function.ops = function.op.walk()
            blocks = function.op.regions[0].blocks if function.has_body else []
            function.body = [op for block in blocks for op in block.ops]
        resolved.entries = entries_of(resolved)
        return resolved

    # -- functions ------------------------------------------------------------------------------

    def _module(self, op: Operation) -> None:
        if self._function is not None:
            self._not_in_a_function("a module is inside a function", op.start, op.name_end)
            return
        if op not in self.units:
            self._not_in_a_function("a module is inside an operation", op.start, op.name_end)
            return
        outer, self.unit = self.unit, self.units[op]
        for region in op.regions:
            for inner in region.ops:
                self._operation(inner)
        self.unit = outer

    def _func(self, op: Operation) -> None:
        function = self.unit.again.get(op) or self.unit.functions.get(symbol_of(op))
        if self._function is not None:
            symbol = next(t for t in op.items if t.type == "SYMBOL")
            self._not_in_a_function(
                f"function `{symbol.value}` is inside another function", symbol.start, symbol.end
            )
            return
        if function is None or function.op is not op or not op.regions:
            return
        outer = self.scope.isolate()
        self._function = function
        self.scope.enter()
        for value in function.args:
            self._bind_argument(function, value)
        region = op.regions[0]
        with self._labels(region):
            for block in self._in_order(region):
                if block is region.blocks[0]:
                    block.values = function.args
                    self._ops(block.ops)
                else:
                    self._block(block, [])
        self.scope.leave()
        self._function = None
        self.scope.restore(outer)

    def _not_in_a_function(self, problem: str, start: int, end: int) -> None:
        if any(d.is_syntax_error for d in self.sink):
            return  # a missing brace makes everything after it a part of the function
        self.sink.report(
            "PTO1020",
            problem,
            Span(self.source, start, end),
            notes=("functions follow one another in a module",),
            help="close the function above it with `}`",
        )

    def _bind_argument(self, function: Function, value: Value) -> None:
        defined = self.scope.define(value.name, value.type, value.owner, value.start)
        defined.is_argument = True
        # `define` made its own value; the function's signature keeps that one.
        function.args[function.args.index(value)] = defined

    def _snippet(self) -> None:
        arguments: list[Value] = []
        op = Operation("func.func", "core", 0, len(self.source.text), 0)
        op.regions = [Region([Block(list(self.module.ops), [])])]
        function = Function("snippet", self.unit, "snippet", op, arguments, [], implicit=True)
        self.unit.functions["snippet"] = self.resolved.functions["snippet"] = function
        self._function = function
        self.scope.open_world = arguments
        self.scope.enter()
        placements = [o for o in op.regions[0].ops if not self._resolved_in_order(o)]
        for placement in placements:
            self._placement(placement, arguments)
        op.regions[0].blocks[0].values = arguments
        self.scope.leave()

    def _resolved_in_order(self, op: Operation) -> bool:
        """Resolve an operation of a snippet, unless it places a value before its first use."""
        name = _placed_name(op)
        if name is not None and not self.scope.knows(name):
            return False
        self._operation(op)
        return True

    def _placement(self, op: Operation, arguments: Sequence[Value]) -> None:
        """`tassign %argN, …` with a name that nothing else has means the N-th undefined value."""
        name = _placed_name(op) or ""
        number = whole(name.removeprefix("arg")) if name.startswith("arg") else None
        if number is not None and number < len(arguments) and not self.scope.knows(name):
            self.scope.alias(name, arguments[number])
        self.scope.open_world = None
        self._operation(op)

    # -- operations -----------------------------------------------------------------------------

    def _ops(self, ops: Sequence[Operation]) -> None:
        for op in ops:
            self._operation(op)

    def _operation(self, op: Operation) -> None:
        kept = self.kept
        if kept is None or self._function is None:
            self._anew(op)
            return
        if op in kept.before and self._is_as_before(op, *kept.before[op]):
            kept.uses[op] = kept.before[op]
            kept.same.add(op)
            return
        kept.forget(op)
        count = len(self.sink), self.misuses
        is_plain = not op.regions and op.form != "core" and op.name not in self._handlers
        self.scope.noted, self._types = [] if is_plain else None, []
        self._anew(op)
        noted, self.scope.noted = self.scope.noted, None
        if noted is None or op.regions or "launches" in op.traits:
            return
        is_known = not any(isinstance(type_, ErrorType) for _, _, type_, _ in noted)
        if is_known and count == (len(self.sink), self.misuses):
            kept.uses[op] = noted, self._types

    def _is_as_before(self, op: Operation, uses: list[Any], types: list[Tok]) -> bool:
        """Leave an operation as it was bound before, if it names the same values."""
        function = self._function.op if self._function else None
        if op.function is not function or not all(self.scope.still(*use) for use in uses):
            return False
        for tok in types:
            self.type_of(tok)  # whose spelling a message can repeat
        for _, value, _, _ in uses:
            value.uses += 1
        for value in op.results:
            self.scope.keep(value)
        return True

    def _anew(self, op: Operation) -> None:
        op.function = self._function.op if self._function else None
        if self.module.attr_aliases:
            self._attribute_aliases(op.attrs.values())
        if sum(n for _, n, _ in op.result_tokens) > _MAX_RESULTS:
            self._count_mismatch(op, f"more than {_MAX_RESULTS} results")
            op.result_tokens = [(name, 1, start) for name, _, start in op.result_tokens]
        handler = self._handlers.get(op.name)
        handles_itself = op.form == "core" or op.name in WITHOUT_OPERAND_LISTS
        definition = self.isa.get(op.name) if handler is not None and handles_itself else None
        if definition is None:
            definition = self._definition(op)
        op.definition = definition
        if definition is not None:
            op.traits = definition.traits
            _empty_region(op)
            op.attributes = {a.name: attribute(op, a) for a in definition.attrs.values()}
        if handles_itself and handler is not None and definition is not None:
            handler(op)
            return
        words = self._words.of(op)
        if words is not None and self._words.bind(op, words):
            return
        told = len(self.sink)
        self._operands(op, definition)
        if words is not None and told == len(self.sink):
            self._words.keep(op, words)

    def _operands(self, op: Operation, definition: OpDef | None) -> None:
        """Bind what is written to the names of the row, and define the results."""
        type_of = self.type_of if definition is not None else self.quiet_type_of
        written = collect(op, self.use, type_of)
        for region in op.regions:
            self._region(region, [])
        if definition is None:
            self._results(op, [ErrorType()] * named_results(op))
            return
        self._bind(op, definition, written)
        self._listed_types(op, definition)
        self._one_type(op, definition, written)
        if op.variant is not None and self.module.kind == "snippet" and not bind.fits(op):
            self._bind(op, definition, written)  # a list of types gave an operand another kind
        take_meaning(op, definition, self.isa)
        self._simt_parts(op)
        self._results(op, self._result_types(op, definition, written))
        if op.results:
            names = (output.name for output in op.free_outputs())
            op.result_values = dict(zip(names, op.results, strict=False))

    def _not_quoted(self, op: Operation) -> None:
        self.sink.report(
            "PTO2001",
            f"'{op.name}' op does not take these operands, regions and properties",
            op.span(self.source),
            help="write it without quotes",
        )

    def _attribute_aliases(self, attrs: Iterable[Any]) -> None:
        for attr in attrs:
            atom = attr.atom if isinstance(attr, Attr) else attr
            if isinstance(atom, (list, dict)):
                self._attribute_aliases(atom.values() if isinstance(atom, dict) else atom)
            elif isinstance(attr, Attr) and isinstance(atom, Tok) and atom.type == "ATTR":
                attr.alias = self.module.attr_aliases.get(atom.value)

    def _definition(self, op: Operation) -> OpDef | None:
        definition = self._row(_qualified(op)) or self._row(_lowered(op.name))
        if definition is None or not self._has_at_date(op, definition):
            self.sink.emit(unknown_operation(op, self.source, self.date))
        if definition is not None:
            op.name = definition.name
        return definition

    def _has_at_date(self, op: Operation, definition: OpDef) -> bool:
        """True where the language of the date has an operation as it is written; a snippet has all
        spellings of all dates, C++ those that its library has."""
        if self.module.kind == "snippet":
            return True
        is_so = definition.name == op.name or op.form == "line"
        return is_so and (self.source.is_cpp or holds(definition.dates, self.date))

    def _row(self, name: str) -> OpDef | None:
        """The row of a name at the date; a snippet reads what older ones have too."""
        row = self.isa.get(name)
        if row is not None or not self.reads_all:
            return row
        row = isa().get(name)
        is_later = row is not None and comes_later(row.dates, self.date)
        return None if is_later and not self.source.is_cpp else row

    def _bind(self, op: Operation, definition: OpDef, written: Written) -> None:
        def holds(variant: Variant, condition: str) -> bool:
            return condition_holds(op, self._declared_results(op, written), condition, self.target)

        if op.name in self._handlers:  # which did not take it
            self._not_quoted(op)
            return
        if written.repeated:
            bind.report_repeated(op, written, self.source, self.sink)
            return
        variant = bind.choose(op, definition, written, holds)
        if variant is None:
            bind.report_mismatch(op, definition, written, self.source, self.sink)
            return
        op.bound |= bind.bind_named(op, definition, variant, written, self.source, self.sink)

    def _simt_parts(self, op: Operation) -> None:
        """A launch names a function like a call; the check of launches says what is wrong. An
        allocation of threads has a type in its operands."""
        if "allocates_private" in op.traits and op.bound:
            op.attributes["elem"] = self.type_of(op.bound["elem"].tok)
        if "launches" not in op.traits:
            return
        operand = op.bound.get("callee")
        symbol = getattr(getattr(operand, "const", None), "name", "")
        function = self.resolved.visible(self.unit, symbol)
        op.bound["callee"] = function.name if function is not None else symbol

    def _declared_results(self, op: Operation, written: Written) -> list[Type]:
        """Types of the results as far as the text has them, before the operands are bound."""
        if op.arrow:
            types = [self.type_of(t) for t in op.arrow]
        else:
            types = self._last_types(op, written, named_results(op) or 1)
        names = [name for name, _, _ in op.result_tokens]
        named = [self.types.get(n, t) for n, t in zip(names, types, strict=False)]
        return [*named, *types[len(named) :]]

    def _result_types(self, op: Operation, definition: OpDef, written: Written) -> list[Type]:
        count = named_results(op) or self._unnamed_results(op, definition)
        if not count:
            return []
        types = self._types_of_row(op, definition, written, count)
        if len(types) == count:
            return types
        if op.variant is not None or not definition.variants[0].outs:  # else it is reported
            self._count_mismatch(op, f"{count} results but {len(types)} result types")
        return [*types, *([ErrorType()] * count)][:count]

    def _types_of_row(
        self, op: Operation, definition: OpDef, written: Written, count: int
    ) -> list[Type]:
        """Return the types of the results: those after `->`, else as the row says."""
        rule = definition.result_type or "last"
        if op.arrow:
            types = [self.type_of(t) for t in op.arrow]
            if rule == "first":  # a type after it is no result
                op.attributes["unit"] = types[-1]
                return types[:1]
            if rule == "like:ptr":
                return [with_space_of(op, op.arrow[0], types[0])]
            if not definition.variants[0].outs and rule != "last":
                self._agrees(op, types, self._ruled_types(op, rule))
            return types
        if rule == "last":
            one = definition.result_type is not None and not op.free_outputs()
            return self._last_types(op, written, 1 if one else count)
        return self._ruled_types(op, rule)

    def _agrees(self, op: Operation, written: list[Type], ruled: list[Type]) -> None:
        """Report a result type that is not the one that follows from the operands."""
        for type_, right in zip(written, ruled, strict=False):
            if not compatible(right, type_):
                self.sink.report(
                    "PTO1005",
                    f"'{op.name}' op has another result type than its operands give it"
                    f"{type_difference(right, type_)}",
                    op.span(self.source),
                    help=f"write `{right}`",
                )

    def _ruled_types(self, op: Operation, rule: str) -> list[Type]:
        """Return the types of the results that a row's rule gives."""
        if rule.startswith("like:"):
            return [operand_type(op, rule[5:])]
        if rule.startswith("element:"):
            vector = operand_type(op, rule[8:])
            return [ScalarType(vector.elem) if isinstance(vector, VectorType) else ErrorType()]
        if rule.startswith("window:"):
            return [window_type(op, rule[7:])]
        if rule.startswith("part:"):
            return [_part_type(op, rule[5:])]
        if rule in _BY_LHS:
            return _BY_LHS[rule](operand_type(op, "lhs"))
        results = len(op.variant.outs) if op.variant is not None else 1
        return [parse_type(rule).type] * max(results, 1)

    def _unnamed_results(self, op: Operation, definition: OpDef) -> int:
        """Return how many results an operation has that names none of them."""
        if op.form == "line" or self.module.kind == "snippet":
            return 0
        if op.arrow is not None:
            return len(op.arrow)
        if op.form == "dps":
            return 0 if op.outs else len(op.outs_types)
        if op.variant is None or op.variant.outs or definition.result_type is None:
            return sum(1 for output in op.free_outputs() if not output.optional)
        return 2 if definition.result_type in ("pair", "extended") else 1

    def _last_types(self, op: Operation, written: Written, count: int) -> list[Type]:
        if op.form == "dps" and op.outs_types and not op.outs:
            return [self.type_of(t) for t in op.outs_types]
        tokens = [t for t in op.types if t.__class__ is Tok and t.type == "TYPE"]
        if tokens:
            return [self.type_of(tokens[-1])] * count
        return [written.types[-1]] * count if written.types else []


def _qualified(op: Operation) -> str:
    """The name with its dialect, which snippets and PTO-AS lines leave out."""
    return op.name if op.form != "line" and "." in op.name else f"pto.{op.name}"


def _placed_name(op: Operation) -> str | None:
    """The name of the tile that an operation without a result places, None for other operations."""
    if op.result_tokens or not op.items:
        return None
    row = isa().get(_qualified(op))
    if row is None or "places" not in row.traits:
        return None
    tok = op.items[0]
    return tok.value[1:] if tok.__class__ is Tok and tok.type == "SSA" else None


def _lowered(name: str) -> str:
    """C++ spellings in snippets: `TQuant`, `TQUANT`, `pto.TQuant` name `pto.tquant`."""
    return f"pto.{name.removeprefix('pto.').lower()}"


def operand_type(op: Operation, name: str) -> Type:
    """Return the type of a bound operand."""
    operand = op.bound.get(name)
    return (operand.type if operand is not None else None) or ErrorType()


def _truth_of(type_: Type) -> Type:
    """The type of a comparison: a bit, or one for each number of a small vector."""
    if isinstance(type_, VectorType):
        return VectorType(type_.dims, dtype("i1"), type_.kind, is_unranked=type_.is_unranked)
    return ScalarType(dtype("i1"))


_BY_LHS: dict[str, Callable[[Type], list[Type]]] = {
    "pair": lambda lhs: [lhs, lhs],
    "truth": lambda lhs: [_truth_of(lhs)],
    "extended": lambda lhs: [lhs, ScalarType(dtype("i1"))],
}
"""The types of results that the first operand decides, by the rule of the row."""


def _part_type(op: Operation, name: str) -> Type:
    """The type of a part of the view operand, of the sizes that are constants."""
    type_ = operand_type(op, name)
    if not isinstance(type_, ViewType):
        return type_
    known = (o.const for o in op.bound.get("sizes") or ())
    dims = tuple(n if isinstance(n, int) and n >= 0 else None for n in known)
    return ViewType("partition_tensor_view", dims, type_.elem)


def window_type(op: Operation, name: str) -> Type:
    """The type of the tile operand with the constant shape that `sizes` names."""
    type_ = operand_type(op, name)
    sizes = [o.const for o in op.bound.get("sizes") or ()]
    if not isinstance(type_, TileType) or len(sizes) != 2:
        return type_  # the check of the operation says what is wrong
    if not all(isinstance(s, int) and s > 0 for s in sizes):
        return type_  # the check of the operation says what is wrong
    valid = [o.const for o in op.bound.get("valid") or ()] if op.bound.get("valid") else sizes
    if len(valid) != 2:
        valid = sizes
    rows, cols = (
        min(max(v, 0), s) if isinstance(v, int) else None for v, s in zip(valid, sizes, strict=True)
    )
    return replace(type_, rows=sizes[0], cols=sizes[1], v_row=rows, v_col=cols)


def with_space_of(op: Operation, tok: Tok, type_: Type) -> Type:
    """A pointer type without a space (`<f32>`) that follows a pointer operand is in its space."""
    source = operand_type(op, "ptr")
    if isinstance(source, PtrType) and isinstance(type_, PtrType) and "," not in tok.value:
        return replace(type_, space=source.space)
    return type_
