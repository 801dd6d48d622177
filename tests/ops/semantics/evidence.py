"""What the tests that an operation names show, and what comes out of them, on both targets."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from tests.ops.semantics.harness import Case
from tests.ops.semantics.rows import TARGETS
from tests.support.witness import Witness, calls

Outputs = list[dict[str, np.ndarray]]


@dataclass
class Evidence:
    """Of one test: kinds by operation and target, and the outputs of its runs by arguments (all but
    the target) and target."""

    kinds: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    outputs: dict[str, dict[str, Outputs]] = field(default_factory=lambda: defaultdict(dict))


@cache
def evidence(place: str) -> Evidence:
    """Call a test, named `module:function`, with each value of each of its parameters."""
    module_name, name = place.split(":")
    module = import_module(f"tests.ops.semantics.{module_name}")
    found = Evidence()
    for target in TARGETS:
        for arguments in calls(getattr(module, name), target=target):
            if arguments.get("target", TARGETS[0]) != target:
                continue
            seen = _seeded(module, name, arguments)
            for key, kinds in seen.kinds.items():
                found.kinds[key] |= kinds
            if "target" in arguments:
                rest = repr(sorted((k, v) for k, v in arguments.items() if k != "target"))
                found.outputs[rest][target] = seen.outputs
    return found


def equal(left: np.ndarray, right: np.ndarray) -> bool:
    """Equal bit patterns; NaN of any pattern is NaN."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    same = left.view(f"u{left.itemsize}") == right.view(f"u{left.itemsize}")
    if left.dtype.kind not in "iu":
        with np.errstate(all="ignore"):
            same |= np.isnan(left.astype(np.float64)) & np.isnan(right.astype(np.float64))
    return bool(same.all())


def _seeded(module: Any, name: str, arguments: dict[str, Any]) -> Witness:
    """One call of a test, whose random numbers begin anew."""
    with pytest.MonkeyPatch.context() as patch, Witness() as seen:
        patch.setattr(Case, "check", Case.run)  # whether it is right says the test itself
        if hasattr(module, "RNG"):
            patch.setattr(module, "RNG", np.random.default_rng(7))
        getattr(module, name)(**arguments)
    return seen
