"""`ptosim quant …`: its commands, and what they share: tensors, scales, zero points."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.launch.array_files import check_writable, dtype_like, file_bytes, parse_spec
from ptosim.machine.quant.parameters import Storage
from ptosim.machine.quant.quantize import as_array
from ptosim.shell.command import commands
from ptosim.shell.options import option
from ptosim.shell.terminal import write_file

# Subcommand -> what it does; `ptosim.shell.quant_<name>` registers it, or its module in MODULES.
SUBCOMMANDS = {
    "audit": "every quantising step of a program or model: whose formula, where others differ, why",
    "convert": "a float model quantised; real, fixed-point and affine values",
    "diff": "every scheme on one tensor: mismatches, ties, and why the first one differs",
    "explore": "one tensor in every format PTO quantises to: quality, bytes, buffer, cycles",
    "onnx": "run a quantised ONNX model as PTO programs and compare with the reference",
    "plan": "an int8 product or convolution with oneDNN attributes as PTO programs",
    "reorder": "f32 weights to int8 as oneDNN's reorder does it, and as PTO programs",
    "types": "the `!quant` types of a file: verdicts, canonical form, what they are on PTO",
    "schemes": "the schemes and what they are made of",
}
commands("quant", SUBCOMMANDS)

TARGETS = option("--target", default="a2a3,a5", metavar="T[,T]")
"""Targets whose kernels are made."""
EMIT = option("--emit", metavar="DIR", help="write the programs with their data")
FAILS = option("--fail-on", choices=("error", "warning", "never"), default="error")


def tensor(spec: str, what: str = "the tensor") -> np.ndarray:
    """Return the array of a SPEC: a file, random data, or one number."""
    value = parse_spec(spec)
    if isinstance(value, bool):
        raise UsageError(f"{what} is `{spec}`, not an array of numbers")
    array = as_array(np.float32(value) if isinstance(value, (int, float)) else value, what)
    return array.reshape(1) if array.ndim == 0 else array


def parameter(spec: str, what: str) -> np.ndarray:
    """Return scales or zero points: a number, a list `1,2,3`, or a file."""
    if "," in spec and ":" not in spec:
        try:
            return np.array([float(part) for part in spec.split(",")])
        except ValueError:
            raise UsageError(f"{what}: `{spec}` is not a list of numbers") from None
    value = parse_spec(spec)
    if isinstance(value, bool):
        raise UsageError(f"{what} is `{spec}`, not a number")
    return as_array(np.asarray(value), what)


def save(file: str, array: np.ndarray) -> None:
    """Write a result to .npy or .bin."""
    check_writable(file)
    write_file(Path(file), file_bytes(file, array, dtype_like(array)))


def scales(
    spec: str, x: np.ndarray, out: Storage, axis: int | None, block: int | None
) -> np.ndarray:
    """Return f32 scales: given, or with `auto` from the largest magnitudes."""
    if spec == "auto":
        from ptosim.models.quant.statistics import symmetric_scale

        return symmetric_scale(x, out, axis, block)
    given = parameter(spec, "--scale")
    return given if given.dtype.itemsize == 2 else given.astype(np.float32)


def zero_point(value: float, what: str) -> int:
    """Return a zero point; raises UsageError for what is no whole number of 32 bits."""
    if not -(2**31) <= value < 2**31 or value != int(value):
        raise UsageError(f"{what} is a whole number of 32 bits, not {value}")
    return int(value)


def filled(array: np.ndarray, what: str) -> np.ndarray:
    """Return an array; raises UsageError for one without elements."""
    if not array.size:
        raise UsageError(f"{what} has no elements: {'x'.join(map(str, array.shape))}")
    return array


def zeros(spec: str, scale: np.ndarray) -> np.ndarray:
    """Return zero points; whole numbers as integers."""
    given = parameter(spec, "--zp")
    if given.size > 1 and given.shape != scale.shape and given.size == scale.size:
        given = given.reshape(scale.shape)
    return given
