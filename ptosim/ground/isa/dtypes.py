"""Element types, from `isa/dtypes.toml`; those of the last table of `isa/types.toml` are made."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ptosim.ground.ir.types import DType, PackedDType
from ptosim.ground.isa.data import read_toml


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
