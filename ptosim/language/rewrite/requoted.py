"""Between the quoted form of operations, as MLIR prints what has no syntax of its own, and the
short one, as people write it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any

from ptosim.ground.diagnostics.model import ProgramError, Sink
from ptosim.ground.ir.core import Module, Node, Operand, Operation, Tok, Value
from ptosim.ground.ir.types import TileType
from ptosim.ground.isa.dates import DEFAULT_DATE, check_date
from ptosim.ground.isa.examples import example_of
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OperandDef, enums
from ptosim.ground.isa.targets import DEFAULT_TARGET
from ptosim.ground.records import NamedTuple
from ptosim.ground.source import Source
from ptosim.language.bind.resolve import resolve
from ptosim.language.build import Builder, Typed
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.language.rewrite.forms import Rewriter, Spelling
from ptosim.language.syntax.parser import parse
from ptosim.language.syntax.printer import print_module
from ptosim.language.syntax.quoted import QUIET
from ptosim.language.targets import check_target_word


def requoted(
    source: Source, form: str, target: str | None = None, compat: str | None = None
) -> str:
    """Return the canonical text of a program with PTO's operations in the `quoted` form of MLIR, or
    with quoted ones in the `short` form. Each was read again and means the same: same operands by
    their names, same attributes, same types of results, same findings; one for which that does not
    hold, or that has regions or clauses, stays as it is.

    Raises ProgramError if the program cannot be parsed or its names cannot be resolved.
    """
    meant = check_target_word(target).architecture if target else DEFAULT_TARGET
    date = check_date(compat or DEFAULT_DATE)
    module = _resolved(source, meant, date)
    text = print_module(module)
    short = (*(partial(_as_example, make) for make in _SHORT), *(partial(_ours, m) for m in _SHORT))
    for make in (_quoted,) if form == "quoted" else short:
        text = _with_those_that_mean_the_same(source.changed(text), make, meant, date)
    return text


def _resolved(source: Source, target: str, date: str) -> Module:
    sink = Sink()
    module = parse(source, sink)
    resolve(module, target, sink, date=date)
    if sink.has_errors:
        raise ProgramError(list(sink))
    return module


Maker = Callable[[Operation, Spelling, Builder], Operation | None]
"""Writes an operation in another form; None where it has none."""


def _with_those_that_mean_the_same(source: Source, make: Maker, target: str, date: str) -> str:
    """The text with operations written in another way, as far as they are read as before."""
    before = _meanings(source, target, date)
    refused: set[int] = set()
    while True:
        module = _resolved(source, target, date)
        spelling, changed = Spelling(module, target), {}
        for number, op in enumerate(module.walk()):
            made = None if number in refused else _made(op, make, spelling)
            if made is not None:
                changed[id(op)] = number, made
        if not changed:
            return source.text
        swap = _Swap(module, target)
        swap.made = {key: made for key, (_, made) in changed.items()}
        swap.run()
        text = print_module(module)
        after = _meanings(source.changed(text), target, date)
        is_whole = len(after) == len(before)
        numbers = [number for number, _ in changed.values()]
        wrong = {n for n in numbers if not is_whole or after[n] != before[n]}
        if not wrong:
            return text
        refused |= wrong


class _Swap(Rewriter):
    made: Mapping[int, Operation]

    def operation(self, op: Operation, block: Any, start: int) -> list[Operation]:
        return [self.made.get(id(op), op)]


def _made(op: Operation, make: Maker, spelling: Spelling) -> Operation | None:
    """An operation in another form, if that can be read on its own."""
    if op.variant is None or op.definition is None or op.regions or op.jumps or op.form == "core":
        return None
    builder = Builder(counts=False)
    builder.at = op.start
    made = make(op, spelling, builder)
    if made is None:
        return None
    made.result_tokens, made.loc = op.result_tokens, op.loc
    made.end, made.name_end = op.end, op.name_end
    sink = Sink()
    line = Module(Source("", ""), "snippet")
    line.ops = [made]
    alone = parse(Source("", print_module(line)), sink)
    is_one = not sink.has_errors and [each.name for each in alone.ops] == [op.name]
    return made if is_one else None


def _word(value: object) -> object:
    """What a word or a number is, however it is written."""
    return getattr(value, "member", value)


def _meanings(source: Source, target: str, date: str) -> list[object]:
    """What each operation is read as, and what is found in it."""
    front = run_frontend(source, FrontOptions(target, compat=date))
    errors = [(d.span.start, d.code) for d in front.sink if d.is_error and d.span is not None]
    return [
        (_meaning(op), sorted(code for at, code in errors if op.start <= at < op.end))
        for op in front.module.walk()
    ]


def _meaning(op: Operation) -> object:
    bound = {name: _bound_as(each) for name, each in op.bound.items()}
    attrs = {name: str(_word(value)) for name, value in op.attributes.items()}
    own = op.attrs.keys() - op.attributes.keys() - bound.keys() - set(QUIET)
    results = [(value.name, str(value.type)) for value in op.results]
    return op.name, {n: b for n, b in bound.items() if b}, attrs, own, results


def _bound_as(bound: object) -> object:
    if isinstance(bound, list):
        return [_bound_as(each) for each in bound]
    if isinstance(bound, Operand):
        return bound.value.name if bound.value is not None else ("=", _word(bound.const))
    operands = getattr(bound, "operands", None)
    return {n: _bound_as(o) for n, o in operands.items()} if operands is not None else bound


class _Parts(NamedTuple):
    """The values of an operation by their names in the row, and the words, as attributes."""

    values: dict[str, list[Typed]]
    words: dict[str, str | None]


def _parts(op: Operation, spelling: Spelling) -> _Parts | None:
    """None for an operation with clauses, which have no names of their own in the quoted form."""
    assert op.variant is not None
    values, words = dict[str, list[Typed]](), dict[str, str | None]()
    for definition in op.variant.operands:
        bound = op.bound.get(definition.name)
        if bound is True:
            words[definition.name] = None
        given = bound if isinstance(bound, list) else [bound] if bound not in (None, True) else []
        for each in given:
            if not isinstance(each, Operand) or not isinstance(each.tok, Tok):
                return None
            if each.value is None and isinstance(bound, list):
                return None  # a list of numbers
            if each.value is None:
                words[definition.name] = _spelled_word(definition, each)
                continue
            type_ = each.type or each.value.type
            ssa = isinstance(type_, TileType) and type_.ssa
            text = spelling.of(each.value, type_, ssa=ssa)
            values.setdefault(definition.name, []).append(Typed(each.tok.value, text))
    return _Parts(values, words)


def _spelled_word(definition: OperandDef, word: Operand) -> str:
    assert isinstance(word.tok, Tok)
    if word.tok.type == "STRING":
        return word.tok.value
    member = str(_word(word.const))
    known = enums()
    kind = next((e for e in definition.enums if e in known and member in known[e].members), None)
    return f"#pto.{kind}<{member}>" if kind is not None else word.tok.value


def _results(op: Operation, spelling: Spelling) -> list[str]:
    def text(value: Value) -> str:
        ssa = isinstance(value.type, TileType) and value.type.ssa
        return spelling.of(value, value.type, ssa=ssa)

    return [text(value) for value in op.results]


def _attrs(op: Operation, but: Iterable[str]) -> dict[str, Any]:
    left = {*but, *QUIET}
    return {key: attr for key, attr in op.attrs.items() if key not in left}


def _quoted(op: Operation, spelling: Spelling, builder: Builder) -> Operation | None:
    is_ours = op.form in ("dps", "items") and op.name.startswith("pto.")
    parts = _parts(op, spelling) if is_ours else None
    if parts is None or op.definition is None or op.variant is None:
        return None
    free = {o.name for o in op.free_outputs()}
    lists = (d for d in op.variant.named if "list" in d.kinds)
    own = [(d.name,) for d in (*op.variant.ins, *lists, *op.variant.outs) if d.name not in free]
    order = [
        next((n for n in names if n in parts.values), names[0])
        for names in op.definition.quoted or own
        if not parts.words.keys() & set(names)
    ]
    made = builder.op(op.name, attrs=parts.words)
    made.form, made.types, made.type_list = "generic", (), ()
    listed = [value for name in dict.fromkeys(order) for value in parts.values.get(name, ())]
    made.ins, made.ins_types = _typed(builder, listed)
    made.arrow = builder.types(_results(op, spelling))
    made.attrs = _attrs(op, ()) | made.attrs
    by_name = {d.name: d for d in op.variant.operands}
    known = [by_name[name] for name in order if name in by_name]
    if any(d.optional or d.variadic or "list" in d.kinds for d in known):
        sizes = ", ".join(str(len(parts.values.get(name, ()))) for name in order)
        segments = builder.attrs({QUIET[0]: f"array<i32: {sizes}>"})
        made.props, made.attrs = segments, made.attrs | segments
    return made


def _typed(builder: Builder, values: Iterable[Typed]) -> tuple[list[Any], list[Tok]]:
    """Return values and their types as operations have them."""
    listed = list(values)
    return [builder.item(v) for v in listed], builder.types(v.type for v in listed)


def _short_tile(
    op: Operation, spelling: Spelling, builder: Builder, *, named: bool
) -> Operation | None:
    """`name ins(…) outs(…)`, inputs that can be left out with their names or without."""
    parts = _parts(op, spelling) if op.form == "generic" else None
    if parts is None or op.variant is None or op.result_tokens:
        return None
    ins, words = list[Typed](), dict[str, Typed]()
    for definition in op.variant.ins:
        for value in parts.values.get(definition.name, ()):
            if named and definition.optional:
                words[definition.name] = value
            else:
                ins.append(value)
    outs = [v for d in op.variant.outs for v in parts.values.get(d.name, ())]
    if not outs:
        return None
    made = builder.tile_op(op.name, ins, outs, parts.words, words)
    made.attrs = _attrs(op, ()) | made.attrs
    return made


_KEYED = ("result", "keyed")


def _short_line(
    op: Operation, spelling: Spelling, builder: Builder, *, style: str
) -> Operation | None:
    """`%r = name operands : types -> types`; `listed`: all of it in brackets; `keyed`: lists, and
    what can be left out, with their names; `result`: these with the type of the result alone;
    `indexed`: an offset in brackets after its pointer, and no types of indices; `one`: the type of
    the result alone."""
    parts = _parts(op, spelling) if op.form == "generic" else None
    if parts is None or op.variant is None:
        return None
    items, types = list[Any](), list[str]()
    outs = () if op.result_tokens else op.variant.outs
    order = dict.fromkeys((*op.variant.ins, *op.variant.named, *outs))
    for definition in order:
        values = parts.values.get(definition.name, [])
        word = parts.words.get(definition.name)
        if word is not None:
            items.append(f"<{word.partition('<')[2]}" if word.startswith("#") else word)
        elif style in _KEYED and "list" in definition.kinds and values:
            items.append(builder.keyword(definition.name, builder.listed(values)))
        elif style in _KEYED and definition.optional and values:
            items.append(builder.keyword(definition.name, values[0]))
        elif style == "indexed" and values and items and _is_pointer(items[-1]):
            items.append(builder.indexed(items.pop().name, values[0].name))
        else:
            items += values
            types += [v.type for v in values if style != "indexed" or v.type != "index"]
    if style in _KEYED and not any(isinstance(item, Node) for item in items):
        return None
    if style == "listed":
        items, types = [builder.listed(items)], []
    results = _results(op, spelling)
    if style in ("result", "one") or not types:
        types, results = results, []
    attrs = _attrs(op, parts.words)
    made = builder.op(op.name, items, types, arrow=results)
    made.items, made.attrs = [*made.items, *([attrs] if attrs else ())], attrs | made.attrs
    return made


def _is_pointer(item: Any) -> bool:
    return isinstance(item, Typed) and "ptr<" in item.type


_SHORT: tuple[Maker, ...] = (
    *(partial(_short_tile, named=named) for named in (False, True)),
    *(partial(_short_line, style=style) for style in (*_KEYED, "indexed", "", "one", "listed")),
)
"""Ways to write an operation. Of those that mean the same the first is taken that has the parts of
the row's example, else the first."""


def _as_example(
    make: Maker, op: Operation, spelling: Spelling, builder: Builder
) -> Operation | None:
    """What has as many types, and the same kinds of items, as the example of the row."""
    made = make(op, spelling, builder)
    return made if made is not None and _looks(made) == _example(op.name) else None


def _ours(make: Maker, op: Operation, spelling: Spelling, builder: Builder) -> Operation | None:
    """Of other dialects only what looks as MLIR prints it is good enough."""
    return make(op, spelling, builder) if op.name.startswith("pto.") else None


@cache
def _example(name: str) -> object:
    row = isa().get(name)
    example = example_of(row) if row is not None else None
    if example is None:
        return None
    ops = parse(Source("", example.program), Sink()).walk()
    return next((_looks(op) for op in ops if op.name == name and op.form != "generic"), None)


def _looks(op: Operation) -> object:
    kinds = {item.kind for item in op.items if isinstance(item, Node)}
    return op.form, len(op.types), len(op.arrow or ()), frozenset(kinds)
