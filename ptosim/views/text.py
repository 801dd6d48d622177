"""Lines of a report: text with styles, and the columns that it takes.

`rich` shows it where there are colours (`__rich__`); without them `plain_text` writes it, and a
command whose output is a file or a pipe does without loading rich: a tenth of a small run."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ptosim.ground.controls import in_json, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text as RichText

_NARROW = frozenset((*map(chr, range(32, 127)), *"─│█░▒▓·…µ±≤≥→✓✗∞\n"))
"""Characters of one column that reports are written with."""


PASS, FAIL, DOUBT = "✓", "✗", "?"
"""Signs beside the words of verdicts; colours only repeat them."""


class Text:
    """Text of which each part has a style, in the words of rich (`bold cyan`)."""

    __slots__ = ("parts",)

    def __init__(self, text: str = "", style: str = "") -> None:
        self.parts = [(visible(text), style)]

    def append(self, text: str, style: str = "") -> Text:
        """Add text at the end; a part without a style takes that of the beginning."""
        self.parts.append((visible(text), style))
        return self

    @property
    def plain(self) -> str:
        """The text without its styles."""
        return "".join(text for text, _ in self.parts)

    def __str__(self) -> str:
        return self.plain

    def __repr__(self) -> str:
        return f"Text({self.plain!r})"

    def __rich__(self) -> RichText:
        """Return the same text for rich."""
        from rich.text import Text as RichText

        (first, style), *others = self.parts
        made = RichText(first, style)
        for text, more in others:
            made.append(text, more or None)
        return made


def verdict(passed: bool, word: str) -> Text:
    """Return a verdict as a cell: `✓ ok`, `✗ DIFFERS`."""
    sign, style = (PASS, "green") if passed else (FAIL, "bold red")
    return Text(f"{sign} {word}", style)


def columns_of(text: str) -> int:
    """Return the columns that a line takes on a screen."""
    if _NARROW.issuperset(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def text_console(width: int, *, color: bool) -> tuple[Console, io.StringIO]:
    """Return a console of `width` columns, and the buffer that it writes to.

    Markup and emoji are off: `src[r, c]` and `:0:` in a cell are themselves.
    """
    from rich.console import Console

    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=width,
        force_terminal=color,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    return console, buffer


def text_of(buffer: io.StringIO, *, color: bool) -> str:
    """Return what was written; without colours, blanks at the ends of lines are dropped."""
    text = buffer.getvalue()
    return text if color else "\n".join(line.rstrip() for line in text.split("\n"))


# The one writer of JSON: what has no form in JSON is refused, never turned into text unasked.


def document(value: object) -> str:
    """Return a value as a JSON document of several lines. Raises TypeError for what JSON has no
    form for.

    Objects with `to_dict` are that dictionary and NumPy's numbers are numbers. NaN and infinities
    are the texts `nan`, `inf`, `-inf`.
    """
    return _dumps(value, indent=2) + "\n"


def line(value: object) -> str:
    """Return a value as JSON in one line without an end; otherwise as `document`."""
    return _dumps(value, indent=None)


def lines_of(values: Iterable[object]) -> str:
    """Return a line for each value."""
    return "".join(f"{line(value)}\n" for value in values)


def _dumps(value: object, indent: int | None) -> str:
    import json  # a report as text does without

    try:
        return in_json(json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError):  # something in it is not plain: walk through it
        plain = json.dumps(_plain(value), indent=indent, ensure_ascii=False, allow_nan=False)
        return in_json(plain)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {key: _plain(content) for key, content in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(content) for content in value]
    if hasattr(value, "to_dict"):
        return _plain(value.to_dict())
    if hasattr(value, "dtype") and value.shape == ():
        return _plain(value.item())
    return value
