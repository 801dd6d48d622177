"""A line on the terminal while a long run goes on; it is gone at the end."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from ptosim.ground import progress as watch
from ptosim.ground.source import visible

DELAY = 1.0
"""Seconds before the line appears: short runs stay quiet."""


_BAR = 12
"""Columns of the bar; the rest is for what is done."""


class _State(ProgressColumn):
    """How far the work is."""

    def __init__(self, progress: watch.Progress) -> None:
        super().__init__(Column(no_wrap=True, overflow="ellipsis"))  # a bar of one line
        self._of = progress

    def render(self, task: Task) -> Text:
        """Return it as text, asked for anew each time."""
        return Text(visible(str(self._of)))


class Busy:
    """Shows a moving bar with how far the work is: parts done, instructions and how many a second,
    the place in the program with the rounds of its loops, the time elapsed and, where the number of
    parts is known, the time left. How many instructions a run will take is not known before it
    ends, so its bar has no end mark."""

    def __init__(self, progress: watch.Progress, *, color: bool) -> None:
        self._progress = Progress(
            _State(progress),
            BarColumn(bar_width=_BAR),
            TimeElapsedColumn(),
            console=Console(file=sys.stderr, no_color=not color),
            transient=True,
        )
        self._progress.add_task(progress.what, total=None)
        self._timer = threading.Timer(DELAY, self._progress.start)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        self._timer.join()
        self._progress.stop()
