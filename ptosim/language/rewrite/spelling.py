"""How types are written in a program, so that what is rewritten is written the same way again.

Where the allocation of a tile is no longer needed because the tile is a result, a comment keeps
its place and its text: `// alloc_tile %a : !pto.tile_buf<vec, 16x64xf32>`. Written back to the form
with destinations, the allocation takes the place of the comment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ptosim.ground.ir.core import Module, Operation, Region, Tok, Value
from ptosim.ground.ir.types import AbstractTileType, TileType, Type
from ptosim.ground.records import replace
from ptosim.language.bind.names import for_target
from ptosim.language.syntax.types import parse_type

_NOTE = re.compile(r"// alloc_tile %([\w$.\-]+) : (\S.*?)\s*$")


class Spelling:
    """The texts of the types of values: as they are where a value is defined."""

    def __init__(self, module: Module, target: str) -> None:
        self._module = module
        self._target = target
        self._texts: dict[Value, str] = {}
        for op in module.walk():
            for value, token in _defined(op):
                self._texts[value] = token.value

    def of(self, value: Value | None, type_: Type, *, ssa: bool) -> str:
        """Return the text of the type of a value in a form. An alias stays one; a tile of the other
        form is written in this one."""
        text = self._texts.get(value) if value is not None else None
        if text is not None and self._fits(text, type_, ssa=ssa):
            return text
        return plain(type_, ssa=ssa)

    def _fits(self, text: str, type_: Type, *, ssa: bool) -> bool:
        is_alias = text in self._module.type_aliases
        if isinstance(type_, (TileType, AbstractTileType)) and not is_alias:
            return not ssa and not text.startswith("!pto.tile<") and self.means(text, type_)
        return self.means(text, type_)

    def means(self, text: str, type_: Type) -> bool:
        """True for a text of this type, in either form."""
        found = for_target(parse_type(self._module.spelled_out(text)).type, self._target)
        return plain(found, ssa=False) == plain(type_, ssa=False)

    def learn(self, value: Value, text: str) -> None:
        """Note how the type of a value is written."""
        self._texts[value] = text

    def text_of(self, value: Value) -> str | None:
        """Return how the type of a value is written where it is defined."""
        return self._texts.get(value)


def plain(type_: Type, *, ssa: bool) -> str:
    """Return a type as it is written without regard to how it was written."""
    if isinstance(type_, TileType):
        return str(replace(type_, ssa=ssa))
    if isinstance(type_, AbstractTileType):
        return str(AbstractTileType("tile" if ssa else "tile_buf"))
    return str(type_)


def _defined(op: Operation) -> Iterator[tuple[Value, Tok]]:
    """The values that an operation defines, with their types where the text has them."""
    tokens = op.arrow if op.arrow else op.types if op.has("makes_storage") else ()
    if len(tokens or ()) == len(op.results):
        yield from zip(op.results, tokens or (), strict=True)
    for block in (block for region in op.regions for block in region.blocks):
        for value, (_, token) in zip(block.values, block.args, strict=False):
            if token is not None:
                yield value, token


# -- the comments ----------------------------------------------------------------------------------


def note(name: str, text: str, at: int) -> Tok:
    """Return the comment that keeps the place of an allocation."""
    return Tok("COMMENT", f"// alloc_tile %{name} : {text}", at)


class Notes:
    """The comments of a module that keep places of allocations."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._found: dict[str, list[tuple[Tok, str]]] = {}
        for comment in module.comments:
            if (found := _NOTE.match(comment.value)) is not None:
                self._found.setdefault(found[1], []).append((comment, found[2]))

    def take(self, value: Value, block: Sequence[Operation], start: int) -> tuple[int, str] | None:
        """Return the place and the type of the allocation of a value that an operation of a block
        defines, if a comment of the block, which begins after `start`, has them; it goes."""
        for found in self._found.get(value.name, ()):
            at = found[0].start
            nested = any(op.start < at < op.end for op in block)
            if not nested and start < at < value.start:
                self._found[value.name].remove(found)
                self._module.comments = [c for c in self._module.comments if c is not found[0]]
                return at, found[1]
        return None


def starts(op: Operation) -> Iterator[tuple[Region, int]]:
    """Return each region of an operation with the place after which its text is."""
    at = op.name_end
    for region in op.regions:
        yield region, at
        at = region.end
