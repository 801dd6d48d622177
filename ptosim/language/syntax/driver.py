"""The LALR(1) driver: shifts, reduces, and after a syntax error finds the next statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ptosim.ground.diagnostics.model import Diagnostic, Label, Sink, finding
from ptosim.ground.ir.core import Tok
from ptosim.ground.isa.cache import cached, isa_directory
from ptosim.ground.records import dataclass
from ptosim.ground.source import Source, Span
from ptosim.language.syntax import scanner as tables
from ptosim.language.syntax.balance import MAX_DEPTH, TOO_DEEP, closing, too_deep
from ptosim.language.syntax.scanner import END, UNKNOWN, Rule, Scanner, Tables

MAX_SYNTAX_ERRORS = 50

VALUE = "a value (`%name`)"
"""The word for a value among those of `Recovery.names`."""
_OPENING = frozenset(("LPAR", "LSQB", "LBRACE", "REGION_OPEN"))
_CLOSING = frozenset(("RPAR", "RSQB", "RBRACE"))
_BRACKETS = _OPENING | _CLOSING


class TreeBuilder(Protocol):
    """Has a method for each rule of the grammar; `end` is where the reduced text ends."""

    end: int


Reduction = tuple[int, Callable[[list[Any]], Any] | None, str]
"""How many symbols a rule has, what makes its value of theirs (None: a list of the only one), and
the symbol that it is."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """How to go on after an error: statements start with one of `starters`; `names` are the words
    for terminals in messages; `lists` is a terminal that only a list of statements can shift."""

    starters: frozenset[str]
    lists: str
    names: dict[str, str]


NO_RECOVERY = Recovery(frozenset(), "", {})
"""The first error is the last one."""


class Driver:
    """Runs the tables of one grammar with the callbacks of one builder."""

    def __init__(
        self, tables: Tables, builder: TreeBuilder, recovery: Recovery = NO_RECOVERY
    ) -> None:
        self._builder = builder
        self._recovery = recovery
        reductions = [(r.size, _reducer(r, builder), r.origin) for r in tables.rules]
        self._actions: list[dict[str, int | Reduction]] = [
            {t: a if a >= 0 else reductions[~a] for t, a in row.items()} for row in tables.actions
        ]
        self._gotos = tables.gotos
        self._start = tables.start
        self._end = tables.end

    def parse(  # noqa: C901 - hot loop
        self, source: Source, scanner: Scanner, sink: Sink
    ) -> tuple[Any, list[Tok]]:
        """Parse a source. Return the value of the start rule (None after an error that nothing
        could be read after) and the RESULTS tokens of the statements that were skipped."""
        run = _Run(self._actions, self._gotos, self._start, source, sink, self._recovery)
        builder = self._builder
        actions, gotos, final = self._actions, self._gotos, self._end
        text = source.text
        states, values = run.states, run.values
        row = actions[states[-1]]
        at = 0
        scan = scanner.scan
        while True:
            kind, token, start, after = scan(text, at, row)
            scanned = row
            action = row.get(kind)
            while action.__class__ is tuple:
                size, reduce, origin = action  # type: ignore[misc]
                if reduce is None:  # half of all reductions only put one value into a list
                    values[-1] = [values[-1]]
                    states[-1] = state = gotos[states[-2]][origin]
                    row = actions[state]
                    action = row.get(kind)
                    continue
                if size:
                    arguments = values[-size:]
                    del values[-size:]
                    del states[-size:]
                else:
                    arguments = []
                value = reduce(arguments)
                state = gotos[states[-1]][origin]
                if state == final:
                    return value, run.skipped
                values.append(value)
                states.append(state)
                row = actions[state]
                action = row.get(kind)
            if action is None and row is not scanned:
                continue  # after what was reduced the text may be read as something else
            if action is None:
                at = run.recover(scanner, kind, token, start, after)
                if at < 0:
                    return None, run.skipped
                row = actions[states[-1]]
                continue
            if kind in _BRACKETS:
                if kind in _OPENING:
                    run.open.append(start)
                    if len(run.open) > MAX_DEPTH:
                        sink.emit(too_deep(source, start))
                        return None, run.skipped
                elif run.open:
                    run.open.pop()
            values.append(token)
            states.append(action)  # type: ignore[arg-type]
            row = actions[action]  # type: ignore[index]
            builder.end = at = after


class _Run:
    """The state of one parse that error recovery changes."""

    def __init__(
        self,
        actions: list[dict[str, int | Reduction]],
        gotos: tuple[dict[str, int], ...],
        start: int,
        source: Source,
        sink: Sink,
        recovery: Recovery,
    ) -> None:
        self._actions = actions
        self._gotos = gotos
        self._source = source
        self._sink = sink
        self._recovery = recovery
        self.states = [start]
        self.values: list[Any] = []
        self.open: list[int] = []
        self.skipped: list[Tok] = []
        self._errors = 0
        self._line = 0  # of the last error

    def recover(
        self, scanner: Scanner, kind: str, token: Tok | None, start: int, after: int
    ) -> int:
        """Report the error, drop the broken statement; return where to read on, or -1 to give
        up."""
        self._errors += 1
        if self._is_too_deep(kind, start):
            return -1
        if not self._follows(self._source.text[start:after], start):
            self._report(kind, token, start, after)
        if self._recovery is NO_RECOVERY or kind == END or self._errors >= MAX_SYNTAX_ERRORS:
            return -1
        if _begins_line(self._source.text, start):
            self._finish_statement()
        if kind in _CLOSING and not self.open:
            return after
        self._drop_statement()
        return self._next_statement(scanner, start)

    def _is_too_deep(self, kind: str, start: int) -> bool:
        """Report a type inside too many others, of which nothing can be read: to look for the end
        of each one would take the square of their number."""
        if kind != "LESSTHAN" or closing(self._source.text, start) != TOO_DEEP:
            return False
        self._sink.emit(too_deep(self._source, start))
        return True

    def _begins_statement(self, start: int) -> bool:
        """True for the first word of a line after one that is not complete."""
        return _begins_line(self._source.text, start) and not self._shifts(self._recovery.lists)

    def _follows(self, text: str, start: int) -> bool:
        """True for an error that the one before brought about: on the same line, or the rest of a
        region whose head was dropped."""
        line = self._source.line_column(start)[0]
        before, self._line = self._line, line
        return line == before or (before > 0 and text in ("}", "else", ""))

    def _finish_statement(self) -> None:
        """Reduce a statement that was complete before the line with the error began."""
        lists = self._recovery.lists
        if not self._shifts(lists):
            return
        while isinstance(action := self._actions[self.states[-1]].get(lists), tuple):
            size, reduce, origin = action
            arguments = self.values[len(self.values) - size :]
            del self.values[len(self.values) - size :]
            del self.states[len(self.states) - size :]
            self.values.append(arguments if reduce is None else reduce(arguments))
            self.states.append(self._gotos[self.states[-1]][origin])

    def _drop_statement(self) -> None:
        lists = self._recovery.lists
        while (
            len(self.states) > 1 and self._actions[self.states[-1]].get(lists).__class__ is not int
        ):
            self.states.pop()
            dropped = self.values.pop()
            if dropped.__class__ is Tok and dropped.type == "RESULTS":
                self.skipped.append(dropped)

    def _next_statement(self, scanner: Scanner, at: int) -> int:
        """Skip to a token that can start a statement at the beginning of a line, or to a `}` that
        closes what is open; a region opened on the way is skipped whole."""
        text = self._source.text
        row = self._actions[self.states[-1]]
        starters = self._recovery.starters
        nested = 0
        first = True
        while True:
            kind, token, start, after = scanner.scan(text, at, row)
            if kind == END:
                return start
            if self._is_too_deep(kind, start):
                return -1
            if nested == 0 and not first:
                if kind == "RBRACE" and kind in row:
                    self._close_open_to(start)
                    return start
                if kind in starters and kind in row and _begins_line(text, start):
                    self._close_open_to(start)
                    return start
            if kind in ("LBRACE", "REGION_OPEN"):
                nested += 1
            elif kind == "RBRACE":
                nested = max(nested - 1, 0)
            elif kind == "RESULTS" and token is not None:
                self.skipped.append(token)
            first = False
            at = after

    def _close_open_to(self, at: int) -> None:
        """Forget brackets that were opened inside dropped statements: as many regions are open as
        the parser has on its stack."""
        regions = sum(1 for value in self.values if value is None)
        del self.open[regions:]

    def _report(self, kind: str, token: Tok | None, start: int, after: int) -> None:
        source = self._source
        names = self._recovery.names
        if kind == END:
            self._sink.emit(self._unexpected_end())
            return
        text = source.text[start:after]
        if kind == UNKNOWN:
            self._sink.emit(_unknown_character(source, start, text))
            return
        expected = sorted(names.get(t, t.lower()) for t in self._expected())
        if expected and self._begins_statement(start):
            self._sink.emit(_ends_early(source, start, _one_of(expected)))
            return
        notes = (f"expected {_one_of(expected)}",) if expected else ()
        shown = text if len(text) <= 40 else text[:37] + "..."
        self._sink.report(
            "PTO0002",
            f"unexpected `{shown}`",
            Span(source, start, after),
            label="not expected here",
            notes=notes,
            help=_hint(kind, text, expected),
        )

    def _unexpected_end(self) -> Diagnostic:
        source = self._source
        size = len(source.text.rstrip())
        more = ()
        if self.open:
            at = self.open[-1]
            more = (Label(Span(source, at, at + 1), "this bracket is not closed"),)
        return finding(
            "PTO0003",
            "the file ends in the middle of a statement or region",
            Span(source, max(size - 1, 0), size),
            label="end of the text",
            more=more,
            help="close the bracket or finish the last line" if more else None,
        )

    def _expected(self) -> list[str]:
        """The terminals that could be here; where a statement could, its first words are one."""
        acceptable = self._acceptable()
        statement = self._recovery.lists
        if statement not in acceptable:
            return acceptable
        return [statement, *(t for t in acceptable if t not in self._recovery.starters)]

    def _acceptable(self) -> list[str]:
        """Terminals that the parser could really shift here (a row alone lists too many, because
        reductions merge states)."""
        return [t for t in self._actions[self.states[-1]] if self._shifts(t)]

    def _shifts(self, terminal: str) -> bool:
        states = list(self.states)
        while True:
            action = self._actions[states[-1]].get(terminal)
            if not isinstance(action, tuple):
                return action is not None
            size, _, origin = action
            if size:
                del states[-size:]
            state = self._gotos[states[-1]].get(origin)
            if state is None:
                return terminal == END
            states.append(state)


def _reducer(rule: Rule, builder: TreeBuilder) -> Callable[[list[Any]], Any] | None:
    """Return the function that makes a rule's value from the values of its symbols; None if that is
    a list of the only one."""
    kept = rule.kept
    if rule.callback is None and rule.size == 1 and kept == ((0, False),):
        return None
    if rule.callback is None and kept and kept[0][1]:
        return _extender(kept)
    select = _selector(kept, rule.size)
    if rule.callback is None:
        return select
    callback = getattr(builder, rule.callback)
    if len(kept) == rule.size and not any(splice for _, splice in kept):
        return callback
    return lambda values: callback(select(values))


def _selector(kept: tuple[tuple[int, bool], ...], size: int) -> Callable[[list[Any]], list[Any]]:
    if not any(splice for _, splice in kept):
        if len(kept) == size:
            return lambda values: values
        positions = [i for i, _ in kept]
        return lambda values: [values[i] for i in positions]

    def select(values: list[Any]) -> list[Any]:
        chosen: list[Any] = []
        for i, splice in kept:
            if splice:
                chosen.extend(values[i])
            else:
                chosen.append(values[i])
        return chosen

    return select


def _extender(kept: tuple[tuple[int, bool], ...]) -> Callable[[list[Any]], list[Any]]:
    """A helper that begins with another helper grows that one's list, so repetition stays
    linear."""
    base = kept[0][0]
    rest = kept[1:]

    def extend(values: list[Any]) -> list[Any]:
        grown: list[Any] = values[base]
        for i, splice in rest:
            if splice:
                grown.extend(values[i])
            else:
                grown.append(values[i])
        return grown

    return extend


def _begins_line(text: str, at: int) -> bool:
    start = text.rfind("\n", 0, at) + 1
    return not text[start:at].strip()


def _one_of(names: list[str]) -> str:
    unique = list(dict.fromkeys(names))
    if len(unique) == 1:
        return unique[0]
    if len(unique) > 8:
        unique = [*unique[:8], "…"]
        return ", ".join(unique)
    return ", ".join(unique[:-1]) + " or " + unique[-1]


def _hint(kind: str, text: str, expected: Sequence[str]) -> str | None:
    if kind == "ATTR" and "<" not in text:
        return f"to write a comment, put a space after `#`: `# {text[1:]}`"
    if text == "func":
        return "did you mean `func.func`?"
    if kind == "BARE_ID" and VALUE in expected:
        return f"the name of a value begins with `%`: `%{text}`"
    return None


def _unknown_character(source: Source, start: int, text: str) -> Diagnostic:
    shown = text if text.isprintable() else f"U+{ord(text):04X}"
    help_ = "close the string on the same line" if text == '"' else None
    return finding(
        "PTO0001",
        f"character `{shown}` cannot start anything here",
        Span(source, start, start + 1),
        notes=("outside strings and comments a program is written in ASCII",),
        help=help_,
    )


def _ends_early(source: Source, start: int, expected: str) -> Diagnostic:
    """What is missing belongs at the end of the line before, not where the next one begins."""
    end = len(source.text[:start].rstrip())
    return finding(
        "PTO0002",
        "the statement is not complete at the end of its line",
        Span(source, max(end - 1, 0), end),
        label=f"expected {expected} after this",
    )


# -- grammars of `isa/` as tables and drivers ------------------------------------------------------


def load_tables(grammar: str) -> tables.Tables:
    """Return the LALR tables of a grammar file of `isa/`, from the cache after the first time."""
    path = isa_directory() / grammar
    text = path.read_text(encoding="utf-8")
    plain = cached(path.stem, text.encode(), lambda: tables.to_plain(tables.build(text)))
    return tables.from_plain(plain)


def grammar_driver(grammar: str, builder: Any) -> tuple[Driver, tables.Tables]:
    """Return a driver without error recovery, and its tables, for a small grammar of `isa/`."""
    found = load_tables(grammar)
    return Driver(found, builder), found
