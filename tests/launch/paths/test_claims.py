"""Kernels made at random, some of them wrong, against an executor that knows nothing of the simulator:
a witness shows its fault there, and what is claimed of all arguments holds for arguments at random."""

from __future__ import annotations

import random
import re

import pytest

import ptosim
from tests.launch.paths.kernels import LOAD, PART, SET, STORE, TILE, VIEW, WAIT, kernel
from tests.launch.paths.slow_executor import TooLong, faults

ARGS = "%n: index, %m: index"
FENCE = "pto.barrier <PIPE_ALL>"
FREE, TAKEN = (line.replace("MTE2>, <PIPE_MTE3", "MTE3>, <PIPE_MTE2") for line in (SET, WAIT))
KINDS = {"PTO5201": "race", "PTO5202": "race", "PTO5203": "race", "PTO5006": "hang",
         "PTO7101": "unset", "PTO5210": "twice", "PTO5211": "left"}  # fmt: skip
TRIED = 12
"""Assignments of a kernel that are executed."""


class Made:
    """Lines of a kernel; `values` are numbers at which something changes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0
        self.values = [0, 1, 2, 3]
        self.words: set[int] = set()

    def name(self) -> str:
        self.names += 1
        return f"%g{self.names}"

    def constant(self, value: int) -> tuple[str, list[str]]:
        self.values += [value - 1, value, value + 1]
        name = self.name()
        return name, [f"{name} = arith.constant {value} : index"]

    def number(self, inside: str | None) -> tuple[str, list[str]]:
        """Something to compare: an argument, a word, a block, a round, or what is made of one."""
        choices = ["%n", "%m", "word", "block"] + [inside] * 4 * (inside is not None)
        chosen = self.random.choice([c for c in choices if c is not None])
        lines: list[str] = []
        if chosen == "word":
            at = self.random.randrange(3)
            self.words.add(at)
            read, chosen = self.name(), self.name()
            lines = [f"{read} = pto.load_scalar %d[%c{at}] : !pto.ptr<i32> -> i32",
                     f"{chosen} = arith.index_cast {read} : i32 to index"]  # fmt: skip
        elif chosen == "block":
            read, chosen = self.name(), self.name()
            lines = [f"{read} = pto.get_block_idx -> i64",
                     f"{chosen} = arith.index_cast {read} : i64 to index"]  # fmt: skip
        for _ in range(self.random.choice((0, 0, 1))):
            word, by = self.random.choice(
                (
                    ("remui", 3),
                    ("muli", 2),
                    ("addi", 5),
                    ("minsi", 9),
                    ("divui", 2),
                    ("ceildivui", 3),
                )
            )
            other, more = self.constant(by)
            made = self.name()
            lines += [*more, f"{made} = arith.{word} {chosen}, {other} : index"]
            chosen = made
        return chosen, lines

    def condition(self, inside: str | None) -> tuple[str, list[str]]:
        left, lines = self.number(inside)
        right, more = self.constant(self.random.choice((0, 1, 2, 3, 5, 17)))
        made, sign = self.name(), self.random.choice(("eq", "ne", "slt", "sge"))
        return made, [*lines, *more, f"{made} = arith.cmpi {sign}, {left}, {right} : index"]

    def only(self, body: list[str], other: list[str], inside: str | None) -> list[str]:
        name, lines = self.condition(inside)
        rest = ["} else {", *other] if other else []
        return [*lines, f"scf.if {name} {{", *body, *rest, "}"]

    def conditioned(self, body: list[str], variable: str) -> list[str]:
        """Rounds as long as a condition holds: until a number ends them, or a word does."""
        at, left, more, then = (self.name() for _ in range(4))
        end, lines = self.random.choice((("%n", []), ("%m", []), self.number(None)))
        test = self.random.choice((f"slt, {at}, {end}", f"sle, {at}, {end}", f"sgt, {end}, {at}"))
        return [
            *lines, f"{left} = scf.while ({at} = %c0) : (index) -> index {{",
            f"{more} = arith.cmpi {test} : index", f"scf.condition({more}) {at} : index", "} do {",
            f"^bb0({variable}: index):", *body, f"{then} = arith.addi {variable}, %c1 : index",
            f"scf.yield {then} : index", "}",
        ]  # fmt: skip

    def repeated(self, body: list[str], variable: str) -> list[str]:
        if self.random.random() < 0.25:
            return self.conditioned(body, variable)
        end = self.random.choice(("%n", "%m", "%c3", "%n"))
        return [f"scf.for {variable} = %c0 to {end} step %c1 {{", *body, "}"]

    def broken(self, lines: list[str], inside: str | None) -> list[str]:
        """With a line left out or done twice, in some cases only."""
        at = self.random.choice([n for n, line in enumerate(lines) if line.startswith("pto.")])
        line = lines[at]
        way = self.random.randrange(4)
        if way == 0:
            changed = []
        elif way == 1:
            changed = self.only([line], [], inside)
        elif way == 2:
            changed = self.only([line, line], [line], inside)
        else:
            changed = self.only([FENCE], [line], inside)
        return [*lines[:at], *changed, *lines[at + 1 :]]

    def part(self, *, is_wrong: bool) -> list[str]:
        """A part of a kernel: it leaves nothing under way."""
        ordered = [LOAD, SET, WAIT, STORE]
        variable = self.name()
        way = self.random.randrange(7)
        inside = variable if way >= 2 else None
        if way == 0:
            return [*(self.broken(ordered, None) if is_wrong else ordered), FENCE]
        if way == 1:
            body = self.broken(ordered, None) if is_wrong else ordered
            return [*self.only([*body, FENCE], [], None)]
        if way == 2:
            body = [*ordered, FENCE]
            body = self.broken(body, inside) if is_wrong else body
            return self.repeated(self.only(body, [], inside), variable)
        if way == 5:
            outer = self.name()
            body = [*ordered, FENCE]
            body = self.broken(body, self.random.choice((inside, outer))) if is_wrong else body
            return self.repeated(self.repeated(body, variable), outer)
        body = [TAKEN, *ordered, FREE]
        if way == 4:
            body = [*body, *self.only([FENCE], [], inside)]
        whole = [
            FREE,
            *self.repeated(self.broken(body, inside) if is_wrong else body, variable),
            TAKEN,
        ]
        return [*whole, FENCE]

    def text(self) -> str:
        parts = self.random.choice((1, 1, 2))
        wrong = self.random.choice((None, 0, parts - 1))
        every = [self.part(is_wrong=n == wrong) for n in range(parts)]
        return kernel("\n".join(line for lines in every for line in lines), ARGS)

    def assignment(self) -> dict[str, int]:
        some = [v for v in self.values if v >= 0]
        pick = lambda: self.random.choice([*some, self.random.randrange(40)])  # noqa: E731
        words = {f"d[{at}]": self.random.choice([pick(), -1]) for at in range(3)}
        return {"n": pick(), "m": pick(), "block": self.random.randrange(7), **words}


def kind(found: ptosim.Diagnostic) -> str:
    """The kind of a finding; one that shows with assumed data names the code that it has."""
    inner = re.search(r"\((PTO\d+) with assumed data\)", found.message)
    return KINDS.get(inner[1] if inner else found.code, "")


def checked(seed: int) -> tuple[bool, bool]:
    """Compare what is said of a kernel with executing it; return if it has faults, and if something
    is claimed of all arguments."""
    made = Made(seed)
    text = made.text()
    found = ptosim.check(text, sync="manual")
    told = {kind(d): d for d in found if kind(d)}
    for each, d in told.items():
        assert each in faults(text, {**_FIRST, **(d.witness or {})}), (seed, each, d.witness)
    is_whole = all(
        c["open"] == [] and c["trips"] == "proven" and c["paths"] == "all" for c in found.coverage
    )
    for _ in range(TRIED):
        values = made.assignment()
        try:
            shown = faults(text, values)
        except TooLong:
            continue
        if is_whole and shown:  # of several that follow from one another one is told
            assert told.keys() & shown, (seed, values, shown)
    return bool(told), is_whole


_FIRST = {"n": 1, "m": 1, "block": 0, "d[0]": 1, "d[1]": 1, "d[2]": 1}
"""What is taken for a number that a witness does not name."""


@pytest.mark.sampled(3, 40)
@pytest.mark.parametrize(
    "first",
    [
        0,
        *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 60, 4)),
        *(pytest.param(n, marks=pytest.mark.deep) for n in range(60, 500, 4)),
    ],
)
def test_what_is_claimed_of_all_arguments_is_right(first):
    every = [checked(seed) for seed in range(first, first + 4)]
    assert first or any(is_wrong for is_wrong, _ in every)
    assert first or any(is_whole for _, is_whole in every)


def test_a_decision_after_a_loop_is_taken_both_ways():
    """It depends on the number that ends the loop, and more rounds are needed than were looked at."""
    end = f"%c = arith.cmpi eq, %n, %c5 : index\nscf.if %c {{\n{FENCE}\n}} else {{\n{WAIT}\n}}"
    rounds = f"scf.for %i = %c0 to %n step %c1 {{\n{LOAD}\n{SET}\n{WAIT}\n{STORE}\n{FENCE}\n}}"
    text = kernel(f"{rounds}\n{LOAD}\n{SET}\n{end}\n{STORE}\n{FENCE}", ARGS)
    (wrong,) = [d for d in ptosim.check(text, sync="manual") if kind(d)]
    assert (kind(wrong), wrong.witness) == ("left", {"n": 5})
    assert faults(text, {**_FIRST, "n": 5}) == {"left"}


def test_windows_that_may_meet_are_followed_where_they_meet():
    """A row is stored, and one is loaded without an order between the two: where an argument says
    which row, they may be the same one, which is found. Two rows that move together are never."""
    rows = f"{VIEW.replace('16x64', '?x64')}"
    many = "%k512 = arith.constant 512 : index\n%f = arith.addi %m, %c100 : index\n"
    many += (
        f"%all = pto.make_tensor_view %x, shape = [%k512, %c64], strides = [%c64, %c1] : {rows}\n"
    )

    def checked(stored: str, loaded: str, between: str = "") -> ptosim.Findings:
        windows = "".join(
            f"%{n} = pto.partition_view %all, offsets = [{row}, %c0], sizes = [%c16, %c64] : "
            f"{rows} -> {PART}\n"
            for n, row in (("p", stored), ("q", loaded))
        )
        store, load = STORE.replace("%py", "%p"), LOAD.replace("%px", "%q").replace("%t", "%u")
        second = f"%a1 = arith.constant 8192 : i64\n%u = pto.alloc_tile addr = %a1 : {TILE}\n"
        body = f"{many}{second}{windows}{LOAD}\n{SET}\n{WAIT}\n{store}\n{between}{load}\n{FENCE}"
        return ptosim.check(kernel(body, ARGS), sync="manual")

    (race,) = [d for d in checked("%n", "%f") if kind(d)]
    assert (kind(race), "apart" in checked("%n", "%f").coverage[0]) == ("race", False)
    assert abs(race.witness.get("n", 1) - race.witness.get("m", 1) - 100) < 16
    together = checked("%m", "%f")
    assert (together.coverage[0]["paths"], [d for d in together if kind(d)]) == ("all", [])
    # On the way of the first run they meet in order, on the other one they do not meet at first.
    few = f"%c = arith.cmpi sle, %m, %c3 : index\nscf.if %c {{\n{FENCE}\n}}\n"
    (race,) = [d for d in checked("%n", "%m", few) if kind(d)]
    assert (kind(race), race.witness["m"] > 3) == ("race", True)


def test_what_is_read_of_a_tile_is_compared_with_what_was_written_for_other_numbers():
    """Rows that are loaded and rows that are stored depend on different numbers: no decision says
    that more is stored than was loaded."""
    open_tile = TILE.replace("v_row=16", "v_row=?")
    rows = "%k = arith.remui %m, %c16 : index\n"
    rows += "%l = arith.remui %n, %c16 : index\n"

    def checked(loaded: str, stored: str) -> ptosim.Findings:
        tiles = "".join(
            f"%{name} = pto.alloc_tile addr = %a0 valid_row = {count} : {open_tile}\n"
            f"%p{name} = pto.partition_view %v{of}, offsets = [%c0, %c0], "
            f"sizes = [{count}, %c64] : {VIEW} -> {PART.replace('16x64', '?x64')}\n"
            for name, count, of in (("l0", loaded, "x"), ("s0", stored, "y"))
        )
        load, store = (line.replace(TILE, open_tile).replace(PART, PART.replace("16x64", "?x64"))
                       for line in (LOAD, STORE))  # fmt: skip
        load = load.replace("%px", "%pl0").replace("%t", "%l0")
        store = store.replace("%py", "%ps0").replace("%t", "%s0")
        return ptosim.check(kernel(f"{rows}{tiles}{load}\n{FENCE}\n{store}", ARGS), sync="manual")

    (unset,) = [d for d in checked("%k", "%l") if kind(d)]
    assert (unset.code, unset.witness.get("n", 1) % 16 > unset.witness.get("m", 1) % 16) == (
        "PTO7101", True
    )  # fmt: skip
    (covered,) = checked("%k", "%l").coverage
    assert (covered["paths"], covered["beyond"][0]["symbols"]) == ("some", ["n"])
    same = checked("%k", "%k")
    assert (same.coverage[0]["paths"], [d for d in same if kind(d)]) == ("all", [])
