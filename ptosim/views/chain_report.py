"""The report of a chain: its stages on each target, its buffers, what was expected of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptosim.ground import __version__
from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.isa.costs import lowest_confidence
from ptosim.launch.chain.chain import Chain
from ptosim.launch.chain.runner import ChainResult
from ptosim.launch.compare import Comparison
from ptosim.views.frames import count_line
from ptosim.views.report import Figure, Findings, Frames, Report, Section
from ptosim.views.run_report import extremes, summary_of
from ptosim.views.table import FAIL, PASS, Part, Text, table, verdict


def chain_report(
    chain: Chain, results: Sequence[ChainResult], findings: Sequence[Diagnostic]
) -> Report:
    """Return the report, with a column of time for each target."""

    def page() -> list[Section]:
        return [
            Section("Verdict", _verdict(results, findings)),
            Section("Time of each stage", _picture(results)),
            Section("Findings", [Frames(findings)] if findings else []),
            Section("Tables", _parts(chain, results)),
            *_kernels(results),
        ]

    return Report(
        [Section("", lambda _: _parts(chain, results))],
        lambda: to_json(chain, results),
        page=page,
        title=f"Chain {chain.name}",
        heads=[_heading(chain, results)],
        findings=Findings(findings),
        aside=findings,
        is_quiet=True,
    )


def _parts(chain: Chain, results: Sequence[ChainResult]) -> list[Part]:
    parts: list[Part] = [Text(chain.file.summary)] if chain.file.summary else []
    parts += [Text(_sure(chain, results)), Text()]
    parts += [_stages(results), *_remarks(results), _buffers(results)]
    return [*parts, *(part for result in results for part in _expected(result))]


def _heading(chain: Chain, results: Sequence[ChainResult]) -> str:
    targets = ", ".join(r.target for r in results)
    return (
        f"ptosim {__version__} · chain {chain.name} · target {targets} · "
        f"profile {results[0].profile}"
    )


def _verdict(results: Sequence[ChainResult], findings: Sequence[Diagnostic]) -> list[Text]:
    """The lines that one decides by: what was expected, findings, time and the dearest stage."""
    parts: list[Text] = []
    for result in results:
        compared = _comparisons(result)
        if compared:
            wrong = ", ".join(f"{c.name} after {after}" for after, c in compared if not c.passed)
            told = f"not what is expected: {wrong}" if wrong else f"{len(compared)} as expected"
            sign, style = (FAIL, "red") if wrong else (PASS, "green")
            parts.append(Text(f"{sign} {result.target}: {told}", style))
        if result.microseconds is not None:
            dearest = max(result.stages, key=lambda stage: stage.microseconds or 0.0)
            share = (dearest.microseconds or 0.0) / (result.microseconds or 1.0)
            parts.append(
                Text(
                    f"{result.target}: {result.cycles:,} cycles, {result.microseconds:,.2f} us in "
                    f"{result.launches:,} launches; {dearest.name} is {share:.0%} of it"
                )
            )
    parts.append(Text(count_line(findings)) if findings else Text(f"{PASS} no findings", "green"))
    return parts


def _sure(chain: Chain, results: Sequence[ChainResult]) -> str:
    """How many launches there are, and how far their times are to be trusted."""
    sure = [r.confidence for r in results if r.confidence is not None]
    told = f"; confidence of the cycles: {lowest_confidence(sure)}" if sure else ""
    return f"{chain.file.count} launches{told}"


def _stages(results: Sequence[ChainResult]) -> Part:
    columns = ["stage", "kernel", ">launches"]
    for result in results:
        if result.cycles is not None:
            columns += [f">{result.target}\ncycles", f">{result.target}\nus"]
    rows = []
    for stages in zip(*(r.stages for r in results), strict=True):
        first = stages[0]
        row = [first.name, first.kernel if first.kernel != first.name else "", first.launches]
        for stage in stages:
            row += _time(stage.cycles, stage.microseconds)
        rows.append(row)
    total: list[object] = ["in all", "", results[0].launches]
    for result in results:
        total += _time(result.cycles, result.microseconds)
    drop = ["launches", "kernel", *(f"{r.target}\nus" for r in results)]
    return table(
        "stages", columns, [*rows, total], essential=["stage"], drop=drop, marked=(len(rows),)
    )


def _time(cycles: int | None, microseconds: float | None) -> list[object]:
    return [] if cycles is None else [f"{cycles:,}", f"{microseconds:,.2f}"]


def _picture(results: Sequence[ChainResult]) -> list[Figure]:
    """A lane for each stage on each target: one after the other, in microseconds."""
    from ptosim.views.charts.lanes import Lane, Lanes, Span
    from ptosim.views.charts.marks import Axis

    timed = [r for r in results if r.microseconds is not None]
    if not timed:
        return []
    rows: list[Lane] = []
    for number, result in enumerate(timed):
        rows.append(Lane(result.target, None))
        at = 0.0
        for stage in result.stages:
            us = stage.microseconds or 0.0
            share = us / (result.microseconds or 1.0)
            told = f"{stage.name}: {us:,.2f} us, {share:.1%} of {result.target}"
            rows.append(Lane(stage.name, [Span(at, at + us, told, number)], told))
            at += us
    longest = max(r.microseconds or 0.0 for r in timed)
    keys = [(result.target, number) for number, result in enumerate(timed)]
    axis = Axis("time", 0, max(longest, 1e-6), "us")
    return [Lanes("stages one after the other", axis, rows, keys=keys)]


def _kernels(results: Sequence[ChainResult]) -> list[Section]:
    """Each kernel once, by the stage that launches it first: its text and its timelines."""
    from ptosim.views.program_page import Known, Timed, program

    found: dict[str, tuple[list[str], list[Timed], list[Diagnostic]]] = {}
    for result in results:
        for stage in result.stages:
            if stage.first is None:
                continue
            loaded, cost = stage.first
            names, timed, findings = found.setdefault(stage.kernel, ([], [], []))
            names += [stage.name] if stage.name not in names else []
            if result.target not in [t.program.target for t in timed]:
                timed.append(Timed(loaded, cost))
                source = loaded.front.source.name
                findings += [d for d in result.findings if d.span and d.span.source.name == source]
    return [
        Section(
            f"Kernel {kernel}" if names == [kernel] else f"Kernel {kernel}: {', '.join(names)}",
            program(Known(findings, timed=timed), f"kernel-{at}"), folded=True,
        )
        for at, (kernel, (names, timed, findings)) in enumerate(found.items())
    ]  # fmt: skip


def _remarks(results: Sequence[ChainResult]) -> list[Part]:
    told = [
        f"{r.launch_microseconds:,.0f} us on {r.target}" for r in results if r.launch_microseconds
    ]
    if not told:
        return []
    return [Text(f"what launches cost on top, not in these times: {', '.join(told)}")]


def _buffers(results: Sequence[ChainResult]) -> Part:
    columns = ("buffer", "type", "shape", ">MiB", ">min", ">max", ">NaN")
    rows = []
    last = results[-1]
    for name, array in last.buffers.items():
        shape = "x".join(map(str, array.shape)) or "scalar"
        size = f"{array.nbytes / (1 << 20):,.2f}"
        rows.append((name, array.dtype, shape, size, *_extremes(array)))
    return table(
        f"buffers after the last launch, {last.target}", columns, rows,
        essential=["buffer", "type", "shape"], drop=["MiB"],
    )  # fmt: skip


def _extremes(array: np.ndarray) -> tuple[str, str, int]:
    low, high, nan = extremes(array)
    return (f"{float(low):.4g}", f"{float(high):.4g}", nan) if low else (low, high, nan)


def _comparisons(result: ChainResult) -> list[tuple[str, Comparison]]:
    return [
        *((stage.name, c) for stage in result.stages for c in stage.comparisons),
        *(("all", c) for c in result.comparisons),
    ]


def _expected(result: ChainResult) -> list[Part]:
    """What was expected of buffers: after stages, and after all launches."""
    compared = _comparisons(result)
    columns = ("after", "buffer", "verdict", ">differ", ">max diff", "tolerance")
    rows = [
        (
            after,
            c.name,
            verdict(c.passed, "ok" if c.passed else "DIFFERS"),
            f"{c.mismatches:,} of {c.count:,}",
            f"{c.max_difference:.3g}",
            c.tolerance,
        )
        for after, c in compared
    ]
    if not rows:
        return []
    title = f"expected values, {result.target}"
    return [table(title, columns, rows, essential=columns[:3], drop=["max diff"])]


def to_json(chain: Chain, results: Sequence[ChainResult]) -> dict[str, object]:
    """Return the report as JSON data."""
    return {
        "version": __version__,
        "chain": chain.name,
        "summary": chain.file.summary,
        "launches": chain.file.count,
        "targets": [_target(result) for result in results],
    }


def _target(result: ChainResult) -> dict[str, object]:
    us = result.microseconds
    return {
        "target": result.target,
        "profile": result.profile,
        "confidence": result.confidence,
        "launches": result.launches,
        "cycles": result.cycles,
        "microseconds": None if us is None else round(us, 3),
        "launch_microseconds": result.launch_microseconds,
        "stages": [stage.to_dict() for stage in result.stages],
        "buffers": {
            name: {
                **summary_of(array),
                "bytes": array.nbytes,
                "written_by": _names(result, name, "writers"),
                "read_by": _names(result, name, "readers"),
            }
            for name, array in result.buffers.items()
        },
        "expected": [c.to_dict() for c in result.comparisons],
        "findings": [d.to_dict() for d in result.findings],
    }


def _names(result: ChainResult, name: str, side: str) -> list[str]:
    use = result.uses.get(name)
    return list(getattr(use, side)) if use is not None else []
