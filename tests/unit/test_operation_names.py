"""Operations are told apart by what their rows say: no module spells the name of one to classify it.

`ops/` has the functions of operations, by name, and what they become; `models/` writes programs.
What else has a name in it is listed here, and says why."""

from __future__ import annotations

import re
from pathlib import Path

from ptosim.ground.isa.rows import isa
from tests.support.modules import Module, modules

FREE = {"ops", "models"}
SYNTAX = "operations with a syntax of their own are parsed, bound and printed each in its own way"
HANDLERS = "one handler for each operation that has regions or is followed by the scalar unit"
EXCEPTIONS = {
    "language/syntax/builder.py": SYNTAX,
    "language/syntax/parser.py": SYNTAX,
    "language/syntax/printer.py": SYNTAX,
    "language/syntax/quoted.py": SYNTAX,
    "language/bind/structured.py": SYNTAX,
    "language/build.py": "makes loops, branches, regions and constants, each in its own way",
    "language/bind/resolve.py": SYNTAX,
    "language/bind/units.py": SYNTAX,
    "language/rewrite/forms.py": "writes an allocation for a result",
    "engine/core/control_flow.py": HANDLERS,
    "engine/core/decode.py": HANDLERS,
    "engine/simt/code.py": HANDLERS,
    "engine/simt/launch.py": HANDLERS,
    "language/rewrite/strip_quant.py": "reads a program that is parsed only: nothing has its row yet",
    "language/verify/checks/functions.py": SYNTAX,
    "language/verify/checks/fifo_pairs.py": "a message says what the assembler makes of an operation",
    "language/same_blocks.py": "follows numbers of the scalar unit: what adds, multiplies and compares",
    "machine/quant/mlir/ops.py": "the functions of the quant dialect, by name",
    "tools/search/prove_ops.py": "rules of the proof of equality, by name, as functions of operations are",
    "tools/search/source.py": "reads a program that is parsed only: nothing has its row yet",
    "tools/search/rewrite_buffers.py": "second buffers are for what loads and stores move",
    "tools/search/rewrite.py": "pieces are cut from windows that are loaded and stored",
}
NAMES = isa().names()
DIALECTS = {name.partition(".")[0] for name in NAMES}
WRITTEN = re.compile(rf"\b(?:{'|'.join(sorted(DIALECTS))})\.\w")
"""What a module with a name among its strings has somewhere in its text."""


def names_in(module: Module) -> list[str]:
    """The names of operations, and what names begin with, among the strings of a module; texts of
    documentation and of messages are none."""
    return [f"{line}: {text}" for line, text in module.texts if is_name(text)]


def is_name(text: str) -> bool:
    """True for `pto.tadd`, and for `pto.tad`; a dialect alone is no name."""
    dialect, _, rest = text.partition(".")
    return bool(rest) and dialect in DIALECTS and any(name.startswith(text) for name in NAMES)


def test_no_name_is_spelt() -> None:
    """What one needs is a trait of the row (isa/traits.toml)."""
    looked = [
        m for m in modules() if m.name.partition("/")[0] not in FREE and WRITTEN.search(m.text)
    ]
    spelt = {m.name: found for m in looked if (found := names_in(m))}
    assert {name: found for name, found in spelt.items() if name not in EXCEPTIONS} == {}
    assert EXCEPTIONS.keys() - spelt.keys() == set(), "exceptions that are needed no longer"


def test_names_are_found(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text('"""pto.tadd"""\nX = op.name in ("pto.tadd", "pto.vld") or f"pto.tsub {y}"\n')
    assert names_in(Module(module)) == ["1: pto.tadd", "2: pto.tadd", "2: pto.vld"]
