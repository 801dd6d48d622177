"""What changes from one program to another, or from one target to another, as tables."""

from __future__ import annotations

from pathlib import PurePath

from ptosim.ground import __version__
from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.isa.targets import machine
from ptosim.launch.analysis.differences import Difference, Side
from ptosim.views.report import Line, Part, Report, Section
from ptosim.views.table import Table, Text, table


def difference_report(
    found: Difference,
    worse: list[str],
    names: tuple[str, str],
    proven: str = "",
    proof: dict[str, object] | None = None,
) -> Report:
    """Return the report; `names` are the headings of the two sides, `proven` says that they are
    equal for all contents of the arguments, `proof` is how that was found out or not."""
    told = {} if proof is None else {"proof": proof}
    parts = [*_parts(found, worse, names), *([Text(proven)] if proven else ())]

    def page() -> list[Section]:
        from ptosim.views.program_page import Beside, beside

        shown = [
            Beside(name, side.program, side.cost, side.findings)
            for name, side in zip(names, (found.first, found.second), strict=True)
            if side.program is not None and side.cost is not None
        ]
        return [Section("What differs", parts), *(beside(shown) if shown else ())]

    return Report(
        [Section("", parts)],
        lambda: {**found.to_dict(), "worse": worse, **told},
        page=page,
        title=f"{_named(found, names)}: what differs",
        heads=[_head(found, names)],
        aside=found.new if found.second.is_rejected else (),
        before=False,
    )


def _named(found: Difference, names: tuple[str, str]) -> str:
    """Both sides by their files; one file on two targets by these."""
    first, second = (PurePath(side.name).name for side in (found.first, found.second))
    both = " and ".join(names)
    return f"{first} and {second}" if first != second else f"{first}: {both}"


def _head(found: Difference, names: tuple[str, str]) -> str:
    sides = " · ".join(
        f"{n}: {s.name}" for n, s in zip(names, (found.first, found.second), strict=True)
    )
    return f"ptosim {__version__} · {sides}"


def _parts(found: Difference, worse: list[str], names: tuple[str, str]) -> list[Part]:
    parts: list[Part] = [_overview(found, names)]
    for title, findings in (("new findings", found.new), ("findings that are gone", found.gone)):
        if findings:
            parts.append(Text(f"{title} ({len(findings)})", style="bold"))
            parts += [
                Line(f"  {_place(d)}{d.code} {d.severity.word}: {d.message}", 4) for d in findings
            ]
    parts += _values(found)
    parts.append(_verdict(found, worse))
    return parts


def _verdict(found: Difference, worse: list[str]) -> Text:
    if worse:
        return Text(f"worse: {'; '.join(worse)}", style="bold red")
    if found.compares_nothing:
        return Text("no values were compared", style="yellow")
    return Text("nothing got worse", style="green")


def _place(finding: Diagnostic) -> str:
    return f"line {finding.span.line}: " if finding.span is not None else ""


def _overview(found: Difference, names: tuple[str, str]) -> Table:
    one, two = found.first, found.second
    rows = [
        ("target", machine(one.chip).label, machine(two.chip).label, ""),
        ("findings", *_numbers(len(one.findings), len(two.findings))),
        ("cycles", *_numbers(one.cycles, two.cycles)),
    ]
    for space in sorted({*one.spaces, *two.spaces}):
        used = [None if s.is_rejected else s.spaces.get(space, (0, 0))[0] for s in (one, two)]
        rows.append((f"{space}: bytes", *_numbers(*used)))
        rows.append((f"{space}: safe limit", *_numbers(_safe(one, space), _safe(two, space))))
    return table("", ("", *(f">{n}" for n in names), ">change"), rows)


def _safe(side: Side, space: str) -> int | None:
    return side.spaces[space][1] if space in side.spaces else None


def _numbers(one: int | None, two: int | None) -> tuple[str, str, str]:
    if one is None or two is None:
        return _number_text(one), _number_text(two), ""
    percent = f" ({(two - one) / one:+,.1%})" if one and two != one else ""
    return _number_text(one), _number_text(two), f"{two - one:+,}{percent}" if two != one else "="


def _number_text(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _values(found: Difference) -> list[Part]:
    if found.values_note:
        return [Text(f"values {found.values_note}")]
    parts: list[Part] = []
    for one in found.values:
        if one.passed:
            parts.append(Text(f"values of {one.name}: the same ({one.tolerance})"))
        else:
            by = f"by at most {one.max_ulp} ulp, " if one.max_ulp is not None else ""
            parts.append(
                Text(
                    f"values of {one.name}: {one.mismatches:,} of {one.count:,} differ, {by}first "
                    f"at {list(one.first or ())}: {one.expected} became {one.got}",
                    style="red",
                )
            )
    return parts
