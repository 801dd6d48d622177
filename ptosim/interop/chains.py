"""Operation sequences that quantise, dequantise and requantise a tile.

The fast form is what the hardware has an instruction for: TQUANT, which multiplies by the
reciprocal and adds the zero point before it rounds. The exact form computes another system's
formula step by step on the vector unit; its results are those of the system for all finite inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptosim.ground.diagnostics.model import finding
from ptosim.ground.errors import UnsupportedError
from ptosim.interop.program_text import FunctionText, TileText, TypedName
from ptosim.quant.storage import Storage

RINT = "rmode = #pto<round_mode RINT>"
ON = "sat_mode = #pto<saturation_mode ON>"
OFF = "sat_mode = #pto<saturation_mode OFF>"
CLAMPED = f"{RINT}, {ON}"
FAR = 1 << 20
"""Integers beyond this are clamped to it before a zero point is added: it saturates every output,
and the sum cannot wrap."""

Parameter = TypedName | TileText


@dataclass(frozen=True, slots=True)
class Affine:
    """Scale and zero point of a quantisation as a program has them.

    `along` says how they meet the elements: `tensor` (scalars), `row` (column tiles [R, 1]) or
    `column` (row tiles [1, C]). `through` is a half type that exact quotients are rounded to. In
    the fast form `scale` is the reciprocal. `zero` None: no zero point."""

    along: str
    scale: Parameter
    zero: Parameter | None = None
    through: str | None = None


def apply(f: FunctionText, name: str, tile: TileText, parameter: Parameter, out: TileText) -> None:
    """Add an element-wise operation with a scalar, or with a value for each row or column."""
    if not isinstance(parameter, TileText):
        f.op(f"pto.t{name}s", [tile, parameter], [out])
        return
    prefix = "row" if parameter.cols == 1 and parameter.layout == "dn" else "col"
    f.op(f"pto.t{prefix}expand{name}", [tile, parameter], [out])


def quantize_fast(f: FunctionText, x: TileText, affine: Affine, out: Storage) -> TileText:
    """Quantise with one multiplication and a zero point before rounding, by TQUANT where it can."""
    signed = out.name == "i8"
    if affine.along == "row" and (out.name == "ui8" or (signed and affine.zero is None)):
        return _tquant(f, x, affine, out)
    apply(f, "mul", x, affine.scale, x)
    if affine.zero is not None:
        apply(f, "add", x, affine.zero, x)
    return narrow(f, converted(f, x, "whole", "i32", CLAMPED), x, out)


def _tquant(f: FunctionText, x: TileText, affine: Affine, out: Storage) -> TileText:
    assert isinstance(affine.scale, TileText)
    codes = f.tile("codes", out.name, x.rows, x.cols)
    outs = [codes]
    if f.target == "a2a3":
        outs.append(f.tile("scratch", "f32", x.rows, x.cols))
    if out.name == "i8":
        f.op("pto.tquant", [x, affine.scale], outs, "quant_type = #pto<quant_type INT8_SYM>")
        return codes
    offset = affine.zero
    if offset is None:
        offset = _no_offset(f, x.rows)
    assert isinstance(offset, TileText)
    f.op("pto.tquant", [x, affine.scale, offset], outs, "quant_type = #pto<quant_type INT8_ASYM>")
    return codes


def _no_offset(f: FunctionText, rows: int) -> TileText:
    """Zeros for the asymmetric form; they are filled as a row, which both targets can."""
    zeros = f.tile("zeros", "f32", 1, rows)
    zero = f.fresh("zero")
    f.line(f"{zero} = arith.constant 0.0 : f32")
    f.op("pto.texpands", [TypedName(zero, "f32")], [zeros])
    column = TileText(f.fresh("none"), "f32", rows, 1, "dn")
    f.line(f"{column.name} = pto.treshape {zeros.name} : {zeros.type} -> {column.type}")
    return column


def quantize_exact(f: FunctionText, x: TileText, affine: Affine, out: Storage) -> TileText:
    """Quantise as ONNX does: division, rounding, integer zero point, limits."""
    if not out.is_integer:
        return _to_float8(f, x, affine, out)
    quotient = _divided(f, x, affine)
    whole = converted(f, quotient, "whole", "i32", CLAMPED)
    if affine.zero is not None:
        clamp(f, whole, -FAR, FAR)
        apply(f, "add", whole, affine.zero, whole)
    return narrow(f, whole, x, out)


def _divided(f: FunctionText, x: TileText, affine: Affine) -> TileText:
    """Return x / scale in a tile of its own: in place A2/A3 multiplies by the reciprocal."""
    quotient = f.tile("quotient", "f32", x.rows, x.cols)
    apply(f, "div", x, affine.scale, quotient)
    if affine.through is None:
        return quotient
    return real(f, half(f, quotient, affine.through))


def _to_float8(f: FunctionText, x: TileText, affine: Affine, out: Storage) -> TileText:
    if f.target != "a5" or out.name not in ("f8E4M3FN", "f8E5M2"):
        raise unsupported(f"{f.target} has no conversion from f32 to {out}")
    return converted(f, _divided(f, x, affine), "codes", out.name, CLAMPED)


def clamp(f: FunctionText, whole: TileText, low: int, high: int) -> None:
    """Limit i32 values."""
    f.op("pto.tmaxs", [whole, f.integer(low, "i32")], [whole])
    f.op("pto.tmins", [whole, f.integer(high, "i32")], [whole])


def narrow(
    f: FunctionText,
    whole: TileText,
    scratch: TileText,
    out: Storage,
    limits: tuple[int, int] | None = None,
) -> TileText:
    """Clamp i32 values to an integer type (or to narrower limits) and convert them to it; `scratch`
    is an f32 tile.

    Types of 16 bits take the low bits, which the clamp has made exact; those of 8 bits go through
    f32 and f16, which both targets convert. Types below 8 bits stay one element a byte."""
    clamp(f, whole, *(limits or (int(out.low), int(out.high))))
    if out.bits == 32:
        return whole
    if out.bits == 16:
        return converted(f, whole, "codes", "i16", OFF)
    f.op("pto.tcvt", [whole], [scratch], RINT)
    return converted(f, half(f, scratch), "codes", "i8" if out.signed else "ui8", CLAMPED)


def has_tdequant(q: TileText, stored: Storage) -> bool:
    """True if TDEQUANT takes the stored values (a parameter for each row)."""
    return q.dtype in ("i8", "i16") and stored.signed


def dequantize(f: FunctionText, q: TileText, affine: Affine, stored: Storage) -> TileText:
    """Return (q - z) * scale in f32, one rounding each; TDEQUANT where it can.

    Zero points are f32 here, and so are their tiles.
    """
    if affine.along == "row" and has_tdequant(q, stored):
        assert isinstance(affine.scale, TileText)
        assert isinstance(affine.zero, TileText)
        made = f.tile("real", "f32", q.rows, q.cols)
        f.op("pto.tdequant", [q, affine.scale, affine.zero], [made])
        return made
    made = widen(f, q, stored)
    if affine.zero is not None:
        apply(f, "sub", made, affine.zero, made)
    apply(f, "mul", made, affine.scale, made)
    return made


def widen(f: FunctionText, q: TileText, stored: Storage) -> TileText:
    """Return stored values as f32."""
    if stored.name == "ui16":
        raise unsupported("no target converts 16-bit unsigned integers to floats")
    if q.dtype in ("i8", "ui8"):
        return real(f, half(f, q))
    if q.dtype in ("i32", "i16") or (f.target == "a5" and q.dtype in ("f8E4M3FN", "f8E5M2")):
        return real(f, q)
    raise unsupported(f"{f.target} has no conversion from {q.dtype} to f32")


def converted(
    f: FunctionText, tile: TileText, stem: str, dtype: str, attrs: str = RINT
) -> TileText:
    """Return the values of a tile in another type, in a tile of their own."""
    made = f.tile(stem, dtype, tile.rows, tile.cols)
    f.op("pto.tcvt", [tile], [made], attrs)
    return made


def half(f: FunctionText, tile: TileText, dtype: str = "f16") -> TileText:
    """Return the values of a tile in f16 or bf16."""
    return converted(f, tile, "half", dtype)


def real(f: FunctionText, tile: TileText) -> TileText:
    """Return the values of a tile in f32."""
    return converted(f, tile, "real", "f32")


def unsupported(what: str) -> UnsupportedError:
    """Return the error for a form that the hardware does not have."""
    return UnsupportedError([finding("PTO8204", f"cannot be lowered to PTO: {what}")])
