"""`ptosim targets`"""

from __future__ import annotations

import argparse

from ptosim.ground.isa.costs import accuracy
from ptosim.language.targets import check_target_word
from ptosim.shell.command import command
from ptosim.shell.options import option, switch
from ptosim.shell.terminal import Terminal
from ptosim.views.report import Report
from ptosim.views.targets import accuracy_report, targets_report


@command(
    "targets",
    option("name", nargs="?", metavar="TARGET", help="one architecture, or a chip: a5, 910b4"),
    switch("--accuracy", help="how far predicted cycles are from published measurements"),
    forms=("text", "json"),
)
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Every architecture and chip with units and sources, or the accuracy of cost laws."""
    if options.accuracy:
        return accuracy_report(*accuracy())
    return targets_report(check_target_word(options.name) if options.name else None)
