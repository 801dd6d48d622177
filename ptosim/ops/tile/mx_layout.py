"""Where the groups of a microscaling TQUANT are in its source, and where its results go.

The library of A5 addresses its tiles by the static width S of the source, not by their own shapes:
element (r, c) of the result is byte r*S + c (two elements a byte for MXFP4). The exponent tile's
shape chooses between two paths for groups along rows: with one row all groups are dense, with
more rows each has a row of its own. Scratch tiles get results too: the group maxima, and the
scales, for 16-bit sources as bf16 patterns. What surplus lanes of a store leave is marked as
undefined.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ptosim.machine.layout import round_up
from ptosim.machine.numbers.mx import GROUP, MxResult
from ptosim.machine.pages import POISON, pack_nibbles
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, OpFault, flat_bytes, tile_array

_WINDOW = 8
"""Groups whose scales a 16-bit source passes to the last stage at a time."""


class Places(ABC):
    """Base: operands, padding, results by the width of the source.

    Subclasses fix the views that results go to."""

    exp_out: np.ndarray
    max_out: np.ndarray
    scale_out: np.ndarray
    codes_out: np.ndarray

    def __init__(self, op: Binding, four_bits: bool, rule: str) -> None:
        self.op = op
        self.four_bits = four_bits
        self.rule = rule
        self.src, self.dst, self.exp = op.tile("src"), op.tile("dst"), op.tile("exp")
        self.max, self.scaling = op.opt_tile("max"), op.opt_tile("scaling")
        self.rows, self.cols = self.src.v_row, self.src.v_col
        self.width = self.src.cols
        self.scratch_dtype = np.dtype(np.uint32 if self.src.bits == 32 else np.uint16)
        self.surplus: list[np.ndarray] = []
        if four_bits and self.dst.type.dtype.is_integer:
            op.report(
                "PTO7004",
                f"writes packed 4-bit elements into a tile of {self.dst.type.dtype}",
                notes=("two elements share a byte, the even column in the low half",),
            )
        if self.is_padded:
            rest, pitch = 2 * (self.width - self.cols), 2 * self.width
            op.writes_beyond("src", 2 * self.cols, rest, (self.rows, pitch))

    @abstractmethod
    def values(self) -> np.ndarray:
        """Return the elements of all groups."""

    def store(self, result: MxResult) -> None:
        """Write exponents, scratch and data."""
        self.exp_out[...] = result.exponents.reshape(self.exp_out.shape)
        self.max_out[...] = result.maxima.reshape(self.max_out.shape)
        self.scale_out[...] = result.scales.reshape(self.max_out.shape)
        self.spoil()
        self.codes_out[...] = self.packed(result.codes)

    def source(self, rows: int, cols: int) -> np.ndarray:
        """Return the source's first elements as a view."""
        return self.op.region("src", rows, cols)

    def clear_padding(self) -> None:
        """16-bit sources: the columns after the valid ones are cleared in place first."""
        if self.is_padded:
            self.source(self.rows, self.width)[:, self.cols :] = 0

    @property
    def is_padded(self) -> bool:
        """True for a source whose padding the library clears."""
        return self.src.bits == 16 and self.cols < self.width

    def codes(self, rows: int, cols: int) -> np.ndarray:
        """Return the bytes of the result, at the addresses that the source's width gives."""
        half = 2 if self.four_bits else 1
        shape = (rows, (cols + 1) // half) if self.four_bits else (rows, cols)
        return tile_array(self.dst, shape, (self.width // half, 1), np.uint8)

    def packed(self, codes: np.ndarray) -> np.ndarray:
        """Return codes as they are in memory."""
        return pack_nibbles(codes) if self.four_bits else codes

    def scratch(self, tile: Tile | None, count: int) -> np.ndarray:
        """Return `count` elements of a scratch tile."""
        if tile is None:
            return np.empty(count, self.scratch_dtype)
        size = self.scratch_dtype.itemsize
        self.check_room(tile, count * size, "scratch")
        return tile_array(tile, (count,), (size,), self.scratch_dtype)

    def check_room(self, tile: Tile, needed: int, what: str) -> None:
        """Report a store that is larger than its tile."""
        if needed > tile.type.bytes:
            self.op.report(
                "PTO6105",
                f"writes {needed} bytes of {what} into a tile of {tile.type.bytes}",
                notes=("what is after the tile is overwritten",),
                help="make the tile as large as the store",
            )

    def add_surplus(self, name: str, start: int, end: int) -> None:
        """Bytes [start, end) from the base of a tile, if it is there, become undefined."""
        tile = self.op.opt_tile(name)
        if tile is not None and end > start:
            end = min(end, len(tile.buffer) - tile.addr)
            self.surplus.append(flat_bytes(tile, end - start, start))
            self.op.writes_beyond(name, start, end - start, spoiled=True)

    def spoil(self) -> None:
        """Mark the surplus of stores as undefined."""
        for place in self.surplus:
            place.fill(POISON)


class Flat(Places):
    """Groups along rows, one-row exponent tile: all groups of the static width, densely."""

    def __init__(self, op: Binding, four_bits: bool, rule: str) -> None:
        super().__init__(op, four_bits, rule)
        if self.width % GROUP:
            raise OpFault(
                "PTO6014",
                f"'{op.op.name}': the source is {self.width} elements wide",
                notes=("with a one-row exponent tile the width is a multiple of 32",),
            )
        groups = self.rows * self.width // GROUP
        # The unrolled f32 path stores every scale twice.
        elements = self.src.rows * self.src.cols
        unrolled = self.src.bits == 32 and elements > 1024 and elements % 256 == 0
        self.doubled = unrolled and (self.rows * self.width) % 256 == 0
        self._fix_results(groups)

    def _fix_results(self, groups: int) -> None:
        self.check_room(self.exp, groups, "exponents")
        self.exp_out = flat_bytes(self.exp, groups)
        self.max_out = self.scratch(self.max, groups)
        times = 2 if self.doubled else 1
        self.scale_out = self.scratch(self.scaling, groups * times).reshape(groups, times).T
        self.codes_out = self.codes(self.rows, self.width)
        self._overshoot(groups)

    def _overshoot(self, groups: int) -> None:
        """The f32 loop of the OCP rule writes whole steps of 64 groups where it is not unrolled;
        the surplus is computed from whatever is after the maxima."""
        end = round_up(groups, 64)
        if self.src.bits != 32 or self.rule != "ocp" or self.doubled or groups < 64:
            return
        self.check_room(self.exp, end, "exponents")
        self.add_surplus("exp", groups, end)
        if self.scaling is not None:
            self.check_room(self.scaling, 4 * end, "scratch")
            self.add_surplus("scaling", 4 * groups, 4 * end)

    def values(self) -> np.ndarray:
        self.clear_padding()
        return np.ascontiguousarray(self.source(self.rows, self.width))


class FlatResults(Flat):
    """`Flat` where maxima and scales are results (tquant.mx): each scale counts once, and what the
    library's loops write after the last one, up to 256 bytes at a time, is undefined."""

    def _fix_results(self, groups: int) -> None:
        self.exp_out = flat_bytes(self.exp, groups)
        self.max_out = self.scratch(self.max, groups)
        self.scale_out = self.scratch(self.scaling, groups)
        self.codes_out = self.codes(self.rows, self.width)
        size = groups * self.src.bits // 8
        self.add_surplus("scaling", size, round_up(size * (2 if self.doubled else 1), 256))


class Rows(Places):
    """Groups along rows, an exponent row for each row: only the groups that hold valid columns."""

    def __init__(self, op: Binding, four_bits: bool, rule: str) -> None:
        super().__init__(op, four_bits, rule)
        self.per_row = -(-self.cols // GROUP)
        if self.per_row > self.exp.cols or self.rows > self.exp.rows:
            raise OpFault(
                "PTO6012",
                f"'{op.op.name}': {self.rows} rows of {self.per_row} groups do not fit an exponent "
                f"tile of {self.exp.rows}x{self.exp.cols}",
            )
        groups = self.rows * self.per_row
        shape = (self.rows, self.per_row)
        self.exp_out = tile_array(self.exp, shape, (self.exp.cols, 1), np.uint8)
        self.max_out = self.scratch(self.max, groups)
        self.scale_out = self.scratch(self.scaling, groups)
        self.codes_out = self.codes(self.rows, min(self.per_row * GROUP, self.width))
        if self.per_row <= _WINDOW and self.max is not None:
            size = groups * self.scratch_dtype.itemsize
            self.add_surplus("max", size, min(round_up(size, 32), self.max.type.bytes))
        self.window = self._scale_window(groups) if self.src.bits == 16 else None

    def _scale_window(self, groups: int) -> np.ndarray | None:
        """16-bit sources pass the scales of 8 groups at a time through memory: the start of the max
        scratch, or, for MXFP8 with fewer than 8 groups in all, byte 16 of each exponent row."""
        if self.four_bits or groups >= _WINDOW:
            return None
        end = 16 + 2 * self.per_row
        if end > self.exp.cols:
            self.op.report(
                "PTO6105",
                f"uses bytes 16 to {end} of an exponent row of {self.exp.cols} bytes as scratch",
                help="give the exponent tile at least 16 + 2 * groups columns",
            )
        shape, strides = (self.rows, self.per_row, 2), (self.exp.cols, 2, 1)
        return tile_array(self.exp, shape, strides, np.uint8, 16)

    def values(self) -> np.ndarray:
        self.clear_padding()
        values = np.zeros((self.rows, self.per_row * GROUP), self.src.dtype)
        values[:, : self.cols] = self.source(self.rows, self.cols)
        return values

    def store(self, result: MxResult) -> None:
        self.max_out[...] = result.maxima.reshape(-1)
        self.scale_out[...] = result.scales.reshape(-1)
        self.spoil()
        self.exp_out[...] = result.exponents  # all of them before the first window is written
        if self.window is not None:
            scales = np.ascontiguousarray(result.scales).view(np.uint8)
            for row in range(self.rows):
                self.window[row] = scales[row].reshape(-1, 2)
        elif self.src.bits == 16:
            for start in range(0, self.per_row, _WINDOW):
                part = result.scales[-1, start : start + _WINDOW]
                self.max_out[: part.size] = part
        self.codes_out[...] = self.packed(result.codes[:, : self.width])


class Columns(Places):
    """Groups along columns (DN): 32 rows share an exponent."""

    def __init__(self, op: Binding, four_bits: bool, rule: str) -> None:
        super().__init__(op, four_bits, rule)
        if self.rows % GROUP:
            raise OpFault(
                "PTO6014",
                f"'{op.op.name}': {self.rows} valid rows; groups along columns take whole groups "
                "of 32",
            )
        self.groups = self.rows // GROUP
        extent = self.groups * self.width
        self.max_out = self._grid(self.scratch(self.max, extent))
        self.scale_out = self._grid(self.scratch(self.scaling, extent))
        self.exp_out = self._exponents()
        self.codes_out = self.codes(self.rows, self.cols)
        if four_bits and self.src.dtype == np.float16 and self.width // 2 % 32:
            op.report(
                "PTO6105",
                f"uses bytes after the {self.dst.type.bytes} bytes of dst as scratch",
                notes=("the library does so for f16 sources whose packed rows are no multiple of "
                       "32 bytes",),
            )  # fmt: skip

    def codes(self, rows: int, cols: int) -> np.ndarray:
        """The rows of MXFP8 codes are as far apart as those of dst."""
        if self.four_bits:
            return super().codes(rows, cols)
        return tile_array(self.dst, (rows, cols), (self.dst.cols, 1), np.uint8)

    def _grid(self, flat: np.ndarray) -> np.ndarray:
        return flat.reshape(self.groups, self.width)[:, : self.cols]

    def _exponents(self) -> np.ndarray:
        """Exponent (group, column): at group*S + c, or interleaved in pairs of groups, two a
        column."""
        if not self.op.attr("interleave"):
            self.check_room(self.exp, (self.groups - 1) * self.width + self.cols, "exponents")
            shape, strides = (self.groups, self.cols), (self.width, 1)
            return tile_array(self.exp, shape, strides, np.uint8)
        if self.groups % 2:
            raise OpFault(
                "PTO6014",
                f"'{self.op.op.name}': {self.rows} valid rows; interleaving takes pairs of groups",
            )
        pairs, pitch = self.groups // 2, self.exp.cols
        if 2 * self.cols > pitch or pairs > self.exp.rows:
            raise OpFault(
                "PTO6012",
                f"'{self.op.op.name}': {pairs} rows of {2 * self.cols} interleaved exponents do "
                f"not fit a tile of {self.exp.rows}x{pitch}",
            )
        return tile_array(self.exp, (pairs, 2, self.cols), (pitch, 1, 2), np.uint8)

    def values(self) -> np.ndarray:
        self.clear_padding()
        return np.ascontiguousarray(self.source(self.rows, self.cols))


class _Cpu(Places):
    """The public CPU simulator: tiles by their own layouts, the padding of the source as it is."""

    shape: tuple[int, int]
    pitch: int

    def prepare(self, groups: tuple[int, int], shape: tuple[int, int]) -> None:
        """Fix the extent of exponents and values."""
        count = groups[0] * groups[1]
        self.shape = shape
        self.check_room(self.exp, (groups[0] - 1) * self.exp.cols + groups[1], "exponents")
        self.exp_out = tile_array(self.exp, groups, (self.exp.cols, 1), np.uint8)
        self.max_out = self.scratch(self.max, count)
        self.scale_out = self.scratch(self.scaling, count)

    def values(self) -> np.ndarray:
        return np.ascontiguousarray(self.source(*self.shape))

    def store(self, result: MxResult) -> None:
        self.exp_out[...] = result.exponents
        self.max_out[...] = result.maxima.reshape(-1)
        self.scale_out[...] = result.scales.reshape(-1)
        if self.four_bits and self.dst.bits == 8:
            self.dst.write(self.packed(result.codes))
        else:
            self.dst.write(result.codes)


class CpuRows(_Cpu):
    """All static columns of the valid rows."""

    def __init__(self, op: Binding, four_bits: bool, rule: str) -> None:
        super().__init__(op, four_bits, rule)
        if self.width % GROUP:
            raise OpFault("PTO6014", f"'{op.op.name}': the source is {self.width} elements wide")
        self.prepare((self.rows, self.width // GROUP), (self.rows, self.width))
        self.zigzag = op.opt_tile("exp_zz")

    def store(self, result: MxResult) -> None:
        super().store(result)
        if self.zigzag is not None:
            boxes = in_boxes(result.exponents)
            flat_bytes(self.zigzag, boxes.size)[...] = boxes


def in_boxes(exponents: np.ndarray) -> np.ndarray:
    """Exponents [row, group] as bytes in ZZ order, filled up with zeros to whole boxes."""
    rows, groups = exponents.shape
    padded = np.zeros((round_up(rows, 16), round_up(groups, 2)), np.uint8)
    padded[:rows, :groups] = exponents
    boxes = padded.reshape(padded.shape[0] // 16, 16, padded.shape[1] // 2, 2)
    return boxes.transpose(0, 2, 1, 3).reshape(-1)


class Zigzag:
    """Other places, and the deprecated second tile of exponents: in ZZ order, or plainly."""

    def __init__(self, places: Places, in_zz_order: bool) -> None:
        self.places = places
        self.in_zz_order = in_zz_order
        self.tile = places.op.tile("exp_zz")

    def values(self) -> np.ndarray:
        """Return the elements of all groups."""
        return self.places.values()

    def store(self, result: MxResult) -> None:
        """Write every result; what does not fit the second tile is left out."""
        self.places.store(result)
        codes = in_boxes(result.exponents) if self.in_zz_order else result.exponents.reshape(-1)
        count = min(codes.size, self.tile.type.bytes)
        flat_bytes(self.tile, count)[...] = codes[:count]


class CpuColumns(_Cpu):
    """All static rows of the valid columns."""

    def __init__(self, op: Binding, four_bits: bool, rule: str) -> None:
        super().__init__(op, four_bits, rule)
        rows = self.src.rows
        if rows % GROUP:
            raise OpFault("PTO6014", f"'{op.op.name}': the source has {rows} rows")
        self.prepare((rows // GROUP, self.cols), (rows, self.cols))
