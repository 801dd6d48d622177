"""`ptosim serve`: commands without start-up, for programs that call ptosim often."""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.cache import installed
from ptosim.shell.command import command
from ptosim.shell.options import Group, option, switch
from ptosim.shell.serve import protocol
from ptosim.shell.streams import Terminated
from ptosim.shell.terminal import Terminal

_EPILOG = """With PTOSIM_SERVER set to the socket, every command that does not talk to its user
runs on the server: same words, same output, same exit code, a tenth of the time.
Programs send one JSON object a line, {"id": 1, "argv": ["check", "kernel.pto"], "cwd": "/work"},
and read {"id": 1, "exit": 0, "result": {...}}: see `ptosim help serve`. The server knows only
callers of its own user, and ends with Ctrl-C or SIGTERM (with --stdio at the end of the input)."""

_WARM = ("@basics/vadd", "@quant/mxfp8_nd")
"""Programs that are checked, run and priced before the first request."""


@command(
    "serve",
    Group(
        "",
        (
            option("--socket", metavar="PATH", type=Path, help="listen at this Unix socket"),
            switch("--stdio", help="requests on standard input, answers on its output"),
        ),
        exclusive=True,
    ),
    option(
        "-j", "--jobs", type=int, metavar="N", default=os.cpu_count() or 1,
        help="requests that are at work at a time (default: the cores of the machine)",
    ),
    epilog=_EPILOG,
)  # fmt: skip
def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Serve until the end. Raises UsageError where the system or the socket does not allow it."""
    if not hasattr(os, "fork"):
        raise UsageError("`serve` needs a system that forks processes (Linux, macOS)")
    if options.jobs < 1:
        raise UsageError("--jobs must be at least 1")
    if not options.stdio and not hasattr(socket, "AF_UNIX"):
        raise UsageError(
            "this system has no sockets that are files", help="`ptosim serve --stdio` needs none"
        )
    from ptosim.shell.main import main, understands
    from ptosim.shell.serve.server import Commands, Server

    _warm_up()
    server = Server(Commands(main, understands), options.jobs)
    if options.stdio:
        server.talk(0, os.dup(1))
        return 0
    path = (options.socket or protocol.default_socket()).absolute()
    said = f"serving at {path}; export {protocol.VARIABLE}={path}"
    with contextlib.suppress(KeyboardInterrupt, Terminated), _listening(path) as listener:
        server.listen(listener, lambda: terminal.remark(said))
    return 0


@contextlib.contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    """Open a socket that only this user can reach, and remove it at the end. Raises UsageError if
    somebody listens there, or it cannot be made."""
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _remove_stale(path)
            before = os.umask(0o177)
            try:
                listener.bind(str(path))
            finally:
                os.umask(before)
            listener.listen()
        except OSError as problem:
            raise UsageError(f"cannot listen at {path}: {problem.strerror or problem}") from problem
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def _remove_stale(path: Path) -> None:
    """Remove the socket of a server that was killed."""
    if not path.is_socket():
        return  # whatever else is there makes `bind` fail
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise UsageError(f"a server listens at {path}", help="stop it, or name another --socket")


def _warm_up() -> None:
    """Load what commands load, by running some, and the functions of every operation."""
    from ptosim.ops.base import functions
    from ptosim.shell.main import main
    from ptosim.tools import verdicts

    functions.load_all()
    installed()  # that of now, whose code is the one that is loaded
    verdicts.ENABLED = False  # a check that is only remembered loads nothing
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        streams = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = nowhere
        try:
            for words in (("check",), ("run",), ("cost",), ("run", "--format", "json")):
                for program in _WARM:
                    main([words[0], program, *words[1:]])
        finally:
            sys.stdout, sys.stderr = streams
            verdicts.ENABLED = True
