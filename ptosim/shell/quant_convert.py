"""`ptosim quant convert TENSOR --from KIND --to KIND`; models are `quant_convert_model`'s"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.launch import values
from ptosim.machine.quant.storage import storage
from ptosim.models.quant.scaled import Affine, FixedPoint
from ptosim.shell import options as shared
from ptosim.shell import quant_convert_model as model
from ptosim.shell import quant_options as given
from ptosim.shell.formats import Formats, data
from ptosim.shell.terminal import Terminal, write_file

_EPILOG = """A model with --calibration is quantised; a tensor changes its kind:
real = scaled * scale = (affine - zero point) * scale. Sums need equal scales; the
scale of a product is the product of the scales. What is added or multiplied is of the kind --from
too; affine values are converted to fixed point before, and back."""
KINDS = ("real", "fixed", "affine")
_SHOWN = 8


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = _EPILOG
    parser.add_argument("tensor", metavar="TENSOR|MODEL", help="values, or a model to quantise")
    parser.add_argument("--from", choices=KINDS, default="real", dest="source", help="its kind")
    parser.add_argument("--to", choices=KINDS, default="affine", help="the kind wanted")
    parser.add_argument("--scale", type=float, help="of the tensor")
    parser.add_argument("--zp", type=int, default=0, help="zero point of affine values (0)")
    parser.add_argument("--out", default="ui8", metavar="TYPE", help="of affine values (ui8)")
    parser.add_argument("--add", metavar="TENSOR", help="add values with the same scale")
    parser.add_argument("--mul", metavar="TENSOR", help="multiply by values")
    parser.add_argument("--other-scale", type=float, help="scale of --mul (that of --scale)")
    parser.add_argument("--other-zp", type=int, default=0, help="zero point of --add or --mul (0)")
    parser.add_argument("--save", metavar="FILE", help="write the result to .npy or .bin")
    model.configure(parser)
    shared.add_output(parser, FORMATS)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Convert, compute, print."""
    if model.is_model(options):
        return model.run(options, terminal)
    if options.scale is None:
        raise UsageError("a tensor needs --scale", help="a model needs --calibration data.npz")
    if options.save is not None:
        values.check_writable(options.save)
    made = _fixed(options.tensor, options.scale, options.zp, options)
    if options.add is not None:
        made += _fixed(options.add, options.other_scale or options.scale, options.other_zp, options)
    if options.mul is not None:
        made *= _fixed(options.mul, options.other_scale or options.scale, options.other_zp, options)
    result = _as(options.to, made, options)
    if options.save is not None:
        raw = values.file_bytes(options.save, result, values.dtype_like(result))
        write_file(Path(options.save), raw)
    terminal.report(_Outcome(options.to, made.scale, options.zp, result))
    return 0


def _fixed(spec: str, scale: float, zero: int, options: argparse.Namespace) -> FixedPoint:
    x = given.tensor(spec)
    if options.source == "real":
        if options.to == "affine" and options.add is None and options.mul is None:
            return Affine.from_real(
                x, scale, zero, options.out
            ).fixed()  # clamped, as the page has it
        return FixedPoint.from_real(x, scale)
    if options.source == "fixed":
        return FixedPoint.of(x, scale)
    kind = storage(options.out)
    Affine.zero(zero, scale, kind)
    whole = FixedPoint.of(x, scale).scaled
    if np.any((whole < kind.low) | (whole > kind.high)):
        raise UsageError(f"an affine value is outside [{kind.low}, {kind.high}] of {kind}")
    return Affine(whole, FixedPoint.of(0, scale).scale, zero).fixed()


def _as(kind: str, made: FixedPoint, options: argparse.Namespace) -> np.ndarray:
    if kind == "real":
        return made.real()
    if kind == "fixed":
        return made.scaled
    return made.affine(options.zp, options.out).stored


class _Outcome:
    """What the command reports."""

    def __init__(self, kind: str, scale: float, zero: int, result: np.ndarray) -> None:
        self.kind = kind
        self.scale = scale
        self.zero = zero
        self.result = result

    def fields(self) -> dict[str, Any]:
        """Return the outcome as data."""
        fields: dict[str, Any] = {"kind": self.kind, "scale": self.scale}
        if self.kind == "affine":
            fields["zero_point"] = self.zero
        if self.kind != "real":
            fields["max_error"] = self.scale / 2
        return {**fields, "shape": list(self.result.shape), "values": self.result.tolist()}


def _text(outcome: _Outcome) -> str:
    zero = f", zero point {outcome.zero}" if outcome.kind == "affine" else ""
    flat = outcome.result.reshape(-1)
    shown = " ".join(f"{v:g}" if outcome.kind == "real" else str(v) for v in flat[:_SHOWN].tolist())
    more = f" … {flat.size} in all" if flat.size > _SHOWN else ""
    error = "" if outcome.kind == "real" else f", largest rounding error {outcome.scale / 2:g}"
    return f"{outcome.kind}, scale {outcome.scale:g}{zero}{error}\n  {shown}{more}\n"


def _written(report: _Outcome | model.Report, terminal: Terminal) -> str:
    if isinstance(report, model.Report):
        return model.FORMATS["text"](report, terminal)
    return _text(report)


FORMATS: Formats[Any] = {"text": _written, "json": data(lambda report: report.fields())}
