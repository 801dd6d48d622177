"""Every form of a report has its writer, and a program that is rejected is told in the form asked for."""

from __future__ import annotations

import json
from importlib import import_module
from xml.etree import ElementTree

import numpy as np
import pytest

from ptosim.cli.main import COMMANDS
from ptosim.cli.quant_command import SUBCOMMANDS
from ptosim.views import json_text

MODULES = [f"{name}_command" for name in COMMANDS] + [f"quant_{name}" for name in SUBCOMMANDS]
REJECTED = "@broken/element_types"


@pytest.mark.parametrize("module", MODULES)
def test_the_forms_offered_are_those_with_a_writer(module):
    """`add_output` is the only place that declares --format; it takes the table of writers."""
    import argparse

    parser = argparse.ArgumentParser()
    import_module(f"ptosim.cli.{module}").configure(parser)
    writers = parser.get_default("writers")
    choices = next((a.choices for a in parser._actions if a.dest == "format"), None)
    assert (writers is None) == (choices is None)
    if writers is not None:
        assert list(choices) == list(writers)
        assert all(map(callable, writers.values()))


def test_a_rejected_program_as_junit(cli):
    found = cli("check", REJECTED, "--format", "junit")
    assert found.code == 3
    suite = ElementTree.fromstring(found.out)[0]
    assert int(suite.get("failures", "0")) >= 1


def test_a_rejected_program_gives_no_json_for_csv(cli):
    """CSV has no form for findings: they are text on standard error, and the report is empty."""
    found = cli("cost", REJECTED, "--target", "a5", "--format", "csv")
    assert (found.code, found.out) == (3, "")
    assert "error[PTO" in found.err
    both = cli("cost", REJECTED, "--target", "a2a3,a5", "--format", "csv")
    assert (both.code, len(both.out.splitlines())) == (3, 1)  # the names of the columns
    assert "error[PTO" in both.err


def test_json_is_strict():
    assert json.loads(json_text.document({"a": np.float32(0.5), "b": (1, np.int64(2))})) == {
        "a": 0.5,
        "b": [1, 2],
    }
    assert json.loads(json_text.line([float("nan"), float("-inf")])) == ["nan", "-inf"]
    with pytest.raises(TypeError):
        json_text.document({"a": object()})


def test_a_profile_that_is_named_goes_over_that_of_the_sidecar(tmp_path, cli):
    """Also where it is the default one."""
    source = "func.func @kernel() {\n  return\n}\n"
    (tmp_path / "k.pto").write_text(source)
    (tmp_path / "k.toml").write_text('profile = "page"\n')
    given = [json.loads(cli("run", tmp_path / "k.pto", *more, "--format", "json").out)["profile"]
             for more in ((), ("--profile", "hw"))]  # fmt: skip
    assert given == ["page", "hw"]
