"""Reading the files of `isa/`: TOML, kept as plain data in the cache between runs."""

from __future__ import annotations

import tomllib
from typing import Any

from ptosim.ground.errors import IsaDataError
from ptosim.ground.isa.cache import cached
from ptosim.ground.isa.paths import isa_directory


def read_toml(name: str) -> dict[str, Any]:
    """Return the content of a TOML file of `isa/`. Raises IsaDataError if it cannot be read."""
    path = isa_directory() / name
    try:
        raw = path.read_bytes()
        return cached(name.replace("/", "-"), raw, lambda: tomllib.loads(raw.decode("utf-8")))
    except OSError as problem:
        raise IsaDataError(f"cannot read the ISA data file {path}: {problem.strerror}") from problem
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise IsaDataError(f"{path}: {problem}") from problem


def toml_names(folder: str) -> list[str]:
    """Return the TOML files of a folder of `isa/`, as names that `read_toml` takes, sorted."""
    return sorted(f"{folder}/{p.name}" for p in (isa_directory() / folder).glob("*.toml"))
