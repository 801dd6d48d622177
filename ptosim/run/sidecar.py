"""What belongs to a program apart from its text: `kernel.toml` next to `kernel.pto`.

summary = "…"
targets = ["a2a3", "a5"]
[args]                      # as on the command line, files relative to the program
x = "randn:f32:128x256:7"
[expect]                    # bit-exact unless a tolerance says otherwise
y = "kernel.npz:y"
[tolerance]
y = { rtol = 1e-3, atol = 1e-5 }
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.run.tables import Schema, check_table
from ptosim.run.tolerance import Tolerance


@dataclass(frozen=True, slots=True)
class Sidecar:
    """Inputs and expectations that are kept with a program."""

    path: Path
    summary: str = ""
    targets: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)  # those of OPTIONS
    args: dict[str, str] = field(default_factory=dict)
    expect: dict[str, str] = field(default_factory=dict)
    tolerance: dict[str, Tolerance] = field(default_factory=dict)
    exit_code: int = 0  # of programs that are wrong on purpose
    codes: tuple[str, ...] = ()  # the findings that they are there to show

    @property
    def folder(self) -> Path:
        """Where the files are that it names."""
        return self.path.parent


OPTIONS = ("level", "entry", "block_num", "ranks", "profile", "seed", "sync", "compat")
"""Choices of a launch that a sidecar may make."""


_NUMBERS = dict.fromkeys(("rtol", "atol"), (int, float)) | {"ulp": (int,)}
_SCHEMA: Schema = {
    "summary": (str,),
    "targets": [str],
    "codes": [str],
    "exit_code": (int,),
    "args": {"*": (str, int, float, bool)},
    "expect": {"*": (str,)},
    "tolerance": {"*": _NUMBERS},
    **dict.fromkeys(("level", "block_num", "ranks", "seed"), (int,)),
    **dict.fromkeys(("entry", "profile", "sync", "compat"), (str,)),
}


def sidecar_of(program: Path) -> Sidecar | None:
    """Return the sidecar of a program, None if there is none. Raises UsageError if it is
    malformed."""
    path = program.with_suffix(".toml") if program.name else program
    if not path.is_file():
        return None
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise UsageError(f"{path}: {problem}") from problem
    check_table(table, _SCHEMA, path, text)
    tolerance = {n: Tolerance(**t) for n, t in table.get("tolerance", {}).items()}
    return Sidecar(
        path,
        table.get("summary", ""),
        tuple(table.get("targets", ())),
        {k: table[k] for k in OPTIONS if k in table},
        {k: str(v) for k, v in table.get("args", {}).items()},
        dict(table.get("expect", {})),
        tolerance,
        table.get("exit_code", 0),
        tuple(table.get("codes", ())),
    )
