"""What names and types in the text represent: values in their scopes, operands, results, blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ptosim.ground.diagnostics.model import Fix, Label, Sink, finding
from ptosim.ground.ir.attributes import attr_value, token_value
from ptosim.ground.ir.core import ALIAS, Block, Module, Node, Operand, Operation, Region, Tok, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import (
    AbstractTileType,
    ErrorType,
    MaskType,
    PtrType,
    TileType,
    Type,
    VectorType,
    VRegType,
)
from ptosim.ground.isa.dates import DATES, comes_later, holds
from ptosim.ground.isa.targets import machine
from ptosim.ground.records import replace
from ptosim.ground.source import Source, Span
from ptosim.ground.words import nearest
from ptosim.language.bind.units import dominated, labels_of
from ptosim.language.syntax.parser import ParsedType, parse_type
from ptosim.language.syntax.tile_types import DatedPart


def compatible(actual: Type, declared: Type) -> bool:
    """True if a value of one type can be used where the other is written.

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


def type_difference(actual: Type, declared: Type) -> str:
    """Return what differs between two types of one kind, to be added to a sentence: `: cols is 64
    there and 32 here`; "" where the kinds differ."""
    from dataclasses import fields, is_dataclass  # brings `inspect`

    if type(actual) is not type(declared) or not is_dataclass(actual):
        return ""
    told = [
        f"{field.name} is {_shown(actual, field)} there and {_shown(declared, field)} here"
        for field in fields(actual)
        if field.compare and getattr(actual, field.name) != getattr(declared, field.name)
    ]
    return f": {', '.join(told[:2])}" if told else ""


def _shown(type_: Type, field: Any) -> str:
    part = getattr(type_, field.name)
    if isinstance(part, tuple):
        return "x".join("?" if each is None else str(each) for each in part)
    return "?" if part is None else str(part)


_HINTS = 40
"""Undefined values of a module for which a name like theirs is looked for."""
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
"""Of a literal in the place of a value: 64 bits, signed or not."""


class Scope:
    """The values that can be named at a point of the program.

    `open_world` makes an undefined name an argument of the enclosing (implicit) function, as in a
    bare snippet; `skipped` are names whose definitions had a syntax error.
    """

    def __init__(self, source: Source, sink: Sink, skipped: set[str]) -> None:
        self._source = source
        self._sink = sink
        self._values: dict[str, Value] = {}
        self._undo: list[list[tuple[str, Value | None]]] = []
        self._taken: list[dict[str, Value]] = []  # names that blocks share, seen from each or not
        self._ended: dict[str, Value] = {}
        self._hints = _HINTS
        self._skipped = skipped
        self.open_world: list[Value] | None = None
        self.noted: list[tuple[str, Value, Type, Any]] | None = (
            None  # what is used, where somebody wants to know
        )
        self.known: Mapping[tuple[int, str], Value] = {}
        """Values of an earlier check, by places and names: the same ones stay the same objects."""

    def enter(self, taken: dict[str, Value] | None = None) -> None:
        """Begin a region or a block; `taken` are the names that the blocks of a region define
        together, each once."""
        self._undo.append([])
        self._taken.append({} if taken is None else taken)

    def leave(self) -> None:
        """End a region: its names are gone."""
        self._taken.pop()
        for name, previous in reversed(self._undo.pop()):
            self._ended[name] = self._values[name]
            if previous is None:
                del self._values[name]
            else:
                self._values[name] = previous

    def isolate(self) -> dict[str, Value]:
        """Hide everything (a function sees nothing from outside); return what `restore` needs."""
        outer, self._values = self._values, {}
        self._ended = {}
        return outer

    def restore(self, outer: dict[str, Value]) -> None:
        """Undo `isolate`."""
        self._values = outer

    def define(self, name: str, type_: Type, owner: Operation | None, start: int) -> Value:
        """Make a value visible; a name that is visible already is an error."""
        value = self.known.get((start, name))
        if value is None:
            value = Value(name, type_, owner, start)
        else:
            value.type, value.owner, value.uses = type_, owner, 0
            value.const, value.is_argument = None, False
        return self._put(name, start, value)

    def keep(self, value: Value) -> None:
        """Make a value of an earlier check visible as it was."""
        value.uses = 0
        self._put(value.name, value.start, value)

    def _put(self, name: str, start: int, value: Value) -> Value:
        previous = self._values.get(name)
        if previous is None and self._taken and name in self._taken[-1]:
            self._sink.emit(self._redefined(name, start, self._taken[-1][name]))
        if self._taken:
            self._taken[-1][name] = value
        if previous is not None and not isinstance(previous.type, ErrorType):
            self._sink.emit(self._redefined(name, start, previous))
            return value  # the first one keeps the name, so that its uses stay right
        if self._undo:
            self._undo[-1].append((name, previous))
        self._values[name] = value
        return value

    def knows(self, name: str) -> bool:
        """True if a name is visible."""
        return name in self._values

    def still(self, name: str, value: Value, type_: Type, const: Any) -> bool:
        """True if a name means a value, which has a type and a constant."""
        is_it = self._values.get(name) is value
        return is_it and value.type == type_ and value.const == const

    def alias(self, name: str, value: Value) -> None:
        """Make a visible value known under another name too."""
        self._values[name] = value

    def use(self, tok: Tok, declared: Type | None) -> Value:
        """Return the value that a token names; reports an undefined one and goes on with a
        placeholder."""
        name = tok.value[1:]
        value = self._values.get(name)
        if value is None and "#" in name and name.endswith("#0"):
            value = self._values.get(name[:-2])
        if value is None:
            value = self._unknown(name, tok, declared)
        value.uses += 1
        if self.noted is not None:
            known = name if name in self._values else name[:-2]
            self.noted.append((known, value, value.type, value.const))
        return value

    def _unknown(self, name: str, tok: Tok, declared: Type | None) -> Value:
        type_ = declared or ErrorType()
        value = Value(name, type_, None, tok.start)
        if self.open_world is not None:
            value.is_argument = True
            self.open_world.append(value)
        else:
            value.type = ErrorType()
            if name.partition("#")[0] not in self._skipped:
                self._sink.emit(self._undefined(name, tok))
        self._values[name] = value
        return value

    def _undefined(self, name: str, tok: Tok):
        ended = self._ended.get(name)
        more, help_ = (), self._hint(name)
        if ended is not None:
            place = ended.span(self._source)
            more = (Label(place, "defined here, in a region that has ended"),)
            if isinstance(ended.type, (VRegType, MaskType)):
                help_ = "a register does not leave its vector region: store it to UB, load it there"
        return finding(
            "PTO1001",
            f"use of undefined value `%{name}`",
            tok.span(self._source),
            label="not defined before this point",
            more=more,
            notes=("a value is visible after its definition, to the end of the region around it",),
            help=help_,
        )

    def _hint(self, name: str) -> str | None:
        """The name that was probably meant. Only the first findings say it: each search goes
        through all names, and a text with thousands of such faults has another cause."""
        self._hints -= 1
        if self._hints < 0:
            return None
        defined = (n for n, v in self._values.items() if v.owner is not None or v.is_argument)
        return nearest(name, defined, sign="%")

    def _redefined(self, name: str, start: int, previous: Value):
        source = self._source
        return finding(
            "PTO1002",
            f"redefinition of value `%{name}`",
            Span(source, start, start + len(name) + 1),
            label="defined again here",
            more=(Label(previous.span(source), "first defined here"),),
            notes=("every value of a function is defined once",),
            help="choose another name",
        )


_LEFT_LAYOUT = {"a2a3": "row_major", "a5": "col_major"}


def for_target(type_: Type, target: str) -> Type:
    """The assembler gives every `left` tile the box order of the target's L0A, whatever is
    written."""
    if isinstance(type_, TileType) and type_.loc == "left":
        blayout = _LEFT_LAYOUT[target]
        if type_.blayout != blayout and type_.slayout != "none_box":
            return replace(type_, blayout=blayout)
    return type_


def named_results(op: Operation) -> int:
    """Return how many results of an operation have names."""
    return sum(count for _, count, _ in op.result_tokens)


class Naming(ABC):
    """Operands and results of the operations of one module, for one target."""

    def __init__(
        self, module: Module, target: str, sink: Sink, types: Mapping[str, Type], date: str
    ) -> None:
        self.types = types
        self.date = date
        self._spelled: dict[str, Type] = {}  # types by their text, those without a finding
        self._misused: set[tuple[Value, Type]] = set()  # uses that were reported
        self._faulty: list[Tok] = []  # types that were reported
        self.misuses = 0  # all of them
        self._types: list[Tok] = []  # those of the operation whose uses are noted
        self.module = module
        self.source = module.source
        self.sink = sink
        self.target = machine(target).architecture
        self.scope = Scope(module.source, sink, module.skipped_names)
        self.labels: dict[str, Block] = {}  # of the innermost region
        self.resolved = ResolvedModule(module, self.target, machine(target).name, date)
        self.unit = self.resolved.unit  # whose operations are being resolved

    @abstractmethod
    def _ops(self, ops: Sequence[Operation]) -> None:
        """Resolve operations in order."""

    # -- operands -------------------------------------------------------------------------------

    def use(self, tok: Any, declared: Type | None) -> Operand:
        """Return the operand that a token represents."""
        if tok.__class__ is Node:
            if tok.kind == "symbol":
                return Operand(tok, None, None, token_value(tok.parts[1]))
            values = [part for part in tok.parts if not isinstance(part, dict)]
            if not values:  # an empty list among the operands
                return Operand(tok, None, ErrorType(), None)
            return self.use(values[0], declared)
        if tok.type != "SSA":
            alias = self.module.attr_aliases.get(tok.value) if tok.type == "ATTR" else None
            const = attr_value(alias) if alias is not None else token_value(tok)
            if const.__class__ is int and not _LEAST <= const <= _MOST:
                self._too_many_bits(tok)
                return Operand(tok, None, ErrorType(), 0)
            return Operand(tok, None, declared, const)
        if isinstance(declared, AbstractTileType):
            declared = self.types.get(tok.value[1:], declared)
        value = self.scope.use(tok, declared)
        if declared is not None and not compatible(value.type, declared):
            self._report_use(value, declared, tok)
            return Operand(tok, value, ErrorType(), value.const)
        return Operand(tok, value, value.type, value.const)

    def _too_many_bits(self, tok: Tok) -> None:
        self.sink.report(
            "PTO1008",
            "the literal does not fit 64 bits",
            Span(self.source, tok.start, tok.end),
            help="write a number of 20 digits at most; sizes and counts have far fewer",
        )

    def _report_use(self, value: Value, declared: Type, tok: Tok) -> None:
        """Report a use that says another type than the definition. Uses that say the same wrong
        type have one cause, and one finding."""
        self.misuses += 1
        if (value, declared) in self._misused:
            return
        self._misused.add((value, declared))
        actual = self._spelling(value.type)
        difference = type_difference(value.type, declared)
        self.sink.report(
            "PTO1005",
            f"`%{value.name}` has another type than this use says{difference}",
            tok.span(self.source),
            label=f"used as {self._spelling(declared)}",
            more=(Label(value.span(self.source), f"defined as {actual}"),),
            notes=("the type of a use repeats the type of the definition",),
            help=f"write `{actual}`",
        )

    def _spelling(self, type_: Type) -> str:
        """The type in the words of the program, if it is there."""
        return next((text for text, known in self._spelled.items() if known == type_), str(type_))

    def type_of(self, tok: Any) -> Type:
        """Return the type that a token spells, for the target; reports a wrong or old spelling."""
        text = tok.value
        if self.scope.noted is not None:
            self._types.append(tok)
        known = self._spelled.get(text)
        if known is not None:
            return known
        if self.module.type_aliases or "#" in text:
            text = self.module.spelled_out(text)
        parsed = parse_type(text)
        other = self._of_another_date(parsed)
        if parsed.fault is not None:
            self._report_type(tok, parsed.fault, parsed.hint)
        elif other is not None:
            self._report_dated(tok, other)
        elif parsed.legacy is not None:
            modern = str(parsed.type).replace("!pto.tile_view<", "!pto.partition_tensor_view<")
            self._report_legacy(tok, parsed.legacy, modern)
        type_ = for_target(parsed.type, self.target)
        if parsed.fault is None and parsed.legacy is None and other is None:
            self._spelled[tok.value] = type_
        return type_

    def _of_another_date(self, parsed: ParsedType) -> DatedPart | None:
        """The first part of a type that the date does not have; a snippet has all of them."""
        if not parsed.dated or self.module.kind == "snippet":
            return None
        return next((part for part in parsed.dated if not holds(part.row, self.date)), None)

    def _report_dated(self, tok: Tok, part: DatedPart) -> None:
        if comes_later(part.row, self.date):
            what, date = f"needs PTOAS {part.row['since']}", part.row["since"]
        else:
            what = f"PTOAS {part.row['until']} has it no more"
            date = next(d for d in DATES if holds(part.row, d))
        self.sink.report(
            "PTO1006",
            part.refusal if part.refusal is not None else f"{part.what}: {what}",
            tok.span(self.source),
            notes=(f"{part.what}: {what}",) if part.refusal is not None else (),
            help=f"run with `--compat {date}`",
        )

    def quiet_type_of(self, tok: Any) -> Type:
        """Return the type that a token spells in an operation that has been reported."""
        text = self.module.spelled_out(tok.value)
        return for_target(parse_type(text).type, self.target)

    def _report_type(self, tok: Tok, fault: str, hint: str | None) -> None:
        """Report what is wrong in a type; in what an alias names once, where the alias is made."""
        made = self._faulty_alias(tok)
        if made is not tok and made in self._faulty:
            return
        self._faulty.append(made)
        unknown_alias = made.value.startswith("!") and "." not in made.value
        if unknown_alias:
            define = f"define it above the functions: `{made.value} = !pto.tile_buf<…>`"
            known = [name for name in self.module.type_aliases if name != made.value]
            hint = nearest(made.value, known, define)
        self.sink.report(
            "PTO1006",
            f"undefined type alias `{made.value}`" if unknown_alias else fault,
            made.span(self.source),
            help=hint,
        )

    def _faulty_alias(self, tok: Tok) -> Tok:
        """The text in which a type is wrong: what the first alias in it names, and so on."""
        seen: set[str] = set()
        while True:
            named = (name for name in ALIAS.findall(tok.value) if name not in seen)
            wrong = next((n for n in named if self._is_faulty(n)), None)
            made = next((v for n, v in self.module.aliases if n.value[:-1].strip() == wrong), None)
            if wrong is None or not isinstance(made, Tok):
                return tok
            seen.add(wrong)
            tok = made

    def _is_faulty(self, alias: str) -> bool:
        text = self.module.type_aliases.get(alias)
        return text is not None and parse_type(text).fault is not None

    def _report_legacy(self, tok: Tok, reason: str, modern: str) -> None:
        span = tok.span(self.source)
        self.sink.report(
            "PTO0010",
            f"legacy spelling: {reason}",
            span,
            notes=(f"PTOAS {self.date} does not read this spelling",),
            help=f"write `{modern}`",
            fixes=(Fix(span, modern),),
        )

    # -- results --------------------------------------------------------------------------------

    def _results(self, op: Operation, types: list[Type]) -> None:
        """Define the results of an operation: as many as it has, with or without names."""
        if not op.result_tokens:
            op.results = [Value("", type_, op, op.start) for type_ in types]
            return
        count = named_results(op)
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

    def _count_mismatch(
        self, op: Operation, what: str, cure: str = "give one type for each result"
    ) -> None:
        self.sink.report(
            "PTO1004",
            f"'{op.name}' op has {what}",
            op.span(self.source),
            help=cure,
        )

    # -- blocks ---------------------------------------------------------------------------------

    def _region(self, region: Region, arguments: list[Type]) -> None:
        with self._labels(region):
            for blocks in self._in_order(region):
                self._block(blocks, arguments)

    def _block(self, block: Block, arguments: list[Type]) -> None:
        declared = [(t, self.type_of(ty) if ty is not None else None) for t, ty in block.args]
        values = []
        for i, (tok, type_) in enumerate(declared):
            actual = type_ or (arguments[i] if i < len(arguments) else ErrorType())
            value = self.scope.define(tok.value[1:], actual, None, tok.start)
            value.is_argument = True
            values.append(value)
        block.values = values
        self._ops(block.ops)

    @contextmanager
    def _labels(self, region: Region) -> Iterator[None]:
        """Operations inside branch to the blocks of this region only."""
        outer, self.labels = self.labels, labels_of(region.blocks)
        for block in region.blocks:
            if block.label is not None and self.labels[block.label.value] is not block:
                self._report_label(block.label, "there are two blocks with this label")
        yield
        self.labels = outer

    def _in_order(self, region: Region) -> Iterator[Block]:
        """Yield the blocks of a region, each after those that dominate it; their values, and no
        others, are visible then."""
        children = dominated(region.blocks) if len(region.blocks) > 1 else {}
        taken: dict[str, Value] = {}
        waiting: list[Block | None] = list(reversed(region.blocks[:1]))
        while waiting:
            block = waiting.pop()
            if block is None:
                self.scope.leave()
                continue
            self.scope.enter(taken)
            yield block
            waiting.append(None)
            waiting.extend(reversed(children.get(block, ())))

    def _report_label(self, label: Tok, problem: str) -> None:
        self.sink.report(
            "PTO1030",
            f"`{label.value}`: {problem}",
            label.span(self.source),
            help=nearest(label.value, self.labels),
        )

    def _uses(self, tokens: Any, types: Any = ()) -> list[Operand]:
        declared = [self.type_of(t) for t in types]
        return [
            self.use(tok, declared[i] if i < len(declared) else None)
            for i, tok in enumerate(tokens)
        ]
