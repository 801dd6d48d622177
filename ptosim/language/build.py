"""Programs that are built instead of written as text: operations are appended to a block, with
their operands, types, attributes and regions, and the printer makes the text.

Whatever makes programs makes them here: conversion of models, expansion into vector instructions,
rewrites, flags that are inserted. What is built is the tree that the parser makes, so that it is
checked and run without being read again (`frontend.check_module`), and printed as `fmt` prints it.

Each token has a place. A program that has no text yet is numbered while it is built, and gets the
places of its own text by `as_module`. One that stands for a text of another kind keeps the places
of that text: its maker sets `at` before what it appends, and makes the `Module` with that source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from ptosim.ground.ir.core import Attr, Block, Module, Node, Operation, Region, Tok, walk
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OperandDef
from ptosim.ground.records import NamedTuple
from ptosim.ground.source import Source
from ptosim.language.syntax.printer import has_type_each, print_placed

_WORDS = re.compile(
    r"(?P<SSA>%)|(?P<SYMBOL>@)|(?P<ANGLE_ENUM><)|(?P<STRING>\")|(?P<ATTR>\#)|(?P<BLOCK_ID>\^)"
    r"|(?P<HEX>-?0x)|(?P<FLOAT>-?\d+(?:\.|[eE]))|(?P<INT>-?\d)|(?P<TRUE>true$)|(?P<FALSE>false$)"
    r"|(?P<DENSE>dense\s*<)|(?P<ARRAY>array\s*<)"
    r"|(?P<TYPE>!|(?:[su]?i\d+|index|none|t?f\d+|bf16|f\dE\dM\d\w*|hif8)$)|(?P<OP_ID>\w+\.)"
)


class Typed(NamedTuple):
    """A value as operations name it, `%name`, and its type as it is written."""

    name: str
    type: str


class Named(Protocol):
    """Whatever has a name and a type as texts is an operand."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...


Item = Named | Tok | Node | str
"""An operand: a value, or a word as it is written (`<PIPE_V>`, `"EVEN"`, `4`, `%x`)."""
Words = Mapping[str, Any]
"""Attributes: by name what they are, as it is written; None for one that is only a name."""


class Builder:
    """Appends operations to a block; `at` is the place of the next one."""

    def __init__(self, *, counts: bool = True) -> None:
        self.ops: list[Operation] = []
        self.at = 0
        self._counts = counts

    # -- tokens -----------------------------------------------------------------------------------

    def tok(self, text: str, kind: str = "") -> Tok:
        """Return a token; of which terminal it is, its first characters say."""
        if not kind and text[:1] == "%":
            kind = "SSA"
        elif not kind:
            found = _WORDS.match(text)
            kind = found.lastgroup or "BARE_ID" if found is not None else "BARE_ID"
        return Tok(kind, text, self.at)

    def item(self, item: Item | Words) -> Any:
        """Return an operand as the tree has it."""
        if isinstance(item, (Tok, Node)):
            return item
        if isinstance(item, Mapping):
            return self.attrs(item)
        return self.tok(item if isinstance(item, str) else item.name)

    def types(self, types: Iterable[str]) -> list[Tok]:
        """Return types; `to` is the word between those of a conversion."""
        return [self.tok(text, "TO" if text == "to" else "TYPE") for text in types]

    def attrs(self, words: Words) -> dict[str, Attr]:
        """Return attributes; a pair is a number with its type."""
        found: dict[str, Attr] = {}
        for key, word in words.items():
            text, *type_ = word if isinstance(word, tuple) else (word,)
            atom = None if text is None else self.tok(str(text))
            found[key] = Attr(self.tok(key), atom, self.tok(type_[0], "TYPE") if type_ else None)
        return found

    def indexed(self, base: str, *indices: str) -> Node:
        """Return `%base[%index, …]`."""
        return Node("indexed", [self.tok(base), *map(self.tok, indices)], self.at)

    def listed(self, items: Iterable[Item]) -> Node:
        """Return `[item, …]`."""
        return Node("list", list(map(self.item, items)), self.at)

    def keyword(self, key: str, item: Item) -> Node:
        """Return `key = item`."""
        return Node("keyword", [self.tok(key, "BARE_ID"), self.item(item)], self.at)

    def clause(self, key: str, items: Iterable[Item]) -> Node:
        """Return `key(item, …)`."""
        parts = Node("paren", list(map(self.item, items)), self.at)
        return Node("clause", [self.tok(key, "BARE_ID"), parts], self.at)

    # -- operations -------------------------------------------------------------------------------

    def append(self, op: Operation) -> Operation:
        """Append an operation that is made already."""
        self.ops.append(op)
        if self._counts:
            self.at += 1
        return op

    def _new(self, name: str, form: str, results: Sequence[str] = ()) -> Operation:
        if name.startswith("pto.") and isa().get(name) is None:
            raise KeyError(f"no row of the instruction set is called {name}")
        op = Operation(name, form, self.at, self.at, self.at)
        if results:
            op.result_tokens = [(result.removeprefix("%"), 1, self.at) for result in results]
        return op

    def op(
        self,
        name: str,
        items: Sequence[Item | Words] = (),
        types: Sequence[str] | None = None,
        *,
        results: Sequence[str] = (),
        arrow: Sequence[str] = (),
        attrs: Words | None = None,
        bare: bool = False,
    ) -> Operation:
        """Append `results = name items : types -> arrow`. Attributes among the items are in front
        of the types, `attrs` after them. Types are those of the values, unless they are given.
        `bare`: several types after the arrow have no parentheses."""
        op = self._new(name, "items", results)
        op.items = [self.item(item) for item in items]
        for item in op.items:
            op.attrs.update(item if isinstance(item, dict) else {})
        op.attrs.update(self.attrs(attrs or {}))
        if types is None:
            types = [i.type for i in items if not isinstance(i, (str, Tok, Node, Mapping))]
        op.types = op.type_list = self.types(types)
        op.arrow, op.bare_arrow = self.types(arrow) or None, bare
        return self.append(op)

    def tile_op(
        self,
        name: str,
        ins: Sequence[Named],
        outs: Sequence[Named],
        attrs: Words | None = None,
        words: Mapping[str, Named] | None = None,
    ) -> Operation:
        """Append `name ins(values words : types) outs(values : types) {attrs}`; `words` are inputs
        after the others that are written with their name."""
        op = self._new(name, "dps")
        op.ins, op.ins_types = [self.item(v) for v in ins], self.types(v.type for v in ins)
        op.outs, op.outs_types = [self.item(v) for v in outs], self.types(v.type for v in outs)
        op.attrs = self.attrs(attrs or {})
        op.clauses = [
            Node("ins_word", [self.tok(k, "BARE_ID"), self.item(v), *self.types([v.type])], self.at)
            for k, v in (words or {}).items()
        ]
        return self.append(op)

    def by_row(
        self, name: str, operands: Mapping[str, Named | None], attrs: Words | None = None
    ) -> Operation:
        """Append a tile operation with its operands by their names in its row, in any order; one
        that is None is left out. Raises KeyError for a name that no operand list of the row has."""
        given = {key: value for key, value in operands.items() if value is not None}
        row = isa().get(name)
        for variant in row.variants if row is not None else ():
            if given.keys() <= {d.name for d in variant.operands}:
                ins, outs = (_in_order(given, names) for names in (variant.ins, variant.outs))
                return self.tile_op(name, ins, outs, attrs)
        raise KeyError(f"{name} has no operand list with {', '.join(given)}")

    def constant(self, result: str, value: int | str, type_: str) -> Operation:
        """Append `result = arith.constant value : type`."""
        op = self._new("arith.constant", "core", [result])
        op.items, op.types = [self.tok(str(value))], self.types([type_])
        return self.append(op)

    def typed(self, name: str, values: Sequence[Named] = ()) -> Operation:
        """Append `name values : types`: a return, a yield."""
        op = self._new(name, "core")
        if values:
            op.ins, op.ins_types = (
                [self.item(v) for v in values],
                self.types(v.type for v in values),
            )
        return self.append(op)

    def flag(self, word: str, source: str, target: str, number: int) -> Operation:
        """Append a flag between two pipes: `word` is set or wait."""
        words = [f"<PIPE_{source}>", f"<PIPE_{target}>", f"<EVENT_ID{number}>"]
        return self.op(f"pto.{word}_flag", [self.listed(words)])

    def barrier(self, pipe: str) -> Operation:
        """Append a barrier of a pipe."""
        return self.op("pto.barrier", [f"<PIPE_{pipe}>"])

    # -- regions ----------------------------------------------------------------------------------

    @contextmanager
    def region(self, op: Operation, args: Sequence[tuple[Tok, Tok | None]] = ()) -> Iterator[None]:
        """Append to a further region of an operation."""
        region = Region([Block([], list(args))])
        op.regions = [*op.regions, region]
        with self.into(region.blocks[0].ops):
            yield
        op.end = region.end = self.at
        if self._counts:
            self.at += 1

    @contextmanager
    def into(self, ops: list[Operation]) -> Iterator[None]:
        """Append to another block."""
        before, self.ops = self.ops, ops
        yield
        self.ops = before

    def scope(self, name: str = "pto.vecscope") -> Any:
        """Append `name { … }` and append to it."""
        return self.region(self.append(self._new(name, "core")))

    def loop(
        self,
        counter: str,
        bounds: Sequence[str],
        carried: Sequence[tuple[Named, str]] = (),
        results: Sequence[str] = (),
    ) -> Any:
        """Append `scf.for counter = lower to upper step step` and append to its body; `carried` are
        the arguments of its rounds, each with the value that the first one takes."""
        op = self._new("scf.for", "core", results)
        args: list[tuple[Tok, Tok | None]] = [(self.tok(counter), None)]
        op.ins = list(map(self.tok, bounds))
        if carried:
            op.outs = [self.tok(start) for _, start in carried]
            op.arrow = self.types(arg.type for arg, _ in carried)
            args += zip((self.tok(arg.name) for arg, _ in carried), op.arrow, strict=True)
        return self.region(self.append(op), args)

    def branch(self, condition: str, results: Sequence[Named] = ()) -> Operation:
        """Append `results = scf.if condition -> (types)`; its regions are for the caller."""
        op = self._new("scf.if", "core", [r.name for r in results])
        op.ins = [self.tok(condition)]
        op.arrow = self.types(r.type for r in results) or None
        return self.append(op)

    def function(self, name: str, args: Sequence[Named]) -> Any:
        """Append `func.func @name(args)` and append to its body."""
        op = self._new("func.func", "core")
        op.items = [self.tok(f"@{name}")]
        op.ins = [
            Node("func_arg", [self.tok(a.name), *self.types([a.type]), {}], self.at) for a in args
        ]
        return self.region(self.append(op), [(a.parts[0], a.parts[1]) for a in op.ins])

    def unit(self, attrs: Words | None = None) -> Any:
        """Append `module attributes {…}` and append to it."""
        op = self._new("module", "core")
        op.attrs = self.attrs(attrs or {})
        return self.region(self.append(op))


def _in_order(given: Mapping[str, Named], names: Sequence[OperandDef]) -> list[Named]:
    return [given[d.name] for d in names if d.name in given]


def copied(op: Operation, name: Callable[[str], str], *, inside: bool = True) -> Operation:
    """Return an operation as it is written, with other names of its values: `name` gives them, with
    `%`. Without what is `inside` its regions are empty."""
    made = Operation(op.name, op.form, op.start, op.end, op.name_end)
    made.result_tokens = [(name(f"%{n}")[1:], count, at) for n, count, at in op.result_tokens]
    for field in (
        "ins",
        "ins_types",
        "outs",
        "outs_types",
        "items",
        "types",
        "type_list",
        "clauses",
    ):
        setattr(made, field, _copy(getattr(op, field), name))
    made.arrow, made.attrs, made.props = op.arrow, op.attrs, op.props
    made.is_listed, made.bare_arrow = op.is_listed, op.bare_arrow
    made.regions = [
        Region([_block(b, name, inside=inside) for b in r.blocks], r.end) for r in op.regions
    ]
    return made


def _block(block: Block, name: Callable[[str], str], *, inside: bool) -> Block:
    ops = [copied(op, name) for op in block.ops] if inside else []
    return Block(ops, _copy(block.args, name), block.label)


def _copy(part: Any, name: Callable[[str], str]) -> Any:
    if isinstance(part, Tok):
        return Tok(part.type, name(part.value), part.start) if part.type == "SSA" else part
    if isinstance(part, Node):
        return Node(part.kind, _copy(part.parts, name), part.start)
    return type(part)(_copy(p, name) for p in part) if isinstance(part, (list, tuple)) else part


def renamed(ops: Iterable[Operation], names: Mapping[str, str]) -> None:
    """Give values other names, in place: by their names, both without `%`."""
    for op in walk(ops):
        op.result_tokens = [(names.get(n, n), c, at) for n, c, at in op.result_tokens]
        args = [arg for region in op.regions for block in region.blocks for arg in block.args]
        own = args if op.name != "func.func" else ()  # there they are those of its head
        for tok in tokens((op.ins, op.outs, op.items, op.clauses, own)):
            if tok.type == "SSA":
                base, mark, number = tok.value[1:].partition("#")
                tok.value = f"%{names.get(base, base)}{mark}{number}"


def tokens(part: Any) -> Iterator[Tok]:
    """Yield the tokens of a part of an operation, or of several, in order."""
    if isinstance(part, Tok):
        yield part
    elif isinstance(part, (list, tuple, Node)):
        for inner in part.parts if isinstance(part, Node) else part:
            yield from tokens(inner)


# -- the text --------------------------------------------------------------------------------------


def text_of(ops: Sequence[Operation], indent: str = "") -> str:
    """Return operations as lines with an indentation, the first one without it: what takes the
    place of an operation of a text."""
    module = Module(Source("<built>", ""))
    module.ops = list(ops)
    return f"\n{indent}".join(print_placed(module)[0].splitlines())


def as_module(ops: Sequence[Operation], name: str, head: Sequence[str] = ()) -> Module:
    """Return operations as the module that their text would be read as, with comment lines in front
    of it: each token gets its place in that text."""
    module = Module(Source("<built>", ""))
    module.ops = list(ops)
    module.comments = [Tok("COMMENT", f"// {line}", -1) for line in head]
    text, lines = print_placed(module)
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for comment, start in zip(module.comments, starts, strict=False):
        comment.start = start
    for part, line in lines:
        end = text.index("\n", starts[line])
        if isinstance(part, Region):
            part.end = starts[line] + text[starts[line] : end].index("}") + 1
        elif isinstance(part, Operation):
            _Place(text, starts[line], end).operation(part)
    for op in reversed(module.walk()):
        op.end = op.regions[-1].end if op.regions else op.end
    if not any(op.name in ("module", "func.func") for op in ops):
        module.kind = "snippet"
    module.source = Source(name, text)
    return module


class _Place:
    """Gives the tokens of one line their places, in the order in which they are printed."""

    def __init__(self, text: str, at: int, end: int) -> None:
        self.text, self.at, self.end = text, at, end

    def operation(self, op: Operation) -> None:
        """Place an operation with all on its first line."""
        line = self.text[self.at : self.end]
        self.at = op.start = self.at + len(line) - len(line.lstrip())
        op.result_tokens = [(n, c, self.find(f"%{n}")) for n, c, _ in op.result_tokens]
        word = op.name.removeprefix("func.") if op.name == "func.return" else op.name
        op.name_end = self.find(word) + len(word)
        carried = op.regions[0].blocks[0].args[1:] if op.name == "scf.for" else ()
        if op.name == "scf.for":
            self.part(op.regions[0].blocks[0].args[0][0])
        self.part(op.items)
        each = has_type_each(op)
        self.part(list(zip(op.ins, op.ins_types, strict=True)) if each else op.ins)
        for (argument, _), start in zip(carried, op.outs, strict=False):
            self.part([argument, start])
        self.part(() if each else op.ins_types)
        self.part([c for c in op.clauses if c.kind == "ins_word"])
        self.part(() if carried else op.outs)
        self.part(op.outs_types)
        self.part(op.type_list or op.types)
        inside = {key for item in op.items if isinstance(item, dict) for key in item}
        self.part({k: a for k, a in op.attrs.items() if k not in inside})
        self.part(op.arrow or ())
        opened = self.text[: self.end].endswith("{") and bool(op.regions)
        op.end = self.end - 1 if opened else self.end

    def part(self, part: Any) -> None:
        """Place a token, or all in a list, a node, attributes."""
        if isinstance(part, Tok):
            part.start = self.find(part.value)
        elif isinstance(part, Node):
            self.part(part.parts)
            part.start = self.at
        elif isinstance(part, dict):
            for attr in part.values():
                self.part([t for t in (attr.key, attr.atom, attr.type) if t is not None])
        else:
            for inner in part:
                self.part(inner)

    def find(self, word: str) -> int:
        """Return where a word is, and go on after it."""
        found = self.text.index(word, self.at, self.end)
        self.at = found + len(word)
        return found
