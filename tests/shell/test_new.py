"""First programs, and the list of those that come with the package."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import ptosim
from ptosim.launch.sources import FIRST, kinds, shipped_programs
from ptosim.shell.main import main


@pytest.mark.parametrize("kind", kinds())
def test_a_first_program_passes_its_own_test(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", kind, "mine"]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "mine.npz", "mine.pto", "mine.toml", "test_mine.py",
    ]  # fmt: skip
    assert "NAME" not in "".join(p.read_text() for p in tmp_path.glob("*mine.[pt]*"))
    assert main(["check", "mine.pto"]) == 0
    assert main(["run", "mine.pto"]) == 0
    assert "passed" in capsys.readouterr().out
    scope: dict[str, object] = {"__file__": str(tmp_path / "test_mine.py")}
    exec((tmp_path / "test_mine.py").read_text(), scope)
    for target in ("a2a3", "a5") if kind in ("vector", "gemm") else ((),):
        scope["test_values"](*([target] if target else []))  # type: ignore[operator]


@pytest.mark.slow
def test_pytest_finds_both_tests(tmp_path):
    assert main(["new", "vector", str(tmp_path / "mine")]) == 0
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_nothing_is_overwritten(tmp_path, capsys):
    (tmp_path / "mine.toml").write_text("")
    assert main(["new", "vector", str(tmp_path / "mine")]) == 2
    assert "is there already" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["mine.toml"]


@pytest.mark.parametrize("name", ["two words", "9lives", "a-b"])
def test_a_name_is_that_of_a_function(name, tmp_path, capsys):
    assert main(["new", "vector", str(tmp_path / name)]) == 2
    assert "no name of a function" in capsys.readouterr().err


def test_every_shipped_program_has_a_line(capsys):
    assert main(["programs", "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert all(one["summary"] for one in listed if one["kind"] != "space")
    assert {"program", "chain", "space"} == {one["kind"] for one in listed}
    assert main(["programs", FIRST]) == 0
    out = capsys.readouterr().out
    assert all(f"@{FIRST}/{kind}" in out for kind in kinds())


class TestNames:
    """`@name` goes wherever a path does, in Python too."""

    def test_a_program_is_loaded_with_its_sidecar(self):
        program = ptosim.load("@basics/vadd")
        assert program.entries == ["vadd"]
        assert ptosim.load("@basics/vadd.pto").entries == ["vadd"]

    def test_check(self):
        assert {d.code for d in ptosim.check("@broken/missing_flag")} & {"PTO5201", "PTO5202"}

    def test_a_chain(self):
        assert ptosim.run_chain("@model/mlp").passed

    def test_an_unknown_name_says_what_is_near(self):
        with pytest.raises(ptosim.UsageError) as caught:
            ptosim.load("@basics/vad")
        assert "`@basics/vadd`" in (caught.value.help or "")
        with pytest.raises(ptosim.UsageError) as caught:
            ptosim.run_chain("@model/mpl")
        assert "`@model/mlp`" in (caught.value.help or "")

    def test_text_that_has_an_at_sign_is_text(self):
        text = "func.func @f() { return }"
        assert ptosim.load(text).entries == ["f"]

    @pytest.mark.slow
    def test_names_of_the_list_are_names(self):
        for one in shipped_programs():
            if one.kind == "program" and not one.name.startswith("@broken/"):
                assert ptosim.load(one.name).entries


def test_what_is_said_is_not_written_over_the_program(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = cli("new", "vector", "mine", "-o", "mine.pto")
    assert (told.code, list(tmp_path.iterdir())) == (2, [])
    assert "takes no -o" in told.err
