"""Programs without synchronisation are ordered by the bytes that their operations touch."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.shell.main import main
from tests.bench.programs import stream_loop

_COPY = """module attributes {pto.target_arch = "a5"} {
  func.func @copy(%x: !pto.ptr<f32, gm>, %y: !pto.ptr<f32, gm>) attributes {pto.aicore} {
    %zero = arith.constant 0 : i64
    %at = arith.constant FROM : i64
    %size = arith.constant 128 : i64
    %four = arith.constant 4 : i64
    %first = pto.castptr %zero : i64 -> !pto.ptr<f32, ub>
    %second = pto.castptr %at : i64 -> !pto.ptr<f32, ub>
    pto.mte_gm_ub %x, %first, %zero, %size nburst(%four, %size, %size) : !pto.ptr<f32, gm>, !pto.ptr<f32, ub>, i64, i64, i64, i64, i64
    pto.mte_ub_gm %second, %y, %size nburst(%four, %size, %size) : !pto.ptr<f32, ub>, !pto.ptr<f32, gm>, i64, i64, i64, i64
    return
  }
}
"""


def starts(text: str) -> list[int]:
    return list(ptosim.load(text).cost().model.cores[0].starts)


@pytest.mark.parametrize(("place", "waits"), [(0, True), (384, True), (512, False), (4096, False)])
def test_a_copy_waits_for_the_bytes_that_it_reads(place, waits):
    """Four bursts of 128 bytes after each other are 512 bytes. Micro code alone is manual: nothing is
    inserted, the store waits for nothing, and where it reads what is loaded that is a race."""
    text = _COPY.replace("FROM", str(place))
    (_, store) = starts(text)
    assert store < 200
    args = {"x": np.zeros((4, 32), np.float32), "y": np.zeros((4, 32), np.float32)}
    found = {d.code for d in ptosim.load(text).run(args).findings}
    assert ("PTO5201" in found) == waits


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_stream_takes_the_same_with_values_and_without(target):
    """Each round has bytes of its own in global memory: more than are kept as cells."""
    text = stream_loop().replace('"a5"', '"a3"' if target == "a2a3" else '"a5"')
    program = ptosim.load(text, target=target)
    wide = np.zeros((16, 65536), np.float32)
    args = {"x": wide, "y": wide[:, :64].copy(), "z": wide.copy(), "n": 80}
    result = program.run(args, sanitize="none")
    report = program.cost(args={"n": 80})
    assert result.cycles == report.cycles
    assert result.cost.to_dict()["pipes"] == report.to_dict()["pipes"]
    work = set(report.model.cores[0].steps)
    assert len(work) == 4  # rounds share the record of each instruction


def test_an_unknown_figure_is_answered_with_the_keys_and_those_of_its_group(capsys):
    assert main(["cost", "@basics/vadd", "--what-if", "instruction.vad.slope=3"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "instruction.vadd.slope" in next(line for line in lines if "nearest:" in line)
    assert any(line.strip().startswith("keys: clock, bandwidth") for line in lines)
    assert any(line.strip().startswith("instruction. vadd.slope") for line in lines)
    assert len(lines) == 4
