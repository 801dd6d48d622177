"""`python -m tests.frozen.cores`: values of all programs that use the cube, under several BLAS.

What a product is does not depend on the kernels that OpenBLAS chooses for a processor, nor on its
threads. Exits 1 where a byte of an output does. Kernels that this processor cannot execute are left
out, and told."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

from tests.frozen.digests import digest
from tests.frozen.things import run, values_of
from tests.frozen.workers import KEPT
from tests.support.paths import TREE

CORES = ("Haswell", "SkylakeX", "Sandybridge")
"""With 8, 16 and 4 numbers of f64 at once, so their sums are in three orders."""
THREADS = ("1", "2")
TARGETS = ("a2a3", "a5")
_CUBE = re.compile(r"pto\.(?:tmatmul|tgemv|mad)")


def cube_programs() -> list[str]:
    """Shipped programs with a product, by path below the tree."""
    paths = sorted((TREE / "programs").rglob("*.pto"))
    return [str(p.relative_to(TREE)) for p in paths if _CUBE.search(p.read_text(encoding="utf-8"))]


def main() -> int:
    if sys.argv[1:] == ["here"]:
        _print_digests()
        return 0
    found: dict[str, list[str]] = {}
    for core in CORES:
        if not _has(core):
            print(f"{core}: this processor does not have its instructions; left out")
            continue
        for threads in THREADS:
            lines = _under(core, threads)
            found[f"{core}, {threads} threads"] = lines
    first = next(iter(found.values()))
    wrong = [
        f"{name}: {line}"
        for name, lines in found.items()
        for line, expected in zip(lines, first, strict=True)
        if line != expected
    ]
    print(*wrong, f"{len(first)} digests under {len(found)} BLAS, {len(wrong)} differ", sep="\n")
    return 1 if wrong or not first else 0


def _has(core: str) -> bool:
    """Can this processor execute the kernels? OpenBLAS takes those that are asked for unseen: a
    process ends by SIGILL then."""
    words = [sys.executable, "-c", "import numpy; numpy.ones((64, 64)) @ numpy.ones((64, 64))"]
    own = {**os.environ, "OPENBLAS_CORETYPE": core}
    return subprocess.run(words, env=own, capture_output=True).returncode != -signal.SIGILL


def _under(core: str, threads: str) -> list[str]:
    own = {n: v for n, v in os.environ.items() if not n.startswith("PTOSIM_") or n in KEPT}
    own |= {"OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": threads, "PTOSIM_THREADS": threads}
    command = [sys.executable, "-m", "tests.frozen.cores", "here"]
    done = subprocess.run(command, env=own, cwd=TREE, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def _print_digests() -> None:
    for path in cube_programs():
        for target in TARGETS:
            on = ("--target", target)
            if run(("check", path, *on))[0] == 0:
                print(digest(values_of(path, on)), f"{path} {target}")


if __name__ == "__main__":
    sys.exit(main())
