"""`ptosim judge JOBS`: many candidates, one verdict each."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

from ptosim.ground.files import lines_of
from ptosim.shell import launching
from ptosim.shell.command import command
from ptosim.shell.options import from_one, from_zero, group, option, switch
from ptosim.shell.streams import write_out
from ptosim.shell.terminal import Terminal, write_file
from ptosim.views.report import Ending
from ptosim.views.table import line

if TYPE_CHECKING:
    from ptosim.tools.search.judge import Verdict

_EPILOG = """A job is one JSON object a line: id, program (a path) or text, and target, entry, args
(SPECs), seeds, inputs, expect {name: {file | python, rtol, atol, ulp}}, limits {instructions,
seconds, memory}. A verdict: id, ok, stage, score, cycles, diagnostics; in the order of the jobs.
The limits below hold for each job that has none of its own. Exit code 1 if a candidate is refused,
2 if a line is no job."""


@command(
    "judge",
    option("jobs_file", metavar="JOBS", help="JSON lines, or `-`"),
    group(
        "work",
        option("-j", "--jobs", type=from_one, metavar="N", help="processes (1)"),
        option(
            "--cluster", metavar="ADDRESS", help="workers of Dask: tcp://host:8786, or local:4"
        ),
        option(
            "--seed", type=from_zero, metavar="N",
            help="draw the fresh inputs from this number (default: others each time)",
        ),
        option(
            "--fresh", type=from_zero, metavar="N",
            help="rounds of fresh inputs for each candidate (default 1)",
        ),
        switch("--times", help="also say the seconds of each job"),
    ),
    forms=("jsonl",),
    epilog=_EPILOG,
)  # fmt: skip
def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Judge every job; verdicts are written as they are ready, into a file at the end."""
    from ptosim.tools.search.engines import engine_of
    from ptosim.tools.search.judge import FRESH, Judge

    lines, folder = _jobs(options.jobs_file)
    fresh = FRESH if options.fresh is None else options.fresh
    engine = engine_of(options.jobs, options.cluster)
    begin = time.monotonic()
    found = _Told(terminal, options.output)
    try:
        judges = Judge(
            engine, options.seed, fresh=fresh, limits=launching.limits_of(options),
            times=options.times,
        )  # fmt: skip
        with terminal.busy("judging", None) as progress:
            for verdict in judges.verdicts(lines, folder):
                found.tell(verdict)
                progress.where = f"job {found.count:,}, {found.ok:,} accepted"
    finally:
        engine.close()
        lines.close()
        found.end()
    if not options.quiet:
        terminal.remark(found.summary(time.monotonic() - begin))
        terminal.end(found.ending())
    return found.exit_code


def _jobs(name: str) -> tuple[Generator[str, None, None], Path | None]:
    if name == "-":
        return lines_of(sys.stdin.buffer, "standard input"), None
    from ptosim.tools.search.judge import read_lines

    return read_lines(Path(name)), Path(name).parent


class _Told:
    """The verdicts so far: written as lines, or kept for the file that they go to."""

    def __init__(self, terminal: Terminal, file: str | None) -> None:
        self._terminal, self._file = terminal, file
        self._lines: list[str] = []
        self._stages: Counter[str] = Counter()
        self._first: Verdict | None = None
        self.exit_code = 0

    @property
    def count(self) -> int:
        """How many verdicts there are."""
        return self._stages.total()

    @property
    def ok(self) -> int:
        """How many candidates were accepted."""
        return self._stages["done"]

    def tell(self, verdict: Verdict) -> None:
        """Write a verdict."""
        self._stages[verdict["stage"]] += 1
        if not verdict["ok"]:
            self._first = self._first or verdict
            is_job = all(d["code"] != "PTO7609" for d in verdict["diagnostics"])
            self.exit_code = max(self.exit_code, 1 if is_job else 2)
        told = f"{line(verdict)}\n"
        if self._file is None:
            write_out(told)
        else:
            self._lines.append(told)

    def end(self) -> None:
        """Write the file, also after an interrupt: what is done stays."""
        if self._file is not None:
            write_file(Path(self._file), "".join(self._lines))

    def ending(self) -> Ending:
        """Return the last line: how many were refused, the first of them, and what to ask next."""
        if self._first is None:
            return Ending(True, f"{self.count:,} candidates, all accepted")
        first, codes = self._first, [d["code"] for d in self._first["diagnostics"]]
        why = f"{first['stage']}{f' ({codes[0]})' if codes else ''}"
        refused = f"{self.count - self.ok:,} of {self.count:,} candidates refused"
        next_ = f"ptosim explain {codes[0]}" if codes else "ptosim help judge"
        return Ending(False, f"{refused}, first {first['id']}: {why}", next_)

    def summary(self, seconds: float) -> str:
        """Return how many candidates got how far, and how fast that was."""
        stages = ", ".join(f"{n:,} {stage}" for stage, n in self._stages.most_common())
        rate = self.count / max(seconds, 1e-3)
        return f"{self.count:,} candidates in {seconds:,.1f} s ({rate:,.0f}/s): {stages or 'none'}"
