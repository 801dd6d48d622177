"""Every word that the data or the commands know is used by a test."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from ptosim.debug.commands.table import COMMANDS as VERBS
from ptosim.debug.commands.table import load
from ptosim.ground.isa.rows import isa, known_traits
from ptosim.ground.isa.schema import enums
from ptosim.shell.main import COMMANDS
from tests.support.paths import TESTS

TREE = TESTS.parent
NUMBERED = {
    "pre_quant": "tests.ops.micro.test_fixpipe:test_a_mode_gives_the_type_of_its_name",
    "pipe": "tests.unit.test_every_word:test_members_are_found_in_any_case",
    "func_core_type": "tests.unit.test_every_word:test_members_are_found_in_any_case",
    "module_core_type": "tests.unit.test_every_word:test_members_are_found_in_any_case",
}
"""Enums whose members a test uses without writing each of them."""


def strings(path: Path) -> list[str]:
    """The string constants of a test, without what documents it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return [n.value for n in nodes]


@cache
def written() -> frozenset[str]:
    """All words of programs and of texts in tests, in lower case."""
    texts: list[str] = []
    for path in TESTS.rglob("*.py"):
        if path != Path(__file__):
            texts += strings(path)
    for folder, kinds in ((TESTS, (".pto", ".toml")), (TREE / "programs", (".pto",))):
        texts += [p.read_text(encoding="utf-8") for p in folder.rglob("*") if p.suffix in kinds]
    return frozenset(re.findall(r"[\w-]+", "\n".join(texts).lower()))


@pytest.mark.sampled(0, 48)
@pytest.mark.parametrize("name", enums())
def test_every_member_of_an_enum_is_used(name):
    missing = [m for m in enums()[name].members if m.lower() not in written()]
    if name in NUMBERED:
        module, function = NUMBERED[name].split(":")
        assert callable(getattr(importlib.import_module(module), function))
        assert missing or name.endswith("core_type")
    else:
        assert not missing


@pytest.mark.parametrize("name", enums())
def test_members_are_found_in_any_case(name):
    enum = enums()[name]
    for member in enum.members:
        assert enum.member(member) == member
        assert (enum.member(member.lower()) or "").lower() == member.lower()
    assert enum.member("no such member") is None


@pytest.mark.slow  # reads every test
def test_every_command_is_called():
    assert not set(COMMANDS) - written()


def test_every_verb_of_the_debugger_is_typed():
    """In a session of a script or of a test."""
    load()
    lines = [
        line for path in (TESTS / "debug").rglob("*.dbg") for line in path.read_text().splitlines()
    ]
    for path in (TESTS / "debug").rglob("*.py"):
        lines += [line for text in strings(path) for line in text.splitlines()]
    typed = {line.split()[0] for line in lines if line.split()}
    aliases = {verb.name: {verb.name, *verb.aliases} for verb in VERBS.values()}
    assert [name for name, words in aliases.items() if not words & typed] == []


@pytest.mark.slow  # reads every test
def test_every_trait_is_of_an_operation_that_a_test_uses():
    for trait in known_traits():
        rows = [isa().get(name) for name in isa().names()]
        words = {row.name.lower().replace("pto.", "") for row in rows if trait in row.traits}
        assert any(set(re.findall(r"[\w-]+", word)) <= written() for word in words), trait
