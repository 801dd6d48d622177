"""Values as they are right after an operation: an observer for `run --dump VALUE@OP`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptosim.engine.core.bound import Bound, Inst
from ptosim.engine.core.engine import Engine
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.records import dataclass, field
from ptosim.ground.words import whole
from ptosim.machine.core import Core
from ptosim.machine.tile import TileRef, load_tile


@dataclass(slots=True)
class Dump:
    """What to keep: the value `name` after each execution of the operations at `place` (a line, or
    a mnemonic). `array` is the last one, `count` how many there were."""

    name: str
    place: str
    file: str | None = None
    array: Any = None
    count: int = 0

    @property
    def title(self) -> str:
        """As the user wrote it."""
        return f"{self.name}@{self.place}"


@dataclass(slots=True)
class Dumper:
    """Observes a run for a list of dumps."""

    dumps: Sequence[Dump]
    _slots: dict[Operation, list[tuple[Dump, int, Value]]] = field(default_factory=dict)

    def on_start(self, engine: Engine) -> None:
        """Find the operations and values; raises UsageError for one that does not exist."""
        for dump in self.dumps:
            operations = _operations(engine.resolved, dump)
            found = [
                (op, value)
                for op in operations
                for value in engine.program.slots
                if _is_named(engine.resolved, value, dump.name) and _visible(value, op)
            ]
            if not found:
                raise UsageError(f"--dump {dump.title}: there is no value %{dump.name} there")
            for op, value in found:
                entry = (dump, engine.program.slots[value], value)
                self._slots.setdefault(op, []).append(entry)

    def on_commit(self, core: Core, inst: Inst, bound: Bound | None) -> None:
        """Keep what the dumps of this operation ask for."""
        for dump, slot, value in self._slots.get(inst.op, ()):  # type: ignore[arg-type]
            held = core.slots[slot]
            if isinstance(held, TileRef):
                dump.array = load_tile(core, held)
            elif isinstance(held, (bool, int, float, np.generic)):
                dump.array = np.asarray(held)
            else:
                raise UsageError(
                    f"--dump {dump.title}: %{value.name} is a {value.type}, not a tile or number",
                    help="dump the tile that is loaded or stored",
                )
            dump.count += 1


def _operations(resolved: ResolvedModule, dump: Dump) -> list[Operation]:
    source = resolved.module.source
    every = list(resolved.module.walk())
    line = whole(dump.place)
    if line is not None:
        found = [op for op in every if source.line_column(op.start)[0] == line]
    else:
        found = [op for op in every if dump.place in (op.name, op.name.removeprefix("pto."))]
    if not found:
        raise UsageError(
            f"--dump {dump.title}: no operation at `{dump.place}`",
            help="VALUE@LINE or VALUE@OP, as in q@12 or q@tquant",
        )
    return found


def _is_named(resolved: ResolvedModule, value: Value, name: str) -> bool:
    """A variable of C++ is a value with a number of its own after its name."""
    is_cpp = resolved.module.source.is_cpp
    own = re.fullmatch(rf"{re.escape(name)}_\d+", value.name) if is_cpp else None
    return value.name == name or own is not None


def _visible(value: Value, op: Operation) -> bool:
    """A value belongs to the function that holds its definition."""
    owner = value.owner
    return owner is None or op.function in (owner, owner.function)
