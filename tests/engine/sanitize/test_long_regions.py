"""The log of a vector region stays short however long it runs, and says the same."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.debug import walker
from ptosim.engine.core import runners
from ptosim.machine import vector

_REG, _MASK, _UB = "!pto.vreg<64xf32>", "!pto.mask<b32>", "!pto.ptr<f32, ub>"
_TEXT = f"""module attributes {{pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>}} {{
  func.func @kernel(%x: !pto.ptr<f32>, %n: index) attributes {{pto.kernel}} {{
    %zero = arith.constant 0 : i64
    %p = pto.castptr %zero : i64 -> {_UB}
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %c512 = arith.constant 512 : index
    %c1024 = arith.constant 1024 : index
    %c2048 = arith.constant 2048 : index
    pto.mte_gm_ub %x, %p, 0, 2048 nburst(1, 0, 0) : !pto.ptr<f32>, {_UB}
    pto.set_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]
    pto.wait_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]
    pto.vecscope {{
      %m = pto.pset_b32 "PAT_ALL" : {_MASK}
      scf.for %r = %c0 to %n step %c1 {{
        scf.for %i = %c0 to %c512 step %c64 {{
          %a = pto.vlds %p[%i] : {_UB} -> {_REG}
          %b = pto.vadd %a, %a, %m : {_REG}, {_REG}, {_MASK} -> {_REG}
          pto.vsts %b, %p[%c1024], %m : {_REG}, {_UB}, {_MASK}
          pto.mem_bar "VST_VLD"
        }}
      }}
      %fine = pto.vlds %p[%c1024] : {_UB} -> {_REG}
      %poor = pto.vlds %p[%c2048] : {_UB} -> {_REG}
      %sum = pto.vadd %fine, %poor, %m : {_REG}, {_REG}, {_MASK} -> {_REG}
      pto.vsts %sum, %p[%c2048], %m : {_REG}, {_UB}, {_MASK}
      %late = pto.vlds %p[%c2048] : {_UB} -> {_REG}
      pto.vsts %late, %p[%c128], %m : {_REG}, {_UB}, {_MASK}
    }}
    return
  }}
}}
"""


@pytest.mark.parametrize("long", [1 << 17, 8])
def test_findings_of_a_long_region(monkeypatch: pytest.MonkeyPatch, long: int) -> None:
    """The load of bytes that nothing wrote is found; those of bytes that the region has stored are
    not, whether many or all accesses since then are in the log."""
    monkeypatch.setattr(vector, "LONG", long)
    monkeypatch.setattr(runners, "UNTIMED", 64)
    monkeypatch.setattr(runners, "LONGEST", 64)
    program = ptosim.load(_TEXT, filename="k.pto", level=3, sync="manual")
    result = program.run({"x": np.ones(512, np.float32), "n": 40})
    line = next(n for n, text in enumerate(_TEXT.splitlines(), 1) if "%poor =" in text)
    found = [(f.code, f.span.line) for f in result.findings if f.code == "PTO7101"]
    assert found == [("PTO7101", line)]


def test_equal_accesses_are_kept_once() -> None:
    """Single accesses and accesses of several runs, in the order in which they came first."""
    window = vector.VectorWindow(bytearray(1024))
    window.watch()
    window.long = 4
    places = np.array([0, 64])
    for _ in range(3):
        window.log.append(7 << 32 | 64 << 20 | 128)
        window.note(3, places, 32)
        window.log.append(5 << 32 | 32 << 20 | 0)
    window.note(3, places + 32, 32)
    window.shorten()
    assert list(window.log) == [7 << 32 | 64 << 20 | 128, -1, 5 << 32 | 32 << 20, -2]
    assert [starts.tolist() for _, starts, _ in window.parts] == [[0, 64], [32, 96]]


def test_a_debugger_keeps_the_log_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """It executes in pieces of its own, after which nobody else looks at the log."""
    monkeypatch.setattr(vector, "LONG", 64)
    monkeypatch.setattr(walker, "CHUNK", 100)
    program = ptosim.load(_TEXT, filename="k.pto", level=3, sync="manual")
    session = program.debug({"x": np.ones(512, np.float32), "n": 40})
    log, lengths = session.core.ub.log, []
    for position in range(200, 2400, 200):
        session.walker.goto(position)
        lengths.append(len(log))
    assert max(lengths) < 150
    session.continue_()
    line = next(n for n, text in enumerate(_TEXT.splitlines(), 1) if "%poor =" in text)
    found = [(f.code, f.span.line) for f in session.findings if f.code == "PTO7101"]
    assert found == [("PTO7101", line)]
