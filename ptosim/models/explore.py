"""One tensor in the formats that PTO quantises to: quality, bytes, buffer, cycles.

Every figure is that of a generated program: its codes are read back, dequantised, and compared.
Cycles are those of the program for the whole tensor; values come from the same kernel on windows of
it, so that memory does not grow with the number of formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType
from typing import Any

import ml_dtypes
import numpy as np

from ptosim.ground.diagnostics.model import UnsupportedError
from ptosim.ground.errors import UsageError
from ptosim.ground.progress import part_done
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.machine.pages import unpack_nibbles
from ptosim.machine.quant.inverse import dequantize
from ptosim.machine.quant.parameters import Storage, storage
from ptosim.models import chains, kernel_runner, kernels
from ptosim.models.kernel_builder import KernelBuilder
from ptosim.models.kernel_runner import KernelRunner
from ptosim.models.kernels import matrix
from ptosim.models.quant import diff
from ptosim.models.quant.statistics import symmetric_scale

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


Errors = Callable[[], Iterator[np.ndarray]]

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
    no program. `scales` are in the shape of their granularity. `errors` yields x less the
    dequantised values in f64, flat, window by window; of a table alone they are not kept."""

    format: Format
    sqnr: float
    bytes: int
    size: int
    scales: np.ndarray
    errors: Errors | None
    buffer: dict[str, int | None] = field(default_factory=dict)
    cycles: dict[str, int | None] = field(default_factory=dict)


def explore(
    x: np.ndarray, targets: Sequence[str], *, has_errors: bool = False, jobs: int = 1
) -> list[Candidate]:
    """Return all formats, the best quality first; with `has_errors` their codes are kept, else the
    formats are tried in up to `jobs` processes.

    `x` is a tensor of floats; rows are those of its last dimension. Raises UsageError for anything
    else, UnsupportedError if no target has any of the formats."""
    if x.dtype.kind not in "fV" or not x.size:
        raise UsageError(f"a tensor of floats is needed, not {x.dtype} of {x.size} elements")
    rows = x.astype(np.float32, copy=False).reshape(-1, x.shape[-1])

    from ptosim.ground.processes import each_of  # brings what makes processes

    def candidate(form: Format) -> Candidate:
        return _candidate(rows, form, targets, has_errors)

    found = each_of(candidate, FORMATS, 1 if has_errors else jobs, lambda _: part_done())
    return sorted(found, key=lambda c: (-c.sqnr if c.sqnr == c.sqnr else 0.0, c.bytes))


def _candidate(x: np.ndarray, form: Format, targets: Sequence[str], has_errors: bool) -> Candidate:
    """Count the cycles of the whole tensor on each target, and run it window by window on the
    first one that has the format."""
    counted = {target: _counted(x.shape, form, target) for target in targets}
    able = [target for target, cost in counted.items() if cost is not None]
    runner = KernelRunner(able[0] if able else "a5", sanitize="none", wanted="values")
    out = storage(form.out)
    granules = None if form.rule else _granularity(form)
    scales = np.zeros(_scale_shape(x.shape, form), np.float32)
    if granules is not None:
        scales = symmetric_scale(x, out, *granules)
    power = lost = 0.0
    kept: Kept = []
    for window in _windows(x.shape):
        part = x[window]
        local = scales[_window_of_scales(window, form)]
        if granules is None:
            back, local[...] = _microscaled(part, form, runner)
        else:
            back = _integers(part, local, form, runner)
        found = diff.sums(part, back())
        power, lost = power + found[0], lost + found[1]
        if has_errors:
            kept.append((window, back))
    return Candidate(
        form, diff.decibels(power, lost),
        -(-x.size * out.bits // 8) + scales.size * (1 if form.rule else 4), x.size, scales,
        (lambda: _errors(x, kept)) if has_errors else None,
        {target: None if cost is None else cost.buffer for target, cost in counted.items()},
        {target: None if cost is None else cost.cycles for target, cost in counted.items()},
    )  # fmt: skip


Dequantised = Callable[[], np.ndarray]
"""Makes the dequantised values of a window of its codes."""
Kept = list[tuple["Window", Dequantised]]


def _errors(x: np.ndarray, kept: Kept) -> Iterator[np.ndarray]:
    for window, back in kept:
        yield (x[window].astype(np.float64) - back()).reshape(-1)


class _Cost(NamedTuple):
    buffer: int
    cycles: int | None


def _counted(shape: tuple[int, ...], form: Format, target: str) -> _Cost | None:
    """Count the cycles of a matrix, which do not depend on its values; None if the target lacks
    the instructions."""
    if form.rule and target != "a5":
        return None
    runner = KernelRunner(target, sanitize="none", wanted="cycles")
    nothing = np.zeros(shape, np.float32)
    try:
        if form.rule:
            _microscaled(nothing, form, runner)
        else:
            _integers(nothing, np.ones(_scale_shape(shape, form), np.float32), form, runner)
    except UnsupportedError:
        return None
    return _Cost(runner.buffer, runner.cycles)


# -- windows ---------------------------------------------------------------------------------------

Window = tuple[slice, slice]
_WINDOW = 1 << 18
"""Elements that are worked on at a time; whole tiles of every kernel."""
_STRIP = 1 << 15
"""The most columns of a window: whole groups and whole tiles."""


def _windows(shape: tuple[int, ...]) -> Iterator[Window]:
    """Yield windows that cover a matrix, of whole groups along rows."""
    rows, cols = shape
    down = max(_WINDOW // min(cols, _STRIP) // 8 * 8, 8)
    for top in range(0, rows, down):
        for left in range(0, cols, _STRIP):
            yield slice(top, top + down), slice(left, left + _STRIP)


def _granularity(form: Format) -> tuple[int | None, int | None]:
    """Axis and block size of a format's scales."""
    axes = {"tensor": (None, None), "row": (0, None), "block": (1, GROUP)}
    return axes[form.along]


def _scale_shape(shape: tuple[int, ...], form: Format) -> tuple[int, ...]:
    rows, cols = shape
    return {"tensor": (), "row": (rows,), "block": (rows, -(-cols // GROUP))}[form.along]


def _window_of_scales(window: Window, form: Format) -> tuple[slice, ...] | EllipsisType:
    """What cuts the scales of a window out of those of the matrix."""
    rows, cols = window
    groups = slice(cols.start // GROUP, cols.stop // GROUP)
    return {"tensor": ..., "row": (rows,), "block": (rows, groups)}[form.along]


def _integers(x: np.ndarray, scales: np.ndarray, form: Format, runner: KernelRunner) -> Dequantised:
    """Quantise a matrix by scales of the format's granularity; raises UnsupportedError if the
    target lacks the instructions."""
    axis, block = _granularity(form)
    given = matrix(x, scales, np.zeros((), np.int32), axis, block)
    codes = runner.quantize(given, storage(form.out), "fast", None)
    options: Any = {"scheme": "pto-hw", "dtype": "f32", "axis": axis, "block": block}
    return lambda: dequantize(codes, scale=scales, **options)


# -- microscaling ----------------------------------------------------------------------------------

_WIDTH = 128
"""Groups that one tile holds, a column each."""
_PAIRS = "!pto.f4E2M1x2"


def _microscaled(
    x: np.ndarray, form: Format, runner: KernelRunner
) -> tuple[Dequantised, np.ndarray]:
    """Quantise a matrix in groups of 32 along rows, the last one of a row filled with zeros; the
    kernel gets them as columns, which takes both rules for sources of 16 bits too. Return what
    dequantises it, and the scales."""
    rows, cols = x.shape
    width = kernels.up(cols, GROUP)
    group_count = rows * width // GROUP
    count = kernels.up(group_count, _WIDTH)
    columns = np.zeros((GROUP, count), np.float32)
    if runner.wanted != "cycles":
        columns[:, :group_count] = kernel_runner.padded(x, rows, width).reshape(-1, GROUP).T
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


def microscaling(
    target: str, count: int, rule: str, out: Storage, width: int = _WIDTH
) -> KernelBuilder:
    """Return a function (x, y, e) that quantises the columns of [32, count] f32 values by
    tquant.mx, so many at a time; MXFP4 takes them rounded to bf16."""
    f = KernelBuilder("microscaling", target)
    (col,) = f.share([(count, width)])
    real = f.tile("x", "f32", GROUP, width)
    zero = f.const(0)
    window = f.window(f.view("x", "f32", (GROUP, count)), "f32", (zero, col), (GROUP, width))
    f.tile_op("pto.tload", [window], [real])
    source = chains.half(f, real, "bf16") if out.bits == 4 else real
    each, elem = (2, _PAIRS) if out.bits == 4 else (1, "ui8")
    codes = f.tile("codes", elem, GROUP, width // each)
    exponents = f.tile("exponents", "ui8", 1, width)
    beside = [f.tile(name, source.dtype, 1, width) for name in ("maxima", "scales")]
    kind = "MXFP4_E2M1" if out.bits == 4 else "MXFP8"
    word = "nv" if rule.startswith("Nv") else "ocp"
    f.tile_op(
        "pto.tquant.mx", [source], [codes, exponents, *beside],
        {
            "quant_type": f"#pto<quant_type {kind}>",
            "quantScaleAlg": f"#pto<quant_scale_alg {word}>",
            "grpAxis": "#pto<mx_group_axis axis0>",
        },
    )  # fmt: skip
    at = col if each == 1 else f.fresh("place")
    if each == 2:
        f.op("arith.divui", [col, f.const(2)], ["index"], results=[at])
    view = f.view("y", elem, (GROUP, count // each))
    f.tile_op("pto.tstore", [codes], [f.window(view, elem, (zero, at), (GROUP, width // each))])
    view = f.view("e", "ui8", (1, count))
    f.tile_op("pto.tstore", [exponents], [f.window(view, "ui8", (zero, col), (1, width))])
    f.close()
    return f
