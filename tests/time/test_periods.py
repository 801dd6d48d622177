"""Loops that repeat: the same cycles, waits, counts and path as if every round was
executed."""

from __future__ import annotations

import os
import random
import re

import pytest

import ptosim
from ptosim.engine.period import state
from ptosim.launch.description import sidecar_of
from ptosim.machine.affine import ENDLESS, Affine, Horizon, NeedsValue, now
from ptosim.time.pipes.steps import PIPES
from ptosim.views.cost_tables import lane
from tests.bench.programs import add_loop
from tests.support.paths import PROGRAMS
from tests.time.loops import Loops, Nest, outer_loops, raised
from tests.time.test_fifo_times import both_ways, one_way

SHIPPED = sorted(
    p
    for p in PROGRAMS.glob("*/*.toml")
    if p.parent.name != "broken" and p.with_suffix(".pto").exists()
)
SEEDS = int(os.environ.get("PTOSIM_PERIOD_SEEDS", "60"))
"""Generated programs, all of them in the deep tier; 440 were equal when this was written."""
NESTS = int(os.environ.get("PTOSIM_PERIOD_NESTS", "60"))
"""Generated nests; 300 were equal when this was written."""
ROUNDS = [
    200,
    pytest.param(int(os.environ.get("PTOSIM_PERIOD_ROUNDS", "1000")), marks=pytest.mark.deep),
]
"""From 200 on the same loops repeat as with 1,000."""


def same(quick: ptosim.CostReport, full: ptosim.CostReport) -> None:
    """Everything that the reports tell is the same."""
    assert quick.cycles == full.cycles
    assert quick.pipes == full.pipes
    assert quick.path_shares == full.path_shares
    assert quick.path == full.path
    assert (quick.ops, quick.lines, quick.loops, quick.stages) == (
        full.ops,
        full.lines,
        full.loops,
        full.stages,
    )
    assert quick.moved() == full.moved()
    for core, other in zip(quick.model.cores, full.model.cores, strict=True):
        assert (core.clock, core.free, core.done) == (other.clock, other.free, other.done)
        assert len(core.steps) + core.skipped == len(other.steps)
        for number in random.Random(0).sample(range(len(other.steps)), min(200, len(other.steps))):
            assert core.step(number).site.pc == other.step(number).site.pc
            assert core.start(number) == other.start(number)


def both(program: ptosim.Program, **options) -> ptosim.CostReport | None:
    """Return the cost of a program, which is the same as with every round; None if it has none, for
    the same reason."""
    found = []
    for steady in (True, False):
        # Types that only arguments make concrete are asked for once by a loaded program.
        program = ptosim.load(program.front.source.text, target=program.target, level=program.level,
                              sync=program.sync)  # fmt: skip
        try:
            found.append(program.cost(**options, each_block=True, steady=steady))
        except ptosim.PtosimError as problem:
            found.append(str(problem))
    if isinstance(found[0], str) or isinstance(found[1], str):
        assert found[0] == found[1]
        return None
    same(*found)
    return found[0]


@pytest.mark.sampled(4, 10)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_loops(seed):
    made = Loops(seed)
    target, sync = ("a2a3", "a5")[seed % 2], "auto" if made.is_auto else "manual"
    program = ptosim.load(made.text, target=target, sync=sync)
    more = {"what_if": {"buffers": seed % 5 - 2}} if seed % 5 > 2 else {}
    both(program, args={"n": 80 + seed % 7 * 20}, block_num=1 + seed % 3, **more)


def test_a_path_that_comes_into_the_rounds_from_elsewhere():
    """What is before the last round on the path takes until that round, not until what comes after
    the loop (a program that the random ones found)."""
    program = ptosim.load(Loops(408).text, target="a2a3", sync="manual")
    assert both(program, args={"n": 100}) is not None


@pytest.mark.sampled(0, 10)
@pytest.mark.parametrize("seed", range(NESTS))
def test_random_nests(seed, monkeypatch):
    """Loops in loops, of which the inner ones leave out periods too: also where their trip counts
    depend on the round of the outer one. Loops of few rounds are tried, so that there can be three
    in one another."""
    monkeypatch.setattr(state, "LEAST_LEFT", 7)
    made = Nest(seed)
    target, sync = ("a2a3", "a5")[seed % 2], "auto" if made.is_auto else "manual"
    program = ptosim.load(made.text, target=target, sync=sync)
    more = {"what_if": {"buffers": 1}} if seed % 3 == 2 else {}
    both(program, args={"n": 11 + seed % 5}, block_num=1 + seed % 2, **more)


def nest(text: str) -> str:
    """The loop of a program as the inner one of two."""
    inner = "scf.for %i = %c0 to %n step %c1 {"
    outer = f"scf.for %j = %c0 to %m step %c1 {{\n    {inner}"
    text = text.replace(inner, outer).replace("%n: index", "%n: index, %m: index")
    return text.replace("    return", "    }\n    return")


def test_a_million_times_a_million_rounds():
    """Of both loops one period is executed, and every report says the same as of few rounds."""
    program = ptosim.load(nest(add_loop()), target="a5")
    both(program, args={"n": 150, "m": 90})
    few, many = (program.cost(args={"n": n, "m": n}) for n in (10**3, 10**6))
    each = few.ops[0].cycles / few.ops[0].count
    assert many.cycles - few.cycles == each * (10**12 - 10**6)
    assert many.path_shares[0].count == many.pipes[0].operations == 10**12
    assert sum(len(core.steps) for core in many.model.cores) < 100
    assert {(loop.line, loop.rounds) for loop in many.repeats} == {
        (loop.line, loop.rounds) for loop in few.repeats
    }
    assert len({loop.line for loop in many.repeats}) == 2


_TILE, _PART = "!pto.tile_buf<vec, 8x64xf32>", "!pto.partition_tensor_view<8x64xf32>"
_ADD = f"pto.tadd ins(%a, %b : {_TILE}, {_TILE}) outs(%b : {_TILE})"
_EXP = f"pto.texp ins(%b : {_TILE}) outs(%b : {_TILE})"
_LOAD = f"pto.tload ins(%px : {_PART}) outs(%a : {_TILE})"
_STORE = f"pto.tstore ins(%b : {_TILE}) outs(%py : {_PART})"
_FOR_I, _FOR_J = ("scf.for %i = %c0 to %n step %c1 {", "scf.for %j = %c0 to %m step %c1 {")
_IF_I, _IF_J = (
    f"%first{v} = arith.cmpi eq, %{v}, %c0 : index\n scf.if %first{v} {{\n {_EXP}\n }}"
    for v in "ij"
)
AROUND = {
    "transfers around": [_FOR_I, _LOAD, _FOR_J, _ADD, _EXP, "}", _STORE, "}"],
    "a first round of the outer": [_FOR_I, _LOAD, _IF_I, _FOR_J, _ADD, "}", _STORE, "}"],
    "a first round of the inner": [_FOR_I, _LOAD, _FOR_J, _IF_J, _ADD, "}", _STORE, "}"],
    "three in one another": [
        "scf.for %k = %c0 to %m step %c1 {", _FOR_I, _LOAD, _FOR_J, _ADD, "}", _STORE, "}", _EXP,
        "}",
    ],
}  # fmt: skip


def around(lines: list[str]) -> str:
    """A program of loops around operations, with the windows and tiles that they name."""
    views = [
        line.replace("NAME", name)
        for name in "xy"
        for line in (
            "%vNAME = pto.make_tensor_view %NAME, shape = [%c8, %c64], strides = [%c64, %c1]"
            " : !pto.tensor_view<?x?xf32>",
            "%pNAME = pto.partition_view %vNAME, offsets = [%c0, %c0], sizes = [%c8, %c64]"
            f" : !pto.tensor_view<?x?xf32> -> {_PART}",
        )
    ]
    constants = [f"%c{value} = arith.constant {value} : index" for value in (0, 1, 8, 64)]
    tiles = [f"%{name} = pto.alloc_tile : {_TILE}" for name in "ab"]
    body = "\n".join([*constants, *views, *tiles, *lines, "return"])
    return (
        f"func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index, %m: index) {{\n{body}\n}}\n"
    )


@pytest.mark.sampled(0, 4)
@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("kind", AROUND)
def test_what_is_around_an_inner_loop(kind, target, monkeypatch):
    """The inner loop is one step of the outer one, whose pipes run ahead of it by more in every
    round: the same as every round, for few and odd rounds."""
    monkeypatch.setattr(state, "LEAST_LEFT", 7)
    program = ptosim.load(around(AROUND[kind]), target=target)
    for n, m in ((0, 9), (1, 23), (9, 1), (23, 31), (50, 17), (13, 50)):
        assert both(program, args={"n": n, "m": m}, block_num=1) is not None


@pytest.mark.parametrize("kind", AROUND)
def test_a_million_times_a_million_around(kind):
    """It ends at once, and each round of the outer loop takes what it takes where they are few."""
    program = ptosim.load(around(AROUND[kind]), target="a5")
    depth = kind == "three in one another"
    m = 300 if depth else 10**6
    cycles = [program.cost(args={"n": n, "m": m}).cycles for n in (1000, 2000, 10**6)]
    assert (cycles[2] - cycles[1]) == (cycles[1] - cycles[0]) * 998


def in_place(load: str, store: str, rows: int = 8) -> str:
    """A loop that loads a window and stores one of the same buffer; both start at rows that are
    sums over the round `%i` (`%r`: 8 rows a round) and constants."""
    part = f"!pto.partition_tensor_view<{rows}x64xf32>"
    tile = f"!pto.tile_buf<vec, {rows}x64xf32>"
    return f"""func.func @k(%x: !pto.ptr<f32>, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %size = arith.constant {rows} : index
  %last = arith.muli %n, %c8 : index
  %all = arith.addi %last, %c64 : index
  %v = pto.make_tensor_view %x, shape = [%all, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
  %a = pto.alloc_tile : {tile}
  %b = pto.alloc_tile : {tile}
  scf.for %i = %c0 to %n step %c1 {{
    %r = arith.muli %i, %c8 : index
    %down = arith.subi %last, %r : index
    %next = arith.addi %r, %c8 : index
    %far = arith.addi %r, %c16 : index
    %p = pto.partition_view %v, offsets = [{load}, %c0], sizes = [%size, %c64] : !pto.tensor_view<?x?xf32> -> {part}
    %q = pto.partition_view %v, offsets = [{store}, %c0], sizes = [%size, %c64] : !pto.tensor_view<?x?xf32> -> {part}
    pto.tload ins(%p : {part}) outs(%a : {tile})
    pto.tadd ins(%a, %a : {tile}, {tile}) outs(%b : {tile})
    pto.tstore ins(%b : {tile}) outs(%q : {part})
  }}
  return
}}
"""


IN_PLACE = {
    "the same window": ("%r", "%r", 8), "downwards": ("%down", "%down", 8),
    "windows that overlap": ("%r", "%r", 12), "loads ahead": ("%far", "%r", 8),
    "stores what comes next": ("%r", "%next", 8), "against each other": ("%r", "%down", 8),
    "an accumulator": ("%r", "%c0", 8), "a small window of its own": ("%r", "%r", 4),
    "stores far ahead": ("%r", "%far", 8), "overlapping ahead": ("%next", "%r", 16),
}  # fmt: skip


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("kind", IN_PLACE)
def test_loops_in_place(kind, target):
    """A load does not wait for a store of other bytes, and waits for one of the same: whether rounds
    are left out or not."""
    program = ptosim.load(in_place(*IN_PLACE[kind]), target=target)
    assert both(program, args={"n": 300}, block_num=1) is not None


@pytest.mark.parametrize("kind", ["the same window", "downwards", "loads ahead"])
def test_a_million_rounds_in_place(kind):
    """What is ahead of all that was stored stays so: the rounds are left out."""
    program = ptosim.load(in_place(*IN_PLACE[kind]), target="a5")
    few, many = (program.cost(args={"n": n}) for n in (2000, 10**6))
    assert sum(len(core.steps) for core in many.model.cores) < 100
    each = few.cycles - program.cost(args={"n": 1000}).cycles
    assert many.cycles - few.cycles == each * 998


@pytest.mark.sampled(3, 8)
@pytest.mark.parametrize("seed", range(60))
def test_random_fifos(seed):
    """A cube and two vector cores with a FIFO: one way or both, with slow and quick consumers."""
    target, rng = ("a2a3", "a5")[seed % 2], random.Random(seed)
    count = rng.randrange(120, 300)
    if seed % 3:
        pair, entry = one_way(target, count, rng.randrange(1, 9), rng.randrange(3)), "cube_kernel"
    else:
        pair, entry = both_ways(target, count), "vector_kernel"
    report = both(ptosim.load(pair.text()), entry=entry, block_num=1 + seed % 2)
    assert report is not None
    assert report.repeats


@pytest.mark.sampled(1, 22)
@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_shipped_programs_with_more_rounds(path, rounds):
    sidecar = sidecar_of(path.with_suffix(".pto"))
    assert sidecar is not None
    text = path.with_suffix(".pto").read_text()
    options = sidecar.options
    numbers = {k: int(v) for k, v in sidecar.args.items() if re.fullmatch(r"-?\d+", str(v))}
    for target in sidecar.targets or ["a5"]:
        program = ptosim.load(
            raised(text, set(outer_loops(text)), rounds), target=target,
            sync=options.get("sync"), level=options.get("level"),
        )  # fmt: skip
        both(
            program,
            args=numbers,
            entry=options.get("entry"),
            block_num=options.get("block_num") or 1,
        )


def test_a_thousand_million_rounds():
    """It ends at all (every round in full is hours), memory does not depend on the rounds, and the
    report says which of them repeat."""
    program = ptosim.load(add_loop(), target="a5")
    few, many = (program.cost(args={"n": rounds}) for rounds in (10**4, 10**9))
    each = few.ops[0].cycles / few.ops[0].count
    assert many.cycles - few.cycles == each * (10**9 - 10**4)
    assert many.path_shares[0].count == many.pipes[0].operations == 10**9
    assert sum(len(core.steps) for core in many.model.cores) < 100
    (loop,) = many.repeats
    assert (loop.rounds, loop.cycles, loop.cores) == (1, each, 1)
    assert 10**9 - 10 < loop.last < 10**9


def test_pictures_say_what_repeats():
    """A trace has a slice for the rounds that are left out, between those that it shows; the
    timeline is that of every round."""
    program = ptosim.load(add_loop(), target="a5")
    quick, full = (program.cost(args={"n": 5000}, steady=steady) for steady in (True, False))
    (slice_,) = [e for e in quick.trace() if e.get("cat") == "repeat"]
    shown = [e for e in quick.trace() if e.get("cat") not in ("repeat", None) and e["ph"] == "X"]
    inside = (slice_["ts"] + 1e-9, slice_["ts"] + slice_["dur"] - 1e-9)
    assert not [e for e in shown if inside[0] < e["ts"] < inside[1]]
    assert len(shown) < 50
    each = full.ops[0].cycles / full.ops[0].count / 1000  # a trace has cycles as nanoseconds
    assert len(shown) * each + slice_["dur"] == pytest.approx(5000 * each)
    assert "repeat" in slice_["name"]
    pipe = quick.pipes[0].pipe
    lanes = [lane(r.model.cores[0], PIPES.index(pipe), r.cycles) for r in (quick, full)]
    assert lanes[0] == lanes[1]


@pytest.mark.slow
def test_every_round_where_rounds_differ():
    """A loop whose inner trip count is its own round repeats nothing, and the report says so."""
    body = add_loop().replace("scf.for %i = %c0 to %n step %c1 {", "scf.for %j = %c0 to %n step %c1 {\n"
                              "    scf.for %i = %c0 to %j step %c1 {").replace("    return", "    }\n    return")  # fmt: skip
    program = ptosim.load(body, target="a5")
    report = both(program, args={"n": 150})
    assert report is not None
    assert program.cost(args={"n": 150}).cycles == report.cycles


# -- numbers that move -----------------------------------------------------------------------------

OPERATIONS = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a // b, "rest": lambda a, b: a % b, "mask": lambda a, b: a & 15,
    "shift": lambda a, b: a >> 2, "size": lambda a, b: abs(a), "less": lambda a, b: a < b,
    "at most": lambda a, b: a <= b, "same": lambda a, b: a == b, "other": lambda a, b: a != b,
    "more": lambda a, b: b > a, "at least": lambda a, b: a >= b,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_a_moving_number_tells_how_long_it_is_right(seed):
    """Random chains of operations: as often as the horizon says, plain numbers give the same line and
    take the same decisions."""
    rng = random.Random(seed)
    for _ in range(40):
        start, step, other = (
            rng.randrange(-60, 60),
            rng.choice((1, 2, 3, 16, -4)),
            rng.randrange(1, 20),
        )
        names = [rng.choice(sorted(OPERATIONS)) for _ in range(3)]
        Horizon.levels[:] = [ENDLESS]
        try:
            moving = _chain(names, Affine(start, step), other)
        except NeedsValue:
            continue
        for period in range(min(Horizon.levels[0], 50) + 1):
            plain = _chain(names, start + step * period, other)
            at = [now(m) + period * getattr(m, "step", 0) for m in moving]
            assert plain == at, (names, start, step, other, period)


def _chain(names, value, other):
    found = []
    for name in names:
        result = OPERATIONS[name](value, other)
        found.append(result)
        value = value if isinstance(result, bool) else result
    return found


@pytest.mark.parametrize("name", ["less", "at most", "same", "other", "more", "at least"])
def test_a_comparison_is_right_exactly_so_long(name):
    """Every small case: one period later than the horizon says, the answer is another one."""
    for start in range(-9, 10):
        for step in (-3, -1, 1, 2, 5):
            for other in (-4, 0, 7):
                Horizon.levels[:] = [ENDLESS]
                first = OPERATIONS[name](Affine(start, step), other)
                answers = [OPERATIONS[name](start + step * k, other) for k in range(60)]
                changed = next((k for k, a in enumerate(answers) if a != first), None)
                assert Horizon.levels[0] == (
                    changed - 1 if changed is not None else Horizon.levels[0]
                )
                assert changed is not None or Horizon.levels[0] > 50


@pytest.mark.parametrize("seed", range(40))
def test_a_comparison_in_an_inner_period_tells_for_how_many_of_both(seed):
    """In each period of the outer loop that the horizon has room for, the inner one has at least as
    many in which the answer is the same."""
    rng = random.Random(seed)
    for _ in range(60):
        start, outer, inner = (rng.randrange(-400, 400), rng.choice((-7, -1, 1, 5)),
                               rng.choice((-3, -1, 1, 2, 9)))  # fmt: skip
        than, name = rng.randrange(-30, 30), rng.choice(("less", "at most", "same", "more"))
        Horizon.levels[:] = [ENDLESS, ENDLESS]
        answer = OPERATIONS[name](Affine(Affine(start, outer, 1), inner, 2), than)
        around_, within = Horizon.levels
        for k in range(min(around_, 40) + 1):
            for j in range(min(within, 40) + 1):
                plain = OPERATIONS[name](start + outer * k + inner * j, than)
                assert plain == answer, (start, outer, inner, than, name, k, j)
