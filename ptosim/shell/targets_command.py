"""`ptosim targets`"""

from __future__ import annotations

import argparse

from ptosim.ground.isa.costs import accuracy
from ptosim.shell.command import command
from ptosim.shell.options import switch
from ptosim.shell.terminal import Terminal
from ptosim.views.report import Report
from ptosim.views.targets import accuracy_report, targets_report


@command(
    "targets",
    switch("--accuracy", help="how far predicted cycles are from published measurements"),
    forms=("text", "json"),
)
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Every architecture and chip with units and sources, or the accuracy of cost laws."""
    return accuracy_report(*accuracy()) if options.accuracy else targets_report()
