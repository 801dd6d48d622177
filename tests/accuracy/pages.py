"""The tables of accuracy in the manual and the README, from `isa/costs/accuracy.toml`, which the same
run of `python -m tests.accuracy --write` keeps."""

from __future__ import annotations

from collections.abc import Sequence

from ptosim.ground.isa.costs import Accuracy, KernelAccuracy, accuracy
from tests.accuracy.kernels import ASIDE, FEW
from tests.support.paths import TREE

ROOT = TREE
PAGES = ("ptosim/manual/accuracy.md", "README.md")

_ROWS = (  # what, target, the class of points that the fit saw, that of those left out
    ("A2/A3, profiled", "a2a3", "all", "left out"),
    ("A2/A3, fitted table of pto-isa", "a2a3", "fitted table", "fitted table, left out"),
    ("A5, profiled", "a5", "all", "left out"),
)


def operations() -> str:
    """Return the table of single operations in Markdown."""
    by_name = {(r.target, r.class_name): r for r in accuracy()[0]}
    lines = [
        "| single operations | points | mean | median | worst | family left out: mean | worst |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for what, target, seen, unseen in _ROWS:
        lines.append(_line(what, by_name[target, seen], by_name[target, unseen]))
    return "\n".join(lines)


def _line(what: str, seen: Accuracy, unseen: Accuracy) -> str:
    figures = (seen.mean, seen.median, seen.worst, unseen.mean, unseen.worst)
    return f"| {what} | {seen.points:,} | {' | '.join(f'{100 * f:.1f} %' for f in figures)} |"


def kernels() -> str:
    """Return the table of whole kernels in Markdown."""
    lines = [
        "| whole kernels, with the launch | blocks | published us | predicted us (error bar) | error | family left out |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {k.name} | {k.blocks} | {k.published:,.1f} | {k.predicted:,.1f} ({k.low:,.0f} to {k.high:,.0f}) "
        f"| {_signed(k.error)} | {_signed(k.apart_error) if k.family != ASIDE else 'kept aside'} |"
        for k in accuracy()[1]
    ]
    return "\n".join(lines)


def _signed(error: float) -> str:
    return f"{100 * error:+.1f} %"


def families() -> str:
    """Return the table of whole kernels by family in Markdown."""
    lines = [
        "| families of kernels | rows | inside the error bar | mean | worst | left out: mean | worst |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    every = accuracy()[1]
    names = list(dict.fromkeys(k.family for k in every if k.family != ASIDE))
    lines += [_family(name, [k for k in every if k.family == name]) for name in names]
    fitted = [k for k in every if k.family != ASIDE]
    rest = [k for k in fitted if k.family != FEW]
    return "\n".join([
        *lines, _family("all of these", fitted), _family("all but attention on few cores", rest),
        _family("kept aside: in no fit", [k for k in every if k.family == ASIDE]),
    ])  # fmt: skip


def _family(name: str, rows: Sequence[KernelAccuracy]) -> str:
    cells = [
        f"{100 * figure:.1f} %"
        for errors in ([abs(k.error) for k in rows], [abs(k.apart_error) for k in rows])
        for figure in (sum(errors) / len(errors), max(errors))
    ]
    inside = sum(k.is_inside for k in rows)
    return f"| {name} | {len(rows)} | {inside} | {' | '.join(cells)} |"


TABLES = (operations, kernels, families)


def write() -> None:
    """Put the tables in the place of those with the same first column."""
    for page in PAGES:
        path = ROOT / page
        text = path.read_text(encoding="utf-8")
        for make in TABLES:
            text = replaced(text, make())
        path.write_text(text, encoding="utf-8")


def replaced(text: str, table: str) -> str:
    """Return a page with a table in the place of that with the same first column."""
    start = text.find(table.split("|", 2)[1].join(("\n|", "|"))) + 1
    if not start:
        return text
    end = text.find("\n\n", start)
    return text[:start] + table + text[end if end >= 0 else len(text) :]
