"""What rules of `isa/structure.toml` ask about FIFOs between cores, as August 2026 has them:
several for each function, with ids; entries that are tiles or views of global memory; odd halves;
pushes that convert on their way out of the accumulator (`acc_push_epilogue`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod

from ptosim.ground.ir.attributes import number_of
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import TileType, Type, ViewType
from ptosim.ground.isa.epilogues import Epilogue, layouts, quants, relus
from ptosim.ground.records import NamedTuple, replace
from ptosim.ground.source import Source
from ptosim.language.verify.checks.pipe_ends import DIRECTIONS, End, Use


class Extent(NamedTuple):
    """A dimension of an entry that is none of its slot's."""

    number: int
    given: int
    wanted: int


class WrongWord(NamedTuple):
    """A word of an epilogue that the assembler does not have: the enum and its words."""

    enum: str
    known: str


# -- the initialisation --------------------------------------------------------------------------

_KEYS = (
    "id",
    "dir_mask",
    "slot_size",
    "slot_num",
    "local_slot_num",
    "nosplit",
    "acc_push_epilogue",
)
_OPERANDS = ("gm_slot_buffer", "gm_slot_tensor", "c2v_consumer_buf", "v2c_consumer_buf")
_HIDDEN = frozenset(
    (
        "stPhase", "st_phase", "atomicType", "atomic_type", "subBlockId", "subBlockid",
        "sub_blockid", "clipReluMode", "clip_relu_mode", "isChannelSplit", "is_channel_split",
        "channelSplit", "channel_split", )
)  # fmt: skip
_NAME = re.compile(r"(\w+)\s*=(?!=)")


def header_faults(end: End, source: Source) -> Iterator[str]:
    """What is wrong with keys of the braces and names of the operands: each is there once, none
    that the form does not have."""
    if end.is_lowered or end.op.form == "generic":
        return
    braces, operands = _written(end.op, source)
    for names, known, what, unknown in (
        (braces, _KEYS, "clause", "unexpected keyword"),
        (operands, _OPERANDS, "operand", "unexpected initialize_pipe operand"),
    ):
        for at, name in enumerate(names):
            if name in _HIDDEN:
                continue
            if name not in known:
                yield f"{unknown} '{name}'"
            elif name in names[:at]:
                yield f"duplicate '{name}' {what}"


def _written(op: Operation, source: Source) -> tuple[list[str], list[str]]:
    """The names in the braces after the operation, and those in its parentheses."""
    text = source.text[op.name_end : op.end]
    braces, rest = _enclosed(text, "{", "}")
    operands, _ = _enclosed(rest, "(", ")")
    return _names(braces), _names(operands)


def _enclosed(text: str, opens: str, closes: str) -> tuple[str, str]:
    """The text between the first bracket and its partner, and what follows."""
    start = text.find(opens)
    if start < 0:
        return "", text
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == opens) - (text[at] == closes)
        if not depth:
            return text[start + 1 : at], text[at + 1 :]
    return text[start + 1 :], ""


def _names(text: str) -> list[str]:
    """The names with a value, those inside `<…>` left out."""
    flat = re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", text))
    return _NAME.findall(flat)


def makes_handle(op: Operation | None) -> bool:
    """True for the initialisation of a FIFO whose users name its handle."""
    if op is None or op.definition is None:
        return False
    return op.definition.fifo == "open" and bool(op.results)


# -- those who use it ----------------------------------------------------------------------------


def _unlike_dims(use: Use, slot: ViewType) -> Iterator[Extent]:
    """The extents of an entry that are none of a slot: of a split entry half of the rows or columns
    fit, and all of them."""
    dims = getattr(use.entry, "dims", ())
    halved = len(dims) - {1: 2, 2: 1}.get(use.split, 0) if use.split else None
    for number, (dim, full) in enumerate(zip(dims, slot.dims, strict=True)):
        if dim is None or full is None or dim == full:
            continue
        if number != halved or dim * 2 not in (full, 4 * full):
            yield Extent(number, dim, full)


def _extent_of(entry: Type | None, axis: int) -> int | None:
    """The rows or columns of an entry of rank 2 whose type fixes them."""
    if isinstance(entry, TileType):
        return (entry.v_row, entry.v_col)[axis]
    if isinstance(entry, ViewType) and len(entry.dims) == 2:
        return entry.dims[axis]
    return None


_THROUGH_MEMORY = ("gm_slot_buffer", "gm_slot_tensor", "gm_addr")


def _is_backed(end: End) -> bool:
    """True for slots in global memory with a buffer for the vector cores."""
    is_through = any(end.op.bound.get(name) is not None for name in _THROUGH_MEMORY)
    return is_through and any(direction == "c2v" for direction, _ in end.buffers)


def _splits_of(end: End) -> list[int]:
    return sorted({use.split for use in end.users if use.says_split})


# -- epilogues -----------------------------------------------------------------------------------


def _unknown_words(epilogue: Epilogue) -> Iterator[WrongWord]:
    for enum, word, known in (
        ("Layout", epilogue.layout, tuple(layouts())),
        ("Quant", epilogue.quant, tuple(quants())),
        ("Relu", epilogue.relu, relus()),
    ):
        if word not in known:
            yield WrongWord(enum, ", ".join(known))


def _is_set(end: End, use: Use, word: str) -> bool:
    """True if a factor of the kind is set earlier in the block of a push."""
    before = use.block[: use.block.index(use.op)]
    return any(
        "sets_quant" in op.traits
        and op.name.endswith(word)
        and (number_of(op, "id") or 0) == end.id
        for op in before
    )


def _tiles_of(uses: Sequence[Use]) -> list[TileType]:
    return [t for use in uses if isinstance(t := use.entry, TileType)]


def _pushed_types(peer: End | None) -> set[str]:
    """The element types of the tiles that the other end pushes."""
    pushes = [use for use in peer.users if use.kind == "push"] if peer is not None else []
    return {type_.dtype.name for type_ in _tiles_of(pushes)}


def _fits_layout(tile: TileType, word: str) -> bool:
    return layouts().get(word) in (None, f"{tile.blayout} {tile.slayout}")


VERBS = {
    "makes_handle": makes_handle,
    "hidden": lambda op: [name for name in op.attrs if name in _HIDDEN],
    "reaches": lambda end, direction: bool(end.mask & DIRECTIONS[direction]),
    "is_through_memory": lambda end: "initialize_l2g2l" in end.op.name,
    "unlike_dims": _unlike_dims,
    "extent_of": _extent_of,
    "is_backed": _is_backed,
    "slot_bytes": lambda entry: entry.elem.bytes_for(prod(dim or 1 for dim in entry.dims)),
    "splits_of": _splits_of,
    "unknown_words": _unknown_words,
    "is_set": _is_set,
    "pops_of": lambda end: [use for use in end.users if use.kind == "pop"],
    "tiles_of": _tiles_of,
    "same_tile_types": lambda types: len({replace(t, ssa=False) for t in types}) <= 1,
    "pushed_types": _pushed_types,
    "fits_layout": _fits_layout,
    "next_converting": lambda ends: next((e for e in ends if e.epilogue is not None), None),
}
"""What rules can ask about FIFOs."""
