"""Random SIMT programs: statements for `tests.oracle.simt`, and their text.

Threads diverge in branches and loops, meet at barriers and in warps, and use memory without races:
each has words of its own, mail that others read after a barrier, and counters that all update by
operations whose order does not matter."""

from __future__ import annotations

import random
from typing import Any

from tests.oracle.simt import ATOMICS, FLOATS, INTEGERS, PREDICATES, Statement

COUNTERS = 8


class Program:
    """A random program for a number of threads."""

    def __init__(self, rng: random.Random, threads: int) -> None:
        self.rng = rng
        self.threads = threads
        self.count = 0
        self.place = 0
        self.is_uniform = True  # all threads execute what is made now
        self.can_meet = True  # the lanes of a warp that do are at one place
        self.code: list[Statement] = [("const", "zero", 0), ("const", "one", 1)]
        self.code += self.block(["tid", "lane", "zero", "one"], 3, 14)

    # -- statements -------------------------------------------------------------------------------

    def new(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def block(self, known: list[str], depth: int, length: int) -> list[Statement]:
        """Statements that may use and add to the names `known` (all words)."""
        made: list[Statement] = []
        for _ in range(self.rng.randint(2, length)):
            made += self.statement(known, depth)
        return made

    def statement(self, known: list[str], depth: int) -> list[Statement]:
        kinds = ["int"] * 5 + ["float", "itof", "select", "own", "atomic", "const"]
        if depth:
            kinds += ["if", "if", "for", "while"]
        if self.can_meet:
            kinds += ["vote", "shuffle", "shuffle", "redux"]
        if self.is_uniform:
            kinds += ["mail"]
        return getattr(self, f"_{self.rng.choice(kinds)}")(known, *([depth] if depth else []))

    def _const(self, known: list[str], depth: int = 0) -> list[Statement]:
        target = self.new()
        value = self.rng.choice([0, 1, 31, 32, 0x7FFFFFFF, 0x80000000, self.rng.getrandbits(32)])
        known.append(target)
        return [("const", target, value)]

    def _int(self, known: list[str], depth: int = 0) -> list[Statement]:
        a, b = self.rng.choices(known, k=2)
        target = self.new()
        known.append(target)
        return [("int", target, self.rng.choice(list(INTEGERS)), a, b)]

    def _float(self, known: list[str], depth: int = 0) -> list[Statement]:
        a, b = (self.new() for _ in range(2))
        target = self.new()
        x, y = self.rng.choices(known, k=2)
        known.append(target)
        word = self.rng.choice(list(FLOATS))
        return [("itof", a, x), ("itof", b, y), ("float", target, word, a, b)]

    def _itof(self, known: list[str], depth: int = 0) -> list[Statement]:
        target = self.new()
        source = self.rng.choice(known)
        known.append(target)
        return [("itof", target, source)]

    def _condition(self, known: list[str]) -> tuple[Statement, str]:
        target = self.new()
        a, b = self.rng.choices(known, k=2)
        if self.rng.random() < 0.5:
            a = self.rng.choice(["tid", "lane"])
        return ("cmp", target, self.rng.choice(list(PREDICATES)), a, b), target

    def _select(self, known: list[str], depth: int = 0) -> list[Statement]:
        test, condition = self._condition(known)
        target = self.new()
        a, b = self.rng.choices(known, k=2)
        known.append(target)
        return [test, ("select", target, condition, a, b)]

    def _own(self, known: list[str], depth: int = 0) -> list[Statement]:
        """A word of the thread's own: written, and read again."""
        target = self.new()
        value = self.rng.choice(known)
        known.append(target)
        return [("store", "own", "tid", value), ("load", target, "own", "tid")]

    def _atomic(self, known: list[str], depth: int = 0) -> list[Statement]:
        """One operation for each counter: mixed ones would depend on their order."""
        kinds = [k for k in ATOMICS if k != "sub"]
        number = self.rng.randrange(COUNTERS)
        index = self.new()
        value = self.rng.choice(known)
        kind = kinds[number % len(kinds)]
        return [("const", index, number), ("atomic", kind, "counters", index, value)]

    def _if(self, known: list[str], depth: int = 0) -> list[Statement]:
        test, condition = self._condition(known)
        outer, self.is_uniform = self.is_uniform, False
        branches = []
        for _ in range(2):
            inner = list(known)
            branches.append((self.block(inner, depth - 1, 5), inner[-1]))
        self.is_uniform = outer
        target = self.new()
        known.append(target)
        (then, a), (other, b) = branches
        return [test, ("if", condition, then, other, [(target, a, b)])]

    def _loop_body(self, known: list[str], depth: int) -> tuple[list[Statement], str]:
        """Inside a loop lanes that branch are not at one place: no meeting in branches there."""
        outer, self.is_uniform = self.is_uniform, False
        meets = self.can_meet
        inner = list(known)
        body = self.statement(inner, 0) + self.statement(inner, 0)
        self.can_meet = False
        if depth > 1:
            body += self.block(inner, depth - 2, 3)
        body += self._int(inner)
        self.is_uniform, self.can_meet = outer, meets
        return body, inner[-1]

    def _for(self, known: list[str], depth: int = 0) -> list[Statement]:
        few, count, mask = self.new(), self.new(), self.new()
        variable, argument, result = (self.new() for _ in range(3))
        initial = self.rng.choice(known)
        source = self.rng.choice(["lane", "tid", "one", self.rng.choice(known)])
        body, yielded = self._loop_body([*known, variable, argument], depth)
        known.append(result)
        carried = (result, argument, initial, yielded)
        return [
            ("const", mask, 7), ("int", few, "andi", source, mask), ("int", count, "addi", few, "zero"),
            ("for", variable, count, carried, body),
        ]  # fmt: skip

    def _while(self, known: list[str], depth: int = 0) -> list[Statement]:
        """Halves a number until it is zero: ends for every thread."""
        start, cap, argument, result, condition, half = (self.new() for _ in range(6))
        source = self.rng.choice(known)
        body, _ = self._loop_body([*known, argument], depth)
        known.append(result)
        before = [("cmp", condition, "ne", argument, "zero")]
        body = [*body, ("int", half, "shrui", argument, "one")]
        return [
            ("const", cap, 0xFF), ("int", start, "andi", source, cap),
            ("while", (result, argument, start), before, condition, argument, body, half),
        ]  # fmt: skip

    # -- meetings ---------------------------------------------------------------------------------

    def _meeting(self, word: str, target: str | None, *given: Any) -> Statement:
        self.place += 1
        return (word, self.place, target, *given)

    def _vote(self, known: list[str], depth: int = 0) -> list[Statement]:
        test, condition = self._condition(known)
        target = self.new()
        known.append(target)
        return [test, self._meeting("vote", target, "ballot", condition)]

    def _shuffle(self, known: list[str], depth: int = 0) -> list[Statement]:
        kind = self.rng.choice(["idx", "up", "down", "bfly"])
        lane, mask, target = self.new(), self.new(), self.new()
        value, by = self.rng.choices(known, k=2)
        known.append(target)
        return [
            ("const", mask, 31), ("int", lane, "andi", by, mask),
            self._meeting("shuffle", target, kind, value, lane, self.rng.choice([16, 32])),
        ]  # fmt: skip

    def _redux(self, known: list[str], depth: int = 0) -> list[Statement]:
        target = self.new()
        value = self.rng.choice(known)
        known.append(target)
        return [self._meeting("redux", target, self.rng.choice(["add", "max", "min"]), value)]

    def _mail(self, known: list[str], depth: int = 0) -> list[Statement]:
        """Each thread leaves a word, and reads that of another after the barrier."""
        shift, place, wrapped, target = (self.new() for _ in range(4))
        value = self.rng.choice(known)
        last = self.new()
        known.append(target)
        return [
            ("store", "mail", "tid", value), self._meeting("sync", None),
            ("const", shift, self.rng.randrange(self.threads)), ("const", last, self.threads - 1),
            ("int", place, "addi", "tid", shift), ("int", wrapped, "minui", place, last),
            ("load", target, "mail", wrapped), self._meeting("sync", None),
        ]  # fmt: skip


# -- text ------------------------------------------------------------------------------------------


class Text:
    """A program as text. Words are i32; a value has the type f32 only between two lines."""

    def __init__(self, program: Program, names: list[str]) -> None:
        self.lines: list[str] = []
        self.count = 0
        self.block(program.code)
        for number, name in enumerate(names):
            self.store(f"p{number}", "tid", name)

    def line(self, text: str) -> None:
        self.lines.append(f"      {text}")

    def fresh(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def index(self, name: str) -> str:
        made = self.fresh()
        self.line(f"%{made} = arith.index_cast %{name} : i32 to index")
        return made

    def store(self, where: str, index: str, value: str) -> None:
        self.line(f"pto.store %{value}, %{where}[%{self.index(index)}] : !pto.ptr<i32, gm>, i32")

    def block(self, code: list[Statement]) -> None:
        for statement in code:
            getattr(self, f"_{statement[0]}")(*statement[1:])

    def _const(self, target: str, value: int) -> None:
        self.line(f"%{target} = arith.constant {value} : i32")

    def _int(self, target: str, op: str, a: str, b: str) -> None:
        self.line(f"%{target} = arith.{op} %{a}, %{b} : i32")

    def _float(self, target: str, op: str, a: str, b: str) -> None:
        x, y, z = (self.fresh() for _ in range(3))
        self.line(f"%{x} = arith.bitcast %{a} : i32 to f32")
        self.line(f"%{y} = arith.bitcast %{b} : i32 to f32")
        self.line(f"%{z} = arith.{op} %{x}, %{y} : f32")
        self.line(f"%{target} = llvm.bitcast %{z} : f32 to i32")

    def _itof(self, target: str, source: str) -> None:
        x = self.fresh()
        self.line(f"%{x} = arith.sitofp %{source} : i32 to f32")
        self.line(f"%{target} = arith.bitcast %{x} : f32 to i32")

    def _cmp(self, target: str, predicate: str, a: str, b: str) -> None:
        self.line(f"%{target} = arith.cmpi {predicate}, %{a}, %{b} : i32")

    def _select(self, target: str, condition: str, a: str, b: str) -> None:
        self.line(f"%{target} = arith.select %{condition}, %{a}, %{b} : i32")

    def _load(self, target: str, where: str, index: str) -> None:
        self.line(f"%{target} = pto.load %{where}[%{self.index(index)}] : !pto.ptr<i32, gm> -> i32")

    def _store(self, where: str, index: str, value: str) -> None:
        self.store(where, index, value)

    def _atomic(self, op: str, where: str, index: str, value: str) -> None:
        place = self.fresh()
        self.line(
            f"%{place} = pto.addptr %{where}, %{self.index(index)} : !pto.ptr<i32, gm> -> !pto.ptr<i32, gm>"
        )
        self.line(
            f"%{self.fresh()} = pto.atomic_{op} %{place}, %{value} signed : !pto.ptr<i32, gm>, i32 -> i32"
        )

    def _if(self, condition: str, then: Any, other: Any, results: Any) -> None:
        ((target, a, b),) = results
        self.line(f"%{target} = scf.if %{condition} -> (i32) {{")
        self.block(then)
        self.line(f"scf.yield %{a} : i32")
        self.line("} else {")
        self.block(other)
        self.line(f"scf.yield %{b} : i32")
        self.line("}")

    def _for(self, variable: str, count: str, carried: Any, body: Any) -> None:
        result, argument, initial, yielded = carried
        self.line(
            f"%{result} = scf.for %{variable} = %zero to %{count} step %one "
            f"iter_args(%{argument} = %{initial}) -> (i32) : i32 {{"
        )
        self.block(body)
        self.line(f"scf.yield %{yielded} : i32")
        self.line("}")

    def _while(
        self, loop: Any, before: Any, condition: str, passed: str, body: Any, yielded: str
    ) -> None:
        result, argument, initial = loop
        self.line(f"%{result} = scf.while (%{argument} = %{initial}) : (i32) -> i32 {{")
        self.block(before)
        self.line(f"scf.condition(%{condition}) %{passed} : i32")
        self.line("} do {")
        self.line(f"^bb0(%{argument}: i32):")
        self.block(body)
        self.line(f"scf.yield %{yielded} : i32")
        self.line("}")

    def _sync(self, place: int, target: None) -> None:
        self.line("pto.syncthreads")

    def _vote(self, place: int, target: str, kind: str, condition: str) -> None:
        self.line(f"%{target} = pto.vote_{kind} %{condition} : i1 -> i32")

    def _shuffle(
        self, place: int, target: str, kind: str, value: str, lane: str, width: int
    ) -> None:
        self.line(
            f"%{target} = pto.shuffle_{kind} %{value}, %{lane} {{width = {width} : i32}} "
            ": i32, i32 -> i32"
        )

    def _redux(self, place: int, target: str, kind: str, value: str) -> None:
        self.line(f"%{target} = pto.redux_{kind} %{value} signed : i32 -> i32")


def module(body: str, arguments: list[str], threads: int) -> str:
    """A kernel that launches a section of `threads` threads on pointers to i32."""
    args = ", ".join(f"%{a}: !pto.ptr<i32, gm>" for a in arguments)
    return f"""module attributes {{pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>}} {{
  func.func @kernel({args}) attributes {{pto.kernel}} {{
    pto.section.simt<<<{threads}, 1, 1>>> {{
      %tid = pto.get_tid_x : i32
      %lane = pto.get_laneid : i32
{body}
    }}
    return
  }}
}}
"""
