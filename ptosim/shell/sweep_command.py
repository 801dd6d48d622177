"""`ptosim sweep SOURCE`: every point of a space of parameters, on every target."""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.limits import Limits
from ptosim.ground.words import number_in
from ptosim.language.targets import check_target_word
from ptosim.launch import array_files
from ptosim.launch.sources import described
from ptosim.shell import launching
from ptosim.shell.command import command
from ptosim.shell.options import (
    COMPAT,
    LEVEL,
    PROFILE,
    SPACE,
    SYNC,
    from_one,
    from_zero,
    group,
    inputs,
    option,
    several,
    switch,
    tolerance,
)
from ptosim.shell.terminal import Terminal, write_file
from ptosim.tools.search.engines import engine_of
from ptosim.tools.search.point import Row, examine
from ptosim.tools.search.request import Recipe
from ptosim.tools.search.source import maker_of
from ptosim.tools.search.space import Space, values_of
from ptosim.tools.search.store import Change, Store, changes, default_store, read_rows
from ptosim.tools.search.sweep import TARGETS, Plan, Sweep, execute, recipe_of
from ptosim.views import sweep_report
from ptosim.views.charts.lanes import anchor
from ptosim.views.header import header, header_line
from ptosim.views.program_page import Known, Timed, program, sections, verdict
from ptosim.views.render import render
from ptosim.views.report import Ending, Report, Room, Section

_EPILOG = """SOURCE is a Jinja2 template (kernel.pto.j2), a function (make.py:kernel), a program
whose constants --const or the space name, or the rows of an earlier sweep (rows.jsonl). What was
computed is kept: a sweep that was stopped goes on. Exit code 1: worse than --baseline. `ptosim help
sweep` has the form of the space."""
FEW = 24
"""Rows that are computed in this process unless somebody says how many are to work."""


def _percent(text: str) -> float:
    try:
        if 0 <= float(text) < math.inf:
            return float(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"takes a number from 0 on, not `{text}`")


@command(
    "sweep",
    option("source", metavar="SOURCE", help="what makes the programs, or rows.jsonl"),
    group("space", SPACE),
    group(
        "each point",
        option("--target", metavar="T",
               help="targets (default: those of the space, else a2a3,a5)"),
        LEVEL,
        SYNC,
        COMPAT,
        PROFILE,
        inputs("judge"),
        option("--block-num", metavar="N",
               help="blocks: a number, or an expression of the parameters"),
        several(
            "--expect", "NAME=SPEC",
            "check values, too: an output is this array, or what file.py:function gives for the "
            "arguments",
        ),
        tolerance("--expect"),
        option("--seed", type=from_zero, help="seed of generated arguments"),
        option("--point-seconds", type=float, metavar="S", help="limit of each point"),
    ),
    group(
        "work",
        option("-j", "--jobs", type=from_one, metavar="N",
               help="processes (default: all cores; needs joblib)"),
        option("--cluster", metavar="ADDRESS",
               help="workers of Dask: tcp://host:8786, or local:4"),
        option("--store", metavar="FILE",
               help="where results are kept (default: the user's cache)"),
        switch("--no-store", help="compute everything, keep nothing"),
    ),
    group(
        "comparison",
        option("--baseline", metavar="FILE",
               help="JSON lines of an earlier sweep: exit 1 if a point is refused now, is gone, or "
               "takes more cycles"),
        option("--slack", type=_percent, default=0.0, metavar="PERCENT",
               help="cycles that a point may take more (default 0)"),
    ),
    group(
        "table",
        option("--top", type=from_zero, default=10, metavar="N",
               help="fastest points of each target (default 10)"),
        switch("--refused", help="every refused point, with its reason"),
        option("--parquet", metavar="FILE", help="write the rows as Parquet (needs pyarrow)"),
        option("--reports", metavar="DIR", help="write programs and pages of the fastest points "
               "(--top) and the Pareto front there; points of -o sweep.html open them"),
    ),
    forms=("text", "json", "jsonl", "csv", "html"),
    epilog=_EPILOG,
)  # fmt: skip
def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Judge every point; exit code 1 if --baseline was better."""
    if options.parquet and importlib.util.find_spec("pyarrow") is None:
        raise UsageError("PTO7605: --parquet needs pyarrow", help="pip install pyarrow")
    before = read_rows(Path(options.baseline)) if options.baseline else None
    links: dict[int, str] = {}
    inside: list[Section] = []
    if options.source.endswith(".jsonl"):
        if options.reports:
            raise UsageError("--reports needs what makes the programs, not rows")
        found = Sweep(options.source, read_rows(Path(options.source)))
    else:
        found, plan = _computed(options, terminal)
        if options.reports:
            links = _pages(options, found, plan)
        elif terminal.format == "html":
            links, inside = _inside(found, plan)
    differing = list(changes(before or [], found.rows, options.slack / 100)) if before else []
    if found.kept and not options.quiet:
        terminal.remark(f"{found.kept:,} of {len(found.rows):,} rows were known already")
    if options.parquet:
        write_file(Path(options.parquet), sweep_report.to_parquet(found.rows))
    told = [_changed(change) for change in differing] if before is not None else None
    pareto = {t: found.pareto(t) for t in found.targets}
    report = sweep_report.sweep_report(
        found.name, found.targets, found.rows, pareto, told,
        top=options.top, slack=options.slack / 100, whole=options.refused, links=links,
        inside=inside,
    )  # fmt: skip
    report.fields = lambda: {
        "version": 1, "source": found.name, "rows": found.rows, "pareto": pareto,
        "changes": [
            {"before": c.before, "after": c.after, "text": c.text, "worse": c.is_worse}
            for c in differing
        ],
    }  # fmt: skip
    unusable = next((row for row in found.rows if _is_unusable(row)), None)
    report.ending = _ending(options.source, found.rows, differing, unusable)
    if unusable is not None:
        terminal.error(unusable["reason"], "the other rows are there")
    terminal.tell(report)
    if unusable is not None:
        return UsageError.exit_code
    return int(not report.ending.passed)


def _ending(
    source: str, rows: Sequence[Row], differing: Sequence[Change], unusable: Row | None
) -> Ending:
    if unusable is not None:
        return Ending(False, f"{_point(unusable)}: {unusable['reason']}", "ptosim help sweep")
    worse = [change for change in differing if change.is_worse]
    refused = sum(not row["ok"] for row in rows)
    if worse:
        point, target, told, _ = _changed(worse[0])
        what = f"{len(worse):,} of {len(rows):,} rows are worse than the baseline"
        return Ending(
            False, f"{what}, first {point} on {target}: {told}", _command_for_refused(source)
        )
    best = min((row for row in rows if row["ok"]), key=lambda row: row["us"], default=None)
    if best is None:
        first = f", first {rows[0]['reason']}" if rows else ""
        return Ending(
            True, f"all {len(rows):,} rows are refused{first}", _command_for_refused(source)
        )
    told = f"fastest {_point(best)} ({best['cycles']:,} cycles)"
    return Ending(True, f"{len(rows):,} rows, {refused:,} refused; {told}")


def _command_for_refused(source: str) -> str:
    return f"ptosim sweep {source} --refused, with the same space"


def _point(row: Row) -> str:
    return " ".join([*(f"{n}={v}" for n, v in row["params"].items()), f"on {row['target']}"])


def _is_unusable(row: Row) -> bool:
    """True for a point of which nothing is known because its template or its reference fails."""
    is_reference = row["stage"] == "values" and row["reason"].startswith("PTO7613")
    return row["stage"] == "template" or is_reference


def _pages(options: argparse.Namespace, found: Sweep, plan: Plan) -> dict[int, str]:
    """Write the programs of the fastest points and the Pareto front with their pages; return where
    these are, seen from the page of the sweep, by the identity of rows."""
    folder = Path(options.reports)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(f"--reports: cannot make {folder}: {problem.strerror}") from problem
    here = Path(options.output).parent if options.output not in (None, "-") else Path()
    links: dict[int, str] = {}
    for target in found.targets:
        wanted = [*found.of(target)[: options.top], *found.pareto(target)]
        for row in {id(row): row for row in wanted}.values():
            name = f"{target}-{len(links):03}"
            text = plan.maker.text(row["params"])
            write_file(folder / f"{name}.pto", text)
            page = _page_of(text, row, plan, f"{name}.pto")
            write_file(folder / f"{name}.html", page)
            links[id(row)] = Path(os.path.relpath(folder / f"{name}.html", here)).as_posix()
    return links


def _page_of(text: str, row: Row, plan: Plan, name: str) -> str:
    known, head = _known(text, row, plan, name)
    title = f"{plan.maker.name}: {_point(row)}"
    made = Report(
        page=lambda: sections(known, [head], f"ptosim report {name} --target {row['target']}"),
        title=title, heads=[head],
    )  # fmt: skip
    return render(made, "html", Room())


def _known(text: str, row: Row, plan: Plan, name: str) -> tuple[Known, str]:
    examined = examine(text, row["target"], plan.recipe.at(row["params"]), name=name)
    loaded, cost = examined.program, examined.report
    assert loaded is not None  # the row was accepted
    assert cost is not None
    head = header_line(header(loaded, cost.entry))
    return Known(examined.findings, timed=[Timed(loaded, cost)]), head


_INSIDE = 3
"""Points of a target whose reports are in the page of the sweep: the fastest."""


def _inside(found: Sweep, plan: Plan) -> tuple[dict[int, str], list[Section]]:
    """Return the reports of the fastest points as sections of the page, and where these are."""
    links: dict[int, str] = {}
    made: list[Section] = []
    names = sweep_report.varying(found.rows)
    for target in found.targets:
        for row in found.of(target)[:_INSIDE]:
            told = " ".join(f"{name}={row['params'].get(name)}" for name in names)
            title = f"{target}: {told}" if told else f"{target}: the point"
            known, _ = _known(plan.maker.text(row["params"]), row, plan, plan.maker.name)
            parts = [*verdict(known), *program(known, f"point-{len(made)}")]
            made.append(Section(title, parts, folded=True))
            links[id(row)] = f"#{anchor(title)}"
    return links, made


def _computed(options: argparse.Namespace, terminal: Terminal) -> tuple[Sweep, Plan]:
    space, recipe = _asked(options)
    targets = (
        [word for word in launching.targets(options.target) if word] or recipe.targets or TARGETS
    )
    for word in targets:
        check_target_word(word)
    maker = maker_of(options.source, space)
    plan = Plan(maker, space, recipe, targets)
    engine = engine_of(_jobs(options, plan.size), options.cluster)
    try:
        plan.store = _store(options)
        with terminal.busy(f"sweeping {maker.name}", plan.size, "rows") as progress:
            return execute(plan, engine, progress), plan
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
    constants = launching.pairs(options.const, "--const")
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
    expect = launching.pairs(options.expect, "--expect") or None
    near = launching.tolerance(options)
    if expect and not near.is_exact:
        chosen["tolerance"] = dict.fromkeys(expect, near)
    args = launching.pairs(options.arg) or None
    if options.space:
        space, recipe = recipe_of(described(options.space), _here(expect), _here(args), chosen)
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
    head, _ = array_files.in_file(spec)
    return str(Path(head).absolute()) + spec[len(head) :] if head else spec


def _value(word: str) -> int | float | str:
    number = number_in(word.strip())
    return word.strip() if number is None else number


def _changed(change: Change) -> tuple[str, str, str, bool]:
    row = change.after or change.before or {}
    point = " ".join(f"{n}={v}" for n, v in row["params"].items())
    return point, row["target"], change.text, change.is_worse
