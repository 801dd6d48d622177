"""The fixpipe from the accumulator to GM, L1 and UB.

PTO micro-instruction specification, fixpipe. For each value: scale, ReLU, conversion to the
destination's type, then the smaller of it and `clip`. `src_stride` counts rows of 16 accumulators
between column blocks, `dst_stride` elements of the destination. f32 to f16 with its clauses, nz2nd,
nz2dn, atomic updates and the two halves of a split are confirmed by the public programs' data; the
other modes and the layout without nz2nd or nz2dn are what the documentation says."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ptosim.ground.isa.conversions import conversion_name
from ptosim.machine.effects.strided import Level
from ptosim.machine.numbers.fixpipe import Activation, clipped, fixed, whole, word_of_scale
from ptosim.machine.numbers.formats import FORMATS
from ptosim.machine.pages import pack_nibbles, view_dtype
from ptosim.machine.values import Pointer
from ptosim.ops.base.binding import Binding, OpFault
from ptosim.ops.base.functions import Commit, kernel, nothing
from ptosim.ops.micro.dma import read_bytes, refuse_many, write_bytes
from ptosim.ops.micro.modes import StoreMode
from ptosim.ops.micro.pointers import (
    Place,
    elem,
    flag,
    holds,
    place,
    place_of,
    read_accumulator,
    reads,
    reads_accumulator,
    require,
    require_accumulator,
    word,
    writes,
)

_MODES = {
    "f322f16": "f16", "f322bf16": "bf16", "f32_f16": "f16", "f32_bf16": "bf16",
    "qf322f16_pre": "f16", "qf322bf16_pre": "bf16", "qf322f32_pre": "f32", "qf322b8_pre": "i8 ui8",
    "qf322fp8_pre": "f8E4M3FN f8E5M2 hif8", "qf322hif8_pre": "hif8 f8E4M3FN f8E5M2",
    "qf322hif8_pre_hybrid": "hif8 f8E4M3FN f8E5M2", "deqf16": "f16", "req8": "i8 ui8",
    "qf162b8_pre": "i8 ui8", "shifts322s16": "i16", "qs322bf16_pre": "bf16",
}  # fmt: skip
"""Element types that a mode of pre_quant produces."""

_WHOLE = {"deqs16": 16, "qf162s16_pre": 16, "deqs32_int": 32, "req4": 4, "qf322s4_pre": 4,
          "qf162s4_pre": 4}  # fmt: skip
"""Bits of the signed integers that other modes produce."""

_UNSCALED = ("f32_f16", "f32_bf16")
"""Modes that convert and do not scale: what is written with them counts for nothing."""

_OPERATIONS = {"add": 0, "max": 1, "min": 2}
_WORDS = {"s8": "i8", "s16": "i16", "s32": "i32"}
"""Element types that are words in the clause of atomic stores."""

Piece = tuple[Place, slice, slice]
"""Where rows and columns of the result go."""


@kernel("pto.mte_l0c_gm", "pto.mte_l0c_l1", "pto.mte_l0c_ub")
def fixpipe(op: Binding) -> Commit:
    """An m by n accumulator to its destination."""
    m, n = op.values["m"], op.values["n"]
    if m <= 0 or n <= 0:
        return nothing
    source, convert = place(op, "src"), _converter(op)
    pieces = list(_pieces(op, m, n))
    stride, dtype = op.values["src_stride"], view_dtype(elem(op, "src"))
    count, src_step, dst_step = (
        op.values.get(f"loop3.{name}", default)
        for name, default in (("count", 1), ("src_stride", 0), ("dst_stride", 0))
    )
    bits = elem(op, "dst").bits
    for name, width in (("pre_quant.payload", 8), ("pre_relu.payload", 4)):
        payload = op.values.get(name)
        if isinstance(payload, Pointer):
            reads(op, place_of(op, payload, name=name), n * width)
    if count <= 0:
        return nothing
    for r in (0, count - 1):  # the others are between these
        start = source._replace(start=source.start + r * src_step * 64)
        require_accumulator(op, start, m, n, stride)
    _refuse_rounds(op, m, n, count)
    reads_accumulator(op, source, m, n, dtype.itemsize, stride, (count, src_step * 64))
    for first, rounds in _rounds(count, dst_step * bits):
        _tell_pieces(op, pieces, first, rounds)

    def move() -> None:
        for r in range(count):
            start = source._replace(start=source.start + r * src_step * 64)
            values = convert(read_accumulator(op, start, m, n, dtype, stride))
            for target, rows, cols in pieces:
                at = target._replace(start=target.start + r * dst_step * bits // 8)
                _store(op, at, values[rows, cols])

    return move


_MOST_ROUNDS, _MOST_ELEMENTS = 1 << 14, 1 << 24
"""Of one instruction. Rounds of an accumulator that are different ones have far fewer elements."""


def _refuse_rounds(op: Binding, m: int, n: int, count: int) -> None:
    """Raise for more rounds than are converted one by one."""
    refuse_many(op, max(m, n) * count)
    if count > _MOST_ROUNDS or m * n * count > _MOST_ELEMENTS:
        raise OpFault(
            "PTO1104",
            f"'{op.op.name}' converts {m}x{n} elements {count:,} times; at most {_MOST_ROUNDS:,} "
            f"rounds and {_MOST_ELEMENTS:,} elements are",
            help="look at how the count of loop3 was computed",
        )


def _pieces(op: Binding, m: int, n: int) -> Iterator[Piece]:
    """The whole result, or in a split of UB half of the rows or columns for each vector core."""
    everything = slice(None)
    if op.op.name != "pto.mte_l0c_ub":
        yield place(op, "dst"), everything, everything
        return
    mode = op.values["dst_mode.sub_blockid"]
    if isinstance(mode, int):
        yield place(op, "dst", mode), everything, everything
        return
    by_rows = word(op, "dst_mode.sub_blockid") == "split_m"
    half = (m if by_rows else n) // 2
    for core, part in enumerate((slice(half), slice(half, None))):
        rows, cols = (part, everything) if by_rows else (everything, part)
        yield place(op, "dst", core), rows, cols


# -- values ----------------------------------------------------------------------------------------


def _converter(op: Binding) -> Callable[[np.ndarray], np.ndarray]:
    dst = conversion_name(elem(op, "dst"))
    mode = word(op, "pre_quant.mode")
    if mode == "no_convert":
        mode = None
    stem = "" if mode is None else mode.removesuffix("_scalar").removesuffix("_vec")
    bits = _WHOLE.get(stem)
    _check_types(op, dst, scaled=mode is not None)
    if mode is not None and bits is None:
        _check_mode(op, mode, stem, dst)
    saturate, keeps_nan = not flag(op, "nosat"), op.has("sat.mode")
    n, limit = op.values["n"], op.values.get("pre_relu.clip")

    def convert(values: np.ndarray) -> np.ndarray:
        words = _words(op, n, dst) if mode is not None else None
        if bits is not None and words is not None:
            result = whole(values, bits, words, _activation(op, n)).astype(_INTEGERS[bits])
        else:
            result = fixed(
                values,
                dst,
                words,
                _activation(op, n),
                saturate=saturate,
                nan_to_zero=not keeps_nan,
            )
        return result if limit is None else clipped(result, limit)

    return convert


_INTEGERS = {4: np.int8, 16: np.int16, 32: np.int32}


def _check_types(op: Binding, dst: str, *, scaled: bool) -> None:
    src = conversion_name(elem(op, "src"))
    if src not in ("f32", "i32"):
        raise OpFault("PTO8002", f"'{op.op.name}': an accumulator holds f32 or i32, not {src}")
    known = dst in (src, "f32", "f16", "bf16") or (dst in FORMATS and FORMATS[dst].kind == "code")
    if not scaled and not known:
        raise OpFault(
            "PTO8002",
            f"'{op.op.name}' does not turn {src} into {dst} without a mode",
            help="write `pre_quant(…)` with the mode of the destination's type",
        )


def _check_mode(op: Binding, mode: str, stem: str, dst: str) -> None:
    known = _MODES.get(stem, "").split()
    if dst not in known:
        raise OpFault(
            "PTO8002",
            f"'{op.op.name}': mode {mode} gives {' or '.join(known)}, not {dst}",
            help="use the mode of the destination's type",
        )


def _words(op: Binding, n: int, dst: str) -> np.ndarray | None:
    """Quantisation words: one of a scalar, or one for each column in the fixpipe buffer."""
    payload = op.values.get("pre_quant.payload")
    if payload is None or word(op, "pre_quant.mode") in _UNSCALED:
        return None
    if isinstance(payload, Pointer):
        return _table(op, payload, n, np.dtype(np.uint64))
    if isinstance(payload, int):
        return np.array([payload & (1 << 64) - 1], np.uint64)
    return np.array([word_of_scale(payload, signed=dst == "i8")], np.uint64)


def _activation(op: Binding, n: int) -> Activation:
    mode = word(op, "pre_relu.mode")
    if mode in (None, "no_relu"):
        return Activation()
    payload = op.values.get("pre_relu.payload")
    if mode == "normal_relu" or payload is None:
        return Activation(True)
    if isinstance(payload, Pointer):
        return Activation(True, _table(op, payload, n, np.dtype(np.float32)))
    return Activation(True, np.array(payload, np.float32))


def _table(op: Binding, pointer: Pointer, n: int, dtype: np.dtype) -> np.ndarray:
    where = place_of(op, pointer)
    require(op, where, where.start, where.start + n * dtype.itemsize)
    return np.ndarray((n,), dtype, where.data, where.start)


# -- destination -----------------------------------------------------------------------------------


def _store(op: Binding, target: Place, values: np.ndarray) -> None:
    """Rows, columns, or blocks of 16 columns, `dst_stride` elements from one to the next."""
    if flag(op, "nz2nd"):
        lines = values
    elif op.op.bound.get("nz2dn") is not None:
        lines = values.T
    else:
        lines = _column_blocks(op, values)
    bits = elem(op, "dst").bits
    data = np.ascontiguousarray(lines).view(np.uint8)
    if bits == 4:
        data = pack_nibbles(data)
    step, width = op.values["dst_stride"] * bits // 8, data.shape[1]
    update = _update(op, width)
    ends = (0, (len(data) - 1) * step)
    holds(op, target, target.start + min(ends), target.start + max(ends) + width, writes=True)
    for i, line in enumerate(data):
        at = target.start + i * step
        made = line if update is None else update.combined(read_bytes(target, at, width), line)
        write_bytes(target, at, made)


def _tell_pieces(op: Binding, pieces: list[Piece], first: int, rounds: Level) -> None:
    """Tell what rounds of all pieces reach, `first` bytes after where the pieces begin."""
    m, n, bits = op.values["m"], op.values["n"], elem(op, "dst").bits
    for target, rows, cols in pieces:
        at = target._replace(start=target.start + first)
        _note_reach(op, at, len(range(m)[rows]), len(range(n)[cols]), bits, rounds)


def _rounds(count: int, step: int) -> list[tuple[int, Level]]:
    """Rounds that are `step` bits apart, as first bytes and levels. Of a step that ends within a
    byte the even and the odd rounds are told by themselves."""
    if step % 8 == 0:
        return [(0, (count, step // 8))]
    return [(0, (-(-count // 2), step // 4)), (step // 8, (count // 2, step // 4))]


def _note_reach(op: Binding, target: Place, rows: int, cols: int, bits: int, rounds: Level) -> None:
    """What results of rows and columns reach at their destination."""
    if flag(op, "nz2nd"):
        lines, run = rows, cols
    elif op.op.bound.get("nz2dn") is not None:
        lines, run = cols, rows
    else:
        width = _block_width(op, bits)
        lines, run = -(-cols // width), rows * width
    writes(op, target, -(-run * bits // 8), rounds, (lines, op.values["dst_stride"] * bits // 8))


def _block_width(op: Binding, bits: int) -> int:
    """Columns of a block: 16, or 32 bytes of smaller elements; 8 with a channel split of f32."""
    if bits < 16:
        return 256 // bits
    return 8 if op.values.get("nz2nz.split") and bits == 32 else 16


def _column_blocks(op: Binding, values: np.ndarray) -> np.ndarray:
    """Blocks of columns, one after the other."""
    op.report(
        "PTO6607",
        "keeps column blocks: documentation only, dst_stride is taken as elements from block "
        "to block",
    )
    width = _block_width(op, elem(op, "dst").bits)
    rows, cols = values.shape
    full = np.zeros((rows, -(-cols // width) * width), values.dtype)
    full[:, :cols] = values
    return full.reshape(rows, -1, width).transpose(1, 0, 2).reshape(-1, rows * width)


def _update(op: Binding, width: int) -> StoreMode | None:
    """How lines of `width` bytes are combined with what is there, in the type that the clause
    names; None where they replace it."""
    name = word(op, "atomic.op")
    if name is None:
        return None
    type_ = op.values["atomic.type"]
    type_ = str(getattr(type_, "text", getattr(type_, "member", type_)))
    mode = StoreMode(_OPERATIONS[name], _WORDS.get(type_, type_))
    if width % mode.dtype.itemsize:
        raise OpFault("PTO6670", f"stores {width} bytes in elements of {type_}")
    return mode
