"""Every statement of the documents on quantisation has a test, and the manual says which.

`python -m tests.machine.quant.test_statements` writes the manual's page."""

from __future__ import annotations

import ast
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.support.paths import TESTS, TREE

FOLDER = Path(__file__).parent
PAGE = TREE / "ptosim" / "manual" / "statements.md"
DOCUMENTS: dict[str, dict[str, Any]] = tomllib.loads(
    (FOLDER / "statements.toml").read_text("utf-8")
)
KINDS = {
    "operation", "attribute", "type", "constraint", "form", "example", "formula", "context",
}  # fmt: skip
ROWS = {f"{name}.{key}": row for name, doc in DOCUMENTS.items() for key, row in doc["rows"].items()}
MOST_PARTLY = 5


@lru_cache(maxsize=128)
def names_of(path: Path) -> frozenset[str]:
    """Tests and classes of tests in a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = (n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)))
    return frozenset(n for n in defined if n.lower().startswith("test"))


def test_every_statement_has_tests():
    """They exist where pytest collects them; a `.pto` file is collected as such."""
    for name, (kind, text, places, *reason) in ROWS.items():
        assert kind in KINDS, name
        assert text, name
        assert places.split() or kind == "context" or reason, name
        assert all(r.endswith(".") for r in reason), name
        for place in places.split():
            file, _, function = place.partition("::")
            path = TESTS / file
            assert path.is_file(), (name, place)
            assert path.suffix == ".pto" or function in names_of(path), (name, place)


def test_hardly_anything_is_there_in_part_only():
    assert sum(len(row) > 3 for row in ROWS.values()) <= MOST_PARTLY


def page() -> str:
    """The page of the manual."""
    lines = [
        "# What the documents on quantisation say",
        "",
        "Each statement of five public documents, in our words, and the test below `tests/` that shows",
        "it. Rows of kind *context* say something about other programs. The page is generated from",
        "`tests/machine/quant/statements.toml`.",
        "",
    ]
    for document in DOCUMENTS.values():
        lines += [f"## {document['title']}", "", "| kind | statement | shown by |", "|---|---|---|"]
        lines += [_line(*row) for row in document["rows"].values()]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _line(kind: str, text: str, places: str, reason: str = "") -> str:
    shown = ", ".join(f"`{_short(p)}`" for p in places.split()) or "-"
    whole = f"{text} *Partly:* {reason}" if reason else text
    return f"| {kind} | {whole.replace('|', '/')} | {shown} |"


def _short(place: str) -> str:
    file, _, function = place.partition("::")
    return function or file


def test_the_manual_has_the_page():
    assert PAGE.read_text("utf-8") == page(), "run `python -m tests.machine.quant.test_statements`"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
