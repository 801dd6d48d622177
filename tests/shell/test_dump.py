"""`run --dump VALUE@OP`: what a value holds right after an operation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ptosim.shell.main import main

KERNEL = """module attributes {pto.target_arch = "a5"} {
  func.func @twice(%x: !pto.ptr<f32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c8 = arith.constant 8 : index
    %v = pto.make_tensor_view %x, shape = [%c1, %c8], strides = [%c8, %c1] : !pto.tensor_view<1x8xf32>
    %p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c1, %c8] : !pto.tensor_view<1x8xf32> -> !pto.partition_tensor_view<1x8xf32>
    %t = pto.alloc_tile : !pto.tile_buf<vec, 1x8xf32>
    pto.tload ins(%p : !pto.partition_tensor_view<1x8xf32>) outs(%t : !pto.tile_buf<vec, 1x8xf32>)
    scf.for %i = %c0 to %c3 step %c1 {
      pto.tadd ins(%t, %t : !pto.tile_buf<vec, 1x8xf32>, !pto.tile_buf<vec, 1x8xf32>) outs(%t : !pto.tile_buf<vec, 1x8xf32>)
    }
    return
  }
}
"""


@pytest.fixture
def kernel(tmp_path: Path) -> str:
    path = tmp_path / "twice.pto"
    path.write_text(KERNEL)
    return str(path)


def dumps(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main(["run", *arguments, "--arg", "x=arange:f32:8", "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)["dumps"]


def test_by_mnemonic_the_last_execution_counts(kernel: str, capsys) -> None:
    shown = dumps(capsys, kernel, "--dump", "t@tadd", "--dump", "%t@pto.tload")
    assert shown["t@tadd"]["first"] == [0.0, 8.0, 16.0, 24.0, 32.0, 40.0]
    assert shown["t@tadd"]["count"] == 3
    assert shown["t@tload"]["first"] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_by_line_into_files(kernel: str, tmp_path: Path, capsys) -> None:
    array, raw = tmp_path / "t.npy", tmp_path / "t.bin"
    dumps(capsys, kernel, "--dump", f"t@10={array}", "--dump", f"t@12={raw}")
    np.testing.assert_array_equal(np.load(array), np.arange(8, dtype=np.float32)[None])
    np.testing.assert_array_equal(np.frombuffer(raw.read_bytes(), np.float32), np.arange(8) * 8)


def test_a_scalar(kernel: str, capsys) -> None:
    assert dumps(capsys, kernel, "--dump", "i@tadd")["i@tadd"]["first"] == [2.0]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ("t", "takes VALUE@OP"),
        ("t@99", "no operation at `99`"),
        ("t@tsub", "no operation at `tsub`"),
        ("nothing@tadd", "there is no value %nothing"),
        ("p@tload", "not a tile or number"),
        ("t@tadd=x.txt", ".npy or .bin"),
        ("t@tadd=/no/such/folder/x.npy", "folder does not exist"),
    ],
)
def test_wrong_requests_are_usage_errors(kernel: str, request_: str, message: str, capsys) -> None:
    assert main(["run", kernel, "--dump", request_]) == 2
    assert message in capsys.readouterr().err


def test_reports_are_strict_json_even_with_nan(kernel: str, tmp_path: Path, capsys) -> None:
    np.save(tmp_path / "x.npy", np.array([np.nan, np.inf, -np.inf, 1, 2, 3, 4, 5], np.float32))
    assert main(["run", kernel, "--arg", f"x={tmp_path / 'x.npy'}", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert report["outputs"]["x"]["first"][:4] == ["nan", "inf", "-inf", 1.0]
