"""What the sanitizers note of a launch, against what it does to memory: of every operation that can
be executed, instructions of vector regions and of threads too, in the example of its page.

The launch is made twice, the second time with other bytes wherever the first one found nothing of
what was there. Every byte that changes is in what was noted as written, and what is written is the
same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptosim
from ptosim.engine.watch.monitor import attach
from ptosim.engine.watch.shadow import Shadow
from ptosim.ground.errors import PtosimError
from ptosim.ground.isa.examples import example_of
from ptosim.ground.isa.rows import isa
from ptosim.launch import launch, schedules
from ptosim.machine.effects.account import DEFINED
from tests.ops.semantics.test_footprints_of_examples import argument, cases

pytestmark = pytest.mark.sampled(60, 600)


Memories = dict[Any, np.ndarray]


def memories(machine: Any) -> Memories:
    """All bytes of a launch, of a core by its number and the name of the space."""
    found = {
        (core.index, name): np.frombuffer(core.space(name).data, np.uint8)
        for core in machine.cores
        for name in core.machine_def.spaces
        if core.machine_def.has_memory(name)
    }
    found |= {(-1, b.number): b.data[: b.size] for b in machine.buffers}
    return found


class Launched:
    """One launch: what was in memory before and after it, and what was noted."""

    def __init__(self, first: Launched | None = None) -> None:
        self.first = first
        self.before: Memories = {}
        self.after: Memories = {}
        self.read: Memories = {}
        self.written: Memories = {}
        self.known: Memories = {}
        self.random = np.random.default_rng(7)

    def attach(self, engine: Any, text: str, inputs: Any, **options: Any) -> Any:
        """Put bytes into memory, and take what is there when the run has ended."""
        monitor = attach(engine, text, inputs, **options)
        if monitor is None or not engine.domain.has_contents:
            return monitor
        for kept in (self.before, self.after, self.read, self.written, self.known):
            kept.clear()
        held = memories(engine.machine)
        for place, memory in held.items():
            self.before[place] = memory.copy()
            known = self.first.read.get(place) if self.first is not None else None
            if self.first is not None and known is not None and len(known) == len(memory):
                other = memory ^ self.random.integers(1, 256, len(memory), np.uint8)
                memory[:] = np.where(known, self.first.before[place], other)
                self.before[place] = memory.copy()
        finish = monitor.finish

        def finished() -> None:
            for place, memory in held.items():
                self.after[place] = memory.copy()
                shadow = monitor.shadows.get(place)
                self.read[place] = mask(shadow, len(memory), lambda a: a.takes_content)
                self.written[place] = mask(shadow, len(memory), lambda a: a.write[2] is not None)
                self.known[place] = mask(shadow, len(memory), lambda a: a.defined == DEFINED)
            finish()

        monitor.finish = finished
        return monitor


def mask(shadow: Shadow | None, size: int, chosen: Any) -> np.ndarray:
    """Return which bytes of a memory belong to atoms of some kind."""
    found = np.zeros(size, bool)
    for base, region in shadow.regions() if shadow is not None else ():
        of = np.array([chosen(a) for a in region.atoms])
        known = np.repeat(of[region.labels], region.unit)[: size - base]
        found[base : base + len(known)] = known
    return found


def launched(name: str, target: str, first: Launched | None, monkeypatch) -> Launched:
    example = example_of(isa().get(name))
    watched = Launched(first)
    monkeypatch.setattr(launch, "attach", watched.attach)
    monkeypatch.setattr(schedules, "MOST_AGAIN", 0)
    program = ptosim.load(example.program, target=target, compat=example.compat)
    given = {
        a.name: argument(a) for a in program.signature() if a.kind in ("ptr", "memref", "scalar")
    }
    try:
        program.run({}, max_instructions=20_000, timing=False)
    except ptosim.UsageError:
        program.run(given, max_instructions=20_000, timing=False)
    return watched


LEFT = {
    "pto.tpush": "slots of FIFOs in global memory have a book of their own",
    "pto.comm.tnotify": "so have signals",
}
"""What is known to be otherwise."""


@pytest.mark.sampled(3, 140)
@pytest.mark.parametrize(("name", "target"), [c for c in cases() if c[0] not in LEFT])
def test_what_is_noted_of_a_launch_is_what_it_does(name, target, monkeypatch):
    try:
        one = launched(name, target, None, monkeypatch)
        two = launched(name, target, one, monkeypatch)
    except PtosimError:  # indices that random data are not
        return
    wrong = []
    for place in one.after:
        for run in (one, two):
            extra = (run.before[place] != run.after[place]) & ~one.written[place]
            if extra.any():
                wrong.append((place, "changes", hex(int(np.flatnonzero(extra)[0]))))
        differ = one.written[place] & one.known[place] & (one.after[place] != two.after[place])
        if differ.any():
            wrong.append((place, "depends", hex(int(np.flatnonzero(differ)[0]))))
    assert wrong == []
