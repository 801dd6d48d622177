"""The version of the assembler that an operation appeared in: `isa/versions.toml`."""

from __future__ import annotations

from fnmatch import fnmatchcase

from ptosim.ground.isa.data import read_toml


def version_of(name: str) -> str | None:
    """Return version and day of an operation (`pto.cmo.cacheinvalid`: `0.50 (2026-07-08)`), None
    where no source says one."""
    bare = name.removeprefix("pto.")
    for row in read_toml("versions.toml")["version"]:
        if any(fnmatchcase(bare, pattern) for pattern in row["names"].split()):
            return f"{row['number']} ({row['day']})"
    return None
