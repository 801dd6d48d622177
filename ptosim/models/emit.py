"""Programs that were run as files: the text, its arguments, and what it gave."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.files import write_file
from ptosim.models.kernel_runner import Ran
from ptosim.models.kernels import ARRAYS

_RESULTS = ("y", "c")


def write_programs(folder: Path, programs: Sequence[tuple[str, Ran]]) -> list[Path]:
    """Write NAME.pto with NAME.npz and NAME.toml for each, so that `ptosim run NAME.pto` repeats
    the run and compares; returns the programs. Raises UsageError where that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(f"cannot write to {folder}: {problem.strerror}") from problem
    found = []
    for name, ran in programs:
        safe = "".join(c if c.isalnum() or c in "_-" else "_" for c in name)
        found.append(folder / f"{safe}.pto")
        for suffix, content in _contents(safe, ran).items():
            write_file(folder / f"{safe}{suffix}", content)
    return found


def _contents(name: str, ran: Ran) -> dict[str, str | bytes]:
    made = {k: ran.outputs[k] for k in _RESULTS if k in ran.outputs}
    arrays = {k: v for k, v in ran.args.items() if isinstance(v, np.ndarray) and k not in made}
    scalars = {k: v for k, v in ran.args.items() if not isinstance(v, np.ndarray)}
    stored: dict[str, np.ndarray] = {}
    binary: dict[str, str | bytes] = {}

    def spec(key: str, array: np.ndarray) -> str:
        if array.dtype.kind in "iuf" and array.dtype.isbuiltin:
            stored[key] = array
            return f"{name}.npz:{key}"
        word = next(w for w, a in ARRAYS.items() if a == array.dtype)
        binary[f".{key}.bin"] = array.tobytes()
        return f"{name}.{key}.bin:{word}:{'x'.join(map(str, array.shape))}"

    args = {k: spec(k, v) for k, v in arrays.items()} | {k: repr(v) for k, v in scalars.items()}
    expect = {k: spec(k, v) for k, v in made.items()}
    lines = ["[args]", *_lines(args), "", "[expect]", *_lines(expect), ""]
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **stored)  # type: ignore[arg-type]
    return {
        ".pto": ran.text, ".npz": buffer.getvalue(), ".toml": "\n".join(lines), **binary,
    }  # fmt: skip


def _lines(table: dict[str, str]) -> list[str]:
    return [f"{json.dumps(k)} = {json.dumps(v)}" for k, v in table.items()]
