"""How many modules of ptosim the usual commands load, which may only fall.

What is loaded is read in every start, and in the head of everyone who looks for where a thing is
done. `python -m tests.frozen --write` keeps what is now."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

FILE = Path(__file__).parent / "loaded.txt"
COMMANDS = ("check", "run", "cost")
OTHER, PROGRAM = "@basics/vadd", "@basics/softmax"
_COUNT = """
import contextlib, io, sys
from ptosim.shell.main import console
*commands, program = sys.argv[1:]
for command in commands:
    sys.argv[1:] = command, program
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        console()
print(sum(name.partition(".")[0] == "ptosim" for name in sys.modules))
"""


def counts() -> dict[str, int]:
    """Modules that each command has loaded at its end, in a process of its own; the tables of the
    instruction set are kept from another program's run, as they are on a machine in use."""
    with tempfile.TemporaryDirectory() as cache:
        _count([*COMMANDS, OTHER], cache)
        return {command: _count([command, PROGRAM], cache) for command in COMMANDS}


def _count(given: list[str], cache: str) -> int:
    words = [sys.executable, "-c", _COUNT, *given]
    environment = {**os.environ, "PTOSIM_CACHE_DIR": cache}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    return int(done.stdout)


def read() -> dict[str, int]:
    """What is kept."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return {name: int(number) for name, number in map(str.split, lines)}


def write() -> None:
    """Keep what is now."""
    lines = [f"{command} {number}\n" for command, number in counts().items()]
    FILE.write_text("".join(lines), encoding="utf-8")
