"""Operations by pointers in bands: products of the cube, and what hands their results on.

Which bytes an operand has says the account of the operation (`machine/effects`). A product is
executed on the magnitudes of its operands, which bounds what any order of its terms gives; moves
and conversions are executed on both ends."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ptosim.engine.core.bound import Inst
from ptosim.ground.ir.types import DType
from ptosim.machine.core import Core
from ptosim.machine.effects.account import REGISTER, effects_of
from ptosim.machine.effects.strided import Touch
from ptosim.machine.pages import argument_dtype
from ptosim.tools.bands_rules import (
    ROUNDING,
    SIGNS,
    ends_of,
    error_of,
    is_nan,
    is_plain,
    lowest_bit,
    outwards,
    spread,
)
from ptosim.tools.bands_step import Place, Step, joined

_MOVES = frozenset(("micro_cube", "micro_dma", "micro_low"))
"""Families whose operations, but for products, make each element of one element."""


class _Part(NamedTuple):
    """The bytes of an operand, and what they are elements of."""

    name: str
    place: Place
    at: np.ndarray
    dtype: DType | None


def follow(watcher: Any, core: Core, inst: Inst, binding: Any) -> bool:
    """Bring the ends of what an operation by pointers writes up to date. False for one of which no
    account says all."""
    effects = effects_of(binding)
    every = (*effects.reads, *effects.found, *effects.writes)
    if not effects.writes or any(str(r.where).startswith(REGISTER) for r in every):
        return False
    step = Step(watcher, core, inst, binding)
    reads = [_part(binding, r) for r in (*effects.reads, *effects.found)]
    writes = [_part(binding, r) for r in effects.writes]
    if not all(len(part.at) for part in writes):
        return False
    step.regions = joined(
        [(p.place, int(p.at.min()), int(p.at.max()) + 1) for p in (*reads, *writes) if len(p.at)]
    )
    spaces = {part.place[0] for part in reads}
    for write in writes:
        done = _Pointers(watcher, step, reads, write)
        if write.place[0] == "acc" and {"left", "right"} <= spaces:
            done.multiply()
        elif not done.is_open:
            done.close()
        elif _is_move(binding, effects):
            done.move()
        else:
            done.lose()
    return True


def _is_move(binding: Any, effects: Any) -> bool:
    return binding.op.definition.family in _MOVES and not effects.is_atomic


def _part(binding: Any, reached: Any) -> _Part:
    is_global = isinstance(reached.where, int)
    place = ("gm", reached.where) if is_global else (reached.where, reached.core.number)
    name = getattr(reached, "operand", "")
    type_ = getattr(binding.op.bound.get(name), "type", None)
    return _Part(name, place, _bytes(reached), getattr(type_, "elem", None))


def _bytes(reached: Any) -> np.ndarray:
    parts = (
        [(reached.start, reached.run, reached.levels)]
        if isinstance(reached, Touch)
        else [(p.start, p.run, p.dims) for p in reached.parts]
    )
    found = [np.zeros(0, np.int64)]
    for start, run, dims in parts:
        at = start + np.arange(run, dtype=np.int64)
        for count, distance in reversed(dims):
            at = (np.arange(count, dtype=np.int64)[:, None] * distance + at).reshape(-1)
        found.append(at)
    return np.concatenate(found)


def _sign_of(dtype: DType | None) -> list[int] | None:
    """What is left of the bytes of an element without its sign; of two in a byte, of both."""
    if dtype is None or not dtype.is_float:
        return None
    return SIGNS.get(4 if dtype.name.endswith("x2") else dtype.bits)


class _Pointers:
    """One execution: its step, whose regions are those of all operands, and these."""

    def __init__(self, watcher: Any, step: Step, reads: list[_Part], write: _Part) -> None:
        self.watcher, self.step, self.reads, self.write = watcher, step, reads, write
        self.memory = watcher.memory(write.place)

    @property
    def is_open(self) -> bool:
        """True if a byte that is read has two ends."""
        return any(self.watcher.memory(p.place).owner[p.at].any() for p in self.reads)

    def close(self) -> None:
        """What is written has one value."""
        at = self.write.at
        for end in (self.memory.low, self.memory.high):
            end[at] = self.memory.actual[at]
        self.memory.owner[at] = 0

    def lose(self) -> None:
        """What is written may be anything, and the operation is named."""
        op, at, dtype = self.step.op.op, self.write.at, self.write.dtype
        self.watcher.unfollowed[op] += 1
        if dtype is not None and is_plain(dtype) and len(at) % (dtype.bits // 8) == 0:
            kind = argument_dtype(dtype)
            ends = [np.full(len(at) // kind.itemsize, e, kind) for e in ends_of(dtype)]
        else:
            ends = [np.full(len(at), e, np.uint8) for e in (0, 0xFF)]
        self.memory.low[at], self.memory.high[at] = (e.view(np.uint8) for e in ends)
        self.memory.owner[at] = self.watcher.decision("unknown", op)

    def move(self) -> None:
        """Each element is made of one, more of more, or less of more: both ends say its ends."""
        dtype, at = self.write.dtype, self.write.at
        if dtype is None or not is_plain(dtype) or len(at) % (dtype.bits // 8):
            self.lose()
            return
        content = [self.step.content(which) for which in ("low", "high")]
        low, high = (self._left(left, self.write).view(argument_dtype(dtype))
                     for left in self.step.executed(content))  # fmt: skip
        owner = max(
            int(self.watcher.memory(p.place).owner[p.at].max(initial=0)) for p in self.reads
        )
        sources = [p.dtype for p in self.reads if p.dtype is not None]
        if any(each.bits > dtype.bits for each in sources):
            owner = self.watcher.decision("tie", self.step.op.op)
        with np.errstate(invalid="ignore"):
            falls = low.astype(np.float64) > high.astype(np.float64)  # a negative factor
        low, high = np.where(falls, high, low), np.where(falls, low, high)
        lost = (low != high) & (is_nan(low) | is_nan(high))
        low[lost], high[lost] = ends_of(dtype)
        self._put(low, high, owner)

    def multiply(self) -> None:
        """The product, and what it is added to, in any order of its terms."""
        dtype, sides = self.write.dtype, [p for p in self.reads if p.place[0] in ("left", "right")]
        if dtype is not None and dtype.is_integer and not self.is_open:
            self.close()
            return
        others = [p for p in self.reads if p.name not in ("lhs", "rhs")]
        is_open = any(self.watcher.memory(p.place).owner[p.at].any() for p in sides)
        masks = [
            SIGNS.get(p.dtype.bits) if p.dtype is not None else None for p in (*sides, *others)
        ]
        if dtype is None or dtype.name != "f32" or is_open or None in masks or len(sides) != 2:
            self.lose()
            return
        content = [self.step.content(which) for which in ("low", "high", "low")]
        for part, mask in zip((*sides, *others), masks, strict=True):
            held = self.watcher.memory(part.place)
            sign = np.resize(np.array(mask, np.uint8), len(part.at))
            size = held.low[part.at] & sign
            if part in others and part.dtype is not None:
                kind = argument_dtype(part.dtype)
                other = held.high[part.at] & sign
                size = np.maximum(size.view(kind), other.view(kind)).view(np.uint8)
            self._into(content[2], part, size)
        kind = argument_dtype(dtype)
        low, high, size = (self._left(left, self.write).view(kind).astype(np.float64)
                           for left in self.step.executed(content))  # fmt: skip
        terms = int(self.step.op.scalar("k")) + 2
        error = error_of(terms, size, self._grid(sides, others), ROUNDING["f32"])
        one, other = np.minimum(low, high), np.maximum(low, high)
        actual = self.memory.actual[self.write.at].view(kind)
        ends = outwards(*spread(one, other, size, error, dtype), actual, dtype)
        self._put(*ends, self.watcher.decision("sum", self.step.op.op))

    def _grid(self, sides: list[_Part], others: list[_Part]) -> Any:
        """What every term is a multiple of; 0 where that is not known."""
        least = []
        for part in (*sides, *others):
            if part.dtype is None or part.dtype.name not in ROUNDING:
                return np.zeros(1)
            held, kind = self.watcher.memory(part.place), argument_dtype(part.dtype)
            bits = [lowest_bit(end[part.at].view(kind).astype(np.float64))
                    for end in (held.low, held.high)]  # fmt: skip
            least.append(min(float(b.min(initial=np.inf)) for b in bits))
        return np.minimum(least[0] * least[1], min(least[2:], default=np.inf))

    # -- bytes ------------------------------------------------------------------------------------

    def _into(self, content: list[np.ndarray], part: _Part, data: np.ndarray) -> None:
        for (place, start, stop), held in zip(self.step.regions, content, strict=True):
            if place == part.place and start <= part.at.min() and part.at.max() < stop:
                held[part.at - start] = data

    def _left(self, content: list[np.ndarray], part: _Part) -> np.ndarray:
        for (place, start, stop), held in zip(self.step.regions, content, strict=True):
            if place == part.place and start <= part.at.min() and part.at.max() < stop:
                return held[part.at - start]
        raise AssertionError("each operand is in a region")

    def _put(self, low: np.ndarray, high: np.ndarray, owner: int) -> None:
        """Take new ends of what is written."""
        at, size = self.write.at, low.itemsize
        for end, made in ((self.memory.low, low), (self.memory.high, high)):
            end[at] = np.ascontiguousarray(made).view(np.uint8)
        differ = (self.memory.low[at] != self.memory.high[at]).reshape(-1, size).any(axis=1)
        self.memory.owner[at] = np.repeat(np.where(differ, owner, 0), size)
