"""Every instruction of the micro level that is executed has a case of its own in this folder, and every
rule of `rules.toml` a test."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import lru_cache
from pathlib import Path

import pytest

from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import Status

# Other spellings of what `test_scope` runs as sync.set and sync.wait; rules of A2/A3 in tests/semantics.
SAME_AS_SYNC = {
    "pto.set_intra_block", "pto.wait_intra_block", "pto.wait_intra_core", "pto.set_cross_core",
    "pto.wait_flag_dev",
}  # fmt: skip
EXECUTED = (Status.EXACT, Status.APPROXIMATE)


def texts() -> str:
    return "\n".join(p.read_text(encoding="utf-8") for p in Path(__file__).parent.glob("*.py"))


def micro_rows() -> list[str]:
    """Rows of the files of the micro level, for A5."""
    folder = Path(__file__).parents[2] / "isa" / "ops"
    named = re.compile(r'^name\s*=\s*"(\w+)"', re.MULTILINE)
    return [
        f"pto.{name}"
        for path in sorted(folder.glob("micro_*.toml"))
        for name in named.findall(path.read_text(encoding="utf-8"))
    ]


def spellings(name: str) -> set[str]:
    """What names an instruction: it, its stem (`shl` of vshl and vshls, `pintlv` of pintlv_b8), or
    the words that its letters are in."""
    stem = name.removeprefix("pto.")
    short = re.sub(r"_b\d+$", "", stem)
    found = {stem, short, re.sub(r"^v", "", short), re.sub(r"^v(\w+?)s$", r"\1", short)}
    found |= {
        re.sub("(outtoub|ubtoout)$", "{0}", stem),
        re.sub("(outtoub|ubtoout)$", "{{0}}", stem),
    }
    return found | {f'"{w}"' for w in ("s", "i", "") if stem in (f"pst{w}", f"pld{w}")}


def test_every_instruction_has_a_case():
    text = texts()
    words = set(re.findall(r"\w+", text))

    def is_named(name: str) -> bool:
        return any(w in words or (not w.isidentifier() and w in text) for w in spellings(name))

    rows = [isa().get(name) for name in micro_rows() if name not in SAME_AS_SYNC]
    executed = [row.name for row in rows if row is not None and row.status["a5"] in EXECUTED]
    assert len(executed) > 150
    assert [name for name in executed if not is_named(name)] == []


# -- rules -----------------------------------------------------------------------------------------

FOLDER = Path(__file__).parent
MARKS = {"golden", "executed", "documentation", "ours"}
RULES = {
    f"{group}.{name}": rule
    for group, rules in tomllib.loads((FOLDER / "rules.toml").read_text("utf-8")).items()
    for name, rule in rules.items()
}
NOT_RULES = {"test_rules.py", "test_bad_input.py"}
"""Files whose tests are about this list or about several rules at once."""


@lru_cache(maxsize=64)
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = (n.name for n in tree.body if isinstance(n, ast.FunctionDef))
    return frozenset(n for n in names if n.startswith("test_"))


@pytest.mark.parametrize("name", RULES)
def test_every_rule_has_tests(name):
    """They exist where pytest collects them; a `.pto` file is collected as such."""
    mark, text, places = RULES[name]
    assert mark in MARKS
    assert text.endswith(".")
    assert places.split()
    for place in places.split():
        file, _, function = place.partition("::")
        path = FOLDER.parent / file
        assert path.is_file(), place
        assert path.suffix == ".pto" or function in functions_of(path), place


def test_every_case_belongs_to_a_rule():
    named = {place for _, _, places in RULES.values() for place in places.split()}
    cases = {
        f"micro/{path.name}::{test}"
        for path in FOLDER.glob("test_*.py")
        if path.name not in NOT_RULES
        for test in functions_of(path)
    }
    assert cases - named == set()
    assert {f"filecheck/micro/{p.name}" for p in (FOLDER.parent / "filecheck" / "micro").glob("reject_*.pto")} <= named  # fmt: skip
