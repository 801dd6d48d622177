"""Follows the texts of these tests line by line on given numbers, knowing nothing of the simulator:
which operation has happened before which is asked of sets of operations, one by one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

LIMIT = 4000
"""Lines that are executed."""
PIPES = ("PIPE_MTE2", "PIPE_MTE3")
_OPS = {
    "addi": lambda a, b: a + b, "subi": lambda a, b: a - b, "muli": lambda a, b: a * b,
    "remui": lambda a, b: (a % (1 << 64)) % (b % (1 << 64)),
    "divui": lambda a, b: (a % (1 << 64)) // (b % (1 << 64)),
    "ceildivui": lambda a, b: -(-(a % (1 << 64)) // (b % (1 << 64))),
    "divsi": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "remsi": lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1),
    "minsi": min, "maxsi": max, "andi": lambda a, b: a & b,
}  # fmt: skip
_SIGNS = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b, "sgt": lambda a, b: a > b, "sge": lambda a, b: a >= b,
    "ugt": lambda a, b: a % (1 << 64) > b % (1 << 64),
}  # fmt: skip


class TooLong(Exception):
    """The text does not end soon."""


class _Stuck(Exception):
    """Nothing can move any more."""


def faults(text: str, values: Mapping[str, int]) -> set[str]:
    """Return the kinds of faults that a kernel of these tests has on numbers: `race`, `hang`,
    `unset` (bytes that nothing wrote), `twice` (a flag that is set while it is set), `left` (a flag
    that nobody waits for). Raises TooLong."""
    body = text[text.index("{", text.index("func.func")) + 1 :]
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    machine = _Machine(values)
    try:
        machine.block(lines, 0)
        machine.end()
    except _Stuck:
        machine.faults.add("hang")
    return machine.faults


class _Machine:
    """One core: what pipes have before them, and what each of them knows to be done."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self.env: dict[str, Any] = {f"%{n}": v for n, v in values.items()}
        self.values = values
        self.faults: set[str] = set()
        self.lines = self.names = 0
        self.knows: dict[str, set[int]] = {pipe: set() for pipe in PIPES}
        self.flags: dict[tuple[str, ...], list[set[int]]] = {}
        self.tiles: dict[str, tuple[set[int], set[int]]] = {}  # which wrote, which read

    # -- lines -------------------------------------------------------------------------------------

    def block(self, lines: list[str], at: int) -> int:
        """Execute lines up to the end of their block; return where that is."""
        while not lines[at].startswith(("}", "return", "scf.yield", "scf.condition")):
            self.lines += 1
            if self.lines > LIMIT:
                raise TooLong
            at = self.line(lines, at)
        return at

    def line(self, lines: list[str], at: int) -> int:
        line = lines[at]
        if line.startswith("scf.if"):
            return self.branch(lines, at)
        if line.startswith("scf.for"):
            return self.loop(lines, at)
        if "scf.while" in line:
            return self.conditioned(lines, at)
        self.plain(line)
        return at + 1

    def branch(self, lines: list[str], at: int) -> int:
        middle = _close(lines, at)
        has_else = lines[middle].startswith("} else")
        end = _close(lines, middle) if has_else else middle
        if self.env[lines[at].split()[1]]:
            self.block(lines, at + 1)
        elif has_else:
            self.block(lines, middle + 1)
        return end + 1

    def loop(self, lines: list[str], at: int) -> int:
        _, variable, _, first, _, last, _, step, _ = lines[at].split()
        now, end = self.env[first], self.env[last]
        while now < end:
            self.env[variable] = now
            self.block(lines, at + 1)
            now += self.env[step]
        return _close(lines, at) + 1

    def conditioned(self, lines: list[str], at: int) -> int:
        result, variable, first = re.match(
            r"(%\w+) = scf.while \((%\w+) = (%\w+)\)", lines[at]
        ).groups()  # type: ignore[union-attr]
        middle = _close(lines, at)
        inner = re.match(r"\^bb0\((%\w+):", lines[middle + 1])[1]  # type: ignore[index]
        self.env[variable] = self.env[first]
        while True:
            test = self.block(lines, at + 1)
            holds, passed = re.match(r"scf.condition\((%\w+)\) (%\w+)", lines[test]).groups()  # type: ignore[union-attr]
            self.env[inner] = self.env[result] = self.env[passed]
            if not self.env[holds]:
                return _close(lines, middle) + 1
            end = self.block(lines, middle + 2)
            self.env[variable] = self.env[lines[end].split()[1]]

    def plain(self, line: str) -> None:
        target, _, made = line.partition(" = ")
        words = re.findall(r"[%\w.]+", made)
        match made.split(" ")[0]:
            case "arith.constant":
                self.env[target] = int(words[1])
            case "arith.cmpi":
                self.env[target] = _SIGNS[words[1]](self.env[words[2]], self.env[words[3]])
            case "arith.index_cast":
                self.env[target] = self.env[words[1]]
            case "pto.get_block_idx":
                self.env[target] = self.values["block"]
            case "pto.load_scalar":
                self.env[target] = self.values[f"{words[1][1:]}[{self.env[words[2]]}]"]
            case "pto.alloc_tile":
                self.tiles[target] = (set(), set())
            case word if word.startswith("arith."):
                self.env[target] = _OPS[word[6:]](self.env[words[1]], self.env[words[2]])
            case "":
                self.effect(line)

    # -- pipes -------------------------------------------------------------------------------------

    def effect(self, line: str) -> None:
        key = tuple(re.findall(r"<(\w+)>", line))
        if line.startswith("pto.tload"):
            self.access(re.findall(r"outs\((%\w+)", line)[0], "PIPE_MTE2", is_write=True)
        elif line.startswith("pto.tstore"):
            self.access(re.findall(r"ins\((%\w+)", line)[0], "PIPE_MTE3", is_write=False)
        elif line.startswith("pto.set_flag"):
            waiting = self.flags.setdefault(key, [])
            self.faults |= {"twice"} if waiting else set()
            waiting.append(set(self.knows[key[0]]))
        elif line.startswith("pto.wait_flag"):
            if not self.flags.get(key):
                raise _Stuck
            self.knows[key[1]] |= self.flags[key].pop(0)
        elif line.startswith("pto.barrier") and key == ("PIPE_ALL",):
            every = set().union(*self.knows.values())
            self.knows = {pipe: set(every) for pipe in PIPES}

    def access(self, tile: str, pipe: str, *, is_write: bool) -> None:
        """An operation of a pipe: all before it on other pipes that it meets have to be known."""
        self.names += 1
        wrote, read = self.tiles[tile]
        known = self.knows[pipe]
        if not wrote <= known or (is_write and not read <= known):
            self.faults.add("race")
        if not is_write and not wrote:
            self.faults.add("unset")
        (wrote if is_write else read).add(self.names)
        known.add(self.names)

    def end(self) -> None:
        if any(self.flags.values()):
            self.faults.add("left")


def _close(lines: list[str], at: int) -> int:
    """Where the block that a line opens ends."""
    depth = 0
    for n in range(at + 1, len(lines)):
        if lines[n].startswith("}"):
            if depth == 0:
                return n
            depth -= 1
        if lines[n].endswith("{"):
            depth += 1
    raise AssertionError(lines[at])
