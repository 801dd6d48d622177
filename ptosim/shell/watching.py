"""`--watch`: a command again whenever one of its files changes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ptosim.shell.terminal import Terminal

INTERVAL = 0.3
"""Seconds between two looks at the files."""
_CLEAR = "\x1b[2J\x1b[H"

_Stamps = dict[Path, tuple[int, int]]


def watch(paths: Callable[[], Sequence[Path]], again: Callable[[], int], terminal: Terminal) -> int:
    """Call `again` now and after each change of the files, until the user stops it, which is no
    failure: exit code 0. `paths` is asked each time: files come and go."""
    try:
        while True:
            seen = _stamps(paths())
            if sys.stdout.isatty():
                sys.stdout.write(_CLEAR)
            again()
            terminal.remark("watching for changes; Ctrl-C ends it")
            while _stamps(paths()) == seen:
                time.sleep(INTERVAL)
    except KeyboardInterrupt:
        return 0


def _stamps(paths: Sequence[Path]) -> _Stamps:
    """When each file that is there was changed, and its size."""
    found: _Stamps = {}
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        found[path] = (status.st_mtime_ns, status.st_size)
    return found
