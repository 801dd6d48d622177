"""Arguments of a run that no type holds, and arrays as files of other machines have them."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import ptosim
from ptosim.launch.array_files import load_npy
from ptosim.launch.chain.chain import ExpressionError, value_of
from ptosim.launch.chain.runner import run_chain
from ptosim.shell.main import main

_SCALAR = "module { func.func @k(%n: i32) { return } }"
_POINTER = "module { func.func @k(%x: !pto.ptr<TYPE>) { return } }"
_MANY = f"0x{'f' * 4000}"


@pytest.fixture
def scalar(tmp_path: Path, monkeypatch) -> str:
    """A program that takes a scalar, in a folder with arrays of one element; an internal error of
    the command is the test's."""
    monkeypatch.setenv("PTOSIM_TRACEBACK", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n.pto").write_text(_SCALAR)
    for name, dtype in {"v1": "V1", "v2": "V2", "v4": "V4", "c": "c8", "big": ">i4"}.items():
        np.save(tmp_path / name, np.ones(1, "u1").repeat(np.dtype(dtype).itemsize).view(dtype))
    return "n.pto"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (_MANY, "is a number of 16,000 bits"),
        ("v1.npy", "scalar i32, not |V1"),
        ("v2.npy", "scalar i32, not |V2"),
        ("v4.npy", "scalar i32, not |V4"),
        ("c.npy", "scalar i32, not complex64"),
    ],
)
def test_a_scalar_that_is_no_number(scalar: str, given: str, says: str, capsys) -> None:
    assert main(["run", scalar, "--target", "a5", "--arg", f"n={given}"]) == 2
    assert says in capsys.readouterr().err


def test_a_number_that_cannot_be_printed() -> None:
    with pytest.raises(ptosim.UsageError, match="a number of 20,001 bits does not fit i32"):
        ptosim.load(_SCALAR, target="a5").run({"n": 1 << 20000})


def test_a_scalar_of_a_float_that_numpy_does_not_have() -> None:
    program = ptosim.load(_SCALAR.replace("i32", "f32"), target="a5")
    assert program.run({"n": np.ones(1, ml_dtypes.bfloat16)}).findings == []


@pytest.mark.parametrize(
    "text", [_MANY, f"-{_MANY}", "1 - i * i * i * i * i", f"{_MANY} // {_MANY}"]
)
def test_a_number_of_a_chain_that_no_type_holds(text: str) -> None:
    with pytest.raises(ExpressionError, match="more than 256 bits"):
        value_of(text, {"i": 1 << 62})


@pytest.mark.parametrize("text", [f"{'-' * 950}1", "+".join("1" * 950)])
def test_a_number_of_a_chain_with_hundreds_of_operators(text: str) -> None:
    with pytest.raises(ExpressionError, match="nested too deeply"):
        value_of(text, {})


@pytest.mark.parametrize(
    ("element", "kind"),
    [("i32", "i4"), ("i16", "i2"), ("ui32", "u4"), ("i64", "i8"), ("f32", "f4"), ("f16", "f2")],
)
def test_arrays_in_the_other_byte_order(element: str, kind: str, tmp_path: Path) -> None:
    """They have the same values: read from a file, and from a caller, whose array stays."""
    values = np.array([1, 2, 300])
    program = ptosim.load(_POINTER.replace("TYPE", element), target="a5")
    given = values.astype(f">{kind}")
    got = program.run({"x": given}).outputs["x"]
    assert got.tolist() == values.tolist()
    assert got.dtype.isnative
    assert given.tolist() == values.tolist()
    np.save(tmp_path / "x.npy", given)
    assert load_npy(tmp_path / "x.npy").dtype == np.dtype(kind)


def test_what_a_name_with_a_nul_says(scalar: str, capsys) -> None:
    Path("n.toml").write_text('[args]\nn = "a\\u0000.bin:i32:1"\n')
    assert main(["run", scalar, "--target", "a5"]) == 2
    assert "cannot read" in capsys.readouterr().err


_QUANTISED = "tensor<4x!quant.uniform<i8:f32, 0.5:-3>>"
_TENSOR = f"""func.func @f(%x: {_QUANTISED}) -> {_QUANTISED} {{
  %y = quant.dcast %x : {_QUANTISED} to tensor<4xf32>
  return %x : {_QUANTISED} }}"""


@pytest.mark.parametrize("name", ["a.npy", "a.bin"])
def test_an_output_of_a_quantised_type_is_written(name: str, tmp_path: Path) -> None:
    path, out = tmp_path / "q.pto", tmp_path / name
    path.write_text(_TENSOR)
    words = ["run", str(path), "--target", "a5", "--arg", "x=arange:i8:4", "--out", f"x={out}"]
    assert main(words) == 0
    got = np.load(out) if out.suffix == ".npy" else np.fromfile(out, np.int8)
    assert got.tolist() == [0, 1, 2, 3]


_PACKED = """module { func.func @k(%x: !pto.ptr<!pto.f4E2M1x2>, %y: !pto.ptr<!pto.f4E2M1x2>) {
  %c = arith.constant 0 : index
  %v = pto.load_scalar %x[%c] : !pto.ptr<!pto.f4E2M1x2> -> !pto.f4E2M1x2
  pto.store_scalar %v, %y[%c] : !pto.ptr<!pto.f4E2M1x2>, !pto.f4E2M1x2
  return } }"""


def test_buffers_of_packed_elements_and_of_their_parts(tmp_path: Path) -> None:
    """What a launch leaves comes back as what was given: bytes, or two parts for each."""
    (tmp_path / "k.pto").write_text(_PACKED)
    (tmp_path / "c.toml").write_text(
        'schema = 1\n[kernels]\nk = "k.pto"\n[buffers]\nx = "zeros:f4E2M1:3x4"\n'
        'y = "zeros:f4E2M1:3x4"\n[[launch]]\nkernel = "k"\nargs = { x = "x", y = "y" }\n'
    )
    parts = np.zeros((3, 4), ml_dtypes.float4_e2m1fn)
    packed = np.arange(0x21, 0x2D, dtype=np.uint8).reshape(3, 4)
    chain = ptosim.load_chain(tmp_path / "c.toml", target="a5")
    left = run_chain(chain, {"x": packed, "y": parts}).buffers
    assert left["x"].tolist() == packed.tolist()
    assert left["y"].view("u1").tolist() == [[1, 2, 0, 0], [0] * 4, [0] * 4]
    back = run_chain(chain, {"x": left["y"], "y": np.zeros((3, 4), np.uint8)}).buffers
    assert back["y"].tolist() == [[0x21, 0, 0, 0], [0] * 4, [0] * 4]
