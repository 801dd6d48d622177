"""Operations are told apart by what their rows say: no module spells the name of one to classify it.

`ops/` has the functions of operations, by name, and what they become. What else has names in it is
listed here with how many, and says why. A number may only fall: who needs fewer writes the smaller
one here, and what a new module wants to know of an operation is a trait of its row."""

from __future__ import annotations

import re
from pathlib import Path

from ptosim.ground.isa.rows import isa
from tests.support.modules import Module, modules

WRITES = "writes programs"
SYNTAX = "operations with a syntax of their own are parsed, bound and printed each in its own way"
HANDLERS = "one handler for each operation that has regions or is followed by the scalar unit"
PARSED = "reads a program that is parsed only: nothing has its row yet"
MOST = {
    "models/": (208, WRITES),
    "language/cpp/": (45, "says which operation a call of the library is"),
    "ground/isa/examples.py": (1, WRITES),
    "language/strides.py": (9, "follows what adds and multiplies the index of a block"),
    "engine/watch/ordering.py": (2, "events between operations of one pipe are no flags"),
    "tools/lsp/completion.py": (2, "`return` is written without its dialect"),
    "engine/watch/vector.py": (4, "which instructions make masks, and alignment by name"),
    "debug/cause.py": (4, "ends a chain of causes where memory is loaded and stored"),
    "debug/exact.py": (16, "a reference of higher precision for each operation that has one"),
    "language/build.py": (11, WRITES),
    "language/syntax/builder.py": (2, SYNTAX),
    "language/syntax/parser.py": (1, SYNTAX),
    "language/syntax/printer.py": (38, SYNTAX),
    "language/syntax/quoted.py": (20, SYNTAX),
    "language/bind/structured.py": (23, SYNTAX),
    "language/bind/resolve.py": (2, SYNTAX),
    "language/bind/units.py": (1, SYNTAX),
    "language/rewrite/forms.py": (1, "writes an allocation for a result"),
    "engine/core/control_flow.py": (20, HANDLERS),
    "engine/core/decode.py": (5, HANDLERS),
    "engine/simt/code.py": (7, HANDLERS),
    "language/rewrite/strip_quant.py": (4, PARSED),
    "language/verify/checks/functions.py": (16, SYNTAX),
    "language/verify/checks/fifo_pairs.py": (2, "says what the assembler makes of an operation"),
    "language/same_blocks.py": (8, "follows what adds, multiplies and compares numbers"),
    "machine/quant/mlir/passes.py": (3, "what each operation of the quant dialect casts"),
    "tools/search/prove_ops.py": (11, "rules of the proof of equality, as functions of operations"),
    "tools/certificate_rules.py": (7, "rules of the checker of certificates"),
    "tools/bands_rules.py": (6, "rules of bands, as functions of operations"),
    "tools/search/source.py": (1, PARSED),
    "tools/search/rewrite_buffers.py": (6, "second buffers are for what loads and stores move"),
    "tools/search/rewrite.py": (6, "pieces are cut from windows that are loaded and stored"),
}
"""Names outside of the operations, by module or room."""
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


def counted() -> dict[str, int]:
    """How many names each module, or room of MOST, spells."""
    found: dict[str, int] = {}
    for module in modules():
        room = f"{module.name.partition('/')[0]}/"
        if room != "ops/" and WRITTEN.search(module.text) and (names := names_in(module)):
            part = "/".join(module.name.split("/")[:2]) + "/"
            key = next((k for k in (room, part) if k in MOST), module.name)
            found[key] = found.get(key, 0) + len(names)
    return found


def test_names_outside_of_the_operations_become_fewer() -> None:
    """What one needs is a trait of the row (isa/traits.toml)."""
    spelt = counted()
    assert {name: n for name, n in spelt.items() if n > MOST.get(name, (0, ""))[0]} == {}
    assert MOST.keys() - spelt.keys() == set(), "exceptions that are needed no longer"


def test_names_are_found(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text('"""pto.tadd"""\nX = op.name in ("pto.tadd", "pto.vld") or f"pto.tsub {y}"\n')
    assert names_in(Module(module)) == ["1: pto.tadd", "2: pto.tadd", "2: pto.vld"]
