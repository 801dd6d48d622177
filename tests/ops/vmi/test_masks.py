"""What masks do: the warning where a dropped mask reaches memory, `merge`, second values through control
flow and calls."""

from __future__ import annotations

import struct

import pytest

import ptosim
from ptosim.ops.vmi.masks import _of_groups
from tests.support.vmi import Vectors, mask_type, vreg

T, M = vreg(8, "f32"), mask_type(8)
NUMBERS = [struct.unpack("<I", struct.pack("<f", x))[0] for x in (1, 2, 3, 4, 5, 6, 7, 8)]
FIVE = [i < 5 for i in range(8)]
ADD = f"%d = pto.vmi.vadd %x, %x, %m : {T}, {T}, {M} -> {T}"


def found(*lines: str, x: list[int] = NUMBERS, mask: list[bool] = FIVE, **options) -> list[str]:
    """The messages of a program whose result is %r."""
    program = Vectors().input("x", "f32", x).mask("m", mask).result("r", "f32", 8)
    program.run(*lines, setup=["%half = arith.constant 0.5 : f32"], **options)
    assert set(program.codes) <= {"PTO6703"}, program.codes
    return program.messages


COPY = f"%r = pto.vmi.vsel %all, %d, %x : {M}, {T}, {T} -> {T}"
ALL = f'%all = pto.vmi.pset "PAT_ALL" : {M}'


@pytest.mark.parametrize("choice", ["assembler", "documented"])
def test_a_difference_that_reaches_memory(choice):
    """Both readings say it, and name the operation that made the difference and the store."""
    (message,) = found(ALL, ADD, COPY, switches={"vmi.mask": choice})
    assert "'pto.vmi.vadd' (%d)" in message
    assert message.startswith("'pto.vmi.vstore'")


THROWN_AWAY = {
    "a later operation that zeroes": f"%r = pto.vmi.vadds %d, %half, %m : {T}, f32, {M} -> {T}",
    "a selection": f"%r = pto.vmi.vsel %m, %d, %x : {M}, {T}, {T} -> {T}",
    "a masked reduction": f"%s = pto.vmi.vcadd %d, %m {{reassoc}} : {T}, {M} -> {vreg(1, 'f32')}\n"
    f"%r = pto.vmi.vbrc %s : {vreg(1, 'f32')} -> {T}",
}


@pytest.mark.parametrize("how", THROWN_AWAY)
def test_a_difference_that_is_thrown_away(how):
    assert found(ADD, THROWN_AWAY[how]) == []


def test_a_masked_store_throws_it_away():
    program = Vectors().input("x", "f32", NUMBERS).mask("m", FIVE).result("r", "f32", 8)
    program._stores = [
        f"pto.vmi.vstore %d, %p_r[%c0], %m : {T}, !pto.ptr<f32, ub>, {M}",
    ]
    assert program.run(ADD, uninit="zero")["r"][5:] == [0, 0, 0]
    assert program.codes == []


def test_no_difference_no_warning():
    """Inactive lanes that are zero anyway; a mask that happens to be full."""
    assert found(ALL, ADD, COPY, x=[*NUMBERS[:5], 0, 0, 0]) == []
    assert found(ALL, ADD, COPY, mask=[True] * 8) == []


@pytest.mark.parametrize(
    "way",
    [
        f'%c = pto.vmi.vcvt %d {{saturate = "SAT"}} : {T} -> {vreg(8, "f16")}\n'
        f"%r = pto.vmi.vcvt %c : {vreg(8, 'f16')} -> {T}",
        f"%l, %h = pto.vmi.vintlv %d, %x, %all : {T}, {T}, {M} -> {T}, {T}\n"
        f"%r = pto.vmi.vadd %l, %h : {T}, {T} -> {T}",
        f'%k = pto.vmi.vcmp %d, %x, %all {{cmp = "gt"}} : {T}, {T}, {M} -> {M}\n'
        f"%z = pto.vmi.vbrc %half : f32 -> {T}\n"
        f"%r = pto.vmi.vsel %k, %x, %z : {M}, {T}, {T} -> {T}",
        f"%r = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %d) -> ({T}) {{\n"
        f"%b = pto.vmi.vadd %a, %x : {T}, {T} -> {T}\nscf.yield %b : {T}\n}}",
        f"%yes = arith.constant true\n%r = scf.if %yes -> ({T}) {{\nscf.yield %d : {T}\n}} else {{\n"
        f"scf.yield %x : {T}\n}}",
        f"%yes = arith.constant true\n%r = arith.select %yes, %d, %x : {T}",
    ],
    ids=["conversions", "rearrangement", "comparison", "loop", "branch", "arith.select"],
)
def test_second_values_go_everywhere(way):
    program = Vectors().input("x", "f32", NUMBERS).mask("m", FIVE).result("r", "f32", 8)
    setup = ["%half = arith.constant 0.5 : f32", "%c1 = arith.constant 1 : index",
             "%c2 = arith.constant 2 : index"]  # fmt: skip
    program.run(ALL, ADD, *way.split("\n"), setup=setup)
    assert program.codes == ["PTO6703"]


def test_another_place_and_another_set_of_lanes():
    """Indices and masks that differ are found at the scatter, though the bytes are the same."""
    i = vreg(8, "i32")
    for line in (
        f"pto.vmi.vscatter %v, %p_r, %e, %all : {i}, !pto.ptr<i32, ub>, {i}, {M}",
        f'%k = pto.vmi.vcmp %e, %x, %all {{cmp = "gt"}} : {i}, {i}, {M} -> {M}\n'
        f"pto.vmi.vscatter %v, %p_r, %x, %k : {i}, !pto.ptr<i32, ub>, {i}, {M}",
    ):
        program = Vectors().input("x", "i32", list(range(8))).mask("m", FIVE)
        program.result("r", "i32", 16)
        program._stores = []
        program.run(
            ALL,
            f"%v = pto.vmi.vbrc %seven : i32 -> {i}",
            f"%e = pto.vmi.vadd %x, %x, %m : {i}, {i}, {M} -> {i}",
            *line.split("\n"),
            setup=["%seven = arith.constant 7 : i32"],
        )
        assert program.codes == ["PTO6703"]


def test_the_lost_mask_of_an_interleaving_store():
    """Both readings: all lanes, or active ones; either says that it matters."""
    line = f'pto.vmi.vstore %x, %x, %p_r[%c0], %m {{dist_mode = "dintlv"}} : {T}, {T}, !pto.ptr<f32, ub>, {M}'
    both = [n for n in NUMBERS for _ in range(2)]
    for choice, lanes in (("assembler", both), ("documented", [*both[:10], *[0] * 6])):
        program = Vectors().input("x", "f32", NUMBERS).mask("m", FIVE).result("r", "f32", 16)
        program._stores = []
        out = program.run(line, switches={"vmi.mask": choice}, uninit="zero")
        assert out["r"] == lanes
        assert program.codes == ["PTO6703"]


# -- merge --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "lanes"),
    [
        (f'%r = pto.vmi.vneg %x, %m {{pmode = "merge"}} : {T}, {M} -> {T}',
         [*(n ^ 0x80000000 for n in NUMBERS[:5]), *NUMBERS[5:]]),
        (f'%r = pto.vmi.vmuls %x, %zero, %m {{pmode = "merge"}} : {T}, f32, {M} -> {T}',
         [*[0] * 5, *NUMBERS[5:]]),
        (f'%r = pto.vmi.vneg %x {{pmode = "merge"}} : {T} -> {T}', [n ^ 0x80000000 for n in NUMBERS]),
        (f'%r = pto.vmi.vsel %m, %x, %x {{pmode = "merge"}} : {M}, {T}, {T} -> {T}', NUMBERS),
    ],
)  # fmt: skip
def test_merge_where_it_has_a_meaning(line, lanes):
    """Operations of one vector pass it through; without a mask nothing is inactive."""
    program = Vectors().input("x", "f32", NUMBERS).mask("m", FIVE).result("r", "f32", 8)
    assert program.run(line, setup=["%zero = arith.constant 0.0 : f32"])["r"] == lanes


UNNAMED = [
    f'%r = pto.vmi.vadd %x, %x, %m {{pmode = "merge"}} : {T}, {T}, {M} -> {T}',
    f'%r = pto.vmi.vexpdif %x, %x, %m {{pmode = "merge"}} : {T}, {T}, {M} -> {T}',
    f'%r = pto.vmi.vmula %x, %x, %x, %m {{pmode = "merge"}} : {T}, {T}, {T}, {M} -> {T}',
    f'%l, %r = pto.vmi.vintlv %x, %x, %m {{pmode = "merge"}} : {T}, {T}, {M} -> {T}, {T}',
    f'%k = pto.vmi.vcmp %x, %x, %m {{cmp = "eq", pmode = "merge"}} : {T}, {T}, {M} -> {M}\n'
    f"%r = pto.vmi.vsel %k, %x, %x : {M}, {T}, {T} -> {T}",
    f'%s = pto.vmi.vcmax %x, %m {{pmode = "merge"}} : {T}, {M} -> {vreg(1, "f32")}\n'
    f"%r = pto.vmi.vbrc %s : {vreg(1, 'f32')} -> {T}",
]


@pytest.mark.parametrize("line", UNNAMED)
def test_merge_without_an_old_destination(line):
    """No effect under a mask that is full at run time; else the run stops: exit 5."""

    def program(mask: list[bool]) -> Vectors:
        return Vectors().input("x", "f32", NUMBERS).mask("m", mask).result("r", "f32", 8)

    program([True] * 8).run(*line.split("\n"))
    with pytest.raises(ptosim.ProgramError) as problem:
        program(FIVE).run(*line.split("\n"))
    assert problem.value.exit_code == 5
    assert "PTO8002" in str(problem.value)


def test_masks_that_differ_in_every_round_are_not_all_kept():
    """Each of 2^20 lanes is a MiB; 4096 of them were gigabytes."""
    masks = _of_groups(1 << 10, 512)
    assert [int(masks(n).on.sum()) for n in range(512)] == [2 * n for n in range(512)]
    assert masks.cache_info().currsize <= 64
