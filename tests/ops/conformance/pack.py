"""`python -m tests.ops.conformance.pack FOLDER`: make the archives of `tests/data/conformance/` anew.

FOLDER holds one folder for each group, with its `.npz` and `.json` files. The arrays of a group become
one archive: what the origins of one case expect is nearly the same, and a compressor that sees them
together needs a fifth of what it needs for each alone. Same input, same bytes."""

from __future__ import annotations

import io
import json
import lzma
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.ops.conformance.data import ARRAYS, ROOT

PRESET = 9 | lzma.PRESET_EXTREME


def compressed(content: bytes) -> bytes:
    return lzma.compress(content, preset=PRESET)


def members(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield `case/array.npy` and its bytes for every array of a folder."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as data:
            for name in sorted(data.files):
                held = io.BytesIO()
                np.save(held, data[name], allow_pickle=False)
                yield f"{path.stem}/{name}.npy", held.getvalue()


def archive(folder: Path) -> bytes | None:
    """Return the arrays of a folder as one archive; None if it has none."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in members(folder):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        if not tar.getmembers():
            return None
    return compressed(held.getvalue())


def pack(source: Path, target: Path) -> None:
    """Write the archives and documents of every folder below `source`, and of `source` itself."""
    for folder in (source, *sorted(p for p in source.iterdir() if p.is_dir())):
        made = target / folder.relative_to(source)
        made.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.glob("*.json")):
            text = json.dumps(json.loads(path.read_bytes()), indent=1, ensure_ascii=False)
            (made / f"{path.name}.xz").write_bytes(compressed(text.encode()))
        arrays = archive(folder)
        if arrays is not None:
            (made / ARRAYS).write_bytes(arrays)


if __name__ == "__main__":
    pack(Path(sys.argv[1]), ROOT)
