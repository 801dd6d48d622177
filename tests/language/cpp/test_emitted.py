"""What the assembler emits is C++ of a regular form: printed from shipped programs and read back it
is equal to its source, and what is left out of it or changed in it is told."""

from __future__ import annotations

import functools
import io
import itertools
import json
import random
import re
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

import ptosim
from ptosim.ground.errors import PtosimError
from ptosim.shell.main import main
from tests.language.cpp.emitted import Unprinted, emitted

_ROOT = Path(__file__).parents[3]
_SHIPPED = [p for p in sorted((_ROOT / "programs").rglob("*.pto")) if "broken" not in p.parts]
_OWN = sorted((_ROOT / "tests" / "data" / "cpp").glob("*.pto"))
_READ = sorted((_ROOT / "tests" / "data" / "cpp" / "constructs").glob("*.cpp"))
_FEWEST = 50


def _said(*words: object) -> tuple[int, str]:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        code = main([*map(str, words)])
    return code, out.getvalue()


@functools.cache
def _both(path: Path) -> tuple[str, str, str] | None:
    """Return a target, a program at level 3 with its flags written out, and the C++ that is emitted
    for it; None for a program that the printer has no form for."""
    ways = (["--to", "pto"],) if path.suffix == ".cpp" else (["--plan", "--insert-sync"], [])
    for target in ("a5", "a2a3"):
        for way in ways:
            code, text = _said("fmt", path, "--target", target, *way)
            if code:
                continue
            try:
                resolved = ptosim.load(text, target=target).front.resolved
                functions = [resolved.functions[name] for name in resolved.entries]
                if len(functions) != 1:
                    return None
                return target, text, emitted(functions[0].op, functions[0].args)
            except (Unprinted, PtosimError):
                return None
    return None


def _beside(path: Path, folder: Path) -> tuple[str, Path, Path] | None:
    """Write both forms to a folder, with the sidecar of the program."""
    both = _both(path)
    if both is None:
        return None
    target, text, cpp = both
    source, other = folder / "source.pto", folder / "emitted.cpp"
    source.write_text(text)
    other.write_text(cpp)
    for beside in (path.with_suffix(".toml"), path.with_suffix(".npz")):
        if beside.exists():
            name = "source.toml" if beside.suffix == ".toml" else beside.name
            shutil.copy(beside, folder / name)
    return target, source, other


_LONG = {"gemm_mxfp8_grid"}
"""Proofs of these take ten seconds and more."""


@pytest.mark.slow
def test_most_programs_have_the_form() -> None:
    """They are counted until there are enough: all are tried one by one below, in the deep tier."""
    printed = (path for path in (*_SHIPPED, *_OWN, *_READ) if _both(path) is not None)
    assert sum(1 for _ in itertools.islice(printed, _FEWEST)) == _FEWEST


@pytest.mark.sampled(3, 16)
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, marks=pytest.mark.deep if p.stem in _LONG else ())
        for p in (*_SHIPPED, *_OWN, *_READ[::4])
    ],
    ids=lambda p: f"{p.parent.name}/{p.stem}",
)
def test_what_is_emitted_is_equal_to_its_source(path: Path, tmp_path: Path) -> None:
    """By the proof, else by hard data; what both have no answer for is said (exit code 2 where
    arguments have no size, 4 where the data stop both)."""
    both = _beside(path, tmp_path)
    if both is None:
        pytest.skip("no form here")
    target, source, other = both
    code, said = _said("validate", source, other, "--target", target, "--format", "json")
    assert code in (0, 2, 4), said
    assert '"verdict": "differs"' not in said


_FLAG = re.compile(r"\s*(set_flag|wait_flag|pipe_barrier)\b")
_CALL = re.compile(r"(\s*T(?!ASSIGN|LOAD)[A-Z]+\()(\w+), (\w+), (\w+)(.*)")


def _mutants(text: str) -> list[str]:
    """Each flag and barrier left out or another one, each address moved, operands exchanged, each
    store left out."""
    made = []
    lines = text.splitlines()
    for i, line in enumerate(lines):
        others = []
        if _FLAG.match(line):
            others += ["", line.replace("EVENT_ID0", "EVENT_ID5").replace("PIPE_V)", "PIPE_MTE2)")]
        if "TASSIGN(" in line:
            others.append(re.sub(r"\((\w+), (.*)\);", r"(\1, (\2) + 64);", line))
        if call := _CALL.match(line):
            others.append(f"{call[1]}{call[2]}, {call[4]}, {call[3]}{call[5]}")
        if "TSTORE(" in line:
            others.append("")
        made += [
            "\n".join([*lines[:i], other, *lines[i + 1 :]]) for other in others if other != line
        ]
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "most"),
    [
        *((p, 5) for p in _OWN[:5]),
        *(pytest.param(p, 1000, marks=pytest.mark.deep) for p in _READ[::2]),  # 50 texts and more
    ],
    ids=lambda v: getattr(v, "stem", ""),
)
def test_what_is_changed_is_told_or_harmless(path: Path, most: int, tmp_path: Path) -> None:
    """Each of the mutants, or of some: findings, other values, a place that cannot be; or it is
    proven equal and has no finding more."""
    both = _beside(path, tmp_path)
    if both is None:
        pytest.skip("no form here")
    target, source, other = both
    rng = random.Random(5)
    mutants = _mutants(other.read_text())
    for text in rng.sample(mutants, min(most, len(mutants))):
        other.write_text(text)
        code, said = _said("validate", source, other, "--target", target, "--format", "json")
        if code == 0:
            assert json.loads(said)["proof"]["verdict"] == "equal", text
