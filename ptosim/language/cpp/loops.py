"""Loops: counted ones become `scf.for`, others `scf.while`; a loop with constant bounds whose body
needs its counter before the run is unrolled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from ptosim.ground.ir.core import Block, Operation, Region, walk
from ptosim.language.build import Typed
from ptosim.language.cpp.declared import field_of, inner, name_node, text
from ptosim.language.cpp.heads import Counted, Heads, has_trait
from ptosim.language.cpp.kinds import (
    BOOL,
    UNKNOWN,
    Array,
    ArrayType,
    Cell,
    Journal,
    Num,
    wrap,
)
from ptosim.language.cpp.state import CppError, NeedsConstant, refused
from ptosim.language.cpp.statements import Round
from ptosim.language.cpp.types_of import CHANGES

MOST_ROUNDS = 100_000
_MOST_AT_ONCE = 1_024
"""Rounds of a loop by a condition that are written one after the other; with more it is a loop."""
_LEAVES = re.compile(rb"\b(break|return|goto)\b")


class Loops(Heads):
    """Execution of loops."""

    def _s_for_statement(self, node: Any) -> None:
        with self.scoped():
            first = field_of(node, "initializer")
            if first is not None:
                self._begin(first)
            condition, update = field_of(node, "condition"), field_of(node, "update")
            self._loop(node, condition, update, field_of(node, "body"))

    def _begin(self, first: Any) -> None:
        if first.type == "declaration":
            self.execute(first)
        else:
            self.lv(first)

    def _s_while_statement(self, node: Any) -> None:
        self._loop(node, field_of(node, "condition"), None, field_of(node, "body"))

    def _s_do_statement(self, node: Any) -> None:
        body = field_of(node, "body")
        self.rounds.append(self._round())
        self.execute(body)
        left = self.left_loop()
        self.rounds.pop()
        if left.is_known and left.const:
            return
        condition = field_of(node, "condition")
        if left.is_known:
            self._loop(node, condition, None, body)
        else:
            self.branch(self.negated(left),
                        lambda: self._loop(node, condition, None, body), None)  # fmt: skip

    def _s_for_range_loop(self, node: Any) -> None:
        """`for (auto &v : array)`: a round for each element, followed one after the other."""
        whole = self.ev(field_of(node, "right"))
        if isinstance(whole, list):
            cells = [self.cell(v, getattr(v, "type", None)) for v in whole]
            whole = Array(ArrayType(None, len(cells)), cells)
        name = name_node(field_of(node, "declarator"))
        if not isinstance(whole, Array) or name is None:
            raise refused(
                node, text(node)[:40], "what it goes through is no array", "count the rounds"
            )
        is_reference = inner(field_of(node, "declarator"), "reference_declarator") is not None
        for cell in whole.cells:
            self.step(node)
            own = cell if is_reference else self._own(cell, node)
            self.rounds.append(self._round())
            with self.scoped() as scope:
                scope.names[text(name)] = own
                self.execute(field_of(node, "body"))
            left = self.left_loop()
            self.rounds.pop()
            if self.known(left, node, "whether the loop is left"):
                return

    def _own(self, cell: Any, node: Any) -> Cell:
        value = self.taken(cell, node)
        own = self.cell(self.copied(value), value.type if isinstance(value, Num) else None)
        own.enum = getattr(cell, "enum", None)
        return own

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Where what is tried cannot be followed, be as before."""
        frame, static, depth = self.frame, self.static, self.depth
        rounds, calls, deep = len(self.rounds), len(self.calls), self.deep
        all_rounds = self.rounds
        try:
            yield
        except CppError:
            self.frame, self.static, self.depth, self.deep = frame, static, depth, deep
            self.rounds = all_rounds
            del self.rounds[rounds:], self.calls[calls:]
            raise

    def _round(self) -> Round:
        return Round(self.cell(Num(BOOL, False), BOOL), self.cell(Num(BOOL, False), BOOL))

    def left_loop(self) -> Num:
        """Return whether the loop is left: by `break`, or as its function returns."""
        return self.both("||", self.frame.done.value, self.rounds[-1].broke.value)

    def _loop(self, node: Any, condition: Any, update: Any, body: Any) -> None:
        if self.static:
            return self._unrolled(node, condition, update, body)
        counted = self.counted(condition, update)
        if counted is None:
            return self._by_condition(node, condition, update, body)
        rounds = counted.rounds()
        if rounds == 0:
            return None
        if rounds == 1:
            return self._unrolled(node, condition, update, body)
        try:
            if self._counted_loop(node, counted, body):
                return None
        except NeedsConstant:
            if rounds is None:
                raise
            if rounds > MOST_ROUNDS and not _LEAVES.search(body.text):
                raise _too_many_rounds(node) from None
            self.unrolling[node.id, self.scope.label] = True
            return self._unrolled(node, condition, update, body)
        return self._by_condition(node, condition, update, body)

    unrolling: dict[Any, bool]
    carried_before: dict[Any, Any]
    long: set[Any]
    """Loops that had more rounds than are written out when they were followed before."""

    # -- what is known before the run --------------------------------------------------------------

    def _unrolled(self, node: Any, condition: Any, update: Any, body: Any) -> None:
        if not self._rounds(node, condition, update, body, MOST_ROUNDS):
            raise _too_many_rounds(node)

    def _rounds(self, node: Any, condition: Any, update: Any, body: Any, most: int) -> bool:
        """Follow the rounds one after the other; False where there are more than that."""
        rounds = 0
        while True:
            mark, before = len(self.journal.entries), self.journal.count
            if condition is not None:
                holds = self.truth(self.ev(condition), condition)
                if not self.known(holds, condition, "the condition of the loop"):
                    return True
            rounds += 1
            if rounds > most:
                return False
            self.step(node)
            left = self._followed_round(body)
            if self.known(left, node, "whether the loop is left"):
                return True
            if update is not None:
                self._updated(update)
            if is_unchanged(self.journal, mark, before):
                raise _endless(node, "a round changes nothing")

    # -- counted loops -----------------------------------------------------------------------------

    def _counted_loop(self, node: Any, counted: Counted, body: Any) -> bool:
        """Append the loop, with the variables that a round changes carried; False if a round leaves
        the loop or changes the counter. What is changed shows when a round is followed; what was
        when the loop was followed for the one around it is asked first, so that loops in loops are
        not followed again and again."""
        if self.unrolling.get((node.id, self.scope.label)):
            raise NeedsConstant(node, "unrolled before")
        before = self.journal.count
        with self._outermost():
            guess = self._carried(node, before)
            if guess and self._done(node, counted, body, guess, exact=True) is True:
                return True
            known: list[Cell] = []
            for _ in range(20):
                found = self._done(node, counted, body, known)
                if found is True or found is None:
                    return bool(found)
                known = found
        raise CppError(node, "what the loop changes cannot be followed")

    @contextmanager
    def _outermost(self) -> Iterator[None]:
        """What loops carried is known as long as one around them is followed."""
        outer, self.in_counted = self.in_counted, True
        if not outer:
            self.made_before = self.journal.count
        try:
            yield
        finally:
            self.in_counted = outer
            if not outer:
                self.carried_before.clear()

    in_counted = False
    made_before = 0

    def _loop_key(self, node: Any) -> Any:
        return (node.id, *self.calls)

    def _carried(self, node: Any, before: int) -> list[Cell]:
        """Return the variables that this loop carried when it was followed last. One that is
        declared in the loop around it is another one now: it was made at the same distance."""
        last, cells = self.carried_before.get(self._loop_key(node), (0, ()))
        here: dict[int, Cell] = {}
        scope: Any = self.scope if any(c.serial > self.made_before for c in cells) else None
        while scope is not None and scope is not self.everything:
            held = (c for c in scope.names.values() if isinstance(c, Cell))
            here.update((c.serial - before, c) for c in held)
            scope = scope.parent
        found = [c if c.serial <= self.made_before else here.get(c.serial - last) for c in cells]
        return [c for c in found if c is not None] if None not in found else []

    def _done(
        self, node: Any, counted: Counted, body: Any, known: list[Cell], *, exact: bool = False
    ) -> list[Cell] | Literal[True] | None:
        """Append the loop with what is known to change. True if a round changes nothing else
        (`exact`: and all of it); else it is undone, and what changes is returned, or None as the
        loop is none that counts."""
        mark, before, ops = len(self.journal.entries), self.journal.count, self.make.ops
        length, cached = len(ops), len(self.cache)
        found: list[Cell] | Literal[True] | None = None
        try:
            with self.unchanged():
                found = self._for(node, counted, body, known, exact=exact)
        finally:
            self.make.ops = ops
            if found is not True:
                self.undo_to(mark, length, cached)
        if found is True:
            self.carried_before[self._loop_key(node)] = (before, known)
        return found

    def _enter(self, counter: Cell, known: list[Cell]) -> None:
        """At the begin of a round, variables that it changes have values of the run."""
        counter.set(Num(counter.type, None, self.fresh("i")))
        for cell in known:
            cell.set(self._open(cell))

    def _open(self, cell: Cell) -> Any:
        if not cell.is_carried:
            return UNKNOWN
        return Num(cell.type or cell.value.type, None, self.fresh())

    def _for(
        self, node: Any, counted: Counted, body: Any, known: list[Cell], *, exact: bool
    ) -> list[Cell] | Literal[True] | None:
        before = self.journal.count
        self.here(node)
        type_ = counted.cell.type
        bounds = [self.typed(self.cast(n, type_, node)).name for n in self._bounds(counted, node)]
        hard = [c for c in known if c.is_carried]
        starts = [self.typed(self.cast(c.value, c.type or c.value.type, node)) for c in hard]
        self._enter(counted.cell, known)
        counter, entered = counted.cell.value, len(self.journal.entries)
        inside = [c.value for c in hard]
        args = [(Typed(n.name, n.type.value), s.name) for n, s in zip(inside, starts, strict=True)]
        results = [self.fresh() for _ in hard]
        around = self.make.ops
        with self.make.loop(counter.name, bounds, args, results), self.cached():
            if type_.value != "index":
                around[-1].types = self.make.types([type_.value])
            if counted.goes_down:
                counted.cell.set(self.binary("-", counted.first, counter, node))
            counter = counted.cell.value
            left = self._followed_round(body)
            if not left.is_known or left.const or counted.cell.value is not counter:
                return None
            written = [c for c in self.journal.written(entered, before) if c is not counted.cell]
            if not self.asks_the_same(counted, stores=_stores(self.make.ops)):
                return None
            every = {id(c): c for c in (*known, *written)}
            if len(every) > len(known) or (exact and len(written) < len(known)):
                return list(every.values())
            if hard:
                self.make.typed(
                    "scf.yield",
                    [self._ended(c, n, node) for c, n in zip(hard, inside, strict=True)],
                )
        for cell, value, result in zip(hard, inside, results, strict=True):
            cell.set(Num(value.type, None, result))
        for cell in known:
            if cell not in hard:
                cell.set(UNKNOWN)
        counted.cell.set(self._after(counted, node))
        return True

    def _bounds(self, counted: Counted, node: Any) -> tuple[Num, Num, Num]:
        """Begin, end and step of a counter that goes up: of one that goes down, how far it is from
        where it began."""
        if not counted.goes_down:
            return counted.first, counted.end, counted.step
        way = self.binary("-", counted.first, counted.end, node)
        return Num(way.type, 0), way, Num(way.type, -counted.step.const)

    def _followed_round(self, body: Any) -> Num:
        """Follow the body, and return whether it leaves the loop."""
        self.rounds.append(self._round())
        try:
            self.execute(body)
            return self.left_loop()
        finally:
            self.rounds.pop()

    def _ended(self, cell: Cell, value: Num, node: Any) -> Typed:
        return self.typed(self.cast(self.num(cell.value, node), value.type, node))

    def _after(self, counted: Counted, node: Any) -> Any:
        """Return what the counter is when the loop has ended; nothing computes it where nobody can
        ask, as it is declared in the head."""
        type_, rounds = counted.cell.type, counted.rounds()
        if rounds is not None:
            return Num(type_, wrap(counted.first.const + rounds * counted.step.const, type_))
        head = field_of(node, "initializer")
        if head is not None and head.type == "declaration":
            return UNKNOWN
        order, away = ("-", ">") if counted.goes_down else ("+", "<")
        _, far, step = self._bounds(counted, node)
        if not counted.goes_down:
            far = self.binary("-", far, counted.first, node)
        if not (step.is_known and step.const == 1):
            far = self.binary("+", far, self.binary("-", step, Num(step.type, 1), node), node)
            far = self.binary("*", self.binary("/", far, step, node), step, node)
        last = self.cast(self.binary(order, counted.first, far, node), type_, node)
        goes = self.compare(away, counted.first, counted.end, node)
        return self.cast(self.choose(goes, last, counted.first, node), type_, node)

    # -- other loops -------------------------------------------------------------------------------

    def _by_condition(self, node: Any, condition: Any, update: Any, body: Any) -> None:
        mark = len(self.journal.entries)
        with self.apart():
            first = self._go(node, condition)
        if first.is_known and not first.const:
            return
        self.journal.undo(mark)  # it is asked again where the loop is written
        is_long = self._loop_key(node) in self.long
        if first.is_known and not is_long:
            try:
                with self.apart() as ops, self.unchanged():
                    is_long = not self._rounds(node, condition, update, body, _MOST_AT_ONCE)
                if not is_long:
                    self.make.ops.extend(ops)
                    return
                self.long.add(self._loop_key(node))
            except NeedsConstant:
                pass
            self.journal.undo(mark)
        if not is_long:
            self._while(node, condition, update, body)
            return
        try:
            with self.apart() as ops, self.unchanged():
                self._while(node, condition, update, body)
            self.make.ops.extend(ops)
        except NeedsConstant:
            self.journal.undo(mark)
            self._unrolled(node, condition, update, body)

    def _while(self, node: Any, condition: Any, update: Any, body: Any) -> None:
        known: list[Cell] = []
        broke = self.cell(Num(BOOL, False), BOOL)
        for _ in range(20):
            mark, before = len(self.journal.entries), self.journal.count
            with self.apart():
                for cell in known:
                    cell.set(self._open(cell))
                start = len(self.journal.entries)
                self._go(node, condition)
                self._round_of(node, update, body, broke)
                written = self.journal.written(start, before)
            self.journal.undo(mark)
            found = list({id(c): c for c in (*known, *written)}.values())
            if len(found) == len(known):
                break
            known = found
        self._written_while(node, condition, update, body, known, broke)

    def _asked(self, node: Any, condition: Any, left: Num) -> Num:
        """Does the loop go on? Once it is left its condition is not asked: it may change things."""
        if left.is_known or condition is None or not CHANGES.search(condition.text):
            return self.both("&&", self._go(node, condition), self.negated(left))
        go = self.cell(Num(BOOL, False), BOOL)
        self.branch(self.negated(left), lambda: go.set(self._go(node, condition)), None)
        return go.value

    def _go(self, node: Any, condition: Any) -> Num:
        return Num(BOOL, True) if condition is None else self.truth(self.ev(condition), condition)

    def _round_of(self, node: Any, update: Any, body: Any, broke: Cell) -> None:
        self.rounds.append(Round(broke, self.cell(Num(BOOL, False), BOOL)))
        self.execute(body)
        left = self.left_loop()
        self.rounds.pop()
        if update is not None:
            go_on = self.negated(left)  # what leaves the loop does not count
            self.branch(go_on, lambda: self._updated(update), None)

    def _updated(self, update: Any) -> None:
        self.ev(update) if update.type == "comma_expression" else self.lv(update)

    def _written_while(
        self, node: Any, condition: Any, update: Any, body: Any, known: list[Cell], broke: Cell
    ) -> None:
        self.here(node)
        hard = [c for c in known if c.is_carried]
        for cell in known:
            if cell not in hard:
                cell.set(UNKNOWN)
        starts = [self.typed(self.cast(c.value, c.type or c.value.type, node)) for c in hard]
        kinds = [c.type or c.value.type for c in hard]
        op = self.make.typed("scf.while")
        op.ins, op.ins_types = (
            [self.make.item(s) for s in starts],
            self.make.types(s.type for s in starts),
        )
        op.arrow = self.make.types(s.type for s in starts)
        with self._region(op, hard, kinds), self.cached():
            go = self._asked(node, condition, self.both("||", self.frame.done.value, broke.value))
            if go.is_known and go.const:
                raise _endless(node, "nothing that a round changes decides whether it goes on")
            end = self.make.typed("scf.condition", [self._ended(c, c.value, node) for c in hard])
            end.outs = [self.make.item(self.typed(go))]
        with self._region(op, hard, kinds), self.cached():
            entered = [c.value for c in hard]
            self._round_of(node, update, body, broke)
            self.make.typed(
                "scf.yield", [self._ended(c, e, node) for c, e in zip(hard, entered, strict=True)]
            )
        results = [self.fresh() for _ in hard]
        op.result_tokens = [(r.removeprefix("%"), 1, self.make.at) for r in results]
        for cell, kind, result in zip(hard, kinds, results, strict=True):
            cell.set(Num(kind, None, result))
        for cell in known:
            if cell not in hard:
                cell.set(UNKNOWN)  # what was made in the loop is not known after it
        broke.set(Num(BOOL, False))

    def _region(self, op: Any, hard: list[Cell], kinds: list[Any]) -> Any:
        args = []
        for cell, kind in zip(hard, kinds, strict=True):
            cell.set(Num(kind, None, self.fresh()))
            args.append((self.make.tok(cell.value.name), self.make.tok(kind.value, "TYPE")))
        is_body = bool(op.regions and args)  # the arguments of the first are in the head
        label = self.make.tok("^bb0", "BLOCK_ID") if is_body else None
        op.regions = [*op.regions, Region([Block([], args, label)])]
        op.end = op.regions[-1].end = self.make.at
        return self.make.into(op.regions[-1].blocks[0].ops)


def _stores(ops: list[Operation]) -> bool:
    """Is a number written to memory, or an extent of a tile changed?"""
    return any(has_trait(op, "writes_memory", "sets_valid") for op in walk(ops))


def _too_many_rounds(node: Any) -> CppError:
    why = f"more than {MOST_ROUNDS:,} rounds before the run"
    return CppError(node, why, "a loop without an end?")


def _endless(node: Any, why: str) -> CppError:
    return CppError(node, f"the loop has no end: {why}", "change its condition")


def is_unchanged(journal: Journal, mark: int, before: int) -> bool:
    """Is in the cells that were there before what was in them at a mark?"""
    oldest: dict[int, tuple[Any, Any]] = {}
    for cell, old in journal.entries[mark:]:
        if cell is None:
            return False
        if cell.serial <= before:
            oldest.setdefault(id(cell), (cell.value, old))
    return all(now is old or now == old for now, old in oldest.values())
