"""The report of `cost`: text, page, JSON, and CSV as the public performance simulator has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptosim.ground.errors import ProgramError
from ptosim.launch.program import LoadedProgram
from ptosim.time.pipes.timers import CoreTimer
from ptosim.time.report.totals import CostReport
from ptosim.views import cost_tables
from ptosim.views.header import header, header_line
from ptosim.views.known import Known
from ptosim.views.report import Records, Report, Room, Section
from ptosim.views.table import Part

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
) -> dict[str, object]:
    """Return the report: `targets` by name; with one target its fields are at the top as well."""
    targets: dict[str, dict[str, object]] = {}
    for program, report in timed:
        targets[report.label] = {**header(program, report.entry), **report.to_dict()}
    for name, problem in rejected.items():
        targets[name] = {"rejected": [d.to_dict() for d in problem.diagnostics]}
    top = dict(next(iter(targets.values()))) if len(targets) == 1 else {}
    return {**top, "what_if": dict(what_if), "targets": targets}


def cost_report(
    known: Known,
    what_if: Mapping[str, float],
    views: Sequence[str],
    by: str | None,
    file: str,
    command: str,
) -> Report:
    """Return the report on a program that was timed; `views` are parts of its text, `by` what costs
    are joined by instead, `file` names a program that every target rejects."""
    timed = [(t.program, t.cost) for t in known.timed]
    heads = [header_line(header(program, report.entry)) for program, report in timed]
    targets = ", ".join([*(r.label for r in known.reports), *known.rejected])
    chosen = views or ([] if by else cost_tables.DEFAULT_VIEWS)

    def text(room: Room) -> list[Part]:
        return cost_tables.renderables(timed, chosen, by, what_if, room.width, known.codes)

    def page() -> list[Section]:
        from ptosim.views.program_page import sections

        return sections(known, heads, command, chains=True)

    return Report(
        [Section("", text)] if timed else [],
        lambda: to_json(timed, known.rejected, what_if),
        lambda: Records([_row(r, core) for r in known.reports for core in r.model.cores], COLUMNS),
        page,
        title=f"Cost of {timed[0][1].entry if timed else file} on {targets}",
        heads=heads,
        is_quiet=True,
    )


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
