"""The cost model counts the instructions of an operation as its expansion does.

Of the microscaling formats only the exponents: for maxima and scaling the cost model has the unrolled
loops of the library's headers, the expansion plain ones that give the same bytes."""

from __future__ import annotations

from collections import Counter

import pytest

from ptosim.ground.source import Source
from ptosim.ops.lower.program import expand
from tests.ops.conformance import test_tquant
from tests.ops.expand.test_elementwise import program
from tests.support.text import Kernel, date_of

ALSO = {"vcvti": "vcvt", "vlogic": "vand"}
"""Rows of the cost data that represent instructions of another name."""


def executed(k: Kernel) -> Counter[str]:
    (stage,) = expand(Source("tile.pto", k.text()), compat=date_of(k.text())).stages
    return Counter(stage.counts)


def costed(k: Kernel, op: str) -> Counter[str]:
    """How often the cost model has each instruction, from the stages of the operation."""
    found: Counter[str] = Counter()
    for step, times, _ in k.program().cost().executed:
        for stage in step.cost.stages if step.site.mnemonic == op else ():
            if stage.executes:
                found[ALSO.get(stage.executes, stage.executes)] += stage.count * times
    return found


TWO_TILES = ["tadd f32", "tmul f32", "tdiv f32", "tsub i32", "tmax i32"]


@pytest.mark.parametrize("case", TWO_TILES)
def test_two_tiles(case):
    op, elem = case.split()
    k, _ = program("pairs", f"pto.{op}", elem)
    found, run = costed(k, op), executed(k)
    assert found
    assert found == {name: run[name] for name in found}


@pytest.mark.parametrize("number", [0, -1])
def test_int8(number):
    """Scale, offset, and four conversions for each 64 elements."""
    entry, target, form = [p.values for p in test_tquant.INT8 if p.values[1] == "a5"][number]
    k = test_tquant.int8_kernel(entry, target, form)
    found, run = costed(k, "tquant"), executed(k)
    assert found["vcvt"] == 4 * found["vmul"] > 0
    assert found == {name: run[name] for name in found}


def test_exponents_of_microscaling():
    """64 groups at a time."""
    entry, places = next(
        p.values for p in test_tquant.RECOMMENDED if "nv8_f32" in str(p.id) and "flat" in str(p.id)
    )
    k = test_tquant.Quantisation(entry, places).kernel
    (count,) = [
        stage.repeats
        for step, _, _ in k.program().cost().executed
        for stage in step.cost.stages
        if "exponents" in stage.name
    ]
    assert executed(k)["vmuls"] == count
