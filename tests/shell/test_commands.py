"""What a new command gets by declaring its phases: it cannot forget what every command has."""

from __future__ import annotations

import argparse
from dataclasses import fields

import pytest

from ptosim.launch.compare import Choices
from ptosim.launch.description import OPTIONS
from ptosim.launch.prepared import RunOptions
from ptosim.shell import command, launching, main, options
from ptosim.shell.options import LAUNCH, group, option, program
from ptosim.views.report import Report, one_section
from ptosim.views.table import number, table


def names_of_arguments(asked: argparse.Namespace, terminal: object) -> Report:
    """A command that launches: what its program is called with."""
    (choices,) = launching.each_target(asked)
    loaded = choices.program()
    cells = [(a.name, len(a.shape or ())) for a in loaded.signature(loaded.entry(choices.entry))]
    made = table("arguments", ("name", number("rank")), cells)
    return one_section([made], made.to_dict, title="arguments", is_quiet=True)


@pytest.fixture
def declared(monkeypatch):
    """Register `arguments` as a command with what is declared."""

    def register(*phases):
        monkeypatch.setitem(main.COMMANDS, "arguments", "what a program is called with")
        monkeypatch.setitem(command._KNOWN, "arguments", None)
        register = command.command("arguments", *phases, forms=("text", "json", "html"))
        register(names_of_arguments)

    return register


def test_a_command_is_its_phases_a_call_and_a_report(declared, cli):
    declared(program(), group("run", LAUNCH))
    assert "rank" in cli("arguments", "@basics/vadd", "--entry", "vadd").out
    assert '"unit": ""' in cli("arguments", "@basics/vadd", "--format", "json").out
    assert "<th>name</th>" in cli("arguments", "@basics/vadd", "--format", "html").out
    assert cli("arguments", "@basics/vadd", "-q").out == ""
    assert cli("arguments", "@basics/vadd", "--max-seconds", "60").code == 0
    assert cli("arguments", "@basics/vadd", "--seed", "x").code == 2


def test_a_command_that_forgets_the_options_of_a_launch_has_their_defaults(declared, cli):
    """Nothing of a launch is declared here, and the launch is that of the sidecar."""
    declared(option("file"))
    outcome = cli("arguments", "@basics/vadd")
    assert (outcome.code, outcome.err) == (0, "")
    assert cli("arguments", "@basics/vadd", "--arg", "n=1").code == 2


def test_what_can_be_chosen_of_a_launch_has_an_option():
    """Command line, sidecar and Python have the same names for the same choices."""
    known = {each.dest for each in options.every()}
    given = {"args": "arg", "switches": "set", "sidecar": "file", "defines": "define",
             "parameters": "file", "dump": "file"}  # fmt: skip
    chosen = {given.get(f.name, f.name) for f in fields(Choices)}
    assert chosen - {"schedule"} <= known  # an order of effects is a choice of `run` alone
    assert {*OPTIONS} <= chosen
    assert {f.name for f in fields(RunOptions)} - {"in_place", "sizes", "popped"} <= chosen


def test_a_file_gives_options_in_the_words_of_the_command_line():
    """As a task of `quant plan` does: numbers, lists and switches of TOML or JSON."""
    by_name = {each.dest: each for each in options.every()}
    assert by_name["arg"].taken(["n=1", "m=2"]) == ["n=1", "m=2"]
    assert by_name["block_num"].taken(4) == 4
    assert by_name["legacy"].taken(True) is True
    assert by_name["target"].taken(["a2a3", "a5"]) == "a2a3,a5"
    for name, value in (("legacy", 1), ("block_num", "4"), ("entry", {"a": 1})):
        with pytest.raises(options.UsageError):
            by_name[name].taken(value)


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_has_the_limits_and_the_cache(name):
    parser = argparse.ArgumentParser()
    command.load(name).configure(parser, ("types",) if name == "quant" else ())
    if name == "quant":
        (choices,) = (a.choices for a in parser._actions if a.dest == "subcommand")
        parser = choices["types"]
    assert {"--max-seconds", "--max-memory", "--no-cache"} <= {*parser._option_string_actions}
