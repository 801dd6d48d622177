"""The bench is a tool that is run now and then: what it switches off must be there still."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parents[1] / "bench"
_FILES = sorted(path.stem for path in _FOLDER.glob("*.py") if path.stem != "__main__")


def _switched_off(tree: ast.Module) -> list[tuple[str, str]]:
    """Return module and name of each `without(module, "name")`."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [
        (ast.unparse(call.args[0]), ast.literal_eval(call.args[1]))
        for call in calls
        if ast.unparse(call.func).rpartition(".")[2] == "without"
    ]


@pytest.mark.parametrize("name", _FILES)
def test_what_a_measure_switches_off_is_there(name: str) -> None:
    """One did not, as its function had moved: the whole bench ended there, after a quarter of an
    hour and without a line."""
    module = importlib.import_module(f"tests.bench.{name}")
    for owner, word in _switched_off(ast.parse((_FOLDER / f"{name}.py").read_text())):
        assert hasattr(getattr(module, owner), word), f"{owner} has no {word}"
