"""Fills, paddings, ramps, triangles, random numbers, and merging and splitting."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.ground.isa.dates import make_profile
from tests.ops.semantics.harness import Case, Operand, Scalar, Spec, mixture, np_dtype, pool
from tests.ops.semantics.rows import cases
from tests.oracle.fills import philox4x32
from tests.oracle.tile import width_of
from tests.support.text import Kernel

pytestmark = pytest.mark.slow

TARGETS = ["a2a3", "a5"]


def codes(result) -> set[str]:
    return {f.code for f in result.findings}


def tile(dtype: str, seed: int, valid: tuple[int, int], rows: int = 5, **keys) -> Spec:
    cols = 256 // width_of(dtype) * 2
    values = mixture(dtype, rows * cols, seed)
    return Spec(dtype, rows, cols, (valid[0], cols + valid[1]), values=values, **keys)


@pytest.mark.parametrize(("op", "target", "dtype"), cases(["texpands"]))
def test_a_scalar_everywhere(op, target, dtype):
    for number, value in enumerate(pool(dtype).tolist()[:6]):
        operands = {"scalar": Scalar(dtype, value), "dst": tile(dtype, number, (4, -3))}
        Case(op, target, operands).check()


# -- padding ---------------------------------------------------------------------------------------


@pytest.mark.sampled(0, 43)
@pytest.mark.parametrize("floats", ["finite", "inf"])
@pytest.mark.parametrize("pad", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32", "i16", "i8", "ui32", "ui16", "ui8"])
@pytest.mark.parametrize("target", TARGETS)
def test_padding_values(target, dtype, pad, floats):
    """1 zero, 2 highest, 3 lowest; those of floats are finite or infinite as the switch says."""
    operands = {"src": tile(dtype, 1, (3, -7)), "dst": tile(dtype, 2, (4, -1), pad=pad)}
    result = Case("tfillpad", target, operands, switches={"pad.float": floats}).check()
    assert ("PTO7032" in codes(result)) == (pad > 1 and dtype in ("f32", "f16", "bf16"))


@pytest.mark.parametrize(("asked", "floats"), [
    ({"lowering": "library"}, "inf"),
    ({"lowering": "expansion"}, "finite"),
    ({"pad.float": "finite", "lowering": "library"}, "finite"),
])  # fmt: skip
def test_one_switch_chooses_the_way_of_the_assembler(asked, floats):
    """The pads of the library are infinite, those of the expansion finite; a switch that is set
    beside `lowering` wins."""
    profile = make_profile("hw", "a5", asked)
    assert profile["pad.float"] == floats
    is_library = asked["lowering"] == "library"
    assert profile["tcmps.mask"] == ("rows" if is_library else "linear")
    assert profile["rowexpand.block"] == ("lane" if is_library else "column0")
    as_it_is = make_profile("hw", "a5").switches
    assert make_profile("hw", "a5", {"lowering": "expansion"}).switches == as_it_is
    operands = {"src": tile("f32", 1, (3, -7)), "dst": tile("f32", 2, (4, -1), pad=2)}
    Case("tfillpad", "a5", operands, switches=asked | {"pad.float": floats}).check()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("valid", [(5, 0), (3, 0), (5, -1), (1, -8)])
def test_padding_reaches_the_full_width_and_the_rows_of_the_target(target, valid):
    """A5 pads up to the valid rows of the destination, A2/A3 up to its static rows."""
    operands = {"src": tile("f32", 1, valid), "dst": tile("f32", 2, (5, -2), rows=5, pad=3)}
    Case("tfillpad", target, operands).check()
    operands = {"src": tile("f32", 1, valid), "dst": tile("f32", 2, (5, -2), rows=7, pad=3)}
    Case("tfillpad_expand", target, operands).check()


@pytest.mark.parametrize("target", TARGETS)
def test_padding_in_place_leaves_the_content(target):
    operands = {"src": tile("f16", 1, (3, -7)), "dst": tile("f16", 2, (4, -1), pad=2, same="src")}
    Case("tfillpad_inplace", target, operands).check()


def test_padding_in_place_of_another_tile_warns():
    operands = {"src": tile("f16", 1, (3, -7)), "dst": tile("f16", 2, (4, -1), pad=2)}
    assert "PTO7033" in codes(Case("tfillpad_inplace", "a5", operands).check())


# -- ramps and triangles ---------------------------------------------------------------------------


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("op", "target", "dtype"), cases(["tci"]))
def test_ramps_wrap(op, target, dtype, descending):
    limits = np.iinfo(np_dtype(dtype))
    for start in (0, 5, int(limits.max) - 3, int(limits.min) + 3):
        operands = {"scalar": Scalar(dtype, start), "dst": Spec(dtype, 1, 64, (1, 61))}
        Case(op, target, operands, attrs={"descending": descending}).check()


@pytest.mark.sampled(0, 12)
@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize(("op", "target", "dtype"), cases(["ttri"]))
def test_triangles(op, target, dtype, upper):
    for diagonal in (-9, -1, 0, 2, 100):
        operands = {"diagonal": Scalar("i32", diagonal), "dst": tile(dtype, 1, (4, -3))}
        Case(op, target, operands, attrs={"upperOrLower": upper}).check()


# -- random numbers --------------------------------------------------------------------------------


def test_philox_gives_the_published_blocks():
    """Known answers of the generator's authors, for the oracle that everything else is held to."""
    ones = (1 << 128) - 1
    assert philox4x32(0, (0, 0), 10) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox4x32(0, (0, 0), 7) == [0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48]
    assert philox4x32(ones, (0xFFFFFFFF, 0xFFFFFFFF), 10) == [
        0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD,
    ]  # fmt: skip


@pytest.mark.parametrize("rounds", [7, 10])
@pytest.mark.parametrize("dtype", ["i32", "ui32"])
@pytest.mark.parametrize("cols", [8, 200, 256, 264, 600])
@pytest.mark.parametrize("order", ["interleaved", "planar"])
def test_random_numbers_are_philox_blocks_in_one_of_two_orders(cols, dtype, rounds, order):
    """The counter grows by the lanes of each step (planar: by a quarter of the row stride), and
    carries through all its words."""
    counters = (-1, -1, 0x7FFFFFFF, 5)
    operands: dict[str, Operand] = {
        **{f"key{i}": Scalar("i32", v) for i, v in enumerate((0x1234567, -77))},
        **{f"counter{i}": Scalar("i32", v) for i, v in enumerate(counters)},
        "dst": Spec(dtype, 3, 608, (2, cols)),
    }
    switches = {"trandom.order": order}
    Case("trandom", "a5", operands, attrs={"rounds": rounds}, switches=switches).check()


# -- merging and splitting -------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["tinterleave", "tdeinterleave"])
@pytest.mark.parametrize("dtype", ["f32", "i16", "ui8"])
def test_interleaving(op, dtype):
    names = ("src0", "src1", "dst0", "dst1")
    Case(op, "a5", {n: tile(dtype, i, (4, -3)) for i, n in enumerate(names)}).check()


def test_deinterleaving_undoes_interleaving():
    k = Kernel("a5")
    tiles = {n: k.tile(n, "f32", 2, 8) for n in ("a", "b", "c", "d", "e", "f")}
    k.load("first", tiles["a"])
    k.load("second", tiles["b"])
    k.op("pto.tinterleave", [tiles["a"], tiles["b"]], [tiles["c"], tiles["d"]])
    k.op("pto.tdeinterleave", [tiles["c"], tiles["d"]], [tiles["e"], tiles["f"]])
    k.store(tiles["c"], "merged")
    k.store(tiles["e"], "third")
    k.store(tiles["f"], "fourth")
    zeros = np.zeros((2, 8), np.float32)
    first = np.arange(16, dtype=np.float32).reshape(2, 8)
    args = {
        "first": first,
        "second": -first,
        "merged": zeros,
        "third": zeros.copy(),
        "fourth": zeros.copy(),
    }
    outputs = k.run(args).outputs
    assert outputs["merged"].reshape(2, 8)[0].tolist() == [0, 0, 1, -1, 2, -2, 3, -3]
    assert outputs["third"].tolist() == first.tolist()
    assert outputs["fourth"].tolist() == (-first).tolist()


# -- single elements -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32", "ui8"])
@pytest.mark.parametrize("target", TARGETS)
def test_one_element_is_set_in_memory_order(dtype, target):
    for layout in ("nd", "dn"):
        operands = {
            "offset": Scalar("index", 37),
            "val": Scalar(dtype, 3),
            "dst": Spec(dtype, 32, 32, (1, 32), layout, values=mixture(dtype, 1024, 1)),
        }
        Case("tsetval", target, operands).check()
