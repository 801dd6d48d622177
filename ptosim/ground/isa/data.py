"""Reading the files of `isa/`: TOML, kept as plain data in the cache between runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from ptosim.ground.errors import IsaDataError
from ptosim.ground.isa.cache import cached

_PACKAGE = Path(__file__).resolve().parents[2]


def _data_directory(variable: str, packaged: str, checkout: str) -> Path:
    override = os.environ.get(variable)
    if override:
        return Path(override)
    in_wheel = _PACKAGE / packaged
    return in_wheel if in_wheel.is_dir() else _PACKAGE.parent / checkout


@lru_cache(maxsize=1)
def isa_directory() -> Path:
    """Return the folder of the ISA data: `PTOSIM_ISA_DIR`, the wheel's copy, or the checkout's."""
    return _data_directory("PTOSIM_ISA_DIR", "_isa", "isa")


@lru_cache(maxsize=1)
def programs_directory() -> Path:
    """Return the folder of the shipped programs (`@name` on the command line)."""
    return _data_directory("PTOSIM_PROGRAMS_DIR", "_programs", "programs")


Data = TypeVar("Data")
TomlTable = dict[str, Any]
"""A table of a TOML file; what its keys hold, the reader of the file knows."""


def read_toml(name: str) -> TomlTable:
    """Return the content of a TOML file of `isa/`. Raises IsaDataError if it cannot be read."""
    return derived(name, "", lambda content: content)


def derived(name: str, kind: str, derive: Callable[[TomlTable], Data]) -> Data:
    """Return what `derive` makes of a TOML file of `isa/`, plain data, kept in the cache as `kind`.
    Raises IsaDataError if the file cannot be read."""
    path = isa_directory() / name
    try:
        raw = path.read_bytes()
        words = "-".join(filter(None, (kind, name.replace("/", "-"))))
        return cached(words, raw, lambda: derive(_parsed(raw)))
    except OSError as problem:
        raise IsaDataError(f"cannot read the ISA data file {path}: {problem.strerror}") from problem
    except ValueError as problem:  # of TOML, and of its encoding
        raise IsaDataError(f"{path}: {problem}") from problem


def _parsed(raw: bytes) -> TomlTable:
    import tomllib  # costs as much as reading all of `isa/` from the cache, which is the usual way

    return tomllib.loads(raw.decode("utf-8"))


def read_folder(folder: str) -> dict[str, TomlTable]:
    """Return the content of every TOML file of a folder of `isa/`, by its name without the ending.
    Raises IsaDataError if one cannot be read."""
    return {n.split("/")[-1].removesuffix(".toml"): read_toml(n) for n in toml_names(folder)}


def toml_names(folder: str) -> list[str]:
    """Return the TOML files of a folder of `isa/`, as names that `read_toml` takes, sorted."""
    return sorted(f"{folder}/{p.name}" for p in (isa_directory() / folder).glob("*.toml"))
