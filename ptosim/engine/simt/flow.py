"""Control flow of all threads of a launch at once: who takes a branch or stays in a loop is a mask.
Where every thread goes the same way there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Block, Operation, Region, Value, walk
from ptosim.ground.limits import current
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.ops.simt.arithmetic import as_signed, merged
from ptosim.ops.simt.frame import MAX_EXECUTED, Divergence, Frame, Lanes, Run

ROUNDS = 64
"""Rounds of the loops of a launch after which it looks at the limits."""


class Ways(NamedTuple):
    """One way through an operation: what runs, and the slots of what it hands on."""

    run: Run
    values: list[int]


def nothing(frame: Frame) -> None:
    """A way that is not there."""


def copier(sources: Sequence[int], targets: Sequence[int]) -> Run:
    """Assign several slots at once, as if in parallel."""
    pairs = list(zip(sources, targets, strict=False))
    if not pairs:
        return lambda frame: None
    if len(pairs) == 1:
        ((source, target),) = pairs

        def copy_one(frame: Frame) -> None:
            frame.values[target] = frame.values[source]

        return copy_one

    def copy(frame: Frame) -> None:
        values = frame.values
        found = [values[s] for s, _ in pairs]
        for (_, target), value in zip(pairs, found, strict=True):
            values[target] = value

    return copy


def is_uniform(value: Lanes) -> bool:
    """True for a value that is the same for every thread."""
    return value.shape[-1] == 1


@dataclass(slots=True, eq=False)
class Flow:
    """The control flow of one operation."""

    op: Operation

    # -- branches ---------------------------------------------------------------------------------

    def branch(self, condition: int, then: Ways, other: Ways, results: list[int]) -> Run:
        """Return the function of a branch with two ways."""
        take, leave = copier(then.values, results), copier(other.values, results)
        op = self.op

        def run(frame: Frame) -> None:
            holds, mask = frame.values[condition], frame.mask
            again = frame.parted.get(op)
            if again is not None and again[0] is holds and again[1].present is mask:
                _apart(frame, again[1], then, other, results)
                return
            if is_uniform(holds):
                whole = bool(holds[0])
            else:
                taken = holds if mask is None else holds & mask
                count = np.count_nonzero(taken)
                total = frame.threads if mask is None else np.count_nonzero(mask)
                if count and count != total:
                    parted = Divergence(op, frame.one_mask(taken), mask)
                    frame.parted[op] = holds, parted
                    _apart(frame, parted, then, other, results)
                    return
                whole = bool(count)
            if whole:
                then.run(frame)
                take(frame)
            else:
                other.run(frame)
                leave(frame)

        return run

    def choose(self, selector: int, cases: list[int], ways: list[Ways], results: list[int]) -> Run:
        """Return the function of a choice of one way of several; the last is the default."""
        op = self.op

        def run(frame: Frame) -> None:
            choice, mask = frame.values[selector], frame.mask
            if is_uniform(choice):
                number = int(choice[0])
                way = ways[cases.index(number)] if number in cases else ways[-1]
                way.run(frame)
                copier(way.values, results)(frame)
                return
            rest = np.ones(frame.threads, bool) if mask is None else mask.copy()
            held: list[Any] = [None] * len(results)
            frame.divergences.append(Divergence(op, rest, mask))
            for number, way in [*zip(cases, ways, strict=False), (None, ways[-1])]:
                taken = rest if number is None else rest & (choice == number)
                rest = rest & ~taken
                if taken.any():
                    frame.mask = None if taken.all() else taken
                    way.run(frame)
                    held = _joined(taken, [frame.values[s] for s in way.values], held)
            frame.divergences.pop()
            frame.mask = mask
            _put(frame, results, held)

        return run

    # -- loops ------------------------------------------------------------------------------------

    def count(
        self,
        bounds: Sequence[int | None],
        variable: int,
        initial: list[int],
        carried: list[int],
        body: Ways,
        results: list[int],
    ) -> Run:
        """Return the function of a counted loop."""
        enter, again = copier(initial, carried), copier(body.values, carried)
        leave, op = copier(carried, results), self.op

        def run(frame: Frame) -> None:
            values = frame.values
            found = [as_signed(values[b]) for b in bounds]  # type: ignore[index]
            enter(frame)
            if not all(map(is_uniform, found)):
                _count_apart(frame, op, found, variable, carried, body)
                leave(frame)
                return
            kind = values[bounds[0]].dtype  # type: ignore[index]
            low, high, step = (int(b[0]) for b in found)
            _check_step(frame, op, step)
            for number in range(low, high, step):
                values[variable] = np.array([number], kind)
                body.run(frame)
                again(frame)
                spend(frame, op)
            leave(frame)

        return run

    def repeat(
        self,
        enter: tuple[list[int], list[int]],
        test: Ways,
        condition: int,
        second: list[int],
        body: Ways,
        results: list[int],
    ) -> Run:
        """Return the function of a loop with a condition region."""
        start, on = copier(*enter), copier(test.values, second)
        again, op = copier(body.values, enter[1]), self.op

        def run(frame: Frame) -> None:
            outer = live = frame.mask
            held: list[Any] = [None] * len(results)
            start(frame)
            frame.divergences.append(Divergence(op, frame.ids >= 0, outer))
            while True:
                test.run(frame)
                holds = frame.values[condition]
                passed = [frame.values[s] for s in test.values]
                if is_uniform(holds):
                    stays = live if holds[0] else None
                    leaving = None if holds[0] else live
                    ends = not holds[0]
                else:
                    stays = holds if live is None else holds & live
                    leaving = ~holds if live is None else live & ~holds
                    ends = not stays.any()
                if ends or leaving is not None:
                    held = _joined(leaving, passed, held)
                if ends:
                    break
                live = frame.mask = None if stays is None or stays.all() else stays
                on(frame)
                body.run(frame)
                again(frame)
                spend(frame, op)
            frame.divergences.pop()
            frame.mask = outer
            _put(frame, results, held)

        return run


def _apart(frame: Frame, parted: Divergence, then: Ways, other: Ways, results: list[int]) -> None:
    """Execute both ways, each with the threads that take it."""
    taken, mask = parted.taken, parted.present
    frame.divergences.append(parted)
    if frame.recorder is not None:
        frame.recorder.parted(frame, parted.op, taken)
    frame.mask = taken
    then.run(frame)
    one = [frame.values[s] for s in then.values]
    if other.run is not nothing:
        frame.mask = frame.one_mask(~taken if mask is None else mask & ~taken)
        other.run(frame)
    two = [frame.values[s] for s in other.values]
    frame.mask = mask
    frame.divergences.pop()
    if results:
        _put(frame, results, [merged(taken, a, b) for a, b in zip(one, two, strict=False)])


def _count_apart(
    frame: Frame,
    op: Operation,
    bounds: list[Lanes],
    variable: int,
    carried: list[int],
    body: Ways,
) -> None:
    """A counted loop whose threads take different numbers of rounds."""
    outer, values = frame.mask, frame.values
    low, high, step = bounds
    smallest = frame.full(step)[frame.active()].min() if frame.threads else 1
    _check_step(frame, op, int(smallest))
    number = frame.full(low)
    live = frame.full(number < high)
    live = live if outer is None else live & outer
    frame.divergences.append(Divergence(op, live, outer))
    while live.any():
        if frame.recorder is not None:
            frame.recorder.parted(frame, op, live)
        frame.mask = None if live.all() else live
        values[variable] = number
        body.run(frame)
        new = [values[s] for s in body.values]
        old = [values[s] for s in carried]
        _put(frame, carried, [merged(live, n, o) for n, o in zip(new, old, strict=False)])
        number = number + step
        live = live & (number < high)
        spend(frame, op)
    frame.divergences.pop()
    frame.mask = outer


def _joined(taken: Lanes | None, new: list[Any], held: list[Any]) -> list[Any]:
    """Values in the lanes that `taken` says (None: in all), what was held before in the others."""
    if taken is None:
        return new
    return [n if h is None else merged(taken, n, h) for n, h in zip(new, held, strict=False)]


def _put(frame: Frame, slots: list[int], values: Sequence[Any]) -> None:
    for slot, value in zip(slots, values, strict=False):
        frame.values[slot] = value


def _executed(frame: Frame) -> int:
    """Instructions of a launch so far; each round counts as one more, for it may have no other."""
    return frame.executed + frame.rounds


def _check_step(frame: Frame, op: Operation, step: int) -> None:
    if step <= 0:
        raise frame.fault("PTO6006", op, f"has the step {step}; it must be positive")


def spend(frame: Frame, op: Operation | None) -> None:
    """Fault at a loop that does not end; look at the limits now and then."""
    frame.rounds += 1
    if op is not None and not frame.rounds % ROUNDS:
        current().count(_executed(frame), "a launch of threads", lambda: str(op.span(frame.source)))
    if op is not None and _executed(frame) > MAX_EXECUTED:
        raise frame.fault(
            "PTO7308",
            op,
            f"has not ended after {_executed(frame):,} instructions of its launch",
            help="look for threads that never leave the loop",
        )


# -- blocks of control flow ------------------------------------------------------------------------


Slot = Callable[[Value], int]
Choose = Callable[[Frame, Lanes], Sequence[Lanes]]
"""From the threads that leave a block to those of each way on."""


@dataclass(slots=True, eq=False)
class Way:
    """A block to go on in (its place in the order), and what its arguments become."""

    to: int
    sources: list[int]
    targets: list[int]


@dataclass(slots=True, eq=False)
class Part:
    """A block: what runs, the slots that other blocks use, and the ways on, none at the end. `ends`
    copies the values that a function returns."""

    op: Operation | None
    run: Run
    seen: list[int]
    ways: list[Way]
    choose: Choose
    ends: tuple[list[int], list[int]]


def in_order(region: Region) -> list[Block]:
    """Return the blocks that can be reached, each after those that lead to it but by loops."""
    done: list[Block] = []
    entered: set[Block] = set()

    def visit(block: Block) -> None:
        entered.add(block)
        for jump in reversed(block.ops[-1].jumps if block.ops else ()):
            if jump.block not in entered:
                visit(jump.block)
        done.append(block)

    visit(region.blocks[0])
    return done[::-1]


def used_elsewhere(blocks: Sequence[Block]) -> list[list[Value]]:
    """Return for each block the values made in it that others use."""
    uses = []
    for block in blocks:
        ops = walk(block.ops)
        jumps = (o.value for op in ops for jump in op.jumps for o in jump.values)
        uses.append({v for op in ops for v in op.operand_values()} | {v for v in jumps if v})
    return [
        [
            value
            for op in block.ops
            for value in op.results
            if any(value in used for at, used in enumerate(uses) if at != number)
        ]
        for number, block in enumerate(blocks)
    ]


def run_parts(parts: list[Part]) -> Run:
    """Return the function that executes the blocks."""

    def run(frame: Frame) -> None:
        outer = frame.mask
        everybody = np.ones(frame.threads, bool) if outer is None else outer
        waiting: dict[int, Lanes] = {0: everybody}
        apart: Operation | None = None
        while waiting:
            number = min(waiting)
            mask = waiting.pop(number)
            part = parts[number]
            frame.mask = outer if mask is everybody else None if mask.all() else mask
            if apart is not None and frame.mask is not None:
                frame.divergences.append(Divergence(apart, mask, outer))
                _execute(frame, part, mask)
                frame.divergences.pop()
            else:
                _execute(frame, part, mask)
            taken = part.choose(frame, mask)
            for way, lanes in zip(part.ways, taken, strict=True):
                if not lanes.any():
                    continue
                before = waiting.get(way.to)
                waiting[way.to] = lanes if before is None else before | lanes
                _assign(frame, lanes, way.sources, way.targets)
            if len(part.ways) > 1 and sum(1 for lanes in taken if lanes.any()) > 1:
                apart = part.op
            if not part.ways:
                _assign(frame, mask, *part.ends)
            spend(frame, part.op)
        frame.mask = outer

    return run


def _execute(frame: Frame, part: Part, mask: Lanes) -> None:
    """Execute a block; other threads keep what they had."""
    values = frame.values
    before = [values[s] for s in part.seen]
    part.run(frame)
    if frame.mask is not None:
        for slot, old in zip(part.seen, before, strict=True):
            values[slot] = _over(mask, values[slot], old)


def _assign(frame: Frame, mask: Lanes, sources: list[int], targets: list[int]) -> None:
    """Several slots at once, for some threads."""
    values, is_all = frame.values, bool(mask.all())
    found = [values[s] for s in sources]
    for slot, value in zip(targets, found, strict=True):
        values[slot] = value if is_all else _over(mask, value, values[slot])


def _over(mask: Lanes, new: Any, old: Any) -> Any:
    return new if old is None else merged(mask, new, old)
