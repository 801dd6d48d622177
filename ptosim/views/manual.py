"""The manual: its pages, which page a topic is on, and a page as text for a terminal or `man`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.text import Text

from ptosim.ground import __version__
from ptosim.ground.records import NamedTuple

WIDTH = 80
"""Columns of a page, unless the terminal is narrower."""
INDEX = "index"
_PAGES = Path(__file__).resolve().parents[1] / "manual"


@lru_cache(maxsize=1)
def paths() -> dict[str, Path]:
    """Return the file of every page by its name: that of the file, of an index in a folder that of
    the folder."""
    found = {}
    for path in sorted(_PAGES.rglob("*.md")):
        is_index = path.stem == INDEX and path.parent != _PAGES
        found[path.parent.name if is_index else path.stem] = path
    return dict(sorted(found.items()))


@lru_cache(maxsize=1)
def pages() -> dict[str, str]:
    """Return the Markdown of every page by its name."""
    return {name: path.read_text(encoding="utf-8") for name, path in paths().items()}


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
    return rendered_text(pages()[page])


def rendered_text(text: str) -> Markdown:
    """Return Markdown, a page or a part of one, as a rich renderable; of a link to another page its
    text, which is the topic, since a terminal has nowhere to go."""
    return _Page(_LINK.sub(r"\1", text))


_LINK = re.compile(r"\[([^\]\n]+)\]\([\w/.-]*\.md(?:#[\w-]+)?\)")


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
    """Code as it is written: never wrapped, so that it can be copied, indented if it has room."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        code = str(self.text).rstrip()
        if max(map(len, code.split("\n"))) <= options.max_width - 2:
            code = textwrap.indent(code, "  ")
        yield Text(code, no_wrap=True, overflow="ignore", style="cyan")


class _Page(Markdown):
    elements: ClassVar = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _Verbatim,
        "code_block": _Verbatim,
    }


# -- roff: `ptosim help cost --format man | man -l -` ----------------------------------------------


def man_page(page: str) -> str:
    """Return a page of the manual, the list of pages as that of the program itself."""
    name = "ptosim" if page == INDEX else f"ptosim-{page}"
    lines = pages()[page].splitlines()
    title = lines[0].lstrip("# ")
    head = [f'.TH "{name.upper()}" "1" "" "ptosim {__version__}" "Manual of ptosim"', ".SH NAME"]
    head.append(f"{name} \\- {_inline(title)}")
    return "\n".join([*head, ".SH DESCRIPTION", *_body(lines[1:])]) + "\n"


def _body(lines: list[str]) -> Iterator[str]:
    is_code = False
    for line in lines:
        if line.startswith("```"):
            is_code = not is_code
            yield ".PP\n.nf" if is_code else ".fi"
        elif is_code:
            yield _escaped(line)
        else:
            yield from _prose(line)


def _prose(line: str) -> Iterator[str]:
    if line.startswith("#"):
        yield f'.SH "{_inline(line.lstrip("# "))}"'
    elif line.startswith("|"):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
        if not set("".join(cells)) <= set("-: "):
            yield f".TP\n{_inline(cells[0])}\n{_inline(' - '.join(cells[1:]))}"
    elif line.startswith("- "):
        yield f".IP \\(bu 2\n{_inline(line[2:])}"
    elif not line.strip():
        yield ".PP"
    else:
        yield _inline(line)


def _inline(text: str) -> str:
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
    parts = re.split(r"`([^`]+)`", plain)
    made = [rf"\fB{_escaped(p)}\fR" if i % 2 else _escaped(p) for i, p in enumerate(parts)]
    return "".join(made)


def _escaped(text: str) -> str:
    told = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{told}" if told.startswith((".", "'")) else told


# What the manual has on words that are no topic: sections whose heading has them, else every place
# that does.

_WORD = re.compile(r"[A-Za-z0-9_]+")
_HEADING = re.compile(r"^(#+) (.*)$")
SHOWN = 12
"""Places of the text that are listed."""


class Part(NamedTuple):
    """A section of a page: its heading, the line of the page that it is in (from 1), and its
    Markdown with the heading."""

    page: str
    title: str
    line: int
    text: str


class Place(NamedTuple):
    """A line of a page that has the words, and the heading it is under."""

    page: str
    title: str
    line: int
    text: str


@lru_cache(maxsize=1)
def sections() -> list[Part]:
    """Return the sections of all pages, each up to the next heading of its level or above."""
    found = []
    for page, text in pages().items():
        lines = text.splitlines()
        heads = list(_heads(lines))
        for number, (at, level, title) in enumerate(heads):
            after = (a for a, next_level, _ in heads[number + 1 :] if next_level <= level)
            body = lines[at : next(after, len(lines))]
            found.append(Part(page, _plain(title), at + 1, "\n".join(body) + "\n"))
    return found


def _heads(lines: list[str]) -> list[tuple[int, int, str]]:
    """The headings: line, level, title; lines of code are none."""
    heads, is_code = [], False
    for at, line in enumerate(lines):
        is_code ^= line.startswith("```")
        found = None if is_code else _HEADING.match(line)
        if found is not None:
            heads.append((at, len(found[1]), found[2]))
    return heads


def headed(topic: str) -> list[Part]:
    """Return the sections that have all words of a topic in their heading, small ones first where a
    heading is about nothing else."""
    asked = _words(topic)
    if not asked:
        return []
    found = [s for s in sections() if asked <= _words(s.title)]
    return sorted(found, key=lambda s: len(_words(s.title)))


def mentioned(topic: str) -> list[Place]:
    """Return the lines that have all words of a topic, in the order of the pages."""
    asked = _words(topic)
    places = []
    for page, text in pages().items():
        lines = text.splitlines()
        heads = _heads(lines)
        for at, line in enumerate(lines):
            if asked and asked <= _words(line):
                title = next((t for a, _, t in reversed(heads) if a <= at), page)
                places.append(Place(page, _plain(title), at + 1, _plain(line)))
    return places


def heading_words() -> set[str]:
    """Return the words that headings are found by."""
    return {word for s in sections() for word in _words(s.title) if len(word) > 2}


def _words(text: str) -> frozenset[str]:
    """The words of a text as they are compared: small letters, one and many alike."""
    return frozenset(_one(word.lower()) for word in _WORD.findall(text))


def _one(word: str) -> str:
    if len(word) <= 3 or not word.endswith("s") or word.endswith("ss"):
        return word
    return word.removesuffix("s")


def _plain(text: str) -> str:
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text).replace("`", "").strip(" |-*")
