"""The server: reads requests of several callers, has each done by a forked process, sends answers.

One thread looks at all callers. Forking keeps the requests apart (folder, environment, limits, a
crash). What a request touches is copied for its process, which takes twice as long as a small
request itself: a process that did one that leaves nothing behind (a check or a cost, with the usual
options) does up to MOST_USES of them. A request waits while as many are at work as the machine has
cores.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NoReturn

from ptosim.ground import __version__
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.shell.serve.protocol import MAX_LINE, line_of, request_of, talks

_PIECE = 1 << 16
_MAX_FILES = 3
MOST_USES = 200
"""Requests that a process does at most."""
_KEPT = frozenset(("check", "cost"))
"""Commands after which a process does another request."""
_USUAL = frozenset((
    "-q", "-v", "--quiet", "--verbose", "--format", "--target", "--level", "--sync", "--compat",
    "--entry", "--as", "--profile", "--arg", "--block-num", "--fail-on", "--color", "--dry-run",
    "--no-dry-run", "--no-explore", "--strict",
))  # fmt: skip
"""Options with which a command leaves nothing behind in its process."""


class Commands(NamedTuple):
    """The command line, which is above this room: what runs a line, and what says if one is well
    formed."""

    run: Callable[[Sequence[str]], int]
    understands: Callable[[Sequence[str]], bool]


@dataclass(slots=True, eq=False)
class Caller:
    """Somebody who sends requests: a connection, or the two ends of standard input and output."""

    source: int
    sink: int
    connection: socket.socket | None = None
    unread: bytearray = field(default_factory=bytearray)
    files: list[int] = field(default_factory=list)
    is_open: bool = True

    def read(self) -> bytes:
        """Return what has come, with the files that came along; empty at the end."""
        if self.connection is None:
            return os.read(self.source, _PIECE)
        data, files, _, _ = socket.recv_fds(self.connection, _PIECE, _MAX_FILES)
        self.files += files
        return data

    def send(self, answer: bytes) -> None:
        """Send an answer; a caller who has gone is no fault of ours."""
        with contextlib.suppress(OSError):
            if self.connection is not None:
                self.connection.sendall(answer)
                return
            while answer:
                answer = answer[os.write(self.sink, answer) :]

    def take_files(self) -> list[int]:
        """Return the files that came with the request that is read now."""
        files, self.files = self.files, []
        return files

    def close(self) -> None:
        """Let go of the connection and of files that nobody took."""
        self.is_open = False
        for file in self.take_files():
            os.close(file)
        if self.connection is not None:
            self.connection.close()


@dataclass(slots=True, eq=False)
class Job:
    """A request: waiting, or at work in a process."""

    caller: Caller
    request: dict[str, Any]
    files: list[int]
    answer: IO[bytes] | None = None
    channel: socket.socket | None = None
    """To a process that may do another one."""

    @property
    def leaves_nothing(self) -> bool:
        """True if its process may do another request."""
        command, *words = self.request["argv"] or [""]
        options = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}
        return command in _KEPT and options <= _USUAL


class Server:
    """Callers, what waits and what is at work; `jobs` is the most that is at work at a time."""

    def __init__(self, commands: Commands, jobs: int) -> None:
        self._commands = commands
        self._jobs = jobs
        self._selector: selectors.BaseSelector = selectors.DefaultSelector()
        self._listener: socket.socket | None = None
        self._callers: list[Caller] = []
        self._waiting: deque[Job] = deque()
        self._at_work: dict[int, Job] = {}
        self._idle: list[tuple[int, socket.socket]] = []

    def listen(self, listener: socket.socket, ready: Callable[[], None]) -> None:
        """Serve a socket; `ready` is called when that begins."""
        with self._told_of_ends():
            ready()
            self._listener = listener
            self._selector.register(listener, selectors.EVENT_READ, self._accept)
            self._loop(lambda: True)

    def talk(self, source: int, sink: int) -> None:
        """Serve one caller over two files, until there is nothing more to read and all is done."""
        caller = Caller(source, sink)
        self._selector.close()
        self._selector = selectors.SelectSelector()  # others take no regular file, nor /dev/null
        with self._told_of_ends():
            self._add(caller)
            self._loop(lambda: caller.is_open or bool(self._waiting or self._at_work))

    @contextmanager
    def _told_of_ends(self) -> Iterator[None]:
        """The end of a process wakes the loop; whatever happens, no process is left."""
        heard, told = os.pipe()
        os.set_blocking(told, False)
        os.set_blocking(heard, False)
        before = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        wakeup = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        self._selector.register(heard, selectors.EVENT_READ, lambda: os.read(heard, _PIECE))
        gc.freeze()  # what is loaded is shared with the processes as long as nobody touches it
        try:
            yield
        finally:
            self._stop()
            signal.set_wakeup_fd(wakeup)
            signal.signal(signal.SIGCHLD, before)
            os.close(heard)
            os.close(told)

    def _loop(self, goes_on: Any) -> None:
        while goes_on():
            for key, _ in self._selector.select():
                key.data()
            self._reap()
            while self._waiting and len(self._at_work) < self._jobs:
                self._begin(self._waiting.popleft())

    def _accept(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            self._add(Caller(connection.fileno(), connection.fileno(), connection))

    def _add(self, caller: Caller) -> None:
        self._callers.append(caller)
        self._selector.register(caller.source, selectors.EVENT_READ, lambda: self._hear(caller))

    def _hear(self, caller: Caller) -> None:
        try:
            data = caller.read()
        except OSError:
            data = b""
        if not data:
            self._leave(caller)
            return
        caller.unread += data
        *lines, rest = caller.unread.split(b"\n")
        caller.unread = bytearray(rest)
        for line in lines:
            if line.strip():
                self._understand(caller, bytes(line))
        if len(caller.unread) > MAX_LINE:
            caller.send(line_of({"error": f"a request has at most {MAX_LINE} bytes"}))
            self._leave(caller)

    def _understand(self, caller: Caller, line: bytes) -> None:
        try:
            request = request_of(line)
        except ValueError as problem:
            caller.send(line_of({"id": None, "error": str(problem)}))
            return
        if "cancel" in request:
            self._cancel(caller, request["cancel"])
            return
        job = Job(caller, request, caller.take_files())
        problem = _unfit(job)
        if problem:
            caller.send(line_of({"id": request.get("id"), "error": problem}))
            _close(job.files)
            return
        self._waiting.append(job)

    def _begin(self, job: Job) -> None:
        job.answer = tempfile.TemporaryFile()  # noqa: SIM115  # read when the process has ended
        if job.leaves_nothing:
            self._hand_over(job)
            return
        process = os.fork()
        if process == 0:
            self._forget()
            child(self._commands, job.request, job.files, job.answer)
        _close(job.files)
        self._at_work[process] = job

    def _hand_over(self, job: Job) -> None:
        """Give a request to a process that is there, else to a new one."""
        assert job.answer is not None
        if not self._idle:
            ours, theirs = socket.socketpair()
            process = os.fork()
            if process == 0:
                self._forget()
                self._forget_files(job, ours)
                worker(self._commands, theirs)
            theirs.close()
            self._idle.append((process, ours))
        process, job.channel = self._idle.pop()
        self._at_work[process] = job
        self._selector.register(job.channel, selectors.EVENT_READ, lambda: self._heard_of(process))
        line = line_of(job.request)
        with contextlib.suppress(OSError):  # it has ended: that is heard at once
            files = [job.answer.fileno(), *job.files]
            socket.send_fds(job.channel, [len(line).to_bytes(8, "big")], files)
            job.channel.sendall(line)
        _close(job.files)

    def _heard_of(self, process: int) -> None:
        """A process has done its request, or ended."""
        job = self._at_work.pop(process)
        assert job.channel is not None
        self._selector.unregister(job.channel)
        said = b""
        with contextlib.suppress(OSError):
            said = job.channel.recv(1)
        if said == _AGAIN:
            self._idle.append((process, job.channel))
            self._end(job, 0)
            return
        job.channel.close()
        self._end(job, os.waitpid(process, 0)[1])

    def _forget(self) -> None:
        """Close the copies that a forked process has of what is the server's alone: a caller must
        see the end of its connection when the server closes it."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        if self._listener is not None:
            self._listener.close()
        for caller in self._callers:
            if caller.connection is not None:
                caller.connection.close()
        for job in self._at_work.values():
            if job.channel is not None:
                job.channel.close()
        for _, channel in self._idle:
            channel.close()

    def _forget_files(self, job: Job, ours: socket.socket) -> None:
        """Close what a process that stays would keep open: callers wait for the end of a file."""
        ours.close()
        for file in (
            *job.files,
            *(f for each in (*self._waiting, *self._callers) for f in each.files),
        ):
            os.close(file)
        for each in (job, *self._at_work.values()):
            if each.answer is not None:
                each.answer.close()

    def _reap(self) -> None:
        for process in [p for p, job in self._at_work.items() if job.channel is None]:
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                self._end(self._at_work.pop(process), status)

    def _end(self, job: Job, status: int) -> None:
        assert job.answer is not None
        job.answer.seek(0)
        answer = job.answer.read()
        job.answer.close()
        if not answer:
            why = f"the process of the request ended with {os.waitstatus_to_exitcode(status)}"
            answer = line_of({"id": job.request.get("id"), "exit": 70, "stderr": f"{why}\n"})
        if job.caller.is_open or job.caller.connection is None:
            job.caller.send(answer)

    def _cancel(self, caller: Caller, name: object) -> None:
        """Interrupt what a caller has at work under a name, and forget what waits under it."""
        for process, job in self._at_work.items():
            if job.caller is caller and job.request.get("id") == name:
                os.kill(process, signal.SIGINT)
        for job in [j for j in self._waiting if j.caller is caller]:
            if job.request.get("id") == name:
                self._waiting.remove(job)
                caller.send(line_of({"id": name, "exit": 130}))

    def _leave(self, caller: Caller) -> None:
        """A caller has ended. Over a socket nobody waits for its answers any more."""
        self._selector.unregister(caller.source)
        self._callers.remove(caller)
        if caller.connection is not None:
            for process, job in self._at_work.items():
                if job.caller is caller:
                    os.kill(process, signal.SIGTERM)
            gone = [j for j in self._waiting if j.caller is caller]
            for job in gone:
                self._waiting.remove(job)
                _close(job.files)
        caller.close()

    def _stop(self) -> None:
        for process, channel in self._idle:  # which ends with its channel
            channel.close()
            os.waitpid(process, 0)
        self._idle.clear()
        for process in self._at_work:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
        for process in self._at_work:
            os.waitpid(process, 0)
        self._at_work.clear()
        for caller in self._callers:
            caller.close()
        self._callers.clear()
        self._selector.close()


def _unfit(job: Job) -> str:
    """Say why a request is not done here; "" if it is."""
    version = job.request.get("version", __version__)
    if version != __version__:
        return f"the server is ptosim {__version__}, the caller {version}"
    if "streams" in job.request and len(job.files) != _MAX_FILES:
        return "`streams` come with three open files"
    if talks(job.request["argv"]):
        return "a command that talks to its user, or never ends, runs where it was called"
    return ""


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)


# -- one request in a process of its own, forked from the server: what it does to the folder, the
# environment, streams and memory ends with it

_FAILED = 70


def child(
    commands: Commands, request: dict[str, Any], files: Sequence[int], answer: IO[bytes]
) -> NoReturn:
    """Run the command of a request and end the process. `files` are the caller's three streams, or
    empty: then what is written goes into the answer. The answer is written to a file, whole."""
    code: int = _FAILED
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        answer.write(line_of(_answer(commands, request, files)))
        answer.flush()
        code = 0
    finally:
        os._exit(code)  # nothing of the server's is unwound or flushed here


_AGAIN, _LAST = b"+", b"-"
"""What a process says that has done a request: it is there for another one, or ends."""


def worker(commands: Commands, channel: socket.socket) -> NoReturn:
    """Do requests that leave nothing behind until the server ends, or MOST_USES of them. Folder,
    environment and streams are those of the server before each."""
    code = _FAILED
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        folder, environment = os.open(".", os.O_RDONLY), dict(os.environ)
        streams, kept = (sys.stdin, sys.stdout, sys.stderr), [os.dup(n) for n in range(_MAX_FILES)]
        for use in range(MOST_USES):
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a request that is done
            size, files, _, _ = socket.recv_fds(channel, 8, _MAX_FILES + 1)
            if not size:
                break
            signal.signal(signal.SIGINT, signal.default_int_handler)
            line = channel.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
            with open(files[0], "wb") as answer:
                answer.write(line_of(_answer(commands, request_of(line), files[1:])))
            _close(files[1:])
            os.fchdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            sys.stdin, sys.stdout, sys.stderr = streams
            for number, file in enumerate(kept):
                os.dup2(file, number)
            channel.sendall(_AGAIN if use + 1 < MOST_USES else _LAST)
        code = 0
    finally:
        os._exit(code)


def _answer(commands: Commands, request: dict[str, Any], files: Sequence[int]) -> dict[str, Any]:
    found: dict[str, Any] = {"id": request.get("id")}
    problem = _surroundings(request)
    if problem:
        return found | {"exit": 2, "stderr": f"ptosim: error: {problem}\n"}
    if files:
        _take(files, request["streams"])
        return found | {"exit": _run(commands, request["argv"])}
    return found | _captured(commands, request)


def _surroundings(request: dict[str, Any]) -> str:
    """Take the caller's folder and environment; say what is wrong with them."""
    if "env" in request:
        os.environ.clear()
        os.environ.update(request["env"])
    if "cwd" not in request:
        return ""
    try:
        os.chdir(request["cwd"])
    except (OSError, ValueError) as problem:
        return f"no folder {request['cwd']}: {getattr(problem, 'strerror', problem)}"
    return ""


def _take(files: Sequence[int], streams: dict[str, Any]) -> None:
    """Make the caller's three files this process's streams, with the caller's encodings."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    sys.stdin = _stream(0, "r", streams.get("stdin"))
    sys.stdout = _stream(1, "w", streams.get("stdout"))
    sys.stderr = _stream(2, "w", streams.get("stderr"))


def _stream(number: int, mode: str, encoding: object) -> Any:
    known = encoding if isinstance(encoding, str) else "utf-8"
    with contextlib.suppress(LookupError):
        return open(number, mode, encoding=known, closefd=False)
    return open(number, mode, encoding="utf-8", closefd=False)


def _captured(commands: Commands, request: dict[str, Any]) -> dict[str, Any]:
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(request.get("stdin", "").encode("utf-8", "surrogateescape"))
        given.seek(0)
        _take([given.fileno(), out.fileno(), err.fileno()], {})
        found: dict[str, Any] = {"exit": _run(commands, _as_data(commands, request["argv"]))}
        for name, file in (("stdout", out), ("stderr", err)):
            file.seek(0)
            text = file.read().decode("utf-8", "replace")
            if text:
                found[name] = text
    with contextlib.suppress(ValueError, KeyError):
        found["result"] = json.loads(found["stdout"])
        del found["stdout"]
    return found


def _as_data(commands: Commands, argv: list[str]) -> list[str]:
    """Ask for JSON where the command can print it and the caller asks for no format."""
    asked = [*argv, "--format", "json"]
    said = any(a == "--format" or a.startswith("--format=") for a in argv)
    return asked if not said and commands.understands(asked) else argv


def _run(commands: Commands, argv: Sequence[str]) -> int:
    code = commands.run(argv)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    return code
