"""TQUANT and TMOV as they can be written: every spelling means the same operation.

Page forms are those of the public manual page of the operation, with abstract types that the bound
arguments make concrete.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.language.rewrite.forms import convert
from tests.ops.semantics.helpers import codes

RNG = np.random.default_rng(2)
X = (RNG.standard_normal((16, 64)) * 50).astype(np.float32)
SCALE = (np.abs(RNG.standard_normal((16, 1))) + 0.5).astype(np.float32)
PAIR = np.concatenate([SCALE, np.arange(16, dtype=np.float32)[:, None] * 9], 1)
F32, COLUMN, I8, UI8 = "16x64xf32", "16x1xf32", "16x64xi8", "16x64xui8"
ABSTRACT = "!pto.tile<...>"


def run(text: str, args: dict[str, Any] | None = None, **options: Any) -> ptosim.Result:
    target = options.pop("target", "a5")
    seed = options.pop("seed", 0)
    return ptosim.load(text, target=target, **options).run(args or {}, seed=seed)


def symmetric(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(x * scale), -128, 127).astype(np.int8)


def asymmetric(x: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> np.ndarray:
    return np.clip(np.rint((x * scale).astype(np.float32) + offset), 0, 255).astype(np.uint8)


# -- INT8 -----------------------------------------------------------------------------------------

SPELLINGS = [
    f"%y = pto.tquant %x, %s : (!pto.tile<{F32}>, !pto.tile<{COLUMN}>) -> !pto.tile<{I8}>",
    f"%y = pto.tquant %x, %s {{quant_type = #pto<quant_type INT8_SYM>}} : "
    f"(!pto.tile<{F32}>, !pto.tile<{COLUMN}>) -> !pto.tile<{I8}>",
    f"%y = pto.tquant %x, %s {{quant_type = #pto.quant_type<INT8_SYM>}} : "
    f"(!pto.tile<{F32}>, !pto.tile<{COLUMN}>) -> !pto.tile<{I8}>",
    f"%y = TQUANT %x, %s : !pto.tile<{F32}>, !pto.tile<{COLUMN}> -> !pto.tile<{I8}>",
    f"%y = TQuant %x, %s : !pto.tile<{F32}>, !pto.tile<{COLUMN}> -> !pto.tile<{I8}>",
    f"%y = tquant %x, %s : !pto.tile<{F32}>, !pto.tile<{COLUMN}> -> !pto.tile<{I8}>",
    f"pto.tquant ins(%x, %s : !pto.tile<{F32}>, !pto.tile<{COLUMN}>) outs(%y : !pto.tile<{I8}>)",
    f"pto.tquant ins(%x, %s : !pto.tile<{F32}>, !pto.tile<{COLUMN}>) outs(%y : !pto.tile<{I8}>) "
    "{quant_type = #pto<quant_type INT8_SYM>}",
    f"TQUANT ins(%x, %s : !pto.tile<{F32}>, !pto.tile<{COLUMN}>) outs(%y : !pto.tile<{I8}>)",
    f"%y = pto.tquant %x, %s : ({ABSTRACT}, {ABSTRACT}) -> {ABSTRACT}",
    "pto.tquant ins(%x, %s : !pto.tile_buf<...>, !pto.tile_buf<...>) outs(%y : !pto.tile_buf<...>)",
]


@pytest.mark.parametrize("target", ["a5", "a2a3"])
@pytest.mark.parametrize("text", SPELLINGS)
def test_symmetric(text, target):
    result = run(text, {"x": X, "s": SCALE}, target=target)
    np.testing.assert_array_equal(result.outputs["y"], symmetric(X, SCALE))
    assert not codes(result)
    assert "y" not in result.generated or text.count("...")


@pytest.mark.parametrize("target", ["a5", "a2a3"])
@pytest.mark.parametrize(
    "text",
    [
        f"%y = pto.tquant %x, %q : (!pto.tile<{F32}>, !pto.tile<16x2xf32>) -> !pto.tile<{UI8}>",
        f"%y = pto.tquant %x, %q : ({ABSTRACT}, {ABSTRACT}) -> {ABSTRACT}",
        "pto.tquant ins(%x, %q : !pto.tile_buf<...>, !pto.tile_buf<...>) "
        "outs(%y : !pto.tile_buf<...>)",
    ],
)
def test_asymmetric_with_scale_and_offset_in_one_tile(text, target):
    result = run(text, {"x": X, "q": PAIR}, target=target)
    np.testing.assert_array_equal(result.outputs["y"], asymmetric(X, PAIR[:, :1], PAIR[:, 1:]))


@pytest.mark.parametrize("target", ["a5", "a2a3"])
def test_asymmetric_with_an_offset(target):
    text = (
        f"%y = pto.tquant %x, %s, %o {{quant_type = #pto<quant_type INT8_ASYM>}} : "
        f"(!pto.tile<{F32}>, !pto.tile<{COLUMN}>, !pto.tile<{COLUMN}>) -> !pto.tile<{UI8}>"
    )
    args = {"x": X, "s": SCALE, "o": PAIR[:, 1:]}
    result = run(text, args, target=target)
    np.testing.assert_array_equal(result.outputs["y"], asymmetric(X, SCALE, PAIR[:, 1:]))


def test_scratch_as_a_second_result():
    text = (
        "%y, %tmp = pto.tquant %x, %s {quant_type = #pto<quant_type INT8_SYM>} : "
        f"(!pto.tile<{F32}>, !pto.tile<{COLUMN}>) -> (!pto.tile<{I8}>, !pto.tile<{F32}>)"
    )
    result = run(text, {"x": X, "s": SCALE}, target="a2a3")
    np.testing.assert_array_equal(result.outputs["y"], symmetric(X, SCALE))
    integers = np.rint(X * SCALE).astype(np.int32)
    np.testing.assert_array_equal(result.outputs["tmp"].view(np.int32), integers)


# -- microscaling ---------------------------------------------------------------------------------

MX_SPELLINGS = [
    "{mx_alg = #pto<mx_quant_alg OcpMxFp8E4M3>}",
    "{mx_alg = #pto.mx_quant_alg<OcpMxFp8E4M3>, grp_axis = 1}",
    "{mx_alg = #pto<mx_quant_alg OcpMxFp8E4M3>, grp_axis = 1 : i32, interleave = false}",
    "{quant_type = #pto<quant_type MXFP8>}",
    "{quant_type = #pto<quant_type MXFP8>, scale_alg = #pto<quant_scale_alg OCP>}",
    "{quant_type = #pto.quant_type<MXFP8>, scale_alg = #pto.quant_scale_alg<OCP>}",
]


@pytest.mark.parametrize("attrs", MX_SPELLINGS)
def test_microscaling(attrs):
    dps = (
        f"pto.tquant ins(%x : !pto.tile<{F32}>) outs(%y, %e : !pto.tile<16x64xf8E4M3FN>, "
        f"!pto.tile<1x32xui8>) {attrs}"
    )
    ssa = (
        f"%y, %e = pto.tquant %x {attrs} : (!pto.tile<{F32}>) -> "
        "(!pto.tile<16x64xf8E4M3FN>, !pto.tile<1x32xui8>)"
    )
    page = f"%y = pto.tquant %x, %e {attrs} : ({ABSTRACT}, {ABSTRACT}) -> {ABSTRACT}"
    results = [run(t, {"x": X}).outputs for t in (dps, ssa, page)]
    assert sorted(results[0]) == ["e", "y"]
    for other in results[1:]:
        np.testing.assert_array_equal(other["e"], results[0]["e"])
        np.testing.assert_array_equal(other["y"].view(np.uint8), results[0]["y"].view(np.uint8))
    maxima = np.abs(X.reshape(16, 2, 32)).max(2)
    exponents = np.frexp(maxima)[1] - 1 + 127 - 8
    np.testing.assert_array_equal(results[0]["e"].reshape(16, 2), exponents)
    scaled = X.reshape(16, 2, 32) * np.exp2(127 - exponents)[:, :, None]
    want = np.clip(scaled, -448, 448).astype(ml_dtypes.float8_e4m3fn).reshape(16, 64)
    np.testing.assert_array_equal(results[0]["y"].view(np.uint8), want.view(np.uint8))


@pytest.mark.parametrize("kind", [np.dtype(np.uint8), np.dtype(ml_dtypes.float8_e8m0fnu)])
def test_an_exponent_tile_makes_the_page_form_microscaling(kind):
    text = f"%y = pto.tquant %x, %qp : ({ABSTRACT}, {ABSTRACT}) -> {ABSTRACT}"
    result = run(text, {"x": X, "qp": np.zeros((1, 32), np.uint8).view(kind)})
    assert result.outputs["y"].dtype == ml_dtypes.float8_e4m3fn
    assert result.outputs["qp"].dtype == kind
    assert result.outputs["qp"].view(np.uint8).min() > 0


def test_the_page_form_of_mxfp4():
    text = (
        f"%y = pto.tquant %x, %qp {{mx_alg = #pto<mx_quant_alg NvMxFp4E2M1>}} : "
        f"({ABSTRACT}, {ABSTRACT}) -> {ABSTRACT}"
    )
    result = run(text)
    assert result.outputs["y"].dtype == ml_dtypes.float4_e2m1fn
    assert "bf16" in result.generated["x"]


def test_microscaling_needs_a5():
    text = TEXTS["microscaling"][0]
    with pytest.raises(ptosim.ProgramError, match="only supported on A5"):
        run(text, target="a2a3")


# -- tmov -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pto.tmov", "TMOV", "tmov", "TMov"])
def test_moves_of_exponents(name):
    types = (
        "!pto.tile<1x64xui8>, !pto.tile<1x256xui8>",
        "!pto.tile<32x2xui8, slayout=row_major, fractal=32>",
    )
    ssa = f"%z = {name} %e, %t : ({types[0]}) -> {types[1]}"
    dps = f"{name} ins(%e, %t : {types[0]}) outs(%z : {types[1]})"
    e = np.arange(64, dtype=np.uint8)
    if name not in ("pto.tmov",):
        ssa = f"%z = {name} %e, %t : {types[0]} -> {types[1]}"
    for text in (ssa, dps):
        got = run(text, {"e": e.reshape(1, 64)}).outputs["z"]
        np.testing.assert_array_equal(got, e.reshape(32, 2))


def test_moves_of_exponent_columns():
    text = (
        "pto.tmov ins(%e, %t : !pto.tile<2x32xui8>, !pto.tile<1x256xui8>) "
        "outs(%z : !pto.tile<32x2xui8, slayout=row_major, fractal=32>) {grp_axis = 0}"
    )
    e = np.arange(64, dtype=np.uint8).reshape(2, 32)
    np.testing.assert_array_equal(run(text, {"e": e}).outputs["z"], e.T)


# -- placement and defaults -----------------------------------------------------------------------

PLACED = f"""
pto.tassign %arg0, @tile(0x1000)
pto.tassign %arg1, @tile(0x2000)
%dst = pto.tquant %src, %qp : ({ABSTRACT}, {ABSTRACT}) -> {ABSTRACT}
"""


class Addresses:
    """An observer that keeps where the operands of tquant are."""

    def __init__(self) -> None:
        self.at: dict[str, int] = {}

    def on_issue(self, core, inst, bound) -> None:
        if inst.op.name == "pto.tquant":
            names = [n for n in ("src", "fp", "dst") if bound.binding.has(n)]
            self.at = {n: bound.binding.tile(n).addr for n in names}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PLACED, {"src": 0x1000, "fp": 0x2000}),
        (PLACED.replace("%arg0", "%src").replace("%arg1", "%qp"), {"src": 0x1000, "fp": 0x2000}),
        (PLACED.replace("%arg0", "%dst"), {"dst": 0x1000, "fp": 0x2000}),
        (PLACED.replace("%arg1, @tile(0x2000)", "%arg0, @tile(0x3000)"), {"src": 0x3000}),
    ],
)
def test_tassign_places_what_the_snippet_names_or_numbers(text, expected):
    addresses = Addresses()
    program = ptosim.load(text, target="a5")
    assert program.level == 3
    got = program.run({"src": X, "qp": SCALE}, observers=[addresses]).outputs
    np.testing.assert_array_equal(got["dst"], symmetric(X, SCALE))
    assert {n: addresses.at[n] for n in expected} == expected


def test_a_number_beyond_the_inputs():
    with pytest.raises(ptosim.ProgramError, match="undefined value `%arg5`"):
        ptosim.load(PLACED.replace("%arg1", "%arg5"), target="a5")


def test_a_placement_outside_the_space():
    with pytest.raises(ptosim.ProgramError) as caught:
        run(PLACED.replace("0x2000", "0x40000"))
    assert [d.code for d in caught.value.diagnostics] == ["PTO4353"]


def test_what_was_assumed_is_reported():
    result = run(f"%dst = pto.tquant %src, %qp : ({ABSTRACT}, {ABSTRACT}) -> {ABSTRACT}")
    assert result.made_up is result.generated
    assert result.generated == {
        "src": "16x64 random elements of f32",
        "qp": "16x1 positive random elements of f32",
        "dst": "type !pto.tile<16x64xi8>",
    }


def test_arguments_give_the_shapes():
    text = f"%dst = pto.tquant %src, %qp : ({ABSTRACT}, {ABSTRACT}) -> {ABSTRACT}"
    x, scale = np.full((3, 96), 2, np.float32), np.array([1, 2, 3], np.float32)
    result = run(text, {"src": x, "qp": scale})
    np.testing.assert_array_equal(result.outputs["dst"], symmetric(x, scale[:, None]))


# -- profile page ---------------------------------------------------------------------------------


def test_the_page_divides_and_adds_late():
    text = f"%y = pto.tquant %x, %q : ({ABSTRACT}, {ABSTRACT}) -> {ABSTRACT}"
    got = run(text, {"x": X, "q": PAIR}, profile="page").outputs["y"]
    want = np.rint((X / PAIR[:, :1]).astype(np.float64)) + PAIR[:, 1:]
    np.testing.assert_array_equal(got, np.clip(want, 0, 127).astype(np.uint8))


@pytest.mark.parametrize("asymmetric", [False, True])
def test_page_means_one_thing(asymmetric):
    """`--profile page` and `scheme="page"`: the page's range holds for both modes."""
    x = np.concatenate(
        [X, np.float32([[0.5, -0.5, 1e9, -1e9, np.inf, -np.inf, np.nan, 1.5] * 8] * 16)]
    )
    scale = np.abs(np.concatenate([SCALE, SCALE]))
    pair = np.concatenate([scale, np.full((32, 1), 128 if asymmetric else 0, np.float32)], 1)
    text = f"%y = pto.tquant %x, %q : ({ABSTRACT}, {ABSTRACT}) -> {ABSTRACT}"
    given = pair if asymmetric else scale
    got = run(text, {"x": x, "q": given}, profile="page").outputs["y"]
    zero = pair[:, 1].astype(np.int32) if asymmetric else 0
    want = ptosim.quantize(
        x, scheme="page", scale=scale[:, 0], zero_point=zero, axis=0,
        dtype="ui8" if asymmetric else "i8",
    )  # fmt: skip
    np.testing.assert_array_equal(got, want)
    assert (got == 127).any()


def test_the_page_rounds_stochastically():
    text = (
        f"%y, %e = pto.tquant %x {MX_SPELLINGS[0]} : (!pto.tile<{F32}>) -> "
        "(!pto.tile<16x64xf8E4M3FN>, !pto.tile<1x32xui8>)"
    )
    page = [
        run(text, {"x": X}, profile="page", seed=s).outputs["y"].view(np.uint8) for s in (1, 1, 2)
    ]
    np.testing.assert_array_equal(page[0], page[1])
    assert (page[0] != page[2]).any()
    nearest = run(text, {"x": X}).outputs["y"].view(np.uint8)
    assert 0 < (page[0] != nearest).mean() < 0.6


# -- fmt ------------------------------------------------------------------------------------------

MODULE = """module attributes {pto.target_arch = "a5"} {
  func.func @kernel(%x: !pto.ptr<f32>, %s: !pto.ptr<f32>, %y: !pto.ptr<i8>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %vx = pto.make_tensor_view %x, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<16x64xf32>
    %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<16x64xf32> -> !pto.partition_tensor_view<16x64xf32>
    %vs = pto.make_tensor_view %s, shape = [%c16, %c1], strides = [%c1, %c16] : !pto.tensor_view<16x1xf32>
    %ps = pto.partition_view %vs, offsets = [%c0, %c0], sizes = [%c16, %c1] : !pto.tensor_view<16x1xf32> -> !pto.partition_tensor_view<16x1xf32>
    %vy = pto.make_tensor_view %y, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<16x64xi8>
    %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<16x64xi8> -> !pto.partition_tensor_view<16x64xi8>
    %a = pto.tload %px : (!pto.partition_tensor_view<16x64xf32>) -> !pto.tile<16x64xf32>
    %b = pto.tload %ps : (!pto.partition_tensor_view<16x1xf32>) -> !pto.tile<16x1xf32>
    %q = pto.tquant %a, %b {quant_type = #pto<quant_type INT8_SYM>} : (!pto.tile<16x64xf32>, !pto.tile<16x1xf32>) -> !pto.tile<16x64xi8>
    pto.tstore ins(%q : !pto.tile<16x64xi8>) outs(%py : !pto.partition_tensor_view<16x64xi8>)
    return
  }
}
"""
TEXTS = {
    "module": (MODULE, {"x": X, "s": SCALE, "y": np.zeros((16, 64), np.int8)}),
    "ssa snippet": (SPELLINGS[0], {"x": X, "s": SCALE}),
    "dps snippet": (SPELLINGS[7], {"x": X, "s": SCALE}),
    "page": (SPELLINGS[9], {"x": X, "s": SCALE}),
    "page, microscaling": (
        f"%y = pto.tquant %x, %qp : ({ABSTRACT}, {ABSTRACT}) -> {ABSTRACT}",
        {"x": X, "qp": np.zeros((1, 32), np.uint8)},
    ),
    "placed": (PLACED, {"src": X, "qp": SCALE}),
    "microscaling": (
        f"%y, %e = pto.tquant %x {MX_SPELLINGS[0]} : (!pto.tile<{F32}>) -> "
        "(!pto.tile<16x64xf8E4M3FN>, !pto.tile<1x32xui8>)",
        {"x": X},
    ),
    "move": (
        "%z = pto.tmov %e, %t : (!pto.tile<1x64xui8>, !pto.tile<1x256xui8>) -> "
        "!pto.tile<32x2xui8, slayout=row_major, fractal=32>",
        {"e": np.arange(64, dtype=np.uint8).reshape(1, 64)},
    ),
}


def bytes_of(result: ptosim.Result) -> dict[str, bytes]:
    return {n: np.ascontiguousarray(a).tobytes() for n, a in result.outputs.items()}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("forms", [("dps",), ("ssa",), ("dps", "ssa"), ("ssa", "dps")])
def test_conversions_between_forms_keep_the_meaning(name, forms):
    text, args = TEXTS[name]
    before = bytes_of(run(text, args))
    for form in forms:
        text = convert(Source("text", text), form, "a5")
    after = bytes_of(run(text, args))
    assert {n: after[n] for n in before} == before
