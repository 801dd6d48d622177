"""Vector streams: unaligned loads, stores of counted lanes, and predicates one after the other."""

from __future__ import annotations

import random

import pytest

from tests.ops.micro.data import MASK, OUT, full, memory, stored
from tests.oracle import lanes as one
from tests.oracle import ub as model
from tests.support.micro import in_ub, mask_type, vreg


@pytest.mark.parametrize("start", [0, 4, 28, 60])
def test_unaligned_loads(start):
    """In April the pointer without an increment is the address after what was loaded."""
    before = memory(start)
    v, p = vreg("f32"), "!pto.ptr<f32, ub>"
    after, _ = in_ub(
        bytes(before),
        full("f32"),
        f"%q = pto.addptr %f32, %n : {p} -> {p}",
        f"%l0 = pto.vldas %q : {p} -> !pto.align",
        f"%a, %l1, %q1 = pto.vldus %q, %l0 : {p}, !pto.align -> {v}, !pto.align, {p}",
        f"%b, %l2 = pto.vldus %q1, %l1 : {p}, !pto.align -> {v}, !pto.align",
        stored("a", "f32", OUT),
        stored("b", "f32", OUT + 256),
        setup=[f"%n = arith.constant {start // 4} : index"],
        compat="2026-04",
    )
    assert after[OUT : OUT + 512] == before[start : start + 512]


@pytest.mark.parametrize("counts", [(24, 24, 3), (1, 1, 1), (64, 5, 64), (0, 7, 0)])
@pytest.mark.parametrize("start", [OUT, OUT + 4])
def test_streams_counted_by_operand(counts, start):
    """vstus appends, the pointer moves with it, vstas writes the rest."""
    before = memory(counts)
    v, p, al = vreg("f32"), "!pto.ptr<f32, ub>", "!pto.align"
    lines = [f"%q0 = pto.addptr %f32, %n : {p} -> {p}", f"%a0 = pto.init_align : {al}"]
    lines.append(f"%r = pto.vlds %f32[0] : {p} -> {v}")
    lines += [
        f"%a{i + 1}, %q{i + 1} = pto.vstus %a{i}, %k{i}, %r, %q{i} : {al}, i32, {v}, {p} -> {al}, {p}"
        for i in range(3)
    ]
    lines.append(f"pto.vstas %a3, %q0, %total : {al}, {p}, i32")
    after, codes = in_ub(
        bytes(before),
        *lines,
        setup=[
            f"%n = arith.constant {start // 4} : index",
            *(f"%k{i} = arith.constant {c} : i32" for i, c in enumerate(counts)),
            f"%total = arith.constant {sum(counts)} : i32",
        ],
    )
    expected = bytearray(before)
    stream, at = model.Stream(expected), start
    for count in counts:
        stream.append(at, bytes(before[: 4 * count]))
        at += 4 * count
    if codes != ["PTO6611"]:
        stream.flush()
    assert after == expected
    assert codes == []


@pytest.mark.parametrize("mode", ["POST_UPDATE", "NO_POST_UPDATE"])
def test_streams_counted_by_squeeze(mode):
    """AR advances by what vsqz counted, over two appends; sprclr resets it for the next stream."""
    before = memory(mode)
    image = random.Random(mode).randbytes(32)
    before[MASK : MASK + 32] = image
    v, p, al, k = vreg("f32"), "!pto.ptr<f32, ub>", "!pto.align", "!pto.mask<b32>"
    on = one.active(one.mask_bits(image), 4)
    lines = [
        f'%m = pto.plds %ui8[{MASK}], "NORM" : !pto.ptr<ui8, ub>, index -> {k}',
        f"%r = pto.vlds %f32[0] : {p} -> {v}",
        f"%s = pto.vsqz %r, %m : {v}, {k} -> {v}",
    ]
    for n, far in ((0, "near"), (1, "far")):
        lines += [
            'pto.sprclr "AR"',
            f"%q{n} = pto.addptr %f32, %{far} : {p} -> {p}",
            f"%a{n} = pto.init_align : {al}",
            f'%b{n} = pto.vstur %a{n}, %s, %q{n}, "{mode}" : {al}, {v}, {p} -> {al}',
        ]
        last = f"%b{n}"
        if mode == "POST_UPDATE":
            lines.append(f'%c{n} = pto.vstur %b{n}, %s, %q{n}, "{mode}" : {al}, {v}, {p} -> {al}')
            last = f"%c{n}"
        lines.append(f"pto.vstar {last}, %q{n} : {al}, {p}")
    after, codes = in_ub(
        bytes(before),
        *lines,
        setup=[f"%near = arith.constant {OUT // 4} : index", f"%far = arith.constant {(OUT + 1024) // 4} : index"],
    )  # fmt: skip
    squeezed = b"".join(before[4 * i : 4 * i + 4] for i in range(64) if on[i])
    expected = bytearray(before)
    for at in (OUT, OUT + 1024):
        stream = model.Stream(expected)
        stream.append(at, squeezed)
        if mode == "POST_UPDATE":
            stream.append(at + len(squeezed), squeezed)
            stream.flush()
    if mode == "POST_UPDATE":
        assert after == expected
        assert codes == []
    else:  # AR stays 0: the flush is not at the end of the stream, and says so
        assert codes == ["PTO6611", "PTO6611"]


def test_streams_by_offset():
    """vstu moves the offset that vsta takes."""
    before = memory("vstu")
    v, p, al = vreg("f32"), "!pto.ptr<f32, ub>", "!pto.align"
    after, codes = in_ub(
        bytes(before),
        f"%r = pto.vlds %f32[0] : {p} -> {v}",
        f"%a = pto.init_align : {al}",
        f'%b, %o = pto.vstu %a, %at, %r, %f32, "POST_UPDATE" : {al}, index, {v}, {p} -> {al}, index',
        f'%c, %e = pto.vstu %b, %o, %r, %f32, "POST_UPDATE" : {al}, index, {v}, {p} -> {al}, index',
        f"pto.vsta %c, %f32[%e] : {al}, {p}, index",
        setup=[f"%at = arith.constant {OUT // 4 + 3} : index"],
    )
    expected = bytearray(before)
    expected[OUT + 12 : OUT + 12 + 512] = before[:256] * 2
    assert after == expected
    assert codes == []


@pytest.mark.parametrize(("bits", "elem", "size"), [(32, "ui32", 8), (16, "ui16", 16)])
def test_streams_of_predicates(bits, elem, size):
    """One bit for each lane; two of them one after the other."""
    before = memory(bits)
    images = [random.Random(f"{bits}{i}").randbytes(32) for i in range(2)]
    before[MASK : MASK + 64] = b"".join(images)
    p, al, k = f"!pto.ptr<{elem}, ub>", "!pto.align", mask_type(bits)
    after, codes = in_ub(
        bytes(before),
        *(f'%m{i} = pto.plds %ui8[{MASK + 32 * i}], "NORM" : !pto.ptr<ui8, ub>, index -> {k}' for i in range(2)),
        f"%a = pto.init_align : {al}",
        f"%q = pto.addptr %{elem}, %far : {p} -> {p}",
        f"%b, %q1 = pto.pstu %a, %m0, %q : {al}, {k}, {p} -> {al}, {p}",
        f"%c, %q2 = pto.pstu %b, %m1, %q1 : {al}, {k}, {p} -> {al}, {p}",
        f"pto.vstas %c, %q2, %none : {al}, {p}, i32",
        setup=[f"%far = arith.constant {OUT // (bits // 8)} : index", "%none = arith.constant 0 : i32"],
    )  # fmt: skip
    expected = bytearray(before)
    for i, image in enumerate(images):
        lanes = one.active(one.mask_bits(image), bits // 8)
        expected[OUT + i * size : OUT + (i + 1) * size] = one.mask_bytes(lanes)
    assert after == expected
    assert codes == []
