"""What a push of an accumulator converts to, from `isa/epilogues.toml`."""

from __future__ import annotations

import re
from functools import lru_cache

from ptosim.ground.isa.data import TomlTable, read_toml
from ptosim.ground.records import dataclass

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
