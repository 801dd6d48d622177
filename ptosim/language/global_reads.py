"""What the text says about reading global memory: in which loops a window stays where it is, and
whether somebody had its bytes before.

A window of global memory does not move in a loop if nothing that its place is computed from changes
with the rounds. Two operations read the same window if their places are the same sum of the same
numbers, loops of the same bounds counted as one number. The proof is one-sided: what is not
understood moves, and nobody had it before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ptosim.ground.ir.core import Clause, Operation, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.records import dataclass
from ptosim.language.same_blocks import is_global, roots_of
from ptosim.machine.effects.operands import READ, WRITTEN, role_of

_PLACES = frozenset(("handle", "window", "view", "points_into"))
_COMPUTED = _PLACES | {"pure", "tells_core", "constant"}


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """An operation that reads global memory: its `window`, the pointer that leads there (`root`),
    the view that the window is cut out of (`base`), the loops around it from the inside out, and
    those of them in which the window `stays`. `is_later`: an operation before it in the text reads
    the same window; `is_made`: the program wrote the buffer before."""

    op: Operation
    window: Value
    root: Value
    base: Value
    loops: tuple[Operation, ...]
    stays: frozenset[Operation]
    is_later: bool
    is_made: bool


def global_reads(functions: Iterable[Function]) -> dict[Operation, Read]:
    """Return every operation of some functions that reads global memory."""
    functions = list(functions)
    stores = _Stores(functions)
    found: dict[Operation, Read] = {}
    for function in functions:
        found.update(_Reads(function, stores).run())
    return found


def loops_around(op: Operation) -> tuple[Operation, ...]:
    """Return the loops that an operation is in, the innermost first."""
    found = []
    outer = op.parent
    while outer is not None:
        if outer.has("loop"):
            found.append(outer)
        outer = outer.parent
    return tuple(found)


def global_windows(op: Operation, *, writes: bool) -> list[Value]:
    """Return the places of global memory that an operation reads, or writes."""
    return _windows(op, WRITTEN if writes else READ)


def _part(op: Operation) -> Operation | None:
    """The section or the function that an operation is in: the cores that execute it."""
    outer = op.parent
    while outer is not None and not (outer.has("section") or outer.has("function")):
        outer = outer.parent
    return outer


def _name(root: Value) -> Any:
    """What a buffer is called: arguments of the same name are one, whichever function has them."""
    return root.name if root.is_argument else root


def _windows(op: Operation, wanted: tuple[Any, ...]) -> list[Value]:
    """The places of global memory that an operation uses in a role."""
    if not op.traits.isdisjoint(_PLACES):
        return []
    return [
        operand.value for name, operand in op.operands()
        if operand.value is not None and is_global(operand.value) and role_of(op, name) in wanted
    ]  # fmt: skip


class _Stores:
    """Which parts of a program write which buffers, and where in the text first."""

    def __init__(self, functions: Iterable[Function]) -> None:
        self.parts: dict[Any, dict[Operation | None, int]] = {}
        for function in functions:
            ops = function.op.walk()
            roots = roots_of(ops)
            for op in ops:
                for window in _windows(op, WRITTEN):
                    parts = self.parts.setdefault(_name(roots.get(id(window), window)), {})
                    parts.setdefault(_part(op), op.start)

    def made(self, root: Value, op: Operation) -> bool:
        """True if other cores write a buffer, or the own ones before an operation."""
        parts = self.parts.get(_name(root), {})
        mine = _part(op)
        return any(part is not mine or start < op.start for part, start in parts.items())


class _Reads:
    """Follows the numbers of a function to the places that are read."""

    def __init__(self, function: Function, stores: _Stores) -> None:
        self.function = function
        self.stores = stores
        self.moves: dict[Value, frozenset[Operation]] = {}  # loops that a value changes in
        self.words: dict[Value, int] = {}  # values that are the same number have the same word
        self.known: dict[Any, int] = {}
        self.bases: dict[Value, Value] = {}  # of windows, the view that they are cut out of

    def run(self) -> dict[Operation, Read]:
        """Return the reads, by operation."""
        ops = self.function.op.walk()
        roots = roots_of(ops)
        found: dict[Operation, Read] = {}
        seen: set[int] = set()
        for op in ops:
            loops = loops_around(op)
            self._follow(op, loops)
            for window in _windows(op, READ):
                moves = self.moves.get(window, frozenset(loops))
                root = roots.get(id(window), window)
                word = self._word(window)
                stays = frozenset(loops) - moves
                made = self.stores.made(root, op)
                base = self.bases.get(window, window)
                found[op] = Read(op, window, root, base, loops, stays, word in seen, made)
                seen.add(word)
        return found

    def _follow(self, op: Operation, loops: tuple[Operation, ...]) -> None:
        if op.has("loop"):
            self._loop(op)
        if not op.results:
            return
        if not self._is_computed(op):
            moves = frozenset(loops)
        elif op.has("tells_core"):
            moves = frozenset()
        else:
            moves = self._of(op.operand_values())
        if op.has("window"):
            views = [v for v in op.operand_values() if is_global(v)]
            self.bases.update((v, self.bases.get(views[0], views[0])) for v in op.results if views)
        for number, value in enumerate(op.results):
            self.moves[value] = moves
            self.words[value] = self._computed(op, number)

    @staticmethod
    def _is_computed(op: Operation) -> bool:
        """True if the results are the same whenever the operands are."""
        if op.has("reads_memory") or op.regions:
            return False
        is_number = op.name.partition(".")[0] in ("arith", "index", "math")
        return is_number or not op.traits.isdisjoint(_COMPUTED)

    def _of(self, values: Iterable[Value]) -> frozenset[Operation]:
        return frozenset[Operation]().union(*(self.moves.get(v, ()) for v in values))

    def _loop(self, op: Operation) -> None:
        """The counter of a loop and what it carries change with its rounds."""
        outer = self._of(op.operand_values())
        for region in op.regions:
            for block in region.blocks:
                for value in block.values:
                    self.moves[value] = outer | {op}
        if op.has("counted") and op.regions[0].blocks[0].values:
            counter = op.regions[0].blocks[0].values[0]
            bounds = (op.bound[name] for name in ("lower", "upper", "step"))
            words = tuple(b.const if b.value is None else self._word(b.value) for b in bounds)
            self.words[counter] = self._same(("counter", *words))

    def _computed(self, op: Operation, number: int) -> int:
        """The word of a result: results of the same operation on the same numbers are the same."""
        const = op.results[number].const
        if const is not None:
            return self._same(("constant", const))
        if not self._is_computed(op) or any(isinstance(b, Clause) for b in op.bound.values()):
            return self._same((op, number))
        words = tuple((n, b) for n, b in op.bound.items() if isinstance(b, (str, bool)))
        attributes = repr(sorted(op.attributes.items(), key=lambda item: item[0]))
        type_ = str(op.results[number].type)
        return self._same((op.name, number, type_, words, attributes, *self._written(op)))

    def _written(self, op: Operation) -> Iterable[Any]:
        for name, operand in op.operands():
            yield name, operand.const if operand.value is None else self._word(operand.value)

    def _word(self, value: Value) -> int:
        if value.const is not None:
            return self._same(("constant", value.const))
        word = self.words.get(value)
        if word is None:
            word = self.words[value] = self._same(value)
        return word

    def _same(self, key: Any) -> int:
        return self.known.setdefault(key, len(self.known))


def working_set(
    loop: Operation, reads: Mapping[Operation, Read]
) -> dict[Any, list[tuple[Read, tuple[Operation, ...]]]]:
    """Return what a round of a loop reads, by buffer: the reads, each with the loops inside in
    which its window moves."""
    found: dict[Any, list[tuple[Read, tuple[Operation, ...]]]] = {}
    for read in reads.values():
        if loop not in read.loops or read.is_later:
            continue
        inside = read.loops[: read.loops.index(loop)]
        moving = tuple(each for each in inside if each not in read.stays)
        found.setdefault(_name(read.root), []).append((read, moving))
    return found
