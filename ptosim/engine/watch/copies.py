"""Copies hand on what they find: bytes without a value have none at the destination either."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ptosim.engine.watch.access import Shadows, footprint
from ptosim.engine.watch.shadow import Footprint
from ptosim.machine.effects.account import DEFINED
from ptosim.machine.effects.strided import MAX_RUNS, runs_of
from ptosim.machine.effects.touch import Touch, Touches

MOST_PLACES = 1 << 22
"""Bytes of a copy that are looked at one by one, some times as many as a memory on chip has. Of a
copy that reaches more of them, its bursts over each other, the destination counts as defined where
not the whole source is without values: less is known of it."""


def copier(touches: Touches | None, shadows: Shadows) -> Callable[[], None] | None:
    """Return what gives the destinations of copies the states of their sources, None if nothing is
    copied. It is called after the destinations were noted as written."""
    if touches is None or not touches.found:
        return None
    pairs = [
        (footprint(source, None, shadows), pair) for pair in touches.found for source in pair[:1]
    ]
    known = [(print_, pair) for print_, pair in pairs if print_ is not None]

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
