"""What a pasted error of a board means, from `isa/device_errors.toml`."""

from __future__ import annotations

import re

from ptosim.ground.records import dataclass

_BITS = re.compile(r"(?:errcode|error code|errorcode)\D{0,12}(0x[0-9a-f]+)", re.IGNORECASE)
_BARE = re.compile(r"\b0x[0-9a-f]{9,16}\b", re.IGNORECASE)


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
    from ptosim.ground.isa.data import read_toml

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
    found = _BITS.search(text) or _BARE.search(text)
    if found is None:
        return []
    value = int(found[found.lastindex or 0], 16)
    return [bit for bit in range(value.bit_length()) if value >> bit & 1]
