"""Kernels of models that are synchronised by hand: nothing is found in them, and without any one flag
a run says what is wrong. Data decide the path of some: they are timed on the values of their sidecars."""

from __future__ import annotations

import re

import pytest

import ptosim
from ptosim.launch.array_files import parse_spec
from ptosim.launch.description import sidecar_of
from ptosim.shell.main import main
from tests.launch.programs.expected import PROGRAMS

NAMES = ("rope", "kv_update", "route_metadata", "linear_bf16", "zero")
FLAG = re.compile(r"^ *pto\.(?:set_flag|wait_flag)\b.*$", re.MULTILINE)
BARRIER = re.compile(r"^ *pto\.barrier\b.*$", re.MULTILINE)
TEXTS = {name: (PROGRAMS / f"model/{name}.pto").read_text(encoding="utf-8") for name in NAMES}


def lines(pattern: re.Pattern[str]) -> list:
    return [
        pytest.param(name, found.start(), id=f"{name}-{text.count(chr(10), 0, found.start()) + 1}")
        for name, text in TEXTS.items()
        for found in pattern.finditer(text)
    ]


def arguments(name: str) -> tuple[dict, int]:
    beside = sidecar_of(PROGRAMS / f"model/{name}.pto")
    assert beside is not None
    args = {n: parse_spec(spec, beside.folder) for n, spec in beside.args.items()}
    return args, beside.options.get("block_num", 1)


def codes(name: str, text: str, target: str) -> list[str]:
    """Codes that a run gives, of what is more than a note."""
    args, blocks = arguments(name)
    try:
        program = ptosim.load(text, target=target, sync="manual", level=3)
        result = program.run(args, block_num=blocks, timing=False)
    except ptosim.ProgramError as stopped:
        return [d.code for d in stopped.diagnostics]
    return [f.code for f in result.findings if f.severity.word != "note"]


def without(text: str, start: int) -> str:
    return text[:start] + text[text.index("\n", start) + 1 :]


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("name", NAMES)
def test_with_all_flags_nothing_is_found(name, target):
    assert codes(name, TEXTS[name], target) == []


@pytest.mark.slow
@pytest.mark.sampled(4, 30)
@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(("name", "start"), lines(FLAG))
def test_without_one_flag_something_is_found(name, start, target):
    assert codes(name, without(TEXTS[name], start), target)


@pytest.mark.parametrize(("name", "start"), lines(BARRIER))
def test_a_barrier_is_for_a2a3(name, start):
    """A5 waits by itself for the result of the operation before."""
    text = without(TEXTS[name], start)
    assert any(code.startswith("PTO52") for code in codes(name, text, "a2a3"))
    assert codes(name, text, "a5") == []


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("name", ["kv_update", "route_metadata"])
def test_what_data_decide_is_timed_on_values(name, target):
    args, blocks = arguments(name)
    program = ptosim.load(PROGRAMS / f"model/{name}.pto", target=target, sync="manual", level=3)
    timed = program.cost(args=args, block_num=blocks)
    assert timed.on_values
    assert timed.cycles == program.run(args, block_num=blocks).cycles
    with pytest.raises(ptosim.UsageError, match="PTO6501"):
        program.cost(args={n: a for n, a in args.items() if n != "lengths" and n != "expert"})


def test_the_report_says_so(capsys):
    assert main(["cost", "@model/kv_update"]) == 0
    assert "data decide its path: timed on the values" in capsys.readouterr().out
    assert main(["cost", "@model/rope"]) == 0
    assert "data decide" not in capsys.readouterr().out
