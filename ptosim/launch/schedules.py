"""A launch once more. In other orders of its blocks and pipes: which outputs they change, and how
many of the orders that nothing forbids were seen. And with other bytes where nothing was written:
whether masks leave out all lanes without a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ptosim.engine.core.bound import Kind
from ptosim.engine.core.schedule import numbers
from ptosim.ground.diagnostics.model import Diagnostic, Trap, finding
from ptosim.ground.errors import PtosimError
from ptosim.ground.source import Span
from ptosim.launch.launch import Launch
from ptosim.launch.prepared import RunOptions
from ptosim.launch.results import Changed, Outputs, Result, Schedules

Pairs = set[tuple[int, int, int, int]]


def tried(make: Callable[[RunOptions], Launch], options: RunOptions, count: int) -> Result:
    """Run a launch in the order of the text, then in `count` other ones; return the result of the
    first with what the others gave. Two accesses that nothing orders are a pair; where there is
    none, every order gives the same bytes. Raises what the first run raises."""
    options = replace(options, in_place=False)
    launch = make(options)
    result = launch.run()
    pipes = {i.pipe for i in launch.program.insts if i.kind in (Kind.EXEC, Kind.REGION)}
    todo = numbers(count, pipes, len(launch.machine.cores))
    front, at = launch.front, launch.function.op
    launch.release()
    met, changed = set(result.met), []
    for number in todo:
        one, seen = _one(make, replace(options, schedule=number, sanitize="races"), result)
        met |= seen
        if one is not None:
            changed.append(one)
    result.schedules = Schedules(todo, changed, *_counted(met))
    if changed:
        result.findings.append(
            _finding_of(result.schedules, Span(front.source, at.start, at.name_end))
        )
    return result


def _one(
    make: Callable[[RunOptions], Launch], options: RunOptions, base: Result
) -> tuple[Changed | None, Pairs]:
    """Run in one order; return what it changed (None: nothing), and the conflicts as they came."""
    launch = make(options)
    try:
        result = launch.run()
    except Trap as trap:
        worst = max(reversed(trap.findings), key=lambda d: d.severity)
        return Changed(options.schedule, {}, worst.code), set()
    differ = {n: int(_differ(a, result.outputs[n]).sum()) for n, a in base.outputs.items()}
    launch.release()
    differ = {name: n for name, n in differ.items() if n}
    return (Changed(options.schedule, differ) if differ else None), set(result.met)


def _differ(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Which elements have other bits; all of them where the shape is another."""
    if one.shape != other.shape or not one.size:
        return np.ones(max(one, other, key=np.size).shape, bool)
    raw = [np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (one, other)]
    return (raw[0] != raw[1]).reshape(one.size, -1).any(axis=1).reshape(one.shape)


def _counted(met: Pairs) -> tuple[int, int]:
    """How many pairs there are, whichever came first, and how many came both ways round."""
    pairs = {min(p, p[2:] + p[:2]) for p in met}
    return len(pairs), sum(p in met and p[2:] + p[:2] in met for p in pairs)


def _finding_of(found: Schedules, place: Span) -> Diagnostic:
    first = found.changed[0]
    stops = [c for c in found.changed if c.stopped]
    names = ", ".join(f"`{name}`" for name in found.outputs)
    what = f"the order of blocks and pipes decides {names}" if names else "an order stops the run"
    notes = [f"{len(found.changed)} of {len(found.tried)} orders change something"]
    notes += [f"schedule {c.schedule} stops with {c.stopped}" for c in stops[:3]]
    return finding(
        "PTO5230",
        what,
        place,
        notes=tuple(notes),
        help=f"`--schedule {first.schedule}` runs in the first such order again",
    )


# -- other bytes -----------------------------------------------------------------------------------

MOST_AGAIN = 100_000
"""Instructions of a run that is repeated to see what bytes without a value decide."""


def decide(make: Callable[[RunOptions], Launch], options: RunOptions, result: Result) -> None:
    """Run a launch again with other bytes where nothing was written: where outputs come out
    different, tell of the reads that are unsure. Elements that are known to have no value, or that
    nothing wrote, say nothing."""
    if result.executed > MOST_AGAIN or not result.unsure:
        return
    other = "poison" if options.uninit == "zero" else "zero"
    launch = make(replace(options, uninit=other, sanitize="none", jobs=1))
    try:
        outputs, stopped = launch.run().outputs, ""
    except Trap as trap:
        outputs, stopped = {}, max(reversed(trap.findings), key=lambda d: d.severity).code
    except PtosimError:  # limits, for instance: nothing is known then
        return
    finally:
        launch.release()
    counts = {}
    for name in _compared(result) if outputs else ():
        differ = result.definedness[name] & _differ(result.outputs[name], outputs[name])
        if differ.any():
            counts[name] = int(differ.sum())
            result.definedness.leave_out(name, differ)  # type: ignore[attr-defined]
    if counts or stopped:
        result.findings.append(_decided(result, counts, stopped))


def _compared(result: Result) -> list[str]:
    """The outputs of which the run made all elements, of those whose history is known."""
    part = result.outputs.part if isinstance(result.outputs, Outputs) else lambda _: None
    return [name for name in result.definedness if part(name) is None]


def _decided(result: Result, counts: dict[str, int], stopped: str) -> Diagnostic:
    first, *others = result.unsure
    notes = [
        f"with other bytes there {count:,} of {result.outputs[name].size:,} elements of `{name}` "
        "come out different"
        for name, count in counts.items()
    ]
    notes += [f"with other bytes there the run stops: {stopped}"] if stopped else []
    labels = [replace(d.labels[0], text="or these, read here") for d in others[:3]]
    outputs = [{"output": name, "steps": []} for name in counts]
    return replace(
        first,
        labels=(*first.labels, *labels),
        notes=(*first.notes, *notes),
        context={**first.context, "outputs": outputs},
    )
