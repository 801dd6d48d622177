"""`ptosim quant plan --src SPEC --weights SPEC …` and `ptosim quant reorder TENSOR`: what oneDNN
computes, as PTO programs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ptosim.ground import files
from ptosim.ground.errors import UsageError
from ptosim.ground.files import read_text
from ptosim.ground.source import with_line_feeds
from ptosim.ground.words import whole
from ptosim.machine.quant.granularity import along
from ptosim.machine.quant.parameters import storage
from ptosim.models import plan, statistics
from ptosim.models.emit import write_programs
from ptosim.models.plan import Convolution, Form, Plan, Task
from ptosim.models.quant.onednn.attributes import Attributes, Mask
from ptosim.models.quant.onednn.primitives import Values
from ptosim.models.quant.statistics import symmetric_scale
from ptosim.models.statistics import Reordered
from ptosim.shell import launching
from ptosim.shell import quant_options as given
from ptosim.shell.command import command
from ptosim.shell.options import group, option, several, switch
from ptosim.shell.terminal import Terminal
from ptosim.views.report import Report, one_section
from ptosim.views.table import Part, Table, Text, number, table

_EPILOG = """A product of src [M,K] and weights [K,N], or with --conv a convolution of [N,C,H,W]
with [O,C/groups,H,W]; both hold i8 or ui8. Attributes that oneDNN's int8 primitives take: scales of
src and dst with mask 0, scales of weights with mask 0 or the mask of the output channels (2 for a
product, 1 for a convolution, 3 for a grouped one), zero points of src and dst with mask 0.
TASK.toml holds the same options by their long names. The exit code is 1 if the exact form does not
give oneDNN's result, and with --fail-on warning if the fixpipe form does not."""


_PLAN = (
    option("--src", metavar="SPEC", help="randn:ui8:32x64, file.npy, file.npz:key, …"),
    option("--weights", metavar="SPEC"),
    option("--src-scale", default="1"),
    option("--src-zp", default="0"),
    option("--wei-scales", default="1", help="one value, a list or a file"),
    option("--wei-mask", type=int, help="mask of the weights' scales"),
    option("--dst-scale", default="1"),
    option("--dst-zp", default="0"),
    option("--bias", help="f32 values, one for each output channel"),
    several(
        "--post-op", "NAME[:A[:B]]",
        "relu[:slope], clip:low:high, gelu_erf, tanh, …; sum[:scale[:zero]]; binary_add=SPEC, "
        "binary_mul=SPEC, …",
    ),
    option("--dst-before", metavar="SPEC", help="what the destination holds: for sum"),
    option("--src-mask", type=int, default=0, help="mask of the scale of src (0)"),
    option("--dst-mask", type=int, default=0, help="mask of the scale of dst (0)"),
    several(
        "--mask", "NAME=MASK",
        "of src, weights, dst, or of the zero points src_zp, weights_zp, dst_zp",
    ),
    option("--dst", default="ui8", metavar="TYPE", help="ui8, i8, i32, f32 or bf16"),
)  # fmt: skip
_CONVOLUTION = group(
    "convolution",
    switch("--conv"),
    option("--strides", default="", metavar="H,W"),
    option("--padding", default="", metavar="T,L,B,R"),
    option("--dilation", default="", metavar="H,W", help="1 is dense"),
    option("--groups", type=int, default=1),
)
_WRITTEN = (
    given.TARGETS,
    option("--out", metavar="FILE", help="write the exact form's result: .npy, .bin"),
    given.EMIT,
)


@command(
    "quant plan",
    option("task", nargs="?", metavar="TASK.toml", help="options in a file"),
    _PLAN,
    _CONVOLUTION,
    _WRITTEN,
    given.FAILS,
    forms=("text", "json"),
    epilog=_EPILOG,
)
def plan_(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Plan, run, compare."""
    if options.task is not None:
        _read(options)
    targets = launching.architectures(options.target)
    found = plan.make(_task(options), targets)
    if options.emit:
        _emit(Path(options.emit), found.forms, lambda f, i: f"{f.form}_{i:02}_{_PARTS[i % 2]}")
    if options.out:
        exact = next(f.output for f in found.forms if f.form == "exact")
        given.save(options.out, exact)
    return one_section(
        lambda _: _parts(found, terminal),
        lambda: _fields(found),
        heads=[_title(found)],
        exit_code=_code(found, options.fail_on),
    )


def _code(found: Plan, fail_on: str) -> int:
    wrong = {f.form for f in found.forms if f.mismatches.any()}
    return int(fail_on != "never" and ("exact" in wrong or (fail_on == "warning" and bool(wrong))))


_KEYS = {option.dest: option for option in (*_PLAN, *_CONVOLUTION.options, *_WRITTEN)}
"""What a task file can say: options of the command line, with `-` or `_`."""


def _read(options: argparse.Namespace) -> None:
    """Take options from the file; those of the command line were parsed before and are replaced."""
    try:
        table = files.read(with_line_feeds(read_text(Path(options.task))))
    except ValueError as problem:  # ValueError: no TOML, or a number of many digits
        raise UsageError(f"{options.task}: {problem}") from problem
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in _KEYS:
            known = ", ".join(sorted(k.replace("_", "-") for k in _KEYS))
            raise UsageError(f"{options.task}: unknown option `{key}`", help=known)
        try:
            setattr(options, name, _KEYS[name].taken(value))
        except UsageError as wanted:
            said = f"{options.task}: `{key}` takes {wanted}, not {str(value)[:40]}"
            raise UsageError(said) from None


# -- the task --------------------------------------------------------------------------------------


def _task(options: argparse.Namespace) -> Task:
    if options.src is None or options.weights is None:
        raise UsageError("name the operands: --src SPEC --weights SPEC")
    src, weights = _operand(options.src, "--src"), _operand(options.weights, "--weights")
    scales = given.parameter(options.wei_scales, "--wei-scales")
    conv = _convolution(options) if options.conv else None
    mask = options.wei_mask
    if mask is None:
        mask = 0 if scales.size == 1 else (2 if conv is None else 3 if conv.groups > 1 else 1)
    attributes = Attributes()
    attributes.set_scales("weights", mask)
    for name in ("src", "dst"):
        attributes.set_scales(name, getattr(options, f"{name}_mask"))
    for text in options.mask:
        _mask(attributes, text)
    rank = 2 if conv is None else src.ndim
    for text in options.post_op:
        _post_op(attributes, str(text), rank, 1 if conv else -1)
    before = (
        None if options.dst_before is None else given.tensor(options.dst_before, "--dst-before")
    )
    values = Values(
        _one(options.src_scale, "--src-scale"), _zero(options.src_zp, "--src-zp"),
        scales.astype(np.float32), _one(options.dst_scale, "--dst-scale"),
        _zero(options.dst_zp, "--dst-zp"), before,
    )  # fmt: skip
    bias = None
    if options.bias is not None:
        bias = given.parameter(options.bias, "--bias").astype(np.float32)
        channels = weights.shape[0 if conv else -1]
        if bias.size not in (1, channels):
            raise UsageError(f"--bias has {bias.size} values for {channels} output channels")
    return Task(src, weights, values, attributes, bias, storage(options.dst), conv)


def _mask(attributes: Attributes, text: str) -> None:
    """`NAME=MASK`: of scales, or with `_zp` of zero points."""
    name, equals, number = text.partition("=")
    mask = whole(number)
    if not equals or mask is None:
        raise UsageError(f"--mask takes NAME=MASK, not `{text}`")
    if name.endswith("_zp"):
        attributes.set_zero_points(name.removesuffix("_zp"), mask)
    else:
        attributes.set_scales(name, mask)


def _post_op(attributes: Attributes, text: str, rank: int, axis: int) -> None:
    """`NAME[:A[:B]]`, or `binary_NAME=SPEC`; a vector runs along the output channels."""
    name, equals, spec = text.partition("=")
    if equals:
        operand = given.tensor(spec, f"the operand of {name}")
        if operand.ndim == 1:
            operand = along(operand, rank, axis)
        attributes.append_binary(name, operand)
        return
    name, *numbers = text.split(":")
    parts = [_real(n, "--post-op") for n in numbers[:2]]
    if name == "sum":
        attributes.append_sum(*parts)
    else:
        attributes.append(name, *parts)


def _operand(spec: str, what: str) -> np.ndarray:
    array = given.filled(given.tensor(spec, what), what)
    if array.dtype not in (np.dtype(np.int8), np.dtype(np.uint8)):
        raise UsageError(f"{what} holds i8 or ui8, not {array.dtype}")
    return array


def _convolution(options: argparse.Namespace) -> Convolution:
    strides, padding, dilation = (
        _numbers_of(getattr(options, n), f"--{n}") for n in ("strides", "padding", "dilation")
    )
    return Convolution(strides, padding, dilation, options.groups)


_FARTHEST = 1 << 12
"""The most elements of a step, or of padding on a side: with more an image fills any memory."""


def _numbers_of(text: str, what: str) -> tuple[int, ...]:
    parts = [whole(part.strip()) for part in text.split(",")] if text else []
    if any(part is None or part > _FARTHEST for part in parts):
        raise UsageError(f"{what}: `{text}` is not a list of whole numbers up to {_FARTHEST}")
    return tuple(part for part in parts if part is not None)


def _real(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{what}: `{text}` is not a number") from None


def _one(spec: str, what: str) -> np.float32:
    values = given.parameter(spec, what)
    if values.size != 1:
        raise UsageError(f"{what} is one value (mask 0), not {values.size}")
    return np.float32(values.reshape(()))


def _zero(spec: str, what: str) -> np.int32:
    return np.int32(given.zero_point(float(_one(spec, what)), what))


_PARTS = ("product", "requantise")


def _emit(folder: Path, forms: Iterable[Any], name: Callable[[Any, int], str]) -> None:
    """Write the programs of forms, each under its target and name."""
    programs = [
        (f"{form.target}_{name(form, i)}", ran)
        for form in forms
        for i, ran in enumerate(form.runner.ran)
    ]
    write_programs(folder, programs)


# -- report ----------------------------------------------------------------------------------------

_SHOWN = 16


def _title(found: Plan) -> str:
    shape = "x".join(map(str, found.reference.shape))
    what = "convolution" if found.task.conv else "product"
    return f"int8 {what} to {found.task.dst} {shape}, compared with oneDNN"


def _parts(found: Plan, terminal: Terminal) -> Iterator[Part]:
    columns = ("target", "form", ">differ", ">ties", ">max diff", number("cycles"), ">programs")
    rows = [
        (f.target, f.form, f.mismatches.sum(), f.ties.sum(), f"{f.worst.max(initial=0):g}",
         "-" if f.cycles is None else f.cycles, len(f.runner.ran))
        for f in found.forms
    ]  # fmt: skip
    yield table("", columns, rows)
    n = found.numbers
    if not n.possible:
        yield Text(f"no fixpipe form: {n.why}")
    if found.wraps:
        reach = f"sums reach {found.largest}, beyond 32 bits"
        yield Text(f"{reach}: accumulators wrap, oneDNN's and the cube's")
    if found.on_host:
        yield Text(f"the host computes the post-operations {', '.join(found.on_host)}")
    if not terminal.quiet:
        yield _channels(found, len(n.words) if terminal.verbose else _SHOWN)
        if len(n.words) > _SHOWN and not terminal.verbose:
            yield Text(f"… {len(n.words) - _SHOWN} more channels: -v shows them")


def _channels(found: Plan, count: int) -> Table:
    n, form = found.numbers, _fixpipe(found)
    columns = (">", ">z_src\nbias", ">whole\nbias", ">factor", ">fixpipe word", ">FP19\nloss",
               ">bias\nerr", ">differ", ">max")  # fmt: skip
    rows = [
        (c, n.compensation[c], n.bias[c], f"{n.factor[c]:.5g}", _word(n.words[c]),
         f"{n.loss[c]:.1e}", f"{n.bias_error[c]:.1e}",
         "-" if form is None else form.mismatches[c],
         "-" if form is None else f"{form.worst[c]:g}")
        for c in range(min(count, len(n.words)))
    ]  # fmt: skip
    return table("", columns, rows, tight=True)


def _fixpipe(found: Plan) -> Form | None:
    return next((f for f in found.forms if f.form == "fixpipe"), None)


def _word(word: np.int64) -> str:
    return f"0x{int(word):016X}"


def _fields(found: Plan) -> dict[str, object]:
    n, form = found.numbers, _fixpipe(found)
    return {
        "primitive": "convolution" if found.task.conv else "matmul",
        "dst": found.task.dst.name,
        "shape": list(found.reference.shape),
        "accumulator": {"largest": found.largest, "wraps": found.wraps},
        "on_host": found.on_host,
        "fixpipe": {"possible": n.possible, "why_not": n.why, "relu": n.relu},
        "forms": [
            {
                "target": f.target,
                "form": f.form,
                "mismatches": f.mismatches.sum(),
                "ties": f.ties.sum(),
                "max_difference": f.worst.max(initial=0),
                "cycles": f.cycles,
                "programs": len(f.runner.ran),
            }
            for f in found.forms
        ],
        "channels": [
            {
                "compensation": n.compensation[c],
                "bias": n.bias[c],
                "bias_error": n.bias_error[c],
                "factor": n.factor[c],
                "word": _word(n.words[c]),
                "fp19_loss": n.loss[c],
                "mismatches": None if form is None else form.mismatches[c],
                "max_difference": None if form is None else form.worst[c],
            }
            for c in range(len(n.words))
        ],
    }


# -- weights reordered -----------------------------------------------------------------------------

_REORDER = """Computes weights_s8 <- weights_f32 / scale with a scale for each index of the
dimensions that the mask names: bit d for dimension d, so that mask 1 of weights [O,I,H,W] has one
for each output channel. The exit code is 1 if a target's result is not oneDNN's."""


@command(
    "quant reorder",
    option("tensor", metavar="TENSOR", help="file.npy, randn:f32:8x4x3x3, …"),
    option("--dst-scale", default="auto", help="number, list, file or auto (amax)"),
    option("--dst-mask", type=int, default=0, help="dimensions with scales (0: one)"),
    option("--dst-zp", type=int, default=0, help="zero point (0)"),
    option("--dst", default="i8", metavar="TYPE", help="i8 or ui8"),
    option("--out", metavar="FILE", help="write the result: .npy or .bin"),
    given.TARGETS,
    given.EMIT,
    forms=("text", "json"),
    epilog=_REORDER,
)
def reorder_(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Reorder, compare, write."""
    task = _reorder_task(options)
    found = statistics.make(task, launching.architectures(options.target))
    if options.out:
        given.save(options.out, found.reference)
    if options.emit:
        _emit(Path(options.emit), found.forms, lambda form, i: f"{i:02}_reorder")
    shape = "x".join(map(str, task.x.shape))
    return one_section(
        lambda _: [_verdicts(found)],
        lambda: _reordered(found),
        heads=[f"{shape} f32 to {task.dst}, {task.scale.size} scales (mask {task.mask.mask})"],
        exit_code=int(any(form.mismatches for form in found.forms)),
    )


def _reorder_task(options: argparse.Namespace) -> statistics.Task:
    x, out = given.filled(given.tensor(options.tensor), "the tensor"), storage(options.dst)
    if x.dtype != np.float32:
        raise UsageError(f"the tensor is {x.dtype}; weights are f32")
    if out.name not in ("i8", "ui8"):
        raise UsageError(f"--dst is i8 or ui8, not {out}")
    mask = Mask(options.dst_mask)
    if options.dst_scale == "auto":
        chosen = tuple(d for d in range(x.ndim) if not options.dst_mask >> d & 1)
        mask.shape(x.shape)  # says what is wrong with it
        rows = np.moveaxis(x, chosen, range(-len(chosen), 0)) if chosen else x[..., None]
        flat = rows.reshape(mask.count(x.shape), -1)
        scale = symmetric_scale(flat, out, 0)
    else:
        scale = given.parameter(options.dst_scale, "--dst-scale").astype(np.float32)
    return statistics.Task(x, mask, scale, given.zero_point(options.dst_zp, "--dst-zp"), out)


def _verdicts(found: Reordered) -> Table:
    rows = [
        (f.target, "same as oneDNN" if not f.mismatches else f"{f.mismatches} differ",
         "-" if f.runner.cycles is None else f.runner.cycles)
        for f in found.forms
    ]  # fmt: skip
    return table("", ("target", "result", number("cycles")), rows)


def _reordered(found: Reordered) -> dict[str, object]:
    task = found.task
    return {
        "shape": list(task.x.shape),
        "dst": task.dst.name,
        "mask": task.mask.mask,
        "scales": task.scale.reshape(-1).tolist(),
        "zero_point": task.zero,
        "forms": [
            {"target": f.target, "mismatches": f.mismatches, "cycles": f.runner.cycles}
            for f in found.forms
        ],
    }
