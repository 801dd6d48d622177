"""From a wrong value to its cause, in one command: the element is followed back, and the operation
is named at which it left the expected value. What is planted here is known, so the line is, too."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ptosim.shell.main import main
from tests.shell.programs import TILE, copy_program

X = np.linspace(-2, 2, 1024, dtype=np.float32).reshape(16, 64)


@pytest.fixture
def why(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)

    def ask(text: str, expected: np.ndarray, *words: str) -> dict:
        (tmp_path / "kernel.pto").write_text(text)
        np.save("gold.npy", expected)
        code = main([
            "why", "kernel.pto", *words, "--arg", "x=x.npy", "--expect", "y=gold.npy",
            "--rtol", "1e-3", "--format", "json",
        ])  # fmt: skip
        told = capsys.readouterr()
        assert code in (0, 1), told.err
        return {"code": code, "last": told.err.splitlines()[-1:], **json.loads(told.out)}

    return ask


def line_of(text: str, what: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if what in line)


def scaled(by: str, then: str) -> str:
    return copy_program(f"""
    %k = arith.constant {by} : f32
    pto.tmuls ins(%b, %k : {TILE}, f32) outs(%b : {TILE})
    {then}""")


def test_a_value_that_overflows_left_the_expected_one_there(why):
    """x * 3e38 leaves f32 from |x| = 1.13 on; the division afterwards does not bring it back."""
    text = scaled("3.0e38", f"pto.tdivs ins(%b, %k : {TILE}, f32) outs(%b : {TILE})")
    found = why(text, X)
    assert found["code"] == 1
    assert found["element"] == "y[0, 0]"
    assert found["cause"]["kind"] == "numeric"
    assert found["cause"]["line"] == line_of(text, "tmuls")
    assert "gives -inf where f64 has -6e+38" in found["cause"]["what"]
    steps = {s["line"]: s for s in found["steps"]}
    assert steps[line_of(text, "tdivs")]["exact"] == pytest.approx(-2.0)


def test_digits_that_a_sum_loses(why):
    """(x + 1e9) - 1e9: the sum rounds the digits of x away, the difference only shows it."""
    text = copy_program(f"""
    %k = arith.constant 1.0e9 : f32
    pto.tadds ins(%b, %k : {TILE}, f32) outs(%b : {TILE})
    pto.tsubs ins(%b, %k : {TILE}, f32) outs(%b : {TILE})""")
    found = why(text, X)
    assert found["cause"]["kind"] == "numeric"
    assert found["cause"]["line"] == line_of(text, "tsubs")
    assert "differences of its operands" in found["cause"]["what"]


def test_an_element_that_no_store_reaches(why):
    text = "".join(n for n in copy_program().splitlines(True) if "pto.tstore" not in n)
    found = why(text, X, "y[12, 3]")
    assert found["cause"]["kind"] == "unwritten"
    assert "no operation writes y[12, 3]" in found["cause"]["what"]


def test_a_tile_that_another_one_overwrote(why, capsys):
    assert main(["why", "@broken/overlapping_parameters", "--sanitize", "none"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("failed: q[16, 0] is 0, expected 61: line 37 (`pto.tquant ")
    assert "reads %ts[16, 0], whose bytes line 36 (`pto.tload %pz -> %tz`) overwrote" in last
    assert main(["why", "@broken/overlapping_parameters"]) == 1
    assert ": line 37 (`pto.tquant " in capsys.readouterr().out.splitlines()[-1]


def test_a_program_that_means_something_else(why):
    """No operation of it is wrong: the one that computes the value is named."""
    text = scaled("3.0", f"pto.tadds ins(%b, %k : {TILE}, f32) outs(%b : {TILE})")
    found = why(text, X * 3 - 3)
    assert (found["cause"]["kind"], found["cause"]["line"]) == ("text", line_of(text, "tadds"))


def test_an_operation_that_should_be_another_one(why):
    """x * 3 - 3 is expected of x * 3 + 3: with a difference in place of the sum all is right."""
    text = scaled("3.0", f"pto.tadds ins(%b, %k : {TILE}, f32) outs(%b : {TILE})")
    cause = why(text, X * 3 - 3)["cause"]
    assert cause["what"] == "with `pto.tsubs` in its place every output is as expected"
    cause = why(text, X / 3 + 3)["cause"]
    assert cause["line"] == line_of(text, "tmuls")
    assert cause["what"] == "with `pto.tdivs` in its place every output is as expected"
    unknown = why(text, X * 7)["cause"]
    assert "something else is expected" in unknown["what"]


def test_what_is_right(why, capsys):
    found = why(copy_program(), X)
    assert (found["code"], found["element"]) == (0, None)
    one = why(copy_program(), X, "y[3,", "0]")  # as an unquoted command line has it
    assert (one["code"], one["cause"], one["differs"]) == (0, None, False)
    assert [row["written by"] for row in one["chain"]][-1] == "the argument"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["@basics/vadd", "z[99, 0]"], "there is no element [99, 0] in 32x64"),
        (["@basics/vadd", "nothing[0, 0]"], "there is no value `%nothing`"),
        (["@basics/vadd", "z"], "`why` takes one element"),
        (["@basics/vadd", "--arg", "x=randn:f32:32x64"], "there is no element to follow"),
    ],
)
def test_what_cannot_be_followed(words, says, capsys):
    assert main(["why", *words]) == 2
    assert says in capsys.readouterr().err


# -- the debugger knows what is expected ----------------------------------------------------------


def debug(capsys, *words: str) -> list[str]:
    scripted = [word for line in words for word in ("-ex", line)]
    code = main([
        "debug", "kernel.pto", "--arg", "x=x.npy", "--expect", "y=gold.npy", "--rtol", "1e-3",
        "-nx", "--batch", "--color", "never", *scripted,
    ])  # fmt: skip
    told = capsys.readouterr()
    assert code == 0, told.out + told.err
    return told.out.splitlines()


def test_a_run_stops_after_the_first_operation_that_writes_something_else(why, capsys):
    text = scaled("3.0", "")
    found = why(text, X * 2)
    assert found["code"] == 1
    lines = debug(capsys, "continue", "expect")
    assert "watchpoint 1, y differs from what is expected" in lines
    assert any(line.strip().startswith("pto.tstore %b -> %py") for line in lines)
    assert [w for w in lines[-1].split() if w] == ["y", "1,024", "1,024", "y[0,", "0]", "-6,", "-4"]
    assert why(text, X * 3)["code"] == 0
    assert any("the program has ended" in line for line in debug(capsys, "continue"))


def test_elements_that_nothing_wrote_are_named(why, capsys):
    """All bits of them are ones, -1 as an integer, NaN as a float: they are shown as `?`."""
    why(copy_program(), X)
    lines = debug(capsys, "until tmov", "print %b", "print %a", "next", "print %b[0, 0]")
    assert lines.count("nothing has written %b") == 1
    assert "[[? ? ? ... ? ? ?]" in lines


@pytest.mark.parametrize(
    ("given", "says"),
    [("z=gold.npy", "there is no output `z`"), ("y=zeros:f32:4", "have shape (4,), the output")],
)
def test_expectations_that_do_not_fit(why, capsys, given, says):
    why(copy_program(), X)
    assert main(["debug", "kernel.pto", "--expect", given, "-nx", "--batch"]) == 2
    assert says in capsys.readouterr().err
