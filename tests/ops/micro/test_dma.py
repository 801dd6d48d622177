"""Transfers of the micro level against copies of one byte at a time."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from tests.ops.micro.data import shown_by_vector_cores
from tests.support.micro import ORDERED, in_ub, kernel, run

SIZE = 8192


def noise(seed: object, size: int = SIZE) -> bytes:
    return random.Random(f"{seed}|dma").randbytes(size)


def moved(
    source: bytes,
    target: bytearray,
    at: int,
    length: int,
    levels: list[tuple[int, int, int]],
    first: int = 0,
) -> None:
    """Bursts of `length` bytes for every level, the first the innermost; outside is 0 and dropped."""
    for counts in product(*(range(count) for count, _, _ in reversed(levels))):
        steps = list(zip(reversed(counts), levels, strict=True))
        start = first + sum(i * level[1] for i, level in steps)
        to = at + sum(i * level[2] for i, level in steps)
        for i in range(length):
            if 0 <= to + i < len(target):
                target[to + i] = source[start + i] if 0 <= start + i < len(source) else 0


def through_ub(seed: str, load: str, *, size: int = SIZE, setup: str = "") -> tuple[bytes, bytes, list[str]]:  # fmt: skip
    """Fill UB, move something in from `%g`, and return what was in `%g`, and UB after it."""
    data, before = noise(seed, size), noise(seed + "ub")
    body = f"""
    %zero = arith.constant 0 : i64
    %u = pto.castptr %zero : i64 -> !pto.ptr<ui8, ub>
    %w = pto.castptr %zero : i64 -> !pto.ptr<i16, ub>
    %gw = pto.castptr %g : !pto.ptr<ui8> -> !pto.ptr<i16>
    {setup}
    pto.mte_gm_ub %o, %u, 0, {SIZE} nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, ub>
    {ORDERED}
    {load}
    {ORDERED}
    pto.mte_ub_gm %u, %o, {SIZE} nburst(1, 0, 0) : !pto.ptr<ui8, ub>, !pto.ptr<ui8>
    """
    result = run(
        kernel("%g: !pto.ptr<ui8>, %o: !pto.ptr<ui8>", body),
        {"g": np.frombuffer(data, np.uint8), "o": np.frombuffer(before, np.uint8)},
    )
    return data, result.outputs["o"].tobytes(), [f.code for f in result.findings]


CASES = {
    # length, bursts, loops (count, from, to)
    "one": (100, (1, 0, 0), []),
    "pitch": (33, (4, 64, 96), []),
    "overlapping source": (64, (5, 16, 64), []),
    "two loops": (32, (3, 64, 32), [(2, 1000, 512), (2, 8, 2048)]),
    "loops that cross": (32, (2, 512, 1024), [(2, 64, 32), (3, 4, 96)]),
    "backwards": (32, (3, -64, 64), []),
    "nothing": (32, (0, 0, 0), []),
}


def _written(length: int, bursts: tuple[int, int, int], loops: list[tuple[int, int, int]]) -> str:
    text = f"{length} nburst({', '.join(map(str, bursts))})"
    return text + "".join(f" loop({', '.join(map(str, loop))})" for loop in loops)


@pytest.mark.parametrize("case", CASES)
def test_from_and_to_global_memory(case):
    """Lengths and strides are bytes from start to start; the first loop is the innermost."""
    length, bursts, loops = CASES[case]
    first = 256 if case == "backwards" else 0
    words = _written(length, bursts, loops)
    data, found, codes = through_ub(
        case,
        f"%s = pto.addptr %g, %n : !pto.ptr<ui8> -> !pto.ptr<ui8>\n"
        f"pto.mte_gm_ub %s, %u, 0, {words} : !pto.ptr<ui8>, !pto.ptr<ui8, ub>",
        setup=f"%n = arith.constant {first} : index",
    )
    expected = bytearray(noise(case + "ub"))
    moved(data, expected, 0, length, [bursts, *loops], first)
    unset = b"\xff" * (1 << 16)  # as memory that nothing has written
    moved(unset, expected, length, -length % 32, [bursts, *loops], 0)
    assert found == expected
    told = {  # strides have no sign; after a burst A5 fills its last block of 32 bytes with anything
        "backwards": ["PTO2034"], "one": ["PTO7102"], "pitch": ["PTO7102"],
    }  # fmt: skip
    assert codes == told.get(case, [])


@pytest.mark.parametrize("case", ["one", "pitch", "two loops", "loops that cross"])
def test_to_global_memory(case):
    length, bursts, loops = CASES[case]
    before, ub = noise(case), noise(case + "ub")
    body = f"""
    %zero = arith.constant 0 : i64
    %u = pto.castptr %zero : i64 -> !pto.ptr<ui8, ub>
    pto.mte_gm_ub %o, %u, 0, {SIZE} nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, ub>
    pto.mte_ub_gm %u, %g, {_written(length, bursts, loops)} : !pto.ptr<ui8, ub>, !pto.ptr<ui8>
    """
    result = run(
        kernel("%g: !pto.ptr<ui8>, %o: !pto.ptr<ui8>", body),
        {"g": np.frombuffer(before, np.uint8), "o": np.frombuffer(ub, np.uint8)},
    )
    expected = bytearray(before)
    moved(ub, expected, 0, length, [bursts, *loops])
    assert result.outputs["g"].tobytes() == expected


@pytest.mark.parametrize(
    ("length", "pad", "left", "right"),
    [(224, "0, 8", 0, 8), (30, "0, 0", 0, 1), (64, "0, 0", 0, 0), (32, "3, 2", 3, 2), (50, "", 0, 7)],
)  # fmt: skip
def test_padding(length, pad, left, right):
    """Elements after the data at once and in front of it; without counts up to the next 32 bytes."""
    words = f"pad(%v{', ' + pad if pad else ''})"
    data, found, _ = through_ub(
        str(length),
        f"pto.mte_gm_ub %gw, %w, 0, {length} nburst(3, 256, 512) {words} : !pto.ptr<i16>, !pto.ptr<i16, ub>, pad i16",
        setup="%v = arith.constant 4660 : i16",
    )
    expected = bytearray(noise(str(length) + "ub"))
    unit = (0x1234).to_bytes(2, "little")
    for burst in range(3):
        line = unit * left + data[256 * burst : 256 * burst + length] + unit * right
        expected[512 * burst : 512 * burst + len(line)] = line
    assert found == expected


def test_outside_of_a_buffer():
    """Reads after the end give 0, writes there are dropped; each says so."""
    data, found, codes = through_ub(
        "outside", "pto.mte_gm_ub %g, %u, 0, 128 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, ub>",
        size=96,
    )  # fmt: skip
    assert found[:128] == data + bytes(32)
    assert codes == ["PTO6604"]
    body = f"""
    %zero = arith.constant 0 : i64
    %u = pto.castptr %zero : i64 -> !pto.ptr<ui8, ub>
    pto.mte_gm_ub %g, %u, 0, 96 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, ub>
    {ORDERED}
    pto.mte_ub_gm %u, %o, 96 nburst(1, 0, 0) : !pto.ptr<ui8, ub>, !pto.ptr<ui8>
    """
    result = run(
        kernel("%g: !pto.ptr<ui8>, %o: !pto.ptr<ui8>", body),
        {"g": np.frombuffer(data, np.uint8), "o": np.zeros(40, np.uint8)},
    )
    assert result.outputs["o"].tobytes() == data[:40]
    assert [f.code for f in result.findings] == ["PTO6604"]


@pytest.mark.parametrize(
    ("count", "length", "gaps"), [(1, 1, (0, 0)), (3, 2, (1, 4)), (4, 1, (3, 0))]
)
def test_units_and_gaps_on_chip(count, length, gaps):
    """32-byte units; a gap follows its burst."""
    before = noise(count)
    found, _ = in_ub(
        before,
        outside=[
            f"pto.mte_ub_ub %ui8, %q, {length} nburst({count}, {gaps[0]}, {gaps[1]}) : !pto.ptr<ui8, ub>, !pto.ptr<ui8, ub>"
        ],
        setup=["%n = arith.constant 4096 : index", "%q = pto.addptr %ui8, %n : !pto.ptr<ui8, ub> -> !pto.ptr<ui8, ub>"],
    )  # fmt: skip
    expected = bytearray(before)
    step = [(length + gap) * 32 for gap in gaps]
    moved(before, expected, 4096, length * 32, [(count, *step)])
    assert found == expected


_MIXED = """
  func.func @kernel(%g: !pto.ptr<ui8>, %o: !pto.ptr<ui8>) {{
    %zero = arith.constant 0 : i64
    %u = pto.castptr %zero : i64 -> !pto.ptr<ui8, ub>
    %l = pto.castptr %zero : i64 -> !pto.ptr<ui8, l1>
    %n = arith.constant {half} : index
    pto.section.cube {{
      pto.mte_gm_l1 %g, %l, {size} nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, l1>
      {cube}
{shown}
"""


@pytest.mark.parametrize("core", [None, 0, 1])
def test_from_l1_to_a_vector_core(core):
    """mte_l1_ub goes to core 0, copy_cbuf_to_ubuf to the core that it names; units of 32 bytes."""
    if core is None:
        text = "pto.mte_l1_ub %l, %u, 2 nburst(3, 1, 2) : !pto.ptr<ui8, l1>, !pto.ptr<ui8, ub>"
    else:
        text = f"pto.copy_cbuf_to_ubuf %l, %u, {core}, 3, 2, 1, 2 : !pto.ptr<ui8, l1>, !pto.ptr<ui8, ub>"
    data = noise("l1", 2048)
    module = 'module attributes {pto.target_arch = "a5"} {' + _MIXED.format(
        size=2048, half=512, cube=text, shown=shown_by_vector_cores("%u", 512)
    )
    result = run(
        module + "}",
        {"g": np.frombuffer(data, np.uint8), "o": np.zeros(1024, np.uint8)},
        uninit="zero",
    )
    expected = bytearray(512)
    moved(data, expected, 0, 64, [(3, 96, 128)])
    halves = [bytes(expected), bytes(512)]
    assert result.outputs["o"].tobytes() == b"".join(halves[::-1] if core == 1 else halves)


INTO_L1 = {
    "mte_ub_l1": "pto.mte_ub_l1 %u, %l, 2 nburst(3, 1, 2) : !pto.ptr<ui8, ub>, !pto.ptr<ui8, l1>",
    "copy_ubuf_to_cbuf": "pto.copy_ubuf_to_cbuf %u, %l, 0, 3, 2, 1, 2 : !pto.ptr<ui8, ub>, !pto.ptr<ui8, l1>",
    "copy_gm_to_cbuf": "pto.copy_gm_to_cbuf %g, %l, 3, 2, 1, 2 : !pto.ptr<ui8>, !pto.ptr<ui8, l1>",
}


@pytest.mark.parametrize("op", INTO_L1)
def test_into_l1(op):
    """From UB or global memory to L1, units of 32 bytes and gaps; back whole to look at it."""
    from_gm = op == "copy_gm_to_cbuf"
    first = "" if from_gm else INTO_L1[op]
    text = f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @kernel(%g: !pto.ptr<ui8>, %o: !pto.ptr<ui8>) {{
    %zero = arith.constant 0 : i64
    %u = pto.castptr %zero : i64 -> !pto.ptr<ui8, ub>
    %l = pto.castptr %zero : i64 -> !pto.ptr<ui8, l1>
    %sub = pto.get_subblock_idx
    %is_first = arith.cmpi eq, %sub, %zero : i64
    pto.section.vector {{
      scf.if %is_first {{
        pto.mte_gm_ub %g, %u, 0, 1024 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, ub>
        {first}
        pto.sync.set <PIPE_MTE3>, 0
        pto.sync.wait <PIPE_MTE3>, 1
        pto.mte_ub_gm %u, %o, 1024 nburst(1, 0, 0) : !pto.ptr<ui8, ub>, !pto.ptr<ui8>
      }}
    }}
    pto.section.cube {{
      pto.sync.wait <PIPE_MTE1>, 0
      {INTO_L1[op] if from_gm else ""}
      pto.mte_l1_ub %l, %u, 32 nburst(1, 0, 0) : !pto.ptr<ui8, l1>, !pto.ptr<ui8, ub>
      pto.sync.set <PIPE_FIX>, 1
    }}
    return
  }}
}}"""
    data = noise("into l1", 1024)
    args = {"g": np.frombuffer(data, np.uint8), "o": np.zeros(1024, np.uint8)}
    result = run(text, args, uninit="zero")
    expected = bytearray(1024)
    moved(data, expected, 0, 64, [(3, 96, 128)])
    assert result.outputs["o"].tobytes() == expected


# -- older operations --------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(1, 1), (2, 3)])
def test_older_copies_with_loop_registers(sizes):
    """For each round of loop 2 and loop 1 all bursts, advanced by the registers; mte_* ignores them."""
    loops = f"""
    pto.set_loop_size_{{0}} {sizes[0]}, {sizes[1]} : i64, i64
    pto.set_loop1_stride_{{0}} 256, 512 : i64, i64
    pto.set_loop2_stride_{{0}} 1000, 2048 : i64, i64
    """
    levels = [(2, 64, 128), (sizes[0], 256, 512), (sizes[1], 1000, 2048)]
    data, found, _ = through_ub(
        f"older{sizes}",
        "pto.copy_gm_to_ubuf %g, %u, 0, 2, 32, 0, 0, %no, 0, 64, 128 : !pto.ptr<ui8>, !pto.ptr<ui8, ub>",
        setup="%no = arith.constant false\n" + loops.format("outtoub"),
    )
    expected = bytearray(noise(f"older{sizes}ub"))
    moved(data, expected, 0, 32, levels)
    assert found == expected
    body = f"""
    %zero = arith.constant 0 : i64
    %u = pto.castptr %zero : i64 -> !pto.ptr<ui8, ub>
    {loops.format("ubtoout")}
    pto.mte_gm_ub %g, %u, 0, {SIZE} nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, ub>
    pto.copy_ubuf_to_gm %u, %o, 0, 2, 32, 0, 128, 64 : !pto.ptr<ui8, ub>, !pto.ptr<ui8>
    """
    result = run(
        kernel("%g: !pto.ptr<ui8>, %o: !pto.ptr<ui8>", body),
        {"g": np.frombuffer(data, np.uint8), "o": np.zeros(SIZE, np.uint8)},
    )
    expected = bytearray(SIZE)
    moved(data, expected, 0, 32, levels)
    assert result.outputs["o"].tobytes() == expected


def test_loop_registers_do_not_reach_the_newer_copies():
    data, found, _ = through_ub(
        "left over",
        "pto.mte_gm_ub %g, %u, 0, 64 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, ub>",
        setup="pto.set_loop_size_outtoub 3, 3 : i64, i64\npto.set_loop1_stride_outtoub 64, 64 : i64, i64",
    )
    assert found == data[:64] + noise("left overub")[64:]


def test_padding_counts_of_older_copies_have_no_value():
    _, _, codes = through_ub(
        "pads",
        "pto.copy_gm_to_ubuf %g, %u, 0, 1, 32, 1, 1, %no, 0, 0, 0 : !pto.ptr<ui8>, !pto.ptr<ui8, ub>",
        setup="%no = arith.constant false",
    )
    assert codes == ["PTO6606"]
