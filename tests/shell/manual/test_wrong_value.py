"""The session with the debugger in the manual ends where it says; editors get what they know."""

from __future__ import annotations

import json
import shutil

from ptosim.debug.dap.server import _EDITOR, _KNOWN
from ptosim.language.grammars.grammars import FOLDER
from ptosim.shell.main import main
from tests.launch.programs.expected import PROGRAMS
from tests.shell.manual.pages import blocks, texts

BROKEN = "overlapping_parameters"


def test_the_cure(tmp_path, capsys):
    """With the address that the page names the values are right."""
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
    (launch,) = map(json.loads, blocks(texts()["editor"], "json"))
    extension = json.loads((FOLDER / "vscode" / "package.json").read_text(encoding="utf-8"))
    (configuration,) = launch["configurations"]
    assert set(configuration) <= _KNOWN | _EDITOR
    (debugger,) = extension["contributes"]["debuggers"]
    assert debugger["type"] == configuration["type"]
    known = set(debugger["configurationAttributes"]["launch"]["properties"])
    assert known <= _KNOWN | _EDITOR | {"program"}
    adapter = (FOLDER / "vscode" / "extension.js").read_text(encoding="utf-8")
    assert 'DebugAdapterExecutable(command(), ["dap"])' in adapter
