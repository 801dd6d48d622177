"""`ptosim sweep SOURCE`: every point of a space of parameters, on every target."""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
from pathlib import Path
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.paths import programs_directory
from ptosim.ground.limits import Limits
from ptosim.ground.records import NamedTuple
from ptosim.ground.version import __version__
from ptosim.ground.whole_numbers import number_in
from ptosim.language.targets import check_target_word
from ptosim.launch import values
from ptosim.shell import launching
from ptosim.shell import options as shared
from ptosim.shell.formats import Formats, data, text
from ptosim.shell.terminal import Terminal, write_file
from ptosim.tools.search.engines import engine_of
from ptosim.tools.search.pareto import Change, changes, read_rows
from ptosim.tools.search.point import Row
from ptosim.tools.search.point_recipe import Recipe
from ptosim.tools.search.source import maker_of
from ptosim.tools.search.space import Space, values_of
from ptosim.tools.search.store import Store, default_store
from ptosim.tools.search.sweep import TARGETS, Plan, Sweep, execute, recipe_of
from ptosim.views import sweep_page, sweep_tables
from ptosim.views.json_text import line
from ptosim.views.text import Text

_EPILOG = """SOURCE is a Jinja2 template (kernel.pto.j2), a function (make.py:kernel), a program
whose constants --const or the space name, or the rows of an earlier sweep (rows.jsonl). What was
computed is kept: a sweep that was stopped goes on. Exit code 1: worse than --baseline. `ptosim help
sweep` has the form of the space."""
FEW = 24
"""Rows that are computed in this process unless somebody says how many are to work."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = _EPILOG
    parser.add_argument("source", metavar="SOURCE", help="what makes the programs, or rows.jsonl")
    group = parser.add_argument_group("space")
    group.add_argument("--space", metavar="FILE", help="parameters and conditions (TOML)")
    group.add_argument(
        "--const", "--param", dest="const", action="append", default=[], metavar="NAME=V,V",
        help="values of a parameter, or of a constant of a plain program: c16=8,16,32",
    )  # fmt: skip
    _add_launch(parser.add_argument_group("each point"))
    _add_work(parser.add_argument_group("work"))
    group = parser.add_argument_group("comparison")
    group.add_argument("--baseline", metavar="FILE", help="JSON lines of an earlier sweep: exit 1 "
                       "if a point is refused now, is gone, or takes more cycles")  # fmt: skip
    group.add_argument("--slack", type=_percent, default=0.0, metavar="PERCENT",
                       help="cycles that a point may take more (default 0)")  # fmt: skip
    group = parser.add_argument_group("table")
    group.add_argument("--top", type=shared.from_zero, default=10, metavar="N",
                       help="fastest points of each target (default 10)")  # fmt: skip
    group.add_argument(
        "--refused", action="store_true", help="every refused point, with its reason"
    )
    group.add_argument(
        "--parquet", metavar="FILE", help="write the rows as Parquet (needs pyarrow)"
    )
    shared.add_output(parser, FORMATS)


def _add_launch(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--target", metavar="T", help="targets (default: those of the space, else "
                       "a2a3,a5)")  # fmt: skip
    group.add_argument("--level", type=int, choices=(1, 2, 3), help="assembler level")
    group.add_argument("--sync", choices=("auto", "manual"), help="who places flags and barriers")
    shared.add_compat(group)
    group.add_argument("--profile", metavar="P", help="semantic profile: hw (default), page, cpu")
    launching.add_inputs(group, "judge")
    group.add_argument("--block-num", metavar="N", help="blocks: a number, or an expression of the "
                       "parameters")  # fmt: skip
    group.add_argument(
        "--expect", action="append", default=[], metavar="NAME=SPEC",
        help="check values, too: an output is this array, or what file.py:function gives for the "
        "arguments",
    )  # fmt: skip
    launching.add_tolerance(group, "--expect")
    group.add_argument("--seed", type=shared.from_zero, help="seed of generated arguments")
    group.add_argument("--point-seconds", type=float, metavar="S", help="limit of each point")


def _add_work(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-j", "--jobs", type=shared.from_one, metavar="N",
                       help="processes (default: all cores; needs joblib)")  # fmt: skip
    group.add_argument("--cluster", metavar="ADDRESS", help="workers of Dask: tcp://host:8786, or "
                       "local:4")  # fmt: skip
    group.add_argument("--store", metavar="FILE", help="where results are kept (default: the "
                       "user's cache)")  # fmt: skip
    group.add_argument("--no-store", action="store_true", help="compute everything, keep nothing")


class _Report(NamedTuple):
    """What the command says."""

    sweep: Sweep
    changes: list[Change]
    compared: bool
    options: argparse.Namespace


def _percent(text: str) -> float:
    try:
        if 0 <= float(text) < math.inf:
            return float(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"takes a number from 0 on, not `{text}`")


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Judge every point; exit code 1 if --baseline was better."""
    if options.parquet and importlib.util.find_spec("pyarrow") is None:
        raise UsageError("PTO7605: --parquet needs pyarrow", help="pip install pyarrow")
    before = read_rows(Path(options.baseline)) if options.baseline else None
    if options.source.endswith(".jsonl"):
        found = Sweep(options.source, read_rows(Path(options.source)))
    else:
        found = _computed(options, terminal)
    differing = list(changes(before or [], found.rows, options.slack / 100)) if before else []
    if found.kept and not options.quiet:
        terminal.remark(f"{found.kept:,} of {len(found.rows):,} rows were known already")
    if options.parquet:
        write_file(Path(options.parquet), sweep_tables.to_parquet(found.rows))
    if terminal.wants_report:
        terminal.report(_Report(found, differing, before is not None, options))
    unusable = next((row for row in found.rows if _is_unusable(row)), None)
    if unusable is not None:
        terminal.error(unusable["reason"], "the other rows are there")
        return UsageError.exit_code
    return int(any(change.is_worse for change in differing))


def _is_unusable(row: Row) -> bool:
    """True for a point of which nothing is known because its template or its reference fails."""
    is_reference = row["stage"] == "values" and row["reason"].startswith("PTO7613")
    return row["stage"] == "template" or is_reference


def _computed(options: argparse.Namespace, terminal: Terminal) -> Sweep:
    space, recipe = _asked(options)
    targets = [word for word in shared.targets(options.target) if word] or recipe.targets or TARGETS
    for word in targets:
        check_target_word(word)
    maker = maker_of(options.source, space)
    plan = Plan(maker, space, recipe, targets)
    engine = engine_of(_jobs(options, plan.size), options.cluster)
    try:
        plan.store = _store(options)
        with terminal.busy(f"sweeping {maker.name}", plan.size, "rows") as progress:
            return execute(plan, engine, progress)
    finally:
        engine.close()
        if plan.store is not None:
            plan.store.close()


def _jobs(options: argparse.Namespace, size: int) -> int | None:
    if options.jobs is not None or options.cluster is not None or size <= FEW:
        return options.jobs
    has_joblib = importlib.util.find_spec("joblib") is not None
    return len(os.sched_getaffinity(0)) if has_joblib and hasattr(os, "sched_getaffinity") else None


def _store(options: argparse.Namespace) -> Store | None:
    if options.no_store and options.store:
        raise UsageError("--store and --no-store contradict each other", help="give one of them")
    path = options.store or default_store()
    return None if options.no_store or path is None else Store(path)


def _asked(options: argparse.Namespace) -> tuple[Space, Recipe]:
    """The space of the file and of --const, and how its points are launched."""
    constants = dict(values.split(pair, "--const") for pair in options.const)
    given = {n: values_of(n, [_value(v) for v in t.split(",")]) for n, t in constants.items()}
    if not options.space and not given:
        raise UsageError(
            "there is no space of parameters", help="--space FILE, or --const NAME=8,16,32"
        )
    chosen: dict[str, Any] = {
        name: getattr(options, name)
        for name in ("entry", "level", "sync", "compat", "profile", "seed", "block_num")
        if getattr(options, name) is not None
    }
    chosen["limits"] = Limits(options.max_instructions, options.point_seconds)
    expect = dict(values.split(pair, "--expect") for pair in options.expect) or None
    near = launching.tolerance(options)
    if expect and not near.is_exact:
        chosen["tolerance"] = dict.fromkeys(expect, near)
    args = dict(values.split(pair, "--arg") for pair in options.arg) or None
    if options.space:
        space, recipe = recipe_of(_path(options.space), _here(expect), _here(args), chosen)
        given = {**space.values, **given}
        return Space(given, space.conditions), recipe
    space, recipe = recipe_of(Space(given), expect, args, chosen)
    return space, recipe


def _here(given: dict[str, str] | None) -> dict[str, str] | None:
    """SPECs of the command line name files from here, not from the folder of the space."""
    if given is None:
        return None
    return {name: _absolute(spec) for name, spec in given.items()}


def _absolute(spec: str) -> str:
    head, _ = values.in_file(spec)
    return str(Path(head).absolute()) + spec[len(head) :] if head else spec


def _path(name: str) -> Path:
    return programs_directory() / name[1:] if name.startswith("@") else Path(name)


def _value(word: str) -> int | float | str:
    number = number_in(word.strip())
    return word.strip() if number is None else number


def _text(report: _Report, terminal: Terminal) -> str:
    sweep, options = report.sweep, report.options
    rows = sweep.rows
    names = sweep_tables.varying(rows)
    parts: list[Any] = [Text(_head(sweep), style="bold")]
    parts.append(Text(_counts(sweep)))
    constant = sweep_tables.fixed(rows)
    parts += [Text(f"the same in all points: {constant}")] if constant else []
    for target in sweep.targets:
        found = sweep.of(target)
        if found:
            front = sweep.pareto(target)
            parts.append(sweep_tables.of_target(target, found, front, names, options.top))
        else:
            parts.append(Text(f"{target}: no point is accepted"))
    parts += sweep_tables.refusals(rows, whole=options.refused)
    if report.compared:
        told = [_changed(change) for change in report.changes]
        parts += sweep_tables.compared(told, options.slack / 100)
    return terminal.render(parts)


def _changed(change: Change) -> tuple[str, str, str, bool]:
    row = change.after or change.before or {}
    point = " ".join(f"{n}={v}" for n, v in row["params"].items())
    return point, row["target"], change.text, change.is_worse


def _head(sweep: Sweep) -> str:
    return f"ptosim {__version__} · sweep {sweep.name} · target {', '.join(sweep.targets)}"


def _counts(sweep: Sweep) -> str:
    refused = sum(sweep.refused.values())
    count = len(sweep.rows)
    return f"{count:,} rows: {count - refused:,} accepted, {refused:,} refused"


def _page(report: _Report) -> str:
    sweep = report.sweep
    fronts = {target: sweep.pareto(target) for target in sweep.targets}
    return sweep_page.sweep_page(
        sweep.name, sweep.rows, fronts, f"{_head(sweep)} · {_counts(sweep)}"
    )


def _document(report: _Report) -> dict[str, Any]:
    return {
        "version": 1,
        "source": report.sweep.name,
        "rows": report.sweep.rows,
        "pareto": {t: report.sweep.pareto(t) for t in report.sweep.targets},
        "changes": [
            {"before": c.before, "after": c.after, "text": c.text, "worse": c.is_worse}
            for c in report.changes
        ],
    }


FORMATS: Formats[_Report] = {
    "text": _text,
    "json": data(_document),
    "jsonl": text(lambda report: "".join(f"{line(row)}\n" for row in report.sweep.rows)),
    "csv": text(lambda report: sweep_tables.to_csv(report.sweep.rows)),
    "html": text(_page),
}
