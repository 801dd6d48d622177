"""Operands as they are written: in order, with their types, and the named ones by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ptosim.ground.ir.attributes import attr_value, token_value
from ptosim.ground.ir.core import Node, Operand, Operation, Tok
from ptosim.ground.ir.types import ErrorType, MemRefType, PtrType, ScalarType, Type, VectorType
from ptosim.ground.isa.rows import Isa
from ptosim.ground.isa.schema import OpDef, dtype
from ptosim.ground.source import Span
from ptosim.language.bind.clauses import WrittenClause, are_clauses
from ptosim.language.bind.names import Naming, compatible

Use = Callable[[Any, Type | None], Operand]


class Written:
    """The operands of an operation as written: inputs, outputs (DPS only), and named ones;
    `repeated` are the words of those that have a value under their name already."""

    __slots__ = ("ins", "named", "outs", "repeated", "types")

    def __init__(self) -> None:
        self.ins: list[Operand] = []
        self.outs: list[Operand] | None = None
        self.named: dict[str, Any] = {}
        self.types: list[Type] = []
        self.repeated: list[Tok] = []

    def put(self, word: Tok, value: Any) -> None:
        """Give a name its value; the first one stays."""
        if word.value in self.named:
            self.repeated.append(word)
        else:
            self.named[word.value] = value

    def put_clause(self, clause: WrittenClause) -> None:
        """Add to the clauses of a name, which can be several."""
        given = self.named.setdefault(clause.tok.value, [clause])
        if not are_clauses(given):
            self.repeated.append(clause.tok)
        elif clause not in given:
            given.append(clause)


def collect(op: Operation, use: Use, type_of: Callable[[Tok], Type]) -> Written:
    """Return the operands of an op in the order of the text, each with its declared type."""
    written = Written()
    if op.form == "dps":
        written.ins = _typed(op.ins, op.ins_types, use, type_of)
        written.outs = _typed(op.outs, op.outs_types, use, type_of)
        items = _Items(written, use, [], types_end_here=True)
        for clause in op.clauses:
            if clause.kind == "dps_word":
                written.ins.append(use(clause.parts[0], None))
            elif clause.kind == "clause":
                items.add_all((clause,))
            else:
                _dps_clause(clause, written, use, type_of)
        return written
    if op.form == "generic":
        written.ins = _typed(op.ins, op.ins_types, use, type_of)
        return written
    if op.form == "line":
        written.ins = _typed(op.ins, op.types, use, type_of)
        return written
    types = [type_of(t) for t in type_tokens(op)]
    written.types = types
    if op.definition is not None and op.definition.unlisted is not None:
        types = []  # operands get theirs when they have names (bind/listed.py)
    _Items(written, use, types, types_end_here=op.arrow is None).add_all(op.items)
    if len(types) == 1 and op.name.startswith(("arith.", "math.")) and not op.has("selects"):
        _type_inputs(written.ins, types[0])
    return written


def _type_inputs(operands: list[Operand], type_: Type) -> None:
    """Give inputs of a snippet, where they are first used, the one type of all operands."""
    for operand in operands:
        value = operand.value
        if value is None or not value.is_argument or not isinstance(operand.type, ErrorType):
            continue
        if isinstance(value.type, ErrorType):
            value.type = type_
        operand.type = value.type  # of a second mention too, made before the first had its type


def type_tokens(op: Operation) -> list[Tok]:
    """Return the types of the operands of an op of the item form, in the order of the text."""
    tokens = [t for t in op.types if t.__class__ is Tok and t.type == "TYPE"]
    if len(tokens) > 1 and any(getattr(part, "value", "") == "to" for part in op.type_list):
        tokens.pop()  # `%x : A to B`: the last one is the result's
    row = op.definition
    if len(tokens) == 2 and row is not None and row.result_type == "extended":
        tokens.pop()  # `%a, %b : i32, i1`: the last one is the carry's
    for item in op.items:
        if item.__class__ is Node and item.kind == "paren":
            tokens.extend(t for t in item.parts if t.__class__ is Tok and t.type == "TYPE")
    return tokens


def _typed(entries: Any, types: Any, use: Use, type_of: Callable[[Tok], Type]) -> list[Operand]:
    declared = [type_of(t) for t in types]
    operands: list[Operand] = []
    position = 0
    for entry in entries:
        if entry.__class__ is dict:
            continue
        takes_type = entry.__class__ is Node or entry.type == "SSA"
        type_ = declared[position] if position < len(declared) else None
        if takes_type or len(declared) == len(entries):
            position += 1
        operands.append(use(entry, type_))
    return operands


def _dps_clause(clause: Node, written: Written, use: Use, type_of: Callable[[Tok], Type]) -> None:
    word, value = clause.parts[0], clause.parts[1]
    type_ = type_of(clause.parts[2]) if len(clause.parts) > 2 else None
    if value.__class__ is Node:
        written.put(word, use(value, type_))
    elif value.__class__ is Tok and value.type != "SSA":
        written.put(word, Operand(value, None, type_, token_value(value)))
    elif value.__class__ is Tok:
        written.put(word, use(value, type_))
    else:
        written.put(word, Operand(word, None, type_, attr_value(value)))


class _Items:
    """Flattens the items of an op; the types of the type list go to its values in order where there
    is one for each, or one for each that is not an index (`%p[%i], %v : P, V`)."""

    def __init__(
        self, written: Written, use: Use, types: list[Type], *, types_end_here: bool
    ) -> None:
        self._types_end_here = types_end_here
        self._written = written
        self._use = use
        self._types = list(types)
        self._next = 0
        self._one_each = False
        self._with_indices = True
        self._literals = False  # do literals have types, too?

    def add_all(self, given: Any) -> None:
        items = [i for i in given if not is_named(i)]
        count = sum(map(count_values, items))
        indices = sum(map(count_indices, items))
        plain = not self._types_end_here and all(i.__class__ is Tok for i in items)
        literals = sum(map(is_literal, items)) if plain else 0
        self._literals = literals > 0 and len(self._types) == count + literals
        if self._literals:
            count = len(self._types)
        self._with_indices = len(self._types) == count
        self._one_each = self._with_indices or len(self._types) == count - indices
        if self._one_each and not (self._with_indices and indices):
            _put_pointer_in_place(items, self._types)
        if self._types_end_here and len(items) < len(given):
            self._one_each = False  # the type after keywords is the result's
        previous: Any = None
        for item in given:
            self._add(item, previous)
            previous = item

    def _add(self, item: Any, previous: Any, *, typed: bool = False) -> None:
        """`previous` is the item before; a keyword takes a type only inside parentheses, where each
        value is followed by its own (`addr = %a : T` types the result)."""
        written = self._written
        if item.__class__ is dict:
            return
        if item.__class__ is Tok:
            written.ins.append(self._operand(item))
            return
        kind = item.kind
        if kind == "indexed":
            written.ins.extend(self._indexed(item))
        elif kind == "paren":
            written.ins.extend(self._operands(item.parts))
        elif kind == "symbol":
            written.ins.append(self._use(item, None))
        elif kind == "list":
            values = self._operands(item.parts)
            if previous.__class__ is Tok and previous.type == "BARE_ID":
                written.ins.pop()
                written.put(previous, values)
            else:
                written.ins.extend(values)
        elif kind != "keyword":
            self._add_named(item)
        else:
            word, value = item.parts
            is_list = value.__class__ is Node
            one_each, self._one_each = self._one_each, self._one_each and typed
            operand = self._operands(value.parts) if is_list else self._operand(value)
            self._one_each = one_each
            if typed:  # of a pipe: its check says what is there twice
                written.named[word.value] = operand
            else:
                written.put(word, operand)

    def _add_named(self, item: Node) -> None:
        written = self._written
        if item.kind == "launch":
            written.named[item.kind] = [self._use(part, None) for part in item.parts]
        elif item.kind == "flags":
            written.put(item.parts[0], [self._use(f, None) for f in _flags(item)])
        else:
            written.put_clause(self._clause(item))

    def _clause(self, item: Node) -> WrittenClause:
        word, paren = item.parts
        keywords: dict[str, Operand] = {}
        values: list[Operand] = []
        for part in paren.parts:
            if part.__class__ is Node and part.kind == "keyword" and part.parts[1].__class__ is Tok:
                keywords[part.parts[0].value] = self._operand(part.parts[1])
            else:
                values.extend(self._operands((part,)))
        return WrittenClause(word, values, keywords)

    def _operands(self, parts: Any) -> list[Operand]:
        found: list[Operand] = []
        for part in parts:
            if part.__class__ is Tok and part.type not in ("TYPE", "COLON", "ARROW"):
                found.append(self._operand(part))
            elif part.__class__ is Node and part.kind == "indexed":
                found.extend(self._indexed(part))
            elif part.__class__ is Node and part.kind in ("list", "paren"):
                found.extend(self._operands(part.parts))
            elif part.__class__ is Node and part.kind == "keyword":
                self._add(part, None, typed=True)
            elif part.__class__ is Node and part.kind == "clause":
                self._add_named(part)
        return found

    def _indexed(self, item: Node) -> list[Operand]:
        base, *indices = item.parts
        if indices[-1].type == "TYPE":  # of the index, as in `%v[%i : i32]`
            del indices[-1]
        if self._with_indices:
            return [self._operand(base), *map(self._operand, indices)]
        return [self._operand(base), *(self._use(index, None) for index in indices)]

    def _operand(self, tok: Tok) -> Operand:
        if tok.type != "SSA" and not (self._literals and is_literal(tok)):
            return self._use(tok, None)
        type_ = None
        if self._one_each:
            type_ = self._types[self._next]
            self._next += 1
        return self._use(tok, type_)


def _flags(item: Node) -> list[Tok]:
    """The words of `overflow<nsw, nuw>`, each as if it were alone in the brackets."""
    words = item.parts[1]
    found: list[Tok] = []
    at = words.start
    for piece in words.value[1:-1].split(","):
        start = at + 1 + len(piece) - len(piece.lstrip())
        found.append(Tok("ANGLE_ENUM", f"<{piece.strip()}>", start - 1))
        at += len(piece) + 1
    return found


def is_named(item: Any) -> bool:
    """True for an item whose value has no type in the list."""
    return item.__class__ is Node and item.kind in ("keyword", "launch")


def count_values(item: Any) -> int:
    """Return how many values an item of an operand list holds, those in brackets included."""
    if item.__class__ is Tok:
        return item.type == "SSA"
    if item.__class__ is Node:
        return sum(map(count_values, item.parts))
    return 0


def is_literal(item: Any) -> bool:
    """True for a number that is an operand of its own."""
    return item.__class__ is Tok and item.type in ("INT", "FLOAT")


def _put_pointer_in_place(items: Any, types: list[Type]) -> None:
    """In a list without the indices the pointer's type may be elsewhere than the pointer, as in
    `store_scalar %v, %p[%i] : P, V`."""
    values = [i for i in items if i.__class__ is Node or (i.__class__ is Tok and i.type == "SSA")]
    indexed = [at for at, item in enumerate(values) if getattr(item, "kind", "") == "indexed"]
    pointers = [at for at, t in enumerate(types) if isinstance(t, (PtrType, MemRefType))]
    if len(indexed) == 1 and len(pointers) == 1 and indexed[0] < len(types):
        types.insert(indexed[0], types.pop(pointers[0]))


def count_indices(item: Any) -> int:
    """Return how many of the values of an item are indices (`%v[%i, %j]` has two)."""
    if item.__class__ is not Node:
        return 0
    if item.kind == "indexed":
        return sum(1 for part in item.parts[1:] if part.type == "SSA")
    return sum(map(count_indices, item.parts))


# Operations of words only, as flags and barriers are: one is bound as the last one that said the
# same, with its own words as operands.

_Words = list[Tok]
_ASKED_APART = frozenset(("allocates_private", "launches"))
"""Traits of operations whose operands name something else than values."""


class OfWords:
    """What binding found out about operations of words only, by what they say."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], tuple[Operation, dict[str, Any]]] = {}

    @staticmethod
    def of(op: Operation) -> _Words | None:
        """Return the words of an operation that has nothing else: no value, type, attribute,
        region and result; None for others."""
        if op.form != "items" or op.types or op.attrs or op.regions or op.result_tokens:
            return None
        if op.arrow is not None or op.clauses or op.props:
            return None
        words: _Words = []
        for item in op.items:
            words += item.parts if item.__class__ is Node and item.kind == "list" else (item,)
        is_plain = all(word.__class__ is Tok and word.type != "SSA" for word in words)
        return words if is_plain else None

    def bind(self, op: Operation, words: _Words) -> bool:
        """Bind an operation as one that says the same; False if there was none."""
        known = self._known.get(_words_of(op, words))
        if known is None:
            return False
        like, operands = known
        op.variant, op.attributes = like.variant, dict(like.attributes)
        op.bound = {name: _anew(bound, words) for name, bound in operands.items()}
        return True

    def keep(self, op: Operation, words: _Words) -> None:
        """Remember how an operation was bound, if its words are all that its operands are."""
        if op.variant is None or op.results or not _ASKED_APART.isdisjoint(op.traits):
            return
        at = {id(word): number for number, word in enumerate(words)}
        operands = {name: _by_number(bound, at) for name, bound in op.bound.items()}
        if _OTHER not in operands.values():
            self._known[_words_of(op, words)] = op, operands


_OTHER = object()


def _words_of(op: Operation, words: _Words) -> tuple[Any, ...]:
    lists = tuple(len(item.parts) if item.__class__ is Node else -1 for item in op.items)
    return op.name, lists, *((word.type, word.value) for word in words)


def _by_number(bound: Any, at: dict[int, int]) -> Any:
    """An operand with the number of its word in its place."""
    if bound is None or bound is True:
        return bound
    number = at.get(id(bound.tok)) if isinstance(bound, Operand) else None
    return _OTHER if number is None else (number, bound)


def _anew(bound: Any, words: _Words) -> Any:
    if bound.__class__ is not tuple:
        return bound
    number, operand = bound
    return Operand(words[number], None, operand.type, operand.const)


# Type lists that leave out some operands by their names (`unlisted` of a row): the operands have to
# be bound before their types can be told apart.


class Listed(Naming):
    """Adds the types of operands whose list leaves some out."""

    def _listed_types(self, op: Operation, definition: OpDef) -> None:
        if definition.unlisted is None or op.variant is None:
            return
        for name, word in definition.unlisted.items():
            operand = op.bound.get(name)
            if isinstance(operand, Operand):
                self._has_type(operand, ScalarType(dtype(word)))
        if op.form != "items" or definition.form == "generic":
            return
        self._brackets(op, definition)
        operands = list(_listed(op, definition))
        tokens = type_tokens(op)
        in_list = definition.result_type == "last" and op.arrow is None
        count = len(operands) + (len(op.variant.outs) if in_list else 0)
        if len(tokens) != count:
            self._wrong_list(op, tokens, f"expected {count} type{'s' * (count != 1)}")
            return
        if op.variant.outs and not in_list and op.arrow is None:
            self._wrong_list(op, tokens, "expected '->' and the type of each result")
        for operand, token in zip(operands, tokens, strict=False):
            self._has_type(operand, self.type_of(token))

    def _one_type(self, op: Operation, definition: OpDef, written: Written) -> None:
        """Of operations whose list is the one type of all operands (`arith.addi %a, %b : i32`)
        report an operand of another; the condition of a choice is no part of it."""
        is_scalar = op.name.startswith(("arith.", "math.")) and op.form == "items"
        if not is_scalar or len(written.types) != 1 or op.variant is None or op.arrow is not None:
            return
        declared = written.types[0]
        if isinstance(declared, VectorType) and None in declared.dims:
            return  # what its extents are only the run knows
        for operand in written.ins[1 if "selects" in definition.traits else 0 :]:
            value, token = operand.value, operand.tok
            if value is None or not isinstance(token, Tok):
                continue
            if not compatible(value.type, declared):
                self._report_use(value, declared, token)
                operand.type = ErrorType()

    def _brackets(self, op: Operation, definition: OpDef) -> None:
        """Report an index outside of brackets, and brackets where the operation has none."""
        if any(operand.variadic for operand in op.variant.ins) if op.variant is not None else True:
            return
        indexed = [item for item in op.items if getattr(item, "kind", "") == "indexed"]
        wanted = 0 if definition.brackets is None else 1
        fits = len(indexed) == wanted and all(
            len(item.parts) == 2 and item.parts[1].type == "SSA" for item in indexed
        )
        if not fits:
            what = f"%base[%{definition.brackets}]" if wanted else "no operand in brackets"
            self._wrong_list(op, [], f"expected {what}")

    def _has_type(self, operand: Operand, declared: Type) -> None:
        """Report an operand of another type, to the letter (no text of the date that has these
        operations leaves out a space); an undefined one of a snippet takes it."""
        value, token = operand.value, operand.tok
        if value is None or not isinstance(token, Tok):
            return
        if value.is_argument and isinstance(value.type, ErrorType) and value.owner is None:
            value.type = operand.type = declared
        elif value.type != declared and not isinstance(value.type, ErrorType):
            self._report_use(value, declared, token)
            operand.type = ErrorType()
        elif value.type == declared:
            operand.type = declared  # of a second mention too, made before the first had its type

    def _wrong_list(self, op: Operation, tokens: list[Tok], problem: str) -> None:
        end = tokens[-1].end if tokens else op.name_end
        start = tokens[0].start if tokens else op.start
        self.sink.report(
            "PTO2301",
            f"'{op.name}' op: {problem}",
            Span(self.source, start, end),
            notes=("the list has the types of the operands in order, without indices and strides",),
            help=f"see `ptosim ops {op.name.removeprefix('pto.')}`",
        )


def _listed(op: Operation, definition: OpDef) -> Iterator[Operand]:
    """The operands that have a type in the list, in the order of the row."""
    for name, operand in op.operands():
        is_input = op.variant is not None and any(d.name == name for d in op.variant.ins)
        if is_input and operand.value is not None and name not in (definition.unlisted or ()):
            yield operand


# -- several spellings of one operation: what a spelling says is found under the names of the ------


def take_meaning(op: Operation, definition: OpDef, isa: Isa) -> None:
    """Give an operation the attributes and the names of operands of the one that its row `means`;
    operands that it has no word for are left out."""
    for name, value in definition.sets.items():
        said = _said(op, value)
        if said is not None:
            op.attributes[name] = said
    meant = isa.get(definition.means) if definition.means is not None else None
    if meant is None or op.variant is None:
        return
    for attr in meant.attrs.values():
        op.attributes.setdefault(attr.name, attr.default)
    for variant in meant.variants:
        for operand in variant.operands:
            op.bound.setdefault(operand.name, None)


def _said(op: Operation, value: Any) -> Any:
    """`@name`: what the text says of an attribute, else the constant of an operand or of a list."""
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    name = value[1:]
    said = op.attributes.get(name)
    if said is not None:
        return said
    bound = op.bound.get(name)
    if isinstance(bound, list):
        return [operand.const for operand in bound] or None
    return bound.const if isinstance(bound, Operand) else None
