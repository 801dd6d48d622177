"""`ptosim quant reorder TENSOR --dst-scale S --dst-mask M`"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.machine.quant.storage import storage
from ptosim.models import reorder
from ptosim.models.emit import write_programs
from ptosim.models.quant.onednn.attributes import Mask
from ptosim.models.quant.statistics import symmetric_scale
from ptosim.models.reorder import Reordered, Task
from ptosim.shell import options as shared
from ptosim.shell import quant_options as given
from ptosim.shell.formats import Formats, data, tables
from ptosim.shell.terminal import Terminal
from ptosim.views.table import Part, table
from ptosim.views.text import Text

_EPILOG = """Computes weights_s8 <- weights_f32 / scale with a scale for each index of the
dimensions that the mask names: bit d for dimension d, so that mask 1 of weights [O,I,H,W] has one
for each output channel. The exit code is 1 if a target's result is not oneDNN's."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = _EPILOG
    parser.add_argument("tensor", metavar="TENSOR", help="file.npy, randn:f32:8x4x3x3, …")
    parser.add_argument("--dst-scale", default="auto", help="number, list, file or auto (amax)")
    parser.add_argument("--dst-mask", type=int, default=0, help="dimensions with scales (0: one)")
    parser.add_argument("--dst-zp", type=int, default=0, help="zero point (0)")
    parser.add_argument("--dst", default="i8", metavar="TYPE", help="i8 or ui8")
    parser.add_argument("--out", metavar="FILE", help="write the result: .npy or .bin")
    parser.add_argument("--target", default="a2a3,a5", metavar="T[,T]")
    parser.add_argument("--emit", metavar="DIR", help="write the programs with their data")
    shared.add_output(parser, FORMATS)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Reorder, compare, write."""
    task = _task(options)
    found = reorder.make(task, shared.architectures(options.target))
    if options.out:
        given.save(options.out, found.reference)
    if options.emit:
        programs = [
            (f"{form.target}_{i:02}_reorder", ran)
            for form in found.forms
            for i, ran in enumerate(form.runner.ran)
        ]
        write_programs(Path(options.emit), programs)
    terminal.report(found)
    return int(any(form.mismatches for form in found.forms))


def _task(options: argparse.Namespace) -> Task:
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
    return Task(x, mask, scale, given.zero_point(options.dst_zp, "--dst-zp"), out)


def _renderables(found: Reordered) -> list[Part]:
    task = found.task
    shape = "x".join(map(str, task.x.shape))
    title = f"{shape} f32 to {task.dst}, {task.scale.size} scales (mask {task.mask.mask})"
    rows = [
        (f.target, "same as oneDNN" if not f.mismatches else f"{f.mismatches} differ",
         "-" if f.runner.cycles is None else f.runner.cycles)
        for f in found.forms
    ]  # fmt: skip
    return [Text(title, style="bold"), table("", ("target", "result", ">cycles"), rows)]


def _fields(found: Reordered) -> dict[str, object]:
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


FORMATS: Formats[Reordered] = {"text": tables(_renderables), "json": data(_fields)}
