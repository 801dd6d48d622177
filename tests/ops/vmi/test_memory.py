"""Loads and stores of logical vectors: every form, what is left alone, what is warned of, what stops."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

import ptosim
from tests.oracle import vmi as model
from tests.support.micro import in_ub
from tests.support.vmi import mask_type, vreg

SIZE = 4096
FILL = 0x99


def image(seed: object = 0, size: int = SIZE) -> bytes:
    return random.Random(seed).randbytes(size)


def on(
    memory: bytes, *lines: str, setup: tuple[str, ...] = (), **options
) -> tuple[bytes, list[str]]:
    """Run lines on the first bytes of UB; `%f32` … point there, `%cN` are the numbers that occur."""
    text = "\n".join((*lines, *setup))
    numbers = sorted({int(w) for w in re.findall(r"%c(\d+)", text)})
    consts = [f"%c{n} = arith.constant {n} : index" for n in numbers]
    extra = [
        f"%p_{n} = pto.castptr %zero : i64 -> !pto.ptr<{t}, ub>"
        for n, t in (("si32", "si32"), ("ui16", "ui16"), ("e4", "f8E4M3FN"))
    ]
    options = {"sanitize": "none", "timing": False, **options}
    found, codes = in_ub(memory, *lines, setup=[*consts, *extra, *setup], **options)
    # That the assembler has no lowering for a form is no fault of a run.
    return found, [code for code in codes if not code.startswith("PTO236")]


def elements(data: bytes, width: int) -> list[int]:
    return [int.from_bytes(data[i : i + width], "little") for i in range(0, len(data), width)]


def stored(memory: bytes, places: list[int], values: list[int], width: int) -> bytes:
    """The memory after elements went to places."""
    found = bytearray(memory)
    for place, value in zip(places, values, strict=True):
        found[place * width : (place + 1) * width] = value.to_bytes(width, "little")
    return bytes(found)


# -- plain forms --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("elem", "width"), [("ui8", 1), ("bf16", 2), ("f32", 4)])
@pytest.mark.parametrize("count", [1, 7, 64, 200])
def test_a_copy_moves_the_logical_lanes_only(elem, width, count):
    memory, t = image(count), vreg(count, elem)
    found, codes = on(
        memory,
        f"%v = pto.vmi.vload %{elem}[%c32] : !pto.ptr<{elem}, ub> -> {t}",
        f"pto.vmi.vstore %v, %{elem}[%c480] : {t}, !pto.ptr<{elem}, ub>",
    )
    values = elements(memory, width)[32 : 32 + count]
    assert found == stored(memory, [480 + i for i in range(count)], values, width)
    assert codes == []


def test_a_store_writes_active_lanes():
    memory, t, m = image(), vreg(12, "f32"), mask_type(12)
    found, _ = on(
        memory,
        f"%m = pto.vmi.create_group_mask %c2 {{num_groups = 4, group_size = 3}} : index -> {m}",
        f"%v = pto.vmi.vload %f32[%c0] : !pto.ptr<f32, ub> -> {t}",
        f"pto.vmi.vstore %v, %f32[%c64], %m : {t}, !pto.ptr<f32, ub>, {m}",
    )
    places = [i for i in range(12) if i % 3 < 2]
    words = elements(memory, 4)
    assert found == stored(memory, [64 + i for i in places], [words[i] for i in places], 4)


def test_two_vectors_in_turn():
    """dintlv: even and odd elements, and back; the older spellings say the same."""
    memory, t = image(), vreg(20, "ui16")
    p = "!pto.ptr<ui16, ub>"
    for load, store in (
        (
            f'%l, %h = pto.vmi.vload %ui16[%c0] {{dist_mode = "dintlv"}} : {p} -> {t}, {t}',
            f'pto.vmi.vstore %l, %h, %ui16[%c512] {{dist_mode = "dintlv"}} : {t}, {t}, {p}',
        ),
        (
            f"%l, %h = pto.vmi.deinterleave_load %ui16[%c0] : {p} -> {t}, {t}",
            f"pto.vmi.interleave_store %l, %h, %ui16[%c512] : {t}, {t}, {p}",
        ),
    ):
        found, codes = on(memory, load, store, f"pto.vmi.vstore %h, %ui16[%c1024] : {t}, {p}")
        words = elements(memory, 2)
        expected = stored(memory, list(range(512, 552)), words[:40], 2)
        assert found == stored(expected, list(range(1024, 1044)), words[1:40:2], 2)
        assert codes == []


def test_one_element_in_every_lane():
    memory, t = image(), vreg(40, "f32")
    found, codes = on(
        memory,
        f'%v = pto.vmi.vload %f32[%c5] {{dist_mode = "brc"}} : !pto.ptr<f32, ub> -> {t}',
        f"pto.vmi.vstore %v, %f32[%c64] : {t}, !pto.ptr<f32, ub>",
    )
    assert found == stored(memory, [64 + i for i in range(40)], [elements(memory, 4)[5]] * 40, 4)
    assert codes == []


@pytest.mark.parametrize(
    ("source", "wide", "width"), [("ui8", "i16", 2), ("ui8", "f32", 4), ("bf16", "f32", 4)]
)
def test_unpacked_bits(source, wide, width):
    """The bits of narrower elements, with zeros above; no number is converted."""
    memory, t = image(), vreg(40, wide)
    found, _ = on(
        memory,
        f'%v = pto.vmi.vload %{source}[%c0] {{dist_mode = "unpack"}} : !pto.ptr<{source}, ub> -> {t}',
        f"pto.vmi.vstore %v, %{wide}[%c256] : {t}, !pto.ptr<{wide}, ub>",
    )
    narrow = model.bits_of(source) // 8
    places = [256 + i for i in range(40)]
    assert found == stored(memory, places, elements(memory, narrow)[:40], width)


def exit_code(*lines: str) -> tuple[int, str]:
    with pytest.raises(ptosim.ProgramError) as problem:
        on(image(), *lines)
    return problem.value.exit_code, str(problem.value)


@pytest.mark.parametrize(
    "line",
    [
        f'%v = pto.vmi.vload %f32[%c0] {{dist_mode = "unpack"}} : !pto.ptr<f32, ub> -> {vreg(8, "f32")}',
        f'%v = pto.vmi.vload %ui16[%c0] {{dist_mode = "unpack"}} : !pto.ptr<ui16, ub> -> {vreg(8, "ui8")}',
        f"%v = pto.vmi.vload %f32[%c0], %s, %s : !pto.ptr<f32, ub> -> {vreg(65, 'f32')}",
    ],
)
def test_forms_without_a_meaning_are_refused(line):
    code, _ = exit_code("%s = arith.constant 1 : i16", line)
    assert code == 5


# -- groups -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stride", [12, 4, 1, 0])
@pytest.mark.parametrize("offset", [0, 3])
def test_rows_a_stride_apart(stride, offset):
    """Four groups of four, one element for each group, one in every lane of its group: at any element,
    without a warning. Rows of a store may overlap: the later one wins."""
    memory, t, s = image(), vreg(16, "f32"), vreg(4, "f32")
    p = "!pto.ptr<f32, ub>"
    found, codes = on(
        memory,
        f"%v = pto.vmi.vload %f32[%c{offset}], %c{stride} {{group = 4}} : {p} -> {t}",
        f"%e = pto.vmi.vload %f32[%c{offset}], %c{stride} {{group = 4}} : {p} -> {s}",
        f'%b = pto.vmi.vload %f32[%c{offset}], %c{stride} {{group = 4, dist_mode = "brc"}} : {p} -> {t}',
        f"pto.vmi.vstore %v, %f32[%c128] : {t}, {p}",
        f"pto.vmi.vstore %e, %f32[%c160] : {s}, {p}",
        f"pto.vmi.vstore %b, %f32[%c192] : {t}, {p}",
        f"pto.vmi.vstore %v, %f32[%c{256 + offset}], %c{stride} {{group = 4}} : {t}, {p}",
    )
    words = elements(memory, 4)
    rows = [words[i] for i in model.row_places(16, 4, offset, stride)]
    each = [words[i] for i in model.row_places(4, 4, offset, stride)]
    expected = stored(memory, list(range(128, 144)), rows, 4)
    expected = stored(expected, list(range(160, 164)), each, 4)
    expected = stored(expected, list(range(192, 208)), [each[i // 4] for i in range(16)], 4)
    assert found == stored(expected, model.row_places(16, 4, 256 + offset, stride), rows, 4)
    assert codes == []


def test_low_bytes_of_words():
    """A group store of 32-bit lanes to bytes: strides count bytes."""
    memory, t = image(), vreg(8, "si32")
    found, _ = on(
        memory,
        f"%v = pto.vmi.vload %p_si32[%c0] : !pto.ptr<si32, ub> -> {t}",
        f"pto.vmi.vstore %v, %ui8[%c515], %c5 {{group = 4}} : {t}, !pto.ptr<ui8, ub>",
    )
    low = [w & 0xFF for w in elements(memory, 4)[:8]]
    assert found == stored(memory, model.row_places(8, 4, 515, 5), low, 1)


# -- blocks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("elem", "width"), [("ui8", 1), ("ui16", 2), ("f32", 4)])
@pytest.mark.parametrize("choice", ["lane", "position"])
@pytest.mark.parametrize(("bs", "rs"), [(2, 0), (3, 1), (1, 2)])
def test_blocks_at_a_stride(elem, width, choice, bs, rs):
    """The repeat stride is added to every block. A mask that is not the same for whole blocks means
    lanes, or one bit a block."""
    count = 256 // width
    memory, t, m, p = image(), vreg(count, elem), mask_type(count), f"!pto.ptr<{elem}, ub>"
    at = 2048 // width
    lines = [
        f"%m = pto.vmi.create_mask %c{count // 2 + 3} : index -> {m}",
        f"%v = pto.vmi.vload %{elem}[%c0], %bs, %rs : {p} -> {t}",
        f"pto.vmi.vstore %v, %{elem}[%c{at}], %bs, %rs, %m : {t}, {p}, {m}",
        f"pto.vmi.vsstb %v, %{elem}[%c{at + 1024 // width}], %one, %m : {t}, {p}, {m}",
    ]
    setup = (f"%bs = arith.constant {bs} : i16", f"%rs = arith.constant {rs} : i16",
             "%one = arith.constant 1 : i16")  # fmt: skip
    found, codes = on(memory, *lines, setup=setup, switches={"vmi.block_gate": choice})
    words = elements(memory, width)
    values = [words[i] for i in model.block_places(count, width, 0, bs, rs)]
    gate = model.block_gate(model.first(count, count // 2 + 3), width, choice)
    expected = memory
    for start, strides in ((at, (bs, rs)), (at + 1024 // width, (1, 0))):
        places = model.block_places(count, width, start, *strides)
        chosen = [i for i in range(count) if gate[i]]
        expected = stored(expected, [places[i] for i in chosen], [values[i] for i in chosen], width)
    assert found == expected
    assert codes == ["PTO6706", "PTO6706"]


# -- lanes by index and mask --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "index", "width"), [("f32", "i32", 4), ("ui16", "ui16", 2), ("bf16", "ui32", 2)]
)
def test_gather_and_scatter(data, index, width):
    """Inactive lanes read nothing and are 0, or what the older form passes through; of equal indices
    the last lane wins."""
    rng = random.Random(data)
    count, wide = 20, model.bits_of(index) // 8
    idx = [rng.randrange(64) for _ in range(count)]
    mask = [rng.random() < 0.7 for _ in range(count)]
    idx[3], mask[3] = (1 << 8 * wide) - 1, False  # outside of everything, and not active
    memory = bytearray(image(data))
    memory[1024 : 1024 + count * wide] = b"".join(i.to_bytes(wide, "little") for i in idx)
    memory[1280 : 1280 + count] = bytes(mask)
    memory = bytes(memory)
    t, x, m, p = vreg(count, data), vreg(count, index), mask_type(count), f"!pto.ptr<{data}, ub>"
    b = vreg(count, "ui8")
    older = data != "bf16"
    lines = [
        f"%i = pto.vmi.vload %{index}[%c{1024 // wide}] : !pto.ptr<{index}, ub> -> {x}",
        f"%b = pto.vmi.vload %ui8[%c1280] : !pto.ptr<ui8, ub> -> {b}",
        f'%all = pto.vmi.pset "PAT_ALL" : {m}',
        f'%m = pto.vmi.vcmps %b, %u0, %all {{cmp = "ne"}} : {b}, ui8, {m} -> {m}',
        f"%v = pto.vmi.vgather %{data}, %i, %m : {p}, {x}, {m} -> {t}",
        f"pto.vmi.vstore %v, %{data}[%c{2048 // width}] : {t}, {p}",
        f"%q = pto.addptr %{data}, %c{3072 // width} : {p} -> {p}",
        f"pto.vmi.vscatter %v, %q, %i, %m : {t}, {p}, {x}, {m}",
    ]
    if older:
        lines += [
            f"%got = pto.vmi.gather %{data}[%i], %m, %v : {p}, {x}, {m}, {t} -> {t}",
            f"pto.vmi.vstore %got, %{data}[%c{2304 // width}] : {t}, {p}",
        ]
    found, codes = on(memory, *lines, setup=("%u0 = arith.constant 0 : ui8",))
    words = elements(memory, width)
    values = [words[i] if a else 0 for i, a in zip(idx, mask, strict=True)]
    expected = stored(memory, [2048 // width + k for k in range(count)], values, width)
    if older:
        expected = stored(expected, [2304 // width + k for k in range(count)], values, width)
    chosen = [k for k in range(count) if mask[k]]
    places = [3072 // width + idx[k] for k in chosen]
    assert found == stored(expected, places, [values[k] for k in chosen], width)
    assert codes == []


def test_older_masked_forms():
    """masked_load, expand_load, compress_store, masked_store."""
    memory, t, m, p = image(), vreg(12, "f32"), mask_type(12), "!pto.ptr<f32, ub>"
    found, codes = on(
        memory,
        f"%m = pto.vmi.create_group_mask %c2 {{num_groups = 4, group_size = 3}} : index -> {m}",
        f"%pass = pto.vmi.load %f32[%c64] : {p} -> {t}",
        f"%a = pto.vmi.masked_load %f32[%c0], %m, %pass : {p}, {m}, {t} -> {t}",
        f"%e = pto.vmi.expand_load %f32[%c0], %m, %pass : {p}, {m}, {t} -> {t}",
        f"pto.vmi.store %a, %f32[%c128] : {t}, {p}",
        f"pto.vmi.store %e, %f32[%c160] : {t}, {p}",
        f"pto.vmi.compress_store %pass, %f32[%c192], %m : {t}, {p}, {m}",
        f"pto.vmi.masked_store %pass, %f32[%c224], %m : {t}, {p}, {m}",
    )
    words = elements(memory, 4)
    on_ = [i % 3 < 2 for i in range(12)]
    passed = words[64:76]
    chosen = [i for i in range(12) if on_[i]]
    loaded = [words[i] if on_[i] else passed[i] for i in range(12)]
    spread = [words[sum(on_[:i])] if on_[i] else passed[i] for i in range(12)]
    expected = stored(memory, list(range(128, 140)), loaded, 4)
    expected = stored(expected, list(range(160, 172)), spread, 4)
    expected = stored(expected, list(range(192, 200)), [passed[i] for i in chosen], 4)
    assert found == stored(expected, [224 + i for i in chosen], [passed[i] for i in chosen], 4)
    assert codes == []


# -- alignment and extent -----------------------------------------------------------------------------


def test_what_is_not_at_a_block_is_executed_and_warned_of():
    memory, t = image(), vreg(8, "f32")
    found, codes = on(
        memory,
        f"%v = pto.vmi.vload %f32[%c1] : !pto.ptr<f32, ub> -> {t}",
        f"pto.vmi.vstore %v, %f32[%c67] : {t}, !pto.ptr<f32, ub>",
    )
    assert found == stored(memory, list(range(67, 75)), elements(memory, 4)[1:9], 4)
    assert codes == ["PTO6704", "PTO6704"]


def test_between_two_elements_is_a_trap():
    t = vreg(8, "f32")
    code, text = exit_code(
        "%one = arith.constant 1 : i64",
        "%q = pto.castptr %one : i64 -> !pto.ptr<f32, ub>",
        f"%v = pto.vmi.vload %q[%c0] : !pto.ptr<f32, ub> -> {t}",
    )
    assert code == 4
    assert "PTO6705" in text


END = 262144


@pytest.mark.parametrize(
    ("line", "more"),
    [
        (f"%v = pto.vmi.vload %f32[%c{END // 4 - 7}] : !pto.ptr<f32, ub> -> {vreg(8, 'f32')}", ""),
        (f"pto.vmi.vstore %x, %f32[%c{END // 4 - 7}] : {vreg(8, 'f32')}, !pto.ptr<f32, ub>", "x"),
    ],
)
def test_lanes_after_the_end_of_ub_are_a_trap(line, more):
    load = f"%x = pto.vmi.vload %f32[%c0] : !pto.ptr<f32, ub> -> {vreg(8, 'f32')}"
    code, text = exit_code(*([load] if more else []), line)
    assert code == 4
    assert "PTO6602" in text


def test_the_rest_of_a_register_after_the_end_of_ub_is_a_warning():
    t = vreg(8, "f32")
    _, codes = on(
        image(),
        f"%v = pto.vmi.vload %f32[%c{END // 4 - 8}] : !pto.ptr<f32, ub> -> {t}",
        uninit="zero",
    )
    assert codes == ["PTO6707"]


def test_inactive_lanes_after_the_end_are_no_access():
    t, m = vreg(8, "f32"), mask_type(8)
    _, codes = on(
        image(),
        f"%m = pto.vmi.create_mask %c4 : index -> {m}",
        f"%v = pto.vmi.vload %f32[%c0] : !pto.ptr<f32, ub> -> {t}",
        f"pto.vmi.vstore %v, %f32[%c{END // 4 - 4}], %m : {t}, !pto.ptr<f32, ub>, {m}",
    )
    assert codes == ["PTO6704"]


# -- order --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [8, 1000])
def test_a_load_of_what_was_stored_needs_a_barrier(count):
    t, p = vreg(count, "ui8"), "!pto.ptr<ui8, ub>"
    lines = [
        f"%v = pto.vmi.vload %ui8[%c0] : {p} -> {t}",
        f"pto.vmi.vstore %v, %ui8[%c2048] : {t}, {p}",
        'pto.mem_bar "VST_VLD"',
        f"%w = pto.vmi.vload %ui8[%c2048] : {p} -> {t}",
        f"pto.vmi.vstore %w, %ui8[%c3072] : {t}, {p}",
    ]
    found, codes = on(image(), *lines)
    assert found[3072 : 3072 + count] == image()[:count]
    assert codes == []
    found, codes = on(image(), *(line for line in lines if "mem_bar" not in line))
    assert found[3072 : 3072 + count] == image()[:count]
    assert codes == ["PTO6610"]


def test_stores_over_each_other_and_over_what_was_loaded():
    t, p = vreg(8, "f32"), "!pto.ptr<f32, ub>"
    load = f"%v = pto.vmi.vload %f32[%c0] : {p} -> {t}"
    other = f"%w = pto.vmi.vload %f32[%c64] : {p} -> {t}"
    scatter = f"pto.vmi.vstore %w, %f32[%c128], %c2 {{group = 4}} : {t}, {p}"
    _, codes = on(image(), load, other, f"pto.vmi.vstore %v, %f32[%c128] : {t}, {p}", scatter)
    assert codes == ["PTO6612"]
    _, codes = on(image(), load, other, f"pto.vmi.vstore %w, %f32[%c0] : {t}, {p}")
    assert codes == ["PTO6613"]


def test_the_account_sees_logical_lanes():
    """A load of bytes that nothing wrote is found; what the register reads beside the lanes is not."""
    t, p = vreg(8, "f32"), "!pto.ptr<f32, ub>"
    store = f"pto.vmi.vstore %v, %f32[%c64] : {t}, {p}"
    _, codes = on(image(0, 64), f"%v = pto.vmi.vload %f32[%c8] : {p} -> {t}", store, sanitize="all")
    assert codes == []
    _, codes = on(
        image(0, 64), f"%v = pto.vmi.vload %f32[%c16] : {p} -> {t}", store, sanitize="all"
    )
    assert len(codes) == 1
    _, codes = on(np.zeros(64, np.uint8).tobytes(), f"%v = pto.vmi.vload %f32[%c1600] : {p} -> {vreg(1024, 'f32')}",
                  f"pto.vmi.vstore %v, %f32[%c3200] : {vreg(1024, 'f32')}, {p}", sanitize="all")  # fmt: skip
    assert len(codes) == 1
