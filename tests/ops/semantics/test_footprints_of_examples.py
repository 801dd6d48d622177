"""The account of effects of every operation that is executed on a pipe, those on pointers too,
against what its function does to memory: in the example of its page."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.errors import PtosimError
from ptosim.ground.isa.enums import dtypes
from ptosim.ground.isa.examples import example_of
from ptosim.ground.isa.rows import TARGETS, isa
from ptosim.ground.isa.schema import EXECUTED
from ptosim.launch import launch
from ptosim.machine.storage import argument_dtype
from tests.support.perturb import Perturbed

pytestmark = pytest.mark.sampled(40, 600)


def cases() -> list[tuple[str, str]]:
    """Operations with an example that runs, and a target each."""
    found = []
    for name in isa().names():
        definition = isa().get(name)
        example = example_of(definition) if definition is not None else None
        if definition is None or example is None or example.not_run:
            continue
        having = [t for t in TARGETS if definition.status[t] in EXECUTED]
        found += [(name, t) for t in having if example.target in (None, t)]
    return found


def argument(arg: ptosim.Arg) -> object:
    if arg.kind == "scalar":
        return 1
    dtype = np.dtype(argument_dtype(dtypes()[arg.dtype]))
    return np.random.default_rng(41).integers(1, 100, 8192 * dtype.itemsize, np.uint8).view(dtype)


def looked_at(name: str, target: str, monkeypatch) -> list[Perturbed]:
    """What was seen of an operation in its example."""
    example = example_of(isa().get(name))
    watched: list[Perturbed] = []

    def attach(engine, *_, **_options):
        engine.monitor = Perturbed(engine.machine, frozenset([name]))
        watched.append(engine.monitor)
        return engine.monitor

    program = ptosim.load(example.program, target=target, compat=example.compat)
    given = {
        a.name: argument(a) for a in program.signature() if a.kind in ("ptr", "memref", "scalar")
    }
    monkeypatch.setattr(launch, "attach", attach)
    try:
        program.run({}, max_instructions=20_000, timing=False)
    except ptosim.UsageError:
        program.run(given, max_instructions=20_000, timing=False)
    return watched


OWN = {("pto.tmrgsort", "a2a3")}
"""Their scratch is bytes of the simulator's own: no operand has them."""


@pytest.mark.sampled(3, 400)
@pytest.mark.parametrize(("name", "target"), [c for c in cases() if c not in OWN])
def test_what_is_not_accounted_for_does_not_matter(name, target, monkeypatch):
    try:
        watched = looked_at(name, target, monkeypatch)
    except PtosimError:  # indices that random data are not
        watched = []
    assert [w.wrong for w in watched if w.wrong] == []


def test_most_of_what_takes_effect_on_a_pipe_is_looked_at(monkeypatch):
    """Of each family on pointers, too: transfers, the cube, the copies on chip."""
    names = ("pto.mte_gm_ub", "pto.mte_ub_gm", "pto.copy_gm_to_ubuf", "pto.mte_l1_l0a", "pto.mad")
    for name in names:
        *_, watched = looked_at(name, "a5", monkeypatch)  # those before it found sizes
        assert watched.seen == {name}
        monkeypatch.undo()
