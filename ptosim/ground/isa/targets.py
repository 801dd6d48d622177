"""The machine of each target, from `isa/targets/*.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ptosim.ground.errors import IsaDataError
from ptosim.ground.isa.data import read_toml


@dataclass(frozen=True, slots=True)
class SpaceDef:
    """A memory space; sizes and alignments in bytes. `safe` <= `planner` <= `bytes`."""

    name: str
    alias: str
    bytes: int
    planner: int
    safe: int
    align: int
    plan_align: int
    source: str
    confidence: str


@dataclass(frozen=True, slots=True)
class ScratchDef:
    """Bytes of a space that library code uses without being told."""

    space: str
    start: int
    bytes: int
    source: str


@dataclass(frozen=True, slots=True)
class MachineDef:
    """A target: its spaces, hidden scratch and cluster shape."""

    name: str
    title: str
    spaces: dict[str, SpaceDef]
    scratch: tuple[ScratchDef, ...]
    cube_cores: int
    vector_cores: int
    blocks: int


CONFIDENCES = ("measured", "documented", "fitted", "derived", "reported", "assumed")


@lru_cache(maxsize=4)
def machine(target: str) -> MachineDef:
    """Return the machine of a target. Raises IsaDataError for a quantity without source."""
    table = read_toml(f"targets/{target}.toml")
    spaces = {}
    for name, row in table["space"].items():
        if not row.get("source") or row.get("confidence") not in CONFIDENCES:
            raise IsaDataError(
                f"isa/targets/{target}.toml: space {name} has no source or confidence"
            )
        spaces[name] = SpaceDef(name=name, **row)
    scratch = tuple(
        ScratchDef(row["space"], row["start"], row["bytes"], row["source"])
        for row in table.get("scratch", {}).values()
    )
    cluster = table["cluster"]
    return MachineDef(
        table["name"],
        table["title"],
        spaces,
        scratch,
        cluster["cube_cores"],
        cluster["vector_cores"],
        cluster["blocks"],
    )
