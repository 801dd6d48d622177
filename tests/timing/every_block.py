"""Timing without the short cut that one block counts for all that do the same."""

from __future__ import annotations

import pytest

from ptosim.run import cost
from ptosim.run.blocks import all_blocks


def every_block(patch: pytest.MonkeyPatch) -> None:
    """Let every block be timed."""
    patch.setattr(cost, "blocks_to_time", lambda launch: all_blocks(launch, "the test asks for it"))
