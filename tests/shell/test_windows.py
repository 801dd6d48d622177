"""What Windows writes is read everywhere: lines that end in CRLF in every kind of text, names with a
drive, whose colon is not the one after a file, and names with backslashes in files that came along.

On other systems `C:\\data\\x.npy` is a plain name of a file: what is read of it shows how it was cut."""

from __future__ import annotations

import io
import mmap
import multiprocessing
import os
import signal
import socket
import sys
from pathlib import Path, PureWindowsPath

import numpy as np
import pytest

from ptosim.ground.isa.cache import programs_directory
from ptosim.launch.array_files import in_file
from ptosim.shell.main import main
from tests.fuzz import kinds
from tests.fuzz.case import Case
from tests.fuzz.files import KERNEL, RUNNERS
from tests.support.clock import LIMIT

elsewhere = pytest.mark.skipif(sys.platform == "win32", reason="a colon cannot be in a name there")
TEXTS = {
    "sidecar": kinds._SIDECARS, "chain": kinds._CHAINS, "task": kinds._TASKS, "mlir": kinds._MLIR,
    "table": kinds._TABLES, "space": kinds._SPACES, "rows": kinds._ROWS,
    "script": ("\n".join(kinds._SCRIPT[:8]),),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("end", ["\r\n", "\r"], ids=["windows", "old_mac"])
@pytest.mark.parametrize("kind", TEXTS)
def test_lines_that_end_otherwise_say_the_same(kind, end, tmp_path, monkeypatch) -> None:
    told: list[tuple] = []

    def noted(words: list[str]) -> int:
        code = main(words)
        streams = (s for s in (sys.stdout, sys.stderr) if isinstance(s, io.StringIO))
        told.append((code, *(s.getvalue() for s in streams)))
        return code

    monkeypatch.setattr("tests.fuzz.commands.main", noted)
    for text in TEXTS[kind]:
        for run in RUNNERS[kind].values():
            codes = [run(Case(t.encode(), kind), tmp_path) for t in (text, text.replace("\n", end))]
            one, other = told[-2:]
            assert one == other
            assert codes[0] == codes[1] == one[0]


@pytest.mark.parametrize(
    ("spec", "name", "rest"),
    [
        (r"C:\data\x.npz:key", r"C:\data\x.npz", "key"),
        (r"C:\data\x.bin:f32:8x8", r"C:\data\x.bin", "f32:8x8"),
        (r"d:\ref.py:product", r"d:\ref.py", "product"),
        ("x.npy", "x.npy", ""),
        ("randn:f32:8x8", "", ""),
    ],
)
def test_the_colon_of_a_drive_is_part_of_the_name(spec, name, rest) -> None:
    assert in_file(spec) == (name, rest)
    assert name == "" or PureWindowsPath(name).is_absolute() == (name[1:2] == ":")


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ones = np.ones((8, 8), np.float32)
    np.save("C:\\x.npy", ones)
    np.savez("C:\\x.npz", key=ones)
    ones.tofile("C:\\x.bin")
    Path("C:\\k.pto").write_text(KERNEL, encoding="utf-8")
    return tmp_path


@elsewhere
@pytest.mark.parametrize("spec", [r"C:\x.npy", r"C:\x.npz:key", r"C:\x.bin:f32:8x8"])
def test_files_with_a_drive_on_the_command_line(spec, in_folder, capsys) -> None:
    """y is x times 3."""
    words = ["run", "C:\\k.pto", "--arg", f"x={spec}", "--arg", "s=3", "--no-timing"]
    assert main([*words, "--out", "y=C:\\y.npy"]) == 0, capsys.readouterr()
    assert (np.load("C:\\y.npy") == 3).all()
    assert main([*words, "--expect", f"y={spec}"]) == 1
    assert main([*words, "--expect", f"y={spec}", "--atol", "2"]) == 0


@elsewhere
def test_a_place_in_a_file_with_a_drive(in_folder, capsys) -> None:
    words = ["debug", "C:\\k.pto", "-nx", "--batch", "--no-timing", "--arg", "s=1"]
    assert main([*words, "-ex", "break C:\\k.pto:12", "-ex", "continue"]) == 0
    assert "breakpoint 1, line 12" in capsys.readouterr().out


@elsewhere
def test_backslashes_in_a_sidecar_and_a_chain(tmp_path, capsys) -> None:
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "x.npy", np.ones((8, 8), np.float32))
    for folder in (tmp_path, tmp_path / "data"):
        (folder / "k.pto").write_text(KERNEL, encoding="utf-8")
    (tmp_path / "k.toml").write_text(
        "targets = ['a5']\n[args]\nx = 'data\\x.npy'\ny = 'zeros:f32:8x8'\ns = 1.0\n"
        "[expect]\ny = 'data\\x.npy'\n"
    )
    assert main(["run", str(tmp_path / "k.pto"), "--no-timing"]) == 0, capsys.readouterr()
    (tmp_path / "c.toml").write_text(
        "targets = ['a5']\n[kernels]\nk = 'data\\k.pto'\n[buffers]\nx = 'data\\x.npy'\n"
        "y = 'zeros:f32:8x8'\n[[launch]]\nkernel = 'k'\nargs = { x = 'x', y = 'y', s = 1 }\n"
    )
    code = main(["run", "--chain", str(tmp_path / "c.toml"), "--no-timing"])
    assert code == 0, capsys.readouterr()


def test_a_drive_in_a_description_is_told_how_to_be_written(tmp_path, capsys) -> None:
    r"""`"C:\x"` is an escape in TOML: the finding is at the backslash."""
    (tmp_path / "k.pto").write_text(KERNEL, encoding="utf-8")
    (tmp_path / "k.toml").write_text('[args]\nx = "C:\\x.npy"\n', encoding="utf-8")
    assert main(["check", str(tmp_path / "k.pto")]) == 2
    told = capsys.readouterr().err
    assert "k.toml:2:" in told
    assert "'C:\\…'" in told


def test_old_line_ends_in_a_program(tmp_path, capsys) -> None:
    """Places, comments, parts and edits are those of the same text with LF, which edits leave."""
    text = (programs_directory() / "broken/missing_flag.pto").read_text(encoding="utf-8")
    path, told = tmp_path / "k.pto", []
    for end in ("\n", "\r"):
        path.write_bytes(f"{text}//--- other.pto\n{text}".replace("\n", end).encode())
        told.append((main(["check", f"{path}#other"]), main(["check", "--fix", str(path)])))
        told[-1] = (*told[-1], *capsys.readouterr(), path.read_bytes())
    assert told[0] == told[1]
    assert told[0][:2] == (1, 0)
    assert b"PIPE_MTE3" in told[0][4]


def test_old_line_ends_in_an_overlay(tmp_path, capsys) -> None:
    path = tmp_path / "board.toml"
    path.write_bytes(b"\xef\xbb\xbfkind = 3\rschema = = 1\r")
    assert main(["cost", "@basics/vadd", "--costs", str(path)]) == 2
    assert "line 2" in capsys.readouterr().err
    path.write_text(f"schema = {'1' * 5000}")
    assert main(["cost", "@basics/vadd", "--costs", str(path)]) == 2
    assert "PTO7520" in capsys.readouterr().err


ABSENT = (
    (os, "fork"),
    (os, "getuid"),
    (signal, "setitimer"),
    (signal, "SIGALRM"),
    (mmap, "MAP_PRIVATE"),
)
MODULES = ("resource", "fcntl", "readline", "termios")


@pytest.fixture
def as_on_windows(in_folder, monkeypatch) -> pytest.MonkeyPatch:
    """What Windows lacks of Python is not there."""
    for module, name in ABSENT:
        monkeypatch.delattr(module, name, raising=False)
    for name in MODULES:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    monkeypatch.setattr("ptosim.ground.limits._STATM", "/no/such/file")
    return monkeypatch


ENDLESS = """func.func @k(%x: !pto.ptr<i32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 1000000000 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c0) -> (index) {
    %v = pto.load_scalar %x[%c0] : !pto.ptr<i32> -> i32
    %w = arith.index_cast %v : i32 to index
    %b = arith.addi %a, %w : index
    scf.yield %b : index
  }
  return
}"""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("run", "@basics/vadd", "--max-memory", "2G", "--no-timing"), 0),
        (("check", "@basics/vadd", "-j", "2"), 0),
        (("run", "k.pto", "--arg", "x=zeros:i32:1", "--max-seconds", str(LIMIT), "--no-timing"), 6),
        (("serve", "--stdio"), 2),
    ],
    ids=lambda w: w[0] if isinstance(w, tuple) else "",
)
@pytest.mark.usefixtures("ticking")
def test_without_what_windows_lacks(words, code, as_on_windows, capsys) -> None:
    Path("k.pto").write_text(ENDLESS)
    assert main([*words, "--quiet"] if words[0] == "run" else list(words)) == code
    told = capsys.readouterr().err
    assert code != 2 or "forks" in told
    assert code != 6 or "PTO0015" in told


def test_a_server_without_sockets_that_are_files(monkeypatch, capsys) -> None:
    monkeypatch.delattr(socket, "AF_UNIX", raising=False)
    monkeypatch.setattr(os, "fork", lambda: 0, raising=False)
    assert main(["serve"]) == 2
    assert "--stdio" in capsys.readouterr().err
