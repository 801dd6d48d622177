"""The manual: its pages, which page a topic is on, and a page as text for a terminal."""

from __future__ import annotations

import re
import textwrap
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.text import Text

WIDTH = 80
"""Columns of a page, unless the terminal is narrower."""
INDEX = "index"
_PAGES = Path(__file__).resolve().parents[1] / "manual"


@lru_cache(maxsize=1)
def pages() -> dict[str, str]:
    """Return the Markdown of every page by its name."""
    return {p.stem: p.read_text(encoding="utf-8") for p in sorted(_PAGES.glob("*.md"))}


def page_of(topic: str) -> str | None:
    """Return the name of the page on a topic: the page of that name, or the one with a heading for
    the command (`port`, `quant diff`); None if there is none."""
    name = topic.lower().removeprefix("ptosim ")
    if name in pages():
        return name
    return commands().get(name)


@lru_cache(maxsize=1)
def commands() -> dict[str, str]:
    """Return the page of each command: the one with the heading ``## `ptosim COMMAND …` ``."""
    found: dict[str, str] = {}
    for page, text in pages().items():
        for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
            for words in re.findall(r"`ptosim ((?:[a-z]+ ?)+)", heading):
                found.setdefault(words.strip(), page)
    return found


def topics() -> list[str]:
    """Return the names that `page_of` takes."""
    return sorted({*pages(), *commands()})


def rendered(page: str) -> Markdown:
    """Return a page as a rich renderable."""
    return _Page(pages()[page])


class _LeftHeading(Heading):
    """A heading at the left margin, the title in capitals as in a manual page."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the heading."""
        title = self.text.copy()
        title.justify = "left"
        if self.tag == "h1":
            title.plain = title.plain.upper()
        else:
            yield Text("")
        title.stylize("bold")
        yield title


class _Verbatim(CodeBlock):
    """Code as it is written: indented, never wrapped, so that it can be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        code = textwrap.indent(str(self.text).rstrip(), "  ")
        yield Text(code, no_wrap=True, overflow="ignore", style="cyan")


class _Page(Markdown):
    elements: ClassVar = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _Verbatim,
        "code_block": _Verbatim,
    }
