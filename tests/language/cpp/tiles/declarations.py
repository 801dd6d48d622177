"""Declarations of random kernels: tiles, arrays and copies of them, references, other tiles on the same
bytes, pointers."""

from __future__ import annotations

from collections.abc import Callable

from tests.language.cpp.scalars.terms import Draw, condition
from tests.language.cpp.tiles.terms import (
    SLOT,
    SLOTS,
    Found,
    address,
    offset,
    small,
    valid_columns,
    valid_rows,
)


def declaration(draw: Draw, found: Found) -> list[str]:
    """Return a new tile or pointer, which is visible from here on."""
    return draw.weighted(_ALL)(draw, found)


def placed(draw: Draw, found: Found, tile: str) -> str:
    """Return what gives a tile an address."""
    return f"TASSIGN({tile}, {address(draw, found)});"


def _tile(draw: Draw, found: Found) -> list[str]:
    name = draw.name("t")
    kind = draw.among("whole", "whole", "whole", "half", "tall", "wide", "both", "rows", "partial")
    given = ""
    if kind == "rows":
        given = f"({valid_rows(draw, found)})"
    elif kind == "both":
        given = f"({valid_rows(draw, found)}, {valid_columns(draw, found)})"
    place = placed(draw, found, name)
    if draw.chance(0.15):
        place = f"TASSIGN<{draw.number(0, SLOTS - 1) * SLOT:#x}>({name});"
    found.tiles[name] = kind
    return [f"{found.type(kind)} {name}{given};", place]


def _array(draw: Draw, found: Found) -> list[str]:
    """Return an array; of its elements one is visible, and one that the run chooses."""
    name, length = draw.name("t"), draw.among(2, 3)
    lines = [f"{found.type('whole')} {name}[{length}];"]
    if draw.chance(0.5):
        i, more = draw.name("i"), draw.among("", f" + {2 * SLOT:#x}")
        lines.append(
            f"for (int {i} = 0; {i} < {length}; {i}++) TASSIGN({name}[{i}], {i} * {SLOT:#x}{more});"
        )
    else:
        lines += [placed(draw, found, f"{name}[{index}]") for index in range(length)]
    chosen = small(draw, found, 1)
    for index in (str(draw.number(0, length - 1)), chosen):
        found.tiles[f"{name}[{index}]"] = "whole"
    return lines


def _reference(draw: Draw, found: Found) -> list[str]:
    name, wholes = draw.name("t"), found.of_kind("whole")
    one, other = draw.random.sample(wholes, 2)
    chosen = f"{condition(draw, found.numbers, 1)} ? {one} : {other}" if draw.chance(0.6) else one
    found.tiles[name] = "whole"
    return [f"auto &{name} = {chosen};"]


def _copy(draw: Draw, found: Found) -> list[str]:
    """Return a copy; most are placed anew, and leave the other where it is."""
    name, of = draw.name("t"), draw.among(*found.tiles)
    lines = [f"auto {name} = {of};"]
    if draw.chance(0.6):
        lines.append(placed(draw, found, name))
    found.tiles[name] = found.tiles[of]
    return lines


def _window(draw: Draw, found: Found) -> list[str]:
    name, of = draw.name("t"), draw.among(*found.of_kind("whole"))
    half = f"{found.type('half')} {name};"
    found.tiles[name] = "half"
    return [half, f"TSUBVIEW({name}, {of}, {draw.among(0, 2, 4)}, 0);"]


def _address_inside(draw: Draw, found: Found) -> list[str]:
    """Return half of a tile, placed by an address that is computed of the address of the whole."""
    name, of = draw.name("t"), draw.among(*found.of_kind("whole"))
    width = found.element.width
    across = draw.among(
        str(4 * width), f"{small(draw, found, 1)} * {4 * width}",
        f"{small(draw, found, 3)} * {width}",
    )  # fmt: skip
    found.tiles[name] = "half"
    return [
        f"{found.type('half')} {name};",
        f"TASSIGN({name}, (uint64_t)({of}.data() + {across}));",
    ]


def _reshaped(draw: Draw, found: Found) -> list[str]:
    name, of = draw.name("t"), draw.among(*found.of_kind("whole"))
    found.tiles[name] = "wide"
    return [f"{found.type('wide')} {name};", f"TRESHAPE({name}, {of});"]


def _pointer(draw: Draw, found: Found) -> list[str]:
    """Return a pointer into `a`, two offsets after its begin at most."""
    name = draw.name("p")
    base = draw.among(*(p for p, far in found.pointers.items() if far < 2))
    found.pointers[name] = found.pointers[base] + 1
    return [f"__gm__ {found.element.name} *{name} = {base} + {offset(draw, found)};"]


_ALL: dict[Callable[[Draw, Found], list[str]], float] = {
    _tile: 35, _array: 15, _reference: 12, _copy: 12, _window: 5, _address_inside: 5, _reshaped: 3,
    _pointer: 13,
}  # fmt: skip
