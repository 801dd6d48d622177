"""Which bytes of global memory a launch touches, without a list of its transfers.

A window of global memory is a box: along each dimension of its view it begins at a number that
follows from constants, arguments, the number of the block and counters of loops. Between which
numbers that lies is followed through the text, so the box of all executions of an operation is
known at once, whatever the number of rounds. Lines of it that are not touched cannot be more than
what was transferred: the smaller of both is what the operation touches.

Bytes that are touched again come from L2 as far as it still has them. Where a launch touches more
than it keeps, its rounds (all blocks at once, a round of the outermost loop) are followed box by
box: what came in since took the place of any line, so ever less of a box is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from math import exp, inf
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.types import ViewType
from ptosim.ground.isa.costs import CostTable
from ptosim.ground.records import dataclass, field
from ptosim.language.same_blocks import global_windows, loops_around, passes_by_l2, roots_of
from ptosim.language.toolchains import BLOCK
from ptosim.launch.intervals import Numbers, Range, is_one
from ptosim.launch.lines import Box, Placed, joined, line_share, merged, placed, union_of
from ptosim.machine.affine import now
from ptosim.machine.core import SLOT_BLOCK_NUM, SLOT_SUBBLOCK, Core
from ptosim.time.report.figures import Figures, Footprint

MIB = 1 << 20
MOST_PLACES = 1 << 14
"""Pairs of a block and a round that are followed one by one; more rounds are joined."""


class Footprints:
    """What a launch touches that was executed on some cores, for a report with any figures: windows
    are followed once, what L2 keeps of them is asked anew (`calibrate` asks a thousand times)."""

    def __init__(self, program: Any, cores: Sequence[Core], functions: Iterable[Any]) -> None:
        self._of = program, cores, list(functions)
        self._known: dict[int, _Launch] = {}

    def __call__(self, report: Figures) -> Footprint:
        hbm = report.table.rows.get("machine.hbm")
        granule = int(hbm.get("granule", 1)) if hbm is not None else 1
        if granule not in self._known:
            self._known[granule] = _Launch(report, granule, *self._of)
        return self._known[granule].footprint(report.table)


def number_of(value: Value, *, program: Any, cores: Sequence[Core], blocks: int) -> Any:
    """Return a number that the launch tells: an argument, how many blocks or halves there are."""
    op = value.owner
    if op is not None and op.has("tells_core"):
        word = op.name.rpartition(".")[2]
        if word == "get_block_num":
            return blocks
        slot = SLOT_BLOCK_NUM + 1 if word == "get_subblock_num" else SLOT_SUBBLOCK
    else:
        found = program.slots.get(value)
        if found is None:
            return None
        slot = found
    for core in cores:
        number = now(core.slots[slot]) if slot < len(core.slots) else None
        if number.__class__ is int:
            return number
    return None


@dataclass(slots=True, eq=False)
class _Use:
    """An operation that moves bytes: the windows, and how many bytes in whole lines."""

    op: Operation
    direction: str
    line: int
    adds: bool = False
    bytes: int = 0
    windows: list[Value] = field(default_factory=list)


_Pairs = list[tuple[_Use, Box | None]]
"""Operations on a buffer, each with the part that it touches; None where data say it."""


# -- boxes ---------------------------------------------------------------------------------------


class _Launch:
    """The transfers of a launch and their windows."""

    def __init__(
        self,
        report: Figures,
        granule: int,
        program: Any,
        cores: Sequence[Core],
        functions: Sequence[Any],
    ) -> None:
        self.report, self.granule, self.program = report, granule, program
        self.blocks = report.blocks.count
        told = partial(number_of, program=program, cores=cores, blocks=self.blocks)
        self.numbers = Numbers(told, self.blocks, functions)
        self.roots: dict[int, Value] = {}
        for function in functions:
            self.roots.update(roots_of(function.ops))
        self.uses = self._uses()
        self.places: dict[int, Placed | None] = {}

    def _uses(self) -> list[_Use]:
        found: dict[tuple[int, str], _Use] = {}
        blocks = self.report.blocks
        times = blocks.count if blocks.is_one_for_all else 1
        for step, count, _ in self.report.executed:
            moved = step.cost.moved
            if moved is None or step.site.pc >= len(self.program.insts):
                continue
            op = self.program.insts[step.site.pc].op
            if op is None:
                continue
            use = found.setdefault(
                (step.site.pc, moved.direction),
                _Use(op, moved.direction, step.site.line, moved.adds),
            )
            use.bytes += moved.bytes * count * times
        for use in found.values():
            use.windows = list(global_windows(use.op, writes=use.direction == "write"))
        return list(found.values())

    def footprint(self, table: CostTable) -> Footprint:
        """Return the account: what comes from HBM of what the L2 of a table may hold, and the
        rest."""
        touched, passed, aside, rest = self._windows
        unique = {**touched, "read": touched["read"] - aside}
        unsure, both, less = rest
        far = dict(unique)
        l2 = table.rows.get("machine.l2")  # without a row there is room for everything
        room = l2["mib"] * MIB * l2.get("kept", 1) if l2 is not None else inf
        moved = self.report.moved()
        moved["read"] -= min(passed, moved["read"])
        again = sum(moved.values()) > sum(unique.values())
        if l2 is not None and again and sum(unique.values()) > room:
            found = self._in_rounds(l2["mib"] * MIB)
            far = {d: min(max(found[d], unique[d]), max(moved[d], unique[d])) for d in unique}
        return Footprint(
            touched["read"], touched["write"], far["read"], far["write"], unsure, *self._together,
            passed, aside, both, less,
        )  # fmt: skip

    @cached_property
    def _windows(self) -> tuple[dict[str, int], int, int, tuple[int, int, int]]:
        """What no figure of L2 changes: bytes that are touched, by direction; those that pass by
        it; those that are read nowhere else; the last three of `_unique`."""
        passing = [use for use in self.uses if passes_by_l2(use.op)]
        unique, unsure, both, less = self._unique()
        if not passing:
            return unique, 0, 0, (unsure, both, less)
        self.uses = [use for use in self.uses if use not in passing]
        passed = sum(use.bytes * self._lines(use) for use in passing)
        held, _, both, less = self._unique()
        return unique, int(passed), unique["read"] - held["read"], (unsure, both, less)

    def _unique(self) -> tuple[dict[str, int], int, int, int]:
        """Bytes that are touched, by direction; those of buffers with a place that depends on
        data; those of lines that are read and written; and how many less all may be."""
        unique, unsure, both, less = {"read": 0, "write": 0}, 0, 0, 0
        known: dict[Any, _Pairs] = {}
        for direction in unique:
            of_buffer: dict[Any, _Pairs] = {}
            for use in self.uses:
                if use.direction == direction:
                    box = self._box(use)
                    key = box.buffer if box is not None else use.op
                    of_buffer.setdefault(key, []).append((use, box))
            for key, pairs in of_buffer.items():
                touched, least = self._touched(pairs)
                unique[direction] += touched
                less += touched - least
                if any(box is None for _, box in pairs):
                    unsure += touched
                elif key in known:
                    both += self._shared(known[key], pairs)
                else:
                    known[key] = pairs
        return unique, unsure, both, less

    def _touched(self, pairs: _Pairs) -> tuple[int, int]:
        """Bytes of a buffer that some operations touch in whole lines, and what they are at least:
        less where not all of windows with holes between them are listed."""
        moved = sum(use.bytes for use, _ in pairs)
        boxes = [box for _, box in pairs if box is not None]
        if len(boxes) < len(pairs):
            return moved, moved
        total = union_of(boxes, self.granule)
        lines = max((line_share(box, self.granule) for box in boxes), default=1)
        touched = min(int(total), int(moved * lines))
        places = self._holes(pairs)
        if places is not None:
            listed = joined(place.runs(self.granule) for place in places)
            known = listed.lines() * self.granule
            if all(place.is_certain for place in places):
                return (known, known) if listed.is_whole else (max(touched, known), known)
            touched = min(touched, known) if listed.is_whole else touched
        return touched, min(touched, self._at_least(pairs, lines))

    def _at_least(self, pairs: _Pairs, lines: float) -> int:
        """Bytes of lines that operations touch at least: where a condition decides which of their
        windows are moved, those that share most of their lines may be."""
        places = [place for use, _ in pairs if (place := self._placed(use)) is not None]
        if len(places) < len(pairs) or all(place.is_certain for place in places):
            return int(sum(use.bytes for use, _ in pairs) * lines)
        granule = self.granule
        every = joined(place.runs(granule) for place in places)
        if not every.is_whole:  # as if windows that are not the same share no lines
            each = zip(pairs, places, strict=True)
            return int(sum(use.bytes / place.times for (use, _), place in each) * lines)
        each = zip(pairs, places, strict=True)
        moved = sum(use.bytes / min(place.row_bytes(), granule) for (use, _), place in each)
        return int(-(-moved // every.most())) * granule

    def _shared(self, reads: _Pairs, writes: _Pairs) -> int:
        """Bytes of the lines of a buffer that are read and written."""
        if self._holes(reads, writes) is not None:
            places = [[self._placed(use) for use, _ in pairs] for pairs in (reads, writes)]
            runs = [
                joined(p.runs(self.granule) for p in merged(p for p in each if p is not None))
                for each in places
            ]
            counts = [each.lines() for each in (*runs, joined(runs))]
            return (counts[0] + counts[1] - counts[2]) * self.granule
        boxes = [[box for _, box in pairs if box is not None] for pairs in (reads, writes)]
        areas = [union_of(each, self.granule) for each in boxes]
        common = max(sum(areas) - union_of(boxes[0] + boxes[1], self.granule), 0)
        least = min(self._touched(reads)[0], self._touched(writes)[0])
        return int(common / max(min(areas), 1) * least)

    def _placed(self, use: _Use) -> Placed | None:
        """The windows of an operation; None where they are not known."""
        key = id(use)
        if key not in self.places:
            self.places[key] = None
            if len(use.windows) == 1:
                window = use.windows[0]
                self.places[key] = placed(
                    self.numbers, use.op, window, self.blocks, partial(self._of_window, window)
                )
        return self.places[key]

    def _holes(self, *pairs: _Pairs) -> list[Placed] | None:
        """The windows of some operations if all are known and some leave holes in their box."""
        places = [self._placed(use) for each in pairs for use, _ in each]
        if any(place is None for place in places):
            return None
        known = merged(place for place in places if place is not None)
        return None if all(place.fills() for place in known) else known

    def _lines(self, use: _Use) -> float:
        box = self._box(use)
        return line_share(box, self.granule) if box is not None else 1.0

    def _box(self, use: _Use) -> Box | None:
        """The box of all executions of an operation; None where it is not known."""
        return self._of_window(use.windows[0]) if len(use.windows) == 1 else None

    def _of_window(self, window: Value) -> Box | None:
        numbers, type_ = self.numbers, window.type
        first: list[Any] = []
        end: list[Any] = []
        window_of: tuple[Any, ...] = ()
        op = window.owner
        while op is not None and op.has("window"):
            offsets = [numbers.operand(o) for o in op.bound.get("offsets") or ()]
            sizes = [numbers.operand(o) for o in op.bound.get("sizes") or ()]
            if any(r is None for r in (*offsets, *sizes)) or len(offsets) != len(sizes):
                return None
            if not first:
                first, end = [0] * len(sizes), [s[1] for s in sizes if s is not None]
                window_of = tuple(end)
            if len(first) != len(offsets):
                return None
            first = [f + o[0] for f, o in zip(first, offsets, strict=True) if o is not None]
            end = [e + o[1] for e, o in zip(end, offsets, strict=True) if o is not None]
            window = op.bound["source"].value
            op = window.owner if window is not None else None
        if op is None or not op.has("view") or not isinstance(type_, ViewType):
            return None
        return self._of_view(op, type_, first, end, window_of)

    def _of_view(
        self,
        op: Operation,
        type_: ViewType,
        first: list[Any],
        end: list[Any],
        window: tuple[Any, ...],
    ) -> Box | None:
        numbers = self.numbers
        shape = [numbers.operand(o) for o in op.bound.get("shape") or ()]
        strides = [numbers.operand(o) for o in op.bound.get("strides") or ()]
        pointer: Value | None = op.bound["ptr"].value
        known = all(r is not None and is_one(r) for r in strides)
        if not known or pointer is None or any(r is None for r in shape):
            return None
        if not first:
            first, end = [0] * len(shape), [s[1] for s in shape if s is not None]
        if len(first) != len(shape) or len(first) != len(strides):
            return None
        end = [np.minimum(e, s[1]) for e, s in zip(end, shape, strict=True) if s is not None]
        end = [np.maximum(e, f) for f, e in zip(first, end, strict=True)]
        base = self._base(pointer)
        if base is None:
            return None
        steps = tuple(int(np.max(s[0])) for s in strides if s is not None)
        root: Value = self.roots.get(id(pointer)) or pointer
        name = root.name if root.is_argument else root
        item = type_.elem.bits / 8  # type: ignore[union-attr]
        return Box((name, base, steps), tuple(first), tuple(end), steps, item, window)

    def _base(self, pointer: Value) -> int | None:
        """How many elements a pointer is after its root; None if blocks or rounds decide it."""
        total, op = 0, pointer.owner
        while op is not None and op.has("points_into"):
            offset = self.numbers.operand(op.bound.get("offset"))
            if offset is None or not is_one(offset) or np.ndim(offset[0]):
                return None
            total += int(offset[0])
            inner = op.bound["ptr"].value
            op = inner.owner if inner is not None else None
        return total

    # -- what is touched again -------------------------------------------------------------------

    def _in_rounds(self, size: float) -> dict[str, int]:
        """Bytes from HBM if L2 has so many bytes and what comes in takes the place of any line: of
        a box the part exp(-bytes that came in since / size) is still there."""
        came = 0.0
        since: dict[Any, float] = {}
        far = {"read": 0.0, "write": 0.0}
        for loop, uses in self._outer_loops():
            for direction, key, bytes_ in self._places(loop, uses):
                before = since.get(key)
                missed = bytes_ if before is None else bytes_ * (1 - exp((before - came) / size))
                far[direction] += missed
                came += missed
                since[key] = came
        self.numbers.pin({})
        return {d: int(n) for d, n in far.items()}

    def _outer_loops(self) -> list[tuple[Operation | None, list[_Use]]]:
        groups: dict[Operation | None, list[_Use]] = {}
        for use in self.uses:
            loops = loops_around(use.op)
            groups.setdefault(loops[-1] if loops else None, []).append(use)
        return list(groups.items())

    def _places(self, loop: Operation | None, uses: list[_Use]) -> Iterator[tuple[str, Any, float]]:
        """Yield direction, box and bytes of what a loop touches, all blocks a round together."""
        rounds, alive = self._pin(loop)
        shape = (rounds, self.blocks)
        columns = _joined([c for use in uses if (c := self._column(use, shape)) is not None])
        for use in uses:
            if self._box(use) is None:
                yield use.direction, use.op, float(use.bytes)
        for r in range(rounds):
            for direction, box, keys, sizes, _ in columns:
                for b in range(self.blocks):
                    if alive[r, b]:
                        yield direction, (box.buffer, *keys[:, r, b].tolist()), float(sizes[r, b])

    def _column(self, use: _Use, shape: tuple[int, int]) -> Any:
        box = self._box(use)
        if box is None:
            return None
        ends = [np.broadcast_to(x, shape) for x in (*box.first, *box.end)]
        sizes = np.broadcast_to(np.asarray(box.bytes(self.granule), dtype=float), shape)
        return use.direction, box, np.stack(ends), sizes, self.granule

    def _pin(self, loop: Operation | None) -> tuple[int, Any]:
        """Pin the block and the counter of a loop; return the rounds, and in which of them a block
        takes part."""
        numbers = self.numbers
        numbers.pin({})
        block = np.arange(self.blocks, dtype=np.int64)[None, :]
        pinned: dict[Any, Range] = {BLOCK: (block, block)}
        numbers.pin(pinned)
        one = np.ones((1, self.blocks), dtype=bool)
        if loop is None or not loop.has("counted") or not loop.regions[0].blocks[0].values:
            return 1, one
        lower, upper, step = (
            numbers.operand(loop.bound.get(n)) for n in ("lower", "upper", "step")
        )
        if lower is None or upper is None or step is None or np.any(step[0] <= 0):
            return 1, one
        count = int(np.max(-(-(upper[1] - lower[0]) // step[0])))
        most = max(MOST_PLACES // self.blocks, 8)
        joined = max(-(-count // most), 1)
        first = np.arange(0, max(count, 1), joined, dtype=np.int64)[:, None]
        low = lower[0] + first * step[0]
        high = np.minimum(low + (joined - 1) * step[0], np.maximum(upper[1] - 1, low))
        pinned[loop.regions[0].blocks[0].values[0]] = low, high
        numbers.pin(pinned)
        alive = np.broadcast_to(low < upper[1], (len(first), self.blocks))
        return len(first), alive

    @cached_property
    def _together(self) -> tuple[frozenset[int], tuple[tuple[int, int], ...]]:
        """Lines of the program whose loads all blocks of a wave begin at the same address, and
        those that add to memory, with how many blocks of a wave begin at one."""
        found, adding = set(), {}
        wave = min(self.report.blocks.at_once, self.blocks)
        for loop, uses in self._outer_loops() if wave > 1 else ():
            self._pin(loop)
            for use in uses:
                box = self._box(use) if use.direction == "read" or use.adds else None
                most = _at_one_place(box, wave) if box is not None else 1
                if use.adds and most > 1:
                    adding[use.line] = max(most, adding.get(use.line, 0))
                elif most == wave:
                    found.add(use.line)
        self.numbers.pin({})
        return frozenset(found), tuple(adding.items())


def _joined(columns: list[Any]) -> list[Any]:
    """Join operations that share a buffer where their box together is no more than theirs alone:
    parts of one loop that was unrolled."""
    found: dict[Any, Any] = {}
    for column in columns:
        direction, box, ends, sizes, granule = column
        key = direction, box.buffer
        old = found.get(key)
        if old is None:
            found[key] = column
            continue
        rank = len(box.first)
        both = np.concatenate(
            [np.minimum(ends[:rank], old[2][:rank]), np.maximum(ends[rank:], old[2][rank:])]
        )
        whole = Box(
            box.buffer, tuple(both[:rank]), tuple(both[rank:]), box.strides, box.item
        ).bytes(granule)
        if np.sum(whole) <= (np.sum(sizes) + np.sum(old[3])) * 1.01:
            found[key] = direction, box, both, np.broadcast_to(whole, sizes.shape), granule
        else:
            found[key, len(found)] = column
    return list(found.values())


def _at_one_place(box: Box, blocks: int) -> int:
    """How many of the first blocks begin at the same place in the first round, at most."""
    firsts = []
    for x in box.first:
        first = np.asarray(x)
        while first.ndim > 1:
            first = first[0]
        firsts.append(np.broadcast_to(first.ravel()[:blocks], (blocks,)))
    return int(np.unique(np.stack(firsts), axis=1, return_counts=True)[1].max())
