"""Builds vector regions, with names that nothing else in the program has, and a count of what
they execute.

What does not change in a loop (constants, masks of a fixed number of lanes, broadcast constants)
is built once, in front of everything else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import overload

from ptosim.ground.ir.core import Node, Operation, Value
from ptosim.ground.ir.types import REGISTER_BYTES, TileType
from ptosim.ground.isa.conversions import lane_conversion
from ptosim.ground.isa.schema import dtype
from ptosim.ground.records import dataclass
from ptosim.language.build import Builder, Item, Typed, Words

VREG_BITS = 8 * REGISTER_BYTES
MASK = "!pto.mask<b32>"
_SPECIAL_BITS = {"bf16": 16, "hif8": 8, "f8E4M3FN": 8, "f8E5M2": 8, "f4E2M1FN": 4, "f4E1M2FN": 4}


def bits(elem: str) -> int:
    """Return the width of an element type by its name."""
    return _SPECIAL_BITS.get(elem) or int("".join(c for c in elem if c.isdigit()))


def vreg(elem: str) -> str:
    """Return the register type of an element type."""
    return f"!pto.vreg<{VREG_BITS // bits(elem)}x{elem}>"


def mask_of(elem: str) -> str:
    """Return the mask type of a register's lanes."""
    return f"!pto.mask<b{min(bits(elem), 32)}>"


@dataclass(frozen=True, slots=True)
class Open:
    """A number that only the run knows: the name of its index, and the most that it can be."""

    name: str
    most: int


Extent = int | Open


class Writer:
    """Builds one region. `counts` holds how often each instruction is executed, `before` and
    `after` what is around the region, `shapes` the types of tiles with valid shapes that operations
    fix."""

    def __init__(self, prefix: str, shapes: Mapping[Value, TileType] | None = None) -> None:
        self.prefix = prefix
        self.shapes = shapes or {}
        self.body, self.head, self.before, self.after = (Builder() for _ in range(4))
        self.counts: Counter[str] = Counter()
        self._known: dict[tuple[object, ...], str] = {}
        self.is_open = False  # the run decides how often something is executed
        self._times = 1
        self._number = 0

    def region(self) -> list[Operation]:
        """Return the region with what is around it; nothing if there is nothing in it."""
        b = Builder()
        b.ops += self.before.ops
        if self.body.ops:
            with b.scope():
                b.ops += [*self.head.ops, *self.body.ops]
            b.ops += self.after.ops
        return b.ops

    @contextmanager
    def outside(self) -> Iterator[None]:
        """What is written in it comes before the region: instructions that have none."""
        within = self.body, self.head, self._known
        self.body = self.head = self.before
        self._known = {}
        yield
        self.body, self.head, self._known = within

    def name(self) -> str:
        """Return a fresh value name."""
        self._number += 1
        return f"%{self.prefix}{self._number}"

    def op(
        self,
        mnemonic: str,
        items: Sequence[Item | Words],
        types: Sequence[str] = (),
        result: str = "",
    ) -> str:
        """Append an instruction; return the name of its result if it has one."""
        name = self.name() if result else ""
        _append(self.body, mnemonic, items, types, [name] if result else [], [result])
        self.counts[mnemonic] += self._times
        return name

    def pair(
        self, mnemonic: str, items: Sequence[Item], types: Sequence[str], results: Sequence[str]
    ) -> tuple[str, str]:
        """Append an instruction with two results."""
        first, second = self.name(), self.name()
        _append(self.body, mnemonic, items, types, [first, second], results)
        self.counts[mnemonic] += self._times
        return first, second

    def once(self, mnemonic: str, items: Sequence[str], types: Sequence[str], *results: str) -> str:
        """Append an instruction in front of everything else, unless it is there; return the name of
        its first result."""
        key = (mnemonic, *items, *results)
        if key not in self._known:
            names = [self.name() for _ in results]
            self._known[key] = names[0]
            _append(self.head, mnemonic, items, types, names, results)
            self.counts[mnemonic] += 1
        return self._known[key]

    # -- numbers and loops ------------------------------------------------------------------------

    def constant(self, value: int | str, type_: str = "i32") -> str:
        """Return the name of a constant."""
        key = ("constant", str(value), type_)
        if key not in self._known:
            self._known[key] = self.name()
            self.head.constant(self._known[key], value, type_)
        return self._known[key]

    def index(self, value: int) -> str:
        """Return the name of an index constant."""
        return self.constant(value, "index")

    def known(self, count: Extent) -> str:
        """Return the name of a number as an index."""
        self.is_open |= isinstance(count, Open)
        return count.name if isinstance(count, Open) else self.index(count)

    @contextmanager
    def loop(self, count: Extent, step: int = 1) -> Iterator[str]:
        """A loop over 0, step, … below `count`; gives the name of its variable."""
        bounds = [self.index(0), self.known(count), self.index(step)]
        variable = self.name()
        most = count.most if isinstance(count, Open) else count
        with self.body.loop(variable, bounds), self._often(-(-most // step)):
            yield variable

    @contextmanager
    def rows(self, count: Extent) -> Iterator[str]:
        """As `loop`, but without one for a single row."""
        if count == 1:
            yield self.index(0)
            return
        with self.loop(count) as row:
            yield row

    def fold(
        self, count: Extent, start: str, elem: str, body: Callable[[str, str], str], step: int = 1
    ) -> str:
        """A loop that carries a register; `body` makes the next from the variable and the last.
        Return the name of the final one."""

        def next_of(variable: str, carried: list[str]) -> list[str]:
            return [body(variable, carried[0])]

        return self.fold_all(count, [(start, elem)], next_of, step=step)[0]

    def fold_all(
        self,
        count: Extent,
        starts: Sequence[tuple[str, str]],
        body: Callable[[str, list[str]], list[str]],
        *,
        first: int = 0,
        step: int = 1,
    ) -> list[str]:
        """As `fold`, of several registers with their elements, from `first` on."""
        bounds = [self.index(first), self.known(count), self.index(step)]
        most = (count.most if isinstance(count, Open) else count) - first
        results, variable = [self.name() for _ in starts], self.name()
        carried = [Typed(self.name(), vreg(elem)) for _, elem in starts]
        inits = list(zip(carried, (start for start, _ in starts), strict=True))
        with self.body.loop(variable, bounds, inits, results), self._often(-(-most // step)):
            made = body(variable, [each.name for each in carried])
            yielded = zip(made, carried, strict=True)
            self.body.typed("scf.yield", [Typed(name, each.type) for name, each in yielded])
        return results

    @contextmanager
    def _often(self, times: int) -> Iterator[None]:
        before = self._times
        self._times *= times
        yield
        self._times = before

    @overload
    def columns(self, count: int, lanes: int) -> Iterator[tuple[str, int]]: ...
    @overload
    def columns(self, count: Extent, lanes: int) -> Iterator[tuple[str, Extent]]: ...
    def columns(self, count: Extent, lanes: int) -> Iterator[tuple[str, Extent]]:
        """Give the first column and the number of columns of each register of a row: a loop over
        the full ones, then the rest. One full register with a rest is a loop, too: in the library
        a row of several registers is one, and costs what such a row costs. Of a number that only
        the run knows one loop: each register has what is left."""
        if isinstance(count, Open):
            with self.loop(count, lanes) as column:
                yield column, self.left(count, column)
            return
        full = count // lanes
        if full > 1 or (full and count % lanes):
            with self.loop(full * lanes, lanes) as column:
                yield column, lanes
        elif full:
            yield self.index(0), lanes
        if count % lanes:
            yield self.index(full * lanes), count % lanes

    def left(self, count: Open, column: str) -> Open:
        """Return how many columns there are from one on."""
        return Open(self._index_op("subi", count.name, column), count.most)

    def number(self, index: str, type_: str = "i32") -> str:
        """Return an index as a number of 32 bits."""
        name = self.name()
        self.body.op("arith.index_cast", [index], ["index", "to", type_], results=[name])
        return name

    def as_index(self, name: str, type_: str) -> str:
        """Return a number of the program as an index."""
        if type_ == "index":
            return name
        made = self.name()
        self.body.op("arith.index_cast", [name], [type_, "to", "index"], results=[made])
        return made

    def between(self, value: str, least: str, most: str) -> str:
        """Return an index, or the end of a range that it is beyond."""
        return self._index_op("minsi", self._index_op("maxsi", value, least), most)

    def place(self, *terms: tuple[str, int]) -> str:
        """Return the name of the sum of value * factor, an index."""
        total = ""
        zero = self._known.get(("constant", "0", "index"))
        for value, factor in [t for t in terms if t[0] != zero] or terms[:1]:
            part = value if factor == 1 else self._index_op("muli", value, self.index(factor))
            total = self._index_op("addi", total, part) if total else part
        return total

    def part(self, value: str, of: int = 2) -> str:
        """Return the name of half an index, or another part."""
        return self._index_op("divui", value, self.index(of))

    def at(self, pointer: str, offset: str) -> Node:
        """Return a place in memory: a pointer with an offset in elements."""
        return self.body.indexed(pointer, offset)

    def _index_op(self, op: str, a: str, b: str) -> str:
        name = self.name()
        self.body.op(f"arith.{op}", [a, b], ["index"], results=[name])
        return name

    # -- instructions of every expansion ----------------------------------------------------------

    def every(self, width: int = 32) -> str:
        """Return the mask of all lanes of a width."""
        return self.once(f"pset_b{width}", ['"PAT_ALL"'], [], f"!pto.mask<b{width}>")

    def first(self, count: Extent, width: int = 32) -> str:
        """Return the mask of the first `count` lanes of a width."""
        if isinstance(count, Open):
            word = self.number(count.name)
            return self.pair(f"plt_b{width}", [word], ["i32"], [f"!pto.mask<b{width}>", "i32"])[0]
        left = self.constant(count, "i32")
        return self.once(f"plt_b{width}", [left], ["i32"], f"!pto.mask<b{width}>", "i32")

    def everywhere(self, value: int | str, type_: str = "i32") -> str:
        """Return a constant in every lane."""
        return self.once("vbr", [self.constant(value, type_)], [type_], vreg(type_))

    def load(self, pointer: str, elem: str, at: str, dist: str = "NORM", lanes: str = "") -> str:
        """Return a register loaded from `pointer`, elements of `elem`, at an element offset."""
        items = [self.at(pointer, at), {"dist": f'"{dist}"'}]
        return self.op("vlds", items, [f"!pto.ptr<{elem}, ub>"], vreg(lanes or elem))

    def store(self, value: str, lanes: str, pointer: str, elem: str, at: str, mask: str, dist: str):
        """Store a register of `lanes` by a mask of 32-bit lanes."""
        types = [vreg(lanes), f"!pto.ptr<{elem}, ub>", MASK]
        self.op("vsts", [value, self.at(pointer, at), mask, {"dist": f'"{dist}"'}], types)

    def unary(self, name: str, a: str, mask: str, elem: str) -> str:
        """Return the result of an instruction of one register."""
        return self.op(name, [a, mask], [vreg(elem), mask_of(elem)], vreg(elem))

    def binary(self, name: str, a: str, b: str, mask: str, elem: str) -> str:
        """Return the result of an instruction of two registers."""
        v = vreg(elem)
        return self.op(name, [a, b, mask], [v, v, mask_of(elem)], v)

    def scalar(self, name: str, a: str, value: str, type_: str, mask: str, elem: str) -> str:
        """Return the result of an instruction of a register and a scalar."""
        v = vreg(elem)
        return self.op(name, [a, value, mask], [v, type_, mask_of(elem)], v)

    def with_constant(self, name: str, a: str, value: int | str, elem: str = "i32") -> str:
        """Return the result of an instruction of a register and a constant, in all lanes."""
        width = min(bits(elem), 32)
        return self.scalar(name, a, self.constant(value, elem), elem, self.every(width), elem)

    def shift(self, name: str, a: str, by: int, elem: str = "i32") -> str:
        """Return all lanes shifted by a constant."""
        return self.scalar(name, a, self.constant(by, "i16"), "i16", self.every(), elem)

    def cast(self, value: str, elem: str, to: str) -> str:
        """Return the same bytes as other lanes."""
        return value if elem == to else self.op("vbitcast", [value], [vreg(elem)], vreg(to))

    def compare(self, a: str, value: int, word: str, within: str = "", elem: str = "i32") -> str:
        """Return the mask of lanes that compare so with a constant, of all or those of `within`."""
        items = [a, self.constant(value, elem), within or self.every(), f'"{word}"']
        return self.op("vcmps", items, [vreg(elem), elem, MASK], MASK)

    def select(self, a: str, b: str, mask: str, elem: str) -> str:
        """Return a where the mask is set, else b."""
        v = vreg(elem)
        return self.op("vsel", [a, b, mask], [v, v, mask_of(elem)], v)

    def nan(self, value: str, elem: str) -> str:
        """Return the mask of lanes that are NaN."""
        every, v = self.every(bits(elem)), vreg(elem)
        types = [v, v, mask_of(elem)]
        return self.op("vcmp", [value, value, every, '"ne"'], types, mask_of(elem))

    def spread(self, name: str, a: str, b: str, elem: str) -> tuple[str, str]:
        """Return both results of an instruction that rearranges two registers."""
        v = vreg(elem)
        return self.pair(name, [a, b], [v, v], [v, v])

    def convert(
        self, value: str, src: str, dst: str, part: str = "", rnd: str = "R", sat: str = "SAT"
    ) -> str:
        """Return all lanes of a register in another type; rounding and saturation are written where
        the pair of types takes them."""
        taken = lane_conversion(dtype(src), dtype(dst))
        words = {
            "rnd": rnd if taken is None or taken.rnd else "",
            "sat": sat if taken is None or taken.sat else "",
            "part": part,
        }
        attrs = {key: f'"{word}"' for key, word in words.items() if word}
        items = [value, self.every(min(bits(src), 32)), *([attrs] if attrs else [])]
        return self.op("vcvt", items, [vreg(src), mask_of(src)], vreg(dst))


def _append(
    b: Builder,
    mnemonic: str,
    items: Sequence[Item | Words],
    types: Sequence[str],
    names: Sequence[str],
    results: Sequence[str],
) -> None:
    """Append an instruction; without operands that have a type its list is that of its result."""
    listed, arrow = (types, results) if types else ([r for r in results if r], ())
    arrow = arrow if names else ()
    b.op(f"pto.{mnemonic}", items, listed, results=names, arrow=arrow, bare=True)
