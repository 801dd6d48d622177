"""How the blocks of a launch share the cores of a chip.

A launch may have more blocks than the chip has cores for. They run in waves: every core (a cluster
of a cube core and its vector cores for kernels of both kinds) takes a block, and the next one of
its own when that has ended. Which core takes which block is not published; here block b follows
block b - `at_once`. Of blocks that do the same, one is timed and counts for all.
"""

from __future__ import annotations

from collections.abc import Iterable

from ptosim.ground.records import dataclass

_CUBE_PIPES = frozenset(("M", "MTE1", "FIX"))


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a launch: how many, how many at once, and how many of them were `timed`.
    `differ` says why not one was taken for all, if all were timed."""

    count: int = 1
    at_once: int = 1
    timed: int = 1
    differ: str = ""

    @property
    def waves(self) -> int:
        """Blocks that a core executes one after the other, at most."""
        return -(-self.count // self.at_once)

    @property
    def is_one_for_all(self) -> bool:
        """True if one block was timed and counts for all."""
        return self.timed < self.count

    def to_dict(self) -> dict[str, object]:
        """Return it as data."""
        return {
            "count": self.count,
            "at_once": self.at_once,
            "waves": self.waves,
            "timed": self.timed,
            "identical": self.is_one_for_all,
            "differ": self.differ,
        }


def at_once(cores: tuple[int, int], kinds: Iterable[str], pipes: Iterable[str]) -> int:
    """Return how many blocks the cube and vector cores of a chip (`cores`) execute at a time, if a
    block is on cores of these `kinds`. A core of any kind is a cube core where a pipe of one works
    (`pipes` are all that the program uses)."""
    kinds = list(kinds)
    other = "cube" if not _CUBE_PIPES.isdisjoint(pipes) else "vector"
    needed = [other if kind == "any" else kind for kind in kinds]
    room = [
        have // needed.count(kind)
        for have, kind in zip(cores, ("cube", "vector"), strict=True)
        if kind in needed
    ]
    return max(min(room, default=1), 1)
