"""Generated pairs of programs: of one kernel and of the same with one change. Programs that hard data
tell apart are never called equal, and what `tune` makes of a kernel is proven."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import ptosim
from ptosim.ground.errors import PtosimError
from ptosim.tools.search.prove import EQUAL, Launched, Proof, hard_values, prove
from ptosim.tools.search.rewrite import REWRITES, Launch, NotApplicable, applied
from tests.support.text import Kernel, Tile

TILES = "abcd"
TWO, ONE, FACTOR = ("add", "sub", "mul", "max", "min"), ("exp", "abs", "neg"), ("adds", "muls")
BITS = ("adds", "ands", "shls", "shrs", "xors")
ROUNDINGS = ("RINT", "FLOOR", "CEIL", "TRUNC", "ROUND")
ROWS, COLUMNS = 16, 64

PATTERNS = ("P0101", "P1010")
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")

WORDS = {
    "two": TWO, "one": ONE, "round": ROUNDINGS, "part": TWO, "choose": COMPARED, "sort": PATTERNS,
}  # fmt: skip

Step = tuple[str, ...]
"""`two word x y z`, `one word x z`, `factor word x number z`, `round mode x`, `sum x z` (rows summed
and divided by), `barrier`, `load name x`, `store x name`, `sort pattern x z` (values of sorted blocks,
or their numbers), `choose word x y z` (by a predicate), `part word x y z` (of some columns), `bits
word x number z` (of whole numbers), `down x` (rows one further down, where they still are), `stack
at from x z` (by a number of the stack), `add x name` (to what is in memory)."""


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
            ("sum", x, z), ("sort", rng.choice(PATTERNS), x, z), ("down", x), ("add", x, "y"),
            ("choose", rng.choice(COMPARED), x, y, z), ("part", rng.choice(TWO), x, y, z),
            ("bits", rng.choice(BITS), x, str(rng.choice((1, 3, 12))), z),
            ("stack", str(rng.randrange(4)), str(rng.randrange(4)), x, z),
        ]))  # fmt: skip
    steps += [(rng.choice(("store", "store", "add")), rng.choice("cd"), "y")]
    steps += [("store", rng.choice(TILES), "z")]
    return [part for step in steps for part in (step, ("barrier",))]


FENCE = "pto.barrier <PIPE_ALL>"
ADDED = "atomicType = #pto<atomic_type atomic_add>"
STACK = "!pto.local_array<4xf32>"


class Writer:
    """Writes steps as text, each by the method of its name. The tiles `abcd` are at addresses in
    the order of `order`, and there are views of them: of some columns, as whole numbers, of their
    rows but the last or the first."""

    def __init__(self, target: str, order: str) -> None:
        k = self.k = Kernel(target, sync="manual")
        at = {name: 8192 * n for n, name in enumerate(order)}

        def tiles(name: str, dtype: str, rows: int, below: int = 0, **keys: Any) -> dict[str, Tile]:
            return {
                n: k.tile(name + n, dtype, rows, COLUMNS, addr=at[n] + below, **keys) for n in TILES
            }

        self.tile = tiles("", "f32", ROWS)
        self.cut = tiles("cut", "f32", ROWS, valid=(ROWS, 40))
        self.number = tiles("number", "i32", ROWS)
        self.upper, self.lower = (tiles(f"rows{n}", "f32", ROWS - 1, 256 * n) for n in (0, 1))
        self.half = k.tile("half", "bf16", ROWS, COLUMNS, addr=40960)
        self.tmp = k.tile("tmp", "f32", ROWS, COLUMNS, addr=49152)
        self.column = k.tile("column", "f32", ROWS, 1, layout="dn", addr=57344)
        self.wide = k.tile("wide", "f32", ROWS, 2 * COLUMNS, addr=65536)
        self.places = k.tile("places", "i32", ROWS, COLUMNS, addr=81920)
        bits = COLUMNS if target == "a5" else 32
        self.mask = k.tile("mask", "i8", ROWS, bits, addr=90112)
        self.whole = k.tile("whole", "i32", ROWS, COLUMNS, addr=98304)
        k.line(f"%held = pto.declare_local_array -> {STACK}")
        for n in range(4):
            k.line(f"%s{n} = arith.constant {n}.5 : f32")
            k.line(f"pto.local_array_set %held[{k.const(n)}], %s{n} : {STACK}, f32")

    def constant(self, value: str, dtype: str) -> tuple[str, str]:
        name = f"%f{len(self.k.lines)}"
        self.k.line(f"{name} = arith.constant {value} : {dtype}")
        return name, dtype

    def barrier(self) -> None:
        self.k.line(FENCE)

    def load(self, name: str, x: str) -> None:
        self.k.load(name, self.tile[x])

    def store(self, x: str, name: str, attrs: str = "") -> None:
        self.k.store(self.tile[x], name, attrs=attrs)

    def add(self, x: str, name: str) -> None:
        self.store(x, name, ADDED)

    def two(self, word: str, *tiles: str) -> None:
        *sources, last = (self.tile[t] for t in tiles)
        self.k.op(f"pto.t{word}", sources, [last])

    one = two

    def part(self, word: str, *tiles: str) -> None:
        *sources, last = (self.cut[t] for t in tiles)
        self.k.op(f"pto.t{word}", sources, [last])

    def factor(self, word: str, x: str, value: str, z: str) -> None:
        factor = self.constant(value, "f32")
        self.k.op(f"pto.t{word}", [self.tile[x], factor], [self.tile[z]])

    def bits(self, word: str, x: str, value: str, z: str) -> None:
        factor = self.constant(value, "i32")
        self.k.op(f"pto.t{word}", [self.number[x], factor], [self.whole])
        self.barrier()
        self.k.op("pto.tmov", [self.whole], [self.number[z]])

    def round(self, mode: str, x: str) -> None:
        self.k.op("pto.tcvt", [self.tile[x]], [self.half], f"rmode = #pto<round_mode {mode}>")
        self.barrier()
        self.k.op("pto.tcvt", [self.half], [self.tile[x]], "rmode = #pto<round_mode RINT>")

    def sum(self, x: str, z: str) -> None:
        self.k.op("pto.trowsum", [self.tile[x], self.tmp], [self.column])
        self.barrier()
        self.k.op("pto.trowexpandmul", [self.tile[x], self.column, self.tmp], [self.tile[z]])

    def sort(self, pattern: str, x: str, z: str) -> None:
        self.k.load("n", self.places)
        self.barrier()
        self.k.op("pto.tsort32", [self.tile[x], self.places], [self.wide])
        self.barrier()
        how = f"{{maskPattern = #pto.mask_pattern<{pattern}>}} : {self.wide.type}"
        target = self.tile[z]
        self.k.line(f'pto.tgather ins(%wide {how}, "row") outs(%{target.name} : {target.type})')

    def choose(self, word: str, *tiles: str) -> None:
        x, y, z = (self.tile[t] for t in tiles)
        self.k.op("pto.tcmp", [x, y], [self.mask], f"cmpMode = #pto<cmp {word}>")
        self.barrier()
        self.k.op("pto.tsel", [self.mask, x, y, self.tmp], [z])

    def down(self, x: str) -> None:
        self.k.op("pto.tmov", [self.upper[x]], [self.lower[x]])

    def stack(self, at: str, from_: str, x: str, z: str) -> None:
        k, name = self.k, f"%f{len(self.k.lines)}"
        k.line(f"pto.local_array_set %held[{k.const(int(at))}], %s1 : {STACK}, f32")
        k.line(f"{name} = pto.local_array_get %held[{k.const(int(from_))}] : {STACK} -> f32")
        k.op("pto.tmuls", [self.tile[x], (name, "f32")], [self.tile[z]])


def kernel(target: str, steps: list[Step], *, order: str = TILES) -> ptosim.Program:
    """The program of some steps, its tiles at addresses in the order of `order`."""
    writer = Writer(target, order)
    for what, *given in steps:
        getattr(writer, what)(*given)
    return writer.k.program()


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
    elif kind == "operands" and what in ("two", "part", "choose"):
        found[at] = (what, given[0], given[2], given[1], given[3])
    elif kind == "word" and what in WORDS:
        words = WORDS[what]
        found[at] = (what, rng.choice(words), *given[1:])
    elif kind == "word" and what == "factor":
        found[at] = (what, given[0], given[1], str(float(given[2]) * 1.5), given[3])
    elif kind == "word" and what == "bits":
        found[at] = (what, rng.choice(BITS), given[1], str(int(given[2]) + 1), given[3])
    elif kind == "word" and what == "stack":
        found[at] = (what, *(str(rng.randrange(4)) for _ in range(2)), *given[2:])
    elif kind == "word" and what in ("store", "add"):
        found[at] = ("add" if what == "store" else "store", *given)
    elif kind == "tile" and what in (
        "two",
        "one",
        "store",
        "load",
        "part",
        "choose",
        "sort",
        "add",
    ):
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
