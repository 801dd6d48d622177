"""A pop on A2/A3 copies its tile on PIPE_MTE2: what reads the tile has to wait for that pipe."""

from __future__ import annotations

import pytest

from ptosim.ground.source import Source
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
