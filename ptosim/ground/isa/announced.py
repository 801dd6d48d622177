"""Names of operations that a date has and this version does not have yet, from `isa/names.toml`."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache

from ptosim.ground.isa.data import read_toml
from ptosim.ground.records import NamedTuple


class Coming(NamedTuple):
    """What is known of a name without a row: what it is of, since when the language has it."""

    of: str
    since: str

    @property
    def dates(self) -> dict[str, str]:
        """The dates that have it, as a row says them."""
        return {"since": self.since}


def coming(name: str) -> Coming | None:
    """Return what is known of a name (with or without `pto.`), None if it is no known one."""
    bare = name.removeprefix("pto.")
    exact, prefixes = _names()
    found = exact.get(bare)
    if found is None and bare != name:
        found = next((c for p, c in prefixes.items() if bare.startswith(p) and bare != p), None)
    return found


@lru_cache(maxsize=1)
def _names() -> tuple[dict[str, Coming], dict[str, Coming]]:
    exact, prefixes = {}, {}
    for group in read_toml("names.toml")["names"]:
        about = Coming(group["of"], group["since"])
        for name in group["names"].split():
            (prefixes if name.endswith("*") else exact)[name.rstrip("*")] = about
    return exact, prefixes


# -- the version of the assembler that an operation appeared in: `isa/versions.toml` ---------------


def version_of(name: str) -> str | None:
    """Return version and day of an operation (`pto.cmo.cacheinvalid`: `0.50 (2026-07-08)`), None
    where no source says one."""
    bare = name.removeprefix("pto.")
    for row in read_toml("versions.toml")["version"]:
        if any(fnmatchcase(bare, pattern) for pattern in row["names"].split()):
            return f"{row['number']} ({row['day']})"
    return None
