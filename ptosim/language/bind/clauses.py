"""Named operands of an operation: clauses `nburst(%n, %s, %d)`, keywords `addr = %a`, flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Sink, finding
from ptosim.ground.ir.core import Clause, Operand, Operation, Tok
from ptosim.ground.isa.schema import OpDef, OperandDef, Variant, enums
from ptosim.ground.source import Source, Span
from ptosim.ground.words import nearest

Assign = Callable[[tuple[OperandDef, ...], list[Operand]], "dict[str, Any] | None"]
Fits = Callable[[OperandDef, Operand], bool]


class WrittenClause:
    """A clause as written: its word, its operands in order, those written with a name."""

    __slots__ = ("keywords", "tok", "values")

    def __init__(self, tok: Tok, values: list[Operand], keywords: dict[str, Operand]) -> None:
        self.tok = tok
        self.values = values
        self.keywords = keywords


def are_clauses(written: Any) -> bool:
    """True for one clause or more under a name, False for a value or a list of values."""
    return (
        isinstance(written, list)
        and len(written) > 0
        and all(isinstance(w, WrittenClause) for w in written)
    )


def without_flags(variant: Variant, values: list[Operand]) -> list[Operand]:
    """Return the operands without the words that are flags.

    A word that no operand of the variant can take is meant as a flag too: `bind_named` knows better
    what to say about it.
    """
    if not variant.flags:
        return values
    takes_words = any("word" in d.kinds or "enum" in d.kinds for d in variant.ins)
    return [v for v in values if not _is_word(v) or (takes_words and v.const not in variant.flags)]


def is_complete(op: Operation) -> bool:
    """False if the op lacks a clause that it must have (which has been reported), or names no
    result."""
    if op.form != "items":
        return True
    if op.arrow and not op.results:
        return False
    return op.variant is None or all(
        d.optional or d.variadic or d.is_flag or op.bound.get(d.name) is not None
        for d in op.variant.named
    )


def _is_word(value: Operand) -> bool:
    return isinstance(value.tok, Tok) and value.tok.type == "BARE_ID"


def _numbered(variant: Variant, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Clauses by name; one that can be repeated may be written with a number, `loop1(…) loop2(…)`,
    and counts in the order of the text."""
    repeated = {d.name for d in variant.named if d.is_clause and d.variadic}
    numbered = [
        name
        for name in named
        if (plain := name.rstrip("0123456789")) in repeated
        and name not in repeated
        and are_clauses(named[name])
        and (plain not in named or are_clauses(named[plain]))
    ]
    if not numbered:
        return named
    found = {n: clauses for n, clauses in named.items() if n not in numbered}
    for name in numbered:
        plain = name.rstrip("0123456789")
        found[plain] = sorted((*found.get(plain, ()), *named[name]), key=lambda c: c.tok.start)
    return found


class NamedBinder:
    """Gives the named operands of one operation to the names of its row; reports what is wrong."""

    def __init__(
        self,
        op: Operation,
        definition: OpDef,
        source: Source,
        sink: Sink,
        assign: Assign,
        fits: Fits,
    ) -> None:
        self._op = op
        self._definition = definition
        self._source = source
        self._sink = sink
        self._assign = assign
        self._fits = fits

    def bind(
        self, variant: Variant, named: Mapping[str, Any], values: Sequence[Operand]
    ) -> dict[str, Any]:
        """Return what each named operand represents: an operand, a list of operands, a `Clause`, a
        list of them where it can be repeated, True or None for a flag."""
        bound: dict[str, Any] = {}
        named = _numbered(variant, named)
        words = self._words(variant, values)
        for definition in variant.named:
            name = definition.name
            if definition.is_flag:
                bound[name] = True if name in words else None
            elif definition.is_clause:
                bound[name] = self._clauses(definition, named.get(name))
                if name in words and name not in named and definition.may_be_bare:
                    bound[name] = Clause(definition, {p.name: None for p in definition.params})
            else:
                bound[name] = self._plain(definition, named.get(name))
        if self._op.form in ("items", "dps"):
            meant = self._unknown(variant, named, words)
            given = {*named, *meant}
            self._missing([d for d in variant.named if d.name not in given], bound)
        elif self._op.form == "generic":  # what is no clause may be an attribute there
            self._missing([d for d in variant.named if d.is_clause], bound)
        return bound

    def _words(self, variant: Variant, values: Sequence[Operand]) -> dict[str, Operand]:
        if not variant.flags:
            return {}
        positional = {id(v) for v in without_flags(variant, list(values))}
        return {str(v.const): v for v in values if id(v) not in positional}

    def _plain(self, definition: OperandDef, written: Any) -> Any:
        """An operand, or a list of operands where the row has a list; a clause where the row has an
        operand represents its value."""
        if are_clauses(written):
            if len(written) > 1:
                self._sink.emit(self._repeated(definition, written[1].tok))
            written = written[0].values
        wants_list = "list" in definition.kinds
        if isinstance(written, list) and not wants_list and len(written) == 1:
            written = written[0]
        if written is None:
            return None
        if isinstance(written, list):
            fits = wants_list
        else:
            fits = not wants_list and self._fits(definition, written)
        if fits:
            return written
        self._sink.emit(self._wrong_kind(definition, written))
        return None

    def _wrong_kind(self, definition: OperandDef, written: Any) -> Diagnostic:
        given = "a list" if isinstance(written, list) else str(written.type or "another word")
        return finding(
            "PTO2009",
            f"'{self._op.name}' op: `{definition.name}` takes {' or '.join(definition.kinds)}, "
            f"not {given}",
            self._span(_place(written)),
            notes=(f"it is written `{shown(definition)}`",),
        )

    # -- clauses --------------------------------------------------------------------------------

    def _clauses(self, definition: OperandDef, written: Any) -> Any:
        if written is None:
            return [] if definition.variadic else None
        if not are_clauses(written):
            self._sink.emit(self._not_a_clause(definition))
            return None
        bound = [c for c in (self._clause(definition, w) for w in written) if c is not None]
        if definition.variadic:
            return bound
        if len(written) > 1:
            self._sink.emit(self._repeated(definition, written[1].tok))
        return bound[0] if bound else None

    def _clause(self, definition: OperandDef, written: WrittenClause) -> Clause | None:
        positional = tuple(d for d in definition.params if not d.keyword)
        keywords = {d.name: d for d in definition.params if d.keyword}
        operands = self._assign(positional, written.values)
        if operands is not None and _is_other_word(definition, operands):
            operands = None
        unknown = next((k for k in written.keywords if k not in keywords), None)
        given = {name: written.keywords.get(name) for name in keywords}
        fits = all(
            param.optional if (value := given[name]) is None else self._fits(param, value)
            for name, param in keywords.items()
        )
        if operands is None or unknown is not None or not fits:
            self._sink.emit(self._misfit(definition, written, unknown))
            return None
        return Clause(definition, {**operands, **given})

    # -- reports --------------------------------------------------------------------------------

    def _unknown(
        self, variant: Variant, named: Mapping[str, Any], words: Mapping[str, Operand]
    ) -> list[str]:
        """Report what has no such name; return the names that were probably meant."""
        known = {d.name: d for d in (*variant.named, *variant.ins)}
        keys = {k.value: k for k in (self._key(item) for item in self._op.items) if k is not None}
        places: dict[str, Tok | None] = {
            k: keys.get(k) or _place(v) for k, v in named.items() if k not in known
        }
        places |= {k: _place(v) for k, v in words.items() if k not in variant.flags}
        meant: list[str] = []
        for name, tok in places.items():
            if name in known and known[name].is_clause:
                self._sink.emit(self._without_operands(known[name], tok))
                continue
            notes = (f"known: {', '.join(map(shown, variant.named))}",) if variant.named else ()
            help_ = nearest(name, known)
            meant += help_.split("`")[1:2] if help_ is not None else ()
            self._sink.report(
                "PTO2007",
                f"'{self._op.name}' op has no clause `{name}`",
                self._span(tok),
                notes=notes,
                help=help_,
            )
        return meant

    @staticmethod
    def _key(item: Any) -> Tok | None:
        """The name of a clause as it is written."""
        if getattr(item, "kind", "") not in ("clause", "keyword"):
            return None
        return item.parts[0] if isinstance(item.parts[0], Tok) else None

    def _missing(self, definitions: Sequence[OperandDef], bound: Mapping[str, Any]) -> None:
        for definition in definitions:
            if definition.optional or definition.variadic or definition.is_flag:
                continue
            if bound.get(definition.name) is None and not self._reported(definition):
                forms = _forms(definition)
                self._sink.report(
                    "PTO2008",
                    f"'{self._op.name}' op requires `{definition.name}`"
                    + (f": expected {forms}" if forms else ""),
                    self._span(None),
                    help=f"add `{shown(definition)}`",
                )

    def _reported(self, definition: OperandDef) -> bool:
        """True if the clause is there and was found wrong."""
        return definition.is_clause and any(
            getattr(item, "value", None) == definition.name
            or (
                getattr(item, "kind", "") in ("clause", "keyword", "list")
                and getattr(item.parts[0], "value", None) == definition.name
            )
            for item in self._op.items
        )

    def _misfit(
        self, definition: OperandDef, written: WrittenClause, unknown: str | None
    ) -> Diagnostic:
        given = [str(v.type) if v.value is not None else quoted(v) for v in written.values]
        given += [f"{k} = {quoted(v)}" for k, v in written.keywords.items()]
        what = f"no operand `{unknown}`" if unknown else f"other operands than ({', '.join(given)})"
        forms = _forms(definition)
        return finding(
            "PTO2009",
            f"'{self._op.name}' op: clause `{definition.name}` takes {what}"
            + (f": expected {forms}" if forms else ""),
            self._span(written.tok),
            notes=(f"it is written `{shown(definition)}`",),
            help=f"see `ptosim ops {self._definition.mnemonic}`",
        )

    def _without_operands(self, definition: OperandDef, tok: Tok | None) -> Diagnostic:
        forms, missing = _forms(definition), next(p for p in definition.params if not p.optional)
        what = f"expected {forms}" if forms else f"{definition.name} requires {missing.name}"
        return finding(
            "PTO2009",
            f"'{self._op.name}' op: {what}",
            self._span(tok),
            notes=(f"it is written `{shown(definition)}`",),
        )

    def _not_a_clause(self, definition: OperandDef) -> Diagnostic:
        return finding(
            "PTO2009",
            f"'{self._op.name}' op: `{definition.name}` is a clause",
            self._span(None),
            help=f"write `{shown(definition)}`",
        )

    def _repeated(self, definition: OperandDef, tok: Tok) -> Diagnostic:
        return finding(
            "PTO2009",
            f"'{self._op.name}' op: clause `{definition.name}` occurs twice",
            self._span(tok),
            notes=(f"`{definition.name}` can be given once",),
        )

    def _span(self, tok: Tok | None) -> Span:
        if tok is None:
            return self._op.span(self._source)
        return tok.span(self._source)


def _place(written: Any) -> Tok | None:
    first = written[0] if isinstance(written, list) and written else written
    tok = getattr(first, "tok", None)
    return tok if tok.__class__ is Tok else None


def quoted(operand: Operand) -> str:
    """Return a word or literal as it is written."""
    return f"`{operand.tok.value}`" if isinstance(operand.tok, Tok) else "a literal"


def _is_other_word(definition: OperandDef, operands: Mapping[str, Any]) -> bool:
    """True if the one operand of a clause with several forms is a word of none of them."""
    value = operands.get(definition.params[0].name) if definition.params else None
    if not _forms(definition) or not isinstance(value, Operand) or not _is_word(value):
        return False
    return all(enums()[e].member(str(value.const)) is None for e in definition.params[0].enums)


def _forms(definition: OperandDef) -> str:
    """The forms of a clause whose one operand is a value or a word: `m(%a), m(b), or m(c)`."""
    params = definition.params
    if len(params) != 1 or params[0].optional or not params[0].enums:
        return ""
    if all(kind == "enum" for kind in params[0].kinds):
        return ""
    *first, last = (
        f"{definition.name}({word})" for word in (f"%{params[0].name}", *_words(params[0]))
    )
    return f"{', '.join(first)}, or {last}"


def shown(definition: OperandDef) -> str:
    """Return a named operand in the notation of the language."""
    if definition.is_flag:
        return f"[{definition.name}]"
    if definition.enums and "list" in definition.kinds:
        text = f"{definition.name}<{', '.join(_words(definition))}>"
    elif definition.is_clause:
        text = f"{definition.name}({', '.join(map(_shown_param, definition.params))})"
    else:
        text = f"{definition.name} = {'|'.join(definition.kinds)}"
    if definition.variadic:
        return f"[{text}]…"
    return f"[{text}]" if definition.optional else text


def _shown_param(param: OperandDef) -> str:
    kinds = [k for k in param.kinds if k != "enum"]
    if param.keyword:
        text = f"{param.name} = {'|'.join((*kinds, *_words(param)))}"
    else:
        text = "|".join((*([f"%{param.name}"] if kinds else []), *_words(param)))
    return f"[{text}]" if param.optional else text


def _words(param: OperandDef) -> list[str]:
    """The words that an operand can be, or the names of their enums where there are many."""
    members = [m for name in param.enums for m in enums()[name].members]
    return members if len(members) <= 4 else list(param.enums)


def describe(variant: Variant, definition: OpDef) -> str:
    """Return the operand lists of a variant in the notation of the language."""
    ins = ", ".join(_described(variant.ins, definition.brackets))
    outs = ", ".join(map(describe_operand, variant.outs))
    if definition.form == "dps":
        parts = [f"ins({ins})" if ins else "", f"outs({outs})" if outs else ""]
        return " ".join(filter(None, parts))
    named = ", ".join(map(shown, variant.named))
    return ", ".join(filter(None, (ins, named))) + (f" -> {outs}" if outs else "")


def _described(operands: Sequence[OperandDef], in_brackets: str | None) -> list[str]:
    """The operands one by one; an offset in brackets belongs to what is before it."""
    shown: list[str] = []
    for operand in operands:
        if operand.name == in_brackets and shown:
            base, colon, kind = shown[-1].partition(":")
            shown[-1] = f"{base}[%{operand.name}]{colon}{kind}"
        else:
            shown.append(describe_operand(operand))
    return shown


def describe_operand(definition: OperandDef) -> str:
    """Return an operand in the notation of the language."""
    kinds = [k for k in definition.kinds if k != "enum"]
    sigil = "%" if kinds else ""  # an operand that is only ever a word is no value
    text = f"{sigil}{definition.name}: {'|'.join((*kinds, *definition.enums))}"
    if definition.variadic:
        return f"{text}…"
    return f"[{text}]" if definition.optional else text
