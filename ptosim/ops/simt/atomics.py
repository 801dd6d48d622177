"""Atomic updates of memory by threads: each reads the old value and writes a new one, and none
comes between. Threads that update one element come in the order of their linear ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.records import dataclass
from ptosim.machine.numbers.lanes import of
from ptosim.ops.base.binding import OpFault
from ptosim.ops.simt.arithmetic import extreme
from ptosim.ops.simt.frame import Frame, LaneContext, Lanes, Run, lanes
from ptosim.ops.simt.memory import Element, element_of

Update = Callable[[Lanes, Lanes], Lanes]
"""From old values and operands to new values, lane by lane."""

MAX_ROUNDS = 64
"""Rounds in which elements that many threads update are done side by side; of longer ones each is
done by itself."""


def _update(word: str, kind: np.dtype, *, unsigned: bool) -> Update:
    if word == "exch":
        return lambda old, given: given
    if word in ("max", "min"):
        return extreme(word, kind, unsigned=unsigned)
    return of(word, kind)


@dataclass(slots=True)
class _Group:
    """The updates of elements: which element of memory each thread means, in the order of ids.
    `firsts` and `counts` say where the updates of one element are in `order`."""

    order: Lanes
    firsts: Lanes
    counts: Lanes


def _grouped(index: Lanes) -> _Group:
    order = np.argsort(index, kind="stable")
    found = index[order]
    firsts = np.flatnonzero(np.concatenate(([True], found[1:] != found[:-1])))
    counts = np.diff(np.append(firsts, len(found)))
    return _Group(order, firsts, counts)


def _rounds(group: _Group) -> Iterator[Lanes]:
    """Yield sets of updates of different elements, each element's in order; elements with long runs
    are left out."""
    few = group.counts <= MAX_ROUNDS
    firsts, counts = group.firsts[few], group.counts[few]
    for number in range(int(counts.max(initial=0))):
        still = counts > number
        yield group.order[firsts[still] + number]


def _runs(group: _Group) -> Iterator[Lanes]:
    """Yield the updates of each element that has many."""
    for at in np.flatnonzero(group.counts > MAX_ROUNDS).tolist():
        first = int(group.firsts[at])
        yield group.order[first : first + int(group.counts[at])]


@lanes(*(f"pto.atomic_{w}" for w in ("exch", "add", "sub", "min", "max", "and", "or", "xor")))
def atomic(ctx: LaneContext) -> Run:
    """Update an element; the result is what it was before."""
    op, pointer, source = ctx.op, ctx.slots["ptr"], ctx.slots["value"]
    word = op.name.rpartition("_")[2]
    element = element_of(ctx.elem("ptr"))
    update = _update(word, element.part or element.whole, unsigned=ctx.has("unsigned"))

    def apply(held: Lanes, index: Lanes, given: Lanes) -> Lanes:
        return _applied(held, index, given, update)

    return _atomic(ctx, op, pointer, [source], element, apply)


@lanes("pto.atomic_cas")
def compare_and_swap(ctx: LaneContext) -> Run:
    """Write a new value where the old one is equal to another; the result is the old one."""
    element = element_of(ctx.elem("ptr"))
    equal = np.equal if ctx.switch("simt.atomic_cas") == "value" else _equal
    sources = [ctx.slots["compare"], ctx.slots["value"]]

    def apply(held: Lanes, index: Lanes, compare: Lanes, new: Lanes) -> Lanes:
        group, old = _grouped(index), np.empty_like(new)
        for chosen in _rounds(group):
            at = index[chosen]
            was = held[at]
            old[chosen] = was
            same = equal(was, compare[chosen])
            held[at[same]] = new[chosen][same]
        for chosen in _runs(group):
            at = index[chosen[:1]]
            old[chosen], held[at] = _swapped(held[at], compare[chosen], new[chosen], equal)
        return old

    return _atomic(ctx, ctx.op, ctx.slots["ptr"], sources, element, apply)


def _equal(one: Lanes, other: Lanes) -> Lanes:
    kind = f"u{one.dtype.itemsize}"
    return one.view(kind) == other.view(kind)


def _swapped(now: Lanes, compare: Lanes, new: Lanes, equal: Update) -> tuple[Lanes, Lanes]:
    """Swaps of one element one after the other: its old values, and the last one."""
    old, at = np.empty_like(new), 0
    while True:
        hits = np.flatnonzero(equal(np.repeat(now, len(new) - at), compare[at:]))
        if not len(hits):
            old[at:] = now
            return old, now
        hit = at + int(hits[0])
        old[at : hit + 1] = now
        now, at = new[hit : hit + 1], hit + 1


Apply = Callable[..., Lanes]
"""From all elements of a memory, those that threads mean, and operands to old values; changes the
elements."""


def _atomic(
    ctx: LaneContext,
    op: Operation,
    pointer: int,
    sources: list[int],
    element: Element,
    apply: Apply,
) -> Run:
    target = ctx.results[0] if ctx.results else None
    is_used = bool(ctx.op.results) and ctx.op.results[0].uses > 0
    inner = ctx.op

    def run(frame: Frame) -> None:
        values, memory = frame.values, frame.memory
        place = values[pointer]
        view, where, reach, ids, is_one = memory.spot(inner, place, None, element)
        index = np.r_[where]
        if element.part is not None and view.strides[0] != element.size:  # an element at any byte
            raise _between(frame, inner, index, element.size)
        if is_one:
            index = np.repeat(index, frame.threads if ids is None else len(ids))
        given = [element_lanes(frame.chosen(values[s], ids), element) for s in sources]
        memory.wrote(inner, place.memory, (view, index, reach, ids), element.size, atomic=True)
        if is_used and len(index) > 1 and len(np.unique(index)) < len(index):
            _tell_of_order(frame, ctx)
        old = _parts(apply, view, index, given, element)
        if target is not None:
            values[target] = frame.spread(old, ids)

    return run


def _between(frame: Frame, op: Operation, places: Lanes, size: int) -> OpFault:
    """The fault of packed elements that are not at multiples of their size."""
    at = int(places[places % size != 0][0])
    return frame.fault(
        "PTO6705",
        op,
        f"updates byte {at:#x}, which is no multiple of its packed {size}-byte elements",
        help="a pointer that was cast to packed elements must be at one of them",
    )


def element_lanes(value: Lanes, element: Element) -> Lanes:
    """Return operands as lanes of the element's numbers."""
    kind = element.part or element.whole
    return np.ascontiguousarray(value.astype(kind, copy=False))


def _parts(apply: Apply, view: Lanes, index: Lanes, given: list[Lanes], element: Element) -> Lanes:
    """Apply an update to an element, or to each number of a packed one."""
    if element.part is None:
        return apply(view, index, *given)
    parts = view.view(element.part)
    count = element.count
    rows = [apply(parts[k::count], index, *(g[k] for g in given)) for k in range(count)]
    return np.stack(rows)


def _tell_of_order(frame: Frame, ctx: LaneContext) -> None:
    frame.report(
        "PTO7307",
        ctx.op,
        "gives several threads old values of one element, which depend on their order",
        help="use the old value only where any order will do, as for places in a list",
    )


# -- many updates of one element -------------------------------------------------------------------


def _applied(held: Lanes, index: Lanes, given: Lanes, update: Update) -> Lanes:
    """Update elements of memory; return what they were before each update."""
    group = _grouped(index)
    if group.counts.max() == 1:
        old = held[index]
        held[index] = update(old, given)
        return old
    old = np.empty_like(given)
    for chosen in _rounds(group):
        at = index[chosen]
        old[chosen] = held[at]
        held[at] = update(held[at], given[chosen])
    for chosen in _runs(group):
        at = index[chosen[0]]
        run = _running(held[at], given[chosen], update)
        old[chosen] = run[:-1]
        held[at] = run[-1]
    return old


def _running(first: Lanes, given: Lanes, update: Update) -> Lanes:
    """Return the values that updates one after the other give, the first one before them."""
    if isinstance(update, np.ufunc):
        return update.accumulate(np.concatenate(([first], given)), dtype=given.dtype)
    found = np.empty(len(given) + 1, given.dtype)
    found[0] = first
    found[1:] = _scanned(update, np.array([first], given.dtype), given)
    return found


def _scanned(update: Update, first: Lanes, given: Lanes) -> Lanes:
    """Running extremes, or the last value: results of pairs, of fours, …"""
    run = given.copy()
    run[:1] = update(first, run[:1])
    step = 1
    while step < len(run):
        run[step:] = update(run[:-step].copy(), run[step:])
        step *= 2
    return run
