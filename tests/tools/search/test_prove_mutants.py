"""Generated pairs of programs: of one kernel and of the same with one change. Programs that hard data
tell apart are never called equal, and what `tune` makes of a kernel is proven."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

import ptosim
from ptosim.ground.errors import PtosimError
from ptosim.tools.search.prove import EQUAL, Launched, Proof, hard_values, prove
from ptosim.tools.search.rewrite import REWRITES, Launch, NotApplicable, applied
from tests.support.text import Kernel

TILES = "abcd"
TWO, ONE, FACTOR = ("add", "sub", "mul", "max", "min"), ("exp", "abs", "neg"), ("adds", "muls")
ROUNDINGS = ("RINT", "FLOOR", "CEIL", "TRUNC", "ROUND")
ROWS, COLUMNS = 16, 64

Step = tuple[str, ...]
"""`two word x y z`, `one word x z`, `factor word x number z`, `round mode x`, `sum x z` (rows summed
and divided by), `barrier`, `load name x`, `store x name`."""


def generated(rng: random.Random) -> list[Step]:
    """Two loads, some arithmetic, a barrier after everything, and two stores."""
    steps: list[Step] = [("load", "x", "a"), ("load", "w", "b")]
    steps += [("two", rng.choice(TWO), "a", "b", tile) for tile in "cd"]
    for _ in range(rng.randint(2, 5)):
        x, y, z = (rng.choice(TILES) for _ in range(3))
        steps.append(rng.choice([
            ("two", rng.choice(TWO), x, y, z), ("two", rng.choice(TWO), x, y, z),
            ("one", rng.choice(ONE), x, z), ("round", rng.choice(ROUNDINGS), x),
            ("factor", rng.choice(FACTOR), x, str(rng.choice((0.5, 1.0, 3.0, 0.1))), z),
            ("sum", x, z),
        ]))  # fmt: skip
    steps += [("store", rng.choice("cd"), "y"), ("store", rng.choice(TILES), "z")]
    return [part for step in steps for part in (step, ("barrier",))]


def kernel(target: str, steps: list[Step], *, order: str = TILES) -> ptosim.Program:
    """The program of some steps, its tiles at addresses in the order of `order`."""
    k = Kernel(target, sync="manual")
    at = {name: 8192 * n for n, name in enumerate(order)}
    tile = {n: k.tile(n, "f32", ROWS, COLUMNS, addr=at[n]) for n in TILES}
    half = k.tile("half", "bf16", ROWS, COLUMNS, addr=40960)
    tmp = k.tile("tmp", "f32", ROWS, COLUMNS, addr=49152)
    column = k.tile("column", "f32", ROWS, 1, layout="dn", addr=57344)
    fence = "pto.barrier <PIPE_ALL>"
    for number, (what, *given) in enumerate(steps):
        if what == "barrier":
            k.line(fence)
        elif what == "load":
            k.load(given[0], tile[given[1]])
        elif what == "store":
            k.store(tile[given[0]], given[1])
        elif what == "factor":
            k.line(f"%f{number} = arith.constant {given[2]} : f32")
            k.op(f"pto.t{given[0]}", [tile[given[1]], (f"%f{number}", "f32")], [tile[given[3]]])
        elif what == "round":
            k.op("pto.tcvt", [tile[given[1]]], [half], f"rmode = #pto<round_mode {given[0]}>")
            k.line(fence)
            k.op("pto.tcvt", [half], [tile[given[1]]], "rmode = #pto<round_mode RINT>")
        elif what == "sum":
            k.op("pto.trowsum", [tile[given[0]], tmp], [column])
            k.line(fence)
            k.op("pto.trowexpandmul", [tile[given[0]], column, tmp], [tile[given[1]]])
        else:
            *sources, last = given[1:]
            k.op(f"pto.t{given[0]}", [tile[s] for s in sources], [tile[last]])
    return k.program()


def changed(steps: list[Step], rng: random.Random) -> list[Step] | None:
    """The steps with one change: of operands, an operation, a rounding, a number, an order; or a
    barrier or a step left out."""
    found = list(steps)
    at = rng.randrange(len(found))
    what, *given = found[at]
    kind = rng.choice(("word", "operands", "tile", "drop", "order"))
    if kind == "drop":
        del found[at]
    elif kind == "order":
        other = (at + 2) % len(found)
        found[at], found[other] = found[other], found[at]
    elif kind == "operands" and what == "two":
        found[at] = (what, given[0], given[2], given[1], given[3])
    elif kind == "word" and what in ("two", "one", "round"):
        words = {"two": TWO, "one": ONE, "round": ROUNDINGS}[what]
        found[at] = (what, rng.choice(words), *given[1:])
    elif kind == "word" and what == "factor":
        found[at] = (what, given[0], given[1], str(float(given[2]) * 1.5), given[3])
    elif kind == "tile" and what in ("two", "one", "store", "load"):
        place = rng.choice([n for n, word in enumerate(given) if word in TILES])
        found[at] = (what, *given[:place], rng.choice(TILES), *given[place + 1 :])
    else:
        return None
    return found if found != steps else None


def pairs(seed: int, count: int) -> list[tuple[Launched, Launched, Proof]]:
    """So many pairs of programs that both run, with their proofs."""
    rng = random.Random(seed)
    target, found = ("a2a3", "a5")[seed % 2], []
    while len(found) < count:
        steps = generated(rng)
        one = Launched(kernel(target, steps))
        for _ in range(5):
            other = changed(steps, rng)
            if other is None:
                continue
            try:
                two = Launched(kernel(target, other))
                found.append((one, two, prove(one, two)))
            except PtosimError:
                continue
    return found[:count]


@pytest.mark.sampled(0, 6)
@pytest.mark.parametrize("seed", range(1000))
def test_ten_pairs_that_data_tell_apart_are_not_called_equal(seed: int) -> None:
    for one, two, proof in pairs(seed, 10):
        if proof.is_equal:
            texts = one.program.front.source.text, two.program.front.source.text
            assert hard_values(one, two, seed) == "", texts


@pytest.mark.sampled(2, 6)
@pytest.mark.parametrize("seed", range(100))
def test_the_same_steps_elsewhere_are_proven(seed: int) -> None:
    """Other addresses change nothing."""
    rng = random.Random(seed)
    target, steps = ("a2a3", "a5")[seed % 2], generated(rng)
    order = "".join(rng.sample(TILES, 4))
    both = [Launched(kernel(target, steps)), Launched(kernel(target, steps, order=order))]
    assert prove(*both).verdict == EQUAL


# -- what `tune` makes -----------------------------------------------------------------------------


def looped(rng: random.Random, target: str) -> ptosim.Program:
    """The same arithmetic for every 16 rows of 128, by hand or with flags that are inserted."""
    parts = [s for s in generated(rng) if s[0] in ("two", "one")]
    full, window = "!pto.tile_buf<vec, 16x64xf32>", "!pto.partition_tensor_view<16x64xf32>"
    lines = [f"%{t} = pto.alloc_tile : {full}" for t in TILES]
    body = [
        f"pto.tload ins(%p{v} : {window}) outs(%{t} : {full})" for v, t in (("x", "a"), ("w", "b"))
    ]
    for _, word, *tiles in parts:
        *sources, last = tiles
        types = ", ".join([full] * len(sources))
        names = ", ".join(f"%{s}" for s in sources)
        body.append(f"pto.t{word} ins({names} : {types}) outs(%{last} : {full})")
    body.append(f"pto.tstore ins(%d : {full}) outs(%py : {window})")
    view = "!pto.tensor_view<128x64xf32>"
    makes = [
        f"%v{a} = pto.make_tensor_view %{a}, shape = [%c128, %c64], strides = [%c64, %c1] : {view}"
        for a in "xwy"
    ]
    takes = [
        f"%p{a} = pto.partition_view %v{a}, offsets = [%i, %c0], sizes = [%c16, %c64]"
        f" : {view} -> {window}"
        for a in "xwy"
    ]
    numbers = [f"%c{n} = arith.constant {n} : index" for n in (0, 1, 16, 64, 128)]
    loop = ["scf.for %i = %c0 to %c128 step %c16 {", *takes, *body, "}"]
    inner = "\n    ".join([*numbers, *makes, *lines, *loop])
    text = (
        "module {\n  func.func @k(%x: !pto.ptr<f32>, %w: !pto.ptr<f32>, %y: !pto.ptr<f32>) {\n"
        f"    {inner}\n    return\n  }}\n}}\n"
    )
    return ptosim.load(text, target=target)


@pytest.mark.sampled(0, 4)
@pytest.mark.parametrize("seed", range(200))
def test_what_rewrites_make_is_proven(seed: int) -> None:
    """Nine of ten at least; here each of them."""
    program = looped(random.Random(seed), ("a2a3", "a5")[seed % 2])
    launch = Launch(None, None, 1)
    verdicts: Counter[str] = Counter()
    rewrite: Callable[..., object]
    for rewrite in REWRITES.values():
        try:
            made = applied(program, rewrite, launch)
        except NotApplicable:
            continue
        verdicts[prove(launch.of(program), launch.of(made)).verdict] += 1
    assert sum(verdicts.values()) >= 2
    assert verdicts[EQUAL] == sum(verdicts.values()), verdicts
