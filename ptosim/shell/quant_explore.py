"""`ptosim quant explore TENSOR`"""

from __future__ import annotations

import argparse

from ptosim.ground.isa.targets import machine
from ptosim.models.explore import FORMATS as FORMATS_TRIED
from ptosim.models.explore import Candidate, explore
from ptosim.shell import launching
from ptosim.shell import quant_options as given
from ptosim.shell.command import command
from ptosim.shell.options import available_cores, jobs, option
from ptosim.shell.terminal import Terminal
from ptosim.views.report import Report, Section
from ptosim.views.table import Table, table

_EPILOG = """TENSOR is file.npy, file.npz:key, file.bin:dtype:RxC or randn:dtype:RxC[:seed]; rows
are those of its last dimension. Every line is a generated program that was run: SQNR is that of its
codes, buffer what its tiles take of UB, cycles those of the whole tensor. `-o FILE.html` writes a
page with SQNR against bytes and cycles, error histograms over one axis, and scale maps."""
_KIB = 1024


_SMALL = 1 << 20
"""Elements of a tensor below which processes are not worth making unless somebody asks for them."""


@command(
    "quant explore",
    option("tensor", metavar="TENSOR"),
    given.TARGETS,
    jobs("formats are tried in"),
    forms=("text", "json", "html"),
    epilog=_EPILOG,
)
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Run every format and report."""
    targets = launching.architectures(options.target)
    x = given.tensor(options.tensor)
    with terminal.busy("trying", len(FORMATS_TRIED), "formats"):
        wants_page = terminal.format == "html"
        count = options.jobs or (available_cores() if x.size >= _SMALL else 1)
        found = explore(x, targets, has_errors=wants_page, jobs=count)
    title = f"{options.tensor}: {'x'.join(map(str, x.shape))} {x.dtype}"
    made = _table(found, targets)
    return Report(
        [Section("", [made])],
        lambda: {"tensor": title, "formats": [_fields(c) for c in found]},
        page=lambda: _page(made, found),
        title=title,
        heads=[title],
        below="every figure is that of a generated program that was run",
    )


def _budget(target: str) -> int:
    return machine(target).spaces["vec"].planner


def _head(targets: list[str]) -> list[str]:
    each = [text for t in targets for text in (f"{t} UB", f"{t} cycles")]
    return ["format", "SQNR dB", "bytes", "of f32", *each]


def _cells(c: Candidate, targets: list[str]) -> list[str]:
    cells = [c.format.name, f"{c.sqnr:.2f}", f"{c.bytes:,}", f"{c.bytes / c.size / 4:.0%}"]
    for target in targets:
        buffer, cycles = c.buffer[target], c.cycles[target]
        share = "-" if buffer is None else f"{buffer / _KIB:.0f} K ({buffer / _budget(target):.0%})"
        cells += [share, "-" if cycles is None else f"{cycles:,}"]
    return cells


def _table(found: list[Candidate], targets: list[str]) -> Table:
    first, *rest = _head(targets)
    drop = ("of f32", *(name for name in rest if name.endswith(" UB")))
    columns = [first, *(f">{name}" for name in rest)]
    return table("", columns, [_cells(c, targets) for c in found], essential=[first], drop=drop)


def _page(made: Table, found: list[Candidate]) -> list[Section]:
    from ptosim.views.quant_page import Tried, quant_sections

    tried = [
        Tried(c.format.name, c.sqnr, c.bytes, c.cycles, c.errors, c.scales)
        for c in found
        if c.errors is not None
    ]
    return [Section("", [made]), *quant_sections(tried)]


def _fields(c: Candidate) -> dict[str, object]:
    return {
        "format": c.format.name,
        "sqnr_db": c.sqnr,
        "bytes": c.bytes,
        "ratio": c.bytes / c.size / 4,
        "targets": {
            t: {"ub_bytes": c.buffer[t], "ub_budget": _budget(t), "cycles": c.cycles[t]}
            for t in c.cycles
        },
    }
