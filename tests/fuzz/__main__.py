"""`python -m tests.fuzz --seconds N --seed S [--out FOLDER]`: changed inputs through the commands.

With `--sweep numbers` (or another kind) each one of the corpus is changed in turn, with `--sweep files`
each part of the files that are no programs;
with `--sweep commands` none is, and every command is tried. With `--same` programs are executed in
ways that must do the same (`tests/fuzz/differential.py`).

Inputs are programs of all levels, shipped and made at random, and files of every other kind that a
command reads. Every finding is one that must not be: a traceback, an exit code that no page of the
manual names, a printed form that is not read back, a case without an end or with more than 1 GB. It
is written to a file of its own, as short as it can be made; exit code 1 says that there is one."""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from ptosim.shell import main as command_line
from ptosim.shell.main import _Parser
from ptosim.shell.options import NO_CACHE
from ptosim.shell.quant_options import SUBCOMMANDS
from tests.fuzz.corpus import seeds
from tests.fuzz.kinds import WEIGHTS
from tests.fuzz.limits import limit_addresses
from tests.fuzz.session import Session
from tests.fuzz.sweeps import ALL, KINDS, swept


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=10**9, help="stop after so many inputs")
    parser.add_argument("--out", type=Path, help="folder of findings; default: a new one")
    parser.add_argument("--sweep", choices=KINDS, help="change each of these in turn")
    parser.add_argument("--kind", choices=WEIGHTS, help="try files of this kind alone")
    parser.add_argument(
        "--same", action="store_true", help="execute programs in ways that must do the same"
    )
    parser.add_argument("--only", default="", help="seeds with this in their name")
    parser.add_argument("--patience", type=float, default=30, help="seconds to make one shorter")
    parser.add_argument("--every", type=float, default=600, help="seconds between reports")
    return parser.parse_args()


def _prepare() -> None:
    """An internal error is raised, with its place. What every command line would set up anew is
    set up once: text of the options is not translated, the options of a command are made once, and
    what is loaded is not looked through for cycles again and again."""
    os.environ["PTOSIM_TRACEBACK"] = "1"
    os.environ["COLUMNS"] = "80"
    vars(argparse)["_"] = lambda text: text
    vars(argparse)["ngettext"] = lambda one, many, count: one if count == 1 else many
    warnings.simplefilter("ignore")
    command_line._parser = _kept(command_line._parser)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    faulthandler.enable()
    limit_addresses()


def _kept(make: Callable[[Sequence[str]], _Parser]) -> Callable[[Sequence[str]], _Parser]:
    """The parser of a command line, made once for each command: it is in the first word, a
    subcommand of `quant` in the second, and a parser has the options of what it is made for."""
    made: dict[tuple[str, ...], _Parser] = {}

    def parser(argv: Sequence[str]) -> _Parser:
        if not argv or argv[0] not in command_line.COMMANDS or NO_CACHE in argv:
            return make(argv)
        key = (*argv[:1], *(w for w in argv[1:2] if argv[0] == "quant" and w in SUBCOMMANDS))
        if key not in made:
            made[key] = make(argv)
        return made[key]

    return parser


def main() -> int:
    """Change and try until the time is over."""
    options = _options()
    _prepare()
    out = options.out or Path(tempfile.mkdtemp(prefix="ptosim-fuzz-"))
    known = [s for s in seeds() if options.only in s.name]
    with tempfile.TemporaryDirectory(prefix="ptosim-fuzz-", dir=_fast_folder()) as work:
        session = Session(known, Random(options.seed), out.absolute(), options.patience, Path(work))
        return _go_on(session, options)


def _go_on(session: Session, options: argparse.Namespace) -> int:
    start = told = time.monotonic()
    count = 0
    examine = session.try_all if options.sweep == ALL else session.examine
    sweep = swept(options.sweep, session.seeds, session.rng) if options.sweep else None
    while time.monotonic() - start < options.seconds and count < options.inputs:
        if options.same:
            session.compare()
        elif sweep is None:
            session.step(options.kind)
        elif (case := next(sweep, None)) is not None:
            examine(case)
        else:
            break
        count = sum(session.inputs.values()) if options.same else count + 1
        if time.monotonic() - told > options.every:
            told = time.monotonic()
            session.report(told - start)
            sys.stdout.flush()
    session.report(time.monotonic() - start)
    return 1 if session.found else 0


def _fast_folder() -> str | None:
    """A folder in memory, where the system has one: a file takes a tenth of the time."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


sys.exit(main())
