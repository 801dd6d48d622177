"""Names, types and operands: a parsed module becomes functions whose operations know their rows."""

from __future__ import annotations

import difflib
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ptosim.diagnostics.model import Fix, Label, Sink, error, warning
from ptosim.ir.attributes import Enum, attr_value, token_value
from ptosim.ir.core import Attr, Block, Module, Node, Operand, Operation, Region, Value
from ptosim.ir.program import Function, ResolvedModule
from ptosim.ir.types import (
    AbstractTileType,
    ErrorType,
    PtrType,
    ScalarType,
    TileType,
    Type,
    VectorType,
)
from ptosim.isa.dtypes import dtype
from ptosim.isa.registry import isa
from ptosim.isa.schema import OpDef, Variant
from ptosim.passes import bind
from ptosim.passes.scope import Scope
from ptosim.passes.views import condition_holds
from ptosim.source import Span
from ptosim.syntax.token import Tok
from ptosim.syntax.types import parse_type

INDEX = ScalarType(dtype("index"))
_MAX_RESULTS = 1024
_LEFT_LAYOUT = {"a2a3": "row_major", "a5": "col_major"}
_REGION_OPS = frozenset(("pto.section.cube", "pto.section.vector", "pto.vecscope"))


def resolve(
    module: Module, target: str, sink: Sink, types: Mapping[str, Type] | None = None
) -> ResolvedModule:
    """Bind every name, type and operand of a module for one target; faults go to `sink`.

    `types` gives values whose type is abstract in the text a tile type.
    """
    return _Resolver(module, target, sink, types or {}).run()


class _Resolver:
    def __init__(self, module: Module, target: str, sink: Sink, types: Mapping[str, Type]) -> None:
        self.types = types
        self.module = module
        self.source = module.source
        self.sink = sink
        self.target = target
        self.scope = Scope(module.source, sink, module.skipped_names)
        self.resolved = ResolvedModule(module, target)
        self.isa = isa()
        self._function: Function | None = None
        self._structured = {
            "module": self._module,
            "func.func": self._func,
            "arith.constant": self._constant,
            "scf.for": self._for,
            "scf.if": self._if,
            "scf.while": self._while,
            "scf.execute_region": self._if,
            "scf.index_switch": self._if,
            "scf.yield": self._values_only,
            "scf.condition": self._condition,
            "func.return": self._values_only,
            "func.call": self._call,
            "memref.reinterpret_cast": self._reinterpret,
            "pto.strict_vecscope": self._strict,
            **dict.fromkeys(_REGION_OPS, self._regions_only),
        }

    def run(self) -> ResolvedModule:
        self._declare(self.module.ops)
        if self.module.kind == "snippet":
            self._snippet()
        else:
            for op in self.module.ops:
                self._operation(op)
        return self.resolved

    # -- functions ------------------------------------------------------------------------------

    def _declare(self, ops: Sequence[Operation]) -> None:
        """Functions can be called before they are defined, so their names come first."""
        for op in ops:
            if op.name == "module":
                kind = op.attrs.get("pto.kernel_kind")
                if kind is not None:
                    self.resolved.kernel_kind = _member(attr_value(kind))
                for region in op.regions:
                    self._declare(region.ops)
            elif op.name == "func.func":
                self._declare_function(op)

    def _declare_function(self, op: Operation) -> None:
        symbol = next(t for t in op.items if t.type == "SYMBOL")
        name = token_value(symbol).name
        previous = self.resolved.functions.get(name)
        if previous is not None:
            at = previous.op.start
            self.sink.emit(
                error(
                    "PTO1007",
                    f"redefinition of function `@{name}`",
                    Span(self.source, symbol.start, symbol.end),
                    more=(Label(Span(self.source, at, at + 9), "first defined here"),),
                    help="choose another name",
                )
            )
            return
        args = [
            Value(
                a.parts[0].value[1:] if a.parts[0] else f"arg{i}",
                self.type_of(a.parts[1]),
                op,
                a.start,
                is_argument=True,
            )
            for i, a in enumerate(op.ins)
        ]
        kind = op.attrs.get("pto.kernel_kind")
        self.resolved.functions[name] = Function(
            name,
            op,
            args,
            [self.type_of(t) for t in op.arrow or ()],
            private=any(t.type == "PRIVATE" for t in op.items),
            kernel_kind=_member(attr_value(kind)) if kind else self.resolved.kernel_kind,
        )

    def _module(self, op: Operation) -> None:
        for region in op.regions:
            for inner in region.ops:
                self._operation(inner)

    def _func(self, op: Operation) -> None:
        symbol = next(t for t in op.items if t.type == "SYMBOL")
        function = self.resolved.functions.get(token_value(symbol).name)
        if function is None:
            self._nested_function(symbol)
            return
        if function.op is not op or not op.regions:
            return
        outer = self.scope.isolate()
        self._function = function
        self.scope.enter()
        block = op.regions[0].blocks[0] if op.regions[0].blocks else None
        for value in function.args:
            self._bind_argument(value)
        if block is not None:
            block.values = function.args
            self._ops(block.ops)
        self.scope.leave()
        self._function = None
        self.scope.restore(outer)

    def _nested_function(self, symbol: Tok) -> None:
        if any(d.code < "PTO1" for d in self.sink):
            return  # a missing brace makes everything behind it a part of the function
        self.sink.emit(
            error(
                "PTO1020",
                f"function `{symbol.value}` stands in another function",
                Span(self.source, symbol.start, symbol.end),
                notes=("functions stand side by side in a module",),
                help="close the function above it with `}`",
            )
        )

    def _bind_argument(self, value: Value) -> None:
        defined = self.scope.define(value.name, value.type, value.owner, value.start)
        defined.is_argument = True
        # `define` made its own value; the function's signature keeps that one.
        self._function.args[self._function.args.index(value)] = defined  # type: ignore[union-attr]

    def _snippet(self) -> None:
        arguments: list[Value] = []
        op = Operation("func.func", "core", 0, len(self.source.text))
        op.name_end = 0
        op.regions = [Region([Block(list(self.module.ops), [])])]
        function = Function("snippet", op, arguments, [], implicit=True)
        self.resolved.functions["snippet"] = function
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
        number = name.removeprefix("arg")
        is_number = name != number and number.isdecimal() and int(number) < len(arguments)
        if is_number and not self.scope.knows(name):
            self.scope.alias(name, arguments[int(number)])
        self.scope.open_world = None
        self._operation(op)

    # -- operations -----------------------------------------------------------------------------

    def _ops(self, ops: Sequence[Operation]) -> None:
        for op in ops:
            self._operation(op)

    def _operation(self, op: Operation) -> None:
        op.function = self._function.op if self._function else None
        if self.module.attr_aliases:
            self._attribute_aliases(op.attrs.values())
        if sum(n for _, n, _ in op.result_tokens) > _MAX_RESULTS:
            self._count_mismatch(op, f"more than {_MAX_RESULTS} results")
            op.result_tokens = [(name, 1, start) for name, _, start in op.result_tokens]
        handler = self._structured.get(op.name)
        if handler is not None and (op.form == "core" or op.name == "arith.constant"):
            op.definition = self.isa.get(op.name)
            handler(op)
            return
        definition = self._definition(op)
        op.definition = definition
        written = bind.collect(op, self.use, self.type_of)
        for region in op.regions:
            self._region(region, [])
        if definition is None:
            self._results(op, [ErrorType() for _ in op.result_tokens])
            return
        self._bind(op, definition, written)
        self._results(op, self._result_types(op, definition, written))

    def _attribute_aliases(self, attrs: Iterable[Any]) -> None:
        for attr in attrs:
            atom = attr.atom if isinstance(attr, Attr) else attr
            if isinstance(atom, (list, dict)):
                self._attribute_aliases(atom.values() if isinstance(atom, dict) else atom)
            elif isinstance(attr, Attr) and isinstance(atom, Tok) and atom.type == "ATTR":
                attr.alias = self.module.attr_aliases.get(atom.value)

    def _definition(self, op: Operation) -> OpDef | None:
        name = op.name if op.form != "line" and "." in op.name else f"pto.{op.name}"
        definition = self.isa.get(name) or self.isa.get(_lowered(op.name))
        if definition is None:
            self.sink.emit(self._unknown_op(op))
            return None
        if (
            definition.name != op.name
            and op.form not in ("line",)
            and self.module.kind != "snippet"
        ):
            self.sink.emit(self._unknown_op(op))
        op.name = definition.name
        return definition

    def _unknown_op(self, op: Operation):
        names = self.isa.names()
        bare = op.name.removeprefix("pto.").lower()
        close = difflib.get_close_matches(f"pto.{bare}", names, n=1) or difflib.get_close_matches(
            op.name, names, n=1
        )
        start = op.name_end - len(op.name) if op.form != "generic" else op.start
        return error(
            "PTO1003",
            f"unknown operation `{op.name}`",
            Span(self.source, start, op.name_end),
            help=f"did you mean `{close[0]}`?" if close else "`ptosim ops` lists every operation",
        )

    def _bind(self, op: Operation, definition: OpDef, written: bind.Written) -> None:
        def holds(variant: Variant, condition: str) -> bool:
            return condition_holds(op, self._declared_results(op, written), condition, self.target)

        variant = bind.choose(op, definition, written, holds)
        if variant is None:
            bind.report_mismatch(op, definition, written, self.source, self.sink)
            return
        op.bound |= bind.bind_named(op, definition, variant, written, self.source, self.sink)

    def _declared_results(self, op: Operation, written: bind.Written) -> list[Type]:
        """Types of the results as far as the text has them, before the operands are bound."""
        if op.arrow:
            types = [self.type_of(t) for t in op.arrow]
        else:
            types = self._last_types(op, written, sum(n for _, n, _ in op.result_tokens))
        names = [name for name, _, _ in op.result_tokens]
        named = [self.types.get(n, t) for n, t in zip(names, types, strict=False)]
        return [*named, *types[len(named) :]]

    def _result_types(self, op: Operation, definition: OpDef, written: bind.Written) -> list[Type]:
        count = sum(n for _, n, _ in op.result_tokens)
        if not count:
            return []
        if op.arrow:
            types = [self.type_of(t) for t in op.arrow]
            if definition.result_type == "like:ptr":
                types = [_with_space_of(op, op.arrow[0], types[0])]
        elif definition.result_type in (None, "last"):
            types = self._last_types(op, written, count)
        elif definition.result_type.startswith("like:"):
            types = [_operand_type(op, definition.result_type[5:])]
        elif definition.result_type.startswith("window:"):
            types = [_window_type(op, definition.result_type[7:])]
        elif definition.result_type == "pair":
            types = [_operand_type(op, "lhs")] * 2
        elif definition.result_type == "extended":
            types = [_operand_type(op, "lhs"), ScalarType(dtype("i1"))]
        else:
            types = [parse_type(definition.result_type).type] * count
        if len(types) == count:
            return types
        self._count_mismatch(op, f"{count} results but {len(types)} result types")
        return [*types, *([ErrorType()] * count)][:count]

    def _count_mismatch(self, op: Operation, what: str) -> None:
        self.sink.emit(
            error(
                "PTO1004",
                f"'{op.name}' op has {what}",
                Span(self.source, op.start, op.name_end),
                help="give one type for each result",
            )
        )

    def _last_types(self, op: Operation, written: bind.Written, count: int) -> list[Type]:
        if op.form == "dps" and op.outs_types and not op.outs:
            return [self.type_of(t) for t in op.outs_types]
        tokens = [t for t in op.types if t.__class__ is Tok and t.type == "TYPE"]
        if tokens:
            return [self.type_of(tokens[-1])] * count
        return [written.types[-1]] * count if written.types else []

    def _results(self, op: Operation, types: list[Type]) -> None:
        if not op.result_tokens:
            return
        count = sum(n for _, n, _ in op.result_tokens)
        if count != len(types):
            self._count_mismatch(op, f"{count} results but {len(types)} result types")
        values: list[Value] = []
        rest = iter(types)
        for name, count, start in op.result_tokens:
            if count == 1:
                type_ = next(rest, ErrorType())
                if isinstance(type_, AbstractTileType):
                    type_ = self.types.get(name, type_)
                values.append(self.scope.define(name, type_, op, start))
                continue
            values.extend(
                self.scope.define(f"{name}#{i}", next(rest, ErrorType()), op, start)
                for i in range(count)
            )
        op.results = values

    # -- operands -------------------------------------------------------------------------------

    def use(self, tok: Any, declared: Type | None) -> Operand:
        """Return the operand that a token stands for."""
        if tok.__class__ is Node:
            if tok.kind == "symbol":
                return Operand(tok, None, None, token_value(tok.parts[1]))
            return self.use(tok.parts[0], declared)
        if tok.type != "SSA":
            alias = self.module.attr_aliases.get(tok.value) if tok.type == "ATTR" else None
            const = attr_value(alias) if alias is not None else token_value(tok)
            return Operand(tok, None, declared, const)
        if isinstance(declared, AbstractTileType):
            declared = self.types.get(tok.value[1:], declared)
        value = self.scope.use(tok, declared)
        if declared is not None:
            self._check_declared(value, declared, tok)
        return Operand(tok, value, value.type)

    def _check_declared(self, value: Value, declared: Type, tok: Tok) -> None:
        actual = value.type
        if compatible(actual, declared):
            return
        self.sink.emit(
            error(
                "PTO1005",
                f"`%{value.name}` has another type than this use says",
                Span(self.source, tok.start, tok.end),
                label=f"used as {declared}",
                more=(
                    Label(
                        Span(self.source, value.start, value.start + len(value.name) + 1),
                        f"defined as {actual}",
                    ),
                ),
                notes=("the type of a use repeats the type of the definition",),
                help=f"write `{actual}`",
            )
        )

    def type_of(self, tok: Any) -> Type:
        """Return the type that a token spells, for the target; reports a wrong or old spelling."""
        text = tok.value
        if text.startswith("!") and text in self.module.type_aliases:
            text = self.module.type_aliases[text]
        parsed = parse_type(text)
        if parsed.fault is not None:
            self._report_type(tok, parsed.fault, parsed.hint)
        elif parsed.legacy is not None:
            self._report_legacy(tok, parsed.legacy, str(parsed.type))
        return for_target(parsed.type, self.target)

    def _report_type(self, tok: Tok, fault: str, hint: str | None) -> None:
        unknown_alias = tok.value.startswith("!") and "." not in tok.value
        self.sink.emit(
            error(
                "PTO1006",
                f"undefined type alias `{tok.value}`" if unknown_alias else fault,
                Span(self.source, tok.start, tok.end),
                help=hint,
            )
        )

    def _report_legacy(self, tok: Tok, reason: str, modern: str) -> None:
        span = Span(self.source, tok.start, tok.end)
        self.sink.emit(
            warning(
                "PTO0010",
                f"legacy spelling: {reason}",
                span,
                notes=("the assembler of today does not read this spelling",),
                help=f"write `{modern}`",
                fixes=(Fix(span, modern),),
            )
        )

    # -- operations with a syntax of their own ----------------------------------------------------

    def _constant(self, op: Operation) -> None:
        if op.form == "generic":
            value_attr = op.attrs.get("value")
            literal = value_attr.atom if value_attr is not None else None
            types = [self.type_of(t) for t in op.arrow or ()]
        else:
            literal = op.items[0]
            types = [self.type_of(t) for t in op.types]
        type_ = types[0] if types else _literal_type(literal)
        value = constant_value(literal, type_)
        if value is None:
            self.sink.emit(
                error(
                    "PTO1008",
                    f"the literal does not fit type {type_}",
                    Span(self.source, op.start, op.end),
                    help="write an integer for an integer type, a decimal or 0x… for a float",
                )
            )
        self._results(op, [type_])
        for result in op.results:
            result.const = value

    def _region(self, region: Region, arguments: list[Type]) -> None:
        for block in region.blocks:
            self.scope.enter()
            declared = [(t, self.type_of(ty) if ty is not None else None) for t, ty in block.args]
            values = []
            for i, (tok, type_) in enumerate(declared):
                actual = type_ or (arguments[i] if i < len(arguments) else ErrorType())
                value = self.scope.define(tok.value[1:], actual, None, tok.start)
                value.is_argument = True
                values.append(value)
            block.values = values
            self._ops(block.ops)
            self.scope.leave()

    def _uses(self, tokens: Any, types: Any = ()) -> list[Operand]:
        declared = [self.type_of(t) for t in types]
        return [
            self.use(tok, declared[i] if i < len(declared) else None)
            for i, tok in enumerate(tokens)
        ]

    def _for(self, op: Operation) -> None:
        bounds = self._uses(op.ins)
        carried_types = [self.type_of(t) for t in op.arrow or ()]
        initial = [
            self.use(tok, carried_types[i] if i < len(carried_types) else None)
            for i, tok in enumerate(op.outs)
        ]
        op.bound = {"lower": bounds[0], "upper": bounds[1], "step": bounds[2], "init": initial}
        variable = bounds[0].type if not op.types else self.type_of(op.types[0])
        self._region(op.regions[0], [variable or INDEX, *carried_types])
        self._results(op, carried_types)

    def _if(self, op: Operation) -> None:
        operands = self._uses(op.ins)
        op.bound = {"condition": operands[0] if operands else None}
        for region in op.regions:
            self._region(region, [])
        self._results(op, [self.type_of(t) for t in op.arrow or ()])

    def _while(self, op: Operation) -> None:
        op.bound = {"init": self._uses(op.ins, op.ins_types)}
        results = [self.type_of(t) for t in op.arrow or ()]
        self._region(op.regions[0], [o.type or ErrorType() for o in op.bound["init"]])
        if len(op.regions) > 1:
            self._region(op.regions[1], results)
        self._results(op, results)

    def _values_only(self, op: Operation) -> None:
        op.bound = {"values": self._uses(op.ins, op.ins_types)}

    def _condition(self, op: Operation) -> None:
        op.bound = {
            "condition": self._uses(op.outs)[0],
            "values": self._uses(op.ins, op.ins_types),
        }

    def _call(self, op: Operation) -> None:
        operands = self._uses(op.ins, op.ins_types)
        callee = _callee(op)
        op.bound = {"callee": callee, "values": operands}
        function = self.resolved.functions.get(callee)
        if function is None:
            self._unknown_callee(op, callee)
        elif len(function.args) != len(operands):
            self._wrong_call(op, function, len(operands))
        self._results(op, [self.type_of(t) for t in op.arrow or ()])

    def _unknown_callee(self, op: Operation, callee: str) -> None:
        close = difflib.get_close_matches(callee, self.resolved.functions, n=1)
        self.sink.emit(
            error(
                "PTO1009",
                f"call of undefined function `@{callee}`",
                Span(self.source, op.start, op.end),
                help=f"did you mean `@{close[0]}`?" if close else None,
            )
        )

    def _wrong_call(self, op: Operation, function: Function, given: int) -> None:
        self.sink.emit(
            error(
                "PTO1010",
                f"`@{function.name}` takes {len(function.args)} arguments, not {given}",
                Span(self.source, op.start, op.end),
                more=(
                    Label(
                        Span(self.source, function.op.start, function.op.start + 9), "defined here"
                    ),
                ),
            )
        )

    def _reinterpret(self, op: Operation) -> None:
        named: dict[str, Any] = {}
        for clause in op.clauses:
            named[clause.parts[0].value] = [self.use(t, None) for t in clause.parts[1].parts]
        op.bound = {"source": self._uses(op.ins)[0], **named}
        self._results(op, [self.type_of(t) for t in op.arrow or ()])

    def _regions_only(self, op: Operation) -> None:
        for region in op.regions:
            self._region(region, [])

    def _strict(self, op: Operation) -> None:
        captured = self._uses(op.ins, op.ins_types)
        op.bound = {"values": captured}
        outer = self.scope.isolate()
        self._region(op.regions[0], [o.type or ErrorType() for o in captured])
        self.scope.restore(outer)
        self._results(op, [self.type_of(t) for t in op.arrow or ()])


def for_target(type_: Type, target: str) -> Type:
    """The assembler gives every `left` tile the box order of the target's L0A, whatever is
    written."""
    if isinstance(type_, TileType) and type_.loc == "left":
        blayout = _LEFT_LAYOUT[target]
        if type_.blayout != blayout and type_.slayout != "none_box":
            return replace(type_, blayout=blayout)
    return type_


def constant_value(literal: Any, type_: Type) -> Any:
    """Return the value of a literal in a scalar type, None if it does not fit.

    Integers are taken modulo the width and given with the type's sign; a hexadecimal literal of a
    float type is its bit pattern.
    """
    if isinstance(type_, VectorType):
        return getattr(literal, "value", None)
    if not isinstance(type_, ScalarType) or literal.__class__ is not Tok:
        return None
    element = type_.dtype
    value = token_value(literal)
    if element.is_float:
        return _float_constant(value, literal, element)
    if isinstance(value, bool):
        return int(value) if element.name != "i1" else value
    if not isinstance(value, int):
        return None
    if element.name == "i1":
        return bool(value)
    wrapped = value & ((1 << element.bits) - 1)
    if element.kind == "int" and wrapped >> (element.bits - 1):
        wrapped -= 1 << element.bits
    return wrapped


_FLOAT_PATTERNS = {16: ("<H", "<e"), 32: ("<I", "<f"), 64: ("<Q", "<d")}


def _float_constant(value: Any, literal: Tok, element: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if literal.type != "HEX" or isinstance(value, float):
        return float(value)
    if value < 0 or value >> element.bits:
        return None
    if element.family == "bf16":
        return struct.unpack("<f", struct.pack("<I", value << 16))[0]
    if element.bits not in _FLOAT_PATTERNS:
        return None
    integer, real = _FLOAT_PATTERNS[element.bits]
    return struct.unpack(real, struct.pack(integer, value))[0]


def _literal_type(literal: Any) -> Type:
    kind = getattr(literal, "type", "")
    if kind in ("TRUE", "FALSE"):
        return ScalarType(dtype("i1"))
    if kind in ("INT", "HEX"):
        return ScalarType(dtype("i64"))
    return ScalarType(dtype("f64"))


def compatible(actual: Type, declared: Type) -> bool:
    """True if a value of one type can stand where the other is written.

    Old programs drop the space of a pointer; the two spellings of a tile type mean the same; a type
    that was reported agrees with every other, an abstract tile with every tile.
    """
    if actual == declared or isinstance(actual, ErrorType) or isinstance(declared, ErrorType):
        return True
    if isinstance(actual, AbstractTileType) or isinstance(declared, AbstractTileType):
        tiles = (AbstractTileType, TileType, VectorType)
        return isinstance(actual, tiles) and isinstance(declared, tiles)
    if isinstance(actual, PtrType) and isinstance(declared, PtrType):
        return actual.elem.family == declared.elem.family
    if isinstance(actual, TileType) and isinstance(declared, TileType):
        return replace(actual, ssa=False) == replace(declared, ssa=False)
    return False


def _member(value: Any) -> str | None:
    return value.member if isinstance(value, Enum) else None


def _placed_name(op: Operation) -> str | None:
    """The name of the tile that a `tassign` without a result places, None for other operations."""
    if op.name not in ("pto.tassign", "tassign") or op.result_tokens or not op.items:
        return None
    tok = op.items[0]
    return tok.value[1:] if tok.__class__ is Tok and tok.type == "SSA" else None


def _operand_type(op: Operation, name: str) -> Type:
    operand = op.bound.get(name)
    return (operand.type if operand is not None else None) or ErrorType()


def _window_type(op: Operation, name: str) -> Type:
    """The type of the tile operand with the constant shape that `sizes` names."""
    type_ = _operand_type(op, name)
    sizes = [o.const for o in op.bound.get("sizes") or ()]
    if not isinstance(type_, TileType) or len(sizes) != 2:
        return type_ if not isinstance(type_, TileType) else ErrorType()
    if not all(isinstance(s, int) and s > 0 for s in sizes):
        return type_  # the check of the operation says what is wrong
    rows, cols = sizes
    return replace(type_, rows=rows, cols=cols, v_row=rows, v_col=cols)


def _with_space_of(op: Operation, tok: Tok, type_: Type) -> Type:
    """A pointer type without a space (`<f32>`) that follows a pointer operand is in its space."""
    source = _operand_type(op, "ptr")
    if isinstance(source, PtrType) and isinstance(type_, PtrType) and "," not in tok.value:
        return replace(type_, space=source.space)
    return type_


def _callee(op: Operation) -> str:
    if op.items:
        return token_value(op.items[0]).name
    attr = op.attrs.get("callee")
    value = attr_value(attr) if attr is not None else None
    return getattr(value, "name", "")


def _lowered(name: str) -> str:
    """C++ spellings in snippets: `TQuant`, `TQUANT`, `pto.TQuant` name `pto.tquant`."""
    return f"pto.{name.removeprefix('pto.').lower()}"
