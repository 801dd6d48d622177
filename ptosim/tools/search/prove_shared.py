"""Many values of scalars in one run, which parts where they decide something.

A program is launched once, for one of the values. Every number that depends on a scalar that is
left open is kept with what it would be for each of the other values. While every instruction does
the same for all, what the run is and holds is what each of theirs would be: rounds that ten
thousand numbers of rounds have in common are executed once. Where an instruction would do something
else (a loop ends, a tile has other valid columns) the process is forked, and the copy goes on
alone, with its own numbers, its sanitizers and its expressions, to its own end. So nothing is
assumed of how a program depends on a scalar, and each value has gone through the whole of its own
run."""

from __future__ import annotations

import gc
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ptosim.engine.core.bound import Inst
from ptosim.ground.errors import PtosimError
from ptosim.ground.ir.program import COMPUTED
from ptosim.ground.ir.types import PtrType, ScalarType
from ptosim.ground.processes import can_fork
from ptosim.machine.core import Core
from ptosim.tools.search.prove_memory import Unprovable
from ptosim.tools.search.prove_values import Valued, Values

_LINE = 3500
"""Bytes of a line that processes write to one file at once without cutting each other."""


class Told(NamedTuple):
    """What became of each value: `of` by its number; `left` have not been gone through, since
    `steps` instructions were executed."""

    of: dict[int, dict[str, Any]]
    left: list[int]
    steps: int


def can_share(launched: Any, names: Sequence[str]) -> bool:
    """True for a launch whose values may go through one run: only pointers and whole numbers are
    its arguments (a memref is as large as its array), and no open scalar says how many blocks."""
    program = launched.program
    function = program.front.resolved.functions[program.entry(launched.entry)]
    types = {v.name: v.type for v in function.args}
    if program.front.resolved.blocks in (COMPUTED, *names) or not can_fork():
        return False
    return all(
        isinstance(type_, PtrType) or (isinstance(type_, ScalarType) and
                                       not (name in names and type_.dtype.is_float))
        for name, type_ in types.items()
    )  # fmt: skip


def go_through(
    launched: Any,
    values: Values,
    follow: Callable[[Parting], dict[str, Any]],
    *,
    jobs: int,
    most: int,
) -> Told:
    """Follow a launch for all `values`; it has the last of them. `follow` executes it with one
    more observer. After `most` instructions none is begun any more."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "told"
        file.touch()
        parting = Parting(launched, values, file, jobs, most)
        code = 1
        try:
            parting.tell(_ended(lambda: follow(parting)))
            code = 0
        finally:
            if parting.is_copy:
                os._exit(code)
            parting.wait()
        return parting.told()


def _ended(ends: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return ends()
    except (Unprovable, PtosimError) as problem:
        return {"why": str(problem)}


class Parting(Valued):
    """A run that is copied where values part."""

    def __init__(self, launched: Any, values: Values, file: Path, jobs: int, most: int) -> None:
        super().__init__(launched, values)
        self.file, self.jobs = file, jobs
        self.is_copy = False
        self.before: Callable[[], object] = lambda: None  # what is done once for all copies
        self._children: list[int] = []
        self._steps, self._most = 0, most
        self._seen = 0  # of the file, in bytes
        self._spent = 0  # by copies
        self._told: dict[int, dict[str, Any]] = {}
        self._own: list[list[Any]] = []

    def on_start(self, engine: Any) -> None:
        """Watch what may depend on the values."""
        self._own = [core.slots for core in engine.machine.cores]
        super().on_start(engine)

    def on_commit(self, core: Core, inst: Inst, bound: Any) -> None:
        """Count what is executed."""
        self._steps += 1

    # -- parting ----------------------------------------------------------------------------------

    def _part(self, groups: Sequence[list[int]]) -> bool:
        """Fork a copy for each group of values. True in the copy, whose numbers are theirs now."""
        for group in groups:
            gone = set(group)
            self.alive = [k for k in self.alive if k not in gone]
            if self._waits():
                self._write(group, {"why": "parts while a pipe waits"}, 0)
                continue
            if self._work() >= self._most:
                continue
            while len(self._children) >= self.jobs:
                os.waitpid(self._children.pop(0), 0)
            self.before()
            child = os.fork()
            if child == 0:
                self._become(group)
                return True
            self._children.append(child)
        return False

    def _waits(self) -> bool:
        """True while an operation or a region waits that has seen numbers of the base."""
        cores = self._engine.machine.cores
        return any(c.queues or c.slots is not own for c, own in zip(cores, self._own, strict=True))

    def _become(self, group: list[int]) -> None:
        gc.disable()  # a collection would touch, and so copy, all that both share
        self.is_copy, self.jobs, self._children = True, 1, []
        self._spent, self._most = 0, max(self._most - self._work(), 1)
        self._steps = 0
        self._goes_on_as(group)

    def _work(self) -> int:
        """Instructions that this process and its copies have executed."""
        self._read()
        return self._steps + self._spent

    # -- what is told -----------------------------------------------------------------------------

    def tell(self, told: dict[str, Any]) -> None:
        """Say what became of the values whose run this is."""
        steps = self._steps
        for first in range(0, len(self.alive), 200):
            self._write(self.alive[first : first + 200], told, steps)
            steps = 0

    def _write(self, group: list[int], told: dict[str, Any], steps: int) -> None:
        line = {**told, "of": group, "steps": steps}
        text = json.dumps(line)
        if len(text) > _LINE:
            text = json.dumps({**line, "why": str(told.get("why", ""))[:500]})
        with self.file.open("ab", buffering=0) as file:
            file.write(text.encode() + b"\n")

    def wait(self) -> None:
        """Wait for all copies."""
        while self._children:
            os.waitpid(self._children.pop(0), 0)

    def _read(self) -> None:
        with self.file.open("rb") as file:
            file.seek(self._seen)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._seen += len(whole)
        for text in whole.splitlines():
            line = json.loads(text)
            self._spent += line.pop("steps")
            for k in line.pop("of"):
                self._told[k] = line

    def told(self) -> Told:
        """Return what all have said."""
        self._read()
        left = [k for k in range(len(self.values)) if k not in self._told]
        return Told(self._told, left, self._spent)
