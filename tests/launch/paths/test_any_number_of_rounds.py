"""Loops made at random, half of them with a line left out or doubled: where `check` claims any number
of rounds, following each number of them finds what it found, and nothing else."""

from __future__ import annotations

import random

import pytest

import ptosim
from tests.launch.paths.kernels import RACE, TILE, followed, kernel
from tests.launch.paths.test_rounds import FENCE, faults

CHECKED = 40
"""Numbers of rounds that are followed one by one."""
SAMPLES = 120


WHILE = """%left = scf.while (%at = %c0) : (index) -> index {
%more = arith.cmpi slt, %at, %n : index
scf.condition(%more) %at : index
} do {
^bb0(%i: index):""".splitlines()


class Made:
    """A kernel with a loop of %n rounds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0
        self.is_counted = seed % 3 != 0

    def name(self) -> str:
        self.names += 1
        return f"%q{self.names}"

    def condition(self) -> list[str]:
        """The lines that say in which rounds something is done, the last of them its name."""
        at, end, rest, number = (self.name() for _ in range(4))
        limit = self.random.choice([1, 2, 3, 5, 9, 14, 19])
        match self.random.randrange(4):
            case 0:
                sign = self.random.choice(["eq", "ne", "slt", "sge"])
                return [f"{at} = arith.constant {limit} : index",
                        f"{end} = arith.cmpi {sign}, %i, {at} : index", end]  # fmt: skip
            case 1:
                modulo = self.random.choice([2, 3, 4])
                return [f"{at} = arith.constant {modulo} : index",
                        f"{rest} = arith.remui %i, {at} : index",
                        f"{end} = arith.cmpi eq, {rest}, %c{self.random.randrange(2)} : index", end]  # fmt: skip
            case 2:
                last = self.random.choice([1, 2, 3])
                sign = self.random.choice(["eq", "slt", "sge"])
                return [f"{at} = arith.constant {last} : index",
                        f"{rest} = arith.subi %n, {at} : index",
                        f"{end} = arith.cmpi {sign}, %i, {rest} : index", end]  # fmt: skip
            case _:
                return [f"{at} = arith.constant {limit} : index",
                        f"{rest} = arith.muli %i, %c3 : index",
                        f"{number} = arith.addi {rest}, %c1 : index",
                        f"{end} = arith.cmpi sgt, {number}, {at} : index", end]  # fmt: skip

    def only(self, lines: list[str], other: list[str]) -> list[str]:
        *before, name = self.condition()
        rest = ["} else {", *other] if other else []
        return [*before, f"scf.if {name} {{", *lines, *rest, "}"]

    def handshake(self, event: int) -> tuple[list[str], list[str], list[str]]:
        """What comes before, in and after a loop that uses a tile in turn."""
        tile = self.name()
        alloc = f"%o{event} = arith.constant {4096 * event} : i64"
        made = f"{tile} = pto.alloc_tile addr = %o{event} : {TILE}"
        pipes = ("<PIPE_MTE3>, <PIPE_MTE2>", "<PIPE_MTE2>, <PIPE_MTE3>")
        free, ready = (f"[{p}, <EVENT_ID{event}>]" for p in pipes)
        load, store = RACE.replace("%t", tile).splitlines()
        body = [f"pto.wait_flag{free}", load, f"pto.set_flag{ready}", f"pto.wait_flag{ready}",
                store, f"pto.set_flag{free}"]  # fmt: skip
        return [alloc, made, f"pto.set_flag{free}"], body, [f"pto.wait_flag{free}"]

    def text(self) -> str:
        before, body, after = self.handshake(0)
        if self.random.random() < 0.5:
            first, inside, last = self.handshake(1)
            before, after = before + first, after + last
            body = self.only(body, inside) if self.random.random() < 0.5 else body + inside
        if self.random.random() < 0.6:
            body = body + self.only([FENCE], [])
        if self.random.random() < 0.5:
            body = self._broken(body)
        loop = ["scf.for %i = %c0 to %n step %c1 {", *body, "}"]
        if not self.is_counted:  # the same with a condition
            loop = [
                *WHILE,
                *body,
                "%next = arith.addi %i, %c1 : index",
                "scf.yield %next : index",
                "}",
            ]
        return kernel("\n".join([*before, *loop, *after]))

    def _broken(self, body: list[str]) -> list[str]:
        """With a flag, or a transfer, left out or done twice in some rounds."""
        places = [n for n, line in enumerate(body) if line.startswith("pto.")]
        at = self.random.choice(places)
        line = body[at]
        changed = self.random.choice([self.only([line], []), self.only([line, line], [line])])
        return [*body[:at], *changed, *body[at + 1 :]]


def agrees(seed: int) -> bool:
    """True if any number of rounds is claimed."""
    text = Made(seed).text()
    found = ptosim.check(text, sync="manual")
    (made,) = found.coverage
    if made["trips"] != "proven" or made["open"]:
        return False
    each = [faults(followed(text, n=n)) for n in range(CHECKED)]
    assert faults(found) == set().union(*each), seed
    return True


@pytest.mark.sampled(0, 2)
@pytest.mark.parametrize(
    "first",
    [
        0,
        *(pytest.param(n, marks=pytest.mark.slow) for n in range(6, 24, 6)),
        *(pytest.param(n, marks=pytest.mark.deep) for n in range(24, SAMPLES, 6)),
    ],
)
def test_what_is_claimed_of_any_number_of_rounds_is_right(first):
    claimed = [agrees(seed) for seed in range(first, first + 6)]
    assert sum(claimed) >= 1


def test_a_round_far_on_may_be_the_only_one_that_is_wrong():
    """The tenth round waits twice if it is the last one: only n = 10 deadlocks. The other
    loop stores row i in its last round, which row 9 is read beside. Where the number of the round
    decides, or is a place, in a branch that the last round takes alone, nothing is claimed."""
    wait = "pto.wait_flag[<PIPE_MTE3>, <PIPE_MTE2>, <EVENT_ID0>]"
    body = f"""pto.set_flag[<PIPE_MTE3>, <PIPE_MTE2>, <EVENT_ID0>]
scf.for %i = %c0 to %n step %c1 {{
%last = arith.subi %n, %c1 : index
%is_last = arith.cmpi eq, %i, %last : index
scf.if %is_last {{
%nine = arith.constant 9 : index
%is_tenth = arith.cmpi eq, %i, %nine : index
scf.if %is_tenth {{
{wait}
pto.set_flag[<PIPE_MTE3>, <PIPE_MTE2>, <EVENT_ID0>]
{wait}
{wait}
pto.set_flag[<PIPE_MTE3>, <PIPE_MTE2>, <EVENT_ID0>]
}}
}}
}}
{wait}"""
    tile = "!pto.tile_buf<vec, 1x64xf32>"
    view, row = "!pto.tensor_view<4096x64xf32>", "!pto.partition_tensor_view<1x64xf32>"
    stored = f"""%nine = arith.constant 9 : index
%many = arith.constant 4096 : index
%o1 = arith.constant 4096 : i64
%q = pto.alloc_tile addr = %o1 : {tile}
%z = pto.make_tensor_view %y, shape = [%many, %c64], strides = [%c64, %c1] : {view}
%w = pto.partition_view %z, offsets = [%nine, %c0], sizes = [%c1, %c64] : {view} -> {row}
pto.tload ins(%w : {row}) outs(%q : {tile})
{FENCE}
pto.tload ins(%w : {row}) outs(%q : {tile})
%o2 = arith.constant 8192 : i64
%p = pto.alloc_tile addr = %o2 : {tile}
scf.for %i = %c0 to %n step %c1 {{
%last = arith.subi %n, %c1 : index
%is_last = arith.cmpi eq, %i, %last : index
scf.if %is_last {{
%u = pto.partition_view %z, offsets = [%i, %c0], sizes = [%c1, %c64] : {view} -> {row}
pto.tstore ins(%p : {tile}) outs(%u : {row})
}}
}}
{FENCE}"""
    for lines, code in ((body, "PTO5006"), (stored, "PTO5202")):
        text = kernel(lines)
        assert code in faults(ptosim.check(text, sync="manual", args={"n": 10}))
        (made,) = ptosim.check(text, sync="manual").coverage
        assert made["trips"] != "proven"
        assert "few rounds take line" in made["loops"][0]["why"]


ROW_TILE = "!pto.tile_buf<vec, 1x64xf32>"
ROWS, ROW = "!pto.tensor_view<4096x64xf32>", "!pto.partition_tensor_view<1x64xf32>"


def of_rows(*lines: str) -> str:
    """A kernel with two tiles of one row, %p and %q, and a view of %y, of which lines `load ROW`
    and `store ROW` load to %q and store %p."""
    made = [
        "%many = arith.constant 4096 : index",
        f"%z = pto.make_tensor_view %y, shape = [%many, %c64], strides = [%c64, %c1] : {ROWS}",
        "%o1 = arith.constant 4096 : i64", "%o2 = arith.constant 8192 : i64",
        f"%q = pto.alloc_tile addr = %o1 : {ROW_TILE}",
        f"%p = pto.alloc_tile addr = %o2 : {ROW_TILE}",
    ]  # fmt: skip
    for n, line in enumerate(lines):
        word, _, row = line.partition(" ")
        if word not in ("load", "store"):
            made.append(line)
            continue
        made.append(
            f"%w{n} = pto.partition_view %z, offsets = [{row}, %c0], sizes = [%c1, %c64] : "
            f"{ROWS} -> {ROW}"
        )
        load = f"pto.tload ins(%w{n} : {ROW}) outs(%q : {ROW_TILE})"
        made.append(
            load if word == "load" else f"pto.tstore ins(%p : {ROW_TILE}) outs(%w{n} : {ROW})"
        )
    return kernel("\n".join(made))


ELEVEN, ROUNDS = "%row = arith.constant 11 : index", "scf.for %i = %c0 to %n step %c1 {"
LAST = ["%k = arith.subi %n, %c1 : index", "%e = arith.cmpi eq, %i, %k : index", "scf.if %e {"]
MEETING = {
    "before": [ELEVEN, "load %row", ROUNDS, "store %i", "}", FENCE],
    "after": [ELEVEN, ROUNDS, "store %i", "}", "load %row", FENCE],
    "in the last round": [ELEVEN, ROUNDS, "store %i", *LAST, "load %row", "}", "}", FENCE],
    "in another loop": [
        "%row = arith.constant 40 : index", ROUNDS, "store %i", "}", ROUNDS.replace("%i", "%j"),
        "%f = arith.subi %row, %j : index", "load %f", "}", FENCE,
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", MEETING)
def test_what_moves_may_come_to_what_is_outside_of_its_rounds(name):
    """A loop stores row i. Beside it a row is loaded that only later rounds come to: nothing is
    claimed of these, unless a barrier is between the two, or no round ever comes there."""
    lines = MEETING[name]
    assert "PTO52" in str(faults(ptosim.check(of_rows(*lines), sync="manual", args={"n": 30})))
    (made,) = ptosim.check(of_rows(*lines), sync="manual").coverage
    assert made["trips"] != "proven"
    assert made["loops"][0]["why"].startswith("the addresses of lines")
    if name == "in the last round":
        return
    at = lines.index("load %row") + 1 if name == "before" else lines.index("}") + 1
    (made,) = ptosim.check(of_rows(*lines[:at], FENCE, *lines[at:]), sync="manual").coverage
    assert made["trips"] == "proven"
    if name != "in another loop":
        far, at = "%far = arith.addi %i, %c16 : index", lines.index("store %i")
        away = [*lines[:at], far, "store %far", *lines[at + 1 :]]
        (made,) = ptosim.check(of_rows(*away), sync="manual").coverage
        assert made["trips"] == "proven"


COUNTS = {
    "a quotient of bits": ("%q = arith.divui %n, %c16 : index", lambda n, m: n // 16),
    "one rounded up": ("%q = arith.ceildivui %n, %c16 : index", lambda n, m: -(-n // 16)),
    "a shift": ("%q = arith.shrui %n, %c3 : index", lambda n, m: n >> 3),
    "a quotient": ("%q = arith.divsi %n, %c16 : index", lambda n, m: n // 16),
    "the lesser of two": (
        "%p = arith.divui %n, %c8 : index\n%q = arith.minui %p, %m : index",
        lambda n, m: min(n // 8, m)),
    "a remainder": ("%q = arith.remui %n, %c64 : index", lambda n, m: n % 64),
}  # fmt: skip
ROUNDS_OF = """{count}
scf.for %i = %c0 to %q step %c1 {{
{load}
pto.set_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]
%late = arith.cmpi slt, %i, %c8 : index
scf.if %late {{
pto.wait_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]
}} {otherwise}
{store}
pto.set_flag[<PIPE_MTE3>, <PIPE_MTE2>, <EVENT_ID1>]
pto.wait_flag[<PIPE_MTE3>, <PIPE_MTE2>, <EVENT_ID1>]
}}"""


@pytest.mark.parametrize("name", COUNTS)
def test_how_often_a_loop_runs_is_a_quotient(name: str) -> None:
    """All numbers of rounds are covered, though a negative number without its sign is a large one:
    what only happens from the ninth round on is found, with numbers that give so many."""
    count, rounds = COUNTS[name]
    load, store = RACE.splitlines()
    wait = "else {\npto.wait_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]\n}"
    wrong, right = (
        ptosim.check(
            kernel(ROUNDS_OF.format(count=count, load=load, store=store, otherwise=otherwise),
                   "%n: index, %m: index"), sync="manual")
        for otherwise in ("", wait)
    )  # fmt: skip
    assert [d for d in right if d.is_error] == []
    (made,) = right.coverage
    assert (made["paths"], made["trips"], made["loops"]) == ("all", "proven", [])
    shown = [d for d in wrong if d.severity > ptosim.Severity.NOTE and "witness" in d.context]
    assert shown
    for found in shown:
        values = found.context["witness"]
        assert rounds(values.get("n", 1), values.get("m", 1)) > 8
