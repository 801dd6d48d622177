"""Source, tiles, pipes, memory and findings side by side, and the commands of the prompt below.

A command runs in a thread of its own, so that Escape can interrupt it; the screen is written when
it has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from rich.console import Group
from rich.text import Text
from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Resize
from textual.widgets import Footer, Input, RichLog, Static
from textual.worker import Worker, WorkerState

from ptosim.debug.session import Debugger
from ptosim.debug.sheet import Part, Sheet, Unbroken
from ptosim.debug.shell import PROMPT, Shell
from ptosim.debug.stops import Stop
from ptosim.debug.tables import code, memory, tiles

PANELS: dict[str, tuple[str, Callable[[Debugger], Sheet]]] = {
    "tiles": ("tiles", tiles.tiles),
    "pipes": ("pipes", code.pipes),
    "map": ("memory", lambda session: memory.memory_map(session, "")),
    "findings": ("findings", code.findings),
}
"""What is next to the source: a title and its table."""


WIDE, HIGH = 110, 32
"""Columns from which panels are beside the source, and rows from which all of them are shown."""


class View(App[int]):
    """The debugger on a session. Keys move the run, the line at the bottom takes every command."""

    TITLE = "ptosim"
    CSS = """
    #panes { height: 1fr; }
    #source, #output { height: 1fr; border: round $primary; }
    #left { width: 1fr; }
    #right { width: 1fr; }
    .panel { height: 1fr; border: round $primary; }
    .small #panes { layout: vertical; }
    .small #left { height: 2fr; width: 100%; }
    .small #source { height: 3fr; }
    .small #output { height: 2fr; min-height: 4; }
    .small #right { height: 1fr; min-height: 6; width: 100%; }
    .small .panel { display: none; }
    .small .panel.chosen { display: block; }
    .low .panel { display: none; }
    .low .panel.chosen { display: block; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        ("f5", "command('continue')", "continue"),
        ("f6", "command('reverse-continue')", "back"),
        ("f9", "command('reverse-step')", "step back"),
        ("f10", "command('next')", "next"),
        ("f11", "command('step')", "step"),
        ("f2", "panel", "panel"),
        ("escape", "interrupt", "interrupt"),
        ("ctrl+q", "quit", "leave"),
    ]

    def __init__(self, session: Debugger, stop: Stop | None = None) -> None:
        super().__init__()
        self.session = session
        self.stop = stop
        self._parts: list[Part] = []
        self.shell = Shell(session, self._parts.extend, self._width)
        self._is_busy = False
        self._chosen = next(iter(PANELS))

    def compose(self) -> ComposeResult:
        """Lay out the panels."""
        with Horizontal(id="panes"):
            with Vertical(id="left"):
                yield Static(id="source")
                yield RichLog(id="output", wrap=True)
            with Vertical(id="right"):
                for name, (title, _) in PANELS.items():
                    panel = VerticalScroll(Static(id=name), classes="panel", id=f"{name}-panel")
                    panel.border_title = title
                    panel.can_focus = False
                    yield panel
        yield Input(placeholder="a command; `help` lists them", id="command")
        yield Footer()

    def on_mount(self) -> None:
        """Show where the run is."""
        self.query_one("#source").border_title = self.session.names.source.name
        if self.stop is not None:
            self.shell.stopped(self.stop)
        else:
            self.shell.where()
        self._show()
        self.query_one("#command").focus()

    # -- room -------------------------------------------------------------------------------------

    def on_resize(self, event: Resize) -> None:
        """Where there is little room one panel is shown, the chosen one, below the source."""
        width, height = event.size
        self.screen.set_class(width < WIDE, "small")
        self.screen.set_class(width >= WIDE and height < HIGH, "low")
        self._choose(self._chosen)
        if self.is_mounted_whole:
            self.call_after_refresh(self._show)

    @property
    def is_mounted_whole(self) -> bool:
        """True once every panel is there."""
        return bool(self.query("#source")) and bool(self.query("#findings"))

    def action_panel(self) -> None:
        """Choose the next panel."""
        names = [*PANELS]
        self._choose(names[(names.index(self._chosen) + 1) % len(names)])

    def _choose(self, name: str) -> None:
        self._chosen = name
        for each in PANELS:
            for panel in self.query(f"#{each}-panel"):
                panel.set_class(each == name, "chosen")

    # -- commands ---------------------------------------------------------------------------------

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Execute the line that was typed; an empty one repeats a movement."""
        line = event.value
        event.input.value = ""
        self.action_command(line)

    def action_command(self, line: str) -> None:
        """Execute a command, unless another one is still at it."""
        if self._is_busy:
            self.bell()
            return
        self._is_busy = True
        self.shell.say(f"{PROMPT}{line}")
        self.run_worker(lambda: self.shell.line(line), thread=True, exit_on_error=True)

    def action_interrupt(self) -> None:
        """Stop the run between two instructions."""
        if self._is_busy and self.session.walker.moving:
            self.session.walker.interrupted = True

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A command has ended: show what it said and where the run is."""
        if event.state not in (WorkerState.SUCCESS, WorkerState.ERROR, WorkerState.CANCELLED):
            return
        self._is_busy = False
        if self.shell.leaving:
            self.exit(0)
            return
        self._show()

    # -- panels -----------------------------------------------------------------------------------

    def _width(self) -> int:
        room = self.size.width if self.size.width < WIDE else self.size.width // 2
        return max(room - 4, 40)

    def _show(self) -> None:
        output = self.query_one("#output", RichLog)
        for part in self._parts:
            output.write(part.text if isinstance(part, Unbroken) else part)
        self._parts.clear()
        self.query_one("#source", Static).update(self._source())
        for name, (_, table) in PANELS.items():
            self.query_one(f"#{name}", Static).update(_panel(table(self.session)))

    def _source(self) -> Text:
        """Lines around the current one, as many as there is room for."""
        rows = max(self.query_one("#source").size.height, 3)
        here = self.session.line() or 1
        first = max(here - rows // 2, 1)
        lines = code.listing(self.session, first, first + rows - 1, self._width())
        return Text("\n").join(line.__rich__() for line in lines)


def _panel(sheet: Sheet) -> Group:
    parts = sheet.renderables()[1 if sheet.title else 0 :]
    return Group(*(p.text if isinstance(p, Unbroken) else p for p in parts))
