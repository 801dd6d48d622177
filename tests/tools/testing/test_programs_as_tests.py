"""`ptosim test`, the pytest plug-in and programs as functions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import FindingsError
from ptosim.ground.errors import UsageError
from ptosim.ground.isa.cache import programs_directory
from ptosim.shell.main import main
from tests.launch.programs.data import randn

SIDECAR = """targets = ["a2a3", "a5"]
[args]
x = "randn:f32:32x64:1"
y = "randn:f32:32x64:2"
z = "zeros:f32:32x64"
[expect]
z = "gold.npz:z"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A fresh project: one program, one sidecar, golden values made by NumPy."""
    shutil.copy(programs_directory() / "basics" / "vadd.pto", tmp_path)
    (tmp_path / "vadd.toml").write_text(SIDECAR)
    x, y = (randn((32, 64), seed) for seed in (1, 2))
    np.savez(tmp_path / "gold.npz", z=x + y, other=np.arange(3))
    return tmp_path


def wrong(project: Path) -> None:
    gold = dict(np.load(project / "gold.npz"))
    gold["z"][3, 5] += 1
    np.savez(project / "gold.npz", **gold)


def test_every_target_and_expectation_is_a_case(project, capsys):
    assert main(["test", str(project)]) == 0
    told = capsys.readouterr().out
    assert "vadd.pto::a2a3-z" in told
    assert "vadd.pto::a5-z" in told
    assert told.endswith("\npassed: 2 passed, 0 failed\n")


def test_a_difference_is_told_with_the_first_element_and_the_command_to_look(project, capsys):
    wrong(project)
    assert main(["test", str(project), "--target", "a5"]) == 1
    told = capsys.readouterr().out
    assert "output `z`: 1 of 2,048 elements differ (bit-exact" in told
    assert "first at [3, 5]: got " in told
    command = f"ptosim why {project / 'vadd.pto'} z[3, 5] --target a5"
    assert f"to look at it: {command}" in told
    first = f"first {project / 'vadd.pto'}::a5-z"
    assert told.endswith(f"\nfailed: 0 passed, 1 failed, {first}; next: {command}\n")
    assert main(["test", str(project), "--format", "json"]) == 1
    cases = json.loads(capsys.readouterr().out)["cases"]
    assert [(c["target"], c["output"], c["passed"]) for c in cases] == [
        ("a2a3", "z", False), ("a5", "z", False),
    ]  # fmt: skip


def test_reports_for_continuous_integration(project, capsys):
    """JUnit has a case for each case; GitHub shows those that failed at their program."""
    wrong(project)
    (project / "alone.pto").write_text("func.func @f() { return }\n")
    assert main(["test", str(project), "--format", "junit"]) == 1
    root = ElementTree.fromstring(capsys.readouterr().out)
    assert (root.get("tests"), root.get("failures")) == ("2", "2")
    cases = [(c.get("name"), c.find("failure") is not None) for c in root.iter("testcase")]
    assert cases == [("a2a3-z", True), ("a5-z", True)]
    assert main(["test", str(project), "--target", "a5", "--format", "github"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(
        f"::error file={project / 'vadd.pto'},title=ptosim test a5-z::output `z`"
    )
    assert main(["test", str(project)]) == 1
    told = capsys.readouterr().out
    assert f"not tested, without a sidecar: 1 ({project / 'alone.pto'})" in told


def test_update_writes_the_golden_array_and_keeps_the_others(project, capsys):
    wrong(project)
    assert main(["test", str(project), "--update"]) == 0
    assert main(["test", str(project)]) == 0
    assert np.array_equal(np.load(project / "gold.npz")["other"], np.arange(3))
    assert sorted(p.name for p in project.iterdir()) == ["gold.npz", "vadd.pto", "vadd.toml"]


def test_update_makes_a_file_that_is_not_there_yet(project):
    (project / "gold.npz").unlink()
    assert main(["test", str(project)]) == 1
    assert main(["test", str(project), "--update"]) == 0
    assert main(["test", str(project)]) == 0


def test_update_keeps_arrays_that_nobody_may_read_and_takes_every_name(project):
    gold = project / "gold.npz"
    np.savez(gold, z=np.zeros(3), words=np.array([None, "x"], object))
    with zipfile.ZipFile(gold) as archive:
        words = archive.read("words.npy")
    (project / "vadd.toml").write_text(SIDECAR.replace("npz:z", "npz:file"))
    assert main(["test", str(project), "--update"]) == 0
    assert main(["test", str(project)]) == 0
    with zipfile.ZipFile(gold) as archive:
        assert sorted(archive.namelist()) == ["file.npy", "words.npy", "z.npy"]
        assert archive.read("words.npy") == words


@pytest.mark.parametrize(
    ("expectation", "says"),
    [
        ('q = "gold.npz:z"', "vadd.toml: there is no output `q`; outputs: "),
        ('z = "vadd.npz:z"', "vadd.npz is not an .npz file"),
        ('z = "nowhere/gold.npz:z"', "cannot write "),
        ('z = "gold.npz:a\\u0000b"', "no array of an archive can have the name"),
        ('z = "zeros:f32:32x64"', "is no file to write an array to"),
    ],
)
def test_what_cannot_be_updated_is_one_line_and_stays(project, capsys, expectation, says):
    (project / "vadd.npz").write_text("no archive")
    (project / "vadd.toml").write_text(SIDECAR.replace('z = "gold.npz:z"', expectation))
    before = {p.name: p.read_bytes() for p in project.iterdir()}
    assert main(["test", str(project), "--update"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert says in told
    assert {p.name: p.read_bytes() for p in project.iterdir()} == before


def test_a_finding_fails_a_program_and_one_that_is_meant_does_not(project, capsys):
    text = (project / "vadd.pto").read_text()
    broken = project / "broken"
    broken.mkdir()
    (broken / "b.pto").write_text(text.replace("pto.tadd", "pto.tad"))
    (broken / "b.toml").write_text("")
    assert main(["test", str(broken)]) == 1
    assert "unknown operation `pto.tad`" in capsys.readouterr().out
    (broken / "b.toml").write_text('exit_code = 3\ncodes = ["PTO1003"]\n')
    assert main(["test", str(broken)]) == 0
    (broken / "b.toml").write_text('exit_code = 3\ncodes = ["PTO2001"]\n')
    assert main(["test", str(broken)]) == 1
    assert "PTO2001 was not found" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["nowhere"], ["alone.pto"]])
def test_nothing_to_test_is_a_mistake_in_one_line(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "alone.pto").write_text("func.func @f() { return }\n")
    assert main(["test", *words]) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.slow
def test_every_shipped_program_passes_its_own_test(capsys):
    folder = programs_directory()
    assert main(["test", str(folder / "basics"), str(folder / "broken")]) == 0


@pytest.mark.slow
def test_pytest_in_a_fresh_project_collects_and_runs(project):
    wrong(project)
    code, told = _pytest(project, whole=True)
    assert code == 1
    assert "vadd.pto::a5-z" in told
    assert "first at [3, 5]" in told
    assert "Traceback" not in told
    assert _pytest(project, "--pto-update")[0] == 0
    assert _pytest(project) == (0, "2 passed")
    (project / "vadd.toml").write_text("args = 3\n")
    code, told = _pytest(project, whole=True)
    assert code == 2
    assert "vadd.toml" in told
    (project / "vadd.toml").write_text(SIDECAR.replace("npz:z", 'npz:z"\nq = "gold.npz:q'))
    code, told = _pytest(project, "--pto-update", whole=True)
    assert code == 1
    assert "there is no output `q`" in told
    assert "cases.py" not in told


@pytest.mark.slow
def test_a_test_of_a_project_has_programs_and_functions(project):
    (project / "test_it.py").write_text("""
import numpy as np, ptosim, pytest

@ptosim.kernel("vadd.pto", target=["a2a3", "a5"])
def add(x, y, z=np.zeros((32, 64), np.float32)):
    "Adds."

def test_function():
    x = np.ones((32, 64), np.float32)
    for result in add(x, y=x).values():
        assert (result.outputs["z"] == 2).all()
        ptosim.assert_clean(result.raise_for_findings())

def test_fixture(pto):
    result = pto.run("vadd.pto", target="a5")
    pto.assert_clean(result)
    assert result.outputs["z"].shape == (32, 64)
""")
    assert _pytest(project, "test_it.py") == (0, "2 passed")


def _pytest(folder: Path, *words: str, whole: bool = False) -> tuple[int, str]:
    installed = any(
        e.value == "ptosim.tools.testing.plugin" for e in entry_points(group="pytest11")
    )
    plugin = [] if installed else ["-p", "ptosim.tools.testing.plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *words],
        cwd=folder, capture_output=True, text=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(Path(ptosim.__file__).parents[1])},
    )  # fmt: skip
    last = done.stdout.strip().splitlines()[-1]
    return done.returncode, done.stdout if whole else last.partition(" in ")[0]


class Tensor:
    """What other libraries give: nothing but the protocol."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_arguments_may_be_tensors_of_other_libraries(project):
    ones = np.ones((32, 64), np.float32)

    def add(x, y, z):
        """Adds."""

    call = ptosim.kernel(str(project / "vadd.pto"), target="a5")(add)
    result = call(Tensor(ones), Tensor(2 * ones), ones * 0)
    assert (result.outputs["z"] == 3).all()
    with pytest.raises(TypeError, match="missing a required argument"):
        call(ones)
    with pytest.raises(UsageError, match="no target"):
        ptosim.kernel("x.pto", target=[])


def test_findings_are_raised_with_what_was_found():
    racy = (programs_directory() / "broken").glob("*.pto")
    for program in racy:
        try:
            result = ptosim.load(program).run()
        except ptosim.PtosimError:
            continue
        if any(d.is_error for d in result.findings):
            with pytest.raises(FindingsError) as raised:
                result.raise_for_findings("error")
            assert all(d.is_error for d in raised.value.diagnostics)
            with pytest.raises(AssertionError, match="PTO"):
                ptosim.assert_clean(result)
            return
    pytest.fail("no shipped program runs with an error")


def test_shipped_programs_are_named_as_everywhere(capsys) -> None:
    assert main(["test", "@basics/vadd", "--target", "a3"]) == 0
    assert "vadd.pto::a2a3-z" in capsys.readouterr().out
    assert main(["test", "@sort", "-j", "1"]) == 0
    assert capsys.readouterr().out.count("✓ pass") == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["@basics/vad"], "did you mean `@basics/vadd`"),
        (["@basics/vadd", "--target", "a6"], "unknown target `a6`"),
        (["@broken/freed_twice", "--target", "a2a3"], "they are for a5"),
    ],
)
def test_what_there_is_no_case_of_is_said(capsys, words, said) -> None:
    assert main(["test", *words]) == 2
    assert said in capsys.readouterr().err
