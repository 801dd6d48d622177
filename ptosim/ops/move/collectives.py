"""Copies between ranks through tiles, and collective copies of a group.

A copy goes in chunks as large as the valid region of its tile: dimensions 3 and 4 of the view are
cut, the others are loops around it. How it is cut changes no byte, so that the copy is done as a
whole; whether the tile fits is checked (pto-isa headers, communication)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptosim.machine.pages import view_dtype
from ptosim.machine.tile import TileRef
from ptosim.ops.base.binding import Binding, GmAccess, OpFault
from ptosim.ops.base.functions import Commit, kernel
from ptosim.ops.move.transfer import check_atomic
from ptosim.ops.tile import elementwise

_COMBINE = {"Sum": "add", "Max": "max", "Min": "min"}


@kernel("pto.comm.tput", "pto.comm.tget")
def copy_in_chunks(op: Binding) -> Commit:
    """Copy src to dst, or add it with `atomicType`; raises OpFault where the chunks do not fit."""
    src, dst = op.view("src"), op.view("dst")
    _same_shape(op, src.sizes, dst.sizes)
    _check_chunks(op, "buf", src.sizes)
    source, target = src.array(), dst.array()
    if op.attr("atomicType") != "atomic_add":
        return lambda: np.copyto(target, source)
    check_atomic(dst)
    numbers = view_dtype(dst.dtype)
    source, target = source.view(numbers), target.view(numbers)
    return lambda: np.copyto(target, target + source)


@kernel("pto.comm.tbroadcast")
def broadcast(op: Binding) -> Commit:
    """Copy the root's tensor to every member."""
    src = op.view("src")
    targets = [member.array() for member in _members(op, src.sizes)]
    _check_chunks(op, "recv", src.sizes)
    source = src.array()

    def copy() -> None:
        for target in targets:
            np.copyto(target, source)

    return copy


@kernel("pto.comm.tgather")
def gather(op: Binding) -> Commit:
    """Collect the members' tensors: that of member r are rows r*H to (r+1)*H of dimension 3, H
    being the members' extent there."""
    dst = op.view("dst")
    members, parts = _rows_of_members(op, dst)

    def copy() -> None:
        for part, member in zip(parts, members, strict=True):
            np.copyto(part, member)

    return copy


@kernel("pto.comm.tscatter")
def scatter(op: Binding) -> Commit:
    """The inverse: member r gets its rows."""
    members, parts = _rows_of_members(op, op.view("src"))

    def copy() -> None:
        for part, member in zip(parts, members, strict=True):
            np.copyto(member, part)

    return copy


@kernel("pto.comm.treduce")
def reduce(op: Binding) -> Commit:
    """Combine the members' tensors: the root's first, then the others in their order, each step
    rounded to the element type."""
    dst = op.view("dst")
    members = _members(op, dst.sizes)
    _check_chunks(op, "recv", dst.sizes)
    numbers = view_dtype(dst.dtype)
    root = op.attr("root")
    order = [root, *(i for i in range(len(members)) if i != root)]
    sources = [members[i].array().view(numbers) for i in order]
    combine = elementwise.word(op, _COMBINE[op.attr("reduceOp")], numbers)
    target = dst.array().view(numbers)

    def fold() -> None:
        total = sources[0].copy()
        for source in sources[1:]:
            combine(total, source.copy(), out=total)
        np.copyto(target, total)

    return fold


def _members(op: Binding, sizes: Sequence[int]) -> list[GmAccess]:
    members = [op.view_of(view) for view in op.values["group"]]
    for member in members:
        _same_shape(op, member.sizes, sizes)
    return members


def _rows_of_members(op: Binding, whole: GmAccess) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The members' elements, and the rows of the whole tensor that correspond to each."""
    members = [op.view_of(view) for view in op.values["group"]]
    rows = members[0].sizes[3]
    for member in members:
        _same_shape(op, member.sizes, (*whole.sizes[:3], rows, whole.sizes[4]))
    if rows * len(members) > whole.sizes[3]:
        raise OpFault(
            "PTO6025",
            f"'{op.op.name}': {len(members)} members of {rows} rows do not fit into "
            f"{whole.sizes[3]} rows",
            help=f"give the whole tensor {rows * len(members)} rows",
        )
    _check_chunks(op, "recv", members[0].sizes)
    array = whole.array()
    parts = [array[:, :, :, n * rows : (n + 1) * rows] for n in range(len(members))]
    return [member.array() for member in members], parts


def _same_shape(op: Binding, one: Sequence[int], other: Sequence[int]) -> None:
    if tuple(one) != tuple(other):
        raise OpFault(
            "PTO6025",
            f"'{op.op.name}' copies between windows of {list(one)} and {list(other)} elements",
            help="give the windows one shape",
        )


def _check_chunks(op: Binding, name: str, sizes: Sequence[int]) -> None:
    """A chunk has elements; a valid extent that the type fixes divides what it cuts, one that the
    run decides need not: the last chunk is shorter then."""
    tile: TileRef = op.values[name][0]
    if tile is None:
        raise OpFault("PTO6003", f"operand {name} of '{op.op.name}' has no tile yet")
    fixed = (tile.type.v_row, tile.type.v_col)
    for valid, static, size, word in zip(
        (tile.v_row, tile.v_col), fixed, sizes[3:], ("ValidRow", "ValidCol"), strict=True
    ):
        if valid <= 0:
            raise OpFault(
                "PTO6040",
                f"'{op.op.name}' goes through a tile with {word} {valid}, which holds nothing",
                help="give the tile a valid region",
            )
        if static is not None and valid < size and size % valid:
            raise OpFault(
                "PTO6040",
                f"'{op.op.name}': an extent of {size} must be divisible by tile {word} ({valid})",
                notes=("a valid extent in the tile's type cuts the view into equal chunks",),
                help="use a divisor, or a valid extent that the run decides",
            )
