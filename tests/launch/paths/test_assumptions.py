"""What a user says of open numbers is kept to: values that break it are not tried."""

from __future__ import annotations

import json

import pytest

import ptosim
from tests.launch.paths.kernels import ORDERED, RACE, VIEW, WORD, inside, kernel
from tests.launch.paths.test_requirements import window

AT_ROW = window("%o = arith.addi %n, %c0 : index")
MORE = "%c = arith.cmpi sgt, %n, %c7 : index"


def errors(text: str, **options) -> list[ptosim.Diagnostic]:
    return [d for d in ptosim.check(text, sync="manual", **options) if d.is_error]


@pytest.mark.parametrize(
    ("assumed", "witness"),
    [
        ("n < 8", None), ("n <= 7", None), ("n % 16 == 0", 16), ("n % 16 == 0 and n > 40", 48),
        ("0 <= n - 10 < 5", 10), ("n * n == 121", 11), ("n == 3 or n == 70", 70), ("7 >= n", None),
        ("%n // 4 == 5", 20),
    ],
)  # fmt: skip
def test_a_fault_is_shown_for_values_that_are_assumed_only(assumed, witness):
    found = errors(kernel(inside(MORE, RACE)), assume=[assumed])
    assert [d.witness for d in found] == ([] if witness is None else [{"n": witness}])


@pytest.mark.parametrize(
    ("given", "witness"),
    [("1..7", None), ("1..8", 8), ("16..*:16", 16), ("1,2,40", 40), (range(1, 8), None),
     (range(0, 100, 30), 30)],
)  # fmt: skip
def test_a_range_is_given_as_an_argument(given, witness):
    found = errors(kernel(inside(MORE, RACE)), args={"n": given})
    assert [d.witness for d in found] == ([] if witness is None else [{"n": witness}])


@pytest.mark.parametrize(
    ("given", "requires", "is_all"),
    [("1,2,9", [], True), ("3..*:4", [("n <= 16", 19)], True), ("1,2,20", [("n <= 16", 20)], False)],
)  # fmt: skip
def test_values_and_multiples_are_decided(given, requires, is_all):
    """Rounds that no allowed number makes are not looked for; what is required is asked of all
    numbers, and what breaks it is one that is allowed. With 20 a check fails: what three rounds or
    more do is not seen."""
    rounds = f"scf.for %i = %c0 to %n step %c1 {{\n{window('%o = arith.addi %i, %c0 : index')}\n}}"
    found = ptosim.check(kernel(rounds), sync="manual", args={"n": given})
    assert [(r["text"], r["broken_by"]["n"]) for r in found.requirements] == requires
    (covered,) = found.coverage or ({"open": ["nothing"]},)
    if is_all:
        assert (covered["paths"], covered["trips"]) == ("all", "proven")
    assert (covered["open"] == []) == is_all


def test_two_numbers_are_assumed_of_each_other():
    text = kernel(inside("%c = arith.cmpi sgt, %n, %m : index", RACE), "%n: index, %m: index")
    assert errors(text)
    assert not errors(text, assume=["n <= m"])
    assert errors(text, assume=["n % 2 == 0", "m % 2 == 1"])


def test_what_memory_holds_is_assumed_too():
    text = kernel(inside(f"{WORD}\n%c = arith.cmpi sgt, %w, %c7 : index", RACE))
    codes = lambda **o: [d.code for d in ptosim.check(text, sync="manual", **o)]  # noqa: E731
    assert "PTO5290" in codes()
    assert "PTO5290" in codes(assume=["d[*] >= 0"])
    assert "PTO5290" not in codes(assume=["0 <= d[*] < 8"])
    assert "PTO5290" not in codes(assume=["d[2] == 7"])


def test_a_requirement_that_is_assumed_is_not_told():
    told = lambda **o: [r["text"] for r in ptosim.check(kernel(AT_ROW), **o).requirements]  # noqa: E731
    assert told() == ["0 <= n <= 15"]
    assert told(assume=["0 <= n <= 15"]) == []
    assert told(assume=["n >= 0"]) == ["n <= 15"]


def test_with_a_number_of_blocks_each_of_them_occurs():
    """Blocks of 8 rows: the view of 16 rows has two. A third is a fault of a launch of three."""
    block = "%b = pto.get_block_idx -> i64\n%i = arith.index_cast %b : i64 to index\n"
    text = kernel(block + window("%o = arith.muli %i, %c8 : index").replace("16x64xf32>\n", ""))
    every = ptosim.check(text, sync="manual")
    assert [r["text"] for r in every.requirements] == ["block <= 1: launch at most 2 blocks"]
    outside = lambda n: [  # noqa: E731
        d.witness for d in ptosim.check(text, sync="manual", blocks=n) if d.code == "PTO6101"
    ]
    assert (outside(2), outside(3)) == ([], [{"block": 2}])


def test_the_coverage_says_what_was_assumed():
    text = kernel(inside(MORE, ORDERED))
    (coverage,) = ptosim.check(text, sync="manual", assume=["n < 8"]).coverage
    assert (coverage["given"], coverage["runs"], coverage["open"]) == (["n < 8"], 1, [])


WRONG = {
    "n": "compares nothing", "n +": "is no assumption", "q < 3": "no argument is called `q`",
    "n < 3 and n > 5": "no value of `n` meets the assumptions",
    "n * 2 == 7 and n > 1": "no values were found that meet all assumptions",
    "__import__('os').getcwd() == 1": "is no assumption", "n.real < 1": "is no assumption",
    "n < 1.5": "is no assumption", "n ** 9 < 1": "is no assumption",
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_assumption_is_refused(text):
    with pytest.raises(ptosim.UsageError, match=WRONG[text].replace("`", "`")):
        ptosim.check(kernel(inside(MORE, RACE)), assume=[text])


def test_the_command_takes_assumptions_ranges_and_strict_coverage(cli, tmp_path):
    name = str(tmp_path / "k.pto")
    (tmp_path / "k.pto").write_text(kernel(inside(MORE, RACE)))
    check = lambda *words: cli("check", "--sync", "manual", name, *words)  # noqa: E731
    assert check().code == 1
    assert check("--assume", "n < 8").code == 0
    assert check("--arg", "n=1..7").code == 0
    assert check("--arg", "n=8..*").code == 1
    assert check("--assume", "n <").code == 2
    assert "--no-explore switches off" in check("--assume", "n < 8", "--no-explore").err
    assert check("--no-explore").code == 0
    assert check("--no-explore", "--strict-coverage").code == 1
    assert check("--no-explore", "--fail-on", "note:PTO6050").code == 1
    assert check("--no-explore", "--fail-on", "note:PTO6053").code == 0
    assert check("--assume", "n < 8", "--strict-coverage").code == 0
    told = json.loads(check("--assume", "n < 8", "--format", "json").out)
    assert told["programs"][0]["coverage"][0]["given"] == ["n < 8"]


def test_a_sidecar_assumes_and_names_indices(cli, tmp_path):
    name = str(tmp_path / "k.pto")
    (tmp_path / "k.pto").write_text(kernel(inside(MORE, RACE), "%n: index, %m: index"))
    (tmp_path / "k.toml").write_text('[assume]\nn = "1..7"\n')
    assert cli("check", "--sync", "manual", name).code == 0
    assert not [d for d in ptosim.check(name, sync="manual") if d.is_error]
    assert cli("check", "--sync", "manual", name, "--arg", "n=9").code == 1
    (tmp_path / "k.toml").write_text('[assume]\nm = "m <= 7"\n\n[index]\nn = "m"\n')
    assert cli("check", "--sync", "manual", name).code == 0  # n < m <= 7
    (tmp_path / "k.toml").write_text("[assume]\nn = 7\n")
    assert cli("check", name).code == 2


def test_a_view_of_a_range_of_rows_is_followed_inside_of_it():
    view = f"%v = pto.make_tensor_view %x, shape = [%n, %c64], strides = [%c64, %c1] : {VIEW}"
    body = view.replace("16x64", "?x64")
    assert errors(kernel(body), assume=["n % 8 == 0"]) == []
