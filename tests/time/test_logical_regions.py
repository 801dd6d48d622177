"""What regions of logical vectors take: the instructions of each operation by layout (worked counts
and the cost table of the virtual vector level), registers at once, and the same cycles as the
program with its registers written out."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import ptosim
from ptosim.ground.diagnostics.model import UnsupportedError
from ptosim.ground.source import Source
from ptosim.ops.lower.program import expand
from tests.ops.expand.logical import expanded, load, mask, module, pointer, store, vreg


def counts(body: str, *elems: str) -> Counter[str]:
    """Instructions of a region, all operations together."""
    made = expand(Source("logical.pto", module(body, list(elems))))
    total: Counter[str] = Counter()
    for stage in made.stages:
        total.update(stage.counts)
    return total


def of(op: str, body: str, *elems: str) -> dict[str, int]:
    """Instructions of one operation of a region, without predicates and constants."""
    made = expand(Source("logical.pto", module(body, list(elems))))
    found: Counter[str] = Counter()
    for stage in made.stages:
        if stage.name == f"pto.vmi.{op}":
            found.update(
                {n: c for n, c in stage.counts.items() if not n.startswith(("p", "vbr", "vci"))}
            )
    return dict(found)


def widened(lanes: int) -> str:
    narrow, wide = vreg(lanes, "f16"), vreg(lanes, "f32")
    return "\n".join([
        load("p", lanes, "f16"), f"%u = pto.vmi.vcvt %p : {narrow} -> {wide}",
        f"%r = pto.vmi.vadd %u, %u : {wide}, {wide} -> {wide}", store("r", lanes, "f32"),
    ])  # fmt: skip


def test_256_halves_widened_added_stored() -> None:
    """2 loads, 4 conversions, 4 adds, 2 interleaving stores; two predicates (of 16 and 32 bits)."""
    assert counts(widened(256), "f16", "f32") == {
        "vlds": 2, "vcvt": 4, "vadd": 4, "vstsx2": 2, "pset_b16": 1, "pset_b32": 1,
    }  # fmt: skip


def test_64_halves_take_one_register() -> None:
    """1 unpacking load, 1 conversion, 1 add, 1 store."""
    found = counts(widened(64), "f16", "f32")
    assert {n: c for n, c in found.items() if n[0] == "v"} == {
        "vlds": 1,
        "vcvt": 1,
        "vadd": 1,
        "vsts": 1,
    }
    text = expanded(module(widened(64), ["f16", "f32"]))
    assert 'dist = "UNPK_B16"' in text
    assert 'part = "EVEN"' in text


V = vreg(256, "f32")
ALL = f'%m = pto.vmi.pset "PAT_ALL" : {mask(256)}'


def reduced(op: str, groups: int, words: str = "") -> str:
    return "\n".join([
        load("p", 256, "f32"), ALL,
        f"%r = pto.vmi.{op} %p, %m {{group = {groups}{words}}} : {V}, {mask(256)} -> {vreg(groups, 'f32')}",
        f"pto.vmi.vstore %r, %o_f32[%c0], %c{1 if groups > 4 else 8} {{group = {groups}}} : "
        f"{vreg(groups, 'f32')}, {pointer('f32')}",
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (32, {"vcgmax": 4}),  # S = 8: one for each register
        (16, {"vcgmax": 4, "vmax": 2}),  # S = 16: K + K/2
        (8, {"vcgmax": 4, "vmax": 3}),  # S = 32: K + 3/4 K
        (4, {"vcmax": 4}),  # S = 64: K + (1 - 1) * 4
        (2, {"vcmax": 4, "vmax": 2}),  # S = 128: K + (2 - 1) * 2
    ],
)
def test_reductions_of_groups(groups: int, expected: dict[str, int]) -> None:
    assert of("vcmax", reduced("vcmax", groups), "f32") == expected


def test_reduction_of_everything_adds_registers_first() -> None:
    body = "\n".join([
        load("p", 256, "f32"), ALL,
        f"%r = pto.vmi.vcadd %p, %m {{reassoc}} : {V}, {mask(256)} -> {vreg(1, 'f32')}",
        store("r", 1, "f32"),
    ])  # fmt: skip
    assert of("vcadd", body, "f32") == {"vadd": 3, "vcadd": 1}


def test_narrowing_converts_each_register_and_joins_them() -> None:
    body = "\n".join([
        load("p", 256, "f32"),
        f'%r = pto.vmi.vcvt %p {{rounding = "R", saturate = "SAT"}} : {V} -> {vreg(256, "f16")}',
        store("r", 256, "f16"),
    ])  # fmt: skip
    assert of("vcvt", body, "f32", "f16") == {"vcvt": 4, "vor": 2}
    assert of("vload", body, "f32", "f16") == {"vldsx2": 2}


def test_parts_of_four_are_loaded_by_pairs() -> None:
    body = "\n".join([
        load("p", 256, "f32"),
        f'%r = pto.vmi.vcvt %p {{rounding = "R", saturate = "SAT"}} : {V} -> {vreg(256, "f8E4M3FN")}',
        store("r", 256, "f8E4M3FN"),
    ])  # fmt: skip
    assert of("vload", body, "f32", "f8E4M3FN") == {"vldsx2": 2, "vdintlv": 2}
    assert of("vcvt", body, "f32", "f8E4M3FN") == {"vcvt": 4, "vor": 3}


def test_a_masked_comparison_has_an_and_for_each_register() -> None:
    body = "\n".join([
        load("p", 256, "f32"), f"%m = pto.vmi.create_mask %c100 : index -> {mask(256)}",
        f'%c = pto.vmi.vcmp %p, %p, %m {{cmp = "lt"}} : {V}, {V}, {mask(256)} -> {mask(256)}',
        f"%r = pto.vmi.vsel %c, %p, %p : {mask(256)}, {V}, {V} -> {V}", store("r", 256, "f32"),
    ])  # fmt: skip
    text = expanded(module(body, ["f32"]))
    assert len(re.findall(r"pto\.vcmp ", text)) == 4
    assert len(re.findall(r"pto\.pand ", text)) == 4
    assert of("vsel", body, "f32") == {"vsel": 4}


def cost(text: str):
    return ptosim.load(text).cost()


@pytest.mark.parametrize(
    "body", [widened(256), widened(64), reduced("vcmax", 16), reduced("vcmax", 2)]
)
def test_cycles_are_those_of_the_registers_written_out(body: str) -> None:
    text = module(body, ["f16", "f32"])
    assert cost(text).cycles == cost(expanded(text)).cycles


LOOP = f"""
  {load("p", 256, "f32")}
  %sum = scf.for %i = %c0 to %c512 step %c256 iter_args(%acc = %p) -> ({V}) {{
    {load("q", 256, "f32", "b", "%i")}
    %next = pto.vmi.vadd %acc, %q : {V}, {V} -> {V}
    scf.yield %next : {V}
  }}
  {store("sum", 256, "f32")}
"""


def test_executions_in_a_loop() -> None:
    text = module(LOOP, ["f32"])
    region = cost(text).regions[0]
    found = {op.name: op.instructions for op in region.operations}
    assert found["vmi.vadd"] == {"pset_b32": 1, "vadd": 8}
    assert cost(text).cycles == cost(expanded(text)).cycles


@pytest.mark.parametrize(
    ("body", "vectors", "masks"),
    [
        # 4 registers; the first sum may overwrite what it reads, the store needs one predicate.
        (f"{load('p', 256, 'f32')}\n{store('p', 256, 'f32')}", 4, 1),
        # 4 of %p and 4 of %q before the first sum, which takes the register of what it reads.
        ("\n".join([load("p", 256, "f32"), load("q", 256, "f32", "b"),
                    f"%r = pto.vmi.vadd %p, %q : {V}, {V} -> {V}", store("r", 256, "f32")]), 8, 1),
        # %p is read again at the end: 4 of it, 4 of %q, and the sums take those of %q.
        ("\n".join([load("p", 256, "f32"), load("q", 256, "f32", "b"),
                    f"%r = pto.vmi.vadd %p, %q : {V}, {V} -> {V}", store("r", 256, "f32"),
                    store("p", 256, "f32", "%c256")]), 8, 1),
        # What the loop carries is 4 registers through all of it; one iteration loads 4 more.
        (LOOP, 8, 1),
    ],
)  # fmt: skip
def test_registers_at_once(body: str, vectors: int, masks: int) -> None:
    found = cost(module(body, ["f32"])).regions[0].registers
    assert found is not None
    assert (found.vectors, found.masks, found.spilled) == (vectors, masks, 0)
    assert (found.vector_limit, found.mask_limit) == (32, 8)


def many(number: int) -> str:
    """So many vectors of 4 registers that all are there before the first is stored."""
    loads = [load(f"v{k}", 256, "f32", "a", f"%c{64 * k}") for k in range(number)]
    return "\n".join(loads + [store(f"v{k}", 256, "f32", f"%c{256 * k}") for k in range(number)])


def test_what_does_not_fit_is_stored_and_loaded() -> None:
    """9 vectors of 4 registers: 36, so 4 are spilled, each stored once and loaded for its one use."""
    text = module(many(9), ["f32"])
    report = cost(text).regions[0]
    assert report.registers is not None
    assert (report.registers.vectors, report.registers.spilled) == (36, 4)
    spills = [op.instructions for op in report.operations if op.name == "spill"]
    assert sum((Counter(s) for s in spills), Counter()) == {"vsts": 4, "vlds": 4}
    warned = [d for d in ptosim.check(text) if d.code == "PTO6463"]
    assert [("36 vector registers" in d.message, "has 32" in d.message) for d in warned] == [
        (True, True)
    ]
    assert not [d for d in ptosim.check(module(many(8), ["f32"])) if d.code == "PTO6463"]


def test_what_no_source_defines_has_no_cost() -> None:
    """A block form of two registers: nothing says where the blocks of the second one are."""
    body = f"%p = pto.vmi.vload %a_f32[%c0], %n1, %n1 : {pointer('f32')} -> {vreg(128, 'f32')}"
    with pytest.raises(UnsupportedError, match="one contiguous physical"):
        cost(module(body + "\n" + store("p", 128, "f32"), ["f32"]))
