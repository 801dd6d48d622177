"""Pushes that convert on their way out of the accumulator: ReLU, a factor, the consumer's elements.

`set_quant_scalar` and `set_quant_vector` keep their factor for the pipe until it is set again; a
vector of A2/A3 holds quantisation words, one of A5 plain factors. The arithmetic is the fixpipe's
(`numerics.fixpipe`), with ReLU in front of the factor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.isa.conversions import conversion_name
from ptosim.ground.isa.epilogues import Quant
from ptosim.machine.fifo import PipeEnd
from ptosim.machine.numbers.fixpipe import Activation, Rules, fixed, word_of_scale
from ptosim.machine.numbers.formats import lookup
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, OpFault, tile_array
from ptosim.ops.base.functions import Commit

Convert = Callable[[np.ndarray], np.ndarray]

_SIGNED = np.uint64(1 << 46)


def converted(op: Binding, end: PipeEnd, tile: Tile) -> Convert:
    """Return what a push does to its tile's elements; nothing without an epilogue. What is returned
    raises OpFault where columns have no factor."""
    epilogue = end.epilogue
    quant = epilogue.conversion if epilogue is not None else None
    if epilogue is None or quant is None:
        return lambda values: values
    registers, activation = op.core.registers, Activation(epilogue.relu == "normal_relu")
    rules = Rules(relu="before", short_scale=quant.scale == "vector")
    target = _target(end, quant) if quant.gives else conversion_name(tile.type.dtype)

    def convert(values: np.ndarray) -> np.ndarray:
        if quant.scale is None:
            return fixed(values, target, None, activation)
        words = registers.get(f"pipe {end.number} {quant.scale}")
        if words is None:  # a run without values; the assembler asks for a factor before a push
            return np.zeros(values.shape, lookup(target).dtype)
        given, columns = np.asarray(words, np.uint64), values.shape[1]
        if quant.scale == "vector" and len(given) < columns:
            raise OpFault(
                "PTO6021",
                f"'{op.op.name}' scales {columns} columns; the last pto.set_quant_vector gave "
                f"{len(given)} factors",
                help=f"set a tile with {columns} valid elements",
            )
        signed = target == "i8"
        given = given[:columns]
        if signed:
            given = given | _SIGNED
        return fixed(values, target, given, activation, rules=rules)

    return convert


def _target(end: PipeEnd, quant: Quant) -> str:
    """The elements of the consumer's tile, as conversions name them."""
    name = end.popped_as or quant.gives[0]
    return {"si8": "i8"}.get(name, name)


def set_scalar(op: Binding) -> Commit:
    """Keep one factor for the pushes of a pipe."""
    word = word_of_scale(float(op.scalar("scale")))
    registers, key = op.core.registers, f"pipe {op.attr('id') or 0} scalar"

    def keep() -> None:
        registers[key] = (word,)  # type: ignore[assignment]

    return keep


def set_vector(op: Binding) -> Commit:
    """Keep the factors of the columns for the pushes of a pipe."""
    tile = op.tile("scaling_tile")
    registers, key = op.core.registers, f"pipe {op.attr('id') or 0} vector"

    def keep() -> None:
        registers[key] = _words(tile)  # type: ignore[assignment]

    return keep


def _words(tile: Tile) -> tuple[int, ...]:
    count = tile.v_row * tile.v_col
    if tile.type.dtype.bits == 64:
        return tuple(tile_array(tile, (count,), (8,), np.uint64).tolist())
    scales = tile.read().reshape(-1).astype(np.float32)
    return tuple(word_of_scale(float(scale)) for scale in scales)
