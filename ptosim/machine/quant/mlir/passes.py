"""What MLIR's passes do to types of the quant dialect: simpler spellings, and the stored type.

Nothing here folds `dcast(qcast(x))`: MLIR's canonicaliser does, and with it goes the quantisation
that a simulation is about."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ptosim.ground.records import dataclass, replace
from ptosim.machine.quant.mlir.cursor import Cursor, MlirFault
from ptosim.machine.quant.mlir.parser import read_quant
from ptosim.machine.quant.mlir.types import QuantType, UniformType

_START = re.compile(r"!quant(?=[.<])")
_SKIPPED = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"')


def normalized(type_: UniformType, *, upstream: bool = False) -> UniformType:
    """Return a type of blocks as one per tensor or per axis where that says the same.

    One scale covers the whole tensor; scales along one axis alone, one for each index of it, are
    per axis. `upstream`: as `--normalize-quant-types` of MLIR 22.1, which overlooks that blocks of
    more than one index are not per axis."""
    if type_.blocks is None:
        return type_
    if len(type_.scales) == 1:
        return replace(type_, blocks=None, axis=None, shape=())
    wide = [axis for axis, size in enumerate(type_.shape) if size != 1]
    if len(wide) != 1:
        return type_
    size = dict(type_.blocks).get(wide[0])
    if size != 1 and not upstream:
        return type_
    return replace(type_, blocks=None, axis=wide[0], shape=())


@dataclass(frozen=True, slots=True)
class Found:
    """A type in a text: where, and what it is, or why it is none."""

    start: int
    end: int
    type: QuantType | None
    messages: tuple[str, ...] = ()
    at: int = 0


def find(text: str, version: str = "2026") -> Iterator[Found]:
    """Yield the quantised types of a text in any language, comments and strings left out."""
    skipped = [m.span() for m in _SKIPPED.finditer(text)]
    for match in _START.finditer(text):
        start = match.start()
        if any(a <= start < b for a, b in skipped):
            continue
        cursor = Cursor(text, start)
        try:
            found = read_quant(cursor, version)
            yield Found(start, cursor.pos, found)
        except MlirFault as fault:
            yield Found(start, match.end(), None, tuple(fault.messages), fault.offset)


def rewritten(text: str, change: Callable[[QuantType], str]) -> str:
    """Return a text with every quantised type spelled anew; types that are wrong stay."""
    parts, last = [], 0
    for found in find(text):
        if found.type is None:
            continue
        parts += [text[last : found.start], change(found.type)]
        last = found.end
    return "".join([*parts, text[last:]])
