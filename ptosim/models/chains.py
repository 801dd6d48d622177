"""Operation sequences that quantise, dequantise and requantise a tile.

The fast form is what the hardware has an instruction for: TQUANT, which multiplies by the
reciprocal and adds the zero point before it rounds. The exact form computes another system's
formula step by step on the vector unit; its results are those of the system for all finite inputs.
"""

from __future__ import annotations

import math

from ptosim.ground.diagnostics.model import UnsupportedError, finding
from ptosim.ground.records import dataclass, replace
from ptosim.language.build import Typed, Words
from ptosim.machine.quant.parameters import Storage
from ptosim.models.kernel_builder import KernelBuilder, TileValue

RINT = {"rmode": "#pto<round_mode RINT>"}
ON = {"sat_mode": "#pto<saturation_mode ON>"}
OFF = {"sat_mode": "#pto<saturation_mode OFF>"}
CLAMPED = RINT | ON
FAR = 1 << 20
"""Integers beyond this are clamped to it before a zero point is added: it saturates every output,
and the sum cannot wrap."""
LOWEST = -3.0e38
"""An f32 below every integer type."""
_TOP = (1 << 31) - 1
_OVERFLOW = {"f16": 65520.0, "bf16": 255.5 * 2.0**120}
"""From here on a half rounds to infinity."""

Parameter = Typed | TileValue


@dataclass(frozen=True, slots=True)
class Affine:
    """Scale and zero point of a quantisation as a program has them.

    `along` says how they meet the elements: `tensor` (scalars), `row` (column tiles [R, 1]) or
    `column` (row tiles [1, C]). `through` is a half type that exact quotients are rounded to. In
    the fast form `scale` is the reciprocal. `zero` None: no zero point. `through_int32`: quotients
    that are too large, and NaN, become -2^31, and the sum with the zero point wraps; else NaN gives
    the lower limit."""

    along: str
    scale: Parameter
    zero: Parameter | None = None
    through: str | None = None
    through_int32: bool = False


def apply(
    f: KernelBuilder, name: str, tile: TileValue, parameter: Parameter, out: TileValue
) -> None:
    """Add an element-wise operation with a scalar, or with a value for each row or column."""
    if not isinstance(parameter, TileValue):
        f.tile_op(f"pto.t{name}s", [tile, parameter], [out])
        return
    prefix = "row" if parameter.cols == 1 and parameter.layout == "dn" else "col"
    f.tile_op(f"pto.t{prefix}expand{name}", [tile, parameter], [out])


def quantize_fast(f: KernelBuilder, x: TileValue, affine: Affine, out: Storage) -> TileValue:
    """Quantise with one multiplication and a zero point before rounding, by TQUANT where it can."""
    signed = out.name == "i8"
    if out.name == "ui8" or (signed and affine.zero is None):
        if affine.along == "row":
            return _tquant(f, x, affine, out)
        if affine.along == "tensor" and f.target == "a5":  # there it is one instruction
            scale, zero = (
                None if p is None or isinstance(p, TileValue) else _for_rows(f, x.rows, p)
                for p in (affine.scale, affine.zero)
            )
            if scale is not None:
                return _tquant(f, x, replace(affine, scale=scale, zero=zero), out)
    apply(f, "mul", x, affine.scale, x)
    if affine.zero is not None:
        apply(f, "add", x, affine.zero, x)
    return narrow(f, converted(f, x, "whole", "i32", CLAMPED), x, out)


def _tquant(f: KernelBuilder, x: TileValue, affine: Affine, out: Storage) -> TileValue:
    assert isinstance(affine.scale, TileValue)
    codes = f.like("codes", out.name, x)
    outs = [codes]
    if f.target == "a2a3":
        outs.append(f.like("scratch", "f32", x))
    if out.name == "i8":
        f.tile_op(
            "pto.tquant", [x, affine.scale], outs, {"quant_type": "#pto<quant_type INT8_SYM>"}
        )
        return codes
    offset = affine.zero
    if offset is None:
        offset = _no_offset(f, x.rows)
    assert isinstance(offset, TileValue)
    f.tile_op(
        "pto.tquant", [x, affine.scale, offset], outs, {"quant_type": "#pto<quant_type INT8_ASYM>"}
    )
    return codes


def _no_offset(f: KernelBuilder, rows: int) -> TileValue:
    """Zeros for the asymmetric form."""
    zero = Typed(f.fresh("zero"), "f32")
    f.constant(zero.name, "0.0", zero.type)
    return _for_rows(f, rows, zero)


def _for_rows(f: KernelBuilder, rows: int, value: Typed) -> TileValue:
    """A number for each row; they are filled as a row, which both targets can."""
    filled = f.tile("filled", "f32", 1, rows)
    f.tile_op("pto.texpands", [value], [filled])
    return f.reshaped(filled, "column", rows, 1, "dn")


def quantize_exact(f: KernelBuilder, x: TileValue, affine: Affine, out: Storage) -> TileValue:
    """Quantise as ONNX does: division, rounding, integer zero point, limits."""
    if not out.is_integer:
        return _to_float8(f, x, affine, out)
    quotient = _divided(f, x, affine)
    numbers(f, quotient, x)
    whole = converted(f, quotient, "whole", "i32", CLAMPED)
    return offset(f, whole, affine, out, x)


def offset(
    f: KernelBuilder, whole: TileValue, affine: Affine, out: Storage, scratch: TileValue
) -> TileValue:
    """Add the integer zero point to rounded quotients, and convert them to the output type."""
    if affine.through_int32:
        lowest_for_highest(f, whole)
    elif affine.zero is not None:
        clamp(f, whole, -FAR, FAR)
    if affine.zero is not None:
        apply(f, "add", whole, affine.zero, whole)
    return narrow(f, whole, scratch, out)


def numbers(f: KernelBuilder, tile: TileValue, scratch: TileValue) -> None:
    """Put a number below every limit in the place of NaN; `scratch` is overwritten."""
    choose(f, tile, tile, "ne", LOWEST, tile, scratch)


def choose(
    f: KernelBuilder,
    left: TileValue,
    right: TileValue | Typed,
    mode: str,
    value: float,
    tile: TileValue,
    scratch: TileValue,
) -> None:
    """Put a value where a comparison holds; `scratch`, of the tile's type, is overwritten."""
    mask = f.like("mask", "i8", tile)
    if not isinstance(right, TileValue):  # TCMPS of A5 packs its mask as TSEL does not read it
        edges = f.like("edges", left.dtype, tile)
        f.tile_op("pto.texpands", [right], [edges])
        right = edges
    f.tile_op("pto.tcmp", [left, right], [mask], {"cmpMode": f"#pto<cmp {mode}>"})
    f.tile_op("pto.texpands", [f.real(value, tile.dtype)], [scratch])
    f.tile_op("pto.tsel", [mask, scratch, tile], [tile])


def lowest_for_highest(f: KernelBuilder, whole: TileValue) -> None:
    """Turn the largest integer, where a conversion ends that saturates, into the smallest one,
    where one ends that does not: one more wraps."""
    top = f.like("top", "i32", whole)
    f.tile_op("pto.tmaxs", [whole, f.integer(_TOP - 1, "i32")], [top])
    f.tile_op("pto.tadds", [top, f.integer(1 - _TOP, "i32")], [top])
    f.tile_op("pto.tadd", [whole, top], [whole])


def _divided(f: KernelBuilder, x: TileValue, affine: Affine) -> TileValue:
    """Return x / scale in a tile of its own: in place A2/A3 multiplies by the reciprocal."""
    quotient = f.like("quotient", "f32", x)
    apply(f, "div", x, affine.scale, quotient)
    if affine.through is None:
        return quotient
    return real(f, rounded_half(f, quotient, affine.through))


def _to_float8(f: KernelBuilder, x: TileValue, affine: Affine, out: Storage) -> TileValue:
    if f.target != "a5" or out.name not in ("f8E4M3FN", "f8E5M2"):
        raise unsupported(f"{f.target} has no conversion from f32 to {out}")
    return converted(f, _divided(f, x, affine), "codes", out.name, CLAMPED)


def clamp(f: KernelBuilder, whole: TileValue, low: int, high: int) -> None:
    """Limit i32 values."""
    f.tile_op("pto.tmaxs", [whole, f.integer(low, "i32")], [whole])
    f.tile_op("pto.tmins", [whole, f.integer(high, "i32")], [whole])


def narrow(
    f: KernelBuilder,
    whole: TileValue,
    scratch: TileValue,
    out: Storage,
    limits: tuple[int, int] | None = None,
) -> TileValue:
    """Clamp i32 values to an integer type (or to narrower limits) and convert them to it; `scratch`
    is an f32 tile.

    Types of 16 bits take the low bits, which the clamp has made exact; those of 8 bits go through
    f32 and f16, which both targets convert. Types below 8 bits stay one element a byte."""
    clamp(f, whole, *(limits or (int(out.low), int(out.high))))
    if out.bits == 32:
        return whole
    if out.bits == 16:
        return converted(f, whole, "codes", "i16", OFF)
    return converted(
        f, half(f, convert(f, whole, scratch)), "codes", "i8" if out.signed else "ui8", CLAMPED
    )


def has_tdequant(q: TileValue, stored: Storage) -> bool:
    """True if TDEQUANT takes the stored values (a parameter for each row)."""
    return q.dtype in ("i8", "i16") and stored.signed


def dequantize(f: KernelBuilder, q: TileValue, affine: Affine, stored: Storage) -> TileValue:
    """Return (q - z) * scale in f32, one rounding each; TDEQUANT where it can.

    Zero points are f32 here, and so are their tiles.
    """
    if affine.along == "row" and has_tdequant(q, stored):
        assert isinstance(affine.scale, TileValue)
        assert isinstance(affine.zero, TileValue)
        made = f.like("real", "f32", q)
        f.tile_op("pto.tdequant", [q, affine.scale, affine.zero], [made])
        return made
    made = widen(f, q, stored)
    if affine.zero is not None:
        apply(f, "sub", made, affine.zero, made)
    apply(f, "mul", made, affine.scale, made)
    return made


def widen(f: KernelBuilder, q: TileValue, stored: Storage) -> TileValue:
    """Return stored values as f32."""
    if stored.name == "ui16":
        return _widen_16(f, q)
    if stored.name == "ui32":
        return _widen_32(f, q)
    if q.dtype in ("i8", "ui8"):
        return real(f, half(f, q))
    if q.dtype in ("i32", "i16") or (f.target == "a5" and q.dtype in ("f8E4M3FN", "f8E5M2")):
        return real(f, q)
    raise unsupported(f"{f.target} has no conversion from {q.dtype} to f32")


def _widen_16(f: KernelBuilder, q: TileValue) -> TileValue:
    """Return 16-bit unsigned integers as f32: no target converts them, so that the signed value
    gets the 2^16 that it lacks where it is negative; all of it is exact."""
    made = real(f, replace(q, dtype="i16"))
    lacking = f.like("lacking", "f32", q)
    f.tile_op("pto.tmins", [made, f.real(0.0)], [lacking])
    f.tile_op("pto.tmaxs", [lacking, f.real(-1.0)], [lacking])
    f.tile_op("pto.tmuls", [lacking, f.real(-65536.0)], [lacking])
    f.tile_op("pto.tadd", [made, lacking], [made])
    return made


def _widen_32(f: KernelBuilder, q: TileValue) -> TileValue:
    """Return 32-bit unsigned integers as f32, rounded once: the halves of 16 bits are exact."""
    whole, high = replace(q, dtype="i32"), f.like("high", "i32", q)
    low = f.like("low", "i32", q)
    f.tile_op("pto.tshrs", [whole, f.integer(16, "i32")], [high])
    f.tile_op("pto.tmuls", [high, f.integer(-65536, "i32")], [low])
    f.tile_op("pto.tadd", [whole, low], [low])
    made, rest = real(f, high), real(f, low)
    lacking = f.like("lacking", "f32", q)
    f.tile_op("pto.tmins", [made, f.real(0.0)], [lacking])
    f.tile_op("pto.tmaxs", [lacking, f.real(-1.0)], [lacking])
    f.tile_op("pto.tmuls", [lacking, f.real(-65536.0)], [lacking])
    f.tile_op("pto.tadd", [made, lacking], [made])
    f.tile_op("pto.tmuls", [made, f.real(65536.0)], [made])
    f.tile_op("pto.tadd", [made, rest], [made])
    return made


def converted(
    f: KernelBuilder, tile: TileValue, stem: str, dtype: str, attrs: Words = RINT
) -> TileValue:
    """Return the values of a tile in another type, in a tile of their own."""
    return convert(f, tile, f.like(stem, dtype, tile), attrs)


def convert(f: KernelBuilder, tile: TileValue, made: TileValue, attrs: Words = RINT) -> TileValue:
    """Put the values of a tile into one of another type, and return that."""
    f.tile_op("pto.tcvt", [tile], [made], attrs)
    return made


def half(f: KernelBuilder, tile: TileValue, dtype: str = "f16") -> TileValue:
    """Return the values of a tile in f16 or bf16."""
    return converted(f, tile, "half", dtype)


def rounded_half(f: KernelBuilder, tile: TileValue, dtype: str) -> TileValue:
    """Return f32 values rounded to f16 or bf16, with infinities where they are too large: the
    conversion of A2/A3 saturates."""
    made = converted(f, tile, "half", dtype, RINT | OFF if f.target == "a5" else RINT)
    if f.target == "a2a3":
        scratch = f.like("infinite", dtype, tile)
        for mode, sign in (("ge", 1.0), ("le", -1.0)):
            edge = f.real(sign * _OVERFLOW[dtype])
            choose(f, tile, edge, mode, sign * math.inf, made, scratch)
    return made


def real(f: KernelBuilder, tile: TileValue) -> TileValue:
    """Return the values of a tile in f32."""
    return converted(f, tile, "real", "f32")


def unsupported(what: str) -> UnsupportedError:
    """Return the error for a form that the hardware does not have."""
    return UnsupportedError([finding("PTO8204", f"cannot be lowered to PTO: {what}")])
