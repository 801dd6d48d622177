"""The manual page of pto.tquant: C++ calls as people paste them, its constraints, its sizes, its profile."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.language.syntax.cpp import from_cpp
from ptosim.tools.api import check_source
from tests.ops.semantics.test_tquant_forms import asymmetric, symmetric

RNG = np.random.default_rng(21)
X = (RNG.standard_normal((16, 64)) * 40).astype(np.float32)
SCALE = (np.abs(RNG.standard_normal((16, 1))) + 0.5).astype(np.float32)
OFFSET = np.arange(16, dtype=np.float32)[:, None] * 7

EXAMPLES = {
    "MXFP8 along columns": "TQuant<0, MxQuantAlg::OcpMxFp8E4M3>(fp8Tile, srcTile, &e8DnTile, &maxTile, &scalingTile);",
    "MXFP8 along rows, legacy": "TQUANT<QuantType::MXFP8>(fp8Tile, srcTile, &e8NdTile, &maxTile, &scalingTile);",
    "MXFP4 along columns, NV": "TQuant<0, MxQuantAlg::NvMxFp4E2M1>(fp4Tile, srcTile, &e8DnTile, &maxTile, &scalingTile);",
    "INT8 symmetric": "TQUANT<QuantType::INT8_SYM>(int8Tile, srcTile, scale);",
    "pipeline": """// Full MXFP8 DN pipeline: quantize + layout convert for cube
TQuant<0, MxQuantAlg::OcpMxFp8E4M3>(fp8Tile, srcTile, &e8DnTile, &maxTile, &scalingTile);
TMOV(fp8NZTile, fp8Tile);                  // data  ND→NZ
TMOV<0>(e8ZzTile, e8DnTile, tmpTile);      // exp   DN→ZZ
""",
}


def run(text, target="a5", **given):
    return ptosim.load(text, target=target).run(given, timing=False).outputs


# -- C++ calls -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_runs(name):
    """Word for word, without arguments: types and data are made up and said to be."""
    result = ptosim.load(EXAMPLES[name], target="a5").run({}, timing=False)
    assert result.outputs
    assert result.generated


def test_int8_calls_compute_what_the_assembly_does():
    got = run(EXAMPLES["INT8 symmetric"], srcTile=X, scale=SCALE)["int8Tile"]
    np.testing.assert_array_equal(got, symmetric(X, SCALE))
    for call in (
        "TQUANT<QuantType::INT8_ASYM>(d, x, s, &o);", "pto::TQUANT<QuantType::INT8_ASYM>( d, x, s, o );",
    ):  # fmt: skip
        got = run(call, x=X, s=SCALE, o=OFFSET)["d"]
        np.testing.assert_array_equal(got, asymmetric(X, SCALE, OFFSET))
    got = run("TQUANT<QuantType::INT8_ASYM>(d, x, s, t, &o);", "a2a3", x=X, s=SCALE, o=OFFSET)["d"]
    np.testing.assert_array_equal(got, asymmetric(X, SCALE, OFFSET))
    got = run("TQUANT<QuantType::INT8_SYM>(d, x, s, nullptr);", x=X, s=SCALE)["d"]
    np.testing.assert_array_equal(got, symmetric(X, SCALE))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(64, 64), (128, 32), (64, 192)])
def test_the_pipeline_takes_any_type_and_shape(dtype, shape):
    """Undeclared tiles are what the argument asks for: codes in column blocks of 32 bytes, exponents
    of columns in boxes of 16 by 2. Declared ones give the same."""
    x = (RNG.standard_normal(shape) * 9).astype(dtype)
    got = run(EXAMPLES["pipeline"], srcTile=x)
    rows, cols = shape
    codes = got["fp8Tile"].view(np.uint8)
    largest = np.abs(x.astype(np.float32)).reshape(rows // 32, 32, cols).max(1)
    exponents = np.frexp(largest)[1] - 1 - 8 + 127
    np.testing.assert_array_equal(got["e8DnTile"].view(np.uint8), exponents)
    np.testing.assert_array_equal(got["fp8NZTile"].view(np.uint8), codes)
    np.testing.assert_array_equal(got["e8ZzTile"].view(np.uint8).reshape(cols, -1), exponents.T)
    word = {"float32": "float", "float16": "half", "bfloat16": "bfloat16_t"}[x.dtype.name]
    declared = f"Tile<TileType::Vec, {word}, {rows}, {cols}> srcTile;\n{EXAMPLES['pipeline']}"
    again = run(declared, srcTile=x)
    for name in ("fp8NZTile", "e8ZzTile"):
        np.testing.assert_array_equal(again[name].view(np.uint8), got[name].view(np.uint8))


def test_the_pipeline_is_that_of_the_shipped_program(cli):
    """The page's last example in C++ gives what its assembly gives."""
    x = (RNG.standard_normal((64, 64)) * 9).astype(ml_dtypes.bfloat16)
    first = run(EXAMPLES["pipeline"], srcTile=x)
    second = ptosim.load(_shipped(), target="a5").run({"srcTile": x}, timing=False).outputs
    for name in ("fp8NZTile", "e8ZzTile"):
        np.testing.assert_array_equal(first[name].view(np.uint8), second[name].view(np.uint8))


def _shipped():
    from ptosim.launch.sources import source_path

    return source_path("@page/pipeline")


DECLARED = """using Src = pto::Tile<TileType::Vec, float, 16, 64, BLayout::RowMajor, -1, -1>;
Src srcTile(16, 64);
Tile<TileType::Vec, float, 16, 1, BLayout::ColMajor> scale, offset;
Tile<TileType::Vec, uint8_t, 16, 64> dst;
TASSIGN(srcTile, 0x0);
TASSIGN(scale, 0x4000);
TASSIGN(offset, 0x5000);
TASSIGN(dst, 0x6000);
TQUANT<QuantType::INT8_ASYM>(dst, srcTile, scale, &offset);   // u8
"""


def test_declarations_and_placements():
    """Tiles have the declared types, TASSIGN places them."""
    got = run(DECLARED, srcTile=X, scale=SCALE, offset=OFFSET)["dst"]
    np.testing.assert_array_equal(got, asymmetric(X, SCALE, OFFSET))
    assert "pto.tassign %scale, @tile(0x4000)" in (from_cpp(DECLARED) or "")
    wrong = DECLARED.replace("uint8_t", "int8_t")
    found = findings(from_cpp(wrong))
    assert "INT8_ASYM into i8" in found["PTO2052"].message
    assert "v_row=12, v_col=60" in (
        from_cpp(DECLARED.replace("srcTile(16, 64)", "srcTile(12, 60)")) or ""
    )


def test_fmt_converts_it(cli, tmp_path):
    """To a snippet that means the same; comments stay on their lines."""
    path = tmp_path / "calls.cpp"
    path.write_text(DECLARED)
    got = cli("fmt", "--to", "dps", "--target", "a5", path)
    assert got.code == 0, got.err
    assert "// u8" in got.out
    assert "{quant_type = #pto<quant_type INT8_ASYM>}" in got.out
    np.testing.assert_array_equal(
        run(got.out, srcTile=X, scale=SCALE, offset=OFFSET)["dst"],
        run(DECLARED, srcTile=X, scale=SCALE, offset=OFFSET)["dst"],
    )
    (tmp_path / "again.pto").write_text(got.out)
    assert cli("fmt", "--to", "dps", "--target", "a5", tmp_path / "again.pto").out == got.out


def test_findings_have_the_line_of_the_call(cli, tmp_path):
    path = tmp_path / "p.pto"
    path.write_text("// one\nTQUANT<QuantType::INT8_SIM>(d, x, s);\n")
    got = cli("check", "--target", "a5", path)
    assert got.code != 0
    assert "p.pto:2:" in got.err


@pytest.mark.parametrize(
    "text",
    [
        "%d = pto.tquant %x, %s : (!pto.tile<...>, !pto.tile<...>) -> !pto.tile<...>",
        "TQUANT ins(%x, %s : !pto.tile<...>, !pto.tile<...>) outs(%d : !pto.tile<...>)",
        "// TQUANT<QuantType::INT8_SYM>(d, x, s);",
        "auto y = f(x);",
        "",
    ],
)
def test_other_texts_are_left_alone(text):
    assert from_cpp(text) is None


def test_store_mode_and_other_calls():
    """The zigzag store mode has a sixth operand; any other call has its destination first."""
    made = from_cpp("TQUANT<QuantType::MXFP8, StoreMode::ZZ>(d, x, &e, &m, &s, &zz);") or ""
    assert "outs(%d, %e, %m, %s, %zz :" in made
    with pytest.raises(ptosim.PtosimError):
        ptosim.load(made, target="a5").run({}, timing=False)
    assert from_cpp("TADD(d, a, b);") == (
        "pto.tadd ins(%a, %b : !pto.tile_buf<...>, !pto.tile_buf<...>) outs(%d : !pto.tile_buf<...>)"
    )
    nv = from_cpp("TQUANT<QuantType::MXFP8, QuantScaleAlg::NV>(d, x, &e, &m, &s);") or ""
    assert "scale_alg = #pto<quant_scale_alg NV>" in nv


# -- SSA results in functions ----------------------------------------------------------------------

SSA = """!f = !pto.tile_buf<vec, 16x64xf32>
!s = !pto.tile_buf<vec, 16x1xf32, blayout=col_major>
!i = !pto.tile_buf<vec, 16x64xi8>
func.func @f(%x: !f, %s: !s) -> !i {
  %y = pto.tquant %x, %s {quant_type = #pto<quant_type INT8_SYM>} : (!f, !s) -> !i
  %z = pto.tadd %x, %x : (!f, !f) -> !f
  return %y : !i
}
"""


def test_results_in_a_function_with_tiles_are_outputs():
    """Also the one that is returned."""
    out = run(SSA, x=X, s=SCALE)
    np.testing.assert_array_equal(out["y"], symmetric(X, SCALE))
    np.testing.assert_array_equal(out["z"], X + X)


# -- constraints -----------------------------------------------------------------------------------


def findings(text, target="a5", profile="hw"):
    checked = check_source(Source("p.pto", text), target, profile=profile)
    return {d.code: d for d in checked.findings}


def mx(rows, cols, exp, *, dtype="bf16", axis=1, alg="OcpMxFp8E4M3", out="f8E4M3FN", valid=""):
    return (
        f"pto.tquant ins(%x : !pto.tile<{rows}x{cols}x{dtype}{valid}>) outs(%y, %e : "
        f"!pto.tile<{rows}x{cols}x{out}{valid}>, !pto.tile<{exp}xui8>) "
        f"{{mx_alg = #pto<mx_quant_alg {alg}>, grp_axis = {axis}}}\n"
    )


ZIGZAG = (
    "pto.tmov ins(%e, %t : !pto.tile<{exp}xui8>, !pto.tile<1x{tmp}xui8>) "
    "outs(%z : !pto.tile<{zz}xui8, slayout=row_major, fractal=32>) {{grp_axis = {axis}}}\n"
)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (ZIGZAG.format(exp="3x64", tmp=512, zz="64x4", axis=0), "PTO7003", "whole boxes only"),
        (ZIGZAG.format(exp="1x96", tmp=256, zz="32x3", axis=1), "PTO6014", "the ZZ form takes pairs"),
        (ZIGZAG.format(exp="1x64", tmp=32, zz="32x2", axis=1), "PTO6105", "68 bytes of scratch"),
        (mx(33, 64, "1x64", axis=0), "PTO2011", "multiple of 32"),
        (mx(32, 64, "32x2", dtype="f32", alg="OcpMxFp4E2M1", out="f4E2M1FN"), "PTO3031", "f32 to MXFP4"),
        (
            mx(4, 128, "1x32", dtype="f32", valid=", valid=4x40"), "PTO7102",
            "reads the columns after the valid ones",
        ),
        (
            "pto.tquant ins(%x, %s : !pto.tile<16x64xf32>, !pto.tile<1x1xf32>) outs(%y : "
            "!pto.tile<16x64xi8>) {quant_type = #pto<quant_type INT8_SYM>}\n",
            "PTO3034", "one scale for the whole tile",
        ),
        (
            "pto.tquant ins(%x : !pto.tile<32x64xbf16>) outs(%y, %e, %m : !pto.tile<32x64xf8E4M3FN>, "
            "!pto.tile<32x2xui8>, !pto.tile<32x2xf32>) {mx_alg = #pto<mx_quant_alg OcpMxFp8E4M3>}\n",
            "PTO2010", "element type of src",
        ),
    ],
)  # fmt: skip
def test_constraints_need_no_values(text, code, words):
    """`check` finds them: of shapes and types alone."""
    found = findings(text)
    assert code in found, list(found)
    assert words in found[code].message


def test_padding_makes_valid_results_nan():
    """What PTO7102 says: the rest of a group is read; in two dimensions it is not."""
    x = RNG.standard_normal((4, 40)).astype(np.float32)
    flat = run(mx(4, 128, "1x32", dtype="f32", valid=", valid=4x40"), x=x)["y"]
    assert np.isnan(flat.astype(np.float32)[:, 32:]).all()
    rows = run(mx(4, 128, "4x4", dtype="f32", valid=", valid=4x40"), x=x)["y"]
    assert not np.isnan(rows.astype(np.float32)).any()
    assert "PTO7102" not in findings(mx(4, 128, "4x4", dtype="f32", valid=", valid=4x40"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (mx(24, 64, "24x2"), "M % 16 == 0"),
        (mx(32, 96, "32x3", valid=", valid=32x80"), "N % 32 == 0"),
        (mx(32, 96, "1x96") + ZIGZAG.format(exp="1x96", tmp=512, zz="32x3", axis=1), "N % 64 == 0"),
        (mx(32, 64, "1x64", axis=0) + ZIGZAG.format(exp="1x64", tmp=512, zz="64x1", axis=0), "M % 64 == 0"),
        (mx(256, 256, "256x8"), "R * C <= 59461"),
    ],
)  # fmt: skip
def test_the_pages_own_constraints_are_notes_of_its_profile(text, words):
    found = check_source(Source("p.pto", text), "a5", profile="page").findings
    assert any(d.code == "PTO7213" and words in d.message for d in found)
    assert "PTO7213" not in findings(text)


@pytest.mark.parametrize(
    ("word", "inside", "beyond"),
    [
        ("M % 16", mx(16, 64, "16x2"), mx(17, 64, "17x2")),
        ("M % 16", mx(48, 64, "48x2"), mx(40, 64, "40x2")),
        ("N % 32", mx(32, 96, "32x3"), mx(32, 96, "32x3", valid=", valid=32x72")),
        ("R * C", mx(240, 224, "240x7"), mx(240, 256, "240x8")),
        ("R * C", mx(16, 3712, "16x116"), mx(16, 3744, "16x117")),
    ],
)  # fmt: skip
def test_the_pages_constraints_begin_where_it_says(word, inside, beyond):
    """59,392 elements are within the budget of 59,461, and 59,904 are not."""

    def told(text: str) -> bool:
        found = check_source(Source("p.pto", text), "a5", profile="page").findings
        return any(d.code == "PTO7213" and word in d.message for d in found)

    assert not told(inside)
    assert told(beyond)


SSA_MX = (
    "%q, %e = pto.tquant %x {{mx_alg = #pto<mx_quant_alg {alg}>, grp_axis = 1}} : "
    "(!pto.tile<{rows}x64xf32>) -> (!pto.tile<{rows}x64x{out}>, !pto.tile<{rows}x2xui8>)"
)


@pytest.mark.parametrize(("rows", "told"), [(24, True), (32, False)])
def test_results_in_ssa_form_have_the_same_notes(rows, told):
    text = SSA_MX.format(alg="OcpMxFp8E4M3", rows=rows, out="i8")
    found = check_source(Source("p.pto", text), "a5", profile="page").findings
    assert [d.code for d in found if d.code == "PTO7213"] == ["PTO7213"] * told


@pytest.mark.parametrize("form", ["operands", "results"])
def test_f32_to_mxfp4_is_said_the_same_by_check_and_run(form):
    """The library of A5 takes f16 and bf16; only its CPU model has f32."""
    alg = "OcpMxFp4E2M1"
    text = mx(32, 64, "32x2", alg=alg, out="f4E2M1FN").replace("bf16", "f32")
    if form == "results":
        text = SSA_MX.format(alg=alg, rows=32, out="f4E2M1FN")
    said = "f32 to MXFP4, which exists in profile `cpu` only"
    assert said in findings(text)["PTO3031"].message
    with pytest.raises(ptosim.UnsupportedError) as refused:
        ptosim.load(text, target="a5").run()
    messages = [d.message for d in refused.value.diagnostics]
    assert any("f32 to MXFP4 exists in profile `cpu` only" in m for m in messages)


# -- sizes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("axis", [0, 1])
def test_sizes_of_mxfp8(dtype, axis):
    """dst M*N bytes, exp M*N/32, max and scaling M*N/32 of the source's type."""
    rows, cols = 64, 64
    group = (rows // 32, cols) if axis == 0 else (rows, cols // 32)
    shape = "x".join(map(str, group))
    text = (
        f"pto.tquant ins(%x : !pto.tile<{rows}x{cols}x{dtype}>) outs(%y, %e, %m, %s : "
        f"!pto.tile<{rows}x{cols}xi8>, !pto.tile<{shape}xui8>, !pto.tile<{shape}x{dtype}>, "
        f"!pto.tile<{shape}x{dtype}>) {{mx_alg = #pto<mx_quant_alg OcpMxFp8E4M3>, grp_axis = {axis}}}"
    )
    out = run(text)
    assert out["y"].nbytes == rows * cols
    assert out["e"].nbytes == rows * cols // 32
    assert not [d for d in findings(text).values() if d.is_rejection]


def test_sizes_of_mxfp4():
    """Two codes a byte."""
    out = run(mx(32, 64, "32x2", alg="NvMxFp4E2M1", out="f4E2M1FN"))
    assert out["y"].shape == (32, 64)
    packed = "pto.tquant ins(%x : !pto.tile<32x64xbf16>) outs(%y, %e : !pto.tile<32x32xui8>, !pto.tile<32x2xui8>) {mx_alg = #pto<mx_quant_alg NvMxFp4E2M1>}"  # fmt: skip
    assert run(packed)["y"].nbytes == 32 * 64 // 2


def test_a_call_gives_an_event_and_takes_events():
    """`RecordEvent TQUANT(…, WaitEvents &...events)`: what a call gives back, and events after its
    operands, are no operands; the order of the lines keeps what they say."""
    plain = "TQUANT<QuantType::MXFP8>(dst, src, &exp, &max, &scaling);"
    want = from_cpp(f"TABS(src, in);\n{plain}")
    for text in (
        "RecordEvent ready = TABS(src, in);\n"
        "auto done = TQUANT<QuantType::MXFP8>(dst, src, &exp, &max, &scaling, ready);",
        "pto::RecordEvent ready = TABS(src, in);\n"
        "pto::RecordEvent e = TQUANT<QuantType::MXFP8>(dst, src, &exp, &max, &scaling, ready);",
    ):
        assert from_cpp(text) == want
    later = f"RecordEvent ready, other;\nready = TABS(src, in);\nWaitEvents(ready);\n{plain}"
    lines = (from_cpp(later) or "").split("\n")
    assert want is not None
    assert [line for line in lines if not line.startswith("//")] == want.split("\n")
    assert len(lines) == 4  # a place stays a line
    offset = "TQUANT<QuantType::INT8_ASYM>(dst, src, scale, &offset{});"
    made = from_cpp("RecordEvent e = TABS(src, in);\n" + offset.format(", e"))
    assert made == from_cpp("TABS(src, in);\n" + offset.format(""))
