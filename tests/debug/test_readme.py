"""What the README shows of the debugger is what it says."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import ptosim
from ptosim.cli.main import main
from ptosim.debug.dap.start import _EDITOR, _KNOWN
from tests.programs.expected import PROGRAMS

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BROKEN = "overlapping_parameters"


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def blocks(title: str, language: str = "") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", section(title), re.MULTILINE | re.DOTALL)


FOUND = "Find a wrong value in two minutes"


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def test_the_symptom(wide, capsys):
    symptom, *_ = blocks(FOUND)
    command, *shown = symptom.splitlines()
    assert main(command.removeprefix("$ ptosim ").split()) == 1
    output = capsys.readouterr().out.splitlines()
    for line in shown:
        assert line == "…" or line in output


def test_the_way_to_the_cause(wide, capsys):
    """The transcript of the README, of which one half goes on where the other ends."""
    _, *parts = blocks(FOUND)
    transcript = "".join(parts).splitlines()
    command, *shown = transcript
    arguments = command.removeprefix("$ ptosim ").split()
    for line in shown:
        if line.startswith("(ptosim) "):
            arguments += ["-ex", line.removeprefix("(ptosim) ")]
    assert main([*arguments, "-nx", "--batch", "--color", "never"]) == 0
    assert capsys.readouterr().out.splitlines() == shown


def test_the_cure(tmp_path, capsys):
    """With the address that the README names the values are right."""
    for path in (PROGRAMS / "broken").glob(f"{BROKEN}.*"):
        shutil.copy(path, tmp_path)
    program = tmp_path / f"{BROKEN}.pto"
    lines = program.read_text().splitlines()
    assert "0x2840" in lines[22]
    lines[22] = lines[22].replace("0x2840", "0x2880")
    program.write_text("\n".join(lines))
    arguments = [f"{n}={tmp_path}/{BROKEN}.npz:{n}" for n in "sz"] + ["x=randn:f32:64x64:81"]
    given = [word for pair in arguments for word in ("--arg", pair)]
    expect = ["--expect", f"q={tmp_path}/{BROKEN}.npz:q"]
    assert main(["run", str(program), *given, *expect, "--level", "3", "--sync", "auto"]) == 0
    assert "ok" in capsys.readouterr().out


def test_the_configurations_of_an_editor():
    """Attributes of the launch are known ones; the extension starts the adapter."""
    launch, extension = map(json.loads, blocks("Debug: step both ways", "json"))
    (configuration,) = launch["configurations"]
    assert set(configuration) <= _KNOWN | _EDITOR
    (debugger,) = extension["contributes"]["debuggers"]
    assert debugger["type"] == configuration["type"]
    assert [debugger["runtime"], *debugger["runtimeArgs"]] == ["ptosim", "dap"]


def test_the_lines_of_python(monkeypatch):
    (lines,) = blocks("Debug: step both ways", "python")
    folder = PROGRAMS / "quant"
    monkeypatch.chdir(folder)
    x = np.random.default_rng(1).standard_normal((128, 256)).astype(np.float32)
    names = {"ptosim": ptosim, "x": x}
    exec(lines.replace("kernel.pto", "int8_sym.pto"), names)
    session = names["session"]
    assert session.value("%r") == 64
    assert session.current_op().name == "pto.tload"
