"""Running a chain: its launches in order, on shared buffers, and what they leave."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ptosim.engine.core.binder import executing
from ptosim.engine.watch.monitor import Monitor
from ptosim.engine.watch.reach import GlobalUse, global_uses
from ptosim.ground import progress
from ptosim.ground.diagnostics.model import DescriptionError, Diagnostic, Sink, Trap, finding
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.types import MemRefType, PackedDType, PtrType, Type
from ptosim.ground.isa.costs import lowest_confidence
from ptosim.ground.limits import Limits, within
from ptosim.ground.progress import Shown
from ptosim.ground.records import dataclass, field, replace
from ptosim.launch.chain.chain import Bound, Chain
from ptosim.launch.chain.ledger import BufferUse, Ledger
from ptosim.launch.chain.repeats import Repeats
from ptosim.launch.compare import Comparison, compare
from ptosim.launch.description import Tolerance
from ptosim.launch.launch import Launch
from ptosim.launch.prepared import RunOptions
from ptosim.launch.program import LoadedProgram
from ptosim.machine.pages import from_bytes, to_bytes
from ptosim.time.report.totals import CostReport


@dataclass(slots=True)
class StageResult:
    """What the launches of a stage did and cost together: cycles and microseconds of the machine,
    without what a launch costs on top; None if time was not counted."""

    name: str
    kernel: str
    launches: int = 0
    executed: int = 0
    cycles: int | None = None
    microseconds: float | None = None
    confidence: str | None = None
    comparisons: list[Comparison] = field(default_factory=list)
    first: tuple[LoadedProgram, CostReport] | None = None
    """The kernel, and what its first launch took."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        us = self.microseconds
        return {
            "name": self.name,
            "kernel": self.kernel,
            "launches": self.launches,
            "executed": self.executed,
            "cycles": self.cycles,
            "microseconds": None if us is None else round(us, 3),
            "confidence": self.confidence,
            "expected": [c.to_dict() for c in self.comparisons],
        }


@dataclass(slots=True)
class ChainResult(Shown):
    """What a chain left on one target: its buffers, stage by stage what they cost, comparisons,
    findings, and who used which buffer."""

    target: str
    profile: str
    buffers: dict[str, np.ndarray]
    stages: list[StageResult]
    comparisons: list[Comparison]
    findings: list[Diagnostic]
    uses: dict[str, BufferUse] = field(default_factory=dict)
    launch_microseconds: float | None = None

    def __repr__(self) -> str:
        cycles = f"{self.cycles:,} cycles, " if self.cycles is not None else ""
        verdict = "as expected" if self.passed else "NOT as expected"
        return (
            f"<ChainResult: {self.launches} launches on {self.target}, {cycles}"
            f"{len(self.buffers)} buffers, {verdict}>"
        )

    @property
    def launches(self) -> int:
        """Launches in all."""
        return sum(stage.launches for stage in self.stages)

    @property
    def cycles(self) -> int | None:
        """Cycles of all launches, one after the other; None if time was not counted."""
        counts = [stage.cycles for stage in self.stages]
        return None if None in counts else sum(c or 0 for c in counts)

    @property
    def microseconds(self) -> float | None:
        """Their time on the machine, without what a launch costs on top."""
        times = [stage.microseconds for stage in self.stages]
        return None if None in times else sum(t or 0.0 for t in times)

    @property
    def confidence(self) -> str | None:
        """The lowest confidence among the figures of all stages."""
        if self.cycles is None:
            return None
        return lowest_confidence(s.confidence for s in self.stages if s.confidence is not None)

    @property
    def passed(self) -> bool:
        """True if every buffer is what was expected."""
        stages = (c for stage in self.stages for c in stage.comparisons)
        return all(c.passed for c in (*self.comparisons, *stages))


def run_chain(
    chain: Chain,
    buffers: Mapping[str, Any] | None = None,
    *,
    expect: Mapping[str, Any] | None = None,
    tolerance: Tolerance | None = None,
    sanitize: str = "all",
    timing: bool = True,
    uninit: str = "poison",
    seed: int | None = None,
    max_instructions: int | None = None,
    max_seconds: float | None = None,
    max_memory: int | None = None,
) -> ChainResult:
    """Run a chain and return what it leaves.

    `buffers` are arrays or SPECs in the place of the file's; with any, what the file expects is not
    compared, only `expect`: arrays by the name of a buffer, within `tolerance`. The caller's arrays
    are not changed. `max_instructions` holds for each launch, the other limits for all of them.
    Raises what `Program.run` raises, DescriptionError for what is wrong in the file.
    """
    file = chain.file
    options = RunOptions(
        sanitize=sanitize,
        timing=timing,
        uninit=uninit,
        seed=file.options.get("seed", 0) if seed is None else seed,
        max_instructions=max_instructions,
        in_place=True,
    )
    with within(Limits(max_instructions, max_seconds, max_memory)):
        return _run_all(chain, buffers, options, expect or {}, tolerance)


def _run_all(
    chain: Chain,
    buffers: Mapping[str, Any] | None,
    options: RunOptions,
    expect: Mapping[str, Any],
    tolerance: Tolerance | None,
) -> ChainResult:
    file = chain.file
    held = chain.make_buffers(buffers, options.uninit)
    wanted = {} if buffers else chain.expected(file.expect, ("expect",))
    for name, array in expect.items():
        if name not in held:
            raise UsageError(f"the chain has no buffer `{name}` to compare")
        wanted[name] = np.asarray(array), tolerance or file.tolerance.get(name, Tolerance())
    run = _Run(chain, options, held, given=frozenset(buffers or ()))
    with executing():  # not only within each launch: the cycle collector would come after each
        launches = chain.bind(held)
        run.repeats = Repeats(launches)
        for bound in launches:
            run.launch(bound)
    return run.result(wanted)


class _Run:
    """The launches of a chain on one target, one after the other."""

    def __init__(
        self,
        chain: Chain,
        options: RunOptions,
        held: dict[str, np.ndarray],
        *,
        given: frozenset[str],
    ) -> None:
        self.chain, self.options, self.held = chain, options, held
        self.is_compared = not given
        self.sink = Sink()
        self.stages = {
            id(launch): StageResult(launch.name, launch.kernel) for launch in chain.file.launches
        }
        self.number = 0
        self.repeats: Repeats
        self.overhead: float | None = None
        self.ledger = Ledger()
        for name, array in held.items():
            place = chain.file.places.value(("buffers", name))
            self.ledger.add(
                name, array.nbytes, place, is_given=name in given or chain.is_given(name)
            )

    def launch(self, bound: Bound) -> None:
        """Run one launch and note what it did."""
        self.number += 1
        kernel = bound.kernel
        blocks = bound.launch.block_num or kernel.block_num or 1
        options = replace(self.options, block_num=blocks)
        program = kernel.program
        try:
            kind, shown = self.repeats.shown(bound, options)
            made = partial(
                Launch.of, program.front, program.profile, entry=kernel.entry, args=bound.args
            )
            values = shown.values(made, options, bound.args) if shown is not None else None
            launch = made(options) if values is None else values[0]
        except UsageError as problem:
            raise self._unfit(bound, problem) from problem
        before = len(launch.sink)
        try:
            result = launch.run() if values is None else values[1]
            progress.part_done()
        except Trap as trap:
            where = f"in launch {self.number} of {self.chain.file.count}, {bound.stage}"
            found = [
                replace(d, notes=(*d.notes, where)) if d.is_error else d for d in trap.findings
            ]
            raise Trap(found, pc=trap.pc, cycle=trap.cycle, pipe=trap.pipe) from trap
        told = f"in stage {bound.launch.name}"
        for found in result.findings:
            if found.code != "PTO6041":
                self.sink.emit(replace(found, notes=(*found.notes, told)))
        shown = shown if values is not None else None
        monitor = launch.engine.monitor
        uses = global_uses(monitor) if isinstance(monitor, Monitor) else {}
        self._keep(bound, launch, result.outputs, uses if shown is None else shown.uses)
        if shown is None:
            self.repeats.learn(kind, bound, launch, before, result, uses)
        stage = self.stages[id(bound.launch)]
        stage.launches += 1
        stage.executed += result.executed
        cost = result.cost if shown is None else shown.cost
        if cost is not None:
            stage.first = stage.first or (program, cost)
            stage.cycles = (stage.cycles or 0) + cost.cycles
            stage.microseconds = (stage.microseconds or 0.0) + cost.least_microseconds
            known = [c for c in (stage.confidence, cost.confidence) if c is not None]
            stage.confidence = lowest_confidence(known)
            self.overhead = (self.overhead or 0.0) + cost.launch_microseconds
        if bound.is_last and self.is_compared:
            self._compare_stage(bound, stage)
        launch.release()  # or the collector has to find it

    def _unfit(self, bound: Bound, problem: UsageError) -> DescriptionError:
        """An argument that fits the type of its parameter and yet does not do."""
        name = next((n for n in bound.parts if f"`{n}`" in str(problem)), None)
        place = bound.parts[name][2] if name is not None else bound.stage.place
        text = f"launch {bound.stage}: {problem}"
        help = problem.help or "make the buffer larger, or its window"
        return DescriptionError([finding("PTO6122", text, place, help=help)])

    def _keep(
        self,
        bound: Bound,
        launch: Launch,
        outputs: Mapping[str, np.ndarray],
        uses: Mapping[int, GlobalUse],
    ) -> None:
        """Bring back what is not in the buffers yet, and note what was read and written."""
        for name, array in bound.args.items():
            if isinstance(array, np.ndarray) and not np.may_share_memory(array, outputs[name]):
                output = _unpacked(outputs[name], bound.kernel.values[name].type, array.shape)
                array[...] = output.reshape(array.shape).view(array.dtype)
        left = dict(uses)
        for name, (buffer, offset, place) in bound.parts.items():
            self.ledger.take(buffer)
            argument = launch.binding.arrays[name]
            use = left.pop(argument.number, None)
            if isinstance(use, GlobalUse):
                self.ledger.note(bound.stage, buffer, offset - argument.offset, use, place)

    def _compare_stage(self, bound: Bound, stage: StageResult) -> None:
        entry = bound.launch
        wanted = self.chain.expected(entry.expect, (*entry.path, "expect"))
        stage.comparisons = [self._compared(n, *w) for n, w in wanted.items()]

    def _compared(self, name: str, array: np.ndarray, tolerance: Tolerance) -> Comparison:
        return compare(name, self.held[name], array, tolerance)

    def result(self, wanted: Mapping[str, tuple[np.ndarray, Tolerance]]) -> ChainResult:
        """Compare the buffers, and return everything."""
        self.ledger.finish([*wanted])
        watched = self.options.sanitize != "none"
        return ChainResult(
            self.chain.target,
            self.chain.profile,
            self.held,
            list(self.stages.values()),
            [self._compared(name, *w) for name, w in wanted.items()],
            [*self.chain.findings, *self.sink, *(self.ledger.findings if watched else ())],
            self.ledger.buffers if watched else {},
            self.overhead,
        )


def _unpacked(output: np.ndarray, type_: Type, shape: tuple[int, ...]) -> np.ndarray:
    """What a launch leaves, as elements of a buffer: one that was given as the parts of packed
    elements has several for each."""
    elem = type_.elem if isinstance(type_, (PtrType, MemRefType)) else None
    if not isinstance(elem, PackedDType) or output.size == math.prod(shape):
        return output
    return from_bytes(to_bytes(output, elem), elem.part, shape)
