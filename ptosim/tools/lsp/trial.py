"""Whether a statement that is offered could be where it would be written.

It is checked in what of the program belongs to it: the operations that make what it names, the
heads of the regions around it, and those that use what it makes. That is a text of some lines,
however long the program is.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain

from ptosim.ground.errors import PtosimError
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.types import ErrorType
from ptosim.ground.isa.rows import isa
from ptosim.ground.records import NamedTuple, replace
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.tools.lsp.names import Kind, innermost, operation_of, pieces, results_of
from ptosim.tools.lsp.predict import Offer, Scope, escaped

_MOST = 200
"""Operations that belong to a statement: where there are more, nothing is tried."""
_SMALL = 80
"""Operations of a function that is checked as a whole."""
_USERS = 40
"""Of so many of those that use what it makes."""
_BRACES = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|([{}])')
_ENDS = ("returns", "yields", "jumps", "ends_fusion")


def braces(text: str) -> int:
    """Return how many braces a text opens that it does not close."""
    found = [match[1] for match in _BRACES.finditer(text)]
    return found.count("{") - found.count("}")


class _Around(NamedTuple):
    """An operation around a place: its text before and after the region, and the operation that
    ends that."""

    op: Operation
    head: tuple[int, int]
    tail: tuple[int, int]
    last: Operation | None


TRIED = 20
"""So many statements are tried before they are offered."""


def tried(
    offers: Iterable[Offer],
    scope: Scope,
    line: str,
    others: Callable[[Scope, Offer, str], Iterator[Offer]],
) -> list[Offer]:
    """Return offers after the beginning of a line, of whole statements those that could be there:
    of one that could not, `others` of the same operation, else its next word."""
    trial, left = Trial(scope), TRIED
    found: dict[str, Offer] = {}
    for offer in offers:
        chosen = offer
        if offer.kind in ("operation", "rest") and offer.text != offer.next_word:
            chosen = _word_of(offer)
            for one in chain((offer,), others(scope, offer, line)):
                left -= 1
                if left >= 0 and _can_be(trial, one, scope, line):
                    chosen = _closed(one, scope, line)
                    break
        found.setdefault(chosen.label, chosen)
    return list(found.values())


def _can_be(trial: Trial, offer: Offer, scope: Scope, line: str) -> bool:
    """Whether what is offered makes a statement without an error, as far as that can be told."""
    whole = line[: offer.start - (scope.offset - len(line))] + offer.text
    return trial.accepts(whole + ("\n}" if whole.endswith("{") else "")) is not False


def _closed(offer: Offer, scope: Scope, line: str) -> Offer:
    """The same with the brace that ends the region which it begins, if the text has none."""
    if not offer.text.endswith("{") or braces(scope.text) < 0:
        return offer
    closing = f"\n{line[: len(line) - len(line.lstrip())]}}}"
    snippet = offer.snippet.removesuffix("$0") + "$0" + escaped(closing)
    return replace(offer, text=offer.text + closing, snippet=snippet if offer.snippet else "")


def _word_of(offer: Offer) -> Offer:
    """The next word alone."""
    if offer.kind == "operation":
        return replace(offer, text=offer.label, snippet="")
    return replace(offer, label=offer.next_word, text=offer.next_word, snippet="")


class Trial:
    """The place of a scope, for any number of statements."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._text = scope.document.text
        line = scope.text.rfind("\n", 0, scope.offset) + 1
        self._place = scope.checked_place(line)
        end = scope.text.find("\n", scope.offset)
        end = scope.checked_place(end if end >= 0 else len(scope.text))
        is_new = self._text[end : end + 1] not in ("", "\n")
        # As it was when the text was checked: a line that is new was not there.
        self._line = (self._place, self._place if is_new else max(self._place, end))

    def accepts(self, statement: str) -> bool | None:
        """Return whether a line would be free of errors, and those that use what it makes; None
        where that cannot be told: a name was made since the text was last checked."""
        around = self._around
        if around is None:
            return None
        names = {w.text.partition("#")[0] for w in pieces(statement) if w.kind == "value"}
        made = {w.text for w in pieces(results_of(statement)) if w.kind == "value"}
        needed = self._values(names - made)
        if needed is None:
            return None
        users = self._users(made)
        owners = [v.owner for v in needed if v.owner is not None]
        users += self._storage(statement)
        ops = self._closure([*owners, *users])
        if ops is None:
            return None
        alone = self._is_free(statement, ops, users, with_functions="@" in statement)
        everything = self._of_function
        if not alone or everything is None:
            return alone
        others = [op for op in everything if op.start >= self._place]
        return self._is_free(statement, everything, others, with_functions="@" in statement)

    def _values(self, names: Iterable[str]) -> list[Value] | None:
        found = []
        for name in names:
            known = self._scope.values.get(name)
            if known is not None and known.made is None:
                return None  # it was made since the text was checked
            if known is not None and known.made is not None and known.made.value is not None:
                found.append(known.made.value)
        return found

    @cached_property
    def _around(self) -> list[_Around] | None:
        """The operations around the place, the outermost first; None where one of them has several
        blocks, or could not be read."""
        ops = [op for op in self._scope.document.resolved.ops if op.regions]
        inner = innermost([op for op in ops if op.end > self._place], self._place - 1)
        found: list[_Around] = []
        for op in (inner, *inner.around()) if inner is not None else ():
            region = next((r for r in op.regions if r.end > self._place), None)
            if region is None or len(region.blocks) != 1:
                return None
            inside = region.blocks[0].ops
            begin = inside[0].start if inside else region.end - 1
            last = inside[-1] if inside and not inside[-1].traits.isdisjoint(_ENDS) else None
            head = (op.start, min(begin, self._place))
            found.append(_Around(op, head, (region.end - 1, op.end), last))
        depth = braces(self._text[: self._place])
        return found[::-1] if depth == len(found) else None  # else what is around cannot be read

    def _storage(self, statement: str) -> Iterator[Operation]:
        """What else is in memory, where a statement takes some."""
        row = isa(self._scope.document.resolved.date).get(operation_of(statement))
        if row is not None and "makes_storage" in row.traits:
            homes = (a.op for a in self._around or () if a.op.has("function"))
            for op in (op for home in homes for op in home.walk()):
                if op.has("makes_storage"):
                    yield op

    @cached_property
    def _of_function(self) -> set[Operation] | None:
        """All that is in the function beside what is around the place, if it is not much: rules of
        order and of memory look at all of it."""
        around = self._around or []
        home = next((a.op for a in around if a.op.has("function")), None)
        outer = {a.op for a in around}
        if home is None or len(home.walk()) > _SMALL:
            return None
        inside = {op for a in around for op in a.op.inner()} - outer
        return {op for op in inside if home in op.around()}

    @cached_property
    def _later(self) -> list[Operation]:
        """The operations after the place in its function."""
        around = self._around or []
        home = next((a.op for a in around if a.op.has("function")), None)
        ops = home.walk() if home is not None else ()
        return [op for op in ops if op.start >= self._line[1]]

    def _users(self, names: set[str]) -> list[Operation]:
        """The operations that use what is made, and those that use what these make."""
        found: list[Operation] = []
        made: set[Value] = set()
        for op in self._later if names else ():
            used = self._named_by(op)
            if made.isdisjoint(used) and names.isdisjoint(f"%{v.name}" for v in used):
                continue
            found.append(self._outermost(op))
            made.update(op.results)
            if len(found) >= _USERS:
                break
        return list(dict.fromkeys(found))

    def _named_by(self, op: Operation) -> list[Value]:
        """The values that an operation names, where its operands could not be bound too."""
        if op.bound or op.regions:
            return op.operand_values()
        names = self._scope.document.names
        first, last = (
            bisect_left(names.words, at, key=lambda w: w.start) for at in (op.name_end, op.end)
        )
        made = [names.definition(w) for w in names.words[first:last] if w.kind is Kind.VALUE]
        unknown = [w for w in names.words[first:last] if names.definition(w) is None]
        found = [m.value for m in made if m is not None and m.value is not None]
        return [*found, *(Value(w.text[1:], ErrorType(), None, w.start) for w in unknown)]

    def _outermost(self, op: Operation) -> Operation:
        """The operation that one is in, beside the place."""
        outer = {a.op for a in self._around or ()}
        return next((o for o in (*list(op.around())[::-1], op) if o not in outer), op)

    def _closure(self, wanted: Iterable[Operation]) -> set[Operation] | None:
        """The operations that make what some need, and what the regions around them need."""
        around = self._around or []
        outer = {a.op for a in around}
        waiting = [*wanted, *outer, *(a.last for a in around if a.last is not None)]
        found: set[Operation] = set()
        while waiting:
            op = waiting.pop()
            if op in found:
                continue
            found.add(op)
            if len(found) > _MOST:
                return None
            inside = (op,) if op in outer else op.walk()
            waiting += [v.owner for o in inside for v in self._named_by(o) if v.owner is not None]
        return found - outer

    def _is_free(
        self, statement: str, ops: set[Operation], users: list[Operation], *, with_functions: bool
    ) -> bool:
        around, first = self._around or [], self._scope.document.resolved.module.ops[:1]
        ranges = {(0, min(first[0].start if first else 0, self._place))}
        ranges.update(part for a in around for part in (a.head, a.tail))
        begin, end = self._line
        ranges.update((op.start, op.end) for op in ops if not begin <= op.start < end)
        ranges.update((a.last.start, a.last.end) for a in around if a.last is not None)
        if with_functions:
            homes = {a.op for a in around}
            others = self._scope.document.resolved.functions.values()
            ranges.update((f.op.start, f.op.end) for f in others if f.op not in homes)
        marked = {(op.start, op.end) for op in users}
        parts, places, size = [], [], 0
        for start, stop in sorted({*ranges, (begin, begin)}):
            is_it = start == stop == begin
            part = statement if is_it else self._text[start:stop]
            if is_it or (start, stop) in marked:
                places.append((size, size + len(part)))
            parts.append(part)
            size += len(part) + 1
        return not any(_touches(places, span) for span in self._errors("\n".join(parts)))

    def _errors(self, text: str) -> Iterator[tuple[int, int]]:
        settings = self._scope.document.settings
        options = FrontOptions(settings.target, settings.level, settings.sync, settings.compat)
        try:
            found = run_frontend(Source(self._scope.document.source.name, text), options)
        except PtosimError:  # a setting that means nothing
            return
        for one in (d for d in found.sink if d.is_error):
            span = one.span
            yield (span.start, span.end) if span is not None else (-1, len(text))


def _touches(places: list[tuple[int, int]], span: tuple[int, int]) -> bool:
    return any(begin <= span[0] < end + 1 or span[0] < begin <= span[1] for begin, end in places)
