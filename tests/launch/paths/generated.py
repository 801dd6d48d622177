"""Kernels made at random of parts that are right: loops in loops with flags, barriers, buffers in
turn, flags and places by number, rows of memory, guards. Most get a fault in one line, in some
rounds or for some numbers only. `concrete` puts numbers in the place of what is not known."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

TILE, ROW_TILE = "!pto.tile_buf<vec, 16x64xf32>", "!pto.tile_buf<vec, 1x64xf32>"
OPEN_TILE = "!pto.tile_buf<loc=vec, dtype=f32, rows=16, cols=64, v_row=?, v_col=64, blayout=row_major, slayout=none_box, fractal=512, pad=0>"  # fmt: skip
VIEW, PART = "!pto.tensor_view<?x64xf32>", "!pto.partition_tensor_view<{}x64xf32>"
FENCE = "pto.barrier <PIPE_ALL>"
IN, ADD, OUT = "PIPE_MTE2", "PIPE_V", "PIPE_MTE3"
LATER = 600
"""Seeds from here on make kernels whose sizes and places nothing but numbers says."""
SIZE = 4096
"""Bytes of a tile, and rows of a view."""

_STEPS = {
    "remui": (2, 3, 4, 5, 7), "muli": (2, 3, 5), "addi": (1, 2, 5, 9), "subi": (1, 2, 5, 9),
    "minsi": (2, 5, 9, 13), "maxsi": (2, 5, 9), "divui": (2, 3, 4, 8), "andi": (1, 2, 3, 4, 7, 8),
    "xori": (1, 2, 5), "shrui": (1, 2, 3),
}  # fmt: skip
_SIGNS = ("eq", "eq", "eq", "ne", "slt", "sge", "sgt", "sle", "ult")
_LIMITS = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 13, 16, 17, 19)

Body = Callable[[], None]


class Line(NamedTuple):
    """A line, what has a number there, and of that what counts rounds."""

    text: str
    scope: tuple[str, ...]
    rounds: tuple[str, ...]


class Made:
    """A kernel of two arguments, %n and %m; `values` are numbers at which something changes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[Line] = []
        self.scope, self.rounds = ["%n", "%m"], list[str]()
        self.constants: dict[int, str] = {}
        self.names = self.address = self.event = 0
        self.blocks = False
        parts = [self._plain, self._fenced, self._handed, self._in_turn, self._in_memory,
                 self._hoisted, self._filled, self._stages, self._extents, self._placed]  # fmt: skip
        if seed >= LATER:
            parts = [self._sized, self._sized, self._rows, self._rows, self._split]
        for _ in range(self.random.choice((1, 1, 1, 2))):
            self._guarded(self.random.choice(parts))
        for _ in range(self.random.choice((0, 1, 1, 1, 2))):
            self._break()

    @property
    def values(self) -> list[int]:
        """Numbers at which something changes, and their neighbours."""
        near = {v + d for v in self.constants for d in (-1, 0, 1)}
        return sorted(v for v in near | {0, 1, 2, 5} if v >= 0)

    def text(self) -> str:
        """The kernel as a text."""
        for value in (0, 1, 64, SIZE):
            self.number(value)
        made = [f"{name} = arith.constant {v} : index" for v, name in self.constants.items()]
        made += [
            f"%v{b} = pto.make_tensor_view %{b}, shape = [%k4096, %k64], strides = [%k64, %k1] : {VIEW}"
            for b in "xyz"
        ]
        body = "\n".join((*made, *(line.text for line in self.lines)))
        pointers = ", ".join(f"%{b}: !pto.ptr<f32>" for b in "xyz")
        return (
            'module attributes {pto.target_arch = "a3"} {\n'
            f"func.func @k({pointers}, %d: !pto.ptr<i32>, %n: index, %m: index) {{\n"
            f"{body}\nreturn\n}}\n}}\n"
        )

    # -- numbers -----------------------------------------------------------------------------------

    def is_so(self, chance: float) -> bool:
        return self.random.random() < chance

    def pick(self, *every):
        return self.random.choice(every)

    def emit(self, text: str) -> None:
        self.lines.append(Line(text, tuple(self.scope), tuple(self.rounds)))

    def name(self) -> str:
        self.names += 1
        return f"%g{self.names}"

    def number(self, value: int | str) -> str:
        return value if isinstance(value, str) else self.constants.setdefault(value, f"%k{value}")

    def op(self, text: str) -> str:
        name = self.name()
        self.emit(f"{name} = {text}")
        return name

    def sum(self, word: str, one: str, other: int | str) -> str:
        return self.op(f"arith.{word} {one}, {self.number(other)} : index")

    def select(self, condition: str, one: int | str, other: int | str) -> str:
        return self.op(
            f"arith.select {condition}, {self.number(one)}, {self.number(other)} : index"
        )

    def scalar(self) -> str:
        """Something in scope, or what is made of it."""
        value = self.random.choice(self.scope + self.rounds * 3)
        for _ in range(self.pick(0, 0, 1, 1, 2)):
            word = self.pick(*_STEPS, "select", "from")
            if word == "select":
                value = self.select(self.compared(value), value, self.pick(0, 1, 3, 6))
            elif word == "from":
                value = self.sum("subi", self.pick("%n", "%m"), value)
            else:
                value = self.sum(word, value, self.pick(*_STEPS[word]))
        return value

    def compared(self, value: str) -> str:
        way = self.random.randrange(6)
        other = self.random.choice(self.scope) if way == 1 else self.number(self.pick(*_LIMITS))
        if way == 0 and self.rounds:
            other = self.sum("subi", self.pick("%n", "%n", "%m"), self.pick(1, 2, 3, 4, 5))
        return self.op(f"arith.cmpi {self.pick(*_SIGNS)}, {value}, {other} : index")

    def condition(self) -> str:
        made = self.compared(self.scalar())
        if self.is_so(0.25):
            other = self.compared(self.scalar())
            made = self.op(f"arith.{self.pick('andi', 'ori')} {made}, {other} : i1")
        return made

    def row(self, variable: str = "") -> str:
        """A row of a view, often the one of the round."""
        at = variable or self.pick("%m", "%n", self.number(2), self.number(6))
        way = self.random.randrange(11)
        if way > 5:
            return at
        if way == 5:
            return self.sum("subi", "%n" if self.is_so(0.3) else self.number(40), at)
        if way == 4:
            return self.select(self.compared(at), at, self.pick(0, 3, 40))
        word, by = (("addi", (1, 2, 3, 16)), ("muli", (2, 16, 17)), ("remui", (2, 3, 4, 7)),
                    ("minsi", (3, 9, 14)))[way]  # fmt: skip
        return self.sum(word, at, self.pick(*by))

    # -- blocks ------------------------------------------------------------------------------------

    def block(self, header: str, body: Body, footer: str = "}", *more: str) -> None:
        self.emit(header)
        scope, rounds = self.scope, self.rounds
        self.scope, self.rounds = [*scope, *more], [*rounds, *more]
        body()
        self.scope, self.rounds = scope, rounds
        self.emit(footer)

    def only(self, condition: str, body: Body) -> None:
        self.block(f"scf.if {condition} {{", body)

    def end(self) -> str:
        """How many rounds, or so."""
        way = self.random.randrange(12)
        if way < 7:
            return "%n" if way < 5 else "%m"
        words = (("addi", self.pick(1, 2, 5)), ("divui", self.pick(2, 3, 4)), ("subi", 1),
                 ("minsi", self.pick(3, 7, 12, "%m")), ("addi", "%m"))  # fmt: skip
        word, by = words[way - 7]
        return self.sum(word, "%n", by)

    def inner_end(self, outer: str) -> str:
        """How many rounds a loop in a loop makes: often by the round of the outer one."""
        way = self.random.randrange(6)
        if way == 0:
            return self.pick("%m", "%n", self.number(2), self.number(3))
        if way == 1:
            left = self.sum("subi", "%n", self.sum("muli", outer, 4))
            return self.sum("minsi", left, 4)
        if way == 2:
            return self.sum("subi", "%n", outer)
        word, by = (("addi", 1), ("remui", self.pick(2, 3)), ("minsi", self.pick(2, 3, 5)))[way - 3]
        return self.sum(word, outer, by)

    def loop(self, body: Callable[[str], None], end: str = "") -> None:
        """Rounds: counted ones, as long as a condition holds, with a number that is carried."""
        end, variable = end or self.end(), self.name()
        kind = self.pick("for", "for", "for", "while", "step", "carried")
        if kind == "while":
            self._conditioned(body, end, variable)
        elif kind == "carried":
            self._carried(body, end, variable)
        else:
            first, step = (self.pick(0, 1, 2), self.pick(1, 2, 3)) if kind == "step" else (0, 1)
            header = f"{self.number(first)} to {end} step {self.number(step)}"
            self.block(f"scf.for {variable} = {header} {{", lambda: body(variable), "}", variable)

    def _carried(self, body: Callable[[str], None], end: str, variable: str) -> None:
        held, made, first = self.name(), self.name(), self.number(self.pick(0, 0, 1, 3))
        way = self.random.randrange(3)

        def inner() -> None:
            body(self.pick(variable, held) if way == 0 else variable)
            if way == 0:
                then = self.sum("addi", held, self.pick(1, 1, 2))
            elif way == 1:
                then = self.sum("subi", self.number(1), held)
            else:
                more = self.sum("addi", held, 1)
                limit = self.number(self.pick(2, 3, 4, 5))
                then = self.select(self.op(f"arith.cmpi sge, {more}, {limit} : index"), 0, more)
            self.emit(f"scf.yield {then} : index")

        header = f"{self.number(0)} to {end} step {self.number(1)} iter_args({held} = {first})"
        header = f"{made} = scf.for {variable} = {header} -> (index) {{"
        self.block(header, inner, "}", variable, held)
        self.scope.append(made)

    def _conditioned(self, body: Callable[[str], None], end: str, variable: str) -> None:
        at, left = self.name(), self.name()

        def test() -> None:
            sign = self.pick("slt", "slt", "sle", "ult")
            more = self.op(f"arith.cmpi {sign}, {at}, {end} : index")
            if self.is_so(0.25):  # an early exit
                more = self.op(f"arith.andi {more}, {self.compared(at)} : i1")
            self.emit(f"scf.condition({more}) {at} : index")

        def inner() -> None:
            body(variable)
            self.emit(f"scf.yield {self.sum('addi', variable, 1)} : index")

        header = f"{left} = scf.while ({at} = {self.number(0)}) : (index) -> index {{"
        self.block(header, test, "} do {", at)
        self.block(f"^bb0({variable}: index):", inner, "}", variable)

    # -- operations --------------------------------------------------------------------------------

    def tile(self, at: int | str = -1, type_: str = TILE) -> str:
        if at == -1:
            at, self.address = self.address, self.address + SIZE
        address = self.op(
            f"arith.constant {at} : i64"
            if isinstance(at, int)
            else f"arith.index_cast {at} : index to i64"
        )
        return self.op(f"pto.alloc_tile addr = {address} : {type_}")

    def window(self, of: str, row: int | str, rows: int) -> tuple[str, str]:
        part, zero = PART.format(rows), self.number(0)
        sizes = f"offsets = [{self.number(row)}, {zero}], sizes = [{self.number(rows)}, {self.number(64)}]"
        return self.op(f"pto.partition_view %v{of}, {sizes} : {VIEW} -> {part}"), part

    def load(self, tile: str, row: int | str, of: str = "x", type_: str = TILE) -> None:
        window, part = self.window(of, row, 16 if type_ == TILE else 1)
        self.emit(f"pto.tload ins({window} : {part}) outs({tile} : {type_})")

    def store(self, tile: str, row: int | str, of: str = "y", type_: str = TILE) -> None:
        window, part = self.window(of, row, 16 if type_ == TILE else 1)
        self.emit(f"pto.tstore ins({tile} : {type_}) outs({window} : {part})")

    def flag(self, word: str, one: str, other: str, event: int | str) -> None:
        if isinstance(event, int):
            self.emit(f"pto.{word}_flag[<{one}>, <{other}>, <EVENT_ID{event}>]")
        else:
            self.emit(f"pto.{word}_flag_dyn[<{one}>, <{other}>, {event}]")

    def ordered(self, one: str, other: str, event: int | str) -> None:
        self.flag("set", one, other, event)
        self.flag("wait", one, other, event)

    def events(self, count: int) -> list[int]:
        made = [(self.event + n) % 8 for n in range(count)]
        self.event += count
        return made

    def fence(self) -> None:
        self.emit(FENCE)

    # -- parts -------------------------------------------------------------------------------------

    def _plain(self) -> None:
        tile, (event,) = self.tile(), self.events(1)
        self.load(tile, self.row() if self.is_so(0.4) else 0)
        self.ordered(IN, OUT, event)
        self.store(tile, self.row() if self.is_so(0.4) else 0)
        self.fence()

    def _nested(self, body: Callable[[str], None], chance: float) -> None:
        if self.is_so(chance):
            self.loop(lambda outer: self.loop(body, self.inner_end(outer)))
        else:
            self.loop(body)

    def _fenced(self) -> None:
        tile, (event,) = self.tile(), self.events(1)

        def inner(at: str) -> None:
            self.load(tile, self.row(at))
            self.ordered(IN, OUT, event)
            self.store(tile, self.row(at))
            self.fence()

        self._nested(inner, 0.4)

    def _handed(self) -> None:
        """Rounds that use a tile in turn: each waits until the one before has stored it."""
        tile, (event, free) = self.tile(), self.events(2)
        has_guard = self.is_so(0.2)
        self.flag("set", OUT, IN, free)

        def work(at: str) -> None:
            self.flag("wait", OUT, IN, free)
            self.load(tile, self.row(at))
            self.ordered(IN, OUT, event)
            self.store(tile, self.row(at))
            self.flag("set", OUT, IN, free)

        def inner(at: str) -> None:
            if has_guard:
                self.only(self.condition(), lambda: work(at))
            else:
                work(at)

        self._nested(inner, 0.3)
        self.flag("wait", OUT, IN, free)
        self.fence()

    def _in_turn(self) -> None:
        """Two to five buffers in turn, each with flags of its number."""
        count = self.pick(2, 2, 3, 4, 5)
        base, self.address = self.address, self.address + SIZE * count
        multi = TILE.replace("tile_buf", "multi_tile_buf").replace(">", f", count={count}>")
        is_multi = self.is_so(0.6)
        if is_multi:
            start = self.op(f"arith.constant {base} : i64")
            every = self.op(f"pto.alloc_multi_tile addr = {start} : {multi}")
        for n in range(count):
            self.flag("set", OUT, IN, self.number(n))

        def inner(at: str) -> None:
            slot = self.sum("remui", at, count)
            if is_multi:
                tile = self.op(f"pto.multi_tile_get {every}[{slot}] : {multi} -> {TILE}")
            else:
                tile = self.tile(self.sum("addi", self.sum("muli", slot, SIZE), base))
            self.flag("wait", OUT, IN, slot)
            self.load(tile, self.row(at))
            self.ordered(IN, OUT, slot)
            self.store(tile, self.row(at))
            self.flag("set", OUT, IN, slot)

        self.loop(inner)
        for n in range(count):
            self.flag("wait", OUT, IN, self.number(n))
        self.fence()

    def _in_memory(self) -> None:
        """Rows of one buffer that are stored and loaded: in the same rounds, or outside of them."""
        one, other = self.tile(type_=ROW_TILE), self.tile(type_=ROW_TILE)
        self.load(one, 0, "x", ROW_TILE)
        self.fence()
        store = lambda at: self.store(one, self.row(at), "z", ROW_TILE)  # noqa: E731
        load = lambda at: self.load(other, at, "z", ROW_TILE)  # noqa: E731

        def inner(at: str) -> None:
            store(at)
            if self.is_so(0.6):
                self.fence()
            load(self.row(at))

        way = self.random.randrange(4)
        if way == 0:
            load(self.pick(0, 5, 11))
        if way == 3:
            store("")
        else:
            self.loop(inner if way == 1 else store)
        if way != 1 and self.is_so(0.5):
            self.fence()
        if way >= 2:
            load(self.row() if self.is_so(0.5) else self.pick(3, 9, 12))
        self.fence()

    def _hoisted(self) -> None:
        """A flag that is set before a loop and waited for after it, both under a condition."""
        tile, (event,) = self.tile(), self.events(1)
        is_any = self.op(f"arith.cmpi sgt, %n, {self.number(0)} : index")
        condition = self.condition() if self.is_so(0.5) else is_any
        self.only(condition, lambda: self.flag("set", IN, OUT, event))
        self.loop(lambda at: (self.load(tile, self.row(at)), self.fence()), "%n")  # type: ignore[func-returns-value]
        self.only(condition, lambda: self.flag("wait", IN, OUT, event))
        self.fence()

    def _filled(self) -> None:
        """A tile that some rounds fill, and others read, or what follows."""
        tile, first = self.tile(), self.pick(0, 0, 3)

        def fill(at: str) -> None:
            self.load(tile, self.row(at))
            self.fence()

        def inner(at: str) -> None:
            first_one = self.op(f"arith.cmpi eq, {at}, {self.number(first)} : index")
            self.only(first_one, lambda: fill(at))
            later = self.op(f"arith.cmpi sge, {at}, {self.number(first)} : index")
            self.only(later, lambda: self.store(tile, self.row(at)))
            self.fence()

        if self.is_so(0.5):
            self.loop(inner)
        else:
            self.loop(fill)
            more = self.op(f"arith.cmpi sgt, %n, {self.number(self.pick(0, 0, 1))} : index")
            self.only(more, lambda: self.store(tile, 0))
        self.fence()

    def _stages(self) -> None:
        """Load, add, store: three pipes that hand two tiles over."""
        one, other = self.tile(), self.tile()
        free, taken, ready, done = self.events(4)
        self.flag("set", ADD, IN, free)
        self.flag("set", OUT, ADD, taken)

        def inner(at: str) -> None:
            self.flag("wait", ADD, IN, free)
            self.load(one, self.row(at))
            self.ordered(IN, ADD, ready)
            self.flag("wait", OUT, ADD, taken)
            self.emit(f"pto.tadd ins({one}, {one} : {TILE}, {TILE}) outs({other} : {TILE})")
            self.flag("set", ADD, IN, free)
            self.ordered(ADD, OUT, done)
            self.store(other, self.row(at))
            self.flag("set", OUT, ADD, taken)

        self.loop(inner)
        self.flag("wait", ADD, IN, free)
        self.flag("wait", OUT, ADD, taken)
        self.fence()

    def _extents(self) -> None:
        """The last tile has the rows that are left."""

        def inner(at: str) -> None:
            first = self.sum("muli", at, 16)
            rows = self.sum("subi", "%n", first)
            rows = self.sum("minsi", rows, 16) if self.is_so(0.8) else rows
            rows = self.sum("maxsi", rows, 0) if self.is_so(0.3) else rows
            zero, part = self.op("arith.constant 0 : i64"), PART.format("?")
            tile = self.op(f"pto.alloc_tile addr = {zero} valid_row = {rows} : {OPEN_TILE}")
            sizes = f"offsets = [{first}, {self.number(0)}], sizes = [{rows}, {self.number(64)}]"
            window = self.op(f"pto.partition_view %vx, {sizes} : {VIEW} -> {part}")
            self.emit(f"pto.tload ins({window} : {part}) outs({tile} : {OPEN_TILE})")
            self.fence()

        ends = self.sum("divui", self.sum("addi", "%n", 15), 16), self.sum("divui", "%n", 16)
        self.loop(inner, self.pick(*ends, self.number(2)))

    def _placed(self) -> None:
        """A tile, or a flag, whose number is computed."""
        value, tile, (event,) = self.scalar(), self.tile(), self.events(1)
        small = self.sum("remui", value, self.pick(2, 3, 4, 5))
        if self.is_so(0.3):
            small = self.select(self.compared(value), self.pick(0, 1, 2), self.pick(0, 1, 3))
        base, self.address = self.address, self.address + 6 * SIZE

        def at(slot: int | str) -> str:
            far = self.sum("muli", self.number(slot), SIZE)
            return self.tile(self.sum("addi", far, base) if self.is_so(0.8) else far)

        def inner(round_: str) -> None:
            used = at(small)
            self.load(used, self.row(round_))
            self.ordered(IN, OUT, small)
            self.store(used, self.row(round_))
            if self.is_so(0.7):
                self.fence()

        way = self.random.randrange(4)
        if way == 0:
            self.load(tile, 0)
            self.ordered(IN, OUT, event)
            self.store(tile, 0)
            self.load(at(small), 16)
        elif way == 1:
            for n in range(self.pick(2, 3, 4, 5)):
                self.flag("set", IN, OUT, self.number(n))
            self.flag("wait", IN, OUT, small)
        elif way == 2:
            for n in range(self.pick(2, 3, 4)):
                self.load(at(n), 16 * n)
            self.fence()
            self.store(at(small), 0)
        else:
            self.loop(inner)
        self.fence()

    def number_of_two(self) -> str:
        """What is made of an argument, or of both."""
        value = self.pick("%n", "%m")
        way = self.random.randrange(7)
        if way == 0:
            return self.select(
                self.compared(value), self.pick("%n", "%m", 2), self.pick("%m", 0, 9)
            )
        word, by = (("muli", self.pick("%n", "%m")), ("divui", self.pick(2, 3)),
                    ("maxsi", self.pick("%m", 3, 7)), ("minsi", self.pick("%m", 3, 7)),
                    ("xori", self.pick(1, 2, 5)), ("addi", self.pick("%n", "%m")))[way - 1]  # fmt: skip
        return self.sum(word, value, by)

    def _sized(self) -> None:
        """A tile of which some rows are loaded, and some are stored."""

        def rows() -> str:
            return self.sum("maxsi", self.sum("minsi", self.number_of_two(), 16), 0)

        loaded, zero, part = rows(), self.op("arith.constant 0 : i64"), PART.format("?")
        stored = self.pick(loaded, rows(), self.sum("minsi", loaded, 8))
        for count, of in ((loaded, "x"), (stored, "y")):
            tile = self.op(f"pto.alloc_tile addr = {zero} valid_row = {count} : {OPEN_TILE}")
            sizes = f"offsets = [{self.number(0)}, {self.number(0)}], sizes = [{count}, {self.number(64)}]"
            window = self.op(f"pto.partition_view %v{of}, {sizes} : {VIEW} -> {part}")
            here, there = f"{tile} : {OPEN_TILE}", f"{window} : {part}"
            word, one, two = ("load", there, here) if of == "x" else ("store", here, there)
            self.emit(f"pto.t{word} ins({one}) outs({two})")
            self.fence()

    def _rows(self) -> None:
        """A row of one buffer is stored, and one is loaded, in order on some ways only."""
        one, other = self.tile(type_=ROW_TILE), self.tile(type_=ROW_TILE)
        self.load(one, 0, "x", ROW_TILE)
        self.fence()
        first, second = self.number_of_two(), self.pick("%m", 12, self.number_of_two())
        steps = [lambda: self.store(one, first, "z", ROW_TILE),
                 lambda: self.load(other, second, "z", ROW_TILE)]  # fmt: skip
        self.random.shuffle(steps)
        steps[0]()
        if self.is_so(0.6):
            self.only(self.condition(), self.fence)
        elif self.is_so(0.5):
            self.fence()
        steps[1]()
        self.fence()

    def _split(self) -> None:
        """As many rounds in two loops."""
        half = self.sum(self.pick("divui", "minsi", "remui"), "%n", self.pick(2, 3, 4))
        tile, (event, free) = self.tile(), self.events(2)

        def inner(at: str) -> None:
            self.flag("wait", OUT, IN, free)
            self.load(tile, self.row(at))
            self.ordered(IN, OUT, event)
            self.store(tile, self.row(at))
            self.flag("set", OUT, IN, free)

        self.flag("set", OUT, IN, free)
        self.loop(inner, half)
        self.loop(inner, self.sum("subi", "%n", half))
        self.flag("wait", OUT, IN, free)
        self.fence()

    def _guarded(self, part: Body) -> None:
        """A part as it is, or where something holds of an argument, a block or a word."""
        way = self.random.randrange(8)
        if way in (1, 2):
            self.blocks |= way == 1
            zero = self.number(self.random.randrange(2))
            read = f"pto.load_scalar %d[{zero}] : !pto.ptr<i32> -> i32"
            made = self.op("pto.get_block_idx -> i64" if way == 1 else read)
            type_ = "i64" if way == 1 else "i32"
            self.scope.append(self.op(f"arith.index_cast {made} : {type_} to index"))
        if way == 0 or (way in (1, 2) and self.is_so(0.5)):
            self.only(self.condition(), part)
        else:
            part()

    # -- faults ------------------------------------------------------------------------------------

    def _break(self) -> None:
        """Leave a line out, do it twice, later, or in some rounds only, or change its numbers."""
        every = [n for n, line in enumerate(self.lines) if not line.text.startswith(("}", "^"))]
        ours = [n for n in every if self.lines[n].text.startswith("pto.")]
        at = self.random.choice(ours if ours and self.is_so(0.65) else every)
        line = self.lines[at]
        later = self.lines[at + 1 :]
        before, self.lines = self.lines[:at], []
        self.scope, self.rounds = list(line.scope), list(line.rounds)
        if not line.text.startswith("pto."):
            self.emit(self._changed(line.text))
        elif later and later[0].text.startswith("pto.") and self.is_so(0.15):
            self.lines += [later.pop(0), line]
        else:
            self._broken(line.text)
        self.lines = [*before, *self.lines, *later]

    def _broken(self, text: str) -> None:
        way = self.random.randrange(6)
        if way == 0:
            return
        condition = self.condition()
        inner = self.condition() if way == 5 else ""
        if way in (2, 4):
            self.emit(text)
        if way == 5:  # but where two conditions hold
            self.block(f"scf.if {condition} {{", lambda: self.only(inner, lambda: None), "} else {")
            self.block(text, lambda: None)
            return
        if way == 3:
            self.block(f"scf.if {condition} {{", self.fence, "} else {")
            self.block(text, lambda: None)
            return
        self.only(condition, lambda: self.emit(FENCE if way == 4 else text))

    def _changed(self, text: str) -> str:
        names = re.findall(r"%k\d+\b", text)
        target, _, made = text.partition("=")
        if names and self.is_so(0.7):
            name = self.random.choice(names)
            value = max(int(name[2:]) + self.pick(-1, 1, 1, 2), 0)
            return re.sub(re.escape(name) + r"\b", self.number(value), text, count=1)
        if "cmpi" in text:
            return re.sub(r"cmpi \w+", f"cmpi {self.pick(*_SIGNS)}", text)
        if "%n" in made:
            other = self.pick("%m", self.number(self.pick(3, 8, 11)))
            return f"{target}={re.sub('%n' + chr(92) + 'b', other, made, count=1)}"
        words = r"arith\.(addi|subi|muli|remui|divui) "
        return re.sub(words, f"arith.{self.pick('addi', 'subi', 'muli', 'minsi')} ", text)


def concrete(text: str, values: Mapping[str, int]) -> str:
    """A kernel in a block, with words of memory, that are known."""
    text = text.replace("pto.get_block_idx -> i64", f"arith.constant {values['block']} : i64")
    word = r"pto\.load_scalar %d\[%k(\d+)\] : !pto\.ptr<i32> -> i32"
    return re.sub(word, lambda m: f"arith.constant {values[f'd[{m[1]}]']} : i32", text)
