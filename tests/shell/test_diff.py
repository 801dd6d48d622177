"""`diff`, `port`, and `explain` of what a board says."""

from __future__ import annotations

import json

import pytest

from ptosim.ground.isa.cache import programs_directory
from tests.engine.sanitize.test_races import ADD, LOAD_ADD_STORE, pair
from tests.ops.semantics.test_sync import program
from tests.shell.programs import TILE, copy_program


@pytest.fixture
def write(tmp_path):
    def write(text: str, name: str):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def worse(cli, *arguments) -> list[str]:
    return json.loads(cli(*arguments, "--format", "json").out)["worse"]


def test_the_same_program_is_no_worse(cli, write):
    name = write(copy_program(), "a.pto")
    outcome = cli("diff", name, name)
    assert outcome.code == 0
    assert "values of y: the same (bit-exact)" in outcome.out
    assert "nothing got worse" in outcome.out


def test_other_values_are_a_regression(cli, write):
    one = write(copy_program(), "a.pto")
    two = write(
        copy_program(f"    pto.tadd ins(%a, %b : {TILE}, {TILE}) outs(%b : {TILE})"), "b.pto"
    )
    outcome = cli("diff", one, two)
    assert outcome.code == 1
    assert "1,024 of 1,024 differ" in outcome.out
    assert worse(cli, "diff", one, two, "--slower", "1000") == ["values of y differ"]
    assert worse(cli, "diff", one, two, "--slower", "1000", "--rtol", "2") == []


def test_a_lost_flag_is_a_new_finding(cli, write):
    one = write(program(LOAD_ADD_STORE), "a.pto")
    two = write(program(f"LOAD\n{pair('MTE2', 'V')}\n{ADD}\nSTORE"), "b.pto")
    report = json.loads(cli("diff", one, two, "--format", "json").out)
    assert [d["code"] for d in report["new_findings"]] == ["PTO5201"]
    assert report["worse"][0] == "1 new finding"
    back = json.loads(cli("diff", two, one, "--format", "json").out)
    assert [d["code"] for d in back["gone_findings"]] == ["PTO5201"]


def test_more_cycles_than_allowed(cli, write):
    one = write(program(LOAD_ADD_STORE), "a.pto")
    two = write(program(LOAD_ADD_STORE + f"\n{pair('MTE3', 'V')}" + f"\n{ADD}" * 20), "b.pto")
    (told,) = [w for w in worse(cli, "diff", one, two) if "cycles" in w]
    assert told.endswith("% more cycles")
    assert not [w for w in worse(cli, "diff", one, two, "--slower", "1000") if "cycles" in w]


def test_a_rejected_side(cli, write):
    one = write(copy_program(), "a.pto")
    two = write(copy_program("    pto.tmow ins(%a : f32)"), "b.pto")
    outcome = cli("diff", one, two)
    assert outcome.code == 3
    assert "PTO1003" in outcome.out + outcome.err
    assert "not compared" in outcome.out


def test_port_shows_what_the_other_target_lacks(cli):
    outcome = cli("port", "@broken/random_on_a2a3", "--from", "a5", "--to", "a2a3")
    assert outcome.code == 3
    assert "PTO3001" in outcome.out


def test_port_shows_the_barrier_that_only_a2a3_needs(cli, write):
    name = write(
        program(f"LOAD\n{pair('MTE2', 'V')}\n{ADD}\n{ADD}\n{pair('V', 'MTE3')}\nSTORE"), "k.pto"
    )
    report = json.loads(cli("port", name, "--from", "a5", "--to", "910b", "--format", "json").out)
    assert [d["code"] for d in report["new_findings"]] == ["PTO5204"]
    assert [s["target"] for s in report["sides"]] == ["a5", "a2a3"]
    assert all(c["passed"] for c in report["values"])
    assert all(s["cycles"] for s in report["sides"])
    assert [s["budget"]["vec"]["safe"] for s in report["sides"]] == [245760, 188416]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["port", "@basics/vadd", "--from", "a5", "--to", "950"], "both name a5"),
        (["port", "@basics/vadd", "--from", "a5", "--to", "b7"], "unknown target"),
        (["port", "@basics/vadd", "--from", "a5", "--to", "a2", "--target", "a5"], "not --target"),
        (["port", "-", "--from", "a5", "--to", "a2"], "give a file"),
        (["port", "@basics/vadd", "--to", "a2"], "--from"),
        (["diff", "-", "-"], "one of the two"),
        (["diff", "@basics/vadd", "missing.pto"], "cannot read"),
        (["map", "missing.pto"], "cannot read"),
        (["explain", "something", "else"], "neither a diagnostic code"),
    ],
)
def test_usage(cli, arguments, words):
    outcome = cli(*arguments)
    assert outcome.code == 2
    assert words in outcome.err


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("aicore exception, error code 507015", "PTO6001"),
        ("vector core exception 507035", "PTO4353"),
        ("stream synchronisation: 507046", "PTO5006"),
        ("VEC instruction error: the ub address out of bounds", "PTO4001"),
        ("rtStreamSynchronize failed, retCode 507018: timeout or trap error", "PTO5006"),
        ("the address is not aligned", "PTO4354"),
        ("MTE error: ddr address out of range", "PTO6001"),
        ("ub overflow, requires 2359296 bits while 1572864 bits avaliable!", "PTO4001"),
    ],
)
def test_what_a_board_says(cli, line, code):
    outcome = cli("explain", line)
    assert outcome.code == 0
    assert code in outcome.out
    assert "ptosim " in outcome.out


def test_bits_of_an_error_code_are_named_but_not_guessed(cli):
    outcome = cli("explain", "errcode:(0x4000000000000003)", "--format", "json")
    assert json.loads(outcome.out)["bits"] == [0, 1, 62]
    assert "not documented" in cli("explain", "errcode:(0x40)").out


def test_a_rule_of_boards_is_explained(cli):
    """Its text, who told it, and a wrong and a right program; as data too."""
    told = cli("explain", "a08").out
    assert all(word in told for word in ("PTOAS#1205", "PTO6430", "Wrong:", "Right:", "1PT_B32"))
    data = json.loads(cli("explain", "A08", "--format", "json").out)
    assert data["rule_id"] == "A08"
    assert data["targets"] == ["a5"]
    assert "rule of boards" in cli("explain", "A99").err


def test_every_code_to_look_for_exists():
    from ptosim.ground.diagnostics.catalog import catalog, device_errors

    assert {c for e in device_errors() for c in e.look_for} <= set(catalog())


def test_equal_for_all_inputs_is_asked_for(cli, tmp_path):
    path = programs_directory() / "basics" / "vadd.pto"
    (tmp_path / "same.pto").write_text(path.read_text().replace("%a", "%first"))
    (tmp_path / "other.pto").write_text(path.read_text().replace("pto.tadd", "pto.tsub"))
    arguments = path.with_suffix(".toml").read_text().partition("[expect]")[0]
    for name in ("same", "other"):
        (tmp_path / f"{name}.toml").write_text(arguments)
    same = cli("diff", path, tmp_path / "same.pto", "--prove", "--target", "a2a3")
    assert same.code == 0
    assert "equal for all contents and these scalars, shapes, blocks: every" in same.out
    words = ("--prove", "--target", "a2a3", "--format", "json")
    report = json.loads(cli("diff", path, tmp_path / "other.pto", *words).out)
    assert report["proof"]["verdict"] == "unequal"
    assert cli("diff", path, path, "--tolerance", "reassociated").code == 2


def test_a_launch_of_several_devices_is_run_and_not_proven(cli):
    done = cli("diff", "@model/expert_dispatch", "@model/expert_dispatch", "--prove")
    assert done.code == 1
    assert "values of y0@1: the same" in done.out
    assert "a launch of 2 devices" in done.out
