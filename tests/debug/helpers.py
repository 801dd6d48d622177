"""Sessions on the programs of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import ptosim
from ptosim.debug.session import Debugger

PROGRAMS = Path(__file__).parent / "programs"

LOOP = {
    "x": np.arange(192, dtype=np.float32).reshape(12, 16),
    "y": np.zeros((12, 16), np.float32),
    "k": 2.0,
}
COPY = {
    "x": np.arange(64, dtype=np.float32).reshape(4, 16),
    "y": np.zeros((4, 16), np.float32),
}


def debug(name: str, args: dict[str, Any], **options: Any) -> Debugger:
    """A session on a program of this folder."""
    return ptosim.load(PROGRAMS / f"{name}.pto").debug(args, **options)
