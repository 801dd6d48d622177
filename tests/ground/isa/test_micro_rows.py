"""The rows of the micro level: what they all have, and that the programs of `tests/filecheck/micro`
use every one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import ptosim
from ptosim.ground.diagnostics.catalog import catalog
from ptosim.ground.isa.cache import isa_directory
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OpDef, OperandDef, Status, enums
from tests.support.paths import TESTS

PROGRAMS = TESTS / "filecheck" / "micro"
SHARED_CODES = {"PTO2004", "PTO2006", "PTO2013", "PTO2014", "PTO2015"}  # of the verifier
BASES = ("data", "rule", "documentation")


def micro_rows() -> list[OpDef]:
    rows = [isa().get(name) for name in isa().names()]
    return [row for row in rows if row is not None and row.family.startswith("micro_")]


def _accepted() -> str:
    return "\n".join(p.read_text(encoding="utf-8") for p in sorted(PROGRAMS.glob("accept_*.pto")))


def _all_operands(row: OpDef) -> Iterator[OperandDef]:
    for variant in row.variants:
        for operand in variant.operands:
            yield operand
            yield from operand.params


def test_rows_say_what_confirms_them() -> None:
    for row in micro_rows():
        executed = row.name not in ("pto.vsort32", "pto.vtranspose")  # nobody says what they do
        assert (Status.PARSE_ONLY not in row.status.values()) is executed, row.name
        assert row.basis in BASES, row.name
        assert row.form in ("items", "core"), row.name


def test_words_of_clauses_exist() -> None:
    for row in micro_rows():
        for operand in _all_operands(row):
            assert set(operand.enums) <= set(enums()), (row.name, operand.name)


def test_programs_use_every_row() -> None:
    used = set(re.findall(r"(?:pto|llvm)\.[a-z_][\w.]*", _accepted()))
    nowhere = {r.name for r in micro_rows() if set(r.status.values()) == {Status.ABSENT}}
    assert {row.name for row in micro_rows()} - used == nowhere


def test_programs_use_every_word() -> None:
    text = _accepted()
    names = {e for row in micro_rows() for o in _all_operands(row) for e in o.enums}
    names |= {a.type for row in micro_rows() for a in row.attrs.values() if a.type in enums()}
    unused = {
        name: sorted(m for m in enums()[name].members if not re.search(rf"\b{m}\b", text))
        for name in names - {"pipe", "pre_quant"}
    }
    unused["pre_relu"].remove("pwl")  # a word that every operation refuses
    assert {name: members for name, members in unused.items() if members} == {}


def test_programs_use_every_clause() -> None:
    text = _accepted()
    missing = {
        (row.name, named.name)
        for row in micro_rows()
        for variant in row.variants
        for named in variant.named
        if named.name != "launch"  # which is written <<<x, y, z>>>
        and not re.search(
            rf"\b{re.escape(row.name)}\s[^\n]*(\n[^\n]*){{0,3}}\b{named.name}\b", text
        )
    }
    # One clause of each kind of fixpipe destination and of each kind of product is enough.
    shared = {
        "mte_l0c_l1",
        "mte_l0c_ub",
        "mad_acc",
        "mad_bias",
        "mad_mx",
        "mad_mx_acc",
        "mad_mx_bias",
    }
    assert {m for m in missing if m[0].removeprefix("pto.") not in shared} == set()


def test_findings_of_the_micro_level_are_explained() -> None:
    texts = [
        path.read_text(encoding="utf-8")
        for name in ("bind/clauses", "verify/operands")
        for path in [Path(ptosim.__file__).parent / "language" / f"{name}.py"]
    ]
    rows = [*(isa_directory() / "ops").glob("micro_*.toml"), isa_directory() / "structure.toml"]
    texts += [p.read_text(encoding="utf-8") for p in rows]
    codes = set(re.findall(r"PTO\d{4}", "".join(texts))) - SHARED_CODES
    assert codes <= set(catalog())
    for code in codes:
        entry = catalog()[code]
        assert entry.explanation, code
        assert entry.cure, code
