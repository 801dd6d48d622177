"""What became slower since another run of the bench: ratios of both, in one table."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.timing import Figure

SLOWER = 1.15
"""A ratio grows by this much before it is called slower: less is this machine's weather."""


@dataclass
class Line:
    """A figure over all rounds: the texts of its best round, and the ratio of every round."""

    best: Figure
    ratios: list[float] = field(default_factory=list)
    """Ratios to something measured in the same round; empty where the figure has none."""

    def add(self, figure: Figure) -> None:
        """Take the figure of one round."""
        ratio = number(figure.ratio)
        if ratio is None:
            return
        if not self.ratios or ratio < min(self.ratios):
            self.best = figure
        self.ratios.append(ratio)

    def to_dict(self) -> dict[str, Any]:
        """Return the line for the file that a later run is compared with."""
        found: dict[str, Any] = {"what": self.best.what, "measured": self.best.measured}
        found |= {"reference": self.best.reference, "budget": self.best.budget}
        if self.ratios:
            found |= {"minimum": min(self.ratios), "median": statistics.median(self.ratios)}
        return found


def number(text: str) -> float | None:
    """Return the ratio that a text begins with, or None."""
    try:
        return float(text.split(" ")[0].replace(",", ""))
    except ValueError:
        return None


def read(path: str) -> dict[str, dict[str, Any]]:
    """Return the lines of an earlier run by what they measure."""
    return {line["what"]: line for line in json.loads(Path(path).read_text())["figures"]}


def verdict(line: Line, before: dict[str, Any] | None) -> str:
    """Return how a figure's ratio changed: of the minima, and slower or faster only where the medians
    say so too."""
    if before is None or "minimum" not in before or not line.ratios:
        return "no ratio to compare" if before is not None else "new"
    least = min(line.ratios) / before["minimum"]
    middle = statistics.median(line.ratios) / before["median"]
    change = f"{100 * (least - 1):+.0f} % (median {100 * (middle - 1):+.0f} %)"
    if least > SLOWER and middle > SLOWER:
        return f"{change}  SLOWER"
    if least < 1 / SLOWER and middle < 1 / SLOWER:
        return f"{change}  faster"
    return change
