"""The layers of models that are synchronised by hand: each flag is needed, and its absence is found."""

from __future__ import annotations

import re

import pytest

import ptosim
from tests.launch.programs.expected import PROGRAMS

FLAG = re.compile(r"^ *pto\.(?:set|wait)_flag\[(.*)\]$", re.MULTILINE)
BY_HAND = {
    name: (PROGRAMS / f"{name}.pto").read_text(encoding="utf-8") for name in ("model/swiglu_mxfp8",)
}
LINES = [
    pytest.param(name, found.start(), id=f"{name}-{text.count(chr(10), 0, found.start()) + 1}")
    for name, text in BY_HAND.items()
    for found in FLAG.finditer(text)
]
PAIRS = [
    (name, words) for name, text in BY_HAND.items() for words in sorted(set(FLAG.findall(text)))
]


def findings(text: str) -> list[str]:
    """Codes that a run gives, of what is more than a note; of a run that stops that of the end."""
    try:
        result = ptosim.load(text, level=3, sync="manual").run({})
    except ptosim.PtosimError as stopped:
        return [d.code for d in getattr(stopped, "diagnostics", ())]
    return [f.code for f in result.findings if f.severity.word != "note"]


@pytest.mark.parametrize("name", BY_HAND)
def test_with_all_its_flags_nothing_is_found(name):
    assert findings(BY_HAND[name]) == []


@pytest.mark.parametrize(("name", "start"), LINES)
def test_without_one_flag(name, start):
    """A set without its wait, or a wait without its set."""
    text = BY_HAND[name]
    end = text.index("\n", start)
    assert findings(text[:start] + text[end + 1 :]) != []


@pytest.mark.parametrize(("name", "words"), PAIRS)
def test_without_a_pair_of_flags(name, words):
    """Nothing orders the two pipes then: a race."""
    lines = [line for line in BY_HAND[name].split("\n") if f"_flag[{words}]" not in line]
    found = findings("\n".join(lines))
    assert any(code.startswith("PTO52") for code in found), found
