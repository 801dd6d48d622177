"""The account of an operation's effects on the shadows of memories: what the sanitizers check and
note; and which bytes of its loads a vector region uses, as far as its text shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ptosim.engine.core.bound import Inst
from ptosim.engine.watch.shadow import Footprint, Shadow
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.records import NamedTuple, dataclass, field, replace
from ptosim.ground.words import nearest
from ptosim.machine.core import Core
from ptosim.machine.effects.account import DEFINED, HIDDEN, Bound, Effects, Reached, effects_of
from ptosim.machine.effects.storage import allocation_of
from ptosim.machine.effects.strided import Strided, Touch, touched_bytes
from ptosim.machine.values import Memory

Shadows = Callable[[Core, Memory], Shadow]
"""Returns the shadow of a space of a core (by name), or of a buffer (by number)."""


@dataclass(slots=True, eq=False)
class Access:
    """Footprints of one binding; see `Effects`."""

    core: Core
    inst: Inst
    reads: tuple[Footprint, ...] = ()
    writes: tuple[Footprint, ...] = ()
    found: tuple[Footprint, ...] = ()
    spoils: tuple[tuple[Footprint, int | None], ...] = ()
    is_atomic: bool = False
    copied: tuple[Footprint | None, ...] | None = None
    """The sources of copies, once somebody asked for them."""

    def on(self, core: Core, inst: Inst, shadows: Shadows) -> Access:
        """Return the same accesses in another run."""

        def moved(prints: Iterable[Footprint | None]) -> tuple[Any, ...]:
            return tuple([p.on(shadows(core, p.where)) if p is not None else p for p in prints])

        made = Access(core, inst, moved(self.reads), moved(self.writes), moved(self.found))
        spoiled = zip(moved([p for p, _ in self.spoils]), self.spoils, strict=True)
        made.spoils = tuple([(print_, state) for print_, (_, state) in spoiled])
        made.is_atomic = self.is_atomic
        made.copied = moved(self.copied) if self.copied is not None else None
        return made

    def moved(self, distance: int) -> Access:
        """Return the accesses of the same operation with its window of global memory so many bytes
        farther on."""
        made = Access(self.core, self.inst)
        made.reads = tuple([p.moved(distance) for p in self.reads])
        made.writes = tuple([p.moved(distance) for p in self.writes])
        made.found = tuple([p.moved(distance) for p in self.found])
        made.spoils = self.spoils
        made.is_atomic = self.is_atomic
        made.copied = self.copied
        return made

    @property
    def all_writes(self) -> tuple[tuple[Footprint, int | None], ...]:
        """What it writes, each with the state that its bytes get (None: they keep it)."""
        return (*[(print_, DEFINED) for print_ in self.writes], *self.spoils)

    @property
    def is_empty(self) -> bool:
        """True if it touches no memory."""
        return not (self.reads or self.writes or self.spoils or self.found)


def access_of(core: Core, inst: Inst, binding: Bound, shadows: Shadows) -> Access:
    """Return the accesses of an instruction with its operands."""
    op = binding.op
    effects = effects_of(binding) if binding.effects is None else binding.effects
    access = noted(core, inst, effects, shadows)
    for print_ in access.reads if binding.carried else ():
        print_.is_copied = print_.name in binding.carried
    hidden = hidden_scratch(core, op, binding, shadows)
    if hidden is not None:
        access.spoils += ((hidden, HIDDEN),)
    return access


def noted(core: Core, inst: Inst, found: Effects, shadows: Shadows) -> Access:
    """Return effects as accesses of an instruction."""
    op = inst.op
    access = Access(core, inst)
    owners = found.owners
    access.reads = _footprints(found.reads, op, shadows, owners)
    access.writes = _footprints(found.writes, op, shadows, owners)
    access.found = _footprints(found.found, op, shadows, owners)
    spoils = [(footprint(reached, op, shadows, owners), state) for reached, state in found.spoils]
    access.spoils = tuple([(print_, state) for print_, state in spoils if print_ is not None])
    access.is_atomic = found.is_atomic
    return access


def _footprints(
    reached: Sequence[Reached | Touch],
    op: Operation | None,
    shadows: Shadows,
    owners: dict[str, Value | None],
) -> tuple[Footprint, ...]:
    if not reached:
        return ()
    prints = [footprint(one, op, shadows, owners) for one in reached]
    return tuple([print_ for print_ in prints if print_ is not None])


def footprint(
    reached: Reached | Touch,
    op: Operation | None,
    shadows: Shadows,
    owners: dict[str, Value | None] | None = None,
) -> Footprint | None:
    """Return the bytes of an operand that are in its memory; None if there are none. `owners` are
    the allocations of operands that are known."""
    shadow, name = shadows(reached.core, reached.where), reached.operand
    if isinstance(reached, Touch):
        parts = touched_bytes(reached, shadow.bytes)
    else:
        size = shadow.bytes
        parts = tuple([p for p in reached.parts if p.start >= 0 and p.end <= size])
    if not parts:
        return None
    if owners is None or name not in owners:
        owner = allocation_of(op, name) if op is not None else None
        if owners is not None:
            owners[name] = owner
    else:
        owner = owners[name]
    return Footprint(shadow, parts, name, owner, reached.where)


def hidden_scratch(core: Core, op: Operation, binding: Bound, shadows: Shadows) -> Footprint | None:
    """Return the bytes at a fixed address that the library takes where an operation has no scratch
    tile, neither the program's nor the planner's; None for most."""
    uses = (op.scratch or {}).items()
    takes = (
        u.definition.hidden and u.is_lacking and binding.values.get(n) is None for n, u in uses
    )
    if not any(takes):
        return None
    place = core.machine_def.scratch[0]
    part = Strided(place.start, place.bytes)
    return Footprint(shadows(core, place.space), (part,), "hidden scratch", None, place.space)


# -- vector regions --------------------------------------------------------------------------------
#
# What the text of a vector region shows of its loads: which of them use all bytes that they read,
# and which stores they feed.
#
# A load of 256 bytes at the end of an array reads more than there is, and a mask leaves those
# lanes out later. A load uses its register whole if the text shows it: every lane reaches a store
# or a reduction under a mask with all lanes set, or under none.


def loads_used_whole(region: Operation) -> set[Operation]:
    """Return the loads of a region whose every lane is used."""
    users = _users(region)
    _, *ops = region.walk()
    return {
        op
        for op in ops
        if op.has("loads")
        and not op.has("indexed")
        and any(_is_used_whole(value, users) for value in op.results)
    }


def _users(region: Operation) -> dict[Value, list[Operation]]:
    users: dict[Value, list[Operation]] = {}
    _, *ops = region.walk()
    for op in ops:
        for value in op.operand_values():
            users.setdefault(value, []).append(op)
    return users


def _is_used_whole(value: Value, users: dict[Value, list[Operation]]) -> bool:
    waiting, seen = [value], set[Value]()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        for op in users.get(value, ()):
            if _leaves_out(op):
                continue
            if op.has("reduces"):
                return True
            if not op.has("stores") or "align" in op.bound:
                waiting += op.results
            elif not _is_point(op):
                return True
    return False


def _leaves_out(op: Operation) -> bool:
    """True if an operation may leave lanes out, or hands them on in a way that is not followed."""
    mask = getattr(op.bound.get("mask"), "value", None)
    if op.has("picks_lanes"):
        return True
    if mask is None:
        return bool(op.regions) or op.has("yields") or op.has("selects")
    pattern = getattr(mask.owner.bound.get("pattern"), "const", None) if mask.owner else None
    return str(getattr(pattern, "member", pattern)) != "PAT_ALL"


class Fed(NamedTuple):
    """How a store gets what a load read: in the same lanes, or a round of a loop later."""

    by_lanes: bool
    later: bool


def stores_fed(region: Operation) -> dict[Operation, dict[Operation, Fed]]:
    """Return for each load of a region the stores of it that what it read takes part in."""
    users = _users(region)
    return {op: _fed_by(op, users) for op in region.walk() if op.has("loads")}


def _fed_by(load: Operation, users: dict[Value, list[Operation]]) -> dict[Operation, Fed]:
    found: dict[Operation, Fed] = {}
    known: dict[Value, Fed] = {}
    waiting = [(value, Fed(by_lanes=True, later=False)) for value in load.results]
    while waiting:
        value, fed = waiting.pop()
        before = known.get(value)
        if before is not None:
            fed = Fed(before.by_lanes and fed.by_lanes, before.later or fed.later)
            if fed == before:
                continue
        known[value] = fed
        for op in users.get(value, ()):
            if op.has("stores"):
                found[op] = fed
            waiting += _handed_on(op, fed)
    return found


def _handed_on(op: Operation, fed: Fed) -> Iterator[tuple[Value, Fed]]:
    """What an operation makes of a value; a loop gives what it yields to its next round."""
    around = op.parent if op.has("yields") else None
    if around is not None:
        later = fed.later or around.has("loop")
        values = [*around.results]
        if around.has("loop"):
            values += [v for r in around.regions for b in r.blocks for v in b.values]
        for value in values:
            yield value, Fed(fed.by_lanes, later)
    by_lanes = fed.by_lanes and not (op.has("picks_lanes") or op.has("reduces"))
    for value in op.results:
        yield value, Fed(by_lanes, fed.later)


def _is_point(op: Operation) -> bool:
    """True for a store of one lane."""
    return "1PT" in str(op.attrs.get("dist", ""))


# Who knows what: vector clocks of the pipes of all cores.
#
# Every pipe counts the operations it has done. What a pipe may take as done elsewhere is its clock:
# the count of every other pipe that an event, a barrier or the scalar unit has vouched for. The
# scalar unit issues every operation, so an operation also knows what the scalar unit knew when it
# was issued. Stores of the scalar unit go through a buffer: other pipes know of them only by an
# event.

SCALAR = "S"
EVERY = "every"
"""All pipes of a core that keeps the order of the text."""
READS = "S reads"
"""The scalar unit's loads: done before the next instruction is issued."""


Clock = dict[int, int]
"""What is known of each agent: how many of its operations are done. Of an agent that is not among
the keys nothing is known; so a clock has the size of what an agent has heard of, however many cores
there are."""


def with_count(clock: Clock, agent: int, count: int) -> Clock:
    """Return a copy that knows so much of an agent."""
    made = clock.copy()
    made[agent] = count
    return made


def joined(one: Clock, other: Clock) -> Clock:
    """Return what both know together: the first if the other adds nothing."""
    clock, get = one, one.get
    for agent, count in other.items():
        if count > get(agent, 0):
            if clock is one:
                clock = one.copy()
            clock[agent] = count
    return clock


@dataclass(slots=True, eq=False)
class Agent:
    """A pipe of a core. `count` is what it has done; `clock[i]` what it knows of agent i. Clocks
    are shared, with operations that wait and with messages: they are never changed in place.
    Operations of a pipe that is `in_order` are done in the order of their issue, but stores to
    global memory of one that `swaps` may pass each other."""

    index: int
    core: Core
    pipe: str
    clock: Clock
    in_order: bool
    swaps: bool
    count: int = 0
    scalar: Agent = field(init=False)  # the scalar unit of its core
    seen: Clock | None = None  # the scalar unit's clock that it joined last
    pending: deque[Clock] = field(default_factory=deque)  # clocks of issue in its queue

    def message(self) -> Clock:
        """What an event says that fires when everything issued to the pipe is done."""
        return with_count(self.clock, self.index, self.count)

    def learn(self, clock: Clock) -> None:
        """Take over what another clock knows."""
        self.clock = joined(self.clock, clock)


class Clocks:
    """The agents of a run and the messages that are under way between them. Agent 0 represents
    everything before the run."""

    def __init__(
        self, cores: list[Core], pipes: Iterable[str], target: str, *, ordered: bool = False
    ) -> None:
        """`ordered` cores keep the order of the text, whatever the pipes: each is one agent."""
        names = [SCALAR, READS, *sorted(set(pipes) - {SCALAR})]
        self.pipes = names
        self.agents: dict[tuple[int, str], Agent] = {}
        self.by_index: list[Agent | None] = [None]
        for core in cores:
            if ordered:
                agent = self._made(core, EVERY, target)
                self.agents.update({(core.index, name): agent for name in names})
                continue
            for name in names:
                self.agents[core.index, name] = self._made(core, name, target)
        for agent in self.agents.values():
            agent.clock = self.fresh(agent)
            agent.scalar = self.agents[agent.core.index, SCALAR]
        self.messages: dict[Any, deque[Clock]] = {}

    def _made(self, core: Core, pipe: str, target: str) -> Agent:
        in_order, swaps = (target, pipe) != ("a2a3", "V"), pipe == "MTE3"
        agent = Agent(len(self.by_index), core, pipe, {}, in_order, swaps)
        self.by_index.append(agent)
        return agent

    def fresh(self, agent: Agent) -> Clock:
        """Return the clock of an agent at the beginning. It has the pipes of its core as keys: they
        are asked for all the time."""
        own = (self.agents[agent.core.index, name].index for name in self.pipes)
        return dict.fromkeys((0, *own), 0)

    def agent(self, core: Core, pipe: str) -> Agent:
        """Return the agent of a pipe; one that no instruction names is the scalar unit's."""
        return self.agents.get((core.index, pipe)) or self.agents[core.index, SCALAR]

    def scalar(self, core: Core) -> Agent:
        """Return the scalar unit of a core."""
        return self.agents[core.index, SCALAR]

    def issue(self, agent: Agent) -> None:
        """An operation goes into a queue: it knows what the scalar unit knows now."""
        agent.pending.append(agent.scalar.clock)

    def begin(self, agent: Agent) -> None:
        """An operation of a pipe takes effect."""
        known = agent.pending.popleft() if agent.pending else agent.scalar.clock
        if known is not agent.seen and agent.pipe != SCALAR:
            agent.learn(known)
            agent.seen = known
        agent.count += 1

    def under_way(self, key: Any) -> deque[Clock]:
        """Return the messages of an event, in the order in which they were given."""
        waiting = self.messages.get(key)
        if waiting is None:
            waiting = self.messages[key] = deque()
        return waiting

    def forget(self) -> None:
        """No message is under way, as at first; events keep their identity."""
        for waiting in self.messages.values():
            waiting.clear()

    def give(self, agent: Agent, key: Any) -> None:
        """An event is signalled."""
        self.under_way(key).append(agent.message())

    def take(self, agent: Agent, key: Any) -> None:
        """An event is waited for, and consumed."""
        waiting = self.messages.get(key)
        if waiting:
            agent.learn(waiting.popleft())

    def release(self, agent: Agent, key: Any) -> None:
        """A token is given back: whoever takes it knows everything that its holders did."""
        held = self.messages.get(key)
        message = agent.message()
        self.messages[key] = deque((joined(message, held[0]) if held else message,))

    def acquire(self, agent: Agent, key: Any) -> None:
        """A token is taken."""
        held = self.messages.get(key)
        if held:
            agent.learn(held[0])

    def barrier(self, core: Core) -> None:
        """The scalar unit has waited until every pipe of its core is done."""
        self.settled(core, self.pipes)

    def settled(self, core: Core, pipes: Iterable[str]) -> None:
        """The scalar unit has waited until some pipes of its core are done."""
        scalar = self.scalar(core)
        for pipe in pipes:
            known = self.agents.get((core.index, pipe))
            if known is not None:
                scalar.learn(known.message())

    def settle(self, agent: Agent) -> None:
        """A barrier of one pipe: what it did so far is done."""
        agent.clock = agent.message()


# Which sanitizers run.

QUANTISING = frozenset(("makes_codes", "makes_numbers", "converts", "fixpipe"))
"""Traits of operations that the kind `quant` watches."""


def may_quantise(op: Operation) -> bool:
    """True for an operation that the kind `quant` watches: what goes through the fixpipe comes from
    an accumulator."""
    traits = op.traits & QUANTISING
    if traits != {"fixpipe"}:
        return bool(traits)
    source = op.bound.get("src")
    return isinstance(source, Operand) and getattr(source.type, "loc", None) == "acc"


KINDS = ("races", "bounds", "defined", "budget", "flags", "quant")


@dataclass(frozen=True, slots=True)
class Sanitize:
    """The sanitizers that are on. Bounds and budget are checked by every run."""

    races: bool = True
    bounds: bool = True
    defined: bool = True
    budget: bool = True
    flags: bool = True
    quant: bool = True

    @property
    def is_needed(self) -> bool:
        """True if one is on that has to watch the run."""
        return self.races or self.defined or self.flags or self.quant

    def without_flags(self) -> Sanitize:
        """Return the same without the checks of a program's own flags."""
        return replace(self, flags=False)


def parse(text: str) -> Sanitize:
    """Return the sanitizers of a word list: `all`, `none`, or names separated by commas. Raises
    UsageError for an unknown name, or for `all` and `none` beside others."""
    words = [w.strip() for w in text.split(",") if w.strip()]
    if words == ["all"]:
        return Sanitize()
    if words == ["none"] or not words:
        return Sanitize(**dict.fromkeys(KINDS, False))
    for word in words:
        if word in ("all", "none"):
            raise UsageError(f"sanitizers: `{word}` is given alone, not in `{text}`")
        if word not in KINDS:
            raise UsageError(
                f"there is no sanitizer `{word}`",
                help=nearest(word, KINDS, f"all, none, {', '.join(KINDS)}"),
            )
    return Sanitize(**{kind: kind in words for kind in KINDS})
