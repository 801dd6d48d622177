"""From the attributes of a launch to a session."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ptosim.debug.dap.variables import Variables
from ptosim.debug.screen import rendered
from ptosim.debug.session import Debugger
from ptosim.debug.shell import Shell
from ptosim.debug.stops import Stop
from ptosim.ground.errors import UsageError

WIDTH = 100
_KNOWN = frozenset(
    ("program", "target", "level", "entry", "profile", "sync", "args", "blockNum", "seed", "uninit",
     "sanitize", "stopOnEntry", "stopOnExit", "set", "timing")
)  # fmt: skip
# What editors add themselves.
_EDITOR = frozenset(
    ("name", "type", "request", "noDebug", "__restart", "__sessionId", "presentation", "cwd",
     "preLaunchTask", "postDebugTask", "internalConsoleOptions", "debugServer", "console",
     "serverReadyAction", "__configurationTarget")
)  # fmt: skip


@dataclass(slots=True)
class Launched:
    """A session with what the protocol needs beside it."""

    session: Debugger
    shell: Shell
    variables: Variables
    stop_on_entry: bool
    stop_on_exit: bool
    last: Stop | None = None
    paused: bool = False  # the last stop answered a pause that is still to come
    ids: dict[str, list[int]] = field(default_factory=dict)  # breakpoints by request and source


def launch(arguments: dict[str, Any], output: Callable[[str], None]) -> Launched:
    """Load the program and stand before its first operation. Attributes are those of the command
    line: `program` (a path or `@name`), `target`, `level`, `entry`, `profile`, `sync`, `set`,
    `args` (name to SPEC), `blockNum`, `seed`, `uninit`, `stopOnEntry`, `stopOnExit`. Raises
    UsageError for others."""
    from ptosim.cli import launching

    unknown = sorted(set(arguments) - _KNOWN - _EDITOR)
    if unknown:
        raise UsageError(
            f"launch does not take `{unknown[0]}`", help=f"known: {', '.join(sorted(_KNOWN))}"
        )
    if not isinstance(arguments.get("program"), str):
        raise UsageError("launch needs `program`, the path of a .pto file or @name")
    options = Namespace(
        file=arguments["program"],
        target=arguments.get("target"),
        level=arguments.get("level"),
        entry=arguments.get("entry"),
        profile=arguments.get("profile", "hw"),
        sync=arguments.get("sync"),
        set=[f"{k}={v}" for k, v in dict(arguments.get("set", {})).items()],
        arg=[f"{k}={v}" for k, v in dict(arguments.get("args", {})).items()],
        block_num=arguments.get("blockNum"),
        uninit=arguments.get("uninit", "poison"),
        seed=arguments.get("seed"),
        commit="program",
        sanitize=arguments.get("sanitize", "all"),
        timing=arguments.get("timing", True),
    )
    beside = launching.sidecar(options)
    program = launching.load(options, launching.targets(options, beside)[0], beside)
    entry = program.entry(options.entry or (beside.options.get("entry") if beside else None))
    args = launching.arguments(options, beside)
    session = program.debug(args, entry=entry, **launching.run_options(options, beside))
    shell = Shell(session, lambda parts: output(rendered(parts, WIDTH, color=False)), lambda: WIDTH)
    return Launched(
        session,
        shell,
        Variables(session),
        bool(arguments.get("stopOnEntry", False)),
        bool(arguments.get("stopOnExit", False)),
    )
