"""Type texts to types. Each distinct text is parsed once."""

from __future__ import annotations

import re
from functools import lru_cache
from threading import Lock

from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.ir.core import MAX_SPELLED, REFUSED, TOO_LONG
from ptosim.ground.ir.types import ErrorType, ScalarType, Type
from ptosim.ground.isa.dtypes import dtypes
from ptosim.ground.nearest import nearest
from ptosim.ground.source import Source
from ptosim.language.syntax.driver import Driver, grammar_driver, load_tables
from ptosim.language.syntax.scanner import PatternScanner
from ptosim.language.syntax.type_builder import TypeBuilder
from ptosim.language.syntax.type_parts import DatedPart, TypeFault

_ORDER = (
    "VIEW", "QUANT", "NAMED", "ELLIPSIS", "SPACE_ATTR", "LAYOUT", "AFFINE", "DIMS", "UNRANKED",
    "VALID", "SCALAR", "WORD", "INT", "QUESTION",
)  # fmt: skip
_BRACKETED = frozenset(("QUANT", "AFFINE", "LAYOUT"))
_NAME = re.compile(r"![\w.]+")

_TOO_LONG = f"the type has more than {MAX_SPELLED:,} characters when its aliases are written out"
_HINT = "write a type that names fewer others: each that is named twice doubles it"
_REPLACED = {TOO_LONG: (_TOO_LONG, _HINT), REFUSED: (None, None)}
"""What to say of texts that stand for others: of the second it has been said."""


class ParsedType:
    """A type with what is worth knowing about its spelling; `dated` are the parts of it that not
    every date has."""

    __slots__ = ("dated", "fault", "hint", "legacy", "type")

    def __init__(
        self, type_: Type, legacy: str | None = None, dated: tuple[DatedPart, ...] = ()
    ) -> None:
        self.type = type_
        self.legacy = legacy  # why the spelling is an old one
        self.dated = dated
        self.fault: str | None = None
        self.hint: str | None = None


_CACHE: dict[str, ParsedType] = {}
_LOCK = Lock()


def parse_type(text: str) -> ParsedType:
    """Parse a type text. A wrong one gives an ErrorType with `fault` (and perhaps `hint`) set."""
    parsed = _CACHE.get(text)
    if parsed is None:
        parsed = _parse(text)
        if len(_CACHE) > 50_000:  # a long-lived process must not keep every type it ever saw
            _CACHE.clear()
        _CACHE[text] = parsed
    return parsed


def _parse(text: str) -> ParsedType:
    scalar = dtypes().get(text)
    if scalar is not None and not text.startswith("!"):
        return ParsedType(ScalarType(scalar))
    driver, builder, scanner = _machinery()
    sink = Sink()
    with _LOCK:
        builder.begin()
        try:
            type_, _ = driver.parse(Source("type", text), scanner, sink)
            fault, hint = None, None
        except TypeFault as problem:
            type_, fault, hint = None, str(problem), problem.hint
        legacy, dated = builder.legacy, _once(builder.dated)
    if type_ is None and fault is None:
        fault = f"`{text}` is not a type"
        notes = [n for d in sink for n in d.notes]
        hint = _name_hint(text) or (notes[0] if notes else None)
    if text in _REPLACED:
        fault, hint = _REPLACED[text]
    parsed = ParsedType(type_ if type_ is not None else ErrorType(text), legacy, dated)
    parsed.fault, parsed.hint = fault, hint
    return parsed


def _name_hint(text: str) -> str | None:
    """The type whose name was probably meant."""
    name = _NAME.match(text)
    if name is None or name.group() in _heads():
        return None
    return nearest(name.group(), _heads())


@lru_cache(maxsize=1)
def _heads() -> tuple[str, ...]:
    """The names of the types that have something in brackets."""
    words = load_tables("types.lark").keywords
    views = ("!pto.tensor_view", "!pto.partition_tensor_view")
    return (*(w for w in words if w.startswith("!")), *views)


def _once(parts: list[DatedPart]) -> tuple[DatedPart, ...]:
    return tuple({part.what: part for part in parts}.values())


@lru_cache(maxsize=1)
def _machinery() -> tuple[Driver, TypeBuilder, PatternScanner]:
    builder = TypeBuilder()
    driver, tables = grammar_driver("types.lark", builder)
    return driver, builder, PatternScanner(tables, _ORDER, bracketed=_BRACKETED)
