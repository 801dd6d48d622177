"""Reports of the command line."""

from tests.cli.conftest import cli as cli
