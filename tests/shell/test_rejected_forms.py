"""What a report says in each of its forms where the program is rejected; JSON that is JSON."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from ptosim.views import table

REJECTED = "@broken/element_types"


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
    assert json.loads(table.document({"a": np.float32(0.5), "b": (1, np.int64(2))})) == {
        "a": 0.5,
        "b": [1, 2],
    }
    assert json.loads(table.line([float("nan"), float("-inf")])) == ["nan", "-inf"]
    with pytest.raises(TypeError):
        table.document({"a": object()})


def test_a_profile_that_is_named_goes_over_that_of_the_sidecar(tmp_path, cli):
    """Also where it is the default one."""
    source = "func.func @kernel() {\n  return\n}\n"
    (tmp_path / "k.pto").write_text(source)
    (tmp_path / "k.toml").write_text('profile = "page"\n')
    given = [json.loads(cli("run", tmp_path / "k.pto", *more, "--format", "json").out)["profile"]
             for more in ((), ("--profile", "hw"))]  # fmt: skip
    assert given == ["page", "hw"]
