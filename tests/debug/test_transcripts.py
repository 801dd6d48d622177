"""Scripted sessions say, word for word, what their transcripts say; every command is in one of them.

After a change that is meant, `python -m tests.debug.transcripts` writes them anew."""

from __future__ import annotations

import pytest

from ptosim.debug.commands.table import ALIASES, COMMANDS, load
from tests.debug.transcripts import SCRIPTS, golden, session


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_a_script_says_what_its_transcript_says(script, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    code, text = session(script)
    assert f"{text}exit code {code}\n" == golden(script).read_text()


def test_every_command_is_in_a_transcript():
    load()
    lines = "\n".join(s.read_text() for s in SCRIPTS).splitlines()
    words = {line.split()[0] for line in lines if line.strip()}
    used = {ALIASES.get(word, word) for word in words}
    assert sorted(set(COMMANDS) - used) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_tables_keep_to_the_width(script, monkeypatch):
    """Lines of text are never broken, tables always fit."""
    monkeypatch.setenv("COLUMNS", "100")
    _, text = session(script, columns=60)
    for line in text.splitlines():
        assert len(line) <= 60 or "─" not in line
