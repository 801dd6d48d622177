"""What a board's tables say of the cost laws: as tables, and as data."""

from __future__ import annotations

from dataclasses import asdict

from ptosim.ground import __version__
from ptosim.launch.analysis.calibrate.calibration import Calibration, FamilyError
from ptosim.launch.analysis.calibrate.fit import Refit
from ptosim.views.report import Report, Section
from ptosim.views.table import Part, Text, table


def calibration_report(found: Calibration) -> Report:
    """Return the report; errors are relative."""
    return Report(
        [Section("", _parts(found))],
        lambda: _fields(found),
        heads=[_heading(found)],
        is_quiet=True,
    )


def _parts(found: Calibration) -> list[Part]:
    parts: list[Part] = []
    if found.table.overlay is not None:
        parts.append(Text(f"compared with {found.table.overlay.title}"))
    parts.append(_errors(found))
    if not found.is_check:
        parts += _figures(found)
    if found.outliers:
        columns = ("launch that is left out", ">measured us", ">predicted us", "where")
        rows = [(o.label, f"{o.measured:,.2f}", f"{o.predicted:,.2f}", o.place)
                for o in found.outliers]  # fmt: skip
        parts.append(table("rows that are off by more than four deviations", columns, rows))
    if found.unmatched:
        rows = [(u.what, u.count, u.reason) for u in found.unmatched]
        parts.append(table("not compared", ("what", ">rows", "why"), rows, shown=24))
    for file in found.files:
        if file.unknown:
            parts.append(Text(f"{file.name}: columns not known: {', '.join(file.unknown)}"))
    return parts


def _heading(found: Calibration) -> str:
    return f"ptosim {__version__} · calibrate · chip {found.table.chip} · {found.source}"


def _errors(found: Calibration) -> Part:
    families = found.families()
    if found.is_check:
        rows = [(f.family, f.points, f"{f.before:.1%}", f"{f.worst:.1%}") for f in families]
        columns = ("family", ">points", ">mean error", ">worst")
        return table("predicted against measured", columns, rows, essential=("family",))
    columns = ("family", ">points", ">error", ">refitted", ">held out", ">error", ">refitted")
    title = "predicted against measured, mean error; the last two: of points held out of the fit"
    return table(title, columns, map(_with_fit, families), essential=("family",))


def _with_fit(f: FamilyError) -> tuple[str, ...]:
    def percent(value: float | None) -> str:
        return "" if value is None else f"{value:.1%}"

    numbers = (percent(f.before), percent(f.after))
    aside = (percent(f.aside_before), percent(f.aside_after))
    return f.family, str(f.points), *numbers, str(f.aside or ""), *aside


def _figures(found: Calibration) -> list[Part]:
    changed = [r for r in found.refits if not r.reason]
    kept = [r for r in found.refits if r.reason]
    parts: list[Part] = []
    columns = ("figure", ">was", ">is", ">+-", ">points")
    rows = [(r.key, _value(r.was), _value(r.now), f"{r.error:.1%}", r.points) for r in changed]
    if rows:
        parts.append(table("figures that the points determine", columns, rows))
    else:
        parts.append(Text("no figure is changed"))
    if kept:
        columns = ("figure", ">stays", ">points", "why")
        rows = [(r.key, _value(r.was), r.points, r.reason) for r in kept]
        parts.append(table("figures that stay", columns, rows, shown=24))
    return parts


def _value(value: float) -> str:
    return f"{value:.4g}"


def notes(found: Calibration) -> tuple[str, ...]:
    """Return what the head of an overlay says of how it was found."""
    total = found.families()[-1]
    said = [f"{total.points} points: mean error {total.before:.1%}, refitted {total.after:.1%}"]
    if total.aside_after is not None:
        said.append(
            f"{total.aside} of them held out of the fit: {total.aside_before:.1%}, refitted "
            f"{total.aside_after:.1%}"
        )
    return tuple(said)


def _fields(found: Calibration) -> dict[str, object]:
    return {
        "version": __version__,
        "target": found.table.target,
        "chip": found.table.chip,
        "source": found.source,
        "check": found.is_check,
        "families": [_rounded(f) for f in found.families()],
        "figures": [_refit(r) for r in found.refits],
        "outliers": [asdict(o) for o in found.outliers],
        "not_compared": [asdict(u) for u in found.unmatched],
        "unknown_columns": {f.name: list(f.unknown) for f in found.files},
    }


def _rounded(row: FamilyError) -> dict[str, object]:
    return {k: round(v, 5) if isinstance(v, float) else v for k, v in asdict(row).items()}


def _refit(row: Refit) -> dict[str, object]:
    sure = row.error if row.error < 1e9 else None
    return {
        "figure": row.key, "was": row.was, "is": row.now, "points": row.points,
        "relative_error": None if sure is None else round(sure, 5), "changed": not row.reason,
        "reason": row.reason,
    }  # fmt: skip
