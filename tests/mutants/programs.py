"""The programs of every level by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.mutants.levels import cores, fifos, pointers, signals, tiles, tokens
from tests.mutants.model import Model
from tests.mutants.ranks import ranks

Make = Callable[[int, str], Model]
LEVELS: dict[str, tuple[Make, tuple[str, ...], int]] = {
    "tiles": (tiles, ("a2a3", "a5"), 12),
    "tokens": (tokens, ("a5",), 8),
    "pointers": (pointers, ("a5",), 20),
    "logical": (lambda seed, target: pointers(seed, target, logical=True), ("a5",), 12),
    "cores": (cores, ("a2a3", "a5"), 1),
    "fifos": (fifos, ("a2a3", "a5"), 2),
    "signals": (signals, ("a2a3", "a5"), 1),
    "ranks": (ranks, ("a2a3", "a5"), 3),
}
"""Name of a level -> what makes its programs, their targets, how many there are of each."""


def models(level: str, count: int | None = None) -> Iterator[Model]:
    """Yield the programs of a level, the first `count` of each target."""
    make, targets, every = LEVELS[level]
    for target in targets:
        for seed in range(min(every, count or every)):
            yield make(seed, target)
