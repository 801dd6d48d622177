"""`ptosim dap`: the debugger for editors, over standard input and output."""

from __future__ import annotations

import argparse
import sys

from ptosim.cli.terminal import Terminal

_EPILOG = """Speaks the Debug Adapter Protocol. An editor starts it and sends `launch` with
`program`, and as far as they are wanted `args` (name to SPEC as for `run --arg`), `target`,
`level`, `entry`, `profile`, `sync`, `set`, `blockNum`, `seed`, `uninit`, `stopOnEntry`,
`stopOnExit`."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command: there are none."""
    parser.epilog = _EPILOG


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Serve one editor. Whatever else would write to standard output goes to standard error."""
    from ptosim.debug.dap.server import Server

    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    try:
        return Server(source, sink).serve()
    finally:
        sys.stdout = sys.__stdout__
