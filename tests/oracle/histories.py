"""Whose bytes each operation of a tile program reads: an account of its own, from the text alone.

For programs of level 3 on one vector core: tiles at constant addresses, counted loops, operations in
the form `ins(…) outs(…)`. Every byte of UB has the name of the tile that wrote it, and whether it has
a value. A loop is walked twice at most: the second round shows what the first one left. Nothing is
imported from ptosim, and no value is computed.

The rules (PTO IR manual, tiles and valid regions; TLOAD): an operation reads the valid region of each
source and writes that of its destination; a load fills the last block of 32 bytes of a row with
nothing in particular; tiles with the same bytes, or one of them inside of the other, are names of one
buffer, tiles that overlap in part are not."""

from __future__ import annotations

import re
from itertools import product
from typing import NamedTuple

import numpy as np

UB = 1 << 18
_BITS = {
    "f32": 32,
    "i32": 32,
    "ui32": 32,
    "f16": 16,
    "bf16": 16,
    "i16": 16,
    "ui16": 16,
    "i8": 8,
    "ui8": 8,
}
_TYPE = r"!pto\.tile_buf<vec, (\d+)x(\d+)x(\w+)([^>]*)>"
_ALLOC = re.compile(rf"(%\w+) = pto\.alloc_tile\b(.*?): {_TYPE}")
_NAMED = re.compile(rf"(%\w+) = pto\.treshape (%\w+) : .*-> {_TYPE}")
_CONST = re.compile(r"(%\w+) = arith\.constant (-?\d\w*) : \w+")
_ALIAS = re.compile(r"^\s*(!\w+) = (!pto\..*?)\s*$", re.M)
_OP = re.compile(r"pto\.(t\w+) ins\(([^:)]*)(?::[^)]*)?\) outs\(([^:)]*)(?::[^)]*)?\)")
_VALID = re.compile(r"valid=([\d?]+)x([\d?]+)")
_SCRATCH = {
    "trowsum": 1, "trowmax": 1, "trowmin": 1, "trowprod": 1, "trsqrt": 1, "tcvt": 1, "trecip": 1,
    "tcolsum": 1, "tsel": 3, "trowexpandadd": 2, "trowexpandsub": 2, "trowexpandmul": 2,
    "trowexpanddiv": 2, "trowexpandmax": 2, "trowexpandmin": 2,
}  # fmt: skip
"""Operations that may have scratch, and the number of their sources before it."""
_IN_PLACE = ("tquant",)
"""Operations that may leave something else in their source."""
_SILENT = re.compile(
    r"(!\w+ = |module|func\.func|return|\}|//|$|pto\.(set_flag|wait_flag|barrier)\b|"
    r"(%\w+ = )?(arith|index)\.|%\w+ = pto\.(make_tensor_view|partition_view|get_block_\w+)\b)"
)
"""Lines that touch no tile."""


class Unknown(Exception):
    """The text has something of which the model knows nothing."""


class Tile(NamedTuple):
    """A tile: its bytes, its elements, and the valid ones (None: only a run knows)."""

    name: str
    start: int
    rows: int
    cols: int
    size: int
    valid: tuple[int | None, int | None]
    by_columns: bool

    @property
    def end(self) -> int:
        return self.start + self.rows * self.cols * self.size

    def bytes(self, *, unknown: bool) -> np.ndarray:
        """The bytes of the valid region, of one that is not known all, or none."""
        rows, cols = self.valid
        if rows is None or cols is None:
            rows, cols = (self.rows, self.cols) if unknown else (0, 0)
        lines, run, pitch = (cols, rows, self.rows) if self.by_columns else (rows, cols, self.cols)
        starts = self.start + np.arange(lines) * pitch * self.size
        return (starts[:, None] + np.arange(run * self.size)).reshape(-1)

    def is_name_of(self, other: Tile, *, exactly: bool) -> bool:
        """True where the bytes of one are among those of the other (or `exactly` those)."""
        low, high = max(self.start, other.start), min(self.end, other.end)
        both = [(low, high) == (t.start, t.end) for t in (self, other)]
        return all(both) if exactly else any(both)


class _Walk:
    """One walk over a text; `may`: where only a run knows, the operation reads all and writes
    nothing, scratch is spoiled, and a part of a tile is no name of it; else the other way round, but
    for the last with `exactly`."""

    def __init__(self, text: str, *, may: bool, exactly: bool = False) -> None:
        self.may, self.exactly = may, may or exactly
        for name, type_ in _ALIAS.findall(text):
            text = re.sub(rf"{name}(?![\w.])(?! =)", lambda _, t=type_: t, text)
        self.numbers = {n: int(v, 0) for n, v in _CONST.findall(text)}
        self.tiles: dict[str, Tile] = {}
        self.names: list[Tile] = []
        self.owner = np.full(UB, -1, np.int32)
        self.has_value = np.zeros(UB, bool)
        self.wrong: list[tuple[int, str]] = []
        lines = [line.split("//")[0].strip() for line in text.split("\n")]
        self._block(list(enumerate(lines, 1)))

    def _block(self, lines: list[tuple[int, str]]) -> None:
        at = 0
        while at < len(lines):
            number, line = lines[at]
            at += 1
            if line.startswith("scf.for ") and "iter_args" not in line:
                depth, end = 1, at
                while depth:
                    depth += lines[end][1].endswith("{") - lines[end][1].startswith("}")
                    end += 1
                for _ in range(self._rounds(line)):
                    self._block(lines[at : end - 1])
                at = end
                continue
            self._line(number, line)

    def _rounds(self, line: str) -> int:
        """How often a loop is walked: of as many rounds as only a run knows one, or two."""
        found = re.match(r"scf\.for %\w+ = (%\w+) to (%\w+) step (%\w+)", line)
        bounds = [self.numbers.get(n) for n in found.groups()] if found else [None]
        if None in bounds:
            return 2 if self.may else 1
        return min(len(range(*bounds)), 2)  # type: ignore[arg-type]

    def _line(self, number: int, line: str) -> None:
        if _SILENT.match(line):
            return
        if found := _ALLOC.match(line):
            self._make(found[1], self._address(found[2]), found.groups()[2:])
        elif found := _NAMED.match(line):
            self._make(found[1], self._tile(found[2]).start, found.groups()[2:])
        elif found := _OP.match(line):
            sources, results = ([n.strip() for n in found[g].split(",")] for g in (2, 3))
            self._operation(number, found[1], sources, results)
        else:
            raise Unknown(line)

    def _address(self, clauses: str) -> int:
        found = re.search(r"\baddr = (%\w+)", clauses)
        if found is None or found[1] not in self.numbers:
            raise Unknown(clauses)
        return self.numbers[found[1]]

    def _make(self, name: str, start: int, type_: tuple[str, ...]) -> None:
        rows, cols, elem, rest = type_
        if "slayout" in rest or "pad" in rest or elem not in _BITS:
            raise Unknown(rest)
        valid = _VALID.search(rest)
        sizes = valid.groups() if valid else (rows, cols)
        known = tuple(None if s == "?" else int(s) for s in sizes)
        tile = Tile(name, start, int(rows), int(cols), _BITS[elem] // 8, known, "col_major" in rest)  # type: ignore[arg-type]
        if tile != self.tiles.get(name):
            self.tiles[name] = tile
            self.names.append(tile)

    def _tile(self, name: str) -> Tile:
        if name not in self.tiles:
            raise Unknown(name)
        return self.tiles[name]

    def _operation(self, number: int, op: str, sources: list[str], results: list[str]) -> None:
        read = sources[: _SCRATCH.get(op, len(sources))]
        scratch = [self.tiles[n] for n in sources[len(read) :] if n in self.tiles]
        ins = [self.tiles[n] for n in read if n in self.tiles]
        outs = [self.tiles[n] for n in results if n in self.tiles]
        if self.may:
            self._apart(number, scratch, outs, ins)
        has_value = True
        for tile in ins:
            has_value &= self._read(number, tile)
        for tile in [*scratch, *(ins[:1] if op in _IN_PLACE else [])] if self.may else ():
            self.has_value[tile.bytes(unknown=True)] = False
        for tile in outs:
            self._write(tile, has_value, loads=op == "tload")

    def _apart(self, number: int, scratch: list[Tile], outs: list[Tile], ins: list[Tile]) -> None:
        """Scratch may be over a source, or a result over a part of one."""
        for one, two in product((*scratch, *outs), ins):
            is_meant = one not in scratch and one.is_name_of(two, exactly=True)
            if max(one.start, two.start) < min(one.end, two.end) and not is_meant:
                self.wrong.append((number, f"{one.name} is over {two.name}"))

    def _read(self, number: int, tile: Tile) -> bool:
        places = tile.bytes(unknown=self.may)
        owners = {int(n) for n in np.unique(self.owner[places])}
        if not self.has_value[places].all():
            self.wrong.append((number, f"{tile.name} has no value"))
            return False
        names = [self.names[n] for n in owners if n >= 0]
        if not all(name.is_name_of(tile, exactly=self.exactly) for name in names):
            self.wrong.append((number, f"{tile.name} has the bytes of another one"))
            return False
        return True

    def _write(self, tile: Tile, has_value: bool, *, loads: bool) -> None:
        places = tile.bytes(unknown=not self.may)
        if loads and not tile.by_columns and places.size:
            ends = np.unique(places // 32)
            self.has_value[(ends[:, None] * 32 + np.arange(32)).reshape(-1)] = False
        self.owner[places] = self.names.index(tile)
        self.has_value[places] = True  # of what has none one finding is enough


def judged(text: str) -> str:
    """What the tiles of a program show: `wrong` where an operation reads bytes without a value, or
    of another tile, for any arguments; `part` where that is so if no tile that lies inside of
    another one is meant to be a part of it, which the text cannot show; `clean` where none does for
    any arguments; else `unsure`."""
    try:
        if _Walk(text, may=False).wrong:
            return "wrong"
        if _Walk(text, may=False, exactly=True).wrong:
            return "part"
        return "unsure" if _Walk(text, may=True).wrong else "clean"
    except Unknown:
        return "unsure"
