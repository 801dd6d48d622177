"""`ptosim tune`: what it says, what it writes, what it refuses in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ptosim
from tests.tools.search.slow_programs import serial_loads


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.pto"
    path.write_text(serial_loads())
    return path


@pytest.mark.slow
def test_the_best_program_is_written_with_its_proof(
    cli: Callable[..., Any], kernel: Path, tmp_path: Path
) -> None:
    outcome = cli("tune", kernel, "--target", "a2a3", "--into", tmp_path / "best", "--trials", "3")
    assert outcome.code == 0
    assert "✓ 1: equal for all contents and these scalars, shapes, blocks; same" in outcome.out
    text = (tmp_path / "best" / "kernel.1.pto").read_text()
    before, after = (ptosim.load(t, target="a2a3").cost().cycles for t in (kernel, text))
    assert text.startswith(f"// kernel, tuned by ptosim for a2a3: {before:,} -> {after:,} cycles")
    assert "// equal for all contents and these scalars, shapes, blocks" in text


@pytest.mark.slow
def test_json_has_the_program_and_the_proof(cli: Callable[..., Any], kernel: Path) -> None:
    words = ("--target", "a2a3", "--trials", "3", "--format", "json", "--seeds", "0")
    report = json.loads(cli("tune", kernel, *words).out)
    (best,) = report["best"]
    assert best["proven"]
    assert best["proof"]["verdict"] == "equal"
    assert best["cycles"] < report["cycles"]
    assert best["rewrites"] == ["double buffering"]
    assert ptosim.load(best["program"], target="a2a3").sync == "manual"


def test_nothing_faster_is_no_fault(cli: Callable[..., Any]) -> None:
    outcome = cli("tune", "@model/zero", "--trials", "4")
    assert outcome.code == 0
    assert "nothing faster was found that is equal" in outcome.out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("missing.pto", 2, "cannot read"),
        ("@broken/undefined_value", 3, "PTO1"),
        ("@basics/vadd --reference @basics/vadd", 2, "--reference is for points"),
        ("@basics/vadd --const c=1 --space x.toml", 2, "two spaces"),
        ("@basics/vadd --const nowhere=1,2", 2, "PTO7604"),
        ("@basics/vadd --const c32= ", 2, "PTO76"),
        ("@basics/vadd --space missing.toml", 2, "missing.toml"),
        ("@basics/vadd --seconds 0", 2, "above 0"),
        ("@basics/vadd --block-num cdiv(M,2)", 2, "there is no space"),
        ("@basics/vadd --arg q=1", 2, "q"),
        ("make.py:kernel", 2, "makes programs of a space"),
        ("nothing.py:kernel --const a=1,2", 2, "PTO7603"),
        ("@search/gemm.pto.j2", 2, "--space"),
        ("@basics/vadd --into {file}", 2, "is a file"),
        ("@basics/vadd --trials 1 --into {file}/below", 2, "--into: cannot make"),
        ("@basics/vad", 2, "no shipped program"),
    ],
)
def test_bad_input_is_one_line(
    cli: Callable[..., Any], kernel: Path, words: str, code: int, message: str
) -> None:
    outcome = cli("tune", *words.replace("{file}", str(kernel)).split())
    assert outcome.code == code
    assert message in outcome.err
    errors = [line for line in outcome.err.splitlines() if line.startswith("error")]
    assert len(errors) == 1
