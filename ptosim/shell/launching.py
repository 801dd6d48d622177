"""What commands that execute a program share: their options, and the choices made of them."""

from __future__ import annotations

import argparse
from dataclasses import fields

from ptosim.ground.records import replace
from ptosim.launch import values
from ptosim.launch.choices import Choices
from ptosim.launch.tolerance import Tolerance
from ptosim.shell import options as shared


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """Options on what a program is launched with."""
    add_inputs(group, "run")
    group.add_argument("--block-num", type=int, metavar="N", help="blocks to launch")
    group.add_argument("--ranks", type=int, metavar="N", help="devices to launch, in one memory")
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
        help="count cycles as well as values (default)",
    )
    group.add_argument("--seed", type=shared.from_zero, help="seed of generated data")


def add_inputs(group: argparse._ArgumentGroup, verb: str) -> None:
    """Options on the function that is run (or timed, or drawn) and its arguments."""
    group.add_argument("--entry", metavar="F", help=f"the function to {verb}")
    group.add_argument("--arg", action="append", default=[], metavar="NAME=SPEC",
                       help="an argument; SPEC: see `ptosim run --help`")  # fmt: skip


def add_trace(group: argparse._ArgumentGroup) -> None:
    """Options on a trace for a viewer."""
    group.add_argument("--trace", metavar="FILE", help="write a Chrome/Perfetto trace")
    group.add_argument(
        "--trace-unit", choices=("cycles", "us"), default="cycles",
        help="its time: a cycle as 1 ns (default), or microseconds of the target's clock",
    )  # fmt: skip


def add_tolerance(group: argparse._ArgumentGroup, of: str) -> None:
    """Options on how far values may be from others."""
    group.add_argument("--rtol", type=float, help=f"relative tolerance of {of}")
    group.add_argument("--atol", type=float, help=f"absolute tolerance of {of}")
    group.add_argument("--ulp", type=int, help=f"tolerance of {of} in units in the last place")


def tolerance(options: argparse.Namespace) -> Tolerance:
    """Return the tolerance that the options ask for."""
    return Tolerance(options.rtol, options.atol, options.ulp)


def choices(options: argparse.Namespace, file: str | None = None) -> Choices:
    """Return what the options ask for, completed by the sidecar of the program; the targets are
    those of `each_target`."""
    names = [f.name for f in fields(Choices) if hasattr(options, f.name)]
    given = {name: getattr(options, name) for name in names}
    given |= {"file": options.file if file is None else file, "target": None}
    pairs = dict(values.split(pair, "--arg") for pair in options.arg)
    return Choices(**given, switches=shared.switches(options.set), args=pairs).completed()


def each_target(options: argparse.Namespace, *, every: bool = False) -> list[Choices]:
    """Return the choices for the targets that are asked for; else for the first one that the
    program is meant for, or for `every` one."""
    chosen = choices(options)
    targets = shared.targets(options.target)
    meant = chosen.sidecar.targets if chosen.sidecar is not None else ()
    if targets == [None] and meant:
        targets = list(meant) if every else [meant[0]]
    return [replace(chosen, target=target) for target in targets]
