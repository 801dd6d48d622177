"""One tensor in the formats that PTO quantises to: quality, bytes, buffer, cycles.

Every figure is that of a generated program: its codes are read back, dequantised, and compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import ml_dtypes
import numpy as np

from ptosim.ground.errors import UnsupportedError, UsageError
from ptosim.ground.progress import part_done
from ptosim.ground.records import dataclass
from ptosim.interop import chains, kernels
from ptosim.interop.kernel_runner import KernelRunner
from ptosim.interop.matrices import matrix
from ptosim.interop.program_text import FunctionText
from ptosim.machine.storage import unpack_nibbles
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

    `size` is its number of elements, `buffer` and `cycles` are by target; None where the target has
    no program. `scales` are in the shape of their granularity; `back` makes the dequantised values
    (they are not kept: of ten formats they would be ten times the tensor)."""

    format: Format
    sqnr: float
    bytes: int
    size: int
    scales: np.ndarray
    x: np.ndarray
    back: Callable[[], np.ndarray]
    buffer: dict[str, int | None] = field(default_factory=dict)
    cycles: dict[str, int | None] = field(default_factory=dict)

    @property
    def error(self) -> np.ndarray:
        """x less the dequantised value, in f64."""
        return self.x.astype(np.float64) - self.back()


def explore(x: np.ndarray, targets: Sequence[str]) -> list[Candidate]:
    """Return all formats, the best quality first.

    `x` is a tensor of floats; rows are those of its last dimension. Raises UsageError for anything
    else, UnsupportedError if no target has any of the formats."""
    if x.dtype.kind not in "fV" or not x.size:
        raise UsageError(f"a tensor of floats is needed, not {x.dtype} of {x.size} elements")
    rows = x.astype(np.float32).reshape(-1, x.shape[-1])
    found: list[Candidate] = []
    for form in FORMATS:
        found.append(_candidate(rows, form, targets))
        part_done()
    return sorted(found, key=lambda c: (-c.sqnr if c.sqnr == c.sqnr else 0.0, c.bytes))


def _candidate(x: np.ndarray, form: Format, targets: Sequence[str]) -> Candidate:
    """Run the format on the first target that has it; of others the cycles are counted alone."""
    made: Run | None = None
    runners: dict[str, KernelRunner] = {}
    for target in (*targets, "a5"):
        if target in runners or (made is not None and target not in targets):
            continue
        runner = KernelRunner(target, sanitize="none", has_values=made is None)
        found = _run(x, form, runner)
        if found is not None:
            made, runners[target] = made or found, runner
    assert made is not None
    back, scales = made
    out = storage(form.out)
    each = 1 if form.rule else 4
    size = -(-x.size * out.bits // 8) + scales.size * each
    candidate = Candidate(form, metrics.sqnr(x, back()), size, x.size, scales, x, back)
    for target in targets:
        runner = runners.get(target)
        candidate.cycles[target] = None if runner is None else runner.cycles
        candidate.buffer[target] = None if runner is None else runner.buffer
    return candidate


Run = tuple[Callable[[], np.ndarray], np.ndarray]
"""What makes the dequantised values, and the scales."""


def _run(x: np.ndarray, form: Format, runner: KernelRunner) -> Run | None:
    """Quantise; None if the target lacks the instructions."""
    if form.rule:
        return _microscaled(x, form, runner) if runner.target == "a5" else None
    out = storage(form.out)
    axis, block = {"tensor": (None, None), "row": (0, None), "block": (1, GROUP)}[form.along]
    scales = symmetric_scale(x, out, axis, block)
    try:
        given = matrix(x, scales, np.zeros((), np.int32), axis, block)
        codes = runner.quantize(given, out, "fast", None)
    except UnsupportedError:
        return None
    options: Any = {"scheme": "pto-hw", "dtype": "f32", "axis": axis, "block": block}
    return lambda: dequantize(codes, scale=scales, **options), scales


# -- microscaling ----------------------------------------------------------------------------------

_WIDTH = 128
"""Groups that one tile holds, a column each."""
_PAIRS = "!pto.f4E2M1x2"


def _microscaled(x: np.ndarray, form: Format, runner: KernelRunner) -> Run:
    """Groups of 32 along rows, the last one of a row filled with zeros; the kernel gets them as
    columns, which takes both rules for sources of 16 bits too."""
    rows, cols = x.shape
    width = kernels.up(cols, GROUP)
    padded = np.zeros((rows, width), np.float32)
    padded[:, :cols] = x
    groups = padded.reshape(-1, GROUP)
    group_count = len(groups)
    count = kernels.up(group_count, _WIDTH)
    columns = np.zeros((GROUP, count), np.float32)
    columns[:, : len(groups)] = groups.T
    out = storage(form.out)
    each = 8 // out.bits
    got = runner.run(
        microscaling(runner.target, count, form.rule, out),
        {
            "x": columns, "y": np.zeros((GROUP, count // each), np.uint8),
            "e": np.zeros(count, np.uint8),
        },
    )  # fmt: skip
    scales = got["e"].view(ml_dtypes.float8_e8m0fnu).astype(np.float32)[:group_count]
    stored = got["y"]

    def back() -> np.ndarray:
        codes = unpack_nibbles(stored) if out.bits == 4 else stored
        values = codes.view(kernels.ARRAYS[out.name]).astype(np.float32).reshape(GROUP, count)
        whole = values[:, :group_count].T * scales[:, None]
        return whole.reshape(rows, width)[:, :cols]

    return back, scales.reshape(rows, width // GROUP)


def microscaling(target: str, count: int, rule: str, out: Storage) -> FunctionText:
    """Return a function (x, y, e) that quantises the columns of [32, count] f32 values by
    tquant.mx; MXFP4 takes them rounded to bf16."""
    f = FunctionText("microscaling", target)
    col = f.loop("i", count, _WIDTH)
    real = f.tile("x", "f32", GROUP, _WIDTH)
    zero = f.const(0)
    window = f.window(f.view("x", "f32", (GROUP, count)), "f32", (zero, col), (GROUP, _WIDTH))
    f.op("pto.tload", [window], [real])
    source = chains.half(f, real, "bf16") if out.bits == 4 else real
    each, elem = (2, _PAIRS) if out.bits == 4 else (1, "ui8")
    codes = f.tile("codes", elem, GROUP, _WIDTH // each)
    exponents = f.tile("exponents", "ui8", 1, _WIDTH)
    beside = [f.tile(name, source.dtype, 1, _WIDTH) for name in ("maxima", "scales")]
    kind = "MXFP4_E2M1" if out.bits == 4 else "MXFP8"
    word = "nv" if rule.startswith("Nv") else "ocp"
    f.op(
        "pto.tquant.mx", [source], [codes, exponents, *beside],
        f"quant_type = #pto<quant_type {kind}>, quantScaleAlg = #pto<quant_scale_alg {word}>, "
        "grpAxis = #pto<mx_group_axis axis0>",
    )  # fmt: skip
    at = col if each == 1 else f.fresh("place")
    if each == 2:
        f.line(f"{at} = arith.divui {col}, {f.const(2)} : index")
    view = f.view("y", elem, (GROUP, count // each))
    f.op("pto.tstore", [codes], [f.window(view, elem, (zero, at), (GROUP, _WIDTH // each))])
    view = f.view("e", "ui8", (1, count))
    f.op("pto.tstore", [exponents], [f.window(view, "ui8", (zero, col), (1, _WIDTH))])
    f.end()
    return f
