"""Attribute enums, from `isa/enums.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ptosim.ground.ir.types import DType, PackedDType
from ptosim.ground.isa.data import read_toml
from ptosim.ground.isa.dates import holds
from ptosim.ground.records import dataclass, field


@dataclass(frozen=True, slots=True)
class EnumDef:
    """An enum: its members in order with their values, the pipe of a member where it has one, other
    words for members, and the rows that say which dates have a member or the whole."""

    name: str
    members: dict[str, int]
    pipes: dict[str, str]
    words: dict[str, str] = field(default_factory=dict)
    dates: Mapping[str, Any] = field(default_factory=dict)
    dated: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def member(self, text: str) -> str | None:
        """Return the canonical spelling of a member, None if there is none."""
        if text in self.members:
            return text
        folded = text.lower()
        found = next((m for m in self.members if m.lower() == folded), None)
        return found if found is not None else self.words.get(folded)

    def dates_of(self, member: str) -> Mapping[str, Any]:
        """Return the row that says which dates have a member."""
        return self.dated.get(member, self.dates)

    def members_at(self, date: str) -> list[str]:
        """Return the members that a date has."""
        return [m for m in self.members if holds(self.dates_of(m), date)]


@lru_cache(maxsize=1)
def enums() -> dict[str, EnumDef]:
    """Return every enum by name."""
    table = read_toml("enums.toml")["enum"]
    made = {}
    for name, row in table.items():
        full = table[row["same_as"]] if "same_as" in row else row
        made[name] = EnumDef(
            name,
            full["members"],
            full.get("pipes", {}),
            full.get("words", {}),
            {key: row[key] for key in ("since", "until") if key in row},
            full.get("dated", {}),
        )
    return made


def pipe_named(text: str) -> str | None:
    """Return the pipe that a word names: `PIPE_V` is V, the op class `TLOAD` is MTE2; None for
    another word."""
    pipe = enums()["pipe"].member(text)
    if pipe is not None:
        return pipe.removeprefix("PIPE_")
    classes = enums()["sync_op_type"]
    return classes.pipes.get(classes.member(text) or "")


# Element types, from `isa/dtypes.toml`; those of the last table of `isa/types.toml` are made.


@lru_cache(maxsize=1)
def dtypes() -> dict[str, DType]:
    """Return every element type by its spelling."""
    made: dict[str, DType] = {}
    for name, row in read_toml("dtypes.toml")["dtype"].items():
        made[name] = _made(name, row, made)
    return made


def _made(name: str, row: dict[str, Any], known: dict[str, DType]) -> DType:
    fields = (name, row["bits"], row["kind"], row["class"], row["array"])
    if row["kind"] != "packed":
        return DType(*fields)
    return PackedDType(*fields, known[row["part"]], row["count"])


def dtype(name: str) -> DType:
    """Return one element type; raises KeyError for an unknown spelling."""
    return dtypes()[name]


@lru_cache(maxsize=1)
def plain_dtypes() -> dict[str, DType]:
    """Return the element types that a word names: what a user types, without the dialect's
    prefix."""
    return {name: found for name, found in dtypes().items() if not name.startswith("!")}


def dtype_dates(name: str) -> dict[str, Any]:
    """Return the row of an element type, which says the dates that have it."""
    return read_toml("dtypes.toml")["dtype"][name]


@lru_cache(maxsize=64)
def packed_vector(part: DType, count: int) -> PackedDType | None:
    """Return `vector<COUNTxPART>` as one element of memory, None where there is no such one."""
    if part.family not in read_toml("types.toml")["packed_vector"].get(str(count), ()):
        return None
    bits = part.bits * count
    name = f"vector<{count}x{part}>"
    return PackedDType(
        name, bits, "packed", f"vector<{count}x{part.family}>", f"uint{bits}", part, count
    )
