"""What launches of a chain do beside their values, where another launch has shown it: a layer that
comes again executes the same instructions at the same places, on other numbers.

The first of a kind is executed with its sanitizers and its time. If nothing was found, it is
followed without values once more, twice as that: for its places and for what time depends on. Where
that comes to the end, no values but those that the scalar unit loaded decide anything; every launch
that loads the same does the same, and only its values are computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ptosim.engine.core.bound import Depth
from ptosim.engine.core.symbolic import Undecided
from ptosim.engine.watch.monitor import Monitor
from ptosim.engine.watch.reach import Dependent, GlobalUse
from ptosim.ground.diagnostics.model import Trap
from ptosim.ground.errors import PtosimError
from ptosim.ground.records import NamedTuple, replace
from ptosim.launch import in_parts
from ptosim.launch.chain.chain import Bound
from ptosim.launch.launch import Extent, Launch
from ptosim.launch.prepared import Prepared, RunOptions, prepare
from ptosim.launch.results import Result
from ptosim.launch.unknown_binding import RunPlaceBinding
from ptosim.machine.affine import NeedsValue
from ptosim.ops.base.orders import Looks
from ptosim.time.report.totals import CostReport

FEWEST = 3
"""Launches of a kind for which following one is worth it: the others are a third of it each."""

Uses = Mapping[int, GlobalUse]


class Shown(NamedTuple):
    """What a launch does beside its values: its instructions, its time, what it reads and writes of
    each argument; and the bytes that it loads as numbers, by argument and place there."""

    executed: int
    cost: CostReport | None
    uses: Uses
    loaded: Mapping[tuple[str, int, int], bytes]

    def holds(self, args: Mapping[str, Any]) -> bool:
        """True if a launch with these arguments loads the same numbers."""
        return all(_bytes(args[n])[low:high].tobytes() == was for (n, low, high), was in
                   self.loaded.items())  # fmt: skip

    def values(
        self, make: Callable[[RunOptions], Launch], options: RunOptions, args: Mapping[str, Any]
    ) -> tuple[Launch, Result] | None:
        """Compute the values of a launch alone. None, with every array as it was, where values stop
        it or have something told: that is for the launch in full."""
        launch = make(replace(options, sanitize="none", timing=False))
        told = len(launch.sink)
        kept = [(part, part.copy()) for part in self._written(launch, args)]
        try:
            result = launch.run()
        except Trap:
            result = None
        if result is None or len(launch.sink) > told or result.executed != self.executed:
            for part, before in kept:
                part[...] = before
            return None
        return launch, result

    def _written(self, launch: Launch, args: Mapping[str, Any]) -> Iterator[np.ndarray]:
        """The bytes of arguments that a launch writes."""
        for name, argument in launch.binding.arrays.items():
            use = self.uses.get(argument.number)
            if use is not None and name in args:
                for low, high in (*use.writes, *use.added):
                    yield _bytes(args[name])[low - argument.offset : high - argument.offset]


class Repeats:
    """The kinds of launches of a chain that come again."""

    def __init__(self, launches: list[Bound]) -> None:
        self._left: dict[int, int] = {}
        for bound in launches:
            self._left[id(bound.launch)] = self._left.get(id(bound.launch), 0) + 1
        self._shown: dict[Any, Shown | None] = {}

    def shown(self, bound: Bound, options: RunOptions) -> tuple[Any, Shown | None]:
        """Return the kind of a launch, None where it is not to be compared with others, and what
        one of its kind has shown."""
        self._left[id(bound.launch)] -= 1
        if options.sanitize != "all":  # nobody knows all that is read and written
            return None, None
        program = bound.kernel.program
        prepared = prepare(program.front, program.profile, bound.kernel.entry, bound.args)
        key = in_parts.kind_of(prepared, options, bound.args)
        if key is None:
            return None, None
        key = id(program), key
        shown = self._shown.get(key)
        return key, shown if shown is not None and shown.holds(bound.args) else None

    def learn(
        self, key: Any, bound: Bound, launch: Launch, told: int, result: Result, uses: Uses
    ) -> None:
        """Keep what a launch has shown, which has told more than `told` findings if it has found
        something."""
        if key is None or key in self._shown or self._left[id(bound.launch)] < FEWEST - 1:
            return
        monitor = launch.engine.monitor
        is_quiet = len(launch.sink) == told and not result.unsure
        if isinstance(monitor, Monitor):
            looks = monitor.quant is not None and monitor.quant.has_looked
            is_quiet = is_quiet and not (looks or monitor.lines.lost)
        self._shown[key] = None
        if not is_quiet:
            return
        loaded = _loaded(launch, bound.args, uses)
        if loaded is not None:
            self._shown[key] = Shown(result.executed, result.cost, dict(uses), loaded)


def _loaded(launch: Launch, args: Mapping[str, Any], uses: Uses) -> dict[Any, bytes] | None:
    """The bytes that a launch has loaded as numbers, None if other values decide something, or it
    has written them."""
    prepared, options = launch.prepared, replace(launch.options, in_place=False)
    insts = launch.program.insts
    if any(in_parts.is_by_value(i) and not isinstance(i.run, Looks) for i in insts):
        return None
    looked: set[tuple[int, int, int]] = set()
    try:
        _follow(prepared, options, args, looked)
        if options.timing:
            _time(prepared, options, args, looked)
    except (PtosimError, Dependent, Undecided, NeedsValue):
        return None
    found = {}
    places = {a.number: (name, a) for name, a in launch.binding.arrays.items()}
    for number, low, high in looked:
        name, argument = places.get(number, (None, None))
        use = uses.get(number)
        if name is None or argument is None or name not in args or use is None:
            return None
        if any(start < high and low < end for start, end in use.writes):
            return None
        at = argument.offset
        found[name, low - at, high - at] = _bytes(args[name])[low - at : high - at].tobytes()
    return found


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


def _follow(prepared: Prepared, options: RunOptions, args: Any, looked: set[Any]) -> None:
    """Follow every instruction without values. Raises Dependent where one decides a place."""
    from ptosim.launch.dry_run import Walk  # with what `check` needs

    domain = in_parts.Placed()
    launch = Launch(prepared, options, args, Extent(Depth.PLACES, RunPlaceBinding, looked))
    launch.begin(domain=domain)
    told = len(launch.sink)
    ended = Walk(launch.engine, domain, None).to_the_end(options.most_instructions)
    if ended or domain.unplaced or domain.unchecked or len(launch.sink) > told:
        raise Dependent("data decide what is reached")


def _time(prepared: Prepared, options: RunOptions, args: Any, looked: set[Any]) -> None:
    """Time every instruction without values. Raises Dependent where one decides its time."""
    from ptosim.launch.cost import counted_run  # with the laws of time

    bare = replace(options, sanitize="none")
    extent = Extent(Depth.SHAPES, RunPlaceBinding, looked)
    counted_run(prepared, bare, args, steady=False, extent=extent)
