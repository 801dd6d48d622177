"""Where the keys and values of a TOML text are; the library that reads it does not say."""

from __future__ import annotations

import re

from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Source, Span

Path = tuple[str | int, ...]
"""Keys, and the numbers of elements of lists, from the top."""

_TOKEN = re.compile(
    r'(?P<text>"{3}(?:\\.|[^\\])*?"{3,5}|\'{3}.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')'
    r"|(?P<gap>[ \t\r]+|\#[^\n]*)|(?P<end>\n)|(?P<sign>[\[\]{},=.])|(?P<word>[^\s\[\]{},=.\"'#]+)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass(slots=True)
class Places:
    """The places of a text that is valid TOML."""

    source: Source
    keys: dict[Path, Span] = field(default_factory=dict)
    values: dict[Path, Span] = field(default_factory=dict)
    _tokens: list[_Token] = field(default_factory=list)
    _at: int = 0
    _counts: dict[Path, int] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Source) -> Places:
        """Find the places of all keys and values."""
        found = cls(source)
        found._tokens = [
            _Token(str(m.lastgroup), m.group(), m.start(), m.end())
            for m in _TOKEN.finditer(source.text)
            if m.lastgroup != "gap"
        ]
        found._document()
        return found

    def value(self, path: Path) -> Span:
        """Return the place of a value, or of the next thing outside that has one."""
        while path and path not in self.values:
            if path in self.keys:
                return self.keys[path]
            path = path[:-1]
        return self.values.get(path) or Span(self.source, 0, 0)

    def key(self, path: Path) -> Span:
        """Return the place of a key."""
        return self.keys.get(path) or self.value(path)

    # -- reading ----------------------------------------------------------------------------------

    def _next(self) -> _Token:
        token = self._peek()
        self._at += 1
        return token

    def _peek(self) -> _Token:
        end = len(self.source.text)
        return self._tokens[self._at] if self._at < len(self._tokens) else _Token("", "", end, end)

    def _skip(self) -> None:
        while self._peek().kind == "end":
            self._at += 1

    def _document(self) -> None:
        base: Path = ()
        self._skip()
        while self._peek().kind:
            base = self._header() if self._peek().text == "[" else self._pair(base)
            self._skip()

    def _header(self) -> Path:
        start = self._next()
        is_list = self._peek().text == "["
        if is_list:
            self._next()
        names = self._names()
        path: Path = ()
        for name, _ in names[:-1]:
            path = self._inside((*path, name))
        path = (*path, names[-1][0])
        last = self._next()
        if is_list:
            last = self._next()
            path = (*path, self._counts.get(path, 0))
            self._counts[path[:-1]] = int(path[-1]) + 1
        self.keys[path] = Span(self.source, start.start, last.end)
        self.keys.setdefault(path[:-1] if is_list else path, self.keys[path])
        return path

    def _inside(self, path: Path) -> Path:
        """A list of tables means its last one."""
        return (*path, self._counts[path] - 1) if path in self._counts else path

    def _names(self) -> list[tuple[str, _Token]]:
        names: list[tuple[str, _Token]] = []
        while True:
            token = self._next()
            names.append((token.text.strip("\"'"), token))
            if self._peek().text != ".":
                return names
            self._next()

    def _pair(self, base: Path) -> Path:
        names = self._names()
        path = base
        for name, token in names:
            path = (*path, name)
            self.keys.setdefault(path, Span(self.source, token.start, token.end))
        self._next()  # `=`
        self._value(path)
        return base

    def _value(self, path: Path) -> None:
        first = last = self._peek()
        if first.text == "[":
            last = self._list(path)
        elif first.text == "{":
            last = self._table(path)
        else:
            while self._peek().text not in (",", "]", "}") and self._peek().kind not in ("end", ""):
                last = self._next()
        self.values[path] = Span(self.source, first.start, last.end)

    def _list(self, path: Path) -> _Token:
        self._next()
        number = 0
        while True:
            self._skip()
            if self._peek().text in ("]", ""):
                return self._next()
            before = self._at
            self._value((*path, number))
            number += 1
            self._after(before)

    def _table(self, path: Path) -> _Token:
        self._next()
        while True:
            self._skip()
            if self._peek().text in ("}", ""):
                return self._next()
            before = self._at
            self._pair(path)
            self._after(before)

    def _after(self, before: int) -> None:
        """Pass the comma after an element, or a sign that begins none: what is no TOML ends too."""
        self._skip()
        if self._peek().text == "," or self._at == before:
            self._next()
