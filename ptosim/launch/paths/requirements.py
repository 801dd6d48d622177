"""What a kernel requires of its caller: bounds that depend on what only the caller knows."""

from __future__ import annotations

from ptosim.ground.records import dataclass, field


@dataclass(slots=True, eq=False)
class Requirement:
    """For which values the checks of some lines hold: `expr` between `low` and `high` (None: no
    bound). `kind` is `argument`, `data` or `index`; `broken_by` is an assignment that breaks it."""

    entry: str
    expr: str
    low: int | None
    high: int | None
    kind: str
    symbols: tuple[str, ...]
    broken_by: dict[str, int]
    lines: list[int] = field(default_factory=list)
    multiple: int | None = None

    def to_dict(self) -> dict[str, object]:
        """Return it as plain data."""
        return {
            "entry": self.entry, "expr": self.expr, "low": self.low, "high": self.high,
            "multiple": self.multiple, "lines": self.lines, "symbols": list(self.symbols),
            "kind": self.kind, "broken_by": self.broken_by,
        }  # fmt: skip
