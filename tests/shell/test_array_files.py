"""Files of arrays that machines wrote, or broke: one line and exit code 2, whatever is in them."""

from __future__ import annotations

import contextlib
import io
import random
import struct
import tracemalloc
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from ptosim.ground.errors import LimitError, UsageError
from ptosim.ground.limits import Limits, within
from ptosim.launch.array_files import load_npy, load_npz

GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"


def npy(header: str, content: bytes = bytes(24), version: int = 1) -> bytes:
    """A `.npy` file with any text as its header."""
    text = header.encode()
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + content


def packed(path: Path, member: bytes, name: str = "x.npy") -> Path:
    """An `.npz` file of one compressed member."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, member)
    return path


BROKEN = {
    "empty": b"",
    "other": b"PK and so on",
    "cut": npy(GOOD)[:9],
    "version 9": b"\x93NUMPY\x09" + npy(GOOD)[7:],
    "no dictionary": npy("[1, 2"),
    "a call": npy("__import__('os').abort()"),
    "nested": npy("(" * 5000),
    "a token that does not end": npy("{'descr': '<f4', 'shape': '''"),
    "long header": npy("#" * 60000),
    "no shape": npy("{'descr': '<f4', 'fortran_order': False}"),
    "shape with truth": npy(GOOD.replace("(2, 3)", "(True, 1024)"), bytes(4096)),
    "shape with a fraction": npy(GOOD.replace("(2, 3)", "(2.0, 3)")),
    "negative shape": npy(GOOD.replace("(2, 3)", "(-2, -3)")),
    "huge shape": npy(GOOD.replace("(2, 3)", f"({10**30}, 3)")),
    "shape of a thousand": npy(GOOD.replace("(2, 3)", str((1,) * 1000))),
    "no type": npy(GOOD.replace("<f4", "<q9")),
    "objects": npy(GOOD.replace("<f4", "|O")),
    "records": npy(GOOD.replace("'<f4'", "[('a', '<f4')]")),
    "text": npy(GOOD.replace("<f4", "<U4")),
    "short content": npy(GOOD, bytes(23)),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_2_a_broken_array(tmp_path, broken):
    """Alone and in an archive it is refused, with the name of the file."""
    path = tmp_path / "broken.npy"
    path.write_bytes(BROKEN[broken])
    with pytest.raises(UsageError, match=r"broken\.npy is not a NumPy file of numbers"):
        load_npy(path)
    with pytest.raises(UsageError, match=r"x is not a NumPy file of numbers|npz:x"):
        load_npz(packed(tmp_path / "broken.npz", BROKEN[broken]), "x")


def test_2_broken_arrays_on_the_command_line(cli, tmp_path):
    """The example of a shape that is a truth value, and pickled objects in an archive."""
    path, archive = tmp_path / "true.npy", tmp_path / "objects.npz"
    path.write_bytes(BROKEN["shape with truth"])
    np.savez(archive, x=np.array([{}, []], dtype=object))
    for spec in (path, f"{archive}:x", archive):
        outcome = cli("run", "@basics/vadd", "--arg", f"x={spec}")
        assert outcome.code == 2
        assert "is not a NumPy file of numbers" in outcome.err


def test_any_byte_of_an_archive_may_be_wrong(tmp_path):
    """An archive with a byte changed gives an array, or is refused as a user's file."""
    good, rng = io.BytesIO(), random.Random(19)
    np.savez_compressed(good, x=np.arange(64.0), y=np.ones((3, 5), np.int8))
    path = tmp_path / "changed.npz"
    for _ in range(400):
        data = bytearray(good.getvalue())
        data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data[: rng.choice([len(data), len(data), rng.randrange(len(data))])])
        for key in ("x", ""):
            with contextlib.suppress(UsageError):
                load_npz(path, key)


@pytest.mark.slow  # packing takes a second
def test_what_unpacks_to_very_much_is_not_unpacked(tmp_path):
    """600 MB of zeros, 600 KB compressed, are refused by the header: next to no memory is taken."""
    header = GOOD.replace("(2, 3)", "(150000000,)").replace("}", "}".rjust(54))
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w") as member,
    ):
        member.write(npy(header, b""))
        zeros = bytes(1 << 24)
        left = 600_000_000
        while left > 0:
            member.write(zeros[:left])
            left -= len(zeros)
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match=r"would unpack to 572.2 MiB.*may have 512 MiB"):
            load_npz(path, "x")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_6_an_array_beyond_the_limit_of_memory(tmp_path):
    """It is refused before there is memory for it; what fits together may be had."""
    path = tmp_path / "x.npy"
    np.save(path, np.zeros(1 << 16, np.float32))
    with within(Limits(memory=300_000)):
        load_npy(path)
        with pytest.raises(LimitError, match=r"x\.npy would need 256"):
            load_npy(path)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize(
    "array",
    [np.arange(6, dtype=">i4").reshape(2, 3), np.asfortranarray(np.eye(3)), np.float16(2.5),
     np.zeros((0, 5)), np.arange(4).astype(ml_dtypes.bfloat16), np.ones(3, bool)],
    ids=["other order of bytes", "by columns", "one number", "nothing", "bfloat16", "truth"],
)  # fmt: skip
def test_what_numpy_writes_is_read(tmp_path, array, version):
    """Each version of the format, as `numpy.load` reads it, in the order of the machine."""
    path = tmp_path / "x.npy"
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.asanyarray(array), version, allow_pickle=False)
    with path.open("rb") as file:
        wanted = np.lib.format.read_array(file, allow_pickle=False)
    read = load_npy(path)
    assert read.dtype == wanted.dtype.newbyteorder("=")
    assert read.shape == wanted.shape
    assert read.tobytes() == wanted.astype(read.dtype).tobytes()
