"""`ptosim site DIR`"""

from __future__ import annotations

import argparse
from pathlib import Path

from ptosim.shell.command import command
from ptosim.shell.options import option
from ptosim.shell.terminal import Terminal
from ptosim.tools.site.build import build_site
from ptosim.views.report import Line, Report, one_section


@command(
    "site",
    option("folder", metavar="DIR", help="where the pages are written; index.html is the first"),
    forms=("text", "json"),
)
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Manual, language, lessons, operations, diagnostics and programs as pages with a search."""
    folder = Path(options.folder)
    written = build_site(folder)
    return one_section(
        [Line(f"wrote {len(written)} pages; open {folder / 'index.html'}")],
        lambda: {"folder": str(folder), "pages": len(written)},
    )
