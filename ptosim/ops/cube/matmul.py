"""Matrix products of tiles: plain, onto an accumulator, with biases, with block scales.

The product covers m, k, n = valid rows and columns of lhs, valid columns of rhs. The order of the
hardware's sums is not documented; `numbers.matmul` says what is computed instead. HF32 is on where
bit 46 of the control register is set, its ties go away from zero where bit 47 is (pto-isa headers).

One scale (e8m0) serves 32 elements along k. The cube reads the scales of 16 rows of lhs (columns of
rhs) and two groups as 32 bytes, from the memory beside L0A or L0B at a sixteenth of the address of
the data: there micro instructions find and leave them, too. Of pairs of fp4 numbers,
which follow one another along k, it serves 32 pairs: the assembler's tiles have as many scales
(assumed).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.ir.types import PackedDType
from ptosim.ground.isa.conversions import conversion_name
from ptosim.ground.records import replace
from ptosim.machine.effects.strided import Touch
from ptosim.machine.layout import round_up
from ptosim.machine.numbers.matmul import operand, product, scaled
from ptosim.machine.numbers.rounding import keep_mantissa
from ptosim.machine.pages import POISON
from ptosim.machine.tile import Tile, tile_ref
from ptosim.ops.base.binding import Binding, OpFault, check_place, flat_bytes, tile_array
from ptosim.ops.base.functions import Commit, kernel, nothing

Reader = Callable[[], np.ndarray]

GROUP = 32
LARGEST_SIDE = 4095
_HF32_BITS = {"a2a3": 11, "a5": 10}
_HF32_MODES = ("round_even", "round_away")
_ONE_ROW = "pto.tgemv"
_KINDS = ("", ".acc", ".bias", ".mx", ".mx.acc", ".mx.bias")


@kernel(*(f"pto.{name}{kind}" for name in ("tmatmul", "tgemv") for kind in _KINDS))
def multiply(op: Binding) -> Commit:
    """dst = lhs x rhs, to which an accumulator or a row of biases is added."""
    lhs, rhs = op.tile("lhs"), op.tile("rhs")
    m, k, n = lhs.v_row, lhs.v_col, rhs.v_col
    if 0 in (m, n):
        return nothing
    for name, sizes in (("acc", (m, n)), ("dst", (m, n)), ("rhs", (k, n)), ("bias", (1, n))):
        op.covers(name, *sizes)
    if k == 0:
        return _without_products(op, m, n)
    _check_sizes(op, (m, k, n))
    left, right = _reader(op, "lhs", m, k), _reader(op, "rhs", k, n)
    if op.has("lhs_scale"):
        left = _scaled(left, _scales(op, "lhs", m, k), transposed=False)
        right = _scaled(right, _scales(op, "rhs", n, k), transposed=True)
    start = _start(op, m, n)
    order, write = op.switch("matmul.order"), _writer(op, m, n)

    def commit() -> None:
        write(product(left(), right(), None if start is None else start(), order=order))

    return commit


def _without_products(op: Binding, m: int, n: int) -> Commit:
    """Nothing is added: the accumulator or the biases, else 0 (assumed: no source says)."""
    start, write = _start(op, m, n), _writer(op, m, n)
    zeros = np.zeros((m, n), np.float64 if op.tile("dst").type.dtype.is_float else np.int64)
    return lambda: write(zeros if start is None else zeros + start())


def _check_sizes(op: Binding, sizes: tuple[int, int, int]) -> None:
    rhs, dst = op.tile("rhs"), op.tile("dst")
    m, k, n = sizes
    if m != 1 and op.op.name.startswith(_ONE_ROW):
        raise OpFault(
            "PTO6301",
            f"'{op.op.name}' takes one valid row of lhs; {m} are valid",
            help=f"use `{op.op.name.replace('tgemv', 'tmatmul')}`, or give lhs one valid row",
        )
    if max(sizes) > LARGEST_SIDE:
        raise OpFault(
            "PTO6300",
            f"'{op.op.name}' multiplies m, k, n = {m}, {k}, {n}; each is at most {LARGEST_SIDE}",
            help="multiply in blocks, and add them up with the .acc form",
        )
    if k > rhs.rows or m > dst.rows or n > dst.cols:
        raise OpFault(
            "PTO6301",
            f"'{op.op.name}': lhs is {m}x{k} and rhs {k}x{n}, but the tiles of rhs and dst are "
            f"{rhs.rows}x{rhs.cols} and {dst.rows}x{dst.cols}",
            notes=(
                "m, k and n are the valid rows and columns of lhs and the valid columns of rhs",
            ),
        )
    if rhs.v_row != k:
        op.report(
            "PTO6302",
            f"takes {k} rows of rhs, as many as lhs has columns; {rhs.v_row} of them are valid",
            help="give rhs as many valid rows as lhs has valid columns",
        )


# -- operands --------------------------------------------------------------------------------------


def _reader(op: Binding, role: str, rows: int, cols: int) -> Reader:
    """A factor as f64 (integers: i64), from its layout; the left one of a tgemv is one run of
    elements."""
    tile = factor_of(op, role, cols)
    if isinstance(tile.type.dtype, PackedDType):
        return _pairs(tile, tile.type.dtype, rows, cols, along=int(role == "lhs"))
    name = conversion_name(tile.type.dtype)
    boxes = tile.boxes(rows, cols)
    if boxes is None or name not in ("f32", "f16", "bf16"):
        read: Reader = lambda: operand(tile.read(rows, cols), name)  # noqa: E731
    else:
        read = _from_boxes(op, f"{role}.{name}", boxes)
    return _shortened(op, read) if name == "f32" else read


def factor_of(op: Binding, role: str, cols: int) -> Tile:
    """The tile of a factor; the left one of a tgemv has one row, whatever its type says."""
    tile = op.tile(role)
    if role == "lhs" and op.op.name.startswith(_ONE_ROW):
        return Tile(tile_ref(replace(tile.type, rows=1), tile.addr, 1, cols), tile.buffer)
    return tile


def _pairs(tile: Tile, dtype: PackedDType, rows: int, cols: int, *, along: int) -> Reader:
    """A factor whose elements are two numbers each, which follow one another along k; the low
    half is the first."""
    name = dtype.part.family

    def read() -> np.ndarray:
        codes = tile.read(rows, cols).view(np.uint8)
        both = np.stack((codes & 15, codes >> 4), axis=along + 1)
        shape = (rows, 2 * cols) if along else (2 * rows, cols)
        return operand(both.reshape(shape), name)

    return read


def _from_boxes(op: Binding, role: str, boxes: np.ndarray) -> Reader:
    """A factor of whole boxes. A line of a box is one item of memory, part of a row of the factor
    or of a column, which gives it turned round. Lines are put together first: NumPy converts long
    rows faster than short ones. One of two factors often stays while the other goes on, so what a
    conversion gave is kept for as long as the bytes are the same."""
    size = boxes.dtype.itemsize
    turned = boxes.strides[3] != size
    lines = boxes.transpose(2, 3, 0, 1) if turned else boxes
    shape = (lines.shape[0] * lines.shape[1], lines.shape[2] * lines.shape[3])
    out = op.machine.scratch_array(role, shape)
    result = out.T if turned else out
    whole = np.dtype((np.void, lines.shape[3] * size))
    plain = op.machine.scratch_array(f"{role}.plain", shape, lines.dtype)
    target, source = plain.reshape(lines.shape).view(whole), lines.view(whole)
    kept = op.machine.kept

    def read() -> np.ndarray:
        np.copyto(target, source)
        now = plain.tobytes()
        if kept.get((role, shape)) != now:
            np.copyto(out, plain)
            kept[role, shape] = now
        return result

    return read


def _shortened(op: Binding, read: Reader) -> Reader:
    """Operands of f32, whose mantissas HF32 cuts."""
    registers = op.core.registers
    bits = _HF32_BITS[op.target]

    def shorten() -> np.ndarray:
        values = read()
        ctrl = registers["ctrl"]
        if not ctrl >> 46 & 1:
            return values
        mode = _HF32_MODES[ctrl >> 47 & 1]
        return keep_mantissa(values.astype(np.float32), bits, mode).astype(np.float64)

    return shorten


def _start(op: Binding, m: int, n: int) -> Reader | None:
    """What the product is added to."""
    if op.has("bias"):
        bias = op.tile("bias")
        return lambda: bias.read(1, n)
    if not op.has("acc"):
        return None
    acc, dst = op.tile("acc"), op.tile("dst")
    if acc.addr != dst.addr:
        op.report(
            "PTO6303",
            "adds to an accumulator in another place than its result",
            notes=("the hardware has one accumulator, and adds to what is in dst",),
            help="give acc and dst one storage",
        )
        if op.switch("matmul.accumulator") == "dst":
            acc = dst
    acc = _of_rows(acc, m, n)
    boxes = acc.boxes(m, n)
    if boxes is None:
        return lambda: acc.read(m, n)
    plain, lines, memory = _by_lines(op, boxes)

    def read() -> np.ndarray:
        np.copyto(lines, memory)
        return plain

    return read


def _writer(op: Binding, m: int, n: int) -> Callable[[np.ndarray], None]:
    """Store sums, which are rounded to the type of the accumulator on the way."""
    dst = _of_rows(op.tile("dst"), m, n)
    boxes = dst.boxes(m, n)
    if boxes is None:
        return lambda values: dst.write(values.astype(dst.dtype))
    plain, lines, memory = _by_lines(op, boxes)

    def write(values: np.ndarray) -> None:
        given = lines
        if (values.dtype, values.shape) == (plain.dtype, plain.shape) and values.flags.c_contiguous:
            given = values.view(lines.dtype).reshape(lines.shape)
        else:
            np.copyto(plain, values, casting="same_kind")
        np.copyto(memory, given)

    return write


def _of_rows(acc: Tile, m: int, n: int) -> Tile:
    """The accumulator with columns of blocks that hold the rows of a product."""
    if m <= acc.layout.rows:
        return acc
    return Tile(tile_ref(acc.type, acc.addr, m, n), acc.buffer)


def _by_lines(op: Binding, boxes: np.ndarray) -> tuple[np.ndarray, ...]:
    """A region of whole boxes as an array in logical order to work in, its lines of a box as items,
    and those in memory: NumPy copies long items faster than the elements of short lines."""
    size = boxes.dtype.itemsize
    shape = (boxes.shape[0] * boxes.shape[1], boxes.shape[2] * boxes.shape[3])
    plain = op.machine.scratch_array("accumulator", shape, boxes.dtype)
    shaped = plain.reshape(boxes.shape)
    if boxes.strides[3] != size:  # a line is a part of a column: there is nothing to gain
        return plain, shaped, boxes
    whole = np.dtype((np.void, boxes.shape[3] * size))
    return plain, shaped.view(whole), boxes.view(whole)


# -- block scales ----------------------------------------------------------------------------------

_SCALES = {"lhs": "lhs_scale", "rhs": "rhs_scale"}
_MEMORIES = {"lhs": "left_scale", "rhs": "right_scale"}


def scale_places(op: Binding, side: str, lines: int, k: int) -> tuple[str, np.ndarray]:
    """The memory of the scales of a factor, and where each is: a row for each row of lhs or column
    of rhs, a column for each group of elements."""
    pairs = _pairs_of_groups(op, side, op.tile(_SCALES[side]), k)
    line, group = np.ogrid[:lines, : -(-k // GROUP)]
    block = line // 16 * pairs + group // 2
    start = op.tile(side).addr >> 4
    return _MEMORIES[side], start + (block * 16 + line % 16) * 2 + group % 2


def _scaled(factor: Reader, scales: Reader, *, transposed: bool) -> Reader:
    if transposed:
        return lambda: scaled(factor().T, scales()).T
    return lambda: scaled(factor(), scales())


def _scales(op: Binding, side: str, lines: int, k: int) -> Reader:
    """Codes of the scales, a row for each row of lhs or column of rhs, a column for each group of
    elements."""
    codes = _scales_of_elements(op, side, lines, k)
    if not isinstance(op.tile("lhs").type.dtype, PackedDType):
        return codes
    op.report(
        "PTO4051",
        "takes one scale for 32 pairs of fp4 numbers, as the shape of its scale tiles says",
        notes=("assumed: the format has one for 32 numbers, and no public source says more",),
    )
    return lambda: np.repeat(codes(), 2, axis=1)  # both halves of 32 pairs


def _scales_of_elements(op: Binding, side: str, lines: int, k: int) -> Reader:
    """The scales beside L0A or L0B at a sixteenth of the address of the data, in blocks of 16 lines
    and two groups. The operand says how many groups a block of lines has, and no more."""
    data, tile, memory = op.tile(side), op.tile(_SCALES[side]), _MEMORIES[side]
    start, pairs = data.addr >> 4, _pairs_of_groups(op, side, tile, k)
    blocks = -(-lines // 16)
    size = blocks * pairs * 32
    if (tile.type.loc, tile.addr) != (memory, start):
        _tell_elsewhere(op, side, tile, start)
        op.found.append(Touch(_SCALES[side], op.core, memory, start, size))
        op.covers(_SCALES[side], 0, 0)
    check_place(op.core, memory, start, size, f"scales of {side}")
    held = np.frombuffer(op.core.space(memory).data, np.uint8, size, start)
    view = held.reshape(blocks, pairs, 16, 2).transpose(0, 2, 1, 3)
    groups = -(-k // GROUP)
    return lambda: view.reshape(blocks * 16, pairs * 2)[:lines, :groups]


def _pairs_of_groups(op: Binding, side: str, tile: Tile, k: int) -> int:
    """Pairs of groups of a line: those that the type of the scales has, if it has a scale for each
    group, else those of k."""
    groups = -(-k // GROUP)
    along = tile.cols if side == "lhs" else tile.rows
    if along in (groups, -(-op.tile("lhs").cols // GROUP)):
        return -(-along // 2)
    if k % (2 * GROUP):
        raise OpFault(
            "PTO6304",
            f"'{op.op.name}' multiplies {k} elements along k; scales come in pairs of groups of "
            f"{GROUP}",
            help="make the valid columns of lhs a multiple of 64",
        )
    return groups // 2


def _tell_elsewhere(op: Binding, side: str, tile: Tile, start: int) -> None:
    name = _SCALES[side]
    op.report(
        "PTO6305",
        f"takes {name} from {start:#x} of the scale memory of {op.tile(side).type.loc}; the "
        f"operand is at {tile.addr:#x} of {_named(tile.type.loc)}",
        notes=(
            f"scales are read at a sixteenth of the address of {side}; {name} gives its type only",
        ),
        help=f"place {name} with `pto.tget_scale_addr ins(%{side} : …) outs(%{name} : …)`, as a "
        "tile of `!pto.f8E8M0` in boxes with fractal=32",
    )


def _named(loc: str) -> str:
    side = loc.removesuffix("_scale")
    return loc if side == loc else f"the scale memory of {side}"


# -- mode ------------------------------------------------------------------------------------------


@kernel("pto.sethf32mode")
def sethf32mode(op: Binding) -> Commit:
    """HF32 on or off (first value), with ties to even (0) or away from zero (1): `mode`, or a
    second value."""
    values = list(op.values.get("values") or ())
    if not all(isinstance(v, (int, np.integer)) for v in values):
        raise OpFault("PTO2001", "'pto.sethf32mode' takes numbers", help="0 or 1, and `mode`")
    given = op.attr("mode")
    ties = int(given) if isinstance(given, int) else (values[1] if len(values) > 1 else 0)
    word = (values[0] & 1 if values else 1) << 46 | (ties & 1) << 47
    registers = op.core.registers

    def commit() -> None:
        registers["ctrl"] = registers["ctrl"] & ~(0b11 << 46) | word

    return commit


# TMOV with a scratch tile: block exponents into the ZZ form of the cube's scale memory.
#
# A box has 32 bytes: 16 rows (columns, where groups run along columns) with two exponents each.


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
