"""Files and options as users have them: marks, line ends, links, devices, names that are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ptosim
from ptosim.launch.array_files import parse_spec

PROGRAM = "%y = pto.tneg %x : !pto.tile<16x64xf32> -> !pto.tile<16x64xf32>\n"


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "neg.pto"
    path.write_text(PROGRAM)
    return path


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbf" + PROGRAM.encode(),
        PROGRAM.replace("\n", "\r\n").encode(),
        (PROGRAM + "// " + "long " * 1000).replace("\n", "\r").encode(),
        b"// what see.pto says\r" + PROGRAM.strip().encode() + b" // not see.pto",
    ],
    ids=["mark", "crlf", "cr", "one-line"],
)
def test_marks_and_line_ends(cli, tmp_path, text):
    """A byte order mark and every kind of line end are read; a text is never taken for a path."""
    path = tmp_path / "neg.pto"
    path.write_bytes(text)
    assert [cli(c, path, "-q").code for c in ("check", "run", "cost")] == [0, 0, 0]


@pytest.mark.parametrize(
    ("command", "name"),
    [("check", ""), *((c, name) for c in ("run", "cost", "map") for name in ("", ".", "/"))],
)
def test_2_names_that_are_no_files(cli, command, name):
    """Of a folder `check` takes the programs in it; the others run one program."""
    outcome = cli(command, name)
    assert outcome.code == 2
    assert "Is a directory" in outcome.err


def test_a_link_stays_a_link(cli, program, tmp_path):
    """What a link points to is written, and keeps its permissions."""
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    assert cli("fmt", program, "-o", link).code == 0
    assert link.is_symlink()
    assert "tneg" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_pipe_is_written_to(cli, program, tmp_path):
    """What is no regular file is written to, not replaced by one."""
    import os
    import threading

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    assert cli("fmt", program, "-o", pipe).code == 0
    reader.join()
    assert "tneg" in read[0]
    assert pipe.is_fifo()


@pytest.mark.parametrize("command", ["check", "run", "cost"])
def test_quiet_keeps_the_screen_clear_not_the_file(cli, program, tmp_path, command):
    """`-o` names a file for the report: it is written, or it is an error that it cannot be."""
    report = tmp_path / "report.txt"
    outcome = cli(command, program, "-q", "-o", report)
    assert (outcome.code, outcome.out) == (0, "")
    assert "neg.pto" in report.read_text() or "cycles" in report.read_text()
    assert cli(command, program, "-q", "-o", tmp_path / "none" / "report.txt").code == 2


@pytest.mark.parametrize("command", ["check", "run", "cost", "map", "fmt", "stats"])
@pytest.mark.parametrize(
    "options", [("--profile", "x"), ("--set", "a=b"), ("--set", "tquant.rounding=up")]
)
def test_2_profiles_and_switches_that_are_none(cli, program, command, options):
    """Every command refuses them, whether or not it needs their values."""
    outcome = cli(command, program, *options)
    assert outcome.code == 2
    assert "help: " in outcome.err


def test_the_api_refuses_them_too():
    with pytest.raises(ptosim.UsageError):
        ptosim.check(PROGRAM, profile="x")


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        (("--block-num", "0"), 2, "at least one block"),
        (("--block-num", "65536"), 6, "65,535 blocks"),
        (("--rtol", "-1"), 2, "rtol is -1.0"),
        (("--atol", "nan"), 2, "atol is nan"),
    ],
)
def test_numbers_out_of_range(cli, program, options, code, word):
    outcome = cli("run", program, *options)
    assert outcome.code == code
    assert word in outcome.err


@pytest.mark.parametrize("value", ["nan", "inf", "1e400"])
def test_2_figures_that_are_not_finite(cli, program, value):
    assert cli("cost", program, "--what-if", f"clock={value}").code == 2


def test_archives_and_files_of_objects(cli, program, tmp_path):
    """One array of an archive needs no name, of several one is named; objects are not read."""
    x = np.ones((16, 64), np.float32)
    one, two, objects = tmp_path / "one.npz", tmp_path / "two.npz", tmp_path / "o.npy"
    np.savez(one, x=x)
    np.savez(two, a=x, b=x)
    np.save(objects, np.array([{}], object), allow_pickle=True)
    assert cli("run", program, "-q", "--arg", f"x={one}").code == 0
    several = cli("run", program, "--arg", f"x={two}")
    assert several.code == 2
    assert f"{two}:NAME, with a, b" in several.err
    refused = cli("run", program, "--arg", f"x={objects}")
    assert refused.code == 2
    assert "allow_pickle" not in refused.err


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "mark"])
def test_formatting_keeps_marks_and_line_ends(cli, tmp_path, mark):
    """A file of Windows stays one: only what is between the line ends changes, and once."""
    path = tmp_path / "neg.pto"
    path.write_bytes(
        mark + b"// why\r\n" + PROGRAM.replace(" = ", "  =  ").strip().encode() + b"\r\n"
    )
    assert cli("fmt", "--check", path).code == 1
    assert cli("fmt", "-i", path).code == 0
    kept = path.read_bytes()
    assert kept.startswith(mark)
    assert kept.count(b"\r\n") == kept.count(b"\n") == 2
    assert b"%y = pto.tneg" in kept
    assert cli("fmt", "--check", path).code == 0


def test_arrays_in_folders_of_windows(tmp_path, monkeypatch):
    """The colon of a drive is not that in front of the name of an array."""
    read = []
    monkeypatch.setattr(
        "ptosim.launch.array_files.load_npz", lambda path, key: read.append((path, key))
    )
    monkeypatch.setattr("ptosim.launch.array_files.load_npy", lambda path: read.append((path, "")))
    for spec in (r"C:\data\x.npz:a:b", r"C:\data\x.npz", "C:/data/x.npy", "x.npz/y.npy"):
        parse_spec(spec)
    assert read == [
        (Path(r"C:\data\x.npz"), "a:b"),
        (Path(r"C:\data\x.npz"), ""),
        (Path("C:/data/x.npy"), ""),
        (Path("x.npz/y.npy"), ""),
    ]
    with pytest.raises(ptosim.UsageError, match="cannot read"):
        parse_spec(rf"{tmp_path}\x.bin:f32:2x2")


def test_a_script_of_the_debugger_as_windows_writes_it(cli, tmp_path):
    """With a mark and its line ends."""
    script = tmp_path / "script.dbg"
    script.write_bytes(b"\xef\xbb\xbfprint 6*7\r\ninfo line\r\n")
    outcome = cli("debug", "@basics/vadd", "-nx", "--batch", "-x", script)
    assert outcome.code == 0
    assert "\n42\n" in outcome.out
