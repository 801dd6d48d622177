"""A chain of launches as one HTML page: stages of each target, buffers, what was expected."""

from __future__ import annotations

from collections.abc import Sequence

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.launch.chain.chain import Chain
from ptosim.launch.chain.runner import ChainResult
from ptosim.views.chain_report import renderables
from ptosim.views.charts.axis import Axis, around
from ptosim.views.charts.chart import chart
from ptosim.views.charts.marks import Bars, Mark
from ptosim.views.charts.page import page, section
from ptosim.views.report.page import frames, html


def chain_page(chain: Chain, results: Sequence[ChainResult], findings: Sequence[Diagnostic]) -> str:
    """Return the page."""
    head, *parts = renderables(chain, results)
    return page(
        f"Chain {chain.name}",
        [
            section("Time of each stage", _stages(results)),
            section("Tables", html(parts)),
            section("Findings", *frames(findings)),
        ],
        head=str(head),
    )


def _stages(results: Sequence[ChainResult]) -> str:
    """Bars of microseconds: a group for each stage, in it a bar for each target."""
    timed = [r for r in results if r.microseconds is not None]
    if not timed:
        return ""
    names = tuple(stage.name for stage in timed[0].stages)
    wide = 0.8 / len(timed)
    marks: list[Mark] = [
        Bars(
            result.target,
            [
                (i + 0.1 + n * wide, i + 0.1 + (n + 1) * wide, stage.microseconds or 0.0)
                for i, stage in enumerate(result.stages)
            ],
            n,
        )
        for n, result in enumerate(timed)
    ]
    heights = [stage.microseconds or 0.0 for r in timed for stage in r.stages]
    return chart(
        "time of each stage", Axis("stage", names=names), around(heights, "time", "us"), marks
    )
