"""Tests of ptosim.machine.numbers; expected values are literals or come from tests/oracle/numerics.py."""
