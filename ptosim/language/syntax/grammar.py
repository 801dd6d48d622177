"""Grammars of `isa/` as tables and drivers."""

from __future__ import annotations

from typing import Any

from ptosim.ground.isa.cache import cached
from ptosim.ground.isa.paths import isa_directory
from ptosim.language.syntax import tables
from ptosim.language.syntax.driver import Driver


def load_tables(grammar: str) -> tables.Tables:
    """Return the LALR tables of a grammar file of `isa/`, from the cache after the first time."""
    path = isa_directory() / grammar
    text = path.read_text(encoding="utf-8")
    plain = cached(path.stem, text.encode(), lambda: tables.to_plain(tables.build(text)))
    return tables.from_plain(plain)


def grammar_driver(grammar: str, builder: Any) -> tuple[Driver, tables.Tables]:
    """Return a driver without error recovery, and its tables, for a small grammar of `isa/`."""
    found = load_tables(grammar)
    return Driver(found, builder), found
