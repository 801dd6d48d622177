"""Statements of random kernels of tiles."""

from __future__ import annotations

from collections.abc import Callable

from tests.language.cpp.scalars.statements import indented
from tests.language.cpp.scalars.terms import Draw, condition, expression
from tests.language.cpp.tiles.declarations import declaration, placed
from tests.language.cpp.tiles.moves import load_or_store
from tests.language.cpp.tiles.terms import (
    BARRIER,
    KINDS,
    Found,
    address,
    offset,
    small,
    valid_columns,
    valid_rows,
    value,
)

DEEPEST = 2
"""How many blocks are in each other."""


def statement(draw: Draw, found: Found) -> list[str]:
    """Return the lines of a statement; without a block when all statements are used up."""
    draw.left -= 1
    is_short = draw.left < 0 or found.depth > DEEPEST
    return draw.weighted(_SHORT if is_short else _ALL)(draw, found)


def _block(draw: Draw, found: Found, most: int = 3) -> list[str]:
    """Return the lines of a block of some statements, indented."""
    return indented([line for _ in range(draw.number(1, most)) for line in statement(draw, found)])


def _operation(draw: Draw, found: Found) -> list[str]:
    """Return an operation on tiles of one shape; of a tile whose shape the run says with itself."""
    tile = draw.among(*found.tiles)
    kind = found.tiles[tile]
    alike = [tile] if KINDS[kind].shape(found.element)[0] < 0 else found.of_kind(kind)
    first = draw.among(*alike)
    if draw.chance(0.5):
        name = draw.among("TADDS", "TSUBS", "TMULS")
        return [f"{name}({tile}, {first}, {value(draw, found)}); {BARRIER}"]
    # not of float: which of a NaN and a number is the greater one is no matter of C++
    others = () if found.element.name == "float" else ("TMAX", "TMIN")
    name = draw.among("TADD", "TSUB", "TMUL", *others)
    return [f"{name}({tile}, {first}, {draw.among(*alike)}); {BARRIER}"]


def _function(draw: Draw, found: Found) -> list[str]:
    """Return a call with a reference to a tile of any kind."""
    tile = draw.among(*found.tiles)
    return draw.among(
        [f"bump({tile}, {value(draw, found)});"], [f"times<{draw.number(0, 3)}>({tile});"],
        [f"act({tile}, {value(draw, found)});"], [f"moved({tile}, {address(draw, found)});"],
    )  # fmt: skip


def _copying_function(draw: Draw, found: Found) -> list[str]:
    """Return a call that takes or returns a tile as a copy."""
    tile, name = draw.among(*found.of_kind("whole")), draw.name("t")
    if draw.chance(0.4):
        return [f"placed({tile}, {address(draw, found)}, {value(draw, found)});"]
    lines = [f"auto {name} = other({tile}, {small(draw, found, 3)});"]
    if draw.chance(0.5):
        lines = [f"auto {name} = same({tile});"]
        lines += [placed(draw, found, name)] if draw.chance(0.5) else []
    found.tiles[name] = "whole"
    return lines


def _struct(draw: Draw, found: Found) -> list[str]:
    """Return a struct with copies of two tiles, which are visible, and calls of its member function."""
    given = ", ".join(draw.random.sample(found.of_kind("whole"), 2))
    if draw.chance(0.3):
        return [f"Pair{{{given}}}.mix({value(draw, found)});"]
    name = draw.name("q")
    lines = [f"Pair {name}{{{given}}};", f"{name}.mix({value(draw, found)});"]
    if draw.chance(0.6):
        lines += [placed(draw, found, f"{name}.a"), f"{name}.mix({value(draw, found)});"]
    found.tiles.update({f"{name}.a": "whole", f"{name}.b": "whole"})
    return lines


def _assignment(draw: Draw, found: Found) -> list[str]:
    """Return an assignment or an exchange of tiles that have names: one of several that the run chooses
    is not assigned."""
    named = [tile for tile in found.of_kind("whole") if "[" not in tile]
    one, other = draw.random.sample(named, 2)
    if draw.chance(0.6):
        return [f"{one} = {other};"]
    kept = draw.name("s")
    return [f"{{ auto {kept} = {one}; {one} = {other}; {other} = {kept}; }}"]


def _placed_anew(draw: Draw, found: Found) -> list[str]:
    return [placed(draw, found, draw.among(*found.tiles))]


def _valid(draw: Draw, found: Found) -> list[str]:
    """Return a change of what is valid, or a number that is computed of it."""
    tiles = found.of_kind("rows", "both")
    if not tiles:
        return declaration(draw, found)
    tile = draw.among(*tiles)
    rows, columns = valid_rows(draw, found), valid_columns(draw, found)
    if found.tiles[tile] == "rows":
        return draw.among(
            [f"{tile}.SetValidRow({rows});"], [f"y = (y + {tile}.GetValidRow()) & 1023;"]
        )
    return draw.among(
        [f"{tile}.SetValidShape({rows}, {columns});"], [f"{tile}.SetValidRow({rows});"],
        [f"{tile}.SetValidCol({columns});"],
        [f"x = (x + {tile}.GetValidCol() * {tile}.GetValidRow()) & 1023;"],
    )  # fmt: skip


def _number(draw: Draw, found: Found) -> list[str]:
    sign = draw.among("=", "+=", "-=", "^=")
    return [f"{draw.among('x', 'y')} {sign} {small(draw, found, 1023)};"]


def _single_element(draw: Draw, found: Found) -> list[str]:
    """Return a load or store of a single element."""
    tile, at = draw.among(*found.tiles), small(draw, found, 31)
    if found.element.name == "float":
        return _number(draw, found)
    if draw.chance(0.6):
        return [f"{draw.among('x', 'y')} = {tile}.GetValue({at}) & 255;"]
    return [f"{tile}.SetValue({at}, {value(draw, found)}); {BARRIER}"]


def _pointer(draw: Draw, found: Found) -> list[str]:
    """Return a change of a pointer."""
    names = [name for name, far in found.pointers.items() if far]
    if not names:
        return declaration(draw, found)
    name = draw.among(*names)
    step = draw.among("16", "32", f"{small(draw, found, 3)} * 8")
    return draw.among(
        [f"{name} = a + {offset(draw, found)};"], [f"if ({name} < a + 400) {name} += {step};"]
    )


def _loop(draw: Draw, found: Found) -> list[str]:
    # the counter is visible in the body, not in where the loop ends
    end = draw.among(str(draw.number(0, 4)), small(draw, found, 3), "(n & 3)", "(m & 3) + 1")
    i = draw.name("i")
    head = draw.among(
        f"int {i} = 0; {i} < {end}; {i}++", f"int {i} = {end}; {i} > 0; {i}--",
        f"int {i} = 0; {i} < {end}; {i} += 2",
        f"uint32_t {i} = 0; {i} < (uint32_t)({end}); ++{i}",
    )  # fmt: skip
    inner = found.inner()
    inner.numbers.declare(i, "int", is_place=False)
    return [f"for ({head}) {{", *_block(draw, inner, 4), "}"]


def _while(draw: Draw, found: Found) -> list[str]:
    start, i = small(draw, found, 3), draw.name("i")
    body = _block(draw, found.inner())
    return [f"int {i} = {start};", f"while ({i} > 0) {{", *body, f"  {i}--;", "}"]


def _if(draw: Draw, found: Found) -> list[str]:
    lines = [f"if ({condition(draw, found.numbers, 1)}) {{", *_block(draw, found.inner())]
    if draw.chance(0.5):
        lines += ["} else {", *_block(draw, found.inner())]
    return [*lines, "}"]


def _switch(draw: Draw, found: Found) -> list[str]:
    """Return a `switch`; a case without `break` goes on into the next one."""
    lines = [f"switch ({expression(draw, found.numbers, 1)} & 3) {{"]
    for label in ("case 0:", "case 1:", draw.among("case 2:", "default:")):
        end = " break;" if draw.chance(0.7) else ""
        lines += [f"{label} {{", *_block(draw, found.inner(), 2), f"}}{end}"]
    return [*lines, "}"]


_Maker = Callable[[Draw, Found], list[str]]
_SHORT: dict[_Maker, float] = {
    declaration: 22, load_or_store: 20, _operation: 20, _function: 3, _copying_function: 1.5, _struct: 1.5,
    _assignment: 2.5, _placed_anew: 2, _valid: 4, _number: 5, _single_element: 2, _pointer: 3,
}  # fmt: skip
_ALL: dict[_Maker, float] = _SHORT | {_loop: 6.5, _while: 2.5, _if: 5.5, _switch: 1.5}
