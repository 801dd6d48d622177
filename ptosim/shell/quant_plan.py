"""`ptosim quant plan --src SPEC --weights SPEC …`"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ptosim.ground import toml_text
from ptosim.ground.errors import UsageError
from ptosim.ground.whole_numbers import whole
from ptosim.machine.quant.granularity import along
from ptosim.machine.quant.storage import storage
from ptosim.models import plan
from ptosim.models.emit import write_programs
from ptosim.models.plan import Convolution, Form, Plan, Task
from ptosim.models.quant.onednn.attributes import Attributes
from ptosim.models.quant.onednn.primitives import Values
from ptosim.shell import options as shared
from ptosim.shell import quant_options as given
from ptosim.shell.formats import Formats, data
from ptosim.shell.terminal import Terminal
from ptosim.views.table import Part, Table, table
from ptosim.views.text import Text

_EPILOG = """A product of src [M,K] and weights [K,N], or with --conv a convolution of [N,C,H,W]
with [O,C/groups,H,W]; both hold i8 or ui8. Attributes that oneDNN's int8 primitives take: scales of
src and dst with mask 0, scales of weights with mask 0 or the mask of the output channels (2 for a
product, 1 for a convolution, 3 for a grouped one), zero points of src and dst with mask 0.
TASK.toml holds the same options by their long names. The exit code is 1 if the exact form does not
give oneDNN's result, and with --fail-on warning if the fixpipe form does not."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = _EPILOG
    parser.add_argument("task", nargs="?", metavar="TASK.toml", help="options in a file")
    parser.add_argument("--src", metavar="SPEC", help="randn:ui8:32x64, file.npy, file.npz:key, …")
    parser.add_argument("--weights", metavar="SPEC")
    parser.add_argument("--src-scale", default="1")
    parser.add_argument("--src-zp", default="0")
    parser.add_argument("--wei-scales", default="1", help="one value, a list or a file")
    parser.add_argument("--wei-mask", type=int, help="mask of the weights' scales")
    parser.add_argument("--dst-scale", default="1")
    parser.add_argument("--dst-zp", default="0")
    parser.add_argument("--bias", help="f32 values, one for each output channel")
    parser.add_argument(
        "--post-op", action="append", default=[], metavar="NAME[:A[:B]]",
        help="relu[:slope], clip:low:high, gelu_erf, tanh, …; sum[:scale[:zero]]; "
        "binary_add=SPEC, binary_mul=SPEC, …",
    )  # fmt: skip
    parser.add_argument("--dst-before", metavar="SPEC", help="what the destination holds: for sum")
    parser.add_argument("--src-mask", type=int, default=0, help="mask of the scale of src (0)")
    parser.add_argument("--dst-mask", type=int, default=0, help="mask of the scale of dst (0)")
    parser.add_argument(
        "--mask", action="append", default=[], metavar="NAME=MASK",
        help="of src, weights, dst, or of the zero points src_zp, weights_zp, dst_zp",
    )  # fmt: skip
    parser.add_argument("--dst", default="ui8", metavar="TYPE", help="ui8, i8, i32, f32 or bf16")
    conv = parser.add_argument_group("convolution")
    conv.add_argument("--conv", action="store_true")
    conv.add_argument("--strides", default="", metavar="H,W")
    conv.add_argument("--padding", default="", metavar="T,L,B,R")
    conv.add_argument("--dilation", default="", metavar="H,W", help="1 is dense")
    conv.add_argument("--groups", type=int, default=1)
    parser.add_argument("--target", default="a2a3,a5", metavar="T[,T]")
    parser.add_argument("--out", metavar="FILE", help="write the exact form's result: .npy, .bin")
    parser.add_argument("--emit", metavar="DIR", help="write the programs with their data")
    parser.add_argument("--fail-on", choices=("error", "warning", "never"), default="error")
    shared.add_output(parser, FORMATS)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Plan, run, compare."""
    if options.task is not None:
        _read(options)
    targets = shared.architectures(options.target)
    found = plan.make(_task(options), targets)
    if options.emit:
        _emit(Path(options.emit), found)
    if options.out:
        exact = next(f.output for f in found.forms if f.form == "exact")
        given.save(options.out, exact)
    terminal.report(found)
    return _code(found, options.fail_on)


def _code(found: Plan, fail_on: str) -> int:
    wrong = {f.form for f in found.forms if f.mismatches.any()}
    return int(fail_on != "never" and ("exact" in wrong or (fail_on == "warning" and bool(wrong))))


_TEXTS = (
    "src", "weights", "src_scale", "src_zp", "wei_scales", "dst_scale", "dst_zp", "bias",
    "dst_before", "dst", "strides", "padding", "dilation", "target", "out", "emit",
)  # fmt: skip
_NUMBERS = ("wei_mask", "src_mask", "dst_mask", "groups")
_LISTS = ("post_op", "mask")
_KEYS = (*_TEXTS, *_NUMBERS, *_LISTS, "conv")
"""What a task file can say: options of the command line, with `-` or `_`."""


def _read(options: argparse.Namespace) -> None:
    """Take options from the file; those of the command line were parsed before and are replaced."""
    try:
        table = toml_text.read(Path(options.task).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as problem:  # ValueError: no TOML, or a number of many digits
        raise UsageError(f"{options.task}: {problem}") from problem
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in _KEYS:
            known = ", ".join(sorted(k.replace("_", "-") for k in _KEYS))
            raise UsageError(f"{options.task}: unknown option `{key}`", help=known)
        setattr(options, name, _told(options.task, key, name, value))


def _told(task: str, key: str, name: str, value: Any) -> Any:
    """Return the value of a key of the task file as the command line would have it."""
    listed = value if isinstance(value, list) else [value]
    plain = all(isinstance(v, (str, int, float)) and not isinstance(v, bool) for v in listed)
    if name == "conv" and isinstance(value, bool):
        return value
    if name in _NUMBERS and plain and isinstance(value, int):
        return value
    if name in _LISTS and plain:
        return [str(v) for v in listed]
    if name in _TEXTS and plain:
        return ",".join(map(str, listed))
    wanted = (
        "true or false"
        if name == "conv"
        else "a whole number"
        if name in _NUMBERS
        else ("a text, a number or a list of them")
    )
    raise UsageError(f"{task}: `{key}` takes {wanted}, not {str(value)[:40]}")


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
        _whole(getattr(options, n), f"--{n}") for n in ("strides", "padding", "dilation")
    )
    return Convolution(strides, padding, dilation, options.groups)


_FARTHEST = 1 << 12
"""The most elements of a step, or of padding on a side: with more an image fills any memory."""


def _whole(text: str, what: str) -> tuple[int, ...]:
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


def _emit(folder: Path, found: Plan) -> None:
    write_programs(
        folder,
        [
            (f"{form.target}_{form.form}_{i:02}_{'requantise' if i % 2 else 'product'}", ran)
            for form in found.forms
            for i, ran in enumerate(form.runner.ran)
        ],
    )


# -- report ----------------------------------------------------------------------------------------

_SHOWN = 16


def _text(found: Plan, terminal: Terminal) -> str:
    columns = ("target", "form", ">differ", ">ties", ">max diff", ">cycles", ">programs")
    rows = [
        (f.target, f.form, f.mismatches.sum(), f.ties.sum(), f"{f.worst.max(initial=0):g}",
         "-" if f.cycles is None else f.cycles, len(f.runner.ran))
        for f in found.forms
    ]  # fmt: skip
    shape = "x".join(map(str, found.reference.shape))
    what = "convolution" if found.task.conv else "product"
    title = f"int8 {what} to {found.task.dst} {shape}, compared with oneDNN"
    parts: list[Part] = [Text(title, style="bold"), table("", columns, rows)]
    n = found.numbers
    if not n.possible:
        parts.append(Text(f"no fixpipe form: {n.why}"))
    if found.on_host:
        parts.append(Text(f"the host computes the post-operations {', '.join(found.on_host)}"))
    if not terminal.quiet:
        parts.append(_channels(found, len(n.words) if terminal.verbose else _SHOWN))
        if len(n.words) > _SHOWN and not terminal.verbose:
            parts.append(Text(f"… {len(n.words) - _SHOWN} more channels: -v shows them"))
    return terminal.render(parts)


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


FORMATS: Formats[Plan] = {"text": _text, "json": data(_fields)}
