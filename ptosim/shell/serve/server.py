"""The server: reads requests of several callers, has each done by a forked process, sends answers.

One thread looks at all callers. Forking keeps the requests apart (folder, environment, limits, a
crash) and costs a few milliseconds, since everything is loaded and nothing is copied until it
changes. A request waits while as many are at work as the machine has cores.
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
from pathlib import Path
from typing import IO, Any, NoReturn

from ptosim.ground import __version__
from ptosim.ground.errors import UsageError
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.shell.serve.protocol import MAX_LINE, line_of, request_of, talks

_PIECE = 1 << 16
_MAX_FILES = 3


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

    def listen(self, path: Path, ready: Callable[[], None]) -> None:
        """Serve the socket at a path, which is made for this user alone; `ready` is called when it
        can be reached. Raises UsageError."""
        with listening(path) as listener, self._told_of_ends():
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
        process = os.fork()
        if process == 0:
            self._forget()
            child(self._commands, job.request, job.files, job.answer)
        _close(job.files)
        self._at_work[process] = job

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

    def _reap(self) -> None:
        for process in list(self._at_work):
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


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
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
