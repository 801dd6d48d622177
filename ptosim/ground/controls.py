"""Control characters of foreign text, shown as what they are.

A program, a name of a file or a message may carry characters that a terminal obeys instead of
showing them: ESC begins commands (a title, a colour, the clipboard), BEL rings, C1 characters do
the same in one character, and the marks of bidirectional text show a line in another order than it
is read in (CVE-2021-42574, "Trojan Source"). Whatever ptosim shows has them as `\\u{1b}`, as rustc
and gcc write them; a file that it rewrites keeps its bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
