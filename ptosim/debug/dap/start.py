"""From the attributes of a launch to a session."""

from __future__ import annotations

from collections.abc import Callable

from ptosim.debug.dap.variables import Variables
from ptosim.debug.dap.wire import Message
from ptosim.debug.screen import rendered
from ptosim.debug.session import Debugger, session_of
from ptosim.debug.shell import Shell
from ptosim.debug.stops import Stop
from ptosim.ground.alarm import in_force
from ptosim.ground.errors import UsageError
from ptosim.ground.limits import Limits
from ptosim.ground.records import dataclass, field
from ptosim.launch.choices import Choices

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
    asked = [arguments.get(name) for name in _LIMITS]
    if asked != [None] * len(asked):
        limits = Limits(*asked)
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
