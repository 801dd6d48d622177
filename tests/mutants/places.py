"""Random programs on tiles at addresses, which may be apart, in each other, or over each other in part:
what a run says of their bytes, against the account of `tests/oracle/histories.py`."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import numpy as np

import ptosim
from tests.oracle.histories import judged

SHAPES = ((4, 16), (8, 16), (8, 32), (1, 16), (4, 32))
ADDRESSES = (0, 32, 64, 128, 256, 512, 768, 1024, 1536, 2048, 2304, 4096, 5120, 6144)
VIEW = "!pto.tensor_view<?x?xf32>"


class Placed(NamedTuple):
    """A tile, its address, its rows and columns and the valid ones."""

    name: str
    at: int
    shape: tuple[int, int]
    valid: tuple[int, int]

    @property
    def type(self) -> str:
        """As the text writes it."""
        (rows, cols), valid = self.shape, "x".join(map(str, self.valid))
        more = f", valid={valid}" if self.valid != self.shape else ""
        return f"!pto.tile_buf<vec, {rows}x{cols}xf32{more}>"

    @property
    def given(self) -> str:
        """As an operand."""
        return f"{self.name} : {self.type}"


def _tiles(rng: Random) -> Iterator[Placed]:
    made: list[Placed] = []
    for number in range(rng.randrange(3, 7)):
        shape = rng.choice(SHAPES)
        at = rng.choice(ADDRESSES) if rng.random() < 0.35 else 8192 * (number + 1)
        if made and rng.random() < 0.25:
            other = rng.choice(made)
            at, shape = other.at, other.shape if rng.random() < 0.5 else shape
        part = (rng.randint(1, shape[0]), rng.randint(1, shape[1]))
        made.append(Placed(f"%t{number}", at, shape, part if rng.random() < 0.3 else shape))
        yield made[-1]


def _line(rng: Random, tiles: list[Placed], number: int) -> Iterator[str]:
    """A load, a store, a fill, or an operation on tiles of one shape."""
    tile = rng.choice(tiles)
    alike = [t for t in tiles if (t.shape, t.valid) == (tile.shape, tile.valid)]
    one, two = rng.choice(alike), rng.choice(alike)
    rows, cols = tile.valid
    part = f"!pto.partition_tensor_view<{rows}x{cols}xf32>"
    array = rng.choice("xxyz")
    if array in "xy":
        yield (
            f"%p{number} = pto.partition_view %v{array}, offsets = [%c0, %c0], "
            f"sizes = [%c{rows}, %c{cols}] : {VIEW} -> {part}"
        )
    if array == "x":
        yield f"pto.tload ins(%p{number} : {part}) outs({tile.given})"
    elif array == "y":
        yield f"pto.tstore ins({tile.given}) outs(%p{number} : {part})"
    elif rng.random() < 0.3:
        yield f"pto.texpands ins(%one : f32) outs({tile.given})"
    elif rng.random() < 0.4:
        yield f"pto.tneg ins({one.given}) outs({tile.given})"
    else:
        yield (f"pto.tadd ins({one.name}, {two.name} : {one.type}, {two.type}) outs({tile.given})")


def program(seed: int) -> str:
    """Return a program of level 3: most tiles are filled, some lines are in loops."""
    rng = Random(seed)
    tiles = [*_tiles(rng)]
    body = [f"pto.texpands ins(%one : f32) outs({t.given})" for t in tiles if rng.random() < 0.95]
    for number in range(0, 10 * rng.randrange(4, 10), 10):
        lines = [*_line(rng, tiles, number)]
        if rng.random() < 0.12:
            lines += [*_line(rng, tiles, number + 1)]
            lines = [f"scf.for %i{number} = %c0 to %c3 step %c1 {{", *lines, "}"]
        body += lines
    return "\n".join(
        (
            'module attributes {pto.target_arch = "a5"} {',
            "func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) attributes {pto.entry} {",
            *(f"%c{n} = arith.constant {n} : index" for n in range(33)),
            "%one = arith.constant 1.0 : f32",
            *(
                f"%v{a} = pto.make_tensor_view %{a}, shape = [%c32, %c32], "
                f"strides = [%c32, %c1] : {VIEW}"
                for a in "xy"
            ),
            *(f"%a{n} = arith.constant {t.at} : i64" for n, t in enumerate(tiles)),
            *(f"{t.name} = pto.alloc_tile addr = %a{n} : {t.type}" for n, t in enumerate(tiles)),
            *body,
            "return\n}\n}",
        )
    )


def compared(seed: int) -> tuple[str, bool]:
    """Return what the account says of a program, and whether a run tells of its bytes."""
    text = program(seed)
    given = {"x": np.ones((32, 32), np.float32), "y": np.zeros((32, 32), np.float32)}
    found = ptosim.load(text, level=3, sync="auto").run(given, timing=False).findings
    told = [d for d in found if d.code.startswith(("PTO71", "PTO64")) and d.severity.word != "note"]
    return judged(text), bool(told)


def mistaken(expected: str, *, is_told: bool) -> bool:
    """True for a fault that is not told, and for a right program of which one is."""
    return (expected == "wrong" and not is_told) or (expected == "clean" and is_told)
