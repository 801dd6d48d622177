"""A file may hold several programs separated by lines `//--- name.pto`; each is checked on its own,
and every command takes `FILE#part`."""

from __future__ import annotations

from pathlib import Path

import pytest

import ptosim
from ptosim.ground.errors import UsageError
from ptosim.shell.main import main

FIRST = """func.func @k(%out: !pto.ptr<i32, gm>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : i32
  pto.store_scalar %one, %out[%zero] : !pto.ptr<i32, gm>, i32
  return
}
"""
SECOND = FIRST.replace("%one", "%two").replace("constant 1", "constant 2")
BOTH = f"// what the two are for\n//--- first.pto\n{FIRST}//--- second.pto\n{SECOND}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "both.pto"
    path.write_text(BOTH)
    return path


def test_the_same_name_in_two_parts_is_no_error(file: Path, capsys):
    assert main(["check", str(file), "--target", "a5"]) == 0
    report = capsys.readouterr().out
    assert "both.pto#first.pto" in report
    assert "both.pto#second.pto" in report


def test_places_in_a_part_are_those_of_the_file(file: Path, capsys):
    text = BOTH.replace("%two, %out", "%three, %out")
    file.write_text(text)
    line = 1 + text.splitlines().index(
        "  pto.store_scalar %three, %out[%zero] : !pto.ptr<i32, gm>, i32"
    )
    assert main(["check", str(file), "--target", "a5"]) == 3
    assert f"both.pto:{line}:" in capsys.readouterr().err
    assert main(["check", f"{file}#first.pto", "--target", "a5"]) == 0


@pytest.mark.parametrize("command", ["run", "cost", "debug", "map", "stats", "expand"])
def test_what_runs_one_program_asks_which(command: str, file: Path, capsys):
    assert main([command, str(file)]) == 2
    error = capsys.readouterr().err
    assert "has 2 parts; name one" in error
    assert "both.pto#first.pto" in error.replace("\n", "").replace("        ", "")


@pytest.mark.parametrize(("part", "value"), [("first.pto", 1), ("second", 2)])
def test_a_part_is_run_by_its_name(part: str, value: int, file: Path, capsys):
    arguments = ["run", f"{file}#{part}", "--target", "a5", "--arg", "out=zeros:i32:1"]
    assert main([*arguments, "--format", "json"]) == 0
    out = ptosim.load(f"{file}#{part}", target="a5").run({"out": [0]}).outputs["out"]
    assert list(out) == [value]


def test_an_unknown_part(file: Path, capsys):
    assert main(["run", f"{file}#third"]) == 2
    assert "has no part `third`" in capsys.readouterr().err


def test_a_file_with_one_part_is_that_program(file: Path):
    file.write_text(f"//--- only.pto\n{FIRST}")
    assert ptosim.load(file, target="a5").entries == ["k"]


def test_what_is_before_the_first_line_is_a_program_if_it_is_more_than_comments(file: Path):
    file.write_text(f"{FIRST}//--- second.pto\n{SECOND}")
    assert ptosim.load(f"{file}#head", target="a5").entries == ["k"]
    file.write_text(BOTH)
    with pytest.raises(UsageError):
        ptosim.load(f"{file}#head")


def test_the_library_reads_parts_too(file: Path):
    assert [d.code for d in ptosim.check(BOTH, target="a5")] == []
    with pytest.raises(UsageError, match="2 parts"):
        ptosim.load(BOTH)


def test_formatting_keeps_what_separates_the_parts(file: Path, capsys):
    assert main(["fmt", str(file)]) == 0
    once = capsys.readouterr().out
    assert [line for line in once.splitlines() if line.startswith("//")] == [
        "// what the two are for", "//--- first.pto", "//--- second.pto",
    ]  # fmt: skip
    file.write_text(once)
    assert main(["fmt", str(file), "--check"]) == 0
    assert main(["fmt", f"{file}#second", "--check"]) == 0


def test_one_part_is_rewritten_in_its_place(file: Path):
    first = FIRST.replace("  %zero", "      %zero")
    second = SECOND.replace("  %zero", "      %zero")
    file.write_text(f"//--- a\n{first}//--- b\n{second}")
    assert main(["fmt", "-i", f"{file}#b"]) == 0
    assert file.read_text() == f"//--- a\n{first}//--- b\n{SECOND}"


def test_fixes_are_applied_to_each_part(file: Path):
    wrong = FIRST.replace("%one, %out[", "%one %out[")
    file.write_text(f"//--- a\n{wrong}//--- b\n{wrong}")
    assert main(["check", "--fix", str(file), "--target", "a5"]) == 0
    assert file.read_text() == f"//--- a\n{FIRST}//--- b\n{FIRST}"


def test_a_name_with_a_hash_is_still_a_file(tmp_path: Path):
    path = tmp_path / "a#b"
    path.write_text(FIRST)
    assert main(["check", str(path), "--target", "a5"]) == 0
