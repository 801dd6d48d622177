"""Shipped programs that are synchronised by hand across ranks and cores: nothing is found in them, and
without any one flag, signal, push or free a run says what is wrong."""

from __future__ import annotations

import re

import pytest

import ptosim
from ptosim.launch.array_files import parse_spec
from ptosim.launch.description import sidecar_of
from tests.launch.programs.expected import PROGRAMS

NAMES = ("model/expert_dispatch", "model/linear_relu", "model/linear_int8")
NEEDED = re.compile(
    r"^ *pto\.(?:set_flag|wait_flag|comm\.tnotify|comm\.twait|tpush_to_aiv|tfree_from_aic)\b.*$",
    re.MULTILINE,
)
TEXTS = {name: (PROGRAMS / f"{name}.pto").read_text(encoding="utf-8") for name in NAMES}
# On A2/A3, where a pop copies: on A5 it hands out the slot itself, and some flags order nothing.
LINES = [
    pytest.param(name, found.start(), id=f"{name}-{text.count(chr(10), 0, found.start()) + 1}")
    for name, text in TEXTS.items()
    for found in NEEDED.finditer(text)
    if not ("int8" in name and "tfree_from_aic" in found.group())
]


def codes(name: str, text: str, target: str = "a2a3") -> list[str]:
    """Codes that a run gives, of what is more than a note."""
    beside = sidecar_of(PROGRAMS / f"{name}.pto")
    assert beside is not None
    args = {n: parse_spec(spec, beside.folder) for n, spec in beside.args.items()}
    try:
        loaded = ptosim.load(text, target=target, sync="manual")
        ranks = beside.options.get("ranks", 1)
        result = loaded.run(args, entry=beside.options.get("entry"), ranks=ranks)
    except ptosim.PtosimError as stopped:
        return [d.code for d in getattr(stopped, "diagnostics", getattr(stopped, "findings", ()))]
    return [f.code for f in result.findings if f.severity.word != "note"]


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("name", NAMES)
def test_with_everything_nothing_is_found(name, target):
    assert codes(name, TEXTS[name], target) == []


@pytest.mark.sampled(6, 20)
@pytest.mark.parametrize(("name", "start"), LINES)
def test_without_one_line_something_is_found(name, start):
    text = TEXTS[name]
    end = text.index("\n", start)
    assert codes(name, text[:start] + text[end + 1 :]), text[start:end]
