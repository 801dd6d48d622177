"""Several findings as one thing that can be shown."""

from __future__ import annotations

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.notebook import Shown


class Findings(list[Diagnostic], Shown):
    """A list of findings; a notebook shows them with their frames of code."""
