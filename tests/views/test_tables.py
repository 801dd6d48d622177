"""Tables in 80 columns and more: which columns go, which never; numbers and names stay whole."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ptosim.views.cost_tables import confidence
from ptosim.views.table import Table, table, text_console, text_of, verdict

REPORTS = {
    "run": "run @basics/softmax --target a5",
    "run of several blocks": "run @cube/gemm_grid",
    "run with a difference": "run @broken/overlapping_parameters",
    "cost": "cost @cube/flash_attention",
    "cost of one target": "cost @vmi/softmax --target a5",
    "cost by line": "cost @quant/int8_asym --target a2a3 --by line",
    "map": "map @quant/int8_asym",
    "chain": "run --chain @model/mlp",
    "diff": "diff @basics/vadd @basics/softmax",
    "port": "port @basics/softmax --from a2a3 --to a5",
    "targets": "targets",
    "quant diff": "quant diff randn:f32:4x64",
    "quant schemes": "quant schemes",
    "quant audit": "quant audit @quant/int8_asym --target a5 --profile page",
    "quant explore": "quant explore randn:f32:8x64 --target a5",
    "quant plan": "quant plan --src randint:i8:4x4 --weights randint:i8:4x4 --target a5",
}
WIDTHS = (80, 100, 140, None)
"""Columns of the terminal; None is a pipe."""


def shown(made: Table, width: int) -> list[str]:
    console, buffer = text_console(width, color=False)
    console.print(made, crop=False)
    return [line for line in text_of(buffer, color=False).splitlines() if line.strip()]


@pytest.mark.sampled(5, 26)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", REPORTS)
def test_a_report_fits_and_keeps_what_is_essential(cli, monkeypatch, name, width):
    """Of every table that a command shows: the essential columns are there, no number and no word of
    an essential cell is broken, and no line is longer than the screen."""
    tables: list[tuple[Table, Table]] = []
    fitted = Table.fitted

    def watched(self: Table, room: int) -> Table:
        tables.append((self, fitted(self, room)))
        return tables[-1][1]

    monkeypatch.setattr(Table, "fitted", watched)
    if width is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", str(width))
    out = cli(*REPORTS[name].split()).out
    lines = [n for n in out.splitlines() if not n.startswith(("passed: ", "failed: "))]
    assert max(map(len, lines)) <= (width or 100)  # a verdict is one line, in a pipe
    assert tables
    for whole, kept in tables:
        assert set(kept.essential) <= set(kept.names)
        assert set(whole.names) - set(kept.names) <= set(whole.drop)
        assert not set(whole.drop) & set(whole.essential)
        for at, column in enumerate(kept.columns):
            if column.right or kept.names[at] in kept.essential:
                cells = {row[at].plain for row in kept.rows}
                assert all(c.rstrip() in out for cell in cells for c in cell.split("\n"))


LINES = {
    "check": "check @basics/vadd @broken/overlapping_parameters",
    "stats": "stats @basics/softmax --axis 0",
    "ops NAME": "ops pto.tload",
    "quant types": "quant types types.mlir",
    "selftest": "selftest",
}
UNBROKEN = "!quant.uniform"
TYPES = """!quant.uniform<i8:f32, 0.5>
!quant.uniform<f4E2M1FN:f32:{1:32}, {0.5}>
!quant.uniform<i8:f32:0, {0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8}>
"""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("name", LINES)
def test_lines_fit_on_a_screen_and_are_whole_in_a_pipe(cli, monkeypatch, tmp_path, name, width):
    """What is no table is continued at blanks: all of its words are there, in their order, and a
    line longer than the screen is a type, or one word of it, that one copies."""
    from ptosim.shell import selftest_command
    from ptosim.shell.terminal import Terminal

    (tmp_path / "types.mlir").write_text(TYPES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        selftest_command, "shipped_names", lambda: ["broken/overlapping_parameters"]
    )
    piped = words(cli(*LINES[name].split()).out)
    monkeypatch.setenv("COLUMNS", str(width))
    if name != "ops NAME":  # it is laid out for its width in a pipe, too
        monkeypatch.setattr(Terminal, "is_screen", lambda self: True)
    out = cli(*LINES[name].split()).out
    assert out
    for line in out.splitlines():
        is_word = line.startswith(UNBROKEN) or len(line.split()) == 1
        assert len(line) <= width or is_word, line
    if name != "ops NAME":
        assert words(out) == piped


def words(text: str) -> list[str]:
    """The words, without what is measured or joins parts of a line."""
    return [w for w in text.split() if w != "·" and not w.isdigit()]


COLUMNS = ("name", ">bytes", "verdict", "why")
ROWS = [("%a_long_name", "1,234,567", "ok", "because of this and that"), ("%b", "8", "BAD", "so")]


def test_cells_are_continued_at_blanks_and_the_widest_first():
    made = table("", COLUMNS, ROWS, essential=["name", "verdict"])
    assert shown(made, 60) == [
        " name               bytes   verdict   why",
        f" {'─' * 58}",
        " %a_long_name   1,234,567   ok        because of this and",
        "                                      that",
        " %b                     8   BAD       so",
    ]


def test_columns_go_in_the_order_that_is_asked_for():
    made = table("", COLUMNS, ROWS, essential=["name", "verdict"], drop=["why", "bytes"])
    assert made.fitted(60).names == ["name", "bytes", "verdict", "why"]
    assert made.fitted(45).names == ["name", "bytes", "verdict"]
    assert made.fitted(30).names == ["name", "verdict"]
    assert made.fitted(5).names == ["name", "verdict"]
    assert "%a_long_name" in "\n".join(shown(made, 5)), (
        "a name is never cut, even if it does not fit"
    )


def test_names_and_statuses_of_operations_have_room_on_a_screen():
    from ptosim.ground.isa.rows import isa
    from ptosim.views.operations import _table

    every = [d for d in map(isa().get, isa().names()) if d is not None]
    made = _table(every, {}, None)[0]
    assert isinstance(made, Table)
    lines = shown(made, 80)
    assert max(map(len, lines)) <= 80
    assert set(made.fitted(80).names) >= {"operation", "status"}
    assert made.fitted(80).laid_out(80)[1][-1] >= 20, "and what it does"
    assert all(any(line.split()[0] == d.mnemonic for line in lines) for d in every[:50])
    few = _table([d for d in every if d.family == "elementwise"], {}, None)[0]
    assert isinstance(few, Table)
    assert few.fitted(80).laid_out(80)[1][-1] >= 30, "what it does has room before the family has"


def test_names_of_formats_are_whole_however_wide_the_numbers_are():
    from ptosim.models.explore import FORMATS, Candidate
    from ptosim.shell.quant_explore import _table

    targets = ["a2a3", "a5"]
    found = [
        Candidate(
            f, 45.48, 18_432, 16_384, np.ones(1), None,
            dict.fromkeys(targets, 27_648), dict.fromkeys(targets, 1_113),
        )
        for f in FORMATS
    ]  # fmt: skip
    lines = shown(_table(found, targets), 80)
    assert max(map(len, lines)) <= 80
    assert sum("int8 per block of 32" in line for line in lines) == 1


def test_of_very_many_rows_the_rest_is_counted_whole():
    made = table("", ("n", ">x"), [(str(i), i) for i in range(9)], shown=2)
    assert shown(made, 80)[-1].strip() == "… and 7 more"


def test_signs_are_beside_colours():
    assert (verdict(True, "ok").plain, verdict(False, "DIFFERS").plain) == ("✓ ok", "✗ DIFFERS")
    assert confidence("assumed").plain == "? assumed"
    assert confidence("measured").plain == "measured"


def test_equal_cores_are_one_line(cli):
    """Two blocks with two vector cores each that do the same at the same time."""
    out = cli(
        "cost", "@cube/flash_attention", "--target", "a5", "--view", "pipes", "--view", "timeline"
    ).out
    rows = [line for line in out.splitlines() if "AIV" in line]
    assert len(rows) == 4  # V and MTE3, in both tables
    assert all(re.match(r" blocks 0-1 AIV0-1 ", line) for line in rows)


@pytest.mark.parametrize(
    ("names", "joined"),
    [
        (["block 0 AIC"], "block 0 AIC"),
        ([f"block {i} AIC" for i in range(24)], "blocks 0-23 AIC"),
        (["block 0 AIV0", "block 0 AIV1"], "block 0 AIV0-1"),
        (["block 0 core", "block 2 core", "block 3 core"], "blocks 0, 2-3 core"),
        (["rank 0 block 0 AIC", "rank 1 block 0 AIC"], "rank 0 block 0 AIC, rank 1 block 0 AIC"),
        (["block 0 AIV0", "block 1 AIV0", "block 1 AIV1"], "blocks 0-1 AIV0, block 1 AIV1"),
    ],
)
def test_names_of_equal_cores(names, joined):
    from ptosim.time.report.totals import joined_names

    assert joined_names(names) == joined


def test_names_that_an_option_takes_are_whole(cli, monkeypatch):
    """`--scheme` takes the name as it is shown."""
    from ptosim.machine.quant.parameters import schemes

    monkeypatch.setenv("COLUMNS", "80")
    shown = [line.split()[0] for line in cli("quant", "schemes").out.splitlines() if line.strip()]
    assert set(schemes()) <= set(shown)
