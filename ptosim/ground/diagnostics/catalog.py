"""The long texts of diagnostic codes, from `isa/diagnostics.toml`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from ptosim.ground.errors import IsaDataError
from ptosim.ground.isa.cache import TomlTable, derived, isa_directory, read_toml
from ptosim.ground.records import NamedTuple, dataclass

_FILE = "diagnostics.toml"

ORIGINS = {
    "assembler": "the assembler refuses the text, or accepts what it cannot lower",
    "hardware": "accepted, but the machine does something else than the text says",
    "lint": "works, could be better",
}
"""Whose verdict a finding is, and what that means."""
SEVERITIES = {"error", "warning", "note"}
LEVELS = ("1", "2", "3", "inferred 3")
"""Keys of `at_level`: the assembler's levels, and 3 where the program's addresses chose it."""


CURED_BY_FOLLOWING = ("PTO5006", "PTO6401", "PTO7104", "PTO7108")
"""Codes of what following a program finds, of which a cure is tried by following it again:
mistaken events, tiles over each other."""


class Standing(NamedTuple):
    """How bad the findings of a code are, whose verdict they are, and where a level differs:
    severities by level; `since` and `until` of a rule that not every date of the language has; the
    numbers of errors that boards show."""

    severity: str
    origin: str
    at_level: dict[str, str]
    dates: dict[str, str]
    boards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """What `ptosim explain` says about a code."""

    title: str
    severity: str
    origin: str
    explanation: str
    example: str
    cure: str
    boards: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return the entry as JSON data."""
        from dataclasses import asdict  # brings `inspect`

        return asdict(self)

    def text(self, code: str) -> str:
        """Return the entry as plain text."""
        parts = [
            f"{code} ({self.severity}, {self.origin}): {self.title}",
            "",
            _wrap(self.explanation),
        ]
        parts += ["", _wrap(f"Origin {self.origin}: {ORIGINS[self.origin]}.")]
        if self.example:
            parts += ["", "Example:", "", _indented(self.example)]
        if self.cure:
            parts += ["", "Cure:", "", _wrap(self.cure)]
        shown = shown_by_programs().get(code)
        why = without_program().get(code)
        if shown is not None:
            parts += ["", shown.told()]
        elif why is not None:
            parts += ["", _wrap(f"No program of one file shows it: {why}")]
        if self.boards:
            words = read_toml("device_errors.toml")["number"]
            parts += ["", "Boards say:", ""]
            parts += [f"    {number}  {words[number]}" for number in self.boards]
        return "\n".join(parts) + "\n"


@lru_cache(maxsize=1)
def standings() -> dict[str, Standing]:
    """Return what a finding needs of every code: one severity and one origin each. Raises
    IsaDataError for a row without them."""
    rows = derived(_FILE, "standings", _plain_standings)
    return {code: Standing(*row) for code, row in rows.items()}


def _plain_standings(content: TomlTable) -> dict[str, tuple[Any, ...]]:
    return {code: _plain_standing(code, row) for code, row in content["code"].items()}


def _plain_standing(code: str, row: TomlTable) -> tuple[Any, ...]:
    severity, origin, at_level = row.get("severity"), row.get("origin"), row.get("at_level", {})
    strengths = {severity, *at_level.values()}
    if not strengths <= SEVERITIES or origin not in ORIGINS or not set(at_level) <= set(LEVELS):
        raise IsaDataError(
            f"isa/{_FILE}, {code}: a code has a severity ({', '.join(sorted(SEVERITIES))}), an "
            f"origin ({', '.join(ORIGINS)}), and maybe severities by level ({', '.join(LEVELS)})"
        )
    dates = {key: row[key] for key in ("since", "until") if key in row}
    return severity, origin, at_level, dates, tuple(row.get("boards", ()))


COLUMNS = 79
"""What a text of the catalogue is filled to: it is read in terminals."""


def board_numbers(numbers: Sequence[str]) -> str:
    """Return what boards say instead, as the end of a help line."""
    *most, last = numbers
    return f"boards say {' or '.join((', '.join(most), last)) if most else last}"


@lru_cache(maxsize=1)
def catalog() -> dict[str, Entry]:
    """Return every code with its texts."""
    return {
        code: Entry(
            row["title"],
            row["severity"],
            row["origin"],
            row["explanation"],
            row.get("example", ""),
            row.get("cure", ""),
            tuple(row.get("boards", ())),
        )
        for code, row in read_toml(_FILE)["code"].items()
    }


class Shown(NamedTuple):
    """A program that a code is found in, and one in which it is not ("" where nobody has written
    one)."""

    wrong: str
    right: str
    command: str
    """The command that finds it, with its options, as it is written: `ptosim check FILE`."""
    right_command: str
    """The command that finds nothing: with other arguments, where these are what is wrong."""
    beside: tuple[str, ...] = ()
    """Codes without which it is never found."""

    def told(self) -> str:
        """Return both as plain text."""
        said = _wrap(f"A program with it ({self.found_by()}):")
        parts = [said, _indented(self.wrong)]
        if self.right == self.wrong:
            parts.append(f"Without it: `{self.right_command}`.")
        elif self.right:
            other = f" (`{self.right_command}`)" if self.right_command != self.command else ""
            parts += [f"Without it{other}:", _indented(self.right)]
        return "\n\n".join(parts)

    def found_by(self) -> str:
        """Return the command, what is found beside the code, and what files of it are."""
        words = [f"`{self.command}`"]
        words += [f"beside {' and '.join(self.beside)}"] if self.beside else []
        words += ["the model is written as `onnx.parser` reads it"] * ("FILE.onnx" in self.command)
        words += ["DATA.npz: `x`, 16x2 ones"] * ("DATA.npz" in self.command)
        return "; ".join(words)


_PROGRAM = re.compile(
    r"^// ---- (PTO\d{4}) (wrong|right|none)((?: \+PTO\d{4})*)(?: (.*))?\n", re.MULTILINE
)


@lru_cache(maxsize=1)
def shown_by_programs() -> dict[str, Shown]:
    """Return the programs that show codes, from `isa/codes.pto`; tests check each."""
    found: dict[str, Shown] = {}
    for code, word, beside, given, body in _parts():
        if word == "wrong":
            said = _command(given, body)
            others = tuple(each.removeprefix("+") for each in beside.split())
            found[code] = Shown(body, "", said, said, others)
        elif word == "right":
            wrong = found[code]
            said = _command(given, wrong.wrong) if given else wrong.command
            found[code] = wrong._replace(right=body or wrong.wrong, right_command=said)
    return found


@lru_cache(maxsize=1)
def without_program() -> dict[str, str]:
    """Return why a code is shown by no program, for those that are not."""
    return {code: " ".join(body.split()) for code, word, *_, body in _parts() if word == "none"}


def _parts() -> Iterator[tuple[str, str, str, str, str]]:
    """Code, what its part is, codes beside it, options and text."""
    parts = _PROGRAM.split((isa_directory() / "codes.pto").read_text(encoding="utf-8"))[1:]
    for code, word, beside, given, text in zip(*(parts[n::5] for n in range(5)), strict=True):
        yield code, word, beside, given or "", text.strip("\n") + "\n" if text.strip() else ""


def _command(given: str, text: str) -> str:
    """The command line: `run --arg n=9` is `ptosim run FILE --arg n=9`; `check` needs no word. One
    that says itself where the file is, `run --chain FILE.toml`, is whole."""
    if "FILE." in given:
        return f"ptosim {given}"
    file = "FILE.cpp" if "AICORE" in text else "FILE"
    word, _, rest = given.partition(" ")
    named, options = ("check", given) if word.startswith("-") or not word else (word, rest)
    return f"ptosim {named} {file} {options}".strip()


def _indented(text: str) -> str:
    return textwrap.indent(text.strip("\n"), "    ")


def _wrap(text: str) -> str:
    paragraphs = [" ".join(p.split()) for p in text.strip().split("\n\n")]
    return "\n\n".join(textwrap.fill(p, COLUMNS) for p in paragraphs)


# -- what a pasted error of a board means, from `isa/device_errors.toml` ---------------------------


_BITS = r"(?:errcode|error code|errorcode)\D{0,12}(0x[0-9a-f]+)"
_BARE = r"\b0x[0-9a-f]{9,16}\b"


@dataclass(frozen=True, slots=True)
class DeviceError:
    """An entry: patterns, what happened, diagnostics to look for, commands that show them."""

    patterns: tuple[str, ...]
    title: str
    text: str
    look_for: tuple[str, ...]
    commands: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the entry as JSON data."""
        return {
            "title": self.title,
            "text": self.text,
            "look_for": list(self.look_for),
            "commands": list(self.commands),
        }


def device_errors() -> list[DeviceError]:
    """Return every entry."""
    from ptosim.ground.isa.cache import read_toml

    return [
        DeviceError(
            tuple(row["match"]),
            row["title"],
            row["text"],
            tuple(row["look_for"]),
            tuple(row["commands"]),
        )
        for row in read_toml("device_errors.toml")["error"]
    ]


def matching(text: str) -> list[DeviceError]:
    """Return the entries that a pasted text matches."""
    return [
        entry
        for entry in device_errors()
        if any(re.search(pattern, text, re.IGNORECASE) for pattern in entry.patterns)
    ]


def set_bits(text: str) -> list[int]:
    """Return the numbers of the bits of an error code in a pasted text."""
    found = re.search(_BITS, text, re.IGNORECASE) or re.search(_BARE, text, re.IGNORECASE)
    if found is None:
        return []
    value = int(found[found.lastindex or 0], 16)
    return [bit for bit in range(value.bit_length()) if value >> bit & 1]
