"""`ptosim quant …`: quantisation systems compared with each other and with PTO programs."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

from ptosim.shell.options import add_cache, add_limits
from ptosim.shell.terminal import Terminal

# Subcommand -> what it does; the module `ptosim.shell.quant_<name>` has `configure` and `run`.
SUBCOMMANDS = {
    "audit": "every quantising step of a program or model: whose formula, where others differ, why",
    "convert": "a float model quantised; real, fixed-point and affine values",
    "diff": "every scheme on one tensor: mismatches, ties, and why the first one differs",
    "explore": "one tensor in every format PTO quantises to: quality, bytes, buffer, cycles",
    "onnx": "run a quantised ONNX model as PTO programs and compare with the reference",
    "plan": "an int8 product or convolution with oneDNN attributes as PTO programs",
    "reorder": "f32 weights to int8 as oneDNN's reorder does it, and as PTO programs",
    "types": "the `!quant` types of a file: verdicts, canonical form, what they are on PTO",
    "schemes": "the schemes and what they are made of",
}


def configure(parser: argparse.ArgumentParser, words: Sequence[str] = ()) -> None:
    """Declare the subcommands; of a command line that names one after `quant`, only its options:
    to load all of them takes as long as the smaller ones run."""
    named = next(iter(words), "")
    commands = parser.add_subparsers(dest="subcommand", metavar="WHAT", required=True)
    for name, summary in SUBCOMMANDS.items():
        sub = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if named in SUBCOMMANDS and name != named:
            continue
        _module(name).configure(sub)
        add_limits(sub)
        add_cache(sub)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Run a subcommand."""
    return _module(options.subcommand).run(options, terminal)


def _module(name: str):
    return importlib.import_module(f"ptosim.shell.quant_{name}")
