"""`python -m tests.assurance [--write]`: the page of the manual that says how ptosim is tested.

Made from what the tree has (counted) and from `runs.toml` (what was measured once, with its date)."""

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
gate refuses one that is out of date.

## Promises, and what breaks if one is not kept

| promise | tests |
|---|---|
"""
_MEASURED = """
## What the tests execute, and what they notice

`python -m tests.assurance.branches` takes the branches of each room that the tests of the fast tier take
(what commands execute in processes of their own is not seen); `python -m tests.assurance.mutation` draws
places inside of functions, changes each (a comparison, an operator, a constant, a condition, a result), and
runs the tests that execute its line. A change that none of them executes, and one that means the same, count
as missed.

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
