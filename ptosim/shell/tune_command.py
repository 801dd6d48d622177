"""`ptosim tune PROGRAM`, `ptosim tune SOURCE --space FILE`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.records import NamedTuple
from ptosim.ground.whole_numbers import whole
from ptosim.launch import values
from ptosim.shell import launching
from ptosim.shell import options as shared
from ptosim.shell.formats import Formats, data, tables
from ptosim.shell.terminal import Terminal, write_file
from ptosim.tools.search.prove import REASSOCIATED
from ptosim.tools.search.space import values_of
from ptosim.tools.search.tune import Tuned, written
from ptosim.tools.search.tune_ask import tune
from ptosim.tools.search.tune_space import SAMPLERS
from ptosim.views.header import heading
from ptosim.views.table import table

_EPILOG = """Without a space the built-in rewrites of PROGRAM are tried: second buffers, flags and
event ids planned anew, redundant synchronisation out, rows in pieces. With --space or --const
SOURCE makes programs (kernel.pto.j2, make.py:kernel, a program with named constants), each tried
with its rewrites. What is given back is equal to the reference: `ptosim help tune` says how that
is proven. Exit code 0 also if nothing faster was found."""
_SHOWN = 8
"""Reasons, and programs that were faster and are not equal."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = _EPILOG
    parser.add_argument("source", metavar="SOURCE", help="a program, or what makes programs")
    parser.add_argument("--target", metavar="T", help="the target to be fast on (default: the "
                        "program's)")  # fmt: skip
    group = parser.add_argument_group("space")
    group.add_argument("--space", metavar="FILE", help="parameters and conditions (TOML)")
    group.add_argument(
        "--const", "--param", dest="const", action="append", default=[], metavar="NAME=V,V",
        help="values of a parameter, or of a constant of a plain program: c16=8,16,32",
    )  # fmt: skip
    group.add_argument("--reference", metavar="PROGRAM", help="what points must be equal to "
                       "(default: the first point)")  # fmt: skip
    group = parser.add_argument_group("search")
    group.add_argument("--trials", type=shared.from_one, default=60, metavar="N",
                       help="programs to price (default 60)")  # fmt: skip
    group.add_argument("--seconds", type=float, metavar="S", help="wall-clock time to search for")
    group.add_argument("--seed", type=shared.from_zero, default=0, metavar="N",
                       help="of the sampler and of data (default 0)")  # fmt: skip
    group.add_argument("--sampler", choices=SAMPLERS, default="tpe", help="of Optuna, for spaces "
                       "of more points than --trials (default tpe)")  # fmt: skip
    group.add_argument("--no-rewrites", action="store_true", help="points as they are")
    group = parser.add_argument_group("launch")
    launching.add_inputs(group, "make faster")
    group.add_argument("--block-num", metavar="N", help="blocks: a number, or an expression of the "
                       "parameters")  # fmt: skip
    _add_proof(parser.add_argument_group("result"))
    shared.add_output(parser, FORMATS)


def _add_proof(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--keep", type=shared.from_one, default=1, metavar="N",
                       help="programs to prove and to give back (default 1)")  # fmt: skip
    group.add_argument("--seeds", type=shared.from_zero, default=3, metavar="N",
                       help="sets of data on which values are compared (default 3)")  # fmt: skip
    group.add_argument("--tolerance", choices=(REASSOCIATED,), default="",
                       help="also take sums of f32 in another order as equal")  # fmt: skip
    group.add_argument("--into", metavar="DIR", help="write the programs there")


class _Report(NamedTuple):
    """What was found, and the files that it was written to."""

    tuned: Tuned
    files: list[Path]


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Search, prove, report, write."""
    _refuse_misuse(options)
    with terminal.busy(f"tuning {options.source}", options.trials, "trials"):
        found = tune(
            options.source, _space(options), reference=options.reference, target=options.target,
            args=dict(values.split(pair, "--arg") for pair in options.arg), entry=options.entry,
            block_num=_blocks(options.block_num), trials=options.trials, seconds=options.seconds,
            seed=options.seed, sampler=options.sampler, keep=options.keep, seeds=options.seeds,
            tolerance=options.tolerance, rewrites=not options.no_rewrites,
        )  # fmt: skip
    files: list[Path] = []
    if options.into:
        files = _write(found, Path(options.into))
    terminal.report(_Report(found, files))
    return 0


def _write(found: Tuned, folder: Path) -> list[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(f"--into: cannot make {folder}: {problem.strerror}") from problem
    files = written(found, folder)
    for path, text in files:
        write_file(path, text)
    return [path for path, _ in files]


def _refuse_misuse(options: argparse.Namespace) -> None:
    makes = options.source.endswith((".j2", ".jinja", ".jinja2")) or ".py:" in options.source
    has_space = bool(options.space or options.const)
    if makes and not has_space:
        raise UsageError(f"{options.source} makes programs of a space", help="--space FILE")
    if options.reference and not has_space:
        raise UsageError("--reference is for points of a space", help="a program is its own")
    if options.seconds is not None and not options.seconds > 0:
        raise UsageError("--seconds takes a time above 0")
    if options.into and Path(options.into).is_file():
        raise UsageError(f"--into takes a folder, and {options.into} is a file")


def _blocks(text: str | None) -> int | str | None:
    """A number, or an expression of the parameters."""
    number = whole(text) if text is not None else None
    return text if number is None else number


def _space(options: argparse.Namespace) -> Any:
    pairs = dict(values.split(pair, "--const") for pair in options.const)
    given = {n: values_of(n, [_value(v) for v in t.split(",")]) for n, t in pairs.items()}
    if options.space and given:
        raise UsageError("--space and --const are two spaces", help="give one of them")
    return options.space or given or None


def _value(word: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(word.strip())
        except ValueError:
            continue
    return word.strip()


# -- report ----------------------------------------------------------------------------------------


def _parts(report: _Report) -> Iterator[object]:
    found = report.tuned
    program, launch = found.reference.program, found.reference.launch
    yield heading(program, program.entry(launch.entry))
    yield (
        f"tune {found.name}: {found.trials:,} programs tried, "
        f"{sum(found.refused.values()):,} refused, "
        f"{found.pruned:,} left out by the bound of their busiest pipe"
    )
    yield table(
        "programs", ("what", ">cycles", ">busiest pipe", ">times as fast", ">blocks"), _rows(found),
        drop=("blocks",),
    )  # fmt: skip
    yield from _told(report)
    if found.refused:
        yield _reasons("refused", found.refused)
    if not found.best and found.idle:
        yield _reasons("rewrites that did not apply", found.idle)


def _reasons(title: str, reasons: dict[str, int]) -> object:
    rows = sorted(reasons.items(), key=lambda r: (-r[1], r[0]))[:_SHOWN]
    return table(title, (">times", "why"), [(f"{count:,}", reason) for reason, count in rows])


def _rows(found: Tuned) -> list[tuple[str, ...]]:
    start = found.reference
    blocks = f"{start.launch.block_num}"
    rows = [("reference", f"{start.cycles:,}", f"{start.bound:,}", "1.00", blocks)]
    for number, one in enumerate(found.best, 1):
        made = one.candidate
        rows.append(
            (
                f"{number}: {made.name}",
                f"{made.cycles:,}",
                f"{made.bound:,}",
                f"{found.speed_up(one):.2f}",
                f"{made.launch.block_num}",
            )
        )
    return rows


def _told(report: _Report) -> Iterator[str]:
    found = report.tuned
    if not found.best:
        yield "\nnothing faster was found that is equal\n"
    for number, one in enumerate(found.best, 1):
        sign = "✓" if one.verdict.is_proven else "?"
        yield f"{sign} {number}: {one.verdict}"
        if one.verdict.is_proven:
            yield f"  {one.verdict.proof.why}; {one.verdict.proof.elements:,} elements compared"
    for one in found.rejected[:_SHOWN]:
        yield f"✗ {one.candidate.name} ({one.candidate.cycles:,} cycles): {one.verdict}"
    for path in report.files:
        yield f"written: {path}"


def _fields(report: _Report) -> dict[str, Any]:
    return {**report.tuned.to_dict(), "files": [str(path) for path in report.files]}


FORMATS: Formats[_Report] = {"text": tables(_parts), "json": data(_fields)}
