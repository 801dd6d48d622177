"""Where a command writes: reports to standard output or a file, the rest to standard error."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from ptosim.ground.diagnostics.model import Diagnostic, Severity
from ptosim.ground.files import write_file
from ptosim.ground.progress import Progress, watched
from ptosim.ground.words import whole
from ptosim.shell.streams import write_error, write_out
from ptosim.views.frames import WIDTH, ansi, plain, render_all, said
from ptosim.views.render import FOR_FINDINGS, drawn, ending_line, render
from ptosim.views.report import Ending, Findings, Report, Room

_WIDEST = 10_000
"""Columns that `COLUMNS` may ask for."""


Draws = Callable[[str, str], None]
"""Shows a report: as plain text, and as HTML."""


class Terminal:
    """Output of one command, as its options ask for it."""

    def __init__(self, options: Namespace, draws: Draws | None = None) -> None:
        """`draws` shows a report that has a page, where nothing else was asked for: a notebook."""
        self.format: str = getattr(options, "format", None) or "text"
        self.quiet: bool = getattr(options, "quiet", False)
        self.verbose: bool = getattr(options, "verbose", False)
        self._target: str | None = getattr(options, "output", None)
        forms: Sequence[str] = getattr(options, "forms", ())
        if self.format == "text" and (self._target or "").endswith((".html", ".htm")):
            self.format = "html" if "html" in forms else "text"
        is_free = self.format == "text" and self._target is None and "html" in forms
        self._draws = draws if is_free else None
        if self._draws is not None:
            self.format = "html"
        self._color: str = getattr(options, "color", None) or "auto"
        self._pages: bool = not getattr(options, "no_pager", True)

    def uses_color(self, stream: TextIO) -> bool:
        """Return True if text on the stream may carry colours."""
        if self._color != "auto":
            return self._color == "always"
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            return False
        return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()

    @property
    def wants_report(self) -> bool:
        """False if `--quiet` keeps the text from the screen; files and data are written."""
        return not self.quiet or self._target is not None or self.format != "text"

    def is_screen(self) -> bool:
        """True if the report goes to a screen, whose width bounds its lines."""
        return self._target is None and sys.stdout.isatty()

    def width(self, stream: TextIO | None = None) -> int:
        """Return the columns of the report, or of what goes to a stream."""
        if self.is_screen() if stream is None else stream.isatty():
            with contextlib.suppress(OSError):
                return os.get_terminal_size((stream or sys.stdout).fileno()).columns
        columns = whole(os.environ.get("COLUMNS", "")) or 0
        return columns if 0 < columns < _WIDEST else WIDTH

    # -- reports ----------------------------------------------------------------------------------

    def write(self, text: str) -> None:
        """Write a report: to the file of `-o` (whole or not at all), else to standard output."""
        if self._target is not None:
            write_file(Path(self._target), text)
            return
        write_out(text, colored=self.uses_color(sys.stdout))

    def _shown_in_pager(self, text: str) -> bool:
        """Show a text that is longer than the screen in the pager of the user; False if there is
        none, or no need for one."""
        if not (self._pages and self.is_screen()) or os.environ.get("TERM", "dumb") == "dumb":
            return False
        try:
            if text.count("\n") < os.get_terminal_size(sys.stdout.fileno()).lines:
                return False
        except OSError:
            return False
        return paged(text)

    def report_to_screen(self) -> None:
        """Write reports to standard output: `-o` names something else than the report."""
        self._target = None

    def tell(self, report: Report) -> int:
        """Write a report in the form that was asked for, and what goes beside its text; returns its
        exit code."""
        if self._draws is not None:
            text = render(report, "text", Room(WIDTH))
            shown = [d for d in report.aside if self.shows(d)]
            beside = f"{render_all(shown, plain, WIDTH, verbose=self.verbose)}\n" if shown else ""
            text = beside + text if report.before else text + beside
            self._draws(text, drawn(report))
            return report.exit_code
        beside = self.findings if self.format == "text" else lambda findings: None
        if report.before:
            beside(report.aside)
        if self.wants_report or not report.is_quiet:
            text = self.render(report)
            if report.ending is not None or not self._shown_in_pager(text):
                self.write(text)
        if not report.before:
            beside(report.aside)
        is_shown = self.format == "text" and self.wants_report and self._target is None
        if report.ending is not None and not report.ending.passed and not is_shown:
            self.end(report.ending)
        return report.exit_code

    def end(self, ending: Ending) -> None:
        """Write the last line of a command that has no text to end with to standard error."""
        room = Room(self.width(sys.stderr), sys.stderr.isatty())
        color = self.uses_color(sys.stderr)
        write_error(ending_line(ending, room, color=color), colored=color)

    def render(self, report: Report) -> str:
        """Return a report in the form that was asked for."""
        color = self._target is None and self.uses_color(sys.stdout)
        return render(report, self.format, Room(self.width(), self.is_screen()), color=color)

    @contextlib.contextmanager
    def busy(self, what: str, total: int | None = None, parts: str = "") -> Iterator[Progress]:
        """Watch something long (of `total` parts, where that is known), so that an interrupt says
        where it was; a terminal shows from the first second on how far it is."""
        with watched(Progress(what, total, parts)) as progress:
            if self.quiet or not sys.stderr.isatty():
                yield progress
                return
            from ptosim.views.progress import Busy

            with Busy(progress, color=self.uses_color(sys.stderr)):
                yield progress

    # -- findings ---------------------------------------------------------------------------------

    def findings(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Write findings to standard error or, in a form for them, as the report."""
        if self.format in FOR_FINDINGS:
            self.write(self.render(Report(findings=Findings(diagnostics))))
            return
        shown = [d for d in diagnostics if self.shows(d)]
        if shown:
            colored = self.uses_color(sys.stderr)
            text = render_all(
                shown, ansi if colored else plain, self.width(sys.stderr),
                verbose=self.verbose, is_screen=sys.stderr.isatty(),
            )  # fmt: skip
            write_error(f"{text}\n", colored=colored)

    def shows(self, diagnostic: Diagnostic) -> bool:
        """Notes about choices that the header repeats are shown only with -v; -q hides all but
        errors."""
        if self.quiet:
            return diagnostic.is_error
        return diagnostic.severity > Severity.NOTE or self.verbose or diagnostic.span is not None

    def aside(self, text: str) -> None:
        """Write text that goes with the report: before its text, else on standard error."""
        (write_out if self.format == "text" else write_error)(text)

    def remark(self, message: str) -> None:
        """Write a remark on what was done to standard error."""
        self._said("note", message)

    def error(self, message: str, help: str | None = None) -> None:
        """Write an error that has no place in a program."""
        self._said("error", message)
        if help:
            self._said("help", help, "  ")

    def misused(self, usage: str, message: str, help: str) -> None:
        """Write what is wrong with a command line, after how one is written."""
        self._said("usage", usage)
        self.error(message, help)

    def _said(self, word: str, message: str, indent: str = "") -> None:
        colored = self.uses_color(sys.stderr)
        width = self.width(sys.stderr) - len(indent) if sys.stderr.isatty() else None
        text = said(word, message, ansi if colored else plain, width).replace("\n", f"\n{indent}")
        write_error(f"{indent}{text}\n", colored=colored)


def paged(text: str) -> bool:
    """Show a text in the pager that the environment names, else `less`; False if there is none."""
    import shlex
    import shutil
    import signal
    import subprocess

    named = next((os.environ[n] for n in ("PTOSIM_PAGER", "PAGER") if n in os.environ), "less")
    try:
        words = shlex.split(named)
    except ValueError:
        return False
    if not words or words[0] == "cat" or shutil.which(words[0]) is None:
        return False
    sys.stdout.flush()
    environment = {"LESS": "FRX", "LESSCHARSET": "utf-8", **os.environ}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pager's
    try:
        subprocess.run(
            words, input=text.encode(errors="replace"), env=environment, check=False,
        )  # fmt: skip
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    return True


def trace_text(events: list[dict[str, object]]) -> str:
    """Return Chrome trace events as a file for chrome://tracing or ui.perfetto.dev."""
    from ptosim.views.table import line

    body = ",\n".join(map(line, events))
    return f'{{"displayTimeUnit": "ns", "traceEvents": [\n{body}\n]}}\n'
