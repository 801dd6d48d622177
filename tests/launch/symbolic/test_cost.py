"""`cost` follows what is known, and asks for what decides the path."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.shell.main import main
from tests.ops.semantics.test_sync import program
from tests.support.text import date_of

SIGNAL = """    %vs = pto.make_tensor_view %s, shape = [%c1, %c1], strides = [%c1, %c1] : !pto.tensor_view<1x1xi32>
    %ps = pto.partition_view %vs, offsets = [%c0, %c0], sizes = [%c1, %c1] : !pto.tensor_view<1x1xi32> -> !pto.partition_tensor_view<1x1xi32>
    %one = arith.constant 1 : i32
    %ok = pto.ttest %ps, %one {cmp = #pto<wait_cmp EQ>} : (!pto.partition_tensor_view<1x1xi32>, i32) -> i1
"""


def signalled(body: str) -> str:
    """A program that looks at a signal, and then does `body`."""
    return program(SIGNAL + body, args=", %s: !pto.ptr<i32>")


def asked(text: str) -> str:
    with pytest.raises(ptosim.UsageError) as refused:
        ptosim.load(text, compat=date_of(text)).cost()
    return str(refused.value)


def test_the_path_by_a_signal_is_followed():
    """A counter has the number that is given, else it begins at 0, as in a run."""
    text = signalled("scf.if %ok {\nLOAD\nSTORE\n}")
    loaded = ptosim.load(text, sync="auto", compat=date_of(text))
    counters = {n: {"s": np.full((1, 1), n, np.int32)} for n in range(3)}
    cycles = {n: loaded.cost(args=given).cycles for n, given in counters.items()}
    assert [n for n in cycles if cycles[n] > min(cycles.values())] == [1]
    assert loaded.cost().cycles == cycles[0] == loaded.run(args=counters[0]).cycles


def test_the_path_by_a_signal_at_a_place_that_is_not_known_is_asked_for():
    moved = SIGNAL.replace("offsets = [%c0, %c0]", "offsets = [%n, %c0]")
    args = ", %s: !pto.ptr<i32>, %n: index"
    message = asked(program(moved + "scf.if %ok {\nLOAD\nSTORE\n}", args=args))
    assert "the path of 'scf.if'" in message
    assert "depends on data that 'pto.ttest' reads" in message


def test_a_signal_that_decides_nothing_is_timed():
    text = signalled("LOAD\nSTORE")
    assert ptosim.load(text, sync="auto", compat=date_of(text)).cost().cycles > 0


@pytest.mark.parametrize("predicate", ["eq", "ne", "slt"])
def test_the_path_by_an_argument_is_asked_for(predicate):
    """Equality with a value that is not given is open, not false."""
    body = f"%t = arith.cmpi {predicate}, %n, %c1 : index\nscf.if %t {{\nLOAD\nSTORE\n}}"
    text = program(body, args=", %n: index")
    assert "depends on the scalar argument `n`" in asked(text)
    loaded = ptosim.load(text, sync="auto")
    cycles = [loaded.cost(args={"n": n}).cycles for n in (0, 1, 2)]
    taken = {"eq": (1,), "ne": (0, 2), "slt": (0,)}[predicate]
    assert [n for n in range(3) if cycles[n] > min(cycles)] == list(taken)


def test_the_case_by_an_argument_is_asked_for():
    body = "scf.index_switch %n\ncase 1 {\nLOAD\nSTORE\nscf.yield\n}\ndefault {\nscf.yield\n}"
    text = program(body, args=", %n: index")
    assert "depends on the scalar argument `n`" in asked(text)


MERGED = """module attributes {pto.target_arch = "a5"} {
  func.func @k() attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %t0, %t1, %t2, %t3 = pto.get_vms4_sr : i16, i16, i16, i16
    %n = arith.index_cast %t0 : i16 to index
    scf.for %i = %c0 to %n step %c1 {
      pto.barrier <PIPE_ALL>
    }
    return
  }
}
"""


def test_what_a_merge_took_decides_no_trip_count():
    message = asked(MERGED)
    assert "the trip count of 'scf.for'" in message
    assert "'pto.get_vms4_sr'" in message


SCALARS = """module attributes {pto.target_arch = "a5"} {
  func.func @k(%p: !pto.ptr<i32>) {
    %c0 = arith.constant 0 : index
    %v = pto.load_scalar %p[%c0] : !pto.ptr<i32> -> i32
    pto.store_scalar %v, %p[%c0] : !pto.ptr<i32>, i32
    return
  }
}
"""


def test_a_program_of_scalar_code_has_a_report(tmp_path):
    """No pipe does anything: there is no hint, and no internal error."""
    report = ptosim.load(SCALARS).cost()
    assert report.hints == []
    path = tmp_path / "k.pto"
    path.write_text(SCALARS)
    assert main(["cost", str(path)]) == 0
    assert main(["cost", str(path), "--format", "json"]) == 0


@pytest.mark.parametrize("arch", ["a2a3", "a5"])
def test_windows_at_unknown_places_cost_what_they_cost_elsewhere(arch):
    """Where a window is changes no time by flags; in order of data it may be anywhere. It begins at
    a multiple of a row of 256 bytes, which takes longer on A2/A3 than one of 512: as row 1 does."""
    moved = (
        "%p2 = pto.partition_view %vx, offsets = [%r, %c0], sizes = [%c16, %c64] : "
        "!pto.tensor_view<16x64xf32> -> !pto.partition_tensor_view<16x64xf32>\n"
        "pto.tload ins(%p2 : !pto.partition_tensor_view<16x64xf32>) "
        "outs(%a : !pto.tile_buf<vec, 16x64xf32>)"
    )
    text = program(f"{moved}\nSTORE", arch, ", %r: index")
    loaded = ptosim.load(text, sync="auto")
    assert loaded.cost().cycles == loaded.cost(args={"r": 1}).cycles
