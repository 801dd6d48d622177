"""Every instruction of the micro level that is executed has a case of its own in this folder, and every
rule of `rules.toml` a test."""

from __future__ import annotations

import re
from pathlib import Path

from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import EXECUTED
from tests.support.paths import TESTS, TREE
from tests.support.rules import cases_without_rule, check_rules, read_rules

# Other spellings of what `test_scope` runs as sync.set and sync.wait; rules of A2/A3 in tests/ops/semantics.
SAME_AS_SYNC = {
    "pto.set_intra_block", "pto.wait_intra_block", "pto.wait_intra_core", "pto.set_cross_core",
    "pto.wait_flag_dev",
}  # fmt: skip


def texts() -> str:
    return "\n".join(p.read_text(encoding="utf-8") for p in Path(__file__).parent.glob("*.py"))


def micro_rows() -> list[str]:
    """Rows of the files of the micro level, for A5."""
    folder = TREE / "isa" / "ops"
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
RULES = read_rules([FOLDER / "rules.toml"])
NOT_RULES = {"test_rules.py", "test_bad_input.py"}
"""Files whose tests are about this list or about several rules at once."""


def test_every_rule_has_tests():
    check_rules(RULES)


def test_every_case_belongs_to_a_rule():
    assert cases_without_rule(FOLDER, RULES, NOT_RULES) == set()
    named = {place for _, _, places, *_ in RULES.values() for place in places.split()}
    assert {f"filecheck/micro/{p.name}" for p in (TESTS / "filecheck" / "micro").glob("reject_*.pto")} <= named  # fmt: skip
