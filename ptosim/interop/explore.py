"""One tensor in the formats that PTO quantises to: quality, bytes, buffer, cycles.

Every figure is that of a generated program: its codes are read back, dequantised, and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from ptosim.ground.errors import UnsupportedError, UsageError
from ptosim.interop import chains, kernels
from ptosim.interop.kernel_runner import KernelRunner
from ptosim.interop.matrices import matrix
from ptosim.interop.program_text import FunctionText
from ptosim.quant import metrics
from ptosim.quant.inverse import dequantize
from ptosim.quant.statistics import symmetric_scale
from ptosim.quant.storage import Storage, storage

GROUP = 32
"""Elements that share a scale in the blocked and the microscaling formats."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its name, stored type, granularity (tensor, row, block), and for microscaling the
    rule of the shared exponents."""

    name: str
    out: str
    along: str
    rule: str = ""


FORMATS = (
    Format("int8 per tensor", "i8", "tensor"),
    Format("int8 per row", "i8", "row"),
    Format("int8 per block of 32", "i8", "block"),
    Format("int4 per tensor", "i4", "tensor"),
    Format("int4 per row", "i4", "row"),
    Format("int4 per block of 32", "i4", "block"),
    Format("MXFP8 e4m3 OCP", "f8E4M3FN", "block", "OcpMxFp8E4M3"),
    Format("MXFP8 e4m3 NV", "f8E4M3FN", "block", "NvMxFp8E4M3"),
    Format("MXFP4 e2m1 OCP", "f4E2M1FN", "block", "OcpMxFp4E2M1"),
    Format("MXFP4 e2m1 NV", "f4E2M1FN", "block", "NvMxFp4E2M1"),
)


@dataclass(slots=True)
class Candidate:
    """What a format makes of the tensor.

    `buffer` and `cycles` are by target; None where the target has no program. `scales` are in the
    shape of their granularity, `error` is x less the dequantised value."""

    format: Format
    sqnr: float
    bytes: int
    scales: np.ndarray
    error: np.ndarray
    buffer: dict[str, int | None] = field(default_factory=dict)
    cycles: dict[str, int | None] = field(default_factory=dict)


def explore(x: np.ndarray, targets: Sequence[str]) -> list[Candidate]:
    """Return all formats, the best quality first.

    `x` is a tensor of floats; rows are those of its last dimension. Raises UsageError for anything
    else, UnsupportedError if no target has any of the formats."""
    if x.dtype.kind not in "fV" or not x.size:
        raise UsageError(f"a tensor of floats is needed, not {x.dtype} of {x.size} elements")
    rows = x.astype(np.float32).reshape(-1, x.shape[-1])
    found = [_candidate(rows, form, targets) for form in FORMATS]
    return sorted(found, key=lambda c: (-c.sqnr if c.sqnr == c.sqnr else 0.0, c.bytes))


def _candidate(x: np.ndarray, form: Format, targets: Sequence[str]) -> Candidate:
    runs = {t: _run(x, form, t) for t in targets}
    made = next((r for r in runs.values() if r is not None), None)
    if made is None:
        made = _run(x, form, "a5")
    assert made is not None
    back, scales, _ = made
    out = storage(form.out)
    each = 1 if form.rule else 4
    candidate = Candidate(
        form, metrics.sqnr(x, back), -(-x.size * out.bits // 8) + scales.size * each, scales,
        x.astype(np.float64) - back,
    )  # fmt: skip
    for target, run in runs.items():
        runner = None if run is None else run[2]
        candidate.cycles[target] = None if runner is None else runner.cycles
        candidate.buffer[target] = None if runner is None else runner.buffer
    return candidate


Run = tuple[np.ndarray, np.ndarray, KernelRunner]


def _run(x: np.ndarray, form: Format, target: str) -> Run | None:
    """Dequantised values, scales, and the runner; None if the target lacks the instructions."""
    runner = KernelRunner(target)
    if form.rule:
        return None if target != "a5" else (*_microscaled(x, form, runner), runner)
    out = storage(form.out)
    axis, block = {"tensor": (None, None), "row": (0, None), "block": (1, GROUP)}[form.along]
    scales = symmetric_scale(x, out, axis, block)
    try:
        given = matrix(x, scales, np.zeros((), np.int32), axis, block)
        codes = runner.quantize(given, out, "fast", None)
    except UnsupportedError:
        return None
    back = dequantize(codes, scheme="pto-hw", scale=scales, dtype="f32", axis=axis, block=block)
    return back, scales, runner


# -- microscaling ----------------------------------------------------------------------------------

_ROWS, _WIDTH = 8, 512
_GROUPS = _ROWS * _WIDTH // GROUP


def _microscaled(
    x: np.ndarray, form: Format, runner: KernelRunner
) -> tuple[np.ndarray, np.ndarray]:
    """Groups of 32 along rows; the last one of a row is filled with zeros."""
    rows, cols = x.shape
    width = kernels.up(cols, GROUP)
    padded = np.zeros((rows, width), np.float32)
    padded[:, :cols] = x
    height = kernels.up(-(-padded.size // _WIDTH), _ROWS)
    flat = np.zeros(height * _WIDTH, np.float32)
    flat[: padded.size] = padded.reshape(-1)
    out = storage(form.out)
    got = runner.run(
        microscaling(runner.target, height, form.rule, out),
        {
            "x": flat, "y": np.zeros(flat.size, kernels.ARRAYS[out.name]),
            "e": np.zeros(flat.size // GROUP, np.uint8),
        },
    )  # fmt: skip
    scales = got["e"].view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    values = got["y"].astype(np.float32).reshape(-1, GROUP) * scales[:, None]
    back = values.reshape(-1)[: padded.size].reshape(rows, width)[:, :cols]
    used = scales[: padded.size // GROUP].reshape(rows, width // GROUP)
    return back, used


def microscaling(target: str, height: int, rule: str, out: Storage) -> FunctionText:
    """Return a function (x, y, e) that quantises [height, 512] f32 values by TQUANT MX; MXFP4 takes
    them rounded to bf16."""
    f = FunctionText("microscaling", target)
    row = f.loop("i", height, _ROWS)
    real = f.tile("x", "f32", _ROWS, _WIDTH)
    window = f.window(f.view("x", "f32", (height, _WIDTH)), "f32", (row, f.const(0)),
                      (_ROWS, _WIDTH))  # fmt: skip
    f.op("pto.tload", [window], [real])
    source = real
    if out.bits == 4:
        source = chains.half(f, real, "bf16")
    codes = f.tile("codes", out.name, _ROWS, _WIDTH)
    exponents = f.tile("exponents", "ui8", 1, _GROUPS)
    f.op("pto.tquant", [source], [codes, exponents], f"mx_alg = #pto<mx_quant_alg {rule}>")
    f.op("pto.tstore", [codes], [f.window(f.view("y", out.name, (height, _WIDTH)), out.name,
                                          (row, f.const(0)), (_ROWS, _WIDTH))])  # fmt: skip
    place = f.fresh("place")
    f.line(f"{place} = arith.muli {row}, {f.const(_WIDTH // GROUP)} : index")
    view = f.view("e", "ui8", (1, height * _WIDTH // GROUP))
    f.op("pto.tstore", [exponents], [f.window(view, "ui8", (f.const(0), place), (1, _GROUPS))])
    f.end()
    return f
