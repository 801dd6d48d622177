"""Random SIMT programs against the thread-by-thread model: branches and loops that threads of a warp
take differently, barriers, operations of a warp, atomic updates."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.oracle import simt as oracle
from tests.support.micro import run
from tests.support.simt import COUNTERS, Program, Text, module

FAST, DEFAULT, ALL = 50, 150, 1000
SIZES = (1, 5, 31, 32, 33, 48, 64, 100, 128)


def results_of(program: Program) -> list[str]:
    """Names of the outermost block, of which every thread has a value."""
    return [
        s[1] if s[0] in ("int", "float", "itof", "load", "select") else s[2]
        for s in program.code
        if s[0] in ("int", "float", "itof", "load", "select", "vote", "shuffle", "redux")
    ]


def compare(seed: int) -> None:
    rng = random.Random(seed)
    threads = rng.choice(SIZES)
    program = Program(rng, threads)
    names = results_of(program)[-6:]
    arguments = ["own", "mail", "counters", *(f"p{n}" for n in range(len(names)))]
    text = module("\n".join(Text(program, names).lines), arguments, threads)
    memory = {"own": [0] * threads, "mail": [0] * threads, "counters": [3] * COUNTERS}
    given = {a: np.zeros(threads, np.int32) for a in arguments}
    given["counters"] = np.full(COUNTERS, 3, np.int32)
    lanes = oracle.run(program.code, threads, memory)
    result = run(text, given, timing=False)
    for name, words in memory.items():
        assert result.outputs[name].view(np.uint32).tolist() == words, (seed, name)
    for number, name in enumerate(names):
        found = result.outputs[f"p{number}"].view(np.uint32).tolist()
        assert found == [lane[name] for lane in lanes], (seed, name)
    assert [d.code for d in result.findings] == [], seed


@pytest.mark.sampled(15)
@pytest.mark.parametrize("seed", range(FAST))
def test_a_program_does_what_its_threads_do_one_by_one(seed):
    compare(seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [
        *range(FAST, DEFAULT, 25),
        *(pytest.param(n, marks=pytest.mark.deep) for n in range(DEFAULT, ALL, 25)),
    ],
)
def test_many_programs(first):
    for seed in range(first, first + 25):
        compare(seed)
