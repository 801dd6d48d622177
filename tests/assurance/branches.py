"""`python -m tests.assurance.branches [--data FOLDER] [PYTEST…]`: branch coverage by room.

The tests run in this process under `coverage` (extra `[dev]`), each as a context of its own, so that the
record also says which tests execute a line and how long each takes: the mutation score
(`tests.assurance.mutation`) runs those alone. What commands execute in processes of their own is not seen."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.support.paths import TREE

DATA, SECONDS = "branches.coverage", "seconds.json"
QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""This process has loaded ptosim before pytest does, which is what is measured."""


class Recorder:
    """Makes each test a context, and notes its seconds of processor time."""

    def __init__(self, record: coverage.Coverage) -> None:
        self.record = record
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        self.record.switch_context(item.nodeid)
        begun = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.process_time() - begun


def measure(folder: Path, words: list[str]) -> int:
    """Run the tests and keep what they execute in `folder`. Returns pytest's exit code."""
    record = coverage.Coverage(
        data_file=str(folder / DATA), branch=True, source=[str(TREE / "ptosim")], messages=False
    )
    recorder = Recorder(record)
    record.start()
    try:
        code = pytest.main(
            ["-q", "-n", "0", "-p", "no:cacheprovider", *QUIET, *words], plugins=[recorder]
        )
    finally:
        record.stop()
        record.save()
    (folder / SECONDS).write_text(json.dumps(recorder.seconds), encoding="utf-8")
    return int(code)


def by_room(folder: Path) -> dict[str, tuple[int, int]]:
    """Return for each room its branches and how many of them were taken."""
    record = coverage.Coverage(data_file=str(folder / DATA), branch=True)
    record.load()
    out = folder / "branches.json"
    record.json_report(outfile=str(out), ignore_errors=True)
    total, taken = Counter[str](), Counter[str]()
    for file, found in json.loads(out.read_text(encoding="utf-8"))["files"].items():
        room = room_of(file)
        total[room] += found["summary"]["num_branches"]
        taken[room] += found["summary"]["covered_branches"]
    return {room: (total[room], taken[room]) for room in sorted(total)}


def room_of(file: str) -> str:
    """The room of a file of ptosim; `ptosim` for the few at its top."""
    parts = Path(file).parts
    below = parts[len(parts) - parts[::-1].index("ptosim") :]
    return below[0] if len(below) > 1 else "ptosim"


def main() -> int:
    """Run the tests, print the table as rows of runs.toml."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("/tmp/ptosim-branches"))
    folder, words = (parsed := parser.parse_known_args())[0].data, parsed[1]
    folder.mkdir(parents=True, exist_ok=True)
    code = measure(folder, words)
    for room, (total, taken) in by_room(folder).items():
        sys.stdout.write(f'[[branches]]\nroom = "{room}"\nall = {total}\ntaken = {taken}\n\n')
    return code


if __name__ == "__main__":
    sys.exit(main())
