"""Whether all blocks of a launch do the same, only at other places of global memory.

Numbers that come from the number of the block are followed through the text. They may be anything
that is only an address in global memory: an offset of a window, of a pointer. Where one decides a
path, a trip count, a shape, a place on chip or an event, blocks differ. A loop between two such
numbers is the same in all blocks if their difference is: a part of a grid begins and ends elsewhere
in every block and has as many rows in each.

What is followed is a sum of terms, each a term that the block decides times a whole number. A
number that no sum describes is a term of its own, named by the operation and its operands, so that
the same computation gives the same term. The proof is one-sided: "not the same" may mean "not
known".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from ptosim.ground.ir.core import Clause, Operand, Operation, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import MemRefType, PtrType, ScalarType, ViewType
from ptosim.ground.records import dataclass
from ptosim.language.toolchains import BLOCK, told_by
from ptosim.machine.effects.storage import READ, WRITTEN, role_of

Form = tuple[tuple[Any, int], ...]
"""What of a number the block decides: terms with their factors, none twice; empty: nothing."""

NOTHING: Form = ()
_OF_LAUNCH = ("get_block_num", "get_subblock_idx", "get_subblock_num")
_SUMS = {"arith.addi": 1, "arith.subi": -1, "index.add": 1, "index.sub": -1}
_KEPT = ("arith.index_cast", "arith.extsi", "arith.extui", "arith.index_castui")
_BETWEEN_BLOCKS = frozenset(("handshake", "publishes", "collective"))
_BETWEEN_NAMES = ("syncall", "cross_block")


class _Differs(Exception):
    """Blocks may differ; the text says where."""


def difference(
    functions: Sequence[Function], *, by_data: bool, counts: list[Operation] | None = None
) -> str | None:
    """Return why blocks may differ, or None: they do the same. `functions` are all that a block
    executes; `by_data`: data order its operations, global memory among them. `counts` takes the
    loops of which the block decides how often they run: then None says that blocks in which each of
    these has as many rounds do the same."""
    try:
        for function in functions:
            _Follow(function, counts, by_data=by_data, is_alone=len(functions) == 1).run()
    except _Differs as found:
        return str(found)
    return None


class _Follow:
    """What the block decides of each value of a function. Values that a loop carries are followed
    until nothing changes."""

    def __init__(
        self,
        function: Function,
        counts: list[Operation] | None = None,
        *,
        by_data: bool,
        is_alone: bool,
    ) -> None:
        self.function, self.counts = function, counts
        self.by_data = by_data
        self.is_alone = is_alone  # no other function of the block calls it
        self.forms: dict[int, Form] = {}
        self.carried: set[int] = set()  # values of loops and branches that the block decides

    def run(self) -> None:
        """Follow to the end. Raises _Differs."""
        ops = self.function.ops[1:]
        while True:
            before = len(self.carried)
            self.forms = {number: ((("carried", number), 1),) for number in self.carried}
            self._set([v for v in self.function.args if told_by(v) == BLOCK], ("block", BLOCK))
            for op in ops:
                self._follow(op)
            if len(self.carried) == before:
                break
        if self.by_data:
            self._check_order(ops)

    def of(self, value: Value | None) -> Form:
        """Return what the block decides of a value."""
        return NOTHING if value is None else self.forms.get(id(value), NOTHING)

    def _follow(self, op: Operation) -> None:
        if not op.traits.isdisjoint(_BETWEEN_BLOCKS) or any(w in op.name for w in _BETWEEN_NAMES):
            raise _Differs(f"'{op.name}' orders blocks")
        if op.has("tells_core"):
            if not op.name.endswith(_OF_LAUNCH):
                self._set(op.results, (("block", op.name),))
            return
        if op.has("reads_memory"):
            self._set(op.results, ("read", id(op)))
            self._only_addresses(op)
            return
        moved = [v for v in op.operand_values() if self.of(v)]
        if op.has("yields"):
            self._yields(op)
        elif op.has("counted"):
            self._counted(op)
        elif moved:
            self._moved(op)

    def _moved(self, op: Operation) -> None:
        """An operation with an operand that the block decides."""
        if op.has("pure") or op.name.partition(".")[0] in ("arith", "index", "math"):
            self._computed(op)
        elif op.has("window"):
            self._needs_none(op, "sizes")
            self._address(op, "offsets", "source")
        elif op.has("view"):
            self._needs_none(op, "shape", "strides")
            self._address(op, "ptr")
        elif op.has("points_into"):
            self._address(op, "ptr", "offset")
        elif op.has("carries"):
            raise _Differs(f"the block decides what '{op.name}' does")
        else:
            self._only_addresses(op)
            self._set(op.results, ("of", id(op)))

    def _set(self, results: Sequence[Value], term: Any) -> None:
        for number, value in enumerate(results):
            self.forms[id(value)] = (((term, number), 1),)

    # -- numbers ---------------------------------------------------------------------------------

    def _computed(self, op: Operation) -> None:
        forms = [self.of(value) for value in op.operand_values()]
        if op.name in _SUMS and len(forms) == 2:
            found = _sum(forms[0], forms[1], _SUMS[op.name])
        elif op.name in _KEPT and len(forms) == 1:
            found = forms[0]
        elif op.name == "arith.cmpi" and len(forms) == 2 and forms[0] == forms[1]:
            found = NOTHING
        elif op.name == "arith.muli" and len(forms) == 2 and not (forms[0] and forms[1]):
            found = self._product(op, forms)
        else:
            found = (((op.name, *map(self._word, op.operand_values())), 1),)
        for value in op.results:
            self.forms[id(value)] = found

    def _product(self, op: Operation, forms: Sequence[Form]) -> Form:
        """A number of the block times one that is the same in all."""
        values = op.operand_values()
        form, other = (forms[0], values[1]) if forms[0] else (forms[1], values[0])
        if isinstance(other.const, int) and not isinstance(other.const, bool):
            return tuple((term, factor * other.const) for term, factor in form if other.const)
        return tuple((("times", term, id(other)), factor) for term, factor in form)

    def _word(self, value: Value) -> Any:
        """A value as a part of a term: with what the block decides, and which value it is."""
        return id(value), self.of(value)

    # -- what it may be used for -----------------------------------------------------------------

    def _needs_none(self, op: Operation, *names: str) -> None:
        for name, operand in op.operands():
            if name in names and self.of(operand.value):
                raise _Differs(f"the block decides `{name}` of '{op.name}'")

    def _address(self, op: Operation, *names: str) -> None:
        """The result is a place in global memory that the block decides."""
        for name, operand in op.operands():
            if name not in names and self.of(operand.value):
                raise _Differs(f"the block decides `{name}` of '{op.name}'")
        if not all(is_global(value) for value in op.results):
            raise _Differs(f"the block decides a place on chip, of '{op.name}'")
        self._set(op.results, ("at", id(op)))

    def _only_addresses(self, op: Operation) -> None:
        for name, operand in op.operands():
            if self.of(operand.value) and not is_global(operand.value):
                raise _Differs(f"the block decides `{name}` of '{op.name}'")

    # -- control flow ----------------------------------------------------------------------------

    def _counted(self, op: Operation) -> None:
        """A loop of as many rounds in every block; its counter begins where the block says."""
        lower, upper, step = (_operand(op, name) for name in ("lower", "upper", "step"))
        if self.of(lower) != self.of(upper) or self.of(step):
            if self.counts is None or self.of(step):
                raise _Differs(f"the block decides how often '{op.name}' runs")
            self.counts.append(op)
        values = op.regions[0].blocks[0].values
        if values:
            self.forms[id(values[0])] = self.of(lower)
        init = [o.value for o in op.bound.get("init") or ()]
        for number, value in enumerate(init):
            if self.of(value):
                self._carry(op, number)

    def _yields(self, op: Operation) -> None:
        parent = op.parent
        if parent is None:
            return
        for number, value in enumerate(op.operand_values()):
            if self.of(value):
                self._carry(parent, number)

    def _carry(self, op: Operation, number: int) -> None:
        """What a loop or a branch hands on in a place is the block's."""
        held = list(op.results[number : number + 1])
        if op.has("counted"):
            held += op.regions[0].blocks[0].values[1 + number : 2 + number]
        elif op.has("loop"):
            raise _Differs(f"the block decides what '{op.name}' hands on")
        self.carried.update(id(value) for value in held)

    def _check_order(self, ops: Sequence[Operation]) -> None:
        """Where data order operations, a buffer that is read and written orders them by addresses:
        blocks differ, unless the block moves all of these by one number, in every round."""
        roots = roots_of(ops)
        used: dict[int, set[str]] = {}
        shifts: dict[int, set[Any]] = {}
        for op in ops:
            if not op.traits.isdisjoint(("handle", "window", "view", "points_into")):
                continue
            outs = {o.name for o in op.variant.outs} if op.variant is not None else set()
            for name, operand in op.operands():
                value = operand.value
                if value is not None and is_global(value):
                    root = id(roots.get(id(value), value))
                    kinds = used.setdefault(root, set())
                    kinds.add("written" if name in outs else "read")
                    shifts.setdefault(root, set()).add(self._shift(value))
                    if self.of(value):
                        kinds.add("moved")
        for root, kinds in used.items():
            if len(kinds) == 3 and (None in shifts[root] or len(shifts[root]) > 1):
                raise _Differs("a buffer is read and written at places that the block decides")

    def _shift(self, window: Value) -> Any:
        """By what the block moves a window of global memory: forms by dimension, and the strides
        that they count; None where rounds, or what is not understood, decide that, too."""
        found: list[Any] = []
        value: Value | None = window
        while value is not None and not value.is_argument:
            op = value.owner
            if op is None or op.traits.isdisjoint(("window", "view", "points_into")):
                return None
            moved = [op.bound.get("offset"), *(op.bound.get("offsets") or ())]
            forms = [self.of(o.value) for o in moved if isinstance(o, Operand)]
            if not all(self._is_steady(term) for form in forms for term, _ in form):
                return None
            strides = [
                o.const if o.const is not None else id(o.value)
                for o in op.bound.get("strides") or ()
                if isinstance(o, Operand)
            ]
            found.append((tuple(forms), tuple(strides)))
            base = op.bound.get("source" if op.has("window") else "ptr")
            if not isinstance(base, Operand):  # a pointer out of a number
                return None
            value = base.value
        return tuple(found)

    def _is_steady(self, term: Any) -> bool:
        """True for a number of the block, times numbers that no round changes."""
        if term[0] == "times":
            return self.is_alone and term[2] in self._outside and self._is_steady(term[1])
        told = term[0][0] if isinstance(term[0], tuple) else None
        return "block" in (told, told and told[0])

    @cached_property
    def _outside(self) -> frozenset[int]:
        """Arguments, and what is computed outside of loops, by identity."""
        ops = (op for op in self.function.ops[1:] if not loops_around(op))
        return frozenset(map(id, (*self.function.args, *(v for op in ops for v in op.results))))


def _operand(op: Operation, name: str) -> Value | None:
    bound = op.bound.get(name)
    return bound.value if isinstance(bound, Operand) else None


def _sum(a: Form, b: Form, sign: int) -> Form:
    total: dict[Any, int] = dict(a)
    for term, factor in b:
        total[term] = total.get(term, 0) + sign * factor
    return tuple(sorted(((t, f) for t, f in total.items() if f), key=repr))


def is_global(value: Value | None) -> bool:
    """Return True for a pointer or a view of global memory."""
    type_ = value.type if value is not None else None
    if isinstance(type_, PtrType):
        return type_.space == "gm"
    if isinstance(type_, MemRefType):
        return getattr(type_, "space", "gm") in ("gm", None)
    return isinstance(type_, ViewType)


def roots_of(ops: Sequence[Operation]) -> Mapping[int, Value]:
    """Return the pointer that each view or pointer of global memory was made of, by identity."""
    found: dict[int, Value] = {}
    for op in ops:
        places = [v for v in op.operand_values() if is_global(v)]
        for value in op.results:
            if places and not isinstance(value.type, ScalarType) and is_global(value):
                found[id(value)] = found.get(id(places[0]), places[0])
    return found


# What the text says about reading global memory: in which loops a window stays where it is, and
# whether somebody had its bytes before.
#
# A window of global memory does not move in a loop if nothing that its place is computed from
# changes with the rounds. Two operations read the same window if their places are the same sum of
# the same numbers, loops of the same bounds counted as one number. The proof is one-sided: what is
# not understood moves, and nobody had it before.

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


def passes_by_l2(op: Operation) -> bool:
    """True for a load of whose lines L2 keeps none (`cache_policy` of September)."""
    policy = op.attributes.get("cache_policy")
    return getattr(policy, "member", policy) == "l2_bypass"


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


def buffer_name(root: Value) -> Any:
    """Return what a buffer is called: arguments of one name are one, whoever has them."""
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
                    parts = self.parts.setdefault(buffer_name(roots.get(id(window), window)), {})
                    parts.setdefault(_part(op), op.start)

    def made(self, root: Value, op: Operation) -> bool:
        """True if other cores write a buffer, or the own ones before an operation."""
        parts = self.parts.get(buffer_name(root), {})
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
