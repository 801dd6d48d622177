"""`python -m tests.fuzz --seconds N --seed S [--out FOLDER]`: changed inputs through the commands.

Inputs are programs of all levels, shipped and made at random, and files of every other kind that a
command reads. Every finding is one that must not be: a traceback, an exit code that no page of the
manual names, a printed form that is not read back, a case without an end or with more than 1 GB. It
is written to a file of its own, as short as it can be made; exit code 1 says that there is one."""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from random import Random

from tests.fuzz.corpus import seeds
from tests.fuzz.limits import limit_addresses
from tests.fuzz.session import Session


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=10**9, help="stop after so many inputs")
    parser.add_argument("--out", type=Path, help="folder of findings; default: a new one")
    parser.add_argument("--only", default="", help="seeds with this in their name")
    parser.add_argument("--patience", type=float, default=30, help="seconds to make one shorter")
    parser.add_argument("--every", type=float, default=600, help="seconds between reports")
    return parser.parse_args()


def _prepare() -> None:
    """An internal error is raised, with its place; text of the options is not translated (to look
    for translations takes a third of the time of a short command)."""
    os.environ["PTOSIM_TRACEBACK"] = "1"
    os.environ["COLUMNS"] = "80"
    vars(argparse)["_"] = lambda text: text
    vars(argparse)["ngettext"] = lambda one, many, count: one if count == 1 else many
    warnings.simplefilter("ignore")
    faulthandler.enable()
    limit_addresses()


def main() -> int:
    """Change and try until the time is over."""
    options = _options()
    _prepare()
    out = options.out or Path(tempfile.mkdtemp(prefix="ptosim-fuzz-"))
    known = [s for s in seeds() if options.only in s.name]
    session = Session(known, Random(options.seed), out.absolute(), options.patience)
    start = told = time.monotonic()
    count = 0
    while time.monotonic() - start < options.seconds and count < options.inputs:
        session.step()
        count += 1
        if time.monotonic() - told > options.every:
            told = time.monotonic()
            session.report(told - start)
            sys.stdout.flush()
    session.report(time.monotonic() - start)
    return 1 if session.found else 0


sys.exit(main())
