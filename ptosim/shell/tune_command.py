"""`ptosim tune PROGRAM`, `ptosim tune SOURCE --space FILE`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.records import replace
from ptosim.ground.words import whole
from ptosim.shell import launching
from ptosim.shell.command import command
from ptosim.shell.options import (
    CERTIFICATE,
    SPACE,
    from_one,
    from_zero,
    group,
    inputs,
    option,
    switch,
)
from ptosim.shell.streams import EXIT_INTERRUPTED
from ptosim.shell.terminal import Terminal, write_file
from ptosim.tools.search.prove import REASSOCIATED
from ptosim.tools.search.space import values_of
from ptosim.tools.search.tune import Candidate, Tuned, written
from ptosim.tools.search.tune_ask import tune
from ptosim.tools.search.tune_space import INTERRUPTED, SAMPLERS
from ptosim.views.header import header, header_line
from ptosim.views.report import Report, Section
from ptosim.views.table import Part, Text, number, table

_EPILOG = """Without a space the built-in rewrites of PROGRAM are tried: second buffers, flags and
event ids planned anew, redundant synchronisation out, rows in pieces. With --space or --const
SOURCE makes programs (kernel.pto.j2, make.py:kernel, a program with named constants), each tried
with its rewrites. What is given back is equal to the reference: `ptosim help tune` says how that
is proven. Exit code 0 also if nothing faster was found."""
_SHOWN = 8
"""Reasons, and programs that were faster and are not equal."""


@command(
    "tune",
    option("source", metavar="SOURCE", help="a program, or what makes programs"),
    option("--target", metavar="T", help="the target to be fast on (default: the program's)"),
    group(
        "space",
        SPACE,
        option(
            "--reference", metavar="PROGRAM",
            help="what points must be equal to (default: the first point)",
        ),
    ),
    group(
        "search",
        option("--trials", type=from_one, default=60, metavar="N",
               help="programs to price (default 60)"),
        option("--seconds", type=float, metavar="S", help="wall-clock time to search and prove"),
        option("--seed", type=from_zero, default=0, metavar="N",
               help="of the sampler and of data (default 0)"),
        option("--sampler", choices=SAMPLERS, default="tpe",
               help="of Optuna, for spaces of more points than --trials (default tpe)"),
        switch("--no-rewrites", help="points as they are"),
    ),
    group(
        "launch",
        inputs("make faster"),
        option("--block-num", metavar="N",
               help="blocks: a number, or an expression of the parameters"),
    ),
    group(
        "result",
        option("--keep", type=from_one, default=1, metavar="N",
               help="programs to prove and to give back (default 1)"),
        option("--seeds", type=from_zero, default=3, metavar="N",
               help="sets of data on which values are compared (default 3)"),
        option("--tolerance", choices=(REASSOCIATED,), default="",
               help="also take sums of f32 in another order as equal"),
        option("--into", metavar="DIR", help="write the programs there"),
        CERTIFICATE,
    ),
    forms=("text", "json", "html"),
    epilog=_EPILOG,
)  # fmt: skip
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Search, prove, report, write."""
    _refuse_misuse(options)
    with terminal.busy(f"tuning {options.source}", options.trials, "trials"):
        found = tune(
            options.source, _space(options), reference=options.reference, target=options.target,
            args=launching.pairs(options.arg), entry=options.entry,
            block_num=_blocks(options.block_num), trials=options.trials, seconds=options.seconds,
            seed=options.seed, sampler=options.sampler, keep=options.keep, seeds=options.seeds,
            tolerance=options.tolerance, rewrites=not options.no_rewrites,
        )  # fmt: skip
    files: list[Path] = []
    if options.into:
        files = _write(found, Path(options.into))
    if options.certificate:
        _certify(found, options.certificate, terminal)
    program = found.reference.program
    entry = program.entry(found.reference.launch.entry)

    def page() -> list[Section]:
        from ptosim.views.program_page import Beside, beside

        tried = [("reference", found.reference), *_named(found)]
        shown = [Beside(name, one.program, one.launch.report(one.program)) for name, one in tried]
        return [Section("Result", lambda _: _parts(found, files)), *beside(shown)]

    return Report(
        [Section("", lambda _: _parts(found, files))],
        lambda: {**found.to_dict(), "files": [str(path) for path in files]},
        page=page,
        title=f"Tune {found.name}",
        heads=[header_line(header(program, entry))],
        exit_code=EXIT_INTERRUPTED if found.stopped == INTERRUPTED else 0,
    )


def _certify(found: Tuned, path: str, terminal: Terminal) -> None:
    """Write the certificate of the fastest program. Raises UsageError if it has no proof."""
    from ptosim.shell.diff_command import certify

    if not found.best or not found.best[0].verdict.is_proven:
        raise UsageError("--certificate: there is no program that is proven equal")
    one, two = found.reference, found.best[0].candidate
    first, second = one.launch.of(one.program), two.launch.of(two.program)
    certify(first, second if second.args else replace(second, args=first.args), path, terminal)


def _named(found: Tuned) -> list[tuple[str, Candidate]]:
    return [(f"{at}: {one.candidate.name}", one.candidate) for at, one in enumerate(found.best, 1)]


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
    pairs = launching.pairs(options.const, "--const")
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


def _parts(found: Tuned, files: list[Path]) -> Iterator[Part]:
    yield Text(
        f"tune {found.name}: {found.trials:,} programs tried, "
        f"{sum(found.refused.values()):,} refused, "
        f"{found.pruned:,} left out by the bound of their busiest pipe"
    )
    faster = number("times as fast", ".2f")
    columns = ("what", number("cycles"), number("busiest pipe"), faster, ">blocks")
    yield table("programs", columns, _rows(found), drop=("blocks",))
    yield from (Text(line) for line in _best_lines(found, files))
    if found.refused:
        yield _reasons("refused", found.refused)
    if not found.best and found.idle:
        yield _reasons("rewrites that did not apply", found.idle)


def _reasons(title: str, reasons: dict[str, int]) -> Part:
    rows = sorted(reasons.items(), key=lambda r: (-r[1], r[0]))[:_SHOWN]
    return table(title, (number("times"), "why"), [(count, reason) for reason, count in rows])


def _rows(found: Tuned) -> Iterator[tuple[object, ...]]:
    start = found.reference
    yield "reference", start.cycles, start.bound, 1.0, str(start.launch.block_num)
    for at, one in enumerate(found.best, 1):
        made = one.candidate
        name, blocks = f"{at}: {made.name}", made.launch.block_num
        yield name, made.cycles, made.bound, found.speed_up(made), str(blocks)
    for at, made in enumerate(found.open, len(found.best) + 1):
        name, blocks = f"{at}: {made.name}", made.launch.block_num
        yield name, made.cycles, made.bound, found.speed_up(made), str(blocks)


def _best_lines(found: Tuned, files: list[Path]) -> Iterator[str]:
    if found.stopped:
        yield f"\n{found.stopped}; this is what was known by then"
    if not found.best and not found.open:
        yield "\nnothing faster was found that is equal\n"
    for at, one in enumerate(found.best, 1):
        sign = "✓" if one.verdict.is_proven else "?"
        yield f"{sign} {at}: {one.verdict}"
        if one.verdict.is_proven:
            yield f"  {one.verdict.proof.why}; {one.verdict.proof.elements:,} elements compared"
    for at, one in enumerate(found.open, len(found.best) + 1):
        yield f"? {at}: {one.name}: not compared with the reference any more"
    for one in found.rejected[:_SHOWN]:
        yield f"✗ {one.candidate.name} ({one.candidate.cycles:,} cycles): {one.verdict}"
    for path in files:
        yield f"written: {path}"
