"""Element conversions that a target has, from `isa/conversions.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ptosim.ground.ir.types import DType
from ptosim.ground.isa.data import read_toml


@dataclass(frozen=True, slots=True)
class ConversionDef:
    """A pair of element types: targets that convert it, and the default saturation on each."""

    src: str
    dst: str
    targets: tuple[str, ...]
    saturate: Mapping[str, bool]


@lru_cache(maxsize=1)
def conversions() -> dict[tuple[str, str], ConversionDef]:
    """Return every pair; types are spelled without `s` for signed."""
    made = {}
    for row in read_toml("conversions.toml")["conversion"]:
        targets = tuple(row["targets"])
        saturate = {t: row["saturate"][t] in (True, "on", "ON") for t in targets}
        made[row["src"], row["dst"]] = ConversionDef(row["src"], row["dst"], targets, saturate)
    return made


@dataclass(frozen=True, slots=True)
class LaneConversion:
    """A pair of lane types of vector registers: the letters of its rounding, whether it says how it
    saturates, the parts of a register that it takes."""

    rnd: str
    sat: bool
    parts: tuple[str, ...]


_PARTS = {1: (), 2: ("EVEN", "ODD"), 4: ("P0", "P1", "P2", "P3")}


@lru_cache(maxsize=256)
def lane_conversion(src: DType, dst: DType) -> LaneConversion | None:
    """Return what the vector unit has for a pair of lane types, None if it has nothing."""
    table = read_toml("conversions.toml")["vector"]["pairs"]
    row = table.get(f"{conversion_name(src)} {conversion_name(dst)}")
    if row is None:
        return None
    narrow, wide = sorted(_number_bits(dtype) for dtype in (src, dst))
    return LaneConversion(row["rnd"], row["sat"], _PARTS[wide // narrow])


def _number_bits(dtype: DType) -> int:
    return 4 if dtype.family.startswith("f4") else dtype.bits


def conversion_name(dtype: DType) -> str:
    """Return the spelling of an element type in the table: one for equal types."""
    if dtype.is_integer:
        return f"ui{dtype.bits}" if dtype.kind == "uint" else f"i{dtype.bits}"
    return dtype.family


def conversion(src: DType, dst: DType, target: str) -> ConversionDef | None:
    """Return the row of a pair if the target has it."""
    found = conversions().get((conversion_name(src), conversion_name(dst)))
    return found if found is not None and target in found.targets else None


@lru_cache(maxsize=1)
def _simt() -> dict[tuple[str, str], str]:
    made: dict[tuple[str, str], str] = {}
    for row in read_toml("conversions.toml")["simt"]:
        for src in row["src"].split():
            for dst in row["dst"].split():
                made[src, dst] = row["round"]
    return made


def simt_rounding(src: str, dst: str) -> str | None:
    """Return the letters of the rounding modes that a conversion of SIMT code has; None if there is
    no such conversion."""
    return _simt().get((src, dst))
