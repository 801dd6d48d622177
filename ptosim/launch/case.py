"""The arguments and expectations that a sidecar file keeps with a program, as arrays."""

from __future__ import annotations

from typing import Any

from ptosim.launch.sidecar import Sidecar
from ptosim.launch.tolerance import Tolerance
from ptosim.launch.values import parse_argument, parse_expectation


def kept_arguments(sidecar: Sidecar) -> dict[str, Any]:
    """Return the arguments by name. Raises UsageError for a SPEC that means nothing or a file that
    cannot be read."""
    return {name: parse_argument(spec, sidecar.folder) for name, spec in sidecar.args.items()}


def kept_expectations(sidecar: Sidecar) -> dict[str, tuple[Any, Tolerance]]:
    """Return the values that outputs are expected to have with those arguments, and how far they
    may be from them."""
    return {
        name: (parse_expectation(spec, sidecar.folder), sidecar.tolerance.get(name, Tolerance()))
        for name, spec in sidecar.expect.items()
    }
