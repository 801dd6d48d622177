"""`ptosim lsp`: the language server for editors."""

from __future__ import annotations

import argparse
import sys

from ptosim.ground.errors import UsageError
from ptosim.shell.terminal import Terminal

_EPILOG = """Speaks the Language Server Protocol over standard input and output; an editor starts it
(`ptosim help editor`). Needs pip install 'ptosim[lsp]'."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = _EPILOG
    parser.add_argument("--stdio", action="store_true", help="the only way there is; for editors")


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Serve one editor until it leaves. Raises UsageError without the extra."""
    try:
        from ptosim.tools.lsp.requests import make_server
        from ptosim.tools.lsp.stream import Messages, log_in_lines
    except ImportError as problem:
        raise UsageError(
            f"the language server needs {problem.name}", help="pip install 'ptosim[lsp]'"
        ) from problem
    source = Messages(open(sys.stdin.fileno(), "rb", buffering=0, closefd=False))  # noqa: SIM115
    sink = sys.stdout.buffer
    log_in_lines()
    sys.stdout = sys.stderr  # nothing but the protocol goes to the editor
    try:
        make_server().start_io(source, sink)  # type: ignore[arg-type]
    finally:
        sys.stdout = sys.__stdout__
    return 0
