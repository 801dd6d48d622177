"""Where the data of the instruction set and the shipped programs live."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

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
