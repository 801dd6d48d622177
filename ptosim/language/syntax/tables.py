"""LALR(1) tables: Lark reads a grammar of `isa/` and computes them, this module keeps them as data.

Lark's own driver hashes a rule object at every reduction and builds a node for every helper rule;
driving its tables directly parses more than twice as fast. Tables are plain tuples, dicts and
strings, so that they can be cached with `marshal`, which unlike pickle runs no code when read.
"""

from __future__ import annotations

from typing import Any

from ptosim.ground.records import dataclass


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
