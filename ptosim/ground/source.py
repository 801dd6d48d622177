"""Program text and places in it."""

from __future__ import annotations

import re
from bisect import bisect_right

from ptosim.ground.records import dataclass, field

_LINE_END = re.compile(r"\r\n?|\n")
_CPP_SUFFIXES = (".cpp", ".cc", ".cce", ".h", ".hpp", ".cxx")
_PTO_LINE = re.compile(r"^\s*pto\.\w", re.MULTILINE)
_LOOKS_CPP = re.compile(r"^\s*#\s*include\b|^\s*template\s*<|\bAICORE\b|__global__", re.MULTILINE)
_LONE_RETURN = re.compile(r"\r(?!\n)")


def with_line_feeds(text: str) -> str:
    """Return a text whose lines end in LF or CR LF: a CR alone, as old Macs write it, becomes an
    LF, so that no place moves."""
    return _LONE_RETURN.sub("\n", text) if "\r" in text else text


@dataclass(slots=True, eq=False)
class Source:
    """One program text with the name it is reported under; a CR alone ends a line as an LF does.

    Lines and columns are counted from 1, columns in characters; the line table is made on first use
    because a program without findings never needs it. Of one part of a file `text` has blanks where
    the others are, so that its places are those of the file, and `around` is what is there.
    """

    name: str
    text: str
    part: str = ""
    around: tuple[str, str] = ("", "")
    reached: dict[int, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)
    """By which calls places of a C++ text are reached, the innermost first, in words."""
    _line_starts: list[int] | None = field(default=None, repr=False)
    _is_cpp: bool | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.text = with_line_feeds(self.text)

    @property
    def label(self) -> str:
        """The name, with that of the part."""
        return f"{self.name}#{self.part}" if self.part else self.name

    @property
    def is_cpp(self) -> bool:
        """Is it C++: by its name, or by what is in it?"""
        if self._is_cpp is None:
            self._is_cpp = self._told()
        return self._is_cpp

    def _told(self) -> bool:
        name = self.name.lower()
        if name.endswith(_CPP_SUFFIXES):
            # Calls alone are read as a snippet, as on the page.
            return "{" in self.text and _PTO_LINE.search(self.text) is None
        return not name.endswith(".pto") and bool(_LOOKS_CPP.search(self.text))

    @property
    def own(self) -> str:
        """The text without the blanks around a part."""
        before, after = self.around
        return self.text[len(before) : len(self.text) - len(after)]

    @property
    def whole(self) -> str:
        """The text of the file."""
        before, after = self.around
        return f"{before}{self.own}{after}"

    def changed(self, text: str) -> Source:
        """Return another text in the place of this one."""
        return Source(self.name, text, self.part, self.around)

    def _starts(self) -> list[int]:
        if self._line_starts is None:
            starts = [0, *(m.end() for m in _LINE_END.finditer(self.text))]
            self._line_starts = starts
        return self._line_starts

    def line_column(self, offset: int) -> tuple[int, int]:
        """Return the 1-based (line, column) of a character offset."""
        starts = self._starts()
        line = bisect_right(starts, min(max(offset, 0), len(self.text)))
        return line, offset - starts[line - 1] + 1

    def line_start(self, line: int) -> int:
        """Return the offset of the first character of a 1-based line, the end of the text beyond
        the last one."""
        starts = self._starts()
        return starts[line - 1] if 1 <= line <= len(starts) else len(self.text)

    def line_text(self, line: int) -> str:
        """Return the text of a 1-based line without its line end; '' beyond the last line."""
        starts = self._starts()
        if not 1 <= line <= len(starts):
            return ""
        end = starts[line] - 1 if line < len(starts) else len(self.text)
        return self.text[starts[line - 1] : end].rstrip("\r\n")

    def line_count(self) -> int:
        """Return the number of lines (a text without a line end has one)."""
        return len(self._starts())


@dataclass(frozen=True, slots=True)
class Span:
    """The characters [start, end) of a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        """1-based line of the first character."""
        return self.source.line_column(self.start)[0]

    @property
    def column(self) -> int:
        """1-based column of the first character."""
        return self.source.line_column(self.start)[1]

    @property
    def text(self) -> str:
        """The characters themselves."""
        return self.source.text[self.start : self.end]

    def __str__(self) -> str:
        line, column = self.source.line_column(self.start)
        return f"{self.source.name}:{line}:{column}"
