"""The rows of `isa/structure.toml`: every name in them is known, every check is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from ptosim.ground.diagnostics.catalog import catalog
from ptosim.ground.errors import IsaDataError
from ptosim.ground.isa.cache import read_toml
from ptosim.ground.isa.dates import DATES
from ptosim.ground.isa.rows import known_traits
from ptosim.ground.isa.schema import compile_expr
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.language.verify.structure import WALKS, checks, in_checks
from ptosim.language.verify.verbs import Verbs

CHECKS = read_toml("structure.toml")["check"]
THINGS = {
    "ops": {"op": "op", "region": "op region last", "block": "op region block last"},
    "functions": {
        "function": "fn op",
        "argument": "fn op value type number",
        "result": "fn op type number",
        "op": "fn op",
        "inner": "fn op",
        "after": "fn op",
    },
    "units": {"unit": "unit"},
    "values": {"value": "value"},
    "keys": {"key": "key"},
    "fifos": {"fifo": "fn op side"},
    "ends": {
        "end": "fn op end",
        "buffer": "fn op end operand",
        "use": "fn op end use",
        "ended": "fn op end",
        "pop": "fn op end use",
        "closed": "fn op end",
    },
    "strays": {"stray": "fn op use"},
}
"""The kinds of things of each walk, with the names that rules have for them."""
_EXPRESSION = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")


def _verbs(*checks: dict[str, Any]) -> set[str]:
    """The verbs of every check, and those of the modules that some name."""
    front = run_frontend(Source("x.pto", "func.func @f() { return }"), FrontOptions())
    modules = {word for check in checks for word in check.get("verbs", "").split()}
    return set(Verbs(front.resolved, 2).names()).union(*(in_checks(m).VERBS for m in modules))


def _expressions(row: dict[str, Any]) -> Iterator[str]:
    """Every expression of a rule, those in its texts among them."""
    more = row.get("more", ())
    yield from (row[key] for key in ("where", "when", "must", "unique", "over", "at") if key in row)
    yield from (place for place, _ in more)
    texts = [row["text"], row.get("help", ""), row.get("label", ""), *row.get("notes", ())]
    for text in (*texts, *(words for _, words in more)):
        yield from filter(None, _EXPRESSION.findall(text))


def _used(text: str, let: dict[str, str]) -> set[str]:
    """The names of an expression, and of what it takes from `let`."""
    names, waiting = set[str](), [text]
    while waiting:
        new = compile_expr(waiting.pop())[1] - names
        names |= new
        waiting += [let[name] for name in new if name in let]
    return names - let.keys()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check["name"])
def test_every_name_is_known(check: dict[str, Any]) -> None:
    let, verbs = check.get("let", {}), _verbs(check)
    assert not let.keys() & verbs, "a name of the check hides a verb"
    for rule in check.get("rule", ()):
        row = {**check, **rule}
        own = {"it"} if "over" in row or "more" in row else set()
        own |= {"first"} if "unique" in row else set()
        own |= set(THINGS[check["each"]][row["of"]].split())
        for text in _expressions(row):
            assert _used(text, let) <= verbs | own, text
        assert set(row.get("traits", "").split()) <= set(known_traits()), row["traits"]
        assert row["code"] in catalog(), row["code"]


def test_every_verb_and_name_is_used() -> None:
    used = set[str]()
    for check in CHECKS:
        let = check.get("let", {})
        found = [x for rule in check.get("rule", ()) for x in _expressions({**check, **rule})]
        names = {name for text in found for name in compile_expr(text)[1]}
        for _ in let:
            names |= {n for name in names & let.keys() for n in compile_expr(let[name])[1]}
        assert let.keys() <= names, check["name"]
        outer = [check[key] for key in ("program", "where") if key in check]
        used |= names | {name for text in outer for name in compile_expr(text)[1]}
    assert sorted(_verbs(*CHECKS) - used - {"__builtins__"}) == []


def test_checks_are_rows_or_in_code() -> None:
    """What no verb says has its reason in the data and its function in the code."""
    for check in CHECKS:
        assert ("rule" in check) != ("function" in check), check["name"]
        assert ("in_code" in check) == ("function" in check), check["name"]
        module, _, name = check.get("function", "").partition(".")
        assert not module or callable(getattr(in_checks(module), name)), check["name"]
    assert len({check["name"] for check in CHECKS}) == len(CHECKS)
    assert {check["each"] for check in CHECKS if "each" in check} == WALKS.keys() == THINGS.keys()


@pytest.mark.parametrize("date", DATES)
def test_checks_of_a_date(date: str) -> None:
    assert all(rule.text and rule.code for check in checks(date) for rule in check.rules)


def test_expressions_are_closed() -> None:
    with pytest.raises(IsaDataError, match="only named predicates can be called"):
        compile_expr("op.span(source)")
