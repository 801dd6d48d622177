"""Key words of the assembler that a rule quotes are shown by one of the programs or tests it names, and
each operation of `rules/rows.toml` by a program that is accepted and one that is refused."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest

from ptosim.ground.isa.dates import DEFAULT_DATE
from ptosim.ground.isa.rows import isa
from tests.ops.tile.test_rules import RULES
from tests.support.paths import TESTS

QUOTED = re.compile(r'"([^"]+)"')
EXPECTED = re.compile(r"expected-\w+(?:@\S+)? *\{\{(.*?)\}\}")
LATER = {
    "storage", "views", "fixpipe", "tmp", "mx", "operations", "gather", "ground", "arguments",
}  # fmt: skip
"""Files of rules whose words are compared with their programs once each has a line of its own."""


@lru_cache(maxsize=128)
def shown(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return "\n".join(EXPECTED.findall(text)) if path.suffix == ".pto" else text


QUOTES = [
    (name, words)
    for name, (_, statement, _) in RULES.items()
    if name.partition(".")[0] not in LATER
    for words in QUOTED.findall(statement)
]


def test_rules_quote():
    assert len(QUOTES) > 100


def test_words_are_shown():
    for name, words in QUOTES:
        files = {TESTS / place.partition("::")[0] for place in RULES[name][2].split()}
        parts = [p.strip() for p in re.split(r"<[^>]*>|…", words) if p.strip()]
        assert any(all(p in shown(file) for p in parts) for file in files), (name, words)


FAMILIES = ("comm", "pipes", "sync")
ROWS = [
    row
    for name in isa(DEFAULT_DATE).names()
    if (row := isa(DEFAULT_DATE).get(name)) is not None and row.family in FAMILIES
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_operation_is_accepted_and_refused(row):
    """One without rules and mandatory words needs no program that is refused."""
    name = row.name.removeprefix("pto.")
    accepted, *refused = (TESTS / p for p in RULES[f"rows.{row.family}.{name}"][2].split())
    word = re.compile(rf"{re.escape(row.name)}(?![\w.])")
    assert accepted.parent.name in ("accept", "micro")
    assert word.search(accepted.read_text(encoding="utf-8"))
    assert refused or not any(v.rules for v in row.variants) or name in WITHOUT
    assert all(word.search(line) for file in refused for line in _refused_lines(file, word))


WITHOUT = {
    "set_flag_dyn", "wait_flag_dyn", "wait_event", "barrier_sync", "tsync",
    "declare_eventid_array", "eventid_array_get", "eventid_array_set", "get_prefetch_async_session",
    "declare_global",
}  # fmt: skip
"""What April had already: its refusals are shown by programs of that date."""


def _refused_lines(file: Path, word: re.Pattern[str]) -> list[str]:
    """The lines with an expected error that have the word; at least one."""
    lines = file.read_text(encoding="utf-8").split("\n")
    found = [
        lines[at + int(shift or 0)]
        for at, line in enumerate(lines)
        for shift in re.findall(r"expected-error(?:@([+-]\d+))?", line)
        if 0 <= at + int(shift or 0) < len(lines)
    ]
    named = [line for line in found if word.search(line)]
    assert named, file
    return named
