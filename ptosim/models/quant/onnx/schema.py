"""Versions of the ONNX operators on quantised tensors, from `isa/quant/onnx.toml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.data import read_toml
from ptosim.ground.records import dataclass

Attributes = Mapping[str, Any]
"""Attributes by name, with the values that ONNX gives them: numbers, words, lists, arrays."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An input or output: its name, its type variable, whether it may be left out."""

    name: str
    variable: str
    optional: bool


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an operator. A type variable maps to its ONNX types, or `=T` to another's."""

    op: str
    since: int
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    types: Mapping[str, str]
    attrs: Attributes

    def allowed(self, variable: str) -> tuple[str, ...]:
        """Return the ONNX element types that a type variable may be."""
        types = self.types[variable]
        return self.allowed(types[1:]) if types.startswith("=") else tuple(types.split())


@dataclass(frozen=True, slots=True)
class Input:
    """What is known of an input: element type, shape (None: unknown), values (None: run time)."""

    dtype: str
    shape: tuple[int, ...] | None = None
    values: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One use of an operator. Inputs that are left out are None."""

    op: str
    opset: int
    inputs: Sequence[Input | None]
    attrs: Attributes
    output: str | None = None
    name: str = ""
    outputs: int = 1
    """How many outputs it has; those that are left out at the end do not count."""

    def __str__(self) -> str:
        return f"{self.op} `{self.name}`" if self.name else self.op


@lru_cache(maxsize=1)
def _table() -> dict[str, list[Version]]:
    found: dict[str, list[Version]] = {}
    for op, row in read_toml("quant/onnx.toml")["op"].items():
        inputs, outputs = _parameters(row["inputs"]), _parameters(row["outputs"])
        types: dict[str, str] = {}
        attrs: Attributes = {}
        found[op] = []
        for entry in row["version"]:
            types, attrs = entry.get("types", types), entry.get("attrs", attrs)
            found[op].append(Version(op, entry["since"], inputs, outputs, types, attrs))
    return found


def _parameters(texts: list[str]) -> tuple[Parameter, ...]:
    pairs = (text.rstrip("?").partition(":") for text in texts)
    return tuple(
        Parameter(name, variable, text.endswith("?"))
        for text, (name, _, variable) in zip(texts, pairs, strict=True)
    )


def operators() -> list[str]:
    """Return the operators that are known."""
    return list(_table())


def version(op: str, opset: int) -> Version:
    """Return the version of an operator that an opset means; raises UsageError if it has none."""
    versions = _table().get(op)
    if versions is None:
        raise UsageError(
            f"unknown quantisation operator `{op}`", help=f"known: {', '.join(_table())}"
        )
    usable = [v for v in versions if v.since <= opset]
    if not usable:
        raise UsageError(f"{op} does not exist in opset {opset}; it came with {versions[0].since}")
    return usable[-1]


def versions(op: str) -> list[Version]:
    """Return all versions of an operator, the oldest first."""
    return list(_table()[op])
