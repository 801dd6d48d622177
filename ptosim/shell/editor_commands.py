"""`ptosim lsp` and `ptosim dap`: the language server and the debugger for editors, which speak over
standard input and output."""

from __future__ import annotations

import argparse
import os
import sys

from ptosim.ground.errors import UsageError
from ptosim.shell.command import command
from ptosim.shell.launching import limits_of
from ptosim.shell.options import switch
from ptosim.shell.terminal import Terminal

_LSP = """Speaks the Language Server Protocol over standard input and output; an editor starts it
(`ptosim help editor`). Needs pip install 'ptosim[lsp]'."""
_DAP = """Speaks the Debug Adapter Protocol. An editor starts it and sends `launch` with
`program`, and as far as they are wanted `args` (name to SPEC as for `run --arg`), `target`,
`level`, `entry`, `profile`, `sync`, `set`, `blockNum`, `seed`, `uninit`, `stopOnEntry`,
`stopOnExit`, `maxInstructions`, `maxSeconds`, `maxMemory` (of each request; else those of the
command line)."""


@command("lsp", switch("--stdio", help="the only way there is; for editors"), epilog=_LSP)
def lsp(options: argparse.Namespace, terminal: Terminal) -> int:
    """Serve one editor until it leaves. Raises UsageError without the extra."""
    try:
        from ptosim.tools.lsp.requests import make_server
        from ptosim.tools.lsp.server import Messages, log_in_lines
    except ImportError as problem:
        raise UsageError(
            f"the language server needs {problem.name}", help="pip install 'ptosim[lsp]'"
        ) from problem
    source = Messages(open(sys.stdin.fileno(), "rb", buffering=0, closefd=False))  # noqa: SIM115
    sink = sys.stdout.buffer
    log_in_lines()
    sys.stdout = sys.stderr  # nothing but the protocol goes to the editor
    server = make_server()
    try:
        server.start_io(source, sink)  # type: ignore[arg-type]
    finally:
        server.resting.end()
        sys.stdout = sys.__stdout__
    os._exit(0)  # nobody waits until what is known of the texts is taken down, which takes seconds


@command("dap", epilog=_DAP)
def dap(options: argparse.Namespace, terminal: Terminal) -> int:
    """Serve one editor. Whatever else would write to standard output goes to standard error."""
    from ptosim.debug.dap.server import Server
    from ptosim.debug.dap.variables import Pieces

    source = Pieces(open(sys.stdin.fileno(), "rb", buffering=0, closefd=False))  # noqa: SIM115
    sink = sys.stdout.buffer
    sys.stdout = sys.stderr
    try:
        return Server(source, sink, limits_of(options)).serve()
    finally:
        sys.stdout = sys.__stdout__
