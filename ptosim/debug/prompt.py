"""The prompt: line editing, history, completion, and Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ptosim.debug.commands.asking import INFO_WORDS
from ptosim.debug.commands.table import ALIASES, COMMANDS, TOPICS, find
from ptosim.debug.shell import PROMPT, Shell
from ptosim.ground.errors import UsageError

HISTORY = 1000


class Prompt:
    """Reads commands and hands them to a shell, which is set after both are made."""

    def __init__(self) -> None:
        self.shell: Shell | None = None
        self._matches: list[str] = []
        self._readline: Any = None

    def read(self, prompt: str) -> str | None:
        """Return a line of input, None at its end."""
        try:
            return input(prompt if sys.stdin.isatty() else "")
        except EOFError:
            return None

    def converse(self, *, echo: bool) -> None:
        """Execute lines until the user leaves or the input ends. `echo` writes them, for input that
        is no terminal."""
        shell = self.shell
        assert shell is not None
        if sys.stdin.isatty():
            self._edit_lines()
        while not shell.leaving:
            try:
                line = self.read(PROMPT)
            except KeyboardInterrupt:
                shell.say("")
                continue
            if line is None:
                if sys.stdin.isatty():
                    shell.say("")
                return
            if echo:
                shell.say(f"{PROMPT}{line}")
            try:
                shell.line(line)
            except KeyboardInterrupt:
                shell.say("interrupted")

    # -- Ctrl-C -----------------------------------------------------------------------------------

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let Ctrl-C stop a run between two instructions instead of ending the program."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _interrupt(self, number: int, frame: Any) -> None:
        """While the run moves: ask it to stop, and insist the second time. Else as usual."""
        walker = self.shell.session.walker if self.shell is not None else None
        if walker is None or not walker.moving or walker.interrupted:
            raise KeyboardInterrupt
        walker.interrupted = True

    # -- line editing -----------------------------------------------------------------------------

    def _edit_lines(self) -> None:
        try:
            import readline
        except ImportError:
            return
        self._readline = readline
        readline.set_completer(self._complete)
        readline.set_completer_delims(" \t\n()[],+*/<>=!&|~^:;")
        readline.parse_and_bind("tab: complete")
        path = history_file()
        with contextlib.suppress(OSError):
            readline.read_history_file(path)
        readline.set_history_length(HISTORY)
        import atexit

        atexit.register(_save_history, readline, path)

    def _complete(self, text: str, state: int) -> str | None:
        if state == 0:
            line = self._readline.get_line_buffer()[: self._readline.get_endidx()]
            self._matches = completions(self.shell, line, text)
        return self._matches[state] if state < len(self._matches) else None


def history_file() -> Path:
    """Return where the history is kept: $PTOSIM_DEBUG_HISTORY, else the user's state folder."""
    named = os.environ.get("PTOSIM_DEBUG_HISTORY")
    if named:
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "ptosim" / "debug_history"


def _save_history(readline: Any, path: Path) -> None:
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        readline.write_history_file(path)


def completions(shell: Shell | None, line: str, text: str) -> list[str]:
    """Return what `text`, the last word of `line`, may go on as."""
    if shell is None:
        return []
    before = line[: len(line) - len(text)].strip()
    if not before:
        return sorted(w for w in {*COMMANDS, *ALIASES} if w.startswith(text))
    try:
        kind = find(before.split()[0]).completes
    except UsageError:
        return []
    if text.startswith("%"):
        words = shell.session.names.names()
    elif kind == "files":
        return [str(p) for p in sorted(Path().glob(f"{text}*"))] if text else []
    else:
        words = _words(shell, kind)
    return sorted(w for w in words if w.startswith(text))


def _words(shell: Shell, kind: str) -> list[str]:
    names = shell.session.names
    functions = [f"@{name}" for name in names.program.functions]
    return {
        "places": [n.removeprefix("pto.") for n in names.operations()] + functions,
        "values": names.names(),
        "commands": [*COMMANDS, *TOPICS],
        "info": list(INFO_WORDS),
    }.get(kind, [])
