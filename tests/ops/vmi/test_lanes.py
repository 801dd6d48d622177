"""Producers, masks, rearrangement and histograms of logical vectors against the lane-by-lane model."""

from __future__ import annotations

import pytest

from tests.ops.vmi.data import COUNT, assert_lanes, bools, vector
from tests.ops.vmi.test_arithmetic import literal
from tests.oracle import lanes as one
from tests.oracle import vmi as model
from tests.support.vmi import Vectors, mask_type, vreg

# -- producers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("elem", ["i8", "si16", "ui32", "f16", "bf16", "f32"])
def test_broadcast(elem):
    """A scalar, the only lane, one lane for each group."""
    scalar, a = vector("s", elem, 1)[0], vector("a", elem, 3)
    t, three, single = vreg(12, elem), vreg(3, elem), vreg(1, elem)
    program = Vectors().input("a", elem, a).input("b", elem, [scalar])
    for name in ("r", "s", "g", "o"):
        program.result(name, elem, 12)
    found = program.run(
        f"%r = pto.vmi.vbrc %k : {elem} -> {t}",
        f"%s = pto.vmi.vbrc %b : {single} -> {t}",
        f"%g = pto.vmi.vbrc %a {{group = 3}} : {three} -> {t}",
        f"%o = pto.vmi.group_broadcast %a {{num_groups = 3}} : {three} -> {t}",
        setup=[f"%k = arith.constant {literal(scalar, elem)} : {elem}"],
    )
    assert found["r"] == found["s"] == [scalar] * 12
    assert found["g"] == found["o"] == [a[i // 4] for i in range(12)]


@pytest.mark.parametrize("elem", ["i8", "si8", "i16", "ui16", "i32", "f16", "f32"])
@pytest.mark.parametrize("order", ["ASC", "DESC"])
def test_index_vector(elem, order):
    """Integers wrap; floats are computed in f32 and rounded. Groups begin again."""
    base = {"f16": 0x6800, "f32": 0x4B800000}.get(elem, (1 << (model.bits_of(elem) - 1)) - 2)
    value = one.read(base, elem) if one.is_float(elem) else base
    t, step = vreg(64, elem), 1 if order == "ASC" else -1
    program = Vectors().result("r", elem, 64).result("g", elem, 64)
    found = program.run(
        f'%r = pto.vmi.vci %s {{order = "{order}"}} : {elem} -> {t}',
        f'%g = pto.vmi.vci %s {{order = "{order}", group = 8}} : {elem} -> {t}',
        setup=[f"%s = arith.constant {literal(base, elem)} : {elem}"],
    )
    assert_lanes(found["r"], model.count_up(value, elem, 64, 1, step), elem)
    assert_lanes(found["g"], model.count_up(value, elem, 64, 8, step), elem)


def test_constants_of_the_text():
    t, h, m = vreg(4, "si16"), vreg(4, "f16"), mask_type(4)
    program = Vectors().result("a", "si16", 4).result("b", "si16", 4).result("c", "f16", 4)
    found = program.mask_result("m", 4).run(
        f'%a = "pto.vmi.constant"() {{value = dense<-3> : tensor<4xsi16>}} : () -> {t}',
        f'%b = "pto.vmi.constant"() {{value = dense<[1, -2, 3, -4]> : tensor<4xsi16>}} : () -> {t}',
        f'%c = "pto.vmi.constant"() {{value = dense<1.5> : tensor<4xf16>}} : () -> {h}',
        f'%m = "pto.vmi.constant_mask"() {{value = dense<[true, false, false, true]> : '
        f"tensor<4xi1>}} : () -> {m}",
    )
    assert found["a"] == [0xFFFD] * 4
    assert found["b"] == [1, 0xFFFE, 3, 0xFFFC]
    assert found["c"] == [0x3E00] * 4
    assert found["m"] == [1, 0, 0, 1]


# -- masks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [-3, 0, 1, 47, 48, 49, 1000])
def test_first_lanes(n):
    m = mask_type(48)
    program = Vectors().mask_result("a", 48).mask_result("b", 48).mask_result("p", 48)
    program.result("rest", "si32", 1)
    found = program.run(
        f"%a = pto.vmi.create_mask %n : index -> {m}",
        f"%b = pto.vmi.create_group_mask %n {{num_groups = 4, group_size = 12}} : index -> {m}",
        f"%p, %left = pto.vmi.plt %k : i32 -> {m}, i32",
        "%seen = builtin.unrealized_conversion_cast %left : i32 to si32",
        f"%rest = pto.vmi.vbrc %seen : si32 -> {vreg(1, 'si32')}",
        setup=[f"%n = arith.constant {n} : index", f"%k = arith.constant {n} : i32"],
    )
    assert found["a"] == model.first(48, n)
    assert found["b"] == model.group_mask(4, 12, n)
    mask, rest = model.less_than(48, n)
    assert found["p"] == mask
    assert found["rest"] == [rest & 0xFFFFFFFF]


def test_patterns():
    m = mask_type(24)
    program = Vectors().mask_result("a", 24).mask_result("b", 24).mask_result("c", 24)
    found = program.run(
        f'%a = pto.vmi.pset "PAT_ALL" : {m}',
        f'%b = pto.vmi.pge "PAT_VL5" : {m}',
        f'%c = pto.vmi.pge "PAT_VL3" {{group = 4}} : {m}',
    )
    assert found["a"] == [1] * 24
    assert found["b"] == model.first(24, 5)
    assert found["c"] == model.group_mask(4, 6, 3)


def test_number_of_active_lanes_before():
    mask, t = bools("m"), vreg(COUNT, "i16")
    program = Vectors().mask("m", mask).result("r", "i16", COUNT)
    found = program.run(f"%r = pto.vmi.active_prefix_index %m : {mask_type(COUNT)} -> {t}")
    assert found["r"] == [sum(mask[:i]) for i in range(COUNT)]


# -- rearrangement ------------------------------------------------------------------------------------


@pytest.mark.parametrize("elem", ["i8", "bf16", "f32", "hif8"])
def test_interleaving(elem):
    """The two are inverse; the pages zero inactive lanes, the assembler does not."""
    a, b, mask = vector("a", elem), vector("b", elem), bools("m")
    t, m = vreg(COUNT, elem), mask_type(COUNT)
    lines = [
        f"%l, %h = pto.vmi.vintlv %a, %b, %m : {t}, {t}, {m} -> {t}, {t}",
        f"%e, %o = pto.vmi.vdintlv %a, %b, %m : {t}, {t}, {m} -> {t}, {t}",
    ]
    for choice in ("assembler", "documented"):
        program = Vectors().input("a", elem, a).input("b", elem, b).mask("m", mask)
        for name in "lheo":
            program.result(name, elem, COUNT)
        found = program.run(*lines, switches={"vmi.mask": choice})
        expected = dict(
            zip("lheo", (*model.interleave(a, b), *model.deinterleave(a, b)), strict=True)
        )
        for name, lanes in expected.items():
            assert found[name] == (lanes if choice == "assembler" else model.zeroed(lanes, mask))
    assert model.deinterleave(*model.interleave(a, b)) == (a, b)


@pytest.mark.parametrize(
    ("src", "dst"), [("f32", "i8"), ("ui8", "f16"), ("bf16", "ui32"), ("i32", "si32")]
)
def test_bits_as_other_lanes(src, dst):
    count = 48
    a, size = vector(src, src, count), count * model.bits_of(src) // model.bits_of(dst)
    t, r = vreg(count, src), vreg(size, dst)
    program = Vectors().input("a", src, a).result("r", dst, size).result("b", dst, size)
    found = program.run(
        f"%r = pto.vmi.vinterpret_cast %a : {t} -> {r}", f"%b = pto.vmi.bitcast %a : {t} -> {r}"
    )
    assert found["r"] == found["b"] == model.interpret(a, src, dst)


@pytest.mark.parametrize(
    ("elem", "index", "count"),
    [("f32", "ui32", 40), ("bf16", "i16", 128), ("ui8", "i8", 200), ("f16", "ui16", 300)],
)
def test_lanes_by_index(elem, index, count):
    """Indices beyond the vector and beyond a register: what one register would have, with a warning."""
    a = vector("a", elem, count)
    width = 2048 // model.bits_of(elem)
    full = (1 << model.bits_of(index)) - 1
    inside = [i * 7 % count & full for i in range(count)]
    inside = [i if i < count else 0 for i in inside]
    outside = [count & full, width & full, (width + 3) & full, full, *inside[4:]]
    t, i = vreg(count, elem), vreg(count, index)
    for idx in (inside, outside):
        program = Vectors().input("a", elem, a).input("i", index, idx).result("r", elem, count)
        found = program.run(f"%r = pto.vmi.vselr %a, %i : {t}, {i} -> {t}")
        assert found["r"] == model.by_index(a, idx, elem)
        assert ("PTO6702" in program.codes) == any(k >= count for k in idx)


def test_static_rearrangements():
    """shuffle, channels, compress."""
    a, mask = vector("a", "i16", 24), bools("m", 24)
    t, s, m = vreg(24, "i16"), vreg(8, "i16"), mask_type(24)
    indices = [23, 0, 0, 5, 7, 7, 1, 2]
    program = Vectors().input("a", "i16", a).mask("m", mask).result("c", "i16", 24)
    for name in ("s", "x0", "x1", "x2"):
        program.result(name, "i16", 8)
    found = program.result("j", "i16", 24).run(
        f'%s = "pto.vmi.shuffle"(%a) {{indices = array<i64: {", ".join(map(str, indices))}>}} : '
        f"({t}) -> {s}",
        f'%x0, %x1, %x2 = "pto.vmi.channel_split"(%a) : ({t}) -> ({s}, {s}, {s})',
        f'%j = "pto.vmi.channel_merge"(%x0, %x1, %x2) : ({s}, {s}, {s}) -> {t}',
        f"%c = pto.vmi.compress %a, %m : {t}, {m} -> {t}",
    )
    assert found["s"] == [a[i] for i in indices]
    assert [found["x0"], found["x1"], found["x2"]] == [a[0::3], a[1::3], a[2::3]]
    assert found["j"] == a
    chosen = [x for x, on in zip(a, mask, strict=True) if on]
    assert found["c"] == chosen + [0] * (24 - len(chosen))


# -- histograms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("bins", [128, 256])
@pytest.mark.parametrize(("acc_elem", "elem"), [("ui16", "ui8"), ("i16", "i8")])
def test_histograms(bins, acc_elem, elem):
    """Sums modulo 2^16 under the mask of the source; with 128 bins larger numbers never count."""
    source, mask = vector("s", elem, 300), bools("m", 300)
    source[:40] = [200] * 20 + [3] * 20
    acc = [0xFFFF if b == 3 else b for b in range(bins)]
    a, s, m = vreg(bins, acc_elem), vreg(300, elem), mask_type(300)
    program = Vectors().input("a", acc_elem, acc).input("s", elem, source).mask("m", mask)
    found = (
        program.result("d", acc_elem, bins)
        .result("c", acc_elem, bins)
        .run(
            f"%d = pto.vmi.vdhist %a, %s, %m : {a}, {s}, {m} -> {a}",
            f"%c = pto.vmi.vchist %a, %s, %m : {a}, {s}, {m} -> {a}",
        )
    )
    assert found["d"] == model.histogram(acc, source, mask, cumulative=False)
    assert found["c"] == model.histogram(acc, source, mask, cumulative=True)
