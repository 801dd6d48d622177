"""`check --contract` says what a kernel requires of its caller, and what it does."""

from __future__ import annotations

import json

import pytest

import ptosim
from tests.launch.paths.kernels import ORDERED, PART, TILE, kernel
from tests.launch.paths.test_requirements import window

BLOCK = "%b = pto.get_block_idx -> i64\n%i = arith.index_cast %b : i64 to index\n"


def contract(cli, tmp_path, body: str, args: str = "%n: index", *options: str) -> dict:
    name = str(tmp_path / "k.pto")
    (tmp_path / "k.pto").write_text(kernel(body, args))
    told = cli("check", "--sync", "manual", name, "--contract", "--format", "json", *options)
    (made,) = json.loads(told.out)["programs"][0]["contract"]
    return made


def test_arguments_are_read_written_or_both(cli, tmp_path):
    added = f"pto.tstore ins(%t : {TILE}) outs(%px : {PART}) {{atomicType = #pto<atomic_type atomic_add>}}"
    made = contract(cli, tmp_path, ORDERED)
    access = {a["name"]: a.get("access") for a in made["arguments"]}
    assert access == {"x": "read", "y": "written", "d": "not used", "n": None}
    (x,) = [a for a in made["arguments"] if a["name"] == "x"]
    text = (tmp_path / "k.pto").read_text().splitlines()
    assert [text[line - 1].strip().split()[0] for line in x["read"]] == ["pto.tload"]
    made = contract(cli, tmp_path, f"{ORDERED}\n{added}")
    (x,) = [a for a in made["arguments"] if a["name"] == "x"]
    assert (x["access"], len(x["read"]), len(x["written"])) == ("in-out", 2, 1)


def test_what_may_be_counted_on_of_a_pointer(cli, tmp_path):
    """C.4: a kernel gets a place inside of a buffer, and two arguments may name one."""
    (x, *_) = contract(cli, tmp_path, ORDERED)["arguments"]
    assert (x["aligned"], x["may_share"], x["per_block"]) == (4, True, False)


def test_scalars_have_their_values(cli, tmp_path):
    made = contract(cli, tmp_path, window("%o = arith.addi %n, %c0 : index"))
    (n,) = [a for a in made["arguments"] if a["name"] == "n"]
    assert (n["role"], n["low"], n["high"]) == ("free", 0, 15)
    assert [r["text"] for r in made["requirements"]] == ["0 <= n <= 15"]
    made = contract(cli, tmp_path, ORDERED)
    (n,) = [a for a in made["arguments"] if a["name"] == "n"]
    assert (n["low"], n["high"], made["requirements"]) == (None, None, [])


def test_what_no_sum_says_is_in_the_contract(cli, tmp_path):
    """A row that a product says: the kernel does not require nothing."""
    made = contract(cli, tmp_path, BLOCK + window("%o = arith.muli %i, %n : index"))
    assert [u["symbols"] for u in made["unsaid"]] == [["block", "n"]]
    told = cli("check", "--sync", "manual", str(tmp_path / "k.pto"), "--contract").out
    assert "more than sums say is asked in line" in told
    assert "requires nothing" not in told


def test_how_many_blocks_and_in_which_order(cli, tmp_path):
    row = BLOCK + window("%o = arith.muli %i, %c8 : index")
    assert contract(cli, tmp_path, row)["launch"]["most"] == {"block": 2}
    assert contract(cli, tmp_path, row)["blocks"]["any_order"] is True
    made = contract(cli, tmp_path, f"{BLOCK}{ORDERED}")["blocks"]
    assert made["any_order"] is False
    assert "two blocks reach the same bytes" in made["why"]


def test_it_is_read_as_text_and_as_a_page(cli, tmp_path):
    (tmp_path / "k.pto").write_text(kernel(window("%o = arith.addi %n, %c0 : index")))
    name, page = str(tmp_path / "k.pto"), tmp_path / "k.html"
    told = cli("check", "--sync", "manual", name, "--contract").out
    assert "contract of @k" in told
    assert "0 <= n <= 15" in told
    assert "blocks may run in any order" in told
    assert cli("check", "--sync", "manual", name, "--contract", "-o", str(page)).code == 0
    assert "Contract of @k" in page.read_text()


@pytest.mark.parametrize("other", ["--no-dry-run", "--dump"])
def test_what_is_not_followed_has_no_contract(cli, tmp_path, other):
    (tmp_path / "k.pto").write_text(kernel(ORDERED))
    assert cli("check", str(tmp_path / "k.pto"), "--contract", other).code == 2


def test_python_has_it_as_json_does(cli, tmp_path):
    text = kernel(window("%o = arith.addi %n, %c0 : index"))
    found = ptosim.check(text, sync="manual", contract=True)
    (tmp_path / "k.pto").write_text(text)
    told = cli(
        "check", "--sync", "manual", str(tmp_path / "k.pto"), "--contract", "--format", "json"
    )
    assert found.contracts == json.loads(told.out)["programs"][0]["contract"]
    assert found.contracts[0]["requirements"] == found.requirements
    assert ptosim.check(text, sync="manual").contracts == []
    with pytest.raises(ptosim.UsageError):
        ptosim.check(text, contract=True, dry_run=False)
