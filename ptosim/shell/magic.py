"""`%load_ext ptosim`: programs as cells of a notebook, and commands as lines.

    %%pto kernel --target a5 --run
    module { … }

loads the cell as a program, binds it to `kernel`, and runs it on the arrays of the notebook that
have the names of its arguments (`kernel_result`). `%pto cost @basics/vadd` is a command line."""

from __future__ import annotations

import argparse
import shlex
from typing import Any, NoReturn

from ptosim.debug.program import Program
from ptosim.ground.diagnostics.model import Findings, ProgramError
from ptosim.ground.errors import PtosimError, UsageError
from ptosim.tools import api


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise what is wrong with the line; a notebook goes on."""
        raise UsageError(f"%%pto: {message}")


def _parser() -> _Parser:
    parser = _Parser(prog="%%pto", add_help=False)
    parser.add_argument("name", nargs="?", default="program")
    for option in ("target", "profile", "sync", "compat", "entry"):
        parser.add_argument(f"--{option}")
    parser.add_argument("--level", type=int)
    what = parser.add_mutually_exclusive_group()
    for option in ("run", "cost", "map", "check"):
        what.add_argument(f"--{option}", action="store_const", dest="what", const=option)
    return parser


def load_ipython_extension(shell: Any) -> None:
    """Add `%%pto` and `%pto` to a session of IPython (`%load_ext ptosim`)."""

    def cell_magic(line: str, cell: str) -> object:
        """Load the cell as a program: %%pto [NAME] [--target T] [--run | --cost | --map]."""
        try:
            return _cell(shell, line, cell)
        except ProgramError as problem:
            return Findings(problem.diagnostics)
        except PtosimError as problem:
            print(f"error: {problem}")
            return None

    def line_magic(line: str) -> None:
        """Run a command: %pto cost @basics/vadd. What has a page is drawn."""
        try:
            words = _words(line)
        except UsageError as problem:
            print(f"error: {problem}")
            return
        from IPython.display import display

        from ptosim.shell.main import main

        def draws(text: str, html: str) -> None:
            display({"text/plain": text, "text/html": html}, raw=True)

        main(words, draws)

    shell.register_magic_function(cell_magic, magic_kind="cell", magic_name="pto")
    shell.register_magic_function(line_magic, magic_kind="line", magic_name="pto")


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as problem:
        raise UsageError(f"`{line.strip()}`: a quotation mark is not closed") from problem


def _cell(shell: Any, line: str, cell: str) -> object:
    chosen = _parser().parse_args(_words(line))
    given = {k: getattr(chosen, k) for k in ("target", "level", "profile", "sync", "compat")}
    if chosen.what == "check":
        given["profile"] = given["profile"] or "hw"
        return api.check(cell, filename=f"{chosen.name}.pto", **given)
    program = api.load(cell, filename=f"{chosen.name}.pto", **given)
    shell.user_ns[chosen.name] = program
    if chosen.what is None:
        return program
    args = _arguments(program, chosen.entry, shell.user_ns)
    calls = {"run": program.run, "cost": program.cost, "map": program.map}
    result = calls[chosen.what](args=args, entry=chosen.entry)
    shell.user_ns[f"{chosen.name}_{'result' if chosen.what == 'run' else chosen.what}"] = result
    return result


def _arguments(program: Program, entry: str | None, names: dict[str, Any]) -> dict[str, Any]:
    """The arrays and numbers of the notebook that have the names of arguments."""
    import numpy as np

    taken = (np.ndarray, np.generic, int, float)
    wanted = [argument.name for argument in program.signature(entry)]
    return {name: names[name] for name in wanted if isinstance(names.get(name), taken)}
