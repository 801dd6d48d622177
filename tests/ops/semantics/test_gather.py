"""Gathering and scattering inside vec memory, and histograms, against models of one element."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.harness import Case, Operand, Scalar, Spec, mixture, np_dtype
from tests.ops.semantics.helpers import codes
from tests.ops.semantics.rows import types

pytestmark = pytest.mark.slow

TARGETS = ["a2a3", "a5"]
PATTERNS = ["P0101", "P1010", "P0001", "P0010", "P0100", "P1000", "P1111"]


def spec(dtype: str, rows: int, cols: int, valid=None, *, seed: int = 1, **keys) -> Spec:
    """A tile of edges and ordinary values."""
    return Spec(dtype, rows, cols, valid, values=mixture(dtype, rows * cols, seed), **keys)


def named(dtype: str, rows: int, cols: int, limit: int, valid=None, *, seed: int = 2, **keys):
    """A tile of indices below a limit."""
    values = np.random.default_rng(seed).integers(0, limit, rows * cols)
    return Spec(dtype, rows, cols, valid, values=values, **keys)


def trapped(case: Case) -> ptosim.Trap:
    with pytest.raises(ptosim.Trap) as trap:
        case.run()
    return trap.value


# -- by index --------------------------------------------------------------------------------------

INDEXED = [
    (target, dtype, index)
    for target in TARGETS
    for dtype in ("f32", "f16", "i32", "i16", "ui32", "ui16", *(("i8",) if target == "a5" else ()))
    for index in ("i32", *(("i16",) if target == "a5" else ()))
]


@pytest.mark.parametrize(("target", "dtype", "index"), INDEXED)
def test_an_index_names_an_element_in_memory_order(target, dtype, index):
    for valid in ((4, 32), (3, 29), (0, 32))[: 3 if dtype[-2:] == "32" else 2]:
        operands: dict[str, Operand] = {
            "src": spec(dtype, 5, 64, (2, 3)),
            "indices": named(index, 4, 32, 320, valid),
            "tmp": spec(index, 4, 32, valid),
            "dst": spec(dtype, 4, 32, valid, seed=3, dynamic=valid == (3, 29)),
        }
        Case("tgather", target, operands, variant="index").check()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("wrong", [320, -1, 2**31 - 1, -(2**31)])
def test_an_index_outside_the_source(target, wrong):
    """It stops the run and names itself and its place; the CPU simulator gives zero."""
    indices = named("i32", 4, 32, 320)
    indices.values[70] = wrong
    operands = {
        "src": spec("f32", 5, 64),
        "indices": indices,
        "tmp": spec("i32", 4, 32),
        "dst": spec("f32", 4, 32, seed=3),
    }
    fault = trapped(Case("tgather", target, operands, variant="index")).diagnostics[-1]
    assert fault.code == "PTO6402"
    assert f"index {wrong} at (2, 6)" in fault.message
    switches = {"tgather.outside": "zero"}
    Case("tgather", target, operands, variant="index", switches=switches).check()


def test_the_profile_cpu_gives_zero_outside():
    from ptosim.ground.isa.dates import make_profile

    for target in TARGETS:
        profile = make_profile("cpu", target)
        assert profile["tgather.outside"] == "zero"
        assert profile["tscatter.rest"] == "keep"
        assert profile["trandom.order"] == "planar"


@pytest.mark.parametrize("target", TARGETS)
def test_indices_in_the_place_of_the_destination_are_read_first(target):
    operands = {
        "src": spec("i32", 5, 64),
        "indices": named("i32", 4, 32, 320),
        "tmp": spec("i32", 4, 32),
        "dst": Spec("i32", 4, 32, same="indices"),
    }
    assert "PTO6401" not in codes(Case("tgather", target, operands, variant="index").check())


def test_gathering_into_the_source_warns():
    operands = {
        "src": spec("f32", 4, 32),
        "indices": named("i32", 4, 32, 128),
        "tmp": spec("i32", 4, 32),
        "dst": Spec("f32", 4, 32, same="src"),
    }
    assert "PTO6401" in codes(Case("tgather", "a5", operands, variant="index").check())


# -- by mask ---------------------------------------------------------------------------------------


@pytest.mark.sampled(0, 31)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(
    ("target", "dtype"),
    [(t, d) for t in TARGETS for d in ("f32", "f16", "i32", "ui16", "bf16")] + [("a5", "ui8")],
)
def test_a_pattern_packs_what_it_keeps(target, dtype, pattern):
    """Patterns are read from the right and begin anew in each row; rows follow each other."""
    for valid in ((3, 61), (2, 2), (0, 64))[: 3 if dtype == "f32" else 1]:
        operands = {"src": spec(dtype, 3, 64, valid), "dst": spec(dtype, 4, 64, seed=3)}
        attrs = {"maskPattern": f"#pto.mask_pattern<{pattern}>"}
        Case("tgather", target, operands, attrs=attrs, variant="mask", date="2026-04").check()


def test_a_pattern_keeps_no_more_than_there_is_room_for():
    operands = {"src": spec("f32", 4, 64), "dst": spec("f32", 1, 64)}
    attrs = {"maskPattern": "#pto.mask_pattern<P0101>"}
    case = Case("tgather", "a5", operands, attrs=attrs, variant="mask", date="2026-04")
    assert trapped(case).diagnostics[-1].code == "PTO6412"


# -- by comparison ---------------------------------------------------------------------------------

COMPARED = [
    (target, dtype, mode)
    for target in TARGETS
    for dtype in ("f32", "f16", "i32")
    for mode in ("eq", "gt")
    if (target, dtype, mode) != ("a2a3", "i32", "gt")
]


@pytest.mark.parametrize(("compare", "count"), [("library", "bytes"), ("value", "matches")])
@pytest.mark.parametrize(("target", "dtype", "mode"), COMPARED)
def test_hits_of_a_comparison(target, dtype, mode, compare, count):
    """Indices count through the rows in steps of whole 64 lanes; keys one a row or one for all."""
    switches = {"tgather.count": count, "tgather.compare": compare}
    keys = [Spec(dtype, 4, 1, layout="dn", values=[1, -1, 0, 2]), Scalar(dtype, 1)]
    for key, shapes in zip(keys, ([(3, 70), (0, 128)], [(4, 128), (1, 3)]), strict=True):
        for valid in shapes:
            operands: dict[str, Operand] = {
                "src": spec(dtype, 4, 128, valid, seed=valid[1]),
                "kValue": key,
                "tmp": spec(dtype, 4, 128),
                "dst": spec("i32", 4, 128, seed=4),
                "count": Spec("i32", 1, 8),
            }
            attrs = {"cmpMode": mode, "offset": 1000}
            Case(
                "tgather",
                target,
                operands,
                attrs=attrs,
                switches=switches,
                variant="compare",
                date="2026-04",
                results=["dst", "count", "src"],
            ).check()


def test_a_comparison_of_rounded_unsigned_keys_warns_where_values_differ():
    """-1 counts as 4294967295, and 1.5 as 2: both are greater than 1."""
    operands: dict[str, Operand] = {
        "src": Spec("f32", 1, 8, values=[0, 1, 2, 3, -1, 1.5, 0.5, 1.25]),
        "kValue": Scalar("f32", 1.0),
        "dst": Spec("i32", 1, 8),
        "tmp": Spec("f32", 1, 8),
        "count": Spec("i32", 1, 8),
    }
    case = Case(
        "tgather", "a5", operands, attrs={"cmpMode": "gt"}, variant="compare", date="2026-04"
    )
    result = case.check()
    assert "PTO6423" in codes(result)
    assert result.outputs["dst_after"].tolist() == [2, 3, 4, 5, 0, 0, 0, 0]
    assert result.outputs["count_after"][0] == 16
    a2a3 = Case(
        "tgather", "a2a3", operands, attrs={"cmpMode": "gt"}, variant="compare", date="2026-04"
    ).check()
    assert a2a3.outputs["dst_after"].tolist()[:4] == [2, 3, 5, 7]
    assert a2a3.outputs["count_after"][0] == 4
    assert "PTO6423" not in codes(a2a3)


def test_keys_and_counts_lie_one_behind_the_other():
    operands: dict[str, Operand] = {
        "src": spec("i32", 4, 64),
        "kValue": Spec("i32", 4, 8, (4, 1), values=np.arange(32)),
        "dst": spec("i32", 4, 64, seed=4),
        "tmp": spec("i32", 4, 64),
        "count": Spec("i32", 4, 8, (4, 1)),
    }
    attrs = {"cmpMode": "eq"}
    assert "PTO6422" in codes(
        Case("tgather", "a5", operands, attrs=attrs, variant="compare", date="2026-04").check()
    )


def test_more_hits_than_columns_stop_the_run():
    operands: dict[str, Operand] = {
        "src": Spec("i32", 1, 64),
        "kValue": Scalar("i32", 0),
        "dst": Spec("i32", 1, 8),
        "tmp": Spec("i32", 1, 64),
        "count": Spec("i32", 1, 8),
    }
    case = Case(
        "tgather", "a5", operands, attrs={"cmpMode": "eq"}, variant="compare", date="2026-04"
    )
    assert trapped(case).diagnostics[-1].code == "PTO6412"


# -- blocks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f32", "f16", "ui8", "i32"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("tail", [None, "blocks", "valid"])
def test_blocks_of_32_bytes_by_byte_offset(target, dtype, tail):
    """A2/A3 write whole blocks, A5 the valid columns, or as the switch says."""
    switches = {"tgatherb.tail": tail} if tail else None
    size = np_dtype(dtype).itemsize
    cols, room = 128 // size, 6 * 128
    for valid in ((4, cols), (3, cols - 3), (1, 1), (0, cols)):
        offsets = np.random.default_rng(valid[1]).integers(0, room // 32, 32) * 32
        operands = {
            "src": spec(dtype, 6, cols),
            "offset": Spec("ui32", 4, 8, (valid[0], 4), values=offsets),
            "dst": spec(dtype, 4, cols, valid, seed=5, dynamic=valid[0] == 3),
        }
        Case("tgatherb", target, operands, switches=switches).check()


@pytest.mark.parametrize(
    ("offset", "code"), [(16, "PTO6403"), (512, "PTO6402"), (2**32 - 32, "PTO6402")]
)
def test_offsets_that_name_no_block(offset, code):
    operands = {
        "src": spec("f32", 4, 32),
        "offset": Spec("ui32", 4, 8, (4, 4), values=np.full(32, offset, np.uint32)),
        "dst": spec("f32", 4, 32),
    }
    assert trapped(Case("tgatherb", "a5", operands)).diagnostics[-1].code == code


# -- scatter ---------------------------------------------------------------------------------------

SCATTERED = ["i8", "ui8", "i16", "ui16", "i32", "ui32", "f16", "bf16", "f32"]


@pytest.mark.parametrize("rest", ["zero", "keep"])
@pytest.mark.parametrize("dtype", SCATTERED)
@pytest.mark.parametrize("target", TARGETS)
def test_elements_are_stored_where_indices_say(target, dtype, rest):
    """The destination is zeroed first, or not; of equal indices the last one stays."""
    assert dtype in types("tscatter", target, "src")
    index = "i32" if np_dtype(dtype).itemsize == 4 else "i16"
    for valid in ((3, 29), (4, 0))[: 2 if dtype == "f32" else 1]:
        operands = {
            "src": spec(dtype, 4, 32, valid, dynamic=valid == (3, 29)),
            "indices": named(index, 4, 32, 50, valid),
            "dst": spec(dtype, 5, 64, (5, 40), seed=3),
        }
        Case("tscatter", target, operands, switches={"tscatter.rest": rest}).check()


@pytest.mark.parametrize("wrong", [320, -1, -32768, 32767])
def test_an_index_outside_the_destination_stops_the_run(wrong):
    indices = named("i16", 4, 32, 320)
    indices.values[33] = wrong
    operands = {"src": spec("f16", 4, 32), "indices": indices, "dst": spec("f16", 5, 64)}
    fault = trapped(Case("tscatter", "a2a3", operands)).diagnostics[-1]
    assert fault.code == "PTO6402"
    assert f"index {wrong} at (1, 1)" in fault.message


def test_scattering_in_place_loses_the_source():
    operands = {
        "src": spec("f32", 4, 32),
        "indices": named("i32", 4, 32, 128),
        "dst": Spec("f32", 4, 32, same="src"),
    }
    result = Case("tscatter", "a5", operands).run()
    assert "PTO6401" in codes(result)
    assert not result.outputs["src_after"].any()


# -- histogram -------------------------------------------------------------------------------------


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("valid", [(4, 64), (3, 61), (1, 1)])  # empty: tests/ops/tile/test_empty.py
def test_a_histogram_of_a_byte(valid, upper):
    """How many keys have a byte not above each of 256 values; the lower byte of chosen keys."""
    keys = np.random.default_rng(3).choice([0, 1, 255, 256, 511, 0x8000, 0xFFFF, 0xFF00], 256)
    operands = {
        "src": Spec("ui16", 4, 64, valid, values=keys, dynamic=valid == (3, 61)),
        "idx": Spec("ui8", 32, 1, layout="dn", values=[0, 1, 255, 128] * 8),
        "dst": spec("ui32", 4, 264, (4, 256)),
    }
    Case("thistogram", "a5", operands, attrs={"isMSB": upper}).check()


@pytest.mark.parametrize("byte", range(4))
def test_a_histogram_of_any_byte_of_wide_keys(byte):
    """The bytes above the one that is counted must equal the rows of idx, in the key's column."""
    rng = np.random.default_rng(byte)
    parts = rng.choice([0, 1, 0x80, 0xFF], (4, 256)).astype(np.uint32)
    keys = parts[0] << 24 | parts[1] << 16 | parts[2] << 8 | parts[3]
    for valid in ((4, 64), (3, 61)):
        operands = {
            "src": Spec("ui32", 4, 64, valid, values=keys, dynamic=valid == (3, 61)),
            "idx": Spec("ui8", 3, 64, (3 - byte or 3, 64), values=rng.choice([0, 1, 0xFF], 192)),
            "dst": spec("ui32", 4, 264, (4, 256)),
        }
        attrs = {"byte": byte}
        Case("thistogram", "a5", operands, attrs=attrs).check()
    # One value a row, as a radix selection has it; and the default byte.
    first = np.repeat([1, 0x80, 0xFF], 64)
    operands["src"] = Spec("ui32", 4, 64, values=keys)
    operands["idx"] = Spec("ui8", 3, 64, (3 - byte or 3, 64), values=first)
    Case("thistogram", "a5", operands, attrs=attrs).check()
    operands["idx"] = Spec("ui8", 3, 64, (2, 64), values=first)
    Case("thistogram", "a5", operands).check()
    found = Case("thistogram", "a5", operands).run().findings
    assert "PTO6607" in [f.code for f in found]  # the column of idx is assumed
