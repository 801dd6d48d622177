"""A program without values: what it costs, and what following it brings out.

Control flow, addresses and synchronisation are followed as far as scalars are known. Races,
deadlocks, flags, and reads of bytes that nothing wrote need no data; nor does time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptosim.engine.core.observers import Observer
from ptosim.engine.core.records import Depth
from ptosim.engine.core.symbolic import SymbolicEngine, Undecided
from ptosim.engine.timed.symbolic import TimedSymbolicEngine
from ptosim.ground.diagnostics.model import Diagnostic, Severity, recoded
from ptosim.ground.errors import InternalError, PtosimError, Trap, UsageError
from ptosim.ground.ir.core import Value
from ptosim.ground.ir.types import MemRefType, PtrType, ScalarType, TileType, VectorType
from ptosim.ground.isa.costs import CostTable
from ptosim.ground.isa.profiles import Profile
from ptosim.machine.core import Core
from ptosim.machine.unknown import Unknown
from ptosim.passes.frontend import Front
from ptosim.run import arguments, results
from ptosim.run.launch import Args, Launch, RunOptions
from ptosim.run.what_if import changed_table
from ptosim.timing.report.totals import CostReport

MAX_STEPS = 200_000
"""Instructions that `follow` executes."""
ASSUMED_BYTES = 4 << 20
"""Size of a buffer that is not given and whose size no view fixes."""

_KEPT = ("PTO5", "PTO61", "PTO6401", "PTO71")
_NUMERIC = "PTO70"
"""Kept where it warns."""
_OUTSIDE = "PTO6001"
_PERHAPS_OUTSIDE = "PTO6019"


class SymbolicLaunch(Launch):
    """A launch whose buffers and tiles hold nothing, and whose scalars are those given."""

    depth = Depth.PLACES

    def start(self, observers: Sequence[Observer] = ()) -> None:
        """Make the engine; nothing is executed yet."""
        in_order = self.front.sync == "auto"
        self.engine = SymbolicEngine(*self.parts(), observers, in_order=in_order)

    def _scalar(self, value: Value, type_: ScalarType, given: dict[str, Any]) -> Any:
        if value.name in given:
            return arguments.scalar_argument(value.name, type_, given[value.name])
        return self._not_given(value)

    def _tensor(self, value: Value, type_: VectorType, given: dict[str, Any]) -> Any:
        is_given = value.name in given
        return super()._tensor(value, type_, given) if is_given else self._not_given(value)

    def _not_given(self, value: Value) -> Unknown:
        name = value.name
        return Unknown(f"argument `{name}`, which is not given (--arg {name}=…)", name)

    def _buffer(
        self,
        value: Value,
        type_: PtrType | MemRefType,
        given: dict[str, Any],
        needed: arguments.Needed | None,
    ) -> None:
        if value.name in given:
            super()._buffer(value, type_, given, needed)
            return
        size = type_.elem.bytes_for(needed.elements) if needed is not None else ASSUMED_BYTES
        self._add_buffer(value, type_.elem, np.zeros(size, np.uint8), (0,))

    def _tile_input(self, value: Value, type_: TileType, given: dict[str, Any]) -> None:
        if value.name in given:
            super()._tile_input(value, type_, given)
        elif not results.is_output(self.function, value):
            self.tile_inputs[value.name] = np.empty(0)  # its bytes have a value, nobody knows which

    def _fill_tiles(self, core: Core) -> None:
        """Tiles have no content."""


@dataclass(eq=False)
class TimedLaunch(SymbolicLaunch):
    """A launch of which only the time is asked for, with figures of a chip and buffers to add."""

    depth = Depth.SHAPES

    figures: tuple[CostTable, int]

    def start(self, observers: Sequence[Observer] = ()) -> None:
        """Make the engine; nothing is executed yet."""
        self.engine = TimedSymbolicEngine(
            *self.parts(), observers, timing=self.bridge(*self.figures)
        )

    def _not_given(self, value: Value) -> Unknown:
        return Unknown(f"the scalar argument `{value.name}`", value.name)

    def _buffer(
        self,
        value: Value,
        type_: PtrType | MemRefType,
        given: dict[str, Any],
        needed: arguments.Needed | None,
    ) -> None:
        self._add_buffer(value, type_.elem, np.empty(0, np.uint8), (0,))

    def _tile_input(self, value: Value, type_: TileType, given: dict[str, Any]) -> None:
        """Content does not matter."""


# -- cost -----------------------------------------------------------------------------------------


def cost_of(
    front: Front,
    profile: Profile,
    entry: str,
    args: Args,
    options: RunOptions,
    what_if: Mapping[str, float] | None = None,
) -> CostReport:
    """Return what an entry costs; see `Program.cost`. Raises Trap for a deadlock, UsageError for a
    scalar that is needed and not known, InternalError if time stops where the program goes
    on."""
    figures = changed_table(front.chip, what_if or {})
    launch = TimedLaunch(front, profile, options, figures).prepare(entry, args)
    launch.start()
    try:
        launch.engine.run(options.max_instructions)
    except Undecided as open_:
        raise _asked(open_) from open_
    report = launch.cost
    assert report is not None
    stuck = ", ".join(core.name for core in report.model.stuck())
    if stuck:
        raise InternalError(f"the timing model waits for an event that nobody gave: {stuck}")
    return report


def _asked(open_: Undecided) -> UsageError:
    name = open_.unknown.argument
    return UsageError(
        f"PTO6501: {open_.what} of '{open_.op.name}' at line {open_.line} depends on "
        f"{open_.unknown.origin}",
        help=f"give it a value: `--arg {name}=…` (in Python args={{{name!r}: …}})"
        if name
        else "time it with a run on values (`ptosim run`), where the value is known",
    )


# -- following ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Followed:
    """What following an entry without values brought out, and where it ended: '' if it came to the
    end of the program. `begun` is False where there was nothing to follow. `unplaced` says on what
    accesses depend that may be anywhere, `unchecked` the same of other checks that were left
    out."""

    findings: list[Diagnostic] = field(default_factory=list)
    ended: str = ""
    begun: bool = True
    unplaced: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True if the program was followed to its end, and every access is at a known place."""
        return not self.ended and not self.unplaced

    def __str__(self) -> str:
        text = self.ended or "to its end"
        origins = ", ".join(dict.fromkeys((*self.unplaced, *self.unchecked)))
        return f"{text}; not checked: what depends on {origins}" if origins else text


def follow(
    front: Front,
    profile: Profile,
    entry: str,
    args: Mapping[str, Any] | None = None,
    observers: Sequence[Observer] = (),
) -> Followed:
    """Follow an entry as far as its scalars are known. Never raises for faults of the program."""
    try:
        launch = SymbolicLaunch(front, profile, RunOptions(timing=False)).prepare(entry, args or {})
    except PtosimError as problem:
        return Followed(ended=f"not begun: {problem}", begun=False)
    launch.start(observers)
    monitor = launch.sanitizers()
    stop: Diagnostic | None = None
    try:
        ended = _walk(launch.engine)
    except Undecided as open_:
        ended = f"{open_}; not followed: {open_.left_out}"
    except Trap as trap:
        stop = max(reversed(trap.findings), key=lambda d: d.severity)
        ended = f"stopped by {stop.code}" + (f" at {stop.spans[0]}" if stop.spans else "")
    if monitor is not None and not ended:
        monitor.finish()
    found = [_certain(d) for d in launch.sink if d is stop or _is_kept(d)]
    unplaced = dict(launch.engine.unplaced)
    for core in launch.machine.cores:
        unplaced |= core.ub.unplaced if core.ub is not None else {}
    return Followed(found, ended, True, tuple(unplaced), tuple(launch.engine.unchecked))


def _walk(engine: SymbolicEngine) -> str:
    """Execute to the end; return why it did not get there."""
    for _ in range(MAX_STEPS):
        core = engine.next_core()
        if core is None:
            return ""
        engine.step(core)
    return f"left after {MAX_STEPS} instructions"


def _is_kept(finding: Diagnostic) -> bool:
    """Notes on what operations compute are for runs."""
    if finding.is_error or finding.code.startswith(_KEPT):
        return True
    return finding.severity is Severity.WARNING and finding.code.startswith(_NUMERIC)


def _certain(finding: Diagnostic) -> Diagnostic:
    """Buffers have the sizes that the views imply; the real ones may be larger."""
    if finding.code != _OUTSIDE:
        return finding
    note = "the buffer was taken to be as large as the views imply, or of 4 MiB where none does"
    return recoded(finding, _PERHAPS_OUTSIDE, note)
