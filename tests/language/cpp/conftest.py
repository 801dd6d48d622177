"""What tests of C++ share."""

from __future__ import annotations

import pytest

from tests.language.cpp.compiler import missing


@pytest.fixture(scope="session")
def sanitizer() -> None:
    """What needs a compiler needs one that knows what is undefined."""
    if missing():
        pytest.skip(missing())
