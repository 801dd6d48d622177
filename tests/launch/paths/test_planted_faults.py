"""Kernels made at random with a fault behind conditions: each is found with a witness that shows it
when only that is followed, and the mended twin has no finding."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import pytest

import ptosim
from tests.launch.paths.kernels import LOAD, ORDERED, RACE, STORE, WAIT, WORD, kernel
from tests.launch.paths.slow_executor import TooLong, faults

Values = dict[str, int]


class Planted(NamedTuple):
    """A kernel with a fault, its twin without one, the codes that tell the fault, and whether the
    values of an assignment bring it out."""

    wrong: str
    mended: str
    codes: tuple[str, ...]
    shows: Callable[[Values], bool]


_FAULTS = {
    "race": (RACE, ORDERED, ("PTO5201",)),
    "wait for a flag that nobody sets": (f"{WAIT}\n{ORDERED}", ORDERED, ("PTO5006",)),
    "bytes that nobody wrote": (f"{STORE}\n{ORDERED}", ORDERED, ("PTO7101",)),
}  # fmt: skip
_SIGNS: dict[str, Callable[[int, int], bool]] = {
    "sgt": lambda a, b: a > b, "slt": lambda a, b: a < b, "eq": lambda a, b: a == b,
    "sge": lambda a, b: a >= b, "sle": lambda a, b: a <= b, "ne": lambda a, b: a != b,
}  # fmt: skip
_ARGS = "%n: index, %m: index, %rank: index"


class _Made:
    """Lines of a kernel under way: constants and conditions get names of their own."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"%g{self.count}"

    def constant(self, value: int) -> str:
        name = self.name()
        self.lines.append(f"{name} = arith.constant {value} : index")
        return name

    def op(self, text: str) -> str:
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return name

    def compared(self, value: str, signs: tuple[str, ...], limit: int):
        sign = self.random.choice(signs)
        name = self.op(f"arith.cmpi {sign}, {value}, {self.constant(limit)} : index")
        return name, lambda v: _SIGNS[sign](v, limit)


def _branch(made: _Made):
    limit = made.random.choice((3, 17, 100, 1000))
    name, holds = made.compared("%n", ("sgt", "eq", "sge"), limit)
    return name, lambda v: holds(v["n"])


def _modulo(made: _Made):
    by, rest = made.random.choice(((7, 5), (16, 9), (64, 33), (3, 2)))
    value = made.op(f"arith.remui %n, {made.constant(by)} : index")
    name, holds = made.compared(value, ("eq",), rest)
    return name, lambda v: holds(v["n"] % by)


def _sum(made: _Made):
    one, two = made.random.choice((2, 3, 8)), made.random.choice((1, 5))
    left = made.op(f"arith.muli %n, {made.constant(one)} : index")
    right = made.op(f"arith.muli %m, {made.constant(two)} : index")
    value = made.op(f"arith.addi {left}, {right} : index")
    name, holds = made.compared(value, ("sgt", "sge"), made.random.choice((20, 90)))
    return name, lambda v: holds(one * v["n"] + two * v["m"])


def _clamped(made: _Made):
    most = made.random.choice((16, 40))
    value = made.op(f"arith.minsi %m, {made.constant(most)} : index")
    name, holds = made.compared(value, ("eq",), most)
    return name, lambda v: holds(min(v["m"], most))


def _index(made: _Made):
    block = made.op("pto.get_block_idx -> i64")
    value = made.op(f"arith.index_cast {block} : i64 to index")
    name, holds = made.compared(value, ("eq", "sgt"), made.random.choice((1, 2, 5)))
    return name, lambda v: holds(v["block"])


def _rank(made: _Made):
    name, holds = made.compared("%rank", ("eq", "slt"), made.random.choice((1, 2)))
    return name, lambda v: holds(v["rank"])


def _data(made: _Made):
    made.lines.append(WORD)
    name, holds = made.compared("%w", ("eq", "sgt"), made.random.choice((7, 50)))
    return name, lambda v: holds(v["d[2]"])


_CONDITIONS = (_branch, _modulo, _sum, _clamped, _index, _rank, _data)


def _behind_branches(seed: int) -> Planted:
    made = _Made(seed)
    depth = made.random.choice((1, 1, 2))
    chosen = made.random.sample(_CONDITIONS, depth)
    if {_branch, _modulo} <= set(chosen):
        chosen.pop()  # both on one number may contradict each other
    wrong, mended, codes = made.random.choice(list(_FAULTS.values()))
    tests = []
    texts: list[str] = []
    for condition in chosen:
        name, holds = condition(made)
        texts += [*made.lines, f"scf.if {name} {{"]
        made.lines.clear()
        tests.append(holds)
    close = "\n".join("}" for _ in chosen)
    body = "\n".join(texts)
    make = lambda inner: kernel(f"{body}\n{inner}\n{close}", _ARGS)  # noqa: E731
    if _data in chosen:
        codes = (*codes, "PTO5290", "PTO6053")
    return Planted(make(wrong), make(mended), codes, lambda v: all(test(v) for test in tests))


def _in_rounds(seed: int) -> Planted:
    """A fault of a trip count: no round at all, or one of the rounds."""
    made = _Made(seed)
    if made.random.random() < 0.5:
        loop = "scf.for %i = %c0 to %n step %c1 {{\n{0}\n}}\n{1}"
        wrong = loop.format(f"{LOAD}\npto.barrier <PIPE_ALL>", STORE)
        mended = f"{LOAD}\npto.barrier <PIPE_ALL>\n" + wrong
        return Planted(
            kernel(wrong, _ARGS), kernel(mended, _ARGS), ("PTO7101",), lambda v: v["n"] <= 0
        )
    at = made.random.choice((0, 1, 2))
    name, _ = made.compared("%i", ("eq",), at)
    inner = "\n".join(made.lines)
    loop = f"scf.for %i = %c0 to %n step %c1 {{\npto.barrier <PIPE_ALL>\n{inner}\nscf.if {name} {{\n{{}}\n}}\n}}"
    make = lambda body: kernel(loop.replace("{}", body), _ARGS)  # noqa: E731
    return Planted(make(RACE), make(ORDERED), ("PTO5201",), lambda v: v["n"] > at)


def planted(seed: int) -> Planted:
    return _in_rounds(seed) if seed % 5 == 4 else _behind_branches(seed)


def _faults(text: str, **options) -> list[ptosim.Diagnostic]:
    every = ptosim.check(text, sync="manual", **options)
    return [d for d in every if d.code.startswith(("PTO5", "PTO7101", "PTO605"))]


def _check(seed: int) -> None:
    made = planted(seed)
    found = [d for d in _faults(made.wrong) if d.code in made.codes]
    assert found, "the fault is not found"
    witness = found[0].witness
    assert witness is not None
    assert made.shows({"n": 1, "m": 1, "rank": 0, "block": 0, **witness}), witness
    _shown_again(made, witness)
    _agrees_with_executing(seed, made)
    told = [d.code for d in _faults(made.mended) if d.code != "PTO6050"]
    assert told == [], "the mended twin has a finding"


def _shown_again(made: Planted, witness: Values) -> None:
    """Following the witness alone shows the fault."""
    given = {n: v for n, v in witness.items() if n in ("n", "m", "rank")}
    data = [f"{n} == {v}" for n, v in witness.items() if "[" in n]
    blocks = witness.get("block", 0) + 1
    again = _faults(made.wrong, args=given, assume=data, blocks=blocks)
    assert {d.code for d in again} & set(made.codes), witness


def _agrees_with_executing(seed: int, made: Planted) -> None:
    """On numbers at random the kernel has its fault where it is said to have it, its twin none."""
    chosen = random.Random(seed)
    for _ in range(8):
        near = (0, 1, 2, 3, 5, chosen.randrange(100), chosen.randrange(1200))
        values = {name: chosen.choice(near) for name in ("n", "m", "rank", "d[2]")}
        values["block"] = chosen.randrange(8)
        with suppress(TooLong):
            assert bool(faults(made.wrong, values)) == made.shows(values), values
            assert faults(made.mended, values) == set(), values


@pytest.mark.parametrize("seed", range(25))
def test_a_planted_fault_is_found_and_its_twin_is_clean(seed):
    _check(seed)


@pytest.mark.sampled(0, 2)
@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [n if n < 125 else pytest.param(n, marks=pytest.mark.deep) for n in range(25, 500, 25)],
)
def test_five_hundred_of_them(first):
    for seed in range(first, first + 25):
        _check(seed)
