"""Flags, barriers, buffer tokens, and flags between cores.

An operation that waits gives its binding a guard: the engine holds the pipe (or the scalar unit)
until the guard is true. Waiting takes what setting gave; a flag that is set twice counts twice."""

from __future__ import annotations

from functools import lru_cache
from operator import index
from typing import Any

from ptosim.ground.errors import LimitError
from ptosim.ground.ir.attributes import Enum
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.ir.types import HandleType
from ptosim.ground.isa.schema import enums, pipe_named
from ptosim.language.toolchains import is_micro, is_on_tiles
from ptosim.machine.affine import Unknown
from ptosim.machine.core import Core
from ptosim.machine.values import EventArray
from ptosim.ops.base.binding import Binding, OpFault
from ptosim.ops.base.functions import Commit, kernel, nothing, value
from ptosim.ops.base.orders import (
    Action,
    Barrier,
    CrossSet,
    CrossWait,
    GetToken,
    ReleaseToken,
    SetFlag,
    ValueContext,
    WaitFlag,
    computed,
)

MOST_MET = 1024
"""Cores that meet: several times as many as a device has, which must run all of them at once. A
meeting is kept as an event from each of them to each other."""

TOKENS = 32
"""Buffer tokens of a core."""


def pipe_word(value: Any) -> str:
    """Return the pipe that a word names: `PIPE_V` is V, the op class `TLOAD` is MTE2."""
    text = value.member if isinstance(value, Enum) else str(value)
    pipe = pipe_named(text)
    if pipe is None:
        raise OpFault("PTO5001", f"`{text}` names no pipe")
    return pipe


def event_number(value: Any) -> int:
    """Return the number of an event id, written or computed."""
    if isinstance(value, (int, Unknown)):
        return index(value)
    text = value.member if isinstance(value, Enum) else str(value)
    member = enums()["event"].member(text)
    if member is None:
        raise OpFault("PTO5002", f"`{text}` is no event id")
    return enums()["event"].members[member]


def _flag_key(op: Binding) -> tuple[str, str, int]:
    values = op.values
    source = values.get("src_pipe", values.get("src_op"))
    target = values.get("dst_pipe", values.get("dst_op"))
    number = event_number(values["event"])
    last = op.machine.definition.event_ids - 1
    if not 0 <= number <= last:
        raise OpFault(
            "PTO5003",
            f"event id {number} does not exist",
            notes=(f"a pair of pipes has the event ids 0 to {last}",),
            help=f"name EVENT_ID0 to EVENT_ID{last}; `arith.remui %n, %c{last + 1} : index` makes "
            "one of any number",
        )
    return pipe_word(source), pipe_word(target), number


@kernel("pto.set_flag", "pto.set_flag_dyn", "pto.record_event", events=True)
def set_flag(op: Binding) -> Commit:
    """Signal an event when everything issued before on the source pipe is done."""
    key = _flag_key(op)
    op.sync = SetFlag(*key)
    if key[0] == key[1]:  # the library's events between ops of one pipe are no flags
        return nothing
    return give(op.core.flags, key)


@kernel("pto.wait_flag", "pto.wait_flag_dyn", "pto.wait_event", events=True)
def wait_flag(op: Binding) -> Commit:
    """Hold the destination pipe until the event is signalled, and take it."""
    key = _flag_key(op)
    op.sync = WaitFlag(*key)
    if key[0] == key[1]:
        op.sync = Barrier(key[0])
        return nothing
    return _take(op, op.core.flags, (key,))


def give(counters: dict[Any, int], *keys: Any) -> Commit:
    """Return the effect that each of these counters has one more."""
    if len(keys) == 1:  # a flag, which loops set all the time
        (only,) = keys

        def give_one() -> None:
            counters[only] = counters.get(only, 0) + 1

        return give_one

    def give() -> None:
        for key in keys:
            counters[key] = counters.get(key, 0) + 1

    return give


def _take(op: Binding, counters: dict[Any, int], keys: tuple[Any, ...]) -> Commit:
    if len(keys) == 1:
        (only,) = keys
        op.guard = lambda: bool(counters.get(only))

        def take_one() -> None:
            counters[only] -= 1

        return take_one
    op.guard = lambda: all(counters.get(key) for key in keys)

    def take() -> None:
        for key in keys:
            counters[key] -= 1

    return take


@kernel("pto.barrier", "pto.barrier_sync", events=True)
def barrier(op: Binding) -> Commit:
    """Order a pipe with itself; PIPE_ALL waits until every pipe of the core is done."""
    pipe = pipe_word(op.values.get("pipe", op.values.get("op_type")))
    op.sync = Barrier(pipe)
    if pipe == "ALL":
        core = op.core
        op.guard = lambda: not core.queues
    return nothing


@kernel("pto.tsync", events=True)
def tsync(op: Binding) -> Commit:
    """Wait for everything that the events mean: every pipe of the core."""
    core = op.core
    op.sync = Barrier("ALL")
    op.guard = lambda: not core.queues
    return nothing


def _token(op: Binding) -> int:
    number = int(op.values["buf_id"])
    if not 0 <= number < TOKENS:
        raise OpFault("PTO5003", f"buffer token {number} does not exist (0 to {TOKENS - 1})")
    return number


@kernel("pto.get_buf", "pto.get_buf_dyn", events=True)
def get_buf(op: Binding) -> Commit:
    """Acquire a buffer token; the regions that one token guards run in program order, whichever
    pipe comes to its own first."""
    number, pipe = _token(op), pipe_word(op.values["op_type"])
    tokens, lines = op.core.tokens, op.core.token_lines
    op.sync = GetToken(pipe, number)

    def queue() -> None:
        lines[number] = (*lines.get(number, ()), pipe)

    def acquire() -> None:
        tokens[number] = 1
        _, *rest = lines[number]
        lines[number] = tuple(rest)

    op.at_issue = queue
    op.guard = lambda: not tokens.get(number) and lines[number][0] == pipe

    return acquire


@kernel("pto.rls_buf", "pto.rls_buf_dyn", events=True)
def rls_buf(op: Binding) -> Commit:
    """Release a buffer token."""
    number = _token(op)
    tokens = op.core.tokens
    op.sync = ReleaseToken(pipe_word(op.values["op_type"]), number)

    def release() -> None:
        if not tokens.get(number):
            raise OpFault("PTO5004", f"buffer token {number} is released but nobody holds it")
        tokens[number] = 0

    return release


# -- between cores --------------------------------------------------------------------------------


@kernel("pto.set_ffts", events=True)
def set_ffts(op: Binding) -> Commit:
    """Where the cross-core flags live; the simulator keeps them itself."""
    return nothing


def _number(op: Binding) -> int:
    return int(op.values["event_id" if "event_id" in op.values else "event"])


@kernel("pto.sync.set", "pto.set_intra_block", events=True)
def sync_set(op: Binding) -> Commit:
    """Signal the cores on the other side."""
    number = _number(op)
    op.sync = CrossSet(pipe_word(op.values["pipe"]), number)
    return _cross(op, number, sets=True)


@kernel("pto.sync.wait", "pto.wait_intra_block", "pto.wait_intra_core", events=True)
def sync_wait(op: Binding) -> Commit:
    """Wait for the cores on the other side: A2/A3 holds the scalar unit, A5 the named pipe."""
    number = _number(op)
    op.sync = CrossWait(pipe_word(op.values["pipe"]), number)
    return _cross(op, number, sets=False)


@kernel("pto.set_cross_core", events=True)
def set_cross_core(op: Binding) -> Commit:
    """Signal the cores on the other side: A2/A3's mode 2, spelled as an instruction."""
    number = _number(op)
    op.sync = CrossSet(_named_pipe(op), number)
    return _cross(op, number, sets=True, by_name=False)


@kernel("pto.wait_flag_dev", events=True)
def wait_flag_dev(op: Binding) -> Commit:
    """Hold the scalar unit until the cores on the other side have signalled."""
    number = _number(op)
    op.sync = CrossWait("S", number)
    return _cross(op, number, sets=False, by_name=False)


def _named_pipe(op: Binding) -> str:
    """The pipe; that a core's number is in its place no public source explains."""
    if isinstance(op.values["pipe"], int):
        raise OpFault("PTO8002", "the number of a core is not defined here; name a pipe")
    return pipe_word(op.values["pipe"])


@kernel("pto.set_cross_block", events=True)
def set_cross_block(op: Binding) -> Commit:
    """Signal all cores of the kind, in every block."""
    number = _number(op)
    op.sync = CrossSet(pipe_word(op.values["pipe"]), number)
    _check_number(number, 16)
    return _arrive(op, number, 0)


@kernel("pto.wait_cross_block", events=True)
def wait_cross_block(op: Binding) -> Commit:
    """Hold the pipe until all cores of the kind have signalled."""
    number = _number(op)
    op.sync = CrossWait(pipe_word(op.values["pipe"]), number)
    _check_number(number, 16)
    return _meet(op, number, 0)


def _signal(op: Binding, *keys: Any) -> Commit:
    """Give events to other cores of the cluster."""
    op.signals = tuple((op.core.place, key) for key in keys)
    return give(op.core.cluster.counters, *keys)


def _await(op: Binding, *keys: Any) -> Commit:
    """Take events from other cores of the cluster."""
    op.awaits = tuple((op.core.place, key) for key in keys)
    return _take(op, op.core.cluster.counters, keys)


def _check_number(number: int, limit: int) -> None:
    if not 0 <= number < limit:
        raise OpFault("PTO5003", f"cross-core event id {number} does not exist (0 to {limit - 1})")


def _cross(op: Binding, number: int, *, sets: bool, by_name: bool = True) -> Commit:
    """Give or take what a number means on the core; `by_name`: as the name of the event says, which
    is A5's word.

    Mode 2 (the default) is cube to both its vector cores, each vector core to the cube, which waits
    for both. Modes 0 and 1: all cores of a kind, the two vector cores of a cluster; everyone waits
    for everyone. On A5 that is so unless the program names each vector core by itself."""
    is_a5, kind = op.target == "a5" or (by_name and "event" in op.values), op.core.kind
    if is_a5 and op.op.has("by_ffts") and _is_of_cluster(op.op):
        return _of_cluster(op, number, sets=sets)
    if is_a5:
        if kind != "any":
            _check_number(number, 32 if op.target == "a5" else 16)
        return _passed(op, _keys_a5(op, number, sets=sets), sets=sets, is_bounded=False)
    return _of_cluster(op, number, sets=sets)


def _of_cluster(op: Binding, number: int, *, sets: bool) -> Commit:
    """Give or take a signal of the cluster by its mode."""
    _check_number(number, 16)
    mode = op.attr("ffts_mode")
    if mode is None and not sets:
        mode = _mode_of_signals(op.op)
    if mode in (0, 1):
        return _arrive(op, number, mode) if sets else _meet(op, number, mode)
    keys = _keys_of_cluster(op, number, sets=sets)
    return _passed(op, keys, sets=sets, is_bounded=op.target == "a2a3" and op.core.kind != "any")


def _passed(op: Binding, keys: list[Any], *, sets: bool, is_bounded: bool) -> Commit:
    if op.machine.stub is not None:
        return nothing
    if not sets:
        return _await(op, *keys)
    return _bounded(op, keys) if is_bounded else _signal(op, *keys)


@lru_cache(maxsize=64)
def _is_of_cluster(signal: Operation) -> bool:
    """True unless the module on A5 names the second vector core by an id from 16 on, may do so, or
    is of micro instructions alone: there a number is that of one core, as recorded launches have
    it. Elsewhere nothing can name the second core, and a signal is one of the cluster (A16)."""
    on_tiles = has_micro = False
    for op in [signal, *signal.around()][-1].walk():
        on_tiles, has_micro = on_tiles or is_on_tiles(op), has_micro or is_micro(op)
        number = getattr(op.bound.get("event_id"), "const", None)
        is_named = not op.has("by_ffts") or not isinstance(number, int) or number > 15
        if op.has("cross_core") and is_named:
            return False
    return on_tiles or not has_micro


@lru_cache(maxsize=64)
def _mode_of_signals(wait: Operation) -> int | None:
    """The mode in which the cores that wait signal the same number: the instruction that waits has
    none (`wait_flag_dev` of A2/A3). None if they do not signal it, or in mode 2."""
    section, function = wait.inside("section"), wait.inside("function")
    modes = {
        op.attributes.get("ffts_mode")
        for op in (function.walk() if function is not None else ())
        if op.has("cross_core") and op.has("signals") and op.inside("section") is section
        and _same_number(op, wait)
    }  # fmt: skip
    return modes.pop() if len(modes) == 1 else None


def _same_number(one: Operation, other: Operation) -> bool:
    first, second = one.bound.get("event_id"), other.bound.get("event_id")
    if not isinstance(first, Operand) or not isinstance(second, Operand):
        return False
    return first.const == second.const and (first.const is not None or first.value is second.value)


def _keys_a5(op: Binding, number: int, *, sets: bool) -> list[Any]:
    """The cube names one vector core with ids 0 to 15, the other with 16 to 31; to what a vector
    core names the hardware adds 16 for the second, unless it is 16 or more."""
    is_cube = op.core.kind == "cube"
    if op.core.kind == "any":
        return [("any", number)]
    if not is_cube and number < 16:
        number += 16 * op.core.sub_block
    if is_cube == sets:
        return [("to vector", number % 16, number // 16)]
    return [("to cube", number)]


def _keys_of_cluster(op: Binding, number: int, *, sets: bool) -> list[Any]:
    """One semaphore for each vector core and direction."""
    is_cube = op.core.kind == "cube"
    if op.core.kind == "any":
        return [("any", number)]
    towards = "v" if is_cube == sets else "c"
    return [(towards, number, k) for k in (_vector_cores(op) if is_cube else [op.core.sub_block])]


def _vector_cores(op: Binding) -> list[int]:
    """The vector cores of the cluster; of a cube kernel without any, both that could be there."""
    return [c.sub_block for c in op.machine.mates(op.core, "vector")] or [0, 1]


def _bounded(op: Binding, keys: list[Any]) -> Commit:
    """The semaphores count to 15."""
    give = _signal(op, *keys)
    counters = op.core.cluster.counters

    def give_checked() -> None:
        give()
        if any(counters[key] > 15 for key in keys):
            raise OpFault(
                "PTO5005",
                "a cross-core semaphore overflows its 4-bit counter",
                help="wait for the signals before sending more than 15",
            )

    return give_checked


def check_met(op: Binding, count: int) -> None:
    """Raise LimitError for a meeting of more than MOST_MET cores."""
    if count > MOST_MET:
        raise LimitError(
            f"'{op.op.name}': {count:,} cores meet; at most {MOST_MET:,} can here",
            help="launch as many blocks as a device runs at once: who meets has to run",
        )


def _group(op: Binding, mode: int) -> list[Core]:
    """Mode 0: every core of the same kind; mode 1: the vector cores of the cluster. Raises
    LimitError for more cores than can meet."""
    machine, core = op.machine, op.core
    if mode == 1:
        return machine.mates(core, core.kind)
    found = [c for c in machine.cores if c.kind == core.kind and c.rank == core.rank]
    check_met(op, len(found))
    return found


def _arrive(op: Binding, number: int, mode: int) -> Commit:
    core = op.core
    scope = op.machine.global_counters if mode == 0 else core.cluster.counters
    members = _group(op, mode)
    op.signals = tuple(("met", mode, number, core.index, c.index) for c in members)
    return give(scope, ("arrived", mode, core.kind, number, core.index))


def _meet(op: Binding, number: int, mode: int) -> Commit:
    """Ready when every core of the group has arrived more often than this one has left."""
    core, machine = op.core, op.machine
    scope = machine.global_counters if mode == 0 else core.cluster.counters
    group = _group(op, mode)
    members = [("arrived", mode, core.kind, number, c.index) for c in group]
    op.awaits = tuple(("met", mode, number, c.index, core.index) for c in group)
    left = ("left", mode, core.kind, number, core.index)
    op.guard = lambda: min(scope.get(m, 0) for m in members) > scope.get(left, 0)
    return give(scope, left)


# -- arrays of event numbers -----------------------------------------------------------------------


@value("pto.declare_eventid_array")
def declare(ctx: ValueContext) -> Action:
    """An array whose entries are not set yet."""
    type_ = ctx.result_type
    length = type_.length if isinstance(type_, HandleType) and type_.length else 0
    return ctx.constant(EventArray((None,) * length))


@value("pto.eventid_array_get")
def get(ctx: ValueContext) -> Action:
    """The entry of an array; one that was never set is a fault."""

    def entry(array: EventArray, at: int) -> int:
        _check(array.entries, at)
        found = array.entries[at]
        if found is None:
            raise OpFault("PTO5008", f"entry {at} of the event array is read before it is set")
        return found

    return ctx.computed(entry, "array", "index")


@value("pto.eventid_array_set")
def set_entry(ctx: ValueContext) -> Action:
    """Sets an entry; the array itself changes."""

    def changed(array: EventArray, at: int, given: int) -> EventArray:
        entries = array.entries
        _check(entries, at)
        return EventArray((*entries[:at], given, *entries[at + 1 :]))

    slots = [ctx.slots[name] for name in ("array", "index", "value")]
    return computed(changed, slots, slots[0])


def _check(entries: tuple[int | None, ...], at: int) -> None:
    if not 0 <= at < len(entries):
        raise OpFault("PTO5007", f"entry {at} is outside the event array of {len(entries)}")
