"""`python -m ptosim`."""

from ptosim.cli.main import console

console()
