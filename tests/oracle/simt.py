"""SIMT code, one thread after the other: each runs until it meets others, then the lanes of a warp at
the same operation act together, and all threads at a barrier. Plain Python, no arrays.

A program is a list of statements, tuples of a word and names; `run` executes it. Memory is a list of
words by name. Integers are kept as unsigned numbers of 32 bits."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

Statement = tuple[Any, ...]
MASK = 0xFFFFFFFF


def signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def to_f32(word: int) -> float:
    return struct.unpack("<f", struct.pack("<I", word))[0]


def from_f32(value: float) -> int:
    try:
        return struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        return 0x7F800000 if value > 0 else 0xFF800000


INTEGERS: dict[str, Callable[[int, int], int]] = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "andi": operator.and_,
    "ori": operator.or_,
    "xori": operator.xor,
    "shli": lambda a, b: a << b if b < 32 else 0,
    "shrui": lambda a, b: a >> b if b < 32 else 0,
    "shrsi": lambda a, b: signed(a) >> min(b, 31),
    "maxsi": lambda a, b: max(signed(a), signed(b)),
    "minui": min,
}
FLOATS: dict[str, Callable[[float, float], float]] = {
    "addf": operator.add,
    "subf": operator.sub,
    "mulf": operator.mul,
}
PREDICATES: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "slt": lambda a, b: signed(a) < signed(b),
    "sge": lambda a, b: signed(a) >= signed(b),
    "ult": operator.lt,
}
ATOMICS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "max": lambda a, b: max(signed(a), signed(b)),
    "min": lambda a, b: min(signed(a), signed(b)),
}


@dataclass
class Meeting:
    """What a thread waits at: the statement, its place in the text, and what it brings."""

    statement: Statement
    place: int
    given: tuple[Any, ...]


class Thread:
    """One thread: its names and where it is."""

    def __init__(self, number: int, code: list[Statement], memory: dict[str, list[int]]) -> None:
        self.number = number
        self.lane = number % 32
        self.names: dict[str, Any] = {"tid": number, "lane": self.lane}
        self.memory = memory
        self.waits: Meeting | None = None
        self.steps = self._block(code)
        self.done = False

    def go(self, answer: Any = None) -> None:
        """Run to the next meeting, or to the end."""
        try:
            self.waits = self.steps.send(answer)
        except StopIteration:
            self.waits, self.done = None, True

    def _block(self, code: list[Statement]) -> Generator[Meeting, Any, None]:
        for statement in code:
            yield from self._one(statement)

    def _one(self, statement: Statement) -> Generator[Meeting, Any, None]:  # noqa: C901
        names, (word, *rest) = self.names, statement
        if word == "const":
            names[rest[0]] = rest[1] & MASK
        elif word == "int":
            target, op, a, b = rest
            names[target] = INTEGERS[op](names[a], names[b]) & MASK
        elif word == "float":
            target, op, a, b = rest
            names[target] = from_f32(FLOATS[op](to_f32(names[a]), to_f32(names[b])))
        elif word == "itof":
            names[rest[0]] = from_f32(float(signed(names[rest[1]])))
        elif word == "cmp":
            target, predicate, a, b = rest
            names[target] = PREDICATES[predicate](names[a], names[b])
        elif word == "select":
            target, condition, a, b = rest
            names[target] = names[a] if names[condition] else names[b]
        elif word == "load":
            target, where, index = rest
            names[target] = self.memory[where][names[index]]
        elif word == "store":
            where, index, value = rest
            self.memory[where][names[index]] = names[value]
        elif word == "atomic":
            op, where, index, value = rest
            cells, at = self.memory[where], names[index]
            cells[at] = ATOMICS[op](cells[at], names[value]) & MASK
        elif word == "if":
            condition, then, other, results = rest
            taken = 1 if names[condition] else 2
            yield from self._block(then if taken == 1 else other)
            for result in results:
                names[result[0]] = names[result[taken]]
        elif word == "for":
            yield from self._for(rest)
        elif word == "while":
            yield from self._while(rest)
        else:
            yield from self._meet(statement)

    def _for(self, rest: list[Any]) -> Generator[Meeting, Any, None]:
        variable, count, (result, argument, initial, yielded), body = rest
        value = self.names[initial]
        for number in range(self.names[count]):
            self.names[variable], self.names[argument] = number, value
            yield from self._block(body)
            value = self.names[yielded]
        self.names[result] = value

    def _while(self, rest: list[Any]) -> Generator[Meeting, Any, None]:
        (result, argument, initial), before, condition, passed, body, yielded = rest
        value = self.names[initial]
        while True:
            self.names[argument] = value
            yield from self._block(before)
            if not self.names[condition]:
                break
            yield from self._block(body)
            value = self.names[yielded]
        self.names[result] = self.names[passed]

    def _meet(self, statement: Statement) -> Generator[Meeting, Any, None]:
        _, place, target, *given = statement
        values = tuple(self.names.get(g, g) if isinstance(g, str) else g for g in given)
        answer = yield Meeting(statement, place, values)
        if target is not None:
            self.names[target] = answer


# -- meetings --------------------------------------------------------------------------------------


def _vote(kind: str, group: list[Thread]) -> Any:
    given = {t.lane: bool(_waits(t).given[1]) for t in group}
    if kind == "ballot":
        return sum(1 << lane for lane, holds in given.items() if holds)
    answers = {
        "all": all(given.values()),
        "any": any(given.values()),
        "uni": len(set(given.values())) == 1,
    }
    return answers[kind]


def _shuffle(thread: Thread, group: list[Thread]) -> int:
    kind, own, lane, width = _waits(thread).given
    held = {t.lane: _waits(t).given[1] for t in group}
    base, local = thread.lane // width * width, thread.lane % width
    other = {
        "idx": lane % width, "up": local - lane, "down": local + lane, "bfly": local ^ lane,
    }[kind]  # fmt: skip
    if not 0 <= other < width:
        return own
    return held.get(base + other, own)


def _redux(kind: str, group: list[Thread]) -> int:
    given = [_waits(t).given[1] for t in group]
    if kind == "add":
        return sum(given) & MASK
    return (max if kind == "max" else min)(map(signed, given)) & MASK


def _waits(thread: Thread) -> Meeting:
    assert thread.waits is not None
    return thread.waits


def _act(group: list[Thread]) -> None:
    word = _waits(group[0]).statement[0]
    kind = _waits(group[0]).given[0]
    if word == "shuffle":
        answers = [_shuffle(t, group) for t in group]
    else:
        answer = _vote(kind, group) if word == "vote" else _redux(kind, group)
        answers = [answer] * len(group)
    for thread, answer in zip(group, answers, strict=True):
        thread.go(answer)


class Deadlock(Exception):
    """Threads wait at a barrier for others that never come."""


def run(code: list[Statement], count: int, memory: dict[str, list[int]]) -> list[dict[str, Any]]:
    """Execute a program for `count` threads; returns their names. Changes `memory`."""
    threads = [Thread(n, code, memory) for n in range(count)]
    for thread in threads:
        thread.go()
    while any(not t.done for t in threads):
        at_barrier = [t for t in threads if t.waits and t.waits.statement[0] == "sync"]
        moved = False
        for first in range(0, count, 32):
            warp = threads[first : first + 32]
            waiting = [t for t in warp if t.waits and t.waits.statement[0] != "sync"]
            if waiting:
                place = min(_waits(t).place for t in waiting)
                _act([t for t in waiting if _waits(t).place == place])
                moved = True
        if moved:
            continue
        if len(at_barrier) < count:
            raise Deadlock
        for thread in at_barrier:
            thread.go()
    return [t.names for t in threads]
