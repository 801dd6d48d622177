"""Where the labels of points go, so that none covers another one or a point at any width."""

from __future__ import annotations

from collections.abc import Sequence

from ptosim.ground.records import NamedTuple

WIDTHS = (250, 480, 760, 1040)
"""Widths of the picture, in pixels, that are tried: from a phone to a wide screen."""
_CHARACTER, _LINE, _MARK = 7.2, 15, 12
"""Pixels of a character, a line and a point."""


class Box(NamedTuple):
    """Left, right, bottom, top in pixels."""

    left: float
    right: float
    low: float
    high: float

    def meets(self, other: Box) -> bool:
        """True if the two share a pixel."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.low < other.high
            and other.low < self.high
        )


class Placed(NamedTuple):
    """A label: its text, the place of its point (0 to 1), pixels from there to its left bottom."""

    text: str
    x: float
    y: float
    right: float
    up: float


def _offsets(width: float) -> list[tuple[float, float]]:
    """Places of a label of this width around its point, the best first."""
    beside = [(_MARK / 2 + 2, -_LINE / 2), (-_MARK / 2 - 2 - width, -_LINE / 2)]
    over = [(side, up) for up in (8, -8 - _LINE) for side in (-width / 2, 4, -width - 4)]
    sides = (-width / 2, 4, -width - 4, 12, -width - 12)
    far = [(side, up) for up in (22, -22 - _LINE) for side in sides]
    return [*beside, *over, *far]


def place(
    points: Sequence[tuple[float, float, str]], height: float
) -> tuple[list[Placed], list[tuple[str, str]]]:
    """Return the labels of points (x and y from 0 to 1), each where it is free at every width.

    A label that has no such place is a number, if there is room for that; the second list says
    which number has which text, for the legend."""
    taken = [[_around(x * w, y * height) for x, y, _ in points] for w in WIDTHS]
    found, crowded = [], []
    for x, y, text in points:
        placed = _placed(x, y, text, taken, height) if text else None
        if placed is not None:
            found.append(placed)
        elif text:
            crowded.append((x, y, text))
    keys = []
    for number, (x, y, text) in enumerate(crowded, 1):
        placed = _placed(x, y, str(number), taken, height)
        found += [placed] if placed is not None else []
        keys.append((str(number) if placed is not None else "-", text))
    return found, keys


def _placed(
    x: float, y: float, text: str, taken: Sequence[list[Box]], height: float
) -> Placed | None:
    """The first place around a point that is free; it is taken then."""
    size = len(text) * _CHARACTER
    for right, up in _offsets(size):
        boxes = [_label(x * w + right, y * height + up, size) for w in WIDTHS]
        if _is_free(boxes, taken, height):
            for box, covered in zip(boxes, taken, strict=True):
                covered.append(box)
            return Placed(text, x, y, right, up)
    return None


def _around(x: float, y: float) -> Box:
    half = _MARK / 2
    return Box(x - half, x + half, y - half, y + half)


def _label(left: float, low: float, width: float) -> Box:
    return Box(left, left + width, low, low + _LINE)


def _is_free(boxes: Sequence[Box], taken: Sequence[Sequence[Box]], height: float) -> bool:
    return all(
        box.left >= 0
        and box.right <= width
        and box.low >= 0
        and box.high <= height
        and not any(box.meets(other) for other in covered)
        for box, covered, width in zip(boxes, taken, WIDTHS, strict=True)
    )
