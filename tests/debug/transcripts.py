"""Transcripts of scripted sessions. `python -m tests.debug.transcripts` writes those that differ anew:
read them before they are kept."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ptosim.shell.main import main

HERE = Path(__file__).parent
TIMED = "timing"
"""The script that runs with cycles; what they are is the cost model's affair."""
SCRIPTS = sorted((HERE / "scripts").glob("*.dbg"))


def program_of(script: Path) -> str:
    """The program that the first line of a script names."""
    return script.read_text().splitlines()[0].removeprefix("# program: ")


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder with all programs and scripts, in which the session runs."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        for path in (*HERE.glob("programs/*"), *HERE.glob("scripts/*.dbg")):
            shutil.copy(path, name)
        shutil.copy(HERE / "scripts" / "more.script", Path(name, "more.dbg"))
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


def session(script: Path, columns: int = 100) -> tuple[int, str]:
    """Exit code and output of a script."""
    lines = script.read_text().splitlines()
    arguments = ["debug", f"{program_of(script)}.pto", "-nx", "--batch", "--color", "never"]
    if script.stem != TIMED:
        arguments.append("--no-timing")
    if script.stem == "mistakes":  # a script ends at its first mistake, single commands go on
        for line in lines[2:]:
            arguments += ["-ex", line]
    else:
        arguments += ["-x", script.name]
    out, err = io.StringIO(), io.StringIO()
    os.environ["COLUMNS"] = str(columns)
    with folder(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    text = out.getvalue() + err.getvalue()
    return code, without_cycles(text) if script.stem == TIMED else text


def without_cycles(text: str) -> str:
    """A transcript without what the figures of the cost model decide: numbers of cycles, bars."""
    lines = []
    for line in text.split("\n"):
        if not line.startswith("(ptosim)"):
            line = re.sub(r"\b(assumed|derived|documented|measured)\b", "SURE", line)
            line = re.sub(r"[#-]{2,}", "#", re.sub(r"\b\d[\d,.]*%?", "N", line))
        lines.append(re.sub(r"[ ─]{2,}", "  ", line).rstrip())
    return "\n".join(lines)


def golden(script: Path) -> Path:
    """Where the transcript of a script is kept."""
    return script.with_suffix(".txt")


if __name__ == "__main__":
    for each in SCRIPTS:
        code, text = session(each)
        text += f"exit code {code}\n"
        if not golden(each).exists() or golden(each).read_text() != text:
            golden(each).write_text(text)
            print("written:", golden(each).name)
