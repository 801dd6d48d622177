"""Values here are chosen for what is special about them; findings on data have tests of their own."""

from __future__ import annotations

import pytest

from ptosim.engine.watch import quantisation


@pytest.fixture(autouse=True)
def _no_findings_on_data(monkeypatch):
    monkeypatch.setattr(quantisation.QuantBook, "check_of", lambda self, binding: None)
