"""`ptosim site DIR`"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from ptosim.ground.progress import part_done
from ptosim.launch.sources import shipped_programs
from ptosim.shell.command import command
from ptosim.shell.options import option, switch
from ptosim.shell.terminal import Terminal
from ptosim.tools.site.build import build_site, report_of
from ptosim.views.report import Line, Report, one_section


@command(
    "site",
    option("folder", metavar="DIR", help="where the pages are written; index.html is the first"),
    switch("--reports", help="with the report of every program: some minutes"),
    forms=("text", "json"),
)
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Manual, language, lessons, operations, diagnostics and programs as pages with a search."""
    folder = Path(options.folder)
    if options.reports:
        _write_reports(folder, terminal)
    written = build_site(folder)
    return one_section(
        [Line(f"wrote {len(written)} pages; open {folder / 'index.html'}")],
        lambda: {"folder": str(folder), "pages": len(written)},
    )


def _write_reports(folder: Path, terminal: Terminal) -> None:
    """Each in a process of its own: what one of the broken programs does to it is its own."""
    names = [each.name for each in shipped_programs() if each.kind == "program"]
    with terminal.busy("reporting", len(names), "programs"):
        for name in names:
            path = folder / report_of(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            words = ("report", name, "-o", str(path), "-q")
            subprocess.run(
                [sys.executable, "-m", "ptosim", *words], capture_output=True, check=False
            )
            part_done()
