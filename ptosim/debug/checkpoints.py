"""Checkpoints of a run: pages of memory that did not change are shared, and checkpoints are spread
out as the run gets longer, so that a run of any length keeps within one budget."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from ptosim.ground.records import dataclass, replace
from ptosim.machine.core import CoreState, MachineState

PAGE = 1 << 16
BUDGET = 256 << 20
"""Bytes that the checkpoints of a run may hold together."""
KEPT = 512
"""Checkpoints that a run may have; beyond them they are spread out to half as many."""

Pages = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All state after `position` instructions, `executed` with those of vector regions. `turn` is
    the core that goes on (-1: none), `prints` the number of texts printed so far, `time` the state
    of the timing model, if there is one."""

    position: int
    executed: int
    turn: int
    prints: int
    state: MachineState
    spaces: tuple[dict[str, Pages], ...]
    buffers: tuple[Pages, ...]
    time: Any

    def machine_state(self) -> MachineState:
        """Return the state with its memory put together again."""
        cores = tuple(
            replace(core, spaces={name: b"".join(pages) for name, pages in spaces.items()})
            for core, spaces in zip(self.state.cores, self.spaces, strict=True)
        )
        return replace(self.state, cores=cores, buffers=tuple(map(b"".join, self.buffers)))

    def pages(self) -> Iterator[bytes]:
        """Yield every page of memory."""
        for spaces in self.spaces:
            for pages in spaces.values():
                yield from pages
        for pages in self.buffers:
            yield from pages


def make_checkpoint(
    at: tuple[int, int],
    turn: int,
    prints: int,
    state: MachineState,
    time: Any,
    like: Checkpoint | None,
) -> Checkpoint:
    """Return a checkpoint at (position, executed) that shares its equal pages with `like`."""
    spaces = []
    for index, core in enumerate(state.cores):
        known = like.spaces[index] if like is not None else {}
        spaces.append({n: _paged(d, known.get(n, ())) for n, d in core.spaces.items()})
    known_buffers = like.buffers if like is not None else ((),) * len(state.buffers)
    buffers = tuple(_paged(d, k) for d, k in zip(state.buffers, known_buffers, strict=True))
    empty: tuple[CoreState, ...] = tuple(replace(core, spaces={}) for core in state.cores)
    bare = replace(state, cores=empty, buffers=())
    return Checkpoint(*at, turn, prints, bare, tuple(spaces), buffers, time)


def _paged(data: bytes, known: Pages) -> Pages:
    pages = []
    for number, start in enumerate(range(0, len(data), PAGE)):
        page = data[start : start + PAGE]
        if number < len(known) and known[number] == page:
            page = known[number]
        pages.append(page)
    return tuple(pages)


class Checkpoints:
    """The checkpoints of a run, in order of position."""

    def __init__(self, budget: int = BUDGET, kept: int = KEPT) -> None:
        self.budget = budget
        self.kept = kept
        self._all: list[Checkpoint] = []
        self._positions: list[int] = []
        self._held = 0  # at most so many bytes; counted anew when it passes the budget
        self._gap = 1  # instructions between two checkpoints, at least

    def __len__(self) -> int:
        return len(self._all)

    def before(self, position: int) -> Checkpoint:
        """Return the last checkpoint at or before a position; there is always one at 0."""
        return self._all[bisect_right(self._positions, position) - 1]

    def latest(self) -> Checkpoint | None:
        """Return the checkpoint furthest into the run."""
        return self._all[-1] if self._all else None

    def newest_first(self) -> list[Checkpoint]:
        """Return the checkpoints there are now, the one furthest into the run first."""
        return self._all[::-1]

    def takes(self, position: int) -> bool:
        """True if a checkpoint at a position is far enough after the latest one."""
        return not self._all or position - self._positions[-1] >= self._gap

    def add(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint; spreads the others out when there are too many, or too many bytes."""
        at = bisect_right(self._positions, checkpoint.position)
        if at and self._positions[at - 1] == checkpoint.position:
            return
        known = {id(page) for page in self._all[at - 1].pages()} if at else set()
        self._held += sum(len(page) for page in checkpoint.pages() if id(page) not in known)
        self._all.insert(at, checkpoint)
        self._positions.insert(at, checkpoint.position)
        while len(self._all) > 2 and self._is_full():
            self._thin()

    def _is_full(self) -> bool:
        if self._held > self.budget:
            self._held = self.bytes()
        return len(self._all) > self.kept or self._held > self.budget

    def bytes(self) -> int:
        """Return the bytes of all pages, shared ones counted once."""
        seen = {id(page): len(page) for c in self._all for page in c.pages()}
        return sum(seen.values())

    def _thin(self) -> None:
        """Keep at most half of the checkpoints, evenly over the run, the first one and the latest
        among them, and take new ones no closer than those are. Evenly, because the way back is
        never longer than the widest gap."""
        self._gap = 2 * (self._positions[-1] - self._positions[0]) // len(self._all) + 1
        kept = self._all[:1]
        for checkpoint in self._all[1:-1]:
            if checkpoint.position - kept[-1].position >= self._gap:
                kept.append(checkpoint)
        self._all = [*kept, self._all[-1]]
        self._positions = [c.position for c in self._all]
