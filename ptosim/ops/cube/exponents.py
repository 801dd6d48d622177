"""TMOV with a scratch tile: block exponents into the ZZ form of the cube's scale memory.

A box has 32 bytes: 16 rows (columns, where groups run along columns) with two exponents each.
"""

from __future__ import annotations

import numpy as np

from ptosim.machine.layout import round_up
from ptosim.machine.storage import POISON
from ptosim.ops.base.binding import Binding, OpFault, flat_bytes, tile_array
from ptosim.ops.base.functions import Commit, kernel, nothing


@kernel("pto.tmov:exponents", over="src dst")
def tmov_exponents(op: Binding) -> Commit:
    """Exponents of groups along rows, or along columns (axis 0)."""
    along_columns = op.attr("grpAxis") == "axis0" or op.attr("grp_axis") == 0
    return _columns_to_zz(op) if along_columns else _rows_to_zz(op)


def _rows_to_zz(op: Binding) -> Commit:
    """ND to ZZ: e[r][g] goes to (r/16)*16*G + (g/2)*32 + (r%16)*2 + g%2. The source is dense with G
    exponents a row; rows up to the next multiple of 16 are cleared in it first."""
    src, dst = op.tile("src"), op.tile("dst")
    rows, groups = dst.v_row, dst.v_col
    if groups % 2:
        raise OpFault("PTO6014", f"{groups} exponents a row; the ZZ form takes pairs")
    if src.rows > 1 and src.cols != groups and not (src.v_row > 1 and src.cols == src.v_col):
        op.report(
            "PTO7003",
            f"reads src densely with {groups} exponents a row; its rows are {src.cols} apart",
            help="quantise into a one-row exponent tile",
        )
    padded = round_up(rows, 16)
    source = flat_bytes(src, padded * groups)
    target = flat_bytes(dst, padded * groups).reshape(padded // 16, groups // 2, 16, 2)
    scratch = _scratch(op, rows, groups)
    filled = (padded - rows) * groups
    op.writes_beyond("src", rows * groups, filled)
    for box in range(groups // 2 if filled else 0):  # the last rows of each box of the last 16 rows
        at = ((padded - 16) * groups) + 32 * box + 2 * (rows - padded + 16)
        op.writes_beyond("dst", at, 2 * (padded - rows))

    def move() -> None:
        source[rows * groups :] = 0
        scratch.fill(POISON)  # index tables of the gather; their content is not documented
        boxes = source.reshape(padded // 16, 16, groups // 2, 2).transpose(0, 2, 1, 3)
        target[...] = boxes

    return move


def _scratch(op: Binding, rows: int, groups: int) -> np.ndarray:
    tmp = op.tile("tmp")
    count = (16 + -(-rows // 16) * (groups // 2) + 16) * 2
    if count > tmp.type.bytes:
        op.report(
            "PTO6105",
            f"uses {count} bytes of scratch in a tile of {tmp.type.bytes}",
            help="scratch takes 2 * (32 + ceil(M/16) * G/2) bytes",
        )
    return flat_bytes(tmp, min(count, tmp.type.bytes))


def _columns_to_zz(op: Binding) -> Commit:
    """DN to ZZ: exponent rows 2p and 2p+1 of column c go to (c/16)*32*(M/2) + p*32 + (c%16)*2.
    Whole blocks of 16 columns and whole pairs of rows."""
    src, dst = op.tile("src"), op.tile("dst")
    rows, stride = src.v_row, src.v_col
    pairs, blocks = rows // 2, stride // 16
    if rows % 2 or stride % 16:
        op.report(
            "PTO7003",
            f"moves {pairs * 2}x{blocks * 16} of {rows}x{stride} exponents: whole boxes only",
        )
    if rows > 1 and stride != src.cols:
        op.report(
            "PTO7003",
            f"reads src densely with {stride} exponents a row; its rows are {src.cols} apart",
            help="give src as many valid columns as columns",
        )
    if not pairs or not blocks:
        return nothing
    source = tile_array(src, (pairs, 2, blocks, 16), (2 * stride, stride, 16, 1), np.uint8)
    target = flat_bytes(dst, blocks * pairs * 32).reshape(blocks, pairs, 16, 2)
    return lambda: np.copyto(target, source.transpose(2, 0, 3, 1))
