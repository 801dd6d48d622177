"""From a checked program to one that is ready to be launched: its functions, cores and addresses.

Every launch goes this way, whatever is asked of it:

    source -> Front (checked) -> Prepared (placed) -> Launch (decoded, with arguments) -> Engine
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ptosim.engine.watch.access import parse as parse_sanitize
from ptosim.ground.diagnostics.model import Diagnostic, ProgramError, Sink
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.isa.dates import Profile
from ptosim.ground.limits import MAX_INSTRUCTIONS, Limits, current
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.language.frontend import Front
from ptosim.language.place.cores import (
    CoreRole,
    has_abstract,
    peer_functions,
    plan,
    reached_functions,
)
from ptosim.language.place.planner import Placement
from ptosim.launch import arguments
from ptosim.launch.generated import Needed

# Options of a run, and how arguments are given.

NORMAL = "normal"
HARD = ("hard", "cancel", "ties", "special", "extreme")
"""What arguments that are left out are drawn as; the kinds are those of `launch/hard.py`."""


class Redraw(NamedTuple):
    """An argument that nobody chose for this run: hard data may take the place of its array."""

    value: Any


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run; see `Program.run`."""

    block_num: int = 1
    sanitize: str = "all"
    timing: bool = True
    commit: str = "program"
    uninit: str = "poison"
    seed: int = 0
    inputs: str = NORMAL
    max_instructions: int | None = None
    ranks: int = 1
    in_place: bool = False
    """The arrays of arguments are the run's: it works in them, and outputs are these arrays."""
    jobs: int = 1
    """Processes in which independent blocks may be executed."""
    schedule: int = 0
    """The order of blocks and pipes: see `engine/core/schedule.py`."""
    sizes: Mapping[str, Needed] = field(default_factory=dict)
    """What is known of arrays that are left out and that no view sizes."""
    peer: str | None = None
    """`stub`: something stands for the other half of a pair, and for functions without a body."""
    popped: Mapping[str, Any] = field(default_factory=dict)
    """What a stub pushes, by the name of the tile that is popped, and what a function returns."""

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("commit", self.commit, ("program", "retire")),
            ("uninit", self.uninit, ("poison", "zero", "random")),
            ("inputs", self.inputs, (NORMAL, *HARD)),
        ):
            if value not in allowed:
                raise UsageError(f"{name} does not take `{value}`", help=f"one of {allowed}")
        parse_sanitize(self.sanitize)
        if self.peer not in (None, "stub"):
            raise UsageError(f"peer does not take `{self.peer}`", help="`stub`, or leave it out")
        if self.block_num < 1:
            raise UsageError(f"block_num is {self.block_num}; at least one block runs")
        if self.schedule < 0:
            raise UsageError(f"schedule is {self.schedule}; schedules are numbers from 0 on")
        if self.schedule and self.commit != "program":
            raise UsageError(
                f"a schedule says when effects happen, and so does commit `{self.commit}`",
                help="leave out one of them",
            )
        if self.ranks < 1:
            raise UsageError(f"ranks is {self.ranks}; at least one device runs")
        Limits(self.max_instructions)

    @property
    def most_instructions(self) -> int:
        """Instructions after which a run is stopped: those of the options, else those of the limits
        in force, else the usual number."""
        return self.max_instructions or current().instructions or MAX_INSTRUCTIONS


Args = Mapping[str, Any] | Sequence[Any] | None
"""Arguments by name (of one rank `name@rank`), in the order of the entry, or one mapping for each
rank; what is left out is generated or unknown."""

LEAST = 5_000
"""Instructions of a run that is worth making in parts (`in_parts.py`)."""

FEWEST = 4
"""Blocks for which it is worth to execute them independently in one process."""


def wants(options: RunOptions, observers: Sequence[Any]) -> bool:
    """True for a launch whose blocks may be worth executing independently."""
    count = options.block_num * options.ranks
    fewest = 2 if options.jobs > 1 else FEWEST
    in_turn = options.commit == "program" and not options.schedule
    return count >= fewest and in_turn and not observers


def may_repeat(front: Front, entry: str) -> bool:
    """True for an entry that has a loop of tile operations, as far as its text says: of many
    rounds, if it says how many."""
    resolved = front.resolved
    function = resolved.functions[entry]
    if has_abstract(function):
        return False
    known = front.plans.get(entry)
    reached = known.reached if known is not None else reached_functions(resolved, [function])
    ops = [op for f in reached for op in f.ops]
    return any(op.has("rows_apart") and _rounds(op) * len(ops) >= LEAST for op in ops)


MOST_KEPT = 64 << 20
"""Bytes of arguments that are kept for a second run."""


def may_be_unsure(front: Front, args: Args) -> bool:
    """True for a program with vector regions, a run of which may have to be repeated; its arguments
    have to be worth keeping."""
    arrays = args.values() if isinstance(args, Mapping) else args or ()
    if sum(getattr(a, "nbytes", 0) for a in arrays) > MOST_KEPT:
        return False
    return any(op.has("vector_region") for f in front.resolved.functions.values() for op in f.ops)


def _rounds(op: Operation) -> int:
    """How often an operation is executed by the loops around it; of a loop whose bounds are not
    written, often."""
    rounds, outer = 1, op.parent
    while outer is not None:
        if outer.has("loop"):
            names = ("lower", "upper", "step")
            low, high, step = (getattr(outer.bound.get(n), "const", None) for n in names)
            if not (isinstance(low, int) and isinstance(high, int) and isinstance(step, int)):
                return LEAST
            rounds *= max(-((low - high) // max(step, 1)), 0)
        outer = outer.parent
    return rounds


def in_turn(options: RunOptions, observers: Sequence[Any]) -> bool:
    """True for a run of which parts may be made by themselves: as the text has it, with sanitizers
    or time, which take most of it in one piece."""
    is_plain = options.commit == "program" and not options.schedule and not options.in_place
    return (
        is_plain
        and not observers
        and (options.timing or parse_sanitize(options.sanitize).is_needed)
    )


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """An entry of a program, placed. Any number of launches may share it."""

    front: Front
    profile: Profile
    resolved: ResolvedModule
    """The module of the front end, with concrete types where the text leaves them to arguments."""
    function: Function
    launched: Sequence[Function]
    """The function of the entry, and its peer where two are launched together."""
    functions: Sequence[Function]
    """Those and what they call."""
    roles: Sequence[CoreRole]
    """The cores of a block."""
    placement: Placement
    findings: Sequence[Diagnostic] = ()
    """What placing it brought out."""
    assumed: Mapping[str, str] = field(default_factory=dict)
    """What was taken for types that neither the text nor an argument gives, in words."""

    @property
    def is_ordered(self) -> bool:
        """True if the assembler synchronises all functions: their data order them."""
        return all(f.name in self.resolved.settings.ordered for f in self.functions)

    @property
    def keeps_text(self) -> bool:
        """True if, besides, the assembler knows where everything is, and what does it: each core
        keeps the order of the text."""
        ops = [op for f in self.functions for op in f.ops]
        return self.is_ordered and not any(_escapes(op) for op in ops)

    @property
    def never_waits(self) -> bool:
        """True if, besides, no pipe waits for a flag that the text sets."""
        ops = (op for f in self.functions for op in f.ops)
        return self.is_ordered and not any(op.has("sync") and op.has("waits") for op in ops)


def _escapes(op: Operation) -> bool:
    """True for a tile at a computed address, and for what the assembler takes for another pipe."""
    addr = op.bound.get("addr") if op.has("makes_storage") else None
    is_computed = isinstance(addr, Operand) and addr.value is not None and addr.const is None
    return is_computed or (op.passes is not None and op.passes.modelled is not None)


def prepare(front: Front, profile: Profile, entry: str, args: Args, ranks: int = 1) -> Prepared:
    """Make abstract types concrete by the arguments, and place an entry. Raises UsageError for
    arguments that it does not have, ProgramError for what its types and places bring out."""
    known, resolved, assumed = front.plans.get(entry), front.resolved, dict[str, str]()
    function, sink = resolved.functions[entry], Sink()
    given = arguments.by_name(peer_functions(resolved, function), args, ranks)
    if known is None and has_abstract(function):
        from ptosim.language.rewrite import abstract  # few programs have such types

        resolved, assumed = abstract.concrete(front, given, sink)
        _refuse_errors(front, sink)
        function = resolved.functions[entry]
    launched = peer_functions(resolved, function)
    arguments.refuse_open(known.reached if known else reached_functions(resolved, launched))
    if known is None:
        known = plan(resolved, entry)
        sink.extend(known.findings)
        _refuse_errors(front, sink)
    return Prepared(
        front, profile, resolved, function, known.launched, known.reached, known.roles,
        known.placement, list(sink), assumed,
    )  # fmt: skip


def _refuse_errors(front: Front, sink: Sink) -> None:
    if sink.has_errors:
        raise ProgramError([*front.sink, *sink])
