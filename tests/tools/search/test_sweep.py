"""Every point has a row, in one order, whoever computes it and however often it is stopped."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import pytest

import ptosim
from ptosim.ground.errors import UsageError
from ptosim.ground.isa.cache import programs_directory
from ptosim.tools.search.engines import InProcess, Processes
from ptosim.tools.search.source import Lost
from ptosim.tools.search.store import changes, front_of, goals_of
from ptosim.tools.search.sweep import Sweep
from tests.support.paths import TREE

ROOT = TREE
GEMM = "@search/gemm.pto.j2"
SMALL = {
    "M": 128, "N": 128, "K": 128, "TM": [32, 64], "TN": [64, 128], "TK": [32, 96], "buffers": [1],
    "conditions": ["K % (TK * buffers) == 0"],
}  # fmt: skip
BLOCKS = "(M // TM) * (N // TN)"
VADD = (programs_directory() / "basics" / "vadd.pto").read_text()


def small(**options: object) -> Sweep:
    return ptosim.sweep(GEMM, SMALL, targets=["a2a3", "a5"], block_num=BLOCKS, **options)  # type: ignore[arg-type]


def test_every_point_has_a_row_in_order() -> None:
    rows = small().rows
    points = [
        (tm, tn, tk, target)
        for tm, tn, tk, target in product((32, 64), (64, 128), (32, 96), ("a2a3", "a5"))
    ]
    names = ("TM", "TN", "TK")
    assert [(*(r["params"][n] for n in names), r["target"]) for r in rows] == points
    for row in rows:
        fits = row["params"]["TK"] == 32
        assert row["ok"] is fits
        assert row["stage"] == ("done" if fits else "space")
        assert bool(row["reason"]) is not fits
        p = row["params"]
        tiles = (128 // p["TM"]) * (128 // p["TN"])
        if fits:  # A and B by the tiles that need them, C once
            assert row["gm_bytes"] == tiles * (p["TM"] + p["TN"]) * 128 * 2 + 128 * 128 * 4


def test_a_notebook_shows_the_pictures() -> None:
    shown = small()._repr_html_()
    assert "&lt;Sweep of @search/gemm.pto.j2: 16 rows, 8 of them ok&gt;" in shown
    assert shown.count("<figure") >= 2 * 3
    assert "parallel coordinates" in shown


def test_a_template_that_raises_at_a_point_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "x.pto.j2"
    path.write_text("{{ 1 // n }}" + VADD)
    rows = ptosim.sweep(path, {"n": [0, 2]}, targets="a5").rows
    assert [(r["stage"], (r["reason"] or "")[:7]) for r in rows] == [
        ("template", "PTO7603"),
        ("parse", "PTO0002"),
    ]


@pytest.mark.parametrize(
    ("space", "code"),
    [
        ({"n": []}, "PTO7602"),
        ({"n": [1, 2], "conditions": "n > 2"}, "PTO7602"),
        ({"n": [0, 1], "conditions": "2 // n > 0"}, "PTO7601"),
        ({"m": [1]}, "PTO7603"),
    ],
)
def test_a_space_of_nothing_is_one_line(tmp_path: Path, space: dict, code: str) -> None:
    path = tmp_path / "x.pto.j2"
    path.write_text(VADD + "// {{ n }}\n")
    with pytest.raises(UsageError, match=code) as raised:
        ptosim.sweep(path, space, targets="a5")
    assert "\n" not in str(raised.value)
    assert raised.value.exit_code == 2


@pytest.mark.slow
def test_results_are_kept_and_are_the_same(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    first, second = small(store=store), small(store=store)
    assert json.dumps(first.rows) == json.dumps(second.rows)
    assert (first.kept, second.kept) == (0, sum(r["ok"] for r in first.rows))
    other = ptosim.sweep(GEMM, SMALL, targets=["a2a3"], block_num=1, store=store)
    assert other.kept == 0  # something else was asked


@pytest.mark.parametrize(
    "row", ["", "{}", "[]", "[" * 20_000, "9" * 5_000, b"\xff", 5, '{"ok": true, "us": null}']
)
def test_a_damaged_row_is_computed_again(tmp_path: Path, row: object) -> None:
    store, space = tmp_path / "s.sqlite", {"c0": [0]}
    program = programs_directory() / "basics" / "vadd.pto"

    def swept() -> Sweep:
        return ptosim.sweep(program, space, targets="a5", store=store)

    first = swept()
    with sqlite3.connect(store) as file:
        file.execute("UPDATE rows SET row = ?", (row,))
    file.close()
    again = [swept(), swept()]
    assert [s.rows for s in again] == [first.rows] * 2
    assert [s.kept for s in again] == [0, 1]


@pytest.mark.parametrize("text", ["{}sys.exit(9)\n", "def make(**given):\n    {}sys.exit(9)\n"])
def test_a_function_that_ends_the_process_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "make.py"
    path.write_text(text.format("import sys; "))
    with pytest.raises(UsageError, match=r"PTO7603.*ends the process"):
        ptosim.sweep(f"{path}:make", {"n": [1]}, targets="a5")


def test_a_file_that_is_no_store_is_refused_and_left(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    path.write_text("these are notes of somebody\n" * 99)
    with pytest.raises(UsageError, match="PTO7607"):
        small(store=path)
    assert path.read_text().startswith("these are notes")
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as file:
        file.execute("CREATE TABLE bills (a)")
    file.close()
    with pytest.raises(UsageError, match="PTO7607"):
        small(store=other)


def test_a_point_beats_another_in_everything() -> None:
    rows = [
        {"cycles": c, "gm_bytes": g, "memory": {"UB": u, "L1": 7}}
        for c, u, g in [(9, 1, 5), (4, 4, 4), (5, 4, 4), (4, 4, 4), (8, 2, 5), (9, 1, 6)]
    ]
    found = [(r["cycles"], r["memory"]["UB"], r["gm_bytes"]) for r in front_of(rows)]
    assert found == [(4, 4, 4), (4, 4, 4), (8, 2, 5), (9, 1, 5)]


def test_a_memory_that_is_the_same_in_all_points_decides_nothing() -> None:
    """Products use no UB: L1 counts in its place, and neither where both are the same."""
    rows = [
        {"cycles": c, "gm_bytes": 1, "memory": {"L1": size}}
        for c, size in [(5, 100), (6, 50), (7, 100)]
    ]
    assert goals_of(rows) == ["cycles", "L1", "gm_bytes"]
    assert [row["cycles"] for row in front_of(rows)] == [5, 6]
    same = [{**row, "memory": {"UB": 8, "L1": 100}} for row in rows]
    assert goals_of(same) == ["cycles", "gm_bytes"]
    assert [row["cycles"] for row in front_of(same)] == [5]


def test_what_got_worse_is_told() -> None:
    def row(n: int, cycles: int | None, reason: str | None = None) -> dict:
        return {
            "params": {"n": n}, "target": "a5", "ok": reason is None, "cycles": cycles,
            "stage": "done" if reason is None else "rules", "reason": reason,
        }  # fmt: skip

    before = [row(1, 100), row(2, 100), row(3, 100), row(4, None, "no"), row(5, 100), row(6, 100)]
    after = [row(1, 100), row(2, 104), row(3, None, "bad"), row(4, 90), row(5, 90), row(7, 1)]
    found = {(c.after or c.before)["params"]["n"]: c.is_worse for c in changes(before, after)}  # type: ignore[index]
    assert found == {2: True, 3: True, 4: False, 5: False, 6: True, 7: False}
    worse = {
        (c.after or c.before)["params"]["n"] for c in changes(before, after, 0.05) if c.is_worse
    }  # type: ignore[index]
    assert worse == {3, 6}


# -- engines ---------------------------------------------------------------------------------------


def _square(n: int) -> int:
    if n == 5:
        os._exit(9)
    return n * n


@pytest.mark.slow
def test_a_process_that_ends_takes_no_other_job_with_it() -> None:
    engine = Processes(2)
    try:
        found = dict(engine.map(_square, range(12)))
    finally:
        engine.close()
    assert found == {n: Lost() if n == 5 else n * n for n in range(12)}
    assert dict(InProcess().map(_square, range(3))) == {0: 0, 1: 1, 2: 4}


KILLED = """
import os, runpy, signal, sys
from ptosim.tools.search import store

put, rows = store.Store.put, []

def then_killed(self, key, row):
    put(self, key, row)
    rows.append(key)
    if len(rows) == 7:
        os.kill(os.getpid(), signal.SIGKILL)

store.Store.put = then_killed
store._EVERY = -1  # a row is in the file at once
sys.argv[:] = ["ptosim", *sys.argv[1:]]
runpy.run_module("ptosim", run_name="__main__")
"""
"""Is killed by its seventh row, however quick the machine is."""


def _command(store: Path, out: Path, *more: str) -> list[str]:
    # fmt: off
    return [
        sys.executable, "-m", "ptosim", "sweep", GEMM, "--space", "@search/gemm.toml",
        "--param", "M=128", "--param", "N=128", "--param", "K=128", "--param", "TM=32,64,128",
        "--param", "TN=64,128", "--param", "TK=32,64", "--store", str(store),
        "--format", "jsonl", "-o", str(out), *more,
    ]
    # fmt: on


def _kept(store: Path) -> int:
    try:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as file:
            return file.execute("SELECT count(*) FROM rows").fetchone()[0]
    except sqlite3.Error:
        return 0


@pytest.mark.slow
def test_killed_and_resumed_the_rows_are_those_of_one_process(tmp_path: Path) -> None:
    store, one, two = tmp_path / "s.sqlite", tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    words = _command(store, one, "-j", "1")[3:]
    killed = subprocess.run([sys.executable, "-c", KILLED, *words], check=False, cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL
    assert not one.exists()
    first = _kept(store)
    assert first == 7
    process = subprocess.Popen(_command(store, one, "-j", "2"), cwd=ROOT, stderr=subprocess.PIPE)
    while _kept(store) < first + 1 and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    told = process.communicate()[1]
    assert process.returncode in (130, 0, -signal.SIGINT)  # the others: it was at its end already
    assert process.returncode != 130 or b"interrupted" in told
    for command in (_command(store, one, "-j", "2"), _command(tmp_path / "t", two, "-j", "1")):
        assert subprocess.run(command, check=False, cwd=ROOT).returncode == 0
    assert one.read_bytes() == two.read_bytes()
    assert len(one.read_text().splitlines()) == 3 * 2 * 2 * 2 * 2


@pytest.mark.deep
def test_a_cluster_of_which_a_worker_is_killed_gives_the_same(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    command = [
        sys.executable,
        "-m",
        "tests.tools.search.killed_worker",
        str(tmp_path / "rows.json"),
    ]
    outcome = subprocess.run(command, check=False, capture_output=True, cwd=ROOT)
    assert outcome.returncode == 0, outcome.stderr.decode()
    assert b"killed" in outcome.stdout
    assert json.loads((tmp_path / "rows.json").read_text()) == small().rows


@pytest.mark.deep
def test_a_cluster_whose_scheduler_is_lost_is_one_line(tmp_path: Path) -> None:
    """What was computed stays in the store: the next sweep goes on from there."""
    pytest.importorskip("distributed")
    rows = tmp_path / "rows.json"
    command = [sys.executable, "-m", "tests.tools.search.killed_worker", str(rows), "scheduler"]
    outcome = subprocess.run(command, check=False, capture_output=True, cwd=ROOT, text=True)
    assert outcome.returncode == 1
    assert outcome.stderr.splitlines()[-1].startswith(
        "PTO7606: the scheduler of the cluster is lost"
    )
    assert not rows.exists()
    assert small(store=f"{rows}.store").kept >= 2


@pytest.mark.parametrize("address", ["nonsense", "tcp://127.0.0.1:1"])
def test_a_cluster_that_is_not_there_is_one_line(address: str, monkeypatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("ptosim.tools.search.engines.PATIENCE", 0.2)
    with pytest.raises(UsageError, match="PTO7606") as raised:
        small(cluster=address)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("missing", "options"),
    [("jinja2", {}), ("joblib", {"jobs": 2}), ("distributed", {"cluster": "local:2"})],
)
def test_a_missing_extra_is_one_line(missing: str, options: dict, monkeypatch) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError, match=f"PTO7605.*{missing}") as raised:
        small(**options)
    assert "pip install 'ptosim[" in str(raised.value.help)


@pytest.mark.slow
def test_no_worker_outlives_a_sweep_that_is_killed(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    command = _command(store, tmp_path / "rows.jsonl", "-j", "2", "--param", "TK=16,32,64,128")
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    while _kept(store) < 3 and process.poll() is None:
        time.sleep(0.02)
    assert len(_session(process.pid)) >= 3
    process.send_signal(signal.SIGKILL)
    process.wait()
    end = time.monotonic() + 60
    while _session(process.pid) and time.monotonic() < end:
        time.sleep(0.2)
    assert not _session(process.pid)


def _session(leader: int) -> list[str]:
    """The processes of a session that are not done."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if session == str(leader) and state != "Z":
            found.append(path.parent.name)
    return found
