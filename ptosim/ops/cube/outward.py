"""Accumulators on their way out through the fixpipe: to global memory, to L1, to UB of either
vector core or of both. What happens to the values is in `fixpipe`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.ir.types import DType
from ptosim.ground.isa.conversions import conversion_name
from ptosim.machine.numbers.fixpipe import Activation, Rules, fixed
from ptosim.machine.pages import view_dtype
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, GmAccess, OpFault, owned_tile, tile_array, vector_cores
from ptosim.ops.base.functions import Commit, kernel, nothing
from ptosim.ops.move.transfer import (
    GmWindow,
    Start,
    check_atomic,
    from_logical,
    inside,
    layout_for_acc,
    logical_sizes,
    on_window,
    read_window,
    write_window,
)
from ptosim.ops.sync import fifo_ends

# What leaves an accumulator tile: the fixpipe scales, applies ReLU and converts on the way.
#
# A scalar quantisation word serves every column; the words of a parameter tile serve one column
# each. The arithmetic is that of `numerics.fixpipe`: the scale comes before ReLU, as the public
# micro programs' data have it (the documentation of the tile operations leaves the order open).

Convert = Callable[[np.ndarray], np.ndarray]
Words = Callable[[int], np.ndarray]

_KEEP_INFINITY = 48  # bit of the control register: results beyond a float's range become infinite

_PLAIN = {
    "f32": ("f32", "f16", "bf16"),
    "i32": ("i32",),
}
"""Destinations without a quantisation word."""

_UNSTATED = {("a2a3", "i32"): "f16"}
"""What the assembler takes without a word too, and no public document describes: by 1, as the
vector unit's conversion of these types has it in its scale register."""

_SCALED = {
    "a2a3": {"f32": ("i8", "ui8"), "i32": ("i8", "ui8", "f16", "i16")},
    "a5": {
        "f32": ("i8", "ui8", "f16", "bf16", "f32", "hif8", "f8E4M3FN", "f8E5M2"),
        "i32": ("i8", "ui8", "f16", "bf16"),
    },
}


def stored(op: Binding, tile: Tile, dtype: DType) -> Convert:
    """Return the function that gives values of an accumulator tile (rows and columns, from the
    first column of the parameters) as elements of `dtype`. Raises OpFault for a pair of types that
    the fixpipe of the target does not have."""
    src, dst = conversion_name(tile.type.dtype), conversion_name(dtype)
    plain = _PLAIN.get(src, ())
    words = words_of(op, dst in plain, dst)
    known = plain if words is None else _SCALED[op.target].get(src, ())
    if words is None and _UNSTATED.get((op.target, src)) == dst:
        op.report(
            "PTO6607",
            f"turns {src} into {dst} without a scale: a scale of 1 is assumed",
            notes=(f"no public document says what the fixpipe of {op.target} does here",),
            help="give it a scale",
        )
    elif dst not in known:
        how = "without a scale" if words is None else "with a scale"
        raise OpFault(
            "PTO8002",
            f"'{op.op.name}': the fixpipe of {op.target} does not turn {src} into {dst} {how}",
            notes=(f"it turns {src} into {', '.join(known) or 'nothing'} {how}",),
        )
    activation = Activation(op.attr("reluPreMode") == "normal_relu")
    rules = _rules(op)
    by_rows = op.has("fp") and op.switch("fixpipe.channel") == "row"
    registers = op.core.registers

    def convert(values: np.ndarray) -> np.ndarray:
        given = None
        if words is not None:
            given = words(values.shape[0])[:, None] if by_rows else words(values.shape[1])
        saturate = not registers["ctrl"] >> _KEEP_INFINITY & 1
        return fixed(values, dst, given, activation, saturate=saturate, rules=rules)

    return convert


def _rules(op: Binding) -> Rules:
    return Rules(
        exact=op.switch("fixpipe.product") == "exact",
        clip_first=op.switch("fixpipe.s9") == "on",
        signed_offset=op.switch("fixpipe.offset") == "signed",
        short_scale=_has_words(op) or op.switch("fixpipe.scale") == "fp19",
        relu=op.switch("fixpipe.relu"),
    )


def scalar_scale(op: Binding) -> int | None:
    """The word that scales every column, whatever the operation calls it."""
    return next((op.scalar(n) for n in ("preQuantScalar", "pre_quant") if op.has(n)), None)


def is_scaled(op: Binding) -> bool:
    """True if the operation has a scale of its own."""
    return op.has("fp") or scalar_scale(op) is not None


def _has_words(op: Binding) -> bool:
    return op.has("fp") and op.tile("fp").bits == 64


def _takes(op: Binding, rows: int, cols: int, at: Start = (0, 0)) -> None:
    """Say that a window of the accumulator is converted, and which scales that needs."""
    op.takes("src", rows, cols, at)
    if op.has("fp"):
        by_rows = op.switch("fixpipe.channel") == "row"
        op.covers("fp", 1, rows if by_rows else cols)


def words_of(op: Binding, plain: bool, dst: str) -> Words | None:
    """The quantisation words of the columns: of a parameter tile, of a scalar, or, where types need
    them and the operation has none, of the registers; None if nothing is scaled."""
    if op.has("fp"):
        return _table(op.tile("fp")) if _has_words(op) else _numbers(op, op.tile("fp"), dst)
    scale = scalar_scale(op)
    if scale is not None:
        word = _word(scale)
        return lambda count: word
    registers = op.core.registers
    if plain or not {"quant.word", "quant.table"} & registers.keys():
        return None
    data = op.core.space("scaling").data

    def preset(count: int) -> np.ndarray:
        if "quant.word" in registers:
            return _word(registers["quant.word"])
        return np.ndarray((count,), np.uint64, data, registers["quant.table"])

    return preset


def _table(tile: Tile) -> Words:
    return lambda count: tile_array(tile, (count,), (8,), np.uint64)


def _numbers(op: Binding, tile: Tile, dst: str) -> Words:
    """The words of scales that are written as plain numbers, one in row 0 for each column. No
    public text says how the hardware reads a table of them; it takes 64-bit words."""
    if not tile.type.dtype.is_float or tile.bits not in (16, 32):
        raise OpFault(
            "PTO8002",
            f"'{op.op.name}': fp has elements of type {tile.type.dtype}",
            notes=("scales are 64-bit words, or f32, f16 and bf16 numbers",),
        )
    signed = np.uint64((dst == "i8") << 46)

    def words(count: int) -> np.ndarray:
        values = np.ascontiguousarray(tile.read(1, count).astype(np.float32)[0])
        if (values != values[0]).any():
            op.report(
                "PTO7060",
                f"takes the {tile.type.dtype} numbers of fp as the scales: the scale tile is not "
                "64-bit",
                help="give fp 64-bit elements, a quantisation word for each column",
            )
        return values.view(np.uint32).astype(np.uint64) | signed

    return words


def _word(value: int) -> np.ndarray:
    return np.array([value & (1 << 64) - 1], np.uint64)


@kernel("pto.set_quant_scalar", "pto.set_quant_vector")
def set_quant(op: Binding) -> Commit:
    """The quantisation word for accumulators that leave without one of their own, or the place of a
    word for each column. On a pipe that converts (August 2026) they belong to the pipe."""
    if op.has("scale"):
        return fifo_ends.set_scalar(op)
    if op.has("scaling_tile"):
        return fifo_ends.set_vector(op)
    registers, is_word = op.core.registers, op.has("value")
    name, other = ("quant.word", "quant.table") if is_word else ("quant.table", "quant.word")
    given = int(op.scalar("value")) if is_word else op.tile("fp").addr

    def commit() -> None:
        registers.pop(other, None)
        registers[name] = given

    return commit


_WHOLE = slice(None)

Part = tuple[Tile, slice, slice]
"""A destination with the rows and columns of the result that go there."""


# -- to global memory ------------------------------------------------------------------------------


def store_accumulator(op: Binding, view: GmAccess, tile: Tile) -> Commit:
    """Store an accumulator to a window, as rows, columns or column blocks; optional atomic add."""
    convert = stored(op, tile, view.dtype)
    layout = layout_for_acc(view, tile)
    sizes, rows, cols = logical_sizes(op, view, tile, layout)
    _takes(op, rows, cols)
    dtype = view_dtype(view.dtype)

    def results() -> np.ndarray:
        return from_logical(convert(tile.read(rows, cols)), sizes, layout).view(dtype)

    window = inside(op, view, GmWindow(view, dtype, sizes, view.spec.strides))
    if op.attr("atomicType") != "atomic_add":
        return on_window(op, view, window, lambda place: lambda: np.copyto(place, results()))
    check_atomic(view)
    if all(n == 1 or s for n, s in zip(sizes, view.spec.strides, strict=True)):
        return on_window(
            op, view, window, lambda place: lambda: np.copyto(place, place + results())
        )
    return _adding_again(view, sizes, results)


def _adding_again(
    view: GmAccess, sizes: tuple[int, ...], results: Callable[[], np.ndarray]
) -> Commit:
    """A window that repeats a place adds to it once for each repetition."""
    dtype = view_dtype(view.dtype)
    whole = view.buffer.elements(dtype)
    places = np.full(sizes, view.offset, np.int64)
    axes = np.ogrid[tuple(slice(n) for n in sizes)]
    for axis, step in zip(axes, view.spec.strides, strict=True):
        if axis.size > 1:  # a stride that nobody takes may have more than 64 bits
            places += axis * step
    view.buffer.bring(places, dtype)
    return lambda: np.add.at(whole, places, results())


# -- to other tiles --------------------------------------------------------------------------------


def tell_ways(op: Binding, what: str) -> None:
    """Say of a program that is run with `lowering` set that it depends on what nobody describes."""
    if "lowering" in op.profile.overridden:
        op.report(
            "PTO6607",
            f"moves {what}: the assembler's two ways are said to differ here",
            notes=("no public document says how: elements go by the layouts of both tiles, "
                   "whatever `lowering` is",),
        )  # fmt: skip


def accumulator_to_tile(op: Binding) -> Commit:
    """The valid region of an accumulator to a tile of mat or vec."""
    src, dst = op.tile("src"), op.values["dst"].type
    if dst.loc != "vec":
        tile = owned_tile(op, "dst")
        size = min(src.v_row, tile.rows), min(src.v_col, tile.cols)
        return accumulator_window(op, src, (0, 0), tile, (0, 0), size)
    rows, cols = src.v_row, src.v_col
    parts = _vector_parts(op, rows, cols)
    convert = stored(op, src, dst.dtype)
    if len(parts) == 1:
        rows, cols = min(rows, parts[0][0].rows), min(cols, parts[0][0].cols)

    _takes(op, rows, cols)
    _takes_part(op, parts, (0, 0), (rows, cols))

    def move() -> None:
        values = convert(src.read(rows, cols))
        for tile, row_part, col_part in parts:
            tile.write(np.ascontiguousarray(values[row_part, col_part]).view(tile.dtype))

    return move


def accumulator_window(
    op: Binding,
    src: Tile,
    src_start: tuple[int, int],
    dst: Tile,
    dst_start: tuple[int, int],
    size: tuple[int, int],
) -> Commit:
    """Convert a window of an accumulator into a window of a tile of L1."""
    _check_mat(op, src, dst)
    convert = stored(op, src, dst.type.dtype)
    _takes(op, *size, src_start)
    op.takes("dst", *size, dst_start)

    def move() -> None:
        values = convert(read_window(src, src_start, *size))
        write_window(dst, dst_start, values.view(dst.dtype))

    return move


def accumulator_to_ub(
    op: Binding, src: Tile, src_start: Start, dst_start: Start, size: Start
) -> Commit:
    """Convert a window of an accumulator into a window of a tile of UB, of one vector core or by
    halves of both."""
    parts = _vector_parts(op, *size)
    convert = stored(op, src, op.values["dst"].type.dtype)
    _takes(op, *size, src_start)
    _takes_part(op, parts, dst_start, size)

    def move() -> None:
        values = convert(read_window(src, src_start, *size))
        for tile, rows, cols in parts:
            part = np.ascontiguousarray(values[rows, cols])
            write_window(tile, dst_start, part.view(tile.dtype))

    return move


def _takes_part(op: Binding, parts: list[Part], at: Start, size: Start) -> None:
    """Say how far the destination is filled: parts are alike on each core."""
    if not parts:
        op.takes("dst", 0, 0, at)
        return
    _, *slices = parts[0]
    rows, cols = (len(range(n)[part]) for n, part in zip(size, slices, strict=True))
    op.takes("dst", rows, cols, at)


def halves(op: Binding) -> tuple[int, int]:
    """Return how many destinations the rows and the columns of a move to UB are shared by."""
    mode = str(op.attr("accToVecMode") or "").lower()
    return 2 if mode == "dual_mode_split_m" else 1, 2 if mode == "dual_mode_split_n" else 1


def _check_mat(op: Binding, src: Tile, dst: Tile) -> None:
    """A2/A3 has no way to move 32-bit elements from the accumulator to L1."""
    if dst.type.loc == "mat" and op.target == "a2a3" and dst.bits == 32:
        raise OpFault(
            "PTO8002",
            f"'{op.op.name}': {op.target} does not move {src.type.dtype} from acc to mat as "
            f"{dst.type.dtype}",
            notes=("on A2/A3 accumulators become 16 or 8 bits wide on their way to L1",),
            help="give the mat tile f16 or bf16, or store the accumulator to global memory",
        )


def _vector_parts(op: Binding, rows: int, cols: int) -> list[Part]:
    """The tiles of the vector cores that a move to UB fills: one core's, or a half for each. What
    goes to the second core of a launch without one, nobody reads: it is left out."""
    mode = str(op.attr("accToVecMode") or "single_mode_vec0").lower()
    cores, ref = vector_cores(op), op.values["dst"]
    if cols % 32 == 0 and ref.layout.name == "nz" and ref.type.dtype.bits == 32:
        tell_ways(op, f"{cols} channels of an accumulator into an NZ tile of 32-bit elements")
    tiles = [op.bind_tile(ref, "dst", core) for core in cores]
    if mode.startswith("single"):
        number = int(mode[-1])
        if number >= len(cores):
            return []
        op.made = [(cores[number], ref)]
        return [(tiles[number], _WHOLE, _WHOLE)]
    op.made = [(core, ref) for core in cores[:2]]
    by_rows = mode == "dual_mode_split_m"
    _check_halves(op, rows if by_rows else cols, by_rows)
    half = (rows if by_rows else cols) // 2
    parts = slice(half), slice(half, None)
    if by_rows:
        return [(t, p, _WHOLE) for t, p in zip(tiles, parts, strict=False)]
    return [(t, _WHOLE, p) for t, p in zip(tiles, parts, strict=False)]


def _check_halves(op: Binding, side: int, by_rows: bool) -> None:
    if is_scaled(op):
        raise OpFault("PTO6310", f"'{op.op.name}': a move to both vector cores does not quantise")
    unit, name = (2, "rows") if by_rows else (32, "columns")
    if side % unit:
        raise OpFault(
            "PTO6311",
            f"'{op.op.name}' splits {side} {name} between two vector cores",
            notes=("rows are halved in twos, columns in multiples of 32",),
        )


@kernel("pto.tstore_fp", "pto.tstore.fp")
def tstore_fp(op: Binding) -> Commit:
    """Accumulator to GM with a scale for each column."""
    view, tile = op.view("dst"), op.tile("src")
    return nothing if 0 in view.sizes or tile.is_empty else store_accumulator(op, view, tile)
