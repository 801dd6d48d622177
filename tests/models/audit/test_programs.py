"""`ptosim quant audit` of programs: whose formula each step follows, where others differ and why."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ptosim
from ptosim.machine.quant.parameters import scheme, storage
from ptosim.models import kernels
from ptosim.models.audit.findings import function_of, prices
from ptosim.models.audit.program import audit_program
from ptosim.models.audit.steps import REAL, Step
from ptosim.models.kernel_builder import module
from ptosim.models.kernel_runner import run
from ptosim.models.quant.causes import exchanged
from ptosim.models.quant.diff import Setting

ASYM = """module attributes {{pto.target_arch = "{target}"}} {{
  func.func @k(%x: !pto.ptr<f32>, %s: !pto.ptr<f32>, %z: !pto.ptr<f32>, %q: !pto.ptr<ui8>) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %vx = pto.make_tensor_view %x, shape = [%c8, %c32], strides = [%c32, %c1] : !pto.tensor_view<8x32xf32>
    %vs = pto.make_tensor_view %s, shape = [%c8, %c1], strides = [%c1, %c8] : !pto.tensor_view<8x1xf32>
    %vz = pto.make_tensor_view %z, shape = [%c8, %c1], strides = [%c1, %c8] : !pto.tensor_view<8x1xf32>
    %vq = pto.make_tensor_view %q, shape = [%c8, %c32], strides = [%c32, %c1] : !pto.tensor_view<8x32xui8>
    %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c8, %c32] : !pto.tensor_view<8x32xf32> -> !pto.partition_tensor_view<8x32xf32>
    %ps = pto.partition_view %vs, offsets = [%c0, %c0], sizes = [%c8, %c1] : !pto.tensor_view<8x1xf32> -> !pto.partition_tensor_view<8x1xf32>
    %pz = pto.partition_view %vz, offsets = [%c0, %c0], sizes = [%c8, %c1] : !pto.tensor_view<8x1xf32> -> !pto.partition_tensor_view<8x1xf32>
    %pq = pto.partition_view %vq, offsets = [%c0, %c0], sizes = [%c8, %c32] : !pto.tensor_view<8x32xui8> -> !pto.partition_tensor_view<8x32xui8>
    %tx = pto.alloc_tile : !pto.tile_buf<vec, 8x32xf32>
    %ty = pto.alloc_tile : !pto.tile_buf<vec, 8x32xf32>
    %tw = pto.alloc_tile : !pto.tile_buf<vec, 8x32xi32>
    %th = pto.alloc_tile : !pto.tile_buf<vec, 8x32xf16>
    %ts = pto.alloc_tile : !pto.tile_buf<vec, 8x1xf32, blayout=col_major>
    %tz = pto.alloc_tile : !pto.tile_buf<vec, 8x1xf32, blayout=col_major>
    %tq = pto.alloc_tile : !pto.tile_buf<vec, 8x32xui8>
    %tmp = pto.alloc_tile : !pto.tile_buf<vec, 8x32xf32>
    pto.tload ins(%px : !pto.partition_tensor_view<8x32xf32>) outs(%tx : !pto.tile_buf<vec, 8x32xf32>)
    pto.tload ins(%ps : !pto.partition_tensor_view<8x1xf32>) outs(%ts : !pto.tile_buf<vec, 8x1xf32, blayout=col_major>)
    pto.tload ins(%pz : !pto.partition_tensor_view<8x1xf32>) outs(%tz : !pto.tile_buf<vec, 8x1xf32, blayout=col_major>)
{body}
    pto.tstore ins(%tq : !pto.tile_buf<vec, 8x32xui8>) outs(%pq : !pto.partition_tensor_view<8x32xui8>)
    return
  }}
}}
"""
F, W, H, Q = (f"!pto.tile_buf<vec, 8x32x{t}>" for t in ("f32", "i32", "f16", "ui8"))
C = "!pto.tile_buf<vec, 8x1xf32, blayout=col_major>"
TQUANT = (
    f"pto.tquant ins(%tx, %ts, %tz : {F}, {C}, {C}) outs(%tq, %tmp : {Q}, {F}) "
    "{quant_type = #pto<quant_type INT8_ASYM>}"
)
ON = "sat_mode = #pto<saturation_mode ON>"


def cvt(source, dst, types, mode="RINT"):
    return (
        f"pto.tcvt ins(%{source} : {types[0]}) outs(%{dst} : {types[1]}) "
        f"{{rmode = #pto<round_mode {mode}>, {ON}}}"
    )


def own(op, zero, mode="RINT", direct=False):
    """A quantisation of tile operations: `op` mul or div, the zero point before or without."""
    lines = [f"pto.trowexpand{op} ins(%tx, %ts : {F}, {C}) outs(%ty : {F})"]
    if zero:
        lines.append(f"pto.trowexpandadd ins(%ty, %tz : {F}, {C}) outs(%ty : {F})")
    if direct:
        lines.append(cvt("ty", "th", (F, H)))
    else:
        lines += [cvt("ty", "tw", (F, W), mode), cvt("tw", "ty", (W, F)), cvt("ty", "th", (F, H))]
    return "\n".join([*lines, cvt("th", "tq", (H, Q))])


def audit(body, x, scale, zero, target="a5"):
    values = np.zeros((8, 32), np.float32)
    values.reshape(-1)[: len(x)] = x
    program = ptosim.load(ASYM.format(target=target, body=body))
    args = {
        "x": values, "s": np.full((8, 1), scale, np.float32),
        "z": np.full((8, 1), zero, np.float32), "q": np.zeros((8, 32), np.uint8),
    }  # fmt: skip
    return audit_program(program, args)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_tquant_of_ties_with_an_odd_zero_point(target):
    """0.5 + 1 = 1.5 rounds to 2, 1.5 + 1 = 2.5 rounds to 2: TQUANT adds first. ONNX rounds first:
    0 + 1 and 2 + 1. Zeros agree. A2/A3 overwrites its source, which is read before."""
    (step,) = audit(TQUANT, [0.5, 1.5], 1, 1, target)
    assert (step.own.name, step.elements, step.executions, step.unlike) == ("pto-hw", 256, 1, 0)
    found = {line.system.name: line.verdict for line in step.lines}
    assert set(found) == {"ONNX", "MLIR", "oneDNN", "PyTorch"}
    assert (found["ONNX"].differ, found["ONNX"].worst) == (2, 1)
    assert found["ONNX"].causes["zero point"] == 2
    assert found["ONNX"].change == ("zero point",)
    assert [found[n].differ for n in ("MLIR", "oneDNN", "PyTorch")] == [0, 0, 0]


def test_a_zero_point_that_is_no_integer_has_no_counterpart():
    """The other systems' zero points are integers; TQUANT's offset is a float."""
    (step,) = audit(TQUANT, [1.0], 1, 0.5)
    why = {line.system.name: line.why_not for line in step.lines}
    assert "integer" in why["ONNX"]
    assert why["oneDNN"] == ""


@pytest.mark.parametrize(
    ("body", "name", "differs"),
    [
        (own("mul", True), "as PTO TQUANT INT8 (A2/A3, A5)", {"ONNX": 2}),
        (own("div", True), "x / scale, z before rounding, half to even", {"ONNX": 2, "MLIR": 0}),
        (own("mul", False, "ROUND"), "x * m, z before rounding, half away", {"ONNX": 1}),
    ],
    ids=["multiply", "divide", "half away"],
)
def test_a_formula_of_the_programs_own(body, name, differs):
    """Products or quotients, sums and conversions of tiles are one step; its results are compared
    with the bytes that the program stored."""
    zero = 1 if "expandadd" in body else 0
    (step,) = [s for s in audit(body, [0.5, 1.5], 1, zero) if s.own is not None]
    assert (step.formula, step.unlike) == (name, 0)
    found = {line.system.name: line.verdict.differ for line in step.lines}
    assert found | differs == found


def test_two_roundings():
    """0.5000000596 becomes 0.5 in f16, a tie that goes to 0; ONNX rounds once, to 1."""
    (step,) = [s for s in audit(own("mul", False, direct=True), [0.5000000596], 1, 0) if s.own]
    assert step.unlike == 0
    onnx = next(line for line in step.lines if line.system.name == "ONNX")
    assert (onnx.verdict.differ, onnx.verdict.change) == (1, ("rounding",))


def test_a_conversion_without_a_scale_is_named_and_not_judged():
    body = "\n".join(
        [
            cvt("tx", "tw", (F, W)),
            cvt("tw", "ty", (W, F)),
            cvt("ty", "th", (F, H)),
            cvt("th", "tq", (H, Q)),
        ]
    )
    (step,) = audit(body, [1.0], 1, 0)
    assert step.own is None
    assert "no formula" in step.note
    assert step.lines == []


def test_a_tile_that_was_loaded_anew_has_no_past():
    """The product is of the tile before; the bytes are of the new one, and say so."""
    product = f"pto.trowexpandmul ins(%tx, %ts : {F}, {C}) outs(%ty : {F})"
    load = "pto.tload ins(%px : !pto.partition_tensor_view<8x32xf32>) outs(%ty : " + F + ")"
    chain = [
        cvt("ty", "tw", (F, W)),
        cvt("tw", "ty", (W, F)),
        cvt("ty", "th", (F, H)),
        cvt("th", "tq", (H, Q)),
    ]
    (step,) = audit("\n".join([product, load, *chain]), [3.0], 7, 0)
    assert step.own is None or step.unlike == 1


CASTS = """module attributes {pto.target_arch = "a5"} {
  func.func @k(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.0>> {
    %q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 1.0>>
    return %q : tensor<4x!quant.uniform<i8:f32, 1.0>>
  }
}
"""


def test_casts_of_the_quant_dialect():
    """mlir-opt's lowering truncates: 1.5 gives 1, where half to even gives 2."""
    program = ptosim.load(CASTS)
    (step,) = audit_program(program, {"x": np.float32([0.5, 1.5, 2.5, 3.0])})
    assert (step.own.name, step.elements, step.unlike) == ("mlir", 4, 0)
    assert all(line.verdict.differ == 0 for line in step.lines)
    changed = ptosim.load(
        CASTS.replace("%x : tensor<4xf32> to", '%x {scheme = "mlir-lower"} : tensor<4xf32> to')
    )
    (step,) = audit_program(changed, {"x": np.float32([0.5, 1.5, 2.5, 3.0])})
    assert step.own.name == "mlir-lower"
    onnx = next(line for line in step.lines if line.system.name == "ONNX")
    assert (onnx.verdict.differ, onnx.verdict.causes["ties"]) == (1, 1)


# -- prices ----------------------------------------------------------------------------------------


def judged(x, zero, along):
    shape = {"tensor": (1,), "row": (x.shape[0], 1), "column": (1, x.shape[1])}[along]
    step = Step("step", REAL, scheme("pto-hw"))
    out = storage("ui8" if zero else "i8")
    step.take(Setting(x, np.full(shape, 0.1, np.float32), np.full(shape, zero), out), None)
    assert step.along == along
    return step


@pytest.mark.parametrize("along", ["tensor", "row", "column"])
def test_the_price_is_that_of_a_kernel_that_agrees(along):
    """Against ONNX both targets have a price; a product and a sum in one rounding has no form."""
    x = (np.arange(64 * 128, dtype=np.float32).reshape(64, 128) - 4000) * np.float32(0.05)
    step = judged(x, 3, along)
    lines = {line.system.name: line for line in step.lines}
    assert lines["ONNX"].verdict.differ > 0
    found = prices(step, lines["ONNX"], ("a2a3", "a5"))
    assert all(isinstance(found[t], int) for t in ("a2a3", "a5"))
    twice = judged(x, 3, along)
    twice.executions = 2
    both = prices(twice, next(iter(twice.lines)), ("a5",))
    assert both["a5"] == 2 * found["a5"]


def test_no_price_where_nothing_differs_or_nothing_computes_it():
    step = judged(np.ones((8, 64), np.float32), 0, "tensor")
    assert all(prices(step, line, ("a5",)) == {} for line in step.lines)
    x = np.float32([[8.250000954]])
    other = Step("step", REAL, scheme("pto-hw"))
    other.take(Setting(x, np.float32([0.1]), np.array([128]), storage("ui8")), None)
    torch = next(line for line in other.lines if line.system.name == "PyTorch")
    assert torch.verdict.differ == 1
    assert prices(other, torch, ("a2a3", "a5")) == {"a2a3": None, "a5": None}


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    path = tmp_path / "k.pto"
    path.write_text(ASYM.format(target="a5", body=TQUANT))
    values = np.zeros((8, 32), np.float32)
    values[0, :2] = 0.5, 1.5
    np.savez(tmp_path / "in.npz", x=values, one=np.ones((8, 1), np.float32))
    given = tmp_path / "in.npz"
    return path, ["--arg", f"x={given}:x", "--arg", f"s={given}:one", "--arg", f"z={given}:one"]


def test_text_json_and_page(cli, files, tmp_path):
    path, args = files
    shown = cli("quant", "audit", path, *args)
    assert shown.code == 0, shown.err
    assert "PTO TQUANT INT8" in shown.out
    assert "zero point" in shown.out
    assert "none: agrees" in shown.out
    (step,) = json.loads(cli("quant", "audit", path, *args, "--format", "json").out)["steps"]
    onnx = next(line for line in step["against"] if line["system"] == "ONNX")
    assert (onnx["differ"], onnx["causes"], onnx["change"]) == (
        2,
        {"zero point": 2},
        ["zero point"],
    )
    assert set(onnx["added_cycles"]) == {"a2a3", "a5"}
    page = tmp_path / "a.html"
    assert cli("quant", "audit", path, *args, "-o", page).code == 0
    text = page.read_text()
    assert "zero point: 2 of 256" in text


@pytest.mark.parametrize("name", ["@basics/vadd", "@quant/mxfp8_nd"])
def test_programs_without_an_integer_formula_say_so(cli, name):
    shown = cli("quant", "audit", name, "--target", "a5")
    assert shown.code == 0
    assert "nothing in it" in shown.out or "shared exponent" in shown.out


def test_files_that_are_none(cli, tmp_path):
    for name in ("none.pto", "none.onnx"):
        shown = cli("quant", "audit", tmp_path / name)
        assert shown.code == 2
        assert "Traceback" not in shown.err


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("along", ["tensor", "row", "column"])
def test_the_kernel_of_a_price_computes_the_changed_formula(target, along):
    """Not its time alone: the kernel gives the other system's codes, element by element."""
    x = (np.arange(64 * 128, dtype=np.float32).reshape(64, 128) - 4000) * np.float32(0.05)
    step = judged(x, 3, along)
    onnx = next(line for line in step.lines if line.system.name == "ONNX")
    made = exchanged(step.own, scheme("onnx"), onnx.verdict.change)
    grid = kernels.grid(64, 128)
    f = function_of(step, made, target, grid)
    count = {"tensor": None, "row": 64, "column": 128}[along]
    scale, zero = np.float32(0.1), np.int32(3)
    factor = scale if made.scale == "divide" else np.float32(1) / scale
    args = {
        "x": x, "y": np.zeros((64, 128), np.uint8),
        "scale": factor.item() if count is None else np.full(count, factor),
        "zero": zero.item() if count is None else np.full(count, zero),
    }  # fmt: skip
    got = run(module(f), args).outputs["y"].reshape(64, 128)
    wanted = np.clip(np.rint(x / scale) + 3, 0, 255)
    np.testing.assert_array_equal(got, wanted)
