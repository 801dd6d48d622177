"""The two verdicts on a program: the product's, and the graph's."""

from __future__ import annotations

import numpy as np

import ptosim
from tests.mutants.model import Model
from tests.mutants.regions import ELEMENTS, Region

RACES = frozenset(("PTO5201", "PTO5202", "PTO5203", "PTO5204", "PTO5205", "PTO5206"))


def told(model: Model) -> tuple[str, list[str]]:
    """Return what the product says of a model, in the graph's words, and its codes: of a check, or
    of a run where values decide who goes on."""
    told_by = _of_ranks if model.ranks else _of_run if model.needs_values else _of_check
    codes = told_by(model)
    if "PTO5004" in codes:
        return "misused", codes
    if "PTO5006" in codes:
        return "stuck", codes
    return ("race" if RACES & set(codes) else "ordered"), codes


ORDERS = frozenset(("PTO6610", "PTO6612", "PTO6613"))
UNSURE = frozenset(("chained", "hidden", "overtaken"))
"""Verdicts with which either answer is right: see `Region.verdict` and `Model.verdict`."""


def told_of_region(region: Region) -> tuple[str, list[str]]:
    """Return what a run says of a region, as `race` or `ordered`, and its codes."""
    x = np.random.default_rng(7).standard_normal(ELEMENTS).astype(np.float32)
    loaded = ptosim.load(region.text(), sync="manual", target=region.target)
    codes = [d.code for d in loaded.run({"x": x}, timing=False).findings]
    return ("race" if ORDERS & set(codes) else "ordered"), codes


def _of_check(model: Model) -> list[str]:
    found = ptosim.check(model.text(), sync="manual", target=model.target)
    rejected = [d for d in found if d.is_rejection]
    assert not rejected, (rejected[0].message, model.text())
    return [d.code for d in found]


def _of_run(model: Model) -> list[str]:
    loaded = ptosim.load(model.text(), sync="manual", target=model.target)
    given = {"x": np.ones((8, 64), np.float32), "y": np.ones((8, 64), np.float32)}
    cells = {name: np.zeros(1, np.int32) for name in ("sa", "sb")}
    try:
        return [d.code for d in loaded.run({**given, **cells}, timing=False).findings]
    except ptosim.Trap as stopped:
        return [d.code for d in stopped.diagnostics]


def _of_ranks(model: Model) -> list[str]:
    """The arrays of one name are one array, which ranks share."""
    loaded = ptosim.load(model.text(), sync="manual", target=model.target)
    made: dict[str, np.ndarray] = {}

    def array(name: str) -> np.ndarray:
        if name not in made:
            is_cell = name.startswith("cell")
            made[name] = np.zeros(1, np.int32) if is_cell else np.ones((8, 64), np.float32)
        return made[name]

    given = [
        {name: array(v) if isinstance(v, str) else v for name, v in args.items()}
        for args in model.ranks
    ]
    try:
        result = loaded.run(given, ranks=len(given), timing=False)
    except ptosim.Trap as stopped:
        return [d.code for d in stopped.diagnostics]
    return [d.code for d in result.findings]
