"""The command line of a sweep: forms, comparisons, exit codes."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from pathlib import Path

import pytest

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.cache import programs_directory
from ptosim.shell.main import main
from ptosim.tools.search.engines import Cluster

POINTS = (
    *("sweep", "@search/gemm.pto.j2", "--space", "@search/gemm.toml", "--no-store"),
    *("--param", "M=64", "--param", "N=64", "--param", "K=64", "--param", "TM=32,64"),
    *("--param", "TN=32,64", "--param", "TK=32", "--param", "buffers=1"),
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "rows.jsonl"
    assert main([*POINTS, "--format", "jsonl", "-o", str(path)]) == 0
    return path


@pytest.mark.slow
def test_rows_of_an_earlier_sweep_are_shown_again(cli, rows: Path) -> None:
    first, again = cli(*POINTS), cli("sweep", rows)
    assert first.code == again.code == 0
    assert first.out.partition("8 rows")[2] == again.out.partition("8 rows")[2]
    assert "8 rows: 8 accepted, 0 refused" in first.out
    assert cli("sweep", rows, "--format", "jsonl").out == rows.read_text()
    assert all(len(line) <= 100 for line in first.out.splitlines())


def test_the_table_has_a_column_for_each_parameter(cli, rows: Path) -> None:
    found = list(csv.DictReader(io.StringIO(cli("sweep", rows, "--format", "csv").out)))
    wanted = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [(r["TM"], r["TN"], r["target"], r["cycles"]) for r in found] == [
        (str(w["params"]["TM"]), str(w["params"]["TN"]), w["target"], str(w["cycles"]))
        for w in wanted
    ]


def test_a_baseline_that_was_better_is_exit_1(cli, rows: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    lines[0]["cycles"] -= 100
    before = tmp_path / "before.jsonl"
    before.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert cli("sweep", rows, "--baseline", rows).code == 0
    worse = cli("sweep", rows, "--baseline", before)
    assert worse.code == 1
    assert "1 rows differ, 1 are worse" in worse.out
    assert cli("sweep", rows, "--baseline", before, "--slack", "900").code == 0
    assert cli("sweep", before, "--baseline", rows).code == 0  # better


def test_a_program_with_constants_is_swept(cli) -> None:
    found = cli("sweep", "@cube/gemm_f16", "--const", "c256=256,512", "--target", "a5", "--no-store",
                "--format", "jsonl")  # fmt: skip
    first, second = map(json.loads, found.out.splitlines())
    assert second["cycles"] > first["cycles"]


@pytest.mark.slow
def test_values_are_checked_where_they_are_expected(cli, tmp_path: Path) -> None:
    path = tmp_path / "reference.py"
    path.write_text(
        "import numpy as np\n"
        "def product(a, b, out):\n    return a.astype(np.float64) @ b.astype(np.float64)\n"
        "def other(a, b, out):\n    return a[:3]\n"
    )
    right = cli(*POINTS, "--expect", f"out={path}:product", "--rtol", "1e-3", "--atol", "1e-3")
    assert right.code == 0
    assert right.out.count("equal") == 8
    wrong = cli(*POINTS, "--expect", f"out={path}:other", "--format", "jsonl")
    assert wrong.code == 2
    assert len(wrong.out.splitlines()) == 8
    assert wrong.err.startswith("error: PTO7613")
    assert wrong.err.splitlines()[-1].startswith("failed: ")  # the verdict ends the sweep
    assert wrong.err.count("\n") == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("x.pto.j2", "--space", "@search/gemm.toml"), "cannot read x.pto.j2"),
        (("@basics/vadd",), "no space"),
        (("@basics/vadd", "--const", "c77=1"), "PTO7604"),
        (("@basics/vadd", "--space", "nowhere.toml"), "cannot read nowhere.toml"),
        (("README.md.jsonl",), "cannot read"),
        (("@basics/vadd", "--const", "c64=64", "--target", "a9"), "a9"),
        (("@basics/vadd", "--const", "c64=64", "--store", "x", "--no-store"), "contradict"),
        (("@basics/vadd", "--const", "c64=64", "-j", "2", "--cluster", "local:2"), "contradict"),
        (("@basics/vadd", "--const", "c64=64", "--expect", "z=nowhere.npy", "--no-store"), ""),
    ],
)
def test_what_cannot_be_swept_is_one_line(cli, words: tuple[str, ...], said: str) -> None:
    found = cli("sweep", *words)
    assert found.code == (2 if said else 0), found
    assert said in found.err
    assert found.err.count("error:") == bool(said)


def test_a_template_that_fails_somewhere_keeps_the_rest(cli, tmp_path: Path) -> None:
    path = tmp_path / "x.pto.j2"
    vadd = (programs_directory() / "basics" / "vadd.pto").read_text()
    path.write_text(vadd + "// {{ 4 // n }}\n")
    found = cli(
        "sweep", path, "--param", "n=0,2", "--target", "a5", "--no-store", "--format", "jsonl"
    )
    assert found.code == 2
    assert [json.loads(line)["stage"] for line in found.out.splitlines()] == ["template", "done"]
    assert "PTO7603" in found.err


def test_parquet_has_the_rows_or_says_what_is_missing(cli, rows: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    found = cli("sweep", rows, "--parquet", path)
    if importlib.util.find_spec("pyarrow") is None:
        assert (found.code, found.out, path.exists()) == (2, "", False)
        assert "PTO7605" in found.err
        return
    table = pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    wanted = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [(r["TM"], r["cycles"]) for r in table] == [
        (w["params"]["TM"], w["cycles"]) for w in wanted
    ]


def test_a_line_that_is_no_row_is_said(cli, rows: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    for text in ("no json\n", '{"params": 3}\n', "", rows.read_text().replace("true", "1")):
        bad.write_text(text)
        found = cli("sweep", rows, "--baseline", bad)
        assert (found.code, "PTO7608" in found.err) == (2, True)


class _Client:
    """A cluster whose workers have what they have."""

    def __init__(self, versions: dict[str, str] | Exception) -> None:
        self._versions = versions

    def run(self, function: object) -> dict[str, str]:
        if isinstance(self._versions, Exception):
            raise self._versions
        return self._versions


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ({"w1": "0.1.0", "w2": "0.0.9"}, "have ptosim 0.0.9"),
        (ModuleNotFoundError("No module named 'ptosim'"), "No module named 'ptosim'"),
    ],
)
def test_workers_with_another_ptosim_are_refused(versions, said: str) -> None:
    cluster = Cluster.__new__(Cluster)
    cluster._client = _Client(versions)
    with pytest.raises(UsageError, match=f"PTO7606.*{said}") as raised:
        cluster._check_versions("tcp://there:1")
    assert "every worker" in str(raised.value.help)
