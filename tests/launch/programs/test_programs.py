"""Every shipped program, on every target its sidecar names."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ptosim.ground.diagnostics.catalog import catalog
from ptosim.launch.description import Sidecar, sidecar_of
from ptosim.launch.sources import shipped_names
from ptosim.shell.main import main
from tests.launch.programs.expected import MAKERS, PROGRAMS, path_of

NAMES = shipped_names()
ROOT = PROGRAMS.parent


def sidecar(name: str) -> Sidecar:
    found = sidecar_of(PROGRAMS / f"{name}.pto")
    assert found is not None, f"{name} has no sidecar"
    return found


RUNS = [pytest.param(n, t, id=f"{n}-{t}") for n in NAMES for t in sidecar(n).targets]


def run(name: str, target: str, capsys) -> tuple[int, dict]:
    code = main(["run", f"@{name}", "--target", target, "--format", "json"])
    out = capsys.readouterr().out
    return code, json.loads(out)


@pytest.mark.sampled(40)
@pytest.mark.parametrize(("name", "target"), RUNS)
def test_program(name, target, capsys):
    beside = sidecar(name)
    code, report = run(name, target, capsys)
    codes = [f["code"] for f in report["findings"]]
    assert code == beside.exit_code, report
    by_check = {"PTO5301"}  # what `check --redundant` is for
    assert sorted(set(codes)) == sorted(set(beside.codes) - by_check)
    if beside.expect:
        compared = {c["name"]: c for c in report["expected"]}
        assert compared.keys() == beside.expect.keys()
        assert all(c["passed"] for c in compared.values()) == (not beside.exit_code), compared


@pytest.mark.parametrize("name", NAMES)
def test_what_lies_beside_a_program(name):
    beside = sidecar(name)
    assert beside.summary
    assert beside.targets
    assert set(beside.targets) <= {"a2a3", "a5"}
    text = (PROGRAMS / f"{name}.pto").read_text(encoding="utf-8")
    assert text.startswith(("//", "#")) or name == "page/asm_form"  # that one is a quotation
    assert bool(beside.exit_code or beside.codes) == name.startswith("broken/")
    if not name.startswith(("broken/", "basics/matmul_moves")):
        assert beside.expect, "a program that is right says what comes out"


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", MAKERS)
def test_expected_values_are_those_of_the_description(name):
    """The files are never written by the simulator: they are what `expected.py` computes."""
    made = MAKERS[name]()
    with np.load(path_of(name)) as kept:
        assert set(kept.files) == set(made)
        for key, array in made.items():
            stored = kept[key]
            assert stored.dtype == array.dtype
            if key == "y":  # functions whose last bit may differ between platforms
                distance = np.abs(stored.astype(np.float64) - array.astype(np.float64))
                assert distance.max() <= (1 if array.dtype.kind == "u" else 1e-6)
            else:
                np.testing.assert_array_equal(stored, array)


def test_files_are_small_and_none_is_left_over():
    files = list(PROGRAMS.rglob("*.npz"))
    assert {path_of(name) for name in MAKERS} == set(files)
    sizes = [f.stat().st_size for f in files]
    assert max(sizes) < 300_000
    assert sum(sizes) < 2_000_000
    known = {".pto", ".j2", ".toml", ".npz", ".md"}
    assert {f.suffix for f in PROGRAMS.rglob("*") if f.is_file()} <= known


def test_every_broken_program_shows_a_registered_code():
    shown = {c for n in NAMES for c in sidecar(n).codes}
    assert shown <= set(catalog())


@pytest.mark.parametrize("name", ["page/ssa", "quant/mxfp8_nd"])
def test_programs_are_found_from_any_directory(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["run", f"@{name}", "-q"]) == 0
    assert not list(tmp_path.iterdir())
