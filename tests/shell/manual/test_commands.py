"""Every command that the README and the manual show is run, and gives what they show."""

from __future__ import annotations

import re
import shlex
import tomllib

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import Severity
from ptosim.launch.description import sidecar_of
from ptosim.shell.main import main
from tests.launch.programs.expected import PROGRAMS
from tests.shell.manual.pages import PROMPT, README, ROOT, Transcript, blocks, texts, transcripts

INSTALLATION = (
    "python3 -m venv .venv && .venv/bin/pip install . && ",
    '.venv/bin/pip install -e ".[dev]" && ',
)
"""What comes before a command: `.ci/run` does it, in an environment of its own."""
TESTS = ".venv/bin/python -m pytest -n auto"
LONG = ("report", "site", "tune")
"""Pages with commands that take seconds."""
SHOWN = [
    pytest.param(transcript, id=f"{page}-{number}", marks=[pytest.mark.slow] * (page in LONG))
    for page, text in texts().items()
    for number, transcript in enumerate(transcripts(text))
]
KERNELS = {README: "mxfp8_nd.pto", "python": "mxfp8_nd.pto", "debug": "int8_sym.pto"}


def arguments(transcript: Transcript) -> list[str]:
    """The command line; the debugger gets the commands that the session shows."""
    command = transcript.command
    for before in INSTALLATION:
        command = command.removeprefix(before)
    program, *words = shlex.split(command.removeprefix(".venv/bin/"))
    assert program == "ptosim", transcript.command
    if words[0] == "debug":
        typed = [s.removeprefix(PROMPT) for s in transcript.shown if s.startswith(PROMPT)]
        if "-ex" not in words:
            words += [word for line in typed for word in ("-ex", line)]
        words += ["-nx", "--batch", "--color", "never"]
    return words


@pytest.mark.sampled(16)
@pytest.mark.parametrize("transcript", SHOWN)
def test_what_is_shown_is_what_comes(transcript, capsys, monkeypatch, tmp_path):
    """In a folder that looks like the tree, so that what a command with `-o` writes is not left
    there by a run that was stopped."""
    if transcript.command.endswith(TESTS):
        return  # this very run
    for path in ROOT.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    code = main(arguments(transcript))
    assert code in range(7), "a documented exit code"
    written = capsys.readouterr()
    output = [line.rstrip() for line in (written.out + written.err).rstrip().splitlines()]
    missing = transcript.matches(output)
    assert not missing, missing + "\n\n" + "\n".join(output)


def test_a_transcript_that_differs_is_told():
    assert not Transcript("", ["a", "…", "d"]).matches(["a", "b", "c", "d"])
    assert not Transcript("", ["…", "b", "…"]).matches(["a", "b", "c"])
    assert Transcript("", ["a", "c"]).matches(["a", "b", "c"])
    assert Transcript("", ["a", "…", "b"]).matches(["a", "b", "c"])
    assert Transcript("", ["a"]).matches(["a", "b"])


@pytest.mark.parametrize("page", KERNELS)
def test_the_lines_of_python(page, monkeypatch):
    lines, *more = blocks(texts()[page], "python")
    monkeypatch.chdir(PROGRAMS / "quant")
    x = np.random.default_rng(1).standard_normal((128, 256)).astype(np.float32)
    names = {"ptosim": ptosim, "x": x}
    lines = lines.replace("layer.toml", "../model/mlp.toml")
    exec(lines.replace("kernel.pto", KERNELS[page]), names)
    if page == "debug":
        session = names["session"]
        assert session.value("%r") == 64
        assert session.current_op().name == "pto.tload"
    else:
        assert names["result"].outputs["q"].shape == (128, 256)
        assert not names["result"].findings
    for each in more:  # of a kernel whose scalar is `n`
        exec(each.replace("kernel.pto", "../model/linear_bf16.pto"), names)


def test_every_page_with_python_is_run():
    assert {page for page, text in texts().items() if blocks(text, "python")} == set(KERNELS)


def test_pieces_of_programs_are_accepted():
    for page, text in texts().items():
        for piece in blocks(text, "mlir"):
            if piece.startswith("// fails "):  # those say with which code, and are tried elsewhere
                continue
            found = [d for d in ptosim.check(piece) if d.severity is Severity.ERROR]
            assert not found, (page, found)


def test_the_sidecar_file_is_one(tmp_path):
    (table,) = blocks(texts()["options"], "toml")
    (tmp_path / "kernel.toml").write_text(table)
    beside = sidecar_of(tmp_path / "kernel.pto")
    assert beside is not None
    assert beside.args == tomllib.loads(table)["args"]
    named = re.findall(r"`(\w+)`", texts()["options"].split("at the top are")[0].splitlines()[-1])
    numbers = ("level", "block_num", "ranks", "seed")
    lines = [f"{name} = 1\n" if name in numbers else f"{name} = 'auto'\n" for name in named]
    (tmp_path / "kernel.toml").write_text("".join(lines))
    again = sidecar_of(tmp_path / "kernel.pto")
    assert again is not None
    assert set(again.options) == set(named)
