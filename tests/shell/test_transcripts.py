"""Screens of 80, 100 and 140 columns show, to the character, what is kept; nothing leaves the screen."""

from __future__ import annotations

import re

import pytest

from tests.shell.transcripts import COMMANDS, KEPT, folder, transcript


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    path = tmp_path_factory.mktemp("programs")
    folder(path)
    return path


@pytest.mark.sampled(2, 5)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_screen_shows_what_is_kept(programs, monkeypatch, name: str) -> None:
    monkeypatch.chdir(programs)
    assert "".join(transcript(name)) == (KEPT / f"{name}.txt").read_text(encoding="utf-8")


def test_lines_fit() -> None:
    """A line longer than its screen is one word, which stays whole to be copied."""
    for name in COMMANDS:
        parts = re.split(
            r"^---- (\d+) columns: .*\n", (KEPT / f"{name}.txt").read_text("utf-8"), flags=re.M
        )
        for columns, text in zip(parts[1::2], parts[2::2], strict=True):
            long = [line for line in text.splitlines() if len(line) > int(columns)]
            assert [line for line in long if len(line.split()) > 1] == [], name
