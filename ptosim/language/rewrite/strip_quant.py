"""Quantised types out of the signatures of functions, as MLIR's `--strip-func-quant-types` does it.

Arguments, results, returns and calls have the stored types; inside a function `quant.scast` gives
the quantised value back its name."""

from __future__ import annotations

import re
from typing import Any

from ptosim.ground.diagnostics.model import ProgramError, Sink
from ptosim.ground.ir.core import Module, Operation
from ptosim.ground.source import Source
from ptosim.language.build import Builder
from ptosim.language.rewrite.abstract import Edit, after, before, edited
from ptosim.language.syntax.parser import parse
from ptosim.machine.quant.mlir.passes import rewritten
from ptosim.machine.quant.mlir.types import QuantType


def stripped_signatures(source: Source) -> str:
    """Return the text with stored types in every signature; raises ProgramError if it cannot be
    parsed."""
    sink = Sink()
    module = parse(source, sink)
    if sink.has_errors:
        raise ProgramError(list(sink))
    return _Stripper(module).text()


def stored(text: str, module: Module) -> str:
    """Return a text with what is stored in place of quantised values; as it is written
    where it holds none."""

    def word(type_: QuantType) -> str:
        return str(type_) if type_.storage is None else type_.storage.kind

    whole = module.spelled_out(text)
    changed = rewritten(whole, word)
    return text if changed == whole else changed


class _Stripper:
    """Collects replacements of parts of the text."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.source = module.source.text
        self.functions = [op for op in module.walk() if op.name == "func.func"]
        self.edits: list[Edit] = []

    def text(self) -> str:
        """Return the text with everything replaced."""
        for function in self.functions:
            self._function(function)
        return edited(self.source, self.edits)

    def _function(self, function: Operation) -> None:
        twins: dict[str, str] = {}
        body = function.regions[0].ops if function.regions else []
        for node in function.ins:
            token, type_ = _argument(node)
            changed = self._stored(type_.value) if type_ is not None else ""
            if type_ is None or changed == type_.value:
                continue
            self._replace(type_, changed)
            if token is not None and body:
                twins[token.value] = f"{token.value}_stored"
                self._replace(token, twins[token.value])
                cast = _cast(token.value, twins[token.value], changed, type_.value)
                self.edits.append(before(self.source, body[0], [cast]))
        results = _types(function.arrow)
        for type_ in results:
            self._replace(type_, self._stored(type_.value))
        for op in (inner for outer in body for inner in outer.walk()):
            if op.name == "func.return":
                self._uses(op, [t.value for t in results], twins)
            elif op.name == "func.call":
                self._call(op, twins)

    def _call(self, op: Operation, twins: dict[str, str]) -> None:
        callee = next((f for f in self.functions if _symbol(f) == _symbol(op)), None)
        if callee is None:
            return
        made = [(t.value, self._stored(t.value)) for t in _types(callee.arrow)]
        new = {}
        for (name, _, _), (was, became) in zip(op.result_tokens, made, strict=False):
            if was != became:
                new[f"%{name}"] = f"%{name}_stored"
                cast = _cast(f"%{name}", f"%{name}_stored", became, was)
                self.edits.append(after(self.source, op, [cast]))
        types = [type_.value for _, type_ in map(_argument, callee.ins) if type_ is not None]
        self._uses(op, types, twins, new)

    def _uses(
        self,
        op: Operation,
        types: list[str],
        twins: dict[str, str],
        new: dict[str, str] | None = None,
    ) -> None:
        """Give an operation stored operands: the argument itself, or a cast before it."""
        names = dict(new or {})
        for token, type_ in zip(op.ins, types, strict=False):
            changed = self._stored(type_)
            if changed == type_:
                continue
            twin = twins.get(token.value)
            if twin is None:
                twin = f"{token.value}_out"
                cast = _cast(twin, token.value, type_, changed)
                self.edits.append(before(self.source, op, [cast]))
            names[token.value] = twin
        text = re.sub(
            r"%[\w.$-]+", lambda m: names.get(m.group(), m.group()), self.source[op.start : op.end]
        )
        self.edits.append(Edit(op.start, op.end, self._stored(text)))

    def _stored(self, text: str) -> str:
        return stored(text, self.module)

    # -- edits ------------------------------------------------------------------------------------

    def _replace(self, token: Any, text: str) -> None:
        self.edits.append(Edit(token.start, token.end, text))


def _cast(result: str, value: str, given: str, made: str) -> Operation:
    return Builder().op("quant.scast", [value], [given, "to", made], results=[result])


def _symbol(op: Operation) -> str:
    return next((t.value for t in op.items if getattr(t, "type", "") == "SYMBOL"), "")


def _argument(node: Any) -> tuple[Any, Any]:
    """Name and type of an argument as tokens; either may be missing."""
    tokens = [p for p in getattr(node, "parts", [node]) if hasattr(p, "type")]
    name = next((t for t in tokens if t.type == "SSA"), None)
    return name, next((t for t in tokens if t.type == "TYPE"), None)


def _types(arrow: Any) -> list[Any]:
    return [t for t in arrow or () if t.type == "TYPE"]
