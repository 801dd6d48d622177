"""Programs that were run as files: the text, its arguments, and what it gave."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.files import write_file
from ptosim.ground.records import dataclass, field
from ptosim.models.kernel_runner import Ran, digest
from ptosim.models.kernels import ARRAYS

_RESULTS = ("y", "c", "real", "r", "e")


def write_programs(folder: Path, programs: Sequence[tuple[str, Ran]]) -> list[Path]:
    """Write NAME.pto with NAME.npz and NAME.toml for each, so that `ptosim run NAME.pto` repeats
    the run and compares; returns the programs. Raises UsageError where that is not possible."""
    _make(folder)
    found = []
    for name, ran in programs:
        pool = _Pool(_safe(name))
        lines = _tables(pool, ran, "")
        found.append(_write(folder, pool, ran.text, lines))
    return found


def write_layers(
    folder: Path, programs: Mapping[tuple[str, str], Sequence[tuple[str, Ran]]]
) -> list[Path]:
    """Write a model's programs, three files for a layer: its kernels for each target and form are
    parts of one program (`ptosim run LAYER.pto#a5_fast_0`), arrays that several have are stored
    once. `programs` are those of each (target, form), by the layer's name and the kernel's number.
    Raises UsageError where that is not possible."""
    layers: dict[str, list[tuple[str, Ran]]] = {}
    for (target, form), each in programs.items():
        for name, ran in each:
            layer, _, number = name.rpartition("_")
            layers.setdefault(layer, []).append((f"{target}_{form}_{number}", ran))
    _make(folder)
    found = []
    for index, (layer, kernels) in enumerate(layers.items()):
        pool = _Pool(f"{index:02}_{_safe(layer)}")
        text = "".join(f"//--- {part}.pto\n{ran.text.rstrip()}\n\n" for part, ran in kernels)
        lines = [line for part, ran in kernels for line in _tables(pool, ran, f"part.{part}.")]
        found.append(_write(folder, pool, text, lines))
    return found


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(f"cannot write to {folder}: {problem.strerror}") from problem


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() or c in "_-" else "_" for c in name)


@dataclass(slots=True)
class _Pool:
    """The arrays of the files NAME.…: equal ones are stored once."""

    name: str
    stored: dict[str, np.ndarray] = field(default_factory=dict)
    known: dict[bytes, str] = field(default_factory=dict)

    def spec(self, key: str, array: np.ndarray) -> str:
        """Return the SPEC of an array, which is stored if it is new."""
        mark = digest({"": array}) + f"{array.dtype}{array.shape}".encode()
        if mark not in self.known:
            self.known[mark] = self._stored(key, array)
        return self.known[mark]

    def _stored(self, key: str, array: np.ndarray) -> str:
        name = f"{key}_{len(self.stored)}" if key in self.stored else key
        if array.dtype.kind in "iuf" and array.dtype.isbuiltin:
            self.stored[name] = array
            return f"{self.name}.npz:{name}"
        word = next(w for w, a in ARRAYS.items() if a == array.dtype)
        self.stored[name] = np.frombuffer(array.tobytes(), np.uint8)
        return f"{self.name}.npz:{name}:{word}:{'x'.join(map(str, array.shape))}"


def _tables(pool: _Pool, ran: Ran, head: str) -> list[str]:
    """The lines of a sidecar on a run: arguments, and what is expected."""
    made = {k: ran.outputs[k] for k in _RESULTS if k in ran.outputs}
    arrays = {k: v for k, v in ran.args.items() if isinstance(v, np.ndarray) and k not in made}
    scalars = {k: v for k, v in ran.args.items() if not isinstance(v, np.ndarray)}
    args = {k: pool.spec(k, v) for k, v in arrays.items()}
    args |= {k: repr(v) for k, v in scalars.items()}
    expect = {k: pool.spec(k, v) for k, v in made.items()}
    launch = [f"[{head.removesuffix('.')}]", f"block_num = {ran.blocks}", ""] if head else []
    launch = launch if ran.blocks > 1 else []
    return [*launch, f"[{head}args]", *_lines(args), "", f"[{head}expect]", *_lines(expect), ""]


def _write(folder: Path, pool: _Pool, text: str, lines: Sequence[str]) -> Path:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **pool.stored)  # type: ignore[arg-type]
    contents: dict[str, str | bytes] = {
        ".pto": text, ".npz": buffer.getvalue(), ".toml": "\n".join(lines),
    }  # fmt: skip
    for suffix, content in contents.items():
        write_file(folder / f"{pool.name}{suffix}", content)
    return folder / f"{pool.name}.pto"


def _lines(table: dict[str, str]) -> list[str]:
    return [f"{json.dumps(k)} = {json.dumps(v)}" for k, v in table.items()]
