"""`ptosim quant explore TENSOR`"""

from __future__ import annotations

import argparse

from ptosim.ground.isa.targets import machine
from ptosim.ground.records import NamedTuple
from ptosim.launch.parallel.wanted import available_cores
from ptosim.models.explore import FORMATS as FORMATS_TRIED
from ptosim.models.explore import Candidate, explore
from ptosim.shell import options as shared
from ptosim.shell import quant_options as given
from ptosim.shell.formats import Formats, data, tables, text
from ptosim.shell.jobs import add_jobs
from ptosim.shell.terminal import Terminal
from ptosim.views.table import Part, table
from ptosim.views.text import Text

_EPILOG = """TENSOR is file.npy, file.npz:key, file.bin:dtype:RxC or randn:dtype:RxC[:seed]; rows
are those of its last dimension. Every line is a generated program that was run: SQNR is that of its
codes, buffer what its tiles take of UB, cycles those of the whole tensor. `-o FILE.html` writes a
page with SQNR against bytes and cycles, error histograms over one axis, and scale maps."""
_KIB = 1024


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = _EPILOG
    parser.add_argument("tensor", metavar="TENSOR")
    parser.add_argument("--target", default="a2a3,a5", metavar="T[,T]")
    add_jobs(parser, "formats are tried in")
    shared.add_output(parser, FORMATS)


_SMALL = 1 << 20
"""Elements of a tensor below which processes are not worth making unless somebody asks for them."""


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Run every format and report."""
    targets = shared.architectures(options.target)
    x = given.tensor(options.tensor)
    with terminal.busy("trying", len(FORMATS_TRIED), "formats"):
        wants_page = terminal.format == "html"
        jobs = options.jobs or (available_cores() if x.size >= _SMALL else 1)
        found = explore(x, targets, has_errors=wants_page, jobs=jobs)
    title = f"{options.tensor}: {'x'.join(map(str, x.shape))} {x.dtype}"
    terminal.report(_Report(title, found, targets))
    return 0


def _budget(target: str) -> int:
    return machine(target).spaces["vec"].planner


def _head(targets: list[str]) -> list[str]:
    each = [text for t in targets for text in (f"{t} UB", f"{t} cycles")]
    return ["format", "SQNR dB", "bytes", "of f32", *each]


def _cells(c: Candidate, targets: list[str]) -> list[str]:
    cells = [c.format.name, f"{c.sqnr:.2f}", str(c.bytes), f"{c.bytes / c.size / 4:.0%}"]
    for target in targets:
        buffer, cycles = c.buffer[target], c.cycles[target]
        share = "-" if buffer is None else f"{buffer / _KIB:.0f} K ({buffer / _budget(target):.0%})"
        cells += [share, "-" if cycles is None else str(cycles)]
    return cells


class _Report(NamedTuple):
    """Every format that a tensor was tried in."""

    title: str
    found: list[Candidate]
    targets: list[str]

    def rows(self) -> list[list[str]]:
        """Return the cells of a table."""
        return [_cells(c, self.targets) for c in self.found]


def _renderables(report: _Report) -> list[Part]:
    first, *rest = _head(report.targets)
    columns = [first, *(f">{name}" for name in rest)]
    return [Text(report.title, style="bold"), table("", columns, report.rows())]


def _page(report: _Report) -> str:
    from ptosim.views.quant_page import Tried, quant_page

    tried = [
        Tried(c.format.name, c.sqnr, c.bytes, c.cycles, c.errors, c.scales)
        for c in report.found
        if c.errors is not None
    ]
    return quant_page(report.title, _head(report.targets), report.rows(), tried)


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


FORMATS: Formats[_Report] = {
    "text": tables(_renderables),
    "json": data(lambda r: {"tensor": r.title, "formats": [_fields(c) for c in r.found]}),
    "html": text(_page),
}
