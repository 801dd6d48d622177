"""`ptosim diff A B`"""

from __future__ import annotations

import argparse

from ptosim.analysis.differences import difference
from ptosim.cli import differing, launching
from ptosim.cli import options as shared
from ptosim.cli.terminal import Terminal
from ptosim.ground.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = (
        "Both run on the same arguments (generated ones are seeded); exit code 1 if B has new "
        "findings, other values, a broken budget, or is slower than --slower allows."
    )
    parser.add_argument("first", metavar="A", help="path, `-`, or `@name`; `#part`")
    parser.add_argument("second", metavar="B", help="path, `-`, or `@name`; `#part`")
    shared.add_program(parser, None)
    differing.add_options(parser)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Compare two programs."""
    if options.first == options.second == "-":
        raise UsageError("standard input can be one of the two programs only")
    target = shared.targets(options.target)[0]
    one, two = differing.sides(options, terminal, (options.first, target), (options.second, target))
    found = difference(one, two, launching.tolerance(options))
    return differing.report(found, ("A", "B"), options, terminal)
