"""A form of a report is a name with its writer: what has no writer cannot be asked for."""

from __future__ import annotations

import argparse
import importlib

import pytest

from ptosim.cli.main import COMMANDS, main


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Every command and every command of a command, with its parser."""
    found: dict[str, argparse.ArgumentParser] = {}
    for name in COMMANDS:
        parser = argparse.ArgumentParser(prog=name)
        importlib.import_module(f"ptosim.cli.{name}_command").configure(parser)
        found[name] = parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                found |= {f"{name} {word}": sub for word, sub in action.choices.items()}
    return found


PARSERS = parsers()
WITH_FORMAT = [name for name, p in PARSERS.items() if "--format" in p._option_string_actions]


def test_there_are_commands_with_formats():
    assert len(WITH_FORMAT) >= 12


@pytest.mark.parametrize("name", WITH_FORMAT)
def test_every_format_has_its_writer(name):
    parser = PARSERS[name]
    writers = parser.get_default("writers")
    assert tuple(parser._option_string_actions["--format"].choices) == tuple(writers)
    assert all(callable(writer) for writer in writers.values())


@pytest.mark.parametrize("name", WITH_FORMAT)
def test_a_format_without_a_writer_is_refused(name, capsys):
    assert main([*name.split(), "--format", "yaml"]) == 2
    assert "invalid choice: 'yaml'" in capsys.readouterr().err
