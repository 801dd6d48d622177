"""A TextMate grammar applied to a text by Python's engine: as much of it as our grammar needs
(match, begin and end, include). Where two rules match at one place the first one has it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

_compiled = cache(re.compile)


def scopes(grammar: dict[str, Any], text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, scope and words of each token that has a scope."""
    open_rules: list[dict[str, Any]] = [grammar]
    for number, line in enumerate(text.split("\n"), 1):
        place = 0
        while (found := _next(grammar, open_rules[-1], line, place)) is not None:
            rule, match = found
            if rule is None:
                open_rules.pop()
            elif "begin" in rule:
                open_rules.append(rule)
            if rule is not None and match[0]:
                yield number, _scope(rule), match[0]
            if match.end() == place and rule is not None and "begin" not in rule:
                break
            place = match.end()


def _scope(rule: dict[str, Any]) -> str:
    return rule.get("name") or next(iter(rule.get("captures", {}).values()), {}).get("name", "")


def _next(
    grammar: dict[str, Any], inside: dict[str, Any], line: str, place: int
) -> tuple[dict[str, Any] | None, re.Match[str]] | None:
    """Return what matches first from a place on, and its rule; None for the end of the open one."""
    rules = [(None, inside["end"])] if "end" in inside else []
    rules += [(r, r.get("match") or r["begin"]) for r in _rules(grammar, inside["patterns"])]
    found = ((rule, _compiled(pattern).search(line, place)) for rule, pattern in rules)
    matches = [(rule, match) for rule, match in found if match is not None]
    return min(matches, key=lambda one: one[1].start(), default=None)


def _rules(grammar: dict[str, Any], patterns: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for one in patterns:
        name = one.get("include", "")
        if name == "$self":
            yield from _rules(grammar, grammar["patterns"])
        elif name:
            yield grammar["repository"][name[1:]]
        else:
            yield one
