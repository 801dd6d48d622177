"""Every row of `isa/ops/`: it loads, and names nothing that does not exist."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import ptosim
from ptosim.ground.diagnostics.catalog import catalog
from ptosim.ground.isa.cache import isa_directory
from ptosim.ground.isa.dates import switches
from ptosim.ground.isa.rows import TARGETS, isa, known_traits
from ptosim.ground.isa.schema import OpDef, PipeChoice, Status, compile_expr, dtypes, enums
from ptosim.language.verify.rule_views import CALLS

FILES = sorted((isa_directory() / "ops").glob("*.toml"))
PIPES = {name.removeprefix("PIPE_") for name in enums()["pipe"].members}
ATTRIBUTE_TYPES = {"int", "bool", "float", "str", "symbol", "any"}
RESULT_TYPES = re.compile(r"last|first|pair|extended|truth|(like|window|part|element):\w+")


def rows() -> Iterator[OpDef]:
    for name in isa().names():
        row = isa().get(name)
        assert row is not None
        yield row


def _operands(row: OpDef) -> set[str]:
    return {o.name for variant in row.variants for o in variant.operands}


def _expressions(row: OpDef) -> list[str]:
    found: list[str | None] = [c.when for c in (*row.pipes, *row.hazard_pipes)]
    for need in row.scratch:
        found += [need.when, need.needed, need.bytes]
    for variant in row.variants:
        found.append(variant.when)
        found += [e.when for e in variant.elements]
        for rule in variant.rules:
            found += [rule.expr, rule.when]
    return [text for text in found if text is not None]


def test_every_row_says_what_it_is() -> None:
    for row in rows():
        assert row.summary.endswith("."), row.name
        assert row.source, row.name
        assert set(row.status) == set(TARGETS), row.name


FACTS = {
    "spelled",
    "in_order",
    "level",
    "level_inferred",
    "target_named",
    "backend",
    "micro_backend",
    "tile_operations",
}


def test_expressions_use_only_names_of_their_row() -> None:
    faults = [
        (row.name, text)
        for row in rows()
        for text in _expressions(row)
        if not compile_expr(text)[1]
        <= _operands(row)
        | set(row.attrs)
        | set(CALLS)
        | {"target", "form", "snippet", "is_page", "results"}
        | FACTS
    ]
    assert faults == []


def test_element_rules_name_types_and_operands() -> None:
    known = set(dtypes()) | {d.family for d in dtypes().values()} | {"b8", "b16", "b32"}
    for row in rows():
        for rule in (rule for variant in row.variants for rule in variant.elements):
            assert set(rule.operands) <= _operands(row), row.name
            named = {n.rstrip("!") for lists in rule.allowed.values() for e in lists for n in e}
            assert named, row.name
            assert named <= known, row.name


def test_rules_have_a_code_and_a_message() -> None:
    for row in rows():
        for rule in (rule for variant in row.variants for rule in variant.rules):
            assert rule.code is None or rule.code in catalog(), row.name
            assert set(rule.targets) <= set(TARGETS), row.name
            assert rule.text or compile_expr(rule.expr)[1] & set(CALLS), (row.name, rule.expr)


def test_attributes_switches_words_and_results_exist() -> None:
    for row in rows():
        for attr in row.attrs.values():
            enum = enums().get(attr.type)
            assert attr.type in ATTRIBUTE_TYPES or enum is not None, (row.name, attr)
            assert enum is None or attr.default is None or attr.default in enum.members, row.name
        assert set(row.switches) <= set(switches()), row.name
        for operand in (o for variant in row.variants for o in variant.operands):
            assert set(operand.enums) <= set(enums()), row.name
        if row.result_type is not None and not RESULT_TYPES.fullmatch(row.result_type):
            assert row.result_type in dtypes(), row.name


def test_pipes_exist_and_one_always_holds() -> None:
    for row in rows():
        for choices in (row.pipes, row.hazard_pipes):
            assert choices[-1].when is None, row.name
            assert all(_is_pipe(choice, row) for choice in choices), row.name


def _is_pipe(choice: PipeChoice, row: OpDef) -> bool:
    if choice.pipe.startswith("@"):
        return all(any(o.name == choice.pipe[1:] for o in v.ins) for v in row.variants)
    return choice.pipe in PIPES


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_templates_are_used_and_files_are_short(file) -> None:
    text = file.read_text(encoding="utf-8")
    table = tomllib.loads(text)
    used = {
        parent
        for row in (*table.get("op", ()), *table.get("template", {}).values())
        for parent in row.get("like", "").split()
    }
    assert set(table.get("template", {})) == used
    assert not any("basis" in template for template in table.get("template", {}).values())
    assert table["schema"] == 1
    assert text.count("\n") < 600


def test_dotted_names_belong_to_the_pto_dialect() -> None:
    assert isa().get("pto.tmov.fp") is not None
    assert isa().get("pto.sync.set") is not None
    assert isa().get("pto.nothing") is None


def test_an_absent_operation_has_the_assemblers_words() -> None:
    row = isa("2026-04").get("pto.mgather")
    assert row is not None
    assert row.status["a2a3"] is Status.ABSENT
    assert row.absent == "pto.mgather is only supported on A5 targets"
    assert row.hazard_pipes != row.pipes


def test_every_trait_is_used_and_says_what_it_means() -> None:
    used = set().union(*(row.traits for row in rows()))
    assert used == set(known_traits())
    assert all(known_traits().values())


def test_every_trait_is_asked_for() -> None:
    texts = [p.read_text(encoding="utf-8") for p in Path(ptosim.__file__).parent.rglob("*.py")]
    rules = re.findall(r"\w+", (isa_directory() / "structure.toml").read_text(encoding="utf-8"))
    asked = {t for t in known_traits() if any(f'"{t}"' in text for text in texts)} | set(rules)
    assert sorted(known_traits().keys() - asked) == []
