"""Files in TOML that describe launches: what their keys may hold, said with place and cure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ptosim.ground.diagnostics.model import DescriptionError, Sink
from ptosim.ground.errors import UsageError
from ptosim.ground.files import read_text
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Source, Span
from ptosim.ground.words import nearest

KeyPath = tuple[str | int, ...]
"""Keys, and the numbers of elements of lists, from the top."""

_TOKEN = (
    r'(?P<text>"{3}(?:\\.|[^\\])*?"{3,5}|\'{3}.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')'
    r"|(?P<gap>[ \t\r]+|\#[^\n]*)|(?P<end>\n)|(?P<sign>[\[\]{},=.])|(?P<word>[^\s\[\]{},=.\"'#]+)"
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
    keys: dict[KeyPath, Span] = field(default_factory=dict)
    values: dict[KeyPath, Span] = field(default_factory=dict)
    _tokens: list[_Token] = field(default_factory=list)
    _at: int = 0
    _counts: dict[KeyPath, int] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Source) -> Places:
        """Find the places of all keys and values."""
        found = cls(source)
        found._tokens = [
            _Token(str(m.lastgroup), m.group(), m.start(), m.end())
            for m in re.finditer(_TOKEN, source.text, re.DOTALL)
            if m.lastgroup != "gap"
        ]
        found._document()
        return found

    def value(self, path: KeyPath) -> Span:
        """Return the place of a value, or of the next thing outside that has one."""
        while path and path not in self.values:
            if path in self.keys:
                return self.keys[path]
            path = path[:-1]
        return self.values.get(path) or Span(self.source, 0, 0)

    def key(self, path: KeyPath) -> Span:
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
        base: KeyPath = ()
        self._skip()
        while self._peek().kind:
            base = self._header() if self._peek().text == "[" else self._pair(base)
            self._skip()

    def _header(self) -> KeyPath:
        start = self._next()
        is_list = self._peek().text == "["
        if is_list:
            self._next()
        names = self._names()
        path: KeyPath = ()
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

    def _inside(self, path: KeyPath) -> KeyPath:
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

    def _pair(self, base: KeyPath) -> KeyPath:
        names = self._names()
        path = base
        for name, token in names:
            path = (*path, name)
            self.keys.setdefault(path, Span(self.source, token.start, token.end))
        self._next()  # `=`
        self._value(path)
        return base

    def _value(self, path: KeyPath) -> None:
        first = last = self._peek()
        if first.text == "[":
            last = self._list(path)
        elif first.text == "{":
            last = self._table(path)
        else:
            while self._peek().text not in (",", "]", "}") and self._peek().kind not in ("end", ""):
                last = self._next()
        self.values[path] = Span(self.source, first.start, last.end)

    def _list(self, path: KeyPath) -> _Token:
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

    def _table(self, path: KeyPath) -> _Token:
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


Check = tuple[str, Callable[[Any], bool]]
"""What a value should be, in words, and whether it is."""
TEXT: Check = ("a text", lambda v: isinstance(v, str))
TEXTS: Check = (
    "a list of texts",
    lambda v: isinstance(v, list) and all(isinstance(t, str) for t in v),
)
COUNT: Check = ("a whole number from 1 on", lambda v: type(v) is int and v >= 1)
NUMBER: Check = ("a whole number from 0 on", lambda v: type(v) is int and v >= 0)
SIZE: Check = ("a number from 0 on", lambda v: type(v) in (int, float) and v >= 0)
TABLE: Check = ("a table", lambda v: isinstance(v, dict))
LEVEL: Check = ("1, 2 or 3", lambda v: type(v) is int and v in (1, 2, 3))
SYNC: Check = ("`auto` or `manual`", lambda v: v in ("auto", "manual"))
VALUE: Check = (
    "a text (a SPEC, a buffer) or a number",
    lambda v: isinstance(v, (str, int, float)),
)
TARGETS: Check = (
    "a list of targets, `a2a3` and `a5`",
    lambda v: isinstance(v, list) and bool(v) and all(isinstance(t, str) for t in v),
)
OF_TOLERANCE: dict[str, Check] = {"rtol": SIZE, "atol": SIZE, "ulp": NUMBER}


def read_description(path: Path) -> tuple[Source, dict[str, Any]]:
    """Return the text and the content of a file. Raises UsageError for a file that cannot be read,
    DescriptionError for one that is not TOML."""
    text = read_text(path).replace("\r\n", "\n")
    from ptosim.ground import files

    source = Source(str(path), text)
    try:
        return source, files.read(source.text)
    except ValueError as problem:  # no TOML, or a number of thousands of digits
        raise _unreadable(source, str(problem)) from problem


_FORM = "texts are between quotation marks; a table begins with `[name]`"
_ESCAPED = r"a text with backslashes is between single quotation marks: 'C:\…'"


def _unreadable(source: Source, message: str) -> DescriptionError:
    found = re.search(r"\(at line (\d+), column (\d+)\)", message)
    start = len(source.text)
    if found is not None:
        lines = source.text.split("\n")[: int(found[1]) - 1]
        start = sum(len(line) + 1 for line in lines) + int(found[2]) - 1
    sink = Sink()
    sink.report(
        "PTO1080",
        f"the file is not TOML: {message.partition(' (at')[0].lower()}",
        Span(source, min(start, len(source.text)), min(start + 1, len(source.text))),
        help=_ESCAPED if "\\" in message or "escape" in message else _FORM,
    )
    return DescriptionError(list(sink))


class TableReader:
    """Reads one file; what is wrong goes into `sink`, and the rest is read all the same."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.places = Places.of(source)
        self.sink = Sink()

    def refuse_faults(self) -> None:
        """Raise DescriptionError with everything that is wrong, if anything is."""
        if self.sink.has_errors:
            raise DescriptionError(sorted(self.sink, key=lambda d: d.span.start if d.span else 0))

    def table(
        self, path: KeyPath, table: Mapping[str, Any], checks: Mapping[str, Check], what: str,
        required: tuple[str, ...] = (),
    ) -> dict[str, Any]:  # fmt: skip
        """Return the entries of a table that are what they should be."""
        for name in required:
            if name not in table:
                self.sink.report(
                    "PTO1083",
                    f"{what} has no `{name}`",
                    self.places.key(path),
                    help=f"write `{name} = …`: {checks[name][0]}",
                )
        for name in table.keys() - checks.keys():
            known = f"{what} may have: {', '.join(checks)}"
            self.sink.report(
                "PTO1081",
                f"{what} has a key `{name}`, which means nothing",
                self.places.key((*path, name)),
                notes=(known,),
                help=nearest(name, checks, "remove it"),
            )
        return {
            n: v for n, v in table.items() if n in checks and self.fits((*path, n), v, checks[n])
        }

    def fits(self, path: KeyPath, value: Any, check: Check) -> bool:
        """Report a value that is not what it should be."""
        words, is_right = check
        if is_right(value):
            return True
        self.sink.report(
            "PTO1082",
            f"`{path[-1]}` is {_described(value)}; it should be {words}",
            self.places.value(path),
            help=f"write {words}",
        )
        return False

    def texts(self, path: KeyPath, table: Mapping[str, Any]) -> dict[str, str]:
        """Return a table of texts by name."""
        return {n: v for n, v in table.items() if self.fits((*path, n), v, TEXT)}

    def known(self, path: KeyPath, name: str, names: Mapping[str, Any], what: str) -> bool:
        """Report a name that names nothing."""
        if name in names:
            return True
        listed = ", ".join(names) or "none"
        self.sink.report(
            "PTO1084",
            f"there is no {what} `{name}`",
            self.places.value(path),
            notes=(f"{what}s: {listed}",),
            help=nearest(name, names, f"name it in `[{what}s]`"),
        )
        return False

    def tolerance(self, path: KeyPath, table: Mapping[str, Any]) -> Tolerance:
        """Return a tolerance."""
        return Tolerance(**self.table(path, table, OF_TOLERANCE, f"the tolerance of `{path[-1]}`"))


def _described(value: Any) -> str:
    kinds = {dict: "a table", list: "a list", str: "the text", bool: "the value"}
    word = kinds.get(type(value), "the number")
    if isinstance(value, (dict, list)):
        return word
    return f"{word} `{str(value).lower() if isinstance(value, bool) else value}`"


# What belongs to a program apart from its text: `kernel.toml` next to `kernel.pto`.
#
# summary = "…" targets = ["a2a3", "a5"] [args]                      # as on the command line, files
# relative to the program x = "randn:f32:128x256:7" [expect]                    # bit-exact unless a
# tolerance says otherwise y = "kernel.npz:y" [tolerance] y = { rtol = 1e-3, atol = 1e-5 } [assume]
# # what `check` takes for granted: ranges by name, or facts of any name n = "1..128" rows = "n % 16
# == 0" [index]                     # arguments that say where something runs, and what they are
# less than rank = "ranks"


@dataclass(frozen=True, slots=True)
class Sidecar:
    """Inputs and expectations that are kept with a program."""

    path: Path
    summary: str = ""
    targets: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)  # those of OPTIONS
    args: dict[str, str] = field(default_factory=dict)
    expect: dict[str, str] = field(default_factory=dict)
    tolerance: dict[str, Tolerance] = field(default_factory=dict)
    exit_code: int = 0  # of programs that are wrong on purpose
    codes: tuple[str, ...] = ()  # the findings that they are there to show
    assume: dict[str, str] = field(default_factory=dict)
    index: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where the files are that it names."""
        return self.path.parent


OPTIONS = ("level", "entry", "block_num", "ranks", "profile", "seed", "sync", "compat")
"""Choices of a launch that a sidecar may make."""


_KEYS: dict[str, Check] = {
    "summary": TEXT, "targets": TARGETS, "codes": TEXTS, "exit_code": NUMBER,
    "args": TABLE, "expect": TABLE, "tolerance": TABLE, "assume": TABLE, "index": TABLE,
    "level": LEVEL, "entry": TEXT, "block_num": COUNT, "ranks": COUNT, "profile": TEXT,
    "seed": NUMBER, "sync": SYNC, "compat": TEXT, "part": TABLE,
}  # fmt: skip
_OF_PARTS: dict[str, Check] = {
    "targets": TARGETS, "args": TABLE, "expect": TABLE, "tolerance": TABLE, "block_num": COUNT,
}  # fmt: skip


def sidecar_of(program: Path, part: str = "") -> Sidecar | None:
    """Return the sidecar of a program, None if there is none; of a `part` what is said for it over
    what is said for all. Raises UsageError if it cannot be read, DescriptionError with everything
    that is wrong in it."""
    path = program.with_suffix(".toml") if program.name else program
    if not path.is_file():
        return None
    source, content = read_description(path)
    reader = TableReader(source)
    table = reader.table((), content, _KEYS, "a sidecar file")
    found = _tables(reader, (), table)
    options = {k: table[k] for k in OPTIONS if k in table}
    for name, own in table.get("part", {}).items():
        at = ("part", name)
        if not reader.fits(at, own, TABLE):
            continue
        one = _tables(reader, at, reader.table(at, own, _OF_PARTS, "a part of a sidecar file"))
        if name.removesuffix(".pto") == part.removesuffix(".pto"):
            found = _Tables(
                found.args | one.args, found.expect | one.expect,
                found.tolerance | one.tolerance, one.targets or found.targets,
            )  # fmt: skip
            options |= {k: own[k] for k in OPTIONS if k in own}
    assume = reader.texts(("assume",), table.get("assume", {}))
    index = reader.texts(("index",), table.get("index", {}))
    reader.refuse_faults()
    return Sidecar(
        path,
        table.get("summary", ""),
        found.targets,
        options,
        found.args,
        found.expect,
        found.tolerance,
        table.get("exit_code", 0),
        tuple(table.get("codes", ())),
        assume=assume,
        index=index,
    )


@dataclass(frozen=True, slots=True)
class _Tables:
    """What is said for all parts, or for one."""

    args: dict[str, str]
    expect: dict[str, str]
    tolerance: dict[str, Tolerance]
    targets: tuple[str, ...]


def _tables(reader: TableReader, at: tuple[str, ...], table: dict[str, Any]) -> _Tables:
    args = table.get("args", {}).items()
    return _Tables(
        {n: str(v) for n, v in args if reader.fits((*at, "args", n), v, VALUE)},
        reader.texts((*at, "expect"), table.get("expect", {})),
        {
            name: reader.tolerance((*at, "tolerance", name), each)
            for name, each in table.get("tolerance", {}).items()
            if reader.fits((*at, "tolerance", name), each, TABLE)
        },
        tuple(table.get("targets", ())),
    )


# The arguments and expectations that a sidecar file keeps with a program, as arrays.


def kept_arguments(sidecar: Sidecar) -> dict[str, Any]:
    """Return the arguments by name. Raises UsageError for a SPEC that means nothing or a file that
    cannot be read."""
    from ptosim.launch.array_files import (
        parse_argument,  # a check of the text alone loads no arrays
    )

    return {name: parse_argument(spec, sidecar.folder) for name, spec in sidecar.args.items()}


def kept_expectations(sidecar: Sidecar) -> dict[str, tuple[Any, Tolerance]]:
    """Return the values that outputs are expected to have with those arguments, and how far they
    may be from them."""
    from ptosim.launch.array_files import parse_expectation  # as above

    return {
        name: (parse_expectation(spec, sidecar.folder), sidecar.tolerance.get(name, Tolerance()))
        for name, spec in sidecar.expect.items()
    }


# How far an output may be from what was expected; apart from the comparison, because sidecars name
# tolerances and a check of the text alone loads no arrays.


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far values may differ; without any, bit for bit with NaN equal to NaN."""

    rtol: float | None = None
    atol: float | None = None
    ulp: int | None = None

    def __post_init__(self) -> None:
        for name in ("rtol", "atol", "ulp"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise UsageError(f"{name} is {value}; a tolerance is a number from 0 on")

    @property
    def is_exact(self) -> bool:
        """True if every bit counts."""
        return self.rtol is None and self.atol is None and self.ulp is None

    def __str__(self) -> str:
        if self.is_exact:
            return "bit-exact"
        parts = [(n, getattr(self, n)) for n in ("rtol", "atol", "ulp")]
        return ", ".join(f"{n} {v}" for n, v in parts if v is not None)
