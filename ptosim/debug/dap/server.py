"""The server: requests of an editor become calls of the debugger, stops become events."""

from __future__ import annotations

import contextlib
import queue
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from ptosim.debug.dap.points import Breaker, Cancelled, Launched, PointRequests, StateRequests
from ptosim.debug.dap.variables import (
    BrokenMessage,
    Message,
    MessageWriter,
    Pieces,
    Variables,
    read_message,
)
from ptosim.debug.session import Debugger, session_of
from ptosim.debug.sheet import rendered
from ptosim.debug.shell import Shell
from ptosim.debug.stops import FILTERS, Stop
from ptosim.ground.diagnostics.model import ProgramError
from ptosim.ground.errors import PtosimError, UsageError
from ptosim.ground.limits import NO_LIMITS, Limits, in_force
from ptosim.launch.compare import Choices

# From the attributes of a launch to a session.

WIDTH = 100
_CHOICES = {
    "program": "file", "target": "target", "level": "level", "entry": "entry",
    "profile": "profile", "sync": "sync", "args": "args", "blockNum": "block_num", "seed": "seed",
    "uninit": "uninit", "sanitize": "sanitize", "set": "switches", "timing": "timing",
}  # fmt: skip
"""Attributes of a launch, and the choices that they are."""
_LIMITS = ("maxInstructions", "maxSeconds", "maxMemory")
_KNOWN = frozenset((*_CHOICES, *_LIMITS, "stopOnEntry", "stopOnExit"))
# What editors add themselves.
_EDITOR = frozenset(
    ("name", "type", "request", "noDebug", "__restart", "__sessionId", "presentation", "cwd",
     "preLaunchTask", "postDebugTask", "internalConsoleOptions", "debugServer", "console",
     "serverReadyAction", "__configurationTarget")
)  # fmt: skip


def launch(arguments: Message, output: Callable[[str], None], limits: Limits) -> Launched:
    """Load the program and stop before its first operation. Attributes are those of the command
    line: `program` (a path or `@name`), `target`, `level`, `entry`, `profile`, `sync`, `set`,
    `args` (name to SPEC), `blockNum`, `seed`, `uninit`, `stopOnEntry`, `stopOnExit`; and of each
    request, in the place of those of the server, `maxInstructions`, `maxSeconds`, `maxMemory`.
    Raises UsageError for others."""
    unknown = sorted(set(arguments) - _KNOWN - _EDITOR)
    if unknown:
        raise UsageError(
            f"launch does not take `{unknown[0]}`", help=f"known: {', '.join(sorted(_KNOWN))}"
        )
    if not isinstance(arguments.get("program"), str):
        raise UsageError("launch needs `program`, the path of a .pto file or @name")
    given = {ours: arguments[name] for name, ours in _CHOICES.items() if name in arguments}
    for name in ("switches", "args"):
        given[name] = {k: str(v) for k, v in dict(given.get(name, {})).items()}
    instructions, seconds, memory = (arguments.get(name) for name in _LIMITS)
    if (instructions, seconds, memory) != (None, None, None):
        limits = Limits(instructions, seconds, memory)
    with in_force(limits):
        session = session_of(Choices(**given).completed())
    session.limits = limits
    shell = Shell(session, lambda parts: output(rendered(parts, WIDTH, color=False)), lambda: WIDTH)
    return Launched(
        session,
        shell,
        Variables(session),
        bool(arguments.get("stopOnEntry", False)),
        bool(arguments.get("stopOnExit", False)),
    )


# What kinds of value the arguments of requests are. An editor may send anything; what is read
# here without a look has the kind that the protocol gives it.

_LARGEST = 1 << 53  # whole numbers of JSON that every side reads alike


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _all(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(isinstance(v, kind) for v in value)


_WHOLE = ("a whole number", _is_whole)
_TEXT = ("a text", lambda v: isinstance(v, str))
_TRUTH = ("true or false", lambda v: isinstance(v, bool))
_OBJECT = ("an object", lambda v: isinstance(v, dict))
_OBJECTS = ("a list of objects", _all(dict))
_TEXTS = ("a list of texts", _all(str))

_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "threadId": _WHOLE, "frameId": _WHOLE, "variablesReference": _WHOLE, "start": _WHOLE,
    "count": _WHOLE, "startFrame": _WHOLE, "levels": _WHOLE, "offset": _WHOLE, "column": _WHOLE,
    "line": _WHOLE, "requestId": _WHOLE, "blockNum": _WHOLE, "seed": _WHOLE, "level": _WHOLE,
    "maxInstructions": _WHOLE, "maxMemory": _WHOLE,
    "maxSeconds": ("a number", lambda v: isinstance(v, (int, float))),
    "expression": _TEXT, "context": _TEXT, "name": _TEXT, "memoryReference": _TEXT, "text": _TEXT,
    "filter": _TEXT, "granularity": _TEXT, "path": _TEXT, "condition": _TEXT, "dataId": _TEXT,
    "hitCondition": _TEXT, "logMessage": _TEXT, "accessType": _TEXT,
    "program": _TEXT, "target": _TEXT, "entry": _TEXT, "profile": _TEXT, "sync": _TEXT,
    "uninit": _TEXT, "sanitize": _TEXT, "timing": _TRUTH, "stopOnEntry": _TRUTH,
    "stopOnExit": _TRUTH, "set": _OBJECT, "args": _OBJECT,
    "source": _OBJECT, "format": _OBJECT, "breakpoints": _OBJECTS, "filters": _TEXTS,
}  # fmt: skip
_INSIDE = ("source", "breakpoints")


def check_fields(arguments: Mapping[str, Any], where: str) -> None:
    """Raise UsageError for a value of another kind than the protocol's; null is as good as left
    out."""
    for name, value in arguments.items():
        known = _KINDS.get(name)
        if known is None or value is None:
            continue
        what, holds = known
        if not holds(value):
            raise UsageError(f"`{name}` of {where} is {what}, not {_short(value)}")
        if name in _INSIDE:
            for each in value if isinstance(value, list) else [value]:
                check_fields(each, f"{name} of {where}")


def present(arguments: Message) -> Message:
    """Return the arguments without those that are null."""
    return {name: value for name, value in arguments.items() if value is not None}


def _short(value: Any) -> str:
    if isinstance(value, (dict, list)):  # as deep as the reader takes, which `repr` may not
        return "an object" if isinstance(value, dict) else "such a list"
    text = repr(value)
    return text if len(text) < 40 else f"{text[:37]}…"


CAPABILITIES = {
    "supportsConfigurationDoneRequest": True,
    "supportsFunctionBreakpoints": True,
    "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True,
    "supportsLogPoints": True,
    "supportsEvaluateForHovers": True,
    "supportsStepBack": True,
    "supportsRestartRequest": True,
    "supportsDataBreakpoints": True,
    "supportsReadMemoryRequest": True,
    "supportsTerminateRequest": True,
    "supportsSteppingGranularity": True,
    "supportsCompletionsRequest": True,
    "supportsExceptionInfoRequest": True,
    "supportsValueFormattingOptions": True,
    "supportsCancelRequest": True,
}
_REASONS = {
    "watchpoint": "data breakpoint",
    "finding": "exception",
    "trap": "exception",
    "deadlock": "exception",
    "interrupt": "pause",
    "start": "entry",
    "end": "pause",
}
_REFUSED = (PtosimError, OSError, TypeError, ValueError, OverflowError, RecursionError)
"""What a request ends with that asks for what is not there, or in a form that is none; an OSError
is the system's answer to a name that it cannot look up."""
TRAPPED = 4


class Server:
    """Serves one editor until it leaves. `serve` returns the exit code."""

    def __init__(self, source: BinaryIO | Pieces, sink: BinaryIO, limits: Limits = NO_LIMITS):
        self.source = source
        self.limits = limits
        self.writer = MessageWriter(sink)
        self.launched: Launched | None = None
        self.leaving = False
        self._inbox: queue.Queue[Message | None] = queue.Queue()
        self._after: Callable[[], None] | None = None
        self._breaker = Breaker()
        self.points = PointRequests(self)
        self.state = StateRequests(self)
        self._handlers: dict[str, Callable[[Message], Message | None]] = {
            "initialize": self._initialize,
            "launch": self._launch,
            "configurationDone": self._configuration_done,
            "restart": self._restart,
            "continue": lambda a: self._move(a, lambda s: s.continue_()),
            "next": lambda a: self._step(a, "next"),
            "stepIn": lambda a: self._step(a, "step"),
            "stepOut": lambda a: self._move(a, lambda s: s.finish(), step=True),
            "stepBack": lambda a: self._step(a, "reverse_next"),
            "reverseContinue": lambda a: self._move(a, lambda s: s.reverse_continue()),
            "pause": self._pause,
            "cancel": self._cancel,
            "disconnect": self._leave,
            "terminate": self._terminate,
            **self.points.handlers(),
            **self.state.handlers(),
        }

    # -- the loop ---------------------------------------------------------------------------------

    def serve(self) -> int:
        """Answer requests until the editor disconnects or the input ends."""
        threading.Thread(target=self._listen, daemon=True).start()
        while not self.leaving:
            message = self._inbox.get()
            if message is None:
                break
            with self._breaker.whole():
                self._answer(message)
        return 0

    def _listen(self) -> None:
        """Take in messages while the run moves, so that it can be told to stop."""
        while True:
            try:
                message = read_message(self.source)
            except BrokenMessage as problem:
                with contextlib.suppress(OSError):
                    self.say(f"{problem}\n", "stderr")
                continue
            except OSError:
                message = None
            if message is not None and message.get("command") == "cancel":
                self._breaker.cancel(message)
            self._inbox.put(message)
            if self.launched is not None and _stops(message):
                walker = self.launched.session.walker
                walker.interrupted = walker.moving
                if not walker.moving:
                    self._breaker.stop()
            if message is None:
                return

    def _answer(self, message: Message) -> None:
        if message.get("type") != "request":
            return
        command, number = str(message.get("command")), message.get("seq", 0)
        reply: Message = {"type": "response", "request_seq": number, "command": command}
        self._after = None
        try:
            handler = self._handlers.get(command)
            if handler is None:
                raise UsageError(f"the request `{command}` is not supported")
            arguments = message.get("arguments")
            arguments = present(arguments) if isinstance(arguments, dict) else {}
            check_fields(arguments, f"`{command}`")
            with self._breaker.breaking(number):
                body = handler(arguments)
        except Cancelled:
            self._refuse(reply, "cancelled")
        except KeyError as problem:
            self._refuse(reply, f"the request `{command}` lacks {problem}")
        except _REFUSED as problem:
            self._refuse(reply, _words(problem))
        except Exception as problem:
            self.say(traceback.format_exc(), "stderr")
            self._refuse(reply, f"internal error: {problem}")
        else:
            self.writer.send({**reply, "success": True, **({"body": body} if body else {})})
            self._go_on()

    def _go_on(self) -> None:
        """Do what follows an answer; if it cannot be done, the editor hears that it stopped."""
        if self._after is None:
            return
        try:
            self._after()
        except OSError:  # of the connection
            raise
        except Exception as problem:
            self.say(traceback.format_exc(), "stderr")
            if self.launched is not None:
                position = self.run.session.position
                self._stopped(Stop("interrupt", position, f"internal error: {problem}"))

    def _refuse(self, reply: Message, text: str) -> None:
        body = {"error": {"id": 1, "format": text.replace("{", "(").replace("}", ")")}}
        self.writer.send({**reply, "success": False, "message": text, "body": body})

    def say(self, text: str, category: str = "console") -> None:
        """Write to the debug console of the editor."""
        self.writer.event("output", category=category, output=text)

    @property
    def run(self) -> Launched:
        """What was launched. Raises UsageError before that."""
        if self.launched is None:
            raise UsageError("nothing is launched yet")
        return self.launched

    # -- life -------------------------------------------------------------------------------------

    def _initialize(self, arguments: Message) -> Message:
        filters = [
            {"filter": name, "label": what, "default": False} for name, (what, _) in FILTERS.items()
        ]
        return {**CAPABILITIES, "exceptionBreakpointFilters": filters}

    def _launch(self, arguments: Message) -> None:
        try:
            self.launched = launch(arguments, self._output, self.limits)
        except ProgramError as problem:
            from ptosim.views.frames import render_all

            self.say(render_all(problem.diagnostics) + "\n", "stderr")
            raise
        self._after = lambda: self.writer.event("initialized")

    def _output(self, text: str) -> None:
        self.say(text)

    def _configuration_done(self, arguments: Message) -> None:
        run = self.run
        if run.stop_on_entry:
            self._after = lambda: self._moved(lambda s: s.step(), entry=True)
        else:
            self._after = lambda: self._moved(lambda s: s.continue_())

    def _restart(self, arguments: Message) -> None:
        self.run.session.restart()
        self._configuration_done(arguments)

    def _pause(self, arguments: Message) -> None:
        """While the run moves the listener has stopped it; what comes here finds it standing."""
        walker = self.run.session.walker
        if not self.run.paused:
            self._after = lambda: self._stopped(Stop("interrupt", walker.position, "paused"))
        self.run.paused = False

    def _cancel(self, arguments: Message) -> None:
        """The listener has done it, if there was anything to be broken off."""

    def _leave(self, arguments: Message) -> None:
        self.leaving = True

    def _terminate(self, arguments: Message) -> None:
        self._after = lambda: self._ended(0)

    # -- movement ---------------------------------------------------------------------------------

    def _step(self, arguments: Message, name: str) -> Message:
        by_instruction = arguments.get("granularity") == "instruction"
        if by_instruction:
            name = "reverse_stepi" if name.startswith("reverse") else "stepi"
        return self._move(arguments, lambda session: getattr(session, name)(), step=True)

    def _move(
        self, arguments: Message, action: Callable[[Debugger], Stop], *, step: bool = False
    ) -> Message:
        run = self.run
        core = int(arguments["threadId"]) - 1
        if step and 0 <= core < len(run.session.launch.machine.cores):
            run.session.focus(core)
        self._after = lambda: self._moved(action)
        return {"allThreadsContinued": True}

    def _moved(self, action: Callable[[Debugger], Stop], *, entry: bool = False) -> None:
        """Move, then say where the run is."""
        run = self.run
        run.variables.clear()
        walker = run.session.walker
        walker.moving, run.paused = True, False
        # A request to stop that came before this line did not find the run moving.
        walker.interrupted = any(map(_stops, list(self._inbox.queue)))
        printed = len(walker.engine.prints)
        was_stuck = walker.trap is not None
        try:
            stop = action(run.session)
        except PtosimError as problem:  # a limit is reached, something cannot be evaluated
            stop = Stop("interrupt", walker.position, _words(problem))
        finally:
            walker.moving = walker.interrupted = False
        for text in walker.engine.prints[printed:]:
            self.say(text, "stdout")
        run.paused = stop.reason == "interrupt"
        if stop.reason == "end" and not run.stop_on_exit:
            self.say(f"{stop.text}\n")
            self._ended(0)
        elif was_stuck and walker.trap is not None and stop.reason in ("trap", "deadlock"):
            self._ended(TRAPPED)
        else:
            self._stopped(stop, entry=entry)

    def _stopped(self, stop: Stop, *, entry: bool = False) -> None:
        run = self.run
        run.last = stop
        reason = "entry" if entry else _REASONS.get(stop.reason, stop.reason)
        body: Message = {
            "reason": reason,
            "threadId": run.session.core.index + 1,
            "allThreadsStopped": True,
        }
        if stop.text:
            body["description"] = stop.text.splitlines()[0]
            body["text"] = stop.text
        if stop.number is not None:
            body["hitBreakpointIds"] = [stop.number]
        self.writer.event("stopped", **body)

    def _ended(self, code: int) -> None:
        self.writer.event("exited", exitCode=code)
        self.writer.event("terminated")

    def moved_by_command(self) -> None:
        """Tell the editor that a command in the console has moved the run."""
        self.run.variables.clear()
        self._stopped(self.run.session.last_stop)


def _stops(message: Message | None) -> bool:
    """True for a request to stop, and for the end of the input."""
    return message is None or message.get("command") in ("pause", "disconnect", "terminate")


def _words(problem: Exception) -> str:
    help = getattr(problem, "help", None)
    return f"{problem}; {help}" if help else str(problem)
