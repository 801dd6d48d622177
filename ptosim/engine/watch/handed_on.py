"""What is handed on with the bytes: copies give their destination what they find, and so do FIFOs.
Bytes without a value have none at the destination either."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from math import prod

import numpy as np

from ptosim.engine.watch.access import Shadows, footprint
from ptosim.engine.watch.shadow import Atom, Entry, Footprint
from ptosim.ground.records import NamedTuple
from ptosim.machine.effects.account import DEFINED
from ptosim.machine.effects.strided import MAX_RUNS, runs_of
from ptosim.machine.effects.touch import Touch
from ptosim.ops.base.binding import Binding

# -- copies ----------------------------------------------------------------------------------------

MOST_PLACES = 1 << 22
"""Bytes of a copy that are looked at one by one, some times as many as a memory on chip has. Of a
copy that reaches more of them, its bursts over each other, the destination counts as defined where
not the whole source is without values: less is known of it."""


def copier(binding: Binding, shadows: Shadows) -> Callable[[], None] | None:
    """Return what gives the destinations of copies the states of their sources, None if nothing is
    copied. It is called after the destinations were noted as written."""
    touches = binding.touches
    found = [(source, target, (1, 1)) for source, target in binding.copied]
    found += touches.found if touches is not None else []
    pairs = [(footprint(pair[0], None, shadows), pair) for pair in found]
    known = [(print_, pair) for print_, pair in pairs if print_ is not None]
    if not known:
        return None

    def spread() -> None:
        for print_, pair in known:
            if any(atom.defined != DEFINED for atom in print_.atoms()):
                _spread(print_, *pair, shadows)

    return spread


def _spread(
    print_: Footprint, source: Touch, target: Touch, unit: tuple[int, int], shadows: Shadows
) -> None:
    states = {atom.defined for atom in print_.atoms()}
    if len(states) == 1:
        found = footprint(target, None, shadows)
        for atom in found.atoms() if found is not None else ():
            atom.defined = next(iter(states))
        return
    source, target = _moving(source, target)
    if max(_count(source), _count(target)) > MOST_PLACES:
        return
    of_bytes = print_.shadow.states(_places(source))
    if unit != (1, 1):
        of_bytes = np.repeat(of_bytes[:: unit[0]], unit[1])
    places, shadow = _places(target), shadows(target.core, target.where)
    for state in states - {DEFINED}:
        chosen = np.unique(places[of_bytes == state])
        parts = runs_of(chosen, 1) if len(chosen) else ()
        if parts and len(parts) < MAX_RUNS:
            for atom in Footprint(shadow, parts, target.operand, None).atoms():
                atom.defined = state


def _moving(source: Touch, target: Touch) -> tuple[Touch, Touch]:
    """A copy without levels that stay where they are: these move the same bytes again."""
    both = [
        pair for pair in zip(source.levels, target.levels, strict=True) if pair[0][1] or pair[1][1]
    ]
    return (
        source._replace(levels=tuple(one for one, _ in both)),
        target._replace(levels=tuple(other for _, other in both)),
    )


def _count(touch: Touch) -> int:
    return touch.run * prod(n for n, _ in touch.levels)


def _places(touch: Touch) -> np.ndarray:
    """Every byte that a copy inside its space reaches, burst by burst."""
    starts = np.zeros((1,), np.int64)
    for n, distance in reversed(touch.levels):
        starts = (starts[:, None] + np.arange(n) * distance).reshape(-1)
    return (touch.start + starts[:, None] + np.arange(touch.run)).reshape(-1)


# -- FIFOs -----------------------------------------------------------------------------------------


class Pushed(NamedTuple):
    """A push of bytes without a value: their state, the first of them, who pushed which tile."""

    state: int
    atom: Atom
    entry: Entry
    print_: Footprint


class Passed:
    """What is in the slots of FIFOs, by what orders a pop after its push: None is a tile with
    values. A tile that has none in part has none."""

    def __init__(self) -> None:
        self._slots: dict[Hashable, deque[Pushed | None]] = {}
        self._popped: set[Hashable] = set()

    def push(self, keys: Iterable[Hashable], entry: Entry) -> None:
        """A tile goes into the slot of each vector core that takes part."""
        found = None
        for print_ in entry[2].found:
            lost = next((a for a in print_.atoms() if a.defined != DEFINED), None)
            if lost is not None:
                found = Pushed(lost.defined, lost, entry, print_)
                break
        for key in keys:
            self._slots.setdefault(key, deque()).append(found)

    def pop(self, keys: Iterable[Hashable]) -> Pushed | None:
        """The oldest tile is taken: return who pushed bytes without a value."""
        found = None
        for key in keys:
            self._popped.add(key)
            slots = self._slots.get(key)
            if slots:
                found = slots.popleft() or found
        return found

    def left(self) -> Iterator[Pushed]:
        """Yield what nobody pops: where the other half is not at hand, it is taken as read."""
        for key, slots in self._slots.items():
            if key not in self._popped:
                yield from (push for push in slots if push is not None)
