"""Reports without colours are what rich writes, which then need not be loaded."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from ptosim.views.render import plain_text
from ptosim.views.table import Part, Text, table, text_console, text_of

WORDS = ("a", "of", "%tile", "1,234,567", "✓ ok", "─█", "f16", "a_very_long_name_of_something", "…")
ODD = (
    "",
    " ",
    "  two",
    "end  ",
    "a\tb",
    "two\nlines",
    "漢字の列",
    "é",
    "[bold]",
    ":0:",
    "\x07",
)
RNG = random.Random(1)


def text() -> str:
    count = RNG.choice((0, 1, 1, 2, 3, 8, 30))
    return " ".join(RNG.choice(WORDS if RNG.random() < 0.9 else ODD) for _ in range(count))


def part() -> Part:
    if RNG.random() < 0.3:
        made = Text(text(), RNG.choice(("", "bold")))
        return made.append(text(), "cyan") if RNG.random() < 0.3 else made
    columns = [RNG.choice((">", "")) + RNG.choice((*WORDS, "two words")) for _ in range(3)]
    columns = [f"{name}{number}" for number, name in enumerate(columns)][: RNG.randint(1, 3)]
    rows = [[text() for _ in columns] for _ in range(RNG.randint(0, 5))]
    some = [name.removeprefix(">") for name in columns if RNG.random() < 0.3]
    flags = {name: RNG.random() < 0.5 for name in ("cut", "head", "edge", "tight")}
    rows[:0] = [] if flags["head"] else [["word"] * len(columns)]  # no column is too narrow
    drop = some[:1] if len(columns) > 1 else ()
    shown = RNG.choice((None, 2))
    return table(text(), columns, rows, essential=some, drop=drop, shown=shown, **flags)


@pytest.mark.parametrize("width", [20, 40, 80, 100])
def test_any_report_is_what_rich_writes(width):
    for _ in range(60):
        parts = [part() for _ in range(RNG.randint(1, 3))]
        console, buffer = text_console(width, color=False)
        for each in parts:
            console.print(each, crop=False)
        assert plain_text(parts, width) == text_of(buffer, color=False), parts


@pytest.mark.slow
def test_a_report_into_a_pipe_loads_no_rich():
    code = (
        "import sys\n"
        "from ptosim.shell.main import main\n"
        "assert main(['cost', '@basics/vadd']) == 0\n"
        "print([name for name in sys.modules if name.startswith('rich')], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
