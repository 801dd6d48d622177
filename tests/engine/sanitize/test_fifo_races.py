"""A pop on A2/A3 copies its tile on PIPE_MTE2: what reads the tile has to wait for that pipe. Slots in
global memory belong to one block."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.launch import array_files
from ptosim.launch.description import sidecar_of
from ptosim.launch.sources import source_path
from ptosim.tools.api import check_source
from tests.engine.sanitize.test_mutations import canonical, synchronised


def swiglu() -> list[str]:
    text = source_path("@cube/swiglu").read_text(encoding="utf-8")
    return canonical(synchronised(text, "a2a3", None)).split("\n")


def races(lines: list[str]) -> list:
    found = check_source(Source("k", "\n".join(lines)), "a2a3", sync="manual").findings
    return [d for d in found if d.code.startswith("PTO52")]


def test_flags_behind_a_pop_order_what_reads_the_tile():
    assert races(swiglu()) == []


@pytest.mark.parametrize(("popped", "reader"), [("tpop_from_aic", "V"), ("tpop_from_aiv", "MTE1")])
def test_a_pop_without_a_flag_behind_it_is_a_race(popped, reader):
    lines = swiglu()
    at = next(i for i, line in enumerate(lines) if popped in line)
    pair = [i for i in range(at, at + 4) if f"<PIPE_MTE2>, <PIPE_{reader}>" in lines[i]]
    assert len(pair) == 2
    found = races([line for i, line in enumerate(lines) if i not in pair])
    assert found
    assert all(popped in d.message for d in found)
    assert any(d.context[side]["pipe"] == "MTE2" for d in found for side in ("first", "second"))


@pytest.mark.parametrize(("target", "expected"), [("a2a3", ["PTO5205"]), ("a5", [])])
def test_two_blocks_whose_fifos_have_the_same_slots(target, expected):
    """Blocks run at once, so each needs slots of its own: A2/A3 has them in global memory, A5 on the
    chip. Whoever runs the blocks one after the other sees right values all the same."""
    path = source_path("@cube/swiglu")
    text = path.read_text(encoding="utf-8").replace("addptr %slots, %mine", "addptr %slots, %c0")
    args = {n: array_files.parse_spec(s, path.parent) for n, s in sidecar_of(path).args.items()}
    program = ptosim.load(text, target=target)
    found = program.run(args, block_num=2, entry="cube_kernel", timing=False).findings
    assert [d.code for d in found if d.severity.word != "note"] == expected
    assert all("block 1" in d.message and "block 0" in d.message for d in found)
    if expected:
        assert program.run(args, block_num=1, entry="cube_kernel", timing=False).findings == []
