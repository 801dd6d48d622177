"""`ptosim check`: which findings are shown, in which form, what --fix does to a file."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import jsonschema
import pytest

import ptosim
from tests.engine.sanitize.test_races import ADD, LOAD_ADD_STORE, flag, loop, pair
from tests.ops.semantics.test_sync import program
from tests.shell.programs import PART, TILE, copy_program
from tests.support.sarif_schema import SCHEMA, published

RACY = program(LOAD_ADD_STORE.replace(f"{pair('V', 'MTE3')}\n", ""))
OLD = (
    "!pto.tile_buf<dtype=f32, loc=vec, rows=16, cols=64, v_row=16, v_col=64, blayout=row_major, "
    "slayout=none_box, fractal=512, pad=0>"
)
LEGACY = f"%old = pto.alloc_tile : {OLD}"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a program under a name, in the directory of the run."""
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "k.pto"):
        (tmp_path / name).write_text(text)
        return name

    return write


def found(cli, *arguments) -> list[str]:
    lines = cli("check", *arguments, "--format", "jsonl").out.splitlines()
    return [json.loads(line).get("code", "omitted") for line in lines]


TWO_ERRORS = copy_program("    pto.tmow ins(%a : f32)\n    pto.tmov ins(%q : f32) outs(%b : f32)")


# -- the dry run ----------------------------------------------------------------------------------


def test_races_are_found_without_values(cli, write):
    outcome = cli("check", write(RACY))
    assert outcome.code == 1
    assert "PTO5201" in outcome.err
    assert "dry run @k: to its end" in outcome.out
    assert cli("check", write(program(LOAD_ADD_STORE))).code == 0
    assert found(cli, "k.pto", "--no-dry-run") == []
    assert cli("check", "k.pto", "--no-dry-run").code == 0, "the assembler accepts it"


def test_the_api_finds_the_same():
    assert [d.code for d in ptosim.check(RACY)] == ["PTO5201"]


def test_deadlocks_and_flags_are_found_without_values(cli, write):
    wait = flag("wait", "MTE2", "MTE3")
    assert "PTO5006" in found(cli, write(program(f"{wait}\nLOAD\nSTORE")))
    assert "PTO5211" in found(
        cli, write(program(f"LOAD\n{pair('MTE2', 'MTE3')}\nSTORE\n{flag('set', 'V', 'S')}"))
    )


SCALAR = "%y: !pto.ptr<f32>"


def test_the_dry_run_says_where_it_ends(cli, write):
    text = program(loop(LOAD_ADD_STORE)).replace(SCALAR, f"{SCALAR}, %n: index")
    name = write(text.replace("%c0 to %c2", "%c0 to %n"))
    told = cli("check", name, "--no-explore")
    assert told.code == 0
    assert "depends on argument `n`, which is not given (--arg n=…)" in told.err
    assert "dry run" not in told.out, "it is said once"
    assert found(cli, name, "--no-explore") == ["PTO6050"]
    assert "PTO5202" in found(cli, name), "some n shows it"
    assert "PTO5202" in found(cli, name, "--arg", "n=2")  # the next load overtakes the store
    read = "%v = pto.load_scalar %x[%c0] : !pto.ptr<f32> -> f32\n"
    branch = "%t = arith.cmpf ogt, %v, %v : f32\nscf.if %t {\nLOAD\n}"
    text = program(f"{read}{branch}\nLOAD\npto.barrier <PIPE_ALL>\nSTORE")
    outcome = cli("check", write(text), "--no-explore")
    assert "'scf.if' depends on data that 'pto.load_scalar' reads in line 13" in outcome.err
    stored = f"{read}pto.store_scalar %v, %y[%c0] : !pto.ptr<f32>, f32\nLOAD\nSTORE"
    assert "PTO5201" in found(cli, write(program(stored)), "--sync", "manual")
    used = f"{read}pto.tadds ins(%a, %v : {TILE}, f32) outs(%a : {TILE})"
    kept = program(f"LOAD\n{pair('MTE2', 'V')}\n{used}\nSTORE")
    assert found(cli, write(kept)) == ["PTO5201"]  # a value that nothing depends on


# -- selection ------------------------------------------------------------------------------------


def test_select_and_ignore(cli, write):
    name = write(TWO_ERRORS)
    assert sorted(set(found(cli, name))) == ["PTO1001", "PTO1003", "PTO1005"]
    assert set(found(cli, name, "--select", "PTO1001")) == {"PTO1001"}
    assert set(found(cli, name, "--ignore", "pto1001,PTO1005")) == {"PTO1003"}
    assert set(found(cli, name, "--ignore", "PTO1", "--select", "PTO1003")) == {"PTO1003"}
    assert found(cli, name, "--select", "PTO2,PTO3") == []
    outcome = cli("check", name, "--ignore", "PTO1")
    assert outcome.code == 3, "it is rejected all the same"
    assert "hidden by --select/--ignore" in outcome.out


def test_what_is_left_out_does_not_fail(cli, write):
    assert cli("check", write(RACY), "--ignore", "PTO52").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--select", "PTO9999"], "no diagnostic code `PTO9999`"),
        (["--ignore", "PTO5,races"], "no diagnostic code `RACES`"),
        (["--select", "PTO5201", "--ignore", "PTO5201"], "contradict each other on PTO5201"),
        (["--fix", "--diff"], "--fix and --diff contradict"),
        (["-q", "-v"], "--quiet and --verbose contradict"),
        (["--no-dry-run", "--arg", "x=1"], "--no-dry-run switches off"),
        (["--arg", "x"], "NAME=VALUE"),
        (["--entry", "nope"], "no entry `nope`"),
        (["--set", "a=b"], "unknown switch"),
    ],
)
def test_options_that_mean_nothing(cli, write, arguments, words):
    outcome = cli("check", write(RACY), *arguments)
    assert outcome.code == 2
    assert words in outcome.err


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_a_cap_is_a_number_from_1_on(cli, write, count):
    outcome = cli("check", write(RACY), f"--max-findings={count}")
    assert outcome.code == 2
    assert "number from 1 on" in outcome.err


def test_no_finding_hides_another(cli, write):
    """Every missing flag is its own finding, and the cap counts what it cuts off."""
    name = write(program(f"LOAD\n{ADD}\nSTORE"))
    manual = ("--sync", "manual")
    every = found(cli, name, *manual)
    assert every.count("PTO5201") >= 2
    capped = cli("check", name, *manual, "--max-findings", "1")
    assert capped.err.count("error[") == 1
    assert f"{len(every) - 1} more finding" in capped.err
    assert capped.code == 1
    document = json.loads(
        cli("check", name, *manual, "--max-findings", "1", "--format", "json").out
    )
    assert len(document["findings"]) == 1
    assert document["omitted"] == len(every) - 1
    assert found(cli, name, *manual, "--max-findings", "1")[-1] == "omitted"


# -- forms ----------------------------------------------------------------------------------------


def sarif(cli, *arguments) -> dict:
    log = json.loads(cli("check", *arguments, "--format", "sarif").out)
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(log, SCHEMA)
    published().validate(log)
    return log["runs"][0]


def test_sarif_follows_the_schema(cli, write):
    write(RACY, "a b.pto")
    results = sarif(cli, "a b.pto")["results"]
    (race,) = results
    location = race["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "a%20b.pto", "uriBaseId": "%SRCROOT%"}
    assert race["ruleId"] == "PTO5201"
    assert race["level"] == "error"
    assert race["relatedLocations"], "the other side of the race"
    assert [r["insertedContent"]["text"].strip() for r in race["fixes"][0]["artifactChanges"][0]["replacements"]] == [
        flag("set", "V", "MTE3"), flag("wait", "V", "MTE3")]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [TWO_ERRORS, copy_program(), "", "module {\n", "\x00\ufffd", program(LEGACY)],
    ids=["errors", "clean", "empty", "open", "garbage", "legacy"],
)
def test_sarif_of_anything_follows_the_schema(cli, write, text):
    run = sarif(cli, write(text), "--fail-on", "never")
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [rules[r["ruleIndex"]] for r in run["results"]] == [r["ruleId"] for r in run["results"]]


def test_the_published_schema_refuses_what_it_does_not_know(cli, write):
    """The check of the check: a wrong level, a place without a file."""
    log = json.loads(cli("check", write(RACY), "--format", "sarif").out)
    result = log["runs"][0]["results"][0]
    for key, value in (("level", "fatal"), ("locations", [{"where": 1}]), ("ruleIndex", "0")):
        wrong = {**log, "runs": [{**log["runs"][0], "results": [{**result, key: value}]}]}
        assert not published().is_valid(wrong), key


@pytest.mark.slow
def test_sarif_of_the_broken_gallery_follows_the_schema(cli):
    from ptosim.launch.sources import shipped_names

    names = [f"@{n}" for n in shipped_names() if n.startswith("broken/")]
    assert len(sarif(cli, *names)["results"]) > len(names) // 2


def test_fingerprints_are_stable_and_unique(cli, write):
    def prints(name):
        return [r["partialFingerprints"]["ptosim/v1"] for r in sarif(cli, name)["results"]]

    first = prints(write(TWO_ERRORS))
    assert prints(write(f"// a line more\n\n{TWO_ERRORS}")) == first
    assert len(set(first)) == len(first)


def test_junit(cli, write):
    write(RACY, "bad.pto")
    write(copy_program(), "good.pto")
    outcome = cli("check", "bad.pto", "good.pto", "--format", "junit")
    root = ElementTree.fromstring(outcome.out)
    suites = {s.get("name"): s for s in root}
    assert root.get("failures") == "1"
    assert suites["good.pto [a5]"].find("testcase/failure") is None
    failure = suites["bad.pto [a5]"].find("testcase/failure")
    assert failure is not None
    assert "set_flag" in (failure.text or "")
    warned = cli("check", write(program(LEGACY), "warn.pto"), "--legacy", "--format", "junit")
    assert ElementTree.fromstring(warned.out).get("failures") == "0"


def test_junit_carries_any_text(cli, write):
    ElementTree.fromstring(cli("check", write("\x01\x0b <&> ]]> \ufffe"), "--format", "junit").out)


def test_the_report_says_what_was_checked(cli, write):
    line = cli("check", write(RACY)).out.splitlines()[0]
    for word in (
        "ptosim ",
        "k.pto",
        "target a5",
        "level 2",
        "sync manual",
        "profile hw",
        "entry k",
    ):
        assert word in line
    (fields,) = json.loads(cli("check", "k.pto", "--format", "json").out)["programs"]
    assert (fields["target"], fields["sync"], fields["entry"]) == ("a5", "manual", "k")


# -- fix-its --------------------------------------------------------------------------------------


def test_fix_inserts_the_flags_and_shows_the_diff(cli, write, tmp_path):
    name = write(program(f"LOAD\n{pair('MTE2', 'MTE3')}\n{ADD}\nSTORE"))
    before = (tmp_path / name).read_text()
    shown = cli("check", name, "--diff")
    whole = cli("check", tmp_path / name, "--diff").out.splitlines()
    assert whole[0] == f"--- a{tmp_path / name}", "as git writes it, without a second slash"
    assert (tmp_path / name).read_text() == before
    outcome = cli("check", name, "--fix")
    assert outcome.code == 0, outcome.err
    for text in (shown.out, outcome.out):
        assert f"+{flag('set', 'MTE2', 'V')}" in text.replace("+    ", "+")
    assert "fix-its applied" in outcome.err
    mended = (tmp_path / name).read_text()
    assert [d.code for d in ptosim.check(mended)] == []
    assert "no fix-its to apply" in cli("check", name, "--fix").err


def test_fix_modernises_old_spellings(cli, write):
    name = write(program(f"LOAD\n{LEGACY}\nSTORE"))
    old = found(cli, name)
    assert old.count("PTO0010") >= 1
    cli("check", name, "--fix")
    assert "PTO0010" not in found(cli, name)


def test_old_view_types_are_written_as_windows(cli, write):
    name = write(program("LOAD\nSTORE").replace(PART, PART.replace("partition_tensor", "tile")))
    assert f"write `{PART}`" in cli("check", name).err
    cli("check", name, "--fix")
    assert "PTO0010" not in found(cli, name)


def test_a_fix_that_mends_nothing_is_taken_back():
    from ptosim.ground.diagnostics.fix import repair
    from ptosim.ground.diagnostics.model import Fix, finding
    from ptosim.ground.source import Source, Span

    def check(source: Source):
        span = Span(source, 0, 1)
        return [finding("PTO5201", "stays", span, fixes=(Fix(span, source.text[0] + "x"),))]

    repaired = repair(Source("k", "abc"), check)
    assert repaired.source.text == "abc"
    ((stuck, reason),) = repaired.stuck
    assert stuck.code == "PTO5201"
    assert "still there" in reason


def test_overlapping_edits_are_refused():
    from ptosim.ground.diagnostics.fix import applied
    from ptosim.ground.diagnostics.model import Fix
    from ptosim.ground.source import Source, Span

    source = Source("k", "abcdef")
    fixes = [Fix(Span(source, 0, 3), "x"), Fix(Span(source, 2, 4), "y")]
    assert applied(source.text, fixes) is None
    twice = [
        Fix(Span(source, 2, 2), "x"),
        Fix(Span(source, 2, 2), "x"),
        Fix(Span(source, 2, 2), "y"),
    ]
    assert applied(source.text, twice) == "abxycdef"


def test_a_file_that_changed_meanwhile_is_left_alone(cli, write, tmp_path, monkeypatch):
    from ptosim.shell import fixing

    name = write(RACY)
    real = fixing.repair

    def slow(source, check):
        (tmp_path / name).write_text("// somebody else was here\n")
        return real(source, check)

    monkeypatch.setattr(fixing, "repair", slow)
    outcome = cli("check", name, "--fix")
    assert outcome.code == 2
    assert "changed while it was checked" in outcome.err
    assert (tmp_path / name).read_text() == "// somebody else was here\n"


def test_what_is_no_file_cannot_be_rewritten(cli):
    outcome = cli("check", "@basics/vadd", "--fix")
    assert outcome.code == 2
    assert "a shipped program is none" in outcome.err
