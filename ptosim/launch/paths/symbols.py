"""Which unknown numbers a launch has: scalar arguments, and where the program runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ptosim.engine.paths.forms import ARGUMENT, COUNT, INDEX, Symbol, range_of
from ptosim.ground.ir.types import ScalarType
from ptosim.launch.launch import Launch
from ptosim.launch.prepared import Prepared
from ptosim.machine.core import SLOT_BLOCK, SLOT_BLOCK_NUM

_MOST_BLOCKS = 1 << 16
BLOCKS = Symbol("blocks", COUNT, 1, _MOST_BLOCKS, 1)
BLOCK = Symbol("block", INDEX, 0, _MOST_BLOCKS, 0, "blocks")

_PROMISED = {
    "__pypto_spmd_block_idx": (INDEX, "__pypto_spmd_block_num"),
    "__pypto_spmd_block_num": (COUNT, ""),
    "__pypto_spmd_subblock_idx": (INDEX, ""),
    "block_idx": (INDEX, ""),
    "rank": (INDEX, ""),
    "rank_id": (INDEX, ""),
}
_HIGHEST = {"__pypto_spmd_subblock_idx": 1}


def argument_symbols(prepared: Prepared, given: Collection[str]) -> dict[str, Symbol]:
    """Return the symbols of the whole numbers among the arguments that are not given, by name."""
    found: dict[str, Symbol] = {}
    for function in prepared.launched:
        for value in function.args:
            type_ = value.type
            if not isinstance(type_, ScalarType) or type_.dtype.is_float or value.name in given:
                continue
            kind, below = _PROMISED.get(value.name, (ARGUMENT, ""))
            low, high = range_of(type_.dtype)
            if kind != ARGUMENT:
                low, high = int(kind == COUNT), min(high, _HIGHEST.get(value.name, _MOST_BLOCKS))
            found[value.name] = Symbol(value.name, kind, low, high, int(kind != INDEX), below)
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
