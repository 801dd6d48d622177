"""What is known about every byte of a memory, kept for groups of bytes that were always touched
together.

Each memory is cut into atoms: the coarsest groups such that every footprint seen so far is a union
of whole groups. A tile that is always used whole is one atom, however large, so an access costs a
few steps in place of thousands. The cuts are exact to the byte: the unit of the map begins with 32
bytes and is halved whenever a footprint ends inside a unit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ptosim.effects.strided import Strided

UNIT = 32
MAX_UNITS = 1 << 20
"""Units of a fresh map; larger memories begin with larger units."""

Entry = tuple[int, int, Any, int]
"""An access of an atom: agent, time, what accessed it (an Access; None before the program began),
and which execution of its instruction that was."""
ORIGIN: Entry = (0, 0, None, 0)
"""The writer of bytes that were there before the program began: agent 0 at time 0."""


@dataclass(slots=True, eq=False)
class Atom:
    """Bytes with one history. `write` is the last write, `reads` the reads since then by agent;
    both are (agent, time, access, execution). `taken`: they were read before the first write.
    `owner` is the allocation that wrote last, `lost` the one whose content that overwrote."""

    label: int
    size: int  # in units
    defined: int
    write: Entry = ORIGIN
    reads: dict[int, Entry] = field(default_factory=dict)
    owner: Any = None
    lost: Any = None
    taken: bool = False

    @property
    def takes_content(self) -> bool:
        """True if what was there before the program began was read, or added to."""
        return self.taken or (self.write[2] is None and bool(self.reads))

    def split(self, label: int, size: int) -> Atom:
        """Return a new atom for `size` units of this one."""
        self.size -= size
        return replace(self, label=label, size=size, reads=dict(self.reads))


class Shadow:
    """The atoms of one memory: a space of a core, or a buffer of global memory."""

    __slots__ = ("atoms", "bytes", "is_global", "labels", "name", "unit", "version")

    def __init__(self, name: str, size: int, defined: int) -> None:
        self.name = name
        self.bytes = size
        self.unit = UNIT
        while size // self.unit > MAX_UNITS:
            self.unit *= 2
        units = -(-size // self.unit)
        self.labels = np.zeros(units, np.int32)
        self.atoms = [Atom(0, units, defined)]
        self.version = 0
        self.is_global = False

    def resolve(self, parts: tuple[Strided, ...]) -> tuple[Atom, ...]:
        """Return the atoms of some bytes, cutting those that cross the border."""
        found: list[Atom] = []
        for part in parts:
            found.extend(self._part(part))
        return tuple(found)

    def _part(self, part: Strided) -> list[Atom]:
        granule = part.granule(self.unit)
        if granule < self.unit:
            self._refine(granule)
        view = self._view(part)
        first = int(view[(0,) * view.ndim])
        if (view == first).all():
            return [self._whole(view, first, view.size)]
        labels, counts = np.unique(view, return_counts=True)
        return [
            self._whole(view, int(label), int(count))
            for label, count in zip(labels, counts, strict=True)
        ]

    def _view(self, part: Strided) -> np.ndarray:
        unit, size = self.unit, self.labels.itemsize
        shape = (*(n for n, _ in part.dims), part.run // unit)
        strides = (*(d // unit * size for _, d in part.dims), size)
        return np.ndarray(shape, np.int32, self.labels, part.start // unit * size, strides)

    def _whole(self, view: np.ndarray, label: int, count: int) -> Atom:
        atom = self.atoms[label]
        if count == atom.size:
            return atom
        part = atom.split(len(self.atoms), count)
        self.atoms.append(part)
        view[view == label] = part.label
        self.version += 1
        return part

    def _refine(self, granule: int) -> None:
        factor = self.unit // granule
        self.labels = np.repeat(self.labels, factor)
        for atom in self.atoms:
            atom.size *= factor
        self.unit = granule

    def set_states(self, state: int) -> None:
        """Say the same of the values of all bytes."""
        for atom in self.atoms:
            atom.defined = state

    def states(self, places: np.ndarray) -> np.ndarray:
        """Return what is known of the values of some bytes."""
        of_atoms = np.array([atom.defined for atom in self.atoms], np.uint8)
        return of_atoms[self.labels[places // self.unit]]

    def extent(self, atom: Atom) -> tuple[int, int]:
        """Return the first byte of an atom and the one after its last."""
        places = np.flatnonzero(self.labels == atom.label)
        return int(places[0]) * self.unit, min((int(places[-1]) + 1) * self.unit, self.bytes)


@dataclass(slots=True, eq=False)
class Footprint:
    """The bytes of one operand, and the atoms they are made of at present."""

    shadow: Shadow
    parts: tuple[Strided, ...]
    name: str
    owner: Any  # the allocation that the bytes belong to, if it is known
    _atoms: tuple[Atom, ...] = ()
    _version: int = -1

    def atoms(self) -> tuple[Atom, ...]:
        """Return the atoms of the footprint."""
        if self._version != self.shadow.version:
            self._atoms = self.shadow.resolve(self.parts)
            self._version = self.shadow.version
        return self._atoms

    def moved(self, distance: int) -> Footprint:
        """Return the same bytes of global memory farther on; the very same of other memories."""
        if not self.shadow.is_global:
            return self
        parts = tuple(Strided(p.start + distance, p.run, p.dims) for p in self.parts)
        return Footprint(self.shadow, parts, self.name, self.owner)

    @property
    def span(self) -> tuple[int, int]:
        """The first byte and the one after the last."""
        return min(p.start for p in self.parts), max(p.end for p in self.parts)

    @property
    def bytes(self) -> int:
        """How many bytes it has."""
        return sum(p.bytes for p in self.parts)
