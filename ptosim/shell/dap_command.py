"""`ptosim dap`: the debugger for editors, over standard input and output."""

from __future__ import annotations

import argparse
import sys

from ptosim.shell.options import limits_of
from ptosim.shell.terminal import Terminal

_EPILOG = """Speaks the Debug Adapter Protocol. An editor starts it and sends `launch` with
`program`, and as far as they are wanted `args` (name to SPEC as for `run --arg`), `target`,
`level`, `entry`, `profile`, `sync`, `set`, `blockNum`, `seed`, `uninit`, `stopOnEntry`,
`stopOnExit`, `maxInstructions`, `maxSeconds`, `maxMemory` (of each request; else those of the
command line)."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command: there are only those that every command has."""
    parser.epilog = _EPILOG


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Serve one editor. Whatever else would write to standard output goes to standard error."""
    from ptosim.debug.dap.server import Server
    from ptosim.debug.dap.wire import Pieces

    source = Pieces(open(sys.stdin.fileno(), "rb", buffering=0, closefd=False))  # noqa: SIM115
    sink = sys.stdout.buffer
    sys.stdout = sys.stderr
    try:
        return Server(source, sink, limits_of(options)).serve()
    finally:
        sys.stdout = sys.__stdout__
