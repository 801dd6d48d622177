"""`check --fix` and `--diff`: the diff first, then the file."""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path

from ptosim.ground.diagnostics.fix import Check, repair
from ptosim.ground.errors import UsageError
from ptosim.ground.source import Source, with_line_feeds
from ptosim.launch.sources import open_file, source_path
from ptosim.shell.terminal import Terminal, write_file


def fix(
    name: str, source: Source, check: Check, terminal: Terminal, options: argparse.Namespace
) -> Source:
    """Show what the fix-its of a file change, write it with --fix, and return the text to report
    on. Raises UsageError for what is no file of the user's, or one that changed meanwhile."""
    if source.part and not name.endswith(f"#{source.part}"):
        source = open_file(f"{name}#{source.part}")  # the parts before it may have changed
    if name == "-" or name.startswith("@"):
        what = "standard input" if name == "-" else "a shipped program"
        if options.fix:
            raise UsageError(f"--fix rewrites files; {what} is none", help="use --diff")
    repaired = repair(source, check)
    for finding, reason in repaired.stuck:
        place = f" in line {finding.span.line}" if finding.span is not None else ""
        terminal.remark(f"the fix-it of {finding.code}{place} does not apply: {reason}")
    if not repaired.fixed:
        terminal.remark(f"{source.label}: no fix-its to apply")
        return source
    terminal.aside(_diff(source, repaired.source))
    if options.diff:
        return source
    path = source_path(name)
    mark = byte_order_mark(path, source)
    write_file(path, mark + repaired.source.whole)
    count = len(repaired.fixed)
    terminal.remark(f"{source.label}: {count} fix-it{'s' if count != 1 else ''} applied")
    return repaired.source


def byte_order_mark(path: Path, source: Source) -> str:
    """Return the mark that a file begins with, mostly none. Raises UsageError for a file that
    changed meanwhile."""
    text = with_line_feeds(path.read_bytes().decode("utf-8", "replace"))
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    if text.removeprefix(mark) != source.whole:
        raise UsageError(
            f"{path} changed while it was checked: nothing of it holds any more",
            help="nothing was written; run the command again",
        )
    return mark


def _diff(before: Source, after: Source) -> str:
    """As git writes it: `patch -p1` takes it in the folder that the names begin in."""
    lines = difflib.unified_diff(
        before.whole.splitlines(keepends=True),
        after.whole.splitlines(keepends=True),
        f"a/{before.name.lstrip('/')}",
        f"b/{after.name.lstrip('/')}",
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
