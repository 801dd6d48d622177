"""Element types, from `isa/dtypes.toml`."""

from __future__ import annotations

from functools import lru_cache

from ptosim.ground.ir.types import DType
from ptosim.ground.isa.data import read_toml


@lru_cache(maxsize=1)
def dtypes() -> dict[str, DType]:
    """Return every element type by its spelling."""
    table = read_toml("dtypes.toml")["dtype"]
    return {
        name: DType(name, row["bits"], row["kind"], row["class"], row["array"])
        for name, row in table.items()
    }


def dtype(name: str) -> DType:
    """Return one element type; raises KeyError for an unknown spelling."""
    return dtypes()[name]
