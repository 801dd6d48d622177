"""Verdicts and confidence as text: a sign beside the word, and a colour that only repeats it."""

from __future__ import annotations

from ptosim.ground.isa.costs import CONFIDENCES
from ptosim.views.text import Text

PASS, FAIL, DOUBT = "✓", "✗", "?"


def verdict(passed: bool, word: str) -> Text:
    """Return a verdict as a cell: `✓ ok`, `✗ DIFFERS`."""
    sign, style = (PASS, "green") if passed else (FAIL, "bold red")
    return Text(f"{sign} {word}", style)


def confidence(word: str) -> Text:
    """Return the confidence of a figure as a cell; the weakest has a sign."""
    return Text(f"{DOUBT} {word}", "yellow") if word == CONFIDENCES[-1] else Text(word)
