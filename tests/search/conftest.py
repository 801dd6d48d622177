"""The command line, as the tests of commands have it."""

from tests.cli.conftest import cli as cli
