"""What commands that execute a program share: options, the program itself, its arguments."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Mapping
from typing import Any

from ptosim import api
from ptosim.cli import options as shared
from ptosim.cli import values
from ptosim.cli.sources import open_source, source_path
from ptosim.debug.program import Program
from ptosim.run.launch import MAX_INSTRUCTIONS
from ptosim.run.sidecar import Sidecar, sidecar_of


def add_arguments(group: Any) -> None:
    """Options on what a program is launched with."""
    group.add_argument("--entry", metavar="F", help="the function to run")
    group.add_argument("--arg", action="append", default=[], metavar="NAME=SPEC")
    group.add_argument("--block-num", type=int, metavar="N", help="blocks to launch")
    group.add_argument("--uninit", choices=("poison", "zero", "random"), default="poison")
    group.add_argument("--commit", choices=("program", "retire"), default="program")
    group.add_argument(
        "--sanitize",
        default="all",
        metavar="LIST",
        help="all (default), none, or of races,bounds,defined,budget,flags,quant",
    )
    group.add_argument(
        "--timing",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="count cycles beside the values (default)",
    )
    group.add_argument("--seed", type=int, help="seed of made-up data")


def add_limit(group: argparse._ArgumentGroup) -> None:
    """Declare the limit of a run; exceeding it is exit code 6."""
    group.add_argument(
        "--max-instructions",
        type=int,
        default=MAX_INSTRUCTIONS,
        metavar="N",
        help=f"stop a program that has not ended by then (default {MAX_INSTRUCTIONS:,})",
    )


def sidecar(options: argparse.Namespace) -> Sidecar | None:
    """Return what lies beside the program, None if nothing does."""
    return None if options.file == "-" else sidecar_of(source_path(options.file))


def load(options: argparse.Namespace, target: str | None, beside: Sidecar | None) -> Program:
    """Return the program that the options name, for a target.

    The program lives as long as the process, so the garbage collector need not go through it again
    and again; with thousands of operations each time would take a tenth of a second.
    """
    defaults = beside.options if beside is not None else {}
    source = open_source(options.file)
    profile = options.profile
    program = api.load(
        source,
        target=target,
        level=options.level or defaults.get("level"),
        profile=defaults.get("profile", profile) if profile == "hw" else profile,
        sync=options.sync or defaults.get("sync"),
        switches=shared.switches(options.set),
    )
    gc.freeze()
    return program


def targets(options: argparse.Namespace, beside: Sidecar | None) -> list[str | None]:
    """Return the targets that are asked for; else the first one that the program is meant for."""
    asked = shared.targets(options.target)
    if asked == [None] and beside is not None and beside.targets:
        return [beside.targets[0]]
    return asked


def arguments(options: argparse.Namespace, beside: Sidecar | None) -> dict[str, Any]:
    """Return the arguments beside the program, and those of the command line over them."""
    args: dict[str, Any] = {}
    if beside is not None:
        args.update({n: values.parse_spec(s, beside.folder) for n, s in beside.args.items()})
    for pair in options.arg:
        name, spec = values.split(pair, "--arg")
        args[name] = values.parse_spec(spec)
    return args


def block_num(options: argparse.Namespace, defaults: Mapping[str, Any]) -> int:
    """Return the blocks of a launch: those asked for, else those beside the program, else one."""
    return defaults.get("block_num", 1) if options.block_num is None else options.block_num


def run_options(options: argparse.Namespace, beside: Sidecar | None) -> dict[str, Any]:
    """Return the keyword arguments of `Program.run` and `Program.debug`."""
    defaults = beside.options if beside is not None else {}
    return {
        "block_num": block_num(options, defaults),
        "sanitize": options.sanitize,
        "timing": options.timing,
        "commit": options.commit,
        "uninit": options.uninit,
        "seed": options.seed if options.seed is not None else defaults.get("seed", 0),
    }
