"""Costs of the micro level: regions by their loops, dependences between iterations, transfers."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import ptosim
from ptosim.ground.isa.costs import cost_table
from ptosim.time.laws.shapes import VectorStep
from ptosim.time.laws.vector_times import timed
from ptosim.time.report.totals import CostReport
from tests.support.micro import kernel

V = "!pto.vreg<64xf32>"
M = "!pto.mask<b32>"
LOAD = f"%x = pto.vlds %p[%i] : !pto.ptr<f32, ub> -> {V}"
STORE = f"pto.vsts %y, %p[%i], %m : {V}, !pto.ptr<f32, ub>, {M}"


def region(body: str, count: int = 100, init: str = "", args: str = "") -> str:
    """A region whose loop runs `count` times."""
    return kernel(
        args or "%n: index",
        f"""
    %zero = arith.constant 0 : i64
    %p = pto.castptr %zero : i64 -> !pto.ptr<f32, ub>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %count = arith.constant {count} : index
    pto.vecscope {{
      %m = pto.pset_b32 "PAT_ALL" : {M}
      {init}
      {body}
    }}""",
    )


def loop(*lines: str) -> str:
    return "scf.for %i = %c0 to %count step %c1 {\n" + "\n".join(lines) + "\n}"


def cost(text: str, **args) -> CostReport:
    return ptosim.load(text).cost(args=args or {"n": 3})


ADD = f"%y = pto.vadd %x, %x, %m : {V}, {V}, {M} -> {V}"


def test_a_loop_of_load_add_store():
    """The published line: 48 cycles around an instruction of 7, then one iteration a cycle."""
    block = cost(region(loop(LOAD, ADD, STORE))).regions[0].blocks[1]
    assert block.iterations == 100
    assert [(line.name, line.times) for line in block.lines] == [
        ("vlds", 100), ("vadd", 100), ("vsts", 100),
    ]  # fmt: skip
    assert block.cycles == 1
    assert block.pressure == {"EXU0": 0.5, "EXU1": 0.5, "LD/ST0": 1, "LD/ST1": 1}
    one, many = (cost(region(loop(LOAD, ADD, STORE), n)).regions[0].cycles for n in (1, 101))
    assert one == pytest.approx(48 + 7, abs=4)
    assert many - one == pytest.approx(100, abs=2)


def test_results_of_the_iteration_before():
    """A sum that a loop carries: an addition of 7 cycles can follow the last after 3 (pto-isa's pipeline
    model: 4 cycles before its latency is over)."""
    init = f"%z = arith.constant 0.0 : f32\n%first = pto.vbr %z : f32 -> {V}"
    carried = [
        f"%sum = scf.for %i = %c0 to %count step %c1 iter_args(%so = %first) -> ({V}) {{",
        LOAD,
        f"%next = pto.vadd %so, %x, %m : {V}, {V}, {M} -> {V}",
        f"scf.yield %next : {V}",
        "}",
    ]
    use = cost(region("\n".join(carried), init=init)).regions[0]
    block = next(b for b in use.blocks if b.iterations == 100)
    assert (block.bound, block.cycles) == ("results of the iteration before", 3)
    assert 100 * 3 <= use.cycles <= 100 * 3 + 60
    second = [p for p in block.timeline if p.number == 1]
    assert [b.start - a.start for a, b in itertools.pairwise(second)] == [3, 3]


def test_executions_from_bounds_are_those_of_a_run():
    """Nested loops with bounds that arguments give, and loops whose bounds the region computes."""
    nested = loop(LOAD, ADD, "scf.for %j = %c0 to %n step %c1 {", STORE, "}")
    computed = "%far = arith.muli %n, %c1 : index\n" + loop(
        LOAD, ADD, "scf.for %j = %i to %far step %c1 {", STORE, "}"
    )
    for text, expected in ((nested, 5 * 3), (computed, 3 + 2 + 1)):
        work = cost(region(text, 5), n=3).regions[0]
        assert work.exact
        times = {line.name: line.times for block in work.blocks for line in block.lines}
        assert (times["vlds"], times["vsts"]) == (5, expected)


def test_reductions_have_one_port():
    reduce = f"%y = pto.vcmax %x, %m : {V}, {M} -> {V}"
    block = cost(region(loop(LOAD, reduce, STORE))).regions[0].blocks[1]
    assert block.pressure["EXU0"] == 1
    assert block.pressure["EXU1"] == 0


PUBLISHED = {
    "vabs": (5, 5), "vrelu": (5, 5), "vnot": (5, 5), "vneg": (8, 8), "vadd": (7, 7), "vsub": (7, 7),
    "vadds": (7, 7), "vaddc": (7, 7), "vsubc": (7, 7), "vmul": (8, 8), "vmuls": (8, 8), "vdiv": (17, 22),
    "vexp": (16, 21), "vln": (18, 23), "vsqrt": (17, 22), "vcadd": (19, 21), "vcmax": (19, 21),
    "vcmin": (19, 21), "vcpadd": (19, 21), "vcvt": (7, 7), "vgather2": (27, 27), "vgatherb": (21, 21), "vscatter": (17, 17), "vstsx2": (12, 12),
    "vlds": (9, 9), "vldsx2": (9, 9), "vsldb": (9, 9), "vsts": (9, 9), "vsstb": (9, 9), "vstus": (9, 9),
}  # fmt: skip
"""Cycles to the result of 32-bit and of 16-bit floats: the vendor's cycle-accurate simulator."""
MODELLED = {"vmax": 6, "vmin": 6, "vmaxs": 6, "vmins": 6, "vand": 6, "vor": 6, "vxor": 6, "vcmp": 6, "vsel": 6,
            "vdup": 6, "vbr": 6, "vshls": 6, "vshrs": 6, "vcgmax": 13, "pset_b32": 2, "plt_b32": 2, "pand": 2}  # fmt: skip
"""The pipeline model of the library, where the manual's figure is another one or missing."""


def test_published_latencies():
    table = cost_table("a5")

    def latency(name: str, bits: int) -> float:
        return timed(VectorStep(name, bits, 1), table).latency

    found = {name: (latency(name, 32), latency(name, 16)) for name in PUBLISHED}
    assert found == PUBLISHED
    assert {name: latency(name, 32) for name in MODELLED} == MODELLED


def test_transfers_count_what_their_operands_say():
    """Bytes of bursts and loops; the same instruction with other sizes costs something else."""
    text = kernel(
        "%g: !pto.ptr<f32>, %n: i64",
        """
    %zero = arith.constant 0 : i64
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %p = pto.castptr %zero : i64 -> !pto.ptr<f32, ub>
    scf.for %i = %c0 to %c2 step %c1 {
      %k = arith.index_cast %i : index to i64
      %size = arith.addi %n, %k : i64
      pto.mte_gm_ub %g, %p, 0, 64 nburst(%size, 64, 64) loop(3, 0, 0) : !pto.ptr<f32>, !pto.ptr<f32, ub>, i64, i64, i64
    }""",
    )
    report = ptosim.load(text).cost(args={"g": np.zeros(4096, np.float32), "n": 10})
    assert report.moved() == {"read": 3 * 64 * (10 + 11), "write": 0}
    assert report.unknown == {}


def test_the_view_and_its_data(cli, tmp_path):
    path = tmp_path / "region.pto"
    path.write_text(region(loop(LOAD, ADD, STORE)))
    out = cli("cost", path, "--arg", "n=3", "--view", "vector").out
    for part in ("loop of 100 iterations", "EXU0 0.5", "longest chain", "eeeeeeeeeE  vlds"):
        assert part in out
    report = json.loads(cli("cost", path, "--arg", "n=3", "--format", "json").out)
    assert report["regions"][0]["blocks"][1]["iterations"] == 100
