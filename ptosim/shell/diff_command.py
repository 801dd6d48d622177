"""`ptosim diff A B`"""

from __future__ import annotations

import argparse

from ptosim.ground.errors import UsageError
from ptosim.ground.records import replace
from ptosim.launch.analysis.differences import difference
from ptosim.shell import differing, launching
from ptosim.shell import options as shared
from ptosim.shell.terminal import Terminal
from ptosim.tools.search.prove import REASSOCIATED, Launched, prove


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
    group = parser.add_argument_group("proof")
    group.add_argument("--prove", action="store_true",
                       help="are they equal for all inputs? If they are not, or it cannot be told, "
                       "that is worse (`ptosim help tune`)")  # fmt: skip
    group.add_argument("--tolerance", choices=(REASSOCIATED,), default="",
                       help="of --prove: sums of f32 in another order are equal, too")  # fmt: skip


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Compare two programs."""
    if options.first == options.second == "-":
        raise UsageError("standard input can be one of the two programs only")
    if options.tolerance and not options.prove:
        raise UsageError("--tolerance is for --prove", help="of values: --rtol, --atol, --ulp")
    target = shared.targets(options.target)[0]
    one, two = differing.sides(options, terminal, (options.first, target), (options.second, target))
    found = difference(one, two, launching.tolerance(options))
    proof = None
    if options.prove and not (one.is_rejected or two.is_rejected):
        first, second = (
            _launched(options, file, target) for file in (options.first, options.second)
        )
        proof = prove(first, second, tolerance=options.tolerance)
    return differing.report(found, ("A", "B"), options, terminal, proof)


def _launched(options: argparse.Namespace, file: str, target: str | None) -> Launched:
    choices = replace(launching.choices(options, file), target=target)
    program = choices.program()
    return Launched(program, choices.entry, choices.arguments() or None, choices.block_num)
