"""`selftest` is the first command of a new user: it runs in a process that has loaded nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.deep  # the gate runs it in an empty environment


def test_selftest_in_a_process_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ptosim", "selftest"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
