"""How far an output may be from what was expected; apart from the comparison, because sidecars name
tolerances and a check of the text alone loads no arrays."""

from __future__ import annotations

import math

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far values may differ; without any, bit for bit with NaN equal to NaN."""

    rtol: float | None = None
    atol: float | None = None
    ulp: int | None = None

    def __post_init__(self) -> None:
        for name in ("rtol", "atol", "ulp"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise UsageError(f"{name} is {value}; a tolerance is a number from 0 on")

    @property
    def is_exact(self) -> bool:
        """True if every bit counts."""
        return self.rtol is None and self.atol is None and self.ulp is None

    def __str__(self) -> str:
        if self.is_exact:
            return "bit-exact"
        parts = [(n, getattr(self, n)) for n in ("rtol", "atol", "ulp")]
        return ", ".join(f"{n} {v}" for n, v in parts if v is not None)
