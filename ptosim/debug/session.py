"""The debugger: what the command line, scripts, editors and Python programs control a run with.

session = program.debug({"x": array})
session.break_("tquant")
session.continue_()
session.value("%x")          # NumPy array
session.reverse_step()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ptosim.debug.expressions import Expression, Unavailable, truth
from ptosim.debug.motion import Motion
from ptosim.debug.names import LocationParser, Names, depth, is_tile_op, memory_range, number
from ptosim.debug.reading import (
    Place,
    Reading,
    element_index,
    element_place,
    read_buffer,
    read_bytes,
    read_register,
    read_tile,
    read_view,
)
from ptosim.debug.stops import Breakpoint, Points, Stop, watch
from ptosim.debug.walker import Walker
from ptosim.debug.writes import Write, WriteIndex
from ptosim.engine.core.bound import Inst
from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.types import ScalarType
from ptosim.ground.isa.schema import dtypes
from ptosim.ground.limits import NO_LIMITS, Limits, within
from ptosim.launch.compare import Choices, Comparison
from ptosim.launch.launch import Launch
from ptosim.launch.prepared import RunOptions
from ptosim.machine.core import Core
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView, Pointer
from ptosim.time.pipes.timers import CoreTimer

NO_TIMING = "no timing: this run counts instructions, not cycles"
EXPRESSION_SECONDS = 10.0
"""What an expression may take, if the caller does not say less."""


def session_of(choices: Choices, args: Mapping[str, Any] | None = None) -> Debugger:
    """Return a debugger before the first operation of the run that is asked for, on the arguments
    of the choices or on `args`. Raises what a run raises before its first operation."""
    program = choices.program()
    options = RunOptions(**choices.run_options())
    entry = program.entry(choices.entry)
    given = choices.arguments() if args is None else args
    return Debugger(Launch.of(program.front, program.profile, options, entry, given))


class Debugger:
    """A run that is stopped at a position, before an instruction.

    `position` counts instructions executed by all cores. Commands that move return a `Stop`; each
    has the `limits`, and raises LimitError, at a whole state, where it would go beyond them. Raises
    UsageError for a launch whose operations take effect out of order: its positions are none of
    the program."""

    def __init__(self, launch: Launch, limits: Limits = NO_LIMITS) -> None:
        if launch.options.commit != "program":
            raise UsageError(
                "the debugger executes in program order",
                help="`--commit retire` is for `ptosim run` without `--debug-on-error`",
            )
        self.launch = launch
        self.limits = limits
        self.walker = Walker(launch)
        self.names = Names(launch.program, launch.resolved)
        self.motion = Motion(self.walker, lambda e: truth(self.evaluate(e)))
        self.writes = WriteIndex(self.walker)
        self.variables: dict[str, Any] = {}
        self.saved: dict[str, int] = {}
        self.expected: dict[str, Callable[[], Comparison]] = {}  # how outputs compare now, by name
        self.locations = LocationParser(self.names)
        turn = self.walker.turn
        self._focus = turn.index if turn is not None else 0
        starts = {d.pc: name for name, d in launch.program.functions.items()}
        self._entries = [starts.get(c.pc, launch.function.name) for c in launch.machine.cores]
        self.last_stop = Stop("start", self.position, "the start of the run")
        for core in launch.machine.cores:
            core.simt.recorded = True

    # -- where the run is -------------------------------------------------------------------------

    @property
    def points(self) -> Points:
        """The breakpoints and watchpoints."""
        return self.motion.points

    @property
    def position(self) -> int:
        """Instructions executed so far."""
        return self.walker.position

    @property
    def cycle(self) -> int | None:
        """The cycle at which everything that the core has executed so far is done; None if the run
        counts no cycles."""
        return self.walker.cycle(self.core) if self.timer() is not None else None

    def timer(self) -> CoreTimer | None:
        """Return the pipes of the core in time; None if the run counts no cycles."""
        return self.walker.timer(self.core)

    @property
    def core(self) -> Core:
        """The core that commands look at."""
        return self.launch.machine.cores[self._focus]

    @property
    def findings(self) -> list[Diagnostic]:
        """What the checks and the run have found so far."""
        return [*self.launch.front.sink, *self.walker.findings()]

    def focus(self, index: int) -> Core:
        """Look at another core. Raises UsageError if there is none of that number."""
        self._focus = self.focusable(str(index))
        return self.core

    def current(self, core: Core | None = None) -> Inst | None:
        """Return the instruction that a core executes next, or waits at; None if it has ended."""
        core = core or self.core
        if core.stalled is not None:
            return core.stalled[0]
        if core.halted or core.pc < 0:
            return None
        return self.launch.program.insts[core.pc]

    def current_op(self, core: Core | None = None) -> Operation | None:
        """Return the operation of `current`."""
        inst = self.current(core)
        return inst.op if inst is not None else None

    def line(self) -> int | None:
        """Return the line of the current operation."""
        op = self.current_op()
        return self.names.line(op) if op is not None else None

    # -- movement ---------------------------------------------------------------------------------

    def step(self, count: int = 1) -> Stop:
        """Go to the next tile operation of the core, N times."""
        return self._repeat(count, lambda: self._forward(self._at_tile_op()))

    def stepi(self, count: int = 1) -> Stop:
        """Execute single instructions, those of the scalar unit too."""
        return self._repeat(count, lambda: self._forward(lambda: True))

    def next(self, count: int = 1) -> Stop:
        """Like step, but a call is executed as one."""
        return self._repeat(count, lambda: self._forward(self._at_tile_op(depth(self.core))))

    def finish(self) -> Stop:
        """Go past the innermost loop, section or function around the current operation."""
        return self._forward(self._outside(), missed=True)

    def continue_(self) -> Stop:
        """Go to the next breakpoint, or the end."""
        return self._forward(None)

    def run(self) -> Stop:
        """Start over and go to the first breakpoint, or to the end."""
        self.restart()
        return self.continue_()

    def until(self, place: str) -> Stop:
        """Go to a line, operation, pipe, function, code, `pc N`, `#N` (a position) or `cycle N`."""
        text = place.strip()
        if text.startswith("#"):
            target = number(text[1:], "position")
            if target <= self.position:
                raise UsageError(f"#{target} is not ahead; the run is at #{self.position}")
            return self._forward(lambda: self.position >= target, missed=True)
        if text.split()[:1] == ["cycle"]:
            cycle = self._cycle_in(text, "until #N")
            if cycle < (self.cycle or 0):
                raise UsageError(f"cycle {cycle} is not ahead; the core is at cycle {self.cycle}")
            stop = self._forward(lambda: self.walker.cycle(self.core) > cycle, missed=True)
            return self.goto(stop.position - 1) if stop.reason == "step" else stop
        location = self.locations.parse(text)
        if location.kind == "code":
            point = self.points.add("code", text, temporary=True, codes=location.codes)
            stop = self._forward(None)
            if point.number in self.points.all:
                self.points.remove(point.number)
            return stop
        return self._forward(lambda: self._turn_pc() in location.pcs, missed=True)

    def goto(self, target: str | int) -> Stop:
        """Go to a position or to `cycle N`, forwards or backwards, breakpoints unseen."""
        text = str(target).strip().lstrip("#")
        if text.split()[:1] == ["cycle"]:
            return self._goto_cycle(self._cycle_in(text, "goto #N"))
        wanted = number(text, "position")
        if wanted < 0:
            raise UsageError("the run begins at #0")
        with self._moving():
            self.walker.goto(wanted)
        if self.position < wanted:
            return self._arrive(self.motion.forward(None, missed=True))
        return self._arrive(Stop("goto", self.position))

    def _cycle_in(self, text: str, instead: str) -> int:
        """The number of `cycle N`. Raises UsageError if the run counts no cycles."""
        if self.timer() is None:
            raise UsageError(NO_TIMING, help=f"`{instead}` goes to a number of instructions")
        found = number(text.removeprefix("cycle").strip(), "cycle")
        if found < 0:
            raise UsageError("the run begins at cycle 0")
        return found

    def _goto_cycle(self, cycle: int) -> Stop:
        """Go to the last position at which everything executed is done by a cycle."""
        core = self.core
        if not self.walker.goto_first(lambda: self.walker.cycle(core) > cycle):
            return self._arrive(self.motion.forward(None, missed=True))
        self.walker.goto(max(self.position - 1, 0))
        self._focus = core.index
        self.last_stop = Stop("goto", self.position)
        return self.last_stop

    def restart(self) -> Stop:
        """Go back to the start of the run; breakpoints stay."""
        self.walker.goto(0)
        return self._arrive(Stop("start", 0, "the start of the run"))

    def reverse_step(self, count: int = 1) -> Stop:
        """Go back to the tile operation before, N times."""
        return self._repeat(count, lambda: self._backward(self._at_tile_op(ended=False)))

    def reverse_stepi(self, count: int = 1) -> Stop:
        """Go back by single instructions."""
        return self._repeat(count, lambda: self._backward(lambda: True))

    def reverse_next(self, count: int = 1) -> Stop:
        """Like reverse-step, but a call is undone as one."""
        level = depth(self.core)
        return self._repeat(count, lambda: self._backward(self._at_tile_op(level, ended=False)))

    def reverse_finish(self) -> Stop:
        """Go back in front of the innermost loop, section or function."""
        return self._backward(self._outside())

    def reverse_continue(self) -> Stop:
        """Go back to the last breakpoint, to where a watched value was about to change, or to the
        start."""
        return self._backward(None)

    def _repeat(self, count: int, once: Callable[[], Stop]) -> Stop:
        stop = once()
        for _ in range(count - 1):
            if stop.reason != "step":
                break
            stop = once()
        return stop

    def _forward(self, arrived: Callable[[], bool] | None, *, missed: bool = False) -> Stop:
        with self._moving():
            return self._arrive(self.motion.forward(arrived, missed=missed))

    def _backward(self, wanted: Callable[[], bool] | None) -> Stop:
        with self._moving():
            return self._arrive(self.motion.backward(wanted))

    def _moving(self) -> AbstractContextManager[object]:
        """The limits of one movement."""
        self.walker.begin()
        return within(self.limits)

    def _arrive(self, stop: Stop) -> Stop:
        turn = self.walker.turn
        if stop.reason != "step" or self.core.halted or self.core.pc < 0:
            self._focus = turn.index if turn is not None else self._focus
        self.last_stop = stop
        return stop

    def _turn_pc(self) -> int:
        turn = self.walker.turn
        return turn.pc if turn is not None else -1

    def _at_tile_op(self, level: int | None = None, *, ended: bool = True) -> Callable[[], bool]:
        """Arrival at a tile operation of the core in focus, at most so many calls deep. A core that
        has ended makes way for the others."""
        walker, core = self.walker, self.core

        def arrived() -> bool:
            turn = walker.turn
            if turn is None or not is_tile_op(walker.upcoming()):
                return False
            if turn is not core:
                return ended and core.halted
            return level is None or depth(core) <= level

        return arrived

    def _outside(self) -> Callable[[], bool]:
        core, level = self.core, depth(self.core)
        frame = self.names.frame(self.current_op())
        if frame is None:
            return lambda: False
        in_function = self.names.is_function(frame)

        def arrived() -> bool:
            if self.walker.turn is not core or depth(core) > level:
                return False
            op = self.current_op(core)
            if in_function:
                return depth(core) < level
            return op is not frame and not self.names.is_inside(op, frame)

        return arrived

    # -- breakpoints ------------------------------------------------------------------------------

    def break_(self, place: str, *, temporary: bool = False) -> Breakpoint:
        """Stop at a place: `PLACE [core N] [if CONDITION]`. Raises UsageError for one that is
        none."""
        text, _, condition = f" {place} ".partition(" if ")
        where, _, core = text.partition(" core ")
        location = self.locations.parse(where)
        chosen = self.focusable(core.strip()) if core.strip() else None
        expression = self.condition(condition) if condition.strip() else None
        return self.points.add(
            location.kind, location.text, pcs=location.pcs, codes=location.codes, core=chosen,
            condition=expression, temporary=temporary,
        )  # fmt: skip

    def focusable(self, text: str) -> int:
        """Return the number of a core. Raises UsageError if there is none."""
        index, cores = number(text, "core"), self.launch.machine.cores
        if not 0 <= index < len(cores):
            raise UsageError(f"there is no core {index}; the run has {len(cores)}")
        return index

    def condition(self, text: str) -> Expression:
        """Return a condition whose names exist, and which is true or false where it needs none.
        Raises UsageError otherwise."""
        expression = Expression(self.names.signed(text))
        if not expression.references():
            truth(self.evaluate(expression))
        for name in expression.references():
            if name.startswith("%"):
                self.named(name)
        return expression

    def watch(self, what: str) -> Breakpoint:
        """Stop when a value changes, or a condition comes to hold: a tile, an expression,
        `SPACE ADDR..LAST`, `gm NAME[i, j]`, `nan %x`, `outside LIMIT %x`, `flag SRC DST ID`."""
        return watch(self, what)

    def catch_nan(self) -> Breakpoint:
        """Stop where the first NaN comes up."""
        return self.points.nan or self.points.add("nan", "first NaN")

    # -- values -----------------------------------------------------------------------------------

    def function(self) -> str:
        """Return the name of the function that the core is in; at its end the one it began with."""
        op = self.current_op()
        return self.names.function(op) if op is not None else self._entries[self._focus]

    def values(self) -> list[Value]:
        """Return the values of the current function, in order of definition."""
        return self.names.values(self.function())

    def named(self, name: str) -> Value:
        """Return the value that a name means here. Raises UsageError with the nearest one."""
        op = self.current_op()
        before = op.start if op is not None else len(self.names.source.text)
        value = self.names.value(name, self.function(), before)
        if value is None:
            close = self.names.close(name)
            raise UsageError(
                f"there is no value `%{name.lstrip('%')}`",
                help=f"did you mean `{close}`?" if close else "`info values` lists them",
            )
        return value

    def reading(self, name: str, core: Core | None = None) -> Reading:
        """Return a value by name as arrays. Raises UsageError if there is none, or not yet."""
        return self.read_value(self.named(name), core or self.core)

    def read_value(self, value: Value, core: Core) -> Reading:
        """Return the present content of a value. Raises Unavailable if it has none yet."""
        content = core.slots[self.launch.program.slots[value]]
        if isinstance(content, TileRef):
            return read_tile(core, content)
        if content is None:
            raise Unavailable(f"%{value.name} has no value yet")
        register = read_register(value, content)
        if register is not None:
            return register
        if isinstance(content, Pointer) and isinstance(content.memory, int):
            return read_buffer(self.launch.machine.buffers[content.memory])
        if isinstance(content, GmView):
            return read_view(self.launch.machine, content)
        if isinstance(value.type, ScalarType):
            array = np.array(content)
            return Reading("scalar", value.type.dtype, array, array)
        kind = dtypes()["i64"]
        return Reading("handle", kind, np.array(str(content)), np.array(str(content)))

    def value(self, name: str) -> Any:
        """Return a value as NumPy array of what its elements mean, or as Python number."""
        numbers = self.reading(name).numbers
        return numbers.item() if numbers.ndim == 0 else numbers

    def evaluate(self, expression: Expression | str) -> Any:
        """Return the value of an expression. Raises UsageError with the place of a mistake,
        LimitError where it takes longer than an expression may."""
        if isinstance(expression, str):
            expression = Expression(self.names.signed(expression))
        if not expression.repeats:
            return expression.evaluate(self.value, self.known())
        with within(Limits(seconds=self.expression_seconds)):
            return expression.evaluate(self.value, self.known())

    @property
    def expression_seconds(self) -> float:
        """What one expression may take."""
        return min(self.limits.seconds or EXPRESSION_SECONDS, EXPRESSION_SECONDS)

    def known(self) -> dict[str, Any]:
        """Return what `$name` means: the debugger's own values and the user's variables."""
        own = {"pc": self.core.pc, "core": self._focus, "position": self.position}
        if self.cycle is not None:
            own["cycle"] = self.cycle
        return own | {"line": self.line(), "block": self.core.block} | self.variables

    def memory(self, what: str) -> bytes:
        """Return bytes by range: `ub 0x100..0x1ff`, `gm x 0+64`."""
        return read_bytes(self.launch.machine, self.range(what))

    def range(self, what: str) -> Place:
        """Return the place that the words mean, on the core in focus."""
        return memory_range(what.split(), self.launch.machine, self._focus)

    # -- writers ----------------------------------------------------------------------------------

    def place_of(self, what: str) -> Place:
        """Return the bytes of `%x[r, c]`, `%x`, or of a memory range."""
        text = what.strip()
        if not text.startswith("%"):
            return self.range(text)
        name, bracket, rest = text.partition("[")
        reading = self.reading(name)
        if reading.place is None:
            raise UsageError(f"{name} is a scalar; it is in no memory")
        if not bracket:
            return reading.place
        index = self.evaluate(f"({rest.rstrip().removesuffix(']')},)")
        return element_place(self.core, reading, element_index(index))

    def last_write(self, what: str) -> Write:
        """Return who wrote an element, tile or range last; the run stays where it is."""
        return self.writes.last_write(self.place_of(what))

    def goto_last_write(self, what: str) -> Write:
        """Go to the operation that wrote an element, tile or range last, before it does."""
        write = self.last_write(what)
        if write.event is not None:
            self.walker.goto(write.before)
            self._focus = write.event.core.index
            self.last_stop = Stop("goto", self.position)
        return write

    # -- names of positions -----------------------------------------------------------------------

    def save(self, name: str) -> None:
        """Remember the present position under a name."""
        self.saved[name] = self.position

    def restore(self, name: str) -> Stop:
        """Go back to a remembered position. Raises UsageError for an unknown name."""
        if name not in self.saved:
            known = ", ".join(self.saved) or "none"
            raise UsageError(f"no position is saved as `{name}`", help=f"saved: {known}")
        return self.goto(self.saved[name])

    def outputs(self) -> dict[str, np.ndarray]:
        """Return what the arguments and output tiles hold now."""
        return self.launch.outputs()
