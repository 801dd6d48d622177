"""The cost report as a page: the cast chains of a program side by side, and its totals."""

from __future__ import annotations

from collections.abc import Mapping

from ptosim.timing.report.chains import chains
from ptosim.views.cast_chains import page_section
from ptosim.views.charts.page import html_table, page, section
from ptosim.views.cost_tables import Timed
from ptosim.views.header import header, header_line


def page_of(timed: Timed, rejected: Mapping[str, str]) -> str:
    """Return the page of a program that was timed on some targets; `rejected` has the code by which
    a target refuses it."""
    reports = [report for _, report in timed]
    head = "; ".join(header_line(header(program, r.entry)) for program, r in timed)
    columns = ("target", ">cycles", ">us", ">us of the launch, on top", "lowest confidence")
    rows = [
        (r.label, f"{r.cycles:,}", f"{r.microseconds:,.2f}", f"{r.launch_microseconds:g}",
         r.confidence)
        for r in reports
    ]  # fmt: skip
    parts = [page_section(chains(reports), rejected), section("in all", html_table(columns, rows))]
    name = reports[0].entry if reports else ""
    return page(f"cost of {name}", parts, head=head)
