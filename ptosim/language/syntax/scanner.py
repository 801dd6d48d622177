"""Scanners: the next terminal of a text, given what the parser can take.

The patterns come from the grammar. Like Lark's contextual lexer the program scanner asks the
parser, but only for the two choices that depend on its state: a keyword that is also a plain word,
and `%a =` as a result list or as a value in front of `=`. It goes by the first character because
one alternation over all terminals takes three times as long."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from functools import cached_property
from typing import Any, ClassVar, Protocol, cast

from ptosim.ground.ir.core import Tok
from ptosim.ground.records import dataclass
from ptosim.language.syntax.balance import closing

# LALR(1) tables: Lark reads a grammar of `isa/` and computes them, this module keeps them as data.
#
# Lark's own driver hashes a rule object at every reduction and builds a node for every helper rule;
# driving its tables directly parses more than twice as fast. Tables are plain tuples, dicts and
# strings, so that they can be cached with `marshal`, which unlike pickle runs no code when read.


@dataclass(frozen=True, slots=True)
class Rule:
    """A production: what it makes, how many symbols it takes, which of them are kept, its callback.

    `kept` lists (position, splice): the value of a helper symbol (its name starts with `_`) is a
    list that is spliced into its parent's. A rule without `callback` is such a helper."""

    origin: str
    size: int
    kept: tuple[tuple[int, bool], ...]
    callback: str | None
    inline_single: bool


@dataclass(frozen=True, slots=True)
class Tables:
    """`actions[state][terminal]` is a state to shift to, or ~n for reduction by `rules[n]`;
    `gotos[state][origin]` is the state after a reduction. Parsing starts in `start` and has ended
    when a reduction leads to `end`."""

    actions: tuple[dict[str, int], ...]
    gotos: tuple[dict[str, int], ...]
    rules: tuple[Rule, ...]
    start: int
    end: int
    patterns: dict[str, str]
    keywords: dict[str, str]


def build(grammar: str) -> Tables:
    """Compute the tables of a Lark grammar with the start symbol `start`."""
    import lark
    from lark.parsers.lalr_analysis import Shift

    parser = lark.Lark(grammar, parser="lalr", lexer="basic", maybe_placeholders=False)
    table = parser.parser.parser._parse_table  # type: ignore[union-attr]
    numbers = {state: i for i, state in enumerate(table.states)}
    rule_numbers: dict[Any, int] = {}
    rules: list[Rule] = []
    actions: list[dict[str, int]] = []
    gotos: list[dict[str, int]] = []
    for row in table.states.values():
        shifts: dict[str, int] = {}
        goto: dict[str, int] = {}
        for symbol, (action, argument) in row.items():
            if action is Shift:
                (goto if _is_origin(symbol) else shifts)[str(symbol)] = numbers[argument]
                continue
            if argument not in rule_numbers:
                rule_numbers[argument] = len(rules)
                rules.append(_rule(argument))
            shifts[str(symbol)] = ~rule_numbers[argument]
        actions.append(shifts)
        gotos.append(goto)
    patterns = {str(t.name): str(t.pattern.to_regexp()) for t in parser.terminals}
    keywords = {
        str(t.pattern.value): str(t.name)
        for t in parser.terminals
        if t.pattern.type == "str" and (t.pattern.value[0].isalpha() or t.pattern.value[0] == "!")
    }
    return Tables(
        tuple(actions),
        tuple(gotos),
        tuple(rules),
        numbers[table.start_states["start"]],
        numbers[table.end_states["start"]],
        patterns,
        keywords,
    )


def _is_origin(symbol: str) -> bool:
    return not symbol.isupper() and symbol != "$END"


def _rule(rule: Any) -> Rule:
    kept = tuple(
        (i, not symbol.is_term and symbol.name.startswith("_"))
        for i, symbol in enumerate(rule.expansion)
        if not (symbol.is_term and symbol.filter_out)
    )
    name = str(rule.origin.name)
    callback = None if name.startswith("_") else str(rule.alias or name)
    return Rule(name, len(rule.expansion), kept, callback, bool(rule.options.expand1))


def to_plain(tables: Tables) -> tuple[Any, ...]:
    """Return the tables as nested tuples and dicts for `marshal`."""
    rules = tuple((r.origin, r.size, r.kept, r.callback, r.inline_single) for r in tables.rules)
    return (
        tables.actions,
        tables.gotos,
        rules,
        tables.start,
        tables.end,
        tables.patterns,
        tables.keywords,
    )


def from_plain(data: tuple[Any, ...]) -> Tables:
    """Undo `to_plain`."""
    actions, gotos, rules, start, end, patterns, keywords = data
    return Tables(actions, gotos, tuple(Rule(*r) for r in rules), start, end, patterns, keywords)


PUNCTUATION = {
    "(": "LPAR",
    ")": "RPAR",
    "[": "LSQB",
    "]": "RSQB",
    "{": "LBRACE",
    "}": "RBRACE",
    "<": "LESSTHAN",
    ">": "MORETHAN",
    ",": "COMMA",
    ":": "COLON",
    "=": "EQUAL",
    "->": "ARROW",
}
_BRACES = {"REGION_OPEN": "LBRACE", "LBRACE": "REGION_OPEN"}
BRACKETED = frozenset(("TYPE", "ATTR", "DENSE", "ARRAY", "AFFINE"))
"""Terminals that go on to the end of the bracket after them."""
END = "$END"
UNKNOWN = "UNKNOWN"
_BLANK = frozenset(" \t\r\n\f")
_Match = Callable[[str, int], re.Match[str]]  # of patterns that match anywhere
_skip_blank = cast("_Match", re.compile(r"[ \t\r\n\f]*").match)

Scanned = tuple[str, Tok | None, int, int]
"""Terminal name, token (None for punctuation nobody keeps), start and end offset."""


class Scanner(Protocol):
    """Finds the terminal that begins at or after an offset."""

    def scan(self, text: str, at: int, acceptable: Container[str]) -> Scanned:
        """Return the next terminal; `acceptable` are the terminals the parser could take."""
        ...

    @property
    def comments(self) -> list[Tok]:
        """The comments passed over so far."""
        ...


class _Matchers(dict[str, Any]):
    """What matches the terminals that begin with a character, compiled when the first of them is
    met; None where a word begins."""

    _NAMES: ClassVar = {
        **dict.fromkeys("0123456789-", ("HEX", "FLOAT", "INT", "ARROW")),
        "%": ("SSA",),
        "<": ("TRIPLE_OPEN", "TYPE", "ANGLE_ENUM", "LESSTHAN"),
        ">": ("TRIPLE_CLOSE", "MORETHAN"),
        "{": ("REGION_OPEN", "LBRACE"),
        "!": ("TYPE_ALIAS_LHS", "TYPE"),
        "#": ("HASHCOMMENT", "ALIAS_LHS", "ATTR"),
        '"': ("GENERIC_OP", "STRING"),
        "@": ("SYMBOL",),
        "^": ("BLOCK_ID",),
        "/": ("COMMENT",),
    }

    def __init__(self, group: Callable[..., Any]) -> None:
        super().__init__()
        self._group = group

    def __missing__(self, first: str) -> Any:
        names = self._NAMES.get(first)
        made = self[first] = self._group(*names) if names is not None else None
        return made


class _ResultLists:
    """Finds `%a, %b =`. A list of values that no `=` follows is read once: no shorter list at its
    end is one of results either, and lists of operands are long."""

    def __init__(self, pattern: str) -> None:
        names, repeated, _ = pattern.rpartition(")*")
        self._whole = cast("_Match", re.compile(f"(?P<RESULTS>{pattern})").match)
        self._names = cast("_Match", re.compile(names + repeated).match)
        self._refused = range(0)  # the last list that is none of results

    def match(self, text: str, at: int) -> re.Match[str] | None:
        """Return the list of results at an offset of the text, always the same, or None."""
        if at in self._refused:
            return None
        found = self._whole(text, at)
        if found is None:
            names = self._names(text, at)
            self._refused = range(at, names.end() if names is not None else at)
        return found


class ProgramScanner:
    """Terminals of `isa/pto.lark`."""

    _SPECIAL_WORDS = frozenset(
        ("memref", "vector", "tensor", "dense", "array", "affine_map", "affine_set")
    )

    def __init__(self, tables: Tables) -> None:
        self.comments: list[Tok] = []
        self._keyword = tables.keywords.get
        self._word_kinds: dict[str, str] = {}
        group = self._group = _group_maker(tables.patterns)
        self._word = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*").match
        self._typed_word = re.compile(tables.patterns["TYPE"]).fullmatch
        self._results = _ResultLists(tables.patterns["RESULTS"]).match
        punctuation = {c: n for c, n in PUNCTUATION.items() if c not in ("<", ">", "{", "->")}
        self._matchers, self._punctuation = _Matchers(group), punctuation.get

    def scan(  # noqa: C901 - hot loop
        self, text: str, at: int, acceptable: Container[str]
    ) -> Scanned:
        """Return the next terminal; `acceptable` are the terminals the parser could take."""
        while True:
            first = text[at : at + 1]
            if first == " ":  # one blank is what there is nearly always
                at += 1
                first = text[at : at + 1]
            if first in _BLANK:
                at = _skip_blank(text, at).end()
                first = text[at : at + 1]
            if not first:
                return END, None, at, at
            kind = self._punctuation(first)
            if kind is not None:
                token = Tok(kind, first, at) if kind == "COLON" else None
                return kind, token, at, at + 1
            matcher = self._matchers[first]
            if matcher is None:
                return self._scan_word(text, at, acceptable)
            if first == "<":
                return self._scan_angle(text, at, acceptable)
            found = None
            if first == "%" and "RESULTS" in acceptable:
                found = self._results(text, at)
            found = found or matcher(text, at)
            if found is None:
                return UNKNOWN, Tok(UNKNOWN, first, at), at, at + 1
            kind = found.lastgroup or UNKNOWN
            if first == "{":
                if kind not in acceptable and _BRACES[kind] in acceptable:
                    kind = _BRACES[kind]
                return kind, None, at, at + 1
            after = found.end()
            if kind in BRACKETED:
                after = _closed(text, at, after)
            token = Tok(kind, text[at:after], at)
            if kind == "COMMENT" or kind == "HASHCOMMENT":
                self.comments.append(token)
                at = after
                continue
            return kind, token, at, after

    def _scan_angle(self, text: str, at: int, acceptable: Container[str]) -> Scanned:
        """A type without its name, words of an enum, launch dimensions, or only the character."""
        found = self._matchers["<"](text, at)
        kind = (found.lastgroup if found is not None else None) or UNKNOWN
        after = closing(text, at) if kind == "TYPE" else at + 1
        if found is not None and kind in ("ANGLE_ENUM", "TRIPLE_OPEN"):
            after = found.end()
        if after < 0:
            kind, after = "LESSTHAN", at + 1
        return kind, Tok(kind, text[at:after], at), at, after

    def _scan_word(self, text: str, at: int, acceptable: Container[str]) -> Scanned:
        found = self._word(text, at)
        if found is None:
            return UNKNOWN, Tok(UNKNOWN, text[at], at), at, at + 1
        word = found.group()
        kind = self._word_kinds.get(word)
        if kind is None:
            kind = self._word_kinds[word] = self._classify(word)
        if kind == "SPECIAL":
            special = self._special(text, at)
            after = _closed(text, at, special.end()) if special is not None else -1
            if special is not None and after > special.end():
                kind = special.lastgroup or UNKNOWN
                return kind, Tok(kind, text[at:after], at), at, after
            kind = "BARE_ID"
        keyword = self._keyword(word)
        if keyword is not None and keyword in acceptable:
            kind = keyword
        return kind, Tok(kind, word, at), at, found.end()

    @cached_property
    def _special(self) -> Any:
        return self._group("DENSE", "ARRAY", "AFFINE", "TYPE")

    def _classify(self, word: str) -> str:
        if word in self._SPECIAL_WORDS:
            return "SPECIAL"
        if self._typed_word(word):
            return "TYPE"
        return "OP_ID" if "." in word else "BARE_ID"


class PatternScanner:
    """Terminals of a small grammar: the first pattern of `order` that matches wins; `blank` is the
    pattern of what may be between terminals, `bracketed` those that a bracket may follow."""

    def __init__(
        self,
        tables: Tables,
        order: tuple[str, ...],
        blank: str = r"\s",
        bracketed: frozenset[str] = BRACKETED,
    ) -> None:
        self.comments: list[Tok] = []
        self._bracketed = bracketed
        self._keyword = tables.keywords.get
        self._skip = cast("_Match", re.compile(f"(?:{blank})*").match)
        self._match = _group_maker(tables.patterns)(*(name for name in order if name != "RESULTS"))
        results = tables.patterns["RESULTS"] if "RESULTS" in order else None
        self._results = _ResultLists(results).match if results is not None else None

    def scan(self, text: str, at: int, acceptable: Container[str]) -> Scanned:
        """Return the next terminal; `acceptable` are the terminals the parser could take."""
        while True:
            at = self._skip(text, at).end()
            if at >= len(text):
                return END, None, at, at
            found = None
            if text[at] == "%" and self._results is not None:
                found = self._results(text, at)
            found = found or self._match(text, at)
            if found is None:
                kind = PUNCTUATION.get(text[at], UNKNOWN)
                return kind, Tok(kind, text[at], at), at, at + 1
            kind = found.lastgroup or UNKNOWN
            after = found.end()
            if kind in self._bracketed:
                after = _closed(text, at, after)
                if after < 0:
                    return "LESSTHAN", None, at, at + 1
            token = Tok(kind, text[at:after], at)
            if kind == "COMMENT" or kind == "HASHCOMMENT":
                self.comments.append(token)
                at = after
                continue
            keyword = self._keyword(token.value)
            if keyword is not None and keyword in acceptable:
                kind = token.type = keyword
            return kind, token, at, after


def _closed(text: str, start: int, after: int) -> int:
    """Return where a terminal ends whose beginning is `text[start:after]`: after the bracket that
    follows or that it is. A bracket that nothing closes is no part of it; a terminal that is
    nothing else gives -1."""
    if after == start + 1 and text[start] == "<":
        return closing(text, start)
    if text[after : after + 1] != "<":
        return after
    return max(closing(text, after), after)


def _group_maker(patterns: dict[str, str]):
    def group(*names: str):
        return re.compile("|".join(f"(?P<{name}>{patterns[name]})" for name in names)).match

    return group
