"""A loaded program and the results of running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptosim import arguments
from ptosim.arguments import Arg
from ptosim.costing import bridge_of, report_of
from ptosim.diagnostics.model import Diagnostic, Sink
from ptosim.engine.decode import decode
from ptosim.engine.engine import Engine
from ptosim.engine.timed import TimedEngine
from ptosim.errors import ProgramError, Trap, UnsupportedError, UsageError
from ptosim.ir.core import Value
from ptosim.ir.program import Function
from ptosim.ir.types import MemRefType, PtrType, ScalarType, TileType
from ptosim.isa.machines import machine as machine_of
from ptosim.isa.profiles import Profile, make_profile
from ptosim.machine.core import (
    SLOT_BLOCK,
    SLOT_BLOCK_NUM,
    SLOT_KIND,
    SLOT_SUBBLOCK,
    SLOT_SUBBLOCK_NUM,
    Cluster,
    Core,
    Machine,
)
from ptosim.machine.gm import GmBuffer
from ptosim.machine.storage import from_bytes, to_bytes
from ptosim.machine.tile import TileRef
from ptosim.machine.tile_values import load_tile, store_tile
from ptosim.passes import abstract
from ptosim.passes.frontend import Front
from ptosim.passes.launch import CoreRole, has_abstract, peer_functions, reached_functions
from ptosim.passes.launch import roles as core_roles
from ptosim.passes.place import Placement, place
from ptosim.semantics import families
from ptosim.semantics.values import default_value
from ptosim.timing.report import CostReport

families.load()


@dataclass(slots=True)
class Result:
    """What a run left behind.

    `outputs`: the final content of every pointer and memref argument and of every output tile, by
    name. `made_up` names the arguments that the caller left out and what they were filled with.
    """

    outputs: dict[str, np.ndarray]
    findings: list[Diagnostic]
    prints: list[str] = field(default_factory=list)
    made_up: dict[str, str] = field(default_factory=dict)
    cycles: int | None = None
    cost: Any = None
    executed: int = 0

    def trace(self) -> list[dict[str, Any]]:
        """Return the run as Chrome trace events; none if timing was off."""
        return self.cost.trace() if self.cost is not None else []


class Program:
    """A program that was parsed and checked. Made by `ptosim.load`."""

    def __init__(self, front: Front, profile: Profile) -> None:
        self._front = front
        self._profile = profile

    @property
    def front(self) -> Front:
        """The checked module."""
        return self._front

    @property
    def target(self) -> str:
        """The target it runs on: a2a3 or a5."""
        return self._front.target

    @property
    def level(self) -> int:
        """The assembler level: 2 plans memory, 3 takes the program's addresses."""
        return self._front.level

    @property
    def sync(self) -> str:
        """`manual`: the program's flags are all there is; `auto`: they are inserted."""
        return self._front.sync

    @property
    def profile(self) -> Profile:
        """The semantic profile."""
        return self._profile

    @property
    def findings(self) -> list[Diagnostic]:
        """What the static checks found."""
        return list(self._front.sink)

    @property
    def entries(self) -> list[str]:
        """Names of the functions that can be run."""
        return self._front.resolved.entries()

    def entry(self, name: str | None = None) -> str:
        """Return the function to run; raises UsageError if it must be named or does not exist."""
        entries = self.entries
        if name is not None:
            name = name.removeprefix("@")
            if name not in entries:
                raise UsageError(
                    f"there is no entry `{name}`", help=f"entries: {', '.join(entries) or 'none'}"
                )
            return name
        if not entries:
            raise UsageError("the program has no function with a body to run")
        if len(entries) > 1:
            raise UsageError(
                f"the program has {len(entries)} entries; name one with --entry",
                help=f"entries: {', '.join(entries)}",
            )
        return entries[0]

    def signature(self, entry: str | None = None) -> list[Arg]:
        """Return what an entry takes."""
        resolved = self._front.resolved
        return arguments.signature(peer_functions(resolved, resolved.functions[self.entry(entry)]))

    def run(
        self,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        entry: str | None = None,
        block_num: int = 1,
        sanitize: str = "all",
        timing: bool = True,
        commit: str = "program",
        uninit: str = "poison",
        seed: int = 0,
        observers: Sequence[Any] = (),
    ) -> Result:
        """Run an entry on arguments and return the result; the caller's arrays are not changed.

        Raises UsageError for arguments that do not fit, ProgramError (or UnsupportedError) for what
        only the arguments bring out, Trap where the run stops.
        """
        options = RunOptions(block_num, sanitize, timing, commit, uninit, seed)
        launch = Launch(self._front, self._profile, self.entry(entry), args, options)
        return launch.run(observers)

    def cost(
        self,
        *,
        target: str | None = None,
        entry: str | None = None,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        block_num: int = 1,
        what_if: Mapping[str, float] | None = None,
    ) -> CostReport:
        """Return what an entry costs, without values: only scalars that decide a path, a trip
        count or a shape are needed. `what_if` changes figures of the target by name.

        Raises UsageError for an argument that is needed and not given, or an unknown figure,
        ProgramError if the program cannot be placed (or is wrong for `target`).
        """
        from ptosim.estimation import cost_of

        return cost_of(self, target, entry, args, block_num, what_if)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run; see `Program.run`."""

    block_num: int = 1
    sanitize: str = "all"
    timing: bool = True
    commit: str = "program"
    uninit: str = "poison"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("commit", self.commit, ("program", "retire")),
            ("uninit", self.uninit, ("poison", "zero", "random")),
        ):
            if value not in allowed:
                raise UsageError(f"{name} does not take `{value}`", help=f"one of {allowed}")
        if self.block_num < 1:
            raise UsageError(f"block_num is {self.block_num}; at least one block runs")


class Launch:
    """One run: arguments in buffers and tiles, cores, an engine."""

    values = True
    """Data are computed, not only timed."""

    def __init__(
        self,
        front: Front,
        profile: Profile,
        entry: str,
        args: Mapping[str, Any] | Sequence[Any] | None,
        options: RunOptions,
    ) -> None:
        self.front = front
        self.profile = profile
        self.options = options
        self.sink = Sink()
        self.made_up: dict[str, str] = {}
        self.resolved = front.resolved
        given = arguments.match(peer_functions(self.resolved, self.resolved.functions[entry]), args)
        if has_abstract(self.resolved.functions[entry]):
            self.resolved, assumed = abstract.concrete(front, given, self.sink)
            self.made_up.update(assumed)
            self._reject_errors()
        self.function = self.resolved.functions[entry]
        self.launched = peer_functions(self.resolved, self.function)
        self.rng = np.random.default_rng(options.seed)
        self.machine = Machine(machine_of(front.target))
        self.placement = self._place()
        self.program = decode(
            self.resolved,
            self.launched,
            self.placement,
            self.machine,
            profile,
            self._warn,
            self.sink,
            values=self.values,
        )
        self._refuse_unsupported()
        self.tile_inputs: dict[str, np.ndarray] = {}
        self._bind_arguments(given)
        self._make_cores()

    def _place(self) -> Placement:
        self.reached = reached_functions(self.resolved, self.launched)
        placement = place(self.resolved, self.reached, self.sink)
        self._reject_errors()
        return placement

    def _reject_errors(self) -> None:
        if self.sink.has_errors:
            raise ProgramError([*self.front.sink, *self.sink])

    def _refuse_unsupported(self) -> None:
        if self.sink.has_errors:
            raise UnsupportedError([*self.front.sink, *self.sink])

    def _warn(self, op: Any, code: str, message: str) -> None:
        self.engine.warn(op, code, message)

    # -- arguments --------------------------------------------------------------------------------

    def _bind_arguments(self, given: dict[str, Any]) -> None:
        needed = {k: v for f in self.launched for k, v in arguments.needed_elements(f).items()}
        initial = self.program.initial
        bound: dict[str, Any] = {}
        for value in (v for f in self.launched for v in f.args):
            type_ = value.type
            if value.name in bound:  # kernels of a pair share the arguments that share a name
                initial[self.program.slots[value]] = bound[value.name]
                continue
            if isinstance(type_, ScalarType):
                initial[self.program.slots[value]] = self._scalar(value, type_, given)
            elif isinstance(type_, (PtrType, MemRefType)):
                self._buffer(value, given, needed.get(value.name))
                initial[self.program.slots[value]] = default_value(
                    type_, len(self.machine.buffers) - 1
                )
            elif isinstance(type_, TileType):
                self._tile_input(value, type_, given)
            else:
                raise UsageError(f"argument `{value.name}` of type {type_} cannot be launched with")
            bound[value.name] = initial[self.program.slots[value]]

    def _scalar(self, value: Value, type_: ScalarType, given: dict[str, Any]) -> Any:
        if value.name in given:
            return arguments.scalar_argument(value.name, type_, given[value.name])
        chosen = arguments.random_scalar(type_)
        self.made_up[value.name] = f"{chosen}"
        return chosen

    def _buffer(self, value: Value, given: dict[str, Any], needed: arguments.Needed | None) -> None:
        type_ = value.type
        elem = type_.elem  # type: ignore[union-attr]
        if isinstance(type_, MemRefType) and None not in type_.dims:
            dims = tuple(d or 1 for d in type_.dims)
            needed = arguments.Needed(int(np.prod(dims, dtype=np.int64)), dims)
        if value.name in given:
            array = arguments.array_argument(value.name, elem, given[value.name])
            if needed is not None and array.size < needed.elements:
                raise UsageError(
                    f"argument `{value.name}` has {array.size} elements; the program's views reach "
                    f"{needed.elements}",
                    help=f"pass at least {needed.elements} elements of {elem}",
                )
        elif needed is None:
            raise UsageError(
                f"argument `{value.name}` is left out and no view fixes its size",
                help=f"pass an array of {elem} for `{value.name}`",
            )
        else:
            array = arguments.random_array(elem, needed.shape, self.rng)
            shape = "x".join(map(str, needed.shape))
            self.made_up[value.name] = f"{shape} random elements of {elem}"
        number = len(self.machine.buffers)
        data = to_bytes(array, elem)
        self.machine.buffers.append(GmBuffer(number, value.name, data, elem, array.shape))

    def _tile_input(self, value: Value, type_: TileType, given: dict[str, Any]) -> None:
        rows = type_.rows if type_.v_row is None else type_.v_row
        cols = type_.cols if type_.v_col is None else type_.v_col
        if value.name in given:
            array = arguments.array_argument(value.name, type_.dtype, given[value.name])
            if array.size == rows * cols:
                array = array.reshape(rows, cols)
            elif array.size == type_.rows * type_.cols:
                array = array.reshape(type_.rows, type_.cols)
            else:
                raise UsageError(
                    f"argument `{value.name}` has shape {array.shape}; the tile is "
                    f"{rows}x{cols} (static {type_.rows}x{type_.cols})"
                )
        elif _is_output(self.function, value):
            return
        else:
            array = arguments.random_array(type_.dtype, (rows, cols), self.rng)
            kind = "random"
            if type_.dtype.is_float and _is_scale(self.function, value):
                array = arguments.positive(array)
                kind = "positive random"
            self.made_up[value.name] = f"{rows}x{cols} {kind} elements of {type_.dtype}"
        self.tile_inputs[value.name] = array

    # -- run --------------------------------------------------------------------------------------

    def _make_cores(self) -> None:
        options = self.options
        roles = core_roles(self.resolved, self.function, self.reached)
        for block in range(options.block_num):
            cluster = Cluster(block)
            self.machine.clusters.append(cluster)
            for role in roles:
                self.machine.cores.append(self._make_core(cluster, role))

    def _make_core(self, cluster: Cluster, role: CoreRole) -> Core:
        options = self.options
        core = Core(
            len(self.machine.cores),
            role.kind,
            cluster,
            role.sub_block,
            self.machine.definition,
            options.uninit,
            options.seed,
        )
        core.slots = list(self.program.initial)
        core.slots[SLOT_KIND] = role.kind
        core.slots[SLOT_BLOCK] = cluster.block
        core.slots[SLOT_BLOCK_NUM] = options.block_num
        core.slots[SLOT_SUBBLOCK] = role.sub_block
        core.slots[SLOT_SUBBLOCK_NUM] = role.sub_blocks
        core.pc = self.program.functions[role.function].pc
        for name, array in self.tile_inputs.items():
            slot = self.program.tiles[name][0]
            store_tile(core, core.slots[slot], array)
        return core

    def start(self, observers: Sequence[Any] = ()) -> None:
        """Make the engine; nothing is executed yet."""
        parts = (self.program, self.resolved, self.machine, self.profile, self.sink)
        if self.options.timing:
            self.engine = TimedEngine(*parts, bridge_of(self), observers)
        else:
            self.engine = Engine(*parts, observers)

    def run(self, observers: Sequence[Any] = ()) -> Result:
        """Execute and collect."""
        self.start(observers)
        try:
            self.engine.run()
        except Trap as trap:
            raise Trap([*self.front.sink, *self.sink], pc=trap.pc) from trap.__cause__
        cost = report_of(self) if self.options.timing else None
        return Result(
            outputs=self._outputs(),
            findings=[*self.front.sink, *self.sink],
            prints=self.engine.prints,
            made_up=self.made_up,
            executed=self.engine.executed,
            cycles=cost.cycles if cost is not None else None,
            cost=cost,
        )

    def _outputs(self) -> dict[str, np.ndarray]:
        outputs = {
            buffer.name: from_bytes(buffer.data, buffer.dtype, buffer.shape)
            for buffer in self.machine.buffers
        }
        core = self.machine.cores[0]
        for value in _output_tiles(self.function):
            ref = core.slots[self.program.slots[value]]
            if isinstance(ref, TileRef):
                outputs[value.name] = load_tile(core, ref)
        return outputs


def _is_scale(function: Function, value: Value) -> bool:
    """True for a tile that scales another one: a value near zero or below it would be of no use."""
    return any(
        getattr(op.bound.get(name), "value", None) is value
        for op in function.op.walk()
        if op.name in ("pto.tquant", "pto.tdequant")
        for name in ("fp", "scale")
    )


def _is_output(function: Function, value: Value) -> bool:
    """True for a tile argument whose first use is as a destination."""
    for op in function.op.walk():
        for definition in op.variant.operands if op.variant is not None else ():
            operand = op.bound.get(definition.name)
            if getattr(operand, "value", None) is value and op.name != "pto.tassign":
                return definition.role in ("out", "scratch")
    return False


def _output_tiles(function: Function) -> list[Value]:
    """Tile arguments that something writes, and in a snippet the results that nothing consumes."""
    outputs = [
        value
        for value in function.args
        if isinstance(value.type, TileType) and _is_written(function, value)
    ]
    if function.implicit:
        outputs += [
            v
            for op in function.body
            for v in op.results
            if isinstance(v.type, TileType) and not _is_read(function, v)
        ]
    return outputs


def _is_read(function: Function, value: Value) -> bool:
    """True if an operation takes the value, other than to write it or to place it."""
    return any(
        getattr(operand, "value", None) is value
        for op in function.op.walk()
        if op.variant is not None and op.name != "pto.tassign"
        for d in op.variant.operands
        if d.role not in ("out", "scratch")
        for operand in _listed(op.bound.get(d.name))
    )


def _listed(bound: Any) -> list[Any]:
    return bound if isinstance(bound, list) else [bound]


def _is_written(function: Function, value: Value) -> bool:
    return any(
        getattr(op.bound.get(d.name), "value", None) is value and d.role != "in"
        for op in function.op.walk()
        if op.variant is not None
        for d in op.variant.operands
    )


def make_program(front: Front, profile: str, overrides: Mapping[str, str] | None = None) -> Program:
    """Return the program of a checked module; raises ProgramError if the checks found errors."""
    chosen = make_profile(profile, front.target, overrides)
    if front.sink.has_errors:
        raise ProgramError(list(front.sink))
    return Program(front, chosen)
