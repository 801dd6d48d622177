"""TQUANT: INT8 with a scale for each row, and the microscaling formats with a scale for each group of 32.

Besides the result the hardware leaves intermediate values in its scratch tiles and, on A2/A3, in the
source; programs have come to rely on some of it, so all of it is modelled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptosim.machine.layout import round_up
from ptosim.machine.space import POISON
from ptosim.machine.storage import pack_nibbles
from ptosim.machine.tile import Tile
from ptosim.numerics import affine
from ptosim.numerics.mx import GROUP, MxResult, quantizer
from ptosim.numerics.stochastic import noise
from ptosim.semantics.binding import Binding, OpFault
from ptosim.semantics.registry import Commit, kernel

# -- INT8 ------------------------------------------------------------------------------------------------


@kernel("pto.tquant:int8")
def tquant_int8(op: Binding) -> Commit:
    """q = saturate(round(x * scale[r] [+ offset[r]])), the sum and the product rounded to f32 each."""
    src, dst = op.tile("src"), op.tile("dst")
    values = src.array
    scale, offset = _parameters(op, src)
    by, at = op.switch("tquant.int8_scale"), op.switch("tquant.int8_offset")
    clobbers = op.target == "a2a3" and op.profile.name != "cpu"
    tmp = op.opt_tile("tmp")

    def quantize() -> None:
        result = affine.quantize_int8(values, scale, offset, scale_by=by, offset_at=at)
        if clobbers:
            _clobber(src, tmp, result)
        dst.write(result.codes)

    return quantize


def _parameters(op: Binding, src: Tile) -> tuple[np.ndarray, np.ndarray | None]:
    """Return scale and offset as they meet the elements.

    The library reads one f32 for each row from flat memory, whatever the parameter tile's layout says;
    on A2/A3 without a scratch tile a row-major parameter tile is read as one 32-byte block for each
    row, lane c mod 8 for column c.
    """
    scale_tile, offset_tile = op.tile("fp"), op.opt_tile("offset")
    if offset_tile is None and op.tile("dst").type.dtype.kind == "uint" and scale_tile.cols >= 2:
        pairs = scale_tile.full[: src.v_row]
        return pairs[:, 0:1], pairs[:, 1:2]
    scale = _parameter(op, scale_tile, src)
    return scale, None if offset_tile is None else _parameter(op, offset_tile, src)


def _parameter(op: Binding, tile: Tile, src: Tile) -> np.ndarray:
    rows, cols = src.v_row, src.v_col
    if tile.rows * tile.cols == 1 and op.profile.name == "page":
        return tile.region(1, 1)
    by_lane = (
        op.target == "a2a3"
        and not op.is_written("tmp")
        and tile.type.blayout == "row_major"
        and op.profile.name != "cpu"
    )
    needed = (8 if by_lane else 1) * rows
    if tile.rows * tile.cols < needed:
        raise OpFault(
            "PTO6011",
            f"the parameter tile has {tile.rows * tile.cols} values, {needed} are read",
            notes=("A2/A3 without scratch reads a block of 8 for each row of a row-major tile",),
        )
    if not by_lane:
        return tile.flat(rows, np.float32).reshape(rows, 1)
    blocks = tile.flat(8 * rows, np.float32).reshape(rows, 8)
    if not (blocks == blocks[:, :1]).all():
        op.warn(
            "PTO7001",
            "reads a 32-byte block of scales for each row, and the values of a block differ",
            notes=("column c is scaled by lane c mod 8 of the block",),
            help="give the parameter one column (col_major [M, 1]), or fill each block with copies",
        )
    return np.ndarray(
        (rows, cols // 8 + 1, 8), np.float32, tile.buffer, tile.addr, (32, 0, 4)
    ).reshape(rows, -1)[:, :cols]


def _clobber(src: Tile, tmp: Tile | None, result: affine.Int8Result) -> None:
    """What A2/A3 leaves behind: the f32 products in src, the 32-bit integers in tmp, and over the
    first half of src the f16 image, packed at its own row stride."""
    rows, cols = result.integers.shape
    src.array[...] = result.products
    if tmp is not None:
        integers = np.ndarray((rows, cols), np.int32, tmp.buffer, tmp.addr, (4 * src.cols, 4))
        integers[...] = result.integers
    stride = 2 * round_up(src.cols, 16)
    image = np.ndarray((rows, cols), np.float16, src.buffer, src.addr, (stride, 2))
    image[...] = affine.half_image(result.integers)


# -- microscaling ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Mode:
    """Destination format, scale rule and group axis."""

    dst: str
    rule: str
    axis: int


_ALGORITHMS = {
    "OcpMxFp8E4M3": ("f8E4M3FN", "ocp"),
    "NvMxFp8E4M3": ("f8E4M3FN", "nv"),
    "OcpMxFp4E2M1": ("f4E2M1FN", "ocp"),
    "NvMxFp4E2M1": ("f4E2M1FN", "nv"),
}


def _mode(op: Binding, dst: Tile) -> _Mode:
    algorithm = op.attr("mx_alg")
    if algorithm is not None:
        return _Mode(*_ALGORITHMS[algorithm], op.attr("grp_axis"))
    rule = str(op.attr("scale_alg") or "OCP").lower()
    kind = op.attr("quant_type")
    four_bits = kind == "MXFP4_E2M1" or (kind is None and dst.bits == 4)
    return _Mode("f4E2M1FN" if four_bits else "f8E4M3FN", rule, op.attr("grp_axis"))


@kernel("pto.tquant:mx", "pto.tquant:mx_page")
def tquant_mx(op: Binding) -> Commit:
    """Group maxima, shared exponents and scales, scaled and narrowed elements (A5)."""
    if op.target != "a5" and op.profile.name == "hw":
        raise OpFault("PTO3001", "'pto.tquant' op MX modes are only supported on A5")
    src, dst, exponents = op.tile("src"), op.tile("dst"), op.tile("exp")
    mode = _mode(op, dst)
    if mode.dst == "f4E2M1FN" and src.bits == 32 and op.profile.name != "cpu":
        raise OpFault(
            "PTO8002",
            "MXFP4 takes f16 and bf16 sources on A5, not f32",
            help="convert the source to bf16 first",
        )
    plan = (_Columns if mode.axis == 0 else _Flat if exponents.rows == 1 else _Rows)(op, mode)
    quantize = quantizer(
        _source_name(src),
        mode.dst,
        mode.rule,
        axis=mode.axis,
        emax_e2m1=int(op.switch("tquant.emax_e2m1")),
        nan_group=op.switch("tquant.nan_group"),
        zero_sign=op.switch("tquant.zero_sign"),
        ftz=op.switch("tquant.ftz") == "on",
        header_defects=_has_header_defect(op, mode, src, exponents),
    )
    core = op.core
    stochastic = op.switch("tquant.rounding") == "stochastic"

    def run() -> None:
        values = plan.values()
        if stochastic:
            counter = core.registers.get("noise", 0)
            core.registers["noise"] = counter + 1
            result = quantize(values, noise(core.seed, counter, values.shape))
        else:
            result = quantize(values)
        plan.store(result)
        core.registers["ctrl"] = 1 << 50

    return run


def _source_name(src: Tile) -> str:
    return {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}[src.dtype.name]


def _has_header_defect(op: Binding, mode: _Mode, src: Tile, exponents: Tile) -> bool:
    """The two cases in which the A5 library reduces the wrong bits, if the switch asks for them."""
    if op.switch("tquant.a5_header_defects") != "on" or exponents.rows != 1 or mode.rule != "nv":
        return False
    if mode.dst == "f4E2M1FN":
        return True
    return src.dtype == np.float16 and src.rows * src.cols % 4096 != 0


class _Plan:
    """Where the groups of a mode lie in the source, and where its results go."""

    def __init__(self, op: Binding, mode: _Mode) -> None:
        self.op = op
        self.mode = mode
        self.src, self.dst, self.exp = op.tile("src"), op.tile("dst"), op.tile("exp")
        self.max, self.scaling = op.opt_tile("max"), op.opt_tile("scaling")
        self.rows, self.cols = self.src.v_row, self.src.v_col
        self.width = self.src.cols
        self.scratch_dtype = np.dtype(np.uint32 if self.src.bits == 32 else np.uint16)
        self._check()

    def _check(self) -> None:
        if self.dst_width != self.width:
            raise OpFault(
                "PTO6012",
                f"the destination is {self.dst_width} elements wide, the source {self.width}",
                notes=("the library addresses the destination with the source's static width",),
            )

    @property
    def dst_width(self) -> int:
        """Elements of a destination row; 8-bit tiles can hold packed 4-bit elements."""
        packed = self.mode.dst == "f4E2M1FN" and self.dst.bits == 8
        return self.dst.cols * (2 if packed else 1)

    def clear_padding(self) -> None:
        """16-bit sources: the columns behind the valid ones are cleared in place first."""
        if self.src.bits == 16 and self.cols < self.width:
            self.src.full[: self.rows, self.cols :] = 0

    def values(self) -> np.ndarray:
        """Return the elements of all groups."""
        raise NotImplementedError

    def store(self, result: MxResult) -> None:
        """Write data, exponents and scratch."""
        raise NotImplementedError

    def store_codes(self, codes: np.ndarray) -> None:
        """Write elements at the source's addresses: byte r*S + c, or two a byte."""
        rows = codes.shape[0]
        four_bits = self.mode.dst == "f4E2M1FN"
        data = pack_nibbles(codes) if four_bits else codes
        stride = self.width // 2 if four_bits else self.width
        shape = (rows, data.shape[1])
        np.ndarray(shape, np.uint8, self.dst.buffer, self.dst.addr, (stride, 1))[...] = data

    def scratch(self, tile: Tile | None, count: int) -> np.ndarray | None:
        """Return `count` elements of a scratch tile, None if the program has none and neither do we."""
        if tile is None:
            return None
        needed = count * self.scratch_dtype.itemsize
        if tile.addr + needed > len(tile.buffer):
            raise OpFault(
                "PTO6013",
                f"scratch at {tile.addr:#x} needs {needed} bytes and leaves its memory space",
            )
        if needed > tile.type.bytes:
            self.op.warn(
                "PTO6105",
                f"writes {needed} bytes of scratch into a tile of {tile.type.bytes}",
                help="give the scratch tile the documented size, twice that for the f32 fast path",
            )
        return tile.flat(count, self.scratch_dtype)


class _Flat(_Plan):
    """Groups along rows, one-row exponent tile: all groups of the static width, densely."""

    def __init__(self, op: Binding, mode: _Mode) -> None:
        super().__init__(op, mode)
        if self.width % GROUP:
            raise OpFault(
                "PTO6014",
                f"the source is {self.width} elements wide; with a one-row exponent tile the width is "
                "a multiple of 32",
            )
        groups = self.rows * self.width // GROUP
        self.groups = groups
        # The unrolled f32 path stores every scale twice.
        elements = self.src.rows * self.src.cols
        unrolled = self.src.bits == 32 and elements > 1024 and elements % 256 == 0
        self.doubled = unrolled and (self.rows * self.width) % 256 == 0
        self.exp_out = self._exponents(op, groups)
        self.max_out = self.scratch(self.max, groups)
        self.scale_out = self.scratch(self.scaling, groups * (2 if self.doubled else 1))

    def _exponents(self, op: Binding, groups: int) -> np.ndarray:
        if groups > self.exp.rows * self.exp.cols:
            op.warn(
                "PTO6105",
                f"writes {groups} exponents into a tile of {self.exp.rows * self.exp.cols}",
                help="a one-row exponent tile holds M * S/32 bytes, S the static width of the source",
            )
        if self.exp.addr + groups > len(self.exp.buffer):
            raise OpFault("PTO6013", f"{groups} exponents leave the memory space")
        return self.exp.flat(groups, np.uint8)

    def values(self) -> np.ndarray:
        self.clear_padding()
        return np.ascontiguousarray(self.src.full[: self.rows])

    def store(self, result: MxResult) -> None:
        self.exp_out[...] = result.exponents.reshape(-1)
        if self.max_out is not None:
            self.max_out[...] = result.maxima.reshape(-1)
        if self.scale_out is not None:
            scales = result.scales.reshape(-1)
            self.scale_out[...] = np.repeat(scales, 2) if self.doubled else scales
        if self._overshoots:
            self._poison_overshoot()
        self.store_codes(result.codes)

    @property
    def _overshoots(self) -> bool:
        """The f32 OCP loop writes whole steps of 64 groups where it is not unrolled."""
        return (
            self.src.bits == 32
            and self.mode.rule == "ocp"
            and not self.doubled
            and self.groups > 64
            and self.groups % 64 != 0
        )

    def _poison_overshoot(self) -> None:
        """The surplus is computed from whatever lies behind the maxima: undefined. It is kept inside
        the tiles here; what lies behind them is reported by the memory checks."""
        end = round_up(self.groups, 64)
        self.exp.flat(min(end, self.exp.type.bytes), np.uint8)[self.groups :] = POISON
        if self.scaling is not None:
            room = self.scaling.type.bytes // 4
            self.scaling.flat(min(end, room), np.uint32)[self.groups :] = 0xFFFFFFFF


class _Rows(_Plan):
    """Groups along rows, an exponent row for each row: only the groups that hold valid columns."""

    def __init__(self, op: Binding, mode: _Mode) -> None:
        super().__init__(op, mode)
        self.per_row = -(-self.cols // GROUP)
        if self.per_row > self.exp.cols:
            raise OpFault(
                "PTO6012",
                f"{self.per_row} groups a row do not fit an exponent tile of {self.exp.cols} columns",
            )
        groups = self.rows * self.per_row
        self.max_out = self.scratch(self.max, groups)
        self.scale_out = self.scratch(self.scaling, groups)
        self.exp_out = self.exp.region(self.rows, self.per_row)

    def values(self) -> np.ndarray:
        self.clear_padding()
        values = np.zeros((self.rows, self.per_row * GROUP), self.src.dtype)
        values[:, : self.cols] = self.src.array
        return values

    def store(self, result: MxResult) -> None:
        self.exp_out[...] = result.exponents
        if self.max_out is not None:
            self.max_out[...] = result.maxima.reshape(-1)
        if self.scale_out is not None:
            self.scale_out[...] = result.scales.reshape(-1)
        if self.src.bits == 16:
            self._scale_window(result.scales)
        self.store_codes(result.codes[:, : self.width])

    def _scale_window(self, scales: np.ndarray) -> None:
        """16-bit sources pass the scales of 8 groups at a time through a window: the start of the max
        scratch, or, for MXFP8 with fewer than 8 groups in all, byte 16 of each exponent row."""
        in_exponents = self.mode.dst == "f8E4M3FN" and scales.size < 8
        if in_exponents:
            for row in range(self.rows):
                self._window_in_exponents(row, scales[row])
            return
        if self.max_out is None:
            return
        for start in range(0, self.per_row, 8):
            window = scales[-1, start : start + 8]
            self.max_out[: window.size] = window

    def _window_in_exponents(self, row: int, scales: np.ndarray) -> None:
        end = 16 + 2 * scales.size
        if end > self.exp.cols:
            self.op.warn(
                "PTO6105",
                f"uses bytes 16 to {end} of an exponent row of {self.exp.cols} bytes as scratch",
                help="give the exponent tile at least 16 + 2 * groups columns",
            )
        at = self.exp.addr + row * self.exp.cols + 16
        if at + 2 * scales.size <= len(self.exp.buffer):
            np.ndarray((scales.size,), np.uint16, self.exp.buffer, at)[...] = scales


class _Columns(_Plan):
    """Groups along columns (DN): 32 rows share an exponent."""

    def __init__(self, op: Binding, mode: _Mode) -> None:
        super().__init__(op, mode)
        if self.rows % GROUP:
            raise OpFault(
                "PTO6014", f"{self.rows} valid rows; groups along columns take whole groups of 32"
            )
        self.groups = self.rows // GROUP
        self.interleaved = bool(op.attr("interleave"))
        if self.interleaved and self.rows % 64:
            raise OpFault("PTO6014", f"{self.rows} valid rows; interleaving takes pairs of groups")
        extent = self.groups * self.width
        self.max_out = self._grid(self.scratch(self.max, extent))
        self.scale_out = self._grid(self.scratch(self.scaling, extent))
        self.exp_out = self._exponents()

    def _grid(self, flat: np.ndarray | None) -> np.ndarray | None:
        return None if flat is None else flat.reshape(self.groups, self.width)[:, : self.cols]

    def _exponents(self) -> np.ndarray:
        """Exponent (group, column): at group*S + c, or interleaved in pairs of groups, two a column."""
        exp = self.exp
        if self.interleaved:
            shape, strides = (self.groups // 2, 2, self.cols), (exp.cols, 1, 2)
            last = (self.groups // 2 - 1) * exp.cols + 2 * self.cols
        else:
            shape, strides = (self.groups, self.cols), (self.width, 1)
            last = (self.groups - 1) * self.width + self.cols
        if exp.addr + last > len(exp.buffer):
            raise OpFault("PTO6013", "the exponents leave the memory space")
        return np.ndarray(shape, np.uint8, exp.buffer, exp.addr, strides)

    def values(self) -> np.ndarray:
        self.clear_padding()
        return np.ascontiguousarray(self.src.array)

    def store(self, result: MxResult) -> None:
        self.exp_out[...] = result.exponents.reshape(self.exp_out.shape)
        if self.max_out is not None:
            self.max_out[...] = result.maxima
        if self.scale_out is not None:
            self.scale_out[...] = result.scales
        self.store_codes(result.codes)
