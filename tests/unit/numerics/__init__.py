"""Tests of ptosim.numerics; expected values are literals or come from tests/oracle/numerics.py."""
