"""The command line's side: hand a command with its open files to a server, and wait for its end.

Loads next to nothing, for this is what the time of a served command is made of."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence

from ptosim.ground import __version__
from ptosim.shell.serve.protocol import line_of, talks

INTERRUPTED = 130
_GONE = "the server ended before the command did"


def handed_over(argv: Sequence[str], path: str) -> int | None:
    """Run a command on the server at a socket and return its exit code; None where it has to run
    here: it talks to its user, a stream of it is closed, or there is no such server (which is said
    in a line)."""
    if talks(argv) or not hasattr(socket, "AF_UNIX"):
        return None
    if None in (sys.stdin, sys.stdout, sys.stderr):
        return None  # its number would be that of the socket, and be read and written as it
    with socket.socket(socket.AF_UNIX) as server:
        try:
            problem = _of_another(path)
            if not problem:
                server.connect(path)
        except OSError as reason:
            problem = str(reason.strerror)
        if problem:
            print(f"ptosim: no server at {path} ({problem}): running without", file=sys.stderr)
            return None
        return _served(server, argv)


def _of_another(path: str) -> str:
    """Say so if the socket is not this user's: a command's files are not for anybody else."""
    return "" if os.stat(path).st_uid == os.getuid() else "it belongs to another user"


def _served(server: socket.socket, argv: Sequence[str]) -> int | None:
    request = {"argv": list(argv), "cwd": os.getcwd(), "env": dict(os.environ), "streams": _names()}
    text = line_of(request | {"version": __version__})
    sent = socket.send_fds(server, [text], [0, 1, 2])
    server.sendall(text[sent:])
    answer, is_cancelled = b"", False
    while not answer.endswith(b"\n"):
        try:
            piece = server.recv(65536)
        except KeyboardInterrupt:
            if is_cancelled:  # the server does not answer; the user wants to leave
                return INTERRUPTED
            is_cancelled = True
            server.sendall(line_of({"cancel": None}))
            continue
        if not piece:
            print(f"ptosim: error: {_GONE}", file=sys.stderr)
            return 70
        answer += piece
    return _understood(answer)


def _understood(answer: bytes) -> int | None:
    import json

    found = json.loads(answer)
    if "error" in found:
        print(f"ptosim: {found['error']}: running without the server", file=sys.stderr)
        return None
    if "stderr" in found:
        print(found["stderr"], end="", file=sys.stderr)
    return found["exit"]


def _names() -> dict[str, str]:
    streams = {"stdin": sys.stdin, "stdout": sys.stdout, "stderr": sys.stderr}
    return {name: stream.encoding for name, stream in streams.items() if stream is not None}
