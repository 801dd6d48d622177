"""Layouts of logical vectors (`#pto.vmi.layout`): which register, and which lane of it, holds each
lane of a vector that is longer or shorter than a register.

The lanes are first split in parts, then each part in registers. The registers of a vector are
numbered part by part: all of part 0, then all of part 1 (PTO assembler of 2026-08-21, layouts of
the virtual vector level)."""

from __future__ import annotations

import re
from functools import lru_cache

from ptosim.ground.ir.types import REGISTER_BYTES
from ptosim.ground.records import NamedTuple, dataclass

PREFIX = "#pto.vmi.layout"
BLOCKS = 8
"""Blocks of 32 bytes in a register."""


class LanePlace(NamedTuple):
    """Where a lane is: its part, the register among those of the part, the lane of the register."""

    part: int
    register: int
    lane: int


@dataclass(frozen=True, slots=True)
class LaneLayout:
    """A layout: `kind` is contiguous, deinterleaved, block_deinterleaved or num_groups; `number`
    the factor or the number of groups, `stride` the distance of neighbours in a register, `slots`
    the results of groups in one register (0: not said)."""

    kind: str
    number: int = 1
    stride: int = 1
    slots: int = 0

    def __str__(self) -> str:
        head = self.kind if self.kind == "contiguous" else f"{self.kind} = {self.number}"
        slots = f", slots = {self.slots}" if self.slots else ""
        stride = f", lane_stride = {self.stride}" if self.stride != 1 else ""
        return f"{PREFIX}<{head}{slots}{stride}>"

    @property
    def parts(self) -> int:
        """Parts that the lanes are split in."""
        return self.number if "deinterleaved" in self.kind else 1

    @property
    def is_contiguous(self) -> bool:
        """True if lanes follow each other as in memory, without gaps."""
        return self == CONTIGUOUS

    def place(self, lane: int, bits: int) -> LanePlace:
        """Return where a lane of `bits` is. Raises ValueError for results of groups whose layout
        does not say how many are in a register."""
        lanes = register_lanes(bits)
        if self.kind == "num_groups":
            if not self.slots:
                raise ValueError(f"{self} does not say how many results a register has")
            return LanePlace(0, lane // self.slots, lane % self.slots * self.stride)
        part, index = self._split(lane, lanes)
        return LanePlace(part, index // lanes, index % lanes)

    def _split(self, lane: int, lanes: int) -> tuple[int, int]:
        """The part of a lane, and its position in the part."""
        if self.kind == "block_deinterleaved":
            block, inside = divmod(lane, lanes // BLOCKS)
            return block % self.number, block // self.number * (lanes // BLOCKS) + inside
        return lane % self.parts, lane // self.parts * self.stride

    def part_registers(self, lanes: int, bits: int) -> tuple[int, ...]:
        """Return how many registers each part of a vector takes. Raises ValueError as `place`."""
        if self.kind == "num_groups":
            return (self.place(lanes - 1, bits).register + 1,)
        return _part_registers(self, lanes, bits)

    def registers(self, lanes: int, bits: int) -> int:
        """Return how many registers a vector takes. Raises ValueError as `place`."""
        return sum(self.part_registers(lanes, bits))

    def number_of(self, place: LanePlace, lanes: int, bits: int) -> int:
        """Return the number of a place's register among those of a vector, part by part."""
        return sum(self.part_registers(lanes, bits)[: place.part]) + place.register


@lru_cache(maxsize=1024)
def _part_registers(layout: LaneLayout, lanes: int, bits: int) -> tuple[int, ...]:
    size = register_lanes(bits)
    last = [-1] * layout.parts
    # The last lane of each part is among those of the last round of blocks.
    for lane in range(max(lanes - layout.parts * size // BLOCKS, 0), lanes):
        part, index = layout._split(lane, size)
        last[part] = max(last[part], index)
    return tuple(index // size + 1 for index in last)


def register_lanes(bits: int) -> int:
    """Return the lanes of a register: 256, 128 or 64 of 8, 16 or 32 bits."""
    return REGISTER_BYTES * 8 // bits


CONTIGUOUS = LaneLayout("contiguous")


def deinterleaved(factor: int) -> LaneLayout:
    """Return the layout in which neighbours are in different parts; of one part: contiguous."""
    return CONTIGUOUS if factor == 1 else LaneLayout("deinterleaved", factor)


def strided(stride: int) -> LaneLayout:
    """Return the layout whose neighbours are some lanes apart; one lane: contiguous."""
    return LaneLayout("contiguous", stride=stride)


def grouped(groups: int, slots: int) -> LaneLayout:
    """Return the layout of results of groups, so many of them in a register."""
    return LaneLayout("num_groups", groups, slots=slots)


_PART = re.compile(r"(\w+)\s*(?:=\s*(-?\d+))?\s*(?:,|$)\s*")


def parse_layout(text: str) -> LaneLayout:
    """Return the layout that an attribute spells, as the parser of types accepts it."""
    body = text[text.index("<") + 1 : text.rindex(">")].strip()
    found = [(m[1], int(m[2]) if m[2] else 1) for m in _PART.finditer(body)]
    options = dict(found[1:])
    return LaneLayout(
        found[0][0], found[0][1], options.get("lane_stride", 1), options.get("slots", 0)
    )
