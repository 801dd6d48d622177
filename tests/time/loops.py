"""Programs of loops, made at random: nested loops, several blocks, flags that rotate, windows that
move, conditions and lengths that depend on the round, FIFOs; and shipped programs with longer
loops."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

_HEAD = """module attributes {pto.target_arch = "a5"} {
  func.func @kernel(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) {
    %block = pto.get_block_idx
    %base = arith.index_cast %block : i64 to index
"""
_VIEW, _PART = "!pto.tensor_view<?x64xf32>", "!pto.partition_tensor_view<16x64xf32>"
_TILE = "!pto.tile_buf<vec, 16x64xf32>"
_SMALL = "!pto.tile_buf<vec, 8x8xf32>"
_DYNAMIC = "[#pto.pipe<PIPE_{0}>, #pto.pipe<PIPE_{1}>, {2}]"
_PAIRS = (
    ("MTE2", "V"),
    ("V", "MTE3"),
    ("V", "MTE2"),
    ("MTE3", "V"),
    ("MTE3", "MTE2"),
    ("MTE2", "S"),
)


class Loops:
    """One random program; its text is `text`."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.names = 0
        self.constants: dict[int, str] = {}
        self.is_auto = self.rng.random() < 0.4
        self.handed: list[tuple[str, str, str]] = []  # flags that are given before the loops
        self._loop(["%n"], 0)
        if self.rng.random() < 0.5:
            self._loop(["%n"], 0)
        self._item("%c1", 0)

    @property
    def text(self) -> str:
        """The program."""
        constants = [
            f"%c{v} = arith.constant {v} : index" for v in sorted({0, 1, 16, 64, *self.constants})
        ]
        views = [
            f"%v{name} = pto.make_tensor_view %{name}, shape = [%n, %c64], strides = [%c64, %c1] : {_VIEW}"
            for name in "xy"
        ]
        tiles = [f"%t{i} = pto.alloc_tile : {_TILE}" for i in range(4)]
        tiles += [f"%s{i} = pto.alloc_tile : {_SMALL}" for i in range(2)]
        gives = [f"pto.set_flag_dyn{_DYNAMIC.format(*flag)}" for flag in self.handed]
        takes = [f"pto.wait_flag_dyn{_DYNAMIC.format(*flag)}" for flag in self.handed]
        body = [*constants, *views, *tiles, *gives, *self.lines, *takes, "return"]
        return _HEAD + "\n".join(f"    {line}" for line in body) + "\n  }\n}\n"

    def _new(self) -> str:
        self.names += 1
        return f"%r{self.names}"

    def _constant(self, value: int) -> str:
        return self.constants.setdefault(value, f"%c{value}")

    def _loop(self, bounds: list[str], depth: int) -> None:
        variable, rng = self._new(), self.rng
        step = self._constant(rng.choice((1, 1, 2, 16)))
        end = bounds[0]
        if step != "%c1":
            end = self._new()
            self.lines.append(f"{end} = arith.muli {bounds[0]}, {step} : index")
        self.lines.append(f"scf.for {variable} = %c0 to {end} step {step} {{")
        for _ in range(rng.randrange(1, 6)):
            self._item(variable, depth)
        self.lines.append("}")

    def _item(self, variable: str, depth: int) -> None:
        rng = self.rng
        kinds = [self._load, self._load, self._store, self._compute, self._compute, self._choice]
        if not self.is_auto:
            kinds += [self._flag, self._flag, self._ring, self._barrier]
        if depth < 2:
            kinds.append(self._inner)
        rng.choice(kinds)(variable, depth)

    def _window(self, name: str, variable: str) -> str:
        window, row = self._new(), self._new()
        moved = self.rng.choice(("%c0", variable, variable, "%base"))
        self.lines.append(
            f"{row} = arith.muli {moved}, {self._constant(self.rng.choice((0, 1, 16)))} : index"
        )
        self.lines.append(
            f"{window} = pto.partition_view %v{name}, offsets = [{row}, %c0], sizes = [%c16, %c64] : "
            f"{_VIEW} -> {_PART}"
        )
        return window

    def _load(self, variable: str, depth: int) -> None:
        window = self._window(self.rng.choice("xxxy"), variable)
        self.lines.append(
            f"pto.tload ins({window} : {_PART}) outs(%t{self.rng.randrange(4)} : {_TILE})"
        )

    def _store(self, variable: str, depth: int) -> None:
        window = self._window(self.rng.choice("yyyx"), variable)
        self.lines.append(
            f"pto.tstore ins(%t{self.rng.randrange(4)} : {_TILE}) outs({window} : {_PART})"
        )

    def _compute(self, variable: str, depth: int) -> None:
        if self.rng.random() < 0.3:
            self.lines.append(f"pto.texp ins(%s0 : {_SMALL}) outs(%s1 : {_SMALL})")
            return
        a, b, c = (self.rng.randrange(4) for _ in range(3))
        self.lines.append(f"pto.tmul ins(%t{a}, %t{b} : {_TILE}, {_TILE}) outs(%t{c} : {_TILE})")

    def _choice(self, variable: str, depth: int) -> None:
        rest, test, rng = self._new(), self._new(), self.rng
        number = self._constant(rng.choice((2, 3, 4)))
        if rng.random() < 0.3:
            self.lines.append(f"{test} = arith.cmpi sgt, {variable}, {self._constant(40)} : index")
        else:
            self.lines.append(f"{rest} = arith.remui {variable}, {number} : index")
            self.lines.append(f"{test} = arith.cmpi eq, {rest}, %c0 : index")
        self.lines.append(f"scf.if {test} {{")
        self._item(variable, 9)
        self.lines.append("}")

    def _flag(self, variable: str, depth: int) -> None:
        source, target = self.rng.choice(_PAIRS)
        names = _DYNAMIC.format(source, target, self._constant(self.rng.randrange(4)))
        self.lines.append(f"pto.set_flag_dyn{names}")
        if self.rng.random() < 0.7:
            self._compute(variable, depth)
        self.lines.append(f"pto.wait_flag_dyn{names}")

    def _ring(self, variable: str, depth: int) -> None:
        """A buffer that is handed back some rounds later: one event for each of them."""
        source, target = self.rng.choice(_PAIRS[:5])
        count, first = self.rng.choice((2, 3)), 4
        if any(flag[:2] == (source, target) for flag in self.handed):
            return
        number, event = self._new(), self._new()
        self.handed += [(source, target, self._constant(first + i)) for i in range(count)]
        self.lines.append(f"{number} = arith.remui {variable}, {self._constant(count)} : index")
        self.lines.append(f"{event} = arith.addi {number}, {self._constant(first)} : index")
        self.lines.append(f"pto.wait_flag_dyn{_DYNAMIC.format(source, target, event)}")
        self._compute(variable, depth)
        self.lines.append(f"pto.set_flag_dyn{_DYNAMIC.format(source, target, event)}")

    def _barrier(self, variable: str, depth: int) -> None:
        self.lines.append(f"pto.barrier <PIPE_{self.rng.choice(('V', 'MTE2', 'ALL'))}>")

    def _inner(self, variable: str, depth: int) -> None:
        end = self._constant(self.rng.choice((1, 3, 3, 70) if depth == 0 else (1, 3)))
        if self.rng.random() < 0.3:
            end = self._new()
            self.lines.append(f"{end} = arith.remui {variable}, {self._constant(3)} : index")
        self._loop([end], depth + 1)


_FOR = re.compile(r"^(\s*)(.*scf\.for %\w+ = )(%\w+)( to )(%\w+)( step )(%\w+)(.*)$")


class Nest(Loops):
    """A program of two or three loops in one another, each with something around the inner one.
    Trip counts are the same in each round, or depend on the round of the loop around."""

    def __init__(self, seed: int) -> None:
        self.depths = random.Random(seed).choice((2, 2, 3))
        self.around: list[str] = []
        super().__init__(seed)

    def _loop(self, bounds: list[str], depth: int) -> None:
        variable, rng = self._new(), self.rng
        self.lines.append(f"scf.for {variable} = %c0 to {bounds[0]} step %c1 {{")
        for _ in range(rng.randrange(0, 3)):
            self._item(variable, 9)
        if depth + 1 < self.depths:
            self._loop([self._bound(variable, bounds[0])], depth + 1)
        for _ in range(rng.randrange(0 if depth + 1 < self.depths else 1, 3)):
            self._item(variable, 9)
        self.lines.append("}")

    def _bound(self, variable: str, end: str) -> str:
        """The trip count of a loop in one of `end` rounds."""
        kind, made = self.rng.randrange(8), self._new()
        if kind < 4:
            return "%n"
        if kind < 6:
            what = f"arith.addi %n, {variable}" if kind == 4 else f"arith.subi {end}, {variable}"
            self.lines.append(f"{made} = {what} : index")
            return made
        rest = self._new()
        self.lines.append(f"{rest} = arith.remui {variable}, {self._constant(kind - 4)} : index")
        self.lines.append(f"{made} = arith.addi %n, {rest} : index")
        return made


def outer_loops(text: str) -> Iterator[int]:
    """Yield the lines (from 0) of the loops that are in no other loop."""
    level, inside = 0, []
    for number, line in enumerate(text.split("\n")):
        code = line.split("//")[0]
        if _FOR.match(code):
            if not inside:
                yield number
            inside.append(level)
        level += code.count("{") - code.count("}")
        while inside and level <= inside[-1]:
            inside.pop()


def raised(text: str, which: set[int], rounds: int) -> str:
    """Return a program whose loops of some lines have so many rounds."""
    lines = []
    for number, line in enumerate(text.split("\n")):
        found = _FOR.match(line) if number in which else None
        if found is None:
            lines.append(line)
            continue
        space, head, low, to, _, by, step, rest = found.groups()
        typed = re.search(r": (i\d+) \{", rest)
        type_ = typed.group(1) if typed and "->" not in rest else "index"
        lines += [
            f"{space}%rounds{number} = arith.constant {rounds} : {type_}",
            f"{space}%length{number} = arith.muli %rounds{number}, {step} : {type_}",
            f"{space}%end{number} = arith.addi {low}, %length{number} : {type_}",
            f"{space}{head}{low}{to}%end{number}{by}{step}{rest}",
        ]
    return "\n".join(lines)
