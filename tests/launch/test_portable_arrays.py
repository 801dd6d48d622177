"""Arrays of floats that NumPy does not have, as files bring them: raw bytes or codes."""

from __future__ import annotations

import io

import ml_dtypes
import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import DescriptionError
from ptosim.launch.array_files import parse_spec
from ptosim.launch.compare import compare
from ptosim.launch.description import Tolerance, sidecar_of

TYPES = [("bf16", ml_dtypes.bfloat16), ("f8E4M3FN", ml_dtypes.float8_e4m3fn)]
MOVE = "%y = pto.tmov %x : !pto.tile<16x64x{t}> -> !pto.tile<16x64x{t}>\n"


def _through_a_file(array: np.ndarray) -> np.ndarray:
    buffer = io.BytesIO()
    np.save(buffer, array)
    buffer.seek(0)
    return np.load(buffer)


@pytest.mark.parametrize(("name", "dtype"), TYPES)
def test_what_a_file_makes_of_them(name, dtype) -> None:
    """`np.save` keeps the width, not the type: raw bytes and codes are taken for the type."""
    x = np.arange(16 * 64).reshape(16, 64).astype(np.float32).astype(dtype)
    program = ptosim.load(MOVE.format(t=name), target="a5")
    codes = x.view(f"u{x.dtype.itemsize}")
    for given in (x, _through_a_file(x), codes):
        got = program.run({"x": given}, timing=False).outputs["y"]
        assert got.view(codes.dtype).tobytes() == codes.tobytes()
        assert compare("y", got, _through_a_file(x), Tolerance()).passed


@pytest.mark.parametrize(("name", "dtype"), [*TYPES, ("f4E2M1FN", ml_dtypes.float4_e2m1fn)])
def test_bytes_in_an_archive_are_of_the_type_that_is_said(name, dtype, tmp_path) -> None:
    """`file.npz:key:dtype:RxC`: as in `file.bin:dtype:RxC`; other amounts and types are refused."""
    x = np.arange(2 * 64).reshape(2, 64).astype(np.float32).astype(dtype)
    raw = x.view(np.uint8).reshape(-1)
    data = raw[::2] | raw[1::2] << 4 if name == "f4E2M1FN" else raw
    np.savez(tmp_path / "k.npz", x=data, half=data[:-1], wide=data.astype(np.int32))
    data.tofile(tmp_path / "x.bin")
    found = parse_spec(f"k.npz:x:{name}:2x64", tmp_path)
    assert isinstance(found, np.ndarray)
    assert (found.shape, found.dtype) == (x.shape, x.dtype)
    assert found.tobytes() == x.tobytes() == parse_spec(f"x.bin:{name}:2x64", tmp_path).tobytes()
    for key in ("half", "wide", "other"):
        with pytest.raises(ptosim.UsageError):
            parse_spec(f"k.npz:{key}:{name}:2x64", tmp_path)


def test_other_types_of_the_width_are_refused() -> None:
    """f16 is not bf16, and codes are no numbers of f32."""
    program = ptosim.load(MOVE.format(t="bf16"), target="a5")
    with pytest.raises(ptosim.UsageError):
        program.run({"x": np.zeros((16, 64), np.float16)})
    with pytest.raises(ptosim.UsageError):
        ptosim.load(MOVE.format(t="f32"), target="a5").run({"x": np.zeros((16, 64), np.uint32)})


def test_whole_numbers_are_values_of_f32() -> None:
    """An expectation of signed integers means numbers where NumPy has the output's type."""
    got = np.array([1.0, 2.0, 3.0], np.float32)
    assert compare("y", got, np.array([1, 2, 3], np.int32), Tolerance()).passed
    assert compare("y", got, got.view(np.uint32), Tolerance()).passed


def test_the_distance_is_told_in_units_in_the_last_place() -> None:
    """Neighbouring floats are 1 apart, -0 and +0 none; NaN and infinities have no distance, and
    integers have no such unit."""
    one = np.float32(1)
    expected = np.array([one, 0.0, np.nan, np.inf, -1e-45], np.float32)
    got = np.array([np.nextafter(one, 2 * one), -0.0, 1.0, 1.0, 1e-45], np.float32)
    assert compare("y", got, expected, Tolerance()).max_ulp == 2
    assert compare("y", got[:2], expected[:2], Tolerance()).max_ulp == 1
    assert compare("y", np.arange(3), np.arange(3), Tolerance()).max_ulp is None


def test_a_sidecar_says_what_parts_of_a_program_have(tmp_path):
    """`[part.NAME.args]` over `[args]`, by the part's name with or without `.pto`."""
    (tmp_path / "k.toml").write_text(
        '[args]\nn = "1"\nx = "zeros:f32:4"\n[part.one.args]\nn = "2"\n'
        '[part."two.pto".expect]\ny = "k.npz:y"\n'
    )
    program = tmp_path / "k.pto"
    whole, one, two = (sidecar_of(program, part) for part in ("", "one.pto", "two"))
    assert whole is not None
    assert one is not None
    assert two is not None
    assert (whole.args["n"], one.args["n"], two.args["n"]) == ("1", "2", "1")
    assert one.args["x"] == whole.args["x"]
    assert (whole.expect, one.expect, two.expect) == ({}, {}, {"y": "k.npz:y"})
    (tmp_path / "k.toml").write_text('[part.one]\nlevel = "x"\n[part.two.args]\nn = []\n')
    with pytest.raises(DescriptionError) as wrong:
        sidecar_of(program)
    assert {d.code for d in wrong.value.diagnostics} == {"PTO1081", "PTO1082"}
