"""Who knows what: vector clocks of the pipes of all cores.

Every pipe counts the operations it has done. What a pipe may take as done elsewhere is its clock:
the count of every other pipe that an event, a barrier or the scalar unit has vouched for. The
scalar unit issues every operation, so an operation also knows what the scalar unit knew when it was
issued. Stores of the scalar unit go through a buffer: other pipes know of them only by an event."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.nearest import nearest
from ptosim.ground.records import dataclass, field, replace
from ptosim.machine.core import Core

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
        agent.pending.append(self.scalar(agent.core).clock)

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
