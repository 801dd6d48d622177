"""`ptosim expand FILE`"""

from __future__ import annotations

import argparse
import json

from ptosim.cli import options as shared
from ptosim.cli.sources import open_source
from ptosim.cli.terminal import Terminal


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("file", metavar="FILE", help="path, `-`, or `@name`")
    shared.add_program(parser)
    shared.add_output(parser, ("text", "json"))


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Write the program, and as comments below it what stayed as it is."""
    from ptosim.expand.program import expand

    result = expand(open_source(options.file), options.target)
    if options.format == "json":
        report = {
            "text": result.text,
            "expanded": [
                {"op": s.name, "line": s.line, "instructions": s.counts} for s in result.stages
            ],
            "kept": [{"op": n, "line": line, "reason": why} for n, line, why in result.kept],
        }
        terminal.write(json.dumps(report, indent=2) + "\n")
        return 0
    notes = [f"// line {line}: {name} stays: {why}\n" for name, line, why in result.kept]
    terminal.write(result.text + "".join(notes))
    return 0
