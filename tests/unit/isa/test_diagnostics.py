"""Every code of the tree has its text, and every text a code that is used."""

from __future__ import annotations

import re
from pathlib import Path

import ptosim
from ptosim.ground.diagnostics.catalog import catalog
from ptosim.ground.isa.paths import isa_directory
from ptosim.ground.isa.rows import isa

# Attributes, and an operation that the language does not have, which is what its example shows.
OTHER_WORDS = {"entry", "target_arch", "device", "tadddd"}
_OPERATION = re.compile(r"(?<![!#])\bpto\.(\w+(?:\.\w+)*)")
_CODE = re.compile(r"\bPTO\d{4}\b")


def _used() -> set[str]:
    code = Path(ptosim.__file__).parent.rglob("*.py")
    rows = (isa_directory() / "ops").glob("*.toml")
    return {c for path in (*code, *rows) for c in _CODE.findall(path.read_text(encoding="utf-8"))}


def test_codes_and_texts_are_the_same_set() -> None:
    assert sorted(set(catalog()) ^ _used()) == []


def test_every_text_is_complete() -> None:
    for code, entry in catalog().items():
        assert entry.severity in ("error", "warning", "note"), code
        assert entry.title, code
        assert not entry.title.endswith("."), code
        assert entry.explanation.rstrip().endswith("."), code
        assert entry.cure.rstrip().endswith((".", "`")), code
        assert entry.example, code


def test_examples_name_operations_that_there_are() -> None:
    known = {name.removeprefix("pto.") for name in isa().names()} | OTHER_WORDS
    for code, entry in catalog().items():
        assert not set(_OPERATION.findall(entry.example or "")) - known, code
