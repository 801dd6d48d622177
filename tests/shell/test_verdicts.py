"""What a check said is remembered: the same bytes without checking, and only for the same text,
options and installation."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import ptosim.tools.api as api
from ptosim.ground.diagnostics.model import finding
from ptosim.ground.isa import cache
from ptosim.ground.isa.cache import programs_directory
from ptosim.ground.source import Source, Span
from ptosim.tools import verdicts
from ptosim.views.render import FOR_FINDINGS

CLEAN = "basics/vadd.pto"


@pytest.fixture
def counted(monkeypatch, tmp_path: Path) -> list[str]:
    """Verdicts are kept in a folder of their own; gives the names of what was really checked."""
    monkeypatch.setenv("PTOSIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(verdicts, "ENABLED", True)
    real, checked = api.check_source, []

    def check_source(source: Source, *args: object, **options: object) -> api.Checked:
        checked.append(Path(source.name).name)
        return real(source, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(api, "check_source", check_source)
    return checked


@pytest.fixture
def broken() -> list[Path]:
    """Shipped programs with findings of many kinds: places, notes, fixes, races, traps."""
    return sorted((programs_directory() / "broken").glob("*.pto"))[::3]


def test_the_second_time_says_the_same(cli, counted, broken):
    for path in broken:
        first = cli("check", path, "-v")
        number = len(counted)
        again = cli("check", path, "-v")
        assert (first.code, first.out, first.err) == (again.code, again.out, again.err)
        assert len(counted) == number, path


@pytest.mark.parametrize("form", ["text", *FOR_FINDINGS])
def test_every_form_says_the_same(cli, counted, broken, form):
    first, again = (cli("check", *broken[:3], "--format", form) for _ in range(2))
    assert (first.code, first.out, first.err) == (again.code, again.out, again.err)
    assert len(counted) == 3


def test_what_changes_is_checked_again(cli, counted, tmp_path, monkeypatch):
    """Another text, name, target, option, or file of the installation."""
    path = tmp_path / "k.pto"
    shutil.copy(programs_directory() / CLEAN, path)
    asked = (
        [path], [path, "--target", "a5"], [path, "--no-dry-run"], [path, "--profile", "page"],
        [path, "--sync", "manual"],
    )  # fmt: skip
    for number, words in enumerate(asked, 1):
        cli("check", *words)
        cli("check", *words)
        assert len(counted) == number, words
    path.write_text(path.read_text() + "\n")
    cli("check", path)
    assert len(counted) == 6
    other = tmp_path / "other.pto"
    shutil.copy(path, other)
    cli("check", other)
    assert counted[6:] == ["other.pto"]
    monkeypatch.setattr(verdicts, "installed", lambda: "of somewhere else")
    cli("check", other)
    assert counted[6:] == ["other.pto", "other.pto"]


def test_what_a_flag_says_is_not_part_of_it(cli, counted):
    """What is shown of the findings is chosen each time."""
    program = programs_directory() / CLEAN
    cli("check", program)
    for words in (["-v"], ["--strict"], ["--select", "PTO5"], ["--fail-on", "never"]):
        assert cli("check", program, *words).code == 0
    assert len(counted) == 1


def test_arguments_limits_and_no_cache_check_each_time(cli, counted):
    program = programs_directory() / CLEAN
    for words in (["--arg", "n=4"], ["--max-seconds", "60"], ["--no-cache"]):
        number = len(counted)
        cli("check", program, *words)
        cli("check", program, *words)
        assert len(counted) == number + 2, words


def test_an_installation_that_cannot_be_listed_remembers_nothing(cli, counted, monkeypatch):
    """In an archive, or where the folder of the data is gone."""
    program = programs_directory() / CLEAN
    monkeypatch.setattr(cache, "isa_directory", lambda: Path("nowhere"))
    cache.installed.cache_clear()
    codes = [cli("check", program).code for _ in range(2)]
    cache.installed.cache_clear()
    assert (codes, len(counted)) == ([0, 0], 2)


def test_a_damaged_verdict_is_made_anew(cli, counted, tmp_path):
    program = programs_directory() / CLEAN
    whole = cli("check", program).out
    kept = next((tmp_path / "cache").glob("verdict-*.bin"))
    kept.write_bytes(kept.read_bytes()[:-1] + b"?")
    assert cli("check", program).out == whole
    assert len(counted) == 2


def test_a_place_in_another_text_is_not_kept():
    """What refers to a text that was made on the way cannot be found again by its places alone."""
    source, other = Source("k.pto", "func"), Source("generated", "func")
    mine = finding("PTO1001", "here", Span(source, 0, 1))
    theirs = finding("PTO1001", "there", Span(other, 0, 1))
    choices = verdicts.Choices("a5", "a5", "a5", "2026-08", 2, "auto", ())
    kept = verdicts.Verdict([mine], [mine], "", False, choices, [], [], [])
    assert verdicts.to_plain(kept, source) is not None
    assert verdicts.to_plain(kept._replace(findings=[mine, theirs]), source) is None
    odd = finding("PTO1001", "odd", Span(source, 0, 1), context={"what": object()})
    assert verdicts.to_plain(kept._replace(findings=[odd]), source) is None
