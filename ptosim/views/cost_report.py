"""The report of `cost`: text, page, JSON, and CSV as the public performance simulator has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from ptosim.ground.diagnostics.model import Diagnostic, ProgramError
from ptosim.launch.program import LoadedProgram
from ptosim.time.pipes.timers import CoreTimer
from ptosim.time.report.error_bar import carriers
from ptosim.time.report.totals import CostReport
from ptosim.views import cost_screen, cost_tables
from ptosim.views.header import header, header_line
from ptosim.views.program_page import Known
from ptosim.views.report import Records, Report, Room, Section
from ptosim.views.table import Part, Text, table

_PIPE_COLUMNS = {
    "S": "scalar_cycles",
    "MTE2 AIC": "mte2_aic_cycles",
    "MTE2 AIV": "mte2_aiv_cycles",
    "MTE1": "mte1_cycles",
    "M": "cube_cycles",
    "FIX": "fixp_cycles",
    "V": "vec_cycles",
    "MTE3": "mte3_cycles",
}
COLUMNS = (
    "target", "op_name", "core_id", "unit", "total_cycles", "active_start_cycle",
    "active_end_cycle", "active_cycles", "busy_cycles", *_PIPE_COLUMNS.values(),
)  # fmt: skip


def to_json(
    timed: Sequence[tuple[LoadedProgram, CostReport]],
    rejected: Mapping[str, ProgramError],
    what_if: Mapping[str, float],
    base: Sequence[CostReport] = (),
) -> dict[str, object]:
    """Return the report: `targets` by name; with one target its fields are at the top as well."""
    targets: dict[str, dict[str, object]] = {}
    for program, report in timed:
        targets[report.label] = {**header(program, report.entry), **report.to_dict()}
    for name, problem in rejected.items():
        targets[name] = {"rejected": [d.to_dict() for d in problem.diagnostics]}
    top = dict(next(iter(targets.values()))) if len(targets) == 1 else {}
    before = {"base": {r.label: _totals(r) for r in base}} if base else {}
    return {**top, "what_if": dict(what_if), **before, "targets": targets}


def _totals(report: CostReport) -> dict[str, object]:
    bar = report.error_bar
    return {
        "cycles": report.cycles, "microseconds": report.microseconds, "low": bar.low,
        "high": bar.high,
    }  # fmt: skip


def cost_report(
    known: Known,
    what_if: Mapping[str, float],
    views: Sequence[str],
    by: str | None,
    file: str,
    command: str,
    base: Sequence[CostReport] = (),
    broken: Sequence[Diagnostic] = (),
) -> Report:
    """Return the report on a program that was timed; `views` are parts of its text, `by` what costs
    are joined by instead, `file` names a program that every target rejects;
    `base` are the reports without what was changed, `broken` what the kernel requires that its
    scalars break."""
    timed = [(t.program, t.cost) for t in known.timed]
    heads = [header_line(header(program, report.entry)) for program, report in timed]
    targets = ", ".join([*(r.label for r in known.reports), *known.rejected])
    left_out = {name: value for t in known.timed for name, value in t.chosen.items()}
    chosen: dict[str, object] = {"chosen": left_out} if left_out else {}
    if broken:
        chosen["findings"] = [each.to_dict() for each in broken]

    def text(room: Room) -> list[Part]:
        parts = cost_tables.renderables(timed, views, by, what_if, room.width, known.codes)
        parts += _what_if(base, known.reports)
        if views or by or base:
            return parts
        return [*parts, *cost_screen.screen(known.reports, room.width)]

    def page() -> list[Section]:
        from ptosim.views.program_page import sections

        return sections(known, heads, command, chains=True)

    return Report(
        [Section("", text)] if timed else [],
        lambda: {**to_json(timed, known.rejected, what_if, base), **chosen},
        lambda: Records([_row(r, core) for r in known.reports for core in r.model.cores], COLUMNS),
        page,
        title=f"Cost of {timed[0][1].entry if timed else file} on {targets}",
        heads=heads,
        because="; ".join(dict.fromkeys(p.front.settings.reasons for p, _ in timed)),
        aside=broken,
        is_quiet=True,
    )


def trust_report(
    folder: str,
    timed: int,
    reports: Mapping[str, Sequence[CostReport]],
    left_out: Mapping[str, str],
) -> Report:
    """Return which laws carry the time of the programs in a folder, by target; of those that were
    `left_out`, why."""

    def parts(room: Room) -> list[Part]:
        found: list[Part] = [Text(f"{folder}: {timed} programs, each as its sidecar launches it")]
        for label, each in reports.items():
            found += cost_tables.trust(each, f", {label}, of {len(each)} programs")
        rows = sorted(left_out.items())
        return [*found, *([table("not timed", ("program", "why"), rows)] if rows else [])]

    def fields() -> dict[str, object]:
        laws = {
            label: [asdict(c) for c in carriers((r, r.error_bar) for r in each)]
            for label, each in reports.items()
        }
        return {"folder": folder, "timed": timed, "not_timed": dict(left_out), "trust": laws}

    return Report([Section("", parts)], fields, title=f"Trust in the costs of {folder}")


def _what_if(base: Sequence[CostReport], new: Sequence[CostReport]) -> Iterator[Part]:
    """What changed figures make of the cycles of each target."""
    for before, after in zip(base, new, strict=False):
        suffix = f", {after.label}" if len(new) > 1 else ""
        yield cost_screen.compared(before, after, suffix)


def _unit(report: CostReport, core: CoreTimer) -> str:
    """The unit that a core which may be either is used as: a vector core where no pipe of a cube
    core has work."""
    used = {use.pipe for use in report.pipes if use.core == core.name}
    return "AIC" if used & {"M", "MTE1", "FIX"} else "AIV0"


def _row(report: CostReport, core: CoreTimer) -> dict[str, str | int]:
    words = core.name.split()
    unit = words[2] if words[2] != "core" else _unit(report, core)
    start, end = min(core.starts, default=0), max(core.done) if core.steps else 0
    cycles = dict.fromkeys(("busy_cycles", *_PIPE_COLUMNS.values()), 0)
    for use in report.pipes:
        if use.core == core.name:
            cycles["busy_cycles"] += use.busy
            column = _PIPE_COLUMNS.get(use.pipe) or _PIPE_COLUMNS.get(f"{use.pipe} {unit[:3]}")
            if column is not None:
                cycles[column] += use.busy
    return {
        "target": report.label, "op_name": report.entry, "core_id": words[1], "unit": unit,
        "total_cycles": report.cycles, "active_start_cycle": start, "active_end_cycle": end,
        "active_cycles": end - start, **cycles,
    }  # fmt: skip
