"""The schemes of `isa/quant/schemes.toml`: how a system turns a value into a stored one."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from typing import Any

from ptosim.ground.errors import IsaDataError, UsageError
from ptosim.ground.isa.data import read_toml
from ptosim.ground.nearest import nearest
from ptosim.ground.records import dataclass

_FILE = "quant/schemes.toml"
_CHOICES = {
    "scale": ("divide", "multiply", "fused"),
    "precision": ("f32", "f64", "exact", "scale", "expressed"),
    "multiplier": ("f32", "fp19"),
    "zero": ("before", "after"),
    "field": ("", "s", "u"),
    "rounding": ("rne", "away", "trunc"),
    "overflow": ("clamp", "wrap", "int32"),
    "nan": ("low", "high", "zero", "edge"),
    "floats": ("none", "ignore", "add"),
    "inverse": ("f32", "scale", "expressed"),
    "form": ("real", "accumulator"),
}


@dataclass(frozen=True, slots=True)
class Scheme:
    """One scheme; the fields are the keys of its table in the data file, explained there."""

    name: str
    title: str
    used_by: str
    source: str
    scale: str
    precision: str
    multiplier: str
    zero: str
    field: str
    rounding: str
    through: tuple[str, ...]
    overflow: str
    nan: str
    range: tuple[int, ...]
    outputs: tuple[str, ...]
    floats: str
    inverse: str
    form: str
    quirks: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the scheme as JSON data."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@lru_cache(maxsize=1)
def schemes() -> dict[str, Scheme]:
    """Return every scheme by name, in the order of the file."""
    table = read_toml(_FILE)
    return {n: _make(n, {**table["defaults"], **row}) for n, row in table["scheme"].items()}


def scheme(name: str | Scheme) -> Scheme:
    """Return the scheme of a name; raises UsageError with the known names."""
    if isinstance(name, Scheme):
        return name
    found = schemes().get(name)
    if found is not None:
        return found
    hint = nearest(str(name), schemes(), f"known: {', '.join(schemes())}")
    raise UsageError(f"unknown quantisation scheme `{name}`", help=hint)


def _make(name: str, row: dict[str, Any]) -> Scheme:
    for key, choices in _CHOICES.items():
        if row.get(key) not in choices:
            raise IsaDataError(
                f"isa/{_FILE}: {name}: {key} is {row.get(key)!r}, not one of {choices}"
            )
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
    try:
        return Scheme(name, **values)
    except TypeError as problem:
        raise IsaDataError(f"isa/{_FILE}: {name}: {problem}") from problem
