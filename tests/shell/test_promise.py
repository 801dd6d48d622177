"""What the README promises of programs that nobody trusts, watched by Python's own audit events."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.support.paths import PROGRAMS

WATCHED = """
import os, runpy, sys

seen, ours = [], {log!r}
STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty",
          "pickle.find_class", "socket.__new__", "socket.connect", "socket.bind",
          "urllib.Request", "webbrowser.open")
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate")

def hook(event, args):
    if event in STARTS:
        seen.append([event, repr(args)])
    elif event in CHANGES:
        for path in args[: 1 + (event == "os.rename")]:
            seen.append(["write", os.path.abspath(os.fsdecode(path))])
    elif event == "open" and isinstance(args[0], (str, bytes)) and isinstance(args[2], int):
        if args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            seen.append(["write", os.path.abspath(os.fsdecode(args[0]))])

sys.addaudithook(hook)
sys.argv[:] = ["ptosim", *{words!r}]
try:
    runpy.run_module("ptosim", run_name="__main__")
finally:
    found = list(seen)
    with open(ours, "w") as file:
        __import__("json").dump(found, file)
"""

COMMANDS = [
    "run {0} --out z={1}/z.npy -o {1}/report.html --trace {1}/trace.json",
    "check {0} --dry-run --redundant",
    "cost {0} -o {1}/cost.json --format json",
    "map {0} -o {1}/map.html",
    "stats {0}",
    "port {0} --from a2a3 --to a5",
    "fmt {0} -o {1}/formatted.pto",
    "debug {0} -nx --batch -ex continue -ex {2}",
]


@pytest.mark.skipif(os.name != "posix", reason="names of files of POSIX")
@pytest.mark.slow  # processes of their own, without a cache
@pytest.mark.sampled(0, 4)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c.split()[0])
def test_only_named_files_are_written_and_nothing_is_started(tmp_path, command):
    """A program with a sidecar and arrays beside it, in each command."""
    given, out, cache = tmp_path / "given", tmp_path / "out", tmp_path / "cache"
    for folder in (given, out, cache):
        folder.mkdir()
    for path in (PROGRAMS / "basics").glob("vadd.*"):
        shutil.copy(path, given)
    before = {path: path.read_bytes() for path in given.iterdir()}
    script = "print %a[0, 0]"
    words = [w.format(given / "vadd.pto", out, script) for w in command.split()]
    log = tmp_path / "log.json"
    done = subprocess.run(
        [sys.executable, "-B", "-c", WATCHED.format(log=str(log), words=words)],
        env={**os.environ, "PTOSIM_CACHE_DIR": str(cache), "HOME": str(tmp_path / "home")},
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    events = json.loads(log.read_text())
    allowed = (str(out), str(cache), os.devnull)
    wrong = [e for e in events if e[0] != "write" or not e[1].startswith(allowed)]
    assert wrong == []
    assert {path: path.read_bytes() for path in given.iterdir()} == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cache", "given", "log.json", "out"]
