"""Sorting in UB against Python's own sort and a merge of one record at a time."""

from __future__ import annotations

import random
import struct

import pytest

from tests.oracle import lanes as one
from tests.support.micro import in_ub

SIZE = 8192
KEYS, INDICES, OUT = 0, 1024, 2048


def _value(pattern: int, elem: str) -> float:
    return struct.unpack("<f" if elem == "f32" else "<e", pattern.to_bytes(4 if elem == "f32" else 2, "little"))[0]  # fmt: skip


@pytest.mark.parametrize("elem", ["f32", "f16"])
@pytest.mark.parametrize("repeat", [0, 1, 3])
def test_sorting_of_32(elem, repeat):
    """Descending, ties in the order of the input; records of 8 bytes, f16 scores in the first 2."""
    w, rng = (4 if elem == "f32" else 2), random.Random(f"{elem}{repeat}")
    memory = bytearray(rng.randbytes(SIZE))
    choice = [0, 0x3C00, 0xBC00, 0x4200, 0x7C00, 0x0001] if elem == "f16" else [0, 0x3F800000, 0xBF800000, 0x7F800000, 1, 0x42280000]  # fmt: skip
    keys = [rng.choice(choice) for _ in range(32 * repeat)]
    memory[KEYS : KEYS + len(keys) * w] = one.join(keys, w)
    indices = one.split(bytes(memory[INDICES : INDICES + 128 * repeat]), 4)
    after, _ = in_ub(
        bytes(memory),
        outside=[
            f"pto.vbitsort %d, %{elem}, %x, {repeat} : !pto.ptr<f32, ub>, !pto.ptr<{elem}, ub>, !pto.ptr<ui32, ub>, index"
        ],
        setup=[
            f"%n = arith.constant {OUT // 4} : index",
            f"%m = arith.constant {INDICES // 4} : index",
            "%d = pto.addptr %f32, %n : !pto.ptr<f32, ub> -> !pto.ptr<f32, ub>",
            "%x = pto.addptr %ui32, %m : !pto.ptr<ui32, ub> -> !pto.ptr<ui32, ub>",
        ],
    )
    expected = bytearray(memory)
    for r in range(repeat):
        rows = list(zip(keys[32 * r : 32 * r + 32], indices[32 * r : 32 * r + 32], strict=True))
        rows.sort(key=lambda row: _value(row[0], elem), reverse=True)  # a stable sort
        data = b"".join(k.to_bytes(4, "little") + i.to_bytes(4, "little") for k, i in rows)
        expected[OUT + 256 * r : OUT + 256 * r + 256] = data
    assert after == expected


def _merged(lists: list[list[tuple[float, int]]], *, suspends: bool) -> tuple[list, list[int]]:
    taken, out = [0] * len(lists), []
    while True:
        best = None
        for k, records in enumerate(lists):
            if taken[k] == len(records):
                continue
            if best is None or records[taken[k]][0] > lists[best][taken[best]][0]:
                best = k
        if best is None:
            return out, taken
        out.append(lists[best][taken[best]])
        taken[best] += 1
        if suspends and taken[best] == len(lists[best]):
            return out, taken


@pytest.mark.parametrize(
    ("lengths", "valid", "suspends", "repeat"),
    [((1, 1, 1, 1), 15, True, 1), ((5, 3, 8, 2), 15, False, 1), ((5, 3, 8, 2), 15, True, 1),
     ((4, 6, 9, 9), 3, False, 1), ((4, 4, 4, 4), 15, False, 2), ((4, 4, 0, 0), 15, False, 1)],
)  # fmt: skip
def test_merge_of_four(lengths, valid, suspends, repeat):
    """Descending, of equal scores the lower list; which lists count, and where a list that runs
    empty stops it; VMS4_SR counts what was taken."""
    rng = random.Random(f"{lengths}{valid}{suspends}")
    memory = bytearray(SIZE)
    starts = [0, 512, 1024, 1536]
    known: list[list[list[tuple[float, int]]]] = [[] for _ in range(repeat)]
    for k, length in enumerate(lengths):
        for r in range(repeat):
            records = sorted(
                ((rng.choice([0.5, 1.0, 2.0, -3.0, rng.random()]), rng.getrandbits(32)) for _ in range(length)),
                key=lambda record: record[0], reverse=True,
            )  # fmt: skip
            records = [(struct.unpack("<f", struct.pack("<f", s))[0], i) for s, i in records]
            for n, record in enumerate(records):
                at = starts[k] + (r * length + n) * 8
                memory[at : at + 8] = struct.pack("<fI", *record)
            known[r].append(records if valid >> k & 1 else [])
    counts = sum(length << 16 * k for k, length in enumerate(lengths))
    config = repeat | valid << 8 | suspends << 12
    setup = [
        f"%o{k} = arith.constant {start // 4} : index" for k, start in enumerate([*starts, OUT])
    ]
    setup += [f"%p{k} = pto.addptr %f32, %o{k} : !pto.ptr<f32, ub> -> !pto.ptr<f32, ub>" for k in range(5)]  # fmt: skip
    setup += [f"%counts = arith.constant {counts} : i64", f"%config = arith.constant {config} : i64"]  # fmt: skip
    five = ", ".join(["!pto.ptr<f32, ub>"] * 5)
    after, _ = in_ub(
        bytes(memory),
        outside=[
            f"pto.vmrgsort4 %p4, %p0, %p1, %p2, %p3, %counts, %config : {five}, i64, i64",
            "%t0, %t1, %t2, %t3 = pto.get_vms4_sr : i16, i16, i16, i16",
            *(f"%s{k} = arith.constant {2000 + k} : index" for k in range(4)),
            *(f"pto.store_scalar %t{k}, %i16[%s{k}] : !pto.ptr<i16, ub>, i16" for k in range(4)),
        ],
        setup=setup,
    )
    expected, at, taken = bytearray(memory), OUT, [0] * 4
    for lists in known:
        merged, taken = _merged(lists, suspends=suspends)
        for n, record in enumerate(merged):
            expected[at + 8 * n : at + 8 * n + 8] = struct.pack("<fI", *record)
        at += 8 * sum(map(len, lists))
    expected[4000:4008] = one.join(taken, 2)
    assert after == expected
