"""Program text and places in it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from ptosim.ground.records import dataclass, field

_LINE_END = re.compile(r"\r\n?|\n")
_CPP_SUFFIXES = (".cpp", ".cc", ".cce", ".h", ".hpp", ".cxx")
KERNELS = frozenset((".pto", ".cpp", ".cc", ".cce", ".cxx"))
"""Suffixes of files that may be a program: headers are parts of others."""
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
    beside: list[str] = field(default_factory=list, repr=False, compare=False)
    """The files that a C++ text includes."""
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


# Control characters of foreign text, shown as what they are.
#
# A program, a name of a file or a message may carry characters that a terminal obeys instead of
# showing them: ESC begins commands (a title, a colour, the clipboard), BEL rings, C1 characters do
# the same in one character, and the marks of bidirectional text show a line in another order than
# it is read in (CVE-2021-42574, "Trojan Source"). Whatever ptosim shows has them as `\u{1b}`, as
# rustc and gcc write them; a file that it rewrites keeps its bytes.

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Characters that change the direction of text (Unicode Standard Annex 9, table 4)."""

_OBEYED = re.compile(rf"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{BIDI}]")
"""Everything but tab, line feed and the carriage return before one."""
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_BIDI = re.compile(f"[{BIDI}]")


def visible(text: str, *, colored: bool = False) -> str:
    """Return a text without a character that a terminal obeys; of a text that ptosim coloured
    itself (`colored`) the colours stay."""
    if _OBEYED.search(text) is None:
        return text
    if not colored:
        return _OBEYED.sub(_named, text)
    between = [_OBEYED.sub(_named, part) for part in _COLOR.split(text)]
    colors = [*_COLOR.findall(text), ""]
    return "".join(part + color for part, color in zip(between, colors, strict=True))


def visible_line(line: str) -> tuple[str, Sequence[int]]:
    """Return a line of a program as it is shown, and for each of its places (one after the last
    too) the column of that."""
    if _OBEYED.search(line) is None:
        return line, range(len(line) + 1)
    parts = [_OBEYED.sub(_named, character) for character in line]
    columns = [0]
    for part in parts:
        columns.append(columns[-1] + len(part))
    return "".join(parts), columns


def in_json(text: str) -> str:
    """Return JSON with such characters in JSON's own escape: the same values to whoever reads
    it."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def in_program(text: str) -> str:
    """Return a program to be shown: in its strings such characters are MLIR's escape (two
    hexadecimal digits a byte), so that the program is the same; elsewhere they are in comments."""
    return _STRING.sub(lambda found: _OBEYED.sub(_bytes, found[0]), text)


def has_bidi(text: str) -> int | None:
    """Return where the first character is that changes the direction of text; None without one."""
    found = None if text.isascii() else _BIDI.search(text)
    return found.start() if found is not None else None


def _named(found: re.Match[str]) -> str:
    return f"\\u{{{ord(found[0]):x}}}"


def _bytes(found: re.Match[str]) -> str:
    return "".join(f"\\{byte:02X}" for byte in found[0].encode())
