"""Every operation has an example in real syntax: a program that is right on every target that has
the operation, and runs where operations are executed."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest

import ptosim
from ptosim.ground.isa.examples import Example, example_of
from ptosim.ground.isa.rows import TARGETS, isa
from ptosim.ground.isa.schema import EXECUTED, Status, dtypes
from ptosim.ground.source import Source
from ptosim.machine.pages import argument_dtype
from ptosim.shell.main import main
from ptosim.tools.api import Checked, check_source

pytestmark = pytest.mark.sampled(60)
NAMES = isa().names()


def _example(name: str) -> Example:
    definition = isa().get(name)
    assert definition is not None
    found = example_of(definition)
    assert found is not None, f"write one into isa/examples/{definition.family}.pto"
    return found


def _targets(name: str) -> list[str]:
    """The targets that an example is for: all that have the operation, or the one that it names."""
    definition, example = isa().get(name), _example(name)
    having = [t for t in TARGETS if definition.status[t] is not Status.ABSENT]
    return [t for t in having if example.target in (None, t)]


@pytest.mark.sampled(3, 300)
@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_right(name: str) -> None:
    for target in _targets(name):
        checked = _checked(_example(name), target)
        assert [d for d in checked.findings if d.severity.word == "error"] == []
        assert name in {op.name for op in checked.front.module.walk()}


@pytest.mark.parametrize("name", [n for n in NAMES if not _targets(n)])
def test_an_example_of_what_no_target_has_can_be_read(name: str) -> None:
    assert [d for d in _checked(_example(name), "a5").findings if d.severity.word == "error"] == []


def _checked(example: Example, target: str) -> Checked:
    return check_source(
        Source(example.name, example.program), target=target, dry_run=False,
        compat=example.compat, dump=example.is_dump,
    )  # fmt: skip


@pytest.mark.sampled(3, 300)
@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs(name: str) -> None:
    """Without a trap and without an error; pointers that no view sizes get 8,192 zeros. What needs
    options of its own is run with them below."""
    definition, example = isa().get(name), _example(name)
    for target in _targets(name):
        if definition.status[target] not in EXECUTED or example.not_run or example.run:
            continue
        program = ptosim.load(example.program, target=target, compat=example.compat)
        result = program.run(
            _arguments(program, example.entry), entry=example.entry, max_instructions=20_000
        )
        assert [f for f in result.findings if f.severity.word == "error"] == []


def _arguments(program: ptosim.Program, entry: str | None) -> dict[str, object]:
    try:
        program.run({}, entry=entry, max_instructions=20_000)
    except ptosim.UsageError:
        return {a.name: _argument(a) for a in program.signature(entry) if a.kind in _GIVEN}
    return {}


_GIVEN = ("ptr", "memref", "scalar")


def _argument(arg: ptosim.Arg) -> object:
    return 1 if arg.kind == "scalar" else np.zeros(8192, argument_dtype(dtypes()[arg.dtype]))


@pytest.mark.parametrize("name", NAMES)
def test_the_line_has_the_operation_and_its_types(name: str) -> None:
    """Names of types would hide what a reader has to write."""
    line = _example(name).line
    assert name.removeprefix("func.") in line
    assert "<...>" not in line


@pytest.mark.parametrize("name", [n for n in NAMES if _example(n).run])
def test_what_an_example_says_of_its_run_is_so(name: str, tmp_path, cli) -> None:
    """Its program with its options runs as a reader would run it."""
    assert cli("ops", name, "--example", "-o", tmp_path / "k.pto").code == 0
    text, example = (tmp_path / "k.pto").read_text(), _example(name)
    assert f"// ptosim run FILE {example.run}\n" in text
    dated = ["--compat", example.compat] if example.compat else []
    for target in _targets(name):
        done = cli("run", tmp_path / "k.pto", "--target", target, *shlex.split(example.run), *dated)
        assert done.code == 0, done.err


def test_what_is_not_run_says_why() -> None:
    """An operation that stops the program is the only one."""
    assert [name for name in NAMES if _example(name).not_run] == ["pto.trap"]


def test_the_program_of_an_example_goes_through_run(tmp_path, capsys) -> None:
    assert main(["ops", "tadd", "--example"]) == 0
    file = tmp_path / "tadd.pto"
    file.write_text(capsys.readouterr().out)
    assert file.read_text().startswith("// pto.tadd: ")
    assert main(["run", str(file)]) == 0


def test_an_example_needs_a_name(capsys) -> None:
    assert main(["ops", "--example"]) == 2
    assert "ptosim ops tadd --example" in capsys.readouterr().err


def test_what_an_operation_takes_in_its_example(capsys) -> None:
    assert main(["ops", "tadd", "--cost", "--format", "json"]) == 0
    costs = {c["target"]: c for c in json.loads(capsys.readouterr().out)["costs"]}
    for target in TARGETS:
        whole = ptosim.load(_example("pto.tadd").program, target=target).cost().cycles
        assert costs[target]["program"] == whole
        assert 0 < costs[target]["cycles"] <= whole
    assert main(["ops", "vadd", "--cost"]) == 0
    assert "the target does not execute it" in capsys.readouterr().out
    assert main(["ops", "pto.trap", "--cost"]) == 0
    assert "not executed alone" in capsys.readouterr().out
