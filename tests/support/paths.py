"""Where things are in the tree."""

from pathlib import Path

TREE = Path(__file__).parents[2]
TESTS = TREE / "tests"
DATA = TESTS / "data"
PROGRAMS = TREE / "programs"
"""The programs that come with the package."""
