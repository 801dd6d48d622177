"""A chain's file: whatever is wrong in it is one finding with its line and a cure, and exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.launch.chain.chain import ExpressionError, value_of, window_of
from ptosim.launch.description import Places
from ptosim.shell.main import main

GOOD = """\
schema = 1
summary = "a sum, twice"
targets = ["a5"]
repeat = 2
counter = "layer"
[kernels]
sum = "@basics/vadd"
[buffers]
a = "randn:f32:64x64:1"
b = "randn:f32:32x64:2"
c = "empty:f32:32x64"
[[launch]]
kernel = "sum"
args = { x = "a[layer * 32:(layer + 1) * 32]", y = "b", z = "c" }
[[launch]]
kernel = "sum"
name = "again"
[launch.args]
x = "c"
y = "c"
z = "b"
[expect]
c = "zeros:f32:32x64"
[tolerance]
c = { atol = 100.0 }
"""


def written(folder: Path, text: str) -> str:
    path = folder / "layer.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_good_file(tmp_path, capsys):
    assert main(["run", "--chain", written(tmp_path, GOOD), "--format", "json"]) == 0
    assert '"launches": 4' in capsys.readouterr().out


WRONG = {
    "not TOML": ('summary = "a sum, twice"', "summary = a sum", "PTO1080", 2),
    "unknown key": ("repeat = 2", "repaet = 2", "PTO1081", 4),
    "unknown key of a launch": ('kernel = "sum"\nargs', 'kernal = 1\nkernel = "sum"\nargs', "PTO1081", 13),
    "unknown key of a tolerance": ("atol = 100.0", "abs = 100.0", "PTO1081", 25),
    "a text for a number": ("repeat = 2", 'repeat = "2"', "PTO1082", 4),
    "a number that is too small": ("repeat = 2", "repeat = 0", "PTO1082", 4),
    "a truth for a number": ("repeat = 2", "repeat = true", "PTO1082", 4),
    "another schema": ("schema = 1", "schema = 2", "PTO1082", 1),
    "a list for a buffer": ('c = "empty:f32:32x64"', "c = [1]", "PTO1082", 11),
    "targets that are a text": ('targets = ["a5"]', 'targets = "a5"', "PTO1082", 3),
    "no kernel in a launch": ('kernel = "sum"\nname', "name", "PTO1083", 15),
    "a kernel without a file": ('sum = "@basics/vadd"', "sum = { level = 2 }", "PTO1083", 7),
    "an unknown kernel": ('kernel = "sum"\nname', 'kernel = "sun"\nname', "PTO1084", 16),
    "an unknown buffer": ('y = "b", z', 'y = "d", z', "PTO1084", 14),
    "an unknown argument": ('z = "b"\n', 'z = "b"\nw = "b"\n', "PTO1084", 22),
    "an expectation of nothing": ('c = "zeros', 'd = "zeros', "PTO1084", 23),
    "an unknown type of a buffer": ("randn:f32:32x64:2", "randn:f33:32x64:2", "PTO1085", 10),
    "a file that is not there": ('"randn:f32:32x64:2"', '"b.npy"', "PTO1085", 10),
    "a number for a buffer": ('"randn:f32:32x64:2"', '"3"', "PTO1085", 10),
    "expected values that are not there": ("zeros:f32:32x64", "none.npy", "PTO1085", 23),
    "an argument that is not given": ('y = "b", z = "c" }', 'y = "b" }', "PTO1086", 14),
    "a kernel that is not there": ("@basics/vadd", "@basics/vad", "PTO1087", 7),
    "a kernel without such an entry": ('"@basics/vadd"', '{ file = "@basics/vadd", entry = "f" }', "PTO1087", 7),
    "a counter that is not there": ("(layer + 1)", "(later + 1)", "PTO1088", 14),
    "rows that are not there": ("(layer + 1) * 32", "(layer + 2) * 32", "PTO1088", 14),
    "no row": ("a[layer * 32:(layer + 1) * 32]", "a[]", "PTO1088", 14),
    "a number for a pointer": ('y = "b", z', "y = 3, z", "PTO6123", 14),
    "another type": ("randn:f32:64x64:1", "randn:f16:64x64:1", "PTO6123", 14),
    "too small a buffer": ("randn:f32:32x64:2", "randn:f32:31x64:2", "PTO6122", 14),
}  # fmt: skip


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_has_a_line_and_a_cure(name, tmp_path, capsys):
    old, new, code, line = WRONG[name]
    assert GOOD.count(old) == 1
    path = written(tmp_path, GOOD.replace(old, new))
    assert main(["run", "--chain", path]) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert f"error[{code}]" in shown.err
    assert f"--> {path}:{line}:" in shown.err
    assert "help:" in shown.err
    with pytest.raises(ptosim.DescriptionError) as raised:
        ptosim.run_chain(path)
    assert raised.value.exit_code == 2
    wrong = [d for d in raised.value.diagnostics if d.code == code]
    assert len(wrong) == 1
    assert wrong[0].help


def test_everything_that_is_wrong_is_said_at_once(tmp_path):
    text = GOOD.replace("repeat", "repaet").replace('"empty:f32:32x64"', "4").replace("atol", "abs")
    with pytest.raises(ptosim.DescriptionError) as raised:
        ptosim.load_chain(written(tmp_path, text))
    found = raised.value.diagnostics
    assert [d.code for d in found] == ["PTO1081", "PTO1082", "PTO1081"]
    lines = [d.span.line for d in found if d.span]
    assert lines == sorted(lines)


def test_a_kernel_that_is_wrong_is_reported_as_ever(tmp_path, capsys):
    (tmp_path / "k.pto").write_text("func.func @f() { pto.nothing }", encoding="utf-8")
    text = GOOD.replace("@basics/vadd", "k.pto")
    assert main(["run", "--chain", written(tmp_path, text)]) == 3
    assert "k.pto:1:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["@basics/vadd"], "FILE and --chain"),
        (["--entry", "f"], "--entry and --chain"),
        (["--block-num", "2"], "--block-num and --chain"),
        (["--arg", "w=zeros:f32:1"], "no buffer `w`"),
        (["--expect", "w=zeros:f32:1"], "no buffer `w`"),
        (["--out", "c=c.txt"], ".npy or .bin"),
        (["--commit", "retire"], "--commit"),
    ],
)
def test_options_that_do_not_go_with_a_chain(words, told, tmp_path, capsys):
    assert main(["run", "--chain", written(tmp_path, GOOD), *words]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "told"), [("none.toml", "cannot read"), ("@model/none", "no shipped file")]
)
def test_a_chain_that_is_not_there(name, told, capsys):
    assert main(["run", "--chain", name]) == 2
    assert told in capsys.readouterr().err


def test_neither_a_program_nor_a_chain(capsys):
    assert main(["run"]) == 2
    assert "no program is named" in capsys.readouterr().err


# -- places and expressions ------------------------------------------------------------------------


def test_places_of_keys_and_values():
    text = "a = 1 # b = 2\n[t.\"x.y\"]\nc = [1, { d = \"]\" }]\n[[l]]\ne.f = '''\n3'''\n[[l]]\n[l.g]\nh = 2.5\n"
    places = Places.of(Source("f", text))
    shown = {path: span.text for path, span in places.values.items()}
    assert shown == {
        ("a",): "1",
        ("t", "x.y", "c"): '[1, { d = "]" }]',
        ("t", "x.y", "c", 0): "1",
        ("t", "x.y", "c", 1): '{ d = "]" }',
        ("t", "x.y", "c", 1, "d"): '"]"',
        ("l", 0, "e", "f"): "'''\n3'''",
        ("l", 1, "g", "h"): "2.5",
    }
    assert places.key(("l", 1)).line == 7
    assert places.value(("l", 1, "g", "missing")).line == 8


@pytest.mark.parametrize(
    ("text", "second"),
    [
        ('["""a"""", "}"]', '"}"'),
        ('["""a""""", "]"]', '"]"'),
        ("['''a''''', '}']", "'}'"),
        ('["""a"""", # "}"\n"b"]', '"b"'),
        ('["""\\""""", 2]', "2"),
        ('["""""", 2]', "2"),
        ('[{a = ["""b"""", "}"]}, {}]', "{}"),
        ("[}, 2]", ""),
        ("[{]}, 2]", ""),
    ],
)
def test_places_of_a_list_with_quotation_marks(text, second):
    """One or two may be right before the three that end a text; of what is no TOML there is an end."""
    places = Places.of(Source("f", f"a = {text}"))
    assert not second or places.values["a", 1].text == second


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("i * 2 + 1", 9), ("(i + j) // 3", 3), ("-i % 3", 2), ("j", 6)],
)
def test_expressions(text, value):
    assert value_of(text, {"i": 4, "j": 6}) == value


@pytest.mark.parametrize(
    "text", ["", "i +", "k", "i ** 2", "f(i)", "i.real", "1.5", "i // 0", "'a'"]
)
def test_what_is_no_expression(text):
    with pytest.raises(ExpressionError):
        value_of(text, {"i": 4})


@pytest.mark.parametrize("text", ["a b", "a[1", "a[]", "[1]", "a[1][2]", "a[1:2:3]"])
def test_what_is_no_window(text):
    with pytest.raises(ExpressionError):
        window_of(text)
