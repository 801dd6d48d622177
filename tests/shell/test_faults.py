"""Disks that are full, folders that are closed, processes that are killed: every file is written whole
or not at all, and the fault is one line with exit code 2."""

from __future__ import annotations

import errno
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ptosim.ground import files
from ptosim.ground.files import write_file
from tests.support.paths import PROGRAMS

BEFORE = "what was there before\n"

# Each command that writes a file, and the file: {0} is a program, {1} the file.
WRITES = {
    "report of run": ("run {0} -o {1}", "report.txt"),
    "output": ("run {0} --out z={1}", "z.npy"),
    "raw output": ("run {0} --out z={1}", "z.bin"),
    "dump": ("run {0} --dump %c@tadd={1}", "c.npy"),
    "trace of a run": ("run {0} --trace {1}", "trace.json"),
    "trace of a cost": ("cost {0} --trace {1}", "trace.json"),
    "report of cost": ("cost {0} --format csv -o {1}", "cost.csv"),
    "report of check": ("check {0} --format sarif -o {1}", "check.sarif"),
    "map": ("map {0} -o {1}", "map.html"),
    "difference": ("diff {0} {0} -o {1}", "diff.txt"),
    "ported": ("port {0} --from a2a3 --to a5 -o {1}", "port.txt"),
    "expanded": ("expand {0} -o {1}", "expanded.pto"),
    "formatted": ("fmt {0} -o {1}", "formatted.pto"),
    "statistics": ("stats {0} --format json -o {1}", "stats.json"),
    "operations": ("ops --format json -o {1}", "ops.json"),
    "targets": ("targets -o {1}", "targets.txt"),
    "code": ("explain PTO0015 -o {1}", "code.txt"),
    "schemes": ("quant schemes -o {1}", "schemes.txt"),
    "array of the debugger": ("debug {0} --batch -nx -ex next -ex", "x.npy"),
}
FAULTS = {
    "full disk": errno.ENOSPC,
    "no permission": errno.EACCES,
    "quota": errno.EDQUOT,
    "fault of the device": errno.EIO,
}


class Failing(io.BytesIO):
    """A file that takes a few bytes."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def write(self, data: object) -> int:
        raise OSError(self.number, os.strerror(self.number))


def words_of(name: str, program: Path, target: Path) -> list[str]:
    command, _ = WRITES[name]
    words = command.format(program, target).split()
    return [*words, f"dump %x {target}"] if words[0] == "debug" else words


@pytest.mark.sampled(6, 30)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", WRITES)
def test_2_a_file_that_cannot_be_written(cli, tmp_path, monkeypatch, name, fault):
    """One line with the reason; the file is what it was, and nothing is left beside it."""
    program = tmp_path / "vadd.pto"
    shutil.copy(PROGRAMS / "basics" / "vadd.pto", program)
    target = tmp_path / "out" / WRITES[name][1]
    target.parent.mkdir()
    target.write_text(BEFORE)

    def fdopen(handle: int, mode: str) -> Failing:
        os.close(handle)
        return Failing(FAULTS[fault])

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fdopen", fdopen)
        outcome = cli(*words_of(name, program, target))
    said = outcome.out if name == "array of the debugger" else outcome.err
    assert outcome.code == 2, said
    assert f"cannot write {target}: {os.strerror(FAULTS[fault])}" in said
    assert target.read_text() == BEFORE
    assert [p.name for p in target.parent.iterdir()] == [target.name]


@pytest.mark.parametrize("name", ["fmt -i", "check --fix", "stats --into"])
def test_2_a_program_that_cannot_be_rewritten(cli, tmp_path, monkeypatch, name):
    """A command that edits its input leaves it whole."""
    text = (PROGRAMS / "basics" / "vadd.pto").read_text().replace("    %a = pto.", "  %a  = pto.")
    program = tmp_path / "vadd.pto"
    program.write_text(text.replace("pto.tadd ins", "pto.tadd  ins"))
    before = program.read_bytes()

    def replace(self: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        if name == "fmt -i":
            outcome = cli("fmt", "-i", program)
            assert outcome.code == 2
            assert "cannot write" in outcome.err
        elif name == "check --fix":
            cli("check", "--fix", program)
        else:
            cli("stats", program, "--into", program)
    assert program.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["vadd.pto"]


def test_files_that_are_none(tmp_path):
    """Links in a circle, a folder, a name with a NUL, one that is too long: one kind of error."""
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for path in (tmp_path / "a", tmp_path, tmp_path / "x\0y", tmp_path / ("n" * 300),
                 tmp_path / "none" / "x", Path(__file__) / "x"):  # fmt: skip
        with pytest.raises(files.UsageError, match="cannot write"):
            write_file(path, "text")
    long = tmp_path / ("é" * 120)
    write_file(long, "text \udcff")
    assert long.read_bytes() == rb"text \udcff"


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_2_a_file_that_is_read_only_stays(tmp_path, monkeypatch):
    """A rename would get around its permissions; they hold."""
    path = tmp_path / "x"
    path.write_text(BEFORE)
    monkeypatch.setattr(files.os, "access", lambda path, mode: False)  # tests may run as root
    with pytest.raises(files.UsageError, match="Permission denied"):
        write_file(path, "text")
    assert path.read_text() == BEFORE


KILLED = """
import os, runpy, sys
from ptosim.ground import files

def killed(handle, mode, real=os.fdopen):
    file = real(handle, mode)
    file.write(b"half of it")
    file.flush()
    os.kill(os.getpid(), 9)

files.os.fdopen = killed
sys.argv[:] = ["ptosim", *{words!r}]
runpy.run_module("ptosim", run_name="__main__")
"""


def python(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_process_that_is_killed_while_it_writes(cli, tmp_path):
    """The file is what it was; the next command writes it."""
    target = tmp_path / "report.json"
    target.write_text(BEFORE)
    words = ["check", "@basics/vadd", "--format", "json", "-o", str(target)]
    assert python(KILLED.format(words=words)).returncode == -9
    assert target.read_text() == BEFORE
    assert cli(*words).code == 0
    assert target.read_text() != BEFORE


@pytest.mark.slow  # grammars and tables are made three times
def test_two_processes_make_one_cache(tmp_path):
    """All begin with an empty one at once, all give the same, and what they leave is read."""
    command = [sys.executable, "-m", "ptosim", "check", "@basics/vadd", "--format", "json"]
    environment = {**os.environ, "PTOSIM_CACHE_DIR": str(tmp_path / "cache")}
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    done = [(*p.communicate(timeout=120), p.returncode) for p in started]
    assert len(set(done)) == 1
    assert done[0][1:] == (b"", 0)
    kept = list((tmp_path / "cache").iterdir())
    assert kept
    assert all(path.suffix == ".bin" for path in kept)
    again = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=120)
    assert (again.stdout, again.stderr, again.returncode) == done[0]


@pytest.mark.slow  # without a cache
@pytest.mark.parametrize(
    "environment",
    [
        {"HOME": os.devnull, "XDG_CACHE_HOME": "", "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": ""},
        {"PTOSIM_CACHE_DIR": f"{os.devnull}/x", "PTOSIM_DEBUG_HISTORY": f"{os.devnull}/x"},
    ],
    ids=["home", "cache"],
)
def test_a_home_that_cannot_be_written(environment):
    """Commands work without cache and history, and do not speak of it."""
    given = {"PTOSIM_CACHE_DIR": "", **environment} if "HOME" not in environment else environment
    base = {k: v for k, v in os.environ.items() if not k.startswith("PTOSIM_")}
    command = [sys.executable, "-m", "ptosim", "debug", "@basics/vadd", "--batch", "-ex", "next"]
    done = subprocess.run(
        command, env={**base, **given}, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
