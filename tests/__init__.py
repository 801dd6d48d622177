"""The tests. What they check in this process is checked, not remembered from another run."""

from ptosim.run import verdicts

verdicts.ENABLED = False
