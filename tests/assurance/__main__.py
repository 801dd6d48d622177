"""`python -m tests.assurance [--write]`: the page of the manual that says how ptosim is tested.

Made in CI, from what the tree has (counted) and from `runs.toml` (what was measured once, with its date)."""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator
from typing import Any

from ptosim.ground.isa.rows import isa
from tests.support.paths import TREE

PAGE = TREE / "ptosim/manual/assurance.md"
RUNS = TREE / "tests/assurance/runs.toml"
_HEAD = """# How it is tested

This page is made by `python -m tests.assurance --write` from the tree and from the record of long runs; the
gate makes it anew, and tests refuse one that says something else of promises and runs.

## Promises, and what breaks if one is not kept

| promise | tests |
|---|---|
"""
_MEASURED = """
## What the tests execute, and what they notice

`python -m tests.assurance.branches` takes the branches of each room that the tests of the fast tier take
(what commands execute in processes of their own is not seen); `python -m tests.assurance.mutation` draws
places inside of functions, changes each (a comparison, an operator, a constant, a condition, a result), and
runs the 24 quickest of the fast tier's tests that execute its line. A change that none of them executes, and
one that means the same, count as missed: the whole suite finds more.

| room | branches | taken | changes | found |
|---|---:|---:|---:|---:|
"""


def page() -> str:
    """Return the page in Markdown."""
    known = tomllib.loads(RUNS.read_text(encoding="utf-8"))
    return "".join(
        (
            _HEAD,
            *map(_promise, known["promise"]),
            *_counts(),
            *_fuzz(known["fuzz"]),
            *_mutants(known["mutants"]),
            *_measured(known),
        )
    )


def _promise(row: dict[str, Any]) -> str:
    return f"| {row['text']} | {', '.join(f'`{t}`' for t in row['tests'])} |\n"


def _counts() -> Iterator[str]:
    yield "\n## What the tree has\n\n| what | how many |\n|---|---:|\n"
    digests = (TREE / "tests/frozen/digests.txt").read_text(encoding="utf-8").count("\n")
    executed = (TREE / "tests/fuzz/executed").glob("*")
    rows = {
        "operations with a row": len(isa().names()),
        "files of tests": _files("tests", "test_*.py"),
        "shipped programs": _files("programs", "*.pto"),
        "inputs that once went wrong (`tests/regress`)": _files("tests/regress", "*.*") - 1,
        "texts with the verdict they must get (`tests/filecheck`)": _files(
            "tests/filecheck", "*.pto"
        ),
        "frozen digests": digests,
        "files of the fuzzer's own corpus": sum(1 for _ in executed),
    }
    yield from (f"| {what} | {count:,} |\n" for what, count in rows.items())


def _files(folder: str, pattern: str) -> int:
    found = (p for p in (TREE / folder).rglob(pattern) if "__pycache__" not in p.parts)
    return sum(1 for p in found if p.is_file())


def _fuzz(runs: list[dict[str, Any]]) -> Iterator[str]:
    yield "\n## Changed inputs\n\n| date | seeds | inputs | findings | |\n|---|---|---:|---:|---|\n"
    for run in runs:
        yield (
            f"| {run['date']} | {run['seeds']} | {run['inputs']:,} | {run['findings']} | "
            f"{run['what']} |\n"
        )
    yield (
        f"\n{sum(run['inputs'] for run in runs):,} inputs in all. A finding is an exit code that no page "
        "names, a traceback, a hang of 20 s, a gigabyte, or a printed program that is not read back.\n"
    )


def _mutants(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield (
        "\n## Changed places, extents and fills\n\nShipped programs on tiles, pointers, vector registers "
        "and logical vectors, as they are and with addresses in their text, of which one line is "
        "changed.\nTold is a finding, a refusal or a stop; in part is a result of which "
        "`Result.definedness` says what has no value; harmless gives the same bytes with\nmemory that "
        "nothing wrote filled in two ways (of random programs: is right by an account that shares no "
        "code). The rest computes\nsomething else of bytes that all have values of their own: only "
        "what is expected of it tells.\n\n| changed | programs | told | in part | harmless | the rest "
        "|\n|---|---:|---:|---:|---:|---:|\n"
    )
    for row in rows:
        yield f"| {row['kind']} | {' | '.join(f'{n:,}' for n in row['counts'])} |\n"


def _measured(known: dict[str, Any]) -> Iterator[str]:
    yield _MEASURED
    changes = {row["room"]: row for row in known.get("mutation", [])}
    for row in known.get("branches", []):
        made = changes.get(row["room"], {"all": 0, "found": 0})
        yield (
            f"| {row['room']} | {row['all']:,} | {_share(row['taken'], row['all'])} | "
            f"{made['all']:,} | {_share(made['found'], made['all'])} |\n"
        )


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def main() -> int:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the page of the manual")
    if parser.parse_args().write:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
