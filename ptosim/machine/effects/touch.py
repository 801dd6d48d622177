"""What operations on pointers tell about the bytes they reach, for whoever watches a run."""

from __future__ import annotations

from ptosim.ground.records import NamedTuple
from ptosim.machine.core import Core
from ptosim.machine.values import Memory

Level = tuple[int, int]
"""How often, and by how many bytes from start to start."""


class Touch(NamedTuple):
    """Runs of `run` bytes from `start` on, repeated at each of `levels`, in a space of a core (by
    name) or a buffer of global memory (by number). Levels may overlap and go backwards."""

    operand: str
    core: Core
    where: Memory
    start: int
    run: int
    levels: tuple[Level, ...] = ()

    @property
    def span(self) -> tuple[int, int]:
        """The first byte and the one after the last."""
        reaches = [(count - 1) * distance for count, distance in self.levels]
        low = self.start + sum(r for r in reaches if r < 0)
        return low, self.start + sum(r for r in reaches if r > 0) + self.run


class Touches:
    """The bytes that one execution reads and writes.

    `tails` are written too, with bytes that mean nothing. `found` are read as they are: what has no
    value there has none at the destination either, and only whoever computes with it is wrong.
    Their destinations are beside them, with the number of bytes that each unit of the source
    becomes, (source bytes, destination bytes). `combines`: what is written is combined with what is
    there, in any order."""

    __slots__ = ("combines", "found", "reads", "tails", "writes")

    def __init__(self) -> None:
        self.combines = False
        self.reads: list[Touch] = []
        self.writes: list[Touch] = []
        self.tails: list[Touch] = []
        self.found: list[tuple[Touch, Touch, tuple[int, int]]] = []
