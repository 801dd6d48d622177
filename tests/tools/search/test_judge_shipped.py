"""Whoever is right is accepted: every shipped program, with the arguments and outputs of its
sidecar, though its outputs begin as poison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ptosim
from ptosim.ground.isa.cache import programs_directory
from ptosim.launch.description import Sidecar, sidecar_of

SHIPPED = [
    pytest.param(path, kept, id=path.stem)
    for path in sorted(programs_directory().rglob("*.pto"))
    if (kept := sidecar_of(path)) and not kept.exit_code and not kept.codes and kept.expect
    if "ranks" not in kept.options
]


def job_of(path: Path, kept: Sidecar) -> dict[str, Any]:
    expect: dict[str, Any] = {}
    for name, spec in kept.expect.items():
        near = kept.tolerance.get(name)
        found = {k: v for k in ("rtol", "atol", "ulp") if (v := getattr(near, k, None)) is not None}
        expect[name] = {"file": str(path.parent / spec), **found}
    args = {
        name: str(path.parent / spec) if ".np" in spec or ".bin" in spec else spec
        for name, spec in kept.args.items()
    }
    options = {k: v for k, v in kept.options.items() if k != "seed"}
    targets = {"target": list(kept.targets)} if kept.targets else {}
    return {"program": str(path), "args": args, "expect": expect, **targets, **options}


@pytest.mark.slow
@pytest.mark.sampled(0, 24)
@pytest.mark.parametrize(("path", "kept"), SHIPPED)
def test_a_program_that_is_right_is_accepted(path: Path, kept: Sidecar) -> None:
    (verdict,) = ptosim.judge([job_of(path, kept)])
    assert verdict["ok"], verdict
    assert list(verdict["cycles"])[: len(kept.targets)] == list(kept.targets)
