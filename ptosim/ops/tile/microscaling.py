"""TQUANT to the microscaling formats: groups of 32 elements share a power-of-two scale (A5)."""

from __future__ import annotations

import numpy as np

from ptosim.ground.ir.attributes import Enum, attr_value
from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.dates import Profile
from ptosim.ground.isa.schema import enums
from ptosim.ground.records import dataclass
from ptosim.machine.numbers.mx import quantizer
from ptosim.machine.numbers.rounding import noise
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding
from ptosim.ops.base.functions import Commit, kernel, support, written_type
from ptosim.ops.tile.mx_layout import (
    Columns,
    CpuColumns,
    CpuRows,
    Flat,
    FlatResults,
    Places,
    Rows,
    Zigzag,
)

CTRL_AFTER = 1 << 50
"""The library writes the whole control register before the last stage and does not restore it."""

_E4M3, _E2M1 = "f8E4M3FN", "f4E2M1FN"
_ALGORITHMS = {
    "OcpMxFp8E4M3": (_E4M3, "ocp"),
    "NvMxFp8E4M3": (_E4M3, "nv"),
    "OcpMxFp4E2M1": (_E2M1, "ocp"),
    "NvMxFp4E2M1": (_E2M1, "nv"),
}
_SOURCES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


@dataclass(frozen=True, slots=True)
class Mode:
    """Destination format and scale rule."""

    dst: str
    rule: str


def mode_of(algorithm: str | None, kind: str | None, rule: str | None, dst_bits: int) -> Mode:
    """Return what the attributes ask for; without any the destination's width decides."""
    if algorithm is not None:
        return Mode(*_ALGORITHMS[algorithm])
    four_bits = kind == "MXFP4_E2M1" or (kind is None and dst_bits == 4)
    return Mode(_E2M1 if four_bits else _E4M3, str(rule or "OCP").lower())


@support("pto.tquant")
def tquant_support(op: Operation, profile: Profile) -> str | None:
    """Say why a quantisation cannot be executed; None if it can."""
    if op.variant is None or profile.name == "cpu":
        return None
    if op.variant.name == "int8":
        return _one_scale(op, profile)
    if op.bound.get("exp_zz") is not None:
        return "the library of A5 has no zigzag exponent store; rearrange the exponents with tmov"
    src, dst = written_type(op, "src"), written_type(op, "dst")
    if src is None or dst is None:
        return None
    algorithm, kind = _member(op, "mx_alg", "mx_quant_alg"), _member(op, "quant_type", "quant_type")
    if mode_of(algorithm, kind, None, dst.dtype.bits).dst == _E2M1 and src.dtype.bits == 32:
        return "f32 to MXFP4 exists in profile `cpu` only; convert to f16 or bf16 first"
    return None


def _one_scale(op: Operation, profile: Profile) -> str | None:
    src, scale = written_type(op, "src"), written_type(op, "fp")
    if src is None or scale is None or profile.name == "page":
        return None
    if scale.rows * scale.cols == 1 and src.rows > 1 and src.v_row != 1:
        return (
            "one scale for a whole tile is the page's reading; the libraries take one for each row"
        )
    return None


def _member(op: Operation, name: str, enum: str) -> str | None:
    attr = op.attrs.get(name)
    if attr is None:
        return None
    value = attr_value(attr)
    return enums()[enum].member(value.member if isinstance(value, Enum) else str(value))


@kernel("pto.tquant:mx", "pto.tquant:mx_page", over="src")
def tquant_mx(op: Binding) -> Commit:
    """Group maxima, shared exponents and scales, scaled and narrowed elements."""
    dst = op.tile("dst")
    mode = mode_of(op.attr("mx_alg"), op.attr("quant_type"), op.attr("scale_alg"), dst.bits)
    axis = 0 if op.attr("grp_axis") == 0 else 1
    places = _places(op, axis)(op, mode.dst == _E2M1, mode.rule)
    return _quantisation(op, mode, axis, places)


@kernel("pto.tquant.mx")
def tquant_results(op: Binding) -> Commit:
    """The same with codes, exponents, maxima and scales as results. Everything is static and fits:
    the rules of the row say so."""
    mode = mode_of(None, op.attr("quant_type"), op.attr("quantScaleAlg"), 0)
    axis = 0 if op.attr("grpAxis") == "axis0" else 1
    kind = Columns if axis == 0 else FlatResults if op.tile("exp").rows == 1 else Rows
    places: Places | Zigzag = kind(op, mode.dst == _E2M1, mode.rule)
    if op.has("exp_zz"):
        places = Zigzag(places, op.attr("storeMode") == "nz" and mode.dst == _E4M3)
    return _quantisation(op, mode, axis, places)


def _quantisation(op: Binding, mode: Mode, axis: int, places: Places | Zigzag) -> Commit:
    src = op.tile("src")
    quantize = quantizer(
        _SOURCES[src.dtype.name],
        mode.dst,
        mode.rule,
        axis=axis,
        emax_e2m1=int(op.switch("tquant.emax_e2m1")),
        nan_group=op.switch("tquant.nan_group"),
        zero_sign=op.switch("tquant.zero_sign"),
        ftz=op.switch("tquant.ftz") == "on",
        header_defects=_has_header_defect(op, mode, axis, src),
    )
    core = op.core
    stochastic = op.switch("tquant.rounding") == "stochastic"
    is_cpu = op.profile.name == "cpu"

    def run() -> None:
        values = places.values()
        if stochastic:
            counter = core.registers.get("noise", 0)
            core.registers["noise"] = counter + 1
            words = noise(core.seed + (core.number << 64), counter, values.shape)
            places.store(quantize(values, words))
        else:
            places.store(quantize(values))
        if not is_cpu:
            core.registers["ctrl"] = CTRL_AFTER

    return run


def _places(op: Binding, axis: int) -> type[Places]:
    if op.profile.name == "cpu":
        return CpuColumns if axis == 0 else CpuRows
    if axis == 0:
        return Columns
    return Flat if op.tile("exp").rows == 1 else Rows


def _has_header_defect(op: Binding, mode: Mode, axis: int, src: Tile) -> bool:
    """The two cases in which the A5 library reduces the wrong bits, if the switch asks for them."""
    if op.switch("tquant.a5_header_defects") != "on" or axis == 0 or mode.rule != "nv":
        return False
    if op.tile("exp").rows != 1:
        return False
    if mode.dst == _E2M1:
        return True
    return src.dtype == np.float16 and src.rows * src.cols % 4096 != 0
