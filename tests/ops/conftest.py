"""Tile operations are tested on values that are chosen for what is special about them: NaN,
infinities, scales far off. What a run finds about such data has tests of its own
(tests/engine/sanitize/test_quant.py)."""

from __future__ import annotations

import pytest

from ptosim.engine.watch import quantisation

CHOSEN = {"semantics", "tile"}
"""Folders whose values are chosen so."""


@pytest.fixture(autouse=True)
def _no_findings_on_data(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    if CHOSEN & {*request.path.parts}:
        monkeypatch.setattr(quantisation.QuantBook, "check_of", lambda self, binding: None)
