"""What is known about every byte of a memory, kept for groups of bytes that were always touched
together.

Each memory is cut into atoms: the coarsest groups such that every footprint seen so far is a union
of whole groups. A tile that is always used whole is one atom, however large, so an access costs a
few steps in place of thousands. The cuts are exact to the byte: the unit of the map begins with 32
bytes, that of a large memory with 4096, and is made smaller whenever a footprint ends inside a
unit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd
from typing import Any

import numpy as np

from ptosim.ground.records import dataclass, field
from ptosim.machine.core import Core, Machine
from ptosim.machine.effects.account import DEFINED, REGISTER, SPECIAL_REGISTER_BYTES, UNDEFINED
from ptosim.machine.effects.strided import Strided

UNIT = 32
REGION = 4 << 20
"""Bytes of a large memory that have a map of their own."""
COARSE = 4096
"""Bytes of a unit of these maps, until something is smaller."""
WIDE = 32 << 20
"""Memories of more bytes are cut into regions."""

_FEW = 64
"""Runs of units that are labelled anew one by one."""
_FEW_RUNS = 32
"""Runs of units that are counted without arrays (7 us instead of 30 for eight)."""

Entry = tuple[int, int, Any, int]
"""An access of an atom: agent, time, what accessed it (an Access; None before the program began),
and which execution of its instruction that was."""
ORIGIN: Entry = (0, 0, None, 0)
"""The writer of bytes that were there before the program began: agent 0 at time 0."""


@dataclass(slots=True, eq=False)
class Atom:
    """Bytes with one history. `write` is the last write, `reads` the reads since then by agent;
    both are (agent, time, access, execution). `taken`: they were read before the first write.
    `owner` is the allocation that wrote last, `lost` the one whose content that overwrote. `trail`:
    how bytes without a value came here (`definedness.Trail`)."""

    label: int
    size: int  # in units
    defined: int
    write: Entry = ORIGIN
    reads: dict[int, Entry] = field(default_factory=dict)
    owner: Any = None
    lost: Any = None
    taken: bool = False
    trail: Any = None

    @property
    def takes_content(self) -> bool:
        """True if what was there before the program began was read, or added to."""
        return self.taken or (self.write[2] is None and bool(self.reads))

    def split(self, label: int, size: int) -> Atom:
        """Return a new atom for `size` units of this one."""
        self.size -= size
        return Atom(
            label, size, self.defined, self.write, dict(self.reads), self.owner, self.lost,
            self.taken, self.trail,
        )  # fmt: skip


class Shadow:
    """The atoms of one memory: a space of a core, or a buffer of global memory. `labels` says which
    atom each unit belongs to, in as few bytes as numbers of atoms have: a buffer whose elements are
    apart has a label for each. `version` counts cuts, `epoch` how often everything was
    forgotten."""

    __slots__ = (
        "at_first", "atoms", "bytes", "epoch", "is_global", "labels", "name", "unit", "version",
    )  # fmt: skip

    def __init__(self, name: str, size: int, defined: int, unit: int = UNIT) -> None:
        self.name = name
        self.bytes = size
        self.at_first = defined
        self.unit = unit
        units = -(-size // self.unit)
        self.labels = np.zeros(units, np.uint8)
        self.atoms = [Atom(0, units, defined)]
        self.version = self.epoch = 0
        self.is_global = False

    def forget(self) -> None:
        """Be one atom again, as at first."""
        self.unit = UNIT
        units = -(-self.bytes // UNIT)
        self.labels = np.zeros(units, np.uint8)
        self.atoms = [Atom(0, units, self.at_first)]
        self.version += 1
        self.epoch += 1

    def release(self) -> None:
        """Let go of what accessed the bytes, and of all else: it is not used any more."""
        for atom in self.atoms:
            atom.write = ORIGIN
            atom.reads.clear()
        self.atoms.clear()

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
        if len(self.atoms) == 1:
            return [self._all(part, view.size, 0)]
        if view.size == 1:
            return [self._all(part, 1, view.item())]
        of_units = view.ravel()
        edges = (of_units[1:] != of_units[:-1]).nonzero()[0]
        if not edges.size:
            return [self._all(part, view.size, int(of_units[0]))]
        firsts, ends = np.zeros((2, edges.size + 1), np.int64)  # of runs of one atom
        firsts[1:] = edges + 1
        ends[:-1], ends[-1] = firsts[1:], of_units.size
        sizes, before = ends - firsts, len(self.atoms)
        of_runs = of_units[firsts]
        labels, which, counts = _counted(of_runs, sizes, before)
        pairs = zip(labels.tolist(), counts.tolist(), strict=True)
        found = [self._whole(label, int(count)) for label, count in pairs]
        if len(self.atoms) == before:
            return found
        made = np.array([atom.label for atom in found])[which]
        moved = (made != of_runs).nonzero()[0]
        if self._widen():
            view = self._view(part)
            of_units = view.ravel()
        if view.flags.c_contiguous and len(moved) <= _FEW:
            for run in moved.tolist():
                of_units[firsts[run] : ends[run]] = made[run]
        else:
            view[...] = np.repeat(made, sizes).reshape(view.shape)
        return found

    def _view(self, part: Strided) -> np.ndarray:
        unit, size = self.unit, self.labels.itemsize
        if not part.dims:
            return self.labels[part.start // unit : (part.start + part.run) // unit]
        shape = (*(n for n, _ in part.dims), part.run // unit)
        strides = (*(d // unit * size for _, d in part.dims), size)
        start = part.start // unit * size
        return np.ndarray(shape, self.labels.dtype, self.labels, start, strides)

    def _widen(self) -> bool:
        """Let the labels have room for all atoms; return if they were written anew."""
        if len(self.atoms) <= 1 << 8 * self.labels.itemsize:
            return False
        self.labels = self.labels.astype(np.min_scalar_type(len(self.atoms) - 1))
        return True

    def _all(self, part: Strided, count: int, label: int) -> Atom:
        """Return the atom of so many units that all belong to one."""
        atom = self.atoms[label]
        if count == atom.size:
            return atom
        made = self._cut(atom, count)
        self._widen()
        self._view(part)[...] = made.label
        return made

    def _whole(self, label: int, count: int) -> Atom:
        """Return an atom of which that many units are meant: itself, or what is cut from it."""
        atom = self.atoms[label]
        return atom if count == atom.size else self._cut(atom, count)

    def _cut(self, atom: Atom, count: int) -> Atom:
        part = atom.split(len(self.atoms), count)
        self.atoms.append(part)
        self.version += 1
        return part

    def _refine(self, granule: int) -> None:
        factor = self.unit // granule
        if len(self.atoms) == 1:  # nothing to copy, and pages that nobody touches cost nothing
            self.labels = np.zeros(len(self.labels) * factor, np.uint8)
        else:
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

    def at(self, place: int) -> Atom:
        """Return the atom that a byte on chip belongs to, without cutting it."""
        return self.atoms[int(self.labels[place // self.unit])]

    def belong(self, places: np.ndarray, atoms: Iterable[Atom]) -> np.ndarray:
        """Return which of some bytes on chip belong to one of these atoms."""
        labels = [atom.label for atom in atoms]
        return np.isin(self.labels[places // self.unit], labels)

    def regions(self) -> Iterator[tuple[int, Shadow]]:
        """Yield the maps that it consists of, each with the first byte that it is of."""
        yield 0, self

    def runs(self, atom: Atom) -> list[tuple[int, int]]:
        """Return the bytes of an atom as ranges."""
        units = np.flatnonzero(self.labels == atom.label)
        ends = np.flatnonzero(np.diff(units) > 1)
        first, last = units[np.r_[0, ends + 1]], units[np.r_[ends, len(units) - 1]]
        pairs = zip(first * self.unit, (last + 1) * self.unit, strict=True)
        return [(int(low), min(int(high), self.bytes)) for low, high in pairs]

    def extent(self, atom: Atom) -> tuple[int, int]:
        """Return the first byte of an atom and the one after its last."""
        places = np.flatnonzero(self.labels == atom.label)
        return int(places[0]) * self.unit, min((int(places[-1]) + 1) * self.unit, self.bytes)


def _counted(
    of_runs: np.ndarray, sizes: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which labels runs of units have, which of these each has, and the units of each:
    labels are below `most`. Many runs are not sorted, which took most of the time where a window
    has a run for each element; few are counted without arrays, which take longer to make."""
    if len(of_runs) <= _FEW_RUNS:
        units: dict[int, int] = {}
        for label, size in zip(of_runs.tolist(), sizes.tolist(), strict=True):
            units[label] = units.get(label, 0) + size
        place = {label: number for number, label in enumerate(sorted(units))}
        which = np.array([place[label] for label in of_runs.tolist()])
        return np.array(list(place)), which, np.array([units[label] for label in place])
    if most > len(of_runs):
        labels, which = np.unique(of_runs, return_inverse=True)
        return labels, which, np.bincount(which, sizes)  # exact: far below 2^53
    counts = np.bincount(of_runs, sizes, most)
    labels = counts.nonzero()[0]
    order = np.zeros(most, np.intp)
    order[labels] = np.arange(len(labels))
    return labels, order[of_runs], counts[labels]


class WideShadow(Shadow):
    """The atoms of a large memory: regions with maps of their own, made when something touches
    them. A window of half a gigabyte costs what the window does, however finely it is cut."""

    __slots__ = ("_defined", "_regions")

    def __init__(self, name: str, size: int, defined: int) -> None:
        super().__init__(name, 0, defined)
        self.bytes = size
        self._defined = defined
        self._regions: dict[int, Shadow] = {}

    def forget(self) -> None:
        """Have no region any more, as at first."""
        self._defined = self.at_first
        self._regions.clear()
        self.version += 1
        self.epoch += 1

    def release(self) -> None:
        """Let go of the regions."""
        for region in self._regions.values():
            region.release()
        self._regions.clear()

    def _region(self, number: int) -> Shadow:
        found = self._regions.get(number)
        if found is None:
            size = min(REGION, self.bytes - number * REGION)
            unit = gcd(size, COARSE)
            unit = unit if unit >= UNIT else UNIT
            found = self._regions[number] = Shadow(self.name, size, self._defined, unit)
        return found

    def resolve(self, parts: tuple[Strided, ...]) -> tuple[Atom, ...]:
        """Return the atoms of some bytes, cutting those that cross the border."""
        found: list[Atom] = []
        for number, piece in (p for part in parts for p in _pieces(part)):
            region = self._region(number)
            before = region.version
            found.extend(region.resolve((piece,)))
            self.version += region.version - before
        return tuple(found)

    def set_states(self, state: int) -> None:
        """Say the same of the values of all bytes."""
        self._defined = state
        for region in self._regions.values():
            region.set_states(state)

    def states(self, places: np.ndarray) -> np.ndarray:
        """Return what is known of the values of some bytes."""
        found = np.full(places.shape, self._defined, np.uint8)
        numbers = places // REGION
        for number in np.unique(numbers):
            chosen = numbers == number
            found[chosen] = self._region(int(number)).states(places[chosen] % REGION)
        return found

    def regions(self) -> Iterator[tuple[int, Shadow]]:
        """Yield the maps that it consists of, each with the first byte that it is of."""
        for number, region in sorted(self._regions.items()):
            yield number * REGION, region

    def runs(self, atom: Atom) -> list[tuple[int, int]]:
        """Return the bytes of an atom as ranges."""
        base, region = self._holder(atom)
        return [(base + low, base + high) for low, high in region.runs(atom)]

    def extent(self, atom: Atom) -> tuple[int, int]:
        """Return the first byte of an atom and the one after its last."""
        base, region = self._holder(atom)
        low, high = region.extent(atom)
        return base + low, base + high

    def _holder(self, atom: Atom) -> tuple[int, Shadow]:
        for base, region in self.regions():
            if atom.label < len(region.atoms) and region.atoms[atom.label] is atom:
                return base, region
        raise ValueError("an atom of another memory")


def shadow_of(name: str, size: int, defined: int) -> Shadow:
    """Return the shadow of a memory."""
    return (WideShadow if size > WIDE else Shadow)(name, size, defined)


def new_shadow(machine: Machine, core: Core, where: Any) -> Shadow:
    """Return what is known of a space of a core, or of a buffer of global memory, at the start."""
    if isinstance(where, int):
        buffer = machine.buffers[where]
        shadow = shadow_of(buffer.name, buffer.size, DEFINED)
        shadow.is_global = True
        return shadow
    if where.startswith(REGISTER):
        return Shadow(where, SPECIAL_REGISTER_BYTES, DEFINED)
    return Shadow(where, core.space(where).size, UNDEFINED)


def _pieces(part: Strided) -> Iterator[tuple[int, Strided]]:
    """Yield the pieces of some bytes that are within one region each: its number, and the bytes
    counted from its first one."""
    start, run, dims = part.start, part.run, part.dims
    if not dims:
        while run > 0:
            number, at = divmod(start, REGION)
            size = min(run, REGION - at)
            yield number, Strided(at, size)
            start, run = start + size, run - size
        return
    (count, step), rest = dims[0], dims[1:]
    size = Strided(0, run, rest).end
    i = 0
    while i < count:
        number, at = divmod(start + i * step, REGION)
        whole = min(count - i, (REGION - at - size) // step + 1)
        if whole < 1:  # it crosses the border of the region
            yield from _pieces(Strided(start + i * step, run, rest))
            i += 1
            continue
        inner = ((whole, step), *rest) if whole > 1 else rest
        yield number, Strided(at, run, inner)
        i += whole


@dataclass(slots=True, eq=False)
class Footprint:
    """The bytes of one operand, and the atoms they are made of at present: `known`, as long as the
    shadow has the same `version`."""

    shadow: Shadow
    parts: tuple[Strided, ...]
    name: str
    owner: Any  # the allocation that the bytes belong to, if it is known
    where: Any = None  # the memory, as instructions name it
    known: tuple[Atom, ...] = ()
    version: int = -1
    is_copied: bool = False  # it goes on as it is, whether it has values or not
    _epoch: int = -1
    _units: int = -1

    def atoms(self) -> tuple[Atom, ...]:
        """Return the atoms of the footprint."""
        shadow = self.shadow
        if self.version != shadow.version:
            if self._epoch != shadow.epoch or self._size() != self._units:
                self.known = shadow.resolve(self.parts)
                self._epoch, self._units = shadow.epoch, self._size()
            self.version = shadow.version
        return self.known

    def _size(self) -> int:
        """The units of the atoms: they change if one is cut, or if units are."""
        return sum([atom.size for atom in self.known])

    def moved(self, distance: int) -> Footprint:
        """Return the same bytes of global memory farther on; the very same of other memories."""
        if not self.shadow.is_global:
            return self
        parts = tuple([Strided(p.start + distance, p.run, p.dims) for p in self.parts])
        return Footprint(self.shadow, parts, self.name, self.owner, self.where)

    def on(self, shadow: Shadow) -> Footprint:
        """Return the same bytes of a memory in another run."""
        made = Footprint(shadow, self.parts, self.name, self.owner, self.where)
        made.is_copied = self.is_copied
        return made

    @property
    def span(self) -> tuple[int, int]:
        """The first byte and the one after the last."""
        return min(p.start for p in self.parts), max(p.end for p in self.parts)

    @property
    def bytes(self) -> int:
        """How many bytes it has."""
        return sum(p.bytes for p in self.parts)
