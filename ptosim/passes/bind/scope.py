"""Names of values: nested scopes, redefinition, values that are not defined."""

from __future__ import annotations

import difflib

from ptosim.ground.diagnostics.model import Label, Sink, finding
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.token import Tok
from ptosim.ground.ir.types import ErrorType, MaskType, Type, VRegType
from ptosim.ground.source import Source, Span


class Scope:
    """The values that can be named at a point of the program.

    `open_world` makes an undefined name an argument of the enclosing (implicit) function, as in a
    bare snippet; `skipped` are names whose definitions had a syntax error.
    """

    def __init__(self, source: Source, sink: Sink, skipped: set[str]) -> None:
        self._source = source
        self._sink = sink
        self._values: dict[str, Value] = {}
        self._undo: list[list[tuple[str, Value | None]]] = []
        self._ended: dict[str, Value] = {}
        self._skipped = skipped
        self.open_world: list[Value] | None = None

    def enter(self) -> None:
        """Begin a region."""
        self._undo.append([])

    def leave(self) -> None:
        """End a region: its names are gone."""
        for name, previous in reversed(self._undo.pop()):
            self._ended[name] = self._values[name]
            if previous is None:
                del self._values[name]
            else:
                self._values[name] = previous

    def isolate(self) -> dict[str, Value]:
        """Hide everything (a function sees nothing from outside); return what `restore` needs."""
        outer, self._values = self._values, {}
        self._ended = {}
        return outer

    def restore(self, outer: dict[str, Value]) -> None:
        """Undo `isolate`."""
        self._values = outer

    def define(self, name: str, type_: Type, owner: Operation | None, start: int) -> Value:
        """Make a value visible; a name that is visible already is an error."""
        value = Value(name, type_, owner, start)
        previous = self._values.get(name)
        if previous is not None and not isinstance(previous.type, ErrorType):
            self._sink.emit(self._redefined(name, start, previous))
        if self._undo:
            self._undo[-1].append((name, previous))
        self._values[name] = value
        return value

    def knows(self, name: str) -> bool:
        """True if a name is visible."""
        return name in self._values

    def alias(self, name: str, value: Value) -> None:
        """Make a visible value known under another name too."""
        self._values[name] = value

    def use(self, tok: Tok, declared: Type | None) -> Value:
        """Return the value that a token names; reports an undefined one and goes on with a
        stand-in."""
        name = tok.value[1:]
        value = self._values.get(name)
        if value is None and "#" in name and name.endswith("#0"):
            value = self._values.get(name[:-2])
        if value is None:
            value = self._unknown(name, tok, declared)
        value.uses += 1
        return value

    def _unknown(self, name: str, tok: Tok, declared: Type | None) -> Value:
        type_ = declared or ErrorType()
        value = Value(name, type_, None, tok.start)
        if self.open_world is not None:
            value.is_argument = True
            self.open_world.append(value)
        else:
            value.type = ErrorType()
            if name.partition("#")[0] not in self._skipped:
                self._sink.emit(self._undefined(name, tok))
        self._values[name] = value
        return value

    def _undefined(self, name: str, tok: Tok):
        close = difflib.get_close_matches(name, self._values, n=1)
        ended = self._ended.get(name)
        more, help_ = (), f"did you mean `%{close[0]}`?" if close else None
        if ended is not None:
            place = Span(self._source, ended.start, ended.start + len(ended.name) + 1)
            more = (Label(place, "defined here, in a region that has ended"),)
            if isinstance(ended.type, (VRegType, MaskType)):
                help_ = "a register does not leave its vector region: store it to UB, load it there"
        return finding(
            "PTO1001",
            f"use of undefined value `%{name}`",
            Span(self._source, tok.start, tok.end),
            label="not defined before this point",
            more=more,
            notes=("a value is visible after its definition, to the end of the region around it",),
            help=help_,
        )

    def _redefined(self, name: str, start: int, previous: Value):
        source = self._source
        at = previous.start
        return finding(
            "PTO1002",
            f"redefinition of value `%{name}`",
            Span(source, start, start + len(name) + 1),
            label="defined again here",
            more=(Label(Span(source, at, at + len(previous.name) + 1), "first defined here"),),
            notes=("every value of a function is defined once",),
            help="choose another name",
        )
