"""ptosim: a bit-accurate, cycle-approximate simulator of the PTO tile ISA of Ascend NPUs."""

__version__ = "0.1.0"

from ptosim.api import check

__all__ = ["check"]
