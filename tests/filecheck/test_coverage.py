"""Accepted programs and those of the tests of semantics use everything that tile-level rows have;
rejected ones break every rule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.isa.dates import DATES
from ptosim.ground.isa.rows import TARGETS, isa
from ptosim.ground.isa.schema import OpDef, Status, enums
from ptosim.ground.source import Source
from ptosim.language.frontend import Front, FrontOptions, run_frontend
from ptosim.language.verify import verify
from ptosim.language.verify.operands import enum_member, is_word
from ptosim.language.verify.rule_views import attribute
from tests.engine.sanitize.test_races import ORDERED
from tests.filecheck.conftest import sections
from tests.ops.semantics.operands import BUILDERS, Situation, case, preferred
from tests.ops.semantics.rows import executed
from tests.ops.semantics.test_sync import program

FOLDER = Path(__file__).parent
MICRO = ("micro_", "vmi_")
OTHERS = ("core", "scalar")


class Uses:
    """What the accepted programs use, for each target."""

    def __init__(self) -> None:
        self.variants: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self.attributes: set[tuple[str, str]] = set()
        self.members: set[tuple[str, str]] = set()

    def add(self, op: Operation, target: str) -> None:
        """Take in one operation."""
        row = op.definition
        if row is None or op.variant is None:
            return
        self.variants[target].add((op.name, op.variant.name))
        for name, definition in row.attrs.items():
            if name in op.attrs:
                self.attributes.add((op.name, name))
                self.members.add((definition.type, str(attribute(op, definition))))
        for definition in op.variant.operands:
            operand = op.bound.get(definition.name)
            if isinstance(operand, Operand) and definition.enums and is_word(operand):
                word = enum_member(operand, definition)
                self.members |= {(e, word) for e in definition.enums if word is not None}


@lru_cache(maxsize=1)
def uses() -> Uses:
    found = Uses()
    for front in (*_fronts("accept"), *_fronts_of_cases()):
        for op in front.module.walk():
            found.add(op, front.target)
    return found


def _fronts(folder: str) -> Iterator[Front]:
    for path in sorted((FOLDER / folder).glob("*.pto")):
        for text, options in sections(path.read_text(encoding="utf-8")):
            level = int(options["level"]) if "level" in options else None
            for target in options["target"].split() or [None]:
                legacy = options.get("legacy") == "true"
                choice = FrontOptions(
                    target, level, options.get("sync"), options["compat"], legacy=legacy
                )
                yield run_frontend(Source(path.name, text), choice)


def _fronts_of_cases() -> Iterator[Front]:
    """Programs in which tests execute operations: their semantics, and what they order."""
    for name, text in ORDERED.items():
        for target in TARGETS:
            yield run_frontend(Source(name, program(text, target)), FrontOptions(target))
    for op in BUILDERS:
        for target in TARGETS:
            if executed(op, target):
                made = case(Situation(op, target, preferred(op, target)[0]))
                text = made.kernel().text()
                yield run_frontend(Source(f"{op}.pto", text), FrontOptions(target))


def tile_rows() -> Iterator[OpDef]:
    for date, name in ((d, name) for d in DATES for name in isa(d).names()):
        row = isa(date).get(name)
        assert row is not None
        if not row.family.startswith(MICRO) and row.family not in OTHERS:
            yield row


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_operand_list_of_every_row_is_used(target: str) -> None:
    wanted = {
        (row.name, variant.name)
        for row in tile_rows()
        for variant in row.variants
        if row.status[target] is not Status.ABSENT
    }
    assert sorted(wanted - uses().variants[target] - NOT_ON[target]) == []


# Operand lists that a rule refuses on a target, or everywhere.
NOT_ON = {
    "a2a3": {
        ("pto.tmov", "exponents"),
        ("pto.tmov", "fp_quant"),
        ("pto.tmov", "exponents_quant"),
        ("pto.tquant", "mx"),
        ("pto.tquant", "mx_page"),
        ("pto.tquant", "refused"),
        ("pto.tquant", "without_fp"),
    },
    "a5": {
        ("pto.tmov", "fp_quant"),
        ("pto.tmov", "exponents_quant"),
        ("pto.tquant", "refused"),
        ("pto.tquant", "without_fp"),
    },
}


@pytest.mark.slow
def test_every_attribute_is_used() -> None:
    wanted = {(row.name, name) for row in tile_rows() for name in row.attrs}
    assert sorted(wanted - uses().attributes - {("pto.tload", "cache_policy")}) == []


@pytest.mark.slow
def test_every_word_is_used() -> None:
    used = {enum for row in tile_rows() for enum in _enums(row)}
    wanted = {(name, member) for name in used for member in enums()[name].members}
    missing = {m for m in wanted - uses().members if not m[1].startswith(("VIRTUAL_", "PIPE_NUM"))}
    assert sorted(missing - {("pipe", "PIPE_UNASSIGNED")} - SPACES - REFUSED - SEPTEMBER) == []


SEPTEMBER = {("load_cache_policy", "default"), ("load_cache_policy", "l2_bypass")}
"""What only 2026-09 reads, which the texts here are not: S03 and S04 of tests/data/board."""


# Words that are read and then refused: modes of ReLU that tile operations do not have.
REFUSED = {
    ("pad_value", "null"),
    ("relu_pre_mode", "scalar_relu"),
    ("relu_pre_mode", "vector_relu"),
    ("relu_pre_mode", "pwl"),
}


# Memories that a reserved buffer cannot be in.
SPACES = {("address_space", m) for m in enums()["address_space"].members} - {
    ("address_space", "vec"),
    ("address_space", "mat"),
}


def _enums(row: OpDef) -> set[str]:
    found = {attr.type for attr in row.attrs.values() if attr.type in enums()}
    return found | {e for v in row.variants for o in v.operands for e in o.enums}


@pytest.mark.slow
def test_every_rule_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    broken: set[object] = set()

    violation, elements = verify._Verifier._violation, verify.wrong_elements

    def record(self, op, definition, rule, names):
        broken.add(_identity(rule))
        return violation(self, op, definition, rule, names)

    def record_elements(op, definition, rule, *rest):
        found = elements(op, definition, rule, *rest)
        broken.update([_identity(rule)] if found is not None else [])
        return found

    monkeypatch.setattr(verify._Verifier, "_violation", record)
    monkeypatch.setattr(verify, "wrong_elements", record_elements)
    for folder in ("accept", "reject"):  # accepted programs break those that only warn
        for _ in _fronts(folder):
            pass
    wanted = {
        _identity(rule): row.name
        for row in tile_rows()
        for variant in row.variants
        for rule in (*variant.rules, *variant.elements)
        if getattr(rule, "code", None)
        not in ("PTO3017", "PTO3018")  # of September: boards show them
    }
    assert {name: rule for rule, name in wanted.items() if rule not in broken} == {}


def _identity(rule: object) -> str:
    """Rules that rows take from one template are one rule."""
    return repr(rule)
