"""Requests that set breakpoints. Each replaces what the same request set before."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from ptosim.debug.commands.table import find
from ptosim.debug.dap.variables import Message, Variables, read_memory
from ptosim.debug.expressions import text_of
from ptosim.debug.names import brief, callers
from ptosim.debug.prompt import completions
from ptosim.debug.session import Debugger
from ptosim.debug.sheet import Part, rendered
from ptosim.debug.shell import Shell, expression_limits
from ptosim.debug.stops import Breakpoint, Stop, catch
from ptosim.debug.tables.memory import core_name
from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass, field
from ptosim.ground.words import whole


@dataclass(slots=True)
class Launched:
    """A session, and what the protocol needs as well."""

    session: Debugger
    shell: Shell
    variables: Variables
    stop_on_entry: bool
    stop_on_exit: bool
    last: Stop | None = None
    paused: bool = False  # the last stop answered a pause that is still to come
    ids: dict[str, list[int]] = field(default_factory=dict)  # breakpoints by request and source


class Serving(Protocol):
    """What requests ask of the server."""

    @property
    def run(self) -> Launched:
        """The run. Raises UsageError before there is one."""
        ...

    def say(self, text: str) -> None:
        """Write text to the console of the editor."""
        ...

    def moved_by_command(self) -> None:
        """Tell the editor that the run is elsewhere."""
        ...


class PointRequests:
    """Breakpoints on lines, functions, data and findings."""

    def __init__(self, server: Serving) -> None:
        self.server = server

    def handlers(self) -> dict[str, Callable[[Message], Message | None]]:
        """Return the requests by name."""
        return {
            "setBreakpoints": self._lines,
            "setFunctionBreakpoints": self._functions,
            "setDataBreakpoints": self._data,
            "setExceptionBreakpoints": self._exceptions,
            "dataBreakpointInfo": self._data_info,
        }

    def _replace(self, key: str) -> list[int]:
        """Remove what a request set before; return the list for the new ones."""
        run = self.server.run
        for number in run.ids.get(key, []):
            if number in run.session.points.all:
                run.session.points.remove(number)
        run.ids[key] = []
        return run.ids[key]

    def _lines(self, arguments: Message) -> Message:
        source = arguments["source"]
        ids = self._replace(f"lines {source.get('path', source.get('name'))}")
        wanted = arguments.get("breakpoints", [])
        if not self._is_ours(source):
            text = "another file than the program"
            return {"breakpoints": [{"verified": False, "message": text} for _ in wanted]}
        return {"breakpoints": [self._set(str(b["line"]), b, ids) for b in wanted]}

    def _is_ours(self, source: Message) -> bool:
        own = Path(self.server.run.session.names.source.name)
        path = source.get("path")
        return path is None or Path(path).name == own.name

    def _functions(self, arguments: Message) -> Message:
        ids = self._replace("functions")
        wanted = arguments["breakpoints"]
        return {"breakpoints": [self._set(b["name"], b, ids) for b in wanted]}

    def _set(self, place: str, wanted: Message, ids: list[int]) -> Message:
        """Set one breakpoint; what is wrong with it is said in its answer."""
        session = self.server.run.session
        try:
            point = session.break_(place)
            ids.append(point.number)
            self._details(point, wanted)
        except UsageError as problem:
            if ids and ids[-1] in session.points.all and session.points.all[ids[-1]].text == place:
                session.points.remove(ids.pop())
            return {"verified": False, "message": str(problem)}
        answer: Message = {"id": point.number, "verified": True}
        if point.pcs:
            op = session.launch.program.insts[min(point.pcs)].op
            if op is not None:
                answer["line"] = session.names.line(op)
        if session.locations.note:
            answer["message"] = session.locations.note
        return answer

    def _details(self, point: Breakpoint, wanted: Message) -> None:
        """Condition, hit count, message."""
        session = self.server.run.session
        try:
            if wanted.get("condition"):
                point.condition = session.condition(wanted["condition"])
            if wanted.get("hitCondition"):
                count = whole(str(wanted["hitCondition"]).strip().lstrip(">=").strip())
                if not count:
                    raise UsageError(f"`{wanted['hitCondition']}` is not a number of hits")
                point.ignore = count - 1
            if wanted.get("logMessage"):
                point.log = self._logger(str(wanted["logMessage"]))
        except UsageError:
            session.points.remove(point.number)
            raise

    def _logger(self, message: str) -> Callable[[], None]:
        """Write a message with `{expressions}` in it instead of stopping."""
        session = self.server.run.session
        parts = message.split("{")

        def log() -> None:
            text = parts[0]
            for part in parts[1:]:
                expression, _, rest = part.partition("}")
                try:
                    text += text_of(session.evaluate(expression)) + rest
                except UsageError as problem:
                    text += f"({problem}){rest}"
            self.server.say(f"{text}\n")

        return log

    # -- data -------------------------------------------------------------------------------------

    def _data_info(self, arguments: Message) -> Message:
        run = self.server.run
        name = str(arguments["name"])
        reference = arguments.get("variablesReference")
        if reference:
            name = run.variables.expression(int(reference), name)
        try:
            with expression_limits(run.session):
                run.session.evaluate(name)
        except UsageError as problem:
            return {"dataId": None, "description": str(problem)}
        return {"dataId": name, "description": name, "accessTypes": ["write"], "canPersist": True}

    def _data(self, arguments: Message) -> Message:
        def watch(wanted: Message) -> Breakpoint:
            if wanted.get("accessType", "write") != "write":
                raise UsageError("only writes can be watched")
            point = self.server.run.session.watch(wanted["dataId"])
            self._details(point, wanted)
            return point

        return self._answers("data", watch, arguments["breakpoints"])

    def _answers(
        self, key: str, make: Callable[[Any], Breakpoint], wanted: Iterable[Any]
    ) -> Message:
        """Set breakpoints; what is wrong with one is said in its answer."""
        ids = self._replace(key)
        answers: list[Message] = []
        for each in wanted:
            try:
                ids.append(make(each).number)
                answers.append({"id": ids[-1], "verified": True})
            except UsageError as problem:
                answers.append({"verified": False, "message": str(problem)})
        return {"breakpoints": answers}

    # -- findings ---------------------------------------------------------------------------------

    def _exceptions(self, arguments: Message) -> Message:
        session = self.server.run.session
        return self._answers("exceptions", lambda n: catch(session, n), arguments["filters"])


# Requests that can be broken off: `cancel`, or a request to stop, comes while an expression is
# evaluated.


PATIENCE = 1.0
"""Seconds that a request has once the editor wants to stop."""


class Cancelled(Exception):
    """The editor does not want the answer any more."""


class Breaker:
    """Interrupts the main thread while it answers a request; elsewhere a request is not broken off.
    `cancel` and `stop` are called by the thread that listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answering: Any = None
        self._unwanted: set[Any] = set()
        self._is_broken = False

    @contextmanager
    def whole(self) -> Iterator[None]:
        """An interrupt that comes when its request has just been answered is no news."""
        try:
            yield
        except KeyboardInterrupt:
            if not self._is_broken:
                raise
        self._is_broken = False

    @contextmanager
    def breaking(self, number: Any) -> Iterator[None]:
        """Answer a request. Raises Cancelled if it is broken off."""
        with self._lock:
            if number in self._unwanted:
                self._unwanted.discard(number)
                raise Cancelled
            is_main = threading.current_thread() is threading.main_thread()
            self._answering = number if is_main else None
        try:
            yield
        except KeyboardInterrupt:
            if not self._is_broken:
                raise
            raise Cancelled from None
        finally:
            with self._lock:
                self._answering = None

    def cancel(self, message: dict[str, Any]) -> None:
        """Break off the request that a `cancel` names, or let it be refused when its turn comes."""
        arguments = message.get("arguments")
        number = arguments.get("requestId") if isinstance(arguments, dict) else None
        if not isinstance(number, int):
            return
        with self._lock:
            if number == self._answering:
                self._interrupt()
            elif len(self._unwanted) < 1000:
                self._unwanted.add(number)

    def stop(self) -> None:
        """Break off the request that is being answered, if it goes on for long: what is answered
        soon is answered, however fast a script writes its requests."""
        with self._lock:
            number = self._answering
        if number is None:
            return
        timer = threading.Timer(PATIENCE, self._if_still, (number,))
        timer.daemon = True
        timer.start()

    def _if_still(self, number: Any) -> None:
        with self._lock:
            if self._answering == number:
                self._interrupt()

    def _interrupt(self) -> None:
        self._is_broken = True
        main = threading.main_thread().ident
        if hasattr(signal, "pthread_kill") and main is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pthread_kill(main, signal.SIGINT)
        else:
            import _thread

            _thread.interrupt_main()


# Requests that look at the run.


class StateRequests:
    """Threads (cores), frames, scopes, variables, memory, expressions."""

    def __init__(self, server: Serving) -> None:
        self.server = server

    def handlers(self) -> dict[str, Callable[[Message], Message | None]]:
        """Return the requests by name."""
        return {
            "threads": self._threads,
            "stackTrace": self._stack,
            "scopes": self._scopes,
            "variables": self._variables,
            "evaluate": self._evaluate,
            "readMemory": self._read_memory,
            "source": self._source,
            "completions": self._completions,
            "exceptionInfo": self._exception,
        }

    def _threads(self, arguments: Message) -> Message:
        cores = self.server.run.session.launch.machine.cores
        return {"threads": [{"id": c.index + 1, "name": core_name(c)} for c in cores]}

    def _stack(self, arguments: Message) -> Message:
        session = self.server.run.session
        core = session.focus(int(arguments["threadId"]) - 1)
        ops = [session.current_op(), *callers(core, session.launch.program)]
        source = session.names.source
        places = [
            (f"@{session.names.function(op)}: {brief(op)}", *source.line_column(op.start))
            for op in ops
            if op is not None
        ]
        frames = [
            {"id": core.index * 1000 + level, "name": name, "line": line, "column": column,
             "source": source_of(source.name)}
            for level, (name, line, column) in enumerate(
                places or [("ended", source.line_count(), 1)], 1
            )
        ]  # fmt: skip
        start = int(arguments.get("startFrame") or 0)
        count = int(arguments.get("levels") or 0) or len(frames)
        return {"stackFrames": frames[start : start + count], "totalFrames": len(frames)}

    def _scopes(self, arguments: Message) -> Message:
        run = self.server.run
        run.session.focus((int(arguments["frameId"]) - 1) // 1000)
        return {"scopes": run.variables.scopes()}

    def _variables(self, arguments: Message) -> Message:
        variables = self.server.run.variables
        variables.hexadecimal = bool((arguments.get("format") or {}).get("hex"))
        start, count = int(arguments.get("start") or 0), arguments.get("count")
        if arguments.get("filter") == "named":
            return {"variables": []}
        return {"variables": variables.children(int(arguments["variablesReference"]), start, count)}

    def _evaluate(self, arguments: Message) -> Message:
        """In the console a line is a command, or an expression; elsewhere an expression."""
        run = self.server.run
        text = str(arguments["expression"]).strip()
        if arguments.get("frameId"):
            run.session.focus((int(arguments["frameId"]) - 1) // 1000)
        if arguments.get("context") == "repl" and _is_command(text):
            return {"result": self._command(text), "variablesReference": 0}
        name = text if text.startswith(("%", "$")) else f"%{text}"
        if name.startswith("%") and name[1:].isidentifier():
            entry = run.variables.describe(name, run.session.reading(name))
            entry["result"] = entry.pop("value")
            return {k: v for k, v in entry.items() if k not in ("name", "evaluateName")}
        with expression_limits(run.session):
            return {"result": text_of(run.session.evaluate(text)), "variablesReference": 0}

    def _command(self, text: str) -> str:
        run = self.server.run
        position = run.session.position
        collected: list[Part] = []
        output, run.shell.output = run.shell.output, collected.extend
        try:
            run.shell.execute(text)
        finally:
            run.shell.output = output
        if run.session.position != position:
            self.server.moved_by_command()
        return rendered(collected, run.shell.width(), color=False).rstrip("\n")

    def _read_memory(self, arguments: Message) -> Message:
        return read_memory(
            self.server.run.session,
            str(arguments["memoryReference"]),
            int(arguments.get("offset") or 0),
            int(arguments["count"]),
        )

    def _source(self, arguments: Message) -> Message:
        return {"content": self.server.run.session.names.source.text}

    def _completions(self, arguments: Message) -> Message:
        line = str(arguments["text"])[: int(arguments["column"]) - 1]
        start = max(line.rfind(c) for c in " ([,+-*/<>=") + 1
        found = completions(self.server.run.shell, line, line[start:])
        return {
            "targets": [{"label": w, "start": start, "length": len(line) - start} for w in found]
        }

    def _exception(self, arguments: Message) -> Message:
        last = self.server.run.last
        if last is None or last.finding is None:
            raise UsageError("the run did not stop at a finding")
        finding = last.finding
        return {
            "exceptionId": finding.code,
            "description": finding.message,
            "breakMode": "always",
            "details": {
                "message": "\n".join([finding.message, *finding.notes, finding.help or ""])
            },
        }


def source_of(name: str) -> Message:
    """Return a source as the protocol has it; text without a file is fetched by number."""
    path = Path(name)
    if path.is_file():
        return {"name": path.name, "path": str(path.resolve())}
    return {"name": name, "sourceReference": 1}


def _is_command(text: str) -> bool:
    """True unless the text can only be an expression."""
    if text.startswith(("%", "$", "(", "-")):
        return False
    try:
        find(text.split()[0] if text.split() else "help")
    except UsageError:
        return False
    return True
