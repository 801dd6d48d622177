"""What addresses of register loads and stores have to be multiples of: `isa/alignment.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ptosim.ground.isa.cache import TomlTable, read_toml
from ptosim.ground.isa.dates import holds
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
def alignment_of(mnemonic: str, dist: str, element: int = 1) -> Alignment | None:
    """Return what holds for an operation with a distribution and elements of so many bytes; None if
    its address is free."""
    for row in _rows().get(mnemonic, ()):
        if "dist" not in row or dist.startswith(tuple(row["dist"].split())):
            number = row["bytes"]
            if number == "width":
                number = int(dist.rpartition("_B")[2]) // 8
            elif number == "element":
                number = element
            return Alignment(number, row.get("certain", True), row.get("cure", ""))
    return None


# Which pipes the library code of an operation runs on, step by step: `isa/passes.toml`.


class Step(NamedTuple):
    """A part of an operation: the pipe, the operands that it reads and writes, and the pipes that
    the library's code waits for before it."""

    pipe: str
    reads: frozenset[str]
    writes: frozenset[str]
    after: tuple[str, ...]


class Passes(NamedTuple):
    """How an operation goes through pipes. Those of `before` wait for its last step; `flags` are
    pairs between which the code uses EVENT_ID0; `modelled` is the pipe that the assembler's
    insertion takes the operation for, where that is another one."""

    steps: tuple[Step, ...]
    before: tuple[str, ...]
    flags: tuple[tuple[str, str], ...]
    modelled: str | None

    @property
    def only(self) -> str | None:
        """The one pipe that does it, where the library's code waits for no other before."""
        return self.steps[0].pipe if len(self.steps) == 1 and not self.steps[0].after else None

    @property
    def pipes(self) -> set[str]:
        """Every pipe that has to do with it."""
        return {*self.before, *(p for step in self.steps for p in (step.pipe, *step.after))}


class PassesRow(NamedTuple):
    """An entry of the data with the conditions that it holds under."""

    target: str | None
    when: str | None
    passes: Passes


@lru_cache(maxsize=4)
def passes_rows(date: str) -> Mapping[str, tuple[PassesRow, ...]]:
    """Return the entries of a date by mnemonic, in the order of the data."""
    found: dict[str, list[PassesRow]] = {}
    for row in read_toml("passes.toml")["passes"]:
        if not holds(row, date):
            continue
        for mnemonic in row["of"].split():
            made = PassesRow(row.get("on"), row.get("when"), _passes(row, date))
            found.setdefault(mnemonic, []).append(made)
    return {name: tuple(rows) for name, rows in found.items()}


def _passes(row: TomlTable, date: str) -> Passes:
    pairs = (pair.partition("-") for pair in row.get("flags", "").split())
    is_modelled = holds({"until": row.get("modelled_until")}, date)
    return Passes(
        tuple(_step(step) for step in row["steps"]),
        tuple(row.get("before", "").split()),
        tuple((source, target) for source, _, target in pairs),
        row.get("modelled") if is_modelled else None,
    )


def _step(step: TomlTable) -> Step:
    reads, writes, after = (step.get(key, "").split() for key in ("reads", "writes", "after"))
    return Step(step["pipe"], frozenset(reads), frozenset(writes), tuple(after))
