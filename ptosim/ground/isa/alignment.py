"""What addresses of register loads and stores have to be multiples of: `isa/alignment.toml`."""

from __future__ import annotations

from functools import lru_cache

from ptosim.ground.isa.data import TomlTable, read_toml
from ptosim.ground.records import NamedTuple


class Alignment(NamedTuple):
    """The bytes that an address has to be a multiple of, whether that is certain, and what to
    write instead."""

    bytes: int
    is_certain: bool
    cure: str


@lru_cache(maxsize=1)
def _rows() -> dict[str, list[TomlTable]]:
    found: dict[str, list[TomlTable]] = {}
    for row in read_toml("alignment.toml")["alignment"]:
        for mnemonic in row["of"].split():
            found.setdefault(mnemonic, []).append(row)
    return found


@lru_cache(maxsize=256)
def alignment_of(mnemonic: str, dist: str) -> Alignment | None:
    """Return what holds for an operation with a distribution; None if its address is free."""
    for row in _rows().get(mnemonic, ()):
        if "dist" not in row or dist.startswith(tuple(row["dist"].split())):
            number = row["bytes"]
            if number == "width":
                number = int(dist.rpartition("_B")[2]) // 8
            return Alignment(number, row.get("certain", True), row.get("cure", ""))
    return None
