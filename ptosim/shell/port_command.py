"""`ptosim port FILE --from a2a3 --to a5`"""

from __future__ import annotations

import argparse

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.targets import MachineDef, machine
from ptosim.language.targets import check_target_word
from ptosim.launch.analysis.differences import difference
from ptosim.shell import differing, launching
from ptosim.shell import options as shared
from ptosim.shell.terminal import Terminal


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = (
        "Runs the program on both targets: what becomes illegal, which races appear, which bits, "
        "budgets and cycles change. Exit code 3 if the new target rejects it, 1 if it is worse."
    )
    parser.add_argument("file", metavar="FILE", help="path, or `@name`; `#part`")
    parser.add_argument(
        "--from", dest="source", required=True, metavar="T", help="a target, or a chip"
    )
    parser.add_argument("--to", required=True, metavar="T", help="the target to move to")
    shared.add_program(parser, None)
    differing.add_options(parser)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Compare one program on two targets."""
    one, two = (_machine(word) for word in (options.source, options.to))
    if one is two:
        raise UsageError(
            f"--from and --to both name {one.label}",
            help="name two targets: a2a3 and a5, or two chips (`ptosim targets`)",
        )
    if options.target:
        raise UsageError("port takes --from and --to, not --target")
    if options.file == "-":
        raise UsageError("port reads the program twice; give a file")
    first, second = differing.sides(
        options, terminal, (options.file, options.source), (options.file, options.to)
    )
    found = difference(first, second, launching.tolerance(options))
    return differing.report(found, (f"on {one.label}", f"on {two.label}"), options, terminal)


def _machine(word: str) -> MachineDef:
    named = check_target_word(word)
    return machine(named.chip or named.architecture)
