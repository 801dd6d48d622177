"""Which unknown numbers a launch has: scalar arguments, and where the program runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ptosim.engine.paths.forms import ARGUMENT, COUNT, INDEX, Symbol, range_of
from ptosim.ground.ir.types import ScalarType
from ptosim.language import promises
from ptosim.language.promises import MOST_BLOCKS, promises_of
from ptosim.launch.launch import Launch
from ptosim.launch.prepared import Prepared
from ptosim.machine.core import SLOT_BLOCK, SLOT_BLOCK_NUM

BLOCKS = Symbol("blocks", COUNT, 1, MOST_BLOCKS, 1)
BLOCK = Symbol("block", INDEX, 0, MOST_BLOCKS - 1, 0, "blocks")
_KINDS = {promises.INDEX: INDEX, promises.COUNT: COUNT}
_RANKS = ("rank", "rank_id")
"""Names of the number of a device: 0 always occurs."""


def argument_symbols(prepared: Prepared, given: Collection[str]) -> dict[str, Symbol]:
    """Return the symbols of the whole numbers among the arguments that are not given, by name."""
    found: dict[str, Symbol] = {}
    for function in prepared.launched:
        promised = promises_of(function)
        for value in function.args:
            type_, promise = value.type, promised.get(value.name)
            if promise is None or not isinstance(type_, ScalarType) or value.name in given:
                continue
            kind = INDEX if value.name in _RANKS else _KINDS.get(promise.kind, ARGUMENT)
            low, high = range_of(type_.dtype)
            low = 0 if kind == INDEX else low if promise.low is None else promise.low
            high = min(high, high if promise.high is None else promise.high)
            default = int(kind != INDEX)
            found[value.name] = Symbol(value.name, kind, low, high, default, promise.below)
    return found


def seeds_of(launch: Launch, symbols: Mapping[str, Symbol]) -> dict[int, Symbol]:
    """Return the slots of a launch that hold symbols."""
    found = {SLOT_BLOCK: BLOCK, SLOT_BLOCK_NUM: BLOCKS}
    for function in launch.prepared.launched:
        for value in function.args:
            slot = launch.program.slots.get(value)
            if value.name in symbols and slot is not None:
                found[slot] = symbols[value.name]
    return found
