"""A line on the terminal while a long run goes on; it is gone at the end."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

DELAY = 1.0
"""Seconds before the line appears: short runs stay quiet."""


class Busy:
    """Shows a moving bar with the time elapsed. How many instructions a run will take is not known
    before it ends, so the bar has no end mark."""

    def __init__(self, what: str, *, color: bool) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TimeElapsedColumn(),
            console=Console(file=sys.stderr, no_color=not color),
            transient=True,
        )
        self._progress.add_task(what, total=None)
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
