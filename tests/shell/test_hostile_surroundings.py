"""Streams, files and options as they may be: exit code 2 and one line, never an internal error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import ptosim
from ptosim.ground.errors import UsageError
from ptosim.ground.isa import cache
from ptosim.ground.isa.cache import programs_directory


def _ptosim(*words: str, shell: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    line = " ".join([f"'{sys.executable}'", "-m", "ptosim", *words, shell])
    return subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, env=os.environ | environment, check=False
    )  # fmt: skip


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_is_told_in_one_line() -> None:
    told = _ptosim("targets", shell=">/dev/full")
    assert told.returncode == 2
    assert told.stderr.count("\n") == 1
    assert "cannot write to standard output: No space left on device" in told.stderr


@pytest.mark.slow
def test_a_closed_stream() -> None:
    told = _ptosim("targets", shell=">&-")
    assert (told.returncode, told.stderr.count("\n")) == (2, 1)
    assert "cannot write to standard output" in told.stderr
    assert _ptosim("targets", "--nonsense", shell="2>&-").returncode == 2  # nobody to tell


@pytest.mark.sampled(1)
@pytest.mark.parametrize("words", [("check", "-"), ("debug", "@basics/vadd")])
def test_input_that_is_closed(words: tuple[str, ...]) -> None:
    told = _ptosim(*words, shell="<&-")
    assert told.returncode == 2
    assert told.stderr == "error: `standard input`: Bad file descriptor\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("words", [("--version",), ("serve", "--stdio"), ("dap",)])
def test_input_that_is_closed_has_nothing_to_ask(words: tuple[str, ...]) -> None:
    told = _ptosim(*words, shell="<&-")
    assert (told.returncode, told.stderr) == (0, "")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_what_a_stream_cannot_show_is_replaced(encoding: str) -> None:
    line = [sys.executable, "-m", "ptosim", "targets"]
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    told = subprocess.run(line, capture_output=True, env=environment, check=False)
    assert told.returncode == 0, told.stderr
    assert "a2a3" in told.stdout.decode(encoding)
    assert b"\xe2" not in told.stdout  # no byte of UTF-8


@pytest.mark.parametrize("columns", ["abc", "-5", "0", "999999999999"])
def test_a_width_that_is_none_is_passed_over(cli, columns: str, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert cli("targets").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "@basics/vadd", "--seed", "-5"], "takes a number from 0 on"),
        (["run", "@basics/vadd", "--arg", "x=randn:f32:32x64:-1"], "a seed is a number from 0 on"),
    ],
)
def test_seeds_are_numbers_from_0_on(cli, words: list[str], said: str) -> None:
    outcome = cli(*words)
    assert (outcome.code, said in outcome.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("args = 3", "vadd.toml:1:8 | `args` is the number `3`; it should be a table"),
        ("[[args]]", "vadd.toml:1:1 | `args` is a list; it should be a table"),
        ("entry = 4", "vadd.toml:1:9 | `entry` is the number `4`; it should be a text"),
        ("# told\n[expect]\ny = 7", "vadd.toml:3:5 | `y` is the number `7`"),
        ("[tolerance]\ny = { rto = 1 }", "vadd.toml:2:7 | did you mean `rtol`?"),
        ("[tolerance]\ny = { rtol = 'a' }", "vadd.toml:2:14 | a number from 0 on"),
        ("levl = 2", "did you mean `level`?"),
        ("level = 9", "it should be 1, 2 or 3"),
        ("sync = 'x'", "it should be `auto` or `manual`"),
        ("[args", "vadd.toml"),
    ],
)
def test_a_sidecar_that_is_wrong_says_where(cli, tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "vadd.pto"
    shutil.copy(programs_directory() / "basics" / "vadd.pto", path)
    path.with_suffix(".toml").write_text(text, encoding="utf-8")
    outcome = cli("run", str(path))
    assert outcome.code == 2, outcome.err
    for part in said.split(" | "):
        assert part in outcome.err, outcome.err


def test_a_number_of_thousands_of_digits_is_one_error(cli, tmp_path: Path) -> None:
    """The same from every command, and none inside strings, where elements are written so."""
    digits = "9" * 5000
    text = f"func.func @f() {{\n  %c = arith.constant {digits} : index\n  return\n}}\n"
    (found,) = ptosim.check(text)
    assert (found.code, found.span.line if found.span else 0) == ("PTO0007", 2)
    path = tmp_path / "k.pto"
    path.write_text(text, encoding="utf-8")
    assert [cli(command, str(path)).code for command in ("fmt", "cost", "map")] == [3, 3, 3]
    quoted = text.replace(digits, "1").replace("return", f'return // "{digits}"')
    assert [d for d in ptosim.check(quoted) if d.is_error] == []


def test_a_dictionary_in_front_of_a_list_is_read() -> None:
    """`parts[0]` of a list may be the attributes of an operation; a check never raises."""
    text = 'func.func @f() {\n  pto.wait_flag[ {a = 1}"PIPE_V", "PIPE_MTE3", "EVENT_ID0"]\n  return\n}\n'
    assert isinstance(ptosim.check(text), list)


def test_the_cache_forgets_what_nobody_uses_and_keeps_to_its_size(tmp_path: Path, monkeypatch):
    """Unused for a month, or the longest unused beyond the limit; files of others are left alone."""
    monkeypatch.setenv("PTOSIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "LARGEST", 6000)
    ages = {"old-" + "0" * 24 + ".bin": 40, "b-" + "1" * 24 + ".bin": 3, "c-" + "2" * 24 + ".bin": 2,
            "ptosim-unfinished-x1": 31, "letter.txt": 400}  # fmt: skip
    for name, days in ages.items():
        (tmp_path / name).write_bytes(bytes(4500))
        used = time.time() - days * 24 * 3600
        os.utime(tmp_path / name, (used, used))
    cache.cached("new", b"in", lambda: {"a": 1})
    left = sorted(p.name.partition("-")[0] for p in tmp_path.iterdir())
    assert left == ["c", "letter.txt", "new"]


@pytest.mark.slow
def test_no_cache_neither_reads_nor_writes(tmp_path: Path):
    """The folder stays as it is, and the answer is the same."""
    environment = os.environ | {"PTOSIM_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "ptosim", "check", "-q", "--no-cache", "@basics/vadd"]
    assert subprocess.run(command, env=environment, timeout=60).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_cached_file_that_was_changed_is_made_anew(tmp_path: Path, monkeypatch) -> None:
    """One flipped bit, a cut, an empty file: the data are derived again, and the file is whole."""
    monkeypatch.setenv("PTOSIM_CACHE_DIR", str(tmp_path))
    made: list[int] = []

    def derive() -> dict[str, int]:
        made.append(1)
        return {"a": 1}

    assert cache.cached("x", b"in", derive) == cache.cached("x", b"in", derive) == {"a": 1}
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for broken in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:20], b"", bytes([0]) + whole[1:]):
        file.write_bytes(broken)
        before = len(made)
        assert cache.cached("x", b"in", derive) == {"a": 1}
        assert (len(made), file.read_bytes()) == (before + 1, whole)


@pytest.mark.parametrize(("name", "value"), [("level", 7), ("sync", "x")])
def test_choices_that_do_not_exist_are_usage_errors(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"not `{value}`"):
        ptosim.check("func.func @f() { return }", **{name: value})
