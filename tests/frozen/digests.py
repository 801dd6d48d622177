"""Digests of frozen things, and the file that they are in: a line each, `digest program: thing`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.frozen.things import things_of

FILE = Path(__file__).parent / "digests.txt"
Digests = dict[tuple[str, str], str]
"""By program and thing."""


def compute(programs: Iterable[tuple[str, str]], jobs: int) -> Digests:
    """Return the digests of programs, each with its kind."""
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        return dict(item for part in pool.map(of_program, programs) for item in part)


def of_program(program: tuple[str, str]) -> list[tuple[tuple[str, str], str]]:
    """The digests of one program."""
    path, kind = program
    return [((path, name), digest(text)) for name, text in things_of(path, kind)]


def digest(text: str) -> str:
    """Sixteen digits of SHA-256."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def read() -> Digests:
    """What is frozen."""
    if not FILE.exists():
        return {}
    found: Digests = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        code, _, rest = line.partition(" ")
        path, _, name = rest.partition(": ")
        found[path, name] = code
    return found


def write(found: Digests) -> None:
    """Freeze digests, sorted."""
    lines = [f"{code} {path}: {name}\n" for (path, name), code in sorted(found.items())]
    FILE.write_text("".join(lines), encoding="utf-8")


def differences(found: Digests, frozen: Digests, only: str = "") -> list[str]:
    """Return a line for each thing that is other than it was, is new, or is gone."""
    keys = sorted({*found, *(key for key in frozen if only in key[0])})
    return [
        f"{path}: {name}{'' if (path, name) in frozen else ' (new)'}"
        for path, name in keys
        if found.get((path, name)) != frozen.get((path, name))
    ]
