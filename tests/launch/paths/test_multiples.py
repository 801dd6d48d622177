"""Of what arguments have to be multiples, where no sum says it: rows that are handed out in tiles.
What is told is compared with the rounds of all blocks, counted in Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ptosim
from tests.launch.paths.kernels import PART, TILE, VIEW, kernel

_ROWS = VIEW.replace("16x64", "?x64")
HEAD = f"""%c15 = arith.constant 15 : index
%c32 = arith.constant 32 : index
%block64 = pto.get_block_idx -> i64
%block = arith.index_cast %block64 : i64 to index
%blocks64 = pto.get_block_num -> i64
%blocks = arith.index_cast %blocks64 : i64 to index
%v = pto.make_tensor_view %x, shape = [%n, %c64], strides = [%c64, %c1] : {_ROWS}
"""
_LOAD = f"""%w{{0}} = pto.partition_view %v, offsets = [%row{{0}}, %c0], sizes = [%c16, %c64] : {_ROWS} -> {PART}
pto.tload ins(%w{{0}} : {PART}) outs(%t : {TILE})"""
_FIRST = """%first = arith.muli %block, %c16 : index
%step = arith.muli %blocks, %c16 : index
"""
KERNELS = {
    "tiles of rows": f"{_FIRST}scf.for %row = %first to %n step %step {{\n{_LOAD.format('')}\n}}",
    "two in a round": "scf.for %row = %c0 to %n step %c32 {\n%row1 = arith.addi %row, %c16 : index\n"
    + f"{_LOAD.format('')}\n{_LOAD.format('1')}\n}}",
    "whole tiles alone": "%last = arith.subi %n, %c15 : index\n"
    + f"{_FIRST}scf.for %row = %first to %last step %step {{\n{_LOAD.format('')}\n}}",
    "what is left over is passed": f"""{_FIRST}scf.for %row = %first to %n step %step {{
%end = arith.addi %row, %c16 : index
%whole = arith.cmpi sle, %end, %n : index
scf.if %whole {{
{_LOAD.format("")}
}}
}}""",
    "what is left over is loaded whole": f"""{_FIRST}scf.for %row = %first to %n step %step {{
%end = arith.addi %row, %c16 : index
%whole = arith.cmpi sle, %end, %n : index
scf.if %whole {{
{_LOAD.format("")}
}} else {{
{_LOAD.format("").replace("%w", "%part")}
}}
}}""",
}  # fmt: skip
"""Bodies of kernels on a view of %n rows."""


def _rows(name: str, n: int, block: int, blocks: int) -> Iterator[int]:
    """Where the windows of 16 rows begin that a block takes."""
    if name == "two in a round":
        for row in range(0, n, 32):
            yield from (row, row + 16)
        return
    last = n - 15 if name == "whole tiles alone" else n
    for row in range(16 * block, last, 16 * blocks):
        if name != "what is left over is passed" or row + 16 <= n:
            yield row


def _breaks(name: str, n: int, blocks: int) -> bool:
    return any(row + 16 > n for block in range(blocks) for row in _rows(name, n, block, blocks))


@pytest.mark.parametrize("name", KERNELS)
def test_a_launch_breaks_what_is_no_multiple_and_nothing_else(name: str) -> None:
    found = ptosim.check(kernel(HEAD + KERNELS[name], "%n: index"), sync="manual")
    assert not any("unsaid" in each for each in found.coverage)
    assert not any(d.is_error for d in found)
    steps = [r["multiple"] for r in found.requirements]
    assert None not in steps
    for n in range(1, 200):
        is_told = any(n % step for step in steps)
        assert all(_breaks(name, n, blocks) == is_told for blocks in (1, 2, 3, 5))


def test_it_is_told_with_all_lines_and_what_breaks_it() -> None:
    text = kernel(HEAD + KERNELS["tiles of rows"], "%n: index")
    found = ptosim.check(text, sync="manual")
    (made,) = found.requirements
    lines = [n for n, line in enumerate(text.splitlines(), 1) if "partition_view %v," in line]
    assert (made["text"], made["lines"]) == ("n is a multiple of 16", lines)
    assert _breaks("tiles of rows", made["broken_by"]["n"], 1)
    (told,) = [d for d in found if d.code == "PTO6052"]
    assert f"--arg n={made['broken_by']['n']}" in (told.help or "")


PARTS = f"""%deep = arith.divui %n, %parts : index
%from = arith.muli %block, %deep : index
%to = arith.addi %from, %deep : index
scf.for %at = %from to %to step %c16 {{
{_LOAD.format("").replace("%row,", "%at,").replace("%w", "%part")}
}}
"""
"""Parts of whole tiles: %n has to be a multiple of 16 * %parts, which is no number."""


def test_a_multiple_of_another_argument_is_named_and_not_made_up() -> None:
    found = ptosim.check(kernel(HEAD + PARTS, "%n: index, %parts: index"), sync="manual")
    assert [r["text"] for r in found.requirements if r["multiple"]] == []
    assert any("unsaid" in each for each in found.coverage)


def test_what_is_a_multiple_does_not_hide_what_is_asked_of_others() -> None:
    """The first run has one row of each, which breaks both: what is known of %m says nothing of
    the lines that ask of %n and %parts."""
    of_m = KERNELS["tiles of rows"].replace("%n", "%m").replace("%v,", "%z,")
    view = HEAD[HEAD.index("%v = ") :].replace("%v", "%z").replace("%n", "%m")
    text = kernel(HEAD + view + of_m + "\n" + PARTS, "%n: index, %m: index, %parts: index")
    found = ptosim.check(text, sync="manual")
    assert "m is a multiple of 16" in [r["text"] for r in found.requirements]
    (line,) = [n for n, each in enumerate(text.splitlines(), 1) if "%part = pto." in each]
    (cover,) = found.coverage
    assert line in [each["line"] for each in cover["unsaid"]]


def test_launches_that_do_not_occur_are_not_asked() -> None:
    """What is assumed of %m leaves the launch out in which it is twice as large."""
    tiles = KERNELS["tiles of rows"].replace("%row = %first", "%r = %first")
    tiles = tiles.replace("step %step {", "step %step {\n%row = arith.muli %r, %m : index")
    text = kernel(HEAD + tiles, "%n: index, %m: index")
    found = ptosim.check(text, sync="manual", assume=["1 <= m <= 1"])
    assert [r["text"] for r in found.requirements] == ["n is a multiple of 16"]
