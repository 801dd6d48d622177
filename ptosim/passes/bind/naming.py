"""What names and types in the text stand for: operands, results, blocks."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from ptosim.ground.diagnostics.model import Fix, Label, Sink, finding
from ptosim.ground.ir.attributes import attr_value, token_value
from ptosim.ground.ir.core import Module, Node, Operand, Operation, Region, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.token import Tok
from ptosim.ground.ir.types import AbstractTileType, ErrorType, Type
from ptosim.ground.isa.targets import machine
from ptosim.ground.source import Span
from ptosim.passes.bind.scope import Scope
from ptosim.passes.bind.type_rules import compatible, for_target
from ptosim.syntax.types import parse_type


class Naming(ABC):
    """Operands and results of the operations of one module, for one target."""

    def __init__(self, module: Module, target: str, sink: Sink, types: Mapping[str, Type]) -> None:
        self.types = types
        self.module = module
        self.source = module.source
        self.sink = sink
        self.target = machine(target).architecture
        self.scope = Scope(module.source, sink, module.skipped_names)
        self.resolved = ResolvedModule(module, self.target, machine(target).name)

    @abstractmethod
    def _ops(self, ops: Sequence[Operation]) -> None:
        """Resolve operations in order."""

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
            finding(
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
            modern = str(parsed.type).replace("!pto.tile_view<", "!pto.partition_tensor_view<")
            self._report_legacy(tok, parsed.legacy, modern)
        return for_target(parsed.type, self.target)

    def _report_type(self, tok: Tok, fault: str, hint: str | None) -> None:
        unknown_alias = tok.value.startswith("!") and "." not in tok.value
        if unknown_alias:
            close = difflib.get_close_matches(tok.value, self.module.type_aliases, n=1)
            define = f"define it above the functions: `{tok.value} = !pto.tile_buf<…>`"
            hint = f"did you mean `{close[0]}`?" if close else define
        self.sink.emit(
            finding(
                "PTO1006",
                f"undefined type alias `{tok.value}`" if unknown_alias else fault,
                Span(self.source, tok.start, tok.end),
                help=hint,
            )
        )

    def _report_legacy(self, tok: Tok, reason: str, modern: str) -> None:
        span = Span(self.source, tok.start, tok.end)
        self.sink.emit(
            finding(
                "PTO0010",
                f"legacy spelling: {reason}",
                span,
                notes=("the assembler of today does not read this spelling",),
                help=f"write `{modern}`",
                fixes=(Fix(span, modern),),
            )
        )

    # -- results --------------------------------------------------------------------------------

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

    def _count_mismatch(self, op: Operation, what: str) -> None:
        self.sink.emit(
            finding(
                "PTO1004",
                f"'{op.name}' op has {what}",
                Span(self.source, op.start, op.name_end),
                help="give one type for each result",
            )
        )

    # -- blocks ---------------------------------------------------------------------------------

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
