"""Element conversions that a target has, from `isa/conversions.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import DType, PackedDType
from ptosim.ground.isa.cache import TomlTable, read_toml
from ptosim.ground.records import NamedTuple, dataclass


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


class Saturation(NamedTuple):
    """What an operation does with values outside the destination: clamps them, or not. `obeyed`:
    the mode holds for a pair that has one of its own elsewhere; `is_default`: the text names no
    mode, and the library's C++ interface would take another one."""

    saturates: bool
    obeyed: bool = False
    is_default: bool = False


WRAPPING = frozenset(
    (
        ("f16", "ui8"), ("f16", "i8"), ("f32", "i16"), ("f16", "i16"), ("i64", "i32"),
        ("i32", "i16"),
    )
)  # fmt: skip
"""Pairs that wrap where nothing is said, on both targets (pto-isa headers)."""

_WITHOUT_A_MODE = frozenset(("f32", "f8E4M3FN", "f8E5M2", "hif8", "f4E2M1FN", "f4E1M2FN"))
"""Destinations for which A5 has no control bit."""


def saturation(op: Operation, row: ConversionDef, target: str, default: str) -> Saturation:
    """Return how a conversion saturates. April: by the pair where the text does not say. August: a
    mode that is left out is OFF for the pairs that wrap and by the pair else (the switch
    `tcvt.default` = `off` reads it as OFF on A5); OFF is ignored on A2/A3 but with a scratch tile,
    and on A5 where it has no control bit."""
    asked, is_august = _asked(op), "satmode" in op.attributes
    pair = (row.src, row.dst)
    by_pair = row.saturate[target]
    if not is_august:
        return Saturation(by_pair if asked is None else asked == "ON")
    if asked == "ON":
        return Saturation(saturates=True)
    if pair in WRAPPING:
        return Saturation(saturates=False)
    if target == "a2a3":
        obeyed = asked == "OFF" and op.bound.get("tmp") is not None
        return Saturation(not obeyed, obeyed)
    if pair == ("f32", "hif8"):
        by_pair = False
    if row.dst in _WITHOUT_A_MODE or (asked is None and default == "policy"):
        is_default = asked is None and row.dst not in _WITHOUT_A_MODE
        return Saturation(by_pair, is_default=is_default)
    return Saturation(saturates=False)


def _asked(op: Operation) -> str | None:
    """The mode that the text names, in either of its two spellings."""
    named = op.attributes.get("satmode")
    if named is None and ("sat_mode" in op.attrs or "satmode" not in op.attributes):
        named = op.attributes.get("sat_mode")
    return named


def number_name(dtype: DType) -> str:
    """Return the name of what an element holds: of a pair that of its parts."""
    return conversion_name(dtype.part if isinstance(dtype, PackedDType) else dtype)


def conversion(src: DType, dst: DType, target: str) -> ConversionDef | None:
    """Return the row of a pair if the target has it."""
    found = conversions().get((number_name(src), number_name(dst)))
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


# What a push of an accumulator converts to, from `isa/epilogues.toml`.

TARGETS = ("a2a3", "a5")


@dataclass(frozen=True, slots=True)
class Quant:
    """A word of `quant`: the elements that it takes and gives (nothing: they stay), what it scales
    by (`scalar`, `vector`, None), the targets that have it, what the assembler says elsewhere."""

    name: str
    takes: tuple[str, ...]
    gives: tuple[str, ...] = ()
    scale: str | None = None
    targets: tuple[str, ...] = TARGETS
    only: str = ""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """An `acc_push_epilogue` as it is written; words that the assembler does not have are kept."""

    layout: str = "nz2nd"
    quant: str = "no_convert"
    relu: str = "no_relu"

    @property
    def conversion(self) -> Quant | None:
        """Return what `quant` means; None for another word."""
        return quants().get(self.quant)


@lru_cache(maxsize=1)
def quants() -> dict[str, Quant]:
    """Return every word of `quant`, in order."""
    table = read_toml("epilogues.toml")["quant"]
    return {name: _quant(name, row) for name, row in table.items()}


def _quant(name: str, row: TomlTable) -> Quant:
    targets = tuple(row.get("targets", TARGETS))
    takes, gives = tuple(row["takes"]), tuple(row.get("gives", ()))
    return Quant(name, takes, gives, row.get("scale"), targets, row.get("only", ""))


@lru_cache(maxsize=1)
def layouts() -> dict[str, str]:
    """Return the layout of the consumer's tile for each word of `layout`: its two parts."""
    return dict(read_toml("epilogues.toml")["layout"])


@lru_cache(maxsize=1)
def relus() -> tuple[str, ...]:
    """Return the words of `relu`."""
    return tuple(read_toml("epilogues.toml")["relu"]["words"])


_ENTRY = re.compile(r"(\w+)\s*=\s*(\w+)")


def parse(text: object) -> Epilogue | None:
    """Return the epilogue of an attribute's text, None if there is none."""
    if text is None:
        return None
    found = {k: v for k, v in _ENTRY.findall(str(text)) if k in ("layout", "quant", "relu")}
    return Epilogue(**found)
