"""`ptosim quant explore TENSOR`"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ptosim.cli import options as shared
from ptosim.cli import quant_options as given
from ptosim.cli.terminal import Terminal

if TYPE_CHECKING:
    from ptosim.interop.explore import Candidate

_EPILOG = """TENSOR is file.npy, file.npz:key, file.bin:dtype:RxC or randn:dtype:RxC[:seed]; rows
are those of its last dimension. Every line is a generated program that was run: SQNR is that of its
codes, buffer what its tiles take of UB, cycles those of the whole tensor. `-o FILE.html` writes a
page with error histograms and scale maps."""
_KIB = 1024


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = _EPILOG
    parser.add_argument("tensor", metavar="TENSOR")
    parser.add_argument("--target", default="a2a3,a5", metavar="T[,T]")
    shared.add_output(parser, ("text", "json"))


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Run every format and report."""
    from ptosim.interop.explore import explore

    targets = shared.architectures(options.target)
    x = given.tensor(options.tensor)
    found = explore(x, targets)
    title = f"{options.tensor}: {'x'.join(map(str, x.shape))} {x.dtype}"
    if terminal.format == "json":
        terminal.json({"tensor": title, "formats": [_to_json(c) for c in found]})
    elif options.output and options.output.endswith((".html", ".htm")):
        from ptosim.views.quant_page import page

        pictures = [(c.format.name, c.error, c.scales) for c in found]
        terminal.write(page(title, _head(targets), [_cells(c, targets) for c in found], pictures))
    else:
        terminal.print_renderables(_renderables(title, found, targets))
    return 0


def _budget(target: str) -> int:
    from ptosim.ground.isa.targets import machine

    return machine(target).spaces["vec"].planner


def _head(targets: list[str]) -> list[str]:
    each = [text for t in targets for text in (f"{t} UB", f"{t} cycles")]
    return ["format", "SQNR dB", "bytes", "of f32", *each]


def _cells(c: Candidate, targets: list[str]) -> list[str]:
    cells = [c.format.name, f"{c.sqnr:.2f}", str(c.bytes), f"{c.bytes / c.error.size / 4:.0%}"]
    for target in targets:
        buffer, cycles = c.buffer[target], c.cycles[target]
        share = "-" if buffer is None else f"{buffer / _KIB:.0f} K ({buffer / _budget(target):.0%})"
        cells += [share, "-" if cycles is None else str(cycles)]
    return cells


def _renderables(title: str, found: list[Candidate], targets: list[str]) -> list[Any]:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in _head(targets):
        table.add_column(name, justify="left" if name == "format" else "right")
    for candidate in found:
        table.add_row(*_cells(candidate, targets))
    return [Text(title, style="bold"), table]


def _to_json(c: Candidate) -> dict[str, Any]:
    return {
        "format": c.format.name,
        "sqnr_db": given.number(c.sqnr),
        "bytes": c.bytes,
        "ratio": c.bytes / c.error.size / 4,
        "targets": {
            t: {"ub_bytes": c.buffer[t], "ub_budget": _budget(t), "cycles": c.cycles[t]}
            for t in c.cycles
        },
    }
