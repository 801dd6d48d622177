"""Fixtures of the timing tests."""

from tests.cli.conftest import cli

__all__ = ["cli"]
